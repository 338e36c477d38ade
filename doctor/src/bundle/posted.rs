// SPDX-License-Identifier: Apache-2.0
//! What people post of a node, as the facts that the node's own files show. Each form is known by its content.

use super::machine;
use crate::gathered::BundleFile;
use crate::symptoms::rdma::{Device, Port};
use crate::symptoms::{PciFunction, Symptoms};
use peermem_gate::ready::observation::{ModuleFile, ModuleInfo, Observation};

/// The node's own place for the same, how the part is called, and the reader: whether the text is of this form.
type PostedForm = (&'static str, &'static str, fn(&Posted<'_>, &mut Observation, &mut Symptoms) -> bool);

pub(super) const FORMS: [PostedForm; 6] = [
    ("/sys/bus/pci/devices", DEVICES, lspci),
    ("/proc/driver/nvidia/version", "the driver's version", version),
    ("/proc/driver/nvidia/gpus", "the GPUs' models", models),
    ("/sys/class/infiniband", "the RDMA devices", rdma),
    ("/proc/cmdline", "the kernel's command line", command_line),
    ("nvidia-peermem.ko", "what modinfo says of nvidia-peermem", modinfo),
];
/// The part that a bundle lacks unless a list says it.
pub(super) const DEVICES: &str = "the PCI devices with their drivers";
const NVIDIA: u16 = 0x10de;
const MELLANOX: u16 = 0x15b3;
/// Without `-nn` names stand for numbers (pci.ids).
const VENDORS: [(&str, u16); 2] = [("NVIDIA Corporation", NVIDIA), ("Mellanox Technologies", MELLANOX)];
const CLASSES: [(&str, u32); 5] = [
    ("3D controller", 0x0302),
    ("VGA compatible controller", 0x0300),
    ("Infiniband controller", 0x0207),
    ("Ethernet controller", 0x0200),
    ("Bridge", 0x0680),
];
/// Words before an RDMA device's name: `ibv_devinfo`, `ibstat`, `ibstatus`, `rdma link`, and `nvidia-smi topo -m`.
const BEFORE_NAME: [&str; 5] = ["hca_id:", "CA '", "Infiniband device '", "link ", "NIC"];
/// Far more than a node has.
const MOST: usize = 4096;

/// A file with its text.
pub(super) struct Posted<'a> {
    pub(super) file: &'a BundleFile,
    pub(super) text: &'a str,
}

fn hex<'a>(text: impl Into<Option<&'a str>>) -> Option<u16> {
    u16::from_str_radix(text.into().filter(|text| text.len() == 4)?, 16).ok()
}

/// `0000:18:00.0 Infiniband controller [0207]: Mellanox Technologies … [15b3:1021]`, with numbers or without.
fn function(line: &str) -> Option<(u16, PciFunction, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let (head, tail) = rest.split_once(": ")?;
    let address =
        if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
    let number = head.strip_suffix(']').and_then(|head| hex(head.rsplit('[').next()).map(u32::from));
    let named = || CLASSES.iter().find(|(name, _)| *name == head).map(|(_, class)| *class);
    let mut ids = tail.split('[').filter_map(|part| part.split(']').next()?.split_once(':'));
    let ids = ids.find_map(|(vendor, device)| Some((hex(vendor)?, hex(device)?)));
    let vendor = VENDORS.iter().find(|(name, _)| tail.starts_with(name)).map(|(_, vendor)| *vendor);
    let class = Some(number.or_else(named).unwrap_or_default() << 8);
    let (device, is_virtual) = (ids.map(|(_, device)| device), tail.contains("Virtual Function"));
    let function = PciFunction { address, class, device, is_virtual, ..PciFunction::default() };
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
    let is_it = function.address.len() == "0000:18:00.0".len() && function.address.bytes().all(is_part);
    is_it.then_some((ids.map(|(vendor, _)| vendor).or(vendor).unwrap_or_default(), function, tail))
}

/// Drivers are shown by `-k` or `-v` only. A list of one vendor's devices does not say that others are missing.
fn lspci(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> bool {
    let mut all: Vec<(u16, PciFunction, &str)> = Vec::new();
    for line in posted.text.lines() {
        if let Some(driver) = line.trim_start().strip_prefix("Kernel driver in use:")
            && let Some((_, last, _)) = all.last_mut()
        {
            last.driver = Some(driver.trim().to_owned());
        } else if all.len() < MOST {
            all.extend(function(line));
        }
    }
    let mut keys = ["Kernel driver in use:", "Kernel modules:"].into_iter();
    if !keys.any(|key| posted.text.contains(key)) || all.is_empty() {
        return false;
    }
    let one = |wanted, (vendor, one, _): &(u16, PciFunction, _)| (*vendor == wanted).then(|| one.clone());
    let of = |wanted| all.iter().filter_map(|it| one(wanted, it)).collect::<Vec<_>>();
    let (nvidias, nics) = (of(NVIDIA), of(MELLANOX));
    if nics.len() < all.len() && symptoms.nvidias.is_err() {
        symptoms.nvidias = Ok(nvidias);
    }
    if !nics.is_empty() && symptoms.nics.is_err() {
        symptoms.nics = Ok(nics);
    }
    true
}

fn version(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> bool {
    let (path, known) = &mut symptoms.driver.version_file;
    let section = machine::section(posted.file, &path.to_string_lossy());
    let line = section.as_deref().unwrap_or(posted.text).lines().next();
    let Some(line) = line.filter(|line| line.starts_with("NVRM version:")) else { return false };
    *known = Ok(Some(line.to_owned()));
    true
}

/// The GPUs' names in what nvidia-smi prints (its table, `-L`, `nvlink -s`, `-q`), or lspci.
fn models(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> bool {
    let name = |line: &str| -> Option<String> {
        let of_number = line.strip_prefix("GPU ").and_then(|rest| Some(rest.split_once(": ")?.1));
        let of_number = of_number.and_then(|rest| Some(rest.split_once(" (UUID: ")?.0));
        let of_query = line.trim_start().strip_prefix("Product Name ").and_then(|rest| rest.split_once(": "));
        let row = line.strip_prefix('|').and_then(|row| Some(&row[row.find(" NVIDIA ")? + 1..]));
        let row = row.and_then(|row| Some(row.split_once("  ")?.0));
        let is_its = |(vendor, one, _): &(u16, PciFunction, &str)| {
            *vendor == NVIDIA && (one.is_gpu() || one.is_bridge())
        };
        let on_bus = || function(line).filter(is_its).map(|(.., name)| name);
        let name = of_number.or(of_query.map(|(_, name)| name)).or(row).or_else(on_bus);
        name.map(|name| name.trim().to_owned())
    };
    let names: Vec<_> = posted.text.lines().filter_map(name).take(MOST).collect();
    let is_it = !names.is_empty();
    symptoms.driver.models.1.extend(names);
    is_it
}

/// Devices, and then the keys of each and of its ports, which each tool writes in its own way.
fn rdma(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> bool {
    let mut found: Vec<Device> = Vec::new();
    for line in posted.text.lines().map(str::trim) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let (key, value) = (key.to_lowercase().replace('_', " "), value.trim());
        if let Some(device) = device(line).filter(|_| found.len() < MOST) {
            found.push(device);
        } else if let Some(last) = found.last_mut() {
            let number = if key == "port" { Some(value) } else { key.strip_prefix("port ") };
            let number = number.filter(|number| number.parse::<u8>().is_ok());
            last.ports.extend(number.map(|it| Port { number: it.to_owned(), ..Port::default() }));
            match (key.as_str(), last.ports.last_mut()) {
                ("state", Some(port)) => port.state = Some(state(value)),
                ("sm lid", Some(port)) => port.sm_lid = Some(value.to_owned()),
                ("link layer", Some(port)) => port.link_layer = Some(value.to_owned()),
                ("node guid", _) => last.guid = Some(value.trim_start_matches("0x").to_owned()),
                _ => {}
            }
        }
    }
    let is_it = !found.is_empty() || posted.text.trim() == "No IB devices found";
    let has_ports = |devices: &[Device]| devices.iter().any(|device| !device.ports.is_empty());
    if is_it && !matches!(&symptoms.rdma.devices, Ok(Some(known)) if has_ports(known)) {
        symptoms.rdma.devices = Ok(Some(found));
    }
    is_it
}

/// `4: ACTIVE`, `PORT_ACTIVE (4)`, `Active`; ibstat's `Initializing` is `INIT`.
fn state(value: &str) -> String {
    let word = value.split_once(": ").map_or(value, |(_, word)| word).split(' ').next().unwrap_or_default();
    let word = word.trim_start_matches("PORT_").to_uppercase();
    if word.starts_with("INIT") { "INIT".to_owned() } else { word }
}

/// A line that begins one, with the port that it names.
fn device(line: &str) -> Option<Device> {
    let before = BEFORE_NAME.iter().find(|words| line.starts_with(**words))?;
    let rest = line[before.len()..].trim_start();
    let rest = if *before == "NIC" { rest.split_once(": ")?.1 } else { rest };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let number = rest.strip_prefix('/').or_else(|| rest.strip_prefix("' port "));
    let number = number.and_then(|rest| rest.split(' ').next()).filter(|text| text.parse::<u8>().is_ok());
    let of_link = rest.split_once(" state ").map(|(_, word)| state(word));
    if name.is_empty() || *before == "link " && (number.is_none() || of_link.is_none()) {
        return None;
    }
    let port = number.map(|it| Port { number: it.to_owned(), state: of_link, ..Port::default() });
    let ports = port.into_iter().collect();
    Some(Device { name: name.to_owned(), address: None, ports, guid: None })
}

/// /proc/cmdline itself, or the kernel's log of the boot.
fn command_line(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> bool {
    let mut lines = posted.text.lines().take(MOST);
    let whole = posted.text.starts_with("BOOT_IMAGE=").then_some(posted.text.trim());
    let line = whole.or_else(|| lines.find_map(|line| Some(line.split_once("Command line: ")?.1)));
    symptoms.host.command_line =
        line.map_or(symptoms.host.command_line.clone(), |line| Ok(Some(line.to_owned())));
    line.is_some()
}

/// Of a module that was built without MOFED's headers the list of modules that it needs shows as much.
fn modinfo(posted: &Posted<'_>, seen: &mut Observation, _: &mut Symptoms) -> bool {
    let value = |key| posted.text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let Some((path, depends)) = value("filename:").zip(value("depends:")) else { return false };
    let is_peermem = path.replace('-', "_").contains("/nvidia_peermem.ko");
    let is_stub = is_peermem && !depends.split(',').any(|name| name.starts_with("ib_"));
    if let Some(peermem) = seen.peermem.as_mut().filter(|_| is_stub) {
        let info = Box::new(ModuleInfo { machine: seen.kernel.machine.clone(), ..ModuleInfo::default() });
        let (path, ignored_paths) = (path.into(), Vec::new());
        peermem.file = ModuleFile::Read { path, ignored_paths, listed: None, info };
    }
    is_peermem
}
