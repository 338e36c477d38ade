// SPDX-License-Identifier: Apache-2.0
//! The lives that tests/soak.rs plays.

pub(crate) mod bars;
pub(crate) mod plan;
pub(crate) mod tally;
pub(crate) mod truth;
