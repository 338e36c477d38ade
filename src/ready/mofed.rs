// SPDX-License-Identifier: Apache-2.0
//! Who provides MOFED, the RDMA driver.

/// Who provides MOFED on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MofedPlace {
    /// The Network Operator's container.
    Container,
    /// The host itself (`USE_HOST_MOFED=true`).
    Host,
    /// Nobody: the kernel's own RDMA stack has peer memory. The same setting; the node shows which of the two it is.
    InBox,
}

impl MofedPlace {
    /// No container brings MOFED.
    #[must_use]
    pub fn is_on_host(self) -> bool {
        self != Self::Container
    }
}
