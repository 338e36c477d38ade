// SPDX-License-Identifier: Apache-2.0
//! One pass over `<proc>`, by the program's name first: who wants a thing of which a node has one, and who has GPUs
//! open.

use crate::symptoms::daemons::{DOCKERD, Daemon, EXCLUSIVE};
use peermem_gate::ready::files::read::{beginning, small, whole};
use peermem_gate::survey::Survey;
use std::path::Path;

/// The kernel cuts a name to as many bytes.
const NAME: usize = 15;
/// So much of a command line has the program.
const PROGRAM: u64 = 256;
/// As many as any node has of them.
const MOST: usize = 64;
/// Open files of a process that are looked at.
const FILES: usize = 1000;
/// `USER_HZ`, on every architecture that Linux still has.
const TICKS: i64 = 100;

/// `holders` are `name (pid)` of processes that have devices open.
pub(super) fn read(proc: &Path, holders: &[String], survey: &Survey) -> Vec<Daemon> {
    let booted = survey.clock.boot.as_ref().ok().copied();
    if survey.processes.hidden().is_some() {
        return Vec::new();
    }
    let holders: Vec<_> = holders
        .iter()
        .filter_map(|holder| holder.rsplit_once(" (")?.1.strip_suffix(')')?.parse().ok())
        .collect();
    let entries = proc.read_dir().into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<_> = pids
        .filter_map(|pid| one(&proc.join(pid.to_string()), holders.contains(&pid), booted))
        .take(MOST)
        .collect();
    found.sort_by(|one, other| one.directory.cmp(&other.directory));
    found
}

fn one(directory: &Path, is_holder: bool, booted: Option<i64>) -> Option<Daemon> {
    let name = small(&directory.join("comm")).ok()??;
    let mut known = EXCLUSIVE.iter().flat_map(|(_, programs)| *programs).chain([&DOCKERD]);
    let is_named = known.any(|program| program[..program.len().min(NAME)] == name);
    if !is_named && !is_holder {
        return None;
    }
    let line = beginning(&directory.join("cmdline"), PROGRAM).ok()?;
    let program = line.split(|byte| *byte == 0).next().map(String::from_utf8_lossy)?;
    let program = program.rsplit('/').next()?.to_owned();
    let stat = whole(&directory.join("stat"), 4096).ok();
    let ticks = stat.and_then(|stat| stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse::<i64>().ok());
    Some(Daemon {
        program,
        started: booted.zip(ticks).map(|(booted, ticks)| booted + ticks / TICKS),
        groups: small(&directory.join("cgroup")).ok().flatten().unwrap_or_default(),
        has_gpu: is_holder && has_gpu(directory),
        directory: directory.to_owned(),
    })
}

fn has_gpu(directory: &Path) -> bool {
    let open = directory.join("fd").read_dir().into_iter().flatten().take(FILES).flatten();
    let mut targets = open.filter_map(|open| open.path().read_link().ok());
    targets.any(|target| target.to_string_lossy().starts_with("/dev/nvidia"))
}
