// SPDX-License-Identifier: Apache-2.0
//! From a seed to a life: what happens on a node, and when. The words are those of tests/vm/guest/life.

use std::fmt::Write;

/// What is installed beside the driver, or the loop that is there instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The driver's own entrypoint: it builds, and calls modprobe once. Nobody waits for MOFED.
    Bare,
    /// An init container that polls for the marker each 5 s, as k8s-driver-manager does.
    Poll,
    /// The same, and nvidia-peermem-ctr's loop as a sidecar.
    Ctr,
    /// `wait` as an init container, once a pod.
    Init,
    /// Nobody waits, and nobody but `keep --rebuild auto` as a sidecar loads nvidia-peermem.
    Sidecar,
    /// The node's keeper beside Ubuntu's script. k8s-driver-manager waits for the marker here and in the next four.
    NodeUbuntu,
    /// Beside RHEL's script, which ends if nvidia-peermem is refused.
    NodeRhel,
    /// Beside nvidia-peermem-ctr.
    NodeCtr,
    /// Beside Ubuntu's script and a job that uses the driver, so each new container takes the fast path.
    NodeFast,
    /// On `OpenShift`: the compiler and the kernel's headers are in the driver toolkit's container.
    NodeOcp,
    /// With a driver of the host's.
    NodeHost,
    /// Beside any script, with k8s-driver-manager's own wait turned off.
    NodeParallel,
}

impl Place {
    pub(crate) const ALL: [Self; 12] = [
        Self::Bare,
        Self::Poll,
        Self::Ctr,
        Self::Init,
        Self::Sidecar,
        Self::NodeUbuntu,
        Self::NodeRhel,
        Self::NodeCtr,
        Self::NodeFast,
        Self::NodeOcp,
        Self::NodeHost,
        Self::NodeParallel,
    ];

    /// As the guest calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Poll => "poll",
            Self::Ctr => "ctr",
            Self::Init => "init",
            Self::Sidecar => "sidecar",
            Self::NodeUbuntu => "nodeubuntu",
            Self::NodeRhel => "noderhel",
            Self::NodeCtr => "nodectr",
            Self::NodeFast => "nodefast",
            Self::NodeOcp => "nodeocp",
            Self::NodeHost => "nodehost",
            Self::NodeParallel => "nodeparallel",
        }
    }

    /// As tables and pictures call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "the driver's entrypoint",
            Self::Poll => "a loop for the marker",
            Self::Ctr => "nvidia-peermem-ctr's loop",
            Self::Init => "wait as init container",
            Self::Sidecar => "a sidecar keep --rebuild auto",
            Self::NodeUbuntu => "keeper, Ubuntu's script",
            Self::NodeRhel => "keeper, RHEL's script",
            Self::NodeCtr => "keeper, nvidia-peermem-ctr",
            Self::NodeFast => "keeper, fast path",
            Self::NodeOcp => "keeper, OpenShift",
            Self::NodeHost => "keeper, driver on the host",
            Self::NodeParallel => "keeper, parallel boot",
        }
    }

    /// `wait` stands before the build.
    pub(crate) fn waits_by_gate(self) -> bool {
        self == Self::Init
    }

    /// The container in which it waits.
    pub(crate) const WAITS_IN: &str = "init";

    /// A `DaemonSet`'s keeper is on the node.
    pub(crate) fn has_keeper(self) -> bool {
        self.word().starts_with("node")
    }

    /// `--rebuild auto` is somewhere.
    pub(crate) fn rebuilds(self) -> bool {
        self == Self::Sidecar || self.has_keeper()
    }

    /// The gate runs modprobe in this container.
    pub(crate) fn is_loader(self, container: &str) -> bool {
        match container {
            "keeper" => true,
            "sidecar" => self == Self::Sidecar,
            _ => false,
        }
    }

    /// The containers are `OpenShift`'s, where a driver of this kind is planned.
    fn is_openshift(self, kind: &str) -> bool {
        match self {
            Self::NodeOcp => true,
            Self::NodeUbuntu | Self::NodeRhel | Self::NodeFast | Self::NodeHost => false,
            _ => kind == "ocp",
        }
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// `GPUDirect` RDMA is used there.
    Used,
    /// It has no NIC.
    Nicless,
    /// `GPU_DIRECT_RDMA_ENABLED=false`.
    Unrequested,
    /// No MOFED ever comes.
    Unmanaged,
}

impl Node {
    /// Where nothing is to be loaded.
    const IDLE: [Self; 3] = [Self::Nicless, Self::Unrequested, Self::Unmanaged];

    /// As the guest calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Nicless => "nicless",
            Self::Unrequested => "unrequested",
            Self::Unmanaged => "unmanaged",
        }
    }

    /// As tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Used => "loaded",
            Self::Nicless => "no NIC",
            Self::Unrequested => "RDMA not requested",
            Self::Unmanaged => "MOFED never comes",
        }
    }
}

/// Which lives a run plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Each seed is a plan of its own, in a place that the seed decides.
    Each,
    /// Each plan is played in every place: who are compared have the same lives.
    Paired,
}

/// A life to be played.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    /// What befalls the node: paired lives share it.
    pub(crate) plan: u64,
    pub(crate) place: Place,
    pub(crate) node: Node,
    /// Shell functions and a call for each of its parts: where the node reboots, one ends and the next begins.
    pub(crate) parts: Vec<String>,
}

/// How often of a hundred.
const ONLY_GO: u64 = 55;
const ONLY_BASH: u64 = 25;
const STORAGE: u64 = 10;

/// Seconds from one of these ranges.
type Ranges = &'static [(f64, f64)];

impl Life {
    pub(crate) fn of(seed: u64, selection: Selection) -> Self {
        let places = Place::ALL.len() as u64;
        let mut place = Place::ALL[usize::try_from(seed % places).expect("a small number")];
        let (plan, node) = match selection {
            Selection::Each => (seed, idle(seed)),
            Selection::Paired => (seed / places, Node::Used),
        };
        // The service is what stays on a node where nothing is to be loaded.
        if node != Node::Used {
            let services = [Place::Sidecar, Place::NodeUbuntu, Place::NodeHost];
            place = services[usize::try_from(plan / 36 % 3).expect("a small number")];
        }
        let mut chance = Chance(plan);
        let stack = match chance.below(100) {
            share if share < STORAGE => "storage",
            // Where a NIC is on the bus, udev has loaded its driver.
            _ if node == Node::Nicless => "none",
            _ => "intree",
        };
        let kind = match chance.below(100) {
            share if share < 50 => "vanilla",
            share if share < 80 => "ocp",
            _ => "host",
        };
        let mut parts = Vec::new();
        for end in ends(&mut chance, plan) {
            let tracks = tracks(&mut chance, plan, place, node, kind);
            let after = chance.seconds(&[(1.0, 30.0), (30.0, 200.0)]);
            parts.push(format!("{tracks}live_until {after:.3} {end} {stack} {}\n", node.word()));
        }
        let tracks = tracks(&mut chance, plan, place, node, kind);
        parts.push(format!("{tracks}live {stack} {}\n", node.word()));
        Self { seed, plan, place, node, parts }
    }
}

// What a few lives in a row must have is decided by the seed itself: by a remainder of a number that has no divisor
// in common with the number of places, or a place would always have it and another never.

/// One life of twelve is that of a node where nothing is to be loaded: in turn one of those without a keeper, so a
/// few lives in a row have all of the keeper's places.
fn idle(seed: u64) -> Node {
    let places = Place::ALL.len() as u64;
    let others = Place::ALL.iter().filter(|place| !place.has_keeper()).count() as u64;
    if seed % places == seed / places % others {
        Node::IDLE[usize::try_from(seed / places % 3).expect("a small number")]
    } else {
        Node::Used
    }
}

/// How the parts of a life end, except for the last. Of seven lives two have a reset, and some more have two.
fn ends(chance: &mut Chance, plan: u64) -> Vec<&'static str> {
    const ENDS: [&str; 2] = ["reboot_node", "cut_power"];
    match plan % 7 {
        2 => vec![ENDS[0]],
        5 => vec![ENDS[1]],
        _ if chance.of(5) => vec![chance.one_of(&ENDS), chance.one_of(&ENDS)],
        _ => Vec::new(),
    }
}

/// What goes on side by side, as functions of these names.
pub(crate) const TRACKS: [&str; 9] =
    ["mofeds", "pods", "keepers", "resets", "watchers", "clocks", "suspends", "freezes", "restarts"];

fn tracks(chance: &mut Chance, plan: u64, place: Place, node: Node, kind: &str) -> String {
    let has_mofed = matches!(node, Node::Used | Node::Unrequested);
    let steps = [
        if has_mofed { mofeds(chance) } else { Vec::new() },
        pods(chance, place, kind),
        keepers(chance, plan, place),
        if node == Node::Nicless { Vec::new() } else { resets(chance) },
        watchers(chance),
        clocks(chance),
        suspends(chance, plan),
        freezes(chance, plan),
        restarts(chance, plan),
    ];
    let platform = if place.is_openshift(kind) { "ocp" } else { "whole" };
    let mut script = format!("export PLATFORM={platform}\n");
    for (track, steps) in TRACKS.iter().zip(steps) {
        let _ = writeln!(script, "{track}() {{\n    :\n{}}}", steps.concat());
    }
    script
}

fn step(after: f64, what: &str) -> String {
    format!("    after {after:.3} {what}\n")
}

/// MOFED's containers: some that are killed or stopped at any point, and one that stays.
fn mofeds(chance: &mut Chance) -> Vec<String> {
    let style = chance.below(100);
    let mut generation = if chance.of(50) { "old" } else { "new" };
    let mut steps = Vec::new();
    let interrupted = chance.below(4);
    for number in 0..=interrupted {
        let after = chance.seconds(&[(0.2, 3.0), (3.0, 20.0), (20.0, 60.0)]);
        if number > 0 && chance.of(40) {
            generation = if generation == "old" { "new" } else { "old" };
        }
        let is_go = match style {
            share if share < ONLY_GO => true,
            share if share < ONLY_GO + ONLY_BASH => false,
            _ => chance.of(50),
        };
        let build = chance.seconds(&[(0.1, 1.0), (2.0, 20.0), (20.0, 60.0)]);
        let entrypoint = entrypoint(chance, is_go, generation, build);
        let what = if number == interrupted {
            format!("last_container {entrypoint}")
        } else {
            let how = if chance.of(60) { "kill" } else { "term" };
            let lasts = if chance.of(50) {
                // Around the swap of the modules, which is short.
                build + chance.seconds(&[(0.0, 12.0)])
            } else {
                chance.seconds(&[(0.0, 5.0), (0.0, 60.0), (30.0, 150.0)])
            };
            format!("container {how} {lasts:.3} {entrypoint}")
        };
        steps.push(step(after, &what));
    }
    steps
}

fn entrypoint(chance: &mut Chance, is_go: bool, generation: &str, build: f64) -> String {
    let yes = |chance: &mut Chance, share| if chance.of(share) { "yes" } else { "no" };
    let kind = if is_go { "go" } else { "bash" };
    let unload_storage = yes(chance, 40);
    let flash = if is_go { yes(chance, 12) } else { "no" };
    let mut setting = |name: &str, ranges: Ranges| format!(" {name}={:.3}", chance.seconds(ranges));
    let mut text =
        format!("{kind} {generation} build={build:.3} unload_storage={unload_storage} flash={flash}");
    text += &setting("listing", &[(0.05, 0.2), (0.2, 0.7)]);
    text += &setting("prepare", &[(0.1, 1.0), (2.0, 30.0)]);
    text += &setting("step", &[(0.0, 0.06), (0.0, 0.5)]);
    text += &setting("restore", &[(0.05, 0.13), (1.0, 15.0)]);
    text += &setting("hiding", &[(0.2, 0.6)]);
    let _ = write!(text, " going_ms={} coming_ms={}", chance.below(3000), chance.below(3000));
    text
}

/// The driver's pods: some that are killed, and one that stays.
fn pods(chance: &mut Chance, place: Place, kind: &str) -> Vec<String> {
    let killed = chance.below(3);
    let pod = |number| {
        let after = chance.seconds(&[(0.5, 5.0), (5.0, 40.0), (40.0, 100.0)]);
        let looks = chance.seconds(&[(2.0, 20.0)]);
        let compiles = chance.seconds(&[(2.0, 30.0), (120.0, 240.0)]);
        let lasts = chance.seconds(&[(5.0, 40.0), (40.0, 120.0)]);
        let stops = chance.seconds(&[(0.3, 1.0), (1.0, 4.0)]);
        let settings =
            format!("{} {kind} looks={looks:.3} compiles={compiles:.3} stops={stops:.3}", place.word());
        let what = if number == killed {
            format!("last_pod {settings}")
        } else {
            format!("pod {lasts:.3} {settings}")
        };
        step(after, &what)
    };
    (0..=killed).map(pod).collect()
}

/// The node's keeper starts with the node, or is installed later. In some lives it is killed, perhaps in a build,
/// stands still, or another one takes its place, at once or long after it was uninstalled.
fn keepers(chance: &mut Chance, plan: u64, place: Place) -> Vec<String> {
    let starts = chance.seconds(&[(0.0, 3.0), (0.0, 3.0), (20.0, 90.0)]);
    let mut steps = vec![step(starts, &format!("keeper {} always", place.word()))];
    let count = if matches!(plan % 5, 1 | 4) { 1 + chance.below(2) } else { u64::from(chance.of(15)) };
    for _ in 0..count {
        let after = chance.seconds(&[(0.5, 30.0), (30.0, 120.0)]);
        let away = chance.seconds(&[(0.5, 10.0), (10.0, 60.0)]);
        let what = match chance.below(4) {
            0 => "kill_keeper".to_owned(),
            1 => format!("freeze_keeper {away:.3}"),
            2 => format!("upgrade_keeper {} {away:.3}", place.word()),
            _ => {
                format!("uninstall_keeper {} {:.3}", place.word(), away + chance.seconds(&[(60.0, 300.0)]))
            }
        };
        steps.push(step(after, &what));
    }
    steps
}

fn resets(chance: &mut Chance) -> Vec<String> {
    let count = chance.below(3);
    let reset = |_| {
        let after = chance.seconds(&[(2.0, 30.0), (30.0, 90.0)]);
        step(after, &format!("reset {:.3}", chance.seconds(&[(0.1, 2.0), (2.0, 8.0)])))
    };
    (0..count).map(reset).collect()
}

/// Once or twice in a life, all that wait before a build begin side by side.
fn watchers(chance: &mut Chance) -> Vec<String> {
    let count = 1 + chance.below(2);
    let watch = |number| {
        let after = chance.seconds(&[(0.5, 10.0), (10.0, 40.0), (40.0, 90.0)]);
        step(after, &format!("watch_with_loops {number} {:.3}", chance.seconds(&[(2.0, 30.0)])))
    };
    (1..=count).map(watch).collect()
}

/// In some lives somebody sets the node's clock, ahead or back: by seconds, as a time service does that has just
/// begun, or by up to a day.
fn clocks(chance: &mut Chance) -> Vec<String> {
    let count = chance.below(3);
    let set = |_| {
        let after = chance.seconds(&[(0.5, 30.0), (30.0, 120.0)]);
        step(
            after,
            &format!("set_clock {:.0}", chance.seconds(&[(-86_400.0, 0.0), (-30.0, 30.0), (0.0, 86_400.0)])),
        )
    };
    (0..count).map(set).collect()
}

/// The node sleeps, in one of five lives or more: for a moment, or for hours.
fn suspends(chance: &mut Chance, plan: u64) -> Vec<String> {
    let count = if plan % 5 == 3 { 1 + chance.below(2) } else { u64::from(chance.of(10)) };
    let suspend = |_| {
        let after = chance.seconds(&[(0.5, 30.0), (30.0, 120.0)]);
        step(
            after,
            &format!("suspend {:.0}", chance.seconds(&[(1.0, 30.0), (60.0, 1200.0), (3600.0, 36_000.0)])),
        )
    };
    (0..count).map(suspend).collect()
}

/// A container stands still for a while, and does not know it: one of those that run then.
fn freezes(chance: &mut Chance, plan: u64) -> Vec<String> {
    let count = if matches!(plan % 7, 1 | 3) { 1 + chance.below(3) } else { u64::from(chance.of(10)) };
    let freeze = |_| {
        let after = chance.seconds(&[(0.5, 10.0), (10.0, 60.0)]);
        let lasts = chance.seconds(&[(0.05, 2.0), (2.0, 20.0), (20.0, 90.0)]);
        step(after, &format!("freeze {} {lasts:.3}", chance.below(60)))
    };
    (0..count).map(freeze).collect()
}

/// A container that runs then is ended, and the kubelet starts it again.
fn restarts(chance: &mut Chance, plan: u64) -> Vec<String> {
    let count = if matches!(plan % 5, 0 | 2) { 1 + chance.below(4) } else { u64::from(chance.of(10)) };
    let restart = |_| {
        let after = chance.seconds(&[(0.5, 10.0), (10.0, 60.0)]);
        step(after, &format!("restart {} {}", chance.below(60), chance.one_of(&["TERM", "KILL"])))
    };
    (0..count).map(restart).collect()
}

/// `SplitMix64`: a sequence that the seed alone decides, on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True in so many of a hundred.
    fn of(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[usize::try_from(self.below(all.len() as u64)).expect("a small number")]
    }

    /// Evenly from one of these ranges, in steps of a millisecond.
    fn seconds(&mut self, ranges: Ranges) -> f64 {
        let count = ranges.len() as u64;
        let (from, to) = ranges[usize::try_from(self.below(count)).expect("a small number")];
        #[expect(clippy::cast_precision_loss, reason = "a million is exact")]
        let share = self.below(1_000_000) as f64 / 1e6;
        from + (to - from) * share
    }
}

pub(crate) fn the_same_seed_is_the_same_life() {
    let parts = |seed| Life::of(seed, Selection::Each).parts;
    assert_eq!(parts(7), parts(7));
    assert_ne!(parts(7), parts(7 + Place::ALL.len() as u64));
}

pub(crate) fn any_eighteen_lives_have_each_kind_of_event() {
    for first in 0..200 {
        let lives: Vec<_> = (first..first + 18).map(|seed| Life::of(seed, Selection::Each)).collect();
        let script: String = lives.iter().flat_map(|life| life.parts.clone()).collect();
        for event in [
            "reboot_node",
            "cut_power",
            " suspend ",
            " freeze ",
            " restart ",
            " set_clock ",
            " reset ",
            "_keeper",
        ] {
            assert!(script.contains(event), "no{event}from seed {first}");
        }
        assert!(lives.iter().any(|life| life.node != Node::Used), "from seed {first}");
        for place in Place::ALL.iter().filter(|place| place.has_keeper()) {
            let is_there = lives.iter().any(|life| life.place == *place && life.node == Node::Used);
            assert!(is_there, "no {} from seed {first}", place.name());
        }
    }
}

pub(crate) fn paired_lives_differ_in_the_place_alone() {
    let lives: Vec<_> = (36..48).map(|seed| Life::of(seed, Selection::Paired)).collect();
    let without_place = |life: &Life| -> Vec<String> {
        let word = format!(" {} ", life.place.word());
        let without =
            |part: &String| part.replace(&word, " PLACE ").replace("PLATFORM=ocp", "PLATFORM=whole");
        life.parts.iter().map(without).collect()
    };
    for (life, place) in lives.iter().zip(Place::ALL) {
        assert_eq!((life.place, without_place(life)), (place, without_place(&lives[0])));
    }
    assert_ne!(without_place(&Life::of(48, Selection::Paired)), without_place(&lives[0]));
}
