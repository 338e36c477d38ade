// SPDX-License-Identifier: Apache-2.0
//! The real doctor: on each node of tests/nodes, with each guard and lie, and on scratch trees.

mod agree;
mod bounds;
mod bundle;
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
mod logs;
mod machine;
mod nodes;
#[allow(dead_code, reason = "an example of its own, which has a main")]
#[path = "../../../release/pages.rs"]
mod pages;
mod posted;
mod refusals;
#[path = "../../../tests/support/mod.rs"]
mod support;
mod timeline;
mod upgrade;

use std::process::ExitCode;

fn main() -> ExitCode {
    if logs::child_reads() || bounds::child_measures() {
        return ExitCode::SUCCESS;
    }
    support::beside::build_the_gate();
    let tests = [
        agree::tests(),
        bounds::tests(),
        bundle::tests(),
        commands::tests(),
        doctor::tests(),
        every::tests(),
        fleet::tests(),
        guards::tests(),
        help::tests(),
        laws::tests(),
        logs::tests(),
        machine::tests(),
        nodes::tests(),
        posted::tests(),
        refusals::tests(),
        timeline::tests(),
        upgrade::tests(),
    ];
    support::suite::run(tests.into_iter().flatten().collect(), Some(4))
}
