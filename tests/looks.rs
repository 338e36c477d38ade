// SPDX-License-Identifier: Apache-2.0
//! What changes between two looks, or in the midst of one, and what no event tells.

mod support;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};
use support::{DRIVERS, Gate, LIMIT, MARKER, Node, SYMVERS, change};

const ONCE: [&str; 4] = ["--settle", "0s", "--timeout", "1h"];

/// Module.symvers is a link that only MOFED's root makes sense of.
fn with_linked_symvers() -> (Node, &'static str) {
    let node = Node::ready().without_marker();
    let real = "run/mellanox/drivers/usr/src/symvers";
    node.rename(SYMVERS, real);
    symlink("/usr/src/symvers", node.path(SYMVERS)).unwrap();
    (node, real)
}

#[test]
fn headers_behind_a_link_that_turn_bad_before_the_marker() {
    let (node, real) = with_linked_symvers();
    let mut gate = Gate::start(node.wait().args(ONCE));
    gate.logs("MarkerAbsent");
    node.write(real, "");
    node.set_marker();
    gate.logs("HeadersWithoutPeerMemory");
}

#[test]
fn headers_behind_a_link_that_turn_good() {
    let (node, real) = with_linked_symvers();
    let good = fs::read(node.path(real)).unwrap();
    node.write(real, "");
    node.set_marker();
    let mut gate = Gate::start(node.wait().args(ONCE));
    gate.logs("HeadersWithoutPeerMemory");
    change(&node.path(real), |path| fs::write(path, &good).unwrap());
    gate.assert_opened();
}

/// A hundred mebibytes before the symbol, so that the reading takes its time.
fn with_long_kallsyms(node: &Node) {
    let mut kallsyms = File::create(node.path("proc/kallsyms")).unwrap();
    kallsyms.seek(SeekFrom::Start(100 << 20)).unwrap();
    kallsyms.write_all(b"\n0 T ib_register_peer_memory_client\t[ib_uverbs]\n").unwrap();
}

#[test]
fn modules_that_go_while_the_symbols_are_read() {
    let node = Node::ready();
    with_long_kallsyms(&node);
    let mut gate = Gate::start(node.wait().args(ONCE));
    let io = format!("/proc/{}/io", gate.pid());
    let read = || -> u64 {
        let io = fs::read_to_string(&io).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).map_or(0, |count| count.parse().unwrap())
    };
    let started = Instant::now();
    while read() < 2 << 20 {
        assert!(started.elapsed() < LIMIT, "it is not read");
        thread::sleep(Duration::from_millis(1));
    }
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    node.write("proc/modules", modules.replace("Live", "Unloading"));
    // sysfs still says live: the two witnesses disagree, and the gate must have noticed.
    gate.logs("WitnessesDisagree");
}

#[test]
fn a_report_is_given_though_the_marker_goes_while_the_symbols_are_read() {
    let node = Node::ready();
    with_long_kallsyms(&node);
    let mut check = Gate::start(node.check().args(["--format", "json"]));
    node.remove(MARKER);
    let code = check.ended();
    assert!(code == 0 || code == 1, "{code}");
}

#[test]
fn symbols_that_can_be_read_later() {
    let node = Node::ready().in_tree();
    node.rename("proc/kallsyms", "kallsyms");
    fs::create_dir_all(node.path("usr/src")).unwrap();
    fs::rename(node.path(DRIVERS).join("usr/src/ofa_kernel"), node.path("usr/src/ofa_kernel")).unwrap();
    let mut gate = Gate::start(node.wait().args(ONCE).env("USE_HOST_MOFED", "true"));
    gate.logs("ModulesUnreadable");
    node.rename("kallsyms", "proc/kallsyms");
    gate.assert_opened();
}
