// SPDX-License-Identifier: Apache-2.0
//! The incident, played on a scratch tree: `cargo run --package incident`.
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
//! - [`driver`] is the GPU driver's root: sources, headers and module files.
//! - [`contest`] are the processes that wait, and what is built behind them.
//! - [`stage`] plays a timeline while it listens to the processes.
//! - [`outcome`] is the table at the end, and the claims that must have come true.

mod clock;
mod contest;
mod driver;
mod gate_binary;
mod node;
mod outcome;
mod stage;
mod timeline;

use crate::clock::SPEED;
use crate::node::{KERNEL, MOFED};
use crate::outcome::Claim;
use crate::stage::Stage;
use crate::timeline::{HEALED, INCIDENT, STALE_MARKER, Timeline};
use std::path::Path;
use std::process::ExitCode;

/// For a reader who has heard none of these words.
const OPENING: &str = "\
MOFED is the driver of Mellanox network cards. It replaces the kernel's own RDMA
modules, then creates a file, its marker, to report that it is ready.
nvidia-peermem lets such a card read GPU memory, and is built against MOFED.
Built too early it becomes a stub: a module that compiles, but that the kernel
refuses to load. Here four programs wait for MOFED, each in its own way.";

/// The first thing to read. The run ends with an error where it is not so.
const VERDICT: &str = "\
Verdict: delay the build, and trust no single sign.
  Act 1: k8s-driver-manager let the build start too early, so nvidia-peermem
         became a stub. The loop before modprobe waited for MOFED, but had only
         that stub to load. No restart cures it.
  Act 2: the loop that looks for the marker opened on a stale one. peermem-gate
         asked the kernel.
  Act 3: peermem-gate rebuild cures a stub. The driver builds beside MOFED, and
         no second build of the whole driver is needed.";

/// How far this run proves the verdict.
const CLOSING: &str = "\
This run confirms the whole verdict.

Real in this run: the peermem-gate program, the shell loops, their processes,
files and times.
Simulated: the node. A scratch directory has what MOFED, the kernel and the
compiler would write, and modprobe's answer follows from what each build saw. A
build takes the time that one took elsewhere: two minutes for the whole driver,
ten seconds for nvidia-peermem. tests/run plays it all on a real kernel.";

fn main() -> ExitCode {
    match play() {
        Ok(untrue) if untrue.is_empty() => {
            println!("{CLOSING}");
            ExitCode::SUCCESS
        }
        Ok(untrue) => {
            eprintln!(
                "This run does not confirm the verdict, often because the machine is busy. Run it again. What differs:"
            );
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

/// Plays all acts; answers with the claims that did not come true.
fn play() -> anyhow::Result<Vec<&'static str>> {
    let gate = gate_binary::build()?;
    println!("{VERDICT}\n\n{OPENING}\n");
    println!("Kernel {KERNEL}, MOFED {MOFED}.");
    println!("The clock shows the incident's time, and runs at {SPEED} times the speed. Seconds in");
    println!("peermem-gate's lines are real.");

    println!("\nAct 1: the incident of 21 November 2025\n");
    let mut untrue = act(&gate, &INCIDENT, &outcome::OF_THE_INCIDENT)?;

    println!("\nAct 2: a killed MOFED container left a stale marker (the clock starts at zero)\n");
    untrue.extend(act(&gate, &STALE_MARKER, &outcome::OF_A_STALE_MARKER)?);

    println!("\nAct 3: a stub is built beside MOFED, and healed (the clock starts at zero)\n");
    untrue.extend(act(&gate, &HEALED, &outcome::OF_A_HEALED_STUB)?);
    Ok(untrue)
}

fn act(gate: &Path, timeline: &Timeline, claims: &[Claim]) -> anyhow::Result<Vec<&'static str>> {
    let outcome = Stage::set(gate, timeline.begins)?.play(timeline)?;
    println!("\n{outcome}");
    Ok(outcome::untrue(claims, &outcome))
}
