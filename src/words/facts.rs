// SPDX-License-Identifier: Apache-2.0
//! The facts of one look that decide which steps of a remedy help, and the words for their commands. `doctor`
//! adds its own.

use crate::peermem::judge;
use crate::ready::condition::{Reason, Status};
use crate::ready::judge::modules;
use crate::ready::judge::modules::place;
use crate::ready::judge::next_build::next_build;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::{DriverState, Lock, Marker, ModuleFile, Observation, Peermem, Symbols};
use crate::words::remedy::{CommandText, Facts, NodeName, fact};
use std::path::Path;

/// The words for a pod and for the pod of a log, and the operators' labels, by which it is found on this node.
pub const SELECTORS: [(&str, &str, &str); 5] = [
    ("driver", "driver-logs", "app.kubernetes.io/component=nvidia-driver"),
    ("mofed", "mofed-logs", "nvidia.com/ofed-driver"),
    ("toolkit", "toolkit-logs", "app=nvidia-container-toolkit-daemonset"),
    ("validator", "validator-logs", "app=nvidia-operator-validator"),
    ("plugin", "plugin-logs", "app=nvidia-device-plugin-daemonset"),
];

/// The arguments of `kubectl logs` for a pod whose name is unknown.
pub const UNKNOWN_POD: &str = "-n NAMESPACE POD";

/// Where MOFED's containers share files.
const MELLANOX: &str = "/run/mellanox";

/// The headers that a build of the driver's modules takes the peer-memory symbols from.
const MOFED_HEADERS: &str = "with MOFED's headers installed";
const KERNEL_HEADERS: &str =
    "with the running kernel's headers installed, and no `/usr/src/ofa_kernel` of an earlier MOFED";

/// Where the driver toolkit's volume is, on the way to its flag.
const TOOLKIT_VOLUME: &str = "shared-nvidia-driver-toolkit";

/// The facts of a look.
#[must_use]
pub fn facts(expected: &Expectations, seen: &Observation) -> Facts {
    let is_shadowed = judge::shadowed(expected, seen).is_some();
    let driver_container = has_driver_container(expected, seen);
    let line = seen.modules.proc.as_ref().ok().and_then(|proc| proc.named("nvidia_peermem").next());
    let file = seen.peermem.as_ref().map(|peermem| &peermem.file);
    let is_mofed_live = modules::from_mofed(expected, seen).reason == Reason::OutOfTree;
    let bad_parameter = judge::is_boot_parameter(expected, seen);
    let facts = Facts::default()
        .with(fact::DRIVER_POD, driver_container)
        .with(fact::HOST_DRIVER, driver_container.map(|is_container| !is_container))
        .with(fact::BUILT_BY_TOOLKIT, toolkit_build(seen))
        // Most likely, where it is unknown.
        .with(fact::BUILT_BY_DRIVER_POD, Some(toolkit_build(seen) != Some(true)))
        .with(fact::STATE_FILE, may_skip(expected, seen, has_driver_state(&seen.driver_state)))
        .with(fact::SHADOWED, Some(is_shadowed))
        .with(fact::REBUILD_POSSIBLE, may_rebuild(seen))
        .with(fact::OWN_FILE, Some(seen.peermem.as_ref().is_some_and(Peermem::is_rebuilt) && !is_shadowed))
        .with(fact::PRECOMPILED_DRIVER, Some(expected.precompiled))
        .with(fact::HOST_MOFED, is_host_mofed(expected, seen))
        .with(fact::KERNEL_STACK, Some(is_in_box(expected, seen)))
        .with(fact::BUILT_IN, Some(!modules::built_in(expected, seen).is_empty()))
        .with(fact::MOFED_POD, has_mofed_pod(expected, seen))
        .with(fact::DRIVER_POD_UNNAMED, Some(true))
        .with(fact::MOFED_POD_UNNAMED, Some(true))
        .with(fact::MARKER_UNSET, is_unmarked(expected, seen))
        .with(fact::PEERMEM_USED, line.and_then(|line| Some(line.refcount? > 0)))
        .with(fact::PRIVATE_MOUNT, Some(seen.private_mount.is_some()))
        .with(fact::MOFED_LIVE, Some(is_mofed_live))
        .with(fact::WITHOUT_PEER_MEMORY, Some(is_mofed_live && seen.symbols == Symbols::Missing))
        .with(fact::NOT_LISTED, Some(matches!(file, Some(ModuleFile::Read { listed: Some(false), .. }))))
        .with(fact::UNDIAGNOSED, Some(true))
        .with(fact::NVIDIA_LOADED, is_nvidia_loaded(seen))
        .with(fact::BOOT_PARAMETER, bad_parameter)
        .with(fact::FILE_PARAMETER, bad_parameter.map(|is_boot| !is_boot))
        .word(
            "root-option",
            seen.peermem.as_ref().map(|peermem| driver_root_option(&peermem.root)).unwrap_or_default(),
        )
        .word("headers", if is_in_box(expected, seen) { KERNEL_HEADERS } else { MOFED_HEADERS })
        .word("nvidia-version", nvidia_version(seen))
        .word("pod-directory", "/var/lib/kubelet/pods/*")
        .word(
            "volume",
            CommandText::path(seen.private_mount.as_deref().unwrap_or(Path::new(MELLANOX)), MELLANOX),
        )
        .word("holders", "")
        .word("rdma-holders", "");
    SELECTORS
        .iter()
        .fold(facts, |facts, (pod, logs, label)| facts.word(pod, selected(label)).word(logs, UNKNOWN_POD))
        .node(&node_name(expected, seen))
}

/// For `kubectl delete pod` where its name is not known.
#[must_use]
pub fn selected(label: &'static str) -> CommandText {
    CommandText::from("-A -l ").and(label).and(" --field-selector spec.nodeName={node}")
}

fn is_nvidia_loaded(seen: &Observation) -> Option<bool> {
    seen.modules.proc.as_ref().ok().map(|proc| proc.named("nvidia").next().is_some())
}

fn nvidia_version(seen: &Observation) -> CommandText {
    CommandText::plain(seen.modules.version("nvidia").unwrap_or_default(), "VERSION")
}

fn node_name(expected: &Expectations, seen: &Observation) -> NodeName {
    let named = |name: &str, is_guess| NodeName { name: name.to_owned(), is_guess };
    match (&expected.node_name, seen.kernel.hostname.as_str()) {
        (Some(name), _) => named(name, false),
        // What the kernel says until a hostname is set, and what a bundle is called that names no node.
        (None, "" | "(none)" | "unknown") => named("NODE", false),
        (None, hostname) => named(&hostname.to_lowercase(), true),
    }
}

/// The GPU Operator sets these variables for its containers only; a root other than `/` is a driver container's.
fn has_driver_container(expected: &Expectations, seen: &Observation) -> Option<bool> {
    let is_operators = expected.rdma_requested.is_some() || expected.driver_digest.is_some();
    let is_elsewhere =
        seen.peermem.as_ref().is_some_and(|peermem| peermem.root.ends_with("run/nvidia/driver"));
    (is_operators || is_elsewhere).then_some(true)
}

fn toolkit_build(seen: &Observation) -> Option<bool> {
    let is_in_volume = |path: &Path| path.components().any(|part| part.as_os_str() == TOOLKIT_VOLUME);
    match seen.peermem.as_ref().map(|peermem| &peermem.file) {
        Some(ModuleFile::Read { path, .. }) if is_in_volume(path) => Some(true),
        // A release that is not known may be one of OpenShift's.
        _ => {
            let release = &seen.kernel.release;
            (!release.is_empty() && !release.contains(".el")).then_some(false)
        }
    }
}

fn has_driver_state(state: &DriverState) -> Option<bool> {
    match state {
        DriverState::Digest(_) => Some(true),
        DriverState::Absent => Some(false),
        DriverState::NoDirectory | DriverState::NotRead | DriverState::Unreadable(_) => None,
    }
}

/// Whether the state file may make the next driver container skip its build, with what is known of the file.
#[must_use]
pub fn may_skip(expected: &Expectations, seen: &Observation, has_state: Option<bool>) -> Option<bool> {
    match next_build(expected, seen).map(|next| next.status) {
        _ if is_nvidia_loaded(seen) == Some(false) => Some(false),
        Some(Status::True) => Some(false),
        Some(Status::False) => Some(true),
        Some(Status::Unknown) | None => has_state,
    }
}

/// A rebuild needs nvidia live, and the driver toolkit makes its own. Whether the node has the rest, only
/// `rebuild` knows.
fn may_rebuild(seen: &Observation) -> Option<bool> {
    let may = is_nvidia_loaded(seen) != Some(false) && toolkit_build(seen) != Some(true);
    (!may).then_some(false)
}

/// ` --driver-root DIR`, for a command.
#[must_use]
pub fn driver_root_option(root: &Path) -> CommandText {
    if root == Path::new("/") {
        return CommandText::default();
    }
    CommandText::from(" --driver-root ").and(CommandText::path(root, "DIR"))
}

/// Without a setting, a marker or a held lock is a container's.
fn is_host_mofed(expected: &Expectations, seen: &Observation) -> Option<bool> {
    let is_container = matches!(seen.marker, Marker::Present(_)) || seen.lock == Lock::Held;
    match place(expected.mofed, seen) {
        MofedPlace::Host => Some(true),
        MofedPlace::InBox => Some(false),
        MofedPlace::Container => (is_container || expected.use_host_mofed.is_some()).then_some(false),
    }
}

fn has_mofed_pod(expected: &Expectations, seen: &Observation) -> Option<bool> {
    if expected.mofed.is_on_host() {
        Some(false)
    } else {
        is_host_mofed(expected, seen).map(|is_host| !is_host)
    }
}

fn is_in_box(expected: &Expectations, seen: &Observation) -> bool {
    place(expected.mofed, seen) == MofedPlace::InBox
}

fn is_unmarked(expected: &Expectations, seen: &Observation) -> Option<bool> {
    match (&seen.marker, expected.mofed) {
        (_, place) if place.is_on_host() => Some(false),
        (Marker::Present(_), _) => Some(false),
        (Marker::Unreadable(_), _) => None,
        _ => Some(true),
    }
}
