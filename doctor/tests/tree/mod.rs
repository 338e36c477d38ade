// SPDX-License-Identifier: Apache-2.0
//! The repository's own files.
#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

pub(crate) fn read(path: &str) -> String {
    let bytes = fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn documents() -> Vec<String> {
    files_with("md")
}

pub(crate) fn files_with(extension: &str) -> Vec<String> {
    let has_it = |path: &String| Path::new(path).extension().is_some_and(|e| e == extension);
    tree().into_iter().filter(has_it).collect()
}

/// Every file that git has, or would have: read from the tree itself, because a copy of it has no git.
pub(crate) fn tree() -> Vec<String> {
    let ignored: Vec<_> = read(".gitignore").lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in root().join(&directory).read_dir().unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            let name = path.to_str().unwrap().to_owned();
            if name == ".git" || ignored.contains(&name) {
                continue;
            }
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => directories.push(path),
                kind if kind.is_file() => files.push(name),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Not as a part of a longer word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + word.len()..].chars().next().is_some_and(is_part);
        !(word.starts_with(is_part) && before || word.ends_with(is_part) && after)
    })
}
