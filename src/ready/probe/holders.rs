// SPDX-License-Identifier: Apache-2.0
//! Processes that have GPU or RDMA devices open: they may be using `nvidia_peermem`. Nothing tells who
//! really does.

use crate::ready::files::read::small;
use crate::ready::sort;
use std::path::Path;

/// As many as a person reads.
const NAMED: usize = 10;

/// `name (pid)` of each process that has such a device open, as far as this `/proc` shows it; the last
/// entry counts those that are left out.
#[must_use]
pub fn holders(proc: &Path) -> Vec<String> {
    let processes = proc.read_dir().into_iter().flatten().filter_map(Result::ok);
    let mut pids: Vec<u32> = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    sort::sort(&mut pids);
    let mut held = pids.into_iter().filter(|pid| holds_a_device(&proc.join(pid.to_string())));
    let named = |pid: u32| {
        let name = small(&proc.join(pid.to_string()).join("comm")).ok().flatten().unwrap_or_default();
        format!("{name} ({pid})")
    };
    let mut holders: Vec<_> = held.by_ref().take(NAMED).map(named).collect();
    let more = held.count();
    if more > 0 {
        holders.push(format!("{more} more"));
    }
    holders
}

fn holds_a_device(process: &Path) -> bool {
    let fds = process.join("fd").read_dir().into_iter().flatten().filter_map(Result::ok);
    fds.filter_map(|fd| fd.path().read_link().ok()).any(|target| {
        let target = target.to_string_lossy();
        target.starts_with("/dev/nvidia") || target.starts_with("/dev/infiniband/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
        assert_eq!(holders(proc.path()), ["ib_write_bw (3)", "python3 (20)"]);
        (100..115).for_each(|pid| process(pid, "rank", "/dev/nvidia-uvm"));
        assert_eq!(holders(proc.path()).last().unwrap(), "7 more");
        assert!(holders(&proc.path().join("none")).is_empty());
    }
}
