// SPDX-License-Identifier: Apache-2.0
//! What `doctor` looks at beyond the gate's own look. Plain data, like [`crate::observation`].

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Symptoms {}
