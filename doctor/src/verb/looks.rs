// SPDX-License-Identifier: Apache-2.0
//! Looks that answer on standard output, one after another. Between two of them next to nothing stays in memory.

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use peermem_gate::cli::{AnswerFormat, LogArgs};
use peermem_gate::process::hung::Hung;
use peermem_gate::ready::clock::now;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::time::BootTime;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::one_look::Looker;
use peermem_gate::words::report::style::Style;
use std::time::Duration;

/// One millisecond more, because poll(2) counts milliseconds and must not wake too early.
const ROUNDING: Duration = Duration::from_millis(1);

pub(super) struct Looks<'a> {
    looker: Looker<'a>,
    /// The last look, if its process hung, and since when.
    hung: Option<(Hung, BootTime)>,
}

impl<'a> Looks<'a> {
    /// Takes the signals and starts the log.
    pub(super) fn new(log: &LogArgs, format: AnswerFormat, start: &'a Start<'a>) -> Result<Self, VerbError> {
        Ok(Self { looker: Looker::new(log, format, start)?, hung: None })
    }

    /// Looks once and answers. If the look hangs, or an earlier one still does, the answer says so.
    pub(super) fn answer(
        &mut self,
        look: impl FnOnce(Style) -> Result<Exit, VerbError>,
    ) -> Result<Exit, VerbError> {
        let (mut hung, since) = match self.hung.take() {
            // Another process would hang as well, and one more at each look.
            Some(earlier) if has_children() => earlier,
            _ => {
                let since = now();
                match self.looker.look(look)? {
                    Ok(exit) => return Ok(exit),
                    Err(hung) => (hung, since),
                }
            }
        };
        hung.waited = now().saturating_sub(since);
        let exit = self.looker.hangs(&hung);
        self.hung = Some((hung, since));
        exit
    }

    /// Sleeps until that time. A signal that ends the program decides the exit, even if it came earlier.
    pub(super) fn sleep(&self, until: BootTime) -> Option<Exit> {
        loop {
            let now = now();
            match self.looker.signals.first() {
                Some(signal) => return Some(Exit::Signal(signal)),
                None if now >= until => return None,
                // The end of a child interrupts the sleep, which continues.
                None => _ = self.looker.signals.wait(until.saturating_sub(now) + ROUNDING),
            }
        }
    }
}

/// Whether a killed process still exists: the kernel keeps it while it hangs.
fn has_children() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}
