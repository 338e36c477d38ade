// SPDX-License-Identifier: Apache-2.0
//! The processes that matter: kubelet, and the container runtimes. Those of pods are passed over: a
//! kind node or a docker in a pod has a containerd too, and it is not the node's.

use super::super::read::{small, whole};
use crate::observation::{Seen, Unreadable};
use crate::symptoms::runtime::Process;
use std::path::Path;

/// `USER_HZ`: 100 for every program on every architecture that Linux still has.
const TICKS: u64 = 100;
/// A command line may be as long as the stack allows; those that matter are short.
const COMMAND_LINE: u64 = 64 * 1024;

/// A process, and how it was called.
#[derive(Debug)]
pub(super) struct Called {
    /// As ps shows it; at most 15 bytes.
    pub(super) name: String,
    /// Its arguments, the program's name included.
    pub(super) arguments: Vec<String>,
    pub(super) process: Process,
}

impl Called {
    /// The value of an option, by any of its spellings: `--name value`, `--name=value`, `-n value`.
    pub(super) fn option(&self, names: &[&str]) -> Option<&str> {
        option(self.arguments.iter().map(String::as_str), names)
    }
}

/// The same for any list of arguments.
pub(super) fn option<'a>(arguments: impl IntoIterator<Item = &'a str>, names: &[&str]) -> Option<&'a str> {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if names.contains(&name) {
            return value.or_else(|| arguments.next());
        }
    }
    None
}

/// All of these names, but for those in pods.
pub(super) fn called(proc: &Path, boot: Option<i64>, wanted: impl Fn(&str) -> bool) -> Seen<Vec<Called>> {
    if !super::super::lock::shows_the_host(proc) {
        let why = "it does not show the host's processes (hostPID: true)".to_owned();
        return Err(Unreadable { path: proc.to_owned(), why });
    }
    let entries = proc.read_dir().map_err(|error| super::super::read::unreadable(proc, &error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    // A process that ends while it is looked at is none.
    Ok(pids.into_iter().filter_map(|pid| one(&proc.join(pid.to_string()), pid, boot, &wanted)).collect())
}

fn one(directory: &Path, pid: u32, boot: Option<i64>, wanted: impl Fn(&str) -> bool) -> Option<Called> {
    let name = small(&directory.join("comm")).ok()??;
    if !wanted(&name) || is_in_a_pod(directory) {
        return None;
    }
    let line = whole(&directory.join("cmdline"), COMMAND_LINE).ok()?;
    let arguments = line.split_terminator('\0').map(str::to_owned).collect();
    Some(Called { name, arguments, process: Process { pid, started: started(directory, boot) } })
}

/// kubelet's cgroups are called kubepods, by whatever driver; a container of docker's has its name.
fn is_in_a_pod(directory: &Path) -> bool {
    let cgroups = small(&directory.join("cgroup")).ok().flatten().unwrap_or_default();
    ["kubepods", "/docker/", "docker-"].iter().any(|pod| cgroups.contains(pod))
}

fn started(directory: &Path, boot: Option<i64>) -> Option<i64> {
    let text = whole(&directory.join("stat"), 4096).ok()?;
    Some(boot? + i64::try_from(start_ticks(&text)? / TICKS).ok()?)
}

/// The 22nd field of <pid>/stat (proc(5)); the name before it may hold spaces and brackets. The procfs
/// crate panics where a line is cut off.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    behind_the_name.split_ascii_whitespace().nth(19)?.parse().ok()
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
    fn options_have_two_spellings() {
        let line = ["containerd", "-c", "/a.toml", "--address=/run/a.sock", "--log-level", "info"];
        assert_eq!(option(line, &["-c", "--config"]), Some("/a.toml"));
        assert_eq!(option(line, &["-a", "--address"]), Some("/run/a.sock"));
        assert_eq!(option(line, &["--state"]), None);
        assert_eq!(option(["containerd", "-c"], &["-c"]), None);
    }
}
