// SPDX-License-Identifier: Apache-2.0
//! The door that only writes, and becomes CMD.

pub mod build;
pub mod build_dir;
mod directory;
mod double_fork;
pub mod exec;
mod executable;
pub mod hung;
pub mod install;
pub mod last_words;
pub mod log;
mod log_writer;
pub mod notify;
pub mod order;
pub mod output;
mod process;
pub mod progress;
pub mod rights;
pub mod stand_in;
mod stderr;
pub mod store;
pub mod subtask;
pub mod supervisor;
pub mod system_program;
pub mod terminal;
pub mod termination_log;
mod worker;
mod worker_pipe;

pub use log_writer::{answer, answer_until_signaled};
pub use worker_pipe::{Decision, WorkerPipe};
