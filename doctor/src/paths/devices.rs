// SPDX-License-Identifier: Apache-2.0
//! Traits of a GPU or a NIC that decide about a way.

use super::way::WayReason;
use crate::symptoms::PciFunction;
use crate::symptoms::paths::{GpuDevice, NicDevice};

/// PCI device numbers of NVIDIA's rise with the generation: the last Volta has 0x1df6, the first Turing 0x1e02.
const TURING: u16 = 0x1e00;
/// GPUs whose memory is the processor's: DGX Spark (GB10), and the Orin and Thor modules.
const UNIFIED: [&str; 3] = ["GB10", "Orin", "Thor"];
/// GPUs that are coherent with their processor (`NVLink`-C2C).
const COHERENT: [&str; 4] = ["GH200", "GB200", "GB300", "GH300"];
/// RDMA drivers that are not named after the driver of the PCI function.
const RDMA_DRIVERS: [(&str, &str); 8] = [
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_core", "mlx4_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("idpf", "irdma"),
    ("mana", "mana_ib"),
    ("hns3", "hns_roce_hw_v2"),
];

pub(super) fn gpu_name(gpu: &GpuDevice) -> String {
    match &gpu.model {
        Some(model) => format!("{} ({model})", gpu.function.address),
        None => gpu.function.address.clone(),
    }
}

pub(super) fn nic_name(nic: &NicDevice) -> String {
    nic.name.clone().unwrap_or_else(|| nic.function.address.clone())
}

/// The RDMA driver of a NIC's network driver.
pub(super) fn rdma_driver(nic: &NicDevice) -> Option<&str> {
    let driver = nic.function.driver.as_deref()?;
    let other = RDMA_DRIVERS.iter().find(|(network, _)| *network == driver);
    Some(other.map_or(driver, |(_, rdma)| rdma))
}

fn is_one_of(gpu: &GpuDevice, names: &[&str]) -> bool {
    let words = gpu.model.as_deref().unwrap_or_default().split(|c: char| !c.is_ascii_alphanumeric());
    words.into_iter().any(|word| names.contains(&word))
}

/// Its memory is reached through the processor's interconnect, so translation by the IOMMU is meant.
pub(super) fn coherent(gpu: &GpuDevice) -> bool {
    is_one_of(gpu, &COHERENT)
}

/// Before Turing, which the open modules and DMA-BUF need.
pub(super) fn is_before_turing(gpu: &GpuDevice) -> bool {
    gpu.function.device.is_some_and(|device| device < TURING)
}

/// The reasons that keep a GPU from both ways.
pub(super) fn of_gpu(gpu: &GpuDevice) -> Vec<WayReason> {
    let name = gpu_name(gpu);
    let model = gpu.model.as_deref().unwrap_or_default();
    let mut all = Vec::new();
    match gpu.function.driver.as_deref() {
        Some("nvidia") => {}
        Some(other) => {
            all.push(WayReason::forbids(
                "OtherGpuDriver",
                format!("{name} is bound to {other}, not to nvidia"),
            ));
        }
        None => all.push(WayReason::forbids("GpuNotBound", format!("{name} is bound to no driver"))),
    }
    if model.contains("GeForce") {
        all.push(WayReason::forbids("GeForce", format!("{name}: CUDA offers GPUDirect RDMA on no GeForce")));
    }
    if is_one_of(gpu, &UNIFIED) {
        let why = "its memory is the processor's, and PCI devices cannot reach what CUDA allocates there";
        all.push(WayReason::forbids("UnifiedMemory", format!("{name}: {why}")));
    }
    // A 3D controller is no GeForce of a desktop; a VGA controller may be one.
    let may_be_any = gpu.function.class.is_none_or(|class| class >> 8 == 0x0300);
    if gpu.model.is_none() && may_be_any && all.is_empty() {
        let why = "its model is unknown, and CUDA leaves out GeForce (only the loaded driver names it)";
        all.push(WayReason::unknown("GpuModelUnknown", format!("{name}: {why}")));
    }
    all
}

/// A translating IOMMU. NVIDIA documents that all PCI devices must see the same addresses; some kernels and
/// platforms map them all the same.
pub(super) fn translated(function: &PciFunction, name: &str) -> Option<WayReason> {
    let kind = function.iommu.as_deref().filter(|kind| kind.starts_with("DMA"))?;
    Some(WayReason::unknown(
        "IommuTranslates",
        format!(
            "the IOMMU translates the addresses of {name} (type {kind}), which NVIDIA does not support: some kernels \
                map them, others lose every write; iommu=pt, or no IOMMU, settles it"
        ),
    ))
}
