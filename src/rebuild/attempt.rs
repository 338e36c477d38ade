// SPDX-License-Identifier: Apache-2.0
//! One build of nvidia-peermem: copied, made, judged, confirmed, installed, and proven where modprobe finds it.

use crate::peermem::driver_root;
use crate::peermem::module_file::{NotAModule, SIGNED, build_id_of_file, inspect, unpacked};
use crate::peermem::plan::read as read_plan;
use crate::peermem::store::{LARGEST, StoreEntry, read};
use crate::process::exec::Unrunnable;
use crate::process::system_program::{DEPMOD, Interruption, MODPROBE, OutputMode, Ran, SystemProgram};
use crate::ready::clock::now;
use crate::ready::files::root::resolve;
use crate::ready::gate::Gate;
use crate::ready::look::Look;
use crate::ready::node::below;
use crate::ready::observation::{ModuleFile, Peermem};
use crate::ready::time::{BootTime, Seconds};
use crate::ready::wake::Signals;
use crate::rebuild;
use crate::rebuild::build::{BuildCommand, Built};
use crate::rebuild::build_dir::{BuildDir, Copy};
use crate::rebuild::signing::{CERTIFICATE, KEY};
use crate::rebuild::{
    BuildFailure, Builder, Confirmed, FileProof, JudgedModule, Pair, Plan, RebuildResult, build_dir, ended,
    file_proof, objection, preference, recipe, store,
};
use crate::text::escaped;
use crate::watch::{Watch, look_now};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many of the last lines are shown when a build fails.
const SHOWN: usize = 20;

/// The time for depmod. On a host with thousands of modules and a slow disk it takes seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that it gets once a signal has come.
const SIGNALED: Duration = Duration::from_millis(700);

/// The driver's root and the build's, by device and inode.
type RootIds = [Option<(u64, u64)>; 2];

/// The build, and what it is for.
pub(crate) struct BuildAttempt<'a, 'b> {
    /// How long the build may take.
    pub(crate) limit: Duration,
    /// When everything must end, even a running build.
    pub(crate) deadline: Option<BootTime>,
    /// `PATH`.
    pub(crate) path: Option<&'a OsStr>,
    pub(crate) plan: &'a Plan,
    /// The kernel, nvidia and MOFED that the plan is for.
    pub(crate) pair: &'a Pair,
    /// In the driver's root, for the module and its records.
    pub(crate) build_dir: &'a BuildDir,
    /// In the build's root, for the copy of the sources.
    pub(crate) work_dir: &'a BuildDir,
    pub(crate) watch: &'a mut Watch<'b>,
    pub(crate) gate: &'a Gate,
}

impl BuildAttempt<'_, '_> {
    pub(crate) fn make(&mut self, before: &Look, heartbeat: &mut dyn FnMut(&Watch)) -> RebuildResult {
        let begun = now();
        tracing::info!(
            "rebuilding nvidia-peermem.ko for kernel {}, nvidia {} and this MOFED ({})",
            self.plan.kernel.0,
            self.plan.nvidia_version,
            self.plan.reason
        );
        let sources = match &self.plan.builder {
            Builder::Make { sources, .. } => Some(sources),
            Builder::Program(_) | Builder::Stored(..) => None,
        };
        let roots = self.roots();
        let copy = match self.work_dir.copy(self.plan, sources) {
            Ok(copy) => copy,
            Err(error) => {
                let why = format!("cannot copy the sources: {}", crate::ready::errno::words(&error));
                // The form of the sources does not change by itself.
                let is_form = error.kind() == ErrorKind::InvalidData;
                return if is_form { RebuildResult::Failed(why) } else { RebuildResult::Passing(why) };
            }
        };
        let mut is_stored = false;
        let done = self
            .made(&copy, roots, heartbeat)
            .and_then(|()| self.signed(&copy, heartbeat))
            .and_then(|()| self.judged(&copy))
            .and_then(|judged| {
                is_stored = self.store(&copy, &judged);
                self.confirmed(before, judged)
            })
            .and_then(|confirmed| self.install(&copy, &confirmed));
        // A container that ends takes its root with it: a failure in it says nothing about the next one.
        let is_gone = self.roots() != roots;
        match done {
            Err(RebuildResult::Failed(why) | RebuildResult::Passing(why) | RebuildResult::Swapping(why))
                if is_gone =>
            {
                let stored = if is_stored { ", but the module is stored for the next one" } else { "" };
                RebuildResult::Swapping(format!("the driver's root went away meanwhile{stored}: {why}"))
            }
            Ok(path) => {
                let spent = Seconds(now().saturating_sub(begun));
                RebuildResult::Installed(format!(
                    "rebuilt in {spent}: {} is installed and usable",
                    path.display()
                ))
            }
            Err(ended) => ended,
        }
    }

    /// The module is in the copy: built, or taken from the node's store.
    fn made(
        &self,
        copy: &Copy,
        roots: RootIds,
        heartbeat: &mut dyn FnMut(&Watch),
    ) -> Result<(), RebuildResult> {
        let Builder::Stored(entry, pair) = &self.plan.builder else {
            // The number of a process that has ended goes to another.
            let is_same = self.roots() == roots;
            let gone = || RebuildResult::Swapping("the driver's container went away".to_owned());
            return if is_same { self.build(copy, heartbeat) } else { Err(gone()) };
        };
        tracing::info!("taking the module from {}", entry.display());
        let gone = || RebuildResult::Passing(format!("{} is no longer usable", entry.display()));
        let module = read::module_of(entry, pair).ok_or_else(gone)?;
        std::fs::write(copy.outside.join(recipe::MODULE), module).map_err(|error| {
            RebuildResult::Passing(format!("cannot copy it: {}", crate::ready::errno::words(&error)))
        })
    }

    /// Which roots they are: a container that starts again has others.
    fn roots(&self) -> RootIds {
        [&self.plan.driver_root, &self.plan.build_root].map(|root| driver_root::id(root))
    }

    fn build(&self, copy: &Copy, heartbeat: &mut dyn FnMut(&Watch)) -> Result<(), RebuildResult> {
        self.has_null()?;
        self.run(&self.command(copy), heartbeat)
    }

    /// The module has a signature at its end: its own, or one that is made now.
    fn signed(&self, copy: &Copy, heartbeat: &mut dyn FnMut(&Watch)) -> Result<(), RebuildResult> {
        let Some(signing) = &self.plan.signing else { return Ok(()) };
        let built = copy.outside.join(recipe::MODULE);
        // Where there is no module, that is the fault to name.
        let Some(module) = unpacked(&built, LARGEST) else { return Ok(()) };
        let (false, Some(program)) = (module.ends_with(SIGNED), &signing.program) else { return Ok(()) };
        let open = |name: &str| {
            let path = signing.directory.join(name);
            let closed =
                |error| format!("cannot open {}: {}", path.display(), crate::ready::errno::words(&error));
            signing.open(name).map_err(|error| RebuildResult::Passing(closed(error)))
        };
        let (key, certificate) = (open(KEY)?, open(CERTIFICATE)?);
        let at = |file: &OwnedFd| OsString::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let sign = BuildCommand {
            root: self.plan.build_root.clone(),
            program: program.clone(),
            arguments: vec![
                signing.hash.clone().into(),
                at(&key),
                at(&certificate),
                copy.inside.join(recipe::MODULE).into(),
            ],
            memory: None,
            variables: Vec::new(),
            inherits: false,
        };
        self.run(&sign, heartbeat)
    }

    fn run(&self, build: &BuildCommand, heartbeat: &mut dyn FnMut(&Watch)) -> Result<(), RebuildResult> {
        self.may_run()?;
        let (watch, limit) = (&*self.watch, self.limit);
        let kills = rebuild::probe::memory_kills(&watch.node.places.proc);
        let signals = watch.wakes.signals();
        let until = now() + limit;
        let ran = build.run(signals.fd(), || {
            if let Some(signal) = signals.take_one() {
                return Some(RebuildResult::Signal(signal, now()));
            }
            heartbeat(watch);
            let late = || format!("it has not ended after {}", Seconds(limit));
            let is_late = (now() >= until).then(|| RebuildResult::TimedOut(late()));
            watch
                .swap_begins()
                .map(RebuildResult::Swapping)
                .or(is_late)
                .or_else(|| self.past_deadline().err())
        });
        let Built { code, lines, broken_off } =
            ran.map_err(|Unrunnable { message, .. }| RebuildResult::Passing(message))?;
        if let Some(stopped) = broken_off {
            return Err(stopped);
        }
        if code == 0 {
            return Ok(());
        }
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            tracing::error!("build: {}", escaped(line));
        }
        let end = BuildFailure {
            code,
            lines: &lines,
            free: rebuild::probe::free(&self.plan.build_root),
            was_short_of_memory: rebuild::probe::memory_kills(&watch.node.places.proc) > kills,
        };
        let why = format!("{} {}", build.program.display(), end.how(build.memory));
        Err(if end.passing().is_some() { RebuildResult::Passing(why) } else { RebuildResult::Failed(why) })
    }

    /// /dev/null: NVIDIA's scripts write to it at every step.
    fn has_null(&self) -> Result<(), RebuildResult> {
        let root = &self.plan.build_root;
        let is_there = || resolve(root, &below(root, Path::new("/dev/null"))).is_ok_and(|null| null.exists());
        if matches!(self.plan.builder, Builder::Program(_)) || is_there() {
            return Ok(());
        }
        let why = format!("there is no /dev/null below {}; what to do: mount /dev there", root.display());
        Err(RebuildResult::Passing(why))
    }

    fn past_deadline(&self) -> Result<(), RebuildResult> {
        match self.deadline {
            Some(deadline) if now() >= deadline => {
                Err(RebuildResult::Deadline("the deadline passed before the build ended".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn command(&self, copy: &Copy) -> BuildCommand {
        let memory = rebuild::probe::build_memory();
        match &self.plan.builder {
            Builder::Make { make, .. } => BuildCommand {
                root: self.plan.build_root.clone(),
                program: make.clone(),
                arguments: self.plan.arguments(&copy.inside),
                memory: memory.map(|memory| memory / self.plan.jobs.max(1) as u64),
                variables: vec![("TMPDIR", copy.inside.join("tmp").into())],
                inherits: false,
            },
            Builder::Program(program) => BuildCommand {
                root: "/".into(),
                program: program.clone(),
                arguments: Vec::new(),
                memory,
                variables: self.variables(copy),
                inherits: true,
            },
            Builder::Stored(entry, _) => unreachable!("{} is not built", entry.display()),
        }
    }

    /// The environment of the user's program.
    fn variables(&self, copy: &Copy) -> Vec<(&'static str, OsString)> {
        let plan = self.plan;
        // Below /proc/self another process has other paths.
        let outside = below(&plan.driver_root, &copy.inside);
        let symvers = outside.join(recipe::OFA).join(&plan.kernel.0).join("Module.symvers");
        let headers = below(&plan.driver_root, &Path::new("/lib/modules").join(&plan.kernel.0).join("build"));
        vec![
            ("PEERMEM_GATE_KERNEL", plan.kernel.0.clone().into()),
            ("PEERMEM_GATE_ARCH", plan.kernel.1.clone().into()),
            ("PEERMEM_GATE_HEADERS", headers.into()),
            ("PEERMEM_GATE_SYMVERS", plan.symvers.0.clone().into()),
            ("PEERMEM_GATE_NVIDIA_SYMVERS", symvers.into()),
            ("PEERMEM_GATE_NVIDIA_VERSION", plan.nvidia_version.clone().into()),
            ("PEERMEM_GATE_DRIVER_ROOT", plan.driver_root.clone().into()),
            ("PEERMEM_GATE_REASON", plan.reason.to_string().into()),
            ("PEERMEM_GATE_OUT", outside.join(recipe::MODULE).into()),
        ]
    }

    /// The built module, judged as every other file is.
    fn judged(&self, copy: &Copy) -> Result<JudgedModule, RebuildResult> {
        let built = copy.outside.join(recipe::MODULE);
        let failed = |why: String| RebuildResult::Failed(format!("the build reported success, but {why}"));
        if !built.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(failed(format!("it did not write {}", recipe::MODULE)));
        }
        let info = inspect(&built, &mut || false).map_err(|why| match why {
            NotAModule::Unreadable(why) | NotAModule::Damaged(why) => {
                failed(format!("its {} is not a module: {}", recipe::MODULE, why.why))
            }
        })?;
        let seen = self.watch.seen().ok_or_else(|| failed("the node cannot be examined".to_owned()))?;
        let objection = objection(&self.watch.node.expected, seen, &info);
        if let Some((_, message)) = objection.as_ref().filter(|(reason, _)| !reason.needs_rebuild()) {
            return Err(RebuildResult::Passing(format!("no build cures this: {message}")));
        }
        let objection = objection.map(|(reason, message)| format!("{reason}: {message}"));
        JudgedModule::by(info, &self.plan.nvidia_version, |_| objection).map_err(failed)
    }

    /// Puts what was built here into the node's store, before it is installed: the root that it was built for may be
    /// gone by now.
    fn store(&self, copy: &Copy, judged: &JudgedModule) -> bool {
        let place = self.watch.node.places.store.as_deref().and_then(Path::parent);
        let Some(place) = place.filter(|_| !matches!(self.plan.builder, Builder::Stored(..))) else {
            return false;
        };
        let built = copy.outside.join(recipe::MODULE);
        let Some(module) = unpacked(&built, LARGEST) else { return false };
        let build_id = judged.info().build_id.clone().unwrap_or_default();
        let entry = StoreEntry::new(self.pair.clone(), self.plan.nvidia.1.clone(), build_id, &module);
        // The store's writer warns where nothing can be stored.
        store::put(place, &entry, &module).is_ok()
    }

    fn confirmed(&mut self, before: &Look, judged: JudgedModule) -> Result<Confirmed, RebuildResult> {
        let Some(after) = look_now(self.watch, self.gate) else {
            return match self.watch.wakes.take_signal() {
                Some(signal) => Err(RebuildResult::Signal(signal, now())),
                None => Err(RebuildResult::Swapping("the last look was interrupted".to_owned())),
            };
        };
        match self.watch.swap_begins() {
            Some(how) => Err(RebuildResult::Swapping(how)),
            None => judged.confirmed(before, &after).map_err(RebuildResult::Swapping),
        }
    }

    /// The installed module: in its place, in modules.dep, and judged there.
    fn install(&mut self, copy: &Copy, module: &Confirmed) -> Result<PathBuf, RebuildResult> {
        self.past_deadline()?;
        self.may_run()?;
        let built = copy.outside.join(recipe::MODULE);
        let build_id =
            module.info().build_id.clone().or_else(|| build_id_of_file(&built)).unwrap_or_default();
        let release = self.plan.kernel.0.clone();
        self.build_dir.install(&built, &build_id, self.pair, &self.plan.nvidia.0).map_err(|error| {
            RebuildResult::Passing(format!(
                "cannot install {}: {}",
                self.plan.target().display(),
                crate::ready::errno::words(&error)
            ))
        })?;
        let listed = self.depmod();
        let is_listed = listed.is_ok();
        if let Some(signal) = self.watch.wakes.signals().first() {
            // There is no time for another program: the next look judges the file.
            return Err(RebuildResult::Signal(signal, now()));
        }
        let proven = listed.and_then(|()| self.is_found());
        // The file was judged and confirmed: once it is listed, it is removed only if it is itself at fault.
        let is_at_fault = |stopped: &RebuildResult| !is_listed || matches!(stopped, RebuildResult::Failed(_));
        proven.inspect_err(|stopped| {
            if is_at_fault(stopped) && matches!(self.build_dir.remove(&release), Ok(true)) {
                let _ = self.depmod();
            }
        })
    }

    fn depmod(&self) -> Result<(), RebuildResult> {
        depmod(&self.plan.driver_root, &self.plan.kernel.0, self.path, self.watch)
            .map_err(RebuildResult::Passing)
    }

    /// modprobe itself says which file it would load.
    fn is_planned(&self) -> Result<(), RebuildResult> {
        self.may_run()?;
        let root = &self.plan.driver_root;
        let unrunnable = |why: Unrunnable| RebuildResult::Passing(why.message);
        let modprobe = SystemProgram::find(&MODPROBE, root, self.path, None).map_err(unrunnable)?;
        // An install line names no file; `load` judges what it runs.
        let arguments = ["--ignore-install", "--show-depends", "nvidia-peermem"].map(OsString::from);
        let signals = self.watch.wakes.signals();
        let is_late = time_limit(signals, now());
        let ran = modprobe.run(&arguments, OutputMode::Kept, signals.fd(), is_late).map_err(unrunnable)?;
        if ran.broken_off.is_some() || ran.code != 0 {
            let last = ran.stderr.trim_end().lines().last().unwrap_or("it gives no reason");
            let why = format!("modprobe --show-depends {}: {}", ended(ran.code), escaped(last));
            return Err(self.unproven(&why));
        }
        let planned = read_plan(&ran.stdout).file;
        let target = below(root, &self.plan.target());
        match planned.as_deref() {
            Some(planned) if driver_root::is_same_file(root, planned, root, &target) => Ok(()),
            planned => Err(not_ours(planned)),
        }
    }

    fn is_found(&mut self) -> Result<PathBuf, RebuildResult> {
        let target = below(&self.plan.driver_root, &self.plan.target());
        let look = look_now(self.watch, self.gate);
        let Some(look) = look else { return Err(self.unproven("the last look was interrupted")) };
        let seen = self.watch.seen().and_then(|seen| seen.peermem.as_ref());
        let found = match seen.map(|peermem| &peermem.file) {
            Some(ModuleFile::Read { path, .. }) => path.clone(),
            _ => PathBuf::new(),
        };
        let is_loaded = seen.is_some_and(Peermem::is_rebuilt_loaded);
        let same = |path: &Path| path.metadata().ok().map(|m| std::os::unix::fs::MetadataExt::ino(&m));
        let is_ours = found == target || same(&found).is_some() && same(&found) == same(&target);
        match file_proof(&look, is_ours, is_loaded) {
            FileProof::Usable => self.is_planned().map(|()| target),
            FileProof::Loaded => Ok(target),
            FileProof::Another => Err(not_ours(Some(&found))),
            FileProof::Faulty(why) => Err(RebuildResult::Failed(why)),
            FileProof::Unknown(why) => Err(self.unproven(&why)),
        }
    }

    /// The file is in its place, but the proof failed, which is no fault of the file.
    fn unproven(&self, why: &str) -> RebuildResult {
        let target = self.plan.target();
        RebuildResult::Passing(format!("{} is installed, but not proven: {why}", target.display()))
    }

    /// Whether the driver's root is still the same: a build takes minutes.
    fn may_run(&self) -> Result<(), RebuildResult> {
        let places = &self.watch.node.places;
        driver_root::may_run_in(places, &self.plan.driver_root)
            .map_err(|why| RebuildResult::Passing(why.to_string()))
    }
}

/// Another file comes before ours, in spite of our line for depmod.
fn not_ours(file: Option<&Path>) -> RebuildResult {
    let file = file.map_or_else(|| "no file of nvidia-peermem".to_owned(), |file| file.display().to_string());
    RebuildResult::Failed(format!(
        "modprobe would still load {file}; what to do: remove other lines `override nvidia-peermem` in {}, and make it writable",
        preference::DEPMOD
    ))
}

/// Breaks off a depmod or modprobe that takes too long. A signal waits for it a little: a file without its line in
/// modules.dep is not found.
fn time_limit(signals: &Signals, begun: BootTime) -> impl FnMut() -> Option<Interruption> {
    let mut signaled = None;
    move || {
        signaled = signaled.or_else(|| signals.first().map(|_| now() + SIGNALED));
        (now() >= begun + LIMIT || signaled.is_some_and(|until| now() >= until)).then_some(Interruption::Late)
    }
}

/// Runs depmod for this kernel in that root.
pub(crate) fn depmod(
    root: &Path,
    release: &str,
    path: Option<&std::ffi::OsStr>,
    watch: &Watch,
) -> Result<(), String> {
    driver_root::may_run_in(&watch.node.places, root).map_err(|why| why.to_string())?;
    let depmod = SystemProgram::find(&DEPMOD, root, path, None).map_err(|why| why.message)?;
    let begun = now();
    let signals = watch.wakes.signals();
    let is_late = time_limit(signals, begun);
    let ran = depmod.run(&[release.into()], OutputMode::Kept, signals.fd(), is_late);
    match ran {
        Ok(Ran { code: 0, .. }) => {
            build_dir::flush_index(root, release);
            Ok(())
        }
        Ok(Ran { broken_off: Some(_), .. }) => {
            Err(format!("depmod has not ended after {}", Seconds(now().saturating_sub(begun))))
        }
        Ok(ran) => {
            let last = ran.stderr.trim_end().lines().last().unwrap_or("it gives no reason");
            Err(format!("depmod {}: {}", ended(ran.code), escaped(last)))
        }
        Err(why) => Err(why.message),
    }
}
