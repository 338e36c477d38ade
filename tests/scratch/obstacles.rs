// SPDX-License-Identifier: Apache-2.0
//! No obstacle is for good: `keep` with each of them in its way, until its cause is taken away. Nobody sends it a
//! signal.

use crate::place::{Place, WORKSHOP};
use crate::rebuild::failures::obstacles;
use crate::support::{Gate, can_mount, note, output, tests, until, wrapped};
use peermem_gate::rebuild::Kind;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The first pause after an obstacle, and two looks.
pub(crate) const BOUND: Duration = Duration::from_secs(10 + 10);

/// Something of a node's tree, as it was.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
}

pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

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

pub(crate) fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    add(root, &mut tree);
    tree
}

/// Takes away what a change has brought, and brings what it has taken away.
pub(crate) fn mend(before: Tree, after: &Tree) {
    for (path, _) in after.iter().rev().filter(|(path, _)| !before.contains_key(*path)) {
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
    }
    for (path, entry) in before.into_iter().filter(|(path, entry)| after.get(path) != Some(entry)) {
        let is_directory = |entry: &Entry| matches!(entry, Entry::Directory(_));
        match after.get(&path) {
            Some(now) if is_directory(now) && !is_directory(&entry) => {
                fs::remove_dir_all(&path).expect("removed");
            }
            Some(now) if is_directory(&entry) && !is_directory(now) => {
                fs::remove_file(&path).expect("removed");
            }
            _ => {}
        }
        match entry {
            Entry::Directory(mode) => {
                fs::create_dir_all(&path).expect("a directory");
                fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
            }
            Entry::Link(target) => symlink(target, path).expect("a link"),
            // The same file with other rights.
            Entry::File(mode, content) if matches!(after.get(&path), Some(Entry::File(_, now)) if *now == content) =>
            {
                fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
            }
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

/// An unload by another process is an order, and a condition that blocks ends a sidecar that starts: they have tests
/// of their own.
fn lasts(kind: Kind) -> bool {
    !matches!(kind, Kind::Loaded | Kind::NotCurable)
}

/// Whoever does what the log asks for sees it happen.
fn what_an_obstacle_kept_back_is_done_once_its_cause_is_gone() {
    let mut all = Vec::new();
    for (kind, change) in obstacles().into_iter().filter(|(kind, _)| lasts(*kind)) {
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

/// An obstacle that a mount brings, the directory, what makes it so, and what ends it.
type Mounted = (Kind, &'static str, &'static str, &'static str);

const MOUNTED: &[Mounted] = &[
    // As on Talos or Bottlerocket, or after an error of the disk.
    (Kind::Unwritable, "lib/modules", "--bind $1 $1 && mount -o remount,bind,ro $1", "remount,bind,rw"),
    (Kind::NoRoom, "var/lib", "-t tmpfs -o mode=755,size=1m none $1", "remount,size=256m"),
    // No inode is left for a directory.
    (Kind::CallFailed, "var/lib", "-t tmpfs -o mode=755,nr_inodes=1 none $1", "remount,nr_inodes=1000"),
];

fn what_a_mount_kept_back_is_done_once_the_mount_is_another() {
    for (kind, directory, mount, ends) in MOUNTED {
        let Some(place) = Place::new() else { return };
        let directory = place.node.path(directory).display().to_string();
        let script = format!("mount {mount} && shift && exec \"$@\"");
        let by = ["unshare", "-m", "sh", "-c", &script, "sh", &directory];
        let keep = place.run("keep", &["--rebuild", "auto", "--suspect-hold", "1s"]);
        let mut keep = Gate::start(&mut wrapped(by, &keep));
        keep.logs(&format!("not rebuilt: {kind}: "));
        let mut remount = Command::new("nsenter");
        remount.args(["-m", "-t", &keep.pid().to_string(), "mount", "-o", ends, &directory]);
        assert!(output(&mut remount).status.success(), "{kind}");
        is_rebuilt(*kind, &place);
    }
}

pub(crate) fn is_rebuilt(kind: Kind, place: &Place) {
    let mended = Instant::now();
    until(&format!("a rebuild without {kind}"), || place.is_installed());
    note!("{kind}: after {:?}", mended.elapsed());
    assert!(mended.elapsed() < BOUND, "{kind}: only after {:?}", mended.elapsed());
}

fn a_rebuild_that_another_one_kept_back_is_done_once_that_has_ended(place: &Place) {
    place.node.write(&format!("{WORKSHOP}/lock"), "");
    for (path, mode) in [(WORKSHOP.to_owned(), 0o700), (format!("{WORKSHOP}/lock"), 0o600)] {
        fs::set_permissions(place.node.path(&path), Permissions::from_mode(mode)).expect("a mode");
    }
    let lock = fs::File::open(place.node.path(WORKSHOP).join("lock")).expect("a file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto", "--suspect-hold", "1s"]));
    keep.logs(&format!("not rebuilt: {}: ", Kind::Busy));
    // A child that another test is starting may have a copy of it for a moment.
    flock(&lock, FlockOperation::Unlock).expect("no lock");
    is_rebuilt(Kind::Busy, place);
}

/// The other obstacles, by who has them.
const ELSEWHERE: &[(&str, &[Kind])] = &[
    ("what ends it is an order of its own: keeping::", &[Kind::Loaded]),
    ("its reasons have rows: reasons::", &[Kind::NotCurable]),
    ("the same sources, headers and tools fail again for an hour: rules keep::", &[Kind::AlreadyTried]),
    ("it needs a key: signing::", &[Kind::SigningKeyUnusable]),
    ("tests above have it", &[Kind::Busy]),
];

fn every_obstacle_has_a_test_that_its_end_is_noticed() {
    let played: Vec<_> = obstacles().into_iter().map(|(kind, _)| kind).filter(|kind| lasts(*kind)).collect();
    for kind in Kind::ALL {
        let is_mounted = MOUNTED.iter().any(|(mounted, ..)| mounted == kind);
        let is_elsewhere = ELSEWHERE.iter().any(|(_, kinds)| kinds.contains(kind));
        assert!(played.contains(kind) || is_mounted || is_elsewhere, "{kind}");
    }
}

tests![
    [
        what_an_obstacle_kept_back_is_done_once_its_cause_is_gone,
        every_obstacle_has_a_test_that_its_end_is_noticed,
    ],
    if can_mount [what_a_mount_kept_back_is_done_once_the_mount_is_another],
    on Place::new [a_rebuild_that_another_one_kept_back_is_done_once_that_has_ended],
];
