// SPDX-License-Identifier: Apache-2.0
//! The door that only writes, and becomes CMD.

pub mod address_space;
pub mod directory;
mod double_fork;
pub mod exec;
pub mod executable;
mod fork;
pub mod hung;
pub mod log_writer;
pub mod output;
pub mod privilege;
pub mod progress;
pub mod stand_in;
mod stderr;
pub mod subtask;
pub mod supervisor;
pub mod system_program;
pub mod terminal;
pub mod termination_log;
mod worker;
mod worker_pipe;

pub use log_writer::{answer, answer_until_signaled};
pub use worker_pipe::{Decision, WorkerPipe};
