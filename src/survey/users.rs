// SPDX-License-Identifier: Apache-2.0
//! Processes that have GPU or RDMA devices open: they may be using `nvidia_peermem`. Nothing tells who
//! really does.

use crate::ready::clock::now;
use crate::ready::files::read::small;
use crate::ready::sort;
use crate::ready::time::BootTime;
use std::cell::Cell;
use std::path::Path;

/// As many as a person reads.
const NAMED: usize = 10;
/// Open files of a process that are looked at: the first ones. A container runtime may have a million.
const FILES: usize = 1000;
/// Processes and open files that a search looks at, in a third of a second. Any pod may have more.
const ALL: usize = 100_000;
/// The last entry of a search that was broken off.
pub const UNSEARCHED: &str = "and processes that were not searched";

/// `name (pid)` of each process that has such a device open, as far as this `/proc` shows it; the last
/// entries count those that are left out, and say whether the search was broken off.
#[must_use]
pub fn users(proc: &Path, until: BootTime) -> Vec<String> {
    search(proc, until, ALL)
}

/// At most so many processes and open files are looked at.
fn search(proc: &Path, until: BootTime, all: usize) -> Vec<String> {
    let processes = proc.read_dir().into_iter().flatten().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut pids: Vec<_> = pids.take(all + 1).collect();
    sort::sort(&mut pids);
    let count = pids.len();
    let (mut searched, looked_at) = (0, Cell::new(0));
    let goes_on = |_: &u32| now() < until && looked_at.get() < all;
    let in_time = pids.into_iter().take_while(goes_on).inspect(|_| searched += 1);
    let mut held = in_time.filter(|pid| has_a_device(&proc.join(pid.to_string()), &looked_at));
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

fn has_a_device(process: &Path, looked_at: &Cell<usize>) -> bool {
    let count = || looked_at.set(looked_at.get() + 1);
    count();
    let fds = process.join("fd").read_dir().into_iter().flatten().take(FILES).filter_map(Result::ok);
    fds.inspect(|_| count()).filter_map(|fd| fd.path().read_link().ok()).any(|target| {
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
    fn a_search_looks_at_a_bounded_number_of_processes_and_open_files() {
        let proc = tempfile::tempdir().unwrap();
        for pid in 10..20 {
            let fd = proc.path().join(pid.to_string()).join("fd");
            std::fs::create_dir_all(&fd).unwrap();
            (0..9).for_each(|number| symlink("/dev/null", fd.join(number.to_string())).unwrap());
        }
        symlink("/dev/nvidia0", proc.path().join("19/fd/9")).unwrap();
        std::fs::write(proc.path().join("19/comm"), "job\n").unwrap();
        assert_eq!(search(proc.path(), later(), 101), ["job (19)"]);
        assert_eq!(search(proc.path(), later(), 90), [UNSEARCHED], "nine processes");
        assert_eq!(search(proc.path(), later(), 5), [UNSEARCHED], "more processes than that");
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
