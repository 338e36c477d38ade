// SPDX-License-Identifier: Apache-2.0
//! Files of a node itself: its modules, its PCI devices, its driver's version, and its name.

use crate::gathered::BundleFile;
use peermem_gate::ready::observation::{ProcModule, ProcModules, ProcState};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Before a node's name, and a directory of files that begin with one.
const BUG_REPORT: &str = "nvidia-bug-report_";
/// A node has more modules; of a list that `grep` made, others are missing.
const WHOLE: usize = 20;
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
    let text = String::from_utf8_lossy(file.bytes.get(..file.bytes.len().min(300))?);
    let text = text.trim();
    let is_own = tree(&file.path).is_some() && !text.is_empty() && !text.contains(char::is_whitespace);
    is_own.then(|| text.to_owned())
}

fn tree(path: &str) -> Option<&str> {
    ["sos_commands/host/hostname", "proc/sys/kernel/hostname"].iter().find_map(|end| path.strip_suffix(end))
}

/// The directory of a node's own tree that this file shows, with the node: a report of sos.
pub(super) fn home(file: &BundleFile) -> Option<(String, String)> {
    Some((tree(&file.path)?.to_owned(), node_of(file)?))
}

/// The list of loaded modules, where the file has all of them: `lsmod | grep` has some.
pub(super) fn modules(file: &BundleFile) -> Option<ProcModules> {
    let text = String::from_utf8_lossy(&file.bytes);
    let section = section(file, "/proc/modules");
    let lines = section.as_deref().unwrap_or(&text).lines();
    let modules: Vec<_> = lines.map_while(module).take_while(|module| !module.address.is_empty()).collect();
    let all: BTreeSet<_> = modules.iter().map(|module| &module.name).collect();
    let is_whole = all.len() >= WHOLE && modules.iter().flat_map(|it| &it.users).all(|it| all.contains(it));
    let is_own = section.is_some() || file.path.ends_with("proc/modules");
    if is_whole || is_own && !modules.is_empty() {
        return Some(ProcModules { modules, garbled: None });
    }
    let mut lines = text.lines().skip_while(|line| line.starts_with('$') || line.starts_with('#'));
    let is_lsmod = lines.next()?.split_whitespace().eq(["Module", "Size", "Used", "by"]);
    is_lsmod.then(|| ProcModules { modules: lines.map_while(module).collect(), garbled: None })
}

pub(super) fn is_bug_report(file: &BundleFile) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    name.starts_with("nvidia-bug-report")
}

/// A file within nvidia-bug-report.log: `*** PATH`, a line `*** ls: …`, and the text up to an empty line.
pub(super) fn section<'a>(report: &'a BundleFile, path: &str) -> Option<Cow<'a, str>> {
    let bytes = Some(&report.bytes).filter(|_| is_bug_report(report))?;
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

/// A line of /proc/modules, or of lsmod, which shows neither a state nor an address.
fn module(line: &str) -> Option<ProcModule> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, size, count, rest @ ..] = fields.as_slice() else { return None };
    let state = match rest.get(1) {
        None | Some(&"Live") => ProcState::Live,
        Some(&"Loading") => ProcState::Loading,
        Some(&"Unloading") => ProcState::Unloading,
        _ => return None,
    };
    let field = |at: usize| rest.get(at).copied().unwrap_or_default();
    Some(ProcModule {
        name: Some((*name).to_owned()).filter(|name| is_name(name))?,
        size: size.parse().ok()?,
        refcount: count.parse().ok(),
        users: users(field(0)),
        state,
        address: field(2).to_owned(),
        taint: field(3).trim_matches(['(', ')', '+', '-']).to_owned(),
    })
}

/// lscpu, lspci or the kernel's log says that it is a virtual machine.
pub(super) fn is_of_guest(file: &BundleFile) -> bool {
    let words: [&[u8]; 4] =
        [b"\nHypervisor vendor:", b" [1af4:", b"Red Hat, Inc. Virtio", b"Hypervisor detected: "];
    words.iter().any(|words| memchr::memmem::find(&file.bytes, words).is_some())
}
