// SPDX-License-Identifier: Apache-2.0
//! Facts beyond the gate's own, which decide which step of a finding's remedy helps.

use peermem_gate::remedy::Fact;

/// The third party's module that MOFED refuses is the kernel's own `iw_cm`.
pub const REFUSES_IW_CM: Fact = Fact::new("If the log names `iw_cm`");
/// A third party's RDMA module is loaded.
pub const THIRD_PARTY_LOADED: Fact = Fact::new("If one of them is loaded");
/// It is `OpenShift`.
pub const OPENSHIFT: Fact = Fact::new("On OpenShift");
/// The node is a virtual machine.
pub const VIRTUAL_MACHINE: Fact = Fact::new("If the node is a virtual machine");
/// `nvidia_drm` is loaded.
pub const DRM_LOADED: Fact = Fact::new("If nvidia_drm is loaded");
