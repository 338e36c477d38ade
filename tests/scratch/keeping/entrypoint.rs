// SPDX-License-Identifier: Apache-2.0
//! MOFED's own entrypoint beside `keep`. It takes its lock, clears the marker, lists the modules, and calls
//! `rmmod nvidia_peermem` 0.1 to 0.7 s later: its start fails if the module has gone by then. Seconds later it takes
//! `ib_uverbs` away, and fails if that is still in use.
//!
//! `SWEEP=ROUNDS` plays all delays that often and prints the counts; `KEEP_BY=PATH` lets another build keep.

use super::Place;
use crate::support::{GATE, Gate, MARKER};
use std::ops::AddAssign;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// When MOFED takes `ib_uverbs` away, at the earliest.
const IB_UVERBS: Duration = Duration::from_secs(2);
/// From the marker to its rmmod, in milliseconds.
const DELAYS: [u64; 13] = [100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700];

#[derive(Clone, Copy, Default)]
struct Starts {
    /// The module was gone before MOFED's rmmod.
    collided: u32,
    /// The module still held `ib_uverbs` when MOFED took that away.
    held: u32,
}

impl AddAssign for Starts {
    fn add_assign(&mut self, other: Self) {
        self.collided += other.collided;
        self.held += other.held;
    }
}

/// A container starts and unloads the module after this delay, or never. It has set the marker at the end.
fn start(place: &Place, pid: usize, delay: Option<u64>) -> Starts {
    place.is_in("Loaded");
    place.node.hold_lock_by(pid);
    place.node.remove(MARKER);
    let cleared = Instant::now();
    let wait = |until: Duration| thread::sleep((cleared + until).saturating_duration_since(Instant::now()));
    let collided = delay.is_some_and(|delay| {
        wait(Duration::from_millis(delay));
        !place.unloads()
    });
    if place.is_loaded() {
        wait(IB_UVERBS);
    }
    let held = place.is_loaded();
    if held {
        place.unloads();
    }
    place.node.set_marker();
    Starts { collided: collided.into(), held: held.into() }
}

fn keep(place: &Place) -> Gate {
    let by = env::var_os("KEEP_BY").map_or_else(|| GATE.into(), PathBuf::from);
    Gate::start(&mut place.keep_by(&by, place.node.root()))
}

pub(super) fn keep_leaves_the_unload_to_a_new_mofed_container_and_is_not_late(place: &Place) {
    let _keep = keep(place);
    if let Some(rounds) = env::var("SWEEP").ok().and_then(|rounds| rounds.parse::<usize>().ok()) {
        return sweep(place, rounds);
    }
    let own = start(place, 4712, Some(700));
    assert_eq!((own.collided, own.held), (0, 0), "MOFED's own rmmod found the module");
    let none = start(place, 4713, None);
    assert_eq!(none.held, 0, "keep unloaded it before MOFED needed ib_uverbs");
}

/// Its driver goes with it. This does not show that MOFED swaps its modules, and has unloaded the module before.
pub(super) fn keep_leaves_the_unload_to_a_new_mofed_container_also_while_a_nic_is_reset(place: &Place) {
    let mut keep = keep(place);
    place.is_in("Loaded");
    place.node.hold_lock_by(4712);
    place.node.reset_nic();
    let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
    let others = modules.lines().filter(|line| !line.starts_with("mlx5_core "));
    place.node.write("next", others.map(|line| line.to_owned() + "\n").collect::<String>());
    place.node.rename("next", "proc/modules");
    place.node.remove("sys/module/mlx5_core");
    place.node.remove(MARKER);
    keep.logs("unloads nvidia_peermem itself: keep unloads it after 1.500 s if it is still loaded");
    assert!(place.unloads(), "MOFED's own rmmod finds it: {:#?}", keep.lines);
}

fn sweep(place: &Place, rounds: usize) {
    let mut pids = 5000..;
    let mut all = Starts::default();
    for delay in DELAYS.map(Some).into_iter().chain([None]) {
        let mut starts = Starts::default();
        for pid in pids.by_ref().take(rounds) {
            starts += start(place, pid, delay);
        }
        let delay = delay.map_or_else(|| "never".to_owned(), |delay| format!("{delay} ms"));
        eprintln!("rmmod {delay}: {} of {rounds} collided, {} held ib_uverbs", starts.collided, starts.held);
        all += starts;
    }
    let count = rounds * (DELAYS.len() + 1);
    eprintln!("{count} starts: {} failed, {} of them by a collision", all.collided + all.held, all.collided);
}
