// SPDX-License-Identifier: Apache-2.0
//! The hidden step between us and modprobe. A child would inherit our blocked signals, and cannot be put into
//! another root without unsafe code. So it begins as this program, sees to both, and becomes modprobe.

use crate::process::exec::Unrunnable;
use crate::ready::errno;
use crate::ready::exit::Exit;
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::unistd::{chdir, chroot};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Called by this name, the program is [`step`] and nothing else.
pub const CHROOT_EXEC: &str = "peermem-gate-step";

/// The programs that shims further up have run as modprobe, separated by colons. A script that is called modprobe and
/// calls the shim would otherwise be found by it again, and the two would run each other forever.
pub(super) const SEEN_SHIMS: &str = "_PEERMEM_GATE_TRIED";

/// Becomes a program below another root; returns only if that failed, with the error logged. The arguments are those
/// after [`CHROOT_EXEC`]: a name, a root, the program below it that is called so, and its own arguments.
#[must_use]
pub fn step(args: &[OsString]) -> Exit {
    let why = match args {
        [name, root, program, args @ ..] => {
            // What is pending comes now. Fails only for a wrong constant.
            let _ = SigSet::empty().thread_set_mask();
            become_below(
                Path::new(root),
                Path::new(program),
                name,
                args,
                &std::env::var_os(SEEN_SHIMS).unwrap_or_default(),
            )
        }
        _ => Unrunnable {
            exit: Exit::Refused,
            message: "a name, a root and a program are missing: this is an internal step of peermem-gate"
                .to_owned(),
        },
    };
    // Nothing is left to be done about a standard error that is gone.
    let _ = io::stderr().write_all(format!("{CHROOT_EXEC}: {}\n", why.message).as_bytes());
    why.exit
}

pub(super) fn become_below(
    root: &Path,
    modprobe: &Path,
    argv0: &OsStr,
    args: &[OsString],
    tried: &OsStr,
) -> Unrunnable {
    // The working directory stays where the root does: a module may be named by its path.
    if !is_system(root)
        && let Err(errno) = chroot(root).and_then(|()| chdir("/"))
    {
        let remedy = match errno {
            Errno::EPERM => "it needs CAP_SYS_CHROOT, as a privileged container has",
            _ => "check that --driver-root is the driver container's root",
        };
        let message = format!("{} cannot be entered: {}: {remedy}", root.display(), errno.desc());
        return Unrunnable { exit: Exit::NotExecutable, message };
    }
    // std's exec also gives SIGPIPE its default back, which Rust's runtime took away.
    let error = Command::new(modprobe).arg0(argv0).args(args).env(SEEN_SHIMS, tried).exec();
    let (exit, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => (
            Exit::NotFound,
            "install kmod there; if the file exists, install the interpreter that its #! line or program \
                header names",
        ),
        _ => (Exit::NotExecutable, "use an executable program for this machine"),
    };
    let below = if is_system(root) { String::new() } else { format!(" below {}", root.display()) };
    let message = format!("{}{below} cannot be run: {}: {remedy}", modprobe.display(), errno::words(&error));
    Unrunnable { exit, message }
}

pub(super) fn tried() -> Vec<PathBuf> {
    std::env::var_os(SEEN_SHIMS).map(|all| std::env::split_paths(&all).collect()).unwrap_or_default()
}

pub(crate) fn is_system(root: &Path) -> bool {
    root == Path::new("/")
}
