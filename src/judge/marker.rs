// SPDX-License-Identifier: Apache-2.0
//! `MarkerPresent` and `MarkerTrusted`.

use crate::condition::{Condition, ConditionType, Reason};
use crate::node::Expectations;
use crate::observation::{Lock, Marker, Observation};

pub(super) fn present(expected: &Expectations, seen: &Observation) -> Condition {
    let path = expected.marker.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerPresent, reason, message);
    match &seen.marker {
        Marker::Present(_) => condition(Reason::MarkerFound, format!("{path} is there")),
        Marker::Absent => {
            let message = format!("MOFED has not set its marker {path}{}", misspelt(expected));
            absent(condition(Reason::MarkerAbsent, message), seen)
        }
        Marker::ParentMissing(nearest) => absent(
            condition(
                Reason::MarkerParentMissing,
                format!(
                    "the directory of {path} is not there (the nearest that exists is {}){}",
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
        .with_remedy("delete this pod, so that a new one mounts the directory that is there now"),
        Marker::NotAFile(what) => {
            condition(Reason::MarkerNotAFile, format!("{path} is {what}, not a regular file"))
                .with_remedy(format!(
                    "correct --marker or DRIVER_READY_PATH if it is not to be {path}; if it is, remove that (a directory by \
                     rmdir, never with all that is in it): MOFED makes the file itself"
                ))
        }
        Marker::Unreadable(why) => {
            condition(Reason::MarkerUnreadable, format!("cannot tell whether the marker is there: {why}"))
                .with_remedy("let this process search that directory, or correct --marker")
        }
    }
}

/// Which MOFED is waited for, where that was meant otherwise, it seems.
fn misspelt(expected: &Expectations) -> String {
    let meant = expected.use_host_mofed.as_deref().filter(|value| !matches!(*value, "" | "true" | "false"));
    meant.map_or_else(String::new, |value| {
        format!("; USE_HOST_MOFED is {value:?}, not \"true\", so that a container's MOFED is waited for")
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
            format!("; nvidia_peermem is loaded and in use ({count}), which keeps MOFED from coming")
        }
        None => String::new(),
    }
}

pub(super) fn trusted(expected: &Expectations, seen: &Observation) -> Condition {
    let lock = expected.lock.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerTrusted, reason, message);
    if !matches!(seen.marker, Marker::Present(_)) {
        return condition(Reason::NoMarker, "there is no marker to distrust".to_owned());
    }
    match &seen.lock {
        Lock::Held => condition(Reason::LockHeld, format!("a running MOFED holds {lock}")),
        Lock::NoFile => condition(Reason::NoLockFile, format!("there is no {lock} to tell a stale marker by")),
        Lock::HolderHidden => condition(
            Reason::LockHolderHidden,
            "this /proc does not show the host's processes, so the lock's holder cannot be seen (hostPID: true)".to_owned(),
        ),
        Lock::Unreadable(why) => {
            condition(Reason::LocksUnreadable, format!("cannot tell who holds {lock}: {why}"))
                .with_remedy("let this process read that file, or correct --proc")
        }
        Lock::Free => condition(
            Reason::MarkerSuspect,
            format!("nobody holds {lock}: the marker may be left over from a MOFED container that was killed"),
        )
        .with_remedy("look whether the MOFED pod of this node is running; if not, start it"),
    }
}
