// SPDX-License-Identifier: Apache-2.0
//! Who uses RDMA: a swap of MOFED's modules ends it.

use peermem_gate::ready::probe::lock::shows_the_host;
use std::io::ErrorKind;
use std::path::Path;

/// The file that a program opens before it registers memory.
const VERBS: &str = "/dev/infiniband/uverbs";

/// How many processes have an RDMA device open; `None` where this /proc does not show it.
pub fn rdma_users(proc: &Path) -> Option<usize> {
    // A container's own /proc shows only its own, and only root sees what others have open.
    if !shows_the_host(proc).unwrap_or(false) {
        return None;
    }
    let is_hidden = proc.join("1/fd").read_dir().is_err_and(|error| error.kind() != ErrorKind::NotFound);
    if is_hidden {
        return None;
    }
    let processes = proc.read_dir().ok()?.filter_map(Result::ok);
    let is_process = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let processes = processes.filter(|entry| is_process(&entry.file_name()));
    Some(processes.filter(|process| has_device_open(&process.path().join("fd"))).count())
}

fn has_device_open(fds: &Path) -> bool {
    let fds = fds.read_dir().into_iter().flatten().filter_map(Result::ok);
    fds.filter_map(|fd| fd.path().read_link().ok()).any(|target| target.to_string_lossy().starts_with(VERBS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_process_with_a_gpu_open_is_no_user_of_rdma() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(rdma_users(proc.path()), None, "not the host's");
        std::fs::create_dir(proc.path().join("2")).unwrap();
        std::fs::write(proc.path().join("2/comm"), "kthreadd\n").unwrap();
        assert_eq!(rdma_users(proc.path()), Some(0));
        for (pid, target) in
            [("7", "/dev/nvidia0"), ("8", "/dev/infiniband/uverbs3"), ("9", "/dev/infiniband/umad0")]
        {
            let fd = proc.path().join(pid).join("fd");
            std::fs::create_dir_all(&fd).unwrap();
            symlink(target, fd.join("3")).unwrap();
        }
        assert_eq!(rdma_users(proc.path()), Some(1));
        // As /proc/1/fd is for others than root.
        std::fs::create_dir(proc.path().join("1")).unwrap();
        std::fs::write(proc.path().join("1/fd"), "").unwrap();
        assert_eq!(rdma_users(proc.path()), None);
    }
}
