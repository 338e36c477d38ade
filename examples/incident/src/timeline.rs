// SPDX-License-Identifier: Apache-2.0
//! What happens when: MOFED's side and the GPU side of the node.

use crate::clock::TimeOfDay;
use crate::contest::Who;
use crate::driver;
use crate::node::Origin::{InTree, Mofed};
use crate::node::State::{Coming, Going, Live};
use crate::stage::Stage;

/// Something that happens at one moment.
pub(crate) struct Step {
    pub(crate) at: TimeOfDay,
    pub(crate) side: &'static str,
    pub(crate) what: &'static str,
    pub(crate) does: fn(&mut Stage) -> anyhow::Result<()>,
}

/// One act.
pub(crate) struct Timeline {
    pub(crate) begins: TimeOfDay,
    pub(crate) steps: &'static [Step],
}

const fn step(
    (hours, minutes, seconds): (u64, u64, u64),
    side: &'static str,
    what: &'static str,
    does: fn(&mut Stage) -> anyhow::Result<()>,
) -> Step {
    Step { at: TimeOfDay::new(hours, minutes, seconds), side, what, does }
}

/// 21 November 2025, from the logs of that node. What lies between 11:56:08 and 11:57:55 is not in
/// them; the order is the one in which a real MOFED unloads and loads.
///
/// The waits start when that node's k8s-driver-manager ran, and the loop before modprobe when its
/// driver container had compiled.
pub(crate) const INCIDENT: Timeline = Timeline {
    begins: TimeOfDay::new(11, 51, 6),
    steps: &[
        step((11, 51, 6), "MOFED", "its container starts and clears its marker", |stage| {
            Ok(stage.node.clear_marker()?)
        }),
        step((11, 51, 13), "MOFED", "its build script starts", |_| Ok(())),
        step((11, 51, 23), "MOFED", "the compilation starts", |_| Ok(())),
        step(
            (11, 51, 41),
            "GPU",
            "a Mellanox device is here: wait for MOFED, each in its own way",
            |stage| {
                [Who::DriverManager, Who::InitContainer, Who::Gate]
                    .iter()
                    .try_for_each(|who| stage.start(*who))
            },
        ),
        step((11, 53, 43), "MOFED", "its build script ends", |_| Ok(())),
        step((11, 54, 0), "GPU", "let through by k8s-driver-manager: compiles nvidia-peermem", |stage| {
            stage.start(Who::Compiler)
        }),
        step((11, 56, 0), "GPU", "has compiled: the loop before modprobe starts", |stage| {
            stage.start(Who::LoopBeforeModprobe)
        }),
        step((11, 56, 8), "MOFED", "installs its packages, unloads the kernel's own modules", |stage| {
            Ok(stage.node.modules(InTree, &[("ib_core", Live), ("ib_uverbs", Live), ("mlx5_core", Going)])?)
        }),
        step((11, 56, 20), "MOFED", "the kernel's own modules are gone", |stage| {
            Ok(stage.node.modules(InTree, &[])?)
        }),
        step((11, 56, 30), "MOFED", "ib_core and ib_uverbs are live, mlx5_core is coming", |stage| {
            Ok(stage.node.modules(Mofed, &[("ib_core", Live), ("ib_uverbs", Live), ("mlx5_core", Coming)])?)
        }),
        step((11, 57, 55), "MOFED", "mlx5_core and mlx5_ib are live; restores SR-IOV", |stage| {
            Ok(stage.node.live(Mofed)?)
        }),
        step((11, 58, 38), "MOFED", "shows its headers", |stage| Ok(stage.node.show_headers()?)),
        step((11, 58, 39), "MOFED", "sets its marker", Stage::set_marker),
    ],
};

/// MOFED's container is killed, so nobody clears its marker or unmounts its headers; then the
/// kernel's own modules are loaded again, and the GPU driver's pod starts.
pub(crate) const STALE_MARKER: Timeline = Timeline {
    begins: TimeOfDay::new(0, 0, 0),
    steps: &[
        step((0, 0, 0), "MOFED", "is ready: modules, headers, marker", |stage| {
            stage.node.live(Mofed)?;
            stage.node.show_headers()?;
            stage.set_marker()
        }),
        step((0, 0, 10), "MOFED", "is killed: its marker and its headers stay", |_| Ok(())),
        step((0, 0, 20), "kernel", "its own modules are live again, without peer memory", |stage| {
            Ok(stage.node.live(InTree)?)
        }),
        step((0, 0, 30), "GPU", "the pod starts: wait for MOFED, each in its own way", |stage| {
            [Who::InitContainer, Who::HastyGate].iter().try_for_each(|who| stage.start(*who))
        }),
    ],
};

/// A boot on which nobody waits before the build: the driver and MOFED build at the same time. Beside
/// it, on the same clock, the driver that waits first.
pub(crate) const HEALED: Timeline = Timeline {
    begins: TimeOfDay::new(0, 0, 0),
    steps: &[
        step((0, 0, 0), "MOFED", "its container starts", |stage| Ok(driver::unpack(&stage.node)?)),
        step((0, 0, 5), "GPU", "one driver waits for MOFED, another compiles at once", |stage| {
            [Who::Waiter, Who::Rebuilder].iter().try_for_each(|who| stage.start(*who))
        }),
        step((0, 2, 20), "kernel", "loads nvidia, which the second driver has built", |stage| {
            Ok(stage.node.load_nvidia()?)
        }),
        step((0, 2, 30), "MOFED", "its modules are live", |stage| Ok(stage.node.live(Mofed)?)),
        step((0, 2, 40), "MOFED", "shows its headers, sets its marker", |stage| {
            stage.node.show_headers()?;
            stage.set_marker()
        }),
    ],
};
