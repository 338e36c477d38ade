// SPDX-License-Identifier: Apache-2.0
//! Facts about the node that decide which remedy helps, and the names for its commands.

use super::Case;
use super::board::FabricManagerPlace;
use crate::finding::fact::{
    BUILT_DRIVER, DKMS_BUILDS, DRM_LOADED, GPU_OPERATOR, IMAGE, KUBERNETES, NETWORK_OPERATOR, NO_INIT_WAITS,
    NO_SWITCHES, NOT_CDI, OPENSHIFT, PRECOMPILED_IMAGE, PREMISES, RACK, REFUSES_IW_CM, STORAGE_KEPT,
    STORAGE_UNLOADED, SWITCHES_HERE, SYSTEMD, TALOS, THIRD_PARTY_KEPT, THIRD_PARTY_LOADED,
    THIRD_PARTY_UNLOADED, VIRTUAL_MACHINE, WITH_GATE, unsaid,
};
use crate::log::{LogEvent, LogMatch, LogSource};
use peermem_gate::ready::judge::modules::place;
use peermem_gate::ready::mofed::MofedPlace;
use peermem_gate::ready::observation::{Lock, Marker};
use peermem_gate::survey::pod::Pod;
use peermem_gate::survey::process::Role;
use peermem_gate::words::facts::{SELECTORS, UNKNOWN_POD, facts, may_skip};
use peermem_gate::words::remedy::fact::{
    BUILT_BY_DRIVER_POD, BUILT_BY_TOOLKIT, DRIVER_POD, DRIVER_POD_UNNAMED, HOST_DRIVER, HOST_MOFED,
    MOFED_POD, MOFED_POD_UNNAMED, REBUILD_POSSIBLE, STATE_FILE, UNDIAGNOSED, WITHOUT_UMAD,
};
use peermem_gate::words::remedy::{CommandText, Facts};

/// Systems that come as an image, by the `ID` of os-release: `cos` is Container-Optimized OS. Talos is its own fact.
const IMAGES: [&str; 4] = ["bottlerocket", "cos", "flatcar", "rhcos"];
const DRIVER: &str = "nvidia-driver-ctr";
const MOFED: &str = "mofed-container";
/// The containers of the pods that [`SELECTORS`] select, in that order.
const CONTAINERS: [&str; 5] =
    [DRIVER, MOFED, "nvidia-container-toolkit-ctr", "nvidia-operator-validator", "nvidia-device-plugin"];

impl Case<'_> {
    /// The driver's pod is or was here.
    pub(super) fn has_driver_pod(&self) -> bool {
        let survey = &self.symptoms.survey;
        let roles = [Role::Driver, Role::DriverManager, Role::Peermem, Role::DriverToolkit];
        let runs = roles.iter().any(|role| survey.processes.of(*role).any(|process| process.pod.is_some()));
        let containers = [DRIVER, "k8s-driver-manager", "nvidia-peermem-ctr", "openshift-driver-toolkit-ctr"];
        let is_left = containers.iter().any(|name| survey.pods.with(name).is_some());
        runs || is_left || survey.pods.builds().next().is_some()
    }

    /// The facts of the look, and of all the rest.
    pub(super) fn facts(&self) -> Facts {
        let survey = &self.symptoms.survey;
        let build = survey.pods.builds().find(|(_, build)| build.finished.is_some());
        let is_known =
            self.expected.use_host_mofed.is_some() || self.symptoms.settings.in_container.is_some();
        let has_mofed_pod = match self.symptoms.settings.in_container {
            Some(_) => Some(true),
            None => survey.pods.is_complete.then_some(false),
        };
        let named = |container: &str| survey.pods.with(container).and_then(arguments).is_some();
        let third_party = self.logged(&[LogEvent::MofedThirdPartyModulesLoaded], &[]);
        // No step makes a second MOFED where a container provides one.
        let is_hosts = place(self.expected.mofed, self.seen) == MofedPlace::Host && !named(MOFED);
        let says_so = self.logged(&[LogEvent::MofedUnloadsStorage], &[]).is_some();
        let unloads_storage = if says_so { Some(true) } else { self.mofed_may("UNLOAD_STORAGE_MODULES") };
        let unloads_third_party = self.mofed_may("UNLOAD_THIRD_PARTY_RDMA_MODULES");
        let has_state = self.symptoms.driver.state.1.as_ref().ok().map(Option::is_some);
        let holders = &self.symptoms.holders;
        let has_built = [LogEvent::DriverBuildStarted, LogEvent::DriverRelinked, LogEvent::DriverBuildFailed];
        let has_built = has_built.into_iter().any(|event| self.symptoms.logs.of(event).next().is_some());
        let builds_driver = if self.expected.precompiled { Some(false) } else { has_built.then_some(true) };
        let distribution = self.symptoms.host.distribution.as_ref().ok();
        let is_talos = distribution.map(|id| id == "talos");
        let place = self.fabric_manager_place();
        let kubernetes = self.is_of_kubernetes();
        let operated = |has_traces: bool| match kubernetes {
            Some(false) => Some(false),
            _ => has_traces.then_some(true),
        };
        let facts = unsaid(facts(self.expected, self.seen))
            .premises(PREMISES)
            .with(DKMS_BUILDS, Some(self.symptoms.host.failed_builds.is_empty()))
            .with(KUBERNETES, kubernetes)
            .with(GPU_OPERATOR, operated(self.has_gpu_operator()))
            .with(NETWORK_OPERATOR, operated(self.symptoms.settings.in_container.is_some()))
            .with(DRIVER_POD, self.is_container_driver())
            .with(HOST_DRIVER, self.is_container_driver().map(|is_container| !is_container))
            .with(BUILT_BY_TOOLKIT, Some(build.is_some()))
            .with(BUILT_BY_DRIVER_POD, Some(build.is_none()))
            .with(STATE_FILE, may_skip(self.expected, self.seen, has_state))
            .with(UNDIAGNOSED, Some(survey.processes.hidden().is_some()))
            .with(WITHOUT_UMAD, Some(false))
            .with(NO_INIT_WAITS, Some(true))
            .with(WITH_GATE, self.has_gate())
            .with(NOT_CDI, Some(self.symptoms.runtimes.toolkit.modes.iter().all(|(_, mode)| mode != "cdi")))
            // A finding of which it is known says so.
            .with(REBUILD_POSSIBLE, Some(false))
            .with(HOST_MOFED, is_known.then_some(is_hosts))
            .with(MOFED_POD, has_mofed_pod)
            .with(DRIVER_POD_UNNAMED, Some(!named(DRIVER) && self.is_container_driver() != Some(false)))
            .with(MOFED_POD_UNNAMED, Some(!named(MOFED) && !self.is_host_mofed()))
            .with(REFUSES_IW_CM, Some(third_party.is_some_and(|found| found.text.contains("iw_cm"))))
            .with(STORAGE_KEPT, Some(unloads_storage != Some(true)))
            .with(STORAGE_UNLOADED, unloads_storage.or(Some(false)))
            .with(THIRD_PARTY_KEPT, Some(unloads_third_party != Some(true)))
            .with(THIRD_PARTY_UNLOADED, unloads_third_party.or(Some(false)))
            .with(OPENSHIFT, self.symptoms.host.is_openshift)
            .with(TALOS, is_talos)
            .with(SYSTEMD, is_talos.map(|is_talos| !is_talos))
            .with(IMAGE, distribution.map(|id| IMAGES.contains(&id.as_str())))
            .with(PRECOMPILED_IMAGE, builds_driver.map(|builds| !builds))
            .with(BUILT_DRIVER, builds_driver)
            .with(VIRTUAL_MACHINE, Some(self.symptoms.host.is_virtual))
            .with(SWITCHES_HERE, place.map(|place| place == FabricManagerPlace::Here))
            .with(NO_SWITCHES, place.map(|place| place == FabricManagerPlace::Nowhere))
            .with(RACK, Some(place == Some(FabricManagerPlace::Rack)))
            .with(DRM_LOADED, self.is_loaded(&["nvidia_drm"]))
            .with(THIRD_PARTY_LOADED, self.is_loaded(&super::mofed::THIRD_PARTY))
            .word("holders", listed(holders.iter()))
            .word("rdma-holders", listed(holders.iter().filter(|holder| !is_daemon(holder))))
            .word("storage", self.loaded(&super::mofed::STORAGE))
            .word("third-party", self.loaded(&super::mofed::THIRD_PARTY))
            .word("rdma-modules", self.missing_for_programs());
        let facts = match build {
            Some((_, build)) => facts
                .word("pod-directory", CommandText::path(&build.pod_directory, "/var/lib/kubelet/pods/*")),
            None => facts,
        };
        self.pods(facts)
    }

    /// kubelet runs here, or has; `None` where that would not be seen.
    pub(super) fn is_of_kubernetes(&self) -> Option<bool> {
        let (survey, offer) = (&self.symptoms.survey, &self.symptoms.offer);
        let is_kubelets = |found: &LogMatch| found.source == LogSource::Kubelet;
        let has_kubelet = self.process(Role::Kubelet).is_some()
            || offer.has_kubelet()
            || self.symptoms.logs.matches.iter().any(is_kubelets);
        let mofed = &self.symptoms.mofed;
        let has_mofed = mofed.lock != Lock::NoFile || matches!(mofed.marker, Marker::Present(_));
        let has_pods = !survey.pods.all.is_empty() || !self.symptoms.logs.pods.is_empty();
        let is_one = has_kubelet || has_pods || has_mofed || self.has_gpu_operator();
        let is_seen = survey.processes.all().next().is_some() && offer.names.is_ok();
        if is_one { Some(true) } else { is_seen.then_some(false) }
    }

    /// A container or a file of the GPU Operator is here.
    fn has_gpu_operator(&self) -> bool {
        let pods = &self.symptoms.survey.pods;
        let is_its = |name: &&str| pods.with(name).is_some_and(|pod| pod.is_operators);
        let runs = [CONTAINERS[0], CONTAINERS[2], CONTAINERS[3], "driver-validation"].iter().any(is_its);
        runs || self.has_driver_pod()
            || self.symptoms.settings.operator.is_some()
            || self.symptoms.chain.has_directory == Ok(true)
    }

    /// MOFED's container has this variable as `true`; `None` where its environment is not seen.
    fn mofed_may(&self, variable: &str) -> Option<bool> {
        let environment = self.process(Role::Mofed)?.environment.as_ref()?.as_ref().ok()?;
        Some(environment.get(variable).is_some_and(|value| value == "true"))
    }

    /// `-n NAMESPACE NAME` where the pod is known.
    fn pods(&self, facts: Facts) -> Facts {
        let pods = &self.symptoms.survey.pods;
        let known = |container: &str| pods.with(container).and_then(arguments);
        let validation = known("driver-validation").unwrap_or_else(|| UNKNOWN_POD.into());
        CONTAINERS.iter().zip(SELECTORS).fold(
            facts.word("validation-logs", validation),
            |facts, (container, (pod, logs, _))| match known(container).or_else(|| known(init_of(container)))
            {
                Some(arguments) => facts.word(pod, arguments.clone()).word(logs, arguments),
                None => facts,
            },
        )
    }

    /// A driver container's, or the host's; `None` where neither shows.
    pub(super) fn is_container_driver(&self) -> Option<bool> {
        let on_host = self.symptoms.driver.has_modules && self.symptoms.driver.is_on_host;
        if self.has_driver_pod() { Some(true) } else { on_host.then_some(false) }
    }

    fn loaded(&self, names: &[&'static str]) -> CommandText {
        let loaded: Vec<_> = names.iter().copied().filter(|name| self.line(name).is_some()).collect();
        super::holders::in_command(&self.in_order(&loaded))
    }

    /// Whether one of them is; `None` where the modules cannot be read.
    pub(super) fn is_loaded(&self, names: &[&str]) -> Option<bool> {
        self.seen.modules.proc.is_ok().then(|| names.iter().any(|name| self.line(name).is_some()))
    }

    fn missing_for_programs(&self) -> CommandText {
        let all = super::rdma::FOR_PROGRAMS.iter().map(|(module, _)| *module);
        CommandText::joined(all.filter(|module| self.line(module).is_none()), " ")
    }
}

/// `: NAME (PID), …` behind the words that name them; nothing where there are none.
fn listed<'a>(holders: impl Iterator<Item = &'a String>) -> CommandText {
    let holders = CommandText::joined(holders.map(|holder| CommandText::mention(holder)), ", ");
    if holders.is_empty() { holders } else { CommandText::from(": ").and(holders) }
}

/// `-n NAMESPACE NAME` of a pod whose name is known.
pub(super) fn arguments(pod: &Pod) -> Option<CommandText> {
    pod.name.as_ref().map(|(namespace, name)| CommandText::pod(namespace, name))
}

/// While its init containers run, a pod has no other, and some of them are in other pods too.
fn init_of(container: &str) -> &str {
    if container == "nvidia-operator-validator" { "cuda-validation" } else { container }
}

/// NVIDIA's daemons have GPUs open and do no RDMA. The kernel cuts names after 15 bytes.
fn is_daemon(holder: &str) -> bool {
    const DAEMONS: [&str; 3] = ["nvidia-persiste", "nv-fabricmanage", "nv-hostengine"];
    DAEMONS.iter().any(|name| holder.starts_with(name))
}
