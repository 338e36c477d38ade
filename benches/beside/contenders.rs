// SPDX-License-Identifier: Apache-2.0
//! Who waits for a marker and then becomes CMD: the gate, and what people use in its place.

use super::support::{self, MARKER, Node};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// `wait --settle 0s`.
    Gate,
    Dnotify,
    /// inotify, its descriptor closed by execve(2).
    Inotify,
    /// inotify, its descriptor left to CMD.
    InotifyLeft,
    Inotifywait,
    Dash,
    /// With three looks for modules.
    DashGreps,
    Bash,
}

impl Contender {
    pub(crate) const ALL: [Self; 8] = [
        Self::Gate,
        Self::Dnotify,
        Self::Inotify,
        Self::InotifyLeft,
        Self::Inotifywait,
        Self::Dash,
        Self::DashGreps,
        Self::Bash,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gate => "peermem-gate wait",
            Self::Dnotify => "C, dnotify",
            Self::Inotify => "C, inotify",
            Self::InotifyLeft => "C, inotify left open",
            Self::Inotifywait => "sh, inotifywait",
            Self::Dash => "dash, [ -f ] each 5 s",
            Self::DashGreps => "dash, [ -f ], 3 greps",
            Self::Bash => "bash, [ -f ] each 5 s",
        }
    }

    /// Sleeps whatever happens, and looks again each 5 s.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Self::Dash | Self::DashGreps | Self::Bash)
    }

    /// What the shell has to have.
    fn program(self) -> &'static str {
        match self {
            Self::Inotifywait => "inotifywait",
            Self::Dash | Self::DashGreps => "dash",
            Self::Bash => "bash",
            _ => "true",
        }
    }

    pub(crate) fn is_here(self) -> bool {
        let found = Command::new("which").arg(self.program()).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    }
}

/// The node that is waited on, and the programs.
pub(crate) struct Arena {
    pub(crate) node: Node,
    gate: PathBuf,
    programs: tempfile::TempDir,
}

impl Arena {
    /// Builds what is in C. `None`, having said so, without the static build of the gate.
    pub(crate) fn new() -> Option<Self> {
        let programs = tempfile::tempdir().expect("a directory");
        for (name, source, flags) in [
            ("first", "first.c", &["-nostartfiles"][..]),
            ("dnotify", "dnotify.c", &[]),
            ("inotify", "inotify.c", &[]),
            ("inotify-left", "inotify.c", &["-DLEFT_OPEN"]),
            ("usage", "usage.c", &[]),
        ] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/beside").join(source);
            let built = Command::new("gcc")
                .args(["-O2", "-static", "-o"])
                .args([programs.path().join(name), source])
                .args(flags)
                .status()
                .expect("gcc runs");
            assert!(built.success(), "{name}");
        }
        Some(Self { node: Node::ready(), gate: support::product(support::HOST)?, programs })
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.node.path(MARKER)
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// Waits for the marker, and becomes a CMD that reports the time of its first instruction.
    pub(crate) fn command(&self, contender: Contender) -> Command {
        let (marker, first) = (self.marker(), self.program("first"));
        let shell = |shell: &str, script: &str| {
            let mut command = Command::new(shell);
            command.args(["-c", script, shell]).args([&marker, &first, &self.node.path("proc/modules")]);
            command
        };
        let program = |name: &str| {
            let mut command = Command::new(self.program(name));
            command.args([&marker, &first]);
            command
        };
        let mut command = match contender {
            Contender::Gate => {
                let mut command = support::gate_by(&self.gate);
                command
                    .args(["wait", "--settle", "0s", "--root"])
                    .arg(self.node.root())
                    .arg("--")
                    .arg(&first);
                command
            }
            Contender::Dnotify => program("dnotify"),
            Contender::Inotify => program("inotify"),
            Contender::InotifyLeft => program("inotify-left"),
            Contender::Inotifywait => {
                shell("dash", r#"[ -f "$1" ] || inotifywait -qq -e create "${1%/*}"; exec "$2""#)
            }
            Contender::Dash => shell("dash", r#"until [ -f "$1" ]; do sleep 5; done; exec "$2""#),
            Contender::DashGreps => shell(
                "dash",
                r#"until [ -f "$1" ] && grep -q "^ib_core " "$3" && grep -q "^ib_uverbs " "$3" &&
                    grep -q "^mlx5_core " "$3"; do sleep 5; done; exec "$2""#,
            ),
            Contender::Bash => shell("bash", r#"until [[ -f $1 ]]; do sleep 5; done; exec "$2""#),
        };
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}
