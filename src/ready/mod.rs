// SPDX-License-Identifier: Apache-2.0
//! Is MOFED ready? What `wait` and `check` rest on, and nothing else of the house.

pub mod clock;
pub mod condition;
pub mod consumer;
pub mod ending;
pub mod errno;
pub mod files;
pub mod gate;
pub mod judge;
pub mod look;
pub mod mofed;
pub mod node;
pub mod observation;
pub mod probe;
pub mod sort;
pub mod time;
pub mod verdict;
pub mod version;
pub mod wake;
