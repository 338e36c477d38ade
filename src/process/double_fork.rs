// SPDX-License-Identifier: Apache-2.0
//! A separate parent for the worker. To close an inotify instance takes the kernel up to 20 ms, and a process that
//! becomes CMD must not wait for that, nor leave CMD a child that it does not know. So a third process stands
//! between the two. It passes signals on, reports how the worker ended, and ends at once when the supervisor opens:
//! the worker then goes to the process that adopts orphans here.

use crate::process::fork::begin;
use crate::process::worker_pipe::{KILLED, WorkerPipe};
use crate::ready::wake::Signals;
use nix::sys::prctl::{get_child_subreaper, set_name, set_pdeathsig};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, getpid, getppid};
use std::time::Duration;

/// Whether this process's orphans go to another: it is neither PID 1 of its namespace nor a subreaper. Without
/// SIGCHLD the worker's end would go unnoticed.
pub(super) fn is_possible(signals: &Signals) -> bool {
    getpid().as_raw() != 1 && get_child_subreaper() == Ok(false) && signals.sees_children()
}

/// Returns in the worker, with its parent's pid, while that parent stays behind in here. `supervisor` is the pid of
/// the parent's own.
pub(super) fn with_a_parent(supervisor: Pid, worker_pipe: &WorkerPipe, signals: &Signals) -> Pid {
    let _ = set_name(c"peermem-parent");
    let _ = set_pdeathsig(Signal::SIGKILL);
    if getppid() != supervisor {
        std::process::exit(1);
    }
    let parent = getpid();
    match begin() {
        Ok(ForkResult::Child) => parent,
        Ok(ForkResult::Parent { child }) => std::process::exit(stand_between(child, worker_pipe, signals)),
        // Then this process is the worker: its supervisor waits for its end, as it always can.
        Err(_) => supervisor,
    }
}

/// Until the worker has ended; its exit code.
fn stand_between(worker: Pid, worker_pipe: &WorkerPipe, signals: &Signals) -> i32 {
    loop {
        match waitpid(worker, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return code,
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                worker_pipe.send(KILLED, &[signal as u8]);
                return 1;
            }
            Err(errno) if errno != nix::errno::Errno::EINTR => return 1,
            _ => {}
        }
        signals.wait(Duration::MAX);
        while let Some(signal) = signals.take_one() {
            pass_on(worker, signal);
        }
        if signals.take_hangup() {
            pass_on(worker, Signal::SIGHUP as u8);
        }
    }
}

fn pass_on(worker: Pid, signal: u8) {
    if let Ok(signal) = Signal::try_from(i32::from(signal)) {
        let _ = kill(worker, signal);
    }
}
