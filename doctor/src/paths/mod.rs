// SPDX-License-Identifier: Apache-2.0
//! Which way `GPUDirect` RDMA can take on a node: DMA-BUF, nvidia-peermem, both or none, and why. Pure.
//!
//! A way is possible only where everything that it needs was seen. Something that is known to forbid it makes it
//! impossible, and the rest is unknown. Something that only slows it is a note. Speed is never judged.

mod devices;
mod dma_buf;
mod notes;
mod peermem;
mod way;

pub use notes::Note;
pub use way::JudgedWay;

use crate::symptoms::paths::{NicDevice, PathsSeen};
use devices::{coherent, gpu_name, nic_name};
use peermem_gate::ready::condition::Status;
use peermem_gate::ready::observation::{Observation, Unreadable};
use peermem_gate::ready::verdict::Verdict;
use serde::Serialize;
use std::fmt;
use way::WayReason;

/// The sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Choice {
    /// Programs may take either.
    Both,
    /// DMA-BUF only.
    DmaBuf,
    /// nvidia-peermem only.
    NvidiaPeermem,
    /// Neither.
    None,
    /// Neither is known to be possible, and not both are known to be impossible.
    Unknown,
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Both, Self::DmaBuf, Self::NvidiaPeermem, Self::None, Self::Unknown];

    fn of(dma_buf: &JudgedWay, peermem: &JudgedWay) -> Self {
        match (dma_buf.status, peermem.status) {
            (Status::True, Status::True) => Self::Both,
            (Status::True, _) => Self::DmaBuf,
            (_, Status::True) => Self::NvidiaPeermem,
            (Status::False, Status::False) => Self::None,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self {
            Self::Both => "DMA-BUF and nvidia-peermem are possible",
            Self::DmaBuf => "DMA-BUF is possible",
            Self::NvidiaPeermem => "nvidia-peermem is possible",
            Self::None => "no way is possible now",
            Self::Unknown => "cannot tell which way is possible",
        };
        write!(f, "{self:?}: {meaning}")
    }
}

/// The ways of one GPU or NIC, where its counterpart is fit for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceWays {
    /// The PCI address.
    pub address: String,
    /// The GPU's model, or the RDMA device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The driver that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// DMA-BUF.
    pub dma_buf: JudgedWay,
    /// nvidia-peermem.
    pub nvidia_peermem: JudgedWay,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct NodeWays {
    /// The sum.
    pub way: Choice,
    /// DMA-BUF, between some GPU and some NIC.
    pub dma_buf: JudgedWay,
    /// nvidia-peermem, likewise.
    pub nvidia_peermem: JudgedWay,
    /// Each GPU.
    pub gpus: Vec<DeviceWays>,
    /// Each RDMA NIC.
    pub nics: Vec<DeviceWays>,
    /// Things that slow or hide a way, or limit what could be seen.
    pub notes: Vec<Note>,
}

/// Judges it all. `verdict` has the conditions of nvidia-peermem.
pub fn judge(paths: &PathsSeen, seen: &Observation, verdict: &Verdict) -> NodeWays {
    let (gpus, nics) = match (&paths.gpus, &paths.nics) {
        (Ok(gpus), Ok(nics)) => (gpus, nics),
        (Err(why), _) | (_, Err(why)) => return unreadable(why),
    };
    let is_translation_meant = gpus.iter().any(coherent);
    let kernel = dma_buf::kernel(&paths.symbols);
    let module = peermem::module(seen, verdict, paths);
    // A driver with its own way does not take nvidia-peermem.
    let module_for = |nic: &NicDevice| if nic.own_way.is_some() { &[][..] } else { &module[..] };
    let ways = |parts: [&[WayReason]; 2], supported: &str| JudgedWay::of(parts.concat(), supported);
    let gpu_ways: Vec<_> = gpus
        .iter()
        .map(|gpu| DeviceWays {
            address: gpu.function.address.clone(),
            name: gpu.model.clone(),
            driver: gpu.function.driver.clone(),
            dma_buf: ways([&dma_buf::gpu(gpu, seen, &paths.driver), &kernel], &gpu_name(gpu)),
            nvidia_peermem: ways([&peermem::gpu(gpu), &module], &gpu_name(gpu)),
        })
        .collect();
    let nic_ways: Vec<_> = nics
        .iter()
        .map(|nic| DeviceWays {
            address: nic.function.address.clone(),
            name: nic.name.clone(),
            driver: nic.function.driver.clone(),
            dma_buf: ways(
                [&dma_buf::nic(nic, &paths.symbols, is_translation_meant), &kernel],
                &nic_name(nic),
            ),
            nvidia_peermem: ways([&peermem::nic(nic, is_translation_meant), module_for(nic)], &nic_name(nic)),
        })
        .collect();
    // Of a GPU only its own: what the module lacks comes with the NIC.
    let alone: Vec<_> = gpus.iter().map(|gpu| ways([&peermem::gpu(gpu), &[]], &gpu_name(gpu))).collect();
    let of = |devices: &[DeviceWays], way: fn(&DeviceWays) -> &JudgedWay| {
        devices.iter().map(way).cloned().collect()
    };
    let (dma_buf_gpus, dma_buf_nics): (Vec<_>, Vec<_>) =
        (of(&gpu_ways, |d| &d.dma_buf), of(&nic_ways, |d| &d.dma_buf));
    let dma_buf = way::of_node(&dma_buf_gpus, &dma_buf_nics);
    let peermem_nics: Vec<_> = of(&nic_ways, |d| &d.nvidia_peermem);
    let nvidia_peermem = way::of_node(&alone, &peermem_nics);
    NodeWays {
        way: Choice::of(&dma_buf, &nvidia_peermem),
        notes: notes::notes(paths, gpus, nics, &nvidia_peermem),
        dma_buf,
        nvidia_peermem,
        gpus: gpu_ways,
        nics: nic_ways,
    }
}

fn unreadable(why: &Unreadable) -> NodeWays {
    let way = JudgedWay::of(vec![WayReason::unknown("DevicesUnreadable", why.to_string())], "");
    NodeWays {
        way: Choice::Unknown,
        dma_buf: way.clone(),
        nvidia_peermem: way,
        gpus: Vec::new(),
        nics: Vec::new(),
        notes: Vec::new(),
    }
}
