// SPDX-License-Identifier: Apache-2.0
//! What a release publishes: the static builds and the packages.

mod footprint;
mod packages;
#[path = "../rebuild/place.rs"]
mod place;
mod seccomp;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [footprint::tests(), packages::tests(), seccomp::tests()];
    support::suite::run(tests.into_iter().flatten().collect(), None)
}
