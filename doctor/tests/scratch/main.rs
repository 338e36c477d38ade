// SPDX-License-Identifier: Apache-2.0
//! What takes minutes: on every node of tests/nodes an ordinary pod that lies, its screens, the node with another
//! system and without its fault; and the casebook, where there is one.

mod casebook;
#[path = "../expected/mod.rs"]
mod expected;
#[path = "../../../tests/fixture/mod.rs"]
mod fixture;
mod inspect;
mod liars;
#[path = "../runs/nodes.rs"]
mod nodes;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    support::beside::build_the_gate();
    let tests = [casebook::tests(), inspect::tests(), liars::tests(), nodes::lane()];
    support::suite::run(tests.into_iter().flatten().collect(), None)
}
