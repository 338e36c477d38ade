// SPDX-License-Identifier: Apache-2.0
//! Text for a command that a person may paste. Words from outside get into it by one door only.

use std::fmt;
use std::path::Path;

/// Words of a remedy: our own, and plain names from outside. No other text from outside can be made into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandText(String);

impl CommandText {
    /// A word from outside if it is a plain name, else a placeholder: a shell may do anything with other characters,
    /// and a program may take a word that begins with a dash for an option.
    #[must_use]
    pub fn plain(word: &str, placeholder: &'static str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
        let is_plain = !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain);
        Self(if is_plain { word.to_owned() } else { placeholder.to_owned() })
    }

    /// The same of a path.
    #[must_use]
    pub fn path(path: &Path, placeholder: &'static str) -> Self {
        Self::plain(path.to_str().unwrap_or_default(), placeholder)
    }

    /// Text from outside for a sentence beside a command: without any character that could begin one.
    #[must_use]
    pub fn mention(text: &str) -> Self {
        let is_harmless = |c: char| c.is_ascii_alphanumeric() || "._:/-, ()".contains(c);
        Self(text.chars().map(|c| if is_harmless(c) { c } else { '?' }).collect())
    }

    /// `-n NAMESPACE NAME`, as kubectl takes a pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::from("-n ").and(Self::plain(namespace, "NAMESPACE")).and(" ").and(Self::plain(name, "POD"))
    }

    /// The same, with more behind it.
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0 += &more.into().0;
        self
    }

    /// All of them, with this between each two.
    #[must_use]
    pub fn joined<T: Into<Self>>(all: impl IntoIterator<Item = T>, between: &'static str) -> Self {
        let join = |joined: Self, next: Self| joined.and(between).and(next);
        all.into_iter().map(Into::into).reduce(join).unwrap_or_default()
    }

    /// There is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Text that is part of the program.
impl From<&'static str> for CommandText {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for CommandText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_put_into_a_command_of_a_remedy() {
        for plain in ["gpu-1.example.org", "a_b", "10.0.0.1:80", "/run/nvidia/driver"] {
            assert_eq!(CommandText::plain(plain, "NODE").to_string(), plain);
        }
        for other in ["", "gpu-1$(reboot)", "a;b", "a b", "a`b", "--all", "gpu\u{202e}1", "é", "a\nb", "'a'"]
        {
            assert_eq!(CommandText::plain(other, "NODE").to_string(), "NODE", "{other:?}");
        }
        assert_eq!(CommandText::pod("team-a", "web;0").to_string(), "-n team-a POD");
    }

    #[test]
    fn a_name_in_a_remedy_cannot_start_a_command() {
        assert_eq!(CommandText::mention(": sh `reboot` (7), $(x)").to_string(), ": sh ?reboot? (7), ?(x)");
    }
}
