// SPDX-License-Identifier: Apache-2.0
//! Files, read so that nothing can hang or deceive: bounded reads, links that are followed below another root, mounts.

pub mod mount;
pub mod read;
pub mod root;
