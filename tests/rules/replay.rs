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

/// What the looks are shown to.
enum Machine {
    Gate(Box<Gate>),
    /// Its loads and unloads succeed: the next look says so.
    Keep {
        keep: Box<Keep>,
        was_marked: bool,
    },
}

struct Replay {
    node: Node,
    machine: Machine,
    said: String,
    ended: bool,
}

impl Replay {
    fn new(verb: &str, options: &str) -> Self {
        let args = ["peermem-gate", verb].into_iter().chain(options.split_whitespace());
        let args: Vec<_> = args.map(OsString::from).collect();
        let (node, machine) = match environment::parse(&args, &Vec::new()).expect("options").verb {
            Verb::Wait(wait) => {
                let policy = Policy::of_wait(&wait).expect("options that go together");
                (wait.node, Machine::Gate(Box::new(Gate::new(policy, Duration::ZERO))))
            }
            Verb::Keep(args) => {
                let stay = Stay::of_service(args.no_yield);
                let keep = Keep::new(Policy::of_keep(&args.pace), stay, Duration::ZERO);
                (args.node, Machine::Keep { keep: Box::new(keep), was_marked: false })
            }
            _ => unreachable!("a verb that waits"),
        };
        let node = Node::new(&node, Path::new("/"), None, &Vec::new()).expect("options that go together");
        Self { node, machine, said: String::new(), ended: false }
    }

    fn step(&mut self, at: Duration, cause: &Cause, Recorded { seen, .. }: &Recorded) {
        let expected = &self.node.expected;
        let look = Look {
            verdict: judge(expected, seen),
            identity: seen.identity(),
            next_build: next_build(expected, seen),
        };
        let (effects, action) = match &mut self.machine {
            Machine::Gate(gate) => (gate.step(at, cause, Some(look)), None),
            Machine::Keep { keep, was_marked } => {
                *was_marked |= matches!(seen.marker, Marker::Present(_));
                let response = keep.look(at, cause, KeepInput::of(expected, seen, look, *was_marked));
                (response.effects, response.action)
            }
        };
        self.hear(at, effects);
        if let Some(action) = action {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: Duration, action: Action) {
        let Machine::Keep { keep, .. } = &mut self.machine else { unreachable!("the gate does nothing") };
        self.said += &format!("{:9.3} {action:?}\n", at.as_secs_f64());
        let effects = match action {
            Action::Load => keep.done(at, LoadResult::Live("loaded".to_owned(), Some(0))),
            Action::Unload => keep.unloaded(at, Ok("unloaded".to_owned())),
            Action::Rebuild => unreachable!("nobody has asked for a rebuild"),
        };
        self.hear(at, effects);
    }

    fn hear(&mut self, at: Duration, effects: Vec<Effect>) {
        let seconds = at.as_secs_f64();
        for effect in effects {
            match effect {
                Effect::Log(line) => {
                    let cause = line.cause.map(|cause| format!(" [{cause}]")).unwrap_or_default();
                    let state = match &self.machine {
                        Machine::Gate(_) => String::new(),
                        Machine::Keep { keep, .. } => format!("{}: ", keep.state()),
                    };
                    self.said += &format!("{seconds:9.3} {state}{}{cause}\n", line.text);
                }
                Effect::Publish => {}
                Effect::Last(last) => {
                    let last =
                        last.map_or_else(|exit| format!("End({exit:?})"), |why| format!("Open({why:?})"));
                    self.said += &format!("{seconds:9.3} {last}\n");
                    self.ended = true;
                }
            }
        }
    }

    /// Its own times come between two recorded looks: it then sees what the last saw.
    fn idle_until(&mut self, until: Duration, last: &Recorded) {
        while !self.ended {
            let (look, heartbeat) = match &self.machine {
                Machine::Gate(gate) => (gate.next_look(), gate.next_heartbeat()),
                Machine::Keep { keep, .. } => (keep.next_look(), keep.next_heartbeat()),
            };
            let due = look.map_or(heartbeat, |look| look.min(heartbeat));
            if due >= until {
                return;
            }
            if look == Some(due) {
                self.step(due, &Cause::Timer, last);
            }
            if self.ended {
                return;
            }
            let effects = match &mut self.machine {
                Machine::Gate(gate) => gate.step(due, &Cause::Timer, None),
                Machine::Keep { keep, .. } => keep.tick(due),
            };
            self.hear(due, effects);
        }
    }
}

fn replay(verb: &str, trace: &str) -> String {
    let (options, looks) = trace.split_once('\n').expect("a line with options");
    let looks: Vec<Recorded> =
        looks.lines().map(|line| serde_json::from_str(line).expect("a recorded look")).collect();
    let mut replay = Replay::new(verb, options);
    for (i, look) in looks.iter().enumerate() {
        let at = Duration::from_millis(look.at_ms);
        if let Some(last) = i.checked_sub(1).map(|before| &looks[before]) {
            replay.idle_until(at, last);
        }
        if !replay.ended {
            replay.step(at, &look.cause, look);
        }
    }
    if let (Machine::Gate(_), Some(last)) = (&replay.machine, looks.last()) {
        replay.idle_until(Duration::MAX, last);
    }
    replay.said
}

#[test]
fn every_recorded_trace_is_judged_as_before() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let paths = fs::read_dir(traces).expect("traces").map(|entry| entry.expect("an entry").path());
    let verb = |path: &Path| match path.extension()?.to_str()? {
        "trace" => Some("wait"),
        "kept" => Some("keep"),
        _ => None,
    };
    let traces: Vec<_> = paths.filter_map(|path| Some((verb(&path)?, path))).collect();
    assert!(traces.len() >= 4, "traces are missing");
    for (verb, path) in traces {
        let said = replay(verb, &fs::read_to_string(&path).expect("a trace"));
        let expected = path.with_extension("said");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &said).expect("what was said");
        }
        assert_eq!(said, fs::read_to_string(&expected).unwrap_or_default(), "{}", path.display());
    }
}
