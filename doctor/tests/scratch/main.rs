// SPDX-License-Identifier: Apache-2.0
//! What takes minutes: an ordinary pod that lies, on every node of tests/nodes; and the casebook, where there is one.

mod casebook;
#[path = "../../../tests/fixture/mod.rs"]
mod fixture;
mod liars;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    support::beside::build_the_gate();
    let tests = [casebook::tests(), liars::tests()];
    support::suite::run(tests.into_iter().flatten().collect(), None)
}
