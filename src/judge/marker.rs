// SPDX-License-Identifier: Apache-2.0
//! `MarkerPresent` and `MarkerTrusted`.

use super::facts::cured_by;
use crate::condition::{ConditionType, Reason};
use crate::finding::Id;
use crate::node::Expectations;
use crate::observation::{Lock, Marker, Observation};
use crate::verdict::Condition;

pub(super) fn present(expected: &Expectations, seen: &Observation) -> Condition {
    let path = expected.marker.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerPresent, reason, message);
    match &seen.marker {
        Marker::Present(_) => condition(Reason::MarkerFound, format!("{path} exists")),
        Marker::Absent => {
            let message = format!("MOFED has not set its marker {path}{}", misspelt(expected));
            absent(condition(Reason::MarkerAbsent, message), expected, seen)
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
            expected,
            seen,
        ),
        Marker::DirectoryUnlinked => condition(
            Reason::MarkerDirectoryUnlinked,
            format!(
                "the directory of {path} was deleted on the host, and this mount still shows the deleted one"
            ),
        ),
        Marker::NotAFile(what) => {
            let condition =
                condition(Reason::MarkerNotAFile, format!("{path} is {what}, not a regular file"));
            cured_by(condition, Id::MarkerNotAFile, expected, seen)
        }
        Marker::Unreadable(why) => {
            condition(Reason::MarkerUnreadable, format!("cannot tell whether the marker exists: {why}"))
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
fn absent(mut condition: Condition, expected: &Expectations, seen: &Observation) -> Condition {
    let in_use = in_use(seen);
    if !in_use.is_empty() {
        condition.message += &in_use;
        condition = cured_by(condition, Id::PeermemInUse, expected, seen);
    } else if let Some(volume) = &seen.cut_off {
        condition.message += &super::cut_off(volume);
        condition = cured_by(condition, Id::MountPropagationMissing, expected, seen);
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
        }
        Lock::Free => {
            let message =
                format!("no process holds {lock}: the marker may be left over from a killed MOFED container");
            cured_by(condition(Reason::MarkerSuspect, message), Id::MarkerSuspect, expected, seen)
        }
    }
}
