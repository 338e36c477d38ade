// SPDX-License-Identifier: Apache-2.0
//! The readiness chain's files: whether they are there, when they were written, and the few words
//! that some of them hold.

use super::read::{small, unreadable};
use super::{driver_root, lock, root};
use crate::chain::FILES;
use crate::node::{Places, below};
use crate::observation::{Seen, Unreadable};
use crate::symptoms::chain::{Chain, Clock, Stamp};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// gpu-operator, cmd/nvidia-validator/main.go.
const VALIDATIONS: &str = "/run/nvidia/validations";
/// A thousand processors have a line each before `btime`.
const STAT: u64 = 1024 * 1024;

/// Looks at all files of the chain.
pub(super) fn read(places: &Places) -> Chain {
    let directory = below(&places.root, Path::new(VALIDATIONS));
    let driver_pid = below(&places.root, Path::new(driver_root::PID_FILE));
    let files = FILES.iter().map(|file| {
        let path = if file.is_mofeds() { places.marker.clone() } else { directory.join(file.name) };
        let seen = stamp(&places.root, &path);
        (file.name.to_owned(), (path, seen))
    });
    Chain {
        clock: clock(&places.proc),
        has_directory: is_there(&places.root, &directory),
        files: files.collect(),
        driver: lock::read(&places.root, &places.proc, &driver_pid).0,
        driver_runs: driver_root::script_runs(&places.root, &places.proc),
        directory,
        driver_pid,
    }
}

/// The node's own clock.
pub(super) fn clock(proc: &Path) -> Clock {
    Clock { boot: boot(&proc.join("stat")), uptime: uptime(&proc.join("uptime")) }
}

fn boot(stat: &Path) -> Seen<i64> {
    let mut boot = None;
    let read = super::read::lines(stat, STAT, |line| {
        match line.strip_prefix(b"btime ").map(String::from_utf8_lossy) {
            Some(seconds) => {
                boot = Some(seconds.trim().parse());
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    });
    match (read, boot) {
        (Err(error), _) => Err(unreadable(stat, &error)),
        (Ok(_), Some(Ok(seconds))) => Ok(seconds),
        (Ok(_), _) => Err(Unreadable { path: stat.to_owned(), why: "no line says btime".to_owned() }),
    }
}

fn uptime(path: &Path) -> Seen<i64> {
    let why = |why: &str| Unreadable { path: path.to_owned(), why: why.to_owned() };
    let text = small(path)?.ok_or_else(|| why("No such file or directory"))?;
    let seconds = text.split('.').next().and_then(|seconds| seconds.parse().ok());
    seconds.ok_or_else(|| why("it does not begin with a number of seconds"))
}

fn is_there(root: &Path, path: &Path) -> Seen<bool> {
    match root::resolve(root, path).and_then(|real| real.metadata()) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn stamp(root: &Path, path: &Path) -> Stamp {
    let real = match root::resolve(root, path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Stamp::Absent,
        Err(error) => return Stamp::Unreadable(unreadable(path, &error)),
    };
    match real.metadata() {
        // Some are for root alone; that one is there says enough.
        Ok(metadata) if metadata.is_file() => Stamp::Present {
            written: metadata.mtime(),
            text: small(&real).ok().flatten().unwrap_or_default(),
        },
        Ok(_) => {
            Stamp::Unreadable(Unreadable { path: path.to_owned(), why: "not a regular file".to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Stamp::Absent,
        Err(error) => Stamp::Unreadable(unreadable(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_trees_own() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("stat", "cpu  1 2 3\nctxt 5\nbtime 1755650000\nprocesses 7\n");
        write("uptime", "3600.25 99.00\n");
        assert_eq!(clock(dir.path()).now(), Some(1_755_653_600));
        assert_eq!(clock(dir.path()).age(1_755_653_000), Some(600));
        write("stat", "cpu 1\nbtime soon\n");
        assert_eq!(clock(dir.path()).boot.unwrap_err().why, "no line says btime");
        write("uptime", "\n");
        assert!(clock(dir.path()).uptime.is_err());
        assert_eq!(clock(&dir.path().join("none")).now(), None);
    }
}
