// SPDX-License-Identifier: Apache-2.0
//! A symptom never comes before its explanation: a finding that states how far the node has come ("not loaded", "not
//! ready") follows from one that quotes why a container of the operators did not start, fails or waits, if that
//! container works on the same step or on one before it. Pure.

use super::{Finding, Id};

/// The steps of a node until it offers its GPUs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// MOFED sets its marker.
    Mofed,
    /// The driver's container loads nvidia.
    Driver,
    /// The driver's other modules are loaded, and the operator validates the driver.
    Validated,
    /// The container toolkit configures the runtime, and the operator validates it.
    Toolkit,
    /// The device plugin registers with kubelet, and the operator validates it.
    Offered,
}

/// The containers and the host's services that work on each (gpu-operator, assets/; network-operator, manifests/).
macro_rules! containers {
    ($($stage:ident: $($name:literal)+;)+) => { [$((Stage::$stage, &[$($name),+] as &[&str])),+] };
}

const CONTAINERS: [(Stage, &[&str]); 5] = containers! {
    Mofed: "mofed-container" "network-operator-init-container" "openibd";
    // The worker is Node Feature Discovery's, by whose labels the operator places the driver.
    Driver: "dkms" "k8s-driver-manager" "mofed-validation" "nvidia-driver-ctr" "nvidia-vgpu-manager-ctr"
        "openshift-driver-toolkit-ctr" "worker";
    Validated: "driver-validation" "nvidia-fs-ctr" "nvidia-gdrcopy-ctr" "nvidia-peermem-ctr";
    Toolkit: "nvidia-container-toolkit-ctr" "toolkit-validation";
    Offered: "config-manager-init" "cuda-validation" "mps-control-daemon-ctr" "nvidia-cuda-validator"
        "nvidia-device-plugin" "nvidia-device-plugin-ctr" "plugin-validation";
};

/// Findings that only state how far the node has come.
const STATES: [(Id, Stage); 13] = [
    (Id::HostMofedNotLive, Stage::Mofed),
    (Id::UmadNotLoaded, Stage::Mofed),
    (Id::DriverNotInstalled, Stage::Driver),
    (Id::MofedNotRunning, Stage::Mofed),
    (Id::MofedNeverCame, Stage::Mofed),
    (Id::MarkerAbsent, Stage::Mofed),
    (Id::MarkerParentMissing, Stage::Mofed),
    (Id::DriverNotLoaded, Stage::Driver),
    (Id::DriverCtrNotReady, Stage::Driver),
    (Id::DriverNotValidated, Stage::Validated),
    (Id::ToolkitNotReady, Stage::Toolkit),
    (Id::GpusNotOffered, Stage::Offered),
    (Id::ValidationIncomplete, Stage::Offered),
];

/// Findings that quote why a container or a service did not start, fails or waits.
const QUOTES: [Id; 11] = ids! {
    ImageNotPulled ProviderMissing ContainerWaits DriverContainerFails ContainerRestarts
    ContainerNotStarted ContainerNeverStarted CdiDeviceUnknown ToolkitFails DevicePluginFailed
    HostServiceFails
};

impl Stage {
    /// The step on which this container works.
    pub fn of_container(name: &str) -> Option<Self> {
        CONTAINERS.iter().find(|(_, names)| names.contains(&name)).map(|(stage, _)| *stage)
    }
}

/// Whether the first quotes why the second is so. A driver that needs no MOFED does not wait for its container.
pub(super) fn explains(reason: &Finding, state: Id) -> bool {
    let waiting = STATES.iter().find(|(id, _)| *id == state).map(|(_, stage)| *stage);
    let is_reason = QUOTES.contains(&reason.id);
    reason.stage.zip(waiting).is_some_and(|(reason, waiting)| {
        is_reason && reason <= waiting && (reason != Stage::Mofed || waiting == Stage::Mofed)
    })
}

#[cfg(test)]
mod tests {
    use super::super::ordered;
    use super::*;
    use peermem_gate::words::remedy::Facts;

    /// Over all pairs of the table: the state comes from the reason, never the reason from the state.
    #[test]
    fn a_symptom_never_stands_above_the_words_that_explain_it() {
        for (state, stage) in STATES {
            for reason in QUOTES {
                for (of, names) in CONTAINERS {
                    let quote = Finding::new(reason, "source", "words").of_container(names[0]);
                    let found = vec![Finding::new(state, "source", "seen"), quote];
                    let ordered = ordered(found, &Facts::default());
                    let follows =
                        |id| ordered.iter().find(|one| one.id == id).and_then(|one| one.follows_from);
                    let is_explained = of <= stage && (of != Stage::Mofed || stage == Stage::Mofed);
                    let case = format!("{state} and {reason} of {}", names[0]);
                    if is_explained {
                        assert_eq!(follows(state), Some(reason), "{case}");
                        assert_eq!(ordered[0].id, reason, "{case}");
                    }
                    assert!(follows(state).is_none() || follows(reason).is_none(), "{case}: a circle");
                }
            }
        }
    }

    #[test]
    fn the_reason_of_a_later_step_explains_no_earlier_state() {
        let plugin =
            Finding::new(Id::ContainerRestarts, "source", "words").of_container("nvidia-device-plugin");
        assert!(!explains(&plugin, Id::DriverNotLoaded) && explains(&plugin, Id::GpusNotOffered));
        let other =
            Finding::new(Id::ContainerRestarts, "source", "words").of_container("nvidia-dcgm-exporter");
        assert!(!explains(&other, Id::GpusNotOffered), "no step waits for it");
    }
}
