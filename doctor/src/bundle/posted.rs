// SPDX-License-Identifier: Apache-2.0
//! What people post of a node, as the facts that the node's own files show. Each form is known by its content.

use super::machine;
use crate::gathered::BundleFile;
use crate::symptoms::rdma::{Device, Port};
use crate::symptoms::{PciFunction, Symptoms};
use peermem_gate::ready::observation::{ModuleFile, ModuleInfo, Observation};

/// The node's own place for the same, how the part is called, and the reader: of a text of this form, whether it
/// counts in place of an earlier one.
type PostedForm =
    (&'static str, &'static str, fn(&Posted<'_>, &mut Observation, &mut Symptoms) -> Option<bool>);

pub(super) const FORMS: [PostedForm; 6] = [
    ("/sys/bus/pci/devices", DEVICES, lspci),
    ("/proc/driver/nvidia/version", "the driver's version", version),
    ("/sys/module/nvidia/version", "the driver's version", smi),
    ("/proc/driver/nvidia/gpus", "the GPUs' models", models),
    ("/sys/class/infiniband", "the RDMA devices", rdma),
    ("nvidia-peermem.ko", "what modinfo says of nvidia-peermem", modinfo),
];
/// The part that a bundle lacks unless a list says it.
pub(super) const DEVICES: &str = "the PCI devices with their drivers";
const NVIDIA: u16 = 0x10de;
const MELLANOX: u16 = 0x15b3;
/// Without `-nn` names stand for numbers (pci.ids).
const VENDORS: [(&str, u16); 2] = [("NVIDIA Corporation", NVIDIA), ("Mellanox Technologies", MELLANOX)];
const CLASSES: [(&str, u32); 6] = [
    ("3D controller", 0x0302),
    ("VGA compatible controller", 0x0300),
    ("Infiniband controller", 0x0207),
    ("Ethernet controller", 0x0200),
    ("Bridge", 0x0680),
    (" bridge", 0x0600),
];
/// Words before an RDMA device's name: `ibv_devinfo`, `ibstat`, `ibstatus`, `rdma link`, and `nvidia-smi topo -m`.
const BEFORE_NAME: [&str; 5] = ["hca_id:", "CA '", "Infiniband device '", "link ", "NIC"];
/// Far more than a node has.
const MOST: usize = 4096;
const LINES: usize = 200_000;
const PORTS: usize = 255;
const DRIVER: &str = "Kernel driver in use:";

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
    let named = || CLASSES.iter().find(|(name, _)| head.ends_with(name)).map(|(_, class)| *class);
    let mut ids = tail.split('[').filter_map(|part| part.split(']').next()?.split_once(':'));
    let ids = ids.find_map(|(vendor, device)| Some((hex(vendor)?, hex(device)?)));
    let vendor = VENDORS.iter().find(|(name, _)| tail.starts_with(name)).map(|(_, vendor)| *vendor);
    let class = Some(number.or_else(named).unwrap_or_default() << 8);
    let (device, is_virtual) = (ids.map(|(_, device)| device), tail.contains("Virtual Function"));
    let function = PciFunction { address, class, device, is_virtual, ..PciFunction::default() };
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
    // Behind a volume management device (VMD) a domain has five digits.
    let parts: Vec<_> = function.address.split(':').map(str::len).collect();
    let is_it = matches!(parts[..], [4..=8, 2, 4]) && function.address.bytes().all(is_part);
    is_it.then_some((ids.map(|(vendor, _)| vendor).or(vendor).unwrap_or_default(), function, tail))
}

/// Drivers are shown by `-k` or `-v` only. What `grep` left of a list has drivers of devices that it does not show.
fn lspci(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> Option<bool> {
    let mut all: Vec<Option<(u16, PciFunction, &str)>> = Vec::new();
    for line in posted.text.lines().take(LINES) {
        if let Some(driver) = line.trim_start().strip_prefix(DRIVER) {
            let last = all.last_mut()?.as_mut().filter(|(_, last, _)| last.driver.is_none());
            last?.1.driver = Some(driver.trim().to_owned());
        } else if !line.starts_with(char::is_whitespace) && !line.is_empty() {
            all.push(function(line));
        }
    }
    let all: Vec<_> = all.into_iter().flatten().take(MOST).collect();
    let mut keys = [DRIVER, "Kernel modules:"].into_iter().filter(|key| posted.text.contains(key));
    let (first, ..) = all.first().filter(|_| keys.next().is_some())?;
    // A list of some devices does not say that others are missing.
    let is_bus = all.iter().any(|(vendor, ..)| vendor != first)
        && all.iter().any(|(_, one, _)| one.class.is_some_and(|class| class >> 16 == 0x06));
    let mut counts = false;
    for (wanted, known) in [(NVIDIA, &mut symptoms.nvidias), (MELLANOX, &mut symptoms.nics)] {
        let its = all.iter().filter(|(vendor, ..)| *vendor == wanted);
        let its: Vec<_> = its.map(|(_, one, _)| one.clone()).collect();
        if known.is_err() && (is_bus || !its.is_empty()) {
            (*known, counts) = (Ok(its), true);
        }
    }
    Some(counts)
}

fn version(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> Option<bool> {
    let (path, known) = &mut symptoms.driver.version_file;
    let section = machine::section(posted.file, &path.to_string_lossy());
    let line = section.as_deref().unwrap_or(posted.text).lines().next();
    let line = line.filter(|line| line.starts_with("NVRM version:"))?.to_owned();
    *known = known.clone().or(Ok(Some(line)));
    Some(false)
}

/// The heads of nvidia-smi's table and of `-q`, whose newest drivers tell the kernel's part from the programs'.
fn smi(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> Option<bool> {
    let head = ["NVIDIA-SMI ", "NVSMI LOG"].iter().filter_map(|head| posted.text.find(head)).min()?;
    let value = |key: &str| {
        let rest = posted.text[head..].split_once(key)?.1.trim_start().strip_prefix(':')?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        Some(rest[..end].to_owned())
    };
    let version = value("Driver Version").or_else(|| value("KMD Version"))?;
    symptoms.driver.cuda = value("CUDA Version").or_else(|| value("CUDA UMD Version"));
    symptoms.driver.loaded.1 = Ok(Some(version));
    Some(false)
}

/// The GPUs' names in what nvidia-smi prints (its table, `-L`, `nvlink -s`, `-q`), or lspci.
fn models(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> Option<bool> {
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
    symptoms.driver.models.1.extend(names.iter().cloned());
    (!names.is_empty()).then_some(false)
}

/// Devices, and then the keys of each and of its ports, which each tool writes in its own way.
fn rdma(posted: &Posted<'_>, _: &mut Observation, symptoms: &mut Symptoms) -> Option<bool> {
    let mut found: Vec<Device> = Vec::new();
    for line in posted.text.lines().map(str::trim) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let (key, value) = (key.to_lowercase().replace('_', " "), value.trim());
        if let Some(device) = device(line).filter(|_| found.len() < MOST) {
            found.push(device);
        } else if let Some(last) = found.last_mut() {
            let number = if key == "port" { Some(value) } else { key.strip_prefix("port ") };
            let number = number.filter(|it| it.parse::<u8>().is_ok() && last.ports.len() < PORTS);
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
    let known = &mut symptoms.rdma.devices;
    let is_new = known.is_err() || has_ports(&found) && !known.iter().flatten().any(|it| has_ports(it));
    if is_it && is_new {
        *known = Ok(Some(found));
    }
    is_it.then_some(is_new)
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
    let of_number = || rest.split_once(": ").filter(|(number, _)| number.parse::<u8>().is_ok());
    let rest = if *before == "NIC" { of_number()?.1 } else { rest };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let number = rest.strip_prefix('/').or_else(|| rest.strip_prefix("' port "));
    let number = number.and_then(|rest| rest.split(' ').next()).filter(|text| text.parse::<u8>().is_ok());
    let of_link = rest.split_once(" state ").map(|(_, word)| state(word));
    if name.is_empty() || *before == "link " && (number.is_none() || !rest.contains(" physical_state ")) {
        return None;
    }
    let port = number.map(|it| Port { number: it.to_owned(), state: of_link, ..Port::default() });
    let ports = port.into_iter().collect();
    Some(Device { name: name.to_owned(), address: None, ports, guid: None })
}

/// Of a module that was built without MOFED's headers the list of modules that it needs shows as much.
fn modinfo(posted: &Posted<'_>, seen: &mut Observation, _: &mut Symptoms) -> Option<bool> {
    let mut blocks = posted.text.split("filename:").skip(1).filter_map(|block| block.split_once('\n'));
    let (path, its) = blocks.find(|(path, _)| path.replace('-', "_").contains("/nvidia_peermem.ko"))?;
    let depends = its.lines().find_map(|line| line.strip_prefix("depends:"))?;
    let is_stub = !depends.trim().split(',').any(|name| name.starts_with("ib_"));
    if let Some(peermem) = seen.peermem.as_mut().filter(|_| is_stub) {
        let info = Box::new(ModuleInfo { machine: seen.kernel.machine.clone(), ..ModuleInfo::default() });
        let (path, ignored_paths) = (path.trim().into(), Vec::new());
        peermem.file = ModuleFile::Read { path, ignored_paths, listed: None, info };
    }
    Some(is_stub)
}
