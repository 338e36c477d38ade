// SPDX-License-Identifier: Apache-2.0
//! inotify on the directories of paths that are waited for, or on the nearest ones that exist. It may be missing: GPU
//! nodes do run out of the 128 instances that each user has (gpu-operator#441).

use crate::ready::errno;
use crate::ready::files::root::nearest;
use crate::ready::look::Cause;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Room for some hundred events a read.
const BUFFER: usize = 16 * 1024;

/// Far more directories than any path has.
const MAX_MOVES: usize = 100;

/// `DELETE_SELF` and `MOVE_SELF`: the directory itself goes. `ATTRIB` and `CLOSE_WRITE`: a touch of a file that is
/// there. `MOVED_TO`: one renamed into place. `MASK_ADD`: adding a watch again loses no event.
const MASK: WatchMask = WatchMask::CREATE
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::DELETE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::CLOSE_WRITE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR)
    .union(WatchMask::MASK_ADD);

/// The driver's script keeps its pid file open, so nothing but its write shows that it has the lock.
const WRITTEN: WatchMask = MASK.union(WatchMask::MODIFY);

/// A path that is waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// Links are followed below this root.
    pub root: PathBuf,
    /// The whole path.
    pub path: PathBuf,
    /// The cause of a look after its events.
    pub cause: Cause,
}

/// Watches that move up and down those paths as directories come and go.
#[derive(Debug, Default)]
pub(super) struct PathWatch {
    inotify: Option<Inotify>,
    watched: Vec<Watched>,
    warned: bool,
}

#[derive(Debug)]
struct Watched {
    descriptor: WatchDescriptor,
    place: Place,
}

/// The nearest directory of one path that exists.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Device and inode: the path does not show whether it is still the same directory.
    directory: (u64, u64),
    /// The name in it that matters: the file's, or that of the next directory on the way.
    name: OsString,
    cause: Cause,
}

impl PathWatch {
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches the nearest directory of each path. A watch that is where it should be stays: adding it
    /// again would lose events.
    pub(super) fn arm(&mut self, awaited: &[Awaited]) {
        let Err(error) = self.try_arm(awaited) else { return };
        self.watched.clear();
        if !self.warned {
            self.warned = true;
            let path = awaited.first().map_or(Path::new(""), |awaited| &awaited.path);
            tracing::warn!(
                "cannot watch for {} ({}): falling back to a look every 5 s",
                path.display(),
                remedy(&error)
            );
        }
    }

    /// A directory may come between the search for the nearest and the watch on it, so the search is repeated
    /// until it finds what is watched.
    fn try_arm(&mut self, awaited: &[Awaited]) -> io::Result<()> {
        if awaited.len() == self.watched.len() && awaited.iter().all(|awaited| self.watches(awaited)) {
            return Ok(());
        }
        for _ in 0..MAX_MOVES {
            let places = awaited.iter().map(Place::of).collect::<io::Result<Vec<_>>>()?;
            if !self.moves_to(places)? {
                return Ok(());
            }
        }
        Err(io::Error::other("the directories above it keep changing"))
    }

    /// The directory of the file itself is watched: one call shows that, and finding the nearest takes several.
    fn watches(&self, awaited: &Awaited) -> bool {
        let (Some(parent), Some(name)) = (awaited.path.parent(), awaited.path.file_name()) else {
            return false;
        };
        let Ok(metadata) = parent.metadata() else { return false };
        let directory = (metadata.dev(), metadata.ino());
        self.watched.iter().any(|Watched { place, .. }| place.directory == directory && place.name == name)
    }

    /// False when all of these are watched already.
    fn moves_to(&mut self, places: Vec<Place>) -> io::Result<bool> {
        let (mut watched, mut moved) = (Vec::new(), false);
        for place in places {
            let known = self.watched.iter().find(|known| known.place.directory == place.directory);
            let descriptor = if let Some(known) = known {
                known.descriptor.clone()
            } else {
                moved = true;
                self.add(&place)?
            };
            watched.push(Watched { descriptor, place });
        }
        let before = std::mem::replace(&mut self.watched, watched);
        for old in before {
            let is_kept = self.watched.iter().any(|kept| kept.descriptor == old.descriptor);
            if let Some(inotify) = self.inotify.as_mut().filter(|_| !is_kept) {
                // It may be gone by itself, with its directory.
                let _ = inotify.watches().remove(old.descriptor);
            }
        }
        Ok(moved)
    }

    fn add(&mut self, place: &Place) -> io::Result<WatchDescriptor> {
        let inotify = match &mut self.inotify {
            Some(inotify) => inotify,
            none => none.insert(Inotify::init()?),
        };
        inotify.watches().add(&place.path, if place.cause == Cause::Driver { WRITTEN } else { MASK })
    }

    /// Takes what one read gives; answers with the cause of an event that concerns one of the paths. More that
    /// waits wakes again: a storm must not keep deadlines and signals from being looked at.
    pub(super) fn drain(&mut self) -> Option<Cause> {
        let mut buffer = [0; BUFFER];
        let events = self.inotify.as_mut()?.read_events(&mut buffer).ok()?;
        let (mut found, mut gone) = (None, Vec::new());
        for event in events {
            let here = self.watched.iter().filter(|watched| watched.descriptor == event.wd);
            // No name: the watched directory itself, or a queue that overflowed.
            let concerned = here.clone().find(|w| event.name.is_none_or(|name| name == w.place.name));
            let overflowed = event.mask.contains(EventMask::Q_OVERFLOW).then_some(&Cause::EventsLost);
            found = found.or(concerned.map(|watched| &watched.place.cause).or(overflowed).cloned());
            if event.mask.contains(EventMask::IGNORED) && here.count() > 0 {
                gone.push(event.wd);
            }
        }
        self.watched.retain(|watched| !gone.contains(&watched.descriptor));
        found
    }
}

impl Place {
    fn of(awaited: &Awaited) -> io::Result<Self> {
        let (path, name) = nearest(&awaited.root, &awaited.path)?;
        let metadata = path.metadata()?;
        Ok(Self { path, directory: (metadata.dev(), metadata.ino()), name, cause: awaited.cause.clone() })
    }
}

/// The limit by its name: both are per user and shared by everything that runs as root.
fn remedy(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::EMFILE) => {
            "the limit of inotify instances is reached: raise sysctl fs.inotify.max_user_instances".to_owned()
        }
        Some(nix::libc::ENOSPC) => {
            "the limit of inotify watches is reached: raise sysctl fs.inotify.max_user_watches".to_owned()
        }
        Some(nix::libc::EACCES) => "permission denied: let this process read that directory".to_owned(),
        _ => errno::words(error),
    }
}
