// SPDX-License-Identifier: Apache-2.0
//! The answer of `paths`.

use crate::paths::{Choice, DeviceWays, JudgedWay, NodeWays};
use crate::peer_memory::PeerMemory;
use crate::text::page;
use peermem_gate::ready::condition::Status;
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::words::report::Report;
use peermem_gate::words::report::style::{Style, Tone};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The schema of the JSON form.
const SCHEMA: &str = "peermem-gate-paths/v1";
/// The last line.
const LIMIT: &str = "This says nothing about speed, or about which way a program takes: its own log shows that (NCCL_DEBUG=INFO).";

/// The ways of a node. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct WaysReport<'a> {
    schema: &'static str,
    version: &'static str,
    node: &'a str,
    kernel: &'a str,
    arch: &'a str,
    time: String,
    #[serde(flatten)]
    ways: &'a NodeWays,
    peer_memory: PeerMemory,
}

impl<'a> WaysReport<'a> {
    /// Of the node that `report` is of.
    pub fn new(report: &Report<'a>, ways: &'a NodeWays, peer_memory: PeerMemory, time: SystemTime) -> Self {
        let Report { node, kernel, arch, .. } = *report;
        let time = humantime::format_rfc3339_seconds(time).to_string();
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            node,
            kernel,
            arch,
            time,
            ways,
            peer_memory,
        }
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        let ways = self.ways;
        let mut page = page(style.columns);
        let tone = match ways.way {
            Choice::Both | Choice::DmaBuf | Choice::NvidiaPeermem => Tone::Good,
            Choice::None => Tone::Bad,
            Choice::Unknown => Tone::Unknown,
        };
        page.painted(ways.way, style.tone(tone));
        page.line(format_args!("GPUDirect RDMA on {}, kernel {} ({})", self.node, self.kernel, self.arch));
        page.blank();
        for (name, way) in [("DMA-BUF", &ways.dma_buf), ("nvidia-peermem", &ways.nvidia_peermem)] {
            page.entry(&LinePrefixText::new(0, &format!("{name:<15} ")), sentence(way));
        }
        if let Some(crcs) = self.crcs() {
            page.entry(&LinePrefixText::new(0, &format!("{:<15} ", "CRCs")), crcs);
        }
        devices("GPUs", &ways.gpus, ways, &mut page);
        devices("RDMA NICs", &ways.nics, ways, &mut page);
        if !ways.notes.is_empty() {
            page.blank();
        }
        for note in &ways.notes {
            page.entry(&LinePrefixText::new(0, "note  "), format_args!("{}: {}", note.id, note.message));
        }
        page.blank();
        page.line(LIMIT);
        page.into_text()
    }
}

impl WaysReport<'_> {
    /// The CRCs that nvidia-peermem wants, and those of the live stack.
    fn crcs(&self) -> Option<String> {
        let PeerMemory { wanted, offered, exporter, .. } = &self.peer_memory;
        let listed = |crcs: &BTreeMap<String, String>| {
            let all: Vec<_> = crcs.iter().map(|(symbol, crc)| format!("{symbol} {crc}")).collect();
            (!all.is_empty()).then(|| all.join(", "))
        };
        let wanted = listed(wanted).map(|crcs| format!("nvidia-peermem.ko wants {crcs}"));
        let offered = listed(offered)
            .map(|crcs| format!("the live {} has {crcs}", exporter.as_deref().unwrap_or("RDMA stack")));
        let both: Vec<_> = wanted.into_iter().chain(offered).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::True => "possible",
        Status::False => "impossible now",
        Status::Unknown => "unknown",
    }
}

fn sentence(way: &JudgedWay) -> String {
    format!("{}: {}: {}", word(way.status), way.reason, way.message)
}

/// Devices that have the same ways share an entry. A reason of the whole node is not explained again.
fn devices(title: &str, devices: &[DeviceWays], node: &NodeWays, page: &mut Page) {
    if devices.is_empty() {
        return;
    }
    page.blank();
    page.line(title);
    let key = |device: &DeviceWays| {
        [&device.dma_buf, &device.nvidia_peermem].map(|way| (way.status, way.reason.clone()))
    };
    let mut groups: Vec<Vec<&DeviceWays>> = Vec::new();
    for device in devices {
        match groups.iter_mut().find(|group| key(group[0]) == key(device)) {
            Some(group) => group.push(device),
            None => groups.push(vec![device]),
        }
    }
    for group in groups {
        let named: Vec<_> = group.iter().map(|device| named(device)).collect();
        page.entry(&LinePrefixText::new(2, ""), named.join(", "));
        for (name, of_device, of_node) in [
            ("DMA-BUF", &group[0].dma_buf, &node.dma_buf),
            ("nvidia-peermem", &group[0].nvidia_peermem, &node.nvidia_peermem),
        ] {
            let lead = LinePrefixText::new(6, &format!("{name:<15} "));
            if of_device.status == Status::True || of_device.reason == of_node.reason {
                page.entry(&lead, format_args!("{}: {}", word(of_device.status), of_device.reason));
            } else {
                page.entry(&lead, sentence(of_device));
            }
        }
    }
}

fn named(device: &DeviceWays) -> String {
    match &device.name {
        Some(name) => format!("{} ({name})", device.address),
        None => device.address.clone(),
    }
}
