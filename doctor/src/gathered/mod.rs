// SPDX-License-Identifier: Apache-2.0
//! Gathered files of a cluster or a node: the objects that they list, and whose log each of them is. Pure. `doctor`,
//! `timeline` and `fleet` all read them here, so they cannot judge a file differently.

mod describe;
pub(crate) mod list;
pub(crate) mod objects;
pub(crate) mod owner;

use crate::operators::Operators;
use objects::Objects;
use std::borrow::Cow;

/// One file of a bundle, unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleFile {
    /// Its path in the bundle, as evidence names it. Nothing is opened by it.
    pub path: String,
    /// Its beginning, as much as the bound allows.
    pub bytes: Vec<u8>,
    /// When it was written, in seconds since 1970.
    pub modified: Option<i64>,
}

/// All files that were read, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// In the order of their paths.
    pub files: Vec<BundleFile>,
    /// Files that were not read, or not to their end, each with the reason.
    pub left_out: Vec<String>,
    /// More of them than are named.
    pub more_left_out: u64,
}

/// The containers that install a driver, which no ordinary user may start.
pub(crate) const DRIVERS: [&str; 2] = ["mofed-container", "nvidia-driver-ctr"];

/// The objects of these files, and whose words count. Pods that are no operator's are set aside.
pub(crate) fn listed<'a>(
    files: impl IntoIterator<Item = Cow<'a, BundleFile>>,
    named: &[String],
) -> (Objects, Operators) {
    let mut objects = Objects::default();
    for file in files {
        if !objects.read(&file) {
            describe::read(&mut objects, &file);
        }
    }
    let operators = operators(&objects, named);
    objects.drop_untrusted(|pod| pod.namespace.is_empty() || operators.have(&pod.namespace));
    (objects, operators)
}

/// Whose words count. A privileged container of an operator's name shows that its namespace is an operator's, as its
/// process does on a node.
fn operators(objects: &Objects, named: &[String]) -> Operators {
    let mut operators = Operators::named(named);
    for pod in &objects.pods {
        if pod.containers.iter().any(|one| one.is_privileged && DRIVERS.contains(&one.name.as_str())) {
            operators.live_in(&pod.namespace);
        }
        for resource in &pod.resources {
            operators.has_device(&format!("{}/{}", pod.namespace, pod.name), resource);
        }
    }
    operators
}

/// So many files at most somebody posts by hand: whatever their names are, all of them count.
pub(crate) const POSTED: usize = 50;

/// Whether it is a text.
pub(crate) fn is_text(file: &BundleFile) -> bool {
    const TEXT: usize = 8 * 1024;
    memchr::memchr(0, &file.bytes[..file.bytes.len().min(TEXT)]).is_none() && !file.bytes.is_empty()
}

/// Whether a file among many may be evidence: most of a report of sos is not.
pub fn is_wanted(file: &BundleFile) -> bool {
    const NAMES: [&str; 14] = words! {
        "log" "dmesg" "journal" "messages" "lsmod" "lspci" "proc/modules" "hostname" "nvidia-bug-report"
        "kubelet" ".txt" "driver/nvidia/version" "containerd" "-ctr"
    };
    let is_named = || NAMES.iter().any(|name| file.path.contains(name));
    is_text(file) && (is_named() || is_list(&file.bytes))
}

/// Whether a file of this beginning lists objects of the API, in one of kubectl's forms.
pub(crate) fn is_list(head: &[u8]) -> bool {
    head.starts_with(b"Name:") || is_table(head) || objects::has_objects(head)
}

/// `kubectl get pods -o wide`, of one namespace or of all.
fn is_table(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    (line.starts_with(b"NAMESPACE ") || line.starts_with(b"NAME ")) && has(b" READY ") && has(b" NODE ")
}
