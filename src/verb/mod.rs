// SPDX-License-Identifier: Apache-2.0
//! One file a verb; each a few lines over the same core.

pub mod check;
pub mod wait;
