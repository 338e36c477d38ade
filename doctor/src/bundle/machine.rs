// SPDX-License-Identifier: Apache-2.0
//! Files of a node itself: its modules, its PCI devices, its driver's version, and its name.

use crate::gathered::BundleFile;
use crate::symptoms::PciFunction;
use peermem_gate::ready::observation::{ProcModule, ProcModules, ProcState};
use std::borrow::Cow;

/// Before a node's name, and a directory of files that begin with one.
const BUG_REPORT: &str = "nvidia-bug-report_";
/// The PCI vendor.
pub(super) const NVIDIA: u16 = 0x10de;
/// Far more than a node has GPUs.
const MODELS: usize = 64;
const DIAGNOSTICS: &str = "diagnostics";

/// The node that the file is named after, as the gatherers name files.
pub(super) fn node_of(file: &BundleFile) -> Option<String> {
    let components: Vec<&str> = file.path.split('/').collect();
    let name = components.last()?;
    let is_name = |name: &&str| !name.is_empty() && name.len() <= 253;
    if let Some(rest) = name.strip_prefix(BUG_REPORT) {
        return rest.split(".log").next().filter(is_name).map(str::to_owned);
    }
    if components.iter().rev().nth(1) == Some(&DIAGNOSTICS) {
        // `NODE-lsmod.txt`; `unknown` where the script did not learn it.
        let node = name.strip_suffix(".txt")?.rsplit_once('-')?.0;
        return Some(node).filter(is_name).filter(|name| *name != "unknown").map(str::to_owned);
    }
    // A report of sos has one node's own tree.
    let is_own =
        file.path.ends_with("sos_commands/host/hostname") || file.path.ends_with("proc/sys/kernel/hostname");
    let text = String::from_utf8_lossy(file.bytes.get(..file.bytes.len().min(300))?);
    let text = text.trim();
    (is_own && !text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

/// The directory of a node's own tree that this file shows, with the node: a report of sos.
pub(super) fn home(file: &BundleFile) -> Option<(String, String)> {
    let ends = ["sos_commands/host/hostname", "proc/sys/kernel/hostname"];
    let directory = ends.iter().find_map(|end| file.path.strip_suffix(end))?;
    Some((directory.to_owned(), node_of(file)?))
}

/// The list of loaded modules, where the file has all of them: `lsmod | grep` has some.
pub(super) fn modules(file: &BundleFile) -> Option<ProcModules> {
    if is_bug_report(file) {
        let modules: Vec<_> = section(&file.bytes, "/proc/modules")?.lines().map_while(listed).collect();
        return (!modules.is_empty()).then_some(ProcModules { modules, garbled: None });
    }
    let text = String::from_utf8_lossy(&file.bytes);
    if file.path.ends_with("proc/modules") {
        let modules: Vec<_> = text.lines().map_while(listed).collect();
        return (!modules.is_empty()).then_some(ProcModules { modules, garbled: None });
    }
    let mut lines = text.lines().skip_while(|line| line.starts_with('$') || line.starts_with('#'));
    let head: Vec<&str> = lines.next()?.split_whitespace().collect();
    (head == ["Module", "Size", "Used", "by"])
        .then(|| ProcModules { modules: lines.map_while(shown).collect(), garbled: None })
}

/// The first line of a file of the node, such as the driver's version.
pub(super) fn line_of(file: &BundleFile, path: &str) -> Option<String> {
    let first = |text: &str| text.lines().next().filter(|line| !line.is_empty()).map(str::to_owned);
    if is_bug_report(file) {
        return first(section(&file.bytes, path).as_deref()?);
    }
    let is_it = file.path.ends_with(path.trim_start_matches('/'));
    first(&String::from_utf8_lossy(file.bytes.get(..file.bytes.len().min(4096)).filter(|_| is_it)?))
}

pub(super) fn is_bug_report(file: &BundleFile) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    name.starts_with("nvidia-bug-report")
}

/// A file within nvidia-bug-report.log: `*** PATH`, a line `*** ls: …`, and the text up to an empty line.
fn section<'a>(bytes: &'a [u8], path: &str) -> Option<Cow<'a, str>> {
    let head = format!("*** {path}\n");
    let at = memchr::memmem::find(bytes, head.as_bytes())? + head.len();
    let rest = &bytes[at..];
    let end = memchr::memmem::find(rest, b"\n\n").unwrap_or(rest.len());
    let text = &rest[..end];
    let text = if text.starts_with(b"*** ls:") { &text[memchr::memchr(b'\n', text)? + 1..] } else { text };
    Some(String::from_utf8_lossy(text))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn users(text: &str) -> Vec<String> {
    text.split(',').filter(|name| is_name(name)).map(str::to_owned).collect()
}

/// A line of /proc/modules.
fn listed(line: &str) -> Option<ProcModule> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, size, count, by, state, address, rest @ ..] = fields.as_slice() else { return None };
    let state = match *state {
        "Live" => ProcState::Live,
        "Loading" => ProcState::Loading,
        "Unloading" => ProcState::Unloading,
        _ => return None,
    };
    let taint = rest.first().map(|taint| taint.trim_matches(['(', ')', '+', '-']));
    Some(ProcModule {
        name: Some((*name).to_owned()).filter(|name| is_name(name))?,
        size: size.parse().ok()?,
        refcount: count.parse().ok(),
        users: users(by),
        state,
        address: (*address).to_owned(),
        taint: taint.unwrap_or_default().to_owned(),
    })
}

/// A line of lsmod.
fn shown(line: &str) -> Option<ProcModule> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, size, count, by @ ..] = fields.as_slice() else { return None };
    Some(ProcModule {
        name: Some((*name).to_owned()).filter(|name| is_name(name))?,
        size: size.parse().ok()?,
        refcount: count.parse().ok(),
        users: by.first().map(|by| users(by)).unwrap_or_default(),
        state: ProcState::Live,
        address: String::new(),
        taint: String::new(),
    })
}

/// The GPUs' names in what nvidia-smi prints: its table, `-L`, `nvlink -s` and `-q`.
pub(super) fn models(file: &BundleFile) -> Vec<String> {
    let name = |line: &str| -> Option<String> {
        let of_number = line.strip_prefix("GPU ").and_then(|rest| Some(rest.split_once(": ")?.1));
        let of_number = of_number.and_then(|rest| Some(rest.split_once(" (UUID: ")?.0));
        let of_query = line.trim_start().strip_prefix("Product Name ").and_then(|rest| rest.split_once(": "));
        let row = line.strip_prefix('|').and_then(|row| Some(&row[row.find(" NVIDIA ")? + 1..]));
        let row = row.and_then(|row| Some(row.split_once("  ")?.0));
        of_number.or(of_query.map(|(_, name)| name)).or(row).map(|name| name.trim().to_owned())
    };
    let text = String::from_utf8_lossy(&file.bytes);
    text.lines().filter_map(name).take(MODELS).collect()
}

/// lscpu, lspci or the kernel's log says that it is a virtual machine.
pub(super) fn is_of_guest(file: &BundleFile) -> bool {
    let words: [&[u8]; 3] = [b"\nHypervisor vendor:", b" [1af4:", b"Hypervisor detected: "];
    words.iter().any(|words| memchr::memmem::find(&file.bytes, words).is_some())
}

/// The functions of a vendor in the output of `lspci -nn`; `None` where the file is none.
pub(super) fn functions(file: &BundleFile, vendor: u16) -> Option<Vec<PciFunction>> {
    let text = String::from_utf8_lossy(&file.bytes);
    if !text.contains("Kernel driver in use:") && !text.contains("Kernel modules:") {
        return None;
    }
    let mut found: Vec<PciFunction> = Vec::new();
    let mut is_ours = false;
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) && !line.is_empty() {
            let function = function(line, vendor);
            is_ours = function.is_some();
            found.extend(function);
        } else if let Some(driver) = line.trim().strip_prefix("Kernel driver in use:")
            && let Some(last) = found.last_mut().filter(|_| is_ours)
        {
            last.driver = Some(driver.trim().to_owned());
        }
    }
    // Without numbers, nothing shows whose a device is.
    text.contains("]: ").then_some(found)
}

/// `0000:18:00.0 Infiniband controller [0207]: Mellanox Technologies … [15b3:1021]`.
fn function(line: &str, vendor: u16) -> Option<PciFunction> {
    let (address, rest) = line.split_once(' ')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 4);
    let (head, tail) = rest.split_once("]: ")?;
    let class = hex(head.rsplit('[').next()?)?;
    let mut ids = tail.split('[').filter_map(|part| part.split(']').next()?.split_once(':'));
    let (_, device) = ids.find(|(id, device)| hex(id) == Some(vendor.into()) && device.len() == 4)?;
    let address =
        if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
    Some(PciFunction {
        address,
        class: Some(class << 8),
        device: u16::from_str_radix(device, 16).ok(),
        driver: None,
        is_virtual: tail.contains("Virtual Function"),
        regions: Vec::new(),
        iommu: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> BundleFile {
        BundleFile { path: path.to_owned(), bytes: text.as_bytes().to_vec(), modified: None }
    }

    #[test]
    fn only_a_whole_list_of_modules_counts() {
        let all =
            "Module                  Size  Used by\nmlx5_core  2342912  1 mlx5_ib\nnvidia  56823808  5\n";
        let names = |file: &BundleFile| -> Option<Vec<String>> {
            Some(modules(file)?.modules.into_iter().map(|module| module.name).collect())
        };
        assert_eq!(names(&file("lsmod.txt", all)), Some(vec!["mlx5_core".into(), "nvidia".into()]));
        let part = "mlx5_core  2342912  1 mlx5_ib\nmlx_compat  20480  1 mlx5_core\n";
        assert_eq!(names(&file("diagnostics/n1-lsmod.txt", part)), None);
        let report = "____\n\n*** /proc/modules\n*** ls: -r--r--r-- 1 root root 0 Nov 21 11:00 /proc/modules\n\
            nvidia 56823808 5 nvidia_uvm, Live 0x0000000000000000 (POE)\n\n____\n";
        let seen = modules(&file("nvidia-bug-report_n1.log.gz", report)).unwrap().modules;
        assert_eq!((seen[0].name.as_str(), seen[0].taint.as_str(), seen.len()), ("nvidia", "POE", 1));
    }

    #[test]
    fn a_file_of_a_node_is_named_after_it() {
        let node = |path: &str| node_of(&file(path, "gpu-7\n"));
        assert_eq!(node("mg/nvidia-bug-report_gpu-1.example.log.gz").as_deref(), Some("gpu-1.example"));
        assert_eq!(node("a/ofed-driver/diagnostics/gpu-2-ip_link.txt").as_deref(), Some("gpu-2"));
        assert_eq!(node("sos/sos_commands/host/hostname").as_deref(), Some("gpu-7"));
        assert_eq!(node("a/ofed-driver/diagnostics/unknown-dmesg.txt"), None);
        assert_eq!(node("logs/dmesg.txt"), None);
    }
}
