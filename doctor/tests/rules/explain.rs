// SPDX-License-Identifier: Apache-2.0
//! `explain` knows every word that a log, a metric, an alert or a finding has.

use crate::tree::read;
use peermem_doctor::finding::{DOCS, Id};
use peermem_doctor::report::explain::{Topic, list};
use peermem_gate::keeper::attempt::LoadFailure;
use peermem_gate::keeper::status::metrics;
use peermem_gate::keeper::{Keep, State, Stay};
use peermem_gate::peermem::refusal;
use peermem_gate::ready::condition::{Reason, Status};
use peermem_gate::ready::gate::Policy;
use peermem_gate::ready::time::BootTime;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::rebuild::{Kind, RebuildLabel};
use std::collections::BTreeSet;
use std::time::Duration;

fn page(word: &str) -> String {
    Topic::parse(word).unwrap_or_else(|why| panic!("{word}: {why}")).page(80)
}

/// Each page of the list, and that each says how its word is recognized.
#[test]
fn every_listed_word_has_a_page_that_says_how_it_is_recognized() {
    let all = list(10_000);
    let words: BTreeSet<_> =
        all.lines().filter_map(|line| line.strip_prefix("  ")?.split("  ").next()).collect();
    assert!(words.len() > 300, "only {} words are listed", words.len());
    for word in words {
        let page = page(word);
        assert!(page.to_lowercase().starts_with(&word.to_lowercase()), "{page}");
        let parts: Vec<_> = page.split("\nhow it is recognized\n").collect();
        assert!(parts.len() > 1 && parts[1..].iter().all(|part| part.starts_with("  ")), "{page}");
        assert_eq!(parts.len() - 1, page.matches(DOCS).count(), "{page}");
    }
}

/// The lists are those of the programs: a word that is added to one has a page, or this fails.
#[test]
fn the_words_of_every_list_of_the_programs_are_known() {
    let mut words: Vec<String> = Id::ALL.iter().map(ToString::to_string).collect();
    words.extend(Reason::ALL.iter().map(ToString::to_string));
    words.extend(State::ALL.iter().map(ToString::to_string));
    words.extend(Status::ALL.iter().map(ToString::to_string));
    words.extend(Outcome::ALL.iter().map(ToString::to_string));
    words.extend(Kind::ALL.iter().map(ToString::to_string));
    words.extend(RebuildLabel::ALL.iter().map(ToString::to_string));
    words.extend(LoadFailure::ALL.iter().map(|(failure, _)| failure.label().to_owned()));
    words.extend(refusal::errnos().map(|(errno, ..)| errno.to_owned()));
    for word in words {
        page(&word);
    }
}

/// The text in quotes behind each of these, a label's name with its `=`.
fn values(text: &str) -> impl Iterator<Item = &str> {
    let labels = ["state=\"", "reason=\"", "verdict=\"", "type=\"", "standing=\"", "result=\"", "status=\""];
    labels.into_iter().flat_map(|label| text.split(label).skip(1).filter_map(|rest| rest.split('"').next()))
}

#[test]
fn every_label_of_the_keepers_metrics_has_a_page() {
    let policy = Policy {
        timeout: None,
        proceed_on_timeout: false,
        settle: Duration::from_secs(1),
        suspect_hold: Duration::from_secs(300),
        fail_fast: false,
        dry_run: false,
        heartbeat: Duration::from_secs(60),
    };
    let keep = Keep::new(policy, Stay::Yields, BootTime::ZERO);
    let text = metrics(&keep, None);
    assert!(values(&text).count() > 15, "{text}");
    values(&text).for_each(|value| assert!(page(value).contains(&format!("=\"{value}\"")), "{value}"));
}

#[test]
fn every_alert_has_a_page_and_so_has_each_word_of_its_rule() {
    let rules = read("manifests/monitoring/rules.yaml");
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        let page = page(alert);
        assert!(page.contains("(alert)") && page.contains("\nwhat to do\n"), "{page}");
        assert!(!page.contains("{{"), "a placeholder: {page}");
    }
    values(&rules).filter(|value| !value.contains("nvidia_com_gpu")).for_each(|value| {
        page(value);
    });
}

/// A name of a finding, an obstacle and a reason has the pages of all.
#[test]
fn a_word_with_several_meanings_has_all_of_them() {
    let busy = page("busy");
    assert!(busy.contains("(state of `keep`)") && busy.contains("(obstacle to a rebuild)"), "{busy}");
    let headers = page("HeadersMissing");
    assert!(headers.contains("(obstacle to a rebuild)") && headers.contains("\n  check  "), "{headers}");
}

#[test]
fn an_unknown_word_gets_names_like_it() {
    let unknown = Topic::parse("Stub").unwrap_err();
    assert!(unknown.contains("StubModule"), "{unknown}");
    assert!(Topic::parse("").is_err() && Topic::parse("no such").is_err());
}
