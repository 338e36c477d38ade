// SPDX-License-Identifier: Apache-2.0
//! No obstacle is for good: `keep` with each of them in its way, until its cause is taken away. Nobody sends it a
//! signal.

use crate::fixture::{self, Variant};
use crate::place::Place;
use crate::rebuild::failures::obstacles;
use crate::rest::NODES;
use crate::support::{self, Gate, LOCK, clean, note, suite, until};
use libtest_mimic::Trial;
use peermem_gate::rebuild::Kind;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// The same of every state that holds `wait` back: a tree of tests/nodes becomes that of a ready node, file by file.
fn what_held_a_wait_back_opens_it_once_its_cause_is_gone() {
    let described =
        |name: &str| fixture::Node::described(&fixture::nodes().join(name).join("node"), Variant::Faulty);
    let ready = described("ready-with-lock");
    // The number of its lock's inode is another node's there.
    for gone in [LOCK, "proc/locks"] {
        fs::remove_file(ready.path(gone)).expect("removed");
    }
    // A symbol comes with a module that is loaded anew, at another address.
    let modules = fs::read_to_string(ready.path("proc/modules")).expect("modules");
    assert!(modules.contains("Live 0x0000"), "{modules}");
    fs::write(ready.path("proc/modules"), modules.replace("Live 0x0000", "Live 0x0001")).expect("modules");
    let wanted = tree(ready.root());
    let mut all = Vec::new();
    // What is asked for by a variable stays asked for.
    let nodes = NODES.into_iter().map(|name| (name, described(name)));
    for (name, node) in nodes.filter(|(_, node)| node.variables().is_empty()) {
        let mut command = clean(Command::new(support::GATE));
        command.args(["wait", "--log-format", "json", "--settle", "100ms", "--suspect-hold", "1h"]);
        let mut gate = Gate::start(command.args(["--timeout", "2m"]).arg("--root").arg(node.root()));
        gate.says_something();
        if !gate.process().ends_within(Duration::ZERO) {
            all.push((name, node, gate));
        }
    }
    assert!(all.len() > 15, "only {} are held back", all.len());
    for (_, node, _) in &all {
        let here = |path: &Path| node.root().join(path.strip_prefix(ready.root()).expect("below it"));
        let wanted = wanted.iter().map(|(path, entry)| (here(path), entry.clone())).collect();
        mend(wanted, &tree(node.root()));
    }
    let mended = Instant::now();
    for (name, _, gate) in &mut all {
        assert_eq!(gate.ended(), 0, "{name}: {:#?}", gate.lines);
        note!("{name}: after {:?}", mended.elapsed());
        assert!(mended.elapsed() < BOUND, "{name}: only after {:?}", mended.elapsed());
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        what_an_obstacle_kept_back_is_done_once_its_cause_is_gone,
        what_held_a_wait_back_opens_it_once_its_cause_is_gone
    ]
}
