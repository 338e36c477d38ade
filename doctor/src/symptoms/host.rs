// SPDX-License-Identifier: Apache-2.0
//! The host itself: its distribution, how it was booted, what it loads and what it allows.

use crate::log::DkmsFailure;
use peermem_gate::ready::observation::{Seen, Signatures};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `ID` of os-release; empty where it does not say.
    pub distribution: Seen<String>,
    /// The host runs `OpenShift`'s system; `None` where os-release cannot be read.
    pub is_openshift: Option<bool>,
    /// The processor, the firmware or the kernel says that it is a virtual machine.
    pub is_virtual: bool,
    /// The kernel's command line.
    pub command_line: Seen<Option<String>>,
    /// The kernel's rule for a module's signature.
    pub signatures: Signatures,
    /// The kernel's configuration says that PCI peer-to-peer memory is off (`CONFIG_PCI_P2PDMA`).
    pub without_p2pdma: Option<PathBuf>,
    /// Of the modules that Fabric Manager needs, those that the running kernel's modules.dep does not list.
    pub lacks: Vec<&'static str>,
    /// Builds of DKMS that failed, with the file that shows each.
    pub failed_builds: Vec<(PathBuf, DkmsFailure)>,
    /// Units that systemd is to start at each boot.
    pub enabled: BTreeSet<String>,
    /// How far the runtime lets its containers lock memory: the line of `limits`.
    pub memlock: Option<(PathBuf, String)>,
}

impl Host {
    /// The running kernel's modules.dep does not list this one of them.
    pub fn lacks(&self, module: &str) -> bool {
        self.lacks.contains(&module)
    }
}
