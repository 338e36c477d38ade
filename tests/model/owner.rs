// SPDX-License-Identifier: Apache-2.0
//! One owner of `nvidia_peermem`: the node's keeper holds a lock while it owns the module, and a line in the
//! modprobe.d of the driver's container asks for it (`keeper_line`). The modprobe of the driver's script and of
//! nvidia-peermem-ctr comes to that line.

use super::driver::{Driver, Phase};
use super::keeper::Keeper;
use super::laws::Fault;
use super::{Life, TICK, age};

impl Driver {
    /// The keeper writes its line where the script holds its lock.
    pub(super) fn gets_line(&mut self) {
        let runs = matches!(
            self.phase,
            Phase::Building | Phase::Compiling(_) | Phase::Built | Phase::Loading | Phase::Ready
        );
        self.has_line |= runs;
    }
}

impl Life {
    /// A keeper serves the node.
    pub(super) fn has_service(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_service)
    }

    /// modprobe nvidia-peermem is decided by the line.
    fn is_asked(&self, driver: &Driver) -> bool {
        driver.has_line && self.node.is_owned
    }

    /// The script comes to its modprobe.
    pub(super) fn may_ask(&self, driver: &Driver) -> bool {
        driver.locked.is_none_or(|since| age(since, self.now) >= TICK)
    }

    /// nvidia-peermem-ctr's modprobe comes to an answer: beside a keeper it waits for the module, longer than any
    /// wait of the model's.
    pub(super) fn is_answered(&self, driver: &Driver) -> bool {
        !self.is_asked(driver) || self.node.peermem.is_some()
    }

    /// modprobe nvidia-peermem in the driver's container: whether it succeeds.
    pub(super) fn asks_modprobe(&mut self, driver: &Driver) -> bool {
        if self.is_asked(driver) {
            // What only a process can hold, a process holds.
            if self.keeper.as_ref().is_none_or(|keeper| keeper.ended().is_some()) {
                self.fails(Fault::NobodyLoads);
            }
            return true;
        }
        if self.node.is_owned {
            self.fails(Fault::TwoLoaders);
        }
        self.node.loads_peermem()
    }
}
