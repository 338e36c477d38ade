// SPDX-License-Identifier: Apache-2.0
//! Stores what a driver shows that was built here, for a driver container that builds nothing (the operator's fast
//! path): nvidia's symbol versions, and the module that the kernel has accepted.

use crate::peermem::pair;
use crate::peermem::store::StoreEntry;
use crate::peermem::store::read;
use crate::process::subtask::Subtask;
use crate::ready::clock::now;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::observation::{ModuleFile, Observation, Offer};
use crate::ready::time::BootTime;
use crate::ready::verdict::Verdict;
use crate::rebuild::Pair;
use crate::rebuild::store;
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long one write is waited for. A slower one goes on by itself.
const WRITE_LIMIT: Duration = Duration::from_millis(200);

/// How soon after a write that failed the next one is tried.
const PAUSE: Duration = Duration::from_secs(60);

/// The writer of the node's store.
#[derive(Default)]
pub(crate) struct StoreWriter {
    /// The pair that was seen last: each is stored once.
    seen: Option<Pair>,
    /// A write that has not ended: nothing else is written meanwhile.
    under_way: Option<Subtask>,
    /// Nothing is written before.
    not_before: Option<BootTime>,
    has_warned: bool,
}

impl StoreWriter {
    /// Takes in a look, and stores what is new in it.
    pub(crate) fn see(&mut self, watch: &Watch, verdict: Option<&Verdict>) {
        let (Some(seen), Some(verdict)) = (watch.seen(), verdict) else { return };
        let places = &watch.node.places;
        let Some(place) = places.store.as_deref().and_then(Path::parent) else { return };
        if self.is_writing(Duration::ZERO) || self.not_before.is_some_and(|at| now() < at) {
            return;
        }
        let Some(crcs) = nvidia(seen, place) else { return };
        let mut pair = pair::pair(places, seen);
        let path = accepted(seen, verdict);
        if pair.nvidia.is_empty() {
            return;
        }
        if path.is_none() {
            pair.mofed = String::new();
        }
        let is_known = |seen: &Pair| *seen == pair || pair.mofed.is_empty() && seen.nvidia == pair.nvidia;
        if self.seen.as_ref().is_some_and(is_known) {
            return;
        }
        self.seen = Some(pair.clone());
        self.write(|| {
            let module = path.and_then(|path| read::live_module(&places.sys, path));
            if module.is_none() {
                pair.mofed = String::new();
            }
            let (build_id, bytes) = module.unwrap_or_default();
            store::put(place, &StoreEntry::new(pair, crcs, build_id, &bytes), &bytes)
        });
    }

    /// Whether a write is under way, also after this time.
    fn is_writing(&mut self, limit: Duration) -> bool {
        let Some(subtask) = &mut self.under_way else { return false };
        let Some(done) = subtask.wait(limit) else { return true };
        self.under_way = None;
        self.ends(done);
        false
    }

    /// Reads, unpacks and writes in a process of its own: the disk may hang.
    fn write(&mut self, work: impl FnOnce() -> io::Result<()>) {
        let begun = Subtask::begin(|| work().map_err(|error| crate::ready::errno::words(&error)));
        match begun {
            Ok(subtask) => self.under_way = Some(subtask),
            Err(error) => self.ends(Err(crate::ready::errno::words(&error))),
        }
        self.is_writing(WRITE_LIMIT);
    }

    fn ends(&mut self, done: Result<(), String>) {
        let Err(why) = done else { return };
        (self.seen, self.not_before) = (None, Some(now() + PAUSE));
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "cannot store what this driver shows: {why}; what to do: make room in /var/lib/peermem-gate on the node, and let only root write there"
            );
        }
    }
}

/// The CRCs of the live nvidia's own file; not what the store itself has said.
fn nvidia(seen: &Observation, place: &Path) -> Option<BTreeMap<String, u32>> {
    match &seen.peermem.as_ref()?.nvidia {
        Offer::LoadedFile(path, crcs) if !crcs.is_empty() && !path.starts_with(place) => Some(crcs.clone()),
        _ => None,
    }
}

/// The file that modprobe takes, where the module is live. A kernel without symbol versions accepts what was built
/// for any MOFED: there only what was built here for this one counts.
fn accepted<'a>(seen: &'a Observation, verdict: &Verdict) -> Option<&'a Path> {
    let is_live = verdict.get(ConditionType::PeermemUsable).is_some_and(|c| c.reason == Reason::PeermemLive);
    let peermem = seen.peermem.as_ref()?;
    match &peermem.file {
        ModuleFile::Read { path, info, .. } if is_live && (info.has_versions() || peermem.is_for_live) => {
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_stored_is_stored_later() {
        let mut writer = StoreWriter { seen: Some(Pair::default()), ..StoreWriter::default() };
        writer.ends(Ok(()));
        assert!(writer.seen.is_some() && writer.not_before.is_none());
        writer.ends(Err("no space".to_owned()));
        assert!(writer.seen.is_none() && writer.not_before.is_some_and(|at| at > now()));
    }
}
