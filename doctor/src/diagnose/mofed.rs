// SPDX-License-Identifier: Apache-2.0
//! Why MOFED is not there: doca-driver-build's entrypoints say what keeps them, and what they leave.

use super::holders::held;
use super::{Case, listing, unreadable};
use crate::chain::span;
use crate::finding::fact::KERNEL_PACKAGE;
use crate::finding::{Finding, Id};
use crate::log::{LogEvent, LogMatch};
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::files::mount::Mount;
use peermem_gate::ready::judge::modules;
use peermem_gate::ready::observation::{Lock, Marker, ProcModule, ProcState};
use peermem_gate::ready::verdict::Condition;
use peermem_gate::survey::process::Role;
use peermem_gate::survey::setting::Setting;
use peermem_gate::words::remedy::CommandText;

const PROC_MODULES: &str = "/proc/modules";
/// Seconds in which a node may get its pods: scheduling, and the pull of MOFED's image of gigabytes.
const JUST_BOOTED: i64 = 15 * 60;

/// The lists of doca-driver-build, entrypoint/pkg/mofedmodules.
pub(super) const STORAGE: [&str; 8] =
    ["ib_iser", "ib_isert", "ib_srp", "ib_srpt", "nvme_rdma", "nvmet_rdma", "rpcrdma", "xprtrdma"];
pub(super) const THIRD_PARTY: [&str; 15] = words! {
    "bnxt_re" "efa" "erdma" "iw_cxgb4" "hfi1" "hns_roce" "ionic_rdma" "irdma" "ib_qib" "mana_ib" "ocrdma" "qedr"
    "rdma_rxe" "siw" "vmw_pvrdma"
};

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let found = if case.is_host_mofed() { host(case) } else { container(case) };
    built_in(case).into_iter().chain(found).collect()
}

/// MOFED is asked for, of a container or of the host, and a part of the kernel is in its place.
fn built_in(case: &Case<'_>) -> Option<Finding> {
    let built_in = modules::built_in(case.expected, case.seen);
    let is_in_place = |reason| matches!(reason, Reason::ModuleInTree | Reason::MixedStack);
    let is_wanted = case.verdict.unmet().any(|condition| is_in_place(condition.reason));
    (is_wanted && !built_in.is_empty()).then(|| {
        let what = format!("built in (no initstate, and not listed): {}", built_in.join(", "));
        Finding::new(Id::RdmaStackBuiltIn, "/sys/module, /proc/modules", what)
    })
}

fn container(case: &Case<'_>) -> Vec<Finding> {
    let stale = stale_marker(case);
    let mut found: Vec<_> = management(case).into_iter().collect();
    let is_absent = matches!(case.seen.marker, Marker::Absent | Marker::ParentMissing(_));
    let is_left = stale.is_some() || case.has(Reason::MarkerSuspect) && !case.has(Reason::OutOfTree);
    found.extend(stale.into_iter().chain(blacklist(case)));
    if let Some(announce) = of_the_host(case).filter(|_| is_absent) {
        found.push(announce);
    } else if is_absent || is_left {
        found.extend(where_it_is(case).filter(|_| is_absent));
        found.extend(keepers(case));
        found.extend(by_its_log(case));
    } else if matches!(case.seen.marker, Marker::Unreadable(_)) {
        // A bundle that has only logs.
        found.extend(by_its_log(case));
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
        Finding::of(id, lines.map(|line| (PROC_MODULES, listing(line))))
    };
    let storage = loaded(&STORAGE, Id::StorageModulesLoaded).map(|finding| with_mounts(case, finding));
    let peermem = case.line("nvidia_peermem").filter(|line| line.refcount.is_some_and(|count| count > 0));
    let in_use = peermem.map(|line| Finding::new(Id::PeermemInUse, PROC_MODULES, listing(line)));
    // The entrypoint that minds them keeps a lock, and leaves its file when it refuses; the older one
    // knows neither.
    let holds =
        case.logged(&[LogEvent::MofedModuleInUse], &DONE).filter(|found| !third_parties(found).is_empty());
    let is_in_the_way =
        case.symptoms.mofed.lock == Lock::Free || case.has(Reason::MixedStack) || holds.is_some();
    let third_party = loaded(&THIRD_PARTY, Id::ThirdPartyRdmaModulesLoaded).filter(|_| is_in_the_way);
    storage.into_iter().chain(third_party).chain(in_use).collect()
}

/// The third party's modules that use the RDMA core, by the line that says that MOFED could not unload it.
pub(super) fn third_parties(found: &LogMatch) -> Vec<&'static str> {
    let holders = Case::field(found, "holders").split([' ', ',']);
    holders.filter_map(|holder| THIRD_PARTY.iter().copied().find(|name| *name == holder)).collect()
}

/// Events that show MOFED's recovery.
const DONE: [LogEvent; 2] = [LogEvent::MofedMarkerSet, LogEvent::MofedReady];

/// Failures that its container logged, while no marker has come since.
fn by_its_log(case: &Case<'_>) -> Vec<Finding> {
    let in_use = match case.logged(&[LogEvent::MofedModuleInUse], &DONE) {
        Some(_) => LogEvent::MofedModuleInUse,
        None => LogEvent::MofedUnloadFailed,
    };
    let rows: [(Id, &[LogEvent]); 7] = [
        (Id::StorageModulesLoaded, &[LogEvent::MofedStorageModulesLoaded]),
        (Id::ThirdPartyRdmaModulesLoaded, &[LogEvent::MofedThirdPartyModulesLoaded]),
        (Id::PeermemInUse, &[LogEvent::MofedPeermemInUse]),
        (Id::MofedModuleInUse, &[in_use]),
        (Id::DiskFull, &[LogEvent::MofedDiskFull]),
        (Id::MofedBuildFailed, &[LogEvent::MofedBuildFailed]),
        (Id::MofedCannotBuild, &[LogEvent::MofedPackagesUnreachable, LogEvent::MofedBuildTimedOut]),
    ];
    let findings = rows.into_iter().filter_map(|(id, events)| {
        let found = case.logged(events, &DONE)?;
        // A module that is gone blocks nothing; the next start will show.
        let module = Case::field(found, "module");
        let is_gone = !module.is_empty() && case.seen.modules.proc.is_ok() && case.line(module).is_none();
        let misses_kernels = found.text.contains(case.seen.kernel.release.as_str());
        let finding = case.by_log(id, found).with(KERNEL_PACKAGE, misses_kernels);
        let is_build = id == Id::MofedBuildFailed;
        let finding = if is_build { case.and_trouble_of(finding, "mofed-container") } else { finding };
        (!is_gone).then(|| held(case, finding, module, Case::field(found, "holders")))
    });
    findings.collect()
}

/// MOFED's reload takes its NICs down, and the node's own network with them.
fn management(case: &Case<'_>) -> Option<Finding> {
    let network = &case.symptoms.rdma.network;
    if !network.default.as_ref().ok()?.as_ref()?.is_empty() {
        return None;
    }
    let is_up = |name: &String| network.interface(name).is_some_and(|one| one.state.as_deref() == Some("up"));
    let down = network.configured.iter().filter(|file| !file.interfaces.iter().any(is_up)).map(|file| {
        let seen = format!("configures {}, of Mellanox NICs: none of them is up", file.interfaces.join(", "));
        (file.path.display(), seen)
    });
    let finding = Finding::of(Id::ManagementOnMellanox, down)?;
    let interfaces = network.configured.iter().flat_map(|file| &file.interfaces);
    let interfaces = interfaces.map(|name| CommandText::plain(name, "INTERFACE"));
    let finding = finding.word("interfaces", CommandText::joined(interfaces, " "));
    Some(finding.seen(network.routes.display(), "has no default route"))
}

/// The init container's process, long after the host's MOFED was live: 0.9.0 waits for a marker that never comes.
fn driver_manager(case: &Case<'_>) -> Option<Finding> {
    /// In seconds: it looks every five.
    const LONG: i64 = 3 * 60;
    let Setting::On(set) = &case.symptoms.settings.host_mofed else { return None };
    let manager = case.process(Role::DriverManager)?;
    let age = case.age(manager.started?)?;
    let is_live = case.is_listed_live("mlx5_core");
    let is_absent = !matches!(case.symptoms.mofed.marker, Marker::Present(_));
    let found = case.logged(
        &[LogEvent::DriverManagerWaitsForMofed, LogEvent::DriverManagerAsksForMofed],
        &[LogEvent::DriverManagerDone],
    );
    (age >= LONG && is_live && is_absent && case.line("nvidia").is_none()).then(|| {
        let finding = Finding::new(Id::DriverManagerWaitsWrongly, &set.source, set.seen.clone());
        let finding = finding.seen("/proc/modules", "mlx5_core is live");
        let seen = format!("{} has been waiting for {}", manager.name, span(age));
        case.and_log(finding.seen(manager.directory.display(), seen), found)
    })
}

/// As after a kernel update of the host.
fn other_kernel(case: &Case<'_>) -> Option<Finding> {
    let traces = &case.symptoms.mofed;
    let is_out = case.has(Reason::OutOfTree);
    let kernels = traces.other_kernels.join(", ");
    let seen = format!("MOFED's mlx5_core.ko exists for {kernels}");
    let release = format!("{} is running and has none of MOFED's", case.seen.kernel.release);
    let finding = Finding::new(Id::HostMofedForOtherKernel, "/lib/modules", seen);
    (!kernels.is_empty() && traces.host_file.is_none() && !is_out)
        .then(|| finding.seen("/proc/sys/kernel/osrelease", release))
}

/// Who uses rpcrdma is in no list of modules.
fn with_mounts(case: &Case<'_>, finding: Finding) -> Finding {
    match case.host_view().map(|view| (view, &view.mounts)) {
        Some((view, Ok(mounts))) => {
            let mounted = |mount: &Mount| format!("{mount} is mounted with proto=rdma");
            finding.all(mounts.nfs_rdma.iter().map(|mount| (view.source.display(), mounted(mount))))
        }
        Some((_, Err(why))) => {
            finding.seen(why.path.display(), format!("NFS mounts cannot be read: {}", why.why))
        }
        None => finding,
    }
}

/// MOFED's modules without any trace of its container, and a MOFED on the host's own disk.
fn of_the_host(case: &Case<'_>) -> Option<Finding> {
    let traces = &case.symptoms.mofed;
    let on_host = case.symptoms.settings.on_host.as_ref();
    let sign = on_host.filter(|_| traces.lock == Lock::NoFile && case.has(Reason::OutOfTree))?;
    let finding = Finding::new(Id::HostMofedNotAnnounced, &sign.source, sign.seen.clone());
    Some(with_operator_setting(case, finding.seen(PROC_MODULES, "MOFED's modules are live")))
}

/// At work, gone, or never been here.
fn where_it_is(case: &Case<'_>) -> Option<Finding> {
    let lock = case.expected.lock.display();
    let gone = |source: String, seen: &str| {
        let finding = Finding::new(Id::MofedNotRunning, source, seen);
        Some(case.and_trouble_of(finding, "mofed-container"))
    };
    match (&case.symptoms.mofed.lock, case.process(Role::Mofed)) {
        (Lock::Held, _) => {
            Some(Finding::new(Id::MofedBuilding, "/proc/locks", format!("a running MOFED holds {lock}")))
        }
        (Lock::Free, _) => gone(lock.to_string(), "exists, and no process holds it (/proc/locks)"),
        (_, Some(process)) => {
            let seen = format!("{} runs, and has not set its marker", process.name);
            Some(Finding::new(Id::MofedBuilding, process.directory.display(), seen))
        }
        // A directory that is not there may be one that is not mounted here.
        (Lock::NoFile, None) if case.seen.marker != Marker::Absent => None,
        (Lock::NoFile, None) if is_any_of_mofed(case) => {
            gone(PROC_MODULES.to_owned(), "MOFED's modules are loaded, but its marker does not exist")
        }
        (Lock::NoFile, None) => never_came(case),
        (Lock::HolderHidden, None) => Some(Finding::new(
            Id::SourceUnreadable,
            "/proc/locks",
            "does not show the host's locks: unknown whether MOFED is running",
        )),
        (Lock::Unreadable(why), None) => Some(unreadable(why)),
    }
}

/// Only where its trace would have to be there: kubelet's pods were read. No wrong thing on a node that has just
/// booted.
fn never_came(case: &Case<'_>) -> Option<Finding> {
    if case.symptoms.settings.in_container.is_some() {
        let pod = case.symptoms.survey.pods.with("mofed-container")?;
        let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
        return Some(if case.lacks(Role::Mofed) {
            let finding = Finding::new(Id::MofedNotRunning, format!("pod {name}"), "it has no process");
            case.and_trouble_of(finding, "mofed-container")
        } else {
            let seen = "is running and has not set its marker";
            Finding::new(Id::MofedBuilding, format!("pod {name}"), seen)
        });
    }
    let uptime = case.symptoms.chain.clock.uptime.as_ref().ok().filter(|uptime| **uptime < JUST_BOOTED);
    let pods = &case.symptoms.survey.pods;
    if uptime.is_none() && !pods.is_complete {
        return None;
    }
    let id = if uptime.is_some() { Id::MofedNotYetHere } else { Id::MofedNeverCame };
    let finding = Finding::new(id, case.expected.lock.display(), "does not exist")
        .seen(case.expected.marker.display(), "does not exist");
    let finding = case.and_init_container(finding);
    Some(match uptime {
        Some(seconds) => finding.seen("/proc/uptime", format!("booted {seconds} s ago")),
        None => finding.seen("/var/lib/kubelet/pods", "no pod has a container mofed-container"),
    })
}

/// With the operator's setting, where the driver container's environment can be read.
fn with_operator_setting(case: &Case<'_>, finding: Finding) -> Finding {
    match &case.symptoms.settings.host_mofed {
        Setting::Off(set) => finding.seen(&set.source, set.seen.clone()),
        _ => finding
            .seen("USE_HOST_MOFED", "is not true here, and there is no driver container to read it from"),
    }
}

/// A lock reveals a stale marker better; an older entrypoint keeps none.
fn stale_marker(case: &Case<'_>) -> Option<Finding> {
    let is_there = matches!(case.seen.marker, Marker::Present(_));
    if !is_there || case.symptoms.mofed.lock == Lock::Held {
        return None;
    }
    let what = if case.has(Reason::ModuleInTree) {
        "the kernel's own modules are live"
    } else if !is_any_loaded(case) {
        "no RDMA module is loaded"
    } else {
        return None;
    };
    Some(Finding::new(Id::StaleMarker, case.expected.marker.display(), "exists").seen(PROC_MODULES, what))
}

/// MOFED mounts its headers right before it sets its marker. A mount that shows none, or another
/// kernel's, beside a marker belongs to a container that is gone (doca-driver-build d64b068).
fn stale_headers(case: &Case<'_>) -> Option<Finding> {
    let is_wrong = case.has(Reason::HeadersMissing) || case.has(Reason::HeadersForOtherKernel);
    let is_ready = matches!(case.seen.marker, Marker::Present(_)) && case.has(Reason::OutOfTree);
    let view = case.host_view()?;
    let headers = view.mounts.as_ref().ok()?.headers.as_ref();
    let mount = headers.filter(|mount| mount.point.ends_with("usr/src"))?;
    let why = "shows no headers for this kernel, although MOFED's marker is set";
    let finding = Finding::new(Id::HeaderMountStale, case.seen.headers.root.display(), why);
    (is_wrong && is_ready).then(|| finding.seen(view.source.display(), format!("{mount} is mounted")))
}

fn is_any_of_mofed(case: &Case<'_>) -> bool {
    case.expected.modules.iter().filter_map(|name| case.line(name)).any(|line| line.taint.contains('O'))
}

fn is_any_loaded(case: &Case<'_>) -> bool {
    case.seen.modules.proc.is_err() || case.expected.modules.iter().any(|name| case.line(name).is_some())
}

/// MOFED has it while it loads, and takes it away: one beside a marker, without a MOFED, or from
/// before the boot was left.
pub(super) fn blacklist(case: &Case<'_>) -> Option<Finding> {
    let traces = &case.symptoms.mofed;
    let made = match &traces.blacklisted {
        Ok(made) => (*made)?,
        Err(why) => return Some(unreadable(why)),
    };
    let why = if matches!(case.seen.marker, Marker::Present(_)) {
        "exists, although MOFED has set its marker"
    } else if traces.lock == Lock::Free {
        "exists, although no MOFED is running"
    } else if case.symptoms.chain.clock.boot.as_ref().is_ok_and(|booted| made < *booted) {
        "is older than this boot"
    } else {
        return None;
    };
    Some(Finding::new(Id::BlacklistLeftBehind, traces.blacklist.display(), why))
}

/// nvidia-peermem is loaded at boot, and no MOFED is on the host's disk that could be started.
fn without_any(case: &Case<'_>) -> Option<Finding> {
    let settings = &case.symptoms.settings;
    let is_bare = settings.on_host.is_none() && !case.has(Reason::OutOfTree);
    let sign = settings.host_provides_rdma.as_ref().filter(|_| is_bare)?;
    let finding = Finding::new(Id::PeermemWithoutMofed, &sign.source, sign.seen.clone());
    Some(finding.seen("/usr/src/ofa_kernel, /etc/infiniband", "no MOFED is installed on the host"))
}

/// `USE_HOST_MOFED=true`: nothing waits for a container, so there must be none.
fn host(case: &Case<'_>) -> Vec<Finding> {
    let traces = &case.symptoms.mofed;
    let settings = &case.symptoms.settings;
    let with_setting = |finding: Finding| match (&settings.host_mofed, &settings.host_provides_rdma) {
        (Setting::On(set), _) => finding.seen(&set.source, set.seen.clone()),
        (_, Some(sign)) => {
            finding.seen(&sign.source, format!("{}, and no setting says who provides MOFED", sign.seen))
        }
        _ => finding,
    };
    let mut found: Vec<_> = driver_manager(case).into_iter().chain(other_kernel(case)).collect();
    if let Some(sign) = settings.host_provides_rdma.as_ref().filter(|_| case.has(Reason::OutOfTree)) {
        let finding = Finding::new(Id::HostMofedAssumed, &sign.source, sign.seen.clone());
        let why = "does not exist: no MOFED container has run here";
        let finding = finding.seen(case.expected.lock.display(), why);
        found.push(finding.seen(PROC_MODULES, "MOFED's modules are live"));
    }
    if traces.lock == Lock::Held || matches!(traces.marker, Marker::Present(_)) {
        let (file, seen) = match traces.lock {
            Lock::Held => (&case.expected.lock, "a running MOFED container holds it"),
            _ => (&case.expected.marker, "a MOFED container has set it"),
        };
        found.push(with_setting(Finding::new(Id::ContainerMofedIgnored, file.display(), seen)));
    }
    let is_moving = |line: &ProcModule| line.state != ProcState::Live;
    let is_in_transit = case.expected.modules.iter().filter_map(|name| case.line(name)).any(is_moving);
    if let Some(sign) = without_any(case).filter(|_| case.has(Reason::SymbolMissing)) {
        found.push(sign);
    } else if !is_in_transit && (case.has(Reason::ModuleInTree) || case.has(Reason::ModuleNotLoaded)) {
        let is_of_it = |reason| matches!(reason, Reason::ModuleInTree | Reason::ModuleNotLoaded);
        let unmet = case.verdict.unmet().filter(|condition| is_of_it(condition.reason));
        let not_live =
            |one: &Condition| Finding::new(Id::HostMofedNotLive, PROC_MODULES, one.message.clone());
        found.extend(unmet.map(|condition| with_setting(not_live(condition))));
    }
    found
}
