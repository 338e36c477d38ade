// SPDX-License-Identifier: Apache-2.0
//! No reason is for good: `wait`, `load` and the node's keeper with each reason that closes them, until its cause is
//! taken away. Nobody sends them a signal.

use crate::keeping;
use crate::obstacles::{BOUND, mend, tree};
use crate::support::{
    self, DRIVERS, Gate, KERNEL, MARKER, MODULES, Node, SYMVERS, VENDOR, VIDEO, can, can_mount, note, output,
    tests, until, wrapped,
};
use peermem_gate::ready::condition::{Consequence, Reason};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What closes a gate on a node where all else is ready.
struct Row {
    reason: Reason,
    change: fn(&Node),
    /// Which verbs it closes.
    verbs: &'static [&'static str],
    /// The programs that run them.
    by: &'static [&'static str],
    /// What takes the cause away; by default the change is undone.
    mend: Option<fn(&Node)>,
}

const PEERMEM_VERBS: &[&str] = &["wait --peermem", "load", "keep"];
const WAIT: &[&str] = &["wait --peermem"];
const KEEP: &[&str] = &["keep"];
const FABRIC: &[&str] = &["wait --for fabric"];
/// Root that may not read everything, as in a container without these capabilities.
const CONFINED: &[&str] = &["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
/// As the driver's container has it.
const DIGEST: &[&str] = &["env", "DRIVER_CONFIG_DIGEST=1"];

const fn row(reason: Reason, change: fn(&Node)) -> Row {
    Row { reason, change, verbs: PEERMEM_VERBS, by: &[], mend: None }
}

impl Row {
    const fn of(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }

    const fn by(self, by: &'static [&'static str]) -> Self {
        Self { by, ..self }
    }

    const fn ended_by(self, mend: fn(&Node)) -> Self {
        Self { mend: Some(mend), ..self }
    }
}

fn lines(node: &Node, file: &str, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(node.path(file)).expect("a text");
    let changed: String = text.lines().map(|line| change(line) + "\n").collect();
    assert_ne!(changed, text, "{file}");
    node.write(file, changed);
}

/// What both witnesses say of a module.
fn module(node: &Node, name: &str, [in_procfs, in_sysfs]: [&str; 2]) {
    lines(node, "proc/modules", |line| {
        let is_it = line.starts_with(&format!("{name} "));
        if is_it { line.replace(" Live ", &format!(" {in_procfs} ")) } else { line.to_owned() }
    });
    node.write(&format!("sys/module/{name}/initstate"), in_sysfs);
}

fn gone(node: &Node, name: &str) {
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    let others = modules.lines().filter(|line| !line.starts_with(&format!("{name} ")));
    node.write("proc/modules", others.map(|line| format!("{line}\n")).collect::<Vec<_>>().concat());
    node.remove(&format!("sys/module/{name}"));
}

fn in_tree(node: &Node, names: &[&str]) {
    let is_one = |line: &str| names.iter().any(|name| line.starts_with(&format!("{name} ")));
    lines(
        node,
        "proc/modules",
        |line| if is_one(line) { line.replace(" (OE)", "") } else { line.to_owned() },
    );
    for name in names {
        node.write(&format!("sys/module/{name}/taint"), "\n");
    }
}

/// A directory is where a file is read.
fn unreadable(node: &Node, file: &str) {
    node.remove(file);
    node.write(&format!("{file}/x"), "");
}

/// nvidia-peermem.ko is this one of the stand-ins.
fn peermem(node: &Node, kind: &str) {
    let module = fs::read(support::mofed().join(kind).join("nvidia-peermem.ko")).expect("a module");
    node.write(PEERMEM, module);
}

const PEERMEM: &str = "lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko";
const MODPROBE_D: &str = "etc/modprobe.d/x.conf";
const VPD: &str = "sys/bus/pci/devices/0000:01:00.0/vpd";
const LOCKDOWN: &str = "sys/kernel/security/lockdown";

/// Nobody without a privilege may read it or enter it.
fn closed(node: &Node, path: &str) {
    fs::set_permissions(node.path(path), Permissions::from_mode(0o000)).expect("a mode");
}

/// Its file was removed, and depmod has run.
fn without_nvidia(node: &Node) {
    node.remove(&format!("{VIDEO}/nvidia.ko"));
    node.write("lib/modules/6.1.0-56-amd64/modules.dep", "kernel/drivers/video/nvidia-peermem.ko:\n");
}

fn loaded(node: &Node, line: &str) {
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    node.write("proc/modules", format!("{line}\n{modules}"));
}

/// It uses none of MOFED's modules.
fn peermem_on_a_gone_stack(node: &Node, users: u32) {
    loaded(node, &format!("nvidia_peermem 1 {users} - Live 0x0 (OE)"));
    node.write("sys/module/nvidia_peermem/initstate", "live\n");
    node.write("sys/module/nvidia_peermem/taint", "OE\n");
}

/// What Fabric Manager needs as well.
fn with_fabric(node: &Node) {
    node.write(VPD, "SMDL\x06SW_MNG");
    loaded(node, "ib_umad 45056 0 - Live 0xffffffffc0b00000 (OE)");
    node.write("sys/module/ib_umad/initstate", "live\n");
    node.write("sys/module/ib_umad/taint", "OE\n");
    fs::create_dir_all(node.path("sys/class/infiniband/mlx5_0")).expect("a directory");
    let function = "../../../bus/pci/devices/0000:01:00.0";
    symlink(function, node.path("sys/class/infiniband/mlx5_0/device")).expect("a link");
}

const ROWS: &[Row] = &[
    row(Reason::NicAway, Node::reset_nic),
    row(Reason::DevicesUnreadable, |node| node.write(VENDOR, "0x15\n")),
    row(Reason::MarkerAbsent, |node| node.remove(MARKER)),
    row(Reason::MarkerParentMissing, |node| node.remove(DRIVERS)),
    row(Reason::MarkerNotAFile, |node| unreadable(node, MARKER)),
    row(Reason::MarkerSuspect, |node| node.write("proc/locks", "")),
    row(Reason::LocksUnreadable, |node| unreadable(node, "proc/locks")),
    row(Reason::ModuleNotLoaded, |node| gone(node, "mlx5_ib")),
    row(Reason::ModuleLoading, |node| module(node, "mlx5_ib", ["Loading", "coming\n"])),
    row(Reason::ModuleUnloading, |node| module(node, "mlx5_ib", ["Unloading", "going\n"])),
    row(Reason::WitnessesDisagree, |node| node.write("sys/module/mlx5_ib/initstate", "coming\n")),
    row(Reason::ModulesUnreadable, |node| unreadable(node, "proc/modules")),
    row(Reason::ModuleInTree, |node| in_tree(node, &MODULES)),
    row(Reason::MixedStack, |node| in_tree(node, &["mlx5_ib"])),
    row(Reason::VersionMismatch, |node| node.write("sys/module/mlx5_core/version", "24.04-0.6.6\n")),
    row(Reason::VersionUnreadable, |node| unreadable(node, "sys/module/mlx5_core/version")),
    row(Reason::SymbolMissing, |node| {
        node.write("proc/kallsyms", "0000000000000000 T _text\n");
        // A symbol comes with a module that is loaded again, at another address.
        lines(node, "proc/modules", |line| line.replace("Live 0xffff", "Live 0xfffe"));
    }),
    row(Reason::HeadersMissing, |node| node.remove("run/mellanox/drivers/usr")),
    row(Reason::HeadersForOtherKernel, |node| {
        let tree = "run/mellanox/drivers/usr/src/ofa_kernel/x86_64";
        node.rename(&format!("{tree}/{KERNEL}"), &format!("{tree}/6.1.0-1-amd64"));
    }),
    row(Reason::HeadersIncomplete, |node| node.write(SYMVERS, "0x12345678\tib_register_peer_mem")),
    row(Reason::HeadersWithoutPeerMemory, |node| node.write(SYMVERS, "")),
    row(Reason::HeadersUnreadable, |node| unreadable(node, SYMVERS)),
    row(Reason::ModuleFileMissing, |node| {
        node.remove(PEERMEM);
        // Whoever brings a module runs depmod, or its file is searched for once a minute.
        let dep = "lib/modules/6.1.0-56-amd64/modules.dep";
        node.write(dep, "kernel/drivers/video/nvidia.ko:\n");
    }),
    row(Reason::StubModule, |node| peermem(node, "stub")),
    row(Reason::SymbolVersionMismatch, |node| peermem(node, "old")),
    row(Reason::SymbolVersionMissing, |node| peermem(node, "nocrc")),
    row(Reason::WrongKernel, |node| peermem(node, "machine")),
    row(Reason::ModuleFileDamaged, |node| node.write(PEERMEM, "no module\n")),
    row(Reason::BadParameter, |node| node.write(MODPROBE_D, "options nvidia_peermem peerdirect_support=2\n")),
    row(Reason::InstallLine, |node| node.write(MODPROBE_D, "install nvidia-peermem /bin/true\n")),
    row(Reason::DependencyNotLive, |node| module(node, "nvidia", ["Loading", "coming\n"])),
    // Only Fabric Manager's gate asks for its devices.
    row(Reason::ManagementDeviceAway, Node::reset_nic).of(FABRIC),
    row(Reason::VpdUnreadable, |node| unreadable(node, VPD)).of(FABRIC),
    row(Reason::FabricDeviceMissing, |node| node.remove("sys/class/infiniband/mlx5_0")).of(FABRIC),
    row(Reason::RdmaDevicesUnreadable, |node| {
        node.remove("sys/class/infiniband");
        node.write("sys/class/infiniband", "");
    })
    .of(FABRIC),
    row(Reason::ModuleNotLoaded, |node| gone(node, "ib_umad")).of(FABRIC),
    // Links that lead to each other, and rights.
    row(Reason::MarkerUnreadable, |node| {
        node.remove(DRIVERS);
        symlink("drivers", node.path(DRIVERS)).expect("a link");
    }),
    row(Reason::MarkerUnreadable, |node| closed(node, DRIVERS)).by(CONFINED),
    row(Reason::LocksUnreadable, |node| closed(node, "proc/locks")).by(CONFINED),
    row(Reason::ModulesUnreadable, |node| closed(node, "proc/modules")).by(CONFINED),
    row(Reason::VersionUnreadable, |node| closed(node, "sys/module/mlx5_core/version")).by(CONFINED),
    row(Reason::HeadersUnreadable, |node| closed(node, SYMVERS)).by(CONFINED),
    row(Reason::DevicesUnreadable, |node| closed(node, "sys/bus/pci/devices")).by(CONFINED),
    row(Reason::ModuleFileUnreadable, |node| closed(node, PEERMEM)).by(CONFINED),
    row(Reason::ModuleFileUnreadable, |node| closed(node, VIDEO)).by(CONFINED),
    // The kernel's release, and all of /proc: a mount that comes later.
    row(Reason::HeadersUnreadable, |node| unreadable(node, "proc/sys/kernel/osrelease")),
    row(Reason::LocksUnreadable, |node| node.remove("proc")).of(&["wait --peermem", "keep"]),
    // The kernel's policy, and what else is loaded.
    row(Reason::UnsignedModule, |node| node.write("sys/module/module/parameters/sig_enforce", "Y\n"))
        .ended_by(|node| peermem(node, "signed")),
    row(Reason::UnsignedModule, |node| node.write(LOCKDOWN, "none [integrity] confidentiality\n")),
    row(Reason::SignatureUnknown, |node| fs::create_dir_all(node.path(LOCKDOWN)).expect("a directory")),
    row(Reason::LegacyClientLoaded, |node| loaded(node, "nv_peer_mem 1 0 - Live 0x0 (OE)")),
    row(Reason::OtherDriverLoaded, |node| {
        without_nvidia(node);
        node.write("sys/module/nvidia/version", "1.0\n");
    }),
    row(Reason::SymbolVersionUnknown, without_nvidia),
    row(Reason::LoadedOnGoneStack, |node| peermem_on_a_gone_stack(node, 0)).of(WAIT),
    // keep unloads it as soon as nothing uses it.
    row(Reason::LoadedOnGoneStack, |node| peermem_on_a_gone_stack(node, 1)).of(KEEP).ended_by(|node| {
        lines(node, "proc/modules", |line| line.replace("nvidia_peermem 1 1 ", "nvidia_peermem 1 0 "));
    }),
    row(Reason::BuildSkipped, |node| {
        peermem(node, "stub");
        node.write("run/nvidia/nvidia-driver.state", "1\n");
    })
    .of(WAIT)
    .by(DIGEST),
];

/// The other reasons to wait, by why no row has them.
const ELSEWHERE: &[(&str, &[Reason])] = &[
    ("only `check` and `doctor` give it, which look once", &[Reason::SettingsContradict]),
    ("each row passes through it", &[Reason::Settling]),
    ("tests below have them", &[Reason::MarkerDirectoryUnlinked, Reason::SymbolsNotRead]),
];

/// A verb on a node, run by other programs.
pub(crate) fn verb(place: &keeping::Place, verb: &str, by: &[&str]) -> Gate {
    let mut command = support::gate();
    command.args(verb.split(' ')).args(["--log-format", "json", "--settle", "100ms", "--suspect-hold", "1h"]);
    command.args(["--mofed-version", "25.07-0.9.7"]).env("PATH", "/bin");
    match verb {
        "load" => {
            support::with_places(&mut command, place.node.root()).arg("--driver-root").arg(place.node.root());
            command.args(["--timeout", "5m"])
        }
        "keep" => command.arg("--node-root").arg(place.node.root()),
        _ => command.args(["--timeout", "5m", "--root"]).arg(place.node.root()),
    };
    let mut command = if by.is_empty() { command } else { wrapped(by, &command) };
    Gate::start(&mut command)
}

/// It does what it is for.
fn acts(name: &str, gate: &mut Gate, place: &keeping::Place) {
    let begun = Instant::now();
    if name.starts_with("keep") {
        until(name, || place.called().iter().any(|call| call == "load") && place.is_loaded());
    } else {
        assert_eq!(gate.ended(), 0, "{name}: {:#?}", gate.lines);
    }
    assert!(name.starts_with("wait") || place.is_loaded(), "{name}");
    note!("{name}: after {:?}", begun.elapsed());
    assert!(begun.elapsed() < BOUND, "{name}: only after {:?}", begun.elapsed());
}

/// What keeps back `wait`, `load` or the node's keeper keeps none of them once it is gone.
fn what_closed_a_gate_opens_it_once_its_cause_is_gone() {
    if !can(&[CONFINED, &["true"]].concat()) {
        return;
    }
    let is_asked = |reason: Reason| ROWS.iter().any(|row| row.reason == reason);
    let is_elsewhere = |reason: Reason| ELSEWHERE.iter().any(|(_, others)| others.contains(&reason));
    for reason in Reason::ALL {
        let closes = matches!(reason.consequence(), Consequence::Waits | Consequence::Blocks);
        assert_eq!(is_asked(*reason) || is_elsewhere(*reason), closes, "{reason} has a row, or is named");
    }
    let mut all = Vec::new();
    for row in ROWS {
        for name in row.verbs.iter().copied() {
            let Some(place) = keeping::Place::new() else { return };
            with_fabric(&place.node);
            let before = tree(place.node.root());
            (row.change)(&place.node);
            let after = tree(place.node.root());
            let by = row.by.first().map_or_else(String::new, |by| format!(" by {by}"));
            all.push((
                format!("{name}{by}, {}", row.reason),
                row,
                verb(&place, name, row.by),
                place,
                before,
                after,
            ));
        }
    }
    for (name, row, gate, ..) in &mut all {
        note!("{name}");
        gate.logs(&format!("\"{}\"", row.reason));
    }
    // What waiting cannot cure ends `load` at once.
    all.retain_mut(|(name, row, gate, ..)| {
        let ends = name.starts_with("load") && row.reason.consequence() == Consequence::Blocks;
        if ends {
            assert_eq!(gate.ended(), 3, "{name}");
        }
        !ends
    });
    let mut running = Vec::new();
    for (name, row, gate, place, before, after) in all {
        match row.mend {
            Some(ends) => ends(&place.node),
            None => mend(before, &after),
        }
        place.node.hold_lock();
        running.push((name, gate, place));
    }
    for (name, gate, place) in &mut running {
        acts(name, gate, place);
    }
}

/// A mount keeps a directory that was deleted, and only another mount ends that.
fn a_deleted_directory_that_is_unmounted_closes_no_gate() {
    for name in ["wait --peermem", "keep"] {
        let Some(place) = keeping::Place::new() else { return };
        let (old, drivers) = (place.node.path("old"), place.node.path(DRIVERS));
        fs::create_dir(&old).expect("a directory");
        let script = format!(
            "/bin/mount --bind {} {} && /bin/rmdir {} && exec \"$@\"",
            old.display(),
            drivers.display(),
            old.display()
        );
        let mut gate = verb(&place, name, &["unshare", "-m", "sh", "-c", &script, "sh"]);
        gate.logs("\"MarkerDirectoryUnlinked\"");
        let mut umount = Command::new("nsenter");
        umount.args(["-m", "-t", &gate.pid().to_string(), "umount"]).arg(&drivers);
        assert!(output(&mut umount).status.success(), "unmounted");
        acts(name, &mut gate, &place);
    }
}

/// Modules that come and go faster than their symbols can be read.
fn modules_that_came_and_went_close_no_gate_once_they_stay() {
    for name in PEERMEM_VERBS {
        let Some(place) = keeping::Place::new() else { return };
        place.node.with_long_kallsyms();
        let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
        let comes_and_goes = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                for address in 0_u64.. {
                    let last = !comes_and_goes.load(Ordering::Relaxed);
                    let other = format!("{modules}other 1 0 - Live {address:#x} (OE)\n");
                    place.node.write("next", if last { &modules } else { &other });
                    place.node.rename("next", "proc/modules");
                    if last {
                        break;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let mut gate = verb(&place, name, &[]);
            gate.logs("\"SymbolsNotRead\"");
            comes_and_goes.store(false, Ordering::Relaxed);
            acts(name, &mut gate, &place);
        });
    }
}

tests![
    [
        what_closed_a_gate_opens_it_once_its_cause_is_gone,
        modules_that_came_and_went_close_no_gate_once_they_stay,
    ],
    if can_mount [a_deleted_directory_that_is_unmounted_closes_no_gate],
];
