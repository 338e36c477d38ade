// SPDX-License-Identifier: Apache-2.0
//! The machines of the gate, the sidecar and the judge, by tables, by properties and in every order of events; the
//! model of a node; and recorded waits. No test starts a process.

mod gate;
mod judge;
mod keep;
#[path = "../vm/machine.rs"]
mod machine;
#[path = "../model/mod.rs"]
mod model;
mod peermem;
mod replay;
mod scenes;
