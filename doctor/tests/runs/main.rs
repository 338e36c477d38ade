// SPDX-License-Identifier: Apache-2.0
//! The real doctor: on each node of tests/nodes, with each guard and lie, and on scratch trees.

mod bounds;
mod bundle;
mod casebook;
mod commands;
mod doctor;
mod every;
#[path = "../examples/mod.rs"]
mod examples;
#[path = "../expected/mod.rs"]
mod expected;
#[path = "../../../tests/fixture/mod.rs"]
mod fixture;
mod fleet;
mod guards;
mod help;
mod laws;
mod liars;
mod logs;
mod nodes;
#[path = "../../../tests/support/mod.rs"]
mod support;
mod timeline;
mod upgrade;

use std::process::{Command, ExitCode};
use std::time::SystemTime;
use std::{fs, path::Path};

/// Whether the gate beside the doctor is newer than all that it was made of, as cargo noted it beside the program.
fn is_fresh(gate: &Path) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (Some(made), Ok(sources)) = (written(gate), fs::read_to_string(gate.with_extension("d"))) else {
        return false;
    };
    let is_older = |source: SystemTime| source <= made;
    sources.split_whitespace().skip(1).all(|source| written(Path::new(source)).is_some_and(is_older))
}

/// The gate is a program of another package: cargo builds it for `cargo test`, but not for `cargo test -p peermem-doctor`.
fn build_the_gate() {
    let gate = Path::new(support::GATE);
    if is_fresh(gate) {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package=peermem-gate", "--bin=peermem-gate"]);
    let profile = gate.parent().expect("a directory of programs");
    cargo.args(profile.ends_with("release").then_some("--release"));
    cargo.arg("--target-dir").arg(profile.parent().expect("a target directory"));
    let status = cargo.current_dir(support::repository()).status().expect("cargo runs");
    assert!(status.success(), "the gate cannot be built");
}

fn main() -> ExitCode {
    if logs::child_reads() {
        return ExitCode::SUCCESS;
    }
    build_the_gate();
    let tests = [
        bounds::tests(),
        bundle::tests(),
        casebook::tests(),
        commands::tests(),
        doctor::tests(),
        every::tests(),
        fleet::tests(),
        guards::tests(),
        help::tests(),
        laws::tests(),
        liars::tests(),
        logs::tests(),
        nodes::tests(),
        timeline::tests(),
        upgrade::tests(),
    ];
    support::suite::run(tests.into_iter().flatten().collect(), None)
}
