// SPDX-License-Identifier: Apache-2.0
//! `MarkerPresent` and `MarkerTrusted`.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::node::Expectations;
use crate::ready::observation::{FileId, HolderStart, HolderTimes, Lock, Marker, Observation};
use crate::ready::verdict::Condition;
use std::time::Duration;

/// A start is known to a hundredth of a second.
const TICK: Duration = Duration::from_millis(20);
/// The time of the boot is known to a second, and a file's time to a tick of the kernel's.
const SECOND: i128 = 1_000_000_000;
const PRECISION: i128 = 2 * SECOND;
/// MOFED's container clears the marker first of all. After this long the marker is its own, whatever the clocks say.
const HOLDER_SETTLED: Duration = Duration::from_secs(600);

pub(super) fn present(expected: &Expectations, seen: &Observation) -> Condition {
    let path = expected.marker.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerPresent, reason, message);
    match &seen.marker {
        Marker::Present(_) => condition(Reason::MarkerFound, format!("{path} exists")),
        Marker::Absent => {
            let message = format!("MOFED has not set its marker {path}{}", misspelled(expected));
            condition(Reason::MarkerAbsent, message + &running(expected, seen) + &hindrance(seen))
        }
        Marker::ParentMissing(nearest) => {
            let nearest = nearest.display();
            let message = format!("MOFED has not set its marker {path}: of the path, only {nearest} exists");
            condition(Reason::MarkerParentMissing, message + &misspelled(expected) + &hindrance(seen))
        }
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
fn misspelled(expected: &Expectations) -> String {
    let meant = expected.use_host_mofed.as_deref().filter(|value| !matches!(*value, "" | "true" | "false"));
    meant.map_or_else(String::new, |value| {
        format!("; USE_HOST_MOFED is {value:?}, not \"true\", so the gate waits for a MOFED container")
    })
}

/// The state of MOFED's container by its lock. An older MOFED keeps no lock.
fn running(expected: &Expectations, seen: &Observation) -> String {
    let lock = expected.lock.display();
    match &seen.lock {
        Lock::Held => format!("; the MOFED container is running and has not finished: it holds {lock}"),
        Lock::Free => format!("; no MOFED container holds {lock} (an older MOFED keeps no lock)"),
        Lock::NoFile | Lock::HolderHidden | Lock::Unreadable(_) => String::new(),
    }
}

/// The obstacle to MOFED's start, or to its marker's showing here. MOFED gives up at its start while
/// `nvidia_peermem` is in use.
fn hindrance(seen: &Observation) -> String {
    let lines = seen.modules.proc.iter().flat_map(|proc| proc.named("nvidia_peermem"));
    let in_use = lines.filter_map(|line| line.refcount).find(|count| *count > 0);
    match (in_use, &seen.private_mount) {
        (Some(count), _) => {
            format!("; nvidia_peermem is loaded and in use ({count}), which keeps MOFED from starting")
        }
        (None, Some(volume)) => super::private_mount(volume),
        (None, None) => String::new(),
    }
}

pub(super) fn trusted(expected: &Expectations, seen: &Observation) -> Condition {
    let lock = expected.lock.display();
    let condition = |reason, message: String| Condition::new(ConditionType::MarkerTrusted, reason, message);
    let marker = match &seen.marker {
        Marker::Present(marker) => marker,
        Marker::Unreadable(why) => {
            let message = format!("cannot tell whether there is a marker to check: {why}");
            return condition(Reason::MarkerUnreadable, message);
        }
        _ => return condition(Reason::NoMarker, "there is no marker to check".to_owned()),
    };
    match &seen.lock {
        Lock::Held => match &seen.holder_start {
            HolderStart::Unreadable(why) => condition(
                Reason::LocksUnreadable,
                format!("cannot tell whether the marker is older than the process that holds {lock}: {why}"),
            ),
            HolderStart::Known(times) if is_older(marker, times) => condition(
                Reason::MarkerSuspect,
                format!(
                    "the marker is older than the process that holds {lock}{}: it may be left over from an \
                        earlier MOFED container",
                    seen.lock_holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
                ),
            ),
            _ => condition(Reason::LockHeld, format!("a running MOFED holds {lock}")),
        },
        Lock::NoFile => condition(
            Reason::NoLockFile,
            format!("there is no {lock}, so a stale marker is not recognized here"),
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

/// Was the marker there before the process that holds the lock?
fn is_older(marker: &FileId, times: &HolderTimes) -> bool {
    let was_seen = times.marker_seen.is_some_and(|seen| seen + TICK < times.started);
    was_seen || is_older_by_the_clock(marker, times).unwrap_or(false)
}

/// The marker has a time of the wall clock, and the process one since the boot. A clock that was set since makes a
/// healthy marker look older: such a marker is trusted.
fn is_older_by_the_clock(marker: &FileId, times: &HolderTimes) -> Option<bool> {
    let booted = i128::from(times.booted?) * SECOND;
    let since_boot = marker.changed_ns - booted;
    // The clock was set forward by at least as much since sysfs was mounted, at the boot on a host.
    let set_forward = times.sysfs_mounted_ns.map_or(0, |mounted| (booted - mounted).max(0));
    let started = i128::try_from(times.started.as_nanos()).ok()?;
    let is_young = times.now.is_none_or(|now| now.saturating_sub(times.started) < HOLDER_SETTLED);
    // Before the boot there was no marker: /run is empty then.
    Some(is_young && since_boot >= 0 && since_boot + set_forward + PRECISION < started)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTED: i64 = 1_755_650_000;

    /// A marker that was set so many seconds after the boot, by the clock of now.
    fn marker(seconds: f64) -> FileId {
        let changed = Duration::from_secs_f64(f64::from(1_755_650_000) + seconds);
        FileId { device: 1, inode: 1, changed_ns: i128::try_from(changed.as_nanos()).unwrap() }
    }

    /// A process that started so many seconds after the boot, a minute ago.
    fn holder(seconds: u64) -> HolderTimes {
        HolderTimes {
            started: Duration::from_secs(seconds),
            now: Some(Duration::from_secs(seconds + 60)),
            marker_seen: None,
            booted: Some(BOOTED),
            sysfs_mounted_ns: None,
        }
    }

    #[test]
    fn a_marker_from_before_the_holder_is_older_and_one_from_after_it_is_not() {
        for (set, is_stale) in
            [(100.0, true), (997.5, true), (998.5, false), (1000.0, false), (1200.0, false)]
        {
            assert_eq!(is_older(&marker(set), &holder(1000)), is_stale, "set at {set}");
        }
    }

    #[test]
    fn a_marker_that_was_seen_before_the_holder_started_is_older_whatever_the_clock_says() {
        let seen = |at| HolderTimes { marker_seen: Some(Duration::from_millis(at)), ..holder(1000) };
        for set in [-5000.0, 100.0, 5000.0] {
            assert!(is_older(&marker(set), &seen(999_900)), "set at {set}");
        }
        assert!(!is_older(&marker(1200.0), &seen(999_990)), "in the same tick");
        let without_a_clock = HolderTimes { booted: None, ..seen(900_000) };
        assert!(is_older(&marker(1200.0), &without_a_clock));
    }

    /// Set at 1,200 s by a holder that started at 1,000 s.
    #[test]
    fn a_clock_that_is_set_makes_no_healthy_marker_older() {
        for forward in [1, 100, 1300, 86_400, 400_000_000] {
            let set = 1200.0 - f64::from(forward);
            // The host's sysfs was mounted a second after the boot, by the clock of then.
            let mounted = (i128::from(BOOTED) - i128::from(forward) + 1) * SECOND;
            let shown = HolderTimes { sysfs_mounted_ns: Some(mounted), ..holder(1000) };
            assert!(!is_older(&marker(set), &shown), "{forward} s forward");
            let old = HolderTimes { now: Some(Duration::from_secs(90_000)), ..holder(1000) };
            assert!(!is_older(&marker(set), &old), "{forward} s forward, and long ago");
            // Without either, only a marker from before the boot shows the step.
            assert_eq!(
                is_older(&marker(set), &holder(1000)),
                (201..=1200).contains(&(forward + 1)),
                "{forward}"
            );
        }
        assert!(!is_older(&marker(1200.0 + 3600.0), &holder(1000)), "set back");
    }

    #[test]
    fn a_stale_marker_is_older_on_a_host_whose_clock_was_never_set() {
        let mounted = i128::from(BOOTED) * SECOND + SECOND / 2;
        let host = HolderTimes { sysfs_mounted_ns: Some(mounted), ..holder(1000) };
        assert!(is_older(&marker(900.0), &host));
        assert!(!is_older(&marker(1001.0), &host));
    }
}
