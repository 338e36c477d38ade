// SPDX-License-Identifier: Apache-2.0
//! One attempt of `load` or `keep` to load the module, in the steps between which others can act: the last look,
//! modprobe, and the look that proves it. `peermem_gate::keeper::attempt` clears and proves.

use super::Life;
use super::eyes::{Eyes, Seen};
use super::gated::{Half, begun};
use super::laws::Fault;
use super::node::{File, Node};
use peermem_gate::keeper::attempt::{LoadFailure, LoadPermit, LoadResult, PlanObjections, live, shown};
use peermem_gate::peermem::plan::ModprobePlan;
use peermem_gate::peermem::refusal::{Attempt as Failed, refusal};
use peermem_gate::ready::gate::Gate;
use peermem_gate::ready::look::Look;
use peermem_gate::ready::observation::ModuleFile;
use std::hash::{Hash, Hasher};

/// How far an attempt is.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// Its last look has begun.
    Looking(Half),
    /// Nothing spoke against the load.
    LoadPermit(Box<Look>),
    /// modprobe has ended with this code, and with this in its log.
    Ran(Box<Look>, u8),
}

impl Hash for Attempt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Looking(half) => half.hash(state),
            // All that is asked of it again is who was who.
            Self::LoadPermit(look) => (1, format!("{:?}", look.identity)).hash(state),
            Self::Ran(look, code) => (2, format!("{:?}", look.identity), code).hash(state),
        }
    }
}

/// The next moment of an attempt.
pub(crate) enum Next {
    Goes(Attempt),
    Ends(LoadResult),
}

/// The first step, which the owner takes as soon as its gate says so.
pub(crate) fn begins(life: &Life, gate: &Gate, eyes: Eyes, is_believed: bool) -> Next {
    match gate.verdict().and_then(live) {
        Some(how) => Next::Ends(LoadResult::Live(how.to_owned(), None)),
        None => Next::Goes(Attempt::Looking(begun(life, eyes, is_believed))),
    }
}

impl Attempt {
    /// The step after this one. A swap that a glimpse shows ends it at once, where somebody has to be alert.
    pub(crate) fn goes_on(self, life: &mut Life, gate: &Gate, eyes: Eyes, swap: Option<String>) -> Next {
        match self {
            Self::Looking(half) => {
                let seen = half.ends(&life.node, eyes);
                let before = gate.with_accepted(seen.look.clone());
                let settled = gate.last_look().map(|look| look.identity.clone());
                match LoadPermit::by(
                    before,
                    settled.as_ref(),
                    ModprobePlan::default(),
                    PlanObjections::default(),
                ) {
                    Err(tried) => Next::Ends(tried),
                    Ok(_) if half.was_unready => {
                        life.fails(Fault::LoadIntoSwap);
                        Next::Ends(LoadResult::again(LoadFailure::LastLook, String::new()))
                    }
                    Ok(cleared) => Next::Goes(Self::LoadPermit(Box::new(cleared.look().clone()))),
                }
            }
            Self::LoadPermit(before) => {
                let code = modprobe(life, eyes);
                Next::Goes(Self::Ran(before, code))
            }
            Self::Ran(before, code) => match swap {
                Some(swap) => Next::Ends(LoadResult::Overlapped(swap)),
                None => Next::Ends(proven(life, &before, gate, eyes, code)),
            },
        }
    }
}

/// modprobe: 0 if the module is live afterwards.
fn modprobe(life: &mut Life, eyes: Eyes) -> u8 {
    let is_absent = life.node.peermem.is_none();
    let is_loaded = life.node.loads_peermem();
    if is_loaded && is_absent && life.is_leaving() {
        life.fails(Fault::LoadIntoUnload);
    }
    // By headers only, a file may look good and be wrong; and MOFED may have begun since the last look.
    let is_swapping = life.is_visibly_unready(eyes, true);
    if !is_loaded && eyes.sees_mofeds_files && !is_swapping && life.node.has_nvidia {
        life.fails(Fault::Refused);
    }
    // Without CRCs the kernel takes it, and nobody sees what is wrong.
    let is_of_another =
        matches!(life.node.file(), Some(File::Built(abi)) if life.node.live_abi() != Some(abi));
    if is_loaded && is_absent && eyes.only_ours && is_of_another && !is_swapping {
        life.fails(Fault::Refused);
    }
    u8::from(!is_loaded)
}

fn proven(life: &mut Life, before: &Look, gate: &Gate, eyes: Eyes, code: u8) -> LoadResult {
    let seen = eyes.look(&life.node);
    if let Some(tried) = shown(before, &gate.with_accepted(seen.look.clone()), code) {
        return tried;
    }
    let why = refused(&life.node, &seen);
    if let (Some(live), Some(File::Built(wanted))) = (life.node.live_abi(), life.node.file()) {
        life.node.files.refused = (live != wanted).then_some((live, wanted)).or(life.node.files.refused);
    }
    why
}

/// modprobe's words, and the kernel's line if there is one, for a file that is not loaded.
pub(crate) fn words(node: &Node) -> (&'static str, Option<&'static str>) {
    let unknown = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)";
    let disagrees = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client";
    match (node.file(), node.live_abi()) {
        (None, _) => ("Module nvidia-peermem not found in directory", None),
        (Some(File::Stub), _) => ("Invalid argument", None),
        (_, Some(_)) => ("Invalid argument", Some(disagrees)),
        (_, None) => ("Unknown symbol in module, or unknown parameter (see dmesg)", Some(unknown)),
    }
}

/// The same, read by the production code.
fn refused(node: &Node, seen: &Seen) -> LoadResult {
    let file = match seen.observation.peermem.as_ref().map(|peermem| &peermem.file) {
        Some(ModuleFile::Read { info, .. }) => Some(info.as_ref()),
        _ => None,
    };
    let (words, log) = words(node);
    let why = refusal(&Failed {
        code: 1,
        stderr: &format!("modprobe: ERROR: could not insert 'nvidia_peermem': {words}"),
        log: &Ok(log.map(str::to_owned).into_iter().collect()),
        file,
        is_packed: false,
        by_headers: true,
        others: &[],
    });
    let failure = LoadFailure::Errno(why.errno.unwrap_or("Other"));
    if why.transient {
        LoadResult::again(failure, why.to_string())
    } else {
        LoadResult::refused(failure, why.to_string())
    }
}
