// SPDX-License-Identifier: Apache-2.0
//! The processes that matter: one pass over `<proc>`, by name first, because a node has thousands. Anybody may choose
//! a name, so a process counts by its privileges and its pod.

use crate::process::privilege::effective;
use crate::ready::files::read::{BUFFER, beginning, open, small, unreadable, whole};
use crate::ready::observation::{Seen, Unreadable};
use crate::ready::probe::holder_start::{TICKS, start_ticks};
use crate::ready::probe::lock::shows_the_host;
use crate::ready::sort;
use crate::survey::process::{Environment, Process, ProcessSignature, Processes, SIGNATURES, VARIABLES};
use std::io::{self, Read};
use std::path::Path;

/// So much is read of a command line, whose process may have filled it.
const COMMAND_LINE: u64 = 4 * 1024;
/// kubelet has some dozens.
const ARGUMENTS: usize = 256;
/// The kernel allows a process no more than this by default: a quarter of its 8 MiB of stack.
const ENVIRON: u64 = 2 * 1024 * 1024;
/// No variable of the operators is as long.
const VARIABLE: usize = 4 * 1024;
/// The oldest of each role are kept. What a process has started bears its name.
const OF_A_ROLE: usize = 32;

/// The operators' own, the oldest first. `booted` is when the kernel started, in seconds since 1970.
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
    let (mut processes, mut most) = (Vec::new(), OF_A_ROLE);
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // A process that ends while it is looked at is none.
        processes.extend(one(proc, pid, booted));
        if processes.len() >= most {
            keep_the_oldest(&mut processes);
            most = processes.len() + OF_A_ROLE;
        }
    }
    keep_the_oldest(&mut processes);
    for process in &mut processes {
        let has_settings = SIGNATURES.iter().any(|sign| sign.role == process.role && sign.has_settings);
        process.environment = has_settings.then(|| environment(&process.directory.join("environ")));
    }
    Processes(Ok(processes))
}

/// A bound on memory, whatever a node runs.
fn keep_the_oldest(processes: &mut Vec<Process>) {
    sort::sort_by_key(processes, |process| (process.started, process.pid));
    let mut counts = std::collections::BTreeMap::new();
    processes.retain(|process| {
        let count = counts.entry(process.role).or_insert(0);
        *count += 1;
        *count <= OF_A_ROLE
    });
}

/// `SLICE:cri-containerd:ID`, as kubelet and containerd name a group to systemd; without it runc takes it for a path.
const LITERAL: &str = ".slice:cri-containerd:";

fn one(proc: &Path, pid: u32, booted: Option<i64>) -> Option<Process> {
    let directory = proc.join(pid.to_string());
    let name = small(&directory.join("comm")).ok()??;
    if !SIGNATURES.iter().any(|sign| sign.names.contains(&name.as_str())) {
        return None;
    }
    // Privileges that cannot be read are none.
    let capabilities = effective(&directory).ok()?;
    // Without it the name must do.
    let line = beginning(&directory.join("cmdline"), COMMAND_LINE).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let arguments: Vec<_> = line.split_terminator('\0').take(ARGUMENTS).map(str::to_owned).collect();
    let cgroups = small(&directory.join("cgroup")).ok().flatten().unwrap_or_default();
    let sign = SIGNATURES.iter().find(|sign| fits(sign, &name, &arguments, &cgroups))?;
    if capabilities & sign.capabilities != sign.capabilities {
        return None;
    }
    Some(Process {
        pid,
        role: sign.role,
        arguments,
        started: started(&directory, booted),
        pod: pod(&cgroups),
        has_literal_cgroup: cgroups.contains(LITERAL),
        environment: None,
        name,
        directory,
    })
}

fn fits(sign: &ProcessSignature, name: &str, arguments: &[String], cgroups: &str) -> bool {
    sign.names.contains(&name)
        && sign.in_pod.is_none_or(|in_pod| in_pod == is_in_a_pod(cgroups))
        && (sign.argument.is_empty() || arguments.iter().any(|argument| argument.ends_with(sign.argument)))
}

/// kubelet's cgroups are called kubepods, by whatever driver; a container of docker's has its name. To a reader in a
/// cgroup namespace of its own, the group of another pod is `/../../podUID/ID`.
fn is_in_a_pod(cgroups: &str) -> bool {
    pod(cgroups).is_some() || ["kubepods", "/docker/", "docker-"].iter().any(|pod| cgroups.contains(pod))
}

/// `…-pod6f1f2c1e_8f2b_….slice/…`, or with dashes where cgroupfs is the driver. A static pod has a hash as its UID.
pub(crate) fn pod(cgroups: &str) -> Option<String> {
    /// Characters of a UID, and of a hash.
    const LENGTHS: [usize; 2] = [36, 32];
    let of = |(at, _): (usize, &str)| {
        let behind = &cgroups[at + 3..];
        let is_of_uid = |byte: u8| byte.is_ascii_hexdigit() || b"_-".contains(&byte);
        let length = behind.bytes().take_while(|byte| is_of_uid(*byte)).count();
        LENGTHS.contains(&length).then(|| behind[..length].replace('_', "-"))
    };
    cgroups.match_indices("pod").filter_map(of).last()
}

fn started(directory: &Path, booted: Option<i64>) -> Option<i64> {
    let text = whole(&directory.join("stat"), 4096).ok()?;
    Some(booted? + i64::try_from(start_ticks(&text)? / TICKS).ok()?)
}

/// Another user's is shown to who may trace that process only (proc(5)).
fn environment(path: &Path) -> Seen<Environment> {
    let without = |why: &str| Unreadable {
        path: path.to_owned(),
        why: format!(
            "{why}: the operator's settings are unknown; reading them needs uid 0 and CAP_SYS_PTRACE"
        ),
    };
    let mut environment = Environment::new();
    let mut is_empty = true;
    let read = each_variable(path, |name, value| {
        is_empty = false;
        if let Some(name) = VARIABLES.iter().find(|ours| ours.as_bytes() == name) {
            environment.insert((*name).to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    });
    read.map_err(|error| without(&unreadable(path, &error).why))?;
    // As of a process that ends.
    if is_empty { Err(without("is empty")) } else { Ok(environment) }
}

/// Calls `each` with every variable of an environment, which is never whole in memory.
fn each_variable(path: &Path, mut each: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let mut file = open(path)?.take(ENVIRON);
    let mut buffer = [0; BUFFER];
    let mut begun: Vec<u8> = Vec::new();
    let mut end = |begun: &mut Vec<u8>| {
        if let Some(at) = memchr::memchr(b'=', begun).filter(|_| begun.len() < VARIABLE) {
            each(&begun[..at], &begun[at + 1..]);
        }
        begun.clear();
    };
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        let mut rest = &buffer[..read];
        loop {
            let ended = memchr::memchr(0, rest);
            let part = &rest[..ended.unwrap_or(rest.len())];
            begun.extend_from_slice(&part[..part.len().min(VARIABLE - begun.len())]);
            let Some(at) = ended else { break };
            end(&mut begun);
            rest = &rest[at + 1..];
        }
    }
    end(&mut begun);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_after_any_process_name() {
        let stat = "812 (a) b (c) S 1 812 812 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 160042 1 1";
        assert_eq!(start_ticks(stat), Some(160_042));
        for truncated in ["", "812 (a", "812 (a)", "812 (a) S 1 812"] {
            assert_eq!(start_ticks(truncated), None, "{truncated:?}");
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
        let own_namespace = format!("0::/../../pod{uid}/ab");
        assert_eq!(pod(&own_namespace).as_deref(), Some(uid));
        assert!(is_in_a_pod(&own_namespace));
        let hash = "3fe1f6f6b6b4d8b5d9c7e7b8ad0a1b2c";
        assert_eq!(pod(&format!("0::/../../pod{hash}/ab")).as_deref(), Some(hash));
        for none in
            ["0::/system.slice/kubelet.service", "0::/kubepods.slice/kubepods-pod6f1f", "0::/podé/podruntime"]
        {
            assert_eq!(pod(none), None, "{none}");
        }
    }

    #[test]
    fn variables_are_found_wherever_they_are_in_an_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = format!("LONG={}\0", "x".repeat(100_000));
        let all = format!("{long}USE_HOST_MOFED=a=b\0{long}odd\0NODE_NAME=n1");
        std::fs::write(file.path(), all).unwrap();
        let environment = environment(file.path()).unwrap();
        let pairs: Vec<_> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("NODE_NAME", "n1"), ("USE_HOST_MOFED", "a=b")]);
        std::fs::write(file.path(), "").unwrap();
        assert!(super::environment(file.path()).unwrap_err().why.starts_with("is empty"));
    }

    /// A node with processes of this name, pid and `CapEff`, in this user namespace.
    fn node(processes: &[(u32, &str, &str)], uid_map: Option<&str>) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("2/comm".to_owned(), "kthreadd\n");
        for (pid, name, capabilities) in processes {
            write(format!("{pid}/comm"), &format!("{name}\n"));
            write(format!("{pid}/cgroup"), "0::/../../pod6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f/ab\n");
            write(format!("{pid}/status"), &format!("Name:\tx\nCapEff:\t{capabilities}\n"));
            write(format!("{pid}/environ"), "USE_HOST_MOFED=true\0");
            if let Some(uid_map) = uid_map {
                write(format!("{pid}/uid_map"), uid_map);
            }
        }
        tree
    }

    #[test]
    fn a_process_counts_by_its_privileges_and_not_by_its_name() {
        const ALL: &str = "000001ffffffffff";
        const INITIAL: &str = "         0          0 4294967295\n";
        let pids = |capabilities, uid_map| {
            let tree = node(&[(700, "nvidia-driver", capabilities)], uid_map);
            read(tree.path(), None).all().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(ALL, Some(INITIAL)), [700]);
        assert_eq!(pids(ALL, None), [700], "a kernel without user namespaces, or a copy of a node");
        // An ordinary container's, one that may mount, none, and no such line.
        for capabilities in ["00000000a80425fb", "0000000000200000", "0000000000000000", "-"] {
            assert_eq!(pids(capabilities, Some(INITIAL)), [0; 0], "{capabilities}");
        }
        // In its own user namespace any process may have all capabilities.
        for uid_map in ["         0       1000          1\n", "         0     100000      65536\n", ""] {
            assert_eq!(pids(ALL, Some(uid_map)), [0; 0], "{uid_map:?}");
        }
    }

    #[test]
    fn of_many_processes_with_one_name_the_oldest_are_kept() {
        const ALL: &str = "000001ffffffffff";
        let crowd: Vec<_> = (1000..3000).map(|pid| (pid, "nvidia-driver", ALL)).collect();
        let tree =
            node(&[&crowd[..], &[(900, "entrypoint.sh", ALL), (3500, "nvidia-toolkit", ALL)]].concat(), None);
        // As long as a command line and an environment may be.
        for pid in 1000..1200 {
            std::fs::write(tree.path().join(format!("{pid}/cmdline")), "a\0".repeat(64 * 1024)).unwrap();
            let environ = "X=y\0".repeat(50_000) + "NODE_NAME=n1\0";
            std::fs::write(tree.path().join(format!("{pid}/environ")), environ).unwrap();
        }
        let processes = read(tree.path(), None);
        assert!(processes.all().all(|process| process.arguments.len() <= ARGUMENTS));
        let fat = processes.first(crate::survey::process::Role::Driver).unwrap();
        assert_eq!(
            (fat.variable("NODE_NAME"), fat.environment.as_ref().unwrap().as_ref().unwrap().len()),
            (Some("n1"), 1)
        );
        let pids: Vec<_> = processes.all().map(|process| process.pid).collect();
        let oldest = (1000..1000 + u32::try_from(OF_A_ROLE).unwrap()).chain([3500]);
        assert_eq!(pids, oldest.collect::<Vec<_>>());
    }
}
