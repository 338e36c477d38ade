// SPDX-License-Identifier: Apache-2.0
//! Limits that a container or a host may set to `keep`: it loads and unloads as it does without them, or says what it
//! lacks. It never loads early, and never hangs. `wait` and `check` are in tests/runs/limits.rs, the seccomp profile
//! that containers have by default in tests/release/seccomp.rs.

use crate::keeping::Place;
use crate::support::{Gate, MARKER, PROMPT, can, suite, tests, until, wrapped};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// What a limit may do to `keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// Nothing.
    Nothing,
    /// It cannot begin, and says so.
    Stop,
    /// It cannot run modprobe, says so, and tries again.
    Starve,
}

/// A limit: its name, the command that sets it and becomes `keep`, and what that may do. The scratch node is `$NODE`.
const LIMITS: &[(&str, &[&str], May)] = &[
    ("32 MiB of memory for data", &["prlimit", "--data=33554432"], May::Nothing),
    ("16 descriptors", &["prlimit", "--nofile=16"], May::Nothing),
    ("hidepid=2, and the two capabilities", &["unshare", "--mount", "sh", "-c", HIDEPID], May::Nothing),
    ("a read-only root, and no /tmp", &["unshare", "--mount", "sh", "-c", READ_ONLY], May::Nothing),
    ("a user namespace", &["unshare", "--user", "--map-root-user"], May::Nothing),
];

/// Root without `CAP_SYS_PTRACE` sees as little as anybody.
const HIDEPID: &str = "mount -t proc -o hidepid=2 proc /proc && \
    exec setpriv --bounding-set=-all,+sys_module,+sys_chroot \"$0\" \"$@\"";
const READ_ONLY: &str = "mount --bind \"$NODE\" \"$NODE\" && mount -o bind,remount,ro / && \
    { ! mountpoint -q /tmp || mount -o bind,remount,ro /tmp; } && ! touch /tmp/x 2>/dev/null && \
    TMPDIR=/nowhere exec \"$0\" \"$@\"";

/// A limit of a cgroup's: its controller, its value, and what it may do. modprobe and rmmod of the scratch node are
/// scripts, whose own children count.
const OF_CGROUPS: &[(&str, &str, May)] = &[
    ("memory", "33554432", May::Nothing),
    ("pids", "1", May::Stop),
    ("pids", "2", May::Starve),
    ("pids", "3", May::Starve),
    ("pids", "4", May::Nothing),
];

/// The file of each controller's limit, of version 1 and of version 2.
const FILES: &[(&str, [&str; 2])] =
    &[("memory", ["memory.limit_in_bytes", "memory.max"]), ("pids", ["pids.max", "pids.max"])];

/// A cgroup with one limit. Dropped, it is removed.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`, having said so, where none can be made.
    fn new(controller: &str, limit: &str) -> Option<Self> {
        let (_, [first, second]) = FILES.iter().find(|(name, _)| *name == controller).expect("a file");
        let root = Path::new("/sys/fs/cgroup");
        let (parent, file) = match root.join(controller) {
            own if own.is_dir() => (own, first),
            _ => {
                let _ = fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"));
                (root.to_owned(), second)
            }
        };
        let path = parent.join(format!("peermem-gate-{controller}-{limit}-{}", std::process::id()));
        let made = fs::create_dir(&path).map(|()| Self(path.clone()));
        match made.and_then(|made| fs::write(path.join(file), limit).map(|()| made)) {
            Ok(made) => Some(made),
            Err(error) => {
                suite::set_aside(&format!("no cgroup with a limit of {controller} can be made: {error}"));
                None
            }
        }
    }

    /// What joins it and becomes the rest of its arguments.
    fn join(&self) -> [String; 3] {
        let procs = self.0.join("cgroup.procs");
        ["sh".to_owned(), "-c".to_owned(), format!("echo $$ >{} && exec \"$0\" \"$@\"", procs.display())]
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A `keep` under a limit, on a node without a marker.
struct Limited {
    name: String,
    may: May,
    // The process ends before its cgroup and its node go.
    keep: Gate,
    place: Place,
    _cgroup: Option<Cgroup>,
}

impl Limited {
    fn new(name: String, by: &[&str], may: May, cgroup: Option<Cgroup>) -> Option<Self> {
        let place = Place::new()?;
        place.node.remove(MARKER);
        let mut keep = wrapped(by, &place.keep());
        let keep = Gate::start(keep.env("NODE", place.node.root()));
        Some(Self { name, may, keep, place, _cgroup: cgroup })
    }

    fn lives(&mut self) {
        let Self { name, may, keep, place, .. } = self;
        if *may == May::Stop {
            let code = keep.ended();
            assert!([125, 126].contains(&code) && keep.said("process"), "{name}: {code}, {:#?}", keep.lines);
            return;
        }
        keep.logs("MarkerAbsent");
        assert!(place.called().is_empty(), "{name}: it loads early");
        place.node.set_marker();
        if *may == May::Starve {
            keep.logs_that("why modprobe fails", |line| {
                let line = line.to_string();
                line.contains("processes may be started") || line.contains("fork")
            });
            assert!(!place.is_loaded(), "{name}");
        } else {
            until(name, || place.is_loaded());
            place.node.remove(MARKER);
            until(name, || !place.is_loaded());
        }
        keep.process().signal(Signal::SIGTERM);
        assert!(keep.process().ends_within(PROMPT), "{name}");
        assert_eq!(keep.ended(), 0, "{name}: {:#?}", keep.lines);
    }
}

/// All at once, each on a node of its own.
fn no_limit_makes_keep_load_early_or_hang() {
    let mut all = Vec::new();
    for (name, by, may) in LIMITS {
        // The command is tried alone first, on a node that it may bind: this machine may not know it.
        let tried = [&["env", "NODE=/mnt"], *by, &["true"]].concat();
        if can(&tried) {
            all.extend(Limited::new((*name).to_owned(), by, *may, None));
        }
    }
    all.iter_mut().for_each(Limited::lives);
}

fn no_cgroups_limit_makes_keep_load_early_or_hang() {
    let mut all = Vec::new();
    for (controller, limit, may) in OF_CGROUPS {
        let Some(cgroup) = Cgroup::new(controller, limit) else { continue };
        let join = cgroup.join();
        let by = join.each_ref().map(String::as_str);
        all.extend(Limited::new(format!("{limit} of {controller}"), &by, *may, Some(cgroup)));
    }
    all.iter_mut().for_each(Limited::lives);
}

tests![no_limit_makes_keep_load_early_or_hang, no_cgroups_limit_makes_keep_load_early_or_hang,];
