// SPDX-License-Identifier: Apache-2.0
//! The gate by another program's name, first in PATH, and a fake of that program behind it.

use super::{GATE, Node, gate_by, write_program};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// Notes its arguments, and then does what the file `does` beside it says.
const NOTE: &str = r#"here=${0%/*}
{ for word; do printf '%s\0' "$word"; done; echo; } >>"$here/calls"
. "$here/does"
"#;

/// The fake, and the name that both have.
pub(crate) struct InFront {
    name: &'static str,
    /// Where the fake is.
    pub bin: PathBuf,
    front: PathBuf,
}

impl InFront {
    /// Both in the node's tree. The fake runs `first`, lines of a shell, before it notes how it is called.
    pub(crate) fn new(node: &Node, name: &'static str, first: &str) -> Self {
        let (bin, front) = (node.path("bin"), node.path("front"));
        fs::create_dir_all(&front).expect("a directory");
        let in_front = Self { name, bin, front };
        node.write("bin/does", "");
        write_program(&in_front.original(), format!("#!/bin/bash\n{first}{NOTE}"));
        symlink(GATE, in_front.front.join(name)).expect("a link");
        in_front
    }

    pub(crate) fn original(&self) -> PathBuf {
        self.bin.join(self.name)
    }

    /// What the fake does from now on.
    pub(crate) fn does(&self, script: &str) {
        fs::write(self.bin.join("does"), script).expect("written");
    }

    /// The gate by that name, with a PATH in which the fake comes next.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gate_by(&self.front.join(self.name));
        let path = format!("{}:{}:/usr/bin:/bin", self.front.display(), self.bin.display());
        command.args(arguments).env("PATH", path);
        command
    }

    /// What the fake was called with, a call a line.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.bin.join("calls")).unwrap_or_default();
        let words = |line: &str| line.split_terminator('\0').map(str::to_owned).collect();
        calls.lines().map(words).collect()
    }
}
