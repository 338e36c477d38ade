// SPDX-License-Identifier: Apache-2.0
//! Reports of a diagnosis, for people and for machines.

pub mod bundle;
pub mod coverage;
pub mod doctor;
mod evidence;
pub mod explain;
pub mod inspected;
pub mod paths;
pub mod runtime;
mod screen;
pub mod standing;
mod words;
