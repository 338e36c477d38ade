// SPDX-License-Identifier: Apache-2.0
//! The file or module that a program waits for, by its command line or by a line of its log. Pure.

use std::fmt;

/// The target of a wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitTarget {
    /// A file, by its absolute path.
    File(String),
    /// A kernel module.
    Module(String),
}

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Module(name) => write!(f, "the module {name}"),
        }
    }
}

/// Options of `test` that ask for a file.
const TESTS: [&str; 3] = ["-e", "-f", "-s"];
/// No name is longer.
const LONGEST: usize = 255;

/// The target of the wait in these words: a shell's loop (gpu-operator's init containers), or a command that the
/// operator's validator repeats and its answer (`running command bash with args [-c lsmod | grep NAME]`).
pub fn awaited(text: &str) -> Option<WaitTarget> {
    let words: Vec<_> = text.split_whitespace().map(bare).collect();
    let behind = |is_it: &dyn Fn(&str) -> bool| {
        let at = words.iter().position(|word| is_it(word))?;
        words.get(at + 1).copied()
    };
    let is_loop = words.iter().any(|word| matches!(*word, "until" | "while"));
    let is_command = text.contains("running command ");
    if let Some(path) = behind(&|word| TESTS.contains(&word)).filter(|_| is_loop).and_then(path) {
        return Some(WaitTarget::File(path));
    }
    if let Some(path) = behind(&|word| word == "stat").filter(|_| is_command).and_then(path) {
        return Some(WaitTarget::File(path));
    }
    if is_command && text.contains("lsmod") {
        let name = behind(&|word| word == "grep")?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        return (is_name && !name.is_empty() && name.len() <= LONGEST)
            .then(|| WaitTarget::Module(name.replace('-', "_")));
    }
    let (_, missing) = text.split_once("cannot stat")?;
    let is_missing = missing.contains("No such file or directory");
    path(missing.split(['\'', '‘', '’']).nth(1)?).filter(|_| is_missing).map(WaitTarget::File)
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c| "'\"[]();".contains(c))
}

/// A plain absolute path.
fn path(word: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let is_path =
        word.starts_with('/') && word.len() > 1 && word.len() <= LONGEST && word.bytes().all(is_plain);
    (is_path && !word.contains("/../")).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    #[test]
    fn the_file_or_module_that_a_program_waits_for_is_read_from_its_words() {
        for (words, expected) in examples(include_str!("../../tests/words/awaited")) {
            let seen = awaited(&words).map_or_else(
                || "nothing".to_owned(),
                |target| match target {
                    WaitTarget::File(path) => format!("file {path}"),
                    WaitTarget::Module(name) => format!("module {name}"),
                },
            );
            assert_eq!(seen, expected, "{words}");
        }
        assert_eq!(awaited(""), None);
    }
}
