// SPDX-License-Identifier: Apache-2.0
//! Recorded waits, played through judge and gate again. A trace is a line with the options of
//! `wait`, then what `--log-level trace` logged, a look a line; beside it stands what the gate then
//! says. `BLESS=1` writes that again. `sidecar.kept` is the same for `keep`, put together from looks of such a trace.

use peermem_gate::cli::{Verb, environment};
use peermem_gate::keeper::{Action, Keep, LoadResult, Stay};
use peermem_gate::ready::gate::{Effect, Gate, Policy};
use peermem_gate::ready::look::{Cause, Look, Recorded};
use peermem_gate::ready::node::Node;
use peermem_gate::ready::observation::Marker;
use peermem_gate::watch::KeepInput;
use peermem_gate::words::{judge, next_build};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn node_and_policy(options: &str) -> (Node, Policy) {
    let args: Vec<_> =
        ["peermem-gate", "wait"].into_iter().chain(options.split_whitespace()).map(OsString::from).collect();
    let verb = environment::parse(&args, &Vec::new()).expect("options").verb;
    let Verb::Wait(wait) = verb else { unreachable!("the verb is wait") };
    let node = Node::new(&wait.node, wait.look.root.as_deref().unwrap_or(Path::new("/")), None, &Vec::new())
        .expect("options that go together");
    (node, Policy::of_wait(&wait).expect("options that go together"))
}

struct Replay {
    node: Node,
    gate: Gate,
    said: String,
    ended: bool,
}

impl Replay {
    fn step(&mut self, at: Duration, cause: &Cause, recorded: Option<&Recorded>) {
        let look = recorded.map(|Recorded { seen, .. }| Look {
            verdict: judge(&self.node.expected, seen),
            identity: seen.identity(),
            next_build: next_build(&self.node.expected, seen),
        });
        for effect in self.gate.step(at, cause, look) {
            match effect {
                Effect::Log(line) => {
                    let cause = line.cause.map(|cause| format!(" [{cause}]")).unwrap_or_default();
                    self.said += &format!("{:9.3} {}{cause}\n", line.elapsed.as_secs_f64(), line.text);
                }
                Effect::Publish => {}
                Effect::Last(last) => {
                    let last =
                        last.map_or_else(|exit| format!("End({exit:?})"), |why| format!("Open({why:?})"));
                    self.said += &format!("{:9.3} {last}\n", at.as_secs_f64());
                    self.ended = true;
                }
            }
        }
    }

    /// The gate's own times come between two recorded looks: it then sees what the last saw.
    fn idle_until(&mut self, until: Duration, last: &Recorded) {
        while !self.ended {
            let look = self.gate.next_look();
            let due = look.into_iter().chain([self.gate.next_heartbeat()]).min().expect("a heartbeat");
            if due > until {
                return;
            }
            self.step(due, &Cause::Timer, (look == Some(due)).then_some(last));
        }
    }
}

fn replay(trace: &str) -> String {
    let (options, looks) = trace.split_once('\n').expect("a line with options");
    let (node, policy) = node_and_policy(options);
    let looks: Vec<Recorded> =
        looks.lines().map(|line| serde_json::from_str(line).expect("a recorded look")).collect();
    let mut replay =
        Replay { node, gate: Gate::new(policy, Duration::ZERO), said: String::new(), ended: false };
    for (i, look) in looks.iter().enumerate() {
        let at = Duration::from_millis(look.at_ms);
        if let Some(last) = i.checked_sub(1).map(|before| &looks[before]) {
            replay.idle_until(at, last);
        }
        if !replay.ended {
            replay.step(at, &look.cause, Some(look));
        }
    }
    if let Some(last) = looks.last() {
        replay.idle_until(Duration::MAX, last);
    }
    replay.said
}

/// The same of `keep`, whose loads and unloads succeed: the next look says so.
struct ReplayKeep {
    node: Node,
    keep: Keep,
    was_marked: bool,
    said: String,
}

impl ReplayKeep {
    fn step(&mut self, at: Duration, cause: &Cause, Recorded { seen, .. }: &Recorded) {
        let look = Look {
            verdict: judge(&self.node.expected, seen),
            identity: seen.identity(),
            next_build: next_build(&self.node.expected, seen),
        };
        self.was_marked |= matches!(seen.marker, Marker::Present(_));
        let step = self.keep.look(at, cause, KeepInput::of(&self.node.expected, seen, look, self.was_marked));
        self.hear(at, step.effects);
        let Some(action) = step.action else { return };
        self.said += &format!("{:9.3} {action:?}\n", at.as_secs_f64());
        let effects = match action {
            Action::Load => self.keep.done(at, LoadResult::Live("loaded".to_owned(), Some(0))),
            Action::Unload => self.keep.unloaded(at, Ok("unloaded".to_owned())),
            Action::Rebuild => unreachable!("nobody has asked for a rebuild"),
        };
        self.hear(at, effects);
    }

    fn hear(&mut self, at: Duration, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Log(line) = effect {
                let (state, text) = (self.keep.state(), line.text);
                let cause = line.cause.map(|cause| format!(" [{cause}]")).unwrap_or_default();
                self.said += &format!("{:9.3} {state}: {text}{cause}\n", at.as_secs_f64());
            }
        }
    }

    /// Its own times come between two recorded looks: it then sees what the last saw.
    fn idle_until(&mut self, until: Duration, last: &Recorded) {
        loop {
            let look = self.keep.next_look().filter(|due| *due < until);
            let heartbeat = Some(self.keep.next_heartbeat()).filter(|due| *due < until);
            let Some(due) = look.into_iter().chain(heartbeat).min() else { return };
            if look == Some(due) {
                self.step(due, &Cause::Timer, last);
            }
            let effects = self.keep.tick(due);
            self.hear(due, effects);
        }
    }
}

fn replay_keep(trace: &str) -> String {
    let (options, looks) = trace.split_once('\n').expect("a line with options");
    let args = ["peermem-gate", "keep"].into_iter().chain(options.split_whitespace());
    let args: Vec<_> = args.map(OsString::from).collect();
    let verb = environment::parse(&args, &Vec::new()).expect("options").verb;
    let Verb::Keep(args) = verb else { unreachable!("the verb is keep") };
    let node = Node::new(&args.node, Path::new("/"), None, &Vec::new()).expect("options that go together");
    let keep = Keep::new(Policy::of_keep(&args.pace), Stay::of_service(args.no_yield), Duration::ZERO);
    let looks: Vec<Recorded> =
        looks.lines().map(|line| serde_json::from_str(line).expect("a recorded look")).collect();
    let mut replay = ReplayKeep { node, keep, was_marked: false, said: String::new() };
    for (i, look) in looks.iter().enumerate() {
        let at = Duration::from_millis(look.at_ms);
        if let Some(last) = i.checked_sub(1).map(|before| &looks[before]) {
            replay.idle_until(at, last);
        }
        replay.step(at, &look.cause, look);
    }
    replay.said
}

#[test]
fn the_recorded_looks_of_a_sidecar_are_judged_as_before() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/sidecar.kept");
    let said = replay_keep(&fs::read_to_string(&path).expect("a trace"));
    let expected = path.with_extension("said");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&expected, &said).expect("what was said");
    }
    assert_eq!(said, fs::read_to_string(&expected).unwrap_or_default());
}

#[test]
fn every_recorded_trace_is_judged_as_before() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut paths: Vec<_> =
        fs::read_dir(traces).expect("traces").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    assert!(paths.len() >= 3, "traces are missing");
    for path in paths {
        let said = replay(&fs::read_to_string(&path).expect("a trace"));
        let expected = path.with_extension("said");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &said).expect("what was said");
        }
        assert_eq!(said, fs::read_to_string(&expected).unwrap_or_default(), "{}", path.display());
    }
}
