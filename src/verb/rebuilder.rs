// SPDX-License-Identifier: Apache-2.0
//! One rebuild of nvidia-peermem, from the plan to the file that modprobe finds. What `load`, the shim, `keep` and
//! `rebuild` have in common; [`crate::rebuild`] decides.

use super::attempt::look_now;
use super::toolkit;
use super::watch::Watch;
use crate::act::build::{BuildCommand, Built};
use crate::act::build_dir::{self, BuildDir, Closed, Copy};
use crate::act::exec::Unrunnable;
use crate::act::modprobe::{BrokenOff, Modprobe, OutputMode, Ran};
use crate::cli::Rebuild;
use crate::clock::now;
use crate::condition::{ConditionType, Reason};
use crate::environment::{Variables, value_of};
use crate::files::read::record;
use crate::files::root::resolve;
use crate::gate::Gate;
use crate::judge::{self, judge};
use crate::look::Look;
use crate::module_file::build_id_of_file;
use crate::module_file::{NotAModule, inspect};
use crate::node::{Node, Places, below};
use crate::observation::{ModuleFile, ModuleInfo, Observation};
use crate::probe;
use crate::rebuild::record::FailedBuild;
use crate::rebuild::{
    Builder, Conclusion, Confirmed, FailedEnd, JudgedModule, Kind, Material, Obstacle, Pair, Plan, ended,
    is_all_that_is_missing, plan, recipe,
};
use crate::text::escaped;
use crate::time::{BootTime, Seconds};
use crate::verdict::Verdict;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many of the last lines are shown when a build fails.
const SHOWN: usize = 20;

/// For `doctor`, which writes nothing: whether a rebuild is possible where it is the cure. The driver's root, or what
/// is in the way.
///
/// # Errors
/// The first obstacle.
pub fn possible(places: &Places, seen: &Observation, verdict: &Verdict) -> Result<PathBuf, Obstacle> {
    let plan = plan(None, verdict, seen, &material(places, seen))?;
    let on_host = plan.driver_root.strip_prefix(&places.root).unwrap_or(&plan.driver_root);
    Ok(Path::new("/").join(on_host))
}

/// The verdict with a remedy that knows whether a rebuild is possible here, where it is the cure. What a person can
/// remove on the way leaves the question to `rebuild --dry-run`.
pub(super) fn knowing_rebuild(node: &Node, seen: &Observation, verdict: Verdict) -> Verdict {
    if !is_all_that_is_missing(&verdict) {
        return verdict;
    }
    match possible(&node.places, seen, &verdict) {
        Err(obstacle) if obstacle.kind.is_removable() => verdict,
        possible => judge::knowing_rebuild(verdict, &node.expected, seen, possible.is_ok()),
    }
}

fn material(places: &Places, seen: &Observation) -> Material {
    let mut material = probe::material(places, seen);
    let (root, release) = (material.driver_root.as_path(), seen.kernel.release.as_str());
    material.foreign = build_dir::foreign(root, release);
    material.tried = match record::<FailedBuild>(root, release) {
        Ok(tried) => tried.filter(|tried| tried.pair == material.pair).map(|tried| tried.why),
        // An attempt too many costs seconds, and its own record takes this one's place.
        Err(why) => {
            tracing::warn!("whether a build failed before is unknown: {why}");
            None
        }
    };
    material
}

/// The result of a rebuild.
#[derive(Debug)]
pub(super) enum RebuildEnd {
    /// A usable file is installed.
    Installed(String),
    /// The driver toolkit builds again.
    Ordered(String),
    Refused(Obstacle),
    /// For good, as long as MOFED, nvidia and the kernel are the same.
    Failed(String),
    /// The build had all of its time.
    TimedOut(String),
    /// A failure whose cause passes: worth another attempt.
    Passing(String),
    /// The deadline of all came before its end.
    Deadline(String),
    /// MOFED began to swap its modules.
    Swapping(String),
    /// A signal came, and when.
    Signal(u8, BootTime),
}

impl RebuildEnd {
    pub(super) fn conclusion(&self) -> Conclusion {
        match self {
            Self::Installed(_) => Conclusion::Installed,
            Self::Ordered(_) => Conclusion::Ordered,
            Self::Refused(_) => Conclusion::Refused,
            Self::Failed(_) | Self::Passing(_) => Conclusion::Failed,
            Self::TimedOut(_) => Conclusion::TimedOut,
            Self::Deadline(_) | Self::Swapping(_) | Self::Signal(..) => Conclusion::BrokenOff,
        }
    }

    /// The result and its remedy, in words.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Installed(message) | Self::Ordered(message) => message.clone(),
            Self::Refused(obstacle) => format!("not rebuilt: {obstacle}"),
            Self::Failed(why) => format!("the rebuild failed: {why}"),
            Self::TimedOut(why) => format!("the rebuild took too long: {why}"),
            Self::Passing(why) => format!("the rebuild failed, and may succeed later: {why}"),
            Self::Deadline(why) => format!("the rebuild was interrupted, nothing is installed: {why}"),
            Self::Swapping(how) => format!("the rebuild was interrupted, nothing is installed: {how}"),
            Self::Signal(signal, _) => {
                format!("the rebuild was interrupted by signal {signal}, nothing is installed")
            }
        }
    }
}

/// Why a build came to no file.
enum Stopped {
    Failed(String),
    Late(String),
    Passing(String),
    Deadline(String),
    Swapping(String),
    Signal(u8, BootTime),
}

/// The settings of a rebuild, whenever there is one.
#[derive(Clone, Debug)]
pub(super) struct Rebuilder {
    pub(super) mode: Rebuild,
    /// How long the build may take.
    limit: Duration,
    /// When all has to end, whatever the build is at.
    pub(super) deadline: Option<BootTime>,
    /// `PATH`.
    path: Option<OsString>,
    /// Where the driver toolkit's containers share files on `OpenShift`.
    shared: PathBuf,
    /// A person asks: an earlier failure is no reason.
    pub(super) is_asked: bool,
}

impl Rebuilder {
    pub(super) fn new(mode: Rebuild, limit: Duration, variables: &Variables) -> Self {
        Self {
            mode,
            limit,
            deadline: None,
            path: value_of(variables, "PATH").map(OsString::from),
            shared: toolkit::directory(variables),
            is_asked: false,
        }
    }

    /// The driver toolkit's build, where that is the cure, and MOFED is ready for it.
    pub(super) fn toolkit(&self, watch: &Watch, look: &Look) -> Option<toolkit::Order> {
        let seen = watch.seen().filter(|_| self.mode == Rebuild::Auto)?;
        toolkit::due(&self.shared, watch.node(), seen, &look.verdict, self.is_asked)
    }

    /// The user's program, if one is to build.
    fn program(&self) -> Option<&Path> {
        match &self.mode {
            Rebuild::By(program) => Some(program),
            Rebuild::Off | Rebuild::Auto => None,
        }
    }

    /// The rebuild that would be done now.
    pub(super) fn plan(&self, watch: &Watch, look: &Look) -> Result<(Plan, Pair), Obstacle> {
        let unseen = || Obstacle::new(Kind::NotReady, "the node was not examined");
        let seen = watch.seen().ok_or_else(unseen)?;
        let mut material = material(&watch.node().places, seen);
        material.unwritable = build_dir::unwritable(&material.driver_root, &seen.kernel.release);
        material.exposed = build_dir::exposed(&material.driver_root);
        material.tried = material.tried.filter(|_| !self.is_asked);
        Ok((plan(self.program(), &look.verdict, seen, &material)?, material.pair))
    }

    /// Builds, judges, installs. `beat` is called ten times a second while the build runs.
    pub(super) fn rebuild(&self, watch: &mut Watch, gate: &Gate, beat: &mut dyn FnMut(&Watch)) -> RebuildEnd {
        let Some(before) = look_now(watch, gate) else {
            return RebuildEnd::Swapping("the last look was interrupted".to_owned());
        };
        if let Some(order) = self.toolkit(watch, &before) {
            return order.give().map_or_else(RebuildEnd::Refused, RebuildEnd::Ordered);
        }
        let (plan, pair) = match self.plan(watch, &before) {
            Ok(planned) => planned,
            Err(obstacle) => return RebuildEnd::Refused(obstacle),
        };
        let build_dir = match BuildDir::open(&plan.driver_root) {
            Ok(build_dir) => build_dir,
            Err(Closed::Busy) => {
                let why = format!("another rebuild is running below {}", plan.driver_root.display());
                return RebuildEnd::Refused(Obstacle::new(Kind::Busy, why));
            }
            Err(Closed::Unwritable(why)) => return RebuildEnd::Refused(Obstacle::new(Kind::Unwritable, why)),
            Err(Closed::Exposed(why)) => return RebuildEnd::Refused(Obstacle::new(Kind::Exposed, why)),
        };
        let end = BuildAttempt { rebuilder: self, plan: &plan, build_dir: &build_dir, watch, gate }
            .make(&before, beat);
        remember(&build_dir, &end, pair);
        end
    }
}

/// Leaves a note for the next attempt, which is not made where this one failed.
fn remember(build_dir: &BuildDir, end: &RebuildEnd, pair: Pair) {
    match end {
        RebuildEnd::Failed(why) | RebuildEnd::TimedOut(why) => {
            build_dir.note(&FailedBuild { pair, why: why.clone() });
        }
        RebuildEnd::Installed(_) => build_dir.forget_attempt(&pair.kernel),
        RebuildEnd::Ordered(_)
        | RebuildEnd::Refused(_)
        | RebuildEnd::Passing(_)
        | RebuildEnd::Deadline(_)
        | RebuildEnd::Swapping(_)
        | RebuildEnd::Signal(..) => {}
    }
}

struct BuildAttempt<'a, 'b> {
    rebuilder: &'a Rebuilder,
    plan: &'a Plan,
    build_dir: &'a BuildDir,
    watch: &'a mut Watch<'b>,
    gate: &'a Gate,
}

impl BuildAttempt<'_, '_> {
    fn make(&mut self, before: &Look, beat: &mut dyn FnMut(&Watch)) -> RebuildEnd {
        let begun = now();
        tracing::info!(
            "rebuilding nvidia-peermem.ko for kernel {}, nvidia {} and this MOFED ({})",
            self.plan.kernel.0,
            self.plan.nvidia_version,
            self.plan.reason
        );
        let sources = match &self.plan.builder {
            Builder::Make { sources, .. } => Some(sources.as_path()),
            Builder::Program(_) => None,
        };
        let copy = match self.build_dir.copy(self.plan, sources) {
            Ok(copy) => copy,
            Err(error) => {
                return RebuildEnd::Passing(format!(
                    "cannot copy the sources: {}",
                    crate::errno::words(&error)
                ));
            }
        };
        let done = self
            .build(&copy, beat)
            .and_then(|()| self.judged(&copy))
            .and_then(|judged| self.confirmed(before, judged))
            .and_then(|confirmed| self.install(&copy, &confirmed));
        match done {
            Ok(path) => {
                let spent = Seconds(now().saturating_sub(begun));
                RebuildEnd::Installed(format!(
                    "rebuilt in {spent}: {} is installed and usable",
                    path.display()
                ))
            }
            Err(Stopped::Failed(why)) => RebuildEnd::Failed(why),
            Err(Stopped::Late(why)) => RebuildEnd::TimedOut(why),
            Err(Stopped::Passing(why)) => RebuildEnd::Passing(why),
            Err(Stopped::Deadline(why)) => RebuildEnd::Deadline(why),
            Err(Stopped::Swapping(how)) => RebuildEnd::Swapping(how),
            Err(Stopped::Signal(signal, since)) => RebuildEnd::Signal(signal, since),
        }
    }

    fn build(&self, copy: &Copy, beat: &mut dyn FnMut(&Watch)) -> Result<(), Stopped> {
        let build = self.command(copy);
        self.has_null()?;
        let (watch, limit) = (&*self.watch, self.rebuilder.limit);
        let kills = probe::memory_kills(&watch.node().places.proc);
        let signals = watch.wakes().signals();
        let until = now() + limit;
        let ran = build.run(signals.fd(), || {
            if let Some(signal) = signals.take_one() {
                return Some(Stopped::Signal(signal, now()));
            }
            beat(watch);
            let late = || format!("it has not ended after {}", Seconds(limit));
            let is_late = (now() >= until).then(|| Stopped::Late(late()));
            watch.swap_begins().map(Stopped::Swapping).or(is_late).or_else(|| self.past_deadline().err())
        });
        let Built { code, lines, broken_off } =
            ran.map_err(|Unrunnable { message, .. }| Stopped::Passing(message))?;
        if let Some(stopped) = broken_off {
            return Err(stopped);
        }
        if code == 0 {
            return Ok(());
        }
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            tracing::error!("build: {}", escaped(line));
        }
        let end = FailedEnd {
            code,
            lines: &lines,
            free: probe::free(&self.plan.driver_root),
            was_short_of_memory: probe::memory_kills(&watch.node().places.proc) > kills,
        };
        let why = format!("{} {}", build.program.display(), end.how());
        Err(if end.passing().is_some() { Stopped::Passing(why) } else { Stopped::Failed(why) })
    }

    /// NVIDIA's scripts write into it at every step.
    fn has_null(&self) -> Result<(), Stopped> {
        let root = &self.plan.driver_root;
        let is_there = || resolve(root, &below(root, Path::new("/dev/null"))).is_ok_and(|null| null.exists());
        if matches!(self.plan.builder, Builder::Program(_)) || is_there() {
            return Ok(());
        }
        let why = format!("there is no /dev/null below {}; what to do: mount /dev there", root.display());
        Err(Stopped::Passing(why))
    }

    fn past_deadline(&self) -> Result<(), Stopped> {
        match self.rebuilder.deadline {
            Some(deadline) if now() >= deadline => {
                Err(Stopped::Deadline("the deadline passed before the build ended".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn command(&self, copy: &Copy) -> BuildCommand {
        match &self.plan.builder {
            Builder::Make { make, .. } => BuildCommand {
                root: self.plan.driver_root.clone(),
                program: make.clone(),
                arguments: self.plan.arguments(&copy.inside),
                variables: vec![("TMPDIR", copy.inside.join("tmp").into())],
                inherits: false,
            },
            Builder::Program(program) => BuildCommand {
                root: "/".into(),
                program: program.clone(),
                arguments: Vec::new(),
                variables: self.variables(copy),
                inherits: true,
            },
        }
    }

    /// The environment of the user's program.
    fn variables(&self, copy: &Copy) -> Vec<(&'static str, OsString)> {
        let plan = self.plan;
        // Paths below /proc/self are another process's own.
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
    fn judged(&self, copy: &Copy) -> Result<JudgedModule, Stopped> {
        let built = copy.outside.join(recipe::MODULE);
        let failed = |why: String| Stopped::Failed(format!("the build reported success, but {why}"));
        if !built.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(failed(format!("it did not write {}", recipe::MODULE)));
        }
        let info = inspect(&built, &mut || false).map_err(|why| match why {
            NotAModule::Unreadable(why) | NotAModule::Damaged(why) => {
                failed(format!("its {} is not a module: {}", recipe::MODULE, why.why))
            }
        })?;
        let seen = self.watch.seen().ok_or_else(|| failed("the node cannot be examined".to_owned()))?;
        JudgedModule::by(info, &self.plan.nvidia_version, |info| objection(self.watch, seen, info))
            .map_err(failed)
    }

    fn confirmed(&mut self, before: &Look, judged: JudgedModule) -> Result<Confirmed, Stopped> {
        let Some(after) = look_now(self.watch, self.gate) else {
            return match self.watch.wakes().take_signal() {
                Some(signal) => Err(Stopped::Signal(signal, now())),
                None => Err(Stopped::Swapping("the last look was interrupted".to_owned())),
            };
        };
        match self.watch.swap_begins() {
            Some(how) => Err(Stopped::Swapping(how)),
            None => judged.confirmed(before, &after).map_err(Stopped::Swapping),
        }
    }

    /// In its place, in modules.dep, and judged there.
    fn install(&mut self, copy: &Copy, module: &Confirmed) -> Result<PathBuf, Stopped> {
        self.past_deadline()?;
        let built = copy.outside.join(recipe::MODULE);
        let build_id =
            module.info().build_id.clone().or_else(|| build_id_of_file(&built)).unwrap_or_default();
        let release = self.plan.kernel.0.clone();
        self.build_dir.install(&built, &build_id, &release, &self.plan.nvidia.0).map_err(|error| {
            Stopped::Passing(format!(
                "cannot install {}: {}",
                self.plan.target().display(),
                crate::errno::words(&error)
            ))
        })?;
        let proven = self.depmod().and_then(|()| self.is_found());
        proven.inspect_err(|_| {
            if let Ok(true) = self.build_dir.remove(&release) {
                let _ = self.depmod();
            }
        })
    }

    fn depmod(&self) -> Result<(), Stopped> {
        depmod(&self.plan.driver_root, &self.plan.kernel.0, self.rebuilder.path.as_deref(), self.watch)
            .map_err(Stopped::Passing)
    }

    fn is_found(&mut self) -> Result<PathBuf, Stopped> {
        let target = below(&self.plan.driver_root, &self.plan.target());
        let look = look_now(self.watch, self.gate);
        let Some(look) = look else {
            return Err(Stopped::Swapping("the last look was interrupted".to_owned()));
        };
        let found =
            match self.watch.seen().and_then(|seen| seen.peermem.as_ref()).map(|peermem| &peermem.file) {
                Some(ModuleFile::Read { path, .. }) => path.clone(),
                _ => PathBuf::new(),
            };
        let same = |path: &Path| path.metadata().ok().map(|m| std::os::unix::fs::MetadataExt::ino(&m));
        let is_ours = found == target || same(&found).is_some() && same(&found) == same(&target);
        let peermem = look.verdict.get(ConditionType::PeermemUsable);
        match peermem {
            Some(c) if c.reason == Reason::Usable && is_ours => Ok(target),
            Some(c) if c.reason == Reason::Usable => Err(Stopped::Failed(format!(
                "modprobe would still load {}: put updates first in depmod.d",
                found.display()
            ))),
            Some(c) => Err(Stopped::Failed(c.message.clone())),
            None => Err(Stopped::Failed("the installed file was not inspected".to_owned())),
        }
    }
}

/// The kernel's objection to a module, if it would refuse it.
pub(super) fn objection(watch: &Watch, seen: &Observation, info: &ModuleInfo) -> Option<String> {
    let mut seen = seen.clone();
    let peermem = seen.peermem.as_mut()?;
    peermem.file = ModuleFile::Read {
        path: recipe::MODULE.into(),
        others: Vec::new(),
        listed: Some(true),
        info: Box::new(info.clone()),
    };
    let verdict = judge(&watch.node().expected, &seen);
    let usable = verdict.get(ConditionType::PeermemUsable)?;
    (usable.reason != Reason::Usable).then(|| format!("{}: {}", usable.reason, usable.message))
}

/// Runs depmod for this kernel in that root.
pub(super) fn depmod(
    root: &Path,
    release: &str,
    path: Option<&std::ffi::OsStr>,
    watch: &Watch,
) -> Result<(), String> {
    /// On a host with thousands of modules and a slow disk it takes seconds.
    const LIMIT: Duration = Duration::from_secs(60);
    probe::may_run_in(&watch.node().places, root).map_err(|why| why.to_string())?;
    let depmod = Modprobe::depmod(root, path).map_err(|why| why.message)?;
    let until = now() + LIMIT;
    let signals = watch.wakes().signals();
    // A signal waits: a file without its line in modules.dep is not found.
    let ran = depmod.run(&[release.into()], OutputMode::Kept, signals.fd(), || {
        (now() >= until).then_some(BrokenOff::Late)
    });
    match ran {
        Ok(Ran { code: 0, .. }) => {
            build_dir::flush_index(root, release);
            Ok(())
        }
        Ok(Ran { broken_off: Some(_), .. }) => Err(format!("depmod has not ended after {}", Seconds(LIMIT))),
        Ok(ran) => {
            let last = ran.stderr.trim_end().lines().last().unwrap_or("it gives no reason");
            Err(format!("depmod {}: {}", ended(ran.code), escaped(last)))
        }
        Err(why) => Err(why.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::sample;
    use std::fs;

    /// A driver's root, in which something else is where the module would go.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let target = below(root.path(), &crate::rebuild::target(sample::RELEASE));
        for directory in [target.parent().unwrap(), &root.path().join("var/lib")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(target, "theirs").unwrap();
        root
    }

    fn found(root: &Path) -> Material {
        material(&sample::node(root).places, &sample::seen())
    }

    #[test]
    fn a_foreign_file_is_found() {
        let root = root();
        let target = below(root.path(), &crate::rebuild::target(sample::RELEASE));
        assert_eq!(found(root.path()).foreign, Some(target.clone()));
        fs::remove_file(target).unwrap();
        assert_eq!(found(root.path()).foreign, None);
    }

    #[test]
    fn only_a_failure_is_remembered_and_only_for_the_same_modules() {
        let root = root();
        let build_dir = BuildDir::open(root.path()).expect("nobody else is at work");
        let pair = found(root.path()).pair;
        let tried = |end: RebuildEnd| {
            remember(&build_dir, &end, pair.clone());
            found(root.path()).tried
        };
        let failed = || RebuildEnd::Failed("make ended with 2".to_owned());
        let refused = || RebuildEnd::Refused(Obstacle::new(Kind::NoRoom, "1 MiB"));
        assert_eq!(tried(refused()), None);
        assert_eq!(tried(RebuildEnd::Swapping(String::new())), None);
        assert_eq!(tried(RebuildEnd::Signal(15, now())), None);
        assert_eq!(tried(RebuildEnd::Passing("make was ended by SIGKILL".to_owned())), None);
        assert_eq!(tried(RebuildEnd::Deadline(String::new())), None);
        assert_eq!(tried(failed()).as_deref(), Some("make ended with 2"));
        assert_eq!(tried(refused()).as_deref(), Some("make ended with 2"));
        assert_eq!(tried(RebuildEnd::TimedOut("5 m".to_owned())).as_deref(), Some("5 m"));
        assert_eq!(tried(RebuildEnd::Installed(String::new())), None);
        remember(&build_dir, &failed(), Pair { mofed: "another".to_owned(), ..pair.clone() });
        assert_eq!(found(root.path()).tried, None);
    }
}
