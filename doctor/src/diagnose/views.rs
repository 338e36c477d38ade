// SPDX-License-Identifier: Apache-2.0
//! Obstacles to a container's view of MOFED: its mounts, and inotify's limits.

use super::{Case, unreadable};
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use crate::symptoms::{MountViewer, View};
use peermem_gate::ready::observation::Unreadable;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if !case.is_host_mofed() {
        found.extend(private(case));
        found
            .extend(case.symptoms.views.iter().filter_map(|view| view.mounts.as_ref().err().map(unreadable)));
        let containers = case.symptoms.views.iter().filter(|view| view.viewer != MountViewer::Host);
        found.extend(containers.filter_map(|view| mounts(case, view)));
    }
    found
}

/// A mount that the host has private: no container sees MOFED's marker or the root of the driver's container,
/// whatever its own mounts look like.
pub(super) fn private(case: &Case<'_>) -> Option<Finding> {
    let view = case.host_view()?;
    let mount = view.mounts.as_ref().ok()?.marker.as_ref().filter(|mount| !mount.propagates)?;
    let seen = format!("{mount}, which contains the containers' directories, is private on the host");
    Some(Finding::new(Id::RunNotShared, view.source.display(), seen))
}

fn mounts(case: &Case<'_>, View { viewer, source, mounts }: &View) -> Option<Finding> {
    let own = mounts.as_ref().ok()?.marker.as_ref().filter(|mount| mount.is_volume())?;
    let who = if *viewer == MountViewer::Driver { "the driver container" } else { "this process" };
    let seen_at_host = case.host_view().and_then(|host| host.mounts.as_ref().ok()?.marker.as_ref());
    if own.root.to_string_lossy().ends_with("//deleted") {
        let seen = format!("{own}, as {who} sees it, is a deleted directory");
        return Some(Finding::new(Id::MountPinned, source.display(), seen));
    }
    if let Some(host) = seen_at_host.filter(|host| host.device != own.device) {
        let seen =
            format!("{who} sees {own} on file system {}, the host has {host} on {}", own.device, host.device);
        return Some(Finding::new(Id::MountPinned, source.display(), seen));
    }
    // With precompiled modules the headers do not matter, and the marker needs no mount to come.
    (!own.propagates && !case.expected.precompiled).then(|| {
        let seen = format!("{own}, as {who} sees it, is private: neither master nor shared");
        Finding::new(Id::MountPropagationMissing, source.display(), seen)
    })
}

/// Logs and kubelet's directories that cannot be read, on a node with GPUs: they would have been evidence.
pub(super) fn sources(case: &Case<'_>) -> Vec<Finding> {
    let symptoms = case.symptoms;
    let unread = symptoms.logs.unreadable.iter().chain(&symptoms.survey.pods.unreadable);
    unread.map(super::unreadable).collect()
}

/// All that no other finding and no condition names.
pub(super) fn unread(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let evidence = found.iter().flat_map(|finding| &finding.evidence).map(|evidence| &evidence.source);
    let conditions = case.verdict.conditions.iter().map(|condition| &condition.message);
    let named: Vec<_> = evidence.chain(conditions).collect();
    let is_named = |why: &Unreadable| {
        let path = why.path.to_string_lossy();
        named.iter().any(|text| text.split([' ', ',', ';']).any(|word| word.trim_end_matches(':') == path))
    };
    case.symptoms.unread.iter().filter(|why| !is_named(why)).map(unreadable).collect()
}

/// Asked for and refused; or counted, and all used up; or a container said so.
pub(super) fn inotify(case: &Case<'_>) -> Vec<Finding> {
    let watching = &case.symptoms.inotify;
    let limit = |index: usize| -> Option<(String, u64)> {
        let (path, says) = watching.limits.get(index)?;
        let text = says.as_ref().ok()?.as_deref()?;
        let limit: u64 = text.parse().ok()?;
        // Zeros without end are no number that a kernel has printed.
        (limit.to_string() == text).then(|| (path.display().to_string(), limit))
    };
    let none = [limit(0), limit(1)].into_iter().flatten().find(|(_, limit)| *limit == 0);
    let used_up =
        watching.most.as_ref().zip(limit(0)).filter(|((_, count), (_, limit))| *count as u64 >= *limit);
    let found = case.logged(&[LogEvent::TooManyOpenFiles], &[]);
    let finding = match (&watching.refused, none, used_up, found) {
        (Some(why), ..) => Finding::new(Id::InotifyExhausted, "inotify_init1(2)", why.clone()),
        (_, Some((path, _)), ..) => Finding::new(Id::InotifyExhausted, path, "0"),
        (_, _, Some(((user, count), _)), _) => Finding::new(
            Id::InotifyExhausted,
            "/proc/*/fd",
            format!("user {user} has {count} inotify instances"),
        ),
        (.., Some(found)) if limit(0).is_none_or(|(_, limit)| limit <= 1024) => {
            case.by_log(Id::InotifyExhausted, found)
        }
        _ => return Vec::new(),
    };
    let limits = limit(0).into_iter().chain(limit(1));
    let with_limits = limits.fold(finding, |finding, (path, limit)| {
        let is_shown = finding.evidence.iter().any(|evidence| evidence.source == path);
        if is_shown { finding } else { finding.seen(path, limit.to_string()) }
    });
    vec![with_limits]
}
