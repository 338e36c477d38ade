// SPDX-License-Identifier: Apache-2.0
//! A scratch node whose make, depmod, modprobe and rmmod are scripts.
#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

use crate::support::{self, DRIVERS, KERNEL, MODULES, Node, SYMVERS, VIDEO, code, gate, output};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

pub(crate) const VERSION: &str = "595.45.04";
pub(crate) const SOURCES: &str = "usr/src/nvidia-595.45.04";
pub(crate) const TARGET: &str = "lib/modules/6.1.0-56-amd64/updates/nvidia-peermem.ko";
pub(crate) const DKMS: &str = "lib/modules/6.1.0-56-amd64/updates/dkms/nvidia-peermem.ko";
pub(crate) const PREFERENCE: &str = "etc/depmod.d/peermem-gate-6.1.0-56-amd64.conf";
pub(crate) const WORKSHOP: &str = "var/lib/peermem-gate";
pub(crate) const CONFTEST: &str = "#!/bin/sh\n            MLNX_OFED_KERNEL_DIR=/usr/src/ofa_kernel\n";

const MAKE: &str = include_str!("../fakes/make");
const DEPMOD: &str = include_str!("../fakes/depmod");
const MODPROBE: &str = include_str!("../fakes/modprobe-of-depmod");

/// A node on which nvidia-peermem is a stub and can be rebuilt.
pub(crate) struct Place {
    pub(crate) node: Node,
}

impl Place {
    /// All is ready but nvidia-peermem.ko, which is a stub; everything that a rebuild takes is there.
    pub(crate) fn new() -> Option<Self> {
        let node = Node::ready().with_peermem("stub")?;
        let place = Self { node };
        let node = &place.node;
        node.write("sys/module/nvidia/version", format!("{VERSION}\n"));
        place.mofed_is("new", 1);
        for (name, text) in [
            ("Kbuild", "ccflags-y += -DNV_VERSION_STRING=\\\"595.45.04\\\"\n"),
            ("Makefile", "modules:\n"),
            ("conftest.sh", CONFTEST),
            ("common/inc/nv.h", "\n"),
            ("nvidia-peermem/nvidia-peermem.Kbuild", "\n"),
            ("nvidia-peermem/nvidia-peermem.c", "\n"),
            ("nvidia/nv-p2p.h", "\n"),
            ("nvidia/nv.c", "not needed\n"),
        ] {
            node.write(&format!("{SOURCES}/{name}"), text);
        }
        node.write(&format!("lib/modules/{KERNEL}/build/Makefile"), "\n");
        node.write(&format!("lib/modules/{KERNEL}/build/include/generated/autoconf.h"), "\n");
        for (crc, generation) in [("0x065554c2", "new"), ("0x3016e014", "old")] {
            let module =
                fs::read(support::mofed().join(generation).join("nvidia-peermem.ko")).expect("a module");
            node.write(&format!("made/{crc}.ko"), module);
        }
        for directory in ["bin", "usr/bin", "usr/sbin", "var/lib", "dev", "etc"] {
            fs::create_dir_all(node.path(directory)).expect("a directory");
        }
        node.write("dev/null", "");
        node.write("bin/loads", support::LOADS);
        support::copy_program(support::mofed().join("../bin/busybox"), &node.path("bin/busybox"));
        for name in ["sed", "mkdir", "mv", "rm", "grep", "sleep", "touch", "cp", "cat", "sh", "true"] {
            symlink("busybox", node.path(&format!("bin/{name}"))).expect("a link");
        }
        for (path, script) in [
            ("usr/bin/make", MAKE),
            ("usr/bin/gcc", "#!/bin/busybox sh\n"),
            ("usr/sbin/depmod", DEPMOD),
            ("bin/modprobe", MODPROBE),
            ("bin/rmmod", support::RMMOD),
        ] {
            support::write_program(&node.path(path), script.replace("@VIDEO@", VIDEO));
        }
        place.making("cp $made $copy/nvidia-peermem.ko");
        Some(place)
    }

    /// MOFED of this generation is live, and its headers are there.
    pub(crate) fn mofed_is(&self, generation: &str, build: u8) {
        let symvers = support::mofed().join(generation).join("Module.symvers");
        let symvers = fs::read_to_string(symvers).expect("a Module.symvers");
        // Up to 24.04 another module exports it, which on this node stays as it is.
        let line = |line: &str| {
            if line.contains("peer_memory") {
                line.replace("/ib_core", "/ib_uverbs")
            } else {
                line.to_owned()
            }
        };
        self.node.write(SYMVERS, symvers.lines().map(|text| line(text) + "\n").collect::<String>());
        let note =
            [&4u32.to_ne_bytes()[..], &20u32.to_ne_bytes(), &3u32.to_ne_bytes(), b"GNU\0", &[build; 20]]
                .concat();
        self.node.write("sys/module/ib_uverbs/notes/.note.gnu.build-id", note);
    }

    /// The live RDMA stack is the kernel's own, and its symbols are in the kernel's build tree.
    pub(crate) fn is_in_box(&self) {
        let node = &self.node;
        let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
        let is_driver = |line: &str| line.starts_with("nvidia ");
        let lines = modules
            .lines()
            .map(|line| if is_driver(line) { line.to_owned() } else { line.replace(" (OE)", "") });
        node.write("proc/modules", lines.map(|line| line + "\n").collect::<String>());
        for module in MODULES {
            node.write(&format!("sys/module/{module}/taint"), "\n");
        }
        node.rename(SYMVERS, &format!("lib/modules/{KERNEL}/build/Module.symvers"));
        node.remove(DRIVERS);
    }

    /// A MOFED of the host's is installed, and has not loaded its modules yet: its headers are there.
    pub(crate) fn has_a_mofed_to_come(&self) {
        let symvers = fs::read(support::mofed().join("old/Module.symvers")).expect("a Module.symvers");
        self.node.write(&format!("usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers"), symvers);
        self.node.write("usr/src/mlnx-ofa_kernel-24.04/makefile", "");
    }

    /// The driver's own file, by DKMS: a module of this generation.
    pub(crate) fn dkms_has(&self, generation: &str) {
        let module = fs::read(support::mofed().join(generation).join("nvidia-peermem.ko"));
        self.node.write(DKMS, module.expect("a module"));
    }

    pub(crate) fn making(&self, script: &str) {
        self.node.write("bin/making", script);
    }

    pub(crate) fn run(&self, verb: &str, more: &[&str]) -> Command {
        self.run_below(self.node.root(), verb, more)
    }

    pub(crate) fn run_below(&self, root: &Path, verb: &str, more: &[&str]) -> Command {
        let mut command = gate();
        command.arg(verb).args(["--log-format", "json"]);
        if verb != "rebuild" && !more.contains(&"--settle") {
            command.args(["--settle", "100ms", "--heartbeat", "1s"]);
        }
        support::with_places(&mut command, self.node.root()).arg("--driver-root").arg(root);
        command.arg("--termination-log").arg(self.node.path("last-words")).args(more).env("PATH", "/bin");
        command
    }

    pub(crate) fn rebuild(&self, more: &[&str]) -> (i32, String) {
        let output = output(&mut self.run("rebuild", more));
        let all = [output.stdout, output.stderr].concat();
        (code(output.status), String::from_utf8(all).expect("text"))
    }

    pub(crate) fn called(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.node.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    pub(crate) fn makes(&self) -> usize {
        self.called().iter().filter(|call| call.starts_with("make ")).count()
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.node.path(TARGET).exists()
    }

    /// A verdict is recorded, and can be read.
    pub(crate) fn has_failed_for_good(&self) -> bool {
        let record = self.node.path(WORKSHOP).join(format!("tried.{KERNEL}"));
        let Ok(text) = fs::read_to_string(record) else { return false };
        let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        text.len() < 2000 && record["pair"]["kernel"] == KERNEL && record["why"].is_string()
    }

    /// Nothing is installed, and nothing of a build is left.
    pub(crate) fn assert_clean(&self) {
        assert!(!self.is_installed() && !self.node.path(PREFERENCE).exists());
        let updates = self.node.path(TARGET).parent().expect("a parent").read_dir();
        assert_eq!(updates.map_or(0, Iterator::count), 0, "no unfinished file");
        assert_eq!(self.builds(), 0, "no copy");
    }

    pub(crate) fn builds(&self) -> usize {
        let Ok(listed) = self.node.path(WORKSHOP).read_dir() else { return 0 };
        listed
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("build-"))
            .count()
    }

    /// nvidia-peermem.ko is no stub any more.
    pub(crate) fn becomes_usable(&self) {
        let module = fs::read(support::mofed().join("new/nvidia-peermem.ko")).expect("a module");
        self.node.write(&format!("{VIDEO}/nvidia-peermem.ko"), module);
    }

    /// Without what a run of the program has left.
    pub(crate) fn as_before(&self) {
        for left in ["calls", WORKSHOP, TARGET, PREFERENCE] {
            let path = self.node.path(left);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}
