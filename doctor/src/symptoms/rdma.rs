// SPDX-License-Identifier: Apache-2.0
//! RDMA beyond the modules: devices and their ports, what programs open, and the node's own network.

use peermem_gate::ready::observation::Seen;
use std::path::PathBuf;

/// A port of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: String,
    /// `ACTIVE`, `INIT`, `DOWN`…: the word of `state`, as `4: ACTIVE` has it.
    pub state: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// The subnet manager's address; 0 where none has come.
    pub sm_lid: Option<String>,
    /// Its table of GIDs has one that is not zero; `None` where there is no table.
    pub has_gid: Option<bool>,
}

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Such as `mlx5_0`.
    pub name: String,
    /// The PCI function that it is of, such as `0000:18:00.0`.
    pub address: Option<String>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// `node_guid`: zeros if it was given none.
    pub guid: Option<String>,
}

/// A network interface, as far as the default route matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// `up`, `down`, `unknown`…
    pub state: Option<String>,
    /// The PCI function that it is of, if any.
    pub address: Option<String>,
    /// The interfaces below: a bond's or a bridge's ports, a VLAN's link.
    pub lower: Vec<String>,
}

/// Where the node keeps its network's configuration, and which interfaces are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The file.
    pub path: PathBuf,
    /// The interfaces of Mellanox functions that it names.
    pub interfaces: Vec<String>,
}

/// The node's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The node's routing table.
    pub routes: PathBuf,
    /// The interfaces that the default routes lead over; `None` where there is no such table.
    pub default: Seen<Option<Vec<String>>>,
    /// All interfaces.
    pub interfaces: Seen<Vec<Interface>>,
    /// Files that configure interfaces of Mellanox functions.
    pub configured: Vec<Configured>,
}

impl Network {
    /// An interface by its name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().flatten().find(|interface| interface.name == name)
    }
}

/// All that was seen of RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rdma {
    /// Where devices are listed.
    pub class: PathBuf,
    /// The devices; `None` where the class is not there.
    pub devices: Seen<Option<Vec<Device>>>,
    /// The names in /dev/infiniband.
    pub nodes: Seen<Vec<String>>,
    /// `Y`: all network namespaces share the devices; `N`: each device is in one of them.
    pub netns_mode: (PathBuf, Seen<Option<String>>),
    /// The node's network.
    pub network: Network,
}
