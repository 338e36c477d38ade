// SPDX-License-Identifier: Apache-2.0
//! The GPU driver's pod: k8s-driver-manager as its init container, the driver's container, and the kubelet that
//! starts that again (gpu-driver-container, `nvidia-driver`, `ocp_dtk_entrypoint`; k8s-driver-manager, `main.go`).

use super::eyes::Eyes;
use super::gated::Gated;
use super::keeper::{Keeper, patience};
use super::laws::{Fault, Sight};
use super::memory::Moment;
use super::node::{File, Files, Node, Stack};
use super::{Life, Pace, TICK, age};
use peermem_gate::ready::time::BootTime;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Who makes the build wait for MOFED.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    /// Nobody: a driver without an operator, or a parallel boot (docs/heal.md).
    Nobody,
    /// k8s-driver-manager v0.9.0: /proc/modules has `mlx5_core`, which the kernel's own satisfies
    /// (k8s-driver-manager#123).
    ManagerOfIncident,
    /// k8s-driver-manager v0.9.1 and later: the marker exists.
    Manager,
    /// `peermem-gate wait`.
    Gate(Box<Gated>),
    /// The same, before its process has started: only a replay knows the difference.
    Unstarted(Box<Gated>),
}

/// Who loads nvidia-peermem in the driver's container.
#[derive(Clone, Debug)]
pub(crate) enum Loads {
    /// Nobody: a sidecar does.
    Nobody,
    /// RHEL's script calls modprobe, and ends if that fails.
    Modprobe,
    /// Ubuntu's goes on.
    GoesOn,
    /// modprobe again and again.
    Retry,
    /// `peermem-gate load`, or the shim: as this one.
    Gate(Box<Keeper>),
}

/// A step of the pod, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It looks whether it may go on, or goes on.
    On,
    /// The container ends, and its root with it. The pod stays.
    Crash,
    /// The kubelet starts the container again.
    Restart,
    /// A person deletes the pod.
    Replace,
}

/// How far the pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Its init container waits.
    Init,
    /// The container has started. Where the gate is a wrapper, it waits here.
    Started,
    /// Its build is about to look for MOFED's headers.
    Building,
    /// It compiles what it has found.
    Compiling(File),
    /// The modules are installed: nvidia comes first.
    Built,
    /// nvidia is loaded: nvidia-peermem comes next.
    Loading,
    /// modprobe nvidia-peermem failed, and `set -e` ends the script.
    Failed,
    /// `.driver-ctr-ready`.
    Ready,
    /// k8s-driver-manager or the container's trap unloads the driver: `nvidia_peermem` first, then nvidia.
    Leaving(Leaving),
    /// The container has ended, and its trap has unloaded nvidia.
    Ended,
}

/// An unload of the driver that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leaving {
    /// The marker and MOFED's modules at its beginning, if it has unloaded `nvidia_peermem`.
    unloaded: Option<(Option<u8>, Stack)>,
    /// The pod is replaced. Otherwise its container ends.
    is_replaced: bool,
}

/// The pod.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, and each comes and goes alone")]
pub(crate) struct Driver {
    pub(crate) phase: Phase,
    pub(crate) wait: Wait,
    /// The gate wraps the container, so it waits before each start; otherwise once a pod, as an init container.
    pub(crate) is_wrapped: bool,
    pub(crate) loads: Loads,
    /// `OpenShift`: the driver toolkit builds once a pod, and each start of the container takes what it built.
    pub(crate) has_toolkit: bool,
    /// GPU Operator 26.3 and later: with nvidia loaded and an equal digest, neither k8s-driver-manager nor the
    /// container unloads, builds or loads anything (gpu-driver-container 85678ce).
    pub(crate) has_fast_path: bool,
    /// RHEL's order of rmmod: nvidia is refused while `nvidia_peermem` is live, and `nvidia_uvm` is gone by then.
    pub(crate) is_rhel: bool,
    /// Its script makes `.driver-daemons-status` (GPU Operator 26.7 and later). `.driver-ctr-ready` comes a minute
    /// later, and no life here lasts as long.
    pub(crate) has_daemons_file: bool,
    /// The node's keeper has written its line in the container's modprobe.d (owner.rs).
    pub(crate) has_line: bool,
    /// Where a keeper serves the node: when the script took its lock. Until its modprobe, seconds pass.
    pub(crate) locked: Option<BootTime>,
    /// Each container has a root of its own. In older traces what is kept is kept in the host's root.
    pub(crate) has_own_root: bool,
    /// To unload the driver takes time.
    pub(crate) leaves: bool,
    /// `/run/nvidia/nvidia-driver.state`.
    pub(crate) has_state: bool,
    /// MOFED was ready and the NIC there when the wait ended, or the contract excuses it. What comes before the
    /// build, no wait can help: `load` finds the stub.
    pub(crate) was_ready: bool,
    /// When it came to its phase, if that counts.
    pub(crate) since: BootTime,
}

impl Driver {
    pub(crate) fn new(phase: Phase, wait: Wait) -> Self {
        Self {
            phase,
            wait,
            is_wrapped: false,
            loads: Loads::Nobody,
            has_toolkit: false,
            has_fast_path: false,
            is_rhel: false,
            has_daemons_file: false,
            has_line: false,
            locked: None,
            has_own_root: true,
            leaves: false,
            has_state: phase == Phase::Ready,
            was_ready: phase == Phase::Ready,
            since: BootTime::ZERO,
        }
    }

    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        let Self { phase, wait, is_wrapped, loads, has_toolkit, has_fast_path, .. } = self;
        (phase, is_wrapped, has_toolkit, has_fast_path, self.has_state, self.was_ready).hash(state);
        std::mem::discriminant(loads).hash(state);
        (self.has_line, self.locked.map(|since| moment.age(since, TICK))).hash(state);
        (self.phase == Phase::Ended).then(|| moment.age(self.since, TICK)).hash(state);
        matches!(self.phase, Phase::Leaving(_)).then(|| moment.age(self.since, Duration::MAX)).hash(state);
        if let Wait::Gate(gate) = wait {
            self.is_waiting().then(|| gate.hash_at(moment, state));
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.phase == if self.is_wrapped { Phase::Started } else { Phase::Init }
    }

    /// It acts at that time at the latest. Most things take as long as they take.
    pub(crate) fn latest(&self, pace: &Pace) -> Option<BootTime> {
        match &self.wait {
            Wait::Gate(gate) if self.is_waiting() => gate.latest(),
            _ if self.phase == Phase::Built => Some(self.since + pace.nvidia.1?),
            _ if matches!(self.phase, Phase::Leaving(_)) => Some(self.since + pace.leaves.1?),
            _ => None,
        }
    }

    /// The next time that the gate waits for.
    pub(crate) fn due(&self) -> Option<BootTime> {
        match &self.wait {
            Wait::Gate(gate) if self.is_waiting() => gate.gate.next_look(),
            _ => None,
        }
    }

    pub(crate) fn wake(&mut self, due: BootTime) {
        if let Wait::Gate(gate) = &mut self.wait {
            gate.wake(due);
        }
    }

    fn begins_to_wait(&mut self, now: BootTime) {
        if let Wait::Gate(gate) = &mut self.wait {
            **gate = gate.again(now);
        }
    }

    /// Its containers are new, and what was in memory is gone.
    pub(crate) fn after_boot(mut self, now: BootTime) -> Self {
        self.begins_to_wait(now);
        Self { phase: Phase::Init, has_state: false, ..self }
    }

    fn takes_fast_path(&self, node: &Node) -> bool {
        self.has_fast_path && self.has_state && node.has_nvidia
    }
}

impl Life {
    pub(super) fn driver_steps(&self, steps: &mut Vec<super::Step>) {
        let Some(driver) = &self.driver else { return };
        let node = &self.node;
        let may_go_on = match (driver.phase, &driver.wait) {
            (_, Wait::Unstarted(_)) if driver.is_waiting() => false,
            (_, Wait::Gate(gate)) if driver.is_waiting() => gate.may_look(self.now),
            (Phase::Init, Wait::ManagerOfIncident) => node.stack.nic.is_some(),
            (Phase::Init, Wait::Manager) => node.marker.is_some() || driver.takes_fast_path(node),
            (Phase::Loading, _) => match &driver.loads {
                Loads::Gate(_) => self.keeper.as_ref().is_some_and(|keeper| keeper.ended().is_some()),
                Loads::Nobody => true,
                Loads::Modprobe | Loads::GoesOn | Loads::Retry => self.may_ask(driver),
            },
            (Phase::Ready | Phase::Ended, _) => false,
            // It stops its daemons first.
            (Phase::Leaving(_), _) => !driver.is_rhel || age(driver.since, self.now) >= TICK,
            _ => true,
        };
        let offered = [
            (Step::On, may_go_on),
            (Step::Crash, driver.phase == Phase::Ready && self.budget.crashes > 0),
            (Step::Restart, driver.phase == Phase::Ended && age(driver.since, self.now) >= self.pace.restart),
            (Step::Replace, matches!(driver.phase, Phase::Ready | Phase::Ended) && self.budget.pods > 0),
        ];
        steps.extend(offered.into_iter().filter(|(_, may)| *may).map(|(step, _)| super::Step::Driver(step)));
    }

    /// The pod takes this step.
    pub(super) fn driver(&mut self, step: Step) {
        let Some(mut driver) = self.driver.take() else { return };
        match step {
            Step::On => self.driver_goes_on(&mut driver),
            Step::Crash => {
                self.budget.crashes -= 1;
                self.driver_ends(&mut driver);
            }
            Step::Restart => {
                driver.phase = Phase::Started;
                if driver.is_wrapped {
                    driver.begins_to_wait(self.now);
                } else {
                    // Init containers do not run again, so nobody waits.
                    driver.was_ready = matches!(driver.wait, Wait::Nobody);
                }
            }
            Step::Replace => {
                self.budget.pods -= 1;
                // preStop.
                (self.node.is_driver_ready, self.node.daemons) = (false, None);
                // Its volume is gone, and with it what the toolkit built.
                self.node.files.toolkit = None;
                self.keeper_leaves(&driver.loads);
                self.keeper = self.keeper.take().map(|keeper| keeper.in_another_pod(self.now));
                if driver.takes_fast_path(&self.node) {
                    driver.phase = Phase::Init;
                    driver.begins_to_wait(self.now);
                } else {
                    self.driver_leaves(&mut driver, true);
                }
            }
        }
        self.driver = Some(driver);
    }

    fn driver_goes_on(&mut self, driver: &mut Driver) {
        match driver.phase {
            Phase::Init if driver.is_wrapped => {
                driver.phase = Phase::Started;
                driver.begins_to_wait(self.now);
            }
            Phase::Init => {
                if self.opens(driver) {
                    driver.phase = Phase::Started;
                }
            }
            Phase::Started if driver.is_wrapped => {
                if self.opens(driver) {
                    self.driver_starts(driver);
                }
            }
            Phase::Started => self.driver_starts(driver),
            Phase::Building => {
                // `_gpu_direct_rdma_enabled`: without a NIC no headers are linked.
                let headers = self.node.headers.filter(|_| self.node.has_nic);
                let found = headers.map_or(File::Stub, File::Built);
                driver.phase = Phase::Compiling(found);
                if found == File::Stub && !driver.was_ready {
                    self.fails(Fault::StubBuilt);
                }
            }
            Phase::Compiling(found) => {
                self.node.files.toolkit = driver.has_toolkit.then_some(found);
                self.driver_installs(driver, found);
            }
            Phase::Built => {
                self.node.nvidia =
                    if self.node.has_nvidia { self.node.nvidia } else { self.node.nvidia % 3 + 1 };
                (self.node.has_nvidia, driver.has_state) = (true, true);
                driver.phase = Phase::Loading;
                if matches!(driver.loads, Loads::Nobody) {
                    self.is_driver_ready(driver);
                }
                if let Loads::Gate(keeper) = &driver.loads {
                    self.keeper = Some(keeper.afresh(self.now));
                }
            }
            Phase::Loading => self.driver_loads(driver),
            Phase::Failed => self.driver_ends(driver),
            Phase::Leaving(leaving) => self.driver_left(driver, leaving.is_replaced),
            Phase::Ready | Phase::Ended => {}
        }
    }

    fn driver_starts(&mut self, driver: &mut Driver) {
        let files = self.node.files;
        driver.has_line = false;
        self.node.daemons = (driver.has_daemons_file && self.has_service()).then_some(false);
        driver.locked = self.has_service().then_some(self.now);
        self.node.is_root_hidden = self.has_service();
        if driver.takes_fast_path(&self.node) {
            // A new root, in which nothing is built.
            self.node.files = Files { has_sources: false, ..Node::BARE };
            self.is_driver_ready(driver);
            return;
        }
        self.unload_driver();
        if self.node.peermem.is_some() {
            self.driver_ends(driver);
            return;
        }
        let kept = files.toolkit.filter(|_| driver.has_toolkit);
        if kept.is_none() || driver.has_own_root {
            // The container's root is new, and so are the gate's records in it.
            self.node.files = Files { toolkit: files.toolkit, ..Node::BARE };
        }
        match kept {
            Some(kept) => self.driver_installs(driver, kept),
            None => driver.phase = Phase::Building,
        }
    }

    fn driver_installs(&mut self, driver: &mut Driver, file: File) {
        self.node.files.driver = Some(file);
        (driver.phase, driver.since) = (Phase::Built, self.now);
    }

    fn driver_loads(&mut self, driver: &mut Driver) {
        let is_good = match &driver.loads {
            Loads::Nobody => true,
            Loads::Gate(_) => self.keeper.as_ref().is_some_and(|keeper| keeper.ended() == Some(0)),
            Loads::Modprobe | Loads::GoesOn | Loads::Retry => self.asks_modprobe(driver),
        };
        match &driver.loads {
            _ if is_good => self.is_driver_ready(driver),
            Loads::GoesOn => self.is_driver_ready(driver),
            Loads::Retry => {}
            Loads::Modprobe => {
                driver.phase = Phase::Failed;
                if self.node.is_owned {
                    self.fails(Fault::ScriptEnds);
                }
            }
            Loads::Nobody | Loads::Gate(_) => self.driver_ends(driver),
        }
    }

    fn is_driver_ready(&mut self, driver: &mut Driver) {
        (driver.phase, driver.locked) = (Phase::Ready, None);
        if driver.has_daemons_file {
            self.node.daemons = self.has_service().then_some(true);
        } else {
            self.node.is_driver_ready = self.has_service();
        }
        self.node.is_root_hidden = false;
    }

    /// The wait ends.
    fn opens(&mut self, driver: &mut Driver) -> bool {
        let (opens, was_unready) = match &mut driver.wait {
            Wait::Unstarted(_) => return false,
            Wait::Nobody => {
                driver.was_ready = true;
                return true;
            }
            Wait::ManagerOfIncident | Wait::Manager => {
                // Without a build nothing can come too early.
                if self.mofed.is_starting() && !driver.takes_fast_path(&self.node) {
                    self.fails(Fault::EarlyOpen);
                }
                (true, self.is_visibly_unready(Eyes::WAITER, false) || !self.node.has_nic)
            }
            Wait::Gate(gate) => match gate.look(self) {
                None => return false,
                Some((last, was_unready)) => {
                    if let Some(fault) = gate.watch.fault(self, last, was_unready) {
                        self.fails(fault);
                    }
                    // An ending is a failed container, which the kubelet starts again.
                    let opens = last.is_ok();
                    let is_excused = gate.watch.is_excused(last);
                    if !opens {
                        **gate = gate.again(self.now);
                    }
                    (opens, was_unready && !is_excused)
                }
            },
        };
        driver.was_ready = !was_unready;
        opens
    }

    /// `_unload_driver`, and k8s-driver-manager's: nothing is unloaded while a job uses it.
    pub(super) fn unload_driver(&mut self) {
        self.node.unloads_peermem();
        self.node.has_nvidia &= self.node.peermem.is_some();
    }

    /// Its trap unloads nvidia.
    fn driver_ends(&mut self, driver: &mut Driver) {
        self.keeper_leaves(&driver.loads);
        self.driver_leaves(driver, false);
    }

    fn driver_leaves(&mut self, driver: &mut Driver, is_replaced: bool) {
        if !driver.leaves {
            self.driver_left(driver, is_replaced);
            return;
        }
        let beside = (self.node.marker, self.node.stack);
        let unloaded = (!driver.is_rhel && self.node.unloads_peermem()).then_some(beside);
        (driver.phase, driver.since) = (Phase::Leaving(Leaving { unloaded, is_replaced }), self.now);
    }

    fn driver_left(&mut self, driver: &mut Driver, is_replaced: bool) {
        self.node.has_nvidia &= !matches!(driver.phase, Phase::Leaving(_)) || self.node.peermem.is_some();
        if driver.is_rhel && self.node.unloads_peermem() {
            self.fails(Fault::UvmLost);
        }
        if !matches!(driver.phase, Phase::Leaving(_)) {
            self.unload_driver();
        }
        driver.since = self.now;
        self.node.is_root_hidden = self.has_service();
        if is_replaced {
            driver.phase = Phase::Init;
            driver.begins_to_wait(self.now);
        } else {
            driver.phase = Phase::Ended;
        }
    }

    /// The driver is being unloaded, and neither the marker nor MOFED's modules are new since.
    pub(crate) fn is_leaving(&self) -> bool {
        let Some(Phase::Leaving(leaving)) = self.driver.as_ref().map(|driver| driver.phase) else {
            return false;
        };
        leaving.unloaded == Some((self.node.marker, self.node.stack))
    }

    pub(super) fn driver_notes(&mut self) {
        let Some(mut driver) = self.driver.take() else { return };
        let is_waiting = driver.is_waiting();
        if let Wait::Gate(gate) = &mut driver.wait
            && is_waiting
        {
            let is_unready = self.is_visibly_unready(gate.watch.eyes, gate.watch.is_believed(self.now));
            let is_ready = gate.watch.is_gone(self.now) || self.node.has_nic && !is_unready;
            if let Some(fault) = gate.watch.notes(self, is_ready, patience(0)) {
                self.fails(fault);
            }
        }
        self.driver = Some(driver);
    }
}

/// The driver's own nvidia-peermem.ko is a stub.
pub(crate) const STUB: Sight = ("a stub is built", |_, life| life.node.files.driver == Some(File::Stub));
/// The driver is unloaded by another process than `keep`.
pub(crate) const LEFT: Sight = ("the driver is unloaded", |_, life| {
    let is_gone = |driver: &Driver| matches!(driver.phase, Phase::Init | Phase::Ended);
    life.driver.as_ref().is_some_and(is_gone) && !life.node.has_nvidia
});
/// The driver is up.
pub(crate) const READY: Sight =
    ("the driver is ready", |_, life| life.driver.as_ref().is_some_and(Driver::is_ready));
