// SPDX-License-Identifier: Apache-2.0
//! Makes the GPU driver of a node wait until the MOFED driver is ready, and loads nvidia-peermem.
//!
//! Each room uses only rooms above it. Read in this order: [`ready::condition`] for the words,
//! [`ready::observation`] for what a look sees, [`ready::probe`] for how, [`ready::judge`] for what it means,
//! [`ready::gate`] for what happens in time, [`ready::wake`] for what ends a sleep, and [`wait`], which puts them
//! together. docs/design.md says why.
#![deny(unsafe_code)]

// Options, their variables, help, the log.
pub mod cli;
// nvidia-peermem.ko: will the kernel accept it?
pub mod peermem;
// Processes: supervisor and worker, programs that are run or become this one, output that waits for nobody.
pub mod process;
// Is MOFED ready? The core: conditions, looks, judges, the gate.
pub mod ready;
// Containers of the operators on this node, and the settings that they run with.
pub mod survey;
// Text for people and machines: escaped, wrapped.
pub mod text;
// Reports, and what a person is to do.
#[macro_use]
pub mod words;
// `check`: one look, one answer.
pub mod check;
// Verbs of peermem-doctor, which this process becomes.
pub mod doctor;
// `install`: copies this program onto a node.
pub mod install;
// What loads: `keep`, which lets MOFED swap and loads again; `load` and the shim, which end with a proved load.
pub mod keeper;
// `rebuild`: nvidia-peermem.ko for the live MOFED and nvidia.
pub mod rebuild;
// How a verb starts, and why it ends early.
pub mod start;
// Which verb runs.
pub mod verbs;
// The words of logs, metrics and reports, for `explain`.
pub mod vocabulary;
// `wait`: until MOFED is ready; then it exits, or becomes CMD.
pub mod wait;
// Arm, look, sleep: the loop of every verb that stays.
pub mod watch;

/// Version, commit and target of this build.
pub const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ", ", env!("BUILD_TARGET"), ")");
