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

/// Traces of MOFED on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderTraces {
    /// A container's: its marker, its lock file or its headers. /run is new at each boot.
    pub container: bool,
    /// One of a container's cannot be read: there may be one.
    pub is_unread: bool,
    /// The headers of one that is installed on the host.
    pub host: bool,
}

impl ProviderTraces {
    /// Who provides MOFED on this node. A container may come late; after a long wait without any trace of one, the
    /// kernel's own stack may be all that there is, and that one still has to show that it has peer memory.
    #[must_use]
    pub fn place(self, has_waited: bool) -> MofedPlace {
        let is_on_host = !self.container && !self.is_unread && (self.host || has_waited);
        if is_on_host { MofedPlace::Host } else { MofedPlace::Container }
    }
}

impl MofedPlace {
    /// No container brings MOFED.
    #[must_use]
    pub fn is_on_host(self) -> bool {
        self != Self::Container
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_trace_counts_before_a_hosts_and_a_hosts_before_none() {
        for (container, host, has_waited, place) in [
            (true, true, true, MofedPlace::Container),
            (true, false, false, MofedPlace::Container),
            (false, true, false, MofedPlace::Host),
            (false, false, false, MofedPlace::Container),
            (false, false, true, MofedPlace::Host),
        ] {
            let traces = ProviderTraces { container, is_unread: false, host };
            assert_eq!(traces.place(has_waited), place);
            assert_eq!(ProviderTraces { is_unread: true, ..traces }.place(has_waited), MofedPlace::Container);
        }
    }
}
