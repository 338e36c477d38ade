// SPDX-License-Identifier: Apache-2.0
//! What `doctor` looks at beyond the gate's own look. Plain data, like [`crate::observation`].

pub mod chain;
pub mod runtime;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Symptoms {
    /// The readiness chain's files.
    pub chain: chain::Chain,
    /// The container runtimes.
    pub runtimes: runtime::Runtimes,
}
