// SPDX-License-Identifier: Apache-2.0
//! What a gate says, remembers and is asked beside its steps: no clock, no file, no process. When it opens and ends
//! is the specification's, in `states`.

mod states;

use peermem_gate::ready::condition::{ConditionType, Reason, Status};
use peermem_gate::ready::consumer::Consumer;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::gate::{Effect, Gate, Last, Level, Opening, Policy};
use peermem_gate::ready::judge::next_build::NextBuild;
use peermem_gate::ready::look::{Cause, Look};
use peermem_gate::ready::observation::{FileId, Identity};
use peermem_gate::ready::verdict::{Condition, Verdict};
use peermem_gate::rebuild::RebuildResult;
use std::time::Duration;

const START: Duration = Duration::from_secs(1000);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn policy() -> Policy {
    Policy {
        timeout: Some(ms(60_000)),
        proceed_on_timeout: false,
        settle: ms(1000),
        suspect_hold: ms(5000),
        fail_fast: false,
        dry_run: false,
        heartbeat: ms(20_000),
    }
}

/// The contract's own hold.
fn patient() -> Policy {
    Policy { suspect_hold: ms(300_000), ..policy() }
}

/// The result of a look: every condition is met, or this reason says why not.
fn look(reason: Option<Reason>, marker: u64) -> Look {
    let condition = |r#type, reason| Condition::new(r#type, reason, "as the test says");
    let mut conditions = vec![
        condition(ConditionType::RdmaRequested, Reason::Requested),
        condition(ConditionType::NicPresent, Reason::NicFound),
        condition(ConditionType::MarkerPresent, Reason::MarkerFound),
        condition(ConditionType::MarkerTrusted, Reason::LockHeld),
        condition(ConditionType::ModulesLive, Reason::AllLive),
        condition(ConditionType::Settled, Reason::NotRequired),
    ];
    if let Some(reason) = reason {
        let r#type = match reason {
            Reason::RdmaNotRequested => ConditionType::RdmaRequested,
            Reason::NoRdmaDevice | Reason::NicAway | Reason::DevicesUnreadable => ConditionType::NicPresent,
            Reason::MarkerAbsent | Reason::MarkerDirectoryUnlinked => ConditionType::MarkerPresent,
            Reason::MarkerSuspect => ConditionType::MarkerTrusted,
            _ => ConditionType::ModulesLive,
        };
        conditions.retain(|c| c.r#type != r#type);
        conditions.push(condition(r#type, reason));
    }
    let marker = Some(FileId { device: 1, inode: marker, changed_ns: 0 });
    Look {
        verdict: Verdict::of(conditions),
        identity: Identity { marker, ..Identity::default() },
        next_build: None,
    }
}

/// Steps a gate and keeps what it says.
struct Play {
    gate: Gate,
    last: Option<Last>,
    lines: Vec<String>,
    warnings: Vec<String>,
}

impl Play {
    fn new(policy: Policy) -> Self {
        Self { gate: Gate::new(policy, START), last: None, lines: Vec::new(), warnings: Vec::new() }
    }

    fn step(&mut self, at: u64, look: Option<Look>) -> &mut Self {
        assert!(self.last.is_none(), "an ended gate must not be stepped");
        for effect in self.gate.step(START + ms(at), &Cause::Timer, look) {
            match effect {
                // As by default.
                Effect::Log(line) if line.level == Level::Debug => {}
                Effect::Log(line) => {
                    if line.level != Level::Info {
                        self.warnings.push(line.text.clone());
                    }
                    self.lines.push(line.text);
                }
                Effect::Publish => {}
                Effect::Last(last) => self.last = Some(last),
            }
        }
        self
    }

    fn ended(&self) -> Option<Last> {
        self.last
    }
}

const READY: Option<Last> = Some(Ok(Opening::Ready));

#[test]
fn the_gate_opens_after_an_unbroken_settle_time_and_logs_its_waits() {
    let mut play = Play::new(policy());
    play.step(0, Some(look(Some(Reason::MarkerAbsent), 1)));
    play.step(45_000, Some(look(None, 1)));
    assert_eq!(play.gate.next_look(), Some(START + ms(46_000)));
    play.step(46_000, Some(look(None, 1)));
    assert_eq!(play.last, READY);
    let last = play.lines.last().unwrap();
    assert!(last.contains("46.0 s in all, 45.0 s for MarkerPresent, 1.000 s for Settled"), "{last}");
}

const SETTLING: &str = "settling: every condition must be met for 1.000 s without a break";

/// It is said, and nothing waits for it.
#[test]
fn the_line_before_the_last_says_whether_a_build_follows() {
    let next = |status, remedy: Option<&str>| NextBuild {
        status,
        message: "what comes next".to_owned(),
        is_missed: remedy.is_some(),
        remedy: remedy.map(str::to_owned),
    };
    let cases = [
        (Some(next(Status::True, None)), "what comes next", 0),
        (Some(next(Status::False, Some("remove it"))), "what comes next; what to do: remove it", 1),
        (Some(next(Status::Unknown, Some("look"))), "what comes next; what to do: look", 1),
        // Known to nobody, and of no concern: only at debug.
        (Some(next(Status::Unknown, None)), SETTLING, 0),
        (None, SETTLING, 0),
    ];
    for (next_build, words, warnings) in cases {
        let seen = || Some(Look { next_build: next_build.clone(), ..look(None, 1) });
        let mut play = Play::new(policy());
        play.step(0, seen()).step(1000, seen());
        assert_eq!(play.last, READY);
        let [.., before, last] = play.lines.as_slice() else { panic!("{:?}", play.lines) };
        assert_eq!(before, words);
        assert_eq!(last, "open: MOFED is ready (1.000 s in all, 1.000 s for Settled)");
        assert_eq!(play.warnings.len(), warnings, "{:?}", play.lines);
    }
    // Who gives up starts no driver.
    let mut play = Play::new(policy());
    let closed = Look { next_build: Some(next(Status::True, None)), ..look(Some(Reason::MarkerAbsent), 1) };
    play.step(0, Some(closed.clone())).step(3_600_000, Some(closed));
    assert!(!play.lines.last().unwrap().contains("what comes next"), "{:?}", play.lines);
}

#[test]
fn a_new_marker_that_restarts_the_settle_time_is_a_warning() {
    let mut play = Play::new(policy());
    play.step(0, Some(look(None, 1))).step(900, Some(look(None, 2)));
    assert!(play.warnings[0].contains("the marker was created again"), "{:?}", play.warnings);
}

#[test]
fn the_deadline_wins_over_the_settle_time() {
    let mut play = Play::new(policy());
    play.step(0, Some(look(Some(Reason::MarkerAbsent), 1))).step(59_500, Some(look(None, 1)));
    assert_eq!(play.gate.next_look(), Some(START + ms(60_000)));
    play.step(60_500, Some(look(None, 1)));
    assert_eq!(play.last, Some(Err(Exit::TimedOut)));
    assert!(
        play.lines.last().unwrap().contains("the deadline passed just when everything had settled"),
        "{:?}",
        play.lines.last()
    );
}

/// The machine has been up for less than the settle time.
#[test]
fn a_gate_that_does_not_apply_opens_at_once_right_after_boot_too() {
    let mut gate = Gate::new(policy(), ms(1));
    let effects = gate.step(ms(2), &Cause::Start, Some(look(Some(Reason::RdmaNotRequested), 1)));
    assert_eq!(effects.last().and_then(Effect::last), Some(Ok(Opening::NotApplicable)));
}

#[test]
fn opening_without_readiness_is_logged_as_a_warning() {
    let mut play = Play::new(Policy { proceed_on_timeout: true, ..policy() });
    play.step(0, Some(look(Some(Reason::MarkerAbsent), 1))).step(60_000, None);
    assert_eq!(play.last, Some(Ok(Opening::TimedOut)));
    assert!(play.warnings[0].starts_with("OPEN ALTHOUGH NOT READY"), "{:?}", play.warnings);
    assert!(!play.warnings[0].contains("doctor"), "CMD runs: {:?}", play.warnings);

    let mut play = Play::new(Policy { dry_run: true, ..policy() });
    play.step(0, Some(look(Some(Reason::MarkerAbsent), 1)));
    assert_eq!(play.last, Some(Ok(Opening::DryRun)));
    assert!(play.warnings[0].contains("it would have waited"), "{:?}", play.warnings);
    let would: Vec<_> = play.lines.iter().filter(|line| line.starts_with("dry run: ")).collect();
    assert_eq!(would, ["dry run: would wait for MarkerPresent: as the test says"]);

    let mut play = Play::new(Policy { dry_run: true, ..policy() });
    play.step(0, Some(look(None, 1)));
    assert!(play.lines.last().unwrap().contains("every condition is met at this look"), "{:?}", play.lines);
    assert!(!play.lines.iter().any(|line| line.starts_with("dry run: ")), "{:?}", play.lines);
}

#[test]
fn each_line_of_a_dry_run_is_about_the_condition_that_it_names() {
    let mut gate = Gate::new(Policy { dry_run: true, ..policy() }, START);
    let mut absent = look(Some(Reason::MarkerAbsent), 1);
    let modules = Condition::new(ConditionType::ModulesLive, Reason::ModuleNotLoaded, "as the test says");
    absent.verdict = absent.verdict.replacing(modules);
    let effects = gate.step(START, &Cause::Start, Some(absent));
    let about = effects.iter().filter_map(|effect| match effect {
        Effect::Log(line) if line.text.starts_with("dry run: ") => line.about,
        _ => None,
    });
    let marker = (ConditionType::MarkerPresent, Reason::MarkerAbsent);
    assert!(about.eq([marker, (ConditionType::ModulesLive, Reason::ModuleNotLoaded)]), "{effects:?}");
}

#[test]
fn a_suspect_marker_is_accepted_after_its_hold_with_one_warning() {
    let suspect = |marker| Some(look(Some(Reason::MarkerSuspect), marker));
    let mut play = Play::new(policy());
    play.step(0, suspect(1)).step(4000, suspect(2));
    assert_eq!(play.gate.next_look(), Some(START + ms(9000)), "a marker that is created again is held again");
    play.step(9000, suspect(2));
    assert_eq!(play.ended(), None, "believed, it still has to settle");
    play.step(9500, suspect(2)).step(10_000, suspect(2));
    assert_eq!(play.last, READY);
    let believed = play.warnings.iter().filter(|text| text.contains("accepted after 5.000 s")).count();
    assert_eq!(believed, 1, "{:?}", play.warnings);
}

/// A container was killed, and its marker accepted after the hold; the next one takes the lock before it clears that.
/// The model (tests/model) found this.
#[test]
fn an_accepted_marker_is_suspect_again_when_another_process_takes_the_lock() {
    let suspect = |holder| {
        let look = look(Some(Reason::MarkerSuspect), 1);
        Look { identity: Identity { holder, ..look.identity }, ..look }
    };
    let mut play = Play::new(Policy { timeout: None, ..policy() });
    play.step(0, Some(suspect(None))).step(5000, Some(suspect(None)));
    let trusted = |look: Look| look.verdict.get(ConditionType::MarkerTrusted).unwrap().reason;
    assert_eq!(trusted(play.gate.with_accepted(suspect(None))), Reason::MarkerBelieved);
    assert_eq!(trusted(play.gate.with_accepted(suspect(Some(7)))), Reason::MarkerSuspect);
    let another_marker = look(Some(Reason::MarkerSuspect), 2);
    assert_eq!(trusted(play.gate.with_accepted(another_marker)), Reason::MarkerSuspect);
    play.step(5500, Some(suspect(Some(7)))).step(6500, Some(suspect(Some(7))));
    assert_eq!((play.ended(), play.gate.next_look()), (None, Some(START + ms(10_500))));
    play.step(10_500, Some(suspect(Some(7)))).step(11_500, Some(suspect(Some(7))));
    assert_eq!(play.last, READY, "in the end it is accepted, although another process holds the lock");
}

#[test]
fn heartbeats_are_logged_and_each_transition_once() {
    let absent = || Some(look(Some(Reason::MarkerAbsent), 1));
    let mut play = Play::new(policy());
    assert_eq!(play.gate.next_heartbeat(), START + ms(20_000));
    play.step(0, absent()).step(5000, absent()).step(20_000, absent()).step(20_001, absent());
    assert_eq!(play.gate.next_heartbeat(), START + ms(40_000));
    assert_eq!(play.lines.len(), 2, "{:?}", play.lines);
    assert!(play.lines[1].starts_with("still waiting (40.0 s left)"), "{:?}", play.lines);
}

#[test]
fn a_flapping_marker_does_not_fill_the_disk() {
    let mut play = Play::new(policy());
    for at in 0..10_000 {
        let reason = (at % 2 == 0).then_some(Reason::MarkerAbsent);
        play.step(at, Some(look(reason, at)));
    }
    assert!(play.lines.len() < 100, "{} lines", play.lines.len());
    play.step(20_000, None);
    assert!(play.lines.last().unwrap().contains("9950 more changes"), "{:?}", play.lines.last());
}

#[test]
fn a_later_obstacle_is_reported_during_the_wait_for_another_condition() {
    let stub = Condition::new(ConditionType::PeermemUsable, Reason::StubModule, "it is a stub");
    let stub = Condition { remedy: Some("rebuild".to_owned()), ..stub };
    let with = |look: Look| Look { verdict: look.verdict.replacing(stub.clone()), ..look };
    let mut play = Play::new(Policy { fail_fast: true, ..policy() });
    play.step(0, Some(look(Some(Reason::MarkerAbsent), 0)));
    play.step(100, Some(with(look(Some(Reason::MarkerAbsent), 0))));
    assert_eq!(play.last, None, "its turn has not come");
    assert!(
        play.lines[1].ends_with("then PeermemUsable will block: it is a stub; what to do: rebuild"),
        "{:?}",
        play.lines
    );
    play.step(200, Some(with(look(None, 1))));
    assert_eq!(play.last, Some(Err(Exit::Blocked)));
}

#[test]
fn the_last_look_logs_a_break_too() {
    let mut play = Play::new(policy());
    play.step(59_500, Some(look(None, 1))).step(60_000, Some(look(None, 2)));
    assert_eq!(play.last, Some(Err(Exit::TimedOut)));
    let [.., broken, last] = &play.lines[..] else { panic!("{:?}", play.lines) };
    assert!(broken.contains("while everything settled: the settle time starts again"), "{broken}");
    assert!(last.starts_with("gave up: the deadline passed ("), "{last}");
    assert!(last.ends_with("or find the cause with peermem-doctor on this node"), "{last}");
}

#[test]
fn a_stub_blocks_unless_it_may_be_rebuilt() {
    for (cures, told) in [
        (false, "blocked, waiting cannot help: "),
        (true, "nvidia-peermem.ko will be rebuilt, if possible, once "),
    ] {
        let mut play = Play::new(policy());
        play.gate.allow_rebuild(cures);
        play.step(0, Some(curable()));
        assert!(play.lines[0].starts_with(told), "{:?}", play.lines);
    }
}

/// A stub that may be rebuilt.
fn curable() -> Look {
    let mut stub = look(None, 1);
    let usable = Condition::new(ConditionType::PeermemUsable, Reason::StubModule, "as the test says");
    stub.verdict = Verdict::of(stub.verdict.conditions.iter().cloned().chain([usable]).collect());
    stub
}

#[test]
fn a_rebuild_that_failed_for_a_temporary_cause_is_repeated_ever_later() {
    let mut play = Play::new(Policy { settle: ms(0), timeout: None, fail_fast: true, ..policy() });
    play.gate.allow_rebuild(true);
    let failed = RebuildResult::Passing("make was ended by SIGKILL".to_owned());
    let mut at = 0;
    play.step(at, Some(curable()));
    for pause in [10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600, 600] {
        assert_eq!(play.last.take(), Some(Ok(Opening::ForRebuild)), "at {at}");
        assert_eq!(play.gate.rebuilt(START + ms(at), failed.for_gate()), Some(Duration::from_secs(pause)));
        play.step(at + 1, Some(curable()));
        assert_eq!(play.gate.next_look(), Some(START + ms(at + pause * 1000)));
        play.step(at + pause * 1000 - 1, Some(curable()));
        assert_eq!(play.last, None, "too early, at {at}");
        at += pause * 1000;
        play.step(at, Some(curable()));
    }
    play.gate.reset_backoff();
    assert_eq!(play.gate.rebuilt(START + ms(at), failed.for_gate()), Some(Duration::from_secs(10)));
}

/// A rebuild that is tried once a minute for hours must not say the same each time: the heartbeat does.
#[test]
fn what_was_said_before_a_failed_rebuild_is_not_said_again() {
    let mut play = Play::new(Policy { settle: ms(1000), timeout: None, ..policy() });
    play.gate.allow_rebuild(true);
    let mut at = 0;
    for _ in 0..3 {
        play.step(at, Some(curable())).step(at + 5_000, Some(curable()));
        assert_eq!(play.last.take(), Some(Ok(Opening::ForRebuild)), "at {at}");
        play.gate.opening_failed();
        at += 10_000;
    }
    let said = play.lines.iter().filter(|line| line.contains("will be rebuilt, if possible")).count();
    assert_eq!(said, 1, "{:?}", play.lines);
    let mut other = curable();
    let of_another = Condition::new(ConditionType::PeermemUsable, Reason::StubModule, "as another says");
    let of_others = other.verdict.conditions.iter().filter(|c| c.r#type != ConditionType::PeermemUsable);
    other.verdict = Verdict::of(of_others.cloned().chain([of_another]).collect());
    play.step(at, Some(other));
    assert!(play.lines.iter().any(|line| line.contains("as another says")), "{:?}", play.lines);
}

#[test]
fn a_rebuild_that_the_deadline_finds_waiting_is_late_and_not_blocked() {
    for (timeout, at) in [(60_000, 60_000), (0, 1)] {
        let mut play =
            Play::new(Policy { settle: ms(0), timeout: Some(ms(timeout)), fail_fast: true, ..policy() });
        play.gate.allow_rebuild(true);
        play.step(0, Some(curable()));
        assert_eq!(play.last.take(), Some(Ok(Opening::ForRebuild)));
        play.gate.opening_failed();
        play.step(at, Some(curable()));
        assert_eq!(play.last, Some(Err(Exit::TimedOut)), "{timeout}");
    }
}

#[test]
fn a_gate_that_forgives_uses_its_own_settle_time_again() {
    let mut play = Play::new(Policy { settle: ms(0), ..policy() });
    play.step(0, Some(look(None, 1)));
    play.last = None;
    assert!(play.gate.opens_at_one_look());
    play.gate.opening_failed();
    assert!(!play.gate.opens_at_one_look());
    play.gate.reset_backoff();
    play.step(100, Some(look(None, 1)));
    assert_eq!(play.last, Some(Ok(Opening::Ready)));
}

/// Nothing was seen while the container was frozen or the node suspended.
#[test]
fn a_device_is_not_away_while_nobody_looks() {
    let mut play = Play::new(Policy { timeout: None, ..patient() });
    play.step(0, Some(look(None, 1)));
    play.step(100, Some(look(Some(Reason::NicAway), 1)));
    play.step(3_600_000, Some(look(Some(Reason::NicAway), 1)));
    play.step(3_602_000, Some(look(Some(Reason::NicAway), 1)));
    assert_eq!(play.ended(), None);
    let next = play.gate.next_look().unwrap();
    assert!(next > START + ms(3_602_000) && next <= START + ms(3_632_000), "{next:?}");
}

/// A worker's answer is too old: the container was frozen, and all that was seen is gone.
#[test]
fn a_wait_that_continues_remembers_what_it_has_seen() {
    let policy = || Policy { suspect_hold: ms(500), ..policy() };
    let mut first = Play::new(policy());
    first.step(0, Some(look(Some(Reason::MarkerSuspect), 1)));
    let memory = serde_json::to_vec(first.gate.memory()).unwrap();
    let resumed = || {
        let memory = serde_json::from_slice(&memory).unwrap();
        Play { gate: Gate::resume(policy(), memory, START + ms(30_000)), ..Play::new(policy()) }
    };
    let mut play = resumed();
    assert_eq!(play.gate.deadline(), Some(START + ms(60_000)), "the wait's own");
    play.step(30_000, Some(look(Some(Reason::NoRdmaDevice), 0)));
    assert_eq!(play.ended(), None, "{:?}", play.lines);
    assert_eq!(play.gate.verdict().unwrap().deciding().unwrap().reason, Reason::NicAway);
    let mut play = resumed();
    play.step(30_000, Some(look(Some(Reason::MarkerSuspect), 1)));
    let trusted = play.gate.verdict().unwrap().get(ConditionType::MarkerTrusted).unwrap().reason;
    assert_eq!(trusted, Reason::MarkerBelieved, "suspect since the first look");
}

/// So does a management device; and one consumer without business does not open the gate of another.
#[test]
fn a_management_device_that_was_seen_and_is_away_keeps_the_gate_closed() {
    let of = |management: Reason, marker: Reason| {
        let [peermem, fabric, both] =
            [&Consumer::ALL[..1], &Consumer::ALL[1..], &Consumer::ALL[..]].map(<[Consumer]>::to_vec);
        let conditions = vec![
            Condition::new(ConditionType::RdmaRequested, Reason::RdmaNotRequested, "no RDMA")
                .needed_by(peermem),
            Condition::new(ConditionType::ManagementDevicePresent, management, "SW_MNG").needed_by(fabric),
            Condition::new(ConditionType::MarkerPresent, marker, "").needed_by(both),
        ];
        Look { verdict: Verdict::of(conditions), ..look(None, 1) }
    };
    let mut play = Play::new(patient());
    play.step(0, Some(of(Reason::ManagementDeviceFound, Reason::MarkerAbsent)));
    for at in [100, 2000, 30_000] {
        play.step(at, Some(of(Reason::NoManagementDevice, Reason::MarkerAbsent)));
        assert_eq!(play.ended(), None, "opened at {at}");
    }
    let device = play.gate.verdict().unwrap().get(ConditionType::ManagementDevicePresent).unwrap();
    assert_eq!((device.reason, device.r#for.len()), (Reason::ManagementDeviceAway, 1));
    play.step(31_000, Some(of(Reason::ManagementDeviceFound, Reason::MarkerFound)));
    play.step(32_000, Some(of(Reason::ManagementDeviceFound, Reason::MarkerFound)));
    assert_eq!(play.last, READY);

    let mut play = Play::new(policy());
    play.step(0, Some(of(Reason::NoManagementDevice, Reason::MarkerAbsent)));
    assert_eq!(play.ended(), Some(Ok(Opening::NotApplicable)));
    assert!(play.lines.last().unwrap().contains("no RDMA; SW_MNG"), "{:?}", play.lines);
}

/// `load` and `keep` look once more beside the gate, which must not forget what it knows.
#[test]
fn an_extra_look_remembers_a_device_that_the_gate_has_seen() {
    let mut play = Play::new(policy());
    assert!(play.gate.last_look().is_none());
    play.step(0, Some(look(None, 1)));
    assert_eq!(play.gate.last_look().unwrap().identity, look(None, 1).identity);
    let beside = play.gate.with_accepted(look(Some(Reason::NoRdmaDevice), 1));
    assert_eq!(beside.verdict.get(ConditionType::NicPresent).unwrap().reason, Reason::NicAway);
}

/// To read a node can take longer than the time that was given, and is broken off then.
#[test]
fn a_deadline_before_the_end_of_the_first_look_ends_the_gate() {
    let mut play = Play::new(policy());
    play.step(59_999, None);
    assert_eq!(play.ended(), None);
    play.step(60_000, None);
    assert_eq!(play.ended(), Some(Err(Exit::TimedOut)));
    assert!(play.lines.last().unwrap().contains("before the first look"), "{:?}", play.lines);
    let mut play = Play::new(Policy { proceed_on_timeout: true, ..policy() });
    play.step(60_000, None);
    assert_eq!(play.ended(), Some(Ok(Opening::TimedOut)));
}
