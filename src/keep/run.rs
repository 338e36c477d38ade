// SPDX-License-Identifier: Apache-2.0
//! `keep`: loads, stays, unloads `nvidia_peermem` when MOFED is about to swap its modules, and loads
//! again after. [`crate::keep`] decides; here is what it sees and does.

use crate::cli::{KeepArgs, Rebuild, log};
use crate::keep::ending::Ending;
use crate::keep::leftovers::Leftovers;
use crate::keep::node_lock::NodeLock;
use crate::keep::notify::Systemd;
use crate::keep::ownership::Ownership;
use crate::keep::publisher::Publisher;
use crate::keep::service::{RmmodSearch, Service};
use crate::keep::store_writer::StoreWriter;
use crate::keep::{Action, Keep, LoadFailure, LoadResult, Response, State, Stay};
use crate::load::loader::{Loader, root_to_run_in};
use crate::peermem::driver_root;
use crate::process::WorkerPipe;
use crate::process::exec::Unrunnable;
use crate::process::hung::Hung;
use crate::process::privilege;
use crate::process::supervisor::SuperviseOptions;
use crate::process::system_program::{Interruption, OutputMode, Ran, SystemProgram};
use crate::ready::clock::now;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::gate::Effect;
use crate::ready::judge::swap::Presence;
use crate::ready::look::{Cause, Look};
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Node;
use crate::ready::probe;
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::Outcome;
use crate::ready::wake::{Signals, Wake};
use crate::rebuild::rebuilder::knowing_rebuild;
use crate::rebuild::{RebuildResult, build_dir};
use crate::start::{Start, VerbError};
use crate::watch::Watch;
use crate::watch::slow_command::SlowCommandWatch;
use crate::watch::supervised::{code, signals, supervised, warn_of_odd_request};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// A running unload gets this much, because it is better finished than broken off.
const UNLOAD: Duration = Duration::from_millis(700);
/// A load, and an unload, that take longer than this are slow, and are logged.
const SLOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));
/// A load, and an unload, that take longer than this hang: the watchdog is not fed. The kernel itself may wait half a
/// minute for a module on which another depends.
const HUNG: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(30));

/// How long a load may still run when the deadline passes: after this it hangs. The kernel itself waits half a minute
/// for each symbol of a module that is still loading (`kernel/module/main.c`), and nothing is loaded before what it
/// needs is live. After a build it is depmod above all that is better finished than broken off.
const PAST_DEADLINE: Duration = Duration::from_secs(60);

/// Why a keep whose lock file was removed does nothing more.
const LOST: &str = "keep's lock file was removed, so another keep could serve this node";
/// How a worker ends whose lock was removed, or can be taken by now: this keep takes it, or the next has it.
const LOCK_LOST: Exit = Exit::Passed(75);

/// Runs until a signal ends it.
pub(crate) fn run(args: &KeepArgs, start: &Start) -> Result<Exit, VerbError> {
    let mut signals = signals()?;
    signals.serve();
    log::start(&args.log);
    loop {
        let lock = match args.node_root.as_deref().map(|root| NodeLock::take(root, &signals)) {
            Some(Err(signal)) => {
                tracing::info!("ended by signal {signal}, while another keep served this node");
                return Ok(Exit::Opened);
            }
            Some(Ok(lock)) => lock,
            None => NodeLock::default(),
        };
        let work = |_: &WorkerPipe| {
            lock.leave_to_parent();
            stay(args, start, &signals, &lock)
        };
        let glimpse = |_: &WorkerPipe, hung: &Hung| {
            lock.leave_to_parent();
            code(glimpse_beside(hung, args, start, &signals, &lock), start)
        };
        let terms = SuperviseOptions { stand_in: Some(&glimpse), ..SuperviseOptions::new(&signals, None) };
        let ended = supervised(terms, start, work)?;
        let was_signaled = ended.was_signaled;
        match ended.exit(start) {
            // The signal came when the worker had ended already.
            LOCK_LOST if was_signaled => return Ok(Exit::Opened),
            LOCK_LOST => {}
            exit => return Ok(exit),
        }
    }
}

/// `load`: waits, loads the module and proves that it is live, with modprobe's exit code if it had to run.
///
/// # Errors
/// How it ended without a live module. The last words say why.
pub(crate) fn until_loaded(
    service: &Service,
    signals: &Signals,
    worker_pipe: &WorkerPipe,
) -> Result<Option<u8>, Exit> {
    let lock = NodeLock::default();
    let mut sidecar = Sidecar::new(service, signals, &lock, now());
    sidecar.worker_pipe = Some(worker_pipe);
    match sidecar.run() {
        Exit::Opened => Ok(sidecar.ending.code),
        exit => Err(exit),
    }
}

fn stay(args: &KeepArgs, start: &Start, signals: &Signals, lock: &NodeLock) -> Result<Exit, VerbError> {
    let mut place = None;
    let begun = now();
    loop {
        let service = Service::of(args, start, place)?;
        // A killed `keep` leaves its files behind, and this one may end before its first report.
        service.files.clear();
        if place.is_none() {
            service.check_tools()?;
        }
        let mut sidecar = Sidecar::new(&service, signals, lock, begun);
        sidecar.has_container = place == Some(MofedPlace::Container);
        let exit = sidecar.run();
        match sidecar.moved.take() {
            Some(moved) => place = Some(moved),
            None => return Ok(exit),
        }
    }
}

/// Works beside a look that hangs: neither the marker nor the modules are on the file system that hangs.
fn glimpse_beside(
    hung: &Hung,
    args: &KeepArgs,
    start: &Start,
    signals: &Signals,
    lock: &NodeLock,
) -> Result<Exit, VerbError> {
    let until = if args.no_yield {
        "nothing is done (--no-yield)"
    } else {
        "nvidia_peermem is only unloaded when MOFED's marker or modules go"
    };
    tracing::warn!("{}: until it ends, {until}; what to do: {}", hung.cause(), Hung::REMEDY);
    // Only a container's MOFED has a marker that can go, and headers, which would show a host's, may hang, too.
    let mut place = MofedPlace::Host;
    loop {
        let service = Service::of(args, start, Some(place))?;
        let mut sidecar = Sidecar::new(&service, signals, lock, now());
        let exit = sidecar.run_glimpses();
        match sidecar.moved.take() {
            Some(moved) => place = moved,
            None => return Ok(exit),
        }
    }
}

/// A running service.
struct Sidecar<'a> {
    service: &'a Service,
    /// Of the node.
    lock: &'a NodeLock,
    watch: Watch<'a>,
    keep: Keep,
    /// rmmod, found beforehand, because an unload must not wait for the search.
    rmmod: Option<SystemProgram>,
    publisher: Publisher<'a>,
    /// A signal that came during other work, and its time.
    signal: Option<(u8, BootTime)>,
    /// SIGHUP came: the next rebuild ignores earlier failures.
    is_asked: bool,
    store_writer: StoreWriter,
    leftovers: Leftovers,
    /// Of the node's service.
    ownership: Option<Ownership>,
    /// When the first `Sidecar` of this process began.
    begun: BootTime,
    /// Another process's look hangs, and the driver's root may be what hangs: a search for rmmod there.
    search: Option<RmmodSearch>,
    /// This process has seen a container's MOFED.
    has_container: bool,
    /// MOFED turned out to be here: another `Sidecar` begins.
    moved: Option<MofedPlace>,
    /// Of a wait with a deadline: what must not be broken off by it is told here.
    worker_pipe: Option<&'a WorkerPipe>,
    /// Of one that ends once the module is live.
    ending: Ending,
}

impl<'a> Sidecar<'a> {
    fn new(service: &'a Service, signals: &'a Signals, lock: &'a NodeLock, begun: BootTime) -> Self {
        warn_of_odd_request(&service.node);
        let mut watch = Watch::new(&service.node, signals);
        if let Some(path) = lock.path() {
            watch.await_file(path);
        }
        let mut keep = Keep::staying(service.stay, service.policy.clone(), watch.started());
        keep.allow_rebuild(service.rebuilder.mode != Rebuild::Off);
        keep.recall(service.memory().unwrap_or_default());
        let ends = service.stay == Stay::UntilLoaded;
        if ends && service.rebuilder.mode == Rebuild::Off {
            watch.refine_by(knowing_rebuild);
        }
        let systemd = if ends { Systemd::none() } else { Systemd::of_environment() };
        let publisher = Publisher::new(&service.files, systemd, service.policy.heartbeat);
        Self {
            service,
            lock,
            watch,
            keep,
            rmmod: None,
            publisher,
            signal: None,
            is_asked: false,
            store_writer: StoreWriter::default(),
            leftovers: Leftovers::default(),
            ownership: service
                .node_root
                .as_deref()
                .filter(|_| !service.dry_run)
                .map(|root| Ownership::of(root, service.rebuilder.signing.is_some())),
            begun,
            search: None,
            has_container: false,
            moved: None,
            worker_pipe: None,
            ending: Ending::default(),
        }
    }

    /// It is `load`, which serves nobody else: no glimpses, no unload, no files but its own.
    fn ends(&self) -> bool {
        self.service.stay == Stay::UntilLoaded
    }

    fn run(&mut self) -> Exit {
        if self.service.dry_run {
            tracing::warn!(
                "dry run: keep logs what it would load, unload, build and write, and does nothing of it; the \
                 driver's own modprobe stays as it is"
            );
        }
        let is_asked_first = !self.service.stays() && !self.service.policy.dry_run;
        if let Some(sentence) = is_asked_first.then(|| self.hopeless()).flatten() {
            tracing::error!("{sentence}");
            return self.service.last_words.leave(Exit::Blocked, &sentence, None);
        }
        if self.service.stay == Stay::Yields {
            self.watch.be_alert();
        }
        if self.watch.applies() {
            self.keep.note_applies();
        }
        // The first look may take long, and a driver's script come to its modprobe meanwhile.
        self.follow_ownership();
        let (mut cause, mut is_ready) = (Some(Cause::Start), false);
        loop {
            self.moved = cause.as_ref().and_then(|_| self.mofed_moved());
            if self.moved.is_some() {
                return Exit::Opened;
            }
            if self.lock.is_lost() {
                tracing::warn!("{LOST}: taking it again");
                return LOCK_LOST;
            }
            if self.lock.is_in_reach() {
                tracing::info!("keep's lock file can be locked now: taking it");
                return LOCK_LOST;
            }
            if let Some(Cause::Asked) = &cause {
                self.keep.ask();
                self.is_asked = true;
            }
            let attended = match &cause {
                Some(cause) => self.attend(cause),
                None if self.ends() => self.wait_on(),
                None => ControlFlow::Continue(()),
            };
            // SIGHUP asks for a rebuild of today's fault, and not of a later one.
            self.is_asked &= self.keep.is_rebuild_due();
            let heartbeat = self.keep.tick(now());
            let carried = attended.is_continue().then(|| self.carry_out(heartbeat));
            match carried.unwrap_or(attended) {
                // A node's service stays, and its metrics say that a person has to help.
                ControlFlow::Break(Exit::Blocked) if self.service.stays() => {
                    tracing::error!("{}", self.keep.sentence());
                    self.publisher.publish(&self.keep, &self.watch);
                }
                ControlFlow::Break(exit) => return self.end(exit),
                ControlFlow::Continue(()) => {}
            }
            if !is_ready && self.keep.verdict().is_some() {
                is_ready = true;
                self.publisher.systemd.ready();
            }
            self.publisher.attend(&self.keep, &self.watch);
            if let Some((signal, since)) = self.signal {
                return self.end_service(signal, since);
            }
            cause = match self.watch.sleep(self.due()) {
                Wake::Signal(signal) => return self.end_service(signal, now()),
                Wake::Event(cause) => Some(cause),
                Wake::Due => self.watch.due_cause(self.keep.next_look()),
            };
        }
    }

    /// Who provides MOFED, if that is not who was expected.
    fn mofed_moved(&mut self) -> Option<MofedPlace> {
        let service = self.service;
        let Node { places, expected } = &service.node;
        if !service.finds_mofed {
            return None;
        }
        let traces = probe::mofed_traces(places);
        // A container that ends takes its traces along, and the next one builds for many minutes before it has any.
        self.has_container |= traces.container;
        if !traces.container && (self.has_container || traces.is_unread) {
            return None;
        }
        let has_waited = now() >= self.begun + service.policy.suspect_hold;
        let place = traces.place(has_waited);
        if place == expected.mofed {
            return None;
        }
        let what = match place {
            MofedPlace::Container => "a container brings MOFED",
            _ if traces.host => "MOFED is installed on the host",
            _ => "nothing shows a MOFED container, so the kernel's own RDMA stack counts",
        };
        tracing::info!("{what}");
        Some(place)
    }

    /// Only glimpses, as long as the look of another process hangs. It only unloads.
    fn run_glimpses(&mut self) -> Exit {
        let mut cause = Cause::Start;
        self.search = Some(RmmodSearch::default());
        loop {
            self.moved = self.container_came();
            if self.moved.is_some() {
                tracing::info!("a container brings MOFED");
                return Exit::Opened;
            }
            if self.service.stay != Stay::Yields {
                // The glimpse has no effect, except that the next one is due later.
                let _ = self.watch.glimpse();
            } else if let ControlFlow::Break(exit) = self.glimpse_alone(&cause) {
                return exit;
            }
            cause = match self.watch.sleep(self.keep.next_look()) {
                Wake::Signal(_) => return Exit::Opened,
                Wake::Event(cause) => cause,
                Wake::Due => Cause::Timer,
            };
        }
    }

    /// A container's MOFED where a host's was expected: its marker or its lock file. Its headers may hang.
    fn container_came(&self) -> Option<MofedPlace> {
        let Node { places, expected } = &self.service.node;
        let is_expected = !self.service.finds_mofed || expected.mofed == MofedPlace::Container;
        let has_left = || probe::is_there(&places.marker) || probe::is_there(&places.lock);
        (!is_expected && has_left()).then_some(MofedPlace::Container)
    }

    fn glimpse_alone(&mut self, cause: &Cause) -> ControlFlow<Exit> {
        let glimpse = self.watch.glimpse();
        let driver_ends = self.keep.ends_meanwhile(now(), &glimpse).is_some();
        if glimpse.swap.is_none() && !driver_ends || !matches!(glimpse.peermem, Presence::Live { .. }) {
            // The module stays or is gone, and no look will show that to this state machine.
            let memory = self.keep.memory();
            self.keep = Keep::new(self.service.policy.clone(), false, now());
            self.keep.recall(memory);
            if glimpse.swap.is_none() {
                self.keep.marked_by(probe::lock_holder(&self.service.node.places));
            }
            return ControlFlow::Continue(());
        }
        if self.watch.applies() {
            self.keep.note_applies();
        }
        let response = self.keep.glimpse(now(), cause, &glimpse);
        self.take(response)
    }

    /// Why `keep` ends at its start: it cannot load the module on this node. Not where there is nothing to load.
    fn hopeless(&mut self) -> Option<String> {
        let places = &self.service.node.places;
        let (why, remedy) = privilege::cannot_load(places, &driver_root::driver_root_now(places))?;
        let verdict = loop {
            if let Some(look) = self.watch.look(&Cause::Start, None) {
                break look.verdict;
            }
            // A signal broke off the look, or the marker disappeared.
            self.signal = self.watch.wakes().take_signal().map(|signal| (signal, now()));
            if self.signal.is_some() {
                return None;
            }
        };
        let peermem = verdict.get(ConditionType::PeermemUsable).map(|c| c.reason);
        let is_live = matches!(peermem, Some(Reason::PeermemLive | Reason::LoadedOnGoneStack));
        let is_done = verdict.outcome == Outcome::NotApplicable || self.ends() && is_live;
        (!is_done).then(|| format!("gave up: {why}; what to do: {remedy}"))
    }

    fn due(&self) -> Option<BootTime> {
        let own =
            [self.keep.next_look(), Some(self.keep.next_heartbeat()), self.publisher.systemd.next_due()];
        own.into_iter().flatten().min()
    }

    /// First a glimpse, for an unload that cannot wait; then a whole look, and another one after each action.
    fn attend(&mut self, cause: &Cause) -> ControlFlow<Exit> {
        if *cause != Cause::SafetyNet && !self.ends() {
            let is_swap = self.glimpse(cause)?;
            // Still in use: a poll that has seen that needs no look, unless the gate's own time is due.
            let is_due = self.keep.gate().next_look().is_some_and(|due| now() >= due);
            if is_swap && *cause == Cause::Timer && self.keep.state() == State::Busy && !is_due {
                return ControlFlow::Continue(());
            }
        }
        let mut cause = cause;
        // After a signal it begins nothing else.
        while self.signal.is_none() {
            self.watch.end_by(self.keep.look_limit(now()));
            let look = self.watch.look(cause, self.keep.verdict());
            let Some(response) = self.respond(cause, look) else { break };
            self.follow_ownership();
            let is_done = response.action.is_none();
            self.take(response)?;
            if is_done || self.signal.is_some() {
                break;
            }
            cause = &Cause::Timer;
            if !self.ends() {
                self.glimpse(cause)?;
            }
        }
        if self.ends() {
            return ControlFlow::Continue(());
        }
        self.follow_ownership();
        self.publisher.remember(&self.keep, &self.watch);
        self.publisher.catch_up(&self.keep, &self.watch);
        if self.service.dry_run {
            return ControlFlow::Continue(());
        }
        self.store_writer.see(&self.watch, self.keep.verdict());
        if self.service.rebuilder.mode != Rebuild::Off {
            self.leftovers.clear(&self.watch);
        }
        if self.rmmod.is_none() && self.keep.state() == State::Loaded {
            self.rmmod = self.service.tools.rmmod(root_to_run_in(&self.watch)).ok();
        }
        ControlFlow::Continue(())
    }

    /// What the state machine makes of a look, or, where it ends, of none.
    fn respond(&mut self, cause: &Cause, look: Option<Look>) -> Option<Response> {
        if !self.ends() {
            let full_look = self.watch.full_look(look?)?;
            return Some(self.keep.look(now(), cause, full_look));
        }
        // A look takes a while. A signal that came during it comes before the deadline.
        Some(match self.watch.wakes().take_signal() {
            Some(signal) => Response { action: None, effects: self.keep.signaled(now(), signal) },
            None => self.keep.step(now(), cause, look),
        })
    }

    /// Time has passed, for one that ends.
    fn wait_on(&mut self) -> ControlFlow<Exit> {
        let response = self.keep.step(now(), &Cause::Timer, None);
        self.take(response)
    }

    fn follow_ownership(&mut self) {
        if let Some(ownership) = &mut self.ownership {
            ownership.follow(&self.service.node.places, &self.keep);
        }
    }

    /// True while MOFED is about to swap its modules.
    fn glimpse(&mut self, cause: &Cause) -> ControlFlow<Exit, bool> {
        let glimpse = self.watch.glimpse();
        let response = self.keep.glimpse(now(), cause, &glimpse);
        self.take(response)?;
        ControlFlow::Continue(glimpse.swap.is_some())
    }

    /// Carries out the action, then writes the lines.
    fn take(&mut self, response: Response) -> ControlFlow<Exit> {
        let Response { action, mut effects } = response;
        match action {
            Some(action) if self.service.dry_run => {
                self.carry_out(effects)?;
                effects = match action {
                    Action::Unload => {
                        let would = "dry run: would run `rmmod nvidia_peermem`".to_owned();
                        self.keep.unloaded(now(), Err(would))
                    }
                    Action::Load => self.keep.done(now(), self.planned_load()),
                    Action::Rebuild => {
                        let planned = self.planned_rebuild();
                        self.keep.done(now(), planned)
                    }
                };
            }
            Some(Action::Unload) => {
                let done = self.unload(&mut effects);
                effects.extend(self.keep.unloaded(now(), done));
            }
            Some(Action::Load) => {
                self.carry_out(effects)?;
                effects = self.load();
            }
            Some(Action::Rebuild) => {
                self.carry_out(effects)?;
                effects = self.rebuild();
            }
            None => {}
        }
        self.carry_out(effects)
    }

    /// A dry run's load: what would be run. Asked again, it is the same, so the log has it once.
    fn planned_load(&self) -> LoadResult {
        match self.service.tools.modprobe(root_to_run_in(&self.watch)) {
            Ok(modprobe) => dry(&format!("run `{}`", modprobe.shown(&self.service.arguments))),
            Err(why) => LoadResult::again(LoadFailure::NoModprobe, why.message),
        }
    }

    /// A dry run's rebuild: its plan.
    fn planned_rebuild(&mut self) -> LoadResult {
        let plan = match self.watch.look(&Cause::Timer, self.keep.verdict()) {
            Some(look) => self.service.rebuilder.plan(&self.watch, &look).map(|(plan, ..)| plan),
            None => return dry("rebuild nvidia-peermem.ko"),
        };
        match plan {
            Ok(plan) => {
                let steps = steps(&plan.text(&build_dir::shown()));
                dry(&format!("rebuild nvidia-peermem.ko, and load it: {steps}"))
            }
            Err(obstacle) => {
                let end = RebuildResult::Refused(obstacle);
                let next = self.keep.rebuilt(now(), &end, Duration::ZERO);
                next.map_or_else(|done| done, |sentence| dry(&sentence))
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) -> ControlFlow<Exit> {
        let mut is_new = false;
        for effect in effects {
            match effect {
                Effect::Log(line) => {
                    log::write(&line);
                    self.ending.last_line = line.text;
                }
                Effect::Publish => is_new = true,
                Effect::Last(last) => {
                    if is_new && self.ends() {
                        self.publisher.publish(&self.keep, &self.watch);
                    }
                    return ControlFlow::Break(last.err().unwrap_or(Exit::Opened));
                }
            }
        }
        if is_new {
            self.publisher.publish(&self.keep, &self.watch);
        }
        ControlFlow::Continue(())
    }

    /// Rebuilds the module, and then loads it.
    fn rebuild(&mut self) -> Vec<Effect> {
        let (keep, publisher, ownership) = (&self.keep, &mut self.publisher, &mut self.ownership);
        let heartbeat = self.service.policy.heartbeat;
        let mut slow_command = SlowCommandWatch::over("rebuilding nvidia-peermem.ko", heartbeat, heartbeat);
        let mut rebuilder = self.service.rebuilder.clone();
        rebuilder.is_asked = std::mem::take(&mut self.is_asked);
        rebuilder.deadline = keep.gate().deadline();
        let (worker_pipe, mut next) = (self.worker_pipe, Duration::ZERO);
        let end = rebuilder.rebuild(&mut self.watch, keep.gate(), &mut |watch| {
            // It has its own limit.
            publisher.systemd.feed();
            if let Some(worker_pipe) = worker_pipe.filter(|_| slow_command.spent() >= next) {
                let _ = worker_pipe.needs(PAST_DEADLINE);
                next = slow_command.spent() + Duration::from_secs(1);
            }
            // A container that starts meanwhile comes to its modprobe within seconds.
            if let Some(ownership) = ownership {
                ownership.write_line(&watch.node().places);
            }
            if slow_command.warn_if_slow() {
                publisher.publish(keep, watch);
            }
        });
        match self.keep.rebuilt(now(), &end, slow_command.spent()) {
            Ok(message) => {
                tracing::info!("{message}");
                self.load()
            }
            Err(done) => self.report(done),
        }
    }

    /// Loads the module.
    fn load(&mut self) -> Vec<Effect> {
        let done = self.try_to_load();
        self.report(done)
    }

    fn report(&mut self, done: LoadResult) -> Vec<Effect> {
        match done {
            _ if self.ends() => self.ending.note(&done, &self.service.node.places),
            LoadResult::Signal(signal, since) => self.signal = Some((signal, since)),
            _ => {}
        }
        self.keep.done(now(), done)
    }

    fn try_to_load(&mut self) -> LoadResult {
        if let Some(why) = self.ends_meanwhile() {
            return LoadResult::again(LoadFailure::LastLook, format!("not loaded: {why}"));
        }
        let granted = self.worker_pipe.map(|worker_pipe| worker_pipe.needs(PAST_DEADLINE));
        let modprobe = match self.service.tools.modprobe(root_to_run_in(&self.watch)) {
            Ok(modprobe) => modprobe,
            Err(why) => return LoadResult::again(LoadFailure::NoModprobe, why.message),
        };
        self.publisher.remember(&self.keep, &self.watch);
        let (keep, publisher) = (&self.keep, &mut self.publisher);
        let mut slow_command =
            SlowCommandWatch::over("loading nvidia_peermem", SLOW.0, self.service.policy.heartbeat);
        let mut loader = Loader {
            modprobe,
            arguments: &self.service.arguments,
            output: self.service.output,
            is_late: &mut |watch| {
                if slow_command.spent() < HUNG.0 {
                    publisher.systemd.feed();
                }
                if slow_command.warn_if_slow() {
                    publisher.publish(keep, watch);
                }
                // A service waits for a modprobe that hangs.
                granted.as_ref().is_some_and(|granted| granted.is_spent(slow_command.spent()))
            },
        };
        loader.attempt(&mut self.watch, self.keep.gate())
    }

    /// Why nothing is loaded after all: a build takes a minute, in which the driver's container may begin to end.
    fn ends_meanwhile(&mut self) -> Option<&'static str> {
        if self.ends() {
            return None;
        }
        let glimpse = self.watch.glimpse();
        let lost = || self.lock.is_lost().then_some(LOST);
        self.keep.ends_meanwhile(now(), &glimpse).or_else(lost)
    }

    /// Unloads the module: how it went, or why it is still there. The waiting messages are written afterwards, so the
    /// unload is not late; unless it hangs.
    fn unload(&mut self, waiting: &mut Vec<Effect>) -> Result<String, String> {
        let places = &self.service.node.places;
        // Before the first look has ended, it is not known where the driver is. Beside a look that hangs, nothing new
        // is searched for there.
        let found = (self.watch.seen().is_none() && self.search.is_none())
            .then(|| driver_root::driver_root_now(places))
            .filter(|root| driver_root::may_run_in(places, root).is_ok());
        let (tools, root) =
            (&self.service.tools, found.as_deref().unwrap_or_else(|| root_to_run_in(&self.watch)));
        let answers = self.search.as_mut().is_none_or(|search| search.answers(tools, root));
        let find = || tools.rmmod(if answers { root } else { Path::new("/") });
        let may_run =
            |rmmod: &SystemProgram| driver_root::may_run_in(&self.watch.node().places, rmmod.root()).is_ok();
        let rmmod = match self.rmmod.take().filter(may_run).map_or_else(find, Ok) {
            Ok(rmmod) => rmmod,
            Err(why) => {
                return Err(format!("cannot unload nvidia_peermem: {}", why.message));
            }
        };
        let signals = self.watch.wakes().signals();
        let mut slow_command =
            SlowCommandWatch::over("rmmod nvidia_peermem", SLOW.1, self.service.policy.heartbeat);
        let begun = slow_command.begun;
        let ran = rmmod.run(&["nvidia_peermem".into()], OutputMode::Kept, signals.fd(), || {
            if slow_command.is_long() {
                waiting.retain(|effect| match effect {
                    Effect::Log(line) => {
                        log::write(line);
                        false
                    }
                    _ => true,
                });
            }
            if slow_command.spent() < HUNG.1 {
                self.publisher.systemd.feed();
            }
            if slow_command.warn_if_slow() {
                self.publisher.publish(&self.keep, &self.watch);
            }
            // Each signal must be read, but the first counts.
            let came = signals.take_one().map(|signal| (signal, now()));
            self.signal = self.signal.or(came);
            let is_late = |(_, since): &(u8, BootTime)| now() >= *since + UNLOAD;
            self.signal.filter(is_late).map(|(signal, _)| Interruption::Signal(signal))
        });
        let took = Seconds(now().saturating_sub(begun));
        if self.watch.glimpse().peermem != Presence::Absent {
            return Err(not_unloaded(&rmmod, ran));
        }
        match ran {
            Ok(ran) if ran.code == 0 => {
                self.rmmod = Some(rmmod);
                let goes_on =
                    if self.keep.driver_ends().is_some() { "the driver's container" } else { "MOFED" };
                Ok(format!("unloaded nvidia_peermem in {took}: {goes_on} can continue"))
            }
            _ => Ok("nvidia_peermem is unloaded: another process was faster".to_owned()),
        }
    }

    fn end(&self, exit: Exit) -> Exit {
        if self.ends() {
            let sentence = self.ending.sentence(exit);
            return match exit {
                Exit::Opened => exit,
                _ => self.service.last_words.leave(exit, &sentence, self.keep.verdict()),
            };
        }
        let sentence = self.keep.sentence();
        tracing::error!("gave up: {sentence}");
        self.service.last_words.leave(exit, &sentence, self.keep.verdict())
    }

    /// A service that ends on a signal has succeeded.
    fn end_service(&mut self, signal: u8, since: BootTime) -> Exit {
        if self.ends() {
            let effects = self.keep.signaled(now(), signal);
            let _ = self.carry_out(effects);
            return self.end(Exit::Signal(signal));
        }
        self.publisher.systemd.stopping();
        let mut glimpse = self.watch.glimpse();
        let is_unused = glimpse.peermem == (Presence::Live { uses: Some(0) });
        // No unload follows one that was broken off just now, or where the gate does not apply.
        let may = self.service.unload_on_exit && self.keep.has_applied();
        if may && is_unused && now() < since + UNLOAD {
            self.signal = Some((signal, since));
            match self.unload(&mut Vec::new()) {
                Err(why) => tracing::warn!("{why}"),
                Ok(_) => self.keep.note_own_unload(),
            }
            glimpse = self.watch.glimpse();
        } else if glimpse.peermem == Presence::Absent {
            self.keep.note_absent();
        }
        self.publisher.remember(&self.keep, &self.watch);
        tracing::info!("ended by signal {signal}: {}", glimpse.peermem.left_behind());
        self.service.files.clear();
        Exit::Opened
    }
}

/// Nothing was tried, and this would have been done.
fn dry(would: &str) -> LoadResult {
    LoadResult::again(LoadFailure::DryRun, format!("dry run: would {would}"))
}

/// Of a plan what would be done, on a line.
fn steps(plan: &str) -> String {
    let is_step = |line: &&str| {
        ["driver's root: ", "build: ", "module: ", "install: "].iter().any(|step| line.starts_with(step))
    };
    plan.lines().filter(is_step).collect::<Vec<_>>().join("; ")
}

/// Why `nvidia_peermem` is still loaded.
fn not_unloaded(rmmod: &SystemProgram, ran: Result<Ran, Unrunnable>) -> String {
    let why = match ran {
        Ok(Ran { code: 0, .. }) => format!(
            "{} reported success, but nvidia_peermem is still loaded; what to do: check that it is kmod's rmmod, and run `rmmod nvidia_peermem` by hand",
            rmmod.path().display()
        ),
        Ok(ran) => ran.stderr.lines().last().unwrap_or("rmmod gives no reason").to_owned(),
        // rmmod may be found elsewhere by now.
        Err(why) => why.message,
    };
    let remedy = if why.contains("not permitted") {
        "; what to do: check that this process has CAP_SYS_MODULE and that kernel.modules_disabled is 0, or run `rmmod nvidia_peermem` by hand"
    } else {
        ""
    };
    format!("cannot unload nvidia_peermem: {why}{remedy}")
}
