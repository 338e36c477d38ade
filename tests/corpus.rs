// SPDX-License-Identifier: Apache-2.0
//! The fuzz targets on their corpus, without a fuzzer: what once broke a parser breaks it no more.

#[allow(unreachable_pub, dead_code, reason = "a crate of its own for the fuzzer")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_every_corpus_is_survived() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, _) in targets::TARGETS {
        let inputs: Vec<_> =
            fs::read_dir(corpora.join(name)).expect(name).map(|e| e.expect("an input").path()).collect();
        assert!(inputs.len() > 2, "the corpus of {name} is missing");
        for input in inputs {
            // Shown when it panics.
            println!("{}", input.display());
            targets::run(name, &fs::read(&input).expect("an input"));
        }
    }
}

/// A file of a node that nobody fuzzes is a parser that nobody fuzzes.
#[test]
fn every_target_is_run_by_the_fuzzer() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(manifest).expect("a manifest").parse().expect("TOML");
    let binaries: Vec<_> =
        manifest["bin"].as_array().expect("binaries").iter().map(|bin| bin["name"].as_str()).collect();
    let names: Vec<_> = targets::TARGETS.iter().map(|(name, _)| Some(*name)).collect();
    assert_eq!(binaries, names);
}
