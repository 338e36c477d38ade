// SPDX-License-Identifier: Apache-2.0
//! Which step leaves which line in the trace of a life (tests/vm/guest/life).

use super::attempt::words;
use super::driver::{self, Loads, Wait};
use super::mofed::{self, Entrypoint, Phase};
use super::node::{Abi, File};
use super::{Life, Step, keeper, peermem_ctr};

/// A line's kind and text; of an answer only the beginning.
pub(crate) type Words = (&'static str, String);

/// MOFED's generations, as the lives call them.
pub(crate) fn generation(abi: Abi) -> &'static str {
    match abi {
        Abi::Old => "old",
        Abi::New => "new",
    }
}

/// The headers that a build has found.
pub(crate) fn found(file: File) -> &'static str {
    match file {
        File::Stub => "stub",
        File::Built(abi) => generation(abi),
    }
}

impl Life {
    /// The line that this step leaves, if any.
    pub(crate) fn said(&self, step: Step, after: &Self) -> Option<Words> {
        match step {
            Step::Mofed(step) => self.mofed_said(step, after),
            Step::Driver(_) => self.driver_said(after),
            Step::Keeper(keeper::Step::Restart) => Some(("started", "loader".to_owned())),
            Step::Keeper(_)
                if after.keeper.as_ref().is_some_and(|keep| !keep.ends() && keep.ended().is_some()) =>
            {
                Some(("crashed", "sidecar".to_owned()))
            }
            Step::PeermemCtr(peermem_ctr::Step::Restart) => Some(("crashed", "sidecar".to_owned())),
            Step::Keeper(_) | Step::PeermemCtr(peermem_ctr::Step::Modprobe) => {
                (self.is_asking() && !after.is_asking()).then(|| self.answer(after))
            }
            Step::PeermemCtr(peermem_ctr::Step::Check) | Step::People(_) | Step::Tick => None,
        }
    }

    fn mofed_said(&self, step: mofed::Step, after: &Self) -> Option<Words> {
        let text = |text: &str| text.to_owned();
        Some(match (self.mofed.phase, after.mofed.phase) {
            (_, Phase::Down) if step == mofed::Step::Kill => ("killed", String::new()),
            (Phase::Stopping, Phase::Down) => ("stopped", String::new()),
            (Phase::WithoutNic, Phase::Down) => ("failed", text("held")),
            (Phase::Listed(_), Phase::Down) => ("failed", text("collision")),
            (_, Phase::Down) => ("failed", text("in use")),
            (Phase::Down, _) => {
                ("begun", text(if self.mofed.entrypoint == Entrypoint::Go { "go" } else { "bash" }))
            }
            (Phase::Begun, Phase::Unmarked) | (Phase::Preparing, Phase::Building) | (_, Phase::Stopping) => {
                ("unmarked", String::new())
            }
            (Phase::Building, Phase::WithoutNic) => ("swap", String::new()),
            (Phase::Mounted, Phase::Ready) => ("ready", text(generation(self.mofed.abi))),
            _ => return None,
        })
    }

    fn driver_said(&self, after: &Self) -> Option<Words> {
        let (before, after_it) = (self.driver.as_ref()?, after.driver.as_ref()?);
        let (from, to) = (before.phase, after_it.phase);
        let waits = !matches!(before.wait, Wait::Nobody) && before.is_waiting();
        match (from, to) {
            (driver::Phase::Loading, _) if !matches!(before.loads, Loads::Gate(_)) => {
                Some(self.answer(after))
            }
            (_, driver::Phase::Ended) => Some(("crashed", "driver".to_owned())),
            (driver::Phase::Building, driver::Phase::Compiling(file)) => {
                Some(("built", format!("pod {}", found(file))))
            }
            _ => (waits && from != to).then(|| ("opened", "pod".to_owned())),
        }
    }

    /// Somebody is about to run modprobe nvidia-peermem.
    pub(crate) fn is_asking(&self) -> bool {
        let calls = |driver: &driver::Driver| {
            driver.phase == driver::Phase::Loading
                && matches!(driver.loads, Loads::Modprobe | Loads::GoesOn | Loads::Retry)
        };
        self.keeper.as_ref().is_some_and(keeper::Keeper::is_asking)
            || self.driver.as_ref().is_some_and(calls)
            || self.peermem_ctr == Some(peermem_ctr::PeermemCtr::Checked)
    }

    /// What modprobe answers.
    fn answer(&self, after: &Self) -> Words {
        let text = match after.node.peermem {
            Some(_) => "0".to_owned(),
            None => format!("1 {}", words(&self.node).0),
        };
        ("answered", text)
    }
}
