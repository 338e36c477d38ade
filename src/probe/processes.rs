// SPDX-License-Identifier: Apache-2.0
//! The processes that matter: one pass over `<proc>`, by name first, because a node has thousands.

use super::lock::shows_the_host;
use crate::files::read::{open, small, unreadable, whole};
use crate::observation::{Seen, Unreadable};
use crate::order;
use crate::survey::process::{Environment, Process, Processes, SIGNS, Sign, VARIABLES};
use std::io::Read;
use std::path::Path;

/// `USER_HZ`: 100 for every program on every architecture that Linux still has.
pub(super) const TICKS: u64 = 100;
/// A command line may be as long as the stack allows; those that matter are short.
const COMMAND_LINE: u64 = 64 * 1024;
/// An environment is at most a few pages.
const ENVIRON: u64 = 256 * 1024;

/// Those that a sign reveals, the oldest first. `booted` is when the kernel started, in seconds since 1970.
#[must_use]
pub fn read(proc: &Path, booted: Option<i64>) -> Processes {
    match shows_the_host(proc) {
        Ok(true) => {}
        Ok(false) => {
            let why = "it does not show the host's processes (hostPID: true)".to_owned();
            return Processes(Err(Unreadable { path: proc.to_owned(), why }));
        }
        Err(why) => return Processes(Err(why)),
    }
    let entries = match proc.read_dir() {
        Ok(entries) => entries,
        Err(error) => return Processes(Err(unreadable(proc, &error))),
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that ends while it is looked at is none.
    let mut processes: Vec<_> = pids.filter_map(|pid: u32| one(proc, pid, booted)).collect();
    order::sort_by_key(&mut processes, |process| (process.started, process.pid));
    Processes(Ok(processes))
}

/// `SLICE:cri-containerd:ID`, as kubelet and containerd name a group to systemd; without it runc takes it for a path.
const LITERAL: &str = ".slice:cri-containerd:";

fn one(proc: &Path, pid: u32, booted: Option<i64>) -> Option<Process> {
    let directory = proc.join(pid.to_string());
    let name = small(&directory.join("comm")).ok()??;
    if !SIGNS.iter().any(|sign| sign.names.contains(&name.as_str())) {
        return None;
    }
    // Without it the name must do.
    let line = whole(&directory.join("cmdline"), COMMAND_LINE).unwrap_or_default();
    let arguments: Vec<_> = line.split_terminator('\0').map(str::to_owned).collect();
    let cgroups = small(&directory.join("cgroup")).ok().flatten().unwrap_or_default();
    let sign = SIGNS.iter().find(|sign| fits(sign, &name, &arguments, &cgroups))?;
    Some(Process {
        pid,
        role: sign.role,
        arguments,
        started: started(&directory, booted),
        pod: pod(&cgroups),
        has_literal_cgroup: cgroups.contains(LITERAL),
        environment: sign.has_settings.then(|| environment(&directory.join("environ"))),
        name,
        directory,
    })
}

fn fits(sign: &Sign, name: &str, arguments: &[String], cgroups: &str) -> bool {
    sign.names.contains(&name)
        && sign.in_pod.is_none_or(|in_pod| in_pod == is_in_a_pod(cgroups))
        && (sign.argument.is_empty() || arguments.iter().any(|argument| argument.ends_with(sign.argument)))
}

/// kubelet's cgroups are called kubepods, by whatever driver; a container of docker's has its name.
fn is_in_a_pod(cgroups: &str) -> bool {
    ["kubepods", "/docker/", "docker-"].iter().any(|pod| cgroups.contains(pod))
}

/// `…-pod6f1f2c1e_8f2b_….slice/…`, or with dashes where cgroupfs is the driver.
fn pod(cgroups: &str) -> Option<String> {
    /// Characters of a UID.
    const UID: usize = 36;
    let is_uid = |uid: &&str| uid.bytes().all(|byte| byte.is_ascii_hexdigit() || b"_-".contains(&byte));
    let uids = cgroups.match_indices("pod").filter_map(|(at, _)| cgroups.get(at + 3..at + 3 + UID));
    uids.filter(is_uid).last().map(|uid| uid.replace('_', "-"))
}

fn started(directory: &Path, booted: Option<i64>) -> Option<i64> {
    let text = whole(&directory.join("stat"), 4096).ok()?;
    Some(booted? + i64::try_from(start_ticks(&text)? / TICKS).ok()?)
}

/// The 22nd field of <pid>/stat (proc(5)); the name before it may hold spaces and brackets. The procfs
/// crate panics where a line is cut off.
pub(super) fn start_ticks(stat: &str) -> Option<u64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    behind_the_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Another user's is shown to who may trace that process only (proc(5)).
fn environment(path: &Path) -> Seen<Environment> {
    let mut bytes = Vec::new();
    let without = |why: &str| Unreadable {
        path: path.to_owned(),
        why: format!(
            "{why}: the operator's settings are unknown; reading them needs uid 0 and CAP_SYS_PTRACE"
        ),
    };
    let read = open(path).and_then(|file| file.take(ENVIRON).read_to_end(&mut bytes));
    read.map_err(|error| without(&unreadable(path, &error).why))?;
    if bytes.is_empty() {
        // As of a process that ends.
        return Err(without("is empty"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    let ours = pairs.filter(|(name, _)| VARIABLES.contains(name));
    Ok(ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "812 (a) b (c) S 1 812 812 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 160042 1 1";
        assert_eq!(start_ticks(stat), Some(160_042));
        for cut_off in ["", "812 (a", "812 (a)", "812 (a) S 1 812"] {
            assert_eq!(start_ticks(cut_off), None, "{cut_off:?}");
        }
    }

    #[test]
    fn a_cgroup_names_its_pod() {
        let uid = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
        let systemd = format!(
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-ab.scope",
            uid.replace('-', "_")
        );
        for cgroup in [systemd, format!("0::/kubepods/besteffort/pod{uid}/ab")] {
            assert_eq!(pod(&cgroup).as_deref(), Some(uid));
        }
        for none in
            ["0::/system.slice/kubelet.service", "0::/kubepods.slice/kubepods-pod6f1f", "0::/podé/podruntime"]
        {
            assert_eq!(pod(none), None, "{none}");
        }
    }
}
