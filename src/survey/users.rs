// SPDX-License-Identifier: Apache-2.0
//! Processes that have GPU or RDMA devices open: they may be using `nvidia_peermem`. Nothing tells who
//! really does.

use crate::ready::clock::now;
use crate::ready::files::read::small;
use crate::ready::sort;
use crate::ready::time::BootTime;
use std::path::Path;

/// As many as a person reads.
const NAMED: usize = 10;
/// Open files of a process that are looked at: the first ones. A container runtime may have a million.
const FILES: usize = 1000;
/// The last entry of a search that was broken off.
pub const UNSEARCHED: &str = "and processes that were not searched";

/// `name (pid)` of each process that has such a device open, as far as this `/proc` shows it; the last
/// entries count those that are left out, and say whether time was up before the search ended.
#[must_use]
pub fn users(proc: &Path, until: BootTime) -> Vec<String> {
    let processes = proc.read_dir().into_iter().flatten().filter_map(Result::ok);
    let mut pids: Vec<u32> = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    sort::sort(&mut pids);
    let count = pids.len();
    let mut searched = 0;
    let in_time = pids.into_iter().take_while(|_| now() < until).inspect(|_| searched += 1);
    let mut held = in_time.filter(|pid| has_a_device(&proc.join(pid.to_string())));
    let named = |pid: u32| {
        // A name may have any byte.
        let name = small(&proc.join(pid.to_string()).join("comm")).ok().flatten().unwrap_or_default();
        format!("{} ({pid})", name.replace('\n', " "))
    };
    let mut users: Vec<_> = held.by_ref().take(NAMED).map(named).collect();
    let more = held.count();
    if more > 0 {
        users.push(format!("{more} more"));
    }
    if searched < count {
        users.push(UNSEARCHED.to_owned());
    }
    users
}

fn has_a_device(process: &Path) -> bool {
    let fds = process.join("fd").read_dir().into_iter().flatten().take(FILES).filter_map(Result::ok);
    fds.filter_map(|fd| fd.path().read_link().ok()).any(|target| {
        let target = target.to_string_lossy();
        target.starts_with("/dev/nvidia") || target.starts_with("/dev/infiniband/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    fn later() -> BootTime {
        now() + Duration::from_secs(3600)
    }

    /// Four processes with a million open files each delayed an unload by 36 s.
    #[test]
    fn a_search_that_is_out_of_time_ends_and_says_so() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(proc.path().join("7/fd")).unwrap();
        assert!(users(proc.path(), later()).is_empty());
        assert_eq!(users(proc.path(), now()), [UNSEARCHED]);
    }

    #[test]
    fn processes_are_named_by_the_devices_they_hold() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, name: &str, target: &str| {
            let fd = proc.path().join(pid.to_string()).join("fd");
            std::fs::create_dir_all(&fd).unwrap();
            std::fs::write(fd.with_file_name("comm"), format!("{name}\n")).unwrap();
            symlink(target, fd.join("3")).unwrap();
        };
        process(20, "python3", "/dev/nvidia0");
        process(3, "ib_write_bw", "/dev/infiniband/uverbs0");
        process(4, "sh", "/dev/null");
        process(5, "vi", "/tmp/dev/nvidia0");
        std::fs::create_dir(proc.path().join("sys")).unwrap();
        assert_eq!(users(proc.path(), later()), ["ib_write_bw (3)", "python3 (20)"]);
        (100..115).for_each(|pid| process(pid, "rank", "/dev/nvidia-uvm"));
        assert_eq!(users(proc.path(), later()).last().unwrap(), "7 more");
        assert!(users(&proc.path().join("none"), later()).is_empty());
    }
}
