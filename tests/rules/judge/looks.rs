// SPDX-License-Identifier: Apache-2.0
//! What the judge asks of the next look, and remedies that depend on where MOFED is.

use super::*;
use crate::model::eyes::recorded;
use peermem_gate::ready::judge::{in_transit, worth_reading_symbols};

/// All of MOFED's modules are live, with this taint; nothing else is known.
fn seen(taint: &str) -> Observation {
    let modules = Modules {
        proc: Ok(ProcModules {
            modules: MODULES.map(|name| line(name, ProcState::Live, taint)).into(),
            garbled: None,
        }),
        sys: MODULES.map(|name| (name.to_owned(), sys(SysState::Live, taint))).into(),
    };
    Observation { peermem: None, modules, ..recorded() }
}

fn with(mut seen: Observation, name: &str, state: ProcState, in_sysfs: SysModule) -> Observation {
    let proc = seen.modules.proc.as_mut().unwrap();
    proc.modules.retain(|module| module.name != name);
    if in_sysfs.state != SysState::NoDirectory {
        let taint = in_sysfs.taint.clone().ok().flatten().unwrap_or_default();
        proc.modules.push(line(name, state, &taint));
    }
    seen.modules.sys.insert(name.to_owned(), in_sysfs);
    seen
}

fn without(seen: Observation, name: &str) -> Observation {
    let gone =
        SysModule { inode: None, taint: Ok(None), version: Ok(None), ..sys(SysState::NoDirectory, "") };
    with(seen, name, ProcState::Live, gone)
}

#[test]
fn symbols_are_read_once_the_modules_may_export_them() {
    let (container, host) = (expectations(MofedPlace::Container), expectations(MofedPlace::Host));
    let fabric = Expectations { consumers: vec![Consumer::Fabric], ..expectations(MofedPlace::Container) };
    assert!(container.needs(ConditionType::SymbolsExported) && !fabric.needs(ConditionType::SymbolsExported));
    assert!(worth_reading_symbols(&container, &seen("OE")));
    assert!(!worth_reading_symbols(&container, &seen("")), "the kernel's own export none");
    assert!(!worth_reading_symbols(&container, &without(seen("OE"), "mlx5_ib")));
    assert!(worth_reading_symbols(&host, &seen("")));
    assert!(!worth_reading_symbols(&host, &without(seen(""), "mlx5_ib")));
    assert!(!worth_reading_symbols(&fabric, &seen("OE")), "nobody asks");
}

#[test]
fn a_module_that_is_loading_makes_the_next_look_come_sooner() {
    let expected = expectations(MofedPlace::Container);
    assert!(!in_transit(&expected, &seen("OE")));
    let loading = with(seen("OE"), "mlx5_ib", ProcState::Loading, sys(SysState::Coming, "OE"));
    assert!(in_transit(&expected, &loading));
    let another = with(seen("OE"), "nvidia_peermem", ProcState::Loading, sys(SysState::Coming, "OE"));
    assert!(!in_transit(&expected, &another), "nobody asks for it");
}

#[test]
fn without_any_request_for_rdma_the_condition_is_not_met() {
    let reason = |rdma_not_requested| {
        let expected = Expectations { rdma_not_requested, ..expectations(MofedPlace::Container) };
        judge(&expected, &seen("OE")).get(ConditionType::RdmaRequested).unwrap().reason
    };
    assert_eq!((reason(true), reason(false)), (Reason::RdmaNotRequested, Reason::Requested));
}

#[test]
fn missing_symbols_have_a_remedy_only_where_mofed_is_what_is_loaded() {
    let remedy = |taint| {
        let verdict = judge(&expectations(MofedPlace::Container), &seen(taint));
        verdict.get(ConditionType::SymbolsExported).unwrap().remedy.is_some()
    };
    assert_eq!((remedy("OE"), remedy("")), (true, false));
}

#[test]
fn fabric_manager_needs_mofeds_own_ib_umad() {
    let umad = |place, seen: Observation| {
        let expected = Expectations { consumers: vec![Consumer::Fabric], ..expectations(place) };
        let management = Management::Found(vec!["0000:05:00.0".to_owned()]);
        let seen =
            Observation { fabric: Some(Fabric { management, rdma_devices: Ok(BTreeMap::new()) }), ..seen };
        let verdict = judge(&expected, &seen);
        let condition = verdict.get(ConditionType::UmadLive).unwrap();
        (condition.reason, condition.remedy.is_some())
    };
    let loaded = |taint| {
        let mut seen = with(seen("OE"), "ib_umad", ProcState::Live, sys(SysState::Live, taint));
        seen.modules.proc.as_mut().unwrap().modules.last_mut().unwrap().taint = taint.to_owned();
        seen
    };
    assert_eq!(umad(MofedPlace::Container, loaded("OE")).0, Reason::AllLive);
    assert_eq!(umad(MofedPlace::Container, loaded("")).0, Reason::ModuleInTree);
    assert_eq!(umad(MofedPlace::Host, loaded("")).0, Reason::AllLive);
    let gone = || without(seen("OE"), "ib_umad");
    assert_eq!(umad(MofedPlace::Container, gone()), (Reason::ModuleNotLoaded, false));
    assert_eq!(umad(MofedPlace::Host, gone()), (Reason::ModuleNotLoaded, true));
}

#[test]
fn what_modprobe_would_load_in_addition_must_be_live() {
    let plan = peermem_gate::peermem::plan::read("insmod /m/mlx5_ib.ko\ninsmod /m/nvidia-peermem.ko\n");
    let not_live = |seen: &Observation| peermem_gate::peermem::plan::not_live(&plan, seen).map(str::to_owned);
    assert_eq!(not_live(&seen("OE")), None);
    let waited_for = Some("mlx5_ib".to_owned());
    assert_eq!(not_live(&without(seen("OE"), "mlx5_ib")), waited_for);
    let loading = with(seen("OE"), "mlx5_ib", ProcState::Loading, sys(SysState::Coming, "OE"));
    assert_eq!(not_live(&loading), waited_for);
    let mut unread = seen("OE");
    unread.modules.proc = Err(Unreadable { path: "/proc/modules".into(), why: "EIO".into() });
    assert_eq!(not_live(&unread), waited_for);
}

/// NVIDIA's build takes the kernel's own only where the host provides MOFED.
#[test]
fn the_kernels_own_headers_count_on_a_host() {
    let reason = |place| {
        let mut seen = seen("OE");
        seen.headers.kernel_build = Some(("/lib/modules/6.1/build".into(), Symvers::WithPeerMemory));
        judge(&expectations(place), &seen).get(ConditionType::HeadersReady).unwrap().reason
    };
    assert_eq!(reason(MofedPlace::Host), Reason::HeadersComplete);
    assert_eq!(reason(MofedPlace::Container), Reason::HeadersMissing);
    let mut in_box = seen("");
    (in_box.symbols, in_box.header_versions) = (Symbols::ExportedBy(None), Ok(Vec::new()));
    in_box.headers.kernel_build = Some(("/lib/modules/6.1/build/Module.symvers".into(), Symvers::Missing));
    let (reason, message) = of(&expectations(MofedPlace::Host), &in_box, ConditionType::HeadersReady);
    assert_eq!(reason, Reason::HeadersMissing);
    assert!(message.contains("/build has no Module.symvers: the headers of kernel"), "{message}");
}

/// Of the verdict on such a node: a condition's reason and message.
fn of(expected: &Expectations, seen: &Observation, condition: ConditionType) -> (Reason, String) {
    let verdict = judge(expected, seen);
    let condition = verdict.get(condition).unwrap();
    (condition.reason, condition.message.clone())
}

#[test]
fn a_misspelled_setting_is_named_during_the_wait_for_the_marker() {
    for (value, is_named) in [
        (None, false),
        (Some(""), false),
        (Some("true"), false),
        (Some("false"), false),
        (Some("True"), true),
    ] {
        let use_host_mofed = value.map(str::to_owned);
        let expected = Expectations { use_host_mofed, ..expectations(MofedPlace::Container) };
        let (_, message) = of(&expected, &seen("OE"), ConditionType::MarkerPresent);
        assert_eq!(message.contains("USE_HOST_MOFED is \"True\""), is_named, "{message}");
    }
}

#[test]
fn a_marker_that_cannot_be_read_is_not_said_to_be_absent() {
    let why = Unreadable { path: "/m".into(), why: "EIO".into() };
    let seen = Observation { marker: Marker::Unreadable(why), ..seen("OE") };
    let (reason, _) = of(&expectations(MofedPlace::Container), &seen, ConditionType::MarkerTrusted);
    assert_eq!(reason, Reason::MarkerUnreadable);
}

#[test]
fn an_unknown_taint_leaves_the_origin_of_a_module_unknown() {
    let seen = with(seen("OE"), "mlx5_core", ProcState::Live, sys(SysState::Live, "Oops"));
    let (reason, message) = of(&expectations(MofedPlace::Container), &seen, ConditionType::ModulesFromMofed);
    assert_eq!(reason, Reason::ModulesUnreadable, "{message}");
    assert!(message.contains("is not a taint"), "{message}");
}

#[test]
fn the_kernels_own_modules_behind_a_marker_have_a_remedy() {
    let remedy = |marker| {
        let seen = Observation { marker, ..seen("") };
        let verdict = judge(&expectations(MofedPlace::Container), &seen);
        let condition = verdict.get(ConditionType::ModulesFromMofed).unwrap();
        (condition.reason, condition.remedy.is_some())
    };
    let present = Marker::Present(FileId { device: 1, inode: 1, changed_ns: 1 });
    assert_eq!(remedy(present), (Reason::ModuleInTree, true));
    assert_eq!(remedy(Marker::Absent), (Reason::ModuleInTree, false), "MOFED is still to come");
}

#[test]
fn a_marker_directory_that_never_existed_does_not_show_a_swap() {
    let is_told = |marker, was_marked| {
        let expected = expectations(MofedPlace::Container);
        glimpse(&expected, &marker, &seen("OE").modules, was_marked).swap.is_some()
    };
    let never_made = || Marker::ParentMissing("/run/mellanox".into());
    assert!(!is_told(never_made(), false), "MOFED may be a host's");
    assert!(is_told(never_made(), true));
    assert!(is_told(Marker::Absent, false) && is_told(Marker::Absent, true));
}
