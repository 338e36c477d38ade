// SPDX-License-Identifier: Apache-2.0
//! Names of nodes in few words: `gpu-[01-60,72]`, as clush and Slurm read them.

use std::collections::{BTreeMap, BTreeSet};

/// A name around a number: the text before and behind it, and how many digits the number has.
type NumberedName<'a> = (&'a str, &'a str, usize);

/// Names that differ in one number are one word: `gpu-[1-60]`, or `gpu-[01-60]` where a number begins with 0. At most
/// `most` numbers, ranges and other names are shown; the last word says how many names are missing.
pub(super) fn folded(names: &[String], most: usize) -> String {
    let padded: BTreeSet<_> = names.iter().filter_map(|name| padded(name)).collect();
    let mut numbers: BTreeMap<NumberedName<'_>, Vec<u64>> = BTreeMap::new();
    let mut words = Vec::new();
    let mut shown_names = 0;
    for name in names {
        match numbered(name) {
            Some((around, number)) => {
                let (before, behind, _) = around;
                let around = if padded.contains(&around) { around } else { (before, behind, 0) };
                numbers.entry(around).or_default().push(number);
            }
            None if words.len() < most => {
                words.push(name.clone());
                shown_names += 1;
            }
            None => {}
        }
    }
    let mut left = most - words.len();
    for (around, mut numbers) in numbers {
        numbers.sort_unstable();
        let shown: Vec<_> = numbers.chunk_by(|one, next| one + 1 == *next).take(left).collect();
        left -= shown.len();
        shown_names += shown.iter().map(|range| range.len()).sum::<usize>();
        words.extend((!shown.is_empty()).then(|| word(around, &shown)));
    }
    if names.len() > shown_names {
        words.push(format!("and {} more", names.len() - shown_names));
    }
    words.join(", ")
}

/// The last number of the host's name; the domain behind it is every node's.
fn numbered(name: &str) -> Option<(NumberedName<'_>, u64)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let host = name.split('.').next().unwrap_or_default();
    let end = host.rfind(is_digit)? + 1;
    let start = host[..end].trim_end_matches(is_digit).len();
    let number = host[start..end].parse().ok()?;
    Some(((&name[..start], &name[end..], end - start), number))
}

/// The name around a number that begins with 0: its neighbors have as many digits.
fn padded(name: &str) -> Option<NumberedName<'_>> {
    let (around, _) = numbered(name)?;
    let (before, _, digits) = around;
    let has_zero = digits > 1 && name[before.len()..].starts_with('0');
    has_zero.then_some(around)
}

fn word((before, behind, digits): NumberedName<'_>, ranges: &[&[u64]]) -> String {
    let range = |range: &&[u64]| match range {
        [only] => format!("{only:0digits$}"),
        [first, .., last] => format!("{first:0digits$}-{last:0digits$}"),
        [] => String::new(),
    };
    let all = ranges.iter().map(range).collect::<Vec<_>>().join(",");
    if matches!(ranges, [[_]]) {
        format!("{before}{all}{behind}")
    } else {
        format!("{before}[{all}]{behind}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_one_number_are_one_word() {
        let of = |names: &[&str], most| {
            folded(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), most)
        };
        assert_eq!(of(&["gpu-1", "gpu-2", "gpu-3", "gpu-7"], 9), "gpu-[1-3,7]");
        assert_eq!(of(&["gpu-09", "gpu-10", "gpu-1"], 9), "gpu-1, gpu-[09-10]");
        assert_eq!(of(&["gpu-10", "gpu-9", "gpu-8", "gpu-101", "gpu-100"], 9), "gpu-[8-10,100-101]");
        assert_eq!(of(&["gpu-000", "gpu-001", "gpu-0"], 9), "gpu-0, gpu-[000-001]");
        assert_eq!(
            of(&["ip-10-0-3-17.ec2.internal", "ip-10-0-3-18.ec2.internal"], 9),
            "ip-10-0-3-[17-18].ec2.internal"
        );
        assert_eq!(
            of(&["alpha", "beta", "b1", "n999999999999999999999"], 9),
            "alpha, beta, n999999999999999999999, b1"
        );
        assert_eq!(of(&["a", "b", "c"], 2), "a, b, and 1 more");
        assert_eq!(of(&["n1", "n3", "n5", "n6"], 2), "n[1,3], and 2 more");
        assert_eq!(of(&["日本1é", "日本2é"], 9), "日本[1-2]é");
        assert_eq!(of(&[], 9), "");
    }
}
