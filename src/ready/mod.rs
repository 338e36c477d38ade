// SPDX-License-Identifier: Apache-2.0
//! Is MOFED ready? What `wait` and `check` rest on, and nothing else of the house.

pub mod clock;
pub mod condition;
pub mod consumer;
pub mod errno;
pub mod exit;
pub mod files;
pub mod gate;
pub mod judge;
pub mod look;
pub mod mofed;
pub mod node;
pub mod node_clock;
pub mod observation;
pub mod probe;
pub mod sort;
pub mod time;
pub mod verdict;
pub mod version;
pub mod wake;

/// The symbols that MOFED exports and nvidia-peermem imports (open-gpu-kernel-modules, nvidia-peermem.c).
pub const PEER_MEMORY_SYMBOLS: [&str; 2] =
    ["ib_register_peer_memory_client", "ib_unregister_peer_memory_client"];
