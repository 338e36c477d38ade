// SPDX-License-Identifier: Apache-2.0
//! Why modprobe was refused: from its words and the kernel's to a verdict and a remedy.
//!
//! modprobe always blames `nvidia_peermem`; who was refused says only the prefix of the kernel
//! log's lines: `nvidia_peermem: ` is the loader's, `nvidia-peermem ` the module's own, another
//! module's name that of a dependency. docs/loading.md has the same as a runbook.

use crate::ready::observation::{ModuleInfo, Seen};
use std::fmt;

/// modprobe's words for an errno (kmod's tools/modprobe.c; the rest is strerror's, in C).
const TEXTS: &[(&str, &str)] = &[
    ("Unknown symbol in module, or unknown parameter", "ENOENT"),
    ("Module already in kernel", "EEXIST"),
    ("Invalid argument", "EINVAL"),
    ("Device or resource busy", "EBUSY"),
    ("Exec format error", "ENOEXEC"),
    ("Operation not permitted", "EPERM"),
    ("Permission denied", "EACCES"),
    ("Key was rejected by service", "EKEYREJECTED"),
    ("Required key not available", "ENOKEY"),
    ("Resource temporarily unavailable", "EAGAIN"),
    ("Cannot allocate memory", "ENOMEM"),
    ("No such device", "ENODEV"),
    ("No such file or directory", "ENOENT"),
    ("Bad message", "EBADMSG"),
];

/// An attempt that failed, with its traces.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// modprobe's exit code, 128+n for signal n.
    pub code: u8,
    /// modprobe's standard error.
    pub stderr: &'a str,
    /// The kernel's log of that time.
    pub log: &'a Seen<Vec<String>>,
    /// The file that was inspected.
    pub file: Option<&'a ModuleInfo>,
    /// The file is compressed.
    pub is_packed: bool,
    /// Its CRCs were compared with headers only, not with the live modules' own files.
    pub by_headers: bool,
    /// The other modules that modprobe may have loaded for it.
    pub others: &'a [String],
}

/// Why it failed, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The errno behind modprobe's text.
    pub errno: Option<&'static str>,
    /// One sentence.
    pub verdict: String,
    /// The remedy; empty where time cures it.
    pub remedy: &'static str,
    /// Worth another attempt once the next look says ready.
    pub transient: bool,
    /// The symbol whose CRC the kernel refused.
    pub symbol: Option<String>,
    /// The kernel's lines that belong to it.
    pub lines: Vec<String>,
}

const REBUILD: &str = "run `peermem-gate rebuild`, which builds it again or says why not; or build the driver again against this MOFED: `rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod";
const RELEASE: &str = "build the driver for the running kernel: `rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod; or use the image for it";
const PARAMETER: &str = "correct it (GPU Operator: the ConfigMap that driver.kernelModuleConfig names), then `rm -f /run/nvidia/nvidia-driver.state` on the node and delete the driver pod";

const NOT_UNPACKED: &str =
    "the kernel got a file that is not ELF: this kmod cannot unpack compressed modules";
const UNPACK: &str = "unpack nvidia-peermem.ko in its place and run depmod, or install a kmod that was built with gzip, xz and zstd";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => write!(f, "{errno}: {}", self.verdict)?,
            None => f.write_str(&self.verdict)?,
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; what to do: {}", self.remedy) }
    }
}

/// A row of the decision table: a word in the kernel's log, and what it means.
struct KernelWord {
    word: &'static str,
    verdict: &'static str,
    remedy: &'static str,
    transient: bool,
}

const fn lasting(word: &'static str, verdict: &'static str, remedy: &'static str) -> KernelWord {
    KernelWord { word, verdict, remedy, transient: false }
}

const fn passing(word: &'static str, verdict: &'static str) -> KernelWord {
    KernelWord { word, verdict, remedy: "", transient: true }
}

/// The first row that fits decides, so the lines that only follow from others come last.
const ROWS: &[KernelWord] = &[
    lasting("compiled without IB peer memory", "it is a stub, built without MOFED's headers", REBUILD),
    lasting(
        "memory_peers",
        "another client has registered its name: nv_peer_mem, or another nvidia_peermem",
        "run `rmmod nv_peer_mem` and remove its package",
    ),
    lasting(
        "error while registering",
        "MOFED refused its registration: another client has its name (nv_peer_mem), or this MOFED is older than 5.1",
        "run `rmmod nv_peer_mem` and remove its package; with MLNX_OFED 4.9 set peerdirect_support=1",
    ),
    lasting("param value", "a parameter has a value that the module does not accept", PARAMETER),
    lasting("invalid for parameter", "a parameter's value is not a number", PARAMETER),
    lasting(
        "disagrees about version of symbol nvidia_p2p",
        "it was built against another nvidia than the loaded one",
        "load the matching nvidia: `rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod; on a host, reboot",
    ),
    lasting("disagrees about version of symbol module_layout", "it was built for another kernel", RELEASE),
    lasting("disagrees about version of symbol", "it was built against another MOFED or kernel", REBUILD),
    lasting("no symbol version for", "it was built without the Module.symvers of this MOFED", REBUILD),
    lasting("Invalid ELF header magic", NOT_UNPACKED, UNPACK),
    lasting("version magic", "it was built for another kernel", RELEASE),
    lasting("failed to validate module", "its BTF does not fit this kernel's", RELEASE),
    lasting(
        "is rejected",
        "the kernel loads only modules signed by a key that it trusts",
        "sign it with a key that the kernel trusts (MOK), or use a driver with signed modules",
    ),
    lasting(
        "Lockdown:",
        "the kernel is locked down, and no trusted key signed the module",
        "sign it with a key that the kernel trusts (MOK), or use a driver with signed modules",
    ),
    lasting("duplicate symbol", "a symbol that it exports already exists", REBUILD),
    passing("gave up waiting for init", "a module that it needs was still starting after 30 s"),
    passing("(err -16)", "a module that it needs was still starting after 30 s"),
    passing(
        "Unknown symbol ib_",
        "the module that exports its symbols is not live: MOFED is swapping its modules, or the kernel's own \
            stack is live",
    ),
    passing("Unknown symbol nvidia_p2p", "nvidia, which exports its symbols, is not live"),
    lasting("Unknown symbol", "it needs a symbol that this kernel does not have", RELEASE),
    lasting(
        "using GPL-only symbols",
        "the loaded nvidia is proprietary, but nvidia-peermem uses GPL-only symbols",
        "load NVIDIA's open kernel modules, or the nvidia-peermem that came with this nvidia",
    ),
    lasting(
        "is blacklisted",
        "the kernel's command line forbids it (module_blacklist)",
        "remove it from the kernel's command line and reboot",
    ),
];

/// Each errno with modprobe's words for it, and what they mean where nothing else is known.
pub fn errnos() -> impl Iterator<Item = (&'static str, Vec<&'static str>, Refusal)> {
    let is_first = |at: usize| !TEXTS[..at].iter().any(|(_, errno)| *errno == TEXTS[at].1);
    (0..TEXTS.len()).filter(move |at| is_first(*at)).map(|at| {
        let errno = TEXTS[at].1;
        let texts: Vec<_> = TEXTS.iter().filter(|row| row.1 == errno).map(|row| row.0).collect();
        let (code, stderr, log) = (1, texts[0], &Ok(Vec::new()));
        let nothing =
            Attempt { code, stderr, log, file: None, is_packed: false, by_headers: false, others: &[] };
        let (verdict, remedy, transient) = by_words(&nothing, Some(errno));
        let verdict = verdict.to_owned();
        let why = Refusal { errno: Some(errno), verdict, remedy, transient, symbol: None, lines: Vec::new() };
        (errno, texts, why)
    })
}

/// Says why.
#[must_use]
pub fn refusal(attempt: &Attempt) -> Refusal {
    let lines: Vec<String> =
        attempt.log.iter().flatten().filter(|line| attempt.concerns(line)).cloned().collect();
    let errno = TEXTS.iter().find(|(text, _)| attempt.stderr.contains(text)).map(|(_, errno)| *errno);
    let row = ROWS.iter().find_map(|row| Some((row, lines.iter().find(|line| line.contains(row.word))?)));
    let by_log = row.map(|(row, line)| by_log(row, line));
    let (verdict, remedy, transient) = by_log.unwrap_or_else(|| {
        let (verdict, remedy, transient) = by_words(attempt, errno);
        let silent = match attempt.log {
            Ok(_) => "the kernel log says nothing".to_owned(),
            Err(why) => format!("the kernel log cannot be read ({why})"),
        };
        (format!("{verdict}; {silent}"), remedy, transient)
    });
    let symbol = lines.iter().find_map(|line| refused_symbol(line)).map(str::to_owned);
    Refusal { errno, verdict, remedy, transient, symbol, lines }
}

/// The symbol of `nvidia_peermem: disagrees about version of symbol NAME`.
fn refused_symbol(line: &str) -> Option<&str> {
    line.strip_prefix("nvidia_peermem: ")?.strip_prefix("disagrees about version of symbol ").map(str::trim)
}

fn by_log(row: &KernelWord, line: &str) -> (String, &'static str, bool) {
    match other_module(line) {
        // A dependency was refused: it belongs to another stack than the one that is live.
        Some(other) => (
            format!("modprobe tried to load {other} for it, which was refused: {}", row.verdict),
            "wait until MOFED has loaded its modules, and load none of them yourself",
            true,
        ),
        None => (row.verdict.to_owned(), row.remedy, row.transient),
    }
}

/// Without the kernel's word: modprobe's, and what the file says.
fn by_words(attempt: &Attempt, errno: Option<&str>) -> (&'static str, &'static str, bool) {
    let is_stub =
        attempt.file.is_some_and(|file| !file.imports.contains(crate::ready::PEER_MEMORY_SYMBOLS[0]));
    let lasting = |verdict, remedy| (verdict, remedy, false);
    let passing = |verdict| (verdict, "", true);
    let stderr = attempt.stderr;
    if stderr.contains("not found in directory") {
        return lasting(
            "modprobe finds no such module",
            "remove /run/nvidia/nvidia-driver.state on the node if it is there, and delete the driver pod; \
                on a host, run depmod",
        );
    }
    if stderr.contains("install command") {
        return lasting(
            "an install line in modprobe.d runs a command instead of loading it, and the command failed",
            "remove the line, or correct its command",
        );
    }
    match errno {
        Some("EINVAL") if is_stub => lasting("it is a stub, built without MOFED's headers", REBUILD),
        Some("EINVAL") if attempt.file.is_some() && attempt.by_headers => lasting(
            "the kernel calls it invalid, although its file fits MOFED's headers: the headers may be of another MOFED than \
                the live one, a parameter may be wrong, or another client may have its name",
            "compare MOFED's headers with its live modules, and check the parameters and whether nv_peer_mem is loaded",
        ),
        Some("EINVAL") if attempt.file.is_some() => lasting(
            "the kernel calls it invalid, although its file fits: a parameter may be wrong, or another client may have its name",
            "check its parameters, and whether nv_peer_mem is loaded",
        ),
        Some("EINVAL") => lasting(
            "the kernel calls it invalid: it is a stub, its symbol CRCs differ, a parameter is wrong, or nv_peer_mem is loaded",
            "run `peermem-gate check --peermem` as root, which distinguishes these causes",
        ),
        Some("ENOENT") => passing("the module that exports its symbols was not live"),
        Some("EBUSY" | "EAGAIN") => passing("a module that it needs was busy"),
        Some("ENOEXEC") if attempt.is_packed => lasting(NOT_UNPACKED, UNPACK),
        Some("ENOEXEC") => lasting("it is for another kernel or machine, or damaged", RELEASE),
        Some("EKEYREJECTED" | "ENOKEY") => lasting(
            "the kernel trusts no key that signed it",
            "sign it with a key that the kernel trusts (MOK), or use a driver with signed modules",
        ),
        Some("EPERM" | "EACCES") => lasting(
            "this process may not load modules: CAP_SYS_MODULE is missing or only in a user namespace, \
                modules_disabled is 1, or the kernel is locked down",
            "run it privileged, in the host's user namespace; with modules_disabled, reboot, and load it before that is set",
        ),
        Some("ENOMEM") => passing("the kernel has no memory for it"),
        Some("EBADMSG") => lasting("it is damaged", REBUILD),
        // -q, or an errno that has no line in the log.
        None if attempt.code > 128 => lasting(
            "modprobe was ended by a signal",
            "find what ends processes here: a memory limit, or a person",
        ),
        None if stderr.trim().is_empty() => passing("modprobe failed without a message"),
        _ => lasting("modprobe failed", "read its output"),
    }
}

/// The module of a loader's line, if it is another than ours.
fn other_module(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let is_other = !matches!(name.replace('-', "_").as_str(), "nvidia_peermem" | "sysfs" | "Lockdown");
    (is_name && is_other).then_some(name)
}

impl Attempt<'_> {
    /// Does this line belong to it? The kernel goes on talking of other things meanwhile.
    fn concerns(&self, line: &str) -> bool {
        const OURS: [&str; 2] = ["nvidia_peermem", "nvidia-peermem"];
        let names_us = OURS.iter().any(|name| line.contains(name));
        let is_known = ROWS.iter().any(|row| line.contains(row.word));
        let may_be_ours =
            other_module(line).is_none_or(|name| self.others.iter().any(|o| *o == name.replace('-', "_")));
        names_us || is_known && may_be_ours
    }
}

#[cfg(test)]
mod tests;
