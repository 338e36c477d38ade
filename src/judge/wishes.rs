// SPDX-License-Identifier: Apache-2.0
//! From what the node's containers were told to who wants `GPUDirect` RDMA here, and who is to provide MOFED.
//!
//! The operator sets `GPU_DIRECT_RDMA_ENABLED` and `USE_HOST_MOFED` where they are true, and nowhere else (gpu-operator,
//! assets/state-driver/0500_daemonset.yaml): of k8s-driver-manager and nvidia-driver-ctr, which would have them,
//! silence is a no; of others it is nothing.

use crate::environment::{Variables, value_of};
use crate::observation::Unreadable;
use crate::sentence::Meaning;
use crate::symptoms::process::{Environment, Process, Role};
use crate::symptoms::survey::Survey;
use crate::symptoms::wish::{Told, Wish, Wishes};
use std::fmt::Display;

/// The variable that asks for RDMA.
pub const RDMA: &str = "GPU_DIRECT_RDMA_ENABLED";
/// The variable that says who provides MOFED.
pub const HOST_MOFED: &str = "USE_HOST_MOFED";

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
pub fn wishes(survey: &Survey, own: &Variables) -> Wishes {
    let asked = Asked { survey, own };
    let (host_mofed, in_container) = (asked.host_mofed(), asked.mofed_container());
    let is_open = host_mofed == Wish::Nobody && in_container.is_none();
    Wishes {
        rdma: asked.rdma(),
        by_itself: asked.host().filter(|_| is_open),
        host_mofed,
        precompiled: asked.precompiled(),
        implied: asked.peermem().or_else(|| in_container.clone()).or_else(|| asked.installed()),
        on_host: asked.installed(),
        in_container,
        operator: asked.operator(),
        node: asked.all().find_map(|process| Some(process.variable("NODE_NAME")?.to_owned())),
    }
}

/// Our own variables, completed by what the node says: what is set here wins. Of what nobody says nothing is made, but
/// that a host which does without MOFED's container is to do so.
#[must_use]
pub fn completed(wishes: &Wishes, own: &Variables) -> Variables {
    let mut variables = own.clone();
    let mut complete = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|_| value_of(own, name).is_none()) {
            variables.push((name.into(), value.into()));
        }
    };
    complete(RDMA, answer(&wishes.rdma));
    let by_itself = wishes.by_itself.as_ref().map(|_| "true");
    complete(HOST_MOFED, answer(&wishes.host_mofed).or(by_itself));
    variables
}

fn answer(wish: &Wish) -> Option<&'static str> {
    match wish {
        Wish::Yes(_) => Some("true"),
        Wish::No(_) => Some("false"),
        Wish::Nobody | Wish::Unheard(_) => None,
    }
}

fn told(source: impl Display, seen: impl Into<String>) -> Told {
    Told { source: source.to_string(), seen: seen.into() }
}

struct Asked<'a> {
    survey: &'a Survey,
    own: &'a Variables,
}

impl Asked<'_> {
    fn all(&self) -> impl Iterator<Item = &Process> {
        self.survey.processes.0.iter().flatten()
    }

    fn decisive(&self) -> impl Iterator<Item = (&Process, &Environment)> {
        let decisive = self.all().filter(|process| DECISIVE.contains(&process.role));
        decisive.filter_map(|process| Some((process, process.environment.as_ref()?.as_ref().ok()?)))
    }

    fn of_ours(&self, name: &str) -> Option<Wish> {
        let value = value_of(self.own, name)?.to_string_lossy();
        let told = told(name, value.clone());
        Some(if value == "true" { Wish::Yes(told) } else { Wish::No(told) })
    }

    /// The first process that was told so.
    fn of_processes(&self, name: &str) -> Option<Told> {
        let is_told = |process: &&Process| process.variable(name) == Some("true");
        let process = self.all().find(is_told)?;
        Some(told(process.directory.join("environ").display(), format!("{name}=true")))
    }

    /// Who would have it, and has it not.
    fn silence(&self, name: &str) -> Option<Told> {
        let (process, _) = self.decisive().next()?;
        Some(told(process.directory.join("environ").display(), format!("{name} is not true")))
    }

    /// Who would say it cannot be heard.
    fn unheard(&self) -> Option<Unreadable> {
        let decisive = self.all().filter(|process| DECISIVE.contains(&process.role));
        let mut unreadable = decisive.filter_map(|process| process.environment.as_ref()?.as_ref().err());
        unreadable.next().or(self.survey.processes.hidden()).cloned()
    }

    fn rdma(&self) -> Wish {
        let of_process = || self.of_processes(RDMA).map(Wish::Yes);
        let of_silence = || self.silence(RDMA).map(Wish::No);
        let unheard = || self.unheard().map(Wish::Unheard);
        let own = self.of_ours(RDMA);
        let said = own.or_else(of_process).or_else(of_silence).or_else(|| self.left_behind());
        said.or_else(|| self.asked_by_host().map(Wish::Yes)).or_else(unheard).unwrap_or_default()
    }

    /// What containers leave that are not running now.
    fn left_behind(&self) -> Option<Wish> {
        let of_ready = || {
            let (path, text) = &self.survey.driver_ready;
            let line = text
                .as_ref()?
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with("GPU_DIRECT_RDMA_ENABLED:"))?;
            Some(wish(line.ends_with("true"), told(path.display(), line)))
        };
        let of_build = || {
            let (_, build) = self.survey.pods.builds().find(|(pod, _)| pod.is_here)?;
            let environment = build.environment.as_ref()?;
            let value = environment.get(RDMA).map_or("not there", String::as_str);
            let source = build.directory.join("env");
            Some(wish(value == "true", told(source.display(), format!("{RDMA} is {value}"))))
        };
        let of_pod = || {
            let pod = self.survey.pods.with(PEERMEM_CONTAINER).filter(|pod| pod.is_here)?;
            let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
            Some(Wish::Yes(told(format!("pod {name}"), "has a container nvidia-peermem-ctr")))
        };
        let of_log = || {
            // The driver's script loads nvidia-peermem only where it was told so.
            let meanings = [
                Meaning::RdmaRequested,
                Meaning::PeermemModprobe,
                Meaning::PeermemWaits,
                Meaning::PeermemRefused,
            ];
            let said =
                meanings.into_iter().find_map(|meaning| self.survey.logs.saying(meaning).next_back())?;
            let path = self.survey.logs.file(said)?.path.display();
            Some(Wish::Yes(told(path, said.saying.text.clone())))
        };
        of_build().or_else(of_pod).or_else(of_ready).or_else(of_log)
    }

    fn asked_by_host(&self) -> Option<Told> {
        let path = self.survey.loads_peermem.first()?;
        Some(told(path.display(), "has nvidia-peermem loaded at boot"))
    }

    fn host_mofed(&self) -> Wish {
        let own = self.of_ours(HOST_MOFED);
        let said = own.or_else(|| self.of_processes(HOST_MOFED).map(Wish::Yes));
        let of_silence = || self.of_processes(RDMA).and(self.silence(HOST_MOFED)).map(Wish::No);
        said.or_else(of_silence).or_else(|| self.unheard().map(Wish::Unheard)).unwrap_or_default()
    }

    /// The operator names a `DaemonSet` of precompiled drivers for their kernel.
    fn precompiled(&self) -> Option<Told> {
        let (_, name) = self.survey.pods.with(DRIVER_CONTAINER)?.name.as_ref()?;
        let kernel = self.survey.release.to_lowercase().replace(['_', '+'], "-");
        let is_for_it = !kernel.is_empty() && name.replace(['_', '+'], "-").contains(&kernel);
        is_for_it.then(|| told(format!("pod {name}"), "is named for this kernel: its driver is precompiled"))
    }

    fn mofed_container(&self) -> Option<Told> {
        let running = self.survey.processes.first(Role::Mofed);
        let of_process = running.map(|process| told(process.directory.display(), "is MOFED's container"));
        let of_file = || self.survey.left.as_ref().map(|path| told(path.display(), "is there"));
        let of_pod = || {
            let pod = self.survey.pods.with(MOFED_CONTAINER)?;
            let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
            Some(told(format!("pod {name}"), "is MOFED's"))
        };
        of_process.or_else(of_file).or_else(of_pod)
    }

    fn peermem(&self) -> Option<Told> {
        let path = self.survey.has_peermem.as_ref()?;
        Some(told(path.display(), "nvidia_peermem is loaded"))
    }

    fn installed(&self) -> Option<Told> {
        let sign = self.survey.installed.as_ref()?;
        Some(told(sign.display(), "is there"))
    }

    /// That the host has its own RDMA stack, and means it for `GPUDirect`.
    fn host(&self) -> Option<Told> {
        self.installed().or_else(|| self.asked_by_host())
    }

    fn operator(&self) -> Option<Told> {
        let process = self.all().find(|process| OPERATORS.contains(&process.role))?;
        Some(told(
            process.directory.display(),
            format!("{}, a container of the GPU Operator's", process.name),
        ))
    }
}

fn wish(yes: bool, told: Told) -> Wish {
    if yes { Wish::Yes(told) } else { Wish::No(told) }
}
