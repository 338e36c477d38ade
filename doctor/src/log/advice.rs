// SPDX-License-Identifier: Apache-2.0
//! The remedy that a log itself names: "set X=true to …", "use --force", "please …". Known by its form.

/// An imperative at the beginning of a sentence.
const VERBS: [&str; 14] = words! {
    "please " "set " "use " "try " "run " "install " "enable " "add " "make sure " "ensure " "specify "
    "upgrade " "update " "increase "
};
/// The same within one.
const WITHIN: [&str; 9] =
    ["please ", ", set ", ", use ", ", try ", "(use ", "(set ", "you must ", "you can ", "consider "];
/// Words of advice that is never passed on: it lowers a protection, or may end what the node itself runs on.
const NEVER: [&str; 31] = words! {
    "chmod" "mkfs" "format " "wipe" "reset" "secure boot" "secureboot" "selinux" "apparmor" "seccomp"
    "setenforce" "lockdown" "sig_enforce" "signature" "iommu" "acs" "privileged" "insecure" "verify" "firewall"
    "password" "token" "rmmod" "modprobe -r" "unload" "reboot" "nvme" "rm -" "delete" "curl " "wget "
};
/// Protections: where a line names one, no advice behind it is passed on, whatever it calls it.
const PROTECTIONS: [&str; 9] = words! {
    "secure boot" "secureboot" "selinux" "apparmor" "seccomp" "lockdown" "lock-down" "sig_enforce" "firewall"
};
/// Hints at a manual, which are no remedy.
const MANUALS: [&str; 4] = ["--help", "usage", "documentation", "more information"];
/// Longer advice is none that fits a step.
const LONGEST: usize = 260;

/// The first advice in these lines; the first of them is the one that says what is wrong, and there an imperative
/// is enough.
pub(super) fn advice(lines: &[&[u8]]) -> Option<String> {
    let texts: Vec<_> = lines.iter().map(|line| plain(&String::from_utf8_lossy(line))).collect();
    let (at, advice) = texts.iter().enumerate().find_map(|(at, text)| {
        Some((at, sentences(text).find_map(|sentence| of_sentence(sentence, at == 0))?))
    })?;
    let names_protection = |text: &String| {
        let lower = text.to_ascii_lowercase();
        PROTECTIONS.iter().any(|words| lower.contains(words))
    };
    (!texts[..=at].iter().any(names_protection)).then_some(advice)
}

/// Without Go's quoting, with one blank where there are several.
fn plain(text: &str) -> String {
    let text = text.replace("\\n", " ").replace("\\t", " ").replace(['\\', '"', '\''], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let ends = [". ", "; ", "! ", ": "];
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = ends.iter().filter_map(|end| text.find(end)).min();
        // What a colon announces belongs to its sentence.
        let is_announced = |end: usize| text[end..].starts_with(": ") && begins(&text[..end]);
        let end = end.map(|end| {
            if is_announced(end) { text[end + 2..].find(". ").map(|at| at + end + 2) } else { Some(end) }
        });
        match end.flatten() {
            Some(end) => {
                rest = Some(&text[end + 2..]);
                Some(text[..end].trim())
            }
            None => rest.take().map(|text| text.trim().trim_end_matches(['.', '!'])),
        }
    })
}

fn begins(sentence: &str) -> bool {
    let lower = sentence.to_ascii_lowercase();
    let to = lower.starts_with("to ") && VERBS.iter().any(|verb| lower.contains(&format!(", {verb}")));
    to || VERBS.iter().any(|verb| lower.starts_with(verb))
}

fn of_sentence(sentence: &str, is_first: bool) -> Option<String> {
    let lower = sentence.to_ascii_lowercase();
    let within = || WITHIN.iter().filter_map(|words| lower.find(words)).min();
    let is_whole = begins(sentence) && (is_first || lower.starts_with("please ") || lower.starts_with("to "));
    let from = if is_whole { Some(0) } else { within() }?;
    let advice = sentence.get(from..)?.trim_start_matches([',', '(', ' ']).trim_end_matches([')', ' ', ':']);
    let is_harmful = NEVER.iter().chain(&MANUALS).any(|words| lower.contains(words));
    let is_long = advice.len() > LONGEST || advice.split(' ').count() < 2;
    (!is_harmful && !is_long).then(|| advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    /// None lowers a protection, and none is invented.
    #[test]
    fn a_remedy_in_a_log_is_recognized_by_its_form() {
        let of = |text: &str| advice(&text.split('\n').map(str::as_bytes).collect::<Vec<_>>());
        for (lines, named) in examples(include_str!("../../tests/words/advice")) {
            assert_eq!(of(&lines).as_deref().unwrap_or("nothing"), named, "{lines}");
        }
        assert_eq!(of(&format!("Error: x. Please {}", "y ".repeat(400))), None);
    }
}
