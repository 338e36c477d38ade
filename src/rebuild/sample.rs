// SPDX-License-Identifier: Apache-2.0
//! For tests: a node on which everything is ready except nvidia-peermem.ko, and all that a rebuild takes.

use super::{Material, Pair, Sources, Tool};
use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::consumer::Consumer;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::{Expectations, Node, PeermemExpected, Places};
use crate::ready::observation::{
    FileId, HeaderTree, Headers, Kernel, Lock, Marker, Modules, Observation, Offer, Peermem, ProcModules,
    Symbols, Symvers, SysModule, SysState,
};
use crate::ready::verdict::Condition;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const RELEASE: &str = "6.1.0-56-amd64";
pub(crate) const VERSION: &str = "595.45.04";
/// The CRC of both peer-memory symbols.
pub(crate) const CRC: u32 = 0x9ca7_61a2;

/// A node whose files are below this directory.
pub(crate) fn node(root: &Path) -> Node {
    let at = |path: &str| root.join(path);
    let places = Places {
        root: root.to_owned(),
        proc: at("proc"),
        sys: at("sys"),
        marker: at("run/mellanox/drivers/.driver-ready"),
        lock: at("run/mellanox/drivers/.lock"),
        mofed_root: at("run/mellanox/drivers"),
        driver_root: root.to_owned(),
        finds_driver: false,
        store: None,
    };
    let expected = Expectations {
        node_name: None,
        consumers: vec![Consumer::Peermem],
        rdma_requested: None,
        use_host_mofed: None,
        rdma_not_requested: false,
        contradiction: None,
        mofed: MofedPlace::Container,
        precompiled: false,
        modules: Vec::new(),
        version: None,
        marker: places.marker.clone(),
        lock: places.lock.clone(),
        driver_digest: None,
        precedes_driver: true,
        peermem: Some(PeermemExpected::default()),
    };
    Node { places, expected }
}

/// The symbols of nvidia's that nvidia-peermem takes.
pub(crate) fn nvidia() -> BTreeMap<String, u32> {
    BTreeMap::from([("nvidia_p2p_get_pages".to_owned(), 0x86ac_1260)])
}

/// MOFED's Module.symvers with this CRC.
pub(crate) fn symvers(crc: u32) -> String {
    PEER_MEMORY_SYMBOLS
        .map(|symbol| format!("{crc:#010x}\t{symbol}\t/ofa/ib_uverbs\tEXPORT_SYMBOL\t\n"))
        .concat()
}

/// The CRCs of the live module that exports peer memory.
pub(crate) fn offered(crc: u32) -> BTreeMap<String, u32> {
    PEER_MEMORY_SYMBOLS.map(|symbol| (symbol.to_owned(), crc)).into()
}

/// A stub is all that is wrong.
pub(crate) fn conditions() -> Vec<Condition> {
    [
        (ConditionType::MarkerPresent, Reason::MarkerFound),
        (ConditionType::PeermemUsable, Reason::StubModule),
        (ConditionType::Settled, Reason::Settling),
    ]
    .map(|(r#type, reason)| Condition::new(r#type, reason, "as the test says"))
    .into()
}

pub(crate) fn sys_module(state: SysState, version: Option<&str>) -> SysModule {
    SysModule { state, inode: Some(1), taint: Ok(None), version: Ok(version.map(str::to_owned)) }
}

pub(crate) fn seen() -> Observation {
    let sys = [
        ("nvidia", sys_module(SysState::Live, Some(VERSION))),
        ("nvidia_peermem", sys_module(SysState::NoDirectory, None)),
    ];
    let recorded: Observation =
        serde_json::from_str(include_str!("../../tests/traces/seen.json")).expect("a look");
    Observation {
        kernel: Kernel { release: RELEASE.into(), ..recorded.kernel },
        marker: Marker::Present(FileId { device: 1, inode: 1, changed_ns: 1 }),
        lock: Lock::Held,
        modules: Modules {
            proc: Ok(ProcModules::default()),
            sys: sys.map(|(name, module)| (name.to_owned(), module)).into(),
        },
        symbols: Symbols::ExportedBy(Some("ib_uverbs".into())),
        headers: Headers {
            root: "/usr/src/ofa_kernel".into(),
            tree: HeaderTree::Taken {
                directory: "/usr/src/ofa_kernel/x86_64".into(),
                other_kernel: None,
                symvers: Symvers::WithPeerMemory,
            },
            kernel_build: None,
        },
        peermem: recorded.peermem.map(|peermem| Peermem {
            peer_memory: Offer::LoadedFile("/lib/modules/ib_uverbs.ko".into(), offered(CRC)),
            nvidia: Offer::LoadedFile("/lib/modules/nvidia.ko".into(), nvidia()),
            ..peermem
        }),
        ..recorded
    }
}

pub(crate) fn material() -> Material {
    let tools = [(Tool::Make, "make"), (Tool::Compiler, "gcc"), (Tool::Depmod, "depmod")];
    Material {
        driver_root: "/run/nvidia/driver".into(),
        build_root: "/run/nvidia/driver".into(),
        pair: Pair { kernel: RELEASE.into(), nvidia: "4e76".into(), mofed: "4d0f".into() },
        sources: vec![Sources {
            root: "/run/nvidia/driver".into(),
            directory: format!("/usr/src/nvidia-{VERSION}").into(),
            version: Some(VERSION.into()),
            misfit: None,
        }],
        headers: Some(format!("/lib/modules/{RELEASE}/build").into()),
        headers_are_linked: true,
        symvers: Ok(("/usr/src/ofa_kernel/x86_64/Module.symvers".into(), symvers(CRC))),
        symvers_are_kernels: false,
        nvidia: Ok(("/lib/modules/nvidia.ko".into(), nvidia())),
        tools: tools.map(|(tool, name)| (tool, format!("/usr/bin/{name}").into())).into(),
        free: None,
        unwritable: None,
        exposed: None,
        foreign: None,
        tried: None,
        stored: None,
        signing: None,
        jobs: 4,
    }
}
