// SPDX-License-Identifier: Apache-2.0
//! Reports, and what a person is to do.

pub mod explain;
pub mod facts;
pub mod last_words;
#[macro_use]
pub mod remedy;
pub mod report;

pub use explain::{judge, knowing_rebuild, next_build};
