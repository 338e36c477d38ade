// SPDX-License-Identifier: Apache-2.0
//! A look at which nothing could be read: what a bundle does not have is neither there nor missing.

use crate::symptoms::chain::Chain;
use crate::symptoms::host::Host;
use crate::symptoms::logs::Logs;
use crate::symptoms::offer::KubeletOffer;
use crate::symptoms::rdma::{Network, Rdma};
use crate::symptoms::runtime::{Runtimes, Toolkit};
use crate::symptoms::waits::Waits;
use crate::symptoms::{Driver, MofedTraces, Symptoms, Watching};
use peermem_gate::ready::observation::{
    DriverState, HeaderTree, Headers, HolderStart, Kernel, Lock, Marker, ModuleFile, Modules, Nic,
    Observation, Offer, Peermem, Seen, Signatures, Symbols, Unreadable,
};
use peermem_gate::survey::Survey;
use peermem_gate::survey::setting::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Why a source is not read.
pub(super) const WHY: &str = "not in this bundle";
/// As the judges name the source of the module file's condition.
pub(super) const PEERMEM: &str = "nvidia-peermem.ko";
/// Where MOFED's container sets its marker by default.
pub(super) const MARKER: &str = "/run/mellanox/drivers/.driver-ready";

/// That source, unread.
pub(super) fn at(path: &str) -> Unreadable {
    Unreadable { path: path.into(), why: WHY.to_owned() }
}

pub(super) fn seen<T>(path: &str) -> Seen<T> {
    Err(at(path))
}

fn signatures() -> Signatures {
    Signatures {
        enforced: seen("/sys/module/module/parameters/sig_enforce"),
        lockdown: seen("/sys/kernel/security/lockdown"),
    }
}

/// The gate's look.
pub(super) fn observation(kernel: Kernel) -> Observation {
    let unknown = || Offer::Unknown(WHY.to_owned());
    Observation {
        kernel,
        nic: Nic::Unreadable(at("/sys/bus/pci/devices")),
        bus_still: None,
        fabric: None,
        marker: Marker::Unreadable(at(MARKER)),
        private_mount: None,
        lock: Lock::Unreadable(at("/proc/locks")),
        modules: Modules { proc: seen("/proc/modules"), sys: BTreeMap::new() },
        symbols: Symbols::Unreadable(at("/proc/kallsyms")),
        lock_holder: None,
        holder_start: HolderStart::NotRead,
        headers: Headers {
            root: "/run/mellanox/drivers/usr/src/ofa_kernel".into(),
            tree: HeaderTree::Unreadable(at("/run/mellanox/drivers/usr/src/ofa_kernel")),
            kernel_build: None,
        },
        header_versions: seen("/run/mellanox/drivers/usr/src"),
        driver_state: DriverState::NotRead,
        peermem: Some(Peermem {
            root: "/run/nvidia/driver".into(),
            rejected_pid: None,
            file: ModuleFile::Unreadable(at(PEERMEM)),
            parameters: Vec::new(),
            parameters_unreadable: Vec::new(),
            install: Vec::new(),
            peer_memory: unknown(),
            nvidia: unknown(),
            accepted: Vec::new(),
            signatures: signatures(),
            rebuilt: Vec::new(),
            is_for_live: false,
            refused: None,
            other_files: Vec::new(),
            loaded: None,
        }),
    }
}

/// The doctor's.
pub(super) fn symptoms(survey: Survey, logs: Logs, settings: Settings) -> Symptoms {
    let absent = |path: &str| (PathBuf::from(path), seen(path));
    Symptoms {
        survey,
        settings,
        logs,
        mofed: MofedTraces {
            // Where neither lock nor marker can be read, the pod's state is what is left to ask.
            lock: Lock::NoFile,
            marker: Marker::Unreadable(at(MARKER)),
            marked: None,
            blacklist: "/etc/modprobe.d/blacklist-ofed-modules.conf".into(),
            blacklisted: seen("/etc/modprobe.d"),
            host_file: None,
            other_kernels: Vec::new(),
        },
        views: Vec::new(),
        waits: Waits::default(),
        inotify: Watching::default(),
        nics: seen("/sys/bus/pci/devices"),
        nvidias: seen("/sys/bus/pci/devices"),
        driver: Driver {
            root: "/run/nvidia/driver".into(),
            is_on_host: false,
            has_modules: false,
            nvidia_file: seen("/run/nvidia/driver/lib/modules"),
            on_host: None,
            other_kernels: Vec::new(),
            version_file: absent("/proc/driver/nvidia/version"),
            models: ("/proc/driver/nvidia/gpus".into(), Vec::new()),
            loaded: absent("/sys/module/nvidia/version"),
            cuda: None,
            library: None,
            client: absent("/sys/kernel/mm/memory_peers/nv_mem/version"),
            state: absent("/run/nvidia/nvidia-driver.state"),
            nodes: Vec::new(),
            kept_out: Vec::new(),
            numbers: BTreeMap::new(),
            majors: BTreeMap::new(),
            char_links: seen("/dev/char"),
            peermem_written: None,
        },
        chain: Chain::default(),
        runtimes: Runtimes {
            endpoint: seen("the runtime that kubelet uses"),
            toolkit: Toolkit { cdi_specs: seen("/run/cdi"), ..Toolkit::default() },
            ..Runtimes::default()
        },
        offer: KubeletOffer {
            directory: "/var/lib/kubelet/device-plugins".into(),
            names: seen("/var/lib/kubelet/device-plugins"),
            devices: BTreeMap::new(),
            changed: None,
            has_dra: false,
            counted: None,
            gpus: BTreeMap::new(),
        },
        rdma: Rdma {
            class: "/sys/class/infiniband".into(),
            devices: seen("/sys/class/infiniband"),
            nodes: seen("/dev/infiniband"),
            netns_mode: absent("/sys/module/ib_core/parameters/netns_mode"),
            network: Network {
                routes: "/proc/net/route".into(),
                default: seen("/proc/net/route"),
                interfaces: seen("/sys/class/net"),
                configured: Vec::new(),
            },
        },
        host: Host {
            distribution: seen("/etc/os-release"),
            is_openshift: None,
            is_virtual: false,
            command_line: seen("/proc/cmdline"),
            signatures: signatures(),
            without_p2pdma: None,
            lacks: Vec::new(),
            enabled: BTreeSet::new(),
            failed_builds: Vec::new(),
            memlock: None,
        },
        holders: Vec::new(),
        rebuild: None,
        unread: Vec::new(),
    }
}
