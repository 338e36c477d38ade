// SPDX-License-Identifier: Apache-2.0
//! Why MOFED is not there: doca-driver-build's entrypoints say what keeps them, and what they leave.

use super::{Case, told, unreadable};
use crate::condition::Reason;
use crate::finding::{Finding, Id};
use crate::observation::{Lock, Marker, ProcState};
use crate::symptoms::wish::Wish;
use crate::symptoms::{View, Whose};

const PROC_MODULES: &str = "/proc/modules";
/// Seconds in which a node may get its pods: scheduling, and the pull of MOFED's image of gigabytes.
const JUST_BOOTED: i64 = 15 * 60;

/// The lists of doca-driver-build, entrypoint/pkg/mofedmodules.
const STORAGE: [&str; 8] =
    ["ib_iser", "ib_isert", "ib_srp", "ib_srpt", "nvme_rdma", "nvmet_rdma", "rpcrdma", "xprtrdma"];
const THIRD_PARTY: [&str; 15] = [
    "bnxt_re",
    "efa",
    "erdma",
    "iw_cxgb4",
    "hfi1",
    "hns_roce",
    "ionic_rdma",
    "irdma",
    "ib_qib",
    "mana_ib",
    "ocrdma",
    "qedr",
    "rdma_rxe",
    "siw",
    "vmw_pvrdma",
];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if case.is_host_mofed() {
        return host(case);
    }
    let stale = stale_marker(case);
    let is_absent = matches!(case.seen.marker, Marker::Absent | Marker::ParentMissing(_));
    let is_left = stale.is_some() || case.has(Reason::MarkerSuspect) && !case.has(Reason::OutOfTree);
    let mut found: Vec<_> = stale.into_iter().chain(blacklist(case)).collect();
    if let Some(announce) = of_the_host(case).filter(|_| is_absent) {
        found.push(announce);
    } else if is_absent || is_left {
        found.extend(where_it_is(case).filter(|_| is_absent));
        found.extend(keepers(case));
    }
    found.extend(stale_headers(case));
    found
}

/// Modules by their names in /proc/modules. A MOFED that holds its lock has gone past its checks.
fn keepers(case: &Case<'_>) -> Vec<Finding> {
    if case.symptoms.mofed.lock == Lock::Held {
        return Vec::new();
    }
    let loaded = |names: &[&str], id| {
        let lines = names.iter().filter_map(|name| case.line(name));
        lines.map(|line| Finding::new(id, PROC_MODULES, told(line))).reduce(Finding::and)
    };
    let storage = loaded(&STORAGE, Id::StorageModulesLoaded).map(|finding| with_mounts(case, finding));
    let peermem = case.line("nvidia_peermem").filter(|line| line.refcount.is_some_and(|count| count > 0));
    let in_use = peermem.map(|line| Finding::new(Id::PeermemInUse, PROC_MODULES, told(line)));
    // The entrypoint that minds them keeps a lock, and leaves its file when it refuses; the older one
    // knows neither.
    let third_party = loaded(&THIRD_PARTY, Id::ThirdPartyRdmaModulesLoaded)
        .filter(|_| case.symptoms.mofed.lock == Lock::Free);
    storage.into_iter().chain(third_party).chain(in_use).collect()
}

/// Who uses rpcrdma stands in no list of modules.
fn with_mounts(case: &Case<'_>, mut finding: Finding) -> Finding {
    for View { source, mounts, .. } in case.symptoms.views.iter().filter(|view| view.whose == Whose::Host) {
        match mounts {
            Ok(mounts) => {
                for mount in &mounts.nfs_rdma {
                    finding = finding.seen(source.display(), format!("{mount} is mounted with proto=rdma"));
                }
            }
            Err(why) => {
                finding = finding.seen(why.path.display(), format!("NFS mounts cannot be read: {}", why.why));
            }
        }
    }
    finding
}

/// MOFED's modules without any trace of its container, and a MOFED on the host's own disk.
fn of_the_host(case: &Case<'_>) -> Option<Finding> {
    let traces = &case.symptoms.mofed;
    let on_host = case.symptoms.wishes.on_host.as_ref();
    let sign = on_host.filter(|_| traces.lock == Lock::NoFile && case.has(Reason::OutOfTree))?;
    let finding = Finding::new(Id::HostMofedNotAnnounced, &sign.source, sign.seen.clone());
    Some(announced(case, finding.seen(PROC_MODULES, "MOFED's modules are live")))
}

/// At work, gone, or never been here.
fn where_it_is(case: &Case<'_>) -> Option<Finding> {
    let lock = case.expected.lock.display();
    let gone = |source: String, seen: &str| Some(Finding::new(Id::MofedNotRunning, source, seen));
    match &case.symptoms.mofed.lock {
        Lock::Held => {
            Some(Finding::new(Id::MofedBuilding, "/proc/locks", format!("a running MOFED holds {lock}")))
        }
        Lock::Free => gone(lock.to_string(), "is there, and nobody holds it (/proc/locks)"),
        // A directory that is not there may be one that is not mounted here.
        Lock::NoFile if case.seen.marker != Marker::Absent => None,
        Lock::NoFile if is_any_of_mofed(case) => {
            gone(PROC_MODULES.to_owned(), "modules of MOFED's are loaded, and its marker is not there")
        }
        Lock::NoFile => Some(never_came(case)),
        Lock::HolderHidden => Some(Finding::new(
            Id::SourceUnreadable,
            "/proc/locks",
            "does not show the host's locks: whether MOFED runs cannot be told",
        )),
        Lock::Unreadable(why) => Some(unreadable(why)),
    }
}

/// No wrong thing on a node that has just booted.
fn never_came(case: &Case<'_>) -> Finding {
    let uptime = case.symptoms.chain.clock.uptime.as_ref().ok().filter(|uptime| **uptime < JUST_BOOTED);
    let id = if uptime.is_some() { Id::MofedNotYetHere } else { Id::MofedNeverCame };
    let finding = Finding::new(id, case.expected.lock.display(), "is not there")
        .seen(case.expected.marker.display(), "is not there");
    match uptime {
        Some(seconds) => finding.seen("/proc/uptime", format!("booted {seconds} s ago")),
        None => finding,
    }
}

/// What the operator says, where the driver container's environment can be read.
fn announced(case: &Case<'_>, finding: Finding) -> Finding {
    match &case.symptoms.wishes.host_mofed {
        Wish::No(told) => finding.seen(&told.source, told.seen.clone()),
        _ => finding.seen("USE_HOST_MOFED", "is not true here, and no driver container can be asked"),
    }
}

/// A lock tells a stale marker better; an older entrypoint keeps none.
fn stale_marker(case: &Case<'_>) -> Option<Finding> {
    let is_there = matches!(case.seen.marker, Marker::Present(_));
    let what = match () {
        () if !is_there || case.symptoms.mofed.lock == Lock::Held => return None,
        () if case.has(Reason::ModuleInTree) => "the kernel's own modules are live",
        () if !is_any_loaded(case) => "no RDMA module is loaded",
        () => return None,
    };
    Some(Finding::new(Id::StaleMarker, case.expected.marker.display(), "is there").seen(PROC_MODULES, what))
}

/// MOFED mounts its headers right before it sets its marker. A mount that shows none, or another
/// kernel's, beside a marker belongs to a container that is gone (doca-driver-build d64b068).
fn stale_headers(case: &Case<'_>) -> Option<Finding> {
    let is_wrong = case.has(Reason::HeadersMissing) || case.has(Reason::HeadersForOtherKernel);
    let is_ready = matches!(case.seen.marker, Marker::Present(_)) && case.has(Reason::OutOfTree);
    let view = case.symptoms.views.iter().find(|view| view.whose == Whose::Host)?;
    let mount =
        view.mounts.as_ref().ok()?.headers.as_ref().filter(|mount| mount.point.ends_with("usr/src"))?;
    (is_wrong && is_ready).then(|| {
        Finding::new(Id::HeaderMountStale, view.source.display(), format!("{mount} is mounted")).seen(
            case.seen.headers.root.display(),
            "shows no headers for this kernel, though MOFED's marker is set",
        )
    })
}

fn is_any_of_mofed(case: &Case<'_>) -> bool {
    case.expected.modules.iter().filter_map(|name| case.line(name)).any(|line| line.taint.contains('O'))
}

fn is_any_loaded(case: &Case<'_>) -> bool {
    case.seen.modules.proc.is_err() || case.expected.modules.iter().any(|name| case.line(name).is_some())
}

/// MOFED has it while it loads, and takes it away: one beside a marker, without a MOFED, or from
/// before the boot was left.
fn blacklist(case: &Case<'_>) -> Option<Finding> {
    let traces = &case.symptoms.mofed;
    let made = match &traces.blacklisted {
        Ok(made) => (*made)?,
        Err(why) => return Some(unreadable(why)),
    };
    let why = match () {
        () if matches!(case.seen.marker, Marker::Present(_)) => "is there, though MOFED has set its marker",
        () if traces.lock == Lock::Free => "is there, though no MOFED runs",
        () if case.symptoms.chain.clock.boot.as_ref().is_ok_and(|booted| made < *booted) => {
            "is older than this boot"
        }
        () => return None,
    };
    Some(Finding::new(Id::BlacklistLeftBehind, traces.blacklist.display(), why))
}

/// `USE_HOST_MOFED=true`: nothing waits for a container, so there must be none.
fn host(case: &Case<'_>) -> Vec<Finding> {
    let traces = &case.symptoms.mofed;
    let says = |finding: Finding| match (&case.symptoms.wishes.host_mofed, &case.symptoms.wishes.by_itself) {
        (Wish::Yes(told), _) => finding.seen(&told.source, told.seen.clone()),
        (_, Some(sign)) => {
            finding.seen(&sign.source, format!("{}, and nobody says who provides MOFED", sign.seen))
        }
        _ => finding,
    };
    let mut found = Vec::new();
    if let Some(sign) = &case.symptoms.wishes.by_itself {
        let finding = Finding::new(Id::HostMofedAssumed, &sign.source, sign.seen.clone());
        let finding =
            finding.seen(case.expected.lock.display(), "is not there: no MOFED container has been here");
        found.push(finding.seen(PROC_MODULES, "nvidia_peermem is live on an out-of-tree ib_core"));
    }
    if traces.lock == Lock::Held || matches!(traces.marker, Marker::Present(_)) {
        let (file, seen) = match traces.lock {
            Lock::Held => (&case.expected.lock, "a running MOFED container holds it"),
            _ => (&case.expected.marker, "a MOFED container has set it"),
        };
        found.push(says(Finding::new(Id::ContainerMofedIgnored, file.display(), seen)));
    }
    let is_in_transit = case
        .seen
        .modules
        .proc
        .iter()
        .flat_map(|proc| &proc.modules)
        .any(|module| case.expected.modules.contains(&module.name) && module.state != ProcState::Live);
    if !is_in_transit && (case.has(Reason::ModuleInTree) || case.has(Reason::ModuleNotLoaded)) {
        let conditions = case
            .verdict
            .holding()
            .filter(|c| matches!(c.reason, Reason::ModuleInTree | Reason::ModuleNotLoaded));
        for condition in conditions {
            found.push(says(Finding::new(Id::HostMofedNotLive, PROC_MODULES, condition.message.clone())));
        }
    }
    found
}
