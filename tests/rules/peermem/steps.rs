// SPDX-License-Identifier: Apache-2.0
//! Which steps of a remedy a person reads: what is known of the node says a step, leaves it out, or gives it a
//! condition.

use super::{Case, FAULTS};
use peermem_gate::ready::condition::ConditionType;
use peermem_gate::ready::mofed::MofedPlace;
use peermem_gate::ready::observation::{
    DriverState, GivenParameter, Lock, Marker, ModuleFile, ProcState, SysState,
};
use peermem_gate::words::judge;

/// How a remedy has a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Said,
    Conditional,
    LeftOut,
}
use Step::{Conditional, LeftOut, Said};

fn step(remedy: &str, text: &str) -> Step {
    let (first, rest) = text.split_at(1);
    if remedy.contains(text) {
        Said
    } else if remedy.contains(&format!(": {}{rest}", first.to_lowercase())) {
        Conditional
    } else {
        LeftOut
    }
}

fn fault(words: &str) -> fn(&mut Case) {
    FAULTS.iter().find(|(_, theirs, _)| *theirs == words).expect("such a fault").2
}

/// A stub, for which every way to a build counts.
fn stub() -> Case {
    let mut case = Case::usable();
    fault("delete the driver pod")(&mut case);
    case
}

fn remedy(case: &Case) -> String {
    case.condition().remedy.unwrap_or_default()
}

const STATE_FILE: &str = "Remove the state file before";
const DRIVER_POD: &str = "Delete this node's driver pod";
const HOST_BUILD: &str = "Build the driver's modules again";
const TOOLKIT: &str = "Remove the old build's flag";
const PRECOMPILED: &str = "Use a driver image whose nvidia-peermem";

fn read_from(case: &mut Case, file: &str) {
    if let ModuleFile::Read { path, .. } = &mut case.peermem().file {
        *path = file.into();
    }
}

#[test]
fn a_stubs_steps_fit_where_the_driver_is() {
    type Row = (&'static str, Step, fn(&mut Case));
    let rows: [Row; 17] = [
        (DRIVER_POD, Conditional, |_| {}),
        (HOST_BUILD, Conditional, |_| {}),
        (DRIVER_POD, Said, |case| case.expected.rdma_requested = Some("true".into())),
        (DRIVER_POD, Said, |case| case.expected.driver_digest = Some("42".into())),
        (DRIVER_POD, Said, |case| case.peermem().root = "/run/nvidia/driver".into()),
        (HOST_BUILD, LeftOut, |case| case.expected.rdma_requested = Some("false".into())),
        (HOST_BUILD, LeftOut, |case| case.peermem().root = "/host/run/nvidia/driver".into()),
        (STATE_FILE, Conditional, |case| case.seen.driver_state = DriverState::NoDirectory),
        (STATE_FILE, Said, |case| case.seen.driver_state = DriverState::Digest("42".into())),
        (STATE_FILE, LeftOut, |case| case.seen.driver_state = DriverState::Absent),
        (TOOLKIT, LeftOut, |_| {}),
        (TOOLKIT, Conditional, |case| case.seen.kernel.release = "5.14.0-427.el9.x86_64".into()),
        (TOOLKIT, Conditional, |case| case.seen.kernel.release = String::new()),
        (TOOLKIT, Said, |case| read_from(case, "/mnt/shared-nvidia-driver-toolkit/nvidia-peermem.ko")),
        (TOOLKIT, LeftOut, |case| read_from(case, "/mnt/not-shared-nvidia-driver-toolkit/nvidia-peermem.ko")),
        (PRECOMPILED, LeftOut, |_| {}),
        (PRECOMPILED, Said, |case| case.expected.precompiled = true),
    ];
    for (row, (text, expected, change)) in rows.into_iter().enumerate() {
        let mut case = stub();
        change(&mut case);
        let remedy = remedy(&case);
        assert_eq!(step(&remedy, text), expected, "row {row}: {remedy}");
    }
}

#[test]
fn a_remedy_names_the_node_as_kubernetes_does() {
    let named = |name: Option<&str>, hostname: &str| {
        let mut case = stub();
        case.expected.node_name = name.map(str::to_owned);
        case.seen.kernel.hostname = hostname.to_owned();
        let remedy = remedy(&case);
        let (_, behind) = remedy.split_once("spec.nodeName=").expect("a node");
        (behind.split('`').next().expect("its name").to_owned(), remedy.contains("hostname"))
    };
    let word = |name: &str, is_guess| (name.to_owned(), is_guess);
    assert_eq!(named(Some("gpu-7"), "Other"), word("gpu-7", false));
    assert_eq!(named(None, "Gpu-7"), word("gpu-7", true));
    assert_eq!(named(None, ""), word("NODE", false));
    assert_eq!(named(None, "(none)"), word("NODE", false));
}

#[test]
fn a_loaded_modules_steps_fit_where_mofed_is() {
    const MOFED_POD: &str = "Delete this node's MOFED pod";
    const HOST_MOFED: &str = "Load MOFED and nvidia_peermem again";
    const USERS: &str = "End the GPU pods";
    type Row = (&'static str, Step, fn(&mut Case));
    let rows: [Row; 12] = [
        (MOFED_POD, Said, |_| {}),
        (HOST_MOFED, LeftOut, |_| {}),
        (MOFED_POD, Said, |case| case.seen.marker = Marker::Absent),
        (MOFED_POD, Conditional, |case| {
            case.seen.marker = Marker::Absent;
            case.seen.lock = Lock::NoFile;
        }),
        (HOST_MOFED, Conditional, |case| {
            case.seen.marker = Marker::Absent;
            case.seen.lock = Lock::Free;
        }),
        (MOFED_POD, Said, |case| case.seen.lock = Lock::Free),
        (MOFED_POD, Said, |case| {
            case.seen.marker = Marker::Absent;
            case.seen.lock = Lock::NoFile;
            case.expected.use_host_mofed = Some("false".into());
        }),
        (HOST_MOFED, Said, |case| case.expected.mofed = MofedPlace::Host),
        (MOFED_POD, LeftOut, |case| case.expected.mofed = MofedPlace::Host),
        (USERS, LeftOut, |_| {}),
        (USERS, Said, |case| case.proc().last_mut().unwrap().refcount = Some(1)),
        (USERS, Conditional, |case| case.proc().last_mut().unwrap().refcount = None),
    ];
    for (row, (text, expected, change)) in rows.into_iter().enumerate() {
        let mut case = Case::usable();
        case.load("nvidia_peermem", ProcState::Live, SysState::Live);
        case.proc().last_mut().unwrap().refcount = Some(0);
        change(&mut case);
        let remedy = remedy(&case);
        assert_eq!(step(&remedy, text), expected, "row {row}: {remedy}");
    }
}

#[test]
fn the_remedy_for_a_bad_parameter_names_where_it_is_set() {
    const BOOT: &str = "Correct the parameter in the boot loader's configuration";
    const FILE: &str = "Correct the parameter in that file";
    for (source, boot, file) in [("/proc/cmdline", Said, LeftOut), ("/etc/modprobe.d/x.conf", LeftOut, Said)]
    {
        let mut case = Case::usable();
        let text = "peerdirect_support=2".into();
        case.peermem().parameters = vec![GivenParameter { source: source.into(), text }];
        let remedy = remedy(&case);
        assert_eq!((step(&remedy, BOOT), step(&remedy, FILE)), (boot, file), "{remedy}");
    }
}

#[test]
fn depmod_is_advised_only_if_the_module_file_exists() {
    const DEPMOD: &str = "Run `depmod`";
    let of = |change: fn(&mut Case)| {
        let mut case = Case::usable();
        change(&mut case);
        step(&remedy(&case), DEPMOD)
    };
    assert_eq!(of(fault("nvidia-driver.state")), LeftOut);
    let unlisted = of(|case| {
        if let ModuleFile::Read { listed, .. } = &mut case.peermem().file {
            *listed = Some(false);
        }
    });
    assert_eq!(unlisted, Said);
}

#[test]
fn a_dependency_that_is_not_live_has_its_remedy() {
    let mut case = Case::usable();
    case.unload("nvidia");
    assert!(!remedy(&case).is_empty());
}

#[test]
fn the_remedy_says_wait_until_the_marker_is_set() {
    const WAIT: &str = "Wait: MOFED swaps the modules";
    let of = |change: fn(&mut Case)| {
        let mut case = Case::usable();
        case.expected.version = "24.10-0.7.0".parse().ok();
        case.seen.modules.sys.get_mut("mlx5_core").unwrap().version = Ok(Some("23.10-1.1.9".into()));
        change(&mut case);
        let verdict = judge(&case.expected, &case.seen);
        let condition = verdict.get(ConditionType::VersionMatches).unwrap();
        step(condition.remedy.as_deref().unwrap_or_default(), WAIT)
    };
    assert_eq!(of(|_| {}), LeftOut);
    assert_eq!(of(|case| case.seen.marker = Marker::Absent), Said);
    assert_eq!(of(|case| case.seen.marker = Marker::Unreadable(super::unreadable("EIO"))), Conditional);
    assert_eq!(of(|case| case.expected.mofed = MofedPlace::Host), LeftOut);
}
