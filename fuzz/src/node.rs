// SPDX-License-Identifier: Apache-2.0
//! A whole node, one file of which is garbage.

use super::assert_plain;
use peermem_doctor::diagnose::{diagnose, links};
use peermem_doctor::probe::{survey, symptoms};
use peermem_doctor::report::doctor::{Diagnosis, Drivers};
use peermem_gate::cli::Verb;
use peermem_gate::cli::environment::parse;
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::ready::node::{Node, PeermemExpected};
use peermem_gate::ready::probe::Depth;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::survey::settings::settings;
use peermem_gate::text;
use peermem_gate::words::report::Report;
use peermem_gate::words::report::style::Style;
use peermem_gate::words::{judge, report};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

const MOUNTS: &str =
    "22 1 259:2 / / rw shared:1 - ext4 /dev/x rw\n25 22 0:23 / /run rw shared:5 - tmpfs tmpfs rw\n";
const SYMBOLS: &str = "0 r __ksymtab_ib_register_peer_memory_client\t[ib_uverbs]\n\
    0 T ib_unregister_peer_memory_client\t[ib_uverbs]\n0 T ib_register_peer_memory_client\t[ib_uverbs]\n";
const MODULES: &str = "mlx5_ib 512000 0 - Live 0xffffffffc0a00000 (OE)\n\
    ib_uverbs 217088 1 mlx5_ib, Live 0xffffffffc0900000 (OE)\n\
    ib_core 557056 2 mlx5_ib,ib_uverbs, Live 0xffffffffc0800000 (OE)\n\
    mlx5_core 2342912 1 mlx5_ib, Live 0xffffffffc0330000 (OE)\n";
const SYMVERS: &str = "0x12345678\tib_unregister_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t\n\
    0x23456789\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t\n";

/// What is read of a node, as it is where all is well. The first byte of an input says which file is replaced.
pub const FILES: [(&str, &str); 41] = [
    ("proc/modules", MODULES),
    ("proc/kallsyms", SYMBOLS),
    ("proc/locks", "1: FLOCK  ADVISORY  WRITE 4711 00:1f:42 0 EOF\n"),
    ("proc/2/comm", "kthreadd\n"),
    ("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("proc/sys/kernel/hostname", "gpu-1\n"),
    ("proc/sys/kernel/random/boot_id", "0fb0e9b4-0000-4000-8000-000000000001\n"),
    ("proc/cmdline", "quiet nvidia_peermem.peerdirect_support=1\n"),
    ("proc/stat", "cpu 1 2 3\nbtime 1700000000\n"),
    ("proc/uptime", "600.00 1200.00\n"),
    ("proc/1/mountinfo", MOUNTS),
    ("proc/4242/comm", "nvidia-driver\n"),
    ("proc/4242/status", "CapEff:\t000001ffffffffff\n"),
    ("proc/4242/environ", "A=b\0GPU_DIRECT_RDMA_ENABLED=true\0"),
    ("proc/4242/mountinfo", MOUNTS),
    ("proc/900/comm", "kubelet\n"),
    ("proc/900/status", "CapEff:\t000001ffffffffff\n"),
    ("proc/900/cmdline", "kubelet\0--config=/var/lib/kubelet/config.yaml\0"),
    ("proc/900/cgroup", "0::/system.slice/kubelet.service\n"),
    ("proc/900/stat", "900 (kubelet) S 1 900 900 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 160042 1 1\n"),
    ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.45.04  Thu\n"),
    ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x15b3\n"),
    ("sys/bus/pci/devices/0000:01:00.0/class", "0x020700\n"),
    ("sys/module/mlx5_core/version", "25.07-0.9.7\n"),
    ("sys/module/ib_core/initstate", "live\n"),
    ("sys/module/ib_core/taint", "OE\n"),
    ("sys/module/nvidia/version", "595.45.04\n"),
    ("sys/kernel/mm/memory_peers/nv_mem/version", "595.45.04\n"),
    ("run/mellanox/drivers/usr/src/ofa_kernel/x86_64/6.1.0-56-amd64/Module.symvers", SYMVERS),
    (
        "lib/modules/6.1.0-56-amd64/modules.dep",
        "kernel/nvidia-peermem.ko: kernel/nvidia.ko\nkernel/nvidia.ko:\n",
    ),
    ("etc/modprobe.d/x.conf", "options nvidia-peermem peerdirect_support=1\nblacklist nouveau\n"),
    ("run/nvidia/nvidia-driver.pid", "4242\n"),
    ("run/nvidia/validations/.driver-ctr-ready", "GPU_DIRECT_RDMA_ENABLED: true\n"),
    ("run/nvidia/validations/workload-type", "container\n"),
    ("run/nvidia/toolkit/toolkit.pid", "901\n"),
    ("var/lib/kubelet/config.yaml", "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"),
    ("etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"),
    ("etc/docker/daemon.json", "{\"default-runtime\": \"nvidia\"}\n"),
    (
        "var/log/pods/nvidia_driver-x_00000000-0000-4000-8000-000000000001/nvidia-driver-ctr/0.log",
        "2025-08-20T00:00:00.0Z stdout F Loading nvidia-peermem\n",
    ),
    ("var/log/kern.log", "Aug 20 00:00:00 gpu-1 kernel: [   12.000000] nvidia_peermem: loading\n"),
];

/// A directory for files that are read by their path, in memory where there is such a place.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // A fuzzer is killed: what it leaves is one directory with a name of its own.
        tempfile::Builder::new().prefix("peermem-gate-fuzz").tempdir_in(place).expect("a directory").keep()
    })
}

fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let root = scratch().join("node");
        for (path, content) in FILES.iter().copied().chain([("run/mellanox/drivers/.driver-ready", "")]) {
            write(&root, path, content.as_bytes());
        }
        for module in ["ib_uverbs", "mlx5_core", "mlx5_ib"] {
            write(&root, &format!("sys/module/{module}/initstate"), b"live\n");
            write(&root, &format!("sys/module/{module}/taint"), b"OE\n");
        }
        root
    })
}

fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, bytes).expect("a file");
}

/// The first byte says which file, the others what is in it. As `doctor` does it.
pub fn doctor(data: &[u8]) {
    with_garbage(data, |path, root| {
        let (survey, logs) = survey(root, &root.join("proc"), &root.join("sys"), &[]);
        let variables = Vec::new();
        let settings = settings(&survey, &variables);
        let node = node(root);
        let mut probe = NodeProbe::new(&node);
        let seen = probe.look(Depth::Full, &mut || false).expect("nothing breaks it off");
        let symptoms = symptoms(&node.places, &seen, survey, logs, settings);
        let verdict = judge(&node.expected, &seen);
        // There is no nvidia-peermem.ko on this node.
        assert_ne!(verdict.outcome, Outcome::Ready, "{path}");
        let findings = diagnose(&node.expected, &seen, &symptoms, &verdict);
        let chain = links(&node.expected, &seen, &symptoms, &verdict);
        let report = Report::new("0", &node, &seen.kernel, &verdict, UNIX_EPOCH);
        let diagnosis = Diagnosis::new(report, Drivers::of(&seen), &findings, &chain, &symptoms);
        assert_plain(&diagnosis.text(Style::new(None, &variables)));
        let json = text::json(&diagnosis).expect("JSON");
        serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    });
}

/// The same as `check` does it, which reads less and so takes many more inputs in the same time.
pub fn look(data: &[u8]) {
    with_garbage(data, |path, root| {
        let node = node(root);
        let seen = NodeProbe::new(&node).look(Depth::Full, &mut || false).expect("nothing breaks it off");
        let verdict = judge(&node.expected, &seen);
        assert_ne!(verdict.outcome, Outcome::Ready, "{path}");
        let report = Report::new("0", &node, &seen.kernel, &verdict, UNIX_EPOCH);
        assert_plain(&report.text(Style::new(None, &Vec::new())));
        assert_plain(&report::termination_log("x", Some(&verdict)));
        let _ = report::metrics(&verdict, Duration::ZERO);
    });
}

fn with_garbage(data: &[u8], look: impl FnOnce(&str, &Path)) {
    let Some((first, bytes)) = data.split_first() else { return };
    let (path, whole) = FILES[usize::from(*first) % FILES.len()];
    write(tree(), path, bytes);
    look(path, tree());
    write(tree(), path, whole.as_bytes());
}

fn node(root: &Path) -> Node {
    let args = ["peermem-gate", "check", "--root", root.to_str().expect("a plain path")].map(OsString::from);
    let variables = Vec::new();
    let Ok(invocation) = parse(&args, &variables) else { panic!("these are options") };
    let Verb::Check(args) = invocation.verb else { panic!("that is check") };
    Node::new(&args.node, root, Some(PeermemExpected::default()), &variables).expect("options")
}
