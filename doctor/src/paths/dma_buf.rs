// SPDX-License-Identifier: Apache-2.0
//! DMA-BUF: NVIDIA's open modules export memory, and the NIC's RDMA driver registers it. No module of NVIDIA's for
//! RDMA is needed, and no MOFED.

use super::devices::{gpu_name, is_before_turing, nic_name, of_gpu, rdma_driver, translated};
use super::way::WayReason;
use crate::symptoms::paths::{DmaBufSymbols, GpuDevice, NicDevice};
use peermem_gate::ready::observation::{Observation, ProcState, Seen};
use std::path::PathBuf;

/// Before 515.43.04 the open modules export nothing (NCCL's requirement for DMA-BUF).
const FIRST: u32 = 515;

/// The reasons that keep a GPU from it.
pub(super) fn gpu(
    gpu: &GpuDevice,
    seen: &Observation,
    driver: &(PathBuf, Seen<Option<String>>),
) -> Vec<WayReason> {
    let name = gpu_name(gpu);
    let mut all = of_gpu(gpu);
    if is_before_turing(gpu) {
        let why = "is older than Turing, the first generation with DMA-BUF";
        all.insert(0, WayReason::forbids("GpuTooOld", format!("{name} {why}")));
    }
    all.extend(of_driver(seen, driver));
    all.extend(translated(&gpu.function, &name).filter(|_| !super::coherent(gpu)));
    all
}

/// Which modules are loaded, by what they say of themselves, or by the license that their taint shows.
fn of_driver(seen: &Observation, (path, line): &(PathBuf, Seen<Option<String>>)) -> Option<WayReason> {
    let loaded = match &seen.modules.proc {
        Ok(proc) => proc.named("nvidia").next(),
        Err(why) => return Some(WayReason::unknown("ModulesUnreadable", why.to_string())),
    };
    let Some(loaded) = loaded.filter(|module| module.state == ProcState::Live) else {
        return Some(WayReason::forbids("NvidiaNotLive", "NVIDIA's driver is not loaded"));
    };
    let line = line.as_ref().ok().and_then(Option::as_deref);
    let is_open = line.map_or(!loaded.taint.contains('P'), |line| line.contains("Open Kernel Module"));
    if !is_open {
        let source = line.map_or("/proc/modules shows the taint P".to_owned(), |line| {
            format!("{}: {line}", path.display())
        });
        let why = format!(
            "NVIDIA's proprietary modules are loaded, and only the open ones export DMA-BUFs ({source})"
        );
        return Some(WayReason::forbids("ProprietaryModules", why));
    }
    let branch = line.and_then(branch)?;
    let message =
        format!("NVIDIA's driver {branch} is older than {FIRST}, whose open modules first export DMA-BUFs");
    (branch < FIRST).then(|| WayReason::forbids("DriverTooOld", message))
}

/// The branch in the version, `580` of `580.95.05`: the first word of numbers and dots.
fn branch(line: &str) -> Option<u32> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version)?.split('.').next()?.parse().ok()
}

/// The reasons that keep a NIC from it.
pub(super) fn nic(
    nic: &NicDevice,
    symbols: &(PathBuf, Seen<DmaBufSymbols>),
    is_translation_meant: bool,
) -> Vec<WayReason> {
    let name = nic_name(nic);
    let mut all: Vec<_> = without_device(nic).into_iter().collect();
    all.extend(of_nic_driver(nic, &name, symbols));
    all.extend(translated(&nic.function, &name).filter(|_| !is_translation_meant));
    all
}

/// Neither way goes without an RDMA device.
pub(super) fn without_device(nic: &NicDevice) -> Option<WayReason> {
    nic.name.is_none().then(|| {
        let name = nic_name(nic);
        if nic.has_rdma_driver {
            let why = "it may be in another network namespace, or RoCE is off";
            return WayReason::unknown(
                "RdmaDeviceHidden",
                format!("no RDMA device of {name} is visible: {why}"),
            );
        }
        WayReason::forbids(
            "RdmaDriverNotLoaded",
            format!("{name} has no RDMA device: its RDMA driver is not loaded"),
        )
    })
}

fn of_nic_driver(
    nic: &NicDevice,
    name: &str,
    (path, symbols): &(PathBuf, Seen<DmaBufSymbols>),
) -> Option<WayReason> {
    nic.name.as_ref()?;
    let symbols = match symbols {
        Ok(symbols) => symbols,
        Err(why) => return Some(WayReason::unknown("SymbolsUnreadable", why.to_string())),
    };
    let Some(driver) = rdma_driver(nic) else {
        return Some(WayReason::unknown("NicDriverUnknown", format!("the driver of {name} is unknown")));
    };
    if symbols.registering.contains(driver) {
        return None;
    }
    let path = path.display();
    Some(if symbols.modules.contains(driver) {
        let why = format!(
            "{driver}, the RDMA driver of {name}, registers no DMA-BUF ({path} lists no {driver}_reg_user_mr_dmabuf)"
        );
        WayReason::forbids(
            "NoDmaBufInNicDriver",
            format!("{why}: Linux has it from 5.12, other drivers later"),
        )
    } else {
        let why = format!("{path} lists no function of {driver}, the RDMA driver of {name}");
        WayReason::unknown("NicDriverUnknown", why)
    })
}

/// The kernel's own lacks.
pub(super) fn kernel((path, symbols): &(PathBuf, Seen<DmaBufSymbols>)) -> Vec<WayReason> {
    let because = match symbols {
        Ok(symbols) if symbols.has_p2pdma => return Vec::new(),
        Err(why) => WayReason::unknown("SymbolsUnreadable", why.to_string()),
        Ok(symbols) if !symbols.has_core => {
            let why = format!("{} lists no function of the kernel", path.display());
            WayReason::unknown("SymbolsUnreadable", why)
        }
        Ok(_) => {
            let why = "the kernel lacks CONFIG_PCI_P2PDMA: some report that DMA-BUF needs it, and NVIDIA's sources do \
                not ask for it";
            WayReason::unknown("NoP2pDma", why)
        }
    };
    vec![because]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_branch_is_found_in_both_forms_of_the_line() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)";
        assert_eq!(branch(open), Some(580));
        assert_eq!(branch("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.161.03  Wed"), Some(470));
        assert_eq!(branch("NVRM version: unknown"), None);
    }
}
