// SPDX-License-Identifier: Apache-2.0
//! One way: possible, impossible or unknown, and why.

use peermem_gate::ready::condition::Status;
use serde::Serialize;

/// Nothing is known to forbid it.
const SUPPORTED: &str = "Supported";

/// One reason for or against a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WayReason {
    pub(super) status: Status,
    reason: String,
    message: String,
}

impl WayReason {
    pub(super) fn new(status: Status, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), message: message.into() }
    }

    pub(super) fn forbids(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Status::False, reason, message)
    }

    pub(super) fn unknown(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Unknown, reason, message)
    }
}

/// A way, judged as a condition is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JudgedWay {
    /// True: possible; False: something forbids it as the node is now.
    pub status: Status,
    /// The first thing that decides it.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
    /// Further reasons against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<WayReason>,
}

impl JudgedWay {
    /// A ban counts before what is unknown, and that before what allows. `what` is supported where nothing
    /// speaks.
    pub(super) fn of(mut all: Vec<WayReason>, what: &str) -> Self {
        let decides = [Status::False, Status::Unknown, Status::True]
            .into_iter()
            .find_map(|status| all.iter().position(|because| because.status == status));
        let Some(at) = decides else {
            let message = format!("{what} supports it");
            return Self { status: Status::True, reason: SUPPORTED.to_owned(), message, also: Vec::new() };
        };
        let WayReason { status, reason, message } = all.remove(at);
        all.retain(|because| because.status != Status::True);
        Self { status, reason, message, also: all }
    }

    fn rank(&self) -> u8 {
        match self.status {
            Status::True => 0,
            Status::Unknown => 1,
            Status::False => 2,
        }
    }
}

/// The best GPU and the best NIC decide: the worse of these two is the node's.
pub(super) fn of_node(gpus: &[JudgedWay], nics: &[JudgedWay]) -> JudgedWay {
    let none = |reason: &str, what: &str| {
        JudgedWay::of(vec![WayReason::forbids(reason, format!("the node has no {what}"))], "")
    };
    let best = |ways: &[JudgedWay]| ways.iter().min_by_key(|way| way.rank()).cloned();
    let Some(gpu) = best(gpus) else { return none("NoGpu", "GPU of NVIDIA's on its PCI bus") };
    let Some(nic) = best(nics) else { return none("NoRdmaNic", "RDMA NIC") };
    let count = |ways: &[JudgedWay]| {
        let possible = ways.iter().filter(|way| way.status == Status::True).count();
        format!("{possible} of {}", ways.len())
    };
    match (gpu.rank(), nic.rank()) {
        // The NIC's says how.
        (0, 0) => {
            let message = format!("GPUs that can: {}; RDMA NICs that can: {}", count(gpus), count(nics));
            let message =
                if nic.reason == SUPPORTED { message } else { format!("{}; {message}", nic.message) };
            JudgedWay { message, ..nic }
        }
        (of_gpu, of_nic) if of_nic > of_gpu => nic,
        _ => gpu,
    }
}
