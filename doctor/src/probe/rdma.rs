// SPDX-License-Identifier: Apache-2.0
//! RDMA beyond the modules: devices, ports, device nodes, and the network that the node itself lives by.

use super::there;
use crate::symptoms::PciFunction;
use crate::symptoms::rdma::{Configured, Device, Interface, Network, Port, Rdma};
use peermem_gate::ready::files::read::{lines, names, small, stat, whole};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::Seen;
use peermem_gate::ready::probe::address;
use std::fs::Metadata;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const ROUTES: u64 = 4 * 1024 * 1024;
/// Of a file that configures the network.
const CONFIGURATION: u64 = 256 * 1024;
/// Where distributions keep them: netplan, `NetworkManager`, ifcfg, systemd-networkd, ifupdown.
const CONFIGURATIONS: [&str; 6] = words! {
    "/etc/netplan" "/etc/NetworkManager/system-connections" "/etc/sysconfig/network-scripts"
    "/etc/systemd/network" "/etc/network" "/etc/network/interfaces.d"
};
/// Written the other way round, as the kernel prints it: 0.0.0.0 with the mask 0.0.0.0.
const DEFAULT: &str = "00000000";

/// `nics` are the Mellanox functions.
pub(super) fn read(places: &Places, nics: &Seen<Vec<PciFunction>>) -> Rdma {
    let class = places.sys.join("class/infiniband");
    let netns_mode = places.sys.join("module/ib_core/parameters/netns_mode");
    Rdma {
        devices: devices(&class),
        nodes: names(&below(&places.root, Path::new("/dev/infiniband"))).map(Option::unwrap_or_default),
        netns_mode: (netns_mode.clone(), small(&netns_mode)),
        network: network(places, nics.as_deref().unwrap_or_default()),
        class,
    }
}

fn devices(class: &Path) -> Seen<Option<Vec<Device>>> {
    let device = |name: String| {
        let directory = class.join(&name);
        let numbers = names(&directory.join("ports")).ok().flatten().unwrap_or_default();
        let ports = numbers.into_iter().map(|number| port(&directory.join("ports").join(&number), number));
        let guid = small(&directory.join("node_guid")).ok().flatten();
        Device { address: address(&directory), ports: ports.collect(), guid, name }
    };
    Ok(names(class)?.map(|names| names.into_iter().map(device).collect()))
}

fn port(directory: &Path, number: String) -> Port {
    let attribute = |name: &str| small(&directory.join(name)).ok().flatten();
    // `4: ACTIVE`
    let state = attribute("state").and_then(|state| Some(state.split_once(": ")?.1.to_owned()));
    let (link_layer, sm_lid) = (attribute("link_layer"), attribute("sm_lid"));
    Port { number, state, link_layer, sm_lid, has_gid: has_gid(&directory.join("gids")) }
}

/// The first ones are the device's own, made of its interface's addresses; an empty one is all zeros.
fn has_gid(directory: &Path) -> Option<bool> {
    const FIRST: usize = 16;
    let gids = (0..FIRST).map(|index| small(&directory.join(index.to_string())));
    let gids: Vec<_> = gids.map_while(|gid| gid.ok().flatten()).collect();
    let is_set = |gid: &String| gid.bytes().any(|byte| !matches!(byte, b'0' | b':'));
    (!gids.is_empty()).then(|| gids.iter().any(is_set))
}

fn network(places: &Places, nics: &[PciFunction]) -> Network {
    let init = places.proc.join("1/net/route");
    let routes = if init.exists() { init } else { places.proc.join("net/route") };
    let interfaces = interfaces(&places.sys);
    let is_nics = |interface: &&Interface| {
        interface.address.as_ref().is_some_and(|address| nics.iter().any(|nic| nic.address == *address))
    };
    let mellanox: Vec<_> =
        interfaces.iter().flatten().filter(is_nics).map(|interface| interface.name.as_str()).collect();
    let configured = configured(&places.root, &mellanox);
    Network { default: default(&routes), routes, interfaces, configured }
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, a heading first.
fn default(routes: &Path) -> Seen<Option<Vec<String>>> {
    let mut over = Vec::new();
    let read = lines(routes, ROUTES, |line| {
        let line = String::from_utf8_lossy(line);
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        if let [interface, DEFAULT, _, _, _, _, _, DEFAULT, ..] = fields.as_slice() {
            over.push((*interface).to_owned());
        }
        ControlFlow::Continue(())
    });
    there(routes, read.map(|_| over))
}

fn interfaces(sys: &Path) -> Seen<Vec<Interface>> {
    let class = sys.join("class/net");
    let interface = |name: String| {
        let directory = class.join(&name);
        let lower = names(&directory).ok().flatten().unwrap_or_default();
        let lower = lower.iter().filter_map(|file| Some(file.strip_prefix("lower_")?.to_owned()));
        Interface {
            state: small(&directory.join("operstate")).ok().flatten(),
            address: address(&directory),
            lower: lower.collect(),
            name,
        }
    };
    Ok(names(&class)?.unwrap_or_default().into_iter().map(interface).collect())
}

/// Files that name one of these interfaces, as a word.
fn configured(root: &Path, interfaces: &[&str]) -> Vec<Configured> {
    if interfaces.is_empty() {
        return Vec::new();
    }
    let files = CONFIGURATIONS.iter().flat_map(|directory| {
        let directory = below(root, Path::new(directory));
        let real = resolve(root, &directory).unwrap_or_default();
        let names = names(&real).ok().flatten().unwrap_or_default();
        names.into_iter().map(move |name| (directory.join(&name), real.join(name))).collect::<Vec<_>>()
    });
    files.filter_map(|(path, real)| naming(path, &real, interfaces)).collect()
}

fn naming(path: PathBuf, real: &Path, interfaces: &[&str]) -> Option<Configured> {
    stat(real).ok().filter(Metadata::is_file)?;
    let text = whole(real, CONFIGURATION).ok()?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let words: Vec<_> = text.split(|c| !is_part(c)).collect();
    let named: Vec<_> =
        interfaces.iter().filter(|name| words.contains(name)).map(ToString::to_string).collect();
    (!named.is_empty()).then_some(Configured { path, interfaces: named })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_is_the_one_without_a_mask() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("route");
        assert_eq!(default(&path), Ok(None));
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let route = |interface: &str, destination: &str, mask: &str| {
            format!("{interface}\t{destination}\t0101A8C0\t0003\t0\t0\t100\t{mask}\t0\t0\t0\n")
        };
        let text =
            [head, &route("eth0", "0001A8C0", "00FFFFFF"), &route("half", "00000000", "00000080")].concat();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(default(&path), Ok(Some(Vec::new())));
        std::fs::write(&path, text + &route("bond0", DEFAULT, DEFAULT)).unwrap();
        assert_eq!(default(&path), Ok(Some(vec!["bond0".to_owned()])));
    }
}
