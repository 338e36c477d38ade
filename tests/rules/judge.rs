// SPDX-License-Identifier: Apache-2.0
//! The judge by properties. The tables are whole nodes: tests/nodes.

mod looks;
mod settings;

use crate::model::eyes::recorded;
use peermem_gate::ready::condition::{ConditionType, Reason, Status};
use peermem_gate::ready::consumer::Consumer;
use peermem_gate::ready::judge::swap::{Presence, glimpse};
use peermem_gate::ready::mofed::MofedPlace;
use peermem_gate::ready::node::Expectations;
use peermem_gate::ready::observation::{
    Fabric, FileId, HeaderTree, Headers, Lock, Management, Marker, Modules, Nic, Observation, ProcModule,
    ProcModules, ProcState, Seen, Symbols, Symvers, SysModule, SysState, Unreadable,
};
use peermem_gate::ready::verdict::{Condition, Outcome, Verdict};
use peermem_gate::words::judge;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) const MODULES: [&str; 4] = ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"];

pub(super) fn expectations(mofed: MofedPlace) -> Expectations {
    Expectations {
        node_name: None,
        consumers: vec![Consumer::Peermem],
        peermem: None,
        rdma_requested: None,
        use_host_mofed: None,
        rdma_not_requested: false,
        contradiction: None,
        mofed,
        precompiled: false,
        modules: MODULES.map(str::to_owned).into(),
        version: None,
        marker: "/run/mellanox/drivers/.driver-ready".into(),
        lock: "/run/mellanox/drivers/.lock".into(),
        driver_digest: None,
        precedes_driver: true,
    }
}

fn unreadable() -> Unreadable {
    Unreadable { path: PathBuf::from("/somewhere"), why: "Permission denied".to_owned() }
}

pub(super) fn line(name: &str, state: ProcState, taint: &str) -> ProcModule {
    ProcModule {
        name: name.to_owned(),
        size: 1,
        refcount: Some(0),
        users: Vec::new(),
        state,
        address: "0x0".to_owned(),
        taint: taint.to_owned(),
    }
}

/// /proc/modules is read a page at a time, and attributes in sysfs go before their directory does.
#[test]
fn witnesses_that_disagree_do_not_show_a_swap() {
    let names = MODULES.into_iter().chain(["nvidia_peermem"]);
    let live = Modules {
        proc: Ok(ProcModules {
            modules: names.clone().map(|name| line(name, ProcState::Live, "OE")).collect(),
            garbled: None,
        }),
        sys: names.map(|name| (name.to_owned(), sys(SysState::Live, "OE"))).collect(),
    };
    let expected = expectations(MofedPlace::Host);
    let seen = |modules: &Modules| glimpse(&expected, &Marker::Absent, modules, true);
    assert_eq!((seen(&live).peermem, seen(&live).swap), (Presence::Live { uses: Some(0) }, None));
    for name in MODULES {
        let mut one_line_is_lost = live.clone();
        one_line_is_lost.proc.as_mut().unwrap().modules.retain(|module| module.name != name);
        let mut going_in_sysfs = live.clone();
        going_in_sysfs.sys.insert(name.to_owned(), sys(SysState::Going, "OE"));
        for modules in [&one_line_is_lost, &going_in_sysfs] {
            assert!(!seen(modules).must_go(), "{name}: {modules:?}");
        }
        let mut gone = one_line_is_lost;
        gone.sys.insert(name.to_owned(), sys(SysState::NoDirectory, "OE"));
        assert!(seen(&gone).must_go(), "{name}");
    }
    let mut unsure = live.clone();
    unsure.sys.insert("nvidia_peermem".to_owned(), sys(SysState::Going, "OE"));
    assert_eq!(seen(&unsure).peermem, Presence::InTransit);
}

/// Every value that a part of an observation can have, the good one first.
fn parts<T: Clone + std::fmt::Debug + 'static>(good: T, others: Vec<T>) -> impl Strategy<Value = T> {
    prop_oneof![3 => Just(good), 2 => prop::sample::select(others)]
}

fn sys(state: SysState, taint: &str) -> SysModule {
    SysModule {
        state,
        inode: Some(1),
        taint: Ok(Some(taint.to_owned())),
        version: Ok(Some("25.07-0.9.7".to_owned())),
    }
}

fn a_module() -> impl Strategy<Value = (Option<(ProcState, &'static str)>, SysModule)> {
    let proc = parts(
        Some((ProcState::Live, "OE")),
        vec![
            None,
            Some((ProcState::Live, "")),
            Some((ProcState::Loading, "OE")),
            Some((ProcState::Unloading, "OE")),
        ],
    );
    let sys = parts(
        sys(SysState::Live, "OE"),
        vec![
            sys(SysState::Live, ""),
            sys(SysState::Coming, "OE"),
            sys(SysState::Going, "OE"),
            sys(SysState::NoInitstate, "OE"),
            SysModule { inode: None, taint: Ok(None), version: Ok(None), ..sys(SysState::NoDirectory, "") },
            sys(SysState::Unreadable(unreadable()), "OE"),
        ],
    );
    (proc, sys)
}

fn modules() -> impl Strategy<Value = Modules> {
    let each = [a_module(), a_module(), a_module(), a_module()];
    (each, parts(true, vec![false]), parts(None, vec![Some("odd".to_owned())])).prop_map(
        |(each, readable, garbled)| {
            let lines = MODULES.iter().zip(&each);
            let lines =
                lines.filter_map(|(name, (proc, _))| proc.map(|(state, taint)| line(name, state, taint)));
            let proc: Seen<ProcModules> = if readable {
                Ok(ProcModules { modules: lines.collect(), garbled })
            } else {
                Err(unreadable())
            };
            Modules {
                proc,
                sys: MODULES.iter().zip(each).map(|(name, (_, sys))| ((*name).to_owned(), sys)).collect(),
            }
        },
    )
}

fn headers() -> impl Strategy<Value = Headers> {
    let taken = |symvers| HeaderTree::Taken { directory: "/h".into(), other_kernel: None, symvers };
    parts(
        taken(Symvers::WithPeerMemory),
        vec![
            HeaderTree::Missing,
            HeaderTree::NoCandidate(vec!["6.1".to_owned()]),
            HeaderTree::Unreadable(unreadable()),
            taken(Symvers::Missing),
            taken(Symvers::Truncated),
            taken(Symvers::WithoutPeerMemory),
            taken(Symvers::Unreadable(unreadable())),
        ],
    )
    .prop_map(|tree| Headers { root: "/usr/src/ofa_kernel".into(), tree, kernel_build: None })
}

fn observations() -> impl Strategy<Value = Observation> {
    let marker = Marker::Present(FileId { device: 1, inode: 1, changed_ns: 1 });
    let markers = vec![
        Marker::Absent,
        Marker::ParentMissing("/run".into()),
        Marker::DirectoryUnlinked,
        Marker::NotAFile("a directory".to_owned()),
        Marker::Unreadable(unreadable()),
    ];
    (
        parts(Nic::Found("0000:01:00.0".to_owned()), vec![Nic::Unreadable(unreadable())]),
        parts(marker, markers),
        parts(Lock::Held, vec![Lock::NoFile, Lock::Free, Lock::HolderHidden, Lock::Unreadable(unreadable())]),
        modules(),
        parts(
            Symbols::ExportedBy(Some("ib_uverbs".to_owned())),
            vec![
                Symbols::Missing,
                Symbols::NotRead,
                Symbols::Unreadable(unreadable()),
                Symbols::ExportedBy(None),
            ],
        ),
        headers(),
    )
        .prop_map(|(nic, marker, lock, modules, symbols, headers)| Observation {
            peermem: None,
            nic,
            marker,
            lock,
            modules,
            symbols,
            headers,
            ..recorded()
        })
}

/// A condition that is never judged, or that nobody needs, keeps nothing closed.
#[test]
fn each_condition_is_judged_and_needed_by_a_consumer() {
    let all = Expectations { consumers: Consumer::ALL.to_vec(), ..expectations(MofedPlace::Container) };
    let fabric = Fabric { management: Management::None, rdma_devices: Ok(BTreeMap::new()) };
    let verdict = judge(&all, &Observation { fabric: Some(fabric), ..recorded() });
    for r#type in ConditionType::ALL.iter().copied() {
        let is_needed = Consumer::ALL.iter().any(|consumer| consumer.needs(r#type, MofedPlace::Container));
        assert!(is_needed, "{type} has no consumer: src/ready/consumer.rs");
        let is_judged = verdict.get(r#type).is_some() || r#type == ConditionType::PeermemUsable;
        assert!(is_judged, "{type} is not judged: `conditions` in src/ready/judge/mod.rs");
    }
}

/// Ready is only what the contract's table calls so, said here a second time and in other words.
fn may_open(seen: &Observation) -> bool {
    let live = |name: &&str| {
        let Ok(proc) = &seen.modules.proc else { return false };
        let lines: Vec<_> = proc.named(name).collect();
        let sys = &seen.modules.sys[*name];
        lines.len() == 1
            && lines[0].state == ProcState::Live
            && lines[0].taint.contains('O')
            && sys.state == SysState::Live
            && sys.taint == Ok(Some("OE".to_owned()))
    };
    matches!(seen.nic, Nic::Found(_))
        && matches!(seen.marker, Marker::Present(_))
        && matches!(seen.lock, Lock::Held | Lock::NoFile | Lock::HolderHidden)
        && MODULES.iter().all(live)
        && matches!(seen.symbols, Symbols::ExportedBy(_) | Symbols::Unreadable(_))
        && matches!(&seen.headers.tree, HeaderTree::Taken { symvers: Symvers::WithPeerMemory, .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn container_mofed_is_ready_exactly_when_the_contract_says_so(seen in observations()) {
        let verdict = judge(&expectations(MofedPlace::Container), &seen);
        prop_assert_eq!(verdict.outcome == Outcome::Ready, may_open(&seen), "{:#?}", verdict);
    }

    #[test]
    fn every_condition_is_judged_once_and_in_order(seen in observations(), host in any::<bool>()) {
        let mofed = if host { MofedPlace::Host } else { MofedPlace::Container };
        let verdict = judge(&expectations(mofed), &seen);
        let types: Vec<_> = verdict.conditions.iter().map(|c| c.r#type).collect();
        prop_assert!(types.is_sorted() && types.len() == 11, "{types:?}");
        for c in &verdict.conditions {
            prop_assert_eq!(c.status, c.reason.status());
            prop_assert!(!c.message.is_empty() && !c.message.contains('\n'), "{c:?}");
        }
    }

    #[test]
    fn a_volume_that_hides_mounts_is_named_and_changes_no_verdict(seen in observations()) {
        let expected = expectations(MofedPlace::Container);
        let plain = judge(&expected, &seen);
        let marked = matches!(seen.marker, Marker::Present(_));
        let private_mount = judge(&expected, &Observation { private_mount: Some("/run/mellanox".into()), ..seen });
        prop_assert_eq!(plain.outcome, private_mount.outcome);
        for (plain, private_mount) in plain.conditions.iter().zip(&private_mount.conditions) {
            prop_assert_eq!(plain.reason, private_mount.reason);
            let hidden = match plain.reason {
                Reason::MarkerAbsent | Reason::MarkerParentMissing => true,
                Reason::HeadersMissing => marked,
                _ => false,
            };
            let named = |text: &str| text.contains("/run/mellanox") && text.contains("HostToContainer");
            prop_assert_eq!(hidden, named(&private_mount.message), "{:?}", private_mount);
            prop_assert_eq!(hidden, private_mount.remedy.as_deref().is_some_and(|r| named(r) && r.contains("findmnt")));
        }
    }

    #[test]
    fn unknown_is_never_ready_unless_its_reason_passes(reason in prop::sample::select(Reason::ALL.to_vec())) {
        let verdict = Verdict::of(vec![Condition::new(ConditionType::ModulesLive, reason, "")]);
        if reason.status() == Status::Unknown && verdict.conditions[0].is_unmet() {
            prop_assert_eq!(verdict.outcome, Outcome::Unknown);
        }
        prop_assert_eq!(verdict.outcome == Outcome::Ready, reason.consequence() == peermem_gate::ready::condition::Consequence::Passes);
    }

    #[test]
    fn the_order_of_conditions_does_not_matter(
        reasons in prop::collection::vec(prop::sample::select(Reason::ALL.to_vec()), 11),
        order in Just((0..11).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        const TYPES: [ConditionType; 11] = [
            ConditionType::RdmaRequested, ConditionType::NicPresent, ConditionType::MarkerPresent,
            ConditionType::MarkerTrusted, ConditionType::ModulesLive, ConditionType::ModulesFromMofed,
            ConditionType::VersionMatches, ConditionType::SymbolsExported, ConditionType::HeadersReady,
            ConditionType::PeermemUsable, ConditionType::Settled,
        ];
        let condition = |i: &usize| Condition::new(TYPES[*i], reasons[*i], "");
        let straight = Verdict::of((0..11).collect::<Vec<_>>().iter().map(condition).collect());
        prop_assert_eq!(straight, Verdict::of(order.iter().map(condition).collect()));
    }

    #[test]
    fn an_observation_survives_its_json(seen in observations()) {
        let json = serde_json::to_string(&seen).unwrap();
        prop_assert_eq!(serde_json::from_str::<Observation>(&json).unwrap(), seen);
    }
}

const MANAGEMENT: &str = "0000:05:00.0";

fn fabrics() -> impl Strategy<Value = Fabric> {
    let device: BTreeMap<_, _> = [(MANAGEMENT.to_owned(), "mlx5_1".to_owned())].into();
    let other: BTreeMap<_, _> = [("0000:01:00.0".to_owned(), "mlx5_0".to_owned())].into();
    (
        parts(
            Management::Found(vec![MANAGEMENT.to_owned()]),
            vec![Management::None, Management::Unreadable(unreadable())],
        ),
        parts(Ok(device), vec![Ok(other), Ok(BTreeMap::new()), Err(unreadable())]),
    )
        .prop_map(|(management, rdma_devices)| Fabric { management, rdma_devices })
}

/// Both may have business on it, or one, or none.
fn machines() -> impl Strategy<Value = Observation> {
    (observations(), fabrics(), a_module(), any::<bool>()).prop_map(|(seen, fabric, umad, has_nic)| {
        let mut seen = Observation { fabric: Some(fabric), ..seen };
        if let (Ok(proc), Some((state, taint))) = (&mut seen.modules.proc, umad.0) {
            proc.modules.push(line("ib_umad", state, taint));
        }
        seen.modules.sys.insert("ib_umad".to_owned(), umad.1);
        if !has_nic {
            seen.nic = Nic::None;
        }
        seen
    })
}

/// Ready for Fabric Manager, said in other words.
fn fabric_may_start(seen: &Observation) -> bool {
    let live = |name: &&str| {
        let sys = &seen.modules.sys[*name];
        let Ok(proc) = &seen.modules.proc else { return false };
        proc.named(name).next().is_some_and(|line| line.state == ProcState::Live && line.taint.contains('O'))
            && sys.state == SysState::Live
            && sys.taint == Ok(Some("OE".to_owned()))
    };
    let fabric = seen.fabric.as_ref().unwrap();
    fabric.management == Management::Found(vec![MANAGEMENT.to_owned()])
        && fabric.rdma_devices.as_ref().is_ok_and(|devices| devices.contains_key(MANAGEMENT))
        && matches!(seen.marker, Marker::Present(_))
        && matches!(seen.lock, Lock::Held | Lock::NoFile | Lock::HolderHidden)
        && MODULES.iter().chain(&["ib_umad"]).all(live)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fabric_is_ready_exactly_when_the_contract_says_so(seen in machines()) {
        let expected =
            Expectations { consumers: vec![Consumer::Fabric], ..expectations(MofedPlace::Container) };
        let verdict = judge(&expected, &seen);
        prop_assert_eq!(verdict.outcome == Outcome::Ready, fabric_may_start(&seen), "{:#?}", verdict);
    }

    /// Who asks for both is told what who asks for one is told, of those that have business here.
    #[test]
    fn the_verdict_for_two_consumers_combines_both(seen in machines(), requested in any::<bool>(), host in any::<bool>()) {
        let mofed = if host { MofedPlace::Host } else { MofedPlace::Container };
        let of = |consumers: &[Consumer]| {
            let rdma_requested = (!requested).then(|| "false".to_owned());
            judge(&Expectations { consumers: consumers.to_vec(), rdma_requested, ..expectations(mofed) }, &seen)
        };
        let [peermem, fabric] = Consumer::ALL.map(|consumer| of(&[consumer]).outcome);
        let both = of(&Consumer::ALL);
        let expected = match (peermem, fabric) {
            (Outcome::NotApplicable, other) | (other, Outcome::NotApplicable) => other == both.outcome,
            (one, other) => (both.outcome == Outcome::Ready) == (one == Outcome::Ready && other == Outcome::Ready),
        };
        prop_assert!(expected, "{peermem} and {fabric} make {both:#?}");
        prop_assert_eq!(both.conditions.len(), 14);
        if both.outcome == Outcome::NotApplicable {
            let told: Vec<_> = both.exemptions().iter().map(|c| c.message.as_str()).collect();
            let told = told.join("; ");
            prop_assert!(told.contains("peermem needs no MOFED") && told.contains("fabric needs no MOFED"), "{told}");
        }
        prop_assert!(both.headline().len() <= 80 && both.headline().is_ascii());
    }
}
