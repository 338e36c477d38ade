// SPDX-License-Identifier: Apache-2.0
//! The scratch tree of one node, written as the kernel and MOFED would show it, and a plain look at
//! it that shares no code with the gate.

use crate::driver;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};
use tempfile::TempDir;

pub(crate) const KERNEL: &str = "5.14.0-427.96.1.el9_4.aarch64+64k";
pub(crate) const MOFED: &str = "25.07-0.9.7";
pub(crate) const MARKER: &str = "run/mellanox/drivers/.driver-ready";
/// In a Module.symvers this is the path on the machine that built it.
const PROVIDER: &str = "/build/mlnx-ofa_kernel/drivers/infiniband/core/ib_uverbs";
/// What MOFED exports for nvidia-peermem, and the CRCs of 24.04 to 24.10.
pub(crate) const PEER_MEMORY: [(&str, u32); 2] =
    [("ib_register_peer_memory_client", 0x9ca7_61a2), ("ib_unregister_peer_memory_client", 0xbde5_c050)];
/// What MOFED mounts below its directory on the host.
const USR: &str = "run/mellanox/drivers/usr";

/// Where MOFED shows its headers, and NVIDIA's build looks for them.
pub(crate) fn symvers() -> String {
    format!("{USR}/src/ofa_kernel/aarch64/{KERNEL}/Module.symvers")
}

/// The modules that count, in the order of their loading, with the sizes of the kernel's own and of
/// MOFED's.
const STACK: [(&str, u32, u32); 4] = [
    ("ib_core", 442_368, 454_656),
    ("ib_uverbs", 172_032, 184_320),
    ("mlx5_core", 1_703_936, 2_342_912),
    ("mlx5_ib", 413_696, 475_136),
];

/// Whose a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    InTree,
    Mofed,
}

/// In what state a module is; kmod's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Coming,
    Live,
    Going,
}

/// What the RDMA modules come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    InTree,
    Mofed,
    Swapping,
}

/// What was to be seen at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepInput {
    pub(crate) marker: bool,
    pub(crate) stack: Stack,
    pub(crate) headers: bool,
    /// A module exports what nvidia-peermem imports.
    pub(crate) symbol: bool,
}

/// One node. Its directory goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    directory: TempDir,
    /// The GPU driver's line in `/proc/modules`, once it is loaded.
    nvidia: &'static str,
}

impl Node {
    /// A node right after boot: the kernel's own modules are live, and `/run` is empty.
    pub(crate) fn boot() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("peermem-gate-incident-").tempdir()?;
        let node = Self { directory, nvidia: "" };
        node.write("proc/sys/kernel/osrelease", format!("{KERNEL}\n"))?;
        node.write("proc/sys/kernel/arch", "aarch64\n")?;
        node.write("proc/sys/kernel/hostname", "gpu-node\n")?;
        node.write("proc/sys/kernel/random/boot_id", "5b1d2a60-21c1-4be2-9d0c-0c5a1b7ae001\n")?;
        // Process 2 is kthreadd where all of the host's processes are shown.
        node.write("proc/2/comm", "kthreadd\n")?;
        node.write("proc/locks", "")?;
        node.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x15b3\n")?;
        fs::create_dir_all(node.path("run/mellanox/drivers"))?;
        node.live(Origin::InTree)?;
        Ok(node)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// The whole stack is live.
    pub(crate) fn live(&self, origin: Origin) -> io::Result<()> {
        self.modules(origin, &STACK.map(|(name, ..)| (name, State::Live)))
    }

    /// Shows exactly these modules; the last one was loaded last.
    pub(crate) fn modules(&self, origin: Origin, modules: &[(&str, State)]) -> io::Result<()> {
        let listed = |name: &str| modules.iter().find(|(listed, _)| *listed == name);
        let mut lines = Vec::new();
        for (name, in_tree_size, mofed_size) in STACK {
            let Some((_, state)) = listed(name) else {
                self.unload(name)?;
                continue;
            };
            let size = if origin == Origin::Mofed { mofed_size } else { in_tree_size };
            lines.push(proc_line(name, size, origin, *state));
            self.sysfs(name, origin, *state)?;
        }
        lines.reverse();
        self.write("proc/modules", lines.concat() + self.nvidia)?;
        let exported = origin == Origin::Mofed && listed("ib_uverbs").is_some();
        self.write("proc/kallsyms", kallsyms(exported))
    }

    /// One module's directory, made aside and moved into place: the kernel never shows half of it.
    fn sysfs(&self, name: &str, origin: Origin, state: State) -> io::Result<()> {
        let initstate = match state {
            State::Coming => "coming\n",
            State::Live => "live\n",
            State::Going => "going\n",
        };
        let directory = format!("sys/module/{name}");
        let taint = if origin == Origin::Mofed { "OE\n" } else { "\n" };
        // The same module in another state keeps its directory; one that was swapped gets a new one.
        if fs::read_to_string(self.path(&directory).join("taint")).is_ok_and(|shown| shown == taint) {
            return self.write(&format!("{directory}/initstate"), initstate);
        }
        self.unload(name)?;
        let aside = format!("aside/{name}");
        self.write(&format!("{aside}/initstate"), initstate)?;
        self.write(&format!("{aside}/taint"), taint)?;
        if origin == Origin::Mofed && name == "mlx5_core" {
            self.write(&format!("{aside}/version"), format!("{MOFED}\n"))?;
        }
        fs::create_dir_all(self.path("sys/module"))?;
        fs::rename(self.path(&aside), self.path(&directory))
    }

    fn unload(&self, name: &str) -> io::Result<()> {
        let gone = self.path("aside/gone");
        match fs::rename(self.path(&format!("sys/module/{name}")), &gone) {
            Ok(()) => fs::remove_dir_all(gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The kernel has the driver's nvidia, which depends on no module of MOFED's.
    pub(crate) fn load_nvidia(&mut self) -> io::Result<()> {
        self.nvidia = "nvidia 11640832 0 - Live 0x0000000000000000 (OE)\n";
        self.write("sys/module/nvidia/initstate", "live\n")?;
        self.write("sys/module/nvidia/taint", "OE\n")?;
        self.write("sys/module/nvidia/version", format!("{}\n", driver::VERSION))?;
        self.write("sys/module/nvidia/notes/.note.gnu.build-id", driver::build_id_note())?;
        let loaded = fs::read_to_string(self.path("proc/modules"))?;
        self.write("proc/modules", loaded + self.nvidia)
    }

    /// MOFED mounts its `/usr/src` here: all of it appears in one moment.
    pub(crate) fn show_headers(&self) -> io::Result<()> {
        let exports: String = PEER_MEMORY
            .map(|(symbol, crc)| format!("{crc:#010x}\t{symbol}\t{PROVIDER}\tEXPORT_SYMBOL\t\n"))
            .concat();
        let aside = symvers().replace(USR, "aside/usr");
        self.write(&aside, exports)?;
        symlink(format!("aarch64/{KERNEL}"), self.path("aside/usr/src/ofa_kernel/default"))?;
        fs::rename(self.path("aside/usr"), self.path(USR))
    }

    /// As `touch` does.
    pub(crate) fn set_marker(&self) -> io::Result<()> {
        fs::File::create(self.path(MARKER)).map(drop)
    }

    pub(crate) fn clear_marker(&self) -> io::Result<()> {
        match fs::remove_file(self.path(MARKER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Written aside and moved into place, so no reader ever sees half a file.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> io::Result<()> {
        let aside = self.path("aside/file");
        let path = self.path(name);
        for directory in [&aside, &path].iter().filter_map(|path| path.parent()) {
            fs::create_dir_all(directory)?;
        }
        fs::write(&aside, text)?;
        fs::rename(aside, path)
    }

    /// A program that is found, and never run.
    pub(crate) fn write_program(&self, name: &str) -> io::Result<()> {
        self.write(name, "#!/bin/sh\n")?;
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755))
    }

    /// Looks at the node, without any of the gate's code.
    pub(crate) fn look(&self) -> io::Result<KeepInput> {
        let modules = fs::read_to_string(self.path("proc/modules"))?;
        let stack = || modules.lines().filter(|line| !line.starts_with("nvidia "));
        let live = stack().filter(|line| line.contains(" Live ")).count();
        let tainted = stack().filter(|line| line.ends_with("(OE)")).count();
        let symbols = fs::read_to_string(self.path("proc/kallsyms"))?;
        Ok(KeepInput {
            marker: self.path(MARKER).is_file(),
            stack: match (live == STACK.len(), tainted) {
                (true, 0) => Stack::InTree,
                (true, count) if count == STACK.len() => Stack::Mofed,
                _ => Stack::Swapping,
            },
            headers: self.path(&symvers()).is_file(),
            symbol: symbols.contains("T ib_register_peer_memory_client\t"),
        })
    }
}

fn proc_line(name: &str, size: u32, origin: Origin, state: State) -> String {
    let (word, sign) = match state {
        State::Coming => ("Loading", "+"),
        State::Live => ("Live", ""),
        State::Going => ("Unloading", "-"),
    };
    let taint = match (origin, sign) {
        (Origin::Mofed, sign) => format!(" (OE{sign})"),
        (Origin::InTree, "") => String::new(),
        (Origin::InTree, sign) => format!(" ({sign})"),
    };
    format!("{name} {size} 0 - {word} 0x0000000000000000{taint}\n")
}

fn kallsyms(exported: bool) -> &'static str {
    if exported {
        "0000000000000000 T _text\n\
         0000000000000000 t ib_peer_memory_client_release\t[ib_uverbs]\n\
         0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n\
         0000000000000000 T ib_unregister_peer_memory_client\t[ib_uverbs]\n"
    } else {
        "0000000000000000 T _text\n"
    }
}
