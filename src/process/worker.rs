// SPDX-License-Identifier: Apache-2.0
//! The beginning of a worker.

use crate::process::log_writer::write_through;
use crate::process::worker_pipe::WorkerPipe;
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, dup2_stderr, dup2_stdout, getpid, getppid};
use std::fs::File;

/// Makes this process a worker of that one, without any of its standard streams.
pub(super) fn become_worker(parent: Pid, worker_pipe: &WorkerPipe, keeps_stdout: bool) {
    let _ = set_name(c"peermem-worker");
    // A worker without a supervisor would wait to no purpose.
    let _ = set_pdeathsig(Signal::SIGKILL);
    if getppid() != parent {
        std::process::exit(1);
    }
    worker_pipe.begun(getpid());
    let keeps_stderr = write_through(worker_pipe.clone());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        if !keeps_stderr {
            let _ = dup2_stderr(&null);
        }
        if !keeps_stdout {
            let _ = dup2_stdout(&null);
        }
    }
}
