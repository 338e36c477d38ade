// SPDX-License-Identifier: Apache-2.0
//! The real gate on scratch trees of nodes: real processes, inotify, mounts and signals. A test that a machine or a
//! user cannot run is ignored, with the reason.

mod asked;
mod consumers;
mod endings;
mod exec;
#[path = "../fixture/mod.rs"]
mod fixture;
mod install;
mod limits;
mod looks;
mod modprobe;
mod refusals;
mod stuck;
#[path = "../support/mod.rs"]
mod support;
mod wakes;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        asked::tests(),
        consumers::tests(),
        endings::tests(),
        exec::tests(),
        install::tests(),
        limits::tests(),
        looks::tests(),
        modprobe::tests(),
        refusals::tests(),
        stuck::tests(),
        wakes::tests(),
    ];
    let ended = support::suite::run(tests.into_iter().flatten().collect(), Some(8));
    if std::env::args().len() == 1 {
        println!(
            "cargo test leaves out real kernels, containers, charts, packages and hostile nodes: tests/run (Debian, root)"
        );
    }
    ended
}
