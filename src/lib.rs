// SPDX-License-Identifier: Apache-2.0
//! Makes the GPU driver of a node wait until the MOFED driver is ready.
//!
//! ```text
//!  argv, environment ─► cli, environment ─► config (validated; CMD found before any wait)
//!                                             │
//!    ┌──────── cause ◄── wake: poll(2) over inotify, mountinfo, uevents, signals, clock ◄──┐
//!    ▼                                                                                     │
//!  probe ──► Observation ──► judge ──► Verdict{conditions} ──► Gate::step(now) ──► effects ─► act
//!  reads       plain data     PURE         data                  PURE             data      writes, exec
//! ```
//!
//! Read [`condition`] for the words, [`judge`] for what they mean, [`gate`] for what happens in
//! time, [`probe`] for how a node is looked at. docs/design.md says why it is so.
#![deny(unsafe_code)]

pub mod cli;
pub mod peermem;
pub mod process;
pub mod ready;
pub mod survey;
pub mod text;
#[macro_use]
pub mod words;
pub mod check;
pub mod doctor;
pub mod inspect;
pub mod install;
pub mod keep;
pub mod load;
pub mod rebuild;
pub mod verbs;
pub mod wait;
pub mod watch;

/// Version, commit and target of this build.
pub const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ", ", env!("BUILD_TARGET"), ")");

/// The symbols that MOFED exports and nvidia-peermem imports (open-gpu-kernel-modules, nvidia-peermem.c).
pub const PEER_MEMORY_SYMBOLS: [&str; 2] =
    ["ib_register_peer_memory_client", "ib_unregister_peer_memory_client"];
