// SPDX-License-Identifier: Apache-2.0
//! Whether the kernel will accept nvidia-peermem.ko, known from the file and from what is loaded.

pub mod driver_root;
mod driver_state;
pub mod judge;
pub mod keeper_line;
pub mod look;
pub mod modprobe_conf;
pub mod module_file;
pub mod pair;
pub mod plan;
pub mod record;
pub mod refusal;
pub mod store;
mod unpacking;
