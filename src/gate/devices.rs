// SPDX-License-Identifier: Apache-2.0
//! The gate's memory of devices: one that was seen once counts for the whole wait.

use crate::condition::{ConditionType, Reason};
use crate::verdict::{Condition, Verdict};

/// A condition of a device, and its reasons: found; not there now; not there, but seen before.
const DEVICES: [(ConditionType, Reason, Reason, Reason); 2] = [
    (ConditionType::NicPresent, Reason::NicFound, Reason::NoRdmaDevice, Reason::NicSeenBefore),
    (
        ConditionType::ManagementDevicePresent,
        Reason::ManagementDeviceFound,
        Reason::NoManagementDevice,
        Reason::ManagementDeviceSeenBefore,
    ),
];

/// The devices that were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    /// In the words of the look that saw them: as in [`DEVICES`].
    seen: [Option<String>; DEVICES.len()],
}

impl Devices {
    /// A NIC that was seen once counts for the whole wait: firmware resets (mstfwreset), hot-plug and the
    /// containment of PCI errors (DPC) take it off the bus for seconds, and the modules with it.
    pub(super) fn remember(&mut self, verdict: Verdict) -> Verdict {
        for (device, (r#type, found, ..)) in self.seen.iter_mut().zip(DEVICES) {
            if let Some(found) = verdict.get(r#type).filter(|c| c.reason == found) {
                *device = Some(found.message.clone());
            }
        }
        self.recall(verdict)
    }

    /// A device that is gone from this verdict counts as there, if it was seen before.
    pub(super) fn recall(&self, verdict: Verdict) -> Verdict {
        let devices = self.seen.iter().zip(DEVICES);
        devices.fold(verdict, |verdict, (device, (r#type, _, gone, seen_before))| {
            let is_gone = verdict.get(r#type).is_some_and(|c| c.reason == gone);
            match device.as_ref().filter(|_| is_gone) {
                Some(seen) => {
                    let message = format!("no longer on the bus, as during a reset; seen before: {seen}");
                    verdict.replacing(Condition::new(r#type, seen_before, message))
                }
                None => verdict,
            }
        })
    }
}
