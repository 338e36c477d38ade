// SPDX-License-Identifier: Apache-2.0
//! Things that forbid no way, and yet slow it, hide it, or limit what could be seen.

use super::way::JudgedWay;
use crate::symptoms::paths::{BridgeControl, GpuDevice, NicDevice, PathsSeen};
use peermem_gate::ready::condition::Status;
use serde::Serialize;
use std::collections::BTreeSet;

/// `P2P Request Redirect` and `P2P Completion Redirect` of an ACS control register.
const REDIRECTS: u16 = 0x000c;
/// Amazon's PCI vendor, and the devices of the first three generations.
const OLD_EFA: (u16, [u16; 3]) = (0x1d0f, [0xefa0, 0xefa1, 0xefa2]);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its stable name.
    pub id: &'static str,
    /// A sentence.
    pub message: String,
}

pub(super) fn notes(
    paths: &PathsSeen,
    gpus: &[GpuDevice],
    nics: &[NicDevice],
    peermem: &JudgedWay,
) -> Vec<Note> {
    let bridges: BTreeSet<_> =
        gpus.iter().flat_map(|gpu| &gpu.above).chain(nics.iter().flat_map(|nic| &nic.above)).collect();
    let is_live = peermem.status == Status::True && peermem.reason == "Live";
    let (client, is_shown) = &paths.client;
    let hidden = (is_live && !is_shown).then(|| {
        let client = client.display();
        format!(
            "{client} does not exist: since Linux 6.4 a stack cannot make it, and a library that looks only there \
                misses the live nvidia_peermem"
        )
    });
    let guest = paths.is_guest.then(|| {
        "this is a virtual machine: its host's IOMMU and PCI switches decide as well, and are not visible here".to_owned()
    });
    let all = [
        ("AcsRedirects", redirecting(&bridges)),
        ("AcsUnreadable", unread(&bridges)),
        ("MemoryPeersHidden", hidden),
        ("OldEfa", old_efa(nics)),
        ("InVirtualMachine", guest),
    ];
    all.into_iter().filter_map(|(id, message)| Some(Note { id, message: message? })).collect()
}

fn redirecting(bridges: &BTreeSet<&BridgeControl>) -> Option<String> {
    let redirects =
        |bridge: &&&BridgeControl| matches!(bridge.control, Ok(Some(control)) if control & REDIRECTS != 0);
    let named: Vec<_> = bridges.iter().filter(redirects).map(|bridge| bridge.address.as_str()).collect();
    (!named.is_empty()).then(|| {
        format!(
            "ACS sends peer-to-peer traffic of these bridges to the root complex: {}. That slows it, and programs \
                are known to hang; it forbids nothing by itself",
            named.join(", ")
        )
    })
}

fn unread(bridges: &BTreeSet<&BridgeControl>) -> Option<String> {
    let why = bridges.iter().find_map(|bridge| bridge.control.as_ref().err())?;
    Some(format!("whether ACS redirects peer-to-peer traffic is unknown: {why}"))
}

fn old_efa(nics: &[NicDevice]) -> Option<String> {
    let (vendor, devices) = OLD_EFA;
    let is_old = |nic: &&NicDevice| {
        nic.vendor == Some(vendor) && nic.function.device.is_some_and(|device| devices.contains(&device))
    };
    let nic = nics.iter().find(is_old)?;
    Some(format!(
        "{}: NCCL's plugin for EFA (aws-ofi-nccl) does not take DMA-BUF on the first three generations of EFA",
        nic.function.address
    ))
}
