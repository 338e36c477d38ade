// SPDX-License-Identifier: Apache-2.0
//! The sidecar's state machine by tables and by properties: no clock, no file, no process, but a small
//! world in which modules come and go and loads and unloads take their time.

mod alarms;
mod full_look;
mod status;

use peermem_gate::keeper::status::MemoryFile;
use peermem_gate::keeper::{Action, DRIVER_UNLOAD, Keep, LoadFailure, LoadResult, Response, State, Stay};
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::gate::{Effect, Opening, Policy};
use peermem_gate::ready::judge::swap::{DriverSigns, Presence, SwapCheck};
use peermem_gate::ready::look::{Cause, Look};
use peermem_gate::ready::observation::{FileId, Identity, LockHolder};
use peermem_gate::ready::verdict::{Condition, Verdict};
use peermem_gate::rebuild::{Kind, Obstacle, RebuildLabel, RebuildResult};
use peermem_gate::watch::KeepInput;
use proptest::prelude::*;
use std::time::Duration;

const START: u64 = 1_000_000;
const SETTLE: u64 = 500;
/// `keep` pauses at least so long after an attempt that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the world takes for a load and an unload.
const LOAD: u64 = 60;
const UNLOAD: u64 = 25;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn policy() -> Policy {
    Policy {
        timeout: None,
        proceed_on_timeout: false,
        settle: ms(SETTLE),
        suspect_hold: ms(5000),
        fail_fast: false,
        dry_run: false,
        heartbeat: ms(60_000),
    }
}

/// What can happen to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Mark,
    Unmark,
    ModulesGo,
    ModulesCome,
    /// The GPU driver is unloaded and loaded again.
    NewDriver,
    /// The module file becomes a stub, or a good one.
    File(bool),
    /// What looks good is refused: for good, for now, or for a reason that goes unseen.
    Refuses(Option<Refusal>),
    Uses(i64),
    OtherLoads,
    OtherUnloads,
    /// Nothing can be read for a while.
    Blind(bool),
    /// The NIC comes onto the bus, or goes.
    Nic(bool),
    /// The driver's container says that it is ready, or takes that back.
    DriverReady(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Good,
    Now,
    Unseen,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, and each comes and goes alone")]
struct World {
    marker: Option<u64>,
    modules: Option<u64>,
    nvidia: u64,
    made: u64,
    is_good: bool,
    refuses: Option<Refusal>,
    uses: i64,
    is_loaded: bool,
    /// Of its directory in sysfs: each load makes it again.
    inode: u64,
    is_blind: bool,
    has_nic: bool,
    is_driver_ready: bool,
    is_suspect: bool,
    daemons: Option<bool>,
    lacks_uvm: bool,
    is_deserted: bool,
    /// Nothing shows the live nvidia's symbol versions.
    is_unkept: bool,
    /// Why no unload takes it away.
    sticks: Option<&'static str>,
    holder: LockHolder,
}

impl World {
    fn ready() -> Self {
        Self {
            marker: Some(1),
            modules: Some(1),
            nvidia: 1,
            made: 1,
            is_good: true,
            refuses: None,
            uses: 0,
            is_loaded: false,
            inode: 0,
            is_blind: false,
            has_nic: true,
            is_driver_ready: true,
            is_suspect: false,
            daemons: None,
            lacks_uvm: false,
            is_deserted: false,
            is_unkept: false,
            sticks: None,
            holder: LockHolder::Nobody,
        }
    }

    fn happens(&mut self, event: Event) {
        self.made += 1;
        match event {
            Event::Mark => self.marker = Some(self.made),
            Event::Unmark => self.marker = None,
            // The kernel refuses it while nvidia_peermem holds them.
            Event::ModulesGo if !self.is_loaded => self.modules = None,
            Event::ModulesCome if self.modules.is_none() => self.modules = Some(self.made),
            Event::NewDriver if !self.is_loaded => self.nvidia = self.made,
            Event::File(is_good) => self.is_good = is_good,
            Event::Refuses(refusal) => self.refuses = refusal,
            Event::Uses(uses) => self.uses = if self.is_loaded { uses } else { 0 },
            Event::OtherLoads if self.modules.is_some() && self.is_good => self.load(),
            Event::OtherUnloads if self.uses == 0 => self.is_loaded = false,
            Event::ModulesGo
            | Event::ModulesCome
            | Event::NewDriver
            | Event::OtherLoads
            | Event::OtherUnloads => {}
            Event::Blind(is_blind) => self.is_blind = is_blind,
            Event::Nic(has_nic) => self.has_nic = has_nic,
            Event::DriverReady(is_ready) => self.is_driver_ready = is_ready,
        }
    }

    fn load(&mut self) {
        if !self.is_loaded {
            (self.is_loaded, self.inode) = (true, self.inode + 1);
        }
    }

    fn stack(&self) -> Stack {
        (self.marker, self.modules, self.nvidia)
    }

    fn is_ready(&self) -> bool {
        self.marker.is_some() && self.modules.is_some() && self.is_good && !self.is_blind
    }

    fn must_yield(&self) -> bool {
        self.is_loaded && self.uses == 0 && !self.is_blind && self.swaps()
    }

    fn swaps(&self) -> bool {
        self.marker.is_none() || self.modules.is_none()
    }

    fn glimpse(&self) -> SwapCheck {
        let peermem = match (self.is_blind, self.is_loaded) {
            (true, _) => Presence::Unknown,
            (_, true) => Presence::Live { uses: Some(self.uses) },
            (_, false) => Presence::Absent,
        };
        let swap = (!self.is_blind && self.swaps()).then(|| "the marker is gone".to_owned());
        let signs = DriverSigns { is_ready: self.is_driver_ready, daemons: self.daemons };
        let driver = (!self.is_blind).then_some(signs);
        SwapCheck { peermem, swap, has_begun: self.modules.is_none(), holder: self.holder, driver }
    }

    fn full_look(&self) -> KeepInput {
        let condition = |r#type, reason| Condition::new(r#type, reason, "as the test says");
        let nic = if self.has_nic { Reason::NicFound } else { Reason::NoRdmaDevice };
        let marker = if self.marker.is_some() { Reason::MarkerFound } else { Reason::MarkerAbsent };
        let trusted = if self.is_suspect { Reason::MarkerSuspect } else { Reason::LockHeld };
        let modules = match (self.is_blind, self.modules) {
            (true, _) => Reason::ModulesUnreadable,
            (_, Some(_)) => Reason::AllLive,
            (_, None) => Reason::ModuleNotLoaded,
        };
        let file = match (self.is_blind, self.is_loaded, self.is_good) {
            (true, ..) => Reason::ModulesUnreadable,
            _ if self.is_deserted => Reason::DependencyNotLive,
            (_, true, _) => Reason::PeermemLive,
            (_, _, true) => Reason::Usable,
            (_, _, false) => Reason::StubModule,
        };
        let verdict = Verdict::of(vec![
            condition(ConditionType::RdmaRequested, Reason::Requested),
            condition(ConditionType::NicPresent, nic),
            condition(ConditionType::MarkerPresent, marker),
            condition(ConditionType::MarkerTrusted, trusted),
            condition(ConditionType::ModulesLive, modules),
            condition(ConditionType::PeermemUsable, file),
            condition(ConditionType::Settled, Reason::NotRequired),
        ]);
        let id = |inode| FileId { device: 1, inode, changed_ns: 0 };
        let peermem = self.is_loaded.then_some(("nvidia_peermem", self.inode));
        let modules = self.modules.map(|inode| ("ib_uverbs", inode)).into_iter().chain(peermem);
        let modules = modules.chain([("nvidia", self.nvidia)]);
        let modules = modules.map(|(name, inode)| (name.to_owned(), inode)).collect();
        let identity = Identity { marker: self.marker.map(id), modules, ..Identity::default() };
        let evidence = self.marker.unwrap_or(0) + 1000 * self.modules.unwrap_or(0);
        KeepInput {
            look: Look { verdict, identity, next_build: None },
            glimpse: self.glimpse(),
            evidence: evidence * 2 + u64::from(self.is_good),
            lacks_uvm: self.lacks_uvm,
            is_deserted: self.is_deserted,
            comes_back: !self.is_unkept,
        }
    }
}

/// The marker, MOFED's modules and nvidia: which of each.
type Stack = (Option<u64>, Option<u64>, u64);

/// A sidecar in its world: every event is looked at at once, and nothing is looked at while it acts.
struct Play {
    keep: Keep,
    world: World,
    now: u64,
    /// Events to come, with their times.
    events: Vec<(u64, Event)>,
    loads: Vec<u64>,
    unloads: Vec<u64>,
    /// When another process unloaded the module, and beside which marker, modules and nvidia.
    ordered: Option<(u64, Stack)>,
    /// The same at the last look that showed it live: what nobody saw is no order.
    beside: Option<Stack>,
    lines: Vec<String>,
    ended: Option<Exit>,
    /// Since when every condition has been met in this world without a break.
    ready_since: Option<u64>,
    /// Since when it should have let go, and how long that lasted at most.
    late_since: Option<u64>,
    latest: u64,
    steps: u64,
}

impl Play {
    fn new(world: World, no_yield: bool) -> Self {
        let mut play = Self {
            keep: Keep::new(policy(), Stay::of_service(no_yield), ms(START)),
            world,
            now: START,
            events: Vec::new(),
            loads: Vec::new(),
            unloads: Vec::new(),
            ordered: None,
            beside: None,
            lines: Vec::new(),
            ended: None,
            ready_since: None,
            late_since: None,
            latest: 0,
            steps: 0,
        };
        play.watch(false);
        play.look(&Cause::Start);
        play
    }

    /// What the properties are about, seen from outside. A marker or module made again is a break.
    fn watch(&mut self, is_broken: bool) {
        let is_ready = self.world.is_ready() && self.applies();
        self.ready_since = match self.ready_since.filter(|_| is_ready) {
            Some(since) if !is_broken => Some(since),
            _ => is_ready.then_some(self.now),
        };
        self.watch_yield();
    }

    /// A NIC that was seen once counts, gone or not.
    fn applies(&self) -> bool {
        self.world.has_nic || self.keep.has_applied()
    }

    fn watch_yield(&mut self) {
        let must_yield = self.world.must_yield() && self.keep.has_applied();
        self.late_since = match (must_yield, self.late_since) {
            (false, _) => None,
            (true, since) => since.or(Some(self.now)),
        };
        if let Some(since) = self.late_since {
            self.latest = self.latest.max(self.now - since);
        }
    }

    /// Time flies, and what falls into it happens unseen: of that, only a marker or module made again shows
    /// afterwards.
    fn pass(&mut self, until: u64) {
        let mut is_broken = false;
        while self.events.first().is_some_and(|(at, _)| *at <= until) {
            let (at, event) = self.events.remove(0);
            self.now = self.now.max(at);
            let (before, was_loaded) = (self.world.stack(), self.world.is_loaded);
            self.world.happens(event);
            is_broken |= before != self.world.stack();
            if was_loaded && !self.world.is_loaded {
                self.ordered = self.beside.map(|beside| (self.now, beside));
            } else if self.world.is_loaded {
                self.ordered = None;
            }
            self.watch_yield();
        }
        self.watch(is_broken);
        self.now = self.now.max(until);
        self.watch(false);
    }

    fn look(&mut self, cause: &Cause) {
        let response = self.keep.glimpse(ms(self.now), cause, &self.world.glimpse());
        self.act(response);
        loop {
            if !self.world.is_blind {
                self.beside = self.world.is_loaded.then(|| self.world.stack());
            }
            let response = self.keep.look(ms(self.now), cause, self.world.full_look());
            if !self.act(response) {
                let passed = self.keep.next_look().filter(|due| *due <= ms(self.now));
                assert_eq!(passed, None, "at {}, that has passed: {:?}", self.now, self.keep);
                return;
            }
            let response = self.keep.glimpse(ms(self.now), cause, &self.world.glimpse());
            self.act(response);
        }
    }

    /// True when there was something to do.
    fn act(&mut self, response: Response) -> bool {
        self.steps += 1;
        assert!(self.steps < 100_000, "it never rests: {:?}", self.keep);
        self.hear(response.effects);
        let effects = match response.action {
            None => return false,
            Some(Action::Rebuild) => unreachable!("nobody has asked for a rebuild"),
            Some(Action::Unload) => {
                let is_needed = self.world.swaps() || !self.world.is_driver_ready;
                assert!(is_needed && self.world.is_loaded, "nothing shows a swap or the driver's end");
                assert!(self.keep.has_applied(), "the gate does not apply");
                self.unloads.push(self.now);
                self.pass(self.now + UNLOAD);
                let done = if self.world.uses == 0 && self.world.sticks.is_none() {
                    self.world.is_loaded = false;
                    Ok("unloaded".to_owned())
                } else {
                    Err(self.world.sticks.unwrap_or("in use").to_owned())
                };
                self.watch(false);
                self.keep.unloaded(ms(self.now), done)
            }
            Some(Action::Load) => {
                let since = self.ready_since.expect("loads while not every condition is met");
                assert!(self.now - since >= SETTLE, "loads {} ms after all held", self.now - since);
                assert!(!self.world.is_loaded, "loads what is loaded");
                let is_against = |(at, stack): (u64, Stack)| {
                    stack == self.world.stack() && ms(self.now - at) < DRIVER_UNLOAD
                };
                assert!(
                    !self.ordered.is_some_and(is_against),
                    "loads against the order at {:?}",
                    self.ordered
                );
                self.loads.push(self.now);
                self.pass(self.now + LOAD);
                let done = match self.world.refuses {
                    _ if self.world.is_loaded => LoadResult::Live("already".to_owned(), None),
                    _ if self.world.modules.is_none() => {
                        LoadResult::again(LoadFailure::Errno("ENOENT"), "a symbol is missing".to_owned())
                    }
                    Some(Refusal::Good) => {
                        LoadResult::refused(LoadFailure::Errno("EINVAL"), "refused".to_owned())
                    }
                    Some(Refusal::Unseen) => LoadResult::refused(LoadFailure::Plan, "refused".to_owned()),
                    Some(Refusal::Now) => LoadResult::again(LoadFailure::Errno("EBUSY"), "busy".to_owned()),
                    None => {
                        self.world.load();
                        self.world.uses = 0;
                        LoadResult::Live("loaded".to_owned(), Some(0))
                    }
                };
                self.watch(false);
                self.keep.done(ms(self.now), done)
            }
        };
        self.hear(effects);
        true
    }

    fn hear(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Log(line) => self.lines.push(line.text),
                Effect::Last(Err(exit)) => self.ended = Some(exit),
                Effect::Publish | Effect::Last(Ok(_)) => {}
            }
        }
    }

    /// Wakes for events and for times of its own, until this time.
    fn run_until(&mut self, until: u64) {
        loop {
            let own = self.keep.next_look().map(|due| u64::try_from(due.as_millis()).unwrap());
            // No timer tells that something became unreadable: the safety net does.
            let due = own.unwrap_or(u64::MAX).min(self.now + 5000).max(self.now);
            let event = self.events.first().map_or(u64::MAX, |(at, _)| *at);
            if due.min(event) > until {
                self.pass(until);
                return;
            }
            let is_event = event <= due;
            self.pass(due.min(event));
            self.look(if is_event { &Cause::Marker } else { &Cause::Timer });
            let heartbeat = self.keep.tick(ms(self.now));
            self.hear(heartbeat);
        }
    }

    fn then(&mut self, event: Event) -> &mut Self {
        self.events.push((self.now, event));
        self.run_until(self.now + 1);
        self
    }

    fn after(&mut self, milliseconds: u64) -> &mut Self {
        self.run_until(self.now + milliseconds);
        self
    }

    fn state(&self) -> State {
        self.keep.state()
    }
}

#[test]
fn keep_loads_once_everything_has_settled_and_stays() {
    let mut play = Play::new(World::ready(), false);
    assert_eq!(play.state(), State::Waiting);
    play.after(SETTLE - 1);
    assert!(play.loads.is_empty());
    play.after(LOAD + 2);
    assert_eq!((play.loads.len(), play.state()), (1, State::Loaded));
    assert_eq!(play.keep.peermem(), Presence::Live { uses: Some(0) });
    play.after(3_600_000);
    assert_eq!((play.loads.len(), play.unloads.len(), play.state()), (1, 0, State::Loaded));
    assert_eq!(play.lines.last().unwrap(), "still loaded after 1 h");
}

#[test]
fn keep_can_always_say_what_it_waits_for() {
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    assert_eq!((keep.sentence(), keep.has_applied()), ("not looked yet".to_owned(), false));
    let world = World { marker: None, ..World::ready() };
    keep.look(ms(START), &Cause::Start, world.full_look());
    assert_eq!((keep.sentence(), keep.has_applied()), ("as the test says".to_owned(), true));
    let start_and_a_minute = ms(START + 60_000);
    assert_eq!(keep.next_heartbeat(), start_and_a_minute);
    keep.tick(start_and_a_minute);
    assert_eq!(keep.next_heartbeat(), ms(START + 120_000));
}

#[test]
fn keep_unloads_at_once_and_loads_again_after() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::Unmark);
    assert_eq!(play.unloads.len(), 1);
    play.after(100);
    assert_eq!(play.state(), State::Waiting);
    play.then(Event::ModulesGo).after(3000).then(Event::ModulesCome).after(3000);
    assert_eq!(play.loads.len(), 1, "the marker comes last");
    let marked = play.now;
    play.then(Event::Mark).after(2000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Loaded));
    assert!(play.loads[1] - marked <= SETTLE + 2, "{}", play.loads[1] - marked);
}

#[test]
fn a_module_in_use_has_its_users_named_and_is_unloaded_later() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::Uses(3)).then(Event::Unmark);
    assert_eq!((play.state(), play.unloads.len()), (State::Busy, 0));
    assert_eq!(play.keep.next_look(), Some(ms(play.now + 999)), "a second after the event");
    play.after(125_000);
    let busy = play
        .lines
        .iter()
        .filter(|line| line.contains("cannot be unloaded: it is in use (reference count 3)"))
        .count();
    assert_eq!(busy, 3, "once, and in two heartbeats: {:?}", play.lines);
    // A job may use it for days: 15 looks a minute at most, each after a glimpse.
    let steps = play.steps;
    play.after(600_000);
    assert!(play.steps - steps <= 10 * 2 * 15, "{} steps in ten minutes", play.steps - steps);
    play.then(Event::Uses(2));
    assert!(play.keep.sentence().contains("(reference count 2)"), "{}", play.keep.sentence());
    play.then(Event::Uses(0)).after(1100);
    assert_eq!((play.state(), play.unloads.len()), (State::Waiting, 1));
}

#[test]
fn a_use_that_begins_during_the_unload_is_reported_as_a_use() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000);
    play.events.push((play.now + 10, Event::Unmark));
    play.events.push((play.now + 20, Event::Uses(1)));
    play.after(60_000);
    assert_eq!((play.state(), play.unloads.len()), (State::Busy, 1));
}

#[test]
fn an_unload_that_fails_is_tried_again_ever_more_slowly() {
    let mut play =
        Play::new(World { sticks: Some("rmmod says 0 and does nothing"), ..World::ready() }, false);
    play.after(2000).then(Event::Unmark).after(20_000);
    let pauses: Vec<_> = play.unloads.windows(2).map(|two| two[1] - two[0] - UNLOAD).collect();
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
}

#[test]
fn after_an_unload_the_next_load_waits_longer_than_the_settle_time() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::Unmark).after(100).then(Event::Mark).after(2000);
    assert_eq!(play.loads[1..], [play.unloads[0] + UNLOAD + 1000]);
}

/// Whoever unloads it meanwhile, and however often a load failed before: no two programs load and unload in a circle.
#[test]
fn after_an_unload_by_another_process_earlier_failures_are_over_and_a_load_pauses() {
    let mut play = Play::new(World { refuses: Some(Refusal::Now), ..World::ready() }, false);
    play.after(60_000).then(Event::OtherLoads).after(100).then(Event::Refuses(None));
    let (gone, loads) = (play.now, play.loads.len());
    play.then(Event::OtherUnloads).then(Event::Mark).after(3000);
    let waited = play.loads.get(loads).map(|load| load - gone);
    assert!(waited.is_some_and(|waited| (1000..1100).contains(&waited)), "{waited:?}");
}

/// `load`: what failed for now is tried again once all has settled again; anything else is its end.
#[test]
fn a_load_ends_with_its_result_or_settles_before_the_next() {
    let step = |keep: &mut Keep, after: u64| {
        keep.step(ms(START + after), &Cause::Timer, Some(World::ready().full_look().look)).action
    };
    let done = |done: LoadResult| {
        let mut keep = Keep::new(policy(), Stay::UntilLoaded, ms(START));
        assert_eq!([0, SETTLE].map(|after| step(&mut keep, after)), [None, Some(Action::Load)]);
        let last = keep.done(ms(START + SETTLE), done).iter().find_map(Effect::last);
        (keep, last)
    };
    let text = || "as the test says".to_owned();
    for (result, last) in [
        (LoadResult::Live(text(), Some(0)), Ok(Opening::Ready)),
        (LoadResult::Overlapped(text()), Err(Exit::Blocked)),
        (LoadResult::refused(LoadFailure::Plan, text()), Err(Exit::Blocked)),
        (LoadResult::Late(text()), Err(Exit::TimedOut)),
        (LoadResult::CannotRun { exit: Exit::NotFound, message: text() }, Err(Exit::NotFound)),
    ] {
        assert_eq!(done(result).1, Some(last));
    }
    let (mut keep, last) = done(LoadResult::again(LoadFailure::Errno("EBUSY"), text()));
    assert_eq!(last, None);
    assert_eq!([SETTLE + 1, 2 * SETTLE].map(|after| step(&mut keep, after)), [None, None]);
    assert_eq!(step(&mut keep, 3 * SETTLE + 10_000), Some(Action::Load));
}

#[test]
fn keep_with_no_yield_leaves_the_module_loaded_and_says_so() {
    let mut play = Play::new(World::ready(), true);
    play.after(2000).then(Event::Unmark).after(60_000);
    assert_eq!((play.state(), play.unloads.len()), (State::Loaded, 0));
    let told = play.lines.iter().filter(|line| line.contains("left alone (--no-yield)")).count();
    assert!((1..=2).contains(&told), "once, and in a heartbeat: {:?}", play.lines);
}

#[test]
fn a_module_that_another_process_loaded_is_kept_the_same_way_and_reported() {
    let mut play = Play::new(World { is_loaded: true, ..World::ready() }, false);
    assert_eq!(play.state(), State::Loaded);
    assert!(play.lines.iter().any(|line| line.contains("loaded by another process")), "{:?}", play.lines);
    assert!(!play.keep.is_ours());
    play.then(Event::Unmark);
    assert_eq!(play.unloads.len(), 1);
    assert!(
        play.lines.iter().any(|line| line.contains("unloading nvidia_peermem (loaded by another process)"))
    );
    // Without a marker nothing may hold MOFED's modules, no matter what loaded it.
    play.after(1000).then(Event::OtherLoads);
    assert_eq!(play.unloads.len(), 2);
}

/// Between two looks, so it was never seen to be gone.
#[test]
fn a_module_that_another_process_reloaded_is_no_longer_the_gates() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000);
    assert!(play.keep.is_ours());
    play.events.extend([(play.now, Event::OtherUnloads), (play.now, Event::OtherLoads)]);
    play.after(1);
    assert!(!play.keep.is_ours() && play.state() == State::Loaded, "{:?}", play.keep);
    assert!(play.lines.last().unwrap().contains("loaded by another process"), "{:?}", play.lines);
}

/// What was said of a moment is not said forever.
#[test]
fn a_swap_that_is_over_is_not_reported_forever() {
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    let mut world = World::ready();
    keep.look(ms(START), &Cause::Start, world.full_look());
    let response = keep.look(ms(START + SETTLE), &Cause::Timer, world.full_look());
    assert_eq!(response.action, Some(Action::Load));
    world.load();
    keep.done(
        ms(START + SETTLE),
        LoadResult::Overlapped("MOFED began to swap its modules meanwhile".to_owned()),
    );
    assert!(keep.sentence().contains("meanwhile"));
    keep.look(ms(START + SETTLE), &Cause::Timer, world.full_look());
    assert_eq!(keep.sentence(), "nvidia_peermem is live");
}

#[test]
fn an_unload_by_another_process_is_an_order_for_as_long_as_a_driver_may_be_unloaded() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000);
    for _ in 0..5 {
        play.then(Event::OtherUnloads);
        let (gone, loads) = (play.now, play.loads.len());
        assert!(play.keep.sentence().contains("another process unloaded nvidia_peermem"));
        assert!(play.keep.sentence().contains("SIGHUP"), "{}", play.keep.sentence());
        play.after(200_000);
        let waited = play.loads[loads] - gone;
        assert!((89_990..92_000).contains(&waited), "{waited}");
        assert_eq!(play.state(), State::Loaded);
    }
}

/// At each restart of the driver k8s-driver-manager unloads it, which is no failure of a load. What failed beside the
/// old driver says nothing about the new one.
#[test]
fn restarts_of_the_driver_do_not_lengthen_the_settle_time() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000);
    for lasted in [2000, 2000, 90_000, 2000, 2000] {
        play.after(lasted).then(Event::OtherUnloads).after(3000);
        if lasted == 90_000 {
            play.then(Event::Refuses(Some(Refusal::Now))).then(Event::NewDriver).after(20_000);
            play.then(Event::Refuses(None));
        }
        let (came, loads) = (play.now, play.loads.len());
        play.then(Event::NewDriver).after(SETTLE + 1000);
        let waited = play.loads.get(loads).map(|load| load - came);
        assert!(waited.is_some_and(|waited| waited <= SETTLE + 100), "{waited:?} after {lasted} ms");
    }
}

#[test]
fn an_order_ends_with_a_new_marker_module_or_driver_or_when_sighup_asks() {
    type End = fn(&mut Play);
    let ends: [(&str, End); 4] = [
        ("a new marker", |play| _ = play.then(Event::Mark)),
        ("a new module", |play| _ = play.then(Event::ModulesGo).then(Event::ModulesCome)),
        ("a new driver", |play| _ = play.then(Event::NewDriver)),
        ("SIGHUP", |play| {
            play.ordered = None;
            play.keep.ask();
            play.look(&Cause::Asked);
        }),
    ];
    for (what, end) in ends {
        let mut play = Play::new(World::ready(), false);
        play.after(2000).then(Event::OtherUnloads).after(20_000);
        assert_eq!((play.loads.len(), play.state()), (1, State::Waiting), "{what}");
        end(&mut play);
        play.after(2000);
        assert_eq!((play.loads.len(), play.state()), (2, State::Loaded), "{what}");
    }
}

/// kubelet's preStop removes the file, and TERM follows. RHEL's script cannot unload nvidia while the module is live.
#[test]
fn a_driver_that_ends_finds_no_module_and_gets_one_when_it_is_back() {
    type Back = (&'static str, fn(&mut Play), u64);
    let backs: [Back; 4] = [
        ("ready again, on the fast path", |play| _ = play.then(Event::DriverReady(true)), 0),
        ("a new nvidia", |play| _ = play.then(Event::NewDriver), 0),
        (
            "SIGHUP",
            |play| {
                play.keep.ask();
                play.look(&Cause::Asked);
            },
            0,
        ),
        ("never", |_| (), 60_000),
    ];
    for (what, back, waits) in backs {
        let mut play = Play::new(World::ready(), false);
        play.after(2000).then(Event::DriverReady(false));
        assert!(!play.world.is_loaded && play.keep.sentence().contains("is ending"), "{what}");
        play.after(30_000);
        assert_eq!((play.loads.len(), play.state()), (1, State::Waiting), "{what}");
        back(&mut play);
        play.after(2000 + waits);
        assert_eq!((play.loads.len(), play.state()), (2, State::Loaded), "{what}");
        // A file that never comes back is no end of the driver a second time.
        play.after(200_000);
        assert_eq!((play.loads.len(), play.state()), (2, State::Loaded), "{what}");
    }
}

/// The startup probe begins a minute after the container, and until then only the daemons' file says that it runs.
#[test]
fn a_driver_that_ends_before_its_startup_probe_is_yielded_to() {
    let mut play = Play::new(World { is_driver_ready: false, daemons: Some(true), ..World::ready() }, false);
    play.after(2000);
    assert!(play.world.is_loaded);
    play.world.daemons = None;
    play.look(&Cause::Driver);
    assert!(!play.world.is_loaded && play.keep.sentence().contains("is ending"), "{}", play.keep.sentence());
    // The next container's script has begun, and may unload the driver now.
    play.world.daemons = Some(false);
    play.after(10_000);
    assert_eq!((play.loads.len(), play.state()), (1, State::Waiting));
    play.world.daemons = Some(true);
    play.look(&Cause::Driver);
    play.after(2000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Loaded));
}

/// On the fast path a job keeps the driver loaded, and its next container brings no module: what was unloaded there
/// stayed away until a person came (random lives, seeds 4100036 and 4100096).
#[test]
fn a_module_that_could_not_come_back_stays_although_the_driver_ends() {
    let mut play = Play::new(World { is_unkept: true, ..World::ready() }, false);
    play.after(2000).then(Event::DriverReady(false)).after(10_000);
    assert_eq!((play.state(), play.world.is_loaded), (State::Loaded, true));
    assert!(play.keep.sentence().contains("it stays loaded"), "{}", play.keep.sentence());
    play.then(Event::DriverReady(true)).after(2000);
    assert!(!play.keep.sentence().contains("it stays loaded"), "{}", play.keep.sentence());
    play.then(Event::Unmark).after(5000);
    assert!(!play.world.is_loaded, "MOFED gets it whatever follows");
}

/// The module stays because somebody wants that, and not because it could not come back.
#[test]
fn with_no_yield_the_end_of_the_driver_is_no_news() {
    let mut play = Play::new(World::ready(), true);
    play.after(2000).then(Event::DriverReady(false)).after(10_000);
    assert_eq!((play.state(), play.world.is_loaded), (State::Loaded, true));
    assert!(!play.keep.sentence().contains("is ending"), "{}", play.keep.sentence());
}

/// preStop of older operators leaves the daemons' file as it is.
#[test]
fn a_driver_that_ends_is_yielded_to_although_its_daemons_were_ready() {
    let mut play = Play::new(World { daemons: Some(true), ..World::ready() }, false);
    play.after(2000).then(Event::DriverReady(false));
    play.after(10_000);
    assert_eq!((play.loads.len(), play.state()), (1, State::Waiting));
}

/// A file that cannot be looked at any more says nothing, and must not keep the module away for good.
#[test]
fn a_drivers_end_is_over_in_time_although_its_file_cannot_be_read_any_more() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::DriverReady(false));
    assert!(play.keep.ordered_until().is_some());
    let unread = SwapCheck { driver: None, ..play.world.glimpse() };
    let _ = play.keep.glimpse(ms(play.now + 91_000), &Cause::Driver, &unread);
    assert_eq!(play.keep.ordered_until(), None);
}

/// preStop runs while one keeper is replaced by the next.
#[test]
fn a_keep_that_is_started_again_sees_a_driver_that_ended_meanwhile() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000);
    let memory = play.keep.memory();
    play.keep = Keep::new(policy(), Stay::Yields, ms(play.now));
    play.keep.recall(memory);
    play.world.is_driver_ready = false;
    play.look(&Cause::Start);
    assert!(!play.world.is_loaded && play.keep.ordered_until().is_some(), "{}", play.keep.sentence());
}

/// Where `keep` would not load, the driver's own modprobe must: otherwise nobody would.
#[test]
fn keep_owns_the_module_only_where_it_would_load_it() {
    let playing = |world: World, rebuilds| {
        let mut play = Play::new(World { modules: None, ..World::ready() }, false);
        play.keep.allow_rebuild(rebuilds);
        play.world = world;
        play.look(&Cause::Start);
        play
    };
    let owns = |world, rebuilds| playing(world, rebuilds).keep.owns();
    let absent = || World { marker: None, modules: None, ..World::ready() };
    assert!(owns(absent(), true), "MOFED comes");
    assert!(!owns(absent(), false), "it could not rebuild what comes");
    assert!(!owns(World { is_blind: true, ..World::ready() }, true), "what cannot be read is not waited for");
    let mut refused = playing(World { refuses: Some(Refusal::Now), ..World::ready() }, true);
    assert!(refused.keep.owns());
    refused.after(120_000);
    assert!(refused.loads.len() >= 3 && !refused.keep.owns());
    let mut good = playing(World { refuses: Some(Refusal::Good), ..World::ready() }, true);
    good.after(5000);
    assert!(!good.keep.owns(), "{}", good.keep.sentence());
}

/// nvidia-peermem-ctr's probe restarts it a minute after an unload by anyone, and a killed MOFED's lock makes the
/// marker of an older one suspect for `--suspect-hold`. Its modprobe waits only while the keeper owns the module.
#[test]
fn keep_owns_the_module_through_each_wait_that_ends_by_itself() {
    let mut play = Play::new(World::ready(), false);
    play.keep.allow_rebuild(true);
    play.after(2000).then(Event::OtherUnloads).after(35_000);
    assert!(play.keep.ordered_until().is_some() && play.keep.owns(), "{}", play.keep.sentence());
    play.then(Event::DriverReady(false));
    assert!(play.keep.ordered_until().is_some() && play.keep.owns());
    let mut doubts = Play::new(World { is_suspect: true, ..World::ready() }, false);
    doubts.keep.allow_rebuild(true);
    doubts.after(4000);
    assert!(doubts.keep.owns() && doubts.loads.is_empty(), "{}", doubts.keep.sentence());
    doubts.after(3000);
    assert_eq!(doubts.loads.len(), 1, "{}", doubts.keep.sentence());
}

/// gpu-driver-container#1019: the script's fast path asks for nvidia only.
#[test]
fn a_ready_driver_without_uvm_is_named_after_a_minute_and_until_it_is_loaded() {
    let mut play = Play::new(World { lacks_uvm: true, ..World::ready() }, false);
    play.after(58_000);
    assert!(!play.keep.sentence().contains("nvidia_uvm"));
    play.after(3000);
    let effects = play.keep.tick(ms(play.now));
    play.hear(effects);
    assert!(play.keep.sentence().contains("nvidia_uvm is not loaded"), "{}", play.keep.sentence());
    assert!(play.lines.iter().any(|line| line.contains("no CUDA program")), "{:?}", play.lines);
    play.world.lacks_uvm = false;
    play.look(&Cause::SafetyNet);
    assert!(!play.keep.sentence().contains("nvidia_uvm"), "{}", play.keep.sentence());
}

/// RHEL's precompiled image ends at each start: its stub is refused, and no root is ever shown.
#[test]
fn a_driver_whose_container_is_away_for_ten_minutes_needs_a_person() {
    let mut play = Play::new(World { is_deserted: true, ..World::ready() }, false);
    play.keep.allow_rebuild(true);
    play.after(598_000);
    assert_eq!(play.state(), State::Waiting, "it restarts, or pods are evicted");
    play.after(10_000);
    assert_eq!(play.state(), State::Blocked, "{}", play.keep.sentence());
    assert!(play.keep.sentence().contains("driver.usePrecompiled"), "{}", play.keep.sentence());
    assert!(!play.keep.owns());
    play.world.is_deserted = false;
    play.look(&Cause::Driver);
    assert!(play.keep.owns(), "{}", play.keep.sentence());
    play.after(3000);
    assert_eq!(play.state(), State::Loaded);
}

/// Jobs go first: the module is unloaded when nothing uses it any longer.
#[test]
fn a_module_in_use_is_unloaded_while_the_driver_ends_once_it_is_free() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::Uses(1)).then(Event::DriverReady(false)).after(3000);
    assert_eq!((play.state(), play.world.is_loaded), (State::Busy, true));
    play.then(Event::Uses(0)).after(5000);
    assert!(!play.world.is_loaded);
}

/// Whatever the file says, an order lasts no longer than one that this `keep` could have given.
#[test]
fn an_order_in_the_memory_ends_after_90_seconds_at_the_latest() {
    for event in [Event::OtherUnloads, Event::DriverReady(false)] {
        let mut later = Play::new(World::ready(), false);
        later.after(1_000_000).then(event);
        let mut play = Play::new(World::ready(), false);
        play.keep = Keep::new(policy(), Stay::Yields, ms(play.now));
        play.keep.recall(later.keep.memory());
        play.world.happens(event);
        play.after(85_000);
        assert_eq!(play.loads.len(), 0, "{event:?}");
        play.after(10_000);
        assert_eq!((play.loads.len(), play.state()), (1, State::Loaded), "{event:?}");
    }
}

/// The file is what is left of a `keep` that was killed, or replaced by another version.
#[test]
fn a_keep_that_is_started_again_knows_of_the_order() {
    let again = |mut play: Play| {
        let file = MemoryFile { boot_id: Some("b".to_owned()), memory: play.keep.memory() };
        let text = serde_json::to_string(&file).expect("a file");
        assert_eq!(MemoryFile::of_this_boot(&text, Some("c")), None, "another boot");
        assert_eq!(MemoryFile::of_this_boot(&text[1..], Some("b")), None, "a damaged file");
        play.keep = Keep::new(policy(), Stay::Yields, ms(play.now));
        play.keep.recall(MemoryFile::of_this_boot(&text, Some("b")).expect("a memory"));
        play.look(&Cause::Start);
        play
    };
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::OtherUnloads).after(30_000);
    let mut play = again(play);
    play.after(55_000);
    assert_eq!(play.loads.len(), 1);
    play.after(7000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Loaded));
    // Unloaded while no `keep` runs.
    play.world.happens(Event::OtherUnloads);
    play.ordered = Some((play.now, play.world.stack()));
    let said = play.lines.len();
    let mut play = again(play);
    assert!(
        play.lines[said..].iter().any(|line| line.contains("another process unloaded")),
        "{:?}",
        play.lines
    );
    play.after(89_000);
    assert_eq!(play.loads.len(), 2);
    play.after(3000);
    assert_eq!((play.loads.len(), play.state()), (3, State::Loaded));
}

/// A refusal is for no longer than ten minutes: its cause may have gone where no look sees it.
#[test]
fn a_refused_load_is_tried_again_after_ten_minutes_or_when_something_has_changed() {
    let mut play = Play::new(World { refuses: Some(Refusal::Good), ..World::ready() }, false);
    play.after(600_000);
    assert_eq!((play.loads.len(), play.state()), (1, State::Blocked));
    let told = play.lines.iter().filter(|line| *line == "refused").count();
    assert_eq!(told, 1, "the rest are heartbeats: {:?}", play.lines);
    play.after(10_000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Blocked));
    assert_eq!(play.lines.iter().filter(|line| *line == "refused").count(), 1, "{:?}", play.lines);
    play.then(Event::Refuses(None)).after(500_000);
    assert_eq!(play.loads.len(), 2, "nothing shows that");
    play.after(100_000);
    assert_eq!((play.loads.len(), play.state()), (3, State::Loaded));

    let mut play = Play::new(World { refuses: Some(Refusal::Good), ..World::ready() }, false);
    play.after(10_000).then(Event::Refuses(None)).then(Event::Mark).after(60_000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Loaded));

    let mut play = Play::new(World { refuses: Some(Refusal::Good), ..World::ready() }, false);
    play.after(10_000).then(Event::Refuses(None));
    play.keep.ask();
    play.after(10_000);
    assert_eq!(play.state(), State::Loaded, "SIGHUP asks for another attempt");
}

/// What somebody else could load is no longer refused; found by the property below.
#[test]
fn a_refusal_is_forgotten_when_another_process_loads_the_module() {
    let mut play = Play::new(World { refuses: Some(Refusal::Good), ..World::ready() }, false);
    play.after(5000).then(Event::OtherLoads).after(5000).then(Event::OtherUnloads).then(Event::Refuses(None));
    play.after(95_000);
    assert_eq!((play.loads.len(), play.state()), (2, State::Loaded));
}

#[test]
fn a_refusal_that_passes_or_goes_unseen_is_tried_again_ever_more_slowly() {
    for (refusal, state) in [(Refusal::Now, State::Waiting), (Refusal::Unseen, State::Blocked)] {
        let mut play = Play::new(World { refuses: Some(refusal), ..World::ready() }, false);
        play.after(600_000);
        let gaps: Vec<_> = play.loads.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
        assert!(gaps[0] >= 1000 && *gaps.last().unwrap() <= 61_000, "{gaps:?}");
        assert!((10..20).contains(&play.loads.len()), "{gaps:?}");
        assert_eq!(play.state(), state);
        let told = play.lines.iter().filter(|line| *line == "refused").count();
        assert!(told <= 1, "the rest are heartbeats: {:?}", play.lines);
        play.then(Event::Refuses(None)).after(61_000);
        assert_eq!(play.state(), State::Loaded);
    }
}

/// A line in modprobe.d is mended, and no look tells.
#[test]
fn after_a_refusal_a_swap_hurries_nothing() {
    let mut play = Play::new(World { refuses: Some(Refusal::Now), ..World::ready() }, false);
    play.after(SETTLE + LOAD + 100).then(Event::Unmark).after(50).then(Event::Mark).after(1000);
    assert_eq!(play.loads, [START + SETTLE, START + SETTLE + LOAD + 1000]);
}

#[test]
fn the_metrics_of_keep_count_loads_refusals_and_time_in_each_state() {
    let mut play = Play::new(World { refuses: Some(Refusal::Now), ..World::ready() }, false);
    play.after(2000).then(Event::Refuses(None)).after(10_000).then(Event::Unmark).then(Event::Mark);
    play.after(2000).then(Event::Uses(0));
    let ledger = play.keep.ledger();
    assert_eq!((ledger.refused[&LoadFailure::Errno("EBUSY")], play.loads.len()), (2, 4));
    assert_eq!(ledger.loads, (2, Some(ms(play.loads[3] + LOAD))));
    assert_eq!(ledger.transitions[&(State::Waiting, State::Loaded)], 2);
    assert_eq!(ledger.spent[&State::Yielding], ms(UNLOAD));
    assert_eq!(ledger.spent.values().sum::<Duration>(), ms(play.now - 1 - START));
}

#[test]
fn a_stub_blocks_keep_until_it_is_replaced_but_ends_a_keep_that_starts() {
    let mut play = Play::new(World { marker: None, is_good: false, ..World::ready() }, false);
    play.then(Event::Mark).after(60_000);
    assert_eq!((play.state(), play.ended), (State::Blocked, None));
    assert!(play.keep.sentence().contains("as the test says"));
    play.then(Event::File(true)).after(2000);
    assert_eq!(play.state(), State::Loaded);

    let play = Play::new(World { is_good: false, ..World::ready() }, false);
    assert_eq!((play.state(), play.ended), (State::Blocked, Some(Exit::Blocked)));
}

#[test]
fn keep_changes_nothing_while_it_cannot_see_the_node() {
    let mut play = Play::new(World::ready(), false);
    play.after(2000).then(Event::Blind(true)).then(Event::Unmark).after(60_000);
    assert_eq!((play.state(), play.unloads.len()), (State::Loaded, 0));
    play.then(Event::Blind(false));
    assert_eq!(play.unloads.len(), 1);
}

#[test]
fn if_the_gate_does_not_apply_keep_touches_nothing() {
    let condition = |r#type, reason| Condition::new(r#type, reason, "as the test says");
    let not_requested = condition(ConditionType::RdmaRequested, Reason::RdmaNotRequested);
    let requested = condition(ConditionType::RdmaRequested, Reason::Requested);
    let no_device = condition(ConditionType::NicPresent, Reason::NoRdmaDevice);
    let device = condition(ConditionType::NicPresent, Reason::NicFound);
    let untouched = [
        (vec![not_requested.clone()], true),
        (vec![not_requested, device], true),
        (vec![requested.clone(), no_device.clone()], false),
    ];
    for (conditions, is_loaded) in untouched {
        let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
        let mut full_look = World { marker: None, is_loaded, ..World::ready() }.full_look();
        full_look.look.verdict = Verdict::of(conditions);
        let glimpse = full_look.glimpse.clone();
        let response = keep.look(ms(START), &Cause::Start, full_look);
        let state = if is_loaded { State::Loaded } else { State::Waiting };
        assert_eq!((response.action, keep.state()), (None, state));
        assert!(!keep.has_applied());
        assert_eq!(keep.glimpse(ms(START + 1), &Cause::Marker, &glimpse).action, None);
    }
    // It starts while a reset has the NIC off the bus: a live nvidia_peermem shows that the node has one.
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    let mut full_look = World { marker: None, is_loaded: true, ..World::ready() }.full_look();
    full_look.look.verdict = Verdict::of(vec![requested, no_device]);
    assert_eq!(keep.look(ms(START), &Cause::Start, full_look).action, Some(Action::Unload));
}

/// Every node of a mixed fleet gets the sidecar.
#[test]
fn if_the_gate_does_not_apply_keep_says_so_once_and_sleeps() {
    for is_loaded in [false, true] {
        let mut play = Play::new(World { has_nic: false, is_loaded, ..World::ready() }, false);
        let said = play.lines.len();
        assert!(said > 0, "it says nothing");
        play.after(3_600_000);
        assert_eq!(play.lines.len(), said, "{:#?}", play.lines);
        // An hour of the safety net, each a glimpse and a look.
        assert!(play.steps <= 2 * 3600 / 5 + 10, "{} steps in an hour", play.steps);
        play.then(Event::Nic(true)).after(2000);
        assert_eq!(play.state(), State::Loaded);
    }
}

fn event(only_mofed: bool) -> impl Strategy<Value = Event> {
    let mofed = prop_oneof![
        4 => Just(Event::Mark),
        3 => Just(Event::Unmark),
        2 => Just(Event::ModulesGo),
        4 => Just(Event::ModulesCome),
    ];
    let others = prop_oneof![
        2 => any::<bool>().prop_map(Event::File),
        2 => prop::option::of(prop::sample::select(vec![Refusal::Good, Refusal::Now, Refusal::Unseen])).prop_map(Event::Refuses),
        2 => (0i64..3).prop_map(Event::Uses),
        1 => Just(Event::OtherLoads),
        1 => Just(Event::OtherUnloads),
        1 => Just(Event::NewDriver),
        1 => any::<bool>().prop_map(Event::Blind),
        1 => any::<bool>().prop_map(Event::Nic),
    ];
    prop_oneof![4 => mofed, (if only_mofed { 0 } else { 3 }) => others]
}

fn events(only_mofed: bool, count: usize) -> impl Strategy<Value = Vec<(u64, Event)>> {
    let gap = prop_oneof![3 => 0u64..60, 3 => 0u64..2000, 1 => 0u64..20_000];
    let moments = prop::collection::vec((gap, event(only_mofed)), 1..count);
    moments.prop_map(|moments| {
        let mut at = START;
        let each = |(gap, event)| {
            at += gap;
            (at, event)
        };
        moments.into_iter().map(each).collect()
    })
}

/// A node that is ready, with and without `--no-yield`, or has no NIC; and one on which everything is still to come.
fn world() -> impl Strategy<Value = (World, bool)> {
    let bare = World { marker: None, modules: None, ..World::ready() };
    let without_nic = World { has_nic: false, ..World::ready() };
    let ready = World::ready();
    prop::sample::select(vec![(ready.clone(), false), (ready, true), (bare, false), (without_nic, false)])
}

/// It settles into what the world then wants.
fn converges(play: &mut Play) -> Result<(), TestCaseError> {
    let ends =
        [Event::Nic(true), Event::Blind(false), Event::Refuses(None), Event::File(true), Event::Uses(0)];
    for event in ends {
        play.then(event);
    }
    play.then(Event::Unmark).after(2000);
    prop_assert!(!play.world.is_loaded, "{:?}", play.keep);
    play.then(Event::ModulesGo).then(Event::ModulesCome).after(500).then(Event::Mark);
    let marked = play.now;
    play.after(130_000);
    prop_assert_eq!(play.state(), State::Loaded);
    prop_assert!(play.world.is_loaded);
    prop_assert!(play.loads.last().unwrap() - marked <= SETTLE + 1000);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens, a thousand times over: it never loads before every condition was met for the settle
    /// time (asserted at each load), holds nothing against MOFED for longer than what it is in the middle
    /// of takes, never rests on nothing, does not flap, and comes to the right end. (The model tries every order of a
    /// few events.)
    #[test]
    fn keep_is_safe_live_and_steady_under_a_thousand_random_events(
        (world, no_yield) in world(), events in events(false, 1000)
    ) {
        let mut play = Play::new(world, no_yield);
        play.events = events;
        let end = play.events.last().unwrap().0 + 1;
        play.run_until(end);
        // A load that was under way, or an unload that found a use: at most one of each, and the longest retry.
        prop_assert!(no_yield || play.latest <= LOAD + 2 * UNLOAD + 1000, "{} ms late", play.latest);
        let elapsed = end - START;
        prop_assert!(play.loads.len() as u64 <= 2 + elapsed / SETTLE, "{} loads in {elapsed} ms", play.loads.len());
        for pair in play.loads.windows(2) {
            prop_assert!(pair[1] - pair[0] >= SETTLE, "{pair:?}");
        }
        let lines = play.lines.len() as u64;
        prop_assert!(lines <= 60 * (elapsed / 60_000 + 2), "{lines} lines in {elapsed} ms");
        if !no_yield {
            converges(&mut play)?;
        }
    }

    /// Beside MOFED alone, which nobody uses: it lets go as soon as what it is in the middle of is done, and
    /// loads within the settle time and a second.
    #[test]
    fn keep_loads_and_unloads_promptly_if_only_mofed_acts(events in events(true, 300)) {
        let mut play = Play::new(World::ready(), false);
        play.events = events;
        let end = play.events.last().unwrap().0 + 1;
        while play.now < end {
            let next = play.events.first().map_or(end, |(at, _)| *at);
            play.run_until(next.max(play.now + 1));
            let holds_for = play.ready_since.map_or(0, |since| play.now - since);
            prop_assert!(play.world.is_loaded || holds_for <= SETTLE + 1000 + LOAD, "{:?}", play.keep);
        }
        prop_assert!(play.latest <= LOAD + UNLOAD, "{} ms late", play.latest);
        converges(&mut play)?;
    }
}

/// MOFED's container takes its lock, clears the marker, and runs an rmmod of its own, which fails if somebody else
/// was faster: its start then fails as well.
#[test]
fn a_new_mofed_container_gets_time_to_unload_the_module_itself() {
    let swap = |holder| SwapCheck {
        peermem: Presence::Live { uses: Some(0) },
        swap: Some("the marker is gone".to_owned()),
        has_begun: false,
        holder,
        driver: None,
    };
    let loaded = || {
        let mut world = World { is_loaded: true, holder: LockHolder::Process(100), ..World::ready() };
        world.inode = 1;
        let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
        let _ = keep.look(ms(START), &Cause::Start, world.full_look());
        assert_eq!((keep.state(), keep.unload_due()), (State::Loaded, None));
        keep
    };
    let at = |keep: &mut Keep, time: u64, holder| {
        keep.glimpse(ms(START + time), &Cause::Marker, &swap(holder)).action
    };
    // The container that was there ends: it clears its marker, and leaves the rest to us.
    assert_eq!(at(&mut loaded(), 10, LockHolder::Process(100)), Some(Action::Unload));
    // Nobody can be seen to hold it, as with the older entrypoint.
    assert_eq!(at(&mut loaded(), 10, LockHolder::Nobody), Some(Action::Unload));
    let mut keep = loaded();
    assert_eq!(at(&mut keep, 10, LockHolder::Process(200)), None);
    assert_eq!(keep.unload_due(), Some(ms(START + 1510)));
    assert_eq!(keep.look_limit(ms(START + 1509)), Some(ms(START + 1510)));
    assert_eq!(keep.look_limit(ms(START + 1510)), None, "or each look would be late, without an end");
    assert_eq!(at(&mut keep, 1509, LockHolder::Process(200)), None, "another event is no reason to hurry");
    assert_eq!(at(&mut keep, 1510, LockHolder::Process(200)), Some(Action::Unload), "it has not done it");
    // A look sees the old marker under the new container's lock.
    let mut keep = loaded();
    let mut world = World { is_loaded: true, holder: LockHolder::Process(200), ..World::ready() };
    world.inode = 1;
    let _ = keep.look(ms(START + 5), &Cause::Timer, world.full_look());
    assert_eq!(at(&mut keep, 10, LockHolder::Process(200)), None);
}

/// Without the host's pid namespace the lock's holder is hidden, and a sidecar that starts has not seen the old one.
/// The model (tests/model) found that both unloaded what MOFED was about to unload.
#[test]
fn a_sidecar_that_cannot_know_the_container_gives_it_time_as_well() {
    let begun = |holder, made_marker, has_begun| {
        let world = World { is_loaded: true, inode: 1, marker: None, holder, ..World::ready() };
        let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
        keep.marked_by(made_marker);
        let mut full_look = world.full_look();
        full_look.glimpse.has_begun = has_begun;
        let response = keep.look(ms(START), &Cause::Start, full_look);
        (response.action, keep.unload_due())
    };
    let (at_once, later) = ((Some(Action::Unload), Some(ms(START))), (None, Some(ms(START + 1500))));
    let (unknown, new) = (LockHolder::Unknown, LockHolder::Process(200));
    assert_eq!(begun(unknown, unknown, false), later, "the holder is hidden");
    assert_eq!(begun(new, unknown, false), later, "it has just started");
    assert_eq!(begun(new, new, false), at_once, "the container that made the marker ends");
    assert_eq!(begun(LockHolder::Nobody, unknown, false), at_once, "no container runs");
    assert_eq!(begun(unknown, unknown, true), at_once, "MOFED's own unload is over");
}

/// A firmware reset takes the device off the bus for seconds, and MOFED may swap its modules meanwhile.
#[test]
fn keep_unloads_while_the_device_is_in_a_reset() {
    let mut world = World { is_loaded: true, inode: 1, ..World::ready() };
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    let _ = keep.look(ms(START), &Cause::Start, world.full_look());
    world.happens(Event::Unmark);
    let mut full_look = world.full_look();
    let away = Condition::new(ConditionType::NicPresent, Reason::NoRdmaDevice, "no device");
    full_look.look.verdict = full_look.look.verdict.replacing(away);
    let response = keep.look(ms(START + 10), &Cause::Device, full_look);
    assert_eq!(response.action, Some(Action::Unload));
}

#[test]
fn every_state_can_be_left_and_entered() {
    for state in State::ALL.iter().copied() {
        assert!(State::TRANSITIONS.iter().any(|(from, ..)| *from == state), "{state} is never left");
        assert!(State::TRANSITIONS.iter().any(|(_, to, _)| *to == state), "{state} is never entered");
        assert!(!state.may_become(state));
    }
}

/// What only nvidia-peermem.ko is wrong with is cured, where that was asked for, once all else has settled.
#[test]
fn a_stub_that_may_be_rebuilt_is_rebuilt_once_all_else_has_settled() {
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    keep.allow_rebuild(true);
    let world = World { is_good: false, ..World::ready() };
    let first = keep.look(ms(START), &Cause::Start, world.full_look());
    assert_eq!((first.action, keep.state()), (None, State::Waiting));
    assert!(!first.effects.iter().any(|effect| effect.last().is_some()), "it does not end a start");
    assert_eq!(keep.next_look(), Some(ms(START + SETTLE)));
    assert_eq!(keep.sentence(), "nvidia-peermem.ko will be rebuilt, if possible: as the test says");
    let step = keep.look(ms(START + SETTLE), &Cause::Timer, world.full_look());
    assert_eq!(step.action, Some(Action::Rebuild));
    let now = ms(START + SETTLE + 40);
    let failed = RebuildResult::Passing("make was ended by SIGKILL".to_owned());
    let Err(done) = keep.rebuilt(now, &failed, ms(40)) else { panic!("it goes on") };
    let words = "make was ended by SIGKILL; another attempt follows in 10.0 s";
    assert!(
        matches!(&done, LoadResult::Again(why) if why.failure == LoadFailure::Rebuild && why.sentence.ends_with(words)),
        "{done:?}"
    );
    keep.done(now, done);
    assert_eq!(keep.look(now + PAUSE, &Cause::Timer, world.full_look()).action, None, "it pauses");
    let later = now + Duration::from_secs(10);
    assert_eq!(keep.look(later, &Cause::Timer, world.full_look()).action, Some(Action::Rebuild));
    let installed = RebuildResult::Installed("rebuilt".to_owned());
    let after = keep.rebuilt(later + ms(2), &installed, ms(2));
    assert_eq!(after, Ok("rebuilt".to_owned()));
    let ledger = keep.ledger();
    assert_eq!((ledger.rebuilds[&RebuildLabel::Installed], ledger.rebuilding), (1, ms(42)));
}

/// Contract: no obstacle is for good. Each is asked again within a minute, and is logged and counted once. What
/// follows when it is gone needs neither an event nor a signal.
#[test]
fn every_obstacle_is_asked_again_within_a_minute_until_it_is_gone() {
    let refused = Kind::ALL.iter().map(|kind| RebuildResult::Refused(Obstacle::new(*kind, "x")));
    for end in refused.chain([RebuildResult::Failed("make ended with 2".to_owned())]) {
        let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
        keep.allow_rebuild(true);
        let world = World { is_good: false, ..World::ready() };
        let (mut now, mut asked, mut said) = (START, Vec::new(), 0);
        while now < START + 600_000 {
            let step = keep.look(ms(now), &Cause::Timer, world.full_look());
            if step.action == Some(Action::Rebuild) {
                asked.push(now);
                let Err(done) = keep.rebuilt(ms(now), &end, ms(1)) else { panic!("it goes on") };
                said += keep.done(ms(now), done).iter().filter(|e| matches!(e, Effect::Log(_))).count();
                let needs_a_person = end.obstacle().is_none_or(Kind::needs_a_person);
                let state = if needs_a_person { State::Blocked } else { State::Waiting };
                assert_eq!(keep.state(), state, "{end:?}");
                continue;
            }
            now = u64::try_from(keep.next_look().expect("a time").as_millis()).unwrap().max(now + 1);
        }
        let gaps: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((10..25).contains(&asked.len()), "{end:?}: {gaps:?}");
        assert!(gaps.iter().all(|gap| (1000..=61_000).contains(gap)), "{end:?}: {gaps:?}");
        assert!(said <= 1, "{end:?} is logged {said} times");
        if keep.state() == State::Blocked {
            let counts = (keep.ledger().rebuilds[&end.label()], keep.ledger().refused[&LoadFailure::Rebuild]);
            assert_eq!(counts, (1, 1), "{end:?}");
            assert!(keep.sentence().ends_with("keep asks again within a minute"), "{}", keep.sentence());
        }
        let installed = RebuildResult::Installed("rebuilt".to_owned());
        let step = keep.look(ms(now), &Cause::Timer, world.full_look());
        assert_eq!(step.action, Some(Action::Rebuild), "{end:?}");
        assert!(keep.rebuilt(ms(now), &installed, ms(2)).is_ok(), "{end:?}");
    }
}

/// What was in the way may be gone with another MOFED or file: no pause is left over for it.
#[test]
fn an_obstacle_beside_other_evidence_is_asked_again_at_once() {
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    keep.allow_rebuild(true);
    let mut world = World { is_good: false, ..World::ready() };
    keep.look(ms(START), &Cause::Start, world.full_look());
    let mut now = START + SETTLE;
    for _ in 0..4 {
        assert_eq!(keep.look(ms(now), &Cause::Timer, world.full_look()).action, Some(Action::Rebuild));
        let end = RebuildResult::Refused(Obstacle::new(Kind::HeadersMissing, "x"));
        let Err(done) = keep.rebuilt(ms(now), &end, ms(1)) else { panic!("it goes on") };
        keep.done(ms(now), done);
        now += 60_000;
    }
    now -= 50_000;
    assert_eq!(keep.look(ms(now), &Cause::Timer, world.full_look()).action, None);
    world.happens(Event::Mark);
    keep.look(ms(now + 1), &Cause::Timer, world.full_look());
    let step = keep.look(ms(now + 1 + SETTLE), &Cause::Timer, world.full_look());
    assert_eq!(step.action, Some(Action::Rebuild));
}

/// MOFED may be in the middle of a swap when `keep` starts, and a whole look takes its time.
#[test]
fn a_swap_at_the_start_unloads_before_the_first_whole_look_if_the_gate_applies() {
    let glimpse = World { is_loaded: true, marker: None, ..World::ready() }.glimpse();
    let mut keep = Keep::new(policy(), Stay::Yields, ms(START));
    assert_eq!(keep.glimpse(ms(START), &Cause::Start, &glimpse).action, None);
    keep.note_applies();
    assert_eq!(keep.glimpse(ms(START), &Cause::Start, &glimpse).action, Some(Action::Unload));
    keep.unloaded(ms(START + UNLOAD), Ok("unloaded".to_owned()));
    assert_eq!(keep.peermem(), Presence::Absent);
    let mut keep = Keep::new(policy(), Stay::NeverUnloads, ms(START));
    keep.note_applies();
    assert_eq!(keep.glimpse(ms(START), &Cause::Start, &glimpse).action, None, "--no-yield");
}
