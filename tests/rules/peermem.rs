// SPDX-License-Identifier: Apache-2.0
//! `PeermemUsable`: one fault at a time, and then every two of them together.

mod steps;

use crate::judge::{MODULES, expectations, line};
use crate::model::eyes::recorded;
use peermem_gate::ready::condition::{ConditionType, Reason, Status};
use peermem_gate::ready::consumer::Consumer;
use peermem_gate::ready::mofed::MofedPlace;
use peermem_gate::ready::node::{Expectations, PeermemExpected};
use peermem_gate::ready::observation::{
    Accepted, DriverState, FileId, GivenParameter, HeaderTree, Headers, Kernel, Lock, Marker, ModuleFile,
    ModuleInfo, Modules, Nic, Observation, Offer, Peermem, ProcModule, ProcModules, ProcState, Symbols,
    Symvers, SysModule, SysState, Unreadable,
};
use peermem_gate::ready::verdict::{Condition, Outcome};
use peermem_gate::words::{judge, next_build};
use std::collections::BTreeMap;

const REGISTER: &str = "ib_register_peer_memory_client";
const UNREGISTER: &str = "ib_unregister_peer_memory_client";
const P2P: &str = "nvidia_p2p_get_pages";
const VERMAGIC: &str = "6.1.0 SMP preempt mod_unload modversions ";

fn crcs(all: &[(&str, u32)]) -> BTreeMap<String, u32> {
    all.iter().map(|(symbol, crc)| ((*symbol).to_owned(), *crc)).collect()
}

/// What is asked, and what is seen: MOFED is ready, and nvidia-peermem.ko fits it.
struct Case {
    expected: Expectations,
    seen: Observation,
}

impl Case {
    fn usable() -> Self {
        let names = MODULES.into_iter().chain(["nvidia"]);
        let modules = names.clone().map(|name| line(name, ProcState::Live, "OE")).collect();
        let mut sys: BTreeMap<_, _> = names.map(|name| (name.to_owned(), sys(SysState::Live))).collect();
        sys.insert("nvidia_peermem".to_owned(), absent());
        let info = ModuleInfo {
            machine: "x86_64".into(),
            name: "nvidia_peermem".into(),
            vermagic: VERMAGIC.into(),
            depends: vec!["nvidia".into(), "ib_uverbs".into()],
            imports: [REGISTER, UNREGISTER, P2P, "__fentry__"].map(str::to_owned).into(),
            versions: crcs(&[
                (REGISTER, 1),
                (UNREGISTER, 2),
                (P2P, 3),
                ("__fentry__", 4),
                ("module_layout", 5),
            ]),
            ..ModuleInfo::default()
        };
        let file = ModuleFile::Read {
            path: "/lib/modules/6.1.0/kernel/nvidia-peermem.ko".into(),
            ignored_paths: vec![],
            listed: Some(true),
            info: Box::new(info),
        };
        let recorded = recorded();
        let peermem = Peermem {
            root: "/".into(),
            file,
            peer_memory: Offer::LoadedFile("/ib_uverbs.ko".into(), crcs(&[(REGISTER, 1), (UNREGISTER, 2)])),
            nvidia: Offer::LoadedFile("/nvidia.ko".into(), crcs(&[(P2P, 3)])),
            accepted: vec![Accepted {
                path: "/ib_uverbs.ko".into(),
                vermagic: VERMAGIC.into(),
                versions: crcs(&[("__fentry__", 4), ("module_layout", 5)]),
            }],
            ..recorded.peermem.expect("nvidia-peermem is looked at")
        };
        let symvers = Symvers::WithPeerMemory;
        let seen = Observation {
            kernel: Kernel { release: "6.1.0".into(), ..recorded.kernel },
            marker: Marker::Present(FileId { device: 1, inode: 1, changed_ns: 1 }),
            lock: Lock::Held,
            modules: Modules { proc: Ok(ProcModules { modules, garbled: None }), sys },
            symbols: Symbols::ExportedBy(Some("ib_uverbs".into())),
            headers: Headers {
                root: "/usr/src/ofa_kernel".into(),
                tree: HeaderTree::Taken { directory: "/d".into(), other_kernel: None, symvers },
                kernel_build: None,
            },
            peermem: Some(peermem),
            ..recorded
        };
        let peermem = Some(PeermemExpected::default());
        let expected = Expectations { peermem, ..expectations(MofedPlace::Container) };
        Self { expected, seen }
    }

    fn peermem(&mut self) -> &mut Peermem {
        self.seen.peermem.as_mut().unwrap()
    }

    /// What the file says; of no file, something that nobody reads.
    fn info(&mut self, change: impl FnOnce(&mut ModuleInfo)) {
        if let ModuleFile::Read { info, .. } = &mut self.peermem().file {
            change(info);
        }
    }

    fn proc(&mut self) -> &mut Vec<ProcModule> {
        &mut self.seen.modules.proc.as_mut().unwrap().modules
    }

    fn load(&mut self, name: &str, state: ProcState, sys_state: SysState) {
        self.proc().push(line(name, state, "OE"));
        self.seen.modules.sys.insert(name.to_owned(), sys(sys_state));
    }

    fn unload(&mut self, name: &str) {
        self.proc().retain(|module| module.name != name);
        self.seen.modules.sys.insert(name.to_owned(), absent());
    }

    fn condition(&self) -> Condition {
        judge(&self.expected, &self.seen).get(ConditionType::PeermemUsable).unwrap().clone()
    }

    fn outcome(&self) -> Outcome {
        judge(&self.expected, &self.seen).outcome
    }
}

fn sys(state: SysState) -> SysModule {
    SysModule { state, inode: Some(1), taint: Ok(Some("OE".to_owned())), version: Ok(None) }
}

fn absent() -> SysModule {
    SysModule { state: SysState::NoDirectory, inode: None, taint: Ok(None), version: Ok(None) }
}

fn unreadable(why: &str) -> Unreadable {
    Unreadable { path: "/nvidia-peermem.ko".into(), why: why.to_owned() }
}

type Fault = (Reason, &'static str, fn(&mut Case));

/// In the order in which reasons are to be given; the words must be in message or remedy.
const FAULTS: &[Fault] = &[
    (Reason::ModuleFileMissing, "nvidia-driver.state", |case| {
        case.peermem().file = ModuleFile::Missing("/lib/modules/6.1.0".into());
    }),
    (Reason::StubModule, "delete the driver pod", |case| {
        case.info(|info| info.imports = ["param_ops_int".to_owned()].into());
    }),
    (Reason::SymbolVersionMismatch, "another MOFED", |case| {
        case.info(|info| _ = info.versions.insert(REGISTER.into(), 9));
    }),
    (Reason::SymbolVersionMismatch, "another nvidia", |case| {
        case.info(|info| _ = info.versions.insert(P2P.into(), 9));
    }),
    (Reason::SymbolVersionMismatch, "another kernel", |case| {
        case.info(|info| _ = info.versions.insert("__fentry__".into(), 9));
    }),
    (Reason::WrongKernel, "aarch64", |case| case.info(|info| info.machine = "aarch64".into())),
    (Reason::WrongKernel, "PREEMPT_RT", |case| {
        case.info(|info| info.vermagic = "6.1.0 SMP PREEMPT_RT mod_unload modversions ".into());
    }),
    (Reason::WrongKernel, "layout", |case| {
        case.info(|info| _ = info.versions.insert("module_layout".into(), 9));
    }),
    (Reason::SymbolVersionMissing, UNREGISTER, |case| {
        case.info(|info| _ = info.versions.remove(UNREGISTER));
    }),
    (Reason::UnsignedModule, "sig_enforce", |case| case.peermem().signatures.enforced = Ok(Some(true))),
    (Reason::LegacyClientLoaded, "rmmod nv_peer_mem", |case| {
        case.load("nv_peer_mem", ProcState::Live, SysState::Live);
    }),
    (Reason::BadParameter, "/etc/modprobe.d/x.conf", |case| {
        let source = "/etc/modprobe.d/x.conf".into();
        case.peermem().parameters = vec![GivenParameter { source, text: "peerdirect_support=2".into() }];
    }),
    (Reason::InstallLine, "/bin/true", |case| {
        let source = "/etc/modprobe.d/x.conf".into();
        case.peermem().install = vec![GivenParameter { source, text: "/bin/true".into() }];
    }),
    (Reason::OtherDriverLoaded, "550.54", |case| {
        case.peermem().nvidia = Offer::Unknown("no file".into());
        case.info(|info| info.version = Some("595.45".into()));
        case.seen.modules.sys.get_mut("nvidia").unwrap().version = Ok(Some("550.54".into()));
    }),
    (Reason::ModuleFileDamaged, "cut off", |case| {
        case.peermem().file = ModuleFile::Damaged(unreadable("it is cut off"));
    }),
    (Reason::DependencyNotLive, "nvidia, which is not live", |case| case.unload("nvidia")),
    (Reason::ModuleFileUnreadable, "Permission denied", |case| {
        case.peermem().file = ModuleFile::Unreadable(unreadable("Permission denied"));
    }),
    (Reason::SignatureUnknown, "Permission denied", |case| {
        case.peermem().signatures.lockdown = Err(unreadable("Permission denied"));
    }),
    (Reason::SymbolVersionUnknown, "no such luck", |case| {
        case.peermem().peer_memory = Offer::Unknown("no such luck".into());
    }),
];

#[test]
fn a_file_that_fits_is_usable() {
    let case = Case::usable();
    let condition = case.condition();
    assert_eq!((condition.reason, condition.remedy), (Reason::Usable, None), "{}", condition.message);
    assert!(condition.message.contains("0x00000001") && condition.message.contains("/ib_uverbs.ko"));
    assert_eq!(case.outcome(), Outcome::Ready);
}

#[test]
fn every_fault_of_a_module_file_has_its_reason_and_message() {
    for (reason, words, fault) in FAULTS {
        let mut case = Case::usable();
        fault(&mut case);
        let condition = case.condition();
        assert_eq!(condition.reason, *reason, "{words}: {}", condition.message);
        let said = format!("{} {}", condition.message, condition.remedy.unwrap_or_default());
        assert!(said.contains(words), "{words:?} is not in {said:?}");
        assert_ne!(case.outcome(), Outcome::Ready, "{reason}");
    }
}

#[test]
fn of_two_faults_of_a_module_file_the_first_is_reported() {
    for (first, (reason, words, earlier)) in FAULTS.iter().enumerate() {
        for (_, other, later) in &FAULTS[first + 1..] {
            let mut case = Case::usable();
            // A file that is not a module has nothing to say of itself.
            later(&mut case);
            earlier(&mut case);
            let file_is_gone = !matches!(case.peermem().file, ModuleFile::Read { .. });
            let speaks_of_file = !matches!(
                reason,
                Reason::ModuleFileMissing
                    | Reason::LegacyClientLoaded
                    | Reason::BadParameter
                    | Reason::InstallLine
                    | Reason::ModuleFileDamaged
            );
            // What is not known cannot differ.
            let is_unknown =
                [("another MOFED", "no such luck"), ("another nvidia", "550.54")].contains(&(*words, *other));
            if !(file_is_gone && speaks_of_file || is_unknown) {
                assert_eq!(case.condition().reason, *reason, "{words} before {other}");
            }
        }
    }
}

#[test]
fn an_unusable_file_blocks_only_once_every_other_condition_is_met() {
    let (_, _, stub) = &FAULTS[1];
    let mut case = Case::usable();
    stub(&mut case);
    assert_eq!(case.outcome(), Outcome::Blocked);
    case.seen.marker = Marker::Absent;
    assert_eq!(case.outcome(), Outcome::Waiting);
}

/// What stands beside a file that fits, and the reason that follows.
type Beside = (Reason, fn(&mut Case));

const BESIDE: &[Beside] = &[
    // With CRCs the kernel ignores the release in vermagic, unless a file has only those of the extended form.
    (Reason::Usable, |case| other_release(case, false)),
    (Reason::WrongKernel, |case| other_release(case, true)),
    (Reason::WrongKernel, |case| {
        other_release(case, false);
        case.info(|info| info.versions.clear());
    }),
    // A Module.symvers of a kernel without symbol versions, as Debian's since 7.2 are, has 0 for every CRC.
    (Reason::WrongKernel, |case| {
        case.peermem().peer_memory = Offer::Symvers("/s".into(), crcs(&[(REGISTER, 0), (UNREGISTER, 0)]));
        let accepted = &mut case.peermem().accepted[0];
        accepted.vermagic = VERMAGIC.replace(" modversions", "");
        accepted.versions.clear();
    }),
    (Reason::Usable, |case| {
        case.peermem().peer_memory = Offer::Symvers("/s".into(), crcs(&[(REGISTER, 1), (UNREGISTER, 2)]));
    }),
    (Reason::SymbolVersionUnknown, |case| {
        case.peermem().peer_memory = Offer::Symvers("/s".into(), crcs(&[(REGISTER, 1)]));
    }),
    // A symbol needs no version, but not in a file in which a name was garbled: then a version is left over.
    (Reason::Usable, |case| case.info(|info| _ = info.imports.insert("unversioned_at_all".into()))),
    (Reason::SymbolVersionMissing, |case| {
        case.info(|info| {
            info.imports.insert("unversioned_at_all".into());
            info.versions.insert("unversioned_at_alk".into(), 7);
        });
    }),
    (Reason::DependencyNotLive, |case| case.seen.symbols = Symbols::Missing),
    (Reason::DependencyNotLive, |case| {
        case.seen.symbols = Symbols::ExportedBy(Some("ib_core_of_old".into()));
    }),
    (Reason::Usable, |case| case.peermem().signatures.lockdown = Ok(Some("none".into()))),
    (Reason::UnsignedModule, |case| case.peermem().signatures.lockdown = Ok(Some("integrity".into()))),
    (Reason::Usable, |case| {
        case.peermem().signatures.lockdown = Ok(Some("integrity".into()));
        case.info(|info| info.signed = true);
    }),
    // The versions of two drivers say nothing where the symbols' own can be compared.
    (Reason::Usable, |case| {
        case.info(|info| info.version = Some("550.90".into()));
        case.seen.modules.sys.get_mut("nvidia").unwrap().version = Ok(Some("535.54".into()));
    }),
];

fn other_release(case: &mut Case, extended_only: bool) {
    case.peermem().accepted.clear();
    case.info(|info| {
        info.vermagic = "6.1.0-other SMP preempt mod_unload modversions ".into();
        info.extended_only = extended_only;
    });
}

#[test]
fn what_stands_beside_a_file_that_fits_has_its_reason() {
    for (row, (reason, change)) in BESIDE.iter().enumerate() {
        let mut case = Case::usable();
        change(&mut case);
        let condition = case.condition();
        assert_eq!(condition.reason, *reason, "row {row}: {}", condition.message);
    }
}

/// The file's own vermagic, its own versions, the kernel's vermagic, MOFED's Module.symvers: each asks for versions.
#[test]
fn any_witness_of_symbol_versions_asks_for_them() {
    const WITHOUT: &str = "6.1.0 SMP preempt mod_unload ";
    let of = |vermagic: &str, keeps: usize, kernel: Option<&str>, crc: u32| {
        let mut case = Case::usable();
        case.info(|info| {
            info.vermagic = vermagic.to_owned();
            info.versions = crcs(&[(REGISTER, 1)][..keeps]);
        });
        let peermem = case.peermem();
        let accepted = |vermagic: &str| Accepted {
            path: "/ib_uverbs.ko".into(),
            vermagic: vermagic.to_owned(),
            versions: BTreeMap::new(),
        };
        peermem.accepted = kernel.map(accepted).into_iter().collect();
        peermem.peer_memory = Offer::Symvers("/s".into(), crcs(&[(REGISTER, crc), (UNREGISTER, crc)]));
        case.condition().reason
    };
    assert_eq!(of(VERMAGIC, 0, None, 0), Reason::SymbolVersionMissing, "the file's vermagic");
    assert_eq!(of(WITHOUT, 1, None, 1), Reason::SymbolVersionMissing, "the file's versions");
    assert_eq!(of(WITHOUT, 0, None, 1), Reason::SymbolVersionMissing, "MOFED's versions");
    assert_eq!(of(WITHOUT, 0, None, 0), Reason::Usable, "MOFED has none");
    assert_eq!(of(WITHOUT, 1, Some(WITHOUT), 1), Reason::SymbolVersionMissing, "whatever the kernel has");
    assert_eq!(of(WITHOUT, 0, Some(WITHOUT), 1), Reason::Usable, "the kernel has none");
}

/// Such a kernel takes whatever was built for any MOFED.
#[test]
fn without_symbol_versions_who_can_rebuild_trusts_only_what_was_built_for_the_live_modules() {
    let of = |mofed, only_ours, is_for_live| {
        let mut case = Case::usable();
        case.expected.mofed = mofed;
        case.expected.peermem = Some(PeermemExpected { only_ours, ..PeermemExpected::default() });
        case.info(|info| {
            info.versions.clear();
            info.vermagic = VERMAGIC.replace(" modversions", "");
        });
        let peermem = case.peermem();
        peermem.is_for_live = is_for_live;
        peermem.peer_memory = Offer::LoadedFile("/m".into(), crcs(&[(REGISTER, 0), (UNREGISTER, 0)]));
        peermem.accepted.clear();
        case.condition()
    };
    let refused = of(MofedPlace::Container, true, false);
    assert_eq!(refused.reason, Reason::SymbolVersionMissing, "{}", refused.message);
    assert!(refused.message.contains("has not built it for those that are live"), "{}", refused.message);
    assert_eq!(of(MofedPlace::Host, true, false).reason, Reason::SymbolVersionMissing);
    for (only_ours, is_for_live) in [(true, true), (false, false)] {
        let usable = of(MofedPlace::Container, only_ours, is_for_live);
        assert_eq!(usable.reason, Reason::Usable, "{}", usable.message);
    }
    assert_eq!(of(MofedPlace::InBox, true, false).reason, Reason::Usable, "the kernel's own stack");
}

#[test]
fn parameters_are_read_as_the_kernel_reads_them() {
    for (text, is_bad) in [
        ("peerdirect_support=0", false),
        ("peerdirect-support=1", false),
        ("persistent_api_support=\"1\"", false),
        ("no_such=7", false),
        ("peerdirect_support", true),
        ("peerdirect_support=", true),
        ("peerdirect-support=2", true),
        ("persistent_api_support=abc", true),
    ] {
        let mut case = Case::usable();
        case.expected.peermem =
            Some(PeermemExpected { parameters: vec![text.to_owned()], ..PeermemExpected::default() });
        assert_eq!(case.condition().reason == Reason::BadParameter, is_bad, "{text}");
    }
}

#[test]
fn a_file_that_modprobe_will_not_find_is_missing() {
    let mut case = Case::usable();
    if let ModuleFile::Read { listed, .. } = &mut case.peermem().file {
        *listed = Some(false);
    }
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::ModuleFileMissing);
    assert!(condition.remedy.unwrap().contains("depmod"));
}

#[test]
fn a_loaded_module_is_not_judged_by_its_file() {
    let (_, _, missing) = &FAULTS[0];
    let mut case = Case::usable();
    missing(&mut case);
    case.load("nvidia_peermem", ProcState::Live, SysState::Live);
    for name in ["ib_uverbs", "nvidia"] {
        case.proc().iter_mut().find(|m| m.name == name).unwrap().users.push("nvidia_peermem".into());
    }
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::PeermemLive, "{}", condition.message);
    assert!(condition.message.contains("ib_uverbs"));
    assert_eq!(case.outcome(), Outcome::Ready);
    // MOFED's restart has taken the rest away; what is pinned is still there.
    case.unload("mlx5_core");
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::LoadedOnGoneStack);
    assert!(condition.remedy.unwrap().contains("rmmod nvidia_peermem"));
    assert_eq!(case.outcome(), Outcome::Waiting);
}

#[test]
fn a_loaded_module_that_uses_another_exporter_blocks() {
    let mut case = Case::usable();
    case.load("nvidia_peermem", ProcState::Live, SysState::Live);
    assert_eq!(case.condition().reason, Reason::LoadedOnGoneStack);
    assert_eq!(case.outcome(), Outcome::Blocked);
}

#[test]
fn the_gate_waits_for_a_module_that_is_loading() {
    for (state, sys, reason) in [
        (ProcState::Loading, SysState::Coming, Reason::ModuleLoading),
        (ProcState::Unloading, SysState::Going, Reason::ModuleUnloading),
        (ProcState::Live, SysState::Going, Reason::WitnessesDisagree),
    ] {
        let mut case = Case::usable();
        case.load("nvidia_peermem", state, sys);
        assert_eq!(case.condition().reason, reason);
        assert_eq!(case.outcome(), Outcome::Waiting);
    }
}

#[test]
fn an_install_line_that_runs_the_gate_passes() {
    for (command, reason) in [
        ("/usr/bin/peermem-gate load --timeout 10m -- $CMDLINE_OPTS", Reason::Usable),
        ("exec peermem-gate load", Reason::Usable),
        ("peermem-gate check", Reason::InstallLine),
        ("/bin/sh -c 'peermem-gate load; true'", Reason::InstallLine),
        ("", Reason::InstallLine),
    ] {
        let mut case = Case::usable();
        case.peermem().install = vec![GivenParameter { source: "/x".into(), text: command.into() }];
        assert_eq!(case.condition().reason, reason, "{command}");
    }
}

#[test]
fn without_symbol_versions_the_message_says_that_nothing_was_compared() {
    let mut case = Case::usable();
    let peermem = case.peermem();
    peermem.accepted[0].vermagic = "6.1.0 SMP mod_unload ".into();
    peermem.accepted[0].versions.clear();
    peermem.peer_memory = Offer::LoadedFile("/ib_uverbs.ko".into(), [].into());
    peermem.nvidia = Offer::LoadedFile("/nvidia.ko".into(), [].into());
    case.info(|info| {
        info.versions.clear();
        info.vermagic = "6.1.0 SMP mod_unload ".into();
    });
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::Usable, "{}", condition.message);
    assert!(condition.message.contains("nothing was compared"), "{}", condition.message);
}

/// What else is known of a file that will load.
#[test]
fn a_usable_files_message_says_what_to_expect() {
    const TRUST: &str = "only the kernel knows";
    const DEPMOD: &str = "modprobe finds nothing before depmod runs";
    type Row = (&'static str, bool, fn(&mut Case));
    let signed: fn(&mut Case) = |case| case.info(|info| info.signed = true);
    let demanded: fn(&mut Case) = |case| {
        case.info(|info| info.signed = true);
        case.peermem().signatures.enforced = Ok(Some(true));
    };
    let unlisted: fn(&mut Case) = |case| {
        if let ModuleFile::Read { listed, .. } = &mut case.peermem().file {
            *listed = None;
        }
    };
    let rows: [Row; 6] = [
        ("/lib/modules/6.1.0/kernel/nvidia-peermem.ko will load: it needs", true, |_| {}),
        (TRUST, false, |_| {}),
        (TRUST, false, signed),
        (TRUST, true, demanded),
        (DEPMOD, false, |_| {}),
        (DEPMOD, true, unlisted),
    ];
    for (words, is_said, change) in rows {
        let mut case = Case::usable();
        change(&mut case);
        let condition = case.condition();
        assert_eq!(condition.reason, Reason::Usable, "{}", condition.message);
        assert_eq!(condition.message.contains(words), is_said, "{words}: {}", condition.message);
    }
    let mut case = Case::usable();
    unlisted(&mut case);
    case.peermem().root = "/run/nvidia/driver".into();
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::ModuleFileMissing);
    assert!(condition.message.contains("not installed in any root"), "{}", condition.message);
}

#[test]
fn the_remedy_fits_where_the_fault_is() {
    let mut case = Case::usable();
    let source = "/proc/cmdline".into();
    case.peermem().parameters = vec![GivenParameter { source, text: "peerdirect_support=2".into() }];
    assert!(case.condition().remedy.unwrap().contains("boot loader"));
    let mut case = Case::usable();
    case.expected.mofed = MofedPlace::Host;
    case.load("nvidia_peermem", ProcState::Live, SysState::Live);
    case.unload("mlx5_core");
    let condition = case.condition();
    assert_eq!(condition.reason, Reason::LoadedOnGoneStack);
    assert!(condition.remedy.unwrap().contains("openibd"));
}

/// A module that no new driver pod would replace: the state file equals the configuration, and nvidia is loaded.
fn skipping(fault: fn(&mut Case)) -> Case {
    let mut case = Case::usable();
    fault(&mut case);
    case.expected.driver_digest = Some("42".into());
    case.seen.driver_state = DriverState::Digest("42".into());
    case
}

/// What is wrong, the reason where no build follows, and how it comes.
type Build = (Reason, Reason, fn(&mut Case));

const BUILDS: [Build; 3] = [
    (Reason::ModuleFileMissing, Reason::BuildSkipped, |case| {
        case.peermem().file = ModuleFile::Missing("/lib/modules/6.1.0".into());
    }),
    (Reason::StubModule, Reason::BuildSkipped, |case| {
        case.info(|info| info.imports = ["param_ops_int".to_owned()].into());
    }),
    (Reason::SymbolVersionMismatch, Reason::SymbolVersionMismatch, |case| {
        case.info(|info| _ = info.versions.insert(REGISTER.into(), 9));
    }),
];

#[test]
fn if_no_build_follows_the_reason_and_the_remedy_say_so() {
    for (_, reason, fault) in BUILDS {
        let case = skipping(fault);
        let condition = case.condition();
        assert_eq!(condition.reason, reason, "{}", condition.message);
        assert_eq!(case.outcome(), Outcome::Blocked);
        let remedy = condition.remedy.unwrap();
        let at = |text: &str| remedy.find(text).unwrap_or_else(|| panic!("no {text}: {remedy}"));
        assert!(at("/run/nvidia/nvidia-driver.state") < at("kubectl delete pod"), "{remedy}");
        assert!(
            condition.message.contains("equals the driver's configuration (42)"),
            "{}",
            condition.message
        );
    }
}

/// What is not known to be skipped keeps its reason, and its remedy has a condition.
#[test]
fn a_build_that_follows_or_may_follow_changes_no_reason() {
    let others: [fn(&mut Case); 7] = [
        |case| case.seen.driver_state = DriverState::Digest("43".into()),
        |case| case.seen.driver_state = DriverState::Absent,
        |case| case.seen.driver_state = DriverState::Unreadable(unreadable("Permission denied")),
        |case| case.seen.driver_state = DriverState::NoDirectory,
        |case| case.expected.driver_digest = None,
        |case| case.expected.precompiled = true,
        |case| case.expected.precedes_driver = false,
    ];
    for (other, (reason, _, fault)) in others.into_iter().flat_map(|other| BUILDS.map(|build| (other, build)))
    {
        let mut case = skipping(fault);
        other(&mut case);
        assert_eq!(case.condition().reason, reason);
    }
    // A file that depmod has not seen needs no build.
    let unlisted = skipping(|case| {
        if let ModuleFile::Read { listed, .. } = &mut case.peermem().file {
            *listed = Some(false);
        }
    });
    assert_eq!(unlisted.condition().reason, Reason::ModuleFileMissing);
}

#[test]
fn whether_the_next_driver_container_builds_is_true_false_or_unknown() {
    let of = |change: fn(&mut Case)| {
        let mut case = skipping(|_| {});
        change(&mut case);
        next_build(&case.expected, &case.seen)
    };
    let status = |change| of(change).map(|next| next.status);
    assert_eq!(status(|_| {}), Some(Status::False));
    assert_eq!(status(|case| case.unload("nvidia")), Some(Status::True));
    assert_eq!(status(|case| case.seen.driver_state = DriverState::Digest("43".into())), Some(Status::True));
    assert_eq!(status(|case| case.seen.driver_state = DriverState::Absent), Some(Status::True));
    let unknown: [fn(&mut Case); 4] = [
        |case| case.expected.driver_digest = None,
        |case| case.seen.driver_state = DriverState::NoDirectory,
        |case| case.seen.driver_state = DriverState::Unreadable(unreadable("Permission denied")),
        |case| case.seen.modules.proc = Err(unreadable("Permission denied")),
    ];
    for change in unknown {
        let next = of(change).unwrap();
        assert_eq!(next.status, Status::Unknown, "{next}");
        assert!(next.to_string().contains("`rm -f /run/nvidia/nvidia-driver.state`"), "{next}");
    }
    // No driver container that skips builds, no need of a build, or no business here.
    let silent: [fn(&mut Case); 5] = [
        |case| {
            case.expected.driver_digest = None;
            case.seen.driver_state = DriverState::Absent;
        },
        |case| {
            case.expected.driver_digest = None;
            case.seen.driver_state = DriverState::NoDirectory;
        },
        |case| case.expected.precompiled = true,
        |case| case.expected.consumers = vec![Consumer::Fabric],
        |case| case.seen.nic = Nic::None,
    ];
    for change in silent {
        assert_eq!(of(change), None);
    }
    // What works is left alone: there is nothing to do.
    let live = of(|case| case.load("nvidia_peermem", ProcState::Live, SysState::Live)).unwrap();
    assert_eq!((live.status, live.remedy.as_deref()), (Status::False, None));
    assert!(live.message.ends_with("nvidia_peermem stays loaded"), "{live}");
}
