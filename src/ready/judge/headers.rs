// SPDX-License-Identifier: Apache-2.0
//! `HeadersReady`: could nvidia-peermem be built now, and not as a stub?
//!
//! NVIDIA's Kbuild takes the *first existing* directory, so one without a Module.symvers is
//! worse than none: it fails the build of every NVIDIA module. `default` may lead to the tree of another kernel
//! (`nv_peer_memory#39`).

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::place;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::{HeaderTree, Headers, Kernel, Marker, Observation, Symvers};
use crate::ready::verdict::Condition;
use std::path::Path;

/// MOFED's marker is a file of the host, its headers are a mount: a private mount shows only the marker.
fn missing(seen: &Observation, mut message: String) -> Condition {
    if let (Marker::Present(_), Some(volume)) = (&seen.marker, &seen.private_mount) {
        message += &super::private_mount(volume);
    }
    condition(Reason::HeadersMissing, message)
}

pub(super) fn ready(expected: &Expectations, seen: &Observation) -> Condition {
    if expected.precompiled {
        return super::not_required(ConditionType::HeadersReady, "precompiled modules are not built here");
    }
    let Headers { root, tree, kernel_build } = &seen.headers;
    let Kernel { release, machine, .. } = &seen.kernel;
    if release.is_empty() || machine.is_empty() {
        return condition(
            Reason::HeadersUnreadable,
            "cannot read the kernel's release or machine (sys/kernel/osrelease and arch in /proc)".to_owned(),
        );
    }
    if let (MofedPlace::InBox, Some((path, symvers))) = (place(expected.mofed, seen), kernel_build) {
        return of_kernel(path, symvers, release);
    }
    match tree {
        HeaderTree::Taken { directory, other_kernel, symvers } => {
            let mut condition = symvers_ready(directory, symvers);
            if let Some(other) = other_kernel {
                condition.message += &format!("; it is the tree of kernel {other}, not of {release}");
            }
            condition
        }
        HeaderTree::Unreadable(why) => unreadable(&why.to_string()),
        HeaderTree::Missing => match kernel_build {
            Some((path, Symvers::WithPeerMemory)) if expected.mofed.is_on_host() => condition(
                Reason::HeadersComplete,
                format!("the kernel's own {} has both peer-memory symbols", path.display()),
            ),
            _ => missing(seen, format!("{} does not exist", root.display())),
        },
        HeaderTree::NoCandidate(others) if others.is_empty() => {
            missing(seen, format!("{} has no directory for kernel {release}", root.display()))
        }
        HeaderTree::NoCandidate(others) => condition(
            Reason::HeadersForOtherKernel,
            format!("{} has headers for {}, not for {release}", root.display(), others.join(", ")),
        ),
    }
}

/// The headers of the kernel's own RDMA stack, where no MOFED has any.
fn of_kernel(file: &Path, symvers: &Symvers, release: &str) -> Condition {
    let tree = file.parent().unwrap_or(file);
    match symvers {
        Symvers::Missing => condition(
            Reason::HeadersMissing,
            format!(
                "the kernel's own RDMA stack is live, but {} has no Module.symvers: the headers of kernel {release} \
                    are not installed",
                tree.display()
            ),
        ),
        symvers => {
            let mut condition = symvers_ready(tree, symvers);
            condition.message += ", as the kernel's own RDMA stack needs";
            condition
        }
    }
}

fn symvers_ready(directory: &Path, symvers: &Symvers) -> Condition {
    let file = directory.join("Module.symvers");
    let file = file.display();
    match symvers {
        Symvers::WithPeerMemory => {
            condition(Reason::HeadersComplete, format!("{file} has both peer-memory symbols"))
        }
        Symvers::Missing => condition(
            Reason::HeadersIncomplete,
            format!("{} has no Module.symvers: NVIDIA's build would fail on it", directory.display()),
        ),
        Symvers::Truncated => condition(
            Reason::HeadersIncomplete,
            format!("{file} is incomplete: its last line does not end with a newline"),
        ),
        Symvers::Garbled(line) => condition(
            Reason::HeadersIncomplete,
            format!("{file} has a line that NVIDIA's build would fail on: {line:?}"),
        ),
        Symvers::WithoutPeerMemory => condition(
            Reason::HeadersWithoutPeerMemory,
            format!("{file} lacks the peer-memory symbols: nvidia-peermem would become a stub"),
        ),
        Symvers::Unreadable(why) => unreadable(&why.to_string()),
    }
}

fn unreadable(why: &str) -> Condition {
    condition(Reason::HeadersUnreadable, format!("cannot read the headers: {why}"))
}

fn condition(reason: Reason, message: String) -> Condition {
    Condition::new(ConditionType::HeadersReady, reason, message)
}
