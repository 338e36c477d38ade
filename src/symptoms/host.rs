// SPDX-License-Identifier: Apache-2.0
//! What the host itself is: its distribution, how it was booted, what it loads and what it allows.

use crate::observation::{Seen, Signatures};
use std::path::PathBuf;

/// The host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `ID` of os-release; empty where it does not say.
    pub distribution: String,
    /// It is `OpenShift`'s.
    pub is_openshift: bool,
    /// The kernel's command line.
    pub command_line: Seen<Option<String>>,
    /// What the kernel demands of a module's signature.
    pub signatures: Signatures,
    /// The kernel's configuration says that PCI peer-to-peer memory is off (`CONFIG_PCI_P2PDMA`).
    pub without_p2pdma: Option<PathBuf>,
    /// How far the runtime lets its containers lock memory: the line of `limits`.
    pub memlock: Option<(PathBuf, String)>,
}
