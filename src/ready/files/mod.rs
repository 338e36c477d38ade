// SPDX-License-Identifier: Apache-2.0
//! Bounded reads that cannot hang, links followed below another root, and mounts.

pub mod mount;
pub mod read;
pub mod root;
pub mod unread;
