// SPDX-License-Identifier: Apache-2.0
//! Called as `driver-manager`, before another one that behaves as NVIDIA's.

use crate::support::in_front::InFront;
use crate::support::{self, Gate, Node, code, output, skip, suite, until};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;

/// What every `DaemonSet` of the GPU Operator asks for.
const UNINSTALL: &[&str] = &["uninstall_driver"];

/// What driver-manager notes of how it runs.
const FIRST: &str = r#"env -0 | sort -z >"${0%/*}/environment"
grep '^Sig\(Blk\|Ign\)' /proc/self/status >"${0%/*}/signals"
"#;

struct Place {
    node: Node,
    original: InFront,
}

impl Place {
    fn new(node: Node) -> Self {
        let original = InFront::new(&node, "driver-manager", FIRST);
        Self { node, original }
    }

    fn that(node: Node, does: &str) -> Self {
        let place = Self::new(node);
        place.original.does(does);
        place
    }

    /// As the operator's init container runs it; the settings of the wait come by the environment alone.
    fn driver_manager(&self, arguments: &[&str]) -> Command {
        let mut command = self.original.command(arguments);
        command
            .env("PEERMEM_GATE_ROOT", self.node.root())
            .env("PEERMEM_GATE_SETTLE", "0s")
            .env("PEERMEM_GATE_LOG_FORMAT", "json")
            .env("PEERMEM_GATE_TERMINATION_LOG", self.node.path("last-words"));
        command
    }

    fn calls(&self) -> Vec<Vec<String>> {
        self.original.calls()
    }

    fn last_words(&self) -> String {
        fs::read_to_string(self.node.path("last-words")).unwrap_or_default()
    }
}

fn driver_manager_waits_for_mofed_after_it_has_uninstalled_the_driver() {
    let place = Place::new(Node::ready().without_marker());
    let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
    gate.logs("MarkerAbsent");
    assert_eq!(place.calls().len(), 1, "the original came first");
    place.node.set_marker();
    assert_eq!(gate.ended(), 0);
    assert_eq!(place.calls(), [["uninstall_driver"]]);
}

fn options_before_uninstall_driver_are_no_way_around_the_wait() {
    let place = Place::new(Node::ready().without_marker());
    let arguments = ["--node-name", "gpu-1", "uninstall_driver"];
    let mut command = place.driver_manager(&arguments);
    assert_eq!(code(output(command.env("PEERMEM_GATE_TIMEOUT", "300ms")).status), 124);
    assert_eq!(place.calls()[0], arguments);
}

fn the_build_of_an_image_can_ask_which_driver_manager_its_path_finds() {
    let place = Place::new(Node::ready());
    let ran = output(&mut place.driver_manager(&["peermem-gate"]));
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(code(ran.status), 0, "{said}");
    assert!(said.contains(&format!("in front of {}", place.original.original().display())), "{said}");
    assert!(place.calls().is_empty());
}

fn driver_manager_opens_at_once_where_the_gate_does_not_apply() {
    let place = Place::new(Node::ready().without_mofed().without_nic());
    assert_eq!(code(output(&mut place.driver_manager(UNINSTALL)).status), 0);
    let place = Place::new(Node::ready().without_marker());
    let mut command = place.driver_manager(UNINSTALL);
    assert_eq!(code(output(command.env("GPU_DIRECT_RDMA_ENABLED", "false")).status), 0);
    let place = Place::new(Node::ready().without("run/mellanox/drivers/usr"));
    let mut command = place.driver_manager(UNINSTALL);
    let (status, said) = support::refusal(command.env("PEERMEM_GATE_PRECOMPILED", "true"));
    assert_eq!(status, 0, "{said}");
}

fn other_commands_of_driver_manager_are_handed_over_untouched() {
    // No variable of the gate is even read.
    for (arguments, does, status) in [
        (&["preflight_check"][..], "exit 0", 0),
        (&["preflight_check"], "exit 9", 9),
        (&["help", "preflight_check"], "exit 0", 0),
        (&["--version"], "kill -TERM $$", 143),
        (&[], "echo usage; exit 1", 1),
    ] {
        let place = Place::that(Node::ready().without_marker(), does);
        let mut command = place.driver_manager(arguments);
        let ran = output(command.env("PEERMEM_GATE_TIMEOUT", "nonsense"));
        assert_eq!((code(ran.status), ran.stderr.len()), (status, 0), "{arguments:?}");
        assert_eq!(ran.stdout, if arguments.is_empty() { &b"usage\n"[..] } else { b"" });
        assert_eq!(place.calls()[0], *arguments);
    }
}

fn a_failed_driver_manager_ends_with_its_own_status_and_no_wait() {
    for (does, status) in [("exit 1", 1), ("exit 124", 124), ("kill -KILL $$", 137)] {
        let place = Place::that(Node::ready(), does);
        let (ended, said) = support::refusal(&mut place.driver_manager(UNINSTALL));
        assert_eq!(ended, status, "{said}");
        assert!(said.is_empty(), "{said}");
    }
}

fn driver_manager_has_the_streams_environment_and_signals_of_the_container() {
    let place =
        Place::that(Node::ready(), "echo to stdout; echo to stderr >&2; read -r line; echo \"$line\"");
    let mut command = place.driver_manager(UNINSTALL);
    let input = place.node.path("input");
    fs::write(&input, "from stdin\n").unwrap();
    command
        .stdin(fs::File::open(input).unwrap())
        .env("NODE_NAME", "gpu-1")
        .env("DRAIN_TIMEOUT_SECONDS", "0s");
    let ran = output(&mut command);
    assert_eq!(code(ran.status), 0);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "to stdout\nfrom stdin\n");
    assert!(String::from_utf8_lossy(&ran.stderr).starts_with("to stderr\n"));
    let environment = fs::read_to_string(place.original.bin.join("environment")).unwrap();
    for variable in ["NODE_NAME=gpu-1", "DRAIN_TIMEOUT_SECONDS=0s", "PEERMEM_GATE_SETTLE=0s"] {
        assert!(environment.split('\0').any(|one| one == variable), "{variable}");
    }
    let signals = fs::read_to_string(place.original.bin.join("signals")).unwrap();
    assert!(signals.contains("SigBlk:\t0000000000000000"), "{signals}");
}

fn a_signal_is_passed_to_driver_manager_and_its_status_is_kept() {
    let busy = |trap: &str| format!("trap '{trap}' TERM; touch $here/began; while :; do sleep 0.05; done");
    // (what it does at SIGTERM, how all ends)
    for (trap, status) in [("exit 7", 7), ("exit 0", 143), ("trap - TERM; kill -TERM $$", 143)] {
        let place = Place::that(Node::ready(), &busy(trap));
        let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
        until("driver-manager runs", || place.original.bin.join("began").exists());
        gate.process().signal(Signal::SIGTERM);
        assert_eq!(gate.ended(), status, "{trap}");
    }
}

/// The gate would have ended of it, and the original gone on to evict pods alone. Those that end the gate are above.
fn every_signal_that_can_be_caught_is_passed_to_driver_manager() {
    let signals: Vec<_> = Signal::iterator().filter(|signal| !NOT_PASSED.contains(signal)).collect();
    let names = signals.iter().map(|signal| signal.as_str().trim_start_matches("SIG"));
    let names: Vec<_> = names.map(|name| name.replace("IOT", "ABRT")).collect();
    let trap = |name: &String| format!("trap 'echo {name} >>$here/got' {name}\n");
    let traps = names.iter().map(trap).collect::<String>();
    let loops = "touch $here/began; until [ -e $here/end ]; do sleep 0.05; done";
    let place = Place::that(Node::ready().without_marker(), &format!("{traps}{loops}"));
    let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
    until("driver-manager runs", || place.original.bin.join("began").exists());
    for (signal, name) in signals.iter().zip(&names) {
        gate.process().signal(*signal);
        let got = || fs::read_to_string(place.original.bin.join("got")).unwrap_or_default();
        until(&format!("{signal} is passed on"), || got().lines().any(|line| line == name));
    }
    fs::write(place.original.bin.join("end"), "").unwrap();
    gate.logs("MarkerAbsent");
    place.node.set_marker();
    assert_eq!(gate.ended(), 0, "none of these ends the wait");
}

/// Two that nobody can catch, one that our own writes make, two that every gate drops, and those that end it.
const NOT_PASSED: [Signal; 9] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGPIPE,
    Signal::SIGCHLD,
    Signal::SIGXFSZ,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Their default is an end, as SIGTERM's is.
fn a_real_time_signal_ends_driver_manager() {
    let busy = "trap 'exit 7' TERM; touch $here/began; while :; do sleep 0.05; done";
    let place = Place::that(Node::ready(), busy);
    let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
    until("driver-manager runs", || place.original.bin.join("began").exists());
    let sent = output(Command::new("bash").arg("-c").arg(format!("kill -40 {}", gate.pid())));
    assert!(sent.status.success());
    assert_eq!(gate.ended(), 7);
}

fn a_signal_ends_the_wait_after_driver_manager() {
    let place = Place::new(Node::ready().without_marker());
    let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
    gate.logs("MarkerAbsent");
    gate.process().signal(Signal::SIGTERM);
    assert_eq!(gate.ended(), 143);
    assert!(place.last_words().contains("MarkerAbsent"), "{}", place.last_words());
}

fn a_wrong_variable_is_refused_before_driver_manager_evicts_anything() {
    let place = Place::new(Node::ready());
    let mut command = place.driver_manager(UNINSTALL);
    let (status, said) = support::refusal(command.env("PEERMEM_GATE_TIMEOUT", "30"));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("PEERMEM_GATE_TIMEOUT"), "{said}");
    assert!(place.last_words().contains("PEERMEM_GATE_TIMEOUT"));
    assert!(place.calls().is_empty());
}

fn a_disabled_gate_runs_only_driver_manager() {
    let place = Place::that(Node::ready().without_marker(), "exit 5");
    let mut command = place.driver_manager(UNINSTALL);
    let (status, said) = support::refusal(command.env("PEERMEM_GATE_DISABLED", "drill 7"));
    assert_eq!(status, 5, "{said}");
    assert!(said.contains("drill 7"), "{said}");
}

fn the_wait_after_driver_manager_has_no_rights_of_a_privileged_container() {
    if !is_privileged() {
        return skip("no CAP_SYS_ADMIN that could be given up");
    }
    let place = Place::that(Node::ready().without_marker(), "grep ^CapEff /proc/self/status >$here/rights");
    let mut gate = Gate::start(&mut place.driver_manager(UNINSTALL));
    gate.logs("MarkerAbsent");
    let rights = fs::read_to_string(place.original.bin.join("rights")).unwrap();
    assert_ne!(mask(&rights, "CapEff"), 0, "the original has them");
    for pid in [gate.pid(), gate.worker()] {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(mask(&status, set), 0, "{set} of {pid}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }
    place.node.set_marker();
    assert_eq!(gate.ended(), 0);
}

fn a_missing_driver_manager_is_named() {
    let place = Place::new(Node::ready());
    fs::remove_file(place.original.original()).unwrap();
    let (status, said) = support::refusal(&mut place.driver_manager(UNINSTALL));
    assert_eq!(status, 127, "{said}");
    assert!(said.contains("called driver-manager") && said.contains("k8s-driver-manager"), "{said}");
}

fn is_privileged() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    mask(&status, "CapEff") & 1 << 21 != 0
}

/// A set of capabilities in /proc/PID/status.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    u64::from_str_radix(line.expect("a set").trim(), 16).expect("a mask")
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        driver_manager_waits_for_mofed_after_it_has_uninstalled_the_driver,
        options_before_uninstall_driver_are_no_way_around_the_wait,
        the_build_of_an_image_can_ask_which_driver_manager_its_path_finds,
        driver_manager_opens_at_once_where_the_gate_does_not_apply,
        other_commands_of_driver_manager_are_handed_over_untouched,
        a_failed_driver_manager_ends_with_its_own_status_and_no_wait,
        driver_manager_has_the_streams_environment_and_signals_of_the_container,
        a_signal_is_passed_to_driver_manager_and_its_status_is_kept,
        every_signal_that_can_be_caught_is_passed_to_driver_manager,
        a_real_time_signal_ends_driver_manager,
        a_signal_ends_the_wait_after_driver_manager,
        a_wrong_variable_is_refused_before_driver_manager_evicts_anything,
        a_disabled_gate_runs_only_driver_manager,
        the_wait_after_driver_manager_has_no_rights_of_a_privileged_container,
        a_missing_driver_manager_is_named,
    ]
}
