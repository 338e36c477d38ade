// SPDX-License-Identifier: Apache-2.0
//! The wait's memory of devices. A firmware reset (mstfwreset), hot-plug and the containment of PCI errors (DPC) take
//! a NIC off the bus for seconds, and the modules with it. A driver that is built meanwhile becomes a stub, because
//! NVIDIA's script asks for a device of vendor 0x15b3 (gpu-driver-container, `_gpu_direct_rdma_enabled`).

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::{Condition, Verdict};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A condition of a device, and its reasons: found; off the bus; none on this node.
const DEVICES: [(ConditionType, Reason, Reason, Reason); 2] = [
    (ConditionType::NicPresent, Reason::NicFound, Reason::NicAway, Reason::NoRdmaDevice),
    (
        ConditionType::ManagementDevicePresent,
        Reason::ManagementDeviceFound,
        Reason::ManagementDeviceAway,
        Reason::NoManagementDevice,
    ),
];

/// How often a device that is away is looked for. A longer time between two looks counts as this long: a container
/// that was frozen, or a node that was suspended, did not see the device away all that time.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The devices that were seen, in the order of [`DEVICES`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct DeviceMemory([ExpectedDevice; DEVICES.len()]);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ExpectedDevice {
    /// Why there must be one, in a clause.
    expected: Option<String>,
    away: Option<Away>,
}

/// A device that is off the bus.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Away {
    /// For how long looks have seen that.
    watched: Duration,
    last_look: BootTime,
    /// Away for the whole `--suspect-hold`: it counts as removed.
    is_removed: bool,
}

impl DeviceMemory {
    /// Takes in a look. A device that is expected and away keeps the gate closed until it is back, or was away for
    /// `hold`. Returns the verdict, and the device that counts as removed from now on.
    pub(super) fn remember(
        &mut self,
        verdict: Verdict,
        now: BootTime,
        hold: Duration,
    ) -> (Verdict, Option<Condition>) {
        let mut removed = None;
        for (device, (r#type, found, away, none)) in self.0.iter_mut().zip(DEVICES) {
            match verdict.get(r#type) {
                Some(seen) if seen.reason == found => {
                    let expected = Some(format!("seen before: {}", seen.message));
                    *device = ExpectedDevice { expected, away: None };
                }
                Some(seen) if seen.reason == away || seen.reason == none && device.expected.is_some() => {
                    device.expected.get_or_insert_with(|| "the node has a trace of MOFED".to_owned());
                    if device.is_removed_now(now, hold) {
                        removed = device.judge(seen, away, none);
                    }
                }
                // Time in which nothing can be told does not count.
                _ => device.away.iter_mut().for_each(|away| away.last_look = now),
            }
        }
        (self.recall(verdict), removed)
    }

    /// The verdict of a look, with what is remembered of the devices.
    pub(super) fn recall(&self, verdict: Verdict) -> Verdict {
        let devices = self.0.iter().zip(DEVICES);
        devices.fold(verdict, |verdict, (device, (r#type, _, away, none))| {
            match verdict.get(r#type).and_then(|seen| device.judge(seen, away, none)) {
                Some(condition) => verdict.replacing(condition),
                None => verdict,
            }
        })
    }

    /// When to look again for a device that is away.
    pub(super) fn next_look(&self, hold: Duration) -> Option<BootTime> {
        let away = self.0.iter().filter_map(|device| device.away).filter(|away| !away.is_removed);
        away.map(|away| away.last_look + LOOK_AGAIN.min(hold.saturating_sub(away.watched))).min()
    }
}

impl ExpectedDevice {
    /// One more look that does not see it. True when it counts as removed from this look on.
    fn is_removed_now(&mut self, now: BootTime, hold: Duration) -> bool {
        let away =
            self.away.get_or_insert(Away { watched: Duration::ZERO, last_look: now, is_removed: false });
        if away.is_removed {
            return false;
        }
        away.watched += now.saturating_sub(away.last_look).min(LOOK_AGAIN);
        away.last_look = now;
        away.is_removed = away.watched >= hold;
        away.is_removed
    }

    /// The condition of a device that is expected and was not seen by this look.
    fn judge(&self, seen: &Condition, away: Reason, none: Reason) -> Option<Condition> {
        let expected = self.expected.as_ref().filter(|_| [away, none].contains(&seen.reason))?;
        let condition =
            |reason, message| Condition::new(seen.r#type, reason, message).needed_by(seen.r#for.clone());
        match self.away {
            Some(gone) if gone.is_removed => {
                let watched = Seconds(gone.watched);
                let message = format!("off the PCI bus for {watched}, so it counts as removed; {expected}");
                Some(condition(none, message).exempting())
            }
            _ if seen.reason == away => None,
            _ => {
                let message = format!("off the PCI bus, as during a reset; {expected}");
                Some(condition(away, message))
            }
        }
    }
}
