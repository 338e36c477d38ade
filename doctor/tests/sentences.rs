// SPDX-License-Identifier: Apache-2.0
//! Every sentence of the table has a line in `tests/sentences` that is it, and one that almost is.

use peermem_doctor::sentence::{SENTENCES, Sentence, Speakers, Table, Who};
use std::fs;
use std::path::Path;

/// A sentence's lines.
struct Example {
    who: String,
    words: String,
    is: Vec<String>,
    almost: Vec<String>,
}

fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentences");
    let text = fs::read_to_string(path).expect("tests/sentences");
    let mut all: Vec<Example> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let bytes = |line: &str| line.replace("<TAB>", "\t").replace("<ESC>", "\u{1b}");
        if let Some(is) = line.strip_prefix("+ ") {
            all.last_mut().expect("a sentence before it").is.push(bytes(is));
        } else if let Some(almost) = line.strip_prefix("- ") {
            all.last_mut().expect("a sentence before it").almost.push(bytes(almost));
        } else {
            let (who, words) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
            all.push(Example {
                who: who.to_owned(),
                words: words.to_owned(),
                is: Vec::new(),
                almost: Vec::new(),
            });
        }
    }
    all
}

fn is_of(example: &Example, sentence: &Sentence) -> bool {
    format!("{:?}", sentence.who) == example.who && sentence.words == example.words
}

/// Who may speak where this one does.
fn beside(who: Who) -> Speakers {
    let there = who.containers().iter().map(|name| Speakers::in_container(name));
    there.fold(Speakers::from_iter([who]), Speakers::or)
}

#[test]
fn every_sentence_has_its_lines() {
    let examples = examples();
    for sentence in SENTENCES {
        let name = format!("{:?}: {}", sentence.who, sentence.words);
        let example = examples.iter().find(|example| is_of(example, sentence));
        let example = example.unwrap_or_else(|| panic!("tests/sentences has nothing of {name}"));
        assert!(!example.is.is_empty(), "{name}: no line that is it");
        assert!(!example.almost.is_empty(), "{name}: no line that almost is");
    }
    for example in &examples {
        let known = SENTENCES.iter().any(|sentence| is_of(example, sentence));
        assert!(known, "{}: {} is no sentence of the table", example.who, example.words);
    }
}

#[test]
fn a_sentence_is_understood_and_what_almost_is_one_is_not() {
    for example in examples() {
        let sentence = SENTENCES.iter().find(|sentence| is_of(&example, sentence)).expect("a sentence");
        let table = Table::of(beside(sentence.who));
        for line in &example.is {
            let understood =
                table.understand(line.as_bytes()).unwrap_or_else(|| panic!("{line:?} is not understood"));
            assert_eq!(understood.sentence, sentence, "{line:?}");
        }
        for line in &example.almost {
            assert_eq!(table.understand(line.as_bytes()), None, "{line:?} is taken for a sentence");
        }
    }
}

/// A log of somebody else may hold the very same words.
#[test]
fn nobody_else_is_understood() {
    let stranger = Table::of(Speakers::in_container("train"));
    for line in examples().iter().flat_map(|example| &example.is) {
        assert_eq!(stranger.understand(line.as_bytes()), None, "{line:?}");
    }
}

/// Half a sentence is none, and neither is one with a word more.
#[test]
fn a_sentence_is_a_whole() {
    for example in examples() {
        let sentence = SENTENCES.iter().find(|sentence| is_of(&example, sentence)).expect("a sentence");
        let table = Table::of(beside(sentence.who));
        let means = |line: &str| table.understand(line.as_bytes()).is_some_and(|u| u.sentence == sentence);
        if sentence.words.ends_with('>') {
            continue;
        }
        for line in &example.is {
            for (end, _) in
                line.char_indices().filter(|(end, _)| !line[*end..].trim_matches(['"', ' ']).is_empty())
            {
                assert!(!means(&line[..end]), "{:?} of {line:?}", &line[..end]);
            }
            assert!(!means(&format!("{line} more")), "{line:?} and a word more");
            assert!(!means(&format!("so: {line}")), "a word before {line:?}");
        }
    }
}
