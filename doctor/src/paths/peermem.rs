// SPDX-License-Identifier: Apache-2.0
//! nvidia-peermem: a client of peer memory, which MOFED's stack and some kernels offer to the NIC's RDMA driver.

use super::devices::{coherent, gpu_name, nic_name, of_gpu, rdma_driver, translated};
use super::dma_buf::without_device;
use super::way::WayReason;
use crate::symptoms::paths::{GpuDevice, NicDevice, PathsSeen};
use peermem_gate::ready::condition::{ConditionType, Status};
use peermem_gate::ready::observation::{Observation, ProcModules, ProcState};
use peermem_gate::ready::verdict::Verdict;

/// The module.
const PEERMEM: &str = "nvidia_peermem";
/// The RDMA drivers that ask the clients of peer memory.
const ASKING: [&str; 2] = ["mlx5_ib", "mlx4_ib"];

/// The module on this node, whatever the devices are.
pub(super) fn module(seen: &Observation, verdict: &Verdict, paths: &PathsSeen) -> Vec<WayReason> {
    let proc = match &seen.modules.proc {
        Ok(proc) => proc,
        Err(why) => return vec![WayReason::unknown("ModulesUnreadable", why.to_string())],
    };
    vec![live(proc, paths).unwrap_or_else(|| {
        if is_live(proc, "nvidia") {
            would_load(verdict)
        } else {
            WayReason::forbids("NvidiaNotLive", "NVIDIA's driver is not loaded")
        }
    })]
}

fn is_live(proc: &ProcModules, name: &str) -> bool {
    proc.named(name).any(|module| module.state == ProcState::Live)
}

/// A live client is real and fits: the kernel refuses a stub, and other CRCs.
fn live(proc: &ProcModules, paths: &PathsSeen) -> Option<WayReason> {
    let by =
        paths.registered.map(|count| format!("; it has registered {count} memory regions since its load"));
    if is_live(proc, PEERMEM) {
        let message = "nvidia_peermem is live: the kernel has accepted it, and a stub is never live";
        return Some(WayReason::new(Status::True, "Live", message.to_owned() + &by.unwrap_or_default()));
    }
    let message = "nv_peer_mem, the client before nvidia-peermem, is live";
    is_live(proc, "nv_peer_mem").then(|| WayReason::new(Status::True, "LegacyClientLive", message))
}

/// The gate's conditions: first whether a module exports peer memory, then whether the file would load.
fn would_load(verdict: &Verdict) -> WayReason {
    let conditions = [ConditionType::SymbolsExported, ConditionType::PeermemUsable];
    let mut judged = conditions.into_iter().filter_map(|one| verdict.get(one));
    let against = judged.clone().find(|condition| condition.status != Status::True);
    match against.or_else(|| judged.next_back()) {
        Some(condition) if condition.status == Status::True => {
            let message = format!("nvidia_peermem is not loaded: {}", condition.message);
            WayReason::new(Status::True, "Loadable", message)
        }
        Some(condition) => {
            WayReason::new(condition.status, condition.reason.to_string(), condition.message.clone())
        }
        None => WayReason::unknown("NotJudged", "nvidia-peermem was not examined"),
    }
}

/// The reasons that keep a GPU from it.
pub(super) fn gpu(gpu: &GpuDevice) -> Vec<WayReason> {
    let name = gpu_name(gpu);
    let mut all = of_gpu(gpu);
    if coherent(gpu) {
        let why = "is coherent with its processor: DMA-BUF is the way there, nvidia-peermem is not documented for it";
        all.push(WayReason::unknown("CoherentGpu", format!("{name} {why}")));
    }
    all.extend(translated(&gpu.function, &name).filter(|_| !coherent(gpu)));
    all
}

/// The reasons that keep a NIC from it.
pub(super) fn nic(nic: &NicDevice, is_translation_meant: bool) -> Vec<WayReason> {
    let name = nic_name(nic);
    let mut all: Vec<_> = without_device(nic).into_iter().collect();
    let driver = rdma_driver(nic).unwrap_or("an unknown driver");
    if let Some(way) = &nic.own_way {
        let why = format!("{driver} takes GPU memory of {way} in a way of its own, without nvidia-peermem");
        all.push(WayReason::unknown(
            "OwnWayOfNicDriver",
            format!("{name}: {why}; whether that works is not visible"),
        ));
    } else if !ASKING.contains(&driver) {
        let why = "is not known to ask the clients of peer memory";
        all.push(WayReason::unknown("OtherNicDriver", format!("{driver}, the RDMA driver of {name}, {why}")));
    }
    all.extend(translated(&nic.function, &name).filter(|_| !is_translation_meant));
    all
}
