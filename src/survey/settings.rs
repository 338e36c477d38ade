// SPDX-License-Identifier: Apache-2.0
//! From the settings of the node's containers: who wants `GPUDirect` RDMA here, and who provides MOFED.
//!
//! The operator sets `GPU_DIRECT_RDMA_ENABLED` and `USE_HOST_MOFED` where they are true, and nowhere else
//! (gpu-operator, assets/state-driver/0500_daemonset.yaml): of k8s-driver-manager and nvidia-driver-ctr, which would
//! have them, silence is a no; of others it is nothing.

use crate::cli::environment::{DIGEST, HOST_MOFED, RDMA, Variables, value_of};
use crate::ready::observation::{Evidence, Unreadable};
use crate::survey::Survey;
use crate::survey::process::{Environment, Process, Role};
use crate::survey::setting::{Setting, Settings};
use std::fmt::Display;

/// Would have the variables where they are true.
const DECISIVE: [Role; 2] = [Role::Driver, Role::DriverManager];
/// The GPU Operator's containers.
const OPERATORS: [Role; 6] =
    [Role::Driver, Role::DriverManager, Role::Peermem, Role::Validator, Role::Toolkit, Role::DriverToolkit];
const MOFED_CONTAINER: &str = "mofed-container";
const PEERMEM_CONTAINER: &str = "nvidia-peermem-ctr";
const DRIVER_CONTAINER: &str = "nvidia-driver-ctr";

/// All that the node says.
#[must_use]
pub fn settings(survey: &Survey, own: &Variables) -> Settings {
    let asked = SettingSources { survey, own };
    let (host_mofed, in_container) = (asked.host_mofed(), asked.mofed_container());
    let is_open = host_mofed == Setting::Unset && in_container.is_none();
    Settings {
        rdma: asked.rdma(),
        host_provides_rdma: asked.host().filter(|_| is_open),
        host_mofed,
        precompiled: asked.precompiled(),
        rdma_trace: asked.peermem().or_else(|| in_container.clone()).or_else(|| asked.installed()),
        unreadable: survey.unreadable.clone(),
        on_host: asked.installed(),
        in_container,
        operator: asked.operator(),
        digest: asked.decisive().find_map(|(_, environment)| environment.get(DIGEST).cloned()),
        node: asked.all().find_map(|process| Some(process.variable("NODE_NAME")?.to_owned())),
    }
}

/// Our own variables, completed from the node: what is set here wins. What is set nowhere stays unset, except that a
/// host without a MOFED container counts as one that needs none.
#[must_use]
pub fn completed(settings: &Settings, own: &Variables) -> Variables {
    let mut variables = own.clone();
    let mut complete = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|_| value_of(own, name).is_none()) {
            variables.push((name.into(), value.into()));
        }
    };
    complete(RDMA, answer(&settings.rdma));
    let host_provides_rdma = settings.host_provides_rdma.as_ref().map(|_| "true");
    complete(HOST_MOFED, answer(&settings.host_mofed).or(host_provides_rdma));
    complete(DIGEST, settings.digest.as_deref());
    variables
}

fn answer(setting: &Setting) -> Option<&'static str> {
    match setting {
        Setting::On(_) => Some("true"),
        Setting::Off(_) => Some("false"),
        Setting::Unset | Setting::Contradicted(..) | Setting::Unreadable(_) => None,
    }
}

fn evidence(source: impl Display, seen: impl Into<String>) -> Evidence {
    Evidence::new(source.to_string(), seen)
}

struct SettingSources<'a> {
    survey: &'a Survey,
    own: &'a Variables,
}

impl SettingSources<'_> {
    fn all(&self) -> impl Iterator<Item = &Process> {
        self.survey.processes.0.iter().flatten()
    }

    fn decisive(&self) -> impl Iterator<Item = (&Process, &Environment)> {
        let decisive = self.all().filter(|process| DECISIVE.contains(&process.role));
        decisive.filter_map(|process| Some((process, process.environment.as_ref()?.as_ref().ok()?)))
    }

    fn of_ours(&self, name: &str) -> Option<Setting> {
        let value = value_of(self.own, name)?.to_string_lossy();
        let set = evidence(name, value.clone());
        Some(if value == "true" { Setting::On(set) } else { Setting::Off(set) })
    }

    /// The first process with this setting.
    fn of_processes(&self, name: &str) -> Option<Evidence> {
        let is_set = |process: &&Process| process.variable(name) == Some("true");
        let process = self.all().find(is_set)?;
        Some(evidence(process.directory.join("environ").display(), format!("{name}=true")))
    }

    /// A process that says otherwise, or that would have this setting and lacks it.
    fn unset(&self, name: &str) -> Option<Evidence> {
        let says_no = |process: &&Process| process.variable(name).is_some_and(|value| value != "true");
        let lacks = |(_, environment): &(_, &Environment)| environment.get(name).is_none_or(|v| v != "true");
        let decisive = || self.decisive().find(lacks).map(|(process, _)| process);
        let process = decisive().or_else(|| self.all().find(says_no))?;
        Some(evidence(process.directory.join("environ").display(), format!("{name} is not true")))
    }

    /// The answer of the processes. Two that contradict each other give none.
    fn answer(&self, name: &str) -> Option<Setting> {
        match (self.of_processes(name), self.unset(name)) {
            (Some(yes), Some(no)) => Some(Setting::Contradicted(yes, no)),
            (Some(yes), None) => Some(Setting::On(yes)),
            (None, no) => no.map(Setting::Off),
        }
    }

    /// The first process that would have a setting and cannot be read.
    fn unreadable_process(&self) -> Option<Unreadable> {
        let decisive = self.all().filter(|process| DECISIVE.contains(&process.role));
        let mut unreadable = decisive.filter_map(|process| process.environment.as_ref()?.as_ref().err());
        unreadable.next().or(self.survey.processes.hidden()).cloned()
    }

    fn rdma(&self) -> Setting {
        let unreadable_process = || self.unreadable_process().map(Setting::Unreadable);
        let own = self.of_ours(RDMA);
        let stated = own.or_else(|| self.answer(RDMA)).or_else(|| self.left_behind());
        stated
            .or_else(|| self.asked_by_host().map(Setting::On))
            .or_else(unreadable_process)
            .unwrap_or_default()
    }

    /// The setting in files left by containers that are not running now.
    fn left_behind(&self) -> Option<Setting> {
        let of_ready = || {
            let (path, text) = &self.survey.driver_ready;
            let line = text
                .as_ref()?
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with("GPU_DIRECT_RDMA_ENABLED:"))?;
            Some(setting(line.ends_with("true"), evidence(path.display(), line)))
        };
        let of_build = || {
            let (_, build) = self.survey.pods.builds().find(|(pod, _)| pod.is_here)?;
            let environment = build.environment.as_ref()?;
            let value = environment.get(RDMA).map_or("not there", String::as_str);
            let source = build.directory.join("env");
            Some(setting(value == "true", evidence(source.display(), format!("{RDMA} is {value}"))))
        };
        let of_pod = || {
            let pod = self.survey.pods.with(PEERMEM_CONTAINER).filter(|pod| pod.is_here)?;
            let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
            Some(Setting::On(evidence(format!("pod {name}"), "has a container nvidia-peermem-ctr")))
        };
        let of_log = || self.survey.logged.requested.clone().map(Setting::On);
        of_build().or_else(of_pod).or_else(of_ready).or_else(of_log)
    }

    fn asked_by_host(&self) -> Option<Evidence> {
        let listed = || {
            let path = self.survey.loads_peermem.first()?;
            Some(evidence(path.display(), "has nvidia-peermem loaded at boot"))
        };
        listed().or_else(|| self.survey.logged.requested_by_host.clone())
    }

    fn host_mofed(&self) -> Setting {
        let own = self.of_ours(HOST_MOFED);
        // Without RDMA no container would have that setting.
        let is_off = self.of_processes(RDMA).is_none();
        let answer = || self.answer(HOST_MOFED).filter(|answer| !(is_off && answer.is_off()));
        own.or_else(answer).or_else(|| self.unreadable_process().map(Setting::Unreadable)).unwrap_or_default()
    }

    /// The operator names a `DaemonSet` of precompiled drivers for their kernel.
    fn precompiled(&self) -> Option<Evidence> {
        let (_, name) = self.survey.pods.with(DRIVER_CONTAINER)?.name.as_ref()?;
        let kernel = self.survey.release.to_lowercase().replace(['_', '+'], "-");
        let is_for_it = !kernel.is_empty() && name.replace(['_', '+'], "-").contains(&kernel);
        is_for_it
            .then(|| evidence(format!("pod {name}"), "is named for this kernel: its driver is precompiled"))
    }

    fn mofed_container(&self) -> Option<Evidence> {
        let running = self.survey.processes.first(Role::Mofed);
        let of_process = running.map(|process| evidence(process.directory.display(), "is MOFED's container"));
        let of_file = || self.survey.mofed_trace.as_ref().map(|path| evidence(path.display(), "is there"));
        let of_pod = || {
            let pod = self.survey.pods.with(MOFED_CONTAINER)?;
            let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
            Some(evidence(format!("pod {name}"), "is MOFED's"))
        };
        of_process.or_else(of_file).or_else(of_pod)
    }

    fn peermem(&self) -> Option<Evidence> {
        let path = self.survey.has_peermem.as_ref()?;
        Some(evidence(path.display(), "nvidia_peermem is loaded"))
    }

    fn installed(&self) -> Option<Evidence> {
        let sign = self.survey.installed.as_ref()?;
        Some(evidence(sign.display(), "is there"))
    }

    /// That the host has its own RDMA stack, and means it for `GPUDirect`.
    fn host(&self) -> Option<Evidence> {
        self.installed().or_else(|| self.asked_by_host())
    }

    fn operator(&self) -> Option<Evidence> {
        let process = self.all().find(|process| OPERATORS.contains(&process.role))?;
        Some(evidence(process.directory.display(), format!("{}, a GPU Operator container", process.name)))
    }
}

fn setting(yes: bool, evidence: Evidence) -> Setting {
    if yes { Setting::On(evidence) } else { Setting::Off(evidence) }
}
