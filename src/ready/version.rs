// SPDX-License-Identifier: Apache-2.0
//! MOFED's version strings: one release, many spellings.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A MOFED version as its numbers.
///
/// The image tag says `25.07-0.9.7.0-0`, sysfs says `25.07-0.9.7`, a package may say
/// `25.07-OFED.25.07.0.9.7`: two versions agree when their numbers do, as far as both go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    text: String,
    numbers: Vec<u64>,
}

impl Version {
    /// True when neither contradicts the other.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.numbers.iter().zip(&other.numbers).all(|(a, b)| a == b)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.split_once("OFED.").map_or(text, |(_, release)| release);
        let numbers: Result<Vec<u64>, _> = digits.split(['.', '-']).map(str::parse).collect();
        match numbers {
            Ok(numbers) => Ok(Self { text: text.to_owned(), numbers }),
            Err(_) => Err(format!(
                "{text:?} is not a MOFED version: numbers separated by dots and dashes, like 25.07-0.9.7"
            )),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn spellings_of_one_release_agree() {
        for other in ["25.07-0.9.7", "25.07-0.9.7.0", "25.07-0.9.7.0-0", "25.07", "25.07-OFED.25.07.0.9.7"] {
            assert!(version("25.07-0.9.7").agrees_with(&version(other)), "{other}");
        }
    }

    #[test]
    fn spellings_of_other_releases_do_not_agree() {
        for other in ["24.10-1.1.4", "25.07-0.9.6", "25.0", "5.0-0", "25.070-0.9.7"] {
            assert!(!version("25.07-0.9.7").agrees_with(&version(other)), "{other}");
        }
    }

    #[test]
    fn a_word_that_is_not_a_version_is_refused() {
        for text in ["", "banana", "25.07-", "v25.07", "25.07 ", "99999999999999999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }
}
