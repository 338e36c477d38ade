// SPDX-License-Identifier: Apache-2.0
//! The answer of `doctor` that fits a screen: how the node stands, the root causes with the first evidence
//! and remedies, and where the readiness chain stops.

use super::doctor::{Diagnosis, label, title};
use super::evidence;
use super::standing::Standing;
use crate::chain;
use crate::finding::{Finding, Severity, urgency};
use crate::text::{counted, page, width};
use peermem_gate::ready::observation::Evidence;
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::words::report::style::Style;

/// A terminal's first window has 24 lines of 80 columns.
const LINES: usize = 24;
/// A sentence above or below the root causes, and a title, is cut after so many lines.
const SENTENCE: usize = 2;
/// The lines about what was looked at, and what was not read, are not cut in 80 columns.
const COVERAGE: usize = 6;
/// The words of evidence have so many lines, and lose their middle where they are longer.
const EVIDENCE: usize = 5;
/// So many columns are no long sentence.
const SHORT: usize = 80;
/// A remedy is cut after so many lines. In 80 columns none is so long.
const REMEDY: usize = 10;
const SEEN: &str = "seen  ";

/// A root cause in parts: its title and first evidence, then a part for each step, except that a wait and the step
/// behind it are one. A part is shown whole or not at all, and never without those before it.
struct Block {
    id: String,
    parts: Vec<BlockPart>,
    is_alarm: bool,
    shown: usize,
}

struct BlockPart {
    page: Page,
    steps: usize,
}

impl Diagnosis<'_> {
    /// At most 24 lines. A path in it is whole, except that of a container's log. `more` is the command for the rest.
    pub fn screen(&self, style: Style, more: &str) -> String {
        let mut page = page(style.columns).with_entries_of(SENTENCE);
        page.painted(self.headline(), self.color(style));
        page.line(self.about(&self.left_out()));
        let mut coverage = page.sibling().with_entries_of(COVERAGE);
        self.coverage_of_quiet(&mut coverage);
        page.append(coverage);
        let mut tail = page.sibling().with_entries_of(SENTENCE + 1);
        tail.line(format_args!("readiness chain: {}", chain::end(&self.symptoms.chain, self.chain)));
        tail.line(self.gate());
        let of_one = self.findings.first().map(|finding| format!("peermem-doctor explain {}; ", finding.id));
        tail.line(format_args!("more: {}{more}", of_one.unwrap_or_default()));
        // Above the tail are an empty line and one that names the causes that are not shown.
        let room = LINES.saturating_sub(page.height() + tail.height() + 2);
        let blocks = chosen(self.blocks(style), room);
        let (left_out, shown): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.shown == 0);
        let steps: usize =
            shown.iter().flat_map(|block| &block.parts[block.shown..]).map(|part| part.steps).sum();
        let steps = (steps > 0).then(|| counted(steps as u64, "more step"));
        let names: Vec<_> = steps.into_iter().chain(left_out.iter().map(|block| block.id.clone())).collect();
        let mut rest = page.sibling().with_entries_of(1);
        if !names.is_empty() {
            rest.line(format_args!("not shown here: {}", names.join(", ")));
        }
        for block in blocks.into_iter().filter(|block| block.shown > 0) {
            page.blank();
            block.parts.into_iter().take(block.shown).for_each(|part| page.append(part.page));
        }
        page.blank();
        page.append(rest);
        page.append(tail);
        page.into_text()
    }

    fn blocks(&self, style: Style) -> Vec<Block> {
        let roots = self.roots();
        roots.filter(|root| !self.is_left_out(root)).map(|root| self.block(root, style)).collect()
    }

    /// Where something is wrong, what is only worth knowing leaves it the room.
    fn is_left_out(&self, finding: &Finding) -> bool {
        let is_note = finding.severity == Severity::Info && finding.is_root();
        is_note && matches!(self.standing, Standing::Critical | Standing::Warning)
    }

    /// The words for what `-v` adds.
    fn left_out(&self) -> String {
        let consequences = self.findings.iter().filter(|finding| finding.follows_from.is_some()).count();
        let notes = self.findings.iter().filter(|finding| self.is_left_out(finding)).count();
        let parts = [(consequences, "consequence"), (notes, "note")].into_iter().filter(|(n, _)| *n > 0);
        let parts: Vec<_> = parts.map(|(n, what)| counted(n as u64, what)).collect();
        if parts.is_empty() { String::new() } else { format!(". -v adds {}", parts.join(" and ")) }
    }

    fn block(&self, root: &Finding, style: Style) -> Block {
        let is_in_headline = self.first_cause().is_some_and(|first| first.id == root.id);
        let part = |lines| page(style.columns).with_entries_of(lines);
        let mut first = part(SENTENCE);
        first.entry(&label(root, style), if is_in_headline { root.id.to_string() } else { title(root) });
        for evidence in decisive(&root.evidence) {
            // A log's path may take a line of its own, and words leave room at the ends of lines.
            let more = if evidence::is_of_a_log(&evidence.source) { 2 } else { 0 };
            let seen = |words: &str, most| {
                let mut seen = part(most);
                seen.entry(&LinePrefixText::new(2, SEEN), words);
                seen
            };
            let words = evidence::short(evidence, EVIDENCE * room(style));
            let fits = |words: &&str| seen(words, usize::MAX).height() <= EVIDENCE + more;
            let whole = evidence::beginnings(&words).find(fits).unwrap_or(&words);
            first.append(seen(whole, EVIDENCE + more));
        }
        let mut parts = vec![BlockPart { page: first, steps: 0 }];
        let mut is_wait = false;
        for step in &root.remedy {
            let mut remedy = part(REMEDY);
            remedy.entry(&LinePrefixText::new(2, "do    "), step);
            match parts.last_mut().filter(|_| is_wait) {
                Some(wait) => {
                    wait.page.append(remedy);
                    wait.steps += 1;
                }
                None => parts.push(BlockPart { page: remedy, steps: 1 }),
            }
            is_wait = step.starts_with("Wait");
        }
        Block {
            id: root.id.to_string(),
            parts,
            is_alarm: urgency(root.id, self.findings).is_problem(),
            shown: 0,
        }
    }
}

/// The columns for a line of evidence.
fn room(style: Style) -> usize {
    style.columns.saturating_sub(2 + SEEN.len())
}

/// The first evidence, and that which convinces: it measures the race, or is what a container or a service said.
fn decisive(evidence: &[Evidence]) -> impl Iterator<Item = &Evidence> {
    let measures = |evidence: &&Evidence| evidence.seen.contains("before MOFED set its marker");
    let is_said = |evidence: &&Evidence| evidence::is_of_a_log(&evidence.source);
    let (first, rest) = evidence.split_at(evidence.len().min(1));
    // A short sentence leaves room for a second one.
    let says_enough = |one: &Evidence| is_said(&one) && width(&one.seen) > SHORT;
    let own_words = || rest.iter().find(is_said).filter(|_| !first.iter().any(says_enough));
    first.iter().chain(rest.iter().find(measures).or_else(own_words))
}

/// The same blocks, with as much of each as all together have room for.
fn chosen(mut blocks: Vec<Block>, mut room: usize) -> Vec<Block> {
    let parts = |(at, block): (usize, &Block)| (0..block.parts.len()).map(move |part| (at, part)).collect();
    let mut wanted: Vec<(usize, usize)> = blocks.iter().enumerate().flat_map::<Vec<_>, _>(parts).collect();
    wanted.sort_by_key(|(at, part)| (rank(*at, *part, blocks[*at].is_alarm), *part, *at));
    for (at, part) in wanted {
        let block = &mut blocks[at];
        // An empty line is above each block.
        let height = block.parts[part].page.height() + usize::from(part == 0);
        if block.shown == part && height <= room {
            block.shown += 1;
            room -= height;
        }
    }
    blocks
}

/// The order of the parts: the first cause and its remedy, then every alarm with all its remedies, then the rest.
fn rank(at: usize, part: usize, is_alarm: bool) -> usize {
    match part {
        0 | 1 if at == 0 => 0,
        0..=2 if is_alarm => 1 + part,
        _ if is_alarm => 4,
        0 => 5,
        _ => 6,
    }
}
