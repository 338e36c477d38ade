// SPDX-License-Identifier: Apache-2.0
//! `check --peermem` on real module files, whole and damaged. That the kernel agrees is shown in
//! tests/kernel.rs.

use crate::support::{self, KERNEL, MARKER, Node, Numbers, Report, VIDEO, mofed, output, tests};
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::peermem::module_file::inspect;
use peermem_gate::ready::judge::worth_reading_symbols;
use peermem_gate::ready::probe::Depth;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::words::judge;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

const FILE: &str = "lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko";

fn judged(node: &Node) -> Report {
    Report::of(node.check().args(["--peermem", "--format", "json"]))
}

#[track_caller]
fn assert_reason(node: &Node, reason: &str, words: &str) {
    let report = judged(node);
    assert_eq!(report.reason("PeermemUsable"), reason, "{}", report.json);
    assert!(report.json.to_string().contains(words), "{words:?} is not in {}", report.json);
}

fn a_file_that_is_no_module_is_described() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let whole = fs::read(node.path(FILE)).unwrap();
    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"no module\n", "ELF"),
        (&whole[..whole.len() / 2], "end"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "zstd"),
        (&[0x1f, 0x8b, 8, 0, 0], "gzip"),
    ] {
        node.write(FILE, bytes);
        assert_reason(&node, "ModuleFileDamaged", words);
    }
    node.remove(FILE);
    node.write(&format!("{FILE}/is-a-directory"), "");
    assert_reason(&node, "ModuleFileDamaged", "directory");
    node.remove(FILE);
    assert_reason(&node, "ModuleFileMissing", "nvidia-driver.state");
    let sparse = fs::File::create(node.path(FILE)).unwrap();
    sparse.set_len(2 << 30).unwrap();
    assert_reason(&node, "ModuleFileDamaged", "2147483648");
}

fn of_two_module_files_the_one_that_modprobe_takes_is_judged_and_the_other_named() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let stub = fs::read(mofed().join("stub/nvidia-peermem.ko")).unwrap();
    node.write(&format!("lib/modules/{KERNEL}/updates/dkms/nvidia-peermem.ko"), stub);
    // depmod has not run since.
    assert_reason(&node, "Usable", "updates/dkms/nvidia-peermem.ko also exists");
    // Without modules.dep the directories decide, and updates comes first.
    node.remove(&format!("lib/modules/{KERNEL}/modules.dep"));
    assert_reason(&node, "StubModule", "updates/dkms/nvidia-peermem.ko");
}

fn the_loaded_modules_file_counts_more_than_mofeds_symvers() {
    let Some(node) = Node::ready().with_peermem("old") else { return };
    assert_reason(&node, "SymbolVersionMismatch", "Module.symvers");
    // MOFED's own root has the module that is loaded, and it is the old one after all.
    let exporter = mofed().join("old/ib_core.ko");
    node.write(
        &format!("run/mellanox/drivers/lib/modules/{KERNEL}/updates/dkms/ib_core.ko"),
        fs::read(&exporter).unwrap(),
    );
    node.write("sys/module/ib_core/notes/.note.gnu.build-id", support::build_id_note(&exporter));
    let symbols = fs::read_to_string(node.path("proc/kallsyms")).unwrap().replace("[ib_uverbs]", "[ib_core]");
    node.write("proc/kallsyms", symbols);
    assert_reason(&node, "Usable", "(the loaded module's file)");
}

/// The file was replaced since its module was loaded: it says nothing of what is loaded.
fn a_file_of_another_build_than_the_loaded_module_is_ignored() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let [file, loaded] = ["old", "new"].map(|generation| mofed().join(generation).join("ib_core.ko"));
    let symbols = fs::read_to_string(node.path("proc/kallsyms")).unwrap().replace("[ib_uverbs]", "[ib_core]");
    node.write("proc/kallsyms", symbols);
    let place = format!("run/mellanox/drivers/lib/modules/{KERNEL}/updates/dkms/ib_core.ko");
    node.write(&place, fs::read(&file).unwrap());
    let published = "sys/module/ib_core/notes/.note.gnu.build-id";
    node.write(published, support::build_id_note(&file));
    assert_reason(&node, "SymbolVersionMismatch", "");
    node.write(published, support::build_id_note(&loaded));
    assert_reason(&node, "SymbolVersionUnknown", "no ib_core.ko with the loaded one's build id");
}

fn a_linked_tree_is_followed_below_the_driver_root() {
    let Some(node) = Node::ready().with_peermem("stub") else { return };
    // As where /lib is a link, and absolute.
    fs::create_dir_all(node.path("driver/usr")).unwrap();
    node.rename("lib", "driver/usr/lib");
    symlink("/usr/lib", node.path("driver/lib")).unwrap();
    let report = Report::of(node.check().args(["--peermem", "--format", "json", "--driver-root", "/driver"]));
    assert_eq!(report.reason("PeermemUsable"), "StubModule", "{}", report.json);
}

/// The parts of a module file that decide: whatever bit of them flips, what is read is either
/// refused or differs; and a file that was cut is never taken for the whole one.
fn every_damage_to_the_deciding_parts_of_a_module_is_noticed() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let path = node.path(FILE);
    let whole = fs::read(&path).unwrap();
    let original = inspect(&path, &mut || false).unwrap();
    for length in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(inspect(&path, &mut || false).is_err(), "{length} of {} bytes", whole.len());
    }
    let at = |part: &[u8]| whole.windows(part.len()).position(|window| window == part).unwrap();
    // Once as a symbol's name, once beside its CRC.
    let symbol = b"\0ib_register_peer_memory_client\0";
    let (first, last) =
        (at(symbol), whole.windows(symbol.len()).rposition(|window| window == symbol).unwrap());
    assert_ne!(first, last);
    for start in [first + 1, last + 1, at(b"vermagic=") + 9] {
        for bit in 0..8 * 6 {
            let mut bytes = whole.clone();
            bytes[start + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).unwrap();
            assert!(
                inspect(&path, &mut || false).map_or(true, |info| info != original),
                "byte {start}, bit {bit}"
            );
        }
    }
}

/// A mount over the marker gives no event that a look would take: it asks for the marker itself.
fn a_marker_that_goes_while_a_module_is_unpacked_interrupts_waits_but_not_reports() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let path = node.path(FILE);
    fs::write(&path, output(Command::new("xz").arg("--stdout").arg(&path)).stdout).unwrap();
    let config = node.config();
    for (depth, is_seen) in [(Depth::Frugal(worth_reading_symbols), false), (Depth::Full, true)] {
        node.set_marker();
        let mut asked = false;
        let seen = NodeProbe::new(&config).look(depth, &mut || {
            let _ = fs::remove_file(node.path(MARKER));
            asked = true;
            false
        });
        assert!(asked, "it was not unpacked");
        assert_eq!(seen.is_some(), is_seen);
    }
}

/// Wherever bits flip: what is still called usable says the same of all that the kernel compares, as
/// far as anything here can tell it.
fn no_flipped_bit_makes_a_file_usable_by_accident() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let path = node.path(FILE);
    let whole = fs::read(&path).unwrap();
    let original = inspect(&path, &mut || false).unwrap();
    let known: BTreeSet<_> = inspect(&node.path(&format!("{VIDEO}/nvidia.ko")), &mut || false)
        .unwrap()
        .versions
        .into_keys()
        .collect();
    let config = node.config();
    let mut bits = Numbers(7);
    let (mut usable, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut bytes = whole.clone();
        for _ in 0..=bits.below(3) {
            let bit = bits.below(8 * whole.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(&path, &bytes[..]).unwrap();
        // Made again: what was inspected before is remembered.
        let mut probe = NodeProbe::new(&config);
        let seen = probe.look(Depth::Full, &mut || false).unwrap();
        if judge(&config.expected, &seen).outcome != Outcome::Ready {
            refused += 1;
            continue;
        }
        usable += 1;
        let info = inspect(&path, &mut || false).unwrap();
        let flags = |vermagic: &str| vermagic.split_once(' ').map(|(_, flags)| flags.trim_end().to_owned());
        assert_eq!((&info.machine, flags(&info.vermagic)), (&original.machine, flags(&original.vermagic)));
        for symbol in info.imports.iter().filter(|symbol| {
            symbol.contains("peer_memory") || symbol.starts_with("nvidia_p2p") || known.contains(*symbol)
        }) {
            assert_eq!(info.versions.get(symbol), original.versions.get(symbol), "{symbol}");
        }
    }
    // Most bits are code, which nobody can judge by looking; many are not.
    assert!(usable > 100 && refused > 100, "{usable} usable, {refused} refused");
}

tests![
    a_file_that_is_no_module_is_described,
    of_two_module_files_the_one_that_modprobe_takes_is_judged_and_the_other_named,
    the_loaded_modules_file_counts_more_than_mofeds_symvers,
    a_file_of_another_build_than_the_loaded_module_is_ignored,
    a_linked_tree_is_followed_below_the_driver_root,
    every_damage_to_the_deciding_parts_of_a_module_is_noticed,
    a_marker_that_goes_while_a_module_is_unpacked_interrupts_waits_but_not_reports,
    no_flipped_bit_makes_a_file_usable_by_accident,
];
