// SPDX-License-Identifier: Apache-2.0
//! One rebuild by `load` or `keep`, in the steps between which others can act: the plan, the build, the confirmation
//! and the install. `peermem_gate::rebuild` plans, confirms, proves, and says what follows.

use super::eyes::{Eyes, Seen, info, material, planned_for};
use super::laws::Fault;
use super::memory::Moment;
use super::node::{Abi, File, Stored};
use super::{Budget, Life, Pace, age};
use peermem_gate::peermem::judge::shadowed;
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::gate::Gate;
use peermem_gate::ready::look::Look;
use peermem_gate::ready::time::BootTime;
use peermem_gate::rebuild::{Builder, FileProof, JudgedModule, RebuildResult, file_proof, objection, plan};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// make ends after this at the latest, in a search.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// A build under way, and what it was planned with.
#[derive(Clone, Debug)]
pub(crate) struct Building {
    seen: Arc<Seen>,
    before: Look,
    /// The release that was loaded, and the one whose symbols make was given.
    loaded: Option<Abi>,
    abi: Abi,
    since: BootTime,
    /// A person asked for it.
    is_asked: bool,
}

/// How far a rebuild is.
#[derive(Clone, Debug)]
pub(crate) enum Rebuild {
    /// make runs.
    Building(Box<Building>),
    /// The module is judged, and confirmed on the node as it is.
    Confirmed { loaded: Option<Abi>, abi: Abi },
}

impl Rebuild {
    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        match self {
            Self::Building(building) => {
                let Building { seen: _, before, loaded, abi, since, is_asked } = building.as_ref();
                (format!("{:?}", before.identity), loaded, abi).hash(state);
                (moment.age(*since, Duration::MAX), is_asked).hash(state);
            }
            Self::Confirmed { loaded, abi } => (loaded, abi).hash(state),
        }
    }
}

/// How make ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Make {
    Builds,
    /// By an error of its own: the next would end the same.
    Fails,
    /// The compiler was killed, say.
    Breaks,
}

/// The next moment of a rebuild.
pub(crate) enum Next {
    Goes(Rebuild),
    Ends(RebuildResult),
}

/// The first step, which the owner takes as soon as its gate says so.
pub(crate) fn begins(life: &mut Life, gate: &Gate, eyes: Eyes, is_asked: bool) -> Next {
    let mut seen = eyes.look(&life.node);
    let is_shadowed = gate.with_accepted(seen.look.clone()).verdict.needs_rebuild()
        && shadowed(&seen.expected, &seen.observation).is_some();
    if is_shadowed {
        life.node.files.rebuilt = None;
        seen = eyes.look(&life.node);
        let usable = seen.look.verdict.get(ConditionType::PeermemUsable);
        if usable.is_some_and(|c| c.reason == Reason::Usable) {
            return Next::Ends(RebuildResult::Undone("removed".to_owned()));
        }
    }
    let before = gate.with_accepted(seen.look.clone());
    let mut material = material(&life.node);
    material.tried = material.tried.filter(|_| !is_asked);
    match plan(None, &before.verdict, &seen.observation, &material) {
        Err(obstacle) => Next::Ends(RebuildResult::Refused(obstacle)),
        Ok(plan) => {
            let loaded = life.node.live_abi();
            let abi = match (&plan.builder, life.node.stored) {
                (Builder::Stored(..), Some(stored)) => {
                    if !life.node.fits_stored(stored) {
                        life.fails(Fault::OtherStored);
                    }
                    stored.abi
                }
                _ => planned_for(&plan.symvers.1),
            };
            let building = Building { seen, before, loaded, abi, since: life.now, is_asked };
            Next::Goes(Rebuild::Building(Box::new(building)))
        }
    }
}

impl Rebuild {
    /// make runs.
    pub(crate) fn is_building(&self) -> bool {
        matches!(self, Self::Building(_))
    }

    /// make will not run any longer than that; and what follows it comes at once after the last step.
    pub(crate) fn latest(&self, acted: BootTime, pace: &Pace) -> Option<BootTime> {
        match self {
            Self::Building(building) => Some(building.since + pace.make.1?),
            Self::Confirmed { .. } => Some(acted + pace.lag),
        }
    }

    /// make may end at this time.
    pub(crate) fn due(&self, pace: &Pace) -> Option<BootTime> {
        match self {
            Self::Building(building) => Some(building.since + pace.make.0),
            Self::Confirmed { .. } => None,
        }
    }

    /// A look while make runs, which is ended if MOFED swaps its modules; the end of make; or the install.
    pub(crate) fn goes_on(
        self,
        life: &mut Life,
        gate: &Gate,
        eyes: Eyes,
        was_marked: bool,
        make: Option<Make>,
    ) -> Next {
        match (self, make) {
            (Self::Confirmed { loaded, abi }, _) => Next::Ends(installed(life, loaded, abi, gate, eyes)),
            (Self::Building(building), None) => match eyes.look(&life.node).glimpse(was_marked).swap {
                Some(swap) => Next::Ends(RebuildResult::Swapping(swap)),
                None => Next::Goes(Self::Building(building)),
            },
            (Self::Building(building), Some(Make::Builds)) => {
                building.confirmed(life, gate, eyes, was_marked)
            }
            (Self::Building(_), Some(Make::Breaks)) => {
                life.budget.mishaps -= 1;
                Next::Ends(RebuildResult::Passing("make was ended by SIGKILL".to_owned()))
            }
            (Self::Building(building), Some(Make::Fails)) => {
                life.budget.failures -= 1;
                building.failed(life, "make ended with 2".to_owned())
            }
        }
    }

    /// The ways in which make may end now.
    pub(crate) fn ends(&self, life: &Life) -> Vec<Make> {
        let Self::Building(building) = self else { return Vec::new() };
        if age(building.since, life.now) < life.pace.make.0 {
            return Vec::new();
        }
        let Budget { failures, mishaps, .. } = life.budget;
        let may = [(Make::Builds, true), (Make::Fails, failures > 0), (Make::Breaks, mishaps > 0)];
        may.into_iter().filter(|(_, may)| *may).map(|(make, _)| make).collect()
    }
}

impl Building {
    /// The build's own end: it leaves a record for the MOFED that it was planned for.
    fn failed(&self, life: &mut Life, why: String) -> Next {
        if self.loaded.is_some() && life.node.files.tried == self.loaded && !self.is_asked {
            life.fails(Fault::BuiltAgain);
        }
        life.node.files.tried = self.loaded;
        Next::Ends(RebuildResult::Failed(why))
    }

    /// The module is judged by the look before the build, and confirmed by one after it.
    fn confirmed(self, life: &mut Life, gate: &Gate, eyes: Eyes, was_marked: bool) -> Next {
        let built = info(&life.node, File::Built(self.abi), true);
        let objection = objection(&self.seen.expected, &self.seen.observation, &built);
        if let Some((_, message)) = objection.as_ref().filter(|(reason, _)| !reason.needs_rebuild()) {
            return Next::Ends(RebuildResult::Passing(format!("no build cures this: {message}")));
        }
        let version = built.version.clone().unwrap_or_default();
        let judged = match JudgedModule::by(built, &version, |_| objection.map(|(_, message)| message)) {
            Ok(judged) => judged,
            Err(why) => return self.failed(life, why),
        };
        // The root that it was built for may be gone before it is installed.
        if let Some(stored) = &mut life.node.stored {
            *stored = Stored { abi: self.abi, is_damaged: false, is_of_nvidia: true };
        }
        let is_unready = life.is_visibly_unready(eyes, true);
        let seen = eyes.look(&life.node);
        if let Some(how) = seen.glimpse(was_marked).swap {
            return Next::Ends(RebuildResult::Swapping(how));
        }
        if let Err(how) = judged.confirmed(&self.before, &gate.with_accepted(seen.look.clone())) {
            return Next::Ends(RebuildResult::Swapping(how));
        }
        if is_unready {
            life.fails(Fault::InstallIntoSwap);
        }
        if eyes.sees_mofeds_files && life.node.live_abi() != Some(self.abi) {
            life.fails(Fault::OtherHeaders);
        }
        Next::Goes(Rebuild::Confirmed { loaded: self.loaded, abi: self.abi })
    }
}

/// The file is in its place. A look says whether it would load; by a fault of its own it is removed again.
fn installed(life: &mut Life, loaded: Option<Abi>, abi: Abi, gate: &Gate, eyes: Eyes) -> RebuildResult {
    life.node.files.rebuilt = Some(abi);
    let look = gate.with_accepted(eyes.look(&life.node).look.clone());
    match file_proof(&look, true, life.node.is_rebuilt_loaded) {
        FileProof::Usable | FileProof::Loaded => {
            life.node.files.tried = None;
            RebuildResult::Installed("rebuilt".to_owned())
        }
        FileProof::Another | FileProof::Faulty(_) => {
            (life.node.files.rebuilt, life.node.files.tried) = (None, loaded);
            RebuildResult::Failed("modprobe would still load another file".to_owned())
        }
        FileProof::Unknown(why) => RebuildResult::Passing(format!("installed, but not proven: {why}")),
    }
}
