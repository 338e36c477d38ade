// SPDX-License-Identifier: Apache-2.0
//! The gate on a real kernel: Debian's own, with its real RDMA modules and with stand-ins for
//! MOFED's, in qemu.
//!
//! `tests/vm/build` makes the machine, `tests/vm/boot SCENARIO` plays one of `tests/vm/scenarios`
//! on it, and here is said what must have come of it. A scenario leaves lines `@SECONDS KIND TEXT`,
//! timed by the guest's boot clock: a slow host stretches a test and does not break it, for what is
//! asserted to the instant is only what must not happen before something else.
//!
//! Without the machine, the binary or qemu the tests are skipped; with `NO_SKIPPED_TESTS` in the
//! environment they fail. `GATE_BINARY` names another binary than the release build's.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far more than any scenario takes; a machine that hangs is killed.
const LIMIT: Duration = Duration::from_secs(180);

/// What one step of /proc/uptime may hide.
const GRAIN: f64 = 0.02;

/// More than the gate needs on an emulated processor that others share, less than the safety net's
/// five seconds.
const AT_ONCE: f64 = 3.0;

/// The status that `tests/vm/guest/opened` ends with.
const OPENED: i32 = 42;

#[test]
fn the_in_tree_stack_without_a_marker_holds() {
    play("intree-no-marker", |run| {
        let report = run.check(0);
        assert_eq!(report.status, 1);
        assert_eq!(report.verdict(), "Waiting");
        report.assert("MarkerPresent", "False", "MarkerAbsent");
        report.assert("ModulesLive", "True", "");
        report.assert("ModulesFromMofed", "False", "ModuleInTree");
        run.assert_held();
        run.assert_logged("MarkerAbsent");
    });
}

#[test]
fn a_stale_marker_over_the_in_tree_stack_holds() {
    play("intree-stale-marker", |run| {
        let report = run.check(0);
        assert_eq!(report.status, 1);
        report.assert("MarkerPresent", "True", "");
        report.assert("ModulesLive", "True", "");
        report.assert("ModulesFromMofed", "False", "ModuleInTree");
        report.assert("SymbolsExported", "False", "SymbolMissing");
        report.assert("HeadersReady", "True", "");
        run.assert_held();
        run.assert_logged("ModuleInTree");
    });
}

#[test]
fn the_new_generation_opens() {
    play("new-complete", |run| {
        run.check(0).assert_ready();
        run.check(1).assert_ready();
        run.check(1).assert("VersionMatches", "True", "");
        run.check(2).assert_ready();
        run.assert_opened();
    });
}

#[test]
fn the_old_generation_opens() {
    play("old-complete", |run| {
        run.check(0).assert_ready();
        run.check(1).assert("VersionMatches", "False", "VersionMismatch");
        run.assert_opened();
    });
}

#[test]
fn a_half_swapped_stack_holds() {
    play("half-swapped", |run| {
        let all = run.check(0);
        assert_eq!(all.status, 1);
        all.assert("ModulesLive", "False", "ModuleNotLoaded");
        all.assert("ModulesFromMofed", "False", "MixedStack");
        let loaded = run.check(1);
        assert_eq!(loaded.status, 1);
        loaded.assert("ModulesLive", "True", "");
        loaded.assert("ModulesFromMofed", "False", "MixedStack");
        run.assert_held();
        run.assert_logged("MixedStack");
    });
}

#[test]
fn coming_and_going_are_not_live() {
    play("coming-and-going", |run| {
        let [provider, versioned, going] = [0, 1, 2].map(|number| run.check(number));
        provider.assert("ModulesLive", "False", "ModuleLoading");
        assert_ne!(provider.condition("SymbolsExported")["status"], "True");
        versioned.assert("ModulesLive", "False", "ModuleLoading");
        assert!(versioned.message("ModulesLive").contains("mlx5_core"));
        going.assert("ModulesLive", "False", "ModuleUnloading");
        for report in [provider, versioned, going] {
            assert_eq!(report.status, 1);
        }
        run.check(3).assert_ready();
    });
}

#[test]
fn a_swap_opens_after_its_marker() {
    play("swap-marker-last", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        assert!(opened >= run.last("marking", "") + 1.0 - GRAIN);
    });
}

#[test]
fn a_swap_under_a_stale_marker_opens_after_its_last_module() {
    play("swap-stale-marker", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        // One second of mlx5_ib's init, one to settle.
        assert!(opened >= run.last("loading", "mlx5_ib") + 2.0 - GRAIN);
    });
}

#[test]
fn a_module_that_fails_to_come_does_not_count() {
    play("failed-init", |run| {
        run.assert_seen("Loading/coming");
        assert!(run.assert_opened() >= run.last("loading", "mlx5_ib") + 1.0 - GRAIN);
    });
}

#[test]
fn a_reload_starts_the_settle_anew() {
    play("reload-during-settle", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        assert!(
            run.last("unloading", "mlx5_ib") < run.last("waiting", "") + 4.0,
            "the reload came too late to prove anything"
        );
        assert!(opened >= run.last("loading", "mlx5_ib") + 0.5 + 4.0 - GRAIN);
    });
}

#[test]
fn a_reload_nobody_announces_starts_the_settle_anew() {
    play("reload-unheard", |run| {
        let opened = run.assert_opened();
        assert!(
            run.last("unloading", "mlx5_ib") < run.last("waiting", "") + 4.0,
            "the reload came too late to prove anything"
        );
        assert!(opened >= run.last("loading", "mlx5_ib") + 4.0 - GRAIN);
        run.assert_not_logged("module event");
    });
}

#[test]
fn a_uevent_wakes_the_gate() {
    play("uevent", |run| {
        let opened = run.assert_opened();
        let loaded = run.last("loaded", "mlx5_ib");
        assert!(opened < loaded + AT_ONCE, "woken {:.2} s late", opened - loaded);
        run.assert_logged("module event");
    });
}

#[test]
fn the_safety_net_catches_what_no_uevent_tells() {
    play("unheard", |run| {
        let opened = run.assert_opened();
        let loaded = run.last("loaded", "mlx5_ib");
        assert!(opened < loaded + 5.0 + AT_ONCE, "found {:.2} s late", opened - loaded);
        run.assert_logged("safety net");
        run.assert_not_logged("module event");
    });
}

#[test]
fn a_used_peermem_is_named_while_the_marker_is_absent() {
    play("peermem-in-use", |run| {
        let report = run.check(0);
        report.assert("MarkerPresent", "False", "MarkerAbsent");
        assert!(report.message("MarkerPresent").contains("nvidia_peermem"));
        run.assert_held();
        run.assert_logged("nvidia_peermem");
    });
}

#[test]
fn a_marker_without_a_holder_is_believed_late() {
    play("suspect-marker", |run| {
        let report = run.check(0);
        assert_eq!(report.status, 1);
        report.assert("MarkerTrusted", "False", "MarkerSuspect");
        let opened = run.assert_opened();
        assert!(opened >= run.last("waiting", "") + 3.0 - GRAIN);
        run.assert_logged("MarkerSuspect");
        run.assert_logged("MarkerBelieved");
        assert!(
            run.all("log").any(|line| line.text.contains("WARN") && line.text.contains("MarkerBelieved"))
        );
    });
}

#[test]
fn a_held_lock_clears_the_marker_of_suspicion() {
    play("lock-held", |run| {
        run.check(0).assert_ready();
        run.check(0).assert("MarkerTrusted", "True", "");
        run.assert_opened();
        run.assert_not_logged("MarkerSuspect");
    });
}

#[test]
fn a_lock_that_is_lost_makes_the_marker_suspect() {
    play("lock-lost", |run| {
        let opened = run.assert_opened();
        assert!(opened >= run.last("releasing", "") + 3.0 - GRAIN);
        run.assert_logged("MarkerSuspect");
    });
}

struct Line {
    at: f64,
    kind: String,
    text: String,
}

/// What a scenario left behind.
struct Run(Vec<Line>);

impl Run {
    fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Line> {
        self.0.iter().filter(move |line| line.kind == kind)
    }

    /// When the last line of this kind and beginning was written.
    fn last(&self, kind: &str, text: &str) -> f64 {
        let line = self.all(kind).filter(|line| line.text.starts_with(text)).last();
        line.unwrap_or_else(|| panic!("no line `{kind} {text}`")).at
    }

    fn check(&self, number: usize) -> Report {
        let line = self.all("check").nth(number).expect("a check");
        let (status, report) = line.text.split_once(' ').expect("a status and a report");
        Report {
            status: status.parse().expect("a status"),
            json: serde_json::from_str(report).expect("one line of JSON"),
        }
    }

    /// CMD ran, once, as the process that had waited, with the whole stack live and MOFED's, and
    /// the status is its own. When was that?
    fn assert_opened(&self) -> f64 {
        let opened: Vec<_> = self.all("opened").collect();
        assert_eq!(opened.len(), 1, "CMD runs once");
        let waiting = self.all("waiting").next().expect("a gate that waits");
        assert!(
            opened[0].text.starts_with(&format!("{} ", waiting.text)),
            "CMD is not the process that waited"
        );
        let stack = opened[0].text.split(' ').skip(1);
        assert_eq!(
            stack.filter(|module| module.ends_with("=Live/live/(OE)")).count(),
            4,
            "opened over {}",
            opened[0].text
        );
        assert_eq!(self.status(), OPENED);
        opened[0].at
    }

    /// The deadline passed, and CMD never ran.
    fn assert_held(&self) {
        assert_eq!(self.all("opened").count(), 0, "opened");
        assert_eq!(self.status(), 124);
    }

    fn status(&self) -> i32 {
        let ended = self.all("ended").next().expect("a gate that ended");
        ended.text.parse().expect("a status")
    }

    fn logs(&self, words: &str) -> bool {
        self.all("log").any(|line| line.text.contains(words))
    }

    fn assert_logged(&self, words: &str) {
        assert!(self.logs(words), "the log does not say {words}");
    }

    fn assert_not_logged(&self, words: &str) {
        assert!(!self.logs(words), "the log says {words}");
    }

    /// The scenario did what it is for, and while the gate was there.
    fn assert_seen(&self, state: &str) {
        let since = self.last("waiting", "");
        let mut stacks = self.all("stack").filter(|line| line.at > since);
        assert!(stacks.any(|line| line.text.contains(state)), "{state} was never to be seen");
    }
}

struct Report {
    status: i32,
    json: Value,
}

impl Report {
    fn verdict(&self) -> &str {
        self.json["verdict"].as_str().expect("a verdict")
    }

    fn condition(&self, kind: &str) -> &Value {
        let mut conditions = self.json["conditions"].as_array().expect("conditions").iter();
        conditions.find(|condition| condition["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    fn message(&self, kind: &str) -> &str {
        self.condition(kind)["message"].as_str().expect("a message")
    }

    /// An empty reason is any.
    fn assert(&self, kind: &str, status: &str, reason: &str) {
        let condition = self.condition(kind);
        assert_eq!(condition["status"], status, "{condition}");
        assert!(reason.is_empty() || condition["reason"] == reason, "{reason} expected: {condition}");
    }

    fn assert_ready(&self) {
        assert_eq!(self.verdict(), "Ready", "{}", self.json);
        assert_eq!(self.status, 0);
    }
}

/// Two machines at a time: each keeps a processor busy, and a starved guest proves nothing.
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(2), Condvar::new());

struct Slot;

impl Slot {
    fn take() -> Self {
        let free = FREE.0.lock().expect("no panic while held");
        *FREE.1.wait_while(free, |free| *free == 0).expect("no panic while held") -= 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *FREE.0.lock().expect("no panic while held") += 1;
        FREE.1.notify_one();
    }
}

/// Killed whichever way the test ends: `boot` has become qemu, so the child is the machine.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays a scenario to its end, or says why it cannot be played here.
fn play(scenario: &str, judge: impl FnOnce(&Run)) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let gate = env::var_os("GATE_BINARY").map_or_else(
        || repository.join("target/x86_64-unknown-linux-musl/release/peermem-gate"),
        PathBuf::from,
    );
    if let Some(reason) = missing(repository, &gate) {
        assert!(env::var_os("NO_SKIPPED_TESTS").is_none(), "must not be skipped: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let slot = Slot::take();
    let run = boot(repository, scenario, &gate);
    drop(slot);
    judge(&run);
}

fn boot(repository: &Path, scenario: &str, gate: &Path) -> Run {
    let deadline = Instant::now() + LIMIT;
    let child = Command::new(repository.join("tests/vm/boot"))
        .arg(scenario)
        .arg(gate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tests/vm/boot can be run");
    let mut machine = Machine(child);

    let console = BufReader::new(machine.0.stdout.take().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    // Ends with the machine: its end of the pipe closes.
    thread::spawn(move || console.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line)));

    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                // Shown when the test fails.
                println!("{scenario}: {}", line.trim_end());
                lines.extend(parse(line.trim_end()));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{scenario} took more than {LIMIT:?}"),
        }
    }
    let end = lines.last().filter(|line| line.kind == "end");
    assert_eq!(end.expect("played to the end").text, "0", "{scenario} failed in itself");
    Run(lines)
}

fn missing(repository: &Path, gate: &Path) -> Option<String> {
    if !repository.join("target/vm/stamp").exists() {
        return Some("no machine to boot: tests/vm/build makes it".into());
    }
    if !gate.exists() {
        return Some(format!("no static binary at {}", gate.display()));
    }
    if Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Some("no qemu-system-x86_64".into());
    }
    None
}

/// `@SECONDS KIND TEXT`; everything else is the kernel's or a tool's.
fn parse(line: &str) -> Option<Line> {
    let (at, rest) = line.strip_prefix('@')?.split_once(' ')?;
    let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Line { at: at.parse().ok()?, kind: kind.into(), text: text.into() })
}
