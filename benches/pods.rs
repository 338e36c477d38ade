// SPDX-License-Identifier: Apache-2.0
//! What the gate adds to a pod: `cargo bench --bench pods`, as root, after image/build.
//!
//! The example pod on a ready node, with `--settle 0s`, in turn with the same pod whose init
//! container does nothing: the time in which podman starts each.

#[path = "../tests/containers/podman.rs"]
mod podman;
#[path = "../tests/support/mod.rs"]
mod support;

use podman::{BUSYBOX, IMAGE, Podman, lifted, replaced};
use std::time::{Duration, Instant};
use support::Node;

const PAIRS: usize = 50;

fn main() {
    let podman = Podman::new().expect("podman, as root");
    let node = Node::ready();
    let env = "      env: &env\n";
    let settle = format!("{env}        - name: PEERMEM_GATE_SETTLE\n          value: 0s\n");
    let gated = replaced(&lifted("examples/pod-test.yaml", &node), env, &settle);
    // The first image is the init container's.
    let nothing =
        gated.replacen(&format!("image: {IMAGE}"), &format!("image: {BUSYBOX}\n      args: [\"true\"]"), 1);

    let time = |yaml: &str| {
        let started = Instant::now();
        let mut pod = podman.play(yaml.to_owned());
        pod.assert_starts();
        let taken = started.elapsed();
        pod.remove();
        taken
    };
    // Nothing that is made once is counted.
    time(&gated);
    time(&nothing);
    let mut with = Vec::new();
    let mut without = Vec::new();
    let mut more = Vec::new();
    for pair in 0..PAIRS {
        // Who goes first changes, because the second finds what the first leaves behind.
        let turns = if pair % 2 == 0 { [&gated, &nothing] } else { [&nothing, &gated] };
        let mut times = turns.map(|yaml| ms(time(yaml)));
        if pair % 2 != 0 {
            times.reverse();
        }
        with.push(times[0]);
        without.push(times[1]);
        more.push(times[0] - times[1]);
    }
    report("the pod with an init container that does nothing: ms", without);
    report("the pod with the gate, all ready, --settle 0s: ms", with);
    report("of two that ran in turn, the one with the gate: ms more", more);
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The median, and in brackets the 10th and the 90th percentile.
fn report(what: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    let at = |percent: usize| figures[(figures.len() - 1) * percent / 100];
    println!("{what}: {:.1} ({:.1} to {:.1})", at(50), at(10), at(90));
}
