// SPDX-License-Identifier: Apache-2.0
//! While the driver is being unloaded, nothing is loaded: an unload of `nvidia_peermem` by another process is an
//! order, and so is the end of a driver's container, which shows before its script unloads anything.

use super::Keep;
use crate::ready::condition::ConditionType;
use crate::ready::judge::swap::{DriverSigns, Presence, SwapCheck};
use crate::ready::observation::Identity;
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long an unload of the driver may take after its `rmmod nvidia_peermem`. k8s-driver-manager and the driver
/// container's EXIT trap then unload nvidia itself, which takes seconds for each GPU, and k8s-driver-manager tries
/// again after it has evicted the GPU pods.
pub const DRIVER_UNLOAD: Duration = Duration::from_secs(90);

/// An unload by another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnloadOrder {
    /// Until then nothing is loaded.
    until: BootTime,
    /// The marker and the modules beside which `nvidia_peermem` was live last.
    beside: Identity,
}

/// The memory of `keep` that outlives a restart in the same boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepMemory {
    /// The marker and the modules beside which `nvidia_peermem` was live last, while it is.
    live_beside: Option<Identity>,
    /// The order that is not over.
    order: Option<UnloadOrder>,
    /// Until when nothing is loaded, because the driver's container ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver_ends: Option<BootTime>,
    /// What the driver's container said at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver: Option<DriverSigns>,
}

/// A marker or module that was not there before: the order was not about this one.
fn is_new(before: &Identity, now: &Identity) -> bool {
    let has_new_marker = now.marker.is_some() && now.marker != before.marker;
    let is_new = |(name, inode): (&String, &u64)| before.modules.get(name) != Some(inode);
    has_new_marker || now.modules.iter().any(is_new)
}

impl Keep {
    /// How long an order lasts, for tests that count every moment.
    pub fn with_driver_unload(&mut self, duration: Duration) {
        self.driver_unload = duration;
    }

    /// The memory for a `keep` that starts later. One that is killed while it loads may have loaded the module.
    #[must_use]
    pub fn memory(&self) -> KeepMemory {
        let last_look = self.gate.last_look().filter(|_| self.is_loading);
        let loading = || last_look.map(|look| look.identity.clone());
        KeepMemory {
            live_beside: self.live_beside.clone().or_else(loading),
            order: self.order.clone(),
            driver_ends: self.driver_ends,
            driver: self.driver,
        }
    }

    /// Begins with the memory of the `keep` before, in the same boot.
    pub fn recall(&mut self, memory: KeepMemory) {
        // No order that this `keep` could give would last longer, whatever the file says.
        let latest = self.start + self.driver_unload;
        let order = memory.order.map(|order| UnloadOrder { until: order.until.min(latest), ..order });
        (self.live_beside, self.order) = (memory.live_beside, order);
        self.driver_ends = memory.driver_ends.map(|until| until.min(latest));
        self.driver = memory.driver;
    }

    /// Takes in what the driver's container says. The module is gone before its script unloads the driver: RHEL's
    /// script cannot unload nvidia while `nvidia_peermem` is live, and leaves a node without `nvidia_uvm`.
    pub(super) fn follow_driver(&mut self, now: BootTime, signs: Option<DriverSigns>) {
        self.driver_ends.take_if(|until| now >= *until);
        let Some(signs) = signs else { return };
        let before = self.driver.replace(signs).unwrap_or_default();
        if signs.is_taken_back(before) {
            self.driver_ends = Some(now + self.driver_unload);
        } else if signs.is_up(before) {
            self.driver_ends = None;
        }
    }

    /// Why nothing may be loaded any more, if the driver's container has begun to end since the last look.
    pub(super) fn ends_meanwhile(&mut self, now: BootTime, glimpse: &SwapCheck) -> Option<&'static str> {
        self.follow_driver(now, glimpse.driver);
        self.driver_ends()
    }

    /// Why the module has to go for the driver.
    pub(super) fn driver_ends(&self) -> Option<&'static str> {
        self.driver_ends.map(
            |_| "the driver's container is ending (preStop has removed its files in /run/nvidia/validations)",
        )
    }

    /// The service ends, and no module is loaded: its own load has not become live.
    pub fn note_absent(&mut self) {
        self.is_loading = false;
    }

    /// The service ends with its own unload: nobody gave an order.
    pub fn note_own_unload(&mut self) {
        self.note_absent();
        self.live_beside = None;
    }

    /// A load has succeeded, and no look has shown that yet: if the next one shows no module, another process has
    /// unloaded it.
    pub(super) fn note_live(&mut self) {
        self.live_beside = self.gate.last_look().map(|look| look.identity.clone());
    }

    /// Takes in who is who at a look; true when an order begins. A swap ends the order, because only another marker
    /// or other modules end a swap.
    pub(super) fn follow_order(
        &mut self,
        now: BootTime,
        peermem: Presence,
        is_swap: bool,
        identity: &Identity,
    ) -> bool {
        let last = match peermem {
            Presence::Live { .. } => {
                self.order = None;
                self.live_beside.replace(identity.clone());
                None
            }
            Presence::Absent => self.live_beside.take(),
            Presence::InTransit | Presence::Unknown => None,
        };
        let begins = last.is_some();
        if let Some(beside) = last {
            self.order = Some(UnloadOrder { until: now + self.driver_unload, beside });
        }
        let is_over = |order: &UnloadOrder| now >= order.until || is_new(&order.beside, identity);
        if is_swap || self.order.as_ref().is_some_and(is_over) {
            self.order = None;
        }
        begins && self.order.is_some()
    }

    /// Until then nothing is loaded or rebuilt, because another process unloaded the module, or the driver ends.
    #[must_use]
    pub fn ordered_until(&self) -> Option<BootTime> {
        self.order.as_ref().map(|order| order.until).max(self.driver_ends)
    }

    /// Nothing but the order keeps the module from being loaded or rebuilt.
    pub(super) fn is_ready_but_ordered(&self, verdict: &Verdict) -> bool {
        let is_met = verdict.deciding().is_none_or(|c| c.r#type == ConditionType::Settled);
        self.ordered_until().is_some() && (is_met || self.gate.may_rebuild(verdict))
    }

    /// The order in words.
    pub(super) fn order_sentence(&self) -> Option<String> {
        let limit = Seconds(self.driver_unload);
        if let Some(why) = self.driver_ends() {
            return Some(format!(
                "{why}: keep loads nvidia_peermem again when the driver is ready or nvidia is new, and at the latest \
                 {limit} later; to load it now, send SIGHUP to keep"
            ));
        }
        self.order.as_ref()?;
        Some(format!(
            "another process unloaded nvidia_peermem, perhaps to unload the GPU driver: keep loads it again after \
             {limit}, or once nvidia, MOFED's modules or the marker are new; to load it now, send SIGHUP to keep"
        ))
    }
}
