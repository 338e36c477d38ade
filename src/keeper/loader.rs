// SPDX-License-Identifier: Apache-2.0
//! One attempt to load: modprobe's own plan, the last look, the load, and its proof.

use crate::keeper::attempt::{
    LoadFailure, LoadPermit, LoadResult, OTHER, PROOF, PlanObjections, is_undecided, live, shown,
};
use crate::keeper::kmsg::KernelLog;
use crate::peermem::plan::ModprobePlan;
use crate::peermem::record::RefusedVersion;
use crate::peermem::refusal::{Attempt, refusal};
use crate::peermem::{driver_root, keeper_line, modprobe_conf, pair, plan};
use crate::process::exec::Unrunnable;
use crate::process::privilege;
use crate::process::system_program::{Interruption, OutputMode, Ran, SystemProgram};
use crate::ready::clock::now;
use crate::ready::gate::Gate;
use crate::ready::look::Look;
use crate::ready::observation::{ModuleFile, ModuleInfo, Observation, Offer};
use crate::ready::time::Seconds;
use crate::rebuild::{build_dir, store};
use crate::watch::{Watch, look_now};
use std::ffi::OsString;
use std::path::Path;

/// The program that loads, and its arguments.
pub(crate) struct Loader<'a> {
    /// modprobe is found again if the driver's root has moved since.
    pub(crate) modprobe: SystemProgram,
    pub(crate) arguments: &'a [OsString],
    pub(crate) output: OutputMode,
    /// Called from time to time while modprobe runs: true breaks it off.
    pub(crate) is_late: &'a mut dyn FnMut(&Watch) -> bool,
}

impl Loader<'_> {
    pub(crate) fn attempt(&mut self, watch: &mut Watch, gate: &Gate) -> LoadResult {
        // As nvidia-peermem-ctr does: a modprobe would fail on the fast path (gpu-driver-container#683).
        if let Some(live) = gate.verdict().and_then(live) {
            return LoadResult::Live(format!("already loaded: {live}"), None);
        }
        if let Some(root) = found_root(watch).filter(|root| *root != self.modprobe.root()) {
            match self.modprobe.below(root) {
                Ok(modprobe) => self.modprobe = modprobe,
                Err(why) => {
                    return LoadResult::again(
                        LoadFailure::NoModprobe,
                        format!("not loaded: {}", why.message),
                    );
                }
            }
        }
        if let Some((why, remedy)) = privilege::cannot_load(&watch.node.places, self.modprobe.root()) {
            return LoadResult::refused(
                LoadFailure::Privilege,
                format!("not loaded: {why}; what to do: {remedy}"),
            );
        }
        match self.cleared(watch, gate) {
            Ok(cleared) => self.load(watch, gate, &cleared),
            Err(tried) => tried,
        }
    }

    /// The one look that counts: what follows it is the load itself.
    fn cleared(&mut self, watch: &mut Watch, gate: &Gate) -> Result<LoadPermit, LoadResult> {
        let plan = self.plan(watch)?;
        let settled = gate.last_look().map(|look| look.identity.clone());
        let Some(before) = look_now(watch, gate) else {
            return Err(LoadResult::again(LoadFailure::LastLook, "the last look was interrupted".to_owned()));
        };
        let objection = watch.seen().and_then(|seen| self.objection(watch, seen, &plan));
        let not_live = watch.seen().and_then(|seen| plan::not_live(&plan, seen));
        if let Some(root) = found_root(watch).filter(|root| *root != self.modprobe.root()) {
            return Err(LoadResult::again(
                LoadFailure::LastLook,
                format!("the driver shows its root at {} now", root.display()),
            ));
        }
        let not_live = not_live.map(str::to_owned);
        LoadPermit::by(before, settled.as_ref(), plan, PlanObjections { objection, not_live })
    }

    fn load(&mut self, watch: &mut Watch, gate: &Gate, cleared: &LoadPermit) -> LoadResult {
        let log = KernelLog::from_now();
        let arguments = self.arguments_beside(watch);
        tracing::info!("loading: {}", self.modprobe.shown(&arguments));
        match self.run_modprobe(&arguments, self.output, watch) {
            Ok(ran) => {
                // A load that has had its time is proved, whatever the deadline.
                watch.deadline = None;
                prove(watch, gate, cleared, &ran, log)
            }
            Err(tried) => tried,
        }
    }

    /// The arguments, with an option that passes over the line by which a keeper owns the module. Beside another
    /// install line nothing is passed over: modprobe's plan shows that line, and it is refused.
    fn arguments_beside(&self, watch: &Watch) -> Vec<OsString> {
        // Not as the last look saw them: a keeper writes its line when the driver's script begins.
        let given = modprobe_conf::given(self.modprobe.root(), &watch.node.places.proc, "nvidia_peermem");
        let mut lines = given.install.iter();
        let is_owned = lines.len() > 0 && lines.all(|line| keeper_line::is_keepers(&line.text));
        is_owned
            .then(|| "--ignore-install".into())
            .into_iter()
            .chain(self.arguments.iter().cloned())
            .collect()
    }

    /// modprobe's own plan.
    fn plan(&mut self, watch: &Watch) -> Result<ModprobePlan, LoadResult> {
        let mut arguments = vec![OsString::from("--show-depends")];
        arguments.extend(self.arguments_beside(watch));
        match self.run_modprobe(&arguments, OutputMode::Kept, watch)? {
            Ran { code: 0, stdout, .. } => Ok(plan::read(&stdout)),
            // modprobe was killed, or ended without a message: that is not an answer.
            Ran { code, stderr, .. } if code > 128 || stderr.trim().is_empty() => Err(LoadResult::again(
                LoadFailure::Plan,
                format!("not loaded: modprobe does not say what it would load (it ended with {code})"),
            )),
            ran => Err(LoadResult::refused(
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
    ) -> Result<Ran, LoadResult> {
        if let Err(why) = driver_root::may_run_in(&watch.node.places, self.modprobe.root()) {
            return Err(LoadResult::again(LoadFailure::LastLook, format!("not loaded: {why}")));
        }
        let signals = watch.wakes.signals();
        let begun = now();
        let mut came = begun;
        let ran = self.modprobe.run(arguments, output, signals.fd(), || {
            let signal = signals.take_one().map(Interruption::Signal);
            came = now();
            signal.or_else(|| (self.is_late)(watch).then_some(Interruption::Late))
        });
        // A driver container may end at any moment, and its root disappears with it.
        let may_go = watch.node.places.finds_driver && self.modprobe.root() != Path::new("/");
        let failed = |why: Unrunnable| {
            if may_go {
                LoadResult::again(LoadFailure::NoModprobe, format!("not loaded: {}", why.message))
            } else {
                LoadResult::CannotRun { exit: why.exit, message: why.message }
            }
        };
        let ran = ran.map_err(failed)?;
        match ran.broken_off {
            None => Ok(ran),
            Some(Interruption::Signal(signal)) => Err(LoadResult::Signal(signal, came)),
            Some(Interruption::Late) => Err(LoadResult::Late(format!(
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
            driver_root::is_same_file(root, planned, inspected_in, inspected)
        })
    }
}

/// Where the last look found the driver, if it was to find it.
fn found_root<'a>(watch: &'a Watch) -> Option<&'a Path> {
    watch.node.places.finds_driver.then(|| driver_root(watch))
}

/// Where the last look saw the driver's files.
pub(crate) fn driver_root<'a>(watch: &'a Watch) -> &'a Path {
    let seen = watch.seen().and_then(|seen| seen.peermem.as_ref());
    seen.map_or(&watch.node.places.driver_root, |peermem| &peermem.root)
}

/// The root in which a program may run now: that of the last look if it is still the driver's, or else the one that
/// was asked for.
pub(crate) fn root_to_run_in<'a>(watch: &'a Watch) -> &'a Path {
    let (root, places) = (driver_root(watch), &watch.node.places);
    if driver_root::may_run_in(places, root).is_ok() { root } else { &places.driver_root }
}

/// Whether the module is live now; if not, why.
fn prove(watch: &mut Watch, gate: &Gate, cleared: &LoadPermit, ran: &Ran, log: KernelLog) -> LoadResult {
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
        let signals = watch.wakes.signals();
        if let Some(signal) = signals.wait(PROOF / 20).then(|| signals.take_one()).flatten() {
            return LoadResult::Signal(signal, now());
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
    let failure = LoadFailure::Errno(why.errno.unwrap_or(OTHER));
    if why.transient {
        LoadResult::again(failure, why.to_string())
    } else {
        LoadResult::refused(failure, format!("refused: {why}"))
    }
}

/// A file that was judged usable by headers of other modules would be judged so again.
fn note_refusal(watch: &Watch, symbol: Option<&str>, file: Option<&ModuleInfo>) {
    let (Some(symbol), Some(file), Some(seen)) = (symbol, file, watch.seen()) else { return };
    let Some(crc) = file.versions.get(symbol).copied() else { return };
    let pair = pair::pair(&watch.node.places, seen);
    if pair.mofed.is_empty() || pair.nvidia.is_empty() {
        return;
    }
    if let Some(store) = &watch.node.places.store {
        store::forget(store, &pair);
    }
    build_dir::note_refusal(driver_root(watch), &RefusedVersion { pair, symbol: symbol.to_owned(), crc });
}

/// A look that only a signal breaks off: the marker's loss is what it may have to see. Where
/// `nvidia_peermem` can be let go again, that goes before any proof.
fn look_to_the_end(watch: &mut Watch, gate: &Gate) -> Result<Look, LoadResult> {
    loop {
        if let Some(swap) = watch.swap() {
            return Err(LoadResult::Overlapped(swap));
        }
        if let Some(look) = look_now(watch, gate) {
            return Ok(look);
        }
        if let Some(signal) = watch.wakes.take_signal() {
            return Err(LoadResult::Signal(signal, now()));
        }
    }
}

fn file(seen: &Observation) -> Option<(&Path, &ModuleInfo)> {
    let ModuleFile::Read { path, info, .. } = &seen.peermem.as_ref()?.file else { return None };
    Some((path, info))
}
