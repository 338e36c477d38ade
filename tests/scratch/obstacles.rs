// SPDX-License-Identifier: Apache-2.0
//! No obstacle is for good: `keep` with each of them in its way, until its cause is taken away. Nobody sends it a
//! signal.

use crate::keeping;
use crate::place::Place;
use crate::rebuild::failures::obstacles;
use crate::support::{
    self, DRIVERS, Gate, KERNEL, LOCK, MARKER, MODULES, Node, SYMVERS, VENDOR, note, suite, until,
};
use libtest_mimic::Trial;
use peermem_gate::ready::condition::{Consequence, Reason};
use peermem_gate::rebuild::Kind;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first pause after an obstacle, and two looks.
const BOUND: Duration = Duration::from_secs(10 + 10);

/// Something of a node's tree, as it was.
#[derive(Clone, PartialEq, Eq)]
enum Entry {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
}

type Tree = BTreeMap<PathBuf, Entry>;

fn add(directory: &Path, tree: &mut Tree) {
    for entry in directory.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = path.symlink_metadata().expect("it is there");
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            add(&path, tree);
            tree.insert(path, Entry::Directory(mode));
        } else if metadata.is_symlink() {
            let target = path.read_link().expect("a link");
            tree.insert(path, Entry::Link(target));
        } else if metadata.is_file() {
            let content = fs::read(&path).expect("a file");
            tree.insert(path, Entry::File(mode, content));
        }
    }
}

fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    add(root, &mut tree);
    tree
}

/// Takes away what a change has brought, and brings what it has taken away.
fn mend(before: Tree, after: &Tree) {
    for (path, _) in after.iter().rev().filter(|(path, _)| !before.contains_key(*path)) {
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
    }
    for (path, entry) in before.into_iter().filter(|(path, entry)| after.get(path) != Some(entry)) {
        let is_directory = matches!(after.get(&path), Some(Entry::Directory(_)));
        if is_directory && !matches!(entry, Entry::Directory(_)) {
            fs::remove_dir_all(&path).expect("removed");
        }
        match entry {
            Entry::Directory(mode) => {
                fs::create_dir_all(&path).expect("a directory");
                fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
            }
            Entry::Link(target) => symlink(target, path).expect("a link"),
            // In one step, as whoever installs something does it.
            Entry::File(mode, content) => {
                let new = path.with_extension("new");
                fs::write(&new, content).expect("a file");
                fs::set_permissions(&new, Permissions::from_mode(mode)).expect("a mode");
                fs::rename(new, path).expect("a name");
            }
        }
    }
}

/// Whoever does what the log asks for sees it happen.
fn what_an_obstacle_kept_back_is_done_once_its_cause_is_gone() {
    let mut all = Vec::new();
    // An unload by another process is an order, and a condition that blocks ends a sidecar that starts: they have
    // tests of their own.
    let lasts = |kind: &Kind| !matches!(kind, Kind::Loaded | Kind::NotCurable);
    for (kind, change) in obstacles().into_iter().filter(|(kind, _)| lasts(kind)) {
        let Some(place) = Place::new() else { return };
        let before = tree(place.node.root());
        change(&place.node);
        let after = tree(place.node.root());
        let keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto", "--suspect-hold", "1s"]));
        all.push((kind, place, keep, before, after));
    }
    for (kind, _, keep, ..) in &mut all {
        // Nothing is asked of a rebuild that has nothing to do.
        let is_asked = !matches!(kind, Kind::DoesNotApply | Kind::NotReady);
        if is_asked {
            keep.logs(&format!("not rebuilt: {kind}: "))
        } else {
            keep.logs("message")
        };
    }
    let mended = Instant::now();
    let mut running = Vec::new();
    for (kind, place, keep, before, after) in all {
        mend(before, &after);
        running.push((kind, place, keep));
    }
    for (kind, place, _keep) in &running {
        until(&format!("a rebuild without {kind}"), || place.is_installed());
        note!("{kind}: after {:?}", mended.elapsed());
        assert!(mended.elapsed() < BOUND, "{kind}: only after {:?}", mended.elapsed());
    }
}

type Row = (Reason, fn(&Node));

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
    let is_it = |line: &str| line.starts_with(&format!("{name} "));
    lines(node, "proc/modules", |line| if is_it(line) { String::new() } else { line.to_owned() });
    let text = fs::read_to_string(node.path("proc/modules")).expect("a text");
    node.write("proc/modules", text.replace("\n\n", "\n"));
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

/// What closes a gate, and what makes it do so on a node where all else is ready.
const ROWS: &[Row] = &[
    (Reason::NicAway, Node::reset_nic),
    (Reason::DevicesUnreadable, |node| node.write(VENDOR, "0x15\n")),
    (Reason::MarkerAbsent, |node| node.remove(MARKER)),
    (Reason::MarkerParentMissing, |node| node.remove(DRIVERS)),
    (Reason::MarkerNotAFile, |node| unreadable(node, MARKER)),
    (Reason::MarkerSuspect, |node| node.write("proc/locks", "")),
    (Reason::LocksUnreadable, |node| unreadable(node, "proc/locks")),
    (Reason::ModuleNotLoaded, |node| gone(node, "mlx5_ib")),
    (Reason::ModuleLoading, |node| module(node, "mlx5_ib", ["Loading", "coming\n"])),
    (Reason::ModuleUnloading, |node| module(node, "mlx5_ib", ["Unloading", "going\n"])),
    (Reason::WitnessesDisagree, |node| node.write("sys/module/mlx5_ib/initstate", "coming\n")),
    (Reason::ModulesUnreadable, |node| unreadable(node, "proc/modules")),
    (Reason::ModuleInTree, |node| in_tree(node, &MODULES)),
    (Reason::MixedStack, |node| in_tree(node, &["mlx5_ib"])),
    (Reason::VersionMismatch, |node| node.write("sys/module/mlx5_core/version", "24.04-0.6.6\n")),
    (Reason::VersionUnreadable, |node| unreadable(node, "sys/module/mlx5_core/version")),
    (Reason::SymbolMissing, |node| {
        node.write("proc/kallsyms", "0000000000000000 T _text\n");
        // A symbol comes with a module that is loaded again, at another address.
        lines(node, "proc/modules", |line| line.replace("Live 0xffff", "Live 0xfffe"));
    }),
    (Reason::HeadersMissing, |node| node.remove("run/mellanox/drivers/usr")),
    (Reason::HeadersForOtherKernel, |node| {
        let tree = "run/mellanox/drivers/usr/src/ofa_kernel/x86_64";
        node.rename(&format!("{tree}/{KERNEL}"), &format!("{tree}/6.1.0-1-amd64"));
    }),
    (Reason::HeadersIncomplete, |node| node.write(SYMVERS, "0x12345678\tib_register_peer_mem")),
    (Reason::HeadersWithoutPeerMemory, |node| node.write(SYMVERS, "")),
    (Reason::HeadersUnreadable, |node| unreadable(node, SYMVERS)),
    (Reason::ModuleFileMissing, |node| {
        node.remove(PEERMEM);
        // Whoever brings a module runs depmod, or its file is searched for once a minute.
        let dep = "lib/modules/6.1.0-56-amd64/modules.dep";
        node.write(dep, "kernel/drivers/video/nvidia.ko:\n");
    }),
    (Reason::StubModule, |node| peermem(node, "stub")),
    (Reason::SymbolVersionMismatch, |node| peermem(node, "old")),
    (Reason::SymbolVersionMissing, |node| peermem(node, "nocrc")),
    (Reason::WrongKernel, |node| peermem(node, "machine")),
    (Reason::ModuleFileDamaged, |node| node.write(PEERMEM, "no module\n")),
    (Reason::BadParameter, |node| node.write(MODPROBE_D, "options nvidia_peermem peerdirect_support=2\n")),
    (Reason::InstallLine, |node| node.write(MODPROBE_D, "install nvidia-peermem /bin/true\n")),
    (Reason::DependencyNotLive, |node| module(node, "nvidia", ["Loading", "coming\n"])),
];

/// The other reasons to wait, by why no change of such a node's files brings or ends them.
const ELSEWHERE: &[(&str, &[Reason])] = &[
    ("only `doctor` gives it", &[Reason::SettingsContradict]),
    (
        "only `--for fabric` asks",
        &[
            Reason::ManagementDeviceAway,
            Reason::VpdUnreadable,
            Reason::FabricDeviceMissing,
            Reason::RdmaDevicesUnreadable,
        ],
    ),
    ("root may read everything", &[Reason::MarkerUnreadable, Reason::ModuleFileUnreadable]),
    ("a mount brings it, and no file ends it", &[Reason::MarkerDirectoryUnlinked]),
    ("it is a moment of the look, or the settle time itself", &[Reason::SymbolsNotRead, Reason::Settling]),
    // The judge's own tests have them: its input is the same observation as that of the rows beside them.
    (
        "the kernel's policy or another loaded module is what differs, not the file",
        &[
            Reason::LoadedOnGoneStack,
            Reason::BuildSkipped,
            Reason::UnsignedModule,
            Reason::LegacyClientLoaded,
            Reason::OtherDriverLoaded,
            Reason::SignatureUnknown,
            Reason::SymbolVersionUnknown,
        ],
    ),
];

/// A verb on a node.
fn verb(place: &keeping::Place, verb: &str) -> Gate {
    let path = |relative: &str| place.node.path(relative);
    let mut command = support::gate();
    command.args([verb, "--log-format", "json", "--settle", "100ms", "--suspect-hold", "1h"]);
    command.args(["--mofed-version", "25.07-0.9.7"]).env("PATH", "/bin");
    match verb {
        "wait" => command.args(["--peermem", "--timeout", "5m", "--root"]).arg(place.node.root()),
        "keep" => command.arg("--node-root").arg(place.node.root()),
        _ => {
            command.arg("--proc").arg(path("proc")).arg("--sys").arg(path("sys"));
            command.arg("--marker").arg(path(MARKER)).arg("--driver-root").arg(place.node.root());
            command.env("MLX_DRIVERS_MOUNT", path(DRIVERS)).env("LOCK_FILE_PATH", path(LOCK));
            command.args(["--timeout", "5m"])
        }
    };
    Gate::start(&mut command)
}

/// The same of every reason that closes `wait`, `load` and the node's keeper.
fn what_closed_a_gate_opens_it_once_its_cause_is_gone() {
    let is_asked = |reason: Reason| ROWS.iter().any(|(asked, _)| *asked == reason);
    let is_elsewhere = |reason: Reason| ELSEWHERE.iter().any(|(_, others)| others.contains(&reason));
    for reason in Reason::ALL {
        let closes = matches!(reason.consequence(), Consequence::Waits | Consequence::Blocks);
        assert_eq!(is_asked(*reason) || is_elsewhere(*reason), closes, "{reason} has a row, or is named");
    }
    let mut all = Vec::new();
    for (reason, change) in ROWS {
        for name in ["wait", "load", "keep"] {
            let Some(place) = keeping::Place::new() else { return };
            let before = tree(place.node.root());
            change(&place.node);
            let after = tree(place.node.root());
            all.push((format!("{name}, {reason}"), *reason, verb(&place, name), place, before, after));
        }
    }
    for (name, reason, gate, ..) in &mut all {
        note!("{name}");
        gate.logs(&format!("\"{reason}\""));
    }
    // What waiting cannot cure ends `load` at once.
    all.retain_mut(|(name, reason, gate, ..)| {
        let ends = name.starts_with("load") && reason.consequence() == Consequence::Blocks;
        if ends {
            assert_eq!(gate.ended(), 3, "{name}");
        }
        !ends
    });
    let mut running = Vec::new();
    for (name, _, gate, place, before, after) in all {
        mend(before, &after);
        place.node.hold_lock();
        running.push((name, gate, place, Instant::now()));
    }
    for (name, gate, place, mended) in &mut running {
        if name.starts_with("keep") {
            until(name, || place.is_loaded());
        } else {
            assert_eq!(gate.ended(), 0, "{name}: {:#?}", gate.lines);
        }
        assert!(name.starts_with("wait") || place.is_loaded(), "{name}");
        note!("{name}: after {:?}", mended.elapsed());
        assert!(mended.elapsed() < BOUND, "{name}: only after {:?}", mended.elapsed());
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        what_an_obstacle_kept_back_is_done_once_its_cause_is_gone,
        what_closed_a_gate_opens_it_once_its_cause_is_gone
    ]
}
