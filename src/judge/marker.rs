// SPDX-License-Identifier: Apache-2.0
//! `MarkerPresent` and `MarkerTrusted`.

use crate::condition::{ConditionType, Reason};
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
            condition(Reason::MarkerAbsent, message + &hindrance(seen))
        }
        Marker::ParentMissing(nearest) => condition(
            Reason::MarkerParentMissing,
            format!(
                "the directory of {path} does not exist (the nearest that does is {}){}{}",
                nearest.display(),
                misspelt(expected),
                hindrance(seen)
            ),
        ),
        Marker::DirectoryUnlinked => condition(
            Reason::MarkerDirectoryUnlinked,
            format!(
                "the directory of {path} was deleted on the host, and this mount still shows the deleted one"
            ),
        ),
        Marker::NotAFile(what) => {
            condition(Reason::MarkerNotAFile, format!("{path} is {what}, not a regular file"))
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

/// The obstacle to MOFED's start, or to its marker's showing here. MOFED gives up at its start while
/// `nvidia_peermem` is in use.
fn hindrance(seen: &Observation) -> String {
    let lines = seen.modules.proc.iter().flat_map(|proc| proc.named("nvidia_peermem"));
    let in_use = lines.filter_map(|line| line.refcount).find(|count| *count > 0);
    match (in_use, &seen.cut_off) {
        (Some(count), _) => {
            format!("; nvidia_peermem is loaded and in use ({count}), which keeps MOFED from starting")
        }
        (None, Some(volume)) => super::cut_off(volume),
        (None, None) => String::new(),
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
            condition(Reason::MarkerSuspect, message)
        }
    }
}
