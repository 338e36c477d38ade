// SPDX-License-Identifier: Apache-2.0
//! Who wants `GPUDirect` RDMA on this node, and who is to provide MOFED. Three-valued: that nobody says is neither
//! yes nor no.

use crate::finding::Evidence;
use crate::observation::Unreadable;

/// One question, and what the node says to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Somebody says yes.
    Yes(Evidence),
    /// Somebody says no, who would say yes if it were so.
    No(Evidence),
    /// Nobody says anything.
    #[default]
    Nobody,
    /// Who would say it cannot be heard.
    Unheard(Unreadable),
}

impl Wish {
    /// Somebody says so.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// Somebody says that it is not so.
    #[must_use]
    pub fn is_no(&self) -> bool {
        matches!(self, Self::No(_))
    }
}

impl Wishes {
    /// Somebody asks for RDMA, or has brought what is made for it, or cannot be heard.
    #[must_use]
    pub fn is_anything_wanted(&self) -> bool {
        match self.rdma {
            Wish::Yes(_) | Wish::Unheard(_) => true,
            Wish::No(_) => false,
            Wish::Nobody => self.implied.is_some(),
        }
    }
}

/// All that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Is `GPUDirect` RDMA asked for?
    pub rdma: Wish,
    /// Is the host to provide MOFED?
    pub host_mofed: Wish,
    /// The driver's modules come with its image.
    pub precompiled: Option<Evidence>,
    /// What a MOFED, or `nvidia_peermem`, has left here: who brings it wants it, though nobody says so.
    pub implied: Option<Evidence>,
    /// The host has a MOFED of its own.
    pub on_host: Option<Evidence>,
    /// Nobody says who provides MOFED, no container of MOFED's was here, and the host does without one by this sign.
    pub by_itself: Option<Evidence>,
    /// A MOFED container is or was here.
    pub in_container: Option<Evidence>,
    /// A container of the GPU Operator runs here.
    pub operator: Option<Evidence>,
    /// The digest of the configuration that the driver container is to install.
    pub digest: Option<String>,
    /// The node's name, as the operator gives it to its containers.
    pub node: Option<String>,
}
