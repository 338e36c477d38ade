// SPDX-License-Identifier: Apache-2.0
//! `load`, `keep` and `rebuild` on scratch nodes with the module files that tests/vm/build makes; and
//! garbage in every file that the gate reads; floods; and each state that can last, at rest.

#[path = "../fixture/mod.rs"]
mod fixture;
mod floods;
mod garbage;
mod keeper_states;
mod keeping;
mod limits;
mod module_files;
mod obstacles;
mod ownership;
#[path = "../rebuild/place.rs"]
mod place;
mod reasons;
mod rebuild;
mod rest;
mod shim;
mod signing;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        floods::tests(),
        garbage::tests(),
        keeper_states::tests(),
        keeping::tests(),
        limits::tests(),
        module_files::tests(),
        obstacles::tests(),
        ownership::tests(),
        reasons::tests(),
        rebuild::tests(),
        rest::tests(),
        shim::tests(),
        signing::tests(),
    ];
    support::suite::run(tests.into_iter().flatten().collect(), Some(5))
}
