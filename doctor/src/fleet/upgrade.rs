// SPDX-License-Identifier: Apache-2.0
//! The forecast of another MOFED for a fleet, by the CRCs of its Module.symvers. Pure.
//!
//! The kernel loads an nvidia-peermem if the CRCs that it wants are those of the live stack. So one that wants others
//! than the new MOFED has must be built again. And the swap needs every program off the RDMA devices.

use super::Fleet;
use crate::peer_memory::{PeerMemory, PeermemKind};
use peermem_gate::ready::exit::Exit;
use peermem_gate::text::escaped;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Nodes that are named; all of them are in the JSON form.
const NAMED: usize = 8;

/// The MOFED that is to come.
#[derive(Clone, Debug)]
pub struct Release {
    /// The Module.symvers.
    pub symvers: String,
    /// The CRCs of its peer-memory symbols, as a report shows them.
    pub crcs: BTreeMap<String, String>,
    /// The kernel that it is for, if that was said.
    pub kernel: Option<String>,
}

/// The need of a node's nvidia-peermem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum Need {
    Rebuild,
    Nothing,
    Unknown,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
struct NodeForecast {
    node: String,
    reason: &'static str,
    message: String,
    /// nvidia-peermem is rebuilt on the node by `--rebuild auto`, or the obstacle.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuild: Option<String>,
    /// Processes with RDMA devices open.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<usize>,
}

/// All of it. Its JSON form is stable (`peermem-gate-upgrade/v1`).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Forecast {
    schema: &'static str,
    symvers: String,
    crcs: BTreeMap<String, String>,
    nodes: usize,
    /// nvidia-peermem must be built again.
    rebuild: Vec<NodeForecast>,
    /// Jobs use RDMA: they must end before the swap. Such a node may need a rebuild, too.
    drain: Vec<NodeForecast>,
    /// Neither.
    nothing: Vec<NodeForecast>,
    /// Not known, whole or in part.
    unknown: Vec<NodeForecast>,
    reports: usize,
    damaged: usize,
}

impl Fleet {
    /// The forecast of this MOFED for the nodes.
    pub fn forecast(&self, release: &Release) -> Forecast {
        let mut forecast = Forecast {
            schema: "peermem-gate-upgrade/v1",
            symvers: release.symvers.clone(),
            crcs: release.crcs.clone(),
            nodes: self.nodes.len(),
            reports: self.reports,
            damaged: self.damaged,
            ..Forecast::default()
        };
        let mut nodes: Vec<_> = self.nodes.iter().collect();
        nodes.sort_by_key(|(name, _)| *name);
        for (name, kept) in nodes {
            let [verdict, kernel] =
                [kept.verdict, kept.versions[2]].map(|word| self.words.all[word as usize].as_str());
            let peer = kept.peer_memory.map(|number| &*self.peer_memories.all[number as usize]);
            forecast.add(name, peer, verdict, kernel, release);
        }
        forecast
    }
}

impl Forecast {
    fn add(&mut self, name: &str, peer: Option<&PeerMemory>, verdict: &str, kernel: &str, release: &Release) {
        let of = |reason, message: String| NodeForecast {
            node: name.to_owned(),
            reason,
            message,
            rebuild: None,
            users: None,
        };
        let (need, reason, message) = module(peer, verdict, kernel, release);
        let node = of(reason, message);
        let users = peer.map_or(Some(0), |peer| peer.users);
        // A process that has RDMA devices open loses them in a swap, whether or not nvidia-peermem is asked for.
        let is_concerned = reason != "NoReportOfPeerMemory" && peer.is_some();
        let is_in_use = is_concerned && users.is_some_and(|users| users > 0);
        let is_use_hidden = is_concerned && reason != "NotApplicable" && users.is_none();
        if is_in_use {
            let message = format!("processes with RDMA devices open: {}", users.unwrap_or_default());
            self.drain.push(NodeForecast { users, ..of("InUse", message) });
        }
        match need {
            Need::Rebuild => {
                self.rebuild
                    .push(NodeForecast { rebuild: peer.and_then(|peer| peer.rebuild.clone()), ..node });
            }
            Need::Unknown => self.unknown.push(node),
            Need::Nothing if is_use_hidden => {}
            Need::Nothing if !is_in_use => self.nothing.push(node),
            Need::Nothing => {}
        }
        if is_use_hidden && need != Need::Unknown {
            let message = "whether jobs use RDMA is hidden from the reporter: only root sees it".to_owned();
            self.unknown.push(of("UseHidden", message));
        }
    }

    /// 1 when some node needs something, 2 when that is unknown of some.
    pub fn exit(&self) -> Exit {
        if !self.rebuild.is_empty() || !self.drain.is_empty() {
            Exit::NotReady
        } else if self.nodes == 0 || !self.unknown.is_empty() || self.damaged > 0 {
            Exit::CannotTell
        } else {
            Exit::Opened
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let count = |all: &[NodeForecast]| all.len();
        let mut text = format!(
            "{} with {}: {} rebuild, {} drain, {} nothing, {} unknown\n",
            nodes(self.nodes),
            escaped(&self.symvers),
            count(&self.rebuild),
            count(&self.drain),
            count(&self.nothing),
            count(&self.unknown)
        );
        for (title, all) in [
            ("rebuild: nvidia-peermem must be built again for this MOFED", &self.rebuild),
            ("drain: jobs use RDMA and must end before MOFED swaps its modules", &self.drain),
            ("nothing: the CRCs of today's nvidia-peermem agree with this MOFED's", &self.nothing),
            ("unknown", &self.unknown),
        ] {
            group_to(&mut text, title, all);
        }
        let damaged = if self.damaged == 1 { "line" } else { "lines" };
        let _ = writeln!(text, "\n{} reports; {} damaged {damaged}", self.reports, self.damaged);
        text
    }
}

fn nodes(n: usize) -> String {
    format!("{n} node{}", if n == 1 { "" } else { "s" })
}

/// Nodes with the same reason together.
fn group_to(text: &mut String, title: &str, all: &[NodeForecast]) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title} ({})", nodes(all.len()));
    let mut groups: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for node in all {
        groups.entry((node.reason, &node.message, node.rebuild.as_deref())).or_default().push(&node.node);
    }
    for ((reason, message, rebuild), names) in groups {
        let shown: Vec<_> = names.iter().take(NAMED).map(|name| escaped(name)).collect();
        let more = names.len() - shown.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let _ = writeln!(text, "    {reason}: {}", escaped(message));
        let _ = writeln!(text, "    on    {}{more}", shown.join(", "));
        let step = match rebuild {
            Some("Possible") => "`--rebuild auto` of `load` or `keep` can do it there".to_owned(),
            Some(obstacle) => {
                let why = escaped(obstacle);
                format!("build the driver again there: a rebuild on the node is not possible now ({why})")
            }
            None => continue,
        };
        let _ = writeln!(text, "    do    {step}");
    }
}

/// The need of its nvidia-peermem, and why.
fn module(
    peer: Option<&PeerMemory>,
    verdict: &str,
    kernel: &str,
    release: &Release,
) -> (Need, &'static str, String) {
    if verdict == "NotApplicable" {
        let why = "nothing asks for nvidia-peermem there, or there is no Mellanox NIC";
        return (Need::Nothing, "NotApplicable", why.to_owned());
    }
    let Some(peer) = peer else {
        let message = "its report has no peer_memory: it is by `check`, or by an older doctor".to_owned();
        return (Need::Unknown, "NoReportOfPeerMemory", message);
    };
    if let Some(wanted) = release.kernel.as_ref().filter(|wanted| *wanted != kernel) {
        return (
            Need::Unknown,
            "OtherKernel",
            format!("it runs {kernel}, and this Module.symvers is for {wanted}"),
        );
    }
    let compared = |crcs: &BTreeMap<String, String>| {
        let other = release.crcs.iter().find(|(symbol, crc)| crcs.get(*symbol) != Some(crc));
        other.map(|(symbol, crc)| {
            let has = crcs.get(symbol).map_or("none", String::as_str);
            let message = format!("nvidia-peermem wants {symbol} with CRC {has}, and this MOFED has {crc}");
            (Need::Rebuild, "SymbolVersionMismatch", message)
        })
    };
    let fits = || {
        if verdict == "Blocked" && !peer.only_versions_block {
            let why = "its CRCs agree, but the node is blocked for another reason today: see its report";
            return (Need::Unknown, "BlockedToday", why.to_owned());
        }
        (Need::Nothing, "SymbolVersionsAgree", "nvidia-peermem wants the CRCs that this MOFED has".to_owned())
    };
    let unknown = |reason, message: &str| (Need::Unknown, reason, message.to_owned());
    match peer.file {
        PeermemKind::Real => compared(&peer.wanted).unwrap_or_else(fits),
        PeermemKind::Stub => {
            let message = "nvidia-peermem.ko is a stub: no kernel loads it with any MOFED".to_owned();
            (Need::Rebuild, "StubModule", message)
        }
        PeermemKind::WithoutCrcs => {
            let message =
                "nvidia-peermem.ko has no CRCs for peer memory, which its kernel may refuse".to_owned();
            (Need::Rebuild, "SymbolVersionMissing", message)
        }
        PeermemKind::Unversioned => {
            unknown("NoSymbolVersions", "its kernel compares no CRCs: nothing tells whether they agree")
        }
        // What is live was accepted by the live stack.
        PeermemKind::Missing | PeermemKind::Unknown if peer.live && !peer.offered.is_empty() => {
            compared(&peer.offered).unwrap_or_else(fits)
        }
        PeermemKind::Missing if !peer.live && matches!(verdict, "Ready" | "NotApplicable") => {
            (Need::Nothing, "ModuleFileMissing", "the node has no nvidia-peermem".to_owned())
        }
        PeermemKind::Missing => {
            unknown("ModuleFileMissing", "the node has no nvidia-peermem.ko that modprobe finds")
        }
        PeermemKind::Unknown => unknown("ModuleFileUnreadable", "its nvidia-peermem.ko cannot be read"),
    }
}
