// SPDX-License-Identifier: Apache-2.0
//! The chain as a tree in text.

use super::{Link, LinkState, broken_at};
use crate::symptoms::chain::Chain;
use peermem_gate::text::{LinePrefixText, Page};
use std::time::Duration;

/// A heading, a line for each file below the one that it comes after, and where the chain stops.
pub fn draw(seen: &Chain, links: &[Link], page: &mut Page) {
    page.line(format_args!("readiness chain, {}", booted(seen)));
    let is_begun = seen.has_directory != Ok(false);
    let roots = links.iter().filter(|link| parent(links, link).is_none());
    for root in roots {
        // Nothing is expected of an operator that has not been here.
        let below = if is_begun { links } else { &[] };
        branch(page, below, root, "", "");
    }
    page.line(format_args!("chain: {}", end(seen, links)));
}

/// Where the chain stops, in a sentence.
pub fn end(seen: &Chain, links: &[Link]) -> String {
    match broken_at(links) {
        Some(link) => {
            let word = if link.is_overdue() { "stuck" } else { "waiting" };
            let waits = link.waited_s.map_or(word.to_owned(), |s| format!("{word} for {}", span(s)));
            let state = if link.state == LinkState::Stale { " (the existing file is stale)" } else { "" };
            format!("{waits} at: {}{state}, which {} writes", link.file, link.writer)
        }
        None if seen.has_directory == Ok(false) => {
            format!("{} does not exist: no GPU Operator since this boot", seen.directory.display())
        }
        None => "complete".to_owned(),
    }
}

fn booted(seen: &Chain) -> String {
    match (&seen.clock.boot, &seen.clock.uptime) {
        (Ok(_), Ok(uptime)) => format!("booted {} ago", span(*uptime)),
        (Ok(_), Err(_)) => "ages since the boot".to_owned(),
        (Err(why), _) => format!("ages unknown ({why})"),
    }
}

/// The file that it comes after, where that one is in the chain of this node.
fn parent<'a>(links: &'a [Link], link: &Link) -> Option<&'a Link> {
    links.iter().find(|other| Some(other.file) == link.after)
}

/// `first` is drawn before this file, `below` before all that is under it.
fn branch(page: &mut Page, links: &[Link], link: &Link, first: &str, below: &str) {
    let children: Vec<_> = links.iter().filter(|other| other.after == Some(link.file)).collect();
    let stem = if children.is_empty() { "  " } else { "│ " };
    let under = format!("{below}{stem}    ");
    let lead = |first: &str| LinePrefixText { first: first.to_owned(), rest: under.clone(), color: None };
    page.entry(&lead(first), format_args!("{}{}", label(link), ages(link)));
    if holds_up(link) {
        let writer = if link.broken { format!("{} writes it; ", link.writer) } else { String::new() };
        page.entry(&lead(&under), format_args!("{writer}waiting: {}", link.waiters.join(", ")));
    }
    for (at, child) in children.iter().enumerate() {
        let (turn, more) = if at + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        branch(page, links, child, &format!("{below}{turn}"), &format!("{below}{more}"));
    }
}

fn holds_up(link: &Link) -> bool {
    let is_missing = matches!(link.state, LinkState::Absent | LinkState::Stale | LinkState::Unknown);
    is_missing && !link.waiters.is_empty()
}

fn label(link: &Link) -> String {
    let state = match link.state {
        LinkState::Present => "there",
        LinkState::Absent => "ABSENT",
        LinkState::Stale => "STALE",
        LinkState::NotExpected => "not expected",
        LinkState::Unknown => "UNKNOWN",
    };
    format!("{}: {state}", link.file)
}

fn ages(link: &Link) -> String {
    let relative = |seconds: i64, what: &str| {
        let side = if seconds < 0 { "before" } else { "after" };
        format!("{} {side} {what}", span(seconds))
    };
    let since_boot = link.since_boot_s.map(|seconds| relative(seconds, "the boot"));
    let predecessor = link.since_predecessor_s.zip(link.after);
    let since_predecessor = predecessor.map(|(seconds, file)| relative(seconds, file));
    let broken = link.broken.then(|| "the chain stops here".to_owned());
    let parts = [since_boot, since_predecessor, link.note.clone(), broken];
    parts.into_iter().flatten().fold(String::new(), |text, part| text + ", " + &part)
}

/// A length of time in words, its two largest units: seconds do not matter beside days.
pub(crate) fn span(seconds: i64) -> String {
    let text = humantime::format_duration(Duration::from_secs(seconds.unsigned_abs())).to_string();
    let spaced = |part: &str| {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &part[..part.len() - unit.len()];
        format!("{number} {}", unit.trim_end_matches("ays").trim_end_matches("ay"))
    };
    text.split(' ').take(2).map(spaced).collect::<Vec<_>>().join(" ")
}
