// SPDX-License-Identifier: Apache-2.0
//! Called as `modprobe`: gates `nvidia-peermem`, and hands everything else to the real modprobe.

use super::Hold;
use super::load::{Finished, Load};
use crate::act::exec::Unrunnable;
use crate::act::modprobe::{Modprobe, Ran, Words};
use crate::arguments;
use crate::ending::Ending;
use crate::environment::{Variables, value_of};
use crate::wake::Signals;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What a call of `modprobe` is to us.
#[must_use]
pub fn read(argv: &[OsString], variables: &Variables) -> arguments::Call {
    let words = argv.get(1..).unwrap_or_default();
    let of = arguments::Variables {
        modprobe_options: value_of(variables, "MODPROBE_OPTIONS"),
        posixly_correct: value_of(variables, "POSIXLY_CORRECT").is_some(),
    };
    arguments::read(words, of)
}

/// Becomes the real modprobe, with arguments untouched. Returns only when that failed.
#[must_use]
pub fn hand_over(argv: &[OsString], variables: &Variables) -> Unrunnable {
    let asked = value_of(variables, "PEERMEM_GATE_MODPROBE").map(Path::new);
    let name = argv.first().map_or(OsStr::new("modprobe"), OsString::as_os_str);
    match Modprobe::find(Path::new("/"), value_of(variables, "PATH"), asked) {
        Ok(modprobe) => modprobe.become_it(name, argv.get(1..).unwrap_or_default()),
        Err(why) => why,
    }
}

/// A gated call.
#[derive(Debug)]
pub struct Shim {
    /// What to hold for.
    pub hold: Hold,
    /// The real modprobe.
    pub modprobe: Modprobe,
    /// What was asked of it.
    pub load: arguments::Load,
    /// Where the last words go.
    pub termination_log: Option<PathBuf>,
}

impl Shim {
    /// The other modules first, which nothing holds back; then `nvidia_peermem` behind the gate.
    ///
    /// # Errors
    /// When modprobe cannot be run, or signals cannot be taken.
    pub fn run(self, signals: Signals) -> anyhow::Result<Ending> {
        if self.load.forced {
            tracing::warn!(
                "modprobe's force options are left out: a module that must be forced is a wrong one"
            );
        }
        let others = match &self.load.others {
            Some(words) => self.pass(words, &signals)?,
            None => Ending::Modprobe(0),
        };
        if let Ending::Signal(_) = others {
            return Ok(others);
        }
        let load = Load {
            hold: self.hold.clone(),
            modprobe: self.modprobe.clone(),
            arguments: self.load.peermem.clone(),
            words: Words::Passed,
            termination_log: self.termination_log.clone(),
        };
        let own = match load.run(signals) {
            Finished::Live(Some(code)) => Ending::Modprobe(code),
            Finished::Ended(ending) => ending,
            // Loaded already, or none of our business: modprobe knows what to say to its own options.
            Finished::Live(None) | Finished::Open => self.pass(&self.load.peermem, &Signals::take()?)?,
        };
        Ok(if own.code() == 0 { others } else { own })
    }

    fn pass(&self, words: &[OsString], signals: &Signals) -> anyhow::Result<Ending> {
        match self.modprobe.run(words, Words::Passed, signals.fd(), || signals.take_one()) {
            Ok(Ran { signal: Some(signal), .. }) => Ok(Ending::Signal(signal)),
            Ok(ran) => Ok(Ending::Modprobe(ran.code)),
            Err(why) => anyhow::bail!(why.message),
        }
    }
}
