// SPDX-License-Identifier: Apache-2.0
//! How only nvidia-peermem is built: by NVIDIA's own Makefile and conftest, in a fresh copy.
//!
//! A copy is fresh because conftest's answers and modpost's CRCs outlive what they were found for: a second `make` in
//! the same tree ends with 0 and makes the first one's module (docs/heal.md).

use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::observation::REBUILT_BY;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files and directories to copy of NVIDIA's sources: about a megabyte.
pub const SOURCES: [&str; 6] =
    ["Kbuild", "Makefile", "conftest.sh", "common", "nvidia-peermem", "nvidia/nv-p2p.h"];
/// Files that only some versions have.
pub const OPTIONAL: [&str; 2] = ["header-presence-tests.mk", "pahole.sh"];
/// By this file sources are known, in whatever directory a flavor of the driver keeps them.
pub const KNOWN_BY: &str = "nvidia-peermem/nvidia-peermem.Kbuild";
/// The module that `make` writes.
pub const MODULE: &str = "nvidia-peermem.ko";
/// The directory in the copy that is used in place of MOFED's.
pub const OFA: &str = "ofa";

/// The source of nvidia-peermem, which the copy marks as ours.
pub const SOURCE: &str = "nvidia-peermem/nvidia-peermem.c";

/// Where the build tree of a kernel may be, as seen from inside the driver's root, best first. The last two are below
/// /usr/src of MOFED's container, which installs the headers of the running kernel and shows that directory: a driver
/// container on the operator's fast path has no others.
const HEADERS: [&str; 5] = [
    "/lib/modules/KERNEL/build",
    "/usr/src/linux-headers-KERNEL",
    "/usr/src/kernels/KERNEL",
    "/run/mellanox/drivers/usr/src/linux-headers-KERNEL",
    "/run/mellanox/drivers/usr/src/kernels/KERNEL",
];

/// conftest.sh has MOFED's place written in.
const PLACE: &str = "MLNX_OFED_KERNEL_DIR=/usr/src/ofa_kernel";

/// More processes than this only slow their neighbors down.
const MOST_JOBS: usize = 8;
/// More than a compiler of one of NVIDIA's files takes, in bytes.
const OF_A_JOB: u64 = 256 << 20;

/// conftest.sh with another place for MOFED's headers; `None` where that line is not there exactly once.
#[must_use]
pub fn conftest(text: &str, place: &Path) -> Option<String> {
    let is_place = |line: &&str| line.trim() == PLACE;
    if text.lines().filter(is_place).count() != 1 || text.matches("/usr/src/ofa_kernel").count() != 1 {
        return None;
    }
    Some(text.replace(PLACE, &format!("MLNX_OFED_KERNEL_DIR={}", place.display())))
}

/// The source of nvidia-peermem with one line more, by which the module is known as ours without any record.
#[must_use]
pub fn marked(source: &str) -> String {
    let (name, ours) = REBUILT_BY;
    format!("{source}\nMODULE_INFO({name}, \"{ours}\");\n")
}

/// The version in a Kbuild file: `-DNV_VERSION_STRING=\"535.261.03\"`.
#[must_use]
pub fn version(kbuild: &str) -> Option<&str> {
    let (_, rest) = kbuild.split_once("NV_VERSION_STRING=\\\"")?;
    rest.split_once("\\\"").map(|(version, _)| version).filter(|version| !version.is_empty())
}

/// The symbols of nvidia, in the form that this Module.symvers of the RDMA stack has: kernels 5.4 to 5.8 have the
/// namespace in the third column, later ones in the last, earlier ones none. `None` without both peer-memory symbols.
#[must_use]
pub fn nvidia_symvers(mofed: &str, nvidia: &BTreeMap<String, u32>) -> Option<String> {
    let line_of = |symbol: &str| mofed.lines().find(|line| line.split('\t').nth(1) == Some(symbol));
    let [model, _] = PEER_MEMORY_SYMBOLS.map(line_of);
    line_of(PEER_MEMORY_SYMBOLS[1])?;
    let fields: Vec<_> = model?.split('\t').collect();
    let export = fields.iter().position(|field| field.starts_with("EXPORT_")).filter(|at| *at >= 2)?;
    let mut text = String::new();
    for (symbol, crc) in nvidia {
        let crc = format!("0x{crc:08x}");
        let mut line = fields.clone();
        line[0] = &crc;
        line[1] = symbol;
        line[export - 1] = "nvidia";
        line[export] = "EXPORT_SYMBOL";
        text += &line.join("\t");
        text.push('\n');
    }
    Some(text)
}

/// Where to look for the build tree of this kernel, best first; the first is where the kernel's own modules say that
/// it is. Nowhere for a release that is unknown.
pub fn header_places(release: &str) -> impl Iterator<Item = PathBuf> {
    let places = if release.is_empty() { &[] } else { HEADERS.as_slice() };
    places.iter().map(move |place| place.replace("KERNEL", release).into())
}

/// How many jobs make runs at a time, with so much memory for all of them.
#[must_use]
pub fn jobs(processors: usize, memory: Option<u64>) -> usize {
    let fit = memory.and_then(|memory| usize::try_from(memory / OF_A_JOB).ok());
    processors.min(fit.unwrap_or(MOST_JOBS)).clamp(1, MOST_JOBS)
}

/// `make`'s arguments. `copy` is the copy of the sources as make sees it; `headers` the kernel's build tree, where
/// its modules do not say where it is; `compiler` what is there in place of `cc`, which older Makefiles call.
#[must_use]
pub fn arguments(
    copy: &Path,
    release: &str,
    headers: Option<&Path>,
    compiler: Option<&str>,
    jobs: usize,
) -> Vec<OsString> {
    let with = |name: &str, value: &Path| {
        let mut argument = OsString::from(name);
        argument.push("=");
        argument.push(value);
        argument
    };
    let mut arguments: Vec<OsString> =
        vec!["-C".into(), copy.into(), "--no-print-directory".into(), format!("-j{jobs}").into()];
    arguments.push("modules".into());
    arguments.push("NV_KERNEL_MODULES=nvidia-peermem".into());
    arguments.push(format!("KERNEL_UNAME={release}").into());
    arguments.push(with("OFA_DIR", &copy.join(OFA)));
    arguments.extend(headers.map(|headers| with("SYSSRC", headers)));
    arguments.extend(compiler.map(|compiler| with("CC", Path::new(compiler))));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_replaces_exactly_one_line_of_conftest_or_fails() {
        let text = "#!/bin/sh\n            MLNX_OFED_KERNEL_DIR=/usr/src/ofa_kernel\nrest\n";
        let edited = conftest(text, Path::new("/w/ofa")).unwrap();
        assert_eq!(edited, "#!/bin/sh\n            MLNX_OFED_KERNEL_DIR=/w/ofa\nrest\n");
        for other in [
            "nothing\n".to_owned(),
            text.repeat(2),
            text.replace("rest", "ls /usr/src/ofa_kernel"),
            text.replace("ofa_kernel\n", "ofa_kernel-dkms\n"),
        ] {
            assert_eq!(conftest(&other, Path::new("/w/ofa")), None, "{other}");
        }
    }

    #[test]
    fn the_copied_source_says_who_rebuilt_it() {
        let source = "module_exit(peermem_exit);";
        assert_eq!(marked(source), format!("{source}\nMODULE_INFO(rebuilt_by, \"peermem-gate\");\n"));
    }

    #[test]
    fn the_nvidia_version_is_read_from_kbuild() {
        assert_eq!(version("ccflags-y += -DNV_VERSION_STRING=\\\"535.261.03\\\"\n"), Some("535.261.03"));
        for other in ["", "NV_VERSION_STRING=\\\"\\\"", "NV_VERSION_STRING=\\\"535", "NV_VERSION_STRING=535"]
        {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn symbols_are_added_in_the_form_of_their_neighbors() {
        let crcs = BTreeMap::from([("nvidia_p2p_get_pages".to_owned(), 0x1f)]);
        for (neighbor, expected) in [
            (
                "0x9ca761a2\tNAME\t/b/ib_uverbs\tEXPORT_SYMBOL\t",
                "0x0000001f\tnvidia_p2p_get_pages\tnvidia\tEXPORT_SYMBOL\t",
            ),
            (
                "0x9ca761a2\tNAME\t\t/b/ib_core\tEXPORT_SYMBOL_GPL",
                "0x0000001f\tnvidia_p2p_get_pages\t\tnvidia\tEXPORT_SYMBOL",
            ),
            (
                "0x9ca761a2\tNAME\t/b/ib_core\tEXPORT_SYMBOL",
                "0x0000001f\tnvidia_p2p_get_pages\tnvidia\tEXPORT_SYMBOL",
            ),
        ] {
            let lines = PEER_MEMORY_SYMBOLS.map(|name| neighbor.replace("NAME", name) + "\n").concat();
            assert_eq!(nvidia_symvers(&lines, &crcs), Some(format!("{expected}\n")));
            let first = lines.lines().next().unwrap();
            assert_eq!(nvidia_symvers(first, &crcs), None, "one symbol is a stub's");
        }
        for garbage in
            ["", "\t\t\t", "0x1\tib_register_peer_memory_client\n0x1\tib_unregister_peer_memory_client\n"]
        {
            assert_eq!(nvidia_symvers(garbage, &crcs), None);
        }
    }

    #[test]
    fn make_gets_eight_jobs_at_most_and_those_that_memory_has_room_for() {
        let mib = |number: u64| Some(number << 20);
        for (processors, memory, expected) in [
            (0, None, 1),
            (2, None, 2),
            (256, None, 8),
            (256, mib(64), 1),
            (256, mib(960), 3),
            (2, mib(960), 2),
            (256, Some(u64::MAX), 8),
        ] {
            assert_eq!(jobs(processors, memory), expected, "{processors} {memory:?}");
        }
        assert!(arguments(Path::new("/c"), "6.1", None, None, 3).contains(&"-j3".into()));
    }
}
