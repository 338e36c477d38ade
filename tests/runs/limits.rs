// SPDX-License-Identifier: Apache-2.0
//! Limits that a container or a host may set: the gate answers rightly, or says what it lacks. It never opens early,
//! and never hangs. tests/release/seccomp.rs has the seccomp profile, for the static build.

use crate::support::{ForNobody, Node, can, code, output, tests, wrapped};
use std::process::Command;

/// What a limit may do to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// Nothing.
    Nothing,
    /// It cannot run at all, and says so.
    Fail,
}

/// A limit: its name, the command that sets it and becomes the gate, and what that may do.
const LIMITS: &[(&str, &[&str], May)] = &[
    ("32 MiB of memory", &["prlimit", "--data=33554432"], May::Nothing),
    ("16 descriptors", &["prlimit", "--nofile=16"], May::Nothing),
    ("1 process", &["setpriv", "--reuid=3141591", "--clear-groups", "prlimit", "--nproc=1"], May::Fail),
    ("2 processes", &["setpriv", "--reuid=3141592", "--clear-groups", "prlimit", "--nproc=2"], May::Fail),
    ("3 processes", &["setpriv", "--reuid=3141593", "--clear-groups", "prlimit", "--nproc=3"], May::Fail),
    ("4 processes", &["setpriv", "--reuid=3141594", "--clear-groups", "prlimit", "--nproc=4"], May::Nothing),
    ("hidepid=2", &["unshare", "--mount", "sh", "-c", HIDEPID], May::Nothing),
    ("a read-only root, and no /tmp", &["unshare", "--mount", "sh", "-c", READ_ONLY], May::Nothing),
    ("a user namespace", &["unshare", "--user", "--map-root-user"], May::Nothing),
];

const HIDEPID: &str = "mount -t proc -o hidepid=2 proc /proc && \
    exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" \"$@\"";
const READ_ONLY: &str = "mount -o bind,remount,ro / && { ! mountpoint -q /tmp || mount -o bind,remount,ro /tmp; } && \
    ! touch /tmp/x 2>/dev/null && TMPDIR=/nowhere exec \"$0\" \"$@\"";

/// The exit code, and standard error.
fn limited(by: &[&str], gate: &Command) -> (i32, String) {
    let ended = output(&mut wrapped([&["timeout", "30"], by].concat(), gate));
    (code(ended.status), String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn wait(node: &Node) -> Command {
    let mut wait = node.wait();
    wait.args(["--settle", "10ms", "--timeout", "500ms"]);
    wait
}

fn no_limit_opens_the_gate_early_or_makes_it_hang() {
    let programs = ForNobody::copies();
    for (name, by, may) in LIMITS {
        // The command is tried alone first: this user or machine may not know it.
        if !can(&[*by, &["true"]].concat()) {
            continue;
        }
        let cases = [
            (Node::ready(), wait as fn(&Node) -> Command, 0),
            (Node::ready().without_marker(), wait, 124),
            (Node::ready(), Node::check, 0),
            (Node::ready().without_marker(), Node::check, 1),
        ];
        for (node, verb, right) in cases {
            let (ended, said) = limited(by, &programs.copied(&verb(&node)));
            let is_stopped = *may == May::Fail && [125, 126].contains(&ended) && said.contains("error: ");
            assert!(ended == right || is_stopped, "{name}: {ended}, not {right}: {said}");
        }
    }
}

tests![no_limit_opens_the_gate_early_or_makes_it_hang,];
