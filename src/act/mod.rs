// SPDX-License-Identifier: Apache-2.0
//! The door that only writes, and becomes CMD.

pub mod build;
mod directory;
pub mod errand;
pub mod exec;
mod executable;
pub mod install;
pub mod last_words;
mod lifeline;
pub mod log;
pub mod modprobe;
pub mod notify;
pub mod order;
mod outlet;
pub mod output;
mod stderr;
pub mod supervisor;
pub mod terminal;
pub mod termination_log;
pub mod workshop;

pub use lifeline::Lifeline;
pub use outlet::{answer, answer_until_signalled};
