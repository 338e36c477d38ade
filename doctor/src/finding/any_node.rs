// SPDX-License-Identifier: Apache-2.0
//! Steps with placeholders for the words that differ from node to node: by these steps `fleet` sees that nodes have
//! the same trouble.

use super::fact::PREMISES;
use peermem_gate::words::facts::{SELECTORS, UNKNOWN_POD, selected};
use peermem_gate::words::remedy::{Facts, NodeName};

/// The words of one node, with the placeholder of each. Pods are in [`SELECTORS`].
const WORDS: [(&str, &str); 22] = [
    ("in-order", "MODULE"),
    ("other-driver", "MODULE"),
    ("container", "CONTAINER"),
    ("cuda-driver", "a newer driver"),
    ("dkms-module", "MODULE"),
    ("drop-in", "FILE"),
    ("holders", ""),
    ("kernel-compiler", "the compiler that built the kernel"),
    ("host-spec", "FILE"),
    ("init", UNKNOWN_POD),
    ("interfaces", "INTERFACE"),
    ("nvidia-version", "VERSION"),
    ("pod", UNKNOWN_POD),
    ("pod-directory", "/var/lib/kubelet/pods/*"),
    ("rdma-holders", ""),
    ("rdma-modules", "MODULE"),
    ("storage", "MODULE"),
    ("third-party", "MODULE"),
    ("unit", "UNIT"),
    ("validation-logs", UNKNOWN_POD),
    ("volume", "DIRECTORY"),
    ("writer", UNKNOWN_POD),
];

/// More words, for a reader without a node.
const CHOICES: [(&str, &str); 9] = [
    ("advice", "ADVICE"),
    ("headers", "with MOFED's headers installed"),
    ("label", "LABEL"),
    ("provider", "PROVIDER"),
    ("root-option", ""),
    ("runtime", "containerd"),
    ("switch", "SWITCH"),
    ("then-restart", ""),
    ("toolkit-env", "{name: CONTAINERD_CONFIG, value: FILE}, {name: CONTAINERD_SOCKET, value: SOCKET}"),
];

/// The facts of no node, with all placeholders.
pub(super) fn of_none() -> Facts {
    facts(&CHOICES.iter().fold(Facts::default(), |facts, (word, text)| facts.word(word, *text)))
}

/// Only with the placeholders that every step of a report has in place of one node's words.
pub(super) fn of_words() -> Facts {
    facts(&Facts::default())
}

/// The same facts, with placeholders. A pod is found by its label: that command is right on every node.
pub(super) fn facts(facts: &Facts) -> Facts {
    let name = NodeName { name: "NODE".to_owned(), is_guess: false };
    let facts = facts.clone().node(&name).premises(PREMISES);
    let facts = WORDS.iter().fold(facts, |facts, (word, text)| facts.word(word, *text));
    let pods = SELECTORS.iter();
    pods.fold(facts, |facts, (pod, logs, label)| facts.word(pod, selected(label)).word(logs, UNKNOWN_POD))
}
