// SPDX-License-Identifier: Apache-2.0
//! One attempt to load: modprobe's own plan, the last look, the load, and its proof.

mod cleared;

use cleared::{Against, Cleared};

use super::watch::Watch;
use crate::act::build_dir;
use crate::act::exec::Unrunnable;
use crate::act::system_program::{BrokenOff, OutputMode, Ran, SystemProgram};
use crate::clock::now;
use crate::condition::{ConditionType, Reason, Status};
use crate::gate::Gate;
use crate::judge::plan::{self, ModprobePlan};
use crate::judge::refusal::{Attempt, refusal};
use crate::keep::LoadFailure;
use crate::look::Look;
use crate::observation::{ModuleFile, ModuleInfo, Observation, Offer};
use crate::probe::{self, KernelLog};
use crate::rebuild::record::RefusedVersion;
use crate::time::{BootTime, Seconds};
use crate::verdict::{Condition, Verdict};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The program that loads, and its arguments.
pub(super) struct Loader<'a> {
    /// modprobe is found again if the driver's root has moved since.
    pub(super) modprobe: SystemProgram,
    pub(super) arguments: &'a [OsString],
    pub(super) output: OutputMode,
    /// Called from time to time while modprobe runs: true breaks it off.
    pub(super) is_late: &'a mut dyn FnMut(&Watch) -> bool,
}

/// The result of one attempt.
pub(super) enum Tried {
    Live(String, Option<u8>),
    /// The module is loaded, and MOFED has begun to swap its modules meanwhile: the sign of that.
    Overlapped(String),
    /// The load was refused, and another attempt would be too.
    Refused(Why),
    /// The load failed, and is tried again once every condition is met again.
    Again(Why),
    /// A signal broke it off, and when it came.
    Signal(u8, BootTime),
    /// The load took too long and was broken off; a modprobe that hangs in the kernel still runs there.
    Late(String),
    CannotRun(Unrunnable),
}

/// Why it was not loaded.
pub(super) struct Why {
    pub(super) failure: LoadFailure,
    pub(super) sentence: String,
}

fn refused(failure: LoadFailure, sentence: String) -> Tried {
    Tried::Refused(Why { failure, sentence })
}

fn again(failure: LoadFailure, sentence: String) -> Tried {
    Tried::Again(Why { failure, sentence })
}

impl Loader<'_> {
    pub(super) fn attempt(&mut self, watch: &mut Watch, gate: &Gate) -> Tried {
        if let Some(live) = gate.verdict().and_then(live) {
            return Tried::Live(format!("already loaded: {live}"), None);
        }
        if let Some(root) = found_root(watch).filter(|root| *root != self.modprobe.root()) {
            match self.modprobe.below(root) {
                Ok(modprobe) => self.modprobe = modprobe,
                Err(why) => return again(LoadFailure::NoModprobe, format!("not loaded: {}", why.message)),
            }
        }
        if let Some((why, remedy)) = probe::cannot_load(&watch.node().places, self.modprobe.root()) {
            return refused(LoadFailure::Privilege, format!("not loaded: {why}; what to do: {remedy}"));
        }
        match self.cleared(watch, gate) {
            Ok(cleared) => self.load(watch, gate, &cleared),
            Err(tried) => tried,
        }
    }

    /// The one look that counts: what follows it is the load itself.
    fn cleared(&mut self, watch: &mut Watch, gate: &Gate) -> Result<Cleared, Tried> {
        let plan = self.plan(watch)?;
        let settled = gate.last_look().map(|look| look.identity.clone());
        let Some(before) = look_now(watch, gate) else {
            return Err(again(LoadFailure::LastLook, "the last look was interrupted".to_owned()));
        };
        let objection = watch.seen().and_then(|seen| self.objection(watch, seen, &plan));
        let not_live = watch.seen().and_then(|seen| plan::not_live(&plan, seen));
        if let Some(root) = found_root(watch).filter(|root| *root != self.modprobe.root()) {
            return Err(again(
                LoadFailure::LastLook,
                format!("the driver shows its root at {} now", root.display()),
            ));
        }
        let not_live = not_live.map(str::to_owned);
        Cleared::by(before, settled.as_ref(), plan, Against { objection, not_live })
    }

    fn load(&mut self, watch: &mut Watch, gate: &Gate, cleared: &Cleared) -> Tried {
        let log = KernelLog::from_now();
        tracing::info!("loading: {}", self.modprobe.shown(self.arguments));
        match self.run_modprobe(self.arguments, self.output, watch) {
            Ok(ran) => prove(watch, gate, cleared, &ran, log),
            Err(tried) => tried,
        }
    }

    /// modprobe's own plan.
    fn plan(&mut self, watch: &Watch) -> Result<ModprobePlan, Tried> {
        let mut arguments = vec![OsString::from("--show-depends")];
        arguments.extend(self.arguments.iter().cloned());
        match self.run_modprobe(&arguments, OutputMode::Kept, watch)? {
            Ran { code: 0, stdout, .. } => Ok(plan::read(&stdout)),
            // modprobe was killed, or ended without a message: that is not an answer.
            Ran { code, stderr, .. } if code > 128 || stderr.trim().is_empty() => Err(again(
                LoadFailure::Plan,
                format!("not loaded: modprobe does not say what it would load (it ended with {code})"),
            )),
            ran => Err(refused(
                LoadFailure::Plan,
                format!(
                    "not loaded: modprobe does not say what it would load ({}); what to do: run depmod in the driver's root, and check that its modprobe is kmod's",
                    ran.stderr.lines().last().unwrap_or_default()
                ),
            )),
        }
    }

    fn run_modprobe(
        &mut self,
        arguments: &[OsString],
        output: OutputMode,
        watch: &Watch,
    ) -> Result<Ran, Tried> {
        if let Err(why) = probe::may_run_in(&watch.node().places, self.modprobe.root()) {
            return Err(again(LoadFailure::LastLook, format!("not loaded: {why}")));
        }
        let signals = watch.wakes().signals();
        let begun = now();
        let mut came = begun;
        let ran = self.modprobe.run(arguments, output, signals.fd(), || {
            let signal = signals.take_one().map(BrokenOff::Signal);
            came = now();
            signal.or_else(|| (self.is_late)(watch).then_some(BrokenOff::Late))
        });
        // A driver container may end at any moment, and its root disappears with it.
        let may_go = watch.node().places.finds_driver && self.modprobe.root() != Path::new("/");
        let failed = |why: Unrunnable| {
            if may_go {
                again(LoadFailure::NoModprobe, format!("not loaded: {}", why.message))
            } else {
                Tried::CannotRun(why)
            }
        };
        let ran = ran.map_err(failed)?;
        match ran.broken_off {
            None => Ok(ran),
            Some(BrokenOff::Signal(signal)) => Err(Tried::Signal(signal, came)),
            Some(BrokenOff::Late) => Err(Tried::Late(format!(
                "`{}` has not ended after {}; what to do: read the kernel's log (`dmesg`) to find what it waits for, and reboot the node if it never ends",
                self.modprobe.shown(arguments),
                Seconds(now().saturating_sub(begun))
            ))),
        }
    }

    /// The objection to the load, if there is one.
    fn objection(&self, watch: &Watch, seen: &Observation, plan: &ModprobePlan) -> Option<String> {
        let inspected = file(seen).map(|(path, _)| path)?;
        let root = self.modprobe.root();
        let inspected_in = driver_root(watch);
        plan::objection(plan, inspected, |planned| {
            probe::is_same_file(root, planned, inspected_in, inspected)
        })
    }
}

/// Where the last look found the driver, if it was to find it.
fn found_root<'a>(watch: &'a Watch) -> Option<&'a Path> {
    watch.node().places.finds_driver.then(|| driver_root(watch))
}

/// Where the last look saw the driver's files.
pub(super) fn driver_root<'a>(watch: &'a Watch) -> &'a Path {
    let seen = watch.seen().and_then(|seen| seen.peermem.as_ref());
    seen.map_or(&watch.node().places.driver_root, |peermem| &peermem.root)
}

/// The root in which a program may run now: that of the last look if it is still the driver's, or else the one that
/// was asked for.
pub(super) fn root_to_run_in<'a>(watch: &'a Watch) -> &'a Path {
    let (root, places) = (driver_root(watch), &watch.node().places);
    if probe::may_run_in(places, root).is_ok() { root } else { &places.driver_root }
}

/// One look beside the gate; `None` when a signal or the marker's loss broke it off.
pub(super) fn look_now(watch: &mut Watch, gate: &Gate) -> Option<Look> {
    let look = watch.look(&crate::look::Cause::Timer, None)?;
    Some(gate.believing(look))
}

/// How long it may be unknown whether a successful load made the module live.
const PROOF: Duration = Duration::from_secs(1);

/// Nothing shows that the module is live, or that it is not.
fn is_undecided(look: &Look) -> bool {
    let peermem = look.verdict.get(ConditionType::PeermemUsable);
    peermem.is_some_and(|c| UNDECIDED.contains(&c.reason))
}

const UNDECIDED: [Reason; 3] = [Reason::WitnessesDisagree, Reason::ModuleLoading, Reason::ModulesUnreadable];

/// Whether the module is live now; if not, why.
fn prove(watch: &mut Watch, gate: &Gate, cleared: &Cleared, ran: &Ran, log: KernelLog) -> Tried {
    let kernel_log = log.lines();
    let inspected = watch.seen().and_then(file);
    let is_packed = inspected.is_some_and(|(path, _)| path.extension().is_some_and(|suffix| suffix != "ko"));
    let info = inspected.map(|(_, info)| info.clone());
    let peermem = watch.seen().and_then(|seen| seen.peermem.as_ref());
    let by_headers = peermem.is_some_and(|peermem| matches!(peermem.peer_memory, Offer::Symvers(..)));
    let until = now() + PROOF;
    let after = loop {
        match look_to_the_end(watch, gate) {
            // modprobe has loaded it, but /proc and /sys do not agree yet, or were read while they changed.
            Ok(after) if ran.code == 0 && is_undecided(&after) && now() < until => {}
            Ok(after) => break after,
            Err(tried) => return tried,
        }
        let signals = watch.wakes().signals();
        if let Some(signal) = signals.wait(PROOF / 20).then(|| signals.take_one()).flatten() {
            return Tried::Signal(signal, now());
        }
    };
    if let Some(tried) = shown(cleared.look(), &after, ran.code) {
        return tried;
    }
    let attempt = Attempt {
        code: ran.code,
        stderr: &ran.stderr,
        log: &kernel_log,
        file: info.as_ref(),
        is_packed,
        by_headers,
        others: &cleared.plan().others,
    };
    let why = refusal(&attempt);
    note_refusal(watch, why.symbol.as_deref(), info.as_ref());
    for line in ran.stderr.lines() {
        tracing::info!("modprobe: {line}");
    }
    for line in &why.lines {
        tracing::info!("kernel: {line}");
    }
    let failure = LoadFailure::Errno(why.errno.unwrap_or("Other"));
    if why.transient { again(failure, why.to_string()) } else { refused(failure, format!("refused: {why}")) }
}

/// A file that was judged usable by headers of other modules would be judged so again.
fn note_refusal(watch: &Watch, symbol: Option<&str>, file: Option<&ModuleInfo>) {
    let (Some(symbol), Some(file), Some(seen)) = (symbol, file, watch.seen()) else { return };
    let Some(crc) = file.versions.get(symbol).copied() else { return };
    let pair = probe::pair(&watch.node().places, seen);
    if pair.mofed.is_empty() || pair.nvidia.is_empty() {
        return;
    }
    build_dir::note_refusal(driver_root(watch), &RefusedVersion { pair, symbol: symbol.to_owned(), crc });
}

/// A look that only a signal breaks off: the marker's loss is what it may have to see. Where
/// `nvidia_peermem` can be let go again, that goes before any proof.
fn look_to_the_end(watch: &mut Watch, gate: &Gate) -> Result<Look, Tried> {
    loop {
        if let Some(swap) = watch.swap() {
            return Err(Tried::Overlapped(swap));
        }
        if let Some(look) = look_now(watch, gate) {
            return Ok(look);
        }
        if let Some(signal) = watch.wakes().take_signal() {
            return Err(Tried::Signal(signal, now()));
        }
    }
}

/// The message of a verdict that says it is live already.
fn live(verdict: &Verdict) -> Option<&str> {
    let condition = verdict.get(ConditionType::PeermemUsable)?;
    (condition.reason == Reason::PeermemLive).then_some(condition.message.as_str())
}

fn file(seen: &Observation) -> Option<(&Path, &ModuleInfo)> {
    match &seen.peermem.as_ref()?.file {
        ModuleFile::Read { path, info, .. } => Some((path, info)),
        _ => None,
    }
}

/// The result by a look after modprobe's end; `None` where nothing is loaded and modprobe says so itself.
fn shown(before: &Look, after: &Look, code: u8) -> Option<Tried> {
    let peermem = after.verdict.get(ConditionType::PeermemUsable);
    let is_loaded =
        peermem.is_some_and(|c| matches!(c.reason, Reason::PeermemLive | Reason::LoadedOnGoneStack));
    if is_loaded {
        return Some(match overlapped(before, after) {
            None => {
                let message = peermem.map(|c| c.message.clone()).unwrap_or_default();
                Tried::Live(format!("loaded: {message}"), Some(code))
            }
            Some(how) => Tried::Overlapped(how),
        });
    }
    (code == 0).then(|| {
        refused(
            LoadFailure::Unproven,
            "modprobe reported success, but nvidia_peermem is not live; what to do: look for an install line in modprobe.d, and for a process that unloads it (k8s-driver-manager)"
                .to_owned(),
        )
    })
}

/// The change of MOFED while modprobe ran. A value that cannot be read now has not changed.
fn overlapped(before: &Look, after: &Look) -> Option<String> {
    let mut identity = after.identity.clone();
    // Its own directory is new.
    identity.modules.remove("nvidia_peermem");
    let is_gone = |c: &&Condition| c.status == Status::False && c.reason != Reason::WitnessesDisagree;
    let gone = after.verdict.holding().find(is_gone);
    gone.map(|c| format!("{}: {}", c.r#type, c.message)).or_else(|| before.identity.difference(&identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{FileId, Identity};

    /// With modules of these inodes, below a marker of this one.
    pub(super) fn look(reason: Option<Reason>, marker: u64, modules: &[(&str, u64)]) -> Look {
        let condition = |r#type, reason| Condition::new(r#type, reason, "as the test says");
        let mut conditions = vec![condition(ConditionType::ModulesLive, Reason::AllLive)];
        conditions.extend(reason.map(|reason| condition(ConditionType::MarkerPresent, reason)));
        let modules = modules.iter().map(|(name, inode)| ((*name).to_owned(), *inode)).collect();
        let marker = Some(FileId { device: 1, inode: marker, changed_ns: 0 });
        Look { verdict: Verdict::of(conditions), identity: Identity { marker, modules }, next_build: None }
    }

    /// The same look with the module in this state.
    fn with_peermem(look: Look, reason: Reason) -> Look {
        let condition = Condition::new(ConditionType::PeermemUsable, reason, "as the test says");
        let conditions = look.verdict.conditions.into_iter().chain([condition]).collect();
        Look { verdict: Verdict::of(conditions), ..look }
    }

    #[test]
    fn a_change_while_modprobe_runs_is_an_overlap() {
        let before = look(None, 1, &[("ib_core", 1)]);
        let ends = |after: Look| shown(&before, &with_peermem(after, Reason::PeermemLive), 0);
        let overlap = |after| match ends(after) {
            Some(Tried::Overlapped(how)) => how,
            _ => panic!("no overlap"),
        };
        // Its own directory is new.
        let loaded = ends(look(None, 1, &[("ib_core", 1), ("nvidia_peermem", 9)]));
        assert!(
            matches!(loaded, Some(Tried::Live(message, Some(0))) if message == "loaded: as the test says")
        );
        assert!(overlap(look(None, 1, &[("ib_core", 2), ("nvidia_peermem", 9)])).contains("ib_core"));
        assert!(overlap(look(None, 2, &[("ib_core", 1)])).contains("marker"));
        assert!(overlap(look(Some(Reason::MarkerAbsent), 1, &[("ib_core", 1)])).contains("MarkerPresent"));
        // A value that cannot be read now has not changed.
        let unsure = look(Some(Reason::WitnessesDisagree), 1, &[("ib_core", 1)]);
        assert!(matches!(ends(unsure), Some(Tried::Live(..))));
    }

    #[test]
    fn a_modprobe_that_ends_with_0_does_not_prove_a_load() {
        let before = look(None, 1, &[]);
        let after = with_peermem(look(None, 1, &[]), Reason::Usable);
        let unproven = shown(&before, &after, 0);
        assert!(matches!(unproven, Some(Tried::Refused(why)) if why.failure == LoadFailure::Unproven));
        assert!(shown(&before, &after, 1).is_none(), "modprobe's own words say why");
    }
}
