// SPDX-License-Identifier: Apache-2.0
//! What keeps a container from seeing what MOFED does: its mounts, and inotify's limits.

use super::{Case, unreadable};
use crate::finding::{Finding, Id};
use crate::symptoms::{Mounts, View, Whose};

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let mut found = inotify(case);
    if !case.is_host_mofed() {
        found
            .extend(case.symptoms.views.iter().filter_map(|view| view.mounts.as_ref().err().map(unreadable)));
        let containers = case.symptoms.views.iter().filter(|view| view.whose != Whose::Host);
        found.extend(containers.filter_map(|view| mounts(case, view)));
    }
    found
}

fn host<'a>(case: &'a Case<'_>) -> Option<&'a Mounts> {
    let host = case.symptoms.views.iter().find(|view| view.whose == Whose::Host)?;
    host.mounts.as_ref().ok()
}

fn mounts(case: &Case<'_>, View { whose, source, mounts }: &View) -> Option<Finding> {
    let own = mounts.as_ref().ok()?.marker.as_ref().filter(|mount| mount.is_volume())?;
    let who = if *whose == Whose::Driver { "the driver container" } else { "this process" };
    let seen_at_host = host(case).and_then(|host| host.marker.as_ref());
    if own.root.to_string_lossy().ends_with("//deleted") {
        let seen = format!("{own}, as {who} sees it, is a directory that was deleted");
        return Some(Finding::new(Id::MountPinned, source.display(), seen));
    }
    if let Some(host) = seen_at_host.filter(|host| host.device != own.device) {
        let seen =
            format!("{who} has {own} of file system {}, the host has {host} of {}", own.device, host.device);
        return Some(Finding::new(Id::MountPinned, source.display(), seen));
    }
    // With precompiled modules the headers do not matter, and the marker needs no mount to come.
    (!own.propagates && !case.expected.precompiled).then(|| {
        let seen = format!("{own}, as {who} sees it, is private: neither master nor shared");
        Finding::new(Id::MountPropagationMissing, source.display(), seen)
    })
}

fn inotify(case: &Case<'_>) -> Vec<Finding> {
    let watching = &case.symptoms.inotify;
    let is_zero = |(_, says): &&(_, Result<Option<String>, _>)| {
        says.as_ref().is_ok_and(|text| text.as_deref() == Some("0"))
    };
    let none = watching.limits.iter().find(is_zero);
    let refused = watching
        .refused
        .as_ref()
        .map(|why| Finding::new(Id::InotifyExhausted, "inotify_init1(2)", why.clone()));
    let refused =
        refused.or_else(|| none.map(|(path, _)| Finding::new(Id::InotifyExhausted, path.display(), "0")));
    let limits =
        watching.limits.iter().filter_map(|(path, says)| Some((path, says.as_ref().ok()?.as_ref()?)));
    let told = refused.map(|finding| {
        limits.fold(finding, |finding, (path, limit)| {
            let is_told =
                finding.evidence.iter().any(|evidence| evidence.source == path.display().to_string());
            if is_told { finding } else { finding.seen(path.display(), limit.clone()) }
        })
    });
    told.into_iter().collect()
}
