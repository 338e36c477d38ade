// SPDX-License-Identifier: Apache-2.0
//! `MarkerPresent` and `MarkerTrusted`.

use crate::condition::{Condition, ConditionType, Reason};
use crate::node::Expectations;
use crate::observation::{Lock, Marker, Observation};

pub(super) fn present(expected: &Expectations, seen: &Observation) -> Condition {
    let path = expected.marker.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerPresent, reason, message);
    match &seen.marker {
        Marker::Present(_) => condition(Reason::MarkerFound, format!("{path} exists")),
        Marker::Absent => {
            let message = format!("MOFED has not set its marker {path}{}", misspelt(expected));
            absent(condition(Reason::MarkerAbsent, message), seen)
        }
        Marker::ParentMissing(nearest) => absent(
            condition(
                Reason::MarkerParentMissing,
                format!(
                    "the directory of {path} does not exist (the nearest that does is {}){}",
                    nearest.display(),
                    misspelt(expected)
                ),
            ),
            seen,
        ),
        Marker::DirectoryUnlinked => condition(
            Reason::MarkerDirectoryUnlinked,
            format!(
                "the directory of {path} was deleted on the host, and this mount still shows the deleted one"
            ),
        )
        .with_remedy("delete this pod; a new one mounts the directory that exists now"),
        Marker::NotAFile(what) => {
            condition(Reason::MarkerNotAFile, format!("{path} is {what}, not a regular file")).with_remedy(
                format!(
                    "if the marker is not {path}, correct --marker or DRIVER_READY_PATH; if it is, remove \
                        what is there (a directory only by rmdir): MOFED creates the file itself"
                ),
            )
        }
        Marker::Unreadable(why) => {
            condition(Reason::MarkerUnreadable, format!("cannot tell whether the marker exists: {why}"))
                .with_remedy("let this process search that directory, or correct --marker")
        }
    }
}

/// Which MOFED is waited for, where that was meant otherwise, it seems.
fn misspelt(expected: &Expectations) -> String {
    let meant = expected.use_host_mofed.as_deref().filter(|value| !matches!(*value, "" | "true" | "false"));
    meant.map_or_else(String::new, |value| {
        format!("; USE_HOST_MOFED is {value:?}, not \"true\", so the gate waits for a MOFED container")
    })
}

/// A person must act only when something here keeps MOFED from coming, or us from seeing it.
fn absent(mut condition: Condition, seen: &Observation) -> Condition {
    let in_use = in_use(seen);
    if !in_use.is_empty() {
        condition.message += &in_use;
        condition =
            condition.with_remedy("end what uses nvidia_peermem (GPU pods), then `rmmod nvidia_peermem`");
    } else if let Some(volume) = &seen.cut_off {
        condition.message += &super::cut_off(volume);
        condition = condition.with_remedy(super::propagation(volume));
    }
    condition
}

/// MOFED gives up at start while `nvidia_peermem` is used, so its marker will never come.
fn in_use(seen: &Observation) -> String {
    let Ok(proc) = &seen.modules.proc else { return String::new() };
    match proc.named("nvidia_peermem").find_map(|m| m.refcount.filter(|count| *count > 0)) {
        Some(count) => {
            format!("; nvidia_peermem is loaded and in use ({count}), which keeps MOFED from starting")
        }
        None => String::new(),
    }
}

pub(super) fn trusted(expected: &Expectations, seen: &Observation) -> Condition {
    let lock = expected.lock.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerTrusted, reason, message);
    match &seen.marker {
        Marker::Present(_) => {}
        Marker::Unreadable(why) => {
            let message = format!("cannot tell whether there is a marker to check: {why}");
            return condition(Reason::MarkerUnreadable, message);
        }
        _ => return condition(Reason::NoMarker, "there is no marker to distrust".to_owned()),
    }
    match &seen.lock {
        Lock::Held => condition(Reason::LockHeld, format!("a running MOFED holds {lock}")),
        Lock::NoFile => condition(
            Reason::NoLockFile,
            format!(
                "there is no {lock}, so a stale marker is not \
            recognised here"
            ),
        ),
        Lock::HolderHidden => condition(
            Reason::LockHolderHidden,
            "this /proc does not show the host's processes, so the lock's holder cannot be seen (hostPID: \
                true)"
                .to_owned(),
        ),
        Lock::Unreadable(why) => {
            condition(Reason::LocksUnreadable, format!("cannot tell who holds {lock}: {why}"))
                .with_remedy("let this process read that file, or correct --proc")
        }
        Lock::Free => condition(
            Reason::MarkerSuspect,
            format!("no process holds {lock}: the marker may be left over from a killed MOFED container"),
        )
        .with_remedy("check whether this node's MOFED pod is running; if not, start it"),
    }
}
