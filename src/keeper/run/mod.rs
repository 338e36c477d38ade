// SPDX-License-Identifier: Apache-2.0
//! `keep`: loads, stays, unloads `nvidia_peermem` when MOFED is about to swap its modules, and loads
//! again after. [`crate::keeper`] decides; here is what it sees and does.

mod acts;

use crate::cli::{KeepArgs, Rebuild, log};
use crate::keeper::ending::Ending;
use crate::keeper::leftovers::Leftovers;
use crate::keeper::loader::root_to_run_in;
use crate::keeper::node_lock::NodeLock;
use crate::keeper::notify::Systemd;
use crate::keeper::ownership::Ownership;
use crate::keeper::publisher::Publisher;
use crate::keeper::service::{RmmodSearch, Service};
use crate::keeper::store_writer::StoreWriter;
use crate::keeper::{Keep, Response, State, Stay};
use crate::peermem::driver_root;
use crate::process::WorkerPipe;
use crate::process::hung::Hung;
use crate::process::privilege;
use crate::process::supervisor::SuperviseOptions;
use crate::process::system_program::SystemProgram;
use crate::ready::clock::now;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::judge::swap::Presence;
use crate::ready::look::{Cause, Look};
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Node;
use crate::ready::probe;
use crate::ready::time::BootTime;
use crate::ready::verdict::Outcome;
use crate::ready::wake::{Signals, Wake};
use crate::rebuild::rebuilder::knowing_rebuild;
use crate::start::{Start, VerbError};
use crate::watch::Watch;
use crate::watch::supervised::{code, signals, supervised, warn_of_odd_request};
use std::ops::ControlFlow;
use std::time::Duration;

/// A running unload gets this much, because it is better finished than broken off.
const UNLOAD: Duration = Duration::from_millis(700);
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
    let mut runner = Runner::new(service, signals, &lock, now());
    runner.worker_pipe = Some(worker_pipe);
    match runner.run() {
        Exit::Opened => Ok(runner.ending.code),
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
        let mut runner = Runner::new(&service, signals, lock, begun);
        runner.has_container = place == Some(MofedPlace::Container);
        let exit = runner.run();
        match runner.moved.take() {
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
        let mut runner = Runner::new(&service, signals, lock, now());
        let exit = runner.run_glimpses();
        match runner.moved.take() {
            Some(moved) => place = moved,
            None => return Ok(exit),
        }
    }
}

/// A running keep, or load.
struct Runner<'a> {
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
    /// When the first `Runner` of this process began.
    begun: BootTime,
    /// Another process's look hangs, and the driver's root may be what hangs: a search for rmmod there.
    search: Option<RmmodSearch>,
    /// This process has seen a container's MOFED.
    has_container: bool,
    /// MOFED turned out to be here: another `Runner` begins.
    moved: Option<MofedPlace>,
    /// Of a wait with a deadline: what must not be broken off by it is told here.
    worker_pipe: Option<&'a WorkerPipe>,
    /// Of one that ends once the module is live.
    ending: Ending,
}

impl<'a> Runner<'a> {
    fn new(service: &'a Service, signals: &'a Signals, lock: &'a NodeLock, begun: BootTime) -> Self {
        warn_of_odd_request(&service.node);
        let mut watch = Watch::new(&service.node, signals);
        if let Some(path) = lock.path() {
            watch.await_file(path);
        }
        let mut keep = Keep::new(service.policy.clone(), service.stay, watch.started);
        keep.allow_rebuild(service.rebuilder.mode != Rebuild::Off);
        keep.recall(service.memory().unwrap_or_default());
        if keep.ends() && service.rebuilder.mode == Rebuild::Off {
            watch.refines = Some(knowing_rebuild);
        }
        let systemd = if keep.ends() { Systemd::default() } else { Systemd::of_environment() };
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
        self.keep.ends()
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
            self.watch.is_alert = true;
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
            self.keep = Keep::new(self.service.policy.clone(), self.service.stay, now());
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
        let root = driver_root::driver_root_now(places);
        let root = self.service.tools.modprobe(&root).map_or(root, |modprobe| modprobe.root().to_owned());
        let (why, remedy) = privilege::cannot_load(places, &root)?;
        self.watch.deadline = self.keep.look_limit(now());
        let verdict = loop {
            if let Some(look) = self.watch.look(&Cause::Start, None) {
                break look.verdict;
            }
            // A signal broke off the look, or the marker disappeared.
            self.signal = self.watch.wakes.take_signal().map(|signal| (signal, now()));
            if self.signal.is_some() || self.ends() {
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
                self.follow_ownership();
                return ControlFlow::Continue(());
            }
        }
        let mut cause = cause;
        // After a signal it begins nothing else.
        while self.signal.is_none() {
            self.watch.deadline = self.keep.look_limit(now());
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
        Some(match self.watch.wakes.take_signal() {
            Some(signal) => Response { action: None, effects: self.keep.signaled(now(), signal) },
            None => self.keep.step(now(), cause, look),
        })
    }

    /// Time has passed, for one that ends.
    fn wait_on(&mut self) -> ControlFlow<Exit> {
        let response = self.respond(&Cause::Timer, None).unwrap_or_default();
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

    fn end(&self, exit: Exit) -> Exit {
        if self.ends() {
            if exit == Exit::Opened {
                return exit;
            }
            return self.service.last_words.leave(exit, &self.ending.sentence(exit), self.keep.verdict());
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
