// SPDX-License-Identifier: Apache-2.0
//! What a diagnosis came to, for people and for machines.

pub mod doctor;
pub mod runtime;
mod screen;
