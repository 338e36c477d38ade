// SPDX-License-Identifier: Apache-2.0
//! The incident, played on a scratch tree: `cargo run --example incident`.
//!
//! On 21 November 2025 one node was rebooted into a new kernel. MOFED took 453 seconds to
//! build itself, to swap the RDMA modules and to set its marker. The GPU driver did not wait: it
//! compiled nvidia-peermem while MOFED's headers were not there, which gives a stub without a word,
//! and then failed to load that stub 64 times in a row.
//!
//! Here MOFED is acted, 60 times as fast, in a temporary directory: a small `/proc`, `/sys` and
//! `/run/mellanox/drivers`. What waits for it is real: the `peermem-gate` binary, and beside it, as
//! shell processes, the wait that was there and the two that were proposed afterwards. Nothing is
//! needed but Rust and a shell: no root, no MOFED, no GPU.
//!
//! - [`node`] is the scratch tree, and a plain look at it that shares no code with the gate.
//! - [`timeline`] is what happens when.
//! - [`contest`] are the processes that wait, and what is built behind them.
//! - [`stage`] plays a timeline while it listens to the processes.
//! - [`outcome`] is the table at the end, and the claims that must have come true.

mod clock;
mod contest;
mod gate_binary;
mod node;
mod outcome;
mod stage;
mod timeline;

use crate::clock::SPEED;
use crate::node::{KERNEL, MOFED};
use crate::outcome::Claim;
use crate::stage::Stage;
use crate::timeline::{INCIDENT, STALE_MARKER, Timeline};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match play() {
        Ok(untrue) if untrue.is_empty() => {
            println!("All of this was observed just now, with real processes.");
            ExitCode::SUCCESS
        }
        Ok(untrue) => {
            eprintln!("This run does not tell that story:");
            for claim in untrue {
                eprintln!("- it is not true that {claim}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays both acts; answers with the claims that did not come true.
fn play() -> anyhow::Result<Vec<&'static str>> {
    let gate = gate_binary::build()?;
    println!("Kernel {KERNEL}, MOFED {MOFED}, {SPEED} times as fast.");
    println!("The clock is the incident's; the seconds that peermem-gate speaks of are real ones.");

    println!("\nAct 1: the incident\n");
    let mut untrue = act(&gate, &INCIDENT, &outcome::OF_THE_INCIDENT)?;
    println!("The stub is made by the build: a wait behind the build cannot cure it, and no restart can.");

    println!("\nAct 2: the marker of a MOFED that is no more (the clock starts anew)\n");
    untrue.extend(act(&gate, &STALE_MARKER, &outcome::OF_A_STALE_MARKER)?);
    println!("A file says that MOFED was ready once. The gate asks the kernel whether it still is.\n");
    Ok(untrue)
}

fn act(gate: &Path, timeline: &Timeline, claims: &[Claim]) -> anyhow::Result<Vec<&'static str>> {
    let outcome = Stage::set(gate, timeline.begins)?.play(timeline)?;
    println!("\n{outcome}");
    Ok(outcome::untrue(claims, &outcome))
}
