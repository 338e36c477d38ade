// SPDX-License-Identifier: Apache-2.0
//! One rebuild of nvidia-peermem, from the plan to the file that modprobe finds. What `load`, the shim, `keep` and
//! `rebuild` have in common; [`crate::rebuild`] decides.

use crate::cli::environment::{Variables, value_of};
use crate::cli::{Rebuild, RebuildOptions};
use crate::peermem::judge::shadowed;
use crate::peermem::record::{FailedBuild, failed};
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::gate::Gate;
use crate::ready::look::Look;
use crate::ready::node::{Node, Places, below};
use crate::ready::observation::Observation;
use crate::ready::time::BootTime;
use crate::ready::verdict::Verdict;
use crate::rebuild::attempt::{BuildAttempt, depmod};
use crate::rebuild::build_dir::BuildDir;
use crate::rebuild::{
    Kind, Material, Obstacle, Pair, Plan, RebuildResult, Signing, build_dir, fingerprint, plan, target,
};
use crate::watch::{Watch, look_now};
use crate::{rebuild, words};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
pub(crate) fn knowing_rebuild(node: &Node, seen: &Observation, verdict: Verdict) -> Verdict {
    if !verdict.needs_rebuild() {
        return verdict;
    }
    match possible(&node.places, seen, &verdict) {
        Err(obstacle) if obstacle.kind.is_removable() => verdict,
        possible => words::knowing_rebuild(verdict, &node.expected, seen, possible.is_ok()),
    }
}

fn material(places: &Places, seen: &Observation) -> Material {
    let mut material = rebuild::probe::material(places, seen);
    let (root, release) = (material.driver_root.as_path(), seen.kernel.release.as_str());
    material.foreign = build_dir::foreign(root, release);
    material.tried = match failed(root, &material.pair, fingerprint(&material)) {
        Ok(tried) => tried.map(|tried| tried.why),
        // One attempt too many costs seconds, and its record replaces this one.
        Err(why) => {
            tracing::warn!("whether a build failed before is unknown: {why}");
            None
        }
    };
    material
}

/// The settings of a rebuild.
#[derive(Clone, Debug)]
pub(crate) struct Rebuilder {
    pub(crate) mode: Rebuild,
    /// How long the build may take.
    limit: Duration,
    /// When everything must end, even a running build.
    pub(crate) deadline: Option<BootTime>,
    /// Where key and certificate are, if what is built is to be signed.
    pub(crate) signing: Option<PathBuf>,
    /// `PATH`.
    path: Option<OsString>,
    /// A person asks for the rebuild, so earlier failures do not count.
    pub(crate) is_asked: bool,
}

impl Rebuilder {
    pub(crate) fn new(options: &RebuildOptions, variables: &Variables) -> Self {
        Self {
            mode: options.rebuild.clone(),
            limit: options.rebuild_timeout,
            signing: options.signing.clone(),
            deadline: None,
            path: value_of(variables, "PATH").map(OsString::from),
            is_asked: false,
        }
    }

    /// The user's program, if that is the builder.
    fn program(&self) -> Option<&Path> {
        match &self.mode {
            Rebuild::By(program) => Some(program),
            Rebuild::Off | Rebuild::Auto => None,
        }
    }

    /// The plan of a rebuild at this moment, what it is for, and the number of its inputs.
    pub(crate) fn plan(&self, watch: &Watch, look: &Look) -> Result<(Plan, Pair, u64), Obstacle> {
        let unseen = || Obstacle::new(Kind::NotReady, "the node was not examined");
        let seen = watch.seen().ok_or_else(unseen)?;
        let mut material = material(&watch.node.places, seen);
        material.unwritable = build_dir::unwritable(&material.driver_root, &seen.kernel.release);
        material.exposed = build_dir::exposed(&material.driver_root);
        material.tried = material.tried.filter(|_| !self.is_asked);
        let signing = |directory: &PathBuf| {
            let Material { build_root, headers, .. } = &material;
            Signing::look(directory, &watch.node.places.proc, build_root, headers.as_deref())
        };
        material.signing = self.signing.as_ref().map(signing);
        let inputs = fingerprint(&material);
        Ok((plan(self.program(), &look.verdict, seen, &material)?, material.pair, inputs))
    }

    /// Removes our file if it comes before a usable one. Returns the next look if a build is needed all the same.
    fn undo(&self, watch: &mut Watch, gate: &Gate) -> Result<Look, RebuildResult> {
        let seen = watch.seen().and_then(|seen| Some((seen.kernel.release.clone(), seen.peermem.as_ref()?)));
        let Some((release, root)) = seen.map(|(release, peermem)| (release, peermem.root.clone())) else {
            return Err(RebuildResult::Swapping("the node was not examined".to_owned()));
        };
        let target = below(&root, &target(&release));
        // An undo removes one file only: a copy elsewhere stays.
        if let Some(path) = build_dir::foreign(&root, &release) {
            let why = format!("peermem-gate did not install the existing {}", path.display());
            return Err(RebuildResult::Refused(Obstacle::new(Kind::ForeignFile, why)));
        }
        let build_dir = BuildDir::open(&root).map_err(RebuildResult::Refused)?;
        let cannot =
            |why: String| RebuildResult::Passing(format!("cannot remove {}: {why}", target.display()));
        build_dir.remove(&release).map_err(|error| cannot(crate::ready::errno::words(&error)))?;
        depmod(&root, &release, self.path.as_deref(), watch).map_err(cannot)?;
        let interrupted = || RebuildResult::Swapping("the last look was interrupted".to_owned());
        let after = look_now(watch, gate).ok_or_else(interrupted)?;
        let removed = format!("removed {}, which was rebuilt for another MOFED or nvidia", target.display());
        match after.verdict.get(ConditionType::PeermemUsable) {
            Some(c) if c.reason == Reason::Usable => {
                Err(RebuildResult::Undone(format!("{removed}: {}", c.message)))
            }
            _ => {
                tracing::info!("{removed}");
                Ok(after)
            }
        }
    }

    /// Completes an undo that was broken off before depmod: modules.dep still lists our file, which is gone.
    fn finish_undo(&self, watch: &mut Watch, gate: &Gate) -> Option<Look> {
        let seen = watch.seen()?;
        let (release, root) = (seen.kernel.release.clone(), seen.peermem.as_ref()?.root.clone());
        let is_gone = below(&root, &target(&release)).symlink_metadata().is_err();
        if !is_gone || !build_dir::is_listed(&root, &release) {
            return None;
        }
        depmod(&root, &release, self.path.as_deref(), watch).ok()?;
        look_now(watch, gate)
    }

    /// Builds, judges, installs. `heartbeat` is called ten times a second while the build runs.
    pub(crate) fn rebuild(
        &self,
        watch: &mut Watch,
        gate: &Gate,
        heartbeat: &mut dyn FnMut(&Watch),
    ) -> RebuildResult {
        let Some(mut before) = look_now(watch, gate) else {
            return RebuildResult::Swapping("the last look was interrupted".to_owned());
        };
        // The next steps are better finished than broken off.
        heartbeat(watch);
        before = self.finish_undo(watch, gate).unwrap_or(before);
        if behind_ours(watch, &before).is_some() {
            match self.undo(watch, gate) {
                Ok(after) => before = after,
                Err(end) => return end,
            }
        }
        let prepared = || {
            let (plan, pair, inputs) = self.plan(watch, &before)?;
            let build_dir = BuildDir::open(&plan.driver_root)?;
            let is_elsewhere = plan.build_root != plan.driver_root;
            let elsewhere = is_elsewhere.then(|| BuildDir::open(&plan.build_root)).transpose()?;
            Ok((plan, pair, inputs, build_dir, elsewhere))
        };
        let (plan, pair, inputs, build_dir, elsewhere) = match prepared() {
            Ok(prepared) => prepared,
            Err(obstacle) => return RebuildResult::Refused(obstacle),
        };
        let (limit, deadline, path) = (self.limit, self.deadline, self.path.as_deref());
        let mut attempt = BuildAttempt {
            limit,
            deadline,
            path,
            plan: &plan,
            pair: &pair,
            build_dir: &build_dir,
            work_dir: elsewhere.as_ref().unwrap_or(&build_dir),
            watch,
            gate,
        };
        let end = attempt.make(&before, heartbeat);
        remember(&build_dir, &end, pair, inputs);
        end
    }
}

/// The file that would load if the one that we rebuilt were not there, where nothing but ours is wrong.
pub(crate) fn behind_ours<'a>(watch: &'a Watch, look: &Look) -> Option<&'a Path> {
    let seen = watch.seen().filter(|_| look.verdict.needs_rebuild())?;
    shadowed(&watch.node.expected, seen)
}

/// Records the failure, so the same rebuild is not tried again.
fn remember(build_dir: &BuildDir, end: &RebuildResult, pair: Pair, inputs: u64) {
    match end {
        RebuildResult::Failed(why) => {
            build_dir.note(&FailedBuild { pair, why: why.clone(), inputs });
        }
        RebuildResult::Installed(_) => build_dir.forget_attempt(&pair.kernel),
        RebuildResult::TimedOut(_)
        | RebuildResult::Undone(_)
        | RebuildResult::Refused(_)
        | RebuildResult::Passing(_)
        | RebuildResult::Deadline(_)
        | RebuildResult::Swapping(_)
        | RebuildResult::Signal(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::clock::now;
    use crate::rebuild::sample;
    use std::fs;

    /// A driver's root with something else at the module's place.
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
    fn rebuild_finds_a_module_file_that_the_gate_did_not_install() {
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
        let tried = |end: RebuildResult| {
            remember(&build_dir, &end, pair.clone(), fingerprint(&found(root.path())));
            found(root.path()).tried
        };
        let failed = || RebuildResult::Failed("make ended with 2".to_owned());
        let refused = || RebuildResult::Refused(Obstacle::new(Kind::NoRoom, "1 MiB"));
        assert_eq!(tried(refused()), None);
        assert_eq!(tried(RebuildResult::Swapping(String::new())), None);
        assert_eq!(tried(RebuildResult::Signal(15, now())), None);
        assert_eq!(tried(RebuildResult::Passing("make was ended by SIGKILL".to_owned())), None);
        assert_eq!(tried(RebuildResult::Deadline(String::new())), None);
        assert_eq!(tried(failed()).as_deref(), Some("make ended with 2"));
        assert_eq!(tried(refused()).as_deref(), Some("make ended with 2"));
        // It did not end by itself.
        assert_eq!(tried(RebuildResult::TimedOut("5 m".to_owned())).as_deref(), Some("make ended with 2"));
        assert_eq!(tried(RebuildResult::Installed(String::new())), None);
        let other = Pair { mofed: "another".to_owned(), ..pair.clone() };
        remember(&build_dir, &failed(), other, fingerprint(&found(root.path())));
        assert_eq!(found(root.path()).tried, None);
    }
}
