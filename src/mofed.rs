// SPDX-License-Identifier: Apache-2.0
//! Who provides MOFED, the RDMA driver.

/// Who provides MOFED on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MofedPlace {
    /// The Network Operator's container.
    Container,
    /// The host itself (`USE_HOST_MOFED=true`).
    Host,
}
