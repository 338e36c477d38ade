// SPDX-License-Identifier: Apache-2.0
//! Parameters of nvidia-peermem, as the kernel reads them.

/// Parameters that take 0 or 1 (open-gpu-kernel-modules, nvidia-peermem.c).
const SWITCHES: [&str; 2] = ["peerdirect_support", "persistent_api_support"];

/// The kernel folds dashes, and takes quotes away.
pub(super) fn is_bad(parameter: &str) -> bool {
    let (name, value) =
        parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value)));
    let is_switch = SWITCHES.contains(&name.replace('-', "_").as_str());
    is_switch && !matches!(value.and_then(|value| number(value.trim_matches('"'))), Some(0 | 1))
}

/// An integer as the kernel reads it (kstrtoint with base 0): hexadecimal behind `0x`. Behind `0` it is octal, which
/// changes neither 0 nor 1.
fn number(text: &str) -> Option<i64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    // A second sign is none of a number's.
    let has_digits_only = digits.chars().all(|c| c.is_digit(base));
    i64::from_str_radix(digits, base).ok().filter(|_| has_digits_only).map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_as_the_kernel_reads_them() {
        for good in ["0", "1", "01", "001", "0x1", "0X0", "+1", "-0", "1\n", "\"1\""] {
            assert!(!is_bad(&format!("peerdirect-support={good}")), "{good:?}");
        }
        for bad in [
            "",
            "2",
            "02",
            "08",
            "0x",
            "0x2",
            "-1",
            "1 ",
            " 1",
            "yes",
            "1\n\n",
            "+-1",
            "--1",
            "++1",
            "-+0",
            "99999999999999999999",
        ] {
            assert!(is_bad(&format!("persistent_api_support={bad}")), "{bad:?}");
        }
        assert!(is_bad("peerdirect_support") && !is_bad("anything=else"));
    }
}
