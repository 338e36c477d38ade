// SPDX-License-Identifier: Apache-2.0
//! inotify on the marker's directory, or on the nearest one above it that exists.

use crate::gate::Cause;
use crate::probe::nearest_ancestor;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Room for some hundred events a read.
const BUFFER: usize = 16 * 1024;

/// Far more directories than any marker's path has.
const MAX_MOVES: usize = 100;

/// A watch that moves up and down the marker's path as directories come and go.
#[derive(Debug)]
pub(super) struct MarkerWatch {
    path: PathBuf,
    inotify: Option<Inotify>,
    watched: Option<Watched>,
    warned: bool,
}

#[derive(Debug)]
struct Watched {
    descriptor: WatchDescriptor,
    /// Device and inode: the path alone does not tell whether it is still the same directory.
    directory: (u64, u64),
    /// The name below it that matters: the marker's, or that of the next directory on the way.
    name: OsString,
}

impl MarkerWatch {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), inotify: None, watched: None, warned: false }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches the nearest directory that exists. A watch that already is where it should be is
    /// left alone: adding it again would lose events.
    pub(super) fn arm(&mut self) {
        if let Err(error) = self.try_arm() {
            self.watched = None;
            if !self.warned {
                self.warned = true;
                tracing::warn!(
                    "cannot watch for {} ({}): the slow look every 5 s must find it",
                    self.path.display(),
                    remedy(&error)
                );
            }
        }
    }

    /// A directory may come between the search for the nearest and the watch on it, so that the
    /// search is repeated until it finds what is watched.
    fn try_arm(&mut self) -> io::Result<()> {
        for _ in 0..MAX_MOVES {
            if self.watches_the_nearest()? {
                return Ok(());
            }
        }
        Err(io::Error::other("the directories above it keep changing"))
    }

    /// Moves the watch if it is not on the nearest directory; true if it already was.
    fn watches_the_nearest(&mut self) -> io::Result<bool> {
        let parent = self.path.parent().unwrap_or(&self.path);
        let (directory, metadata) = match parent.metadata() {
            Ok(metadata) if metadata.is_dir() => (parent.to_owned(), metadata),
            _ => {
                let nearest = nearest_ancestor(&self.path);
                let metadata = nearest.metadata()?;
                (nearest, metadata)
            }
        };
        let identity = (metadata.dev(), metadata.ino());
        if self.watched.as_ref().is_some_and(|watched| watched.directory == identity) {
            return Ok(true);
        }
        if self.inotify.is_none() {
            self.inotify = Some(Inotify::init()?);
        }
        let Some(inotify) = &mut self.inotify else { return Ok(false) };
        // IN_DELETE_SELF and IN_MOVE_SELF: the directory itself goes. IN_ATTRIB and IN_CLOSE_WRITE:
        // a touch of a marker that is there. IN_MOVED_TO: a marker renamed into place.
        let mask = WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::DELETE
            | WatchMask::ATTRIB
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR
            | WatchMask::MASK_ADD;
        let descriptor = inotify.watches().add(&directory, mask)?;
        let name = next_component(&self.path, &directory);
        let before =
            self.watched.replace(Watched { descriptor: descriptor.clone(), directory: identity, name });
        if let Some(before) = before.filter(|before| before.descriptor != descriptor) {
            // It may be gone by itself, with its directory.
            let _ = inotify.watches().remove(before.descriptor);
        }
        Ok(false)
    }

    /// Takes all events; answers when one of them concerns the marker's path.
    pub(super) fn drain(&mut self) -> Option<Cause> {
        let inotify = self.inotify.as_mut()?;
        let mut buffer = [0; BUFFER];
        let mut concerns = false;
        let mut gone = false;
        while let Ok(events) = inotify.read_events(&mut buffer) {
            for event in events {
                let current = self.watched.as_ref().filter(|watched| watched.descriptor == event.wd);
                gone |= event.mask.contains(EventMask::IGNORED) && current.is_some();
                // No name: the watched directory itself, or a queue that overflowed.
                concerns |=
                    event.name.is_none() || current.is_some_and(|w| event.name == Some(OsStr::new(&w.name)));
            }
        }
        if gone {
            self.watched = None;
        }
        concerns.then_some(Cause::Marker)
    }
}

fn next_component(path: &Path, directory: &Path) -> OsString {
    let rest = path.strip_prefix(directory).unwrap_or(path);
    rest.components().next().map(|component| component.as_os_str().to_owned()).unwrap_or_default()
}

/// The limit by its name: both are per user and shared by everything that runs as root.
fn remedy(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::EMFILE) => {
            "no inotify instance is left: raise sysctl fs.inotify.max_user_instances".to_owned()
        }
        Some(nix::libc::ENOSPC) => {
            "no inotify watch is left: raise sysctl fs.inotify.max_user_watches".to_owned()
        }
        Some(nix::libc::EACCES) => "permission denied: let this process read that directory".to_owned(),
        _ => error.to_string(),
    }
}
