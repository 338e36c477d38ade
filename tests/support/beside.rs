// SPDX-License-Identifier: Apache-2.0
//! The gate beside the doctor, for the tests of the doctor's package.

use super::{GATE, repository};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Whether the gate beside the doctor is newer than all that it was made of, as cargo noted it beside the program.
fn is_fresh(gate: &Path) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (Some(made), Ok(sources)) = (written(gate), fs::read_to_string(gate.with_extension("d"))) else {
        return false;
    };
    let is_older = |source: SystemTime| source <= made;
    sources.split_whitespace().skip(1).all(|source| written(Path::new(source)).is_some_and(is_older))
}

/// The gate is a program of another package: `cargo test -p peermem-doctor` does not build it.
pub(crate) fn build_the_gate() {
    let gate = Path::new(GATE);
    if is_fresh(gate) {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package=peermem-gate", "--bin=peermem-gate"]);
    let profile = gate.parent().expect("a directory of programs");
    cargo.args(profile.ends_with("release").then_some("--release"));
    cargo.arg("--target-dir").arg(profile.parent().expect("a target directory"));
    let status = cargo.current_dir(repository()).status().expect("cargo runs");
    assert!(status.success(), "the gate cannot be built");
}
