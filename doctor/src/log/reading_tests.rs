// SPDX-License-Identifier: Apache-2.0
//! What each reader makes of one text: tests/words/readings has the texts.

use crate::record::{self, Record, place};
use crate::stamp::{self, Parsed, SECOND, Stamp};
use crate::text::examples;

/// The reader of tests/words/readings with this name, on a text: what comes of it, in words.
fn reading(reader: &str, text: &str) -> Option<String> {
    const END_OF_2025: i64 = 1_767_225_599 * SECOND;
    let bytes = text.as_bytes();
    let shown = |stamp: Option<Stamp>| stamp.map(|stamp| stamp.to_string()).unwrap_or_default();
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stamped = |parsed: Parsed| parsed.map(|(stamp, length)| format!("{stamp} {length}"));
    let of_line = |line: &Record<'_>| format!("{}|{}", shown(line.written.stamp(0)), lossy(&line.text));
    let of_pod = |(pod, name, text): (&str, &str, &[u8])| format!("{pod}|{name}|{}", lossy(text));
    match reader {
        "rfc3339" => stamped(stamp::rfc3339(bytes)),
        "entrypoint" => stamped(stamp::entrypoint(bytes)),
        "classic" => stamped(stamp::classic(bytes, END_OF_2025)),
        "classic_at_new_year" => stamped(stamp::classic(bytes, END_OF_2025 + SECOND)),
        "date" => stamped(stamp::date(bytes)),
        "klog" => stamped(stamp::klog(bytes, END_OF_2025)),
        "since_boot" => stamped(stamp::since_boot(bytes)),
        "system_line" => record::system_line(bytes).map(|line| {
            let [program, text] = [line.program, line.text].map(lossy);
            [shown(line.written.stamp(END_OF_2025)), shown(line.since_boot), program, text].join(" | ")
        }),
        "ring" => record::ring(bytes).map(|(stamp, text)| format!("{stamp} | {}", lossy(text))),
        "container" => record::container(bytes).map(|line| {
            let part = if line.is_partial { "part" } else { "line" };
            format!("{} {part}: {}", shown(line.written.stamp(0)), lossy(&line.text))
        }),
        "printed" => Some(of_line(&record::printed(bytes))),
        "prefixed" => record::prefixed(bytes).map(of_pod),
        "stern" => record::stern(bytes).map(of_pod),
        "pod" => place::pod(text).map(|(namespace, pod, uid)| [namespace, pod, uid].join("|")),
        "log" => place::log(text).map(|log| format!("{}|{}", log.restart, log.is_gz)),
        "gathered" => place::gathered(&text.split('/').collect::<Vec<_>>()).map(|of| format!("{of:?}")),
        other => panic!("tests/words/readings: no reader is {other:?}"),
    }
}

#[test]
fn each_reader_takes_its_own_forms_and_no_others() {
    for (row, expected) in examples(include_str!("../../tests/words/readings")) {
        let (reader, text) = row.split_once(": ").unwrap();
        let seen = reading(reader, &text.replace("<ESC>", "\u{1b}")).map(|seen| seen.replace('\t', "<TAB>"));
        assert_eq!(seen.as_deref().unwrap_or("nothing"), expected, "{row}");
    }
}
