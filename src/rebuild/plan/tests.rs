// SPDX-License-Identifier: Apache-2.0
//! Each obstacle by itself, every two of them together, and the plan where there is none.

use super::*;
use crate::ready::observation::{ProcModule, ProcState, SysModule, SysState, Unreadable};
use crate::rebuild::sample::{self, CRC, RELEASE, VERSION};

/// The input of a plan.
struct Case {
    conditions: Vec<Condition>,
    seen: Observation,
    material: Material,
}

impl Case {
    /// Everything is there.
    fn new() -> Self {
        Self { conditions: sample::conditions(), seen: sample::seen(), material: sample::material() }
    }

    fn with(change: impl Fn(&mut Self)) -> Self {
        let mut case = Self::new();
        change(&mut case);
        case
    }

    fn plan_by(self, program: Option<&Path>) -> Result<Plan, Obstacle> {
        plan(program, &Verdict::of(self.conditions), &self.seen, &self.material)
    }

    fn plan(self) -> Result<Plan, Obstacle> {
        self.plan_by(None)
    }

    /// In the place of its namesake, or as one more.
    fn condition(&mut self, r#type: ConditionType, reason: Reason) {
        self.conditions.retain(|c| c.r#type != r#type);
        self.conditions.push(Condition::new(r#type, reason, "as the test says"));
    }

    fn peermem_is(&mut self, reason: Reason) {
        self.condition(ConditionType::PeermemUsable, reason);
    }

    fn signatures(&mut self) -> &mut Signatures {
        &mut self.seen.peermem.as_mut().unwrap().signatures
    }

    fn signs(&mut self, unusable: Option<&str>) {
        self.material.signing = Some(Signing {
            directory: "/own".into(),
            unusable: unusable.map(str::to_owned),
            program: Some("/build/scripts/sign-file".into()),
            hash: "sha256".to_owned(),
        });
    }

    fn loads_peermem(&mut self) {
        let line = ProcModule {
            name: "nvidia_peermem".into(),
            size: 1,
            refcount: Some(0),
            users: Vec::new(),
            state: ProcState::Live,
            address: "0x0".into(),
            taint: "OE".into(),
        };
        self.seen.modules.proc.as_mut().unwrap().modules.push(line);
        let in_sysfs = sample::sys_module(SysState::Live, None);
        self.seen.modules.sys.insert("nvidia_peermem".to_owned(), in_sysfs);
    }

    fn nvidia(&mut self) -> &mut SysModule {
        self.seen.modules.sys.get_mut("nvidia").unwrap()
    }

    /// The CRCs of the MOFED that is live.
    fn offers(&mut self, offer: Offer) {
        self.seen.peermem.as_mut().unwrap().peer_memory = offer;
    }
}

fn unreadable() -> Unreadable {
    Unreadable { path: "/sys/x".into(), why: "Permission denied".to_owned() }
}

fn path(path: &str) -> PathBuf {
    PathBuf::from(path)
}

type Row = (Kind, &'static str, fn(&mut Case));

/// The change that makes each obstacle, in the order of [`Kind::ALL`], and words of its message.
const OBSTACLES: &[Row] = &[
    (Kind::DoesNotApply, "as the test says", |case| {
        case.condition(ConditionType::NicPresent, Reason::NoRdmaDevice);
    }),
    (Kind::Loaded, "nvidia_peermem is loaded", Case::loads_peermem),
    (Kind::NotReady, "MarkerPresent: MarkerAbsent", |case| {
        case.condition(ConditionType::MarkerPresent, Reason::MarkerAbsent);
    }),
    (Kind::NotCurable, "PeermemUsable: LegacyClientLoaded", |case| {
        case.peermem_is(Reason::LegacyClientLoaded);
    }),
    (Kind::SigningKeyUnusable, "this kernel has no key 0c5a", |case| {
        case.signatures().enforced = Ok(Some(true));
        case.signs(Some("this kernel has no key 0c5a"));
    }),
    (Kind::SignaturesEnforced, "sig_enforce", |case| case.signatures().enforced = Ok(Some(true))),
    (Kind::SignaturesUnknown, "/sys/x: Permission denied", |case| {
        case.signatures().lockdown = Err(unreadable());
    }),
    (Kind::NvidiaNotLive, "nvidia is not loaded", |case| case.nvidia().version = Ok(None)),
    (Kind::NvidiaFileMissing, "no nvidia.ko", |case| case.material.nvidia = Err("no nvidia.ko".to_owned())),
    (
        Kind::NvidiaWithoutVersions,
        "/lib/modules/nvidia.ko does not show which nvidia_p2p_* symbols it exports",
        |case| {
            if let Ok((_, crcs)) = &mut case.material.nvidia {
                crcs.clear();
            }
        },
    ),
    (Kind::SourcesMissing, "no sources of nvidia 595.45.04", |case| case.material.sources.clear()),
    (Kind::VersionDiffers, "/usr/src/nvidia-595.45.04 is of 580.1", |case| {
        case.material.sources.iter_mut().for_each(|sources| sources.version = Some("580.1".to_owned()));
    }),
    (Kind::RecipeDoesNotFit, "there is no common", |case| {
        let misfit = Some("there is no common".to_owned());
        case.material.sources.iter_mut().for_each(|sources| sources.misfit.clone_from(&misfit));
    }),
    (Kind::HeadersMissing, "/usr/src/linux-headers-6.1.0-56-amd64", |case| case.material.headers = None),
    (Kind::SymversUnusable, "another CRC there than 0x00000007, which /loaded.ko", |case| {
        case.offers(Offer::LoadedFile("/loaded.ko".into(), sample::offered(7)));
    }),
    (Kind::ToolMissing, "no make below /run/nvidia/driver", |case| {
        case.material.tools.remove(&Tool::Make);
    }),
    (Kind::Unwritable, "a read-only file system", |case| {
        case.material.unwritable = Some("a read-only file system".to_owned());
    }),
    (Kind::Exposed, "its mode is 0777", |case| {
        case.material.exposed = Some("/var/lib/peermem-gate: its mode is 0777".to_owned());
    }),
    (Kind::NoRoom, "1 MiB are free", |case| case.material.free = Some(1 << 20)),
    (Kind::ForeignFile, "did not install the existing /theirs.ko", |case| {
        case.material.foreign = Some("/theirs.ko".into());
    }),
    (Kind::AlreadyTried, "make ended with 2", |case| {
        case.material.tried = Some("make ended with 2".to_owned());
    }),
];

#[test]
fn each_obstacle_to_a_rebuild_is_named_if_it_is_the_only_one() {
    for (kind, words, change) in OBSTACLES {
        let obstacle = Case::with(change).plan().unwrap_err();
        assert_eq!(obstacle.kind, *kind, "{obstacle}");
        assert!(obstacle.message.contains(words), "{obstacle}");
    }
    // The lock of another rebuild, and a call that fails, are the builder's to find.
    let kinds: Vec<_> =
        OBSTACLES.iter().map(|(kind, ..)| *kind).chain([Kind::Busy, Kind::CallFailed]).collect();
    assert_eq!(kinds, Kind::ALL);
}

#[test]
fn of_two_obstacles_the_first_in_the_list_is_named() {
    for (at, (first, _, change)) in OBSTACLES.iter().enumerate() {
        for (second, _, another) in &OBSTACLES[at + 1..] {
            for order in [[change, another], [another, change]] {
                let obstacle =
                    Case::with(|case| order.iter().for_each(|change| change(case))).plan().unwrap_err();
                assert_eq!(obstacle.kind, *first, "with {second}: {obstacle}");
            }
        }
    }
}

#[test]
fn a_module_is_signed_where_the_kernel_demands_it_and_a_key_was_given() {
    let case = |is_demanded: bool, has_program: bool| {
        Case::with(|case| {
            case.peermem_is(Reason::UnsignedModule);
            case.signatures().enforced = Ok(Some(is_demanded));
            case.signs(None);
            if !has_program {
                case.material.signing.as_mut().unwrap().program = None;
            }
        })
    };
    let plan = case(true, true).plan().unwrap();
    let text = plan.text(Path::new("/copy"));
    assert!(text.contains("\nsign: /build/scripts/sign-file sha256, with the key in /own\n"), "{text}");
    assert_eq!(case(false, false).plan().unwrap().signing, None);
    assert_eq!(case(true, false).plan().unwrap_err().kind, Kind::HeadersMissing);
    // A driver container on the fast path has no headers, and the store's module is signed.
    let mut stored = case(true, false);
    stored.material.stored = Some("/store/entry".into());
    assert!(stored.plan().is_ok());
}

/// Debian's kernel 7.2: Module.symvers has 0 for every CRC.
#[test]
fn without_symbol_versions_the_headers_are_mofeds_only_if_its_live_files_are_seen() {
    let of = |offer: Offer| {
        Case::with(|case| {
            case.material.symvers =
                Ok(("/usr/src/ofa_kernel/x86_64/Module.symvers".into(), sample::symvers(0)));
            case.material.nvidia = Ok(("/nvidia.ko".into(), [("nvidia_p2p_get_pages".to_owned(), 0)].into()));
            case.offers(offer.clone());
        })
        .plan()
    };
    let plan = of(Offer::LoadedFile("/ib_uverbs.ko".into(), sample::offered(0))).unwrap();
    let extra = plan.extra_symvers().unwrap();
    assert!(extra.contains("0x00000000\tnvidia_p2p_get_pages\tnvidia\tEXPORT_SYMBOL"), "{extra}");
    let unseen = of(Offer::Symvers("/usr/src/ofa_kernel/x86_64/Module.symvers".into(), sample::offered(0)));
    let obstacle = unseen.unwrap_err();
    assert_eq!(obstacle.kind, Kind::SymversUnusable);
    assert!(obstacle.message.contains("unknown whether"), "{obstacle}");
}

#[test]
fn a_rebuild_plan_uses_the_sources_and_headers_that_were_found() {
    let plan = Case::new().plan().unwrap();
    let material = sample::material();
    assert_eq!(plan.reason, Reason::StubModule);
    assert_eq!(plan.driver_root, material.driver_root);
    assert_eq!(plan.kernel, (RELEASE.to_owned(), "x86_64".to_owned()));
    assert_eq!(plan.nvidia_version, VERSION);
    let builder = Builder::Make {
        make: path("/usr/bin/make"),
        sources: material.sources[0].clone(),
        headers: path("/lib/modules/6.1.0-56-amd64/build"),
        names_headers: false,
        compiler: Some("gcc".to_owned()),
    };
    assert_eq!(plan.builder, builder);
    assert_eq!(Ok(plan.symvers.clone()), material.symvers);
    assert_eq!(Ok(plan.nvidia.clone()), material.nvidia);
    assert_eq!((plan.depmod.clone(), plan.jobs), (path("/usr/bin/depmod"), 4));
    assert_eq!(plan.target(), path("/lib/modules/6.1.0-56-amd64/updates/nvidia-peermem.ko"));
}

#[test]
fn a_plan_for_a_person_names_every_step() {
    let steps = "\
nvidia-peermem.ko can be rebuilt (StubModule): everything needed exists
driver's root: /run/nvidia/driver
kernel: 6.1.0-56-amd64 (x86_64)
nvidia: 595.45.04, symbols from /lib/modules/nvidia.ko
  0x86ac1260 nvidia_p2p_get_pages
MOFED: symbols from /usr/src/ofa_kernel/x86_64/Module.symvers
BUILD
install: /lib/modules/6.1.0-56-amd64/updates/nvidia-peermem.ko
prefer: /etc/depmod.d/peermem-gate-6.1.0-56-amd64.conf
then: /usr/bin/depmod 6.1.0-56-amd64
";
    let make = "\
sources: /usr/src/nvidia-595.45.04
kernel headers: /usr/src/linux-headers
copy: /copy
build: /usr/bin/make -C /copy --no-print-directory -j4 modules NV_KERNEL_MODULES=nvidia-peermem \
KERNEL_UNAME=6.1.0-56-amd64 OFA_DIR=/copy/ofa SYSSRC=/usr/src/linux-headers CC=gcc";
    let mut elsewhere = Case::new();
    elsewhere.material.headers = Some("/usr/src/linux-headers".into());
    elsewhere.material.headers_are_linked = false;
    let text = elsewhere.plan().unwrap().text(Path::new("/copy"));
    assert_eq!(text, steps.replace("BUILD", make));
    let text = Case::new().plan_by(Some(Path::new("/builder"))).unwrap().text(Path::new("/copy"));
    assert_eq!(text, steps.replace("BUILD", "build: /builder"));
}

/// NVIDIA's Makefile of 515.105.01 calls `cc` whatever built the kernel.
#[test]
fn the_compiler_is_named_where_it_is_not_called_cc() {
    for (compiler, named) in
        [("/usr/bin/cc", None), ("/usr/bin/gcc", Some("CC=gcc")), ("/bin/clang", Some("CC=clang"))]
    {
        let case = Case::with(|case| _ = case.material.tools.insert(Tool::Compiler, compiler.into()));
        let arguments = case.plan().unwrap().arguments(Path::new("/copy"));
        let found = arguments.iter().filter_map(|word| word.to_str()).find(|word| word.starts_with("CC="));
        assert_eq!(found, named, "{compiler}");
    }
}

#[test]
fn a_users_builder_needs_no_sources_headers_or_compiler() {
    let program = Path::new("/builder");
    let spared = [
        Kind::SourcesMissing,
        Kind::VersionDiffers,
        Kind::RecipeDoesNotFit,
        Kind::HeadersMissing,
        Kind::ToolMissing,
    ];
    for (kind, _, change) in OBSTACLES {
        let planned = Case::with(change).plan_by(Some(program));
        match planned {
            Ok(plan) => {
                assert!(spared.contains(kind), "{kind}");
                assert_eq!(plan.builder, Builder::Program(program.to_owned()));
            }
            Err(obstacle) => assert!(obstacle.kind == *kind && !spared.contains(kind), "{obstacle}"),
        }
    }
    let without_depmod = Case::with(|case| _ = case.material.tools.remove(&Tool::Depmod));
    assert_eq!(without_depmod.plan_by(Some(program)).unwrap_err().kind, Kind::ToolMissing);
}

#[test]
fn each_of_the_three_tools_is_needed() {
    for (tool, name) in [(Tool::Make, "make"), (Tool::Compiler, "cc or gcc"), (Tool::Depmod, "depmod")] {
        let obstacle = Case::with(|case| _ = case.material.tools.remove(&tool)).plan().unwrap_err();
        assert_eq!(obstacle.kind, Kind::ToolMissing);
        assert!(obstacle.message.contains(&format!("no {name} below")), "{obstacle}");
    }
}

#[test]
fn only_a_fault_of_the_module_file_is_rebuilt() {
    for reason in Reason::ALL.iter().copied() {
        let planned = Case::with(|case| case.peermem_is(reason)).plan();
        match planned {
            Ok(plan) => assert!(reason.needs_rebuild() && plan.reason == reason, "{reason}"),
            Err(obstacle) => {
                assert!(!reason.needs_rebuild(), "{reason}: {obstacle}");
                let is_signature = reason == Reason::UnsignedModule;
                assert_eq!(obstacle.kind == Kind::SignaturesEnforced, is_signature, "{reason}: {obstacle}");
            }
        }
    }
    let unasked = Case::with(|case| case.conditions.retain(|c| c.r#type != ConditionType::PeermemUsable));
    let obstacle = unasked.plan().unwrap_err();
    assert_eq!(obstacle, Obstacle::new(Kind::NotCurable, "nvidia-peermem was not inspected"));
}

#[test]
fn nothing_is_built_unless_both_witnesses_say_that_the_module_is_not_loaded() {
    assert_refused(Kind::Loaded, Case::loads_peermem);
    assert_refused(Kind::NotReady, |case| case.seen.modules.proc = Err(unreadable()));
    assert_refused(Kind::NotReady, |case| _ = case.seen.modules.sys.remove("nvidia_peermem"));
    assert_refused(Kind::NotReady, |case| {
        let going = sample::sys_module(SysState::Going, None);
        case.seen.modules.sys.insert("nvidia_peermem".to_owned(), going);
    });
}

fn assert_refused(kind: Kind, change: impl Fn(&mut Case)) {
    let obstacle = Case::with(change).plan().unwrap_err();
    assert_eq!(obstacle.kind, kind, "{obstacle}");
}

/// An unsigned module is built only for a kernel that is known to take it.
#[test]
fn a_signature_policy_that_is_unknown_is_an_obstacle() {
    let lockdown = |mode: &str| Ok(Some(mode.to_owned()));
    let enforced = Some(Kind::SignaturesEnforced);
    let unknown = Some(Kind::SignaturesUnknown);
    let cases = [
        (Ok(None), Ok(None), None),
        (Ok(Some(false)), Ok(None), None),
        (Ok(Some(false)), lockdown("none"), None),
        (Ok(None), lockdown("integrity"), enforced),
        (Ok(None), lockdown("confidentiality"), enforced),
        (Ok(Some(true)), lockdown("none"), enforced),
        (Ok(Some(true)), Err(unreadable()), enforced),
        (Err(unreadable()), lockdown("integrity"), enforced),
        (Err(unreadable()), Ok(None), unknown),
        (Err(unreadable()), lockdown("none"), unknown),
        (Ok(Some(false)), Err(unreadable()), unknown),
        (Ok(None), Err(unreadable()), unknown),
    ];
    for (enforced, lockdown, kind) in cases {
        let signatures = Signatures { enforced, lockdown };
        let planned = Case::with(|case| *case.signatures() = signatures.clone()).plan();
        assert_eq!(planned.err().map(|obstacle| obstacle.kind), kind, "{signatures:?}");
    }
}

#[test]
fn an_nvidia_without_a_version_is_not_live() {
    let obstacle = Case::with(|case| case.nvidia().version = Err(unreadable())).plan().unwrap_err();
    assert_eq!(obstacle, Obstacle::new(Kind::NvidiaNotLive, "/sys/x: Permission denied"));
    let absent = Case::with(|case| _ = case.seen.modules.sys.remove("nvidia"));
    assert_eq!(absent.plan().unwrap_err().kind, Kind::NvidiaNotLive);
}

#[test]
fn sources_of_the_live_version_are_taken_wherever_they_are_in_the_list() {
    let root = path("/run/nvidia/driver");
    let other = Sources { root, directory: path("/usr/src/nvidia-580.1"), version: None, misfit: None };
    let both = Case::with(|case| case.material.sources.insert(0, other.clone()));
    let Builder::Make { sources, .. } = both.plan().unwrap().builder else { panic!("make builds") };
    assert_eq!(sources.directory, path("/usr/src/nvidia-595.45.04"));
    let obstacle = Case::with(|case| case.material.sources = vec![other.clone()]).plan().unwrap_err();
    assert!(obstacle.message.contains("is of an unknown version"), "{obstacle}");
}

/// A module built against another MOFED's headers would not load.
#[test]
fn symbols_of_another_mofed_are_an_obstacle() {
    let of = |text: &str| {
        let text = text.to_owned();
        Case::with(|case| case.material.symvers = Ok(("/symvers".into(), text.clone()))).plan()
    };
    assert!(of(&sample::symvers(CRC)).is_ok());
    let [first, second] = [0, 1].map(|at| sample::symvers(CRC).lines().nth(at).unwrap().to_owned() + "\n");
    let other = sample::symvers(7);
    let other = other.lines().nth(1).unwrap();
    for text in
        [&sample::symvers(7), &format!("{first}{other}\n"), &first.replace("0x", ""), &first, &second, ""]
    {
        assert_eq!(of(text).unwrap_err().kind, Kind::SymversUnusable, "{text}");
    }
    let symvers = Case::with(|case| case.material.symvers = Err(unreadable())).plan().unwrap_err();
    assert_eq!(symvers, Obstacle::new(Kind::SymversUnusable, "/sys/x: Permission denied"));
    let unknown =
        Case::with(|case| case.offers(Offer::Unknown("two of them".to_owned()))).plan().unwrap_err();
    assert_eq!(unknown, Obstacle::new(Kind::SymversUnusable, "two of them"));
    // Where the loaded module's file is not there, the headers are all that there is.
    let offer = || Offer::Symvers("/symvers".into(), sample::offered(7));
    assert!(Case::with(|case| case.offers(offer())).plan().is_ok());
}

#[test]
fn free_space_counts_only_if_its_size_is_known() {
    for (free, is_enough) in [(None, true), (Some(0), false), (Some(ROOM - 1), false), (Some(ROOM), true)] {
        let planned = Case::with(|case| case.material.free = free).plan();
        assert_eq!(planned.is_ok(), is_enough, "{free:?}");
    }
}
