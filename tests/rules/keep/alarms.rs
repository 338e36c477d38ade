// SPDX-License-Identifier: Apache-2.0
//! A critical alert calls a person: it fires in every state that only a person ends, and in none that time ends.

use super::{Keep, LoadFailure, LoadResult, START, World, ms, policy};
use peermem_gate::keeper::status;
use peermem_gate::keeper::{Action, State, Stay};
use peermem_gate::ready::condition::{ConditionType, Consequence, Reason};
use peermem_gate::ready::look::Cause;
use peermem_gate::ready::verdict::Condition;
use peermem_gate::rebuild::{Kind, Obstacle, RebuildResult};
use peermem_gate::watch::KeepInput;
use peermem_gate::words::report;
use std::fs;
use std::path::Path;
use std::time::Duration;

const MINUTE: u64 = 60_000;
/// Longer than the longest `for` of an alert.
const WATCHED: u64 = 80;

/// What ends a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An actor that runs anyway: MOFED, the driver, kubelet, another process, the keeper itself.
    Time,
    Person,
}

/// By what the world does, and not by what the gate thinks of it: a new obstacle has to be decided here.
fn end_of_obstacle(kind: Kind) -> End {
    match kind {
        // The node is being started, changed or cleaned by others.
        Kind::DoesNotApply
        | Kind::Loaded
        | Kind::NotReady
        | Kind::NvidiaNotLive
        // The other build ends, the disk is cleaned (kubelet), memory and descriptors become free.
        | Kind::Busy
        | Kind::NoRoom
        | Kind::CallFailed
        // Its own reason calls a person.
        | Kind::NotCurable => End::Time,
        Kind::SignaturesEnforced
        | Kind::SigningKeyUnusable
        | Kind::SignaturesUnknown
        | Kind::NvidiaFileMissing
        | Kind::NvidiaWithoutVersions
        | Kind::SourcesMissing
        | Kind::VersionDiffers
        | Kind::RecipeDoesNotFit
        | Kind::HeadersMissing
        | Kind::SymversUnusable
        | Kind::ToolMissing
        | Kind::Unwritable
        | Kind::Exposed
        | Kind::ForeignFile
        | Kind::AlreadyTried => End::Person,
    }
}

/// Of a reason that blocks, where nothing is rebuilt.
fn end_of_block(reason: Reason) -> End {
    match reason {
        // The keeper unloads it once the job that uses it has ended.
        Reason::LoadedOnGoneStack => End::Time,
        Reason::MarkerDirectoryUnlinked
        | Reason::BuildSkipped
        | Reason::ModuleFileMissing
        | Reason::StubModule
        | Reason::SymbolVersionMismatch
        | Reason::WrongKernel
        | Reason::SymbolVersionMissing
        | Reason::UnsignedModule
        | Reason::LegacyClientLoaded
        | Reason::BadParameter
        | Reason::InstallLine
        | Reason::OtherDriverLoaded
        | Reason::ModuleFileDamaged => End::Person,
        other => panic!("{other} blocks: say here what ends it"),
    }
}

/// An alert as manifests/monitoring/rules.yaml has it.
#[derive(Debug)]
struct Alert {
    name: String,
    expr: String,
    minutes: u64,
    is_critical: bool,
}

fn alerts() -> Vec<Alert> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/monitoring/rules.yaml");
    let text = fs::read_to_string(path).expect("the alerts");
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let field = |key: &str| {
            let (_, rest) = rule.split_once(&format!("\n          {key}:")).unwrap_or_default();
            let folded = rest.lines().skip(1).take_while(|line| line.starts_with("            "));
            match rest.lines().next().unwrap_or_default().trim() {
                ">-" => folded.map(str::trim).collect::<Vec<_>>().join(" "),
                plain => plain.to_owned(),
            }
        };
        Alert {
            name: rule.lines().next().unwrap_or_default().to_owned(),
            expr: field("expr"),
            minutes: field("for").trim_end_matches('m').parse().unwrap_or(0),
            is_critical: rule.contains("severity: critical"),
        }
    });
    rules.collect()
}

/// Whether a series of these metrics is selected: `name{label="value", …} == number`.
fn selects(selector: &str, metrics: &str) -> bool {
    let (series, value) = selector.rsplit_once(" == ").unwrap_or_else(|| panic!("{selector:?}"));
    let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap_or((series, ""));
    metrics.lines().filter(|line| !line.starts_with('#')).any(|line| {
        let (found, is) = line.rsplit_once(' ').expect("a value");
        let has_labels = labels.split(", ").all(|label| found.contains(label));
        found.split('{').next() == Some(name) && has_labels && is == value
    })
}

/// Whether the alert's expression is true of one node with these metrics, in the operators that the alerts use.
fn is_true(expr: &str, metrics: &str) -> bool {
    expr.split(" or ").any(|either| {
        let mut clauses = either.split(" unless on (instance) ");
        let all = clauses.next().unwrap_or_default();
        all.split(" and on (instance) ").all(|selector| selects(selector, metrics))
            && !clauses.any(|selector| selects(selector, metrics))
    })
}

/// A keeper whose world stays as it is, and what its rebuilds and loads come to.
struct Scene<'a> {
    look: &'a dyn Fn() -> KeepInput,
    rebuilds: Option<&'a dyn Fn() -> RebuildResult>,
    loads: &'a dyn Fn() -> LoadResult,
}

impl Scene<'_> {
    /// Its metrics, each minute.
    fn metrics(&self) -> Vec<String> {
        let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
        keep.allow_rebuild(self.rebuilds.is_some());
        let (mut now, mut all) = (START, Vec::new());
        for minute in 1..=WATCHED {
            while now < START + minute * MINUTE {
                let action = keep.look(ms(now), &Cause::Timer, (self.look)()).action;
                let done = match (action, self.rebuilds) {
                    (Some(Action::Rebuild), Some(end)) => match keep.rebuilt(ms(now), &end(), ms(1)) {
                        Err(done) => Some(done),
                        Ok(sentence) => panic!("{sentence}"),
                    },
                    (Some(Action::Load), _) => Some((self.loads)()),
                    (None, _) => None,
                    (other, _) => panic!("{other:?}"),
                };
                if let Some(done) = done {
                    let _ = keep.done(ms(now), done);
                    continue;
                }
                let next = keep.next_look().map_or(u64::MAX, |due| u64::try_from(due.as_millis()).unwrap());
                now = next.clamp(now + 1, START + minute * MINUTE);
            }
            let verdict = keep.verdict().expect("a verdict");
            all.push(report::metrics(verdict, Duration::ZERO) + &status::metrics(&keep, None));
        }
        all
    }

    /// The critical alerts that fire in the end.
    fn calls(&self) -> Vec<String> {
        self.fire(|alert| alert.is_critical)
    }

    fn fire(&self, is_asked: impl Fn(&Alert) -> bool) -> Vec<String> {
        let metrics = self.metrics();
        // Others' metrics are not the keeper's.
        let is_ours = |alert: &Alert| alert.expr.starts_with("peermem_gate_");
        let fires = |alert: &Alert| {
            let since = metrics.len() - usize::try_from(alert.minutes).unwrap() - 1;
            metrics[since..].iter().all(|metrics| is_true(&alert.expr, metrics))
        };
        let asked = alerts().into_iter().filter(|alert| is_ours(alert) && is_asked(alert));
        asked.filter(fires).map(|alert| alert.name).collect()
    }
}

const NO_LOAD: &dyn Fn() -> LoadResult = &|| panic!("nothing is loaded");

fn stub() -> KeepInput {
    World { is_good: false, ..World::ready() }.full_look()
}

fn with(reason: Reason) -> KeepInput {
    let mut look = stub();
    let r#type = match reason {
        Reason::MarkerDirectoryUnlinked => ConditionType::MarkerPresent,
        _ => ConditionType::PeermemUsable,
    };
    let condition = Condition::new(r#type, reason, "as the test says");
    if reason == Reason::LoadedOnGoneStack {
        look = World { is_loaded: true, uses: 1, inode: 1, ..World::ready() }.full_look();
        look.glimpse.swap = Some("as the test says".to_owned());
    }
    look.look.verdict = look.look.verdict.replacing(condition);
    look
}

fn agrees(what: &str, end: End, calls: &[String]) {
    assert_eq!(!calls.is_empty(), end == End::Person, "{what} is ended by {end:?}, and {calls:?} fire");
}

#[test]
fn a_person_is_called_to_an_obstacle_that_only_a_person_removes() {
    for kind in Kind::ALL {
        let end = || RebuildResult::Refused(Obstacle::new(*kind, "as the test says"));
        let scene = Scene { look: &stub, rebuilds: Some(&end), loads: NO_LOAD };
        agrees(&kind.to_string(), end_of_obstacle(*kind), &scene.calls());
    }
}

#[test]
fn a_person_is_called_to_a_build_that_fails_in_the_same_way_and_not_to_one_that_is_tried_again() {
    let why = || "as the test says".to_owned();
    let rows: [(&dyn Fn() -> RebuildResult, End); 4] = [
        (&|| RebuildResult::Failed(why()), End::Person),
        (&|| RebuildResult::Passing(why()), End::Time),
        (&|| RebuildResult::TimedOut(why()), End::Time),
        (&|| RebuildResult::Swapping(why()), End::Time),
    ];
    for (end, ends) in rows {
        let scene = Scene { look: &stub, rebuilds: Some(end), loads: NO_LOAD };
        agrees(&format!("{:?}", end()), ends, &scene.calls());
    }
}

#[test]
fn a_person_is_called_to_each_reason_that_blocks_unless_keep_can_end_it() {
    let blocks = Reason::ALL.iter().filter(|reason| reason.consequence() == Consequence::Blocks);
    for reason in blocks {
        let look = || with(*reason);
        let alone = Scene { look: &look, rebuilds: None, loads: NO_LOAD };
        agrees(&reason.to_string(), end_of_block(*reason), &alone.calls());
        let tried = || RebuildResult::Passing("as the test says".to_owned());
        let healing = Scene { look: &look, rebuilds: Some(&tried), loads: NO_LOAD };
        let end = if reason.needs_rebuild() { End::Time } else { end_of_block(*reason) };
        agrees(&format!("{reason}, which is being rebuilt"), end, &healing.calls());
    }
}

/// All that waits passes by itself.
#[test]
fn no_person_is_called_to_what_is_waited_for() {
    let waits = Reason::ALL.iter().filter(|reason| reason.consequence() == Consequence::Waits);
    for reason in waits {
        let look = || {
            let mut look = stub();
            let condition = Condition::new(ConditionType::ModulesLive, *reason, "as the test says");
            look.look.verdict = look.look.verdict.replacing(condition);
            look
        };
        let scene = Scene { look: &look, rebuilds: None, loads: NO_LOAD };
        agrees(&reason.to_string(), End::Time, &scene.calls());
    }
}

#[test]
fn a_person_is_called_to_a_load_that_is_refused_and_not_to_one_that_is_tried_again() {
    let ready = || World::ready().full_look();
    let why = || "as the test says".to_owned();
    let rows: [(&dyn Fn() -> LoadResult, End); 5] = [
        (&|| LoadResult::refused(LoadFailure::Errno("EINVAL"), why()), End::Person),
        (&|| LoadResult::refused(LoadFailure::Plan, why()), End::Person),
        (&|| LoadResult::refused(LoadFailure::Privilege, why()), End::Person),
        (&|| LoadResult::again(LoadFailure::LastLook, why()), End::Time),
        (&|| LoadResult::again(LoadFailure::NoModprobe, why()), End::Time),
    ];
    for (loads, end) in rows {
        let scene = Scene { look: &ready, rebuilds: None, loads };
        agrees(&format!("{:?}", loads()), end, &scene.calls());
    }
}

/// What nobody is called to and lasts all the same is not silent either.
#[test]
fn what_should_pass_and_does_not_is_a_warning() {
    for kind in Kind::ALL.iter().filter(|kind| end_of_obstacle(**kind) == End::Time) {
        let end = || RebuildResult::Refused(Obstacle::new(*kind, "as the test says"));
        let scene = Scene { look: &stub, rebuilds: Some(&end), loads: NO_LOAD };
        assert_eq!(scene.fire(|_| true), ["PeermemGateWaitsTooLong"], "{kind}");
    }
}

#[test]
fn the_alerts_are_read_as_prometheus_reads_them() {
    let all = alerts();
    assert!(all.iter().filter(|alert| alert.is_critical).count() > 4, "{all:?}");
    let metrics = "a{x=\"1\",y=\"2\"} 1\nb 0\n";
    for (expr, is) in [
        ("a{x=\"1\", y=\"2\"} == 1", true),
        ("a{x=\"2\"} == 1", false),
        ("a == 1 unless on (instance) b == 0", false),
        ("a == 1 unless on (instance) b == 1", true),
        ("b == 1 or a == 1 and on (instance) b == 0", true),
        ("b == 1 or a == 1 and on (instance) b == 1", false),
    ] {
        assert_eq!(is_true(expr, metrics), is, "{expr}");
    }
    let mut states = State::ALL.iter().map(|state| format!("state=\"{state}\""));
    assert!(states.any(|state| all.iter().any(|alert| alert.expr.contains(&state))));
}
