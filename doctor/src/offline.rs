// SPDX-License-Identifier: Apache-2.0
//! `inspect`: what a file of nvidia-peermem is good for, only by the file. No node is looked at, so what only a node
//! knows (its parameters, its signatures, what is live) is not asked.

use peermem_gate::ready::PEER_MEMORY_SYMBOLS;
use peermem_gate::ready::observation::ModuleInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The kernel's name for nvidia-peermem.
const NAME: &str = "nvidia_peermem";
/// The symbol whose CRC identifies the kernel itself.
const LAYOUT: &str = "module_layout";

/// The stack and the kernel that a file should fit, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// A Module.symvers, and the CRCs in it.
    pub symvers: Option<(PathBuf, BTreeMap<String, u32>)>,
    /// The kernel's release.
    pub kernel: Option<String>,
}

/// The sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fitness {
    /// A module without a known fault.
    Usable,
    /// No kernel, or not the expected one, would load it.
    Unfit,
    /// Whether a kernel would load it is unknown: the file cannot be read.
    Unknown,
}

named!(Fitness: Usable, Unfit, Unknown);

/// Why: the reasons of `PeermemUsable` where they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FileReason {
    Real,
    Usable,
    OtherModule,
    StubModule,
    SymbolVersionMismatch,
    WrongKernel,
    SymbolVersionMissing,
    ModuleFileDamaged,
    ModuleFileUnreadable,
}

named!(
    FileReason: Real, Usable, OtherModule, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing,
    ModuleFileDamaged, ModuleFileUnreadable
);

impl FileReason {
    /// The fitness of a file with this reason.
    pub fn fitness(self) -> Fitness {
        match self {
            Self::Real | Self::Usable => Fitness::Usable,
            Self::ModuleFileUnreadable => Fitness::Unknown,
            _ => Fitness::Unfit,
        }
    }

    /// The remedy, where one is needed.
    pub fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Real | Self::Usable => return None,
            Self::OtherModule => "give a file of nvidia-peermem",
            Self::StubModule => {
                "install MOFED with its headers for this kernel (/usr/src/ofa_kernel), then build the module again \
                    from fresh sources: a second make in the same tree makes the same stub"
            }
            Self::SymbolVersionMismatch => {
                "build it again, from fresh sources, with the headers of the MOFED that this Module.symvers is of"
            }
            Self::WrongKernel => "build it for this kernel: `dkms install -k RELEASE nvidia/VERSION`",
            Self::SymbolVersionMissing => {
                "build it again with the Module.symvers of MOFED and of nvidia in place"
            }
            Self::ModuleFileDamaged => "build or copy the file again",
            Self::ModuleFileUnreadable => "check the path, and that it may be read",
        })
    }
}

/// Judges a module that was read from a file with this name. The first fault counts.
pub fn judge(info: &ModuleInfo, file_name: &str, expected: &Expected) -> (FileReason, String) {
    let name = if info.name.is_empty() { of_file(file_name) } else { info.name.clone() };
    let against = other_module(&name)
        .or_else(|| stub(info))
        .or_else(|| mismatch(info, expected))
        .or_else(|| other_kind_of_kernel(info, expected))
        .or_else(|| wrong_kernel(info, expected))
        .or_else(|| version_missing(info));
    against.unwrap_or_else(|| usable(info, expected))
}

type Unfitness = Option<(FileReason, String)>;

/// Old kernels' modules do not name themselves.
fn of_file(file_name: &str) -> String {
    file_name.split('.').next().unwrap_or_default().replace('-', "_")
}

fn other_module(name: &str) -> Unfitness {
    (name != NAME).then(|| (FileReason::OtherModule, format!("it is {name}, not nvidia-peermem")))
}

fn stub(info: &ModuleInfo) -> Unfitness {
    info.is_stub().then(|| {
        let message =
            "a stub: it was built without MOFED's headers, so no kernel loads it (\"Invalid argument\")";
        (FileReason::StubModule, message.to_owned())
    })
}

/// The peer-memory symbols come first: the question is about them.
fn mismatch(info: &ModuleInfo, expected: &Expected) -> Unfitness {
    let (path, crcs) = expected.symvers.as_ref()?;
    let all = info.versions.keys().map(String::as_str).filter(|symbol| *symbol != LAYOUT);
    let mut symbols = PEER_MEMORY_SYMBOLS.into_iter().chain(all).chain([LAYOUT]);
    let (symbol, wanted, found) = symbols.find_map(|symbol| {
        let (wanted, found) = (*info.versions.get(symbol)?, *crcs.get(symbol)?);
        (wanted != found && found != 0).then_some((symbol, wanted, found))
    })?;
    let by = if PEER_MEMORY_SYMBOLS.contains(&symbol) { "MOFED" } else { "kernel or MOFED" };
    let message = format!(
        "it needs {symbol} with CRC {wanted:#010x}, but {} has {found:#010x}: it was built against another {by}",
        path.display()
    );
    Some((FileReason::SymbolVersionMismatch, message))
}

/// A kernel without symbol versions loads no module that has them, and the other way round: vermagic says which.
fn other_kind_of_kernel(info: &ModuleInfo, expected: &Expected) -> Unfitness {
    let (path, crcs) = expected.symvers.as_ref()?;
    let (ours, theirs) = (has_versions(info), crcs.values().any(|crc| *crc != 0));
    let kind = |versions: bool| if versions { "with" } else { "without" };
    let message = format!(
        "it is built for a kernel {} symbol versions, but {} is of one {} them",
        kind(ours),
        path.display(),
        kind(theirs)
    );
    (ours != theirs).then_some((FileReason::WrongKernel, message))
}

/// Whether its kernel compares CRCs of symbols.
fn has_versions(info: &ModuleInfo) -> bool {
    info.vermagic.split(' ').any(|word| word == "modversions") || !info.versions.is_empty()
}

/// A kernel with symbol versions ignores the release. So it does not count where its own Module.symvers was compared.
fn wrong_kernel(info: &ModuleInfo, expected: &Expected) -> Unfitness {
    let kernel = expected.kernel.as_ref().filter(|kernel| *kernel != info.release())?;
    let is_of_kernel = |crcs: &BTreeMap<String, u32>| crcs.contains_key(LAYOUT);
    let is_compared = expected.symvers.as_ref().is_some_and(|(_, crcs)| is_of_kernel(crcs));
    let message = format!("it is built for kernel {}, not for {kernel}", info.release());
    (!(is_compared && info.is_of_any_release() && is_of_kernel(&info.versions)))
        .then_some((FileReason::WrongKernel, message))
}

fn version_missing(info: &ModuleInfo) -> Unfitness {
    let is_others =
        |symbol: &&String| symbol.contains("_peer_memory_client") || symbol.starts_with("nvidia_p2p_");
    let mut missing = info.imports.iter().filter(is_others).filter(|s| !info.versions.contains_key(*s));
    let symbol = missing.next().filter(|_| has_versions(info))?;
    let message = format!(
        "it has no CRC for {symbol}, which its kernel may require: it was built without the Module.symvers that \
            lists it"
    );
    Some((FileReason::SymbolVersionMissing, message))
}

fn usable(info: &ModuleInfo, expected: &Expected) -> (FileReason, String) {
    let Some(crc) = info.versions.get(PEER_MEMORY_SYMBOLS[0]) else {
        let message = "real; its kernel has no symbol versions, so it shows no MOFED".to_owned();
        return (FileReason::Real, message);
    };
    let needs = format!("it needs {} with CRC {crc:#010x}", PEER_MEMORY_SYMBOLS[0]);
    match &expected.symvers {
        Some((path, _)) => (FileReason::Usable, format!("real: {needs}, which {} has", path.display())),
        None => (FileReason::Real, format!("real: {needs}; --symvers compares it with a MOFED's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOL: &str = "ib_register_peer_memory_client";
    const NVIDIA: &str = "nvidia_p2p_get_pages";

    fn module(name: &str, vermagic: &str, imports: &[&str], versions: &[(&str, u32)]) -> ModuleInfo {
        ModuleInfo {
            name: name.to_owned(),
            vermagic: vermagic.to_owned(),
            imports: imports.iter().map(|symbol| (*symbol).to_owned()).collect(),
            versions: versions.iter().map(|(symbol, crc)| ((*symbol).to_owned(), *crc)).collect(),
            ..ModuleInfo::default()
        }
    }

    fn real() -> ModuleInfo {
        let versions = [(LAYOUT, 0x0dff_b1ea), (SYMBOL, 0x9ca7_61a2)];
        module(NAME, "6.1.0-56-amd64 SMP preempt mod_unload modversions", &[SYMBOL], &versions)
    }

    fn symvers(crcs: &[(&str, u32)]) -> Expected {
        let crcs = crcs.iter().map(|(symbol, crc)| ((*symbol).to_owned(), *crc)).collect();
        Expected { symvers: Some(("/symvers".into(), crcs)), kernel: None }
    }

    fn for_kernel(release: &str) -> Expected {
        Expected { kernel: Some(release.to_owned()), ..Expected::default() }
    }

    #[track_caller]
    fn assert_judged(info: &ModuleInfo, expected: &Expected, reason: FileReason, words: &str) {
        let (judged, message) = judge(info, "nvidia-peermem.ko.xz", expected);
        assert_eq!(judged, reason, "{message}");
        assert!(message.contains(words), "{words:?} is not in {message:?}");
        assert_eq!(reason.remedy().is_none(), reason.fitness() == Fitness::Usable);
    }

    #[test]
    fn a_real_module_is_compared_with_the_given_kernel_and_mofed() {
        let real = real();
        assert_judged(&real, &Expected::default(), FileReason::Real, "0x9ca761a2");
        assert_judged(&real, &for_kernel("6.1.0-56-amd64"), FileReason::Real, "real");
        assert_judged(&real, &symvers(&[(SYMBOL, 0x9ca7_61a2)]), FileReason::Usable, "/symvers has");
        let other = symvers(&[(SYMBOL, 1)]);
        assert_judged(&real, &other, FileReason::SymbolVersionMismatch, "another MOFED");
        let other = symvers(&[(SYMBOL, 0x9ca7_61a2), (LAYOUT, 1)]);
        assert_judged(&real, &other, FileReason::SymbolVersionMismatch, "another kernel or MOFED");
    }

    #[test]
    fn another_kernels_module_is_unfit_unless_its_symbols_are_that_kernels() {
        let real = real();
        assert_judged(
            &real,
            &for_kernel("6.1.0-57-amd64"),
            FileReason::WrongKernel,
            "not for 6.1.0-57-amd64",
        );
        let kernel = Some("6.1.0-57-amd64".to_owned());
        let mofeds = Expected { kernel: kernel.clone(), ..symvers(&[(SYMBOL, 0x9ca7_61a2)]) };
        assert_judged(&real, &mofeds, FileReason::WrongKernel, "6.1.0-56-amd64");
        let kernels = Expected { kernel, ..symvers(&[(SYMBOL, 0x9ca7_61a2), (LAYOUT, 0x0dff_b1ea)]) };
        assert_judged(&real, &kernels, FileReason::Usable, "real");
        let extended = ModuleInfo { extended_only: true, ..real };
        assert_judged(&extended, &kernels, FileReason::WrongKernel, "6.1.0-56-amd64");
    }

    /// Debian's kernels since 7.2 have no symbol versions: their Module.symvers has 0 for every CRC.
    #[test]
    fn kernels_with_and_without_symbol_versions_do_not_load_each_others_modules() {
        let without = module(NAME, "7.2.13+deb14-amd64 SMP preempt mod_unload ", &[SYMBOL], &[]);
        assert_judged(&without, &symvers(&[(SYMBOL, 0)]), FileReason::Real, "no symbol versions");
        assert_judged(&without, &symvers(&[(SYMBOL, 1)]), FileReason::WrongKernel, "is of one with them");
        assert_judged(&real(), &symvers(&[(SYMBOL, 0)]), FileReason::WrongKernel, "is of one without them");
    }

    #[test]
    fn a_stub_is_unfit_whatever_else_is_right() {
        let stub = module(NAME, "6.1.0 SMP modversions", &[], &[(LAYOUT, 0x0dff_b1ea)]);
        for expected in [Expected::default(), symvers(&[(SYMBOL, 1)]), for_kernel("6.1.0")] {
            assert_judged(&stub, &expected, FileReason::StubModule, "a stub");
        }
    }

    #[test]
    fn symbols_without_crcs_are_missed_where_a_kernel_has_them() {
        let of = |flags: &str, versions: &[(&str, u32)]| {
            module(NAME, &format!("6.1.0 SMP {flags}"), &[SYMBOL, NVIDIA], versions)
        };
        let all = Expected::default();
        assert_judged(&of("mod_unload", &[]), &all, FileReason::Real, "no symbol versions");
        assert_judged(&of("modversions", &[]), &all, FileReason::SymbolVersionMissing, SYMBOL);
        assert_judged(&of("", &[(SYMBOL, 1)]), &all, FileReason::SymbolVersionMissing, NVIDIA);
    }

    #[test]
    fn inspect_names_a_module_that_is_not_nvidia_peermem() {
        let of = |name: &str| module(name, "6.1.0 SMP", &[], &[]);
        assert_judged(&of("nv_peer_mem"), &Expected::default(), FileReason::OtherModule, "it is nv_peer_mem");
        // By the file's name, where the module does not say its own.
        assert_judged(&of(""), &Expected::default(), FileReason::StubModule, "a stub");
        let (reason, _) = judge(&of(""), "ib-core.ko", &Expected::default());
        assert_eq!(reason, FileReason::OtherModule);
    }

    #[test]
    fn every_reason_that_is_unfit_says_what_to_do() {
        for reason in FileReason::ALL {
            assert_eq!(reason.remedy().is_none(), reason.fitness() == Fitness::Usable, "{reason}");
        }
    }
}
