// SPDX-License-Identifier: Apache-2.0
//! The fuzz targets without a fuzzer: on their corpus, because what once broke a parser breaks it no more, and on
//! changed inputs of it. `MUTATIONS=100000 cargo test corpus::changed -- --nocapture` takes so many for each
//! target; tests/fuzz finds more.

use crate::targets;
use std::path::Path;
use std::{fs, panic};

/// Of each target, where `MUTATIONS` is not set.
const MUTATIONS: u64 = 200;

/// The inputs of this target, each with its path.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let mut paths: Vec<_> =
        fs::read_dir(corpora.join(name)).expect(name).map(|e| e.expect("an input").path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| (path.display().to_string(), fs::read(path).expect("an input"));
    paths.iter().map(read).collect()
}

#[test]
fn no_parser_panics_on_a_corpus_input() {
    for (name, _) in targets::TARGETS {
        let inputs = corpus(name);
        assert!(inputs.len() > 2, "the corpus of {name} is missing");
        for (path, input) in inputs {
            // Shown when it panics.
            println!("{path}");
            targets::run(name, &input);
        }
    }
}

/// The changes are the same in every run: a failure is there again.
#[test]
fn no_parser_panics_on_a_changed_corpus_input() {
    let count = std::env::var("MUTATIONS").map_or(MUTATIONS, |count| count.parse().expect("a number"));
    for (name, _) in targets::TARGETS {
        let inputs: Vec<_> = corpus(name).into_iter().map(|(_, input)| input).collect();
        let mut chance = Chance(1);
        for _ in 0..count {
            let input = chance.changed(&inputs);
            let ended = panic::catch_unwind(|| targets::run(name, &input));
            assert!(ended.is_ok(), "{name}: {:?}", String::from_utf8_lossy(&input));
        }
        println!("{name}: {count} inputs");
    }
}

/// `SplitMix64`.
struct Chance(u64);

/// What parsers trip over.
const ODD: [&[u8]; 10] =
    [b"\0", b"\n", b"\t", b"\xff", b"\"", b"=", b"\x1b[2J", b"-1", b"18446744073709551616", b"\xe2\x80\xae"];

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit.max(1) as u64).expect("below the limit")
    }

    /// One of these inputs, changed in one to four places.
    fn changed(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            let end = (at + self.below(32)).min(input.len());
            match self.below(6) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 => drop(input.splice(at..at, ODD[self.below(ODD.len())].iter().copied())),
                2 => drop(input.drain(at..end)),
                3 => drop(input.splice(at..end, input[at..end].repeat(1 + self.below(40)))),
                4 => input.truncate(at),
                _ => {
                    let other = &inputs[self.below(inputs.len())];
                    let from = self.below(other.len() + 1);
                    input.splice(at.., other[from..].iter().copied());
                }
            }
        }
        input
    }
}

/// A file of a node that nobody fuzzes is a parser that nobody fuzzes.
#[test]
fn every_fuzz_target_is_a_binary_of_the_fuzz_package() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(manifest).expect("a manifest").parse().expect("TOML");
    let binaries: Vec<_> =
        manifest["bin"].as_array().expect("binaries").iter().map(|bin| bin["name"].as_str()).collect();
    let names: Vec<_> = targets::TARGETS.iter().map(|(name, _)| Some(*name)).collect();
    assert_eq!(binaries, names);
}

/// The fuzzers' own Cargo.lock knows this version of the program, and each crate that it needs.
#[test]
fn the_fuzzers_lock_file_matches_this_version_and_its_crates() {
    let toml = |file: &str| -> toml::Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        fs::read_to_string(path).expect(file).parse().expect("TOML")
    };
    let lock = toml("fuzz/Cargo.lock");
    let mut packages = lock["package"].as_array().expect("packages").iter();
    let ours = packages.find(|package| package["name"].as_str() == Some("peermem-gate")).expect("ours");
    assert_eq!(ours["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    let locked: Vec<_> =
        ours["dependencies"].as_array().expect("crates").iter().filter_map(|c| c.as_str()).collect();
    let manifest = toml("Cargo.toml");
    for needed in manifest["dependencies"].as_table().expect("crates").keys() {
        assert!(
            locked.contains(&needed.as_str()),
            "cargo metadata --manifest-path fuzz/Cargo.toml: {needed}"
        );
    }
}
