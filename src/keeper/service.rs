// SPDX-License-Identifier: Apache-2.0
//! The settings of `keep`, of options, variables and what the node shows.

use crate::cli::environment::{HOST_MOFED, Misuse, Variables, value_of};
use crate::cli::{KeepArgs, LoadArgs, Rebuild, RebuildOptions};
use crate::keeper::publisher::Files;
use crate::keeper::status::MemoryFile;
use crate::keeper::{KeepMemory, Stay};
use crate::peermem::driver_root;
use crate::peermem::store::STORE;
use crate::process::exec::Unrunnable;
use crate::process::subtask::Subtask;
use crate::process::system_program::{MODPROBE, OutputMode, RMMOD, SystemProgram};
use crate::ready::gate::Policy;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::{Node, PeermemExpected, below};
use crate::ready::probe;
use crate::rebuild::rebuilder::Rebuilder;
use crate::start::Start;
use crate::survey::root;
use crate::watch::supervised::{for_peermem, output, outputs, refuse_others};
use crate::words::last_words::LastWords;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// On a signal `keep` ends within a second. A running modprobe gets this much of it.
const MODPROBE_PATIENCE: Duration = Duration::from_millis(500);
/// The time that rmmod gets after a signal. One that hangs in the kernel ends on no signal.
const RMMOD_PATIENCE: Duration = Duration::from_millis(100);

/// A root that takes longer to answer is taken for one that hangs.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);

/// Where kmod's programs are looked for.
#[derive(Debug)]
pub(super) struct Tools {
    /// `PATH`.
    path: Option<OsString>,
    /// `--modprobe`.
    modprobe: Option<PathBuf>,
    /// Found at the start, where nothing may begin without it.
    found: Option<SystemProgram>,
}

impl Tools {
    fn of(start: &Start, modprobe: Option<&Path>) -> Self {
        let path = value_of(start.variables, "PATH").map(OsString::from);
        Self { path, modprobe: modprobe.map(Path::to_owned), found: None }
    }

    pub(super) fn modprobe(&self, root: &Path) -> Result<SystemProgram, Unrunnable> {
        if let Some(modprobe) = &self.found {
            return Ok(modprobe.clone());
        }
        let found = self.find(root)?;
        Ok(found.with_patience(MODPROBE_PATIENCE))
    }

    fn find(&self, root: &Path) -> Result<SystemProgram, Unrunnable> {
        SystemProgram::find(&MODPROBE, root, self.path.as_deref(), self.modprobe.as_deref())
    }

    /// rmmod, beside modprobe. If the driver's root is gone, our own rmmod will do: an unload needs nothing of that
    /// root.
    pub(super) fn rmmod(&self, root: &Path) -> Result<SystemProgram, Unrunnable> {
        let path = self.path.as_deref();
        let own = || SystemProgram::find(&RMMOD, Path::new("/"), path, None);
        let rmmod = SystemProgram::find(&RMMOD, root, path, None).or_else(|why| own().map_err(|_| why))?;
        Ok(rmmod.with_patience(RMMOD_PATIENCE))
    }
}

/// A search for rmmod in a root that may hang, by another process. One that hangs is the last: they must not pile up.
#[derive(Debug, Default)]
pub(super) struct RmmodSearch(Option<Subtask>);

impl RmmodSearch {
    /// Whether that root answers. Where no process can be started, it is asked without one.
    pub(super) fn answers(&mut self, tools: &Tools, root: &Path) -> bool {
        let search = || {
            let _ = tools.rmmod(root);
            Ok(())
        };
        let Some(mut begun) = self.0.take().or_else(|| Subtask::begin(search).ok()) else { return true };
        let answers = begun.wait(ANSWER_LIMIT).is_some();
        self.0 = (!answers).then_some(begun);
        answers
    }
}

/// The settings of `keep`, and of `load`.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) node: Node,
    pub(super) policy: Policy,
    pub(super) tools: Tools,
    /// modprobe's: the module and its parameters.
    pub(super) arguments: Vec<OsString>,
    /// Where modprobe's output goes.
    pub(super) output: OutputMode,
    pub(super) stay: Stay,
    /// Nothing is loaded, unloaded, built or written: only logged.
    pub(super) dry_run: bool,
    pub(super) unload_on_exit: bool,
    pub(super) rebuilder: Rebuilder,
    pub(super) files: Files,
    /// Where the memory is.
    pub(super) memory_path: Option<PathBuf>,
    pub(super) last_words: LastWords,
    /// Nobody said who provides MOFED.
    pub(super) finds_mofed: bool,
    /// The node's root, if it is the node's service.
    pub(super) node_root: Option<PathBuf>,
}

impl Service {
    /// `place`: where MOFED is, if that was found meanwhile.
    pub(super) fn of(args: &KeepArgs, start: &Start, place: Option<MofedPlace>) -> Result<Self, Misuse> {
        if args.no_yield && args.unload_on_exit {
            let why = "--no-yield never unloads, but --unload-on-exit does: omit one of them";
            return Err(Misuse::Message(why.to_owned()));
        }
        if args.dry_run && args.unload_on_exit {
            let why = "--dry-run never unloads, but --unload-on-exit does: omit one of them";
            return Err(Misuse::Message(why.to_owned()));
        }
        if let Some(reason) = value_of(start.variables, "PEERMEM_GATE_DISABLED") {
            tracing::warn!(
                "PEERMEM_GATE_DISABLED={reason:?} disables `wait`, `load` and the shim, but not `keep`: use --no-yield to never unload nvidia_peermem, or stop `keep`"
            );
        }
        let peermem = peermem(&args.parameters, &args.rebuilding);
        refuse_others("keep", &args.node)?;
        let root = root::asked(args.node_root.as_deref(), &args.node)?;
        let node = |place| {
            let host = (HOST_MOFED.into(), (place == MofedPlace::Host).to_string().into());
            let variables: Variables = start.variables.iter().cloned().chain([host]).collect();
            Node::new(&args.node, &root, Some(peermem.clone()), &variables)
        };
        let is_said = value_of(start.variables, HOST_MOFED).is_some();
        let finds_mofed = args.node_root.is_some() && !is_said;
        let found = || Ok(probe::mofed_traces(&node(MofedPlace::Container)?.places).place(false));
        let mut node = match place {
            _ if !finds_mofed => Node::new(&args.node, &root, Some(peermem.clone()), start.variables)?,
            Some(place) => node(place)?,
            None => node(found()?)?,
        };
        for_peermem(&mut node);
        node.places.store = args.node_root.as_ref().map(|root| below(root, Path::new(STORE)));
        let (metrics, last_words) = outputs(&args.pace, &node.places.marker, start)?;
        let status = output("--status-file", args.status_file.as_deref(), &node.places.marker)?;
        let memory_path = args.status_file.as_deref().map(beside);
        // Nobody named this file, so what is in its place is no reason to end.
        let memory = output("--status-file", memory_path.as_deref(), &node.places.marker);
        let memory = memory.unwrap_or_else(|why| {
            tracing::warn!("the next keep will not know of an order to unload: {why}");
            None
        });
        Ok(Self {
            node,
            policy: Policy::of_keep(&args.pace),
            tools: Tools::of(start, args.modprobe.as_deref()),
            arguments: [&["nvidia-peermem".into()], args.parameters.as_slice()].concat(),
            output: OutputMode::Kept,
            stay: Stay::of_service(args.no_yield),
            dry_run: args.dry_run,
            unload_on_exit: args.unload_on_exit,
            rebuilder: Rebuilder::new(&args.rebuilding, start.variables),
            files: Files { metrics, status, memory },
            memory_path,
            last_words,
            finds_mofed,
            node_root: args.node_root.clone(),
        })
    }

    /// Of `load`, with modprobe's arguments: the module and its parameters.
    pub(crate) fn until_loaded(
        args: &LoadArgs,
        policy: Policy,
        start: &Start,
        (arguments, output): (Vec<OsString>, OutputMode),
    ) -> Result<Self, Misuse> {
        let peermem = peermem(&args.parameters, &args.rebuilding);
        let mut node = Node::new(&args.node, Path::new("/"), Some(peermem), start.variables)?;
        for_peermem(&mut node);
        let (metrics, last_words) = outputs(&args.waiting.pace, &node.places.marker, start)?;
        Ok(Self {
            node,
            policy,
            tools: Tools::of(start, args.modprobe.as_deref()),
            arguments,
            output,
            stay: Stay::UntilLoaded,
            dry_run: false,
            unload_on_exit: false,
            rebuilder: Rebuilder::new(&args.rebuilding, start.variables),
            files: Files { metrics, status: None, memory: None },
            memory_path: None,
            last_words,
            finds_mofed: false,
            node_root: None,
        })
    }

    /// Nothing begins without a modprobe: the one for this root is used to the end, in whatever root the driver is.
    pub(crate) fn require_modprobe(&mut self, root: &Path) -> Result<(), Unrunnable> {
        self.tools.found = Some(self.tools.find(root)?);
        Ok(())
    }

    /// A block at the start does not end the node's service.
    pub(super) fn stays(&self) -> bool {
        self.node_root.is_some()
    }

    /// On a host without a container's root, the programs must be there from the start. A node's service waits for a
    /// driver's root that brings them.
    pub(super) fn check_tools(&self) -> Result<(), Unrunnable> {
        // A driver's container shows its root only once the driver is installed.
        let root = driver_root::driver_root_now(&self.node.places);
        if self.stays() {
            if root == self.node.places.driver_root
                && let Err(why) = self.tools.modprobe(&root)
            {
                tracing::info!(
                    "waiting for the root of a driver container that has modprobe: {}",
                    why.message
                );
            }
        } else if root == Path::new("/") {
            self.tools.modprobe(&root)?;
            if self.stay == Stay::Yields {
                self.tools.rmmod(&root)?;
            }
        }
        Ok(())
    }

    /// The memory that the `keep` before has left in this boot.
    pub(super) fn memory(&self) -> Option<KeepMemory> {
        let text = probe::text(self.memory_path.as_deref()?).ok()?;
        MemoryFile::of_this_boot(&text, probe::boot_id(&self.node.places.proc).as_deref())
    }
}

/// Where the memory is, for this status file.
fn beside(status: &Path) -> PathBuf {
    let mut path = status.as_os_str().to_owned();
    path.push(".memory");
    path.into()
}

fn peermem(parameters: &[OsString], rebuilding: &RebuildOptions) -> PeermemExpected {
    PeermemExpected {
        parameters: parameters.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        only_ours: rebuilding.rebuild != Rebuild::Off,
    }
}
