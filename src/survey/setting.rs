// SPDX-License-Identifier: Apache-2.0
//! Whether `GPUDirect` RDMA is requested on this node, and who provides MOFED. Three-valued: a setting that is not
//! set is neither yes nor no.

use crate::ready::observation::{Evidence, Unreadable};

/// One question, and what the node says to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    /// Somebody says yes.
    On(Evidence),
    /// Somebody says no, who would say yes if it were so.
    Off(Evidence),
    /// One container says yes, and another that would say yes if it were so does not.
    Contradicted(Evidence, Evidence),
    /// Nobody says anything.
    #[default]
    Unset,
    /// Who would say it cannot be heard.
    Unreadable(Unreadable),
}

impl Setting {
    /// Somebody says so.
    #[must_use]
    pub fn is_on(&self) -> bool {
        matches!(self, Self::On(_))
    }

    /// Somebody says that it is not so.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self, Self::Off(_))
    }
}

impl Settings {
    /// Somebody asks for RDMA, or has brought what is made for it, or cannot be heard.
    #[must_use]
    pub fn is_rdma_used(&self) -> bool {
        match self.rdma {
            Setting::On(_) | Setting::Contradicted(..) | Setting::Unreadable(_) => true,
            Setting::Off(_) => false,
            Setting::Unset => self.rdma_trace.is_some() || self.unreadable.is_some(),
        }
    }

    /// Two of the operators' containers that contradict each other, in words.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        [&self.rdma, &self.host_mofed].into_iter().find_map(|setting| match setting {
            Setting::Contradicted(yes, no) => {
                Some(format!("{}: {}, but {}: {}", yes.source, yes.seen, no.source, no.seen))
            }
            _ => None,
        })
    }
}

/// All that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Is `GPUDirect` RDMA asked for?
    pub rdma: Setting,
    /// Is the host to provide MOFED?
    pub host_mofed: Setting,
    /// The driver's modules come with its image.
    pub precompiled: Option<Evidence>,
    /// Something that a MOFED, or `nvidia_peermem`, has left here: a wish for it, although no setting says so.
    pub rdma_trace: Option<Evidence>,
    /// Why such a sign may be there and not be seen.
    pub unreadable: Option<Unreadable>,
    /// The host has its own MOFED.
    pub on_host: Option<Evidence>,
    /// Nobody says who provides MOFED, no container of MOFED's was here, and the host does without one by this sign.
    pub host_provides_rdma: Option<Evidence>,
    /// A MOFED container is or was here.
    pub in_container: Option<Evidence>,
    /// A container of the GPU Operator runs here.
    pub operator: Option<Evidence>,
    /// The digest of the configuration that the driver container is to install.
    pub digest: Option<String>,
    /// The node's name, as the operator gives it to its containers.
    pub node: Option<String>,
}
