// SPDX-License-Identifier: Apache-2.0
//! Logs that nobody's program wrote: nothing of them is taken for an event, and nothing of them steers a reader.

use super::files::{DRIVER, Tree, at, cri};
use super::{drawn, gathered};
use crate::support::tests;
use peermem_doctor::log::{LogSource, RULES};
use peermem_doctor::timeline::{DoctorAnswer, History, Since, Timeline};
use proptest::prelude::*;
use serde_json::Value;

fn all(timeline: &Timeline) -> [String; 3] {
    [timeline.text(100), timeline.svg(), peermem_gate::text::json(timeline).expect("JSON")]
}

/// What is between tags has no `<`, and every tag that opens closes.
fn is_well_formed(svg: &str) {
    let mut open: Vec<String> = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, behind) = part.split_once('>').unwrap_or_else(|| panic!("no end: {part:?}"));
        assert!(!behind.contains('>'), "{behind:?}");
        let name: String =
            tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    for entity in svg.split('&').skip(1) {
        let name = entity.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot"].contains(&name), "{name:?}");
    }
}

fn no_control_character_reaches_the_timelines_output() {
    let tree = Tree::new();
    let hostile = "\u{1b}[2J\u{7}\u{202e}</text><script>alert(1)</script>&x;\"\u{9b}31m\u{ffff}";
    tree.write(
        &DRIVER.log("0.log"),
        cri(0, &[format!("modprobe: ERROR: could not insert 'nvidia_peermem': {hostile}")]),
    );
    let timeline = drawn(&tree);
    let [text, svg, json] = all(&timeline);
    let is_plain = |c: char| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}');
    assert!(text.contains("alert") && text.chars().all(|c| c == '\n' || is_plain(c)), "{text:?}");
    assert!(svg.contains("alert") && svg.chars().all(|c| c == '\n' || is_plain(c)), "{svg:?}");
    assert!(!svg.contains("<script") && !svg.contains('\u{ffff}'));
    is_well_formed(&svg);
    assert!(json.chars().all(|c| !c.is_ascii_control()), "{json:?}");
    serde_json::from_str::<Value>(&json).expect("JSON");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    fn random_lines_are_not_events_of_the_timeline(lines in proptest::collection::vec("[ -~]{0,120}", 0..30)) {
        let tree = Tree::new();
        tree.write(&DRIVER.log("0.log"), cri(0, &lines));
        tree.write("nvidia-driver-ctr.log", lines.join("\n"));
        tree.write("var/log/kern.log", lines.iter().map(|line| format!("{} gpu-1 kernel: {line}\n", at(0))).collect::<Vec<_>>().concat());
        tree.write("prefixed", lines.iter().map(|line| format!("[pod/a/mofed-container] {line}\n")).collect::<Vec<_>>().concat());
        prop_assert_eq!(drawn(&tree).events, []);
    }

    fn random_bytes_do_not_break_the_timeline(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let tree = Tree::new();
        for file in ["x", "x.gz", "pods.yaml", "nvidia-driver-ctr.log", "gpu_operand_pod_x.previous.log"] {
            tree.write(file, &bytes);
        }
        tree.write(&DRIVER.log("0.log.20251121-115100.gz"), &bytes);
        let history = gathered(&[tree.root().to_owned()], &[]);
        let timeline = Timeline::new(history, Since::Boot, DoctorAnswer::NOT);
        prop_assert_eq!(&timeline.events, &[]);
        is_well_formed(&all(&timeline)[1]);
    }

    /// Any events, at any times.
    fn random_sequences_of_events_are_drawn(story in proptest::collection::vec((0..RULES.len(), any::<i64>(), 0..3_usize), 0..40), columns in 0..200_usize) {
        use peermem_doctor::log::LogMatch;
        use peermem_doctor::stamp::Stamp;
        use peermem_doctor::symptoms::logs::LogFile;
        let mut history = History::default();
        history.logs.files = vec![LogFile::default(); 3];
        for (rule, ns, file) in story {
            let at = Some(Stamp::wall(ns, 1)).filter(|_| ns % 5 != 0);
            let rule = &RULES[rule];
            let source = rule.patterns.first().map_or(LogSource::Systemd, |pattern| pattern.source);
            let fields = [("module".to_owned(), "nvidia_peermem".to_owned())].into();
            let found = LogMatch::of(rule.event, source, String::new());
            history.logs.matches.push(LogMatch { at, until: at, fields, line: file as u64, file, ..found });
        }
        let timeline = Timeline::new(history, Since::Boot, DoctorAnswer::NOT);
        let text = timeline.text(columns);
        prop_assert!(text.lines().all(|line| line.chars().count() <= 100), "{}", text);
        is_well_formed(&timeline.svg());
    }
}

tests![
    no_control_character_reaches_the_timelines_output,
    random_lines_are_not_events_of_the_timeline,
    random_bytes_do_not_break_the_timeline,
    random_sequences_of_events_are_drawn,
];
