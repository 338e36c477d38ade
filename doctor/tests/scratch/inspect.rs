// SPDX-License-Identifier: Apache-2.0
//! `inspect`, as a build calls it: exit codes, both formats, refusals. What the judge says of which file is shown in
//! doctor/src/offline.rs; real builds in tests/dkms.

use crate::support::{built_kernel, code, gate, mofed, output, tests};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn assert_refused(command: &mut Command, named: &str) {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(code(output.status) == 2 && said.contains(named), "{named:?} is not in {said}");
    assert!(output.stdout.is_empty());
}

/// What it ends with, and says on standard output.
fn inspect(words: &[&str], files: &[&Path]) -> (i32, String) {
    let output = output(gate().env("COLUMNS", "200").arg("inspect").args(words).args(files));
    (code(output.status), String::from_utf8(output.stdout).expect("text"))
}

fn built(generation: &str) -> Option<PathBuf> {
    let path = mofed().join(generation).join("nvidia-peermem.ko");
    path.exists().then_some(path)
}

fn the_worst_file_decides_the_exit_code() {
    let (Some(new), Some(stub)) = (built("new"), built("stub")) else { return };
    let none = Path::new("/no/such/nvidia-peermem.ko");
    for (files, ends) in [
        (&[new.as_path()][..], 0),
        (&[&new, &stub], 1),
        (&[&new, none], 2),
        (&[none, &stub], 1),
        (&[Path::new("/")], 2),
    ] {
        assert_eq!(inspect(&[], files).0, ends, "{files:?}");
    }
    let (ends, said) = inspect(&[], &[&new, &stub, none]);
    assert_eq!(ends, 1);
    let first = |verdict: &str| said.lines().any(|line| line.starts_with(verdict));
    for verdict in ["Usable: Real:", "Unfit: StubModule:", "Unknown: ModuleFileUnreadable:"] {
        assert!(first(verdict), "{verdict:?} is not in {said}");
    }
    assert!(said.contains("not signed") && said.contains("what to do: install MOFED"), "{said}");
}

fn each_file_is_an_object_on_a_line() {
    let (Some(new), Some(stub)) = (built("new"), built("stub")) else { return };
    let (_, said) = inspect(&["--format", "json"], &[&new, &stub]);
    let objects: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    objects.iter().for_each(crate::expected::schema::check);
    let [real, stub] = objects.as_slice() else { panic!("{said}") };
    assert_eq!(real["schema"], "peermem-gate/v1");
    assert_eq!((&real["verdict"], &real["reason"]), (&"Usable".into(), &"Real".into()));
    assert_eq!(real["peer_memory"]["ib_register_peer_memory_client"], "0x065554c2");
    assert_eq!((&real["signed"], &real["name"]), (&false.into(), &"nvidia_peermem".into()));
    assert_eq!((&stub["verdict"], &stub["reason"]), (&"Unfit".into(), &"StubModule".into()));
    assert!(stub["peer_memory"]["ib_register_peer_memory_client"].is_null(), "{stub}");
    assert!(stub["remedy"].as_str().is_some_and(|remedy| remedy.contains("fresh sources")), "{stub}");
}

fn a_module_is_compared_with_a_module_symvers_and_a_kernel() {
    let (Some(new), Some(old)) = (built("new"), built("old")) else { return };
    let symvers = mofed().join("new/Module.symvers").display().to_string();
    assert_eq!(inspect(&["--symvers", &symvers], &[&new]).0, 0);
    let (ends, said) = inspect(&["--symvers", &symvers], &[&old]);
    assert!(ends == 1 && said.starts_with("Unfit: SymbolVersionMismatch:"), "{said}");
    let (ends, said) = inspect(&["--kernel", "1.2.3"], &[&new]);
    assert!(ends == 1 && said.starts_with("Unfit: WrongKernel:"), "{said}");
    // As `rebuild` tells a builder.
    let told = |kernel: &str| {
        let mut inspect = gate();
        inspect.env("PEERMEM_GATE_KERNEL", kernel).env("PEERMEM_GATE_SYMVERS", &symvers);
        code(output(inspect.arg("inspect").arg(&new)).status)
    };
    assert_eq!((told(&built_kernel()), told("1.2.3")), (0, 1));
}

/// Nothing could be compared with it, and a build that goes on would have checked nothing.
fn a_module_symvers_without_peer_memory_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("Module.symvers");
    let mut inspect = gate();
    inspect.args(["inspect", "--symvers"]).args([&path, Path::new("m.ko")]);
    assert_refused(&mut inspect, "No such file or directory");
    for (text, why) in [
        ("", "does not list ib_register_peer_memory_client"),
        ("0x00000001\tib_register_peer_memory_client\tm\tEXPORT_SYMBOL\t\n", "list ib_unregister_peer"),
        ("0x00000001\tib_register_peer_memory_client\tm\tEXPORT_SYMBOL", "cut off"),
        ("garbage\n", "no Module.symvers"),
    ] {
        fs::write(&path, text).expect("a file");
        assert_refused(&mut inspect, why);
    }
    assert_refused(gate().arg("inspect"), "<FILE>");
}

tests![
    the_worst_file_decides_the_exit_code,
    each_file_is_an_object_on_a_line,
    a_module_is_compared_with_a_module_symvers_and_a_kernel,
    a_module_symvers_without_peer_memory_is_refused,
];
