// SPDX-License-Identifier: Apache-2.0
//! What `doctor` looks at beyond the gate's own look.

use super::{Probe, chain, runtime};
use crate::observation::Observation;
use crate::symptoms::Symptoms;

impl Probe<'_> {
    /// Looks at the rest. `seen` is this probe's look, which is not looked at again.
    #[must_use]
    pub fn symptoms(&self, _seen: &Observation) -> Symptoms {
        let places = &self.node.places;
        Symptoms { chain: chain::read(places), runtimes: runtime::read(places) }
    }
}
