// SPDX-License-Identifier: Apache-2.0
//! One node, as a bundle shows it.

use super::posted::{DEVICES, FORMS, Posted};
use super::scan::{NodeFiles, ScannedNode, scan};
use super::sources::{BundleSources, within};
use super::{machine, said, unread};
use crate::chain::{DRIVER_CTR_READY, DRIVER_READY, TOOLKIT_READY};
use crate::finding::Finding;
use crate::gathered::objects::{ContainerState, GatheredContainer, GatheredNode, GatheredPod, NIC_LABELS};
use crate::gathered::{BundleFile, POSTED, is_list};
use crate::log::{FailureLine, Insist, LogMatch, plain_trouble, trouble};
use crate::symptoms::Symptoms;
use crate::symptoms::chain::FileState;
use crate::symptoms::logs::{Failure, LoggedPod, PodContainer};
use crate::text::counted;
use peermem_gate::ready::node_clock::NodeClock;
use peermem_gate::ready::observation::{
    Evidence, FileId, Kernel, Marker, Nic, Observation, ProcModules, ProcState, SysModule, SysState,
};
use peermem_gate::survey::Survey;
use peermem_gate::survey::pod::{Pod, Pods};
use peermem_gate::survey::process::{Process, Processes, Role, VARIABLES};
use peermem_gate::survey::settings::settings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The processes of the operators' containers, by the container's name.
const ROLES: [(&str, Role); 15] = [
    ("mofed-container", Role::Mofed),
    ("k8s-driver-manager", Role::DriverManager),
    ("nvidia-driver-ctr", Role::Driver),
    ("nvidia-peermem-ctr", Role::Peermem),
    ("openshift-driver-toolkit-ctr", Role::DriverToolkit),
    ("driver-validation", Role::Validator),
    ("toolkit-validation", Role::Validator),
    ("cuda-validation", Role::Validator),
    ("plugin-validation", Role::Validator),
    ("nvidia-operator-validator", Role::Validator),
    ("nvidia-container-toolkit-ctr", Role::Toolkit),
    ("nvidia-device-plugin", Role::DevicePlugin),
    ("rdma-shared-dp", Role::RdmaDevicePlugin),
    ("peermem-gate", Role::Gate),
    ("peermem-gate-keep", Role::Gate),
];
/// Files of the readiness chain, by the container whose end or probe sets them.
const CHAIN: [(&str, &str); 5] = [
    ("nvidia-driver-ctr", DRIVER_CTR_READY),
    ("driver-validation", DRIVER_READY),
    ("toolkit-validation", TOOLKIT_READY),
    ("cuda-validation", "cuda-ready"),
    ("plugin-validation", "plugin-ready"),
];
/// Modules whose second witness a judge asks for.
const MODULES: [&str; 7] =
    ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "ib_umad", "nvidia", "nvidia_peermem"];
/// A container that was started again as often has not come through.
const OFTEN: u32 = 3;
/// Of what was not read, named up to here.
const NAMED: usize = 20;
/// In seconds. When the node was booted is unknown: before all that is in the bundle.
const LONG_AGO: i64 = 30 * 86_400;

/// A node with all that a bundle shows of it.
#[derive(Clone, Debug)]
pub struct BundleNode {
    /// The node's name.
    pub name: String,
    /// The gate's look, most of it unread.
    pub seen: Observation,
    /// The doctor's.
    pub symptoms: Symptoms,
    /// The parts of a node that the bundle has.
    pub read: Vec<String>,
    /// Those that it does not have.
    pub missing: Vec<&'static str>,
    /// Files and logs of it, or of no known node, that were not read, and why.
    pub unread: Vec<String>,
    sources: BundleSources,
}

/// A container of an operator that works on the node.
pub(super) fn is_operand(name: &str) -> bool {
    role(name).is_some()
}

fn role(container: &str) -> Option<Role> {
    ROLES.iter().find(|(name, _)| *name == container).map(|(_, role)| *role)
}

/// Reads all that the bundle has of the node.
pub(super) fn read(files: NodeFiles<'_>) -> BundleNode {
    let (objects, name) = (files.objects, files.node);
    let scanned = scan(&files);
    let node = objects.nodes.iter().find(|node| node.name == name);
    let mut reader = NodeReader { files, node, scanned, sources: BundleSources::default() };
    let now = reader.now();
    let (mut seen, modules) = reader.observation();
    let mut symptoms = reader.symptoms(now, &seen);
    let forms = reader.posted(&mut seen, &mut symptoms);
    let NodeReader { files, scanned, sources, .. } = reader;
    let (read, missing) = parts(&files, &scanned, modules.is_some(), &forms);
    let unplaced = scanned.unplaced.iter().take(NAMED).cloned();
    let untrusted = scanned.logs.untrusted.iter().map(|untrusted_log| {
        format!("{untrusted_log}: --operator-namespace {} counts it", untrusted_log.namespace)
    });
    let unread = objects.unreadable.iter().take(NAMED).map(|(file, why)| format!("{file}: {why}"));
    let strange = strangers(&files, &scanned);
    let tables: BTreeSet<_> =
        objects.pods.iter().filter(|pod| pod.containers.is_empty()).map(|pod| &pod.file).collect();
    let tables = tables.into_iter().map(|file| {
        format!("{file}: of each pod only its node was read: `kubectl get pods -A -o yaml` shows the states")
    });
    let unread = unread.chain(unplaced).chain(untrusted).chain(strange).chain(tables).collect();
    let symptoms = Symptoms { logs: scanned.logs, ..symptoms };
    BundleNode { name: name.to_owned(), seen, symptoms, read, missing, unread, sources }
}

/// Files that somebody posted, of which no line and no form is known.
fn strangers(files: &NodeFiles<'_>, scanned: &ScannedNode) -> Vec<String> {
    let is_known = |file: &&BundleFile| {
        scanned.understood.contains(&file.path)
            || machine::node_of(file).is_some()
            || machine::modules(file).is_some()
            || is_list(&file.bytes)
    };
    let strange = files.machine().filter(|file| !is_known(file)).take(NAMED);
    let strange = strange.map(|file| {
        let own = plain_trouble(&file.bytes).map(|words| format!("; its own last error: {words}"));
        format!("{}: none of its lines is known{}", file.path, own.unwrap_or_default())
    });
    if files.bundle.files.len() > POSTED { Vec::new() } else { strange.collect() }
}

struct NodeReader<'a> {
    files: NodeFiles<'a>,
    node: Option<&'a GatheredNode>,
    scanned: ScannedNode,
    sources: BundleSources,
}

impl NodeReader<'_> {
    /// The newest time that the bundle has of the node.
    fn now(&self) -> i64 {
        let states = self.files.pods().flat_map(|pod| &pod.containers).filter_map(|one| match one.state {
            ContainerState::Running(at) => at,
            _ => None,
        });
        let events = self.files.objects.events.iter().filter_map(|event| event.last);
        let told = states.chain(events).chain(self.scanned.last).max();
        // Without any time in it: when it was gathered.
        let gathered = || self.files.bundle.files.iter().filter_map(|file| file.modified).max();
        told.or_else(gathered).unwrap_or(LONG_AGO)
    }

    fn source(&mut self, path: &str, file: &str) {
        self.sources.files.insert(path.to_owned(), file.to_owned());
    }

    /// The gate's look, and the list of modules where there is one.
    fn observation(&mut self) -> (Observation, Option<ProcModules>) {
        let node = self.node;
        let text = |value: fn(&GatheredNode) -> Option<&String>| node.and_then(value).cloned();
        let arch = text(|node| node.arch.as_ref()).unwrap_or_default();
        let kernel = Kernel {
            release: text(|node| node.kernel.as_ref()).unwrap_or_else(|| "unknown".to_owned()),
            machine: match arch.as_str() {
                "amd64" => "x86_64".to_owned(),
                "arm64" => "aarch64".to_owned(),
                "" => "unknown".to_owned(),
                _ => arch,
            },
            boot_id: text(|node| node.boot_id.as_ref()),
            hostname: self.files.node.to_owned(),
        };
        if let Some(node) = node {
            self.source("/proc/sys/kernel/osrelease", &node.file);
        }
        let mut seen = unread::observation(kernel);
        self.nic(&mut seen);
        self.marker(&mut seen);
        let found = self.files.machine().find_map(|file| Some((file.path.clone(), machine::modules(file)?)));
        let Some((path, modules)) = found else { return (seen, None) };
        self.source("/proc/modules", &path);
        // Of the module file nothing is read: what its condition says is by the loaded modules.
        self.source(unread::PEERMEM, &path);
        for name in MODULES {
            seen.modules.sys.insert(name.to_owned(), witness(&modules, name));
        }
        seen.modules.proc = Ok(modules.clone());
        (seen, Some(modules))
    }

    /// Node Feature Discovery, with the operators' settings, names each vendor on the bus.
    fn nic(&mut self, seen: &mut Observation) {
        const OWN: &str = "feature.node.kubernetes.io/pci-10de.present";
        let Some(node) = self.node else { return };
        let is_openshift = is_openshift(node);
        let has_mofed =
            self.files.pods().any(|pod| pod.containers.iter().any(|one| one.name == "mofed-container"));
        if node.is_labeled(&NIC_LABELS) {
            seen.nic = Nic::Found("a label of the node".to_owned());
        } else if node.is_labeled(&[OWN]) && !is_openshift && !has_mofed {
            seen.nic = Nic::None;
            let file = node.file.clone();
            self.source("/sys/bus/pci/devices", &file);
        }
    }

    /// The startup probe of MOFED's container is a look at the marker.
    fn marker(&mut self, seen: &mut Observation) {
        let pods = self.files.pods().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)));
        let mofed =
            pods.filter(|(_, one)| one.name == "mofed-container" && one.state != ContainerState::Unknown);
        let Some((pod, container)) = mofed.last() else { return };
        let is_running = matches!(container.state, ContainerState::Running(_));
        let id = FileId { device: 0, inode: 0, changed_ns: 0 };
        seen.marker = if is_running && container.has_started { Marker::Present(id) } else { Marker::Absent };
        let source = within(&pod.file, &pod.name, &container.name, "status");
        self.sources.pods.insert(pod.name.clone(), pod.file.clone());
        self.source(unread::MARKER, &source);
    }

    fn symptoms(&mut self, now: i64, seen: &Observation) -> Symptoms {
        let survey = self.survey(now, seen, &|_| true);
        let settings = settings(&survey, &Vec::new());
        let is_running = |one: &GatheredContainer| matches!(one.state, ContainerState::Running(_));
        let survey = self.survey(now, seen, &is_running);
        let clock = survey.clock.clone();
        self.kubelets_words(now);
        self.pods(now);
        let mut symptoms = unread::symptoms(survey, crate::symptoms::logs::Logs::default(), settings);
        symptoms.mofed.marker = seen.marker.clone();
        symptoms.chain.clock = clock.clone();
        symptoms.runtimes.clock = clock;
        symptoms.chain.files = self.chain(now);
        symptoms.host.is_openshift = self.node.map(is_openshift);
        symptoms
    }

    /// What commands print, by its form: the parts of which there is one.
    fn posted(&mut self, seen: &mut Observation, symptoms: &mut Symptoms) -> BTreeSet<&'static str> {
        let mut parts = BTreeSet::new();
        for file in self.files.machine() {
            let text = String::from_utf8_lossy(&file.bytes);
            let posted = Posted { file, text: &text };
            for (place, part, read) in FORMS {
                let Some(counts) = read(&posted, seen, symptoms) else { continue };
                if counts || !self.sources.files.contains_key(place) {
                    self.sources.files.insert(place.to_owned(), file.path.clone());
                }
                self.scanned.understood.insert(file.path.clone());
                parts.insert(part);
            }
        }
        if let Some(functions) = self.files.objects.functions.get(self.files.node) {
            symptoms.nics = Ok(functions.clone());
        }
        let label = self.node.and_then(|node| node.labels.get("nvidia.com/gpu.product").cloned());
        let models = &mut symptoms.driver.models.1;
        models.extend(label);
        models.sort();
        models.dedup();
        symptoms.host.is_virtual = self.files.machine().any(machine::is_of_guest);
        symptoms.host.failed_builds.clone_from(&self.scanned.failed_builds);
        let offering = self.node.filter(|node| is_to_offer_gpus(node));
        if let Some((node, offered)) = offering.and_then(|node| Some((node, node.offered?))) {
            symptoms.offer.counted = Some(offered);
            parts.insert("kubelet's count of GPUs");
            let (place, file) = (symptoms.offer.directory.display().to_string(), node.file.clone());
            self.source(&place, &file);
        }
        parts
    }

    /// Who is here, by the pods' containers of which `is_shown` is true.
    fn survey(
        &mut self,
        now: i64,
        seen: &Observation,
        is_shown: &dyn Fn(&GatheredContainer) -> bool,
    ) -> Survey {
        let (mut processes, mut pods) = (Vec::new(), Vec::new());
        self.sources.pods.extend(self.files.pods().map(|pod| (pod.name.clone(), pod.file.clone())));
        for pod in self.files.pods() {
            let shown = pod.containers.iter().filter(|one| is_shown(one));
            processes.extend(shown.filter_map(|one| process(pod, one)));
            pods.push(Pod {
                uid: pod.uid.clone(),
                name: Some((pod.namespace.clone(), pod.name.clone())),
                containers: pod.containers.iter().map(|one| one.name.clone()).collect::<BTreeSet<_>>(),
                is_operators: true,
                is_here: true,
                build: None,
            });
        }
        let boot = self.boot(now);
        Survey {
            clock: NodeClock { boot: Ok(boot), uptime: Ok(now.saturating_sub(boot)) },
            // Without the pods' states nobody can say that nothing asks for RDMA.
            processes: Processes(if pods.is_empty() {
                unread::seen("the pods' states")
            } else {
                Ok(processes)
            }),
            logged: self.scanned.logs.settings(),
            pods: Pods { all: pods, is_complete: false, unreadable: Vec::new() },
            has_peermem: seen
                .modules
                .proc
                .as_ref()
                .is_ok_and(|modules| modules.named("nvidia_peermem").next().is_some())
                .then(|| PathBuf::from("/proc/modules")),
            release: seen.kernel.release.clone(),
            ..Survey::default()
        }
    }

    fn boot(&self, now: i64) -> i64 {
        now.min(self.scanned.first.unwrap_or(now)).saturating_sub(LONG_AGO)
    }

    /// A container's state has the words that kubelet logs about it.
    fn kubelets_words(&mut self, now: i64) {
        let words = said::of(self.files.pods(), self.files.events(), self.files.operators, now);
        for (file, found) in words {
            let logs = &mut self.scanned.logs;
            let index = logs.files.len();
            logs.files.push(crate::symptoms::logs::LogFile { path: file.into(), ..Default::default() });
            logs.matches.push(crate::log::LogMatch { file: index, ..found });
        }
        self.sources.logs.extend(self.scanned.system.union(&self.scanned.understood).cloned());
    }

    /// The pods with their containers' troubles.
    fn pods(&mut self, now: i64) {
        let listed = self.files.pods().map(|pod| LoggedPod {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            containers: pod.containers.iter().map(|one| self.container(pod, one, now)).collect(),
        });
        self.scanned.logs.pods = listed.collect();
    }

    fn container(&self, pod: &GatheredPod, container: &GatheredContainer, now: i64) -> PodContainer {
        let is_often = container.restarts.is_some_and(|count| count >= OFTEN);
        // Sure without a log; after a reboot, each container has been started again.
        let ends = match &container.state {
            ContainerState::Waiting(reason, _) => reason == "CrashLoopBackOff",
            ContainerState::Terminated(code) => *code != 0 && is_often,
            ContainerState::Running(_) | ContainerState::Unknown => false,
        };
        let comes = matches!(container.state, ContainerState::Waiting(..) | ContainerState::Running(_));
        let fails = ends || comes && is_often && !container.is_ready;
        let runs = matches!(container.state, ContainerState::Running(_));
        let tail = self.scanned.tails.get(&(pod.name.clone(), container.name.clone()));
        let unlogged = (ends && tail.is_none()).then(|| Failure {
            path: within(&pod.file, &pod.name, &container.name, "status").into(),
            modified: now,
            line: "no log of it is here".to_owned(),
            ..Failure::default()
        });
        let tail = tail.filter(|_| fails || runs);
        let said = tail.and_then(|(path, tail)| {
            let insist = if fails { Insist::after(container.restarts) } else { Insist::Repeated };
            let FailureLine { text: line, output, advice, awaits, .. } = trouble(tail, i64::MAX, insist)?;
            let failure = Failure { path: path.into(), modified: now, repeats: !fails, ..Failure::default() };
            Some(Failure { line, output, advice, awaits, ..failure })
        });
        PodContainer {
            name: container.name.clone(),
            restart: container.restarts,
            written: None,
            is_silent: false,
            trouble: said.or(unlogged),
        }
    }

    /// Files of the readiness chain that a container's state proves.
    fn chain(&self, now: i64) -> BTreeMap<String, (PathBuf, FileState)> {
        let containers = || self.files.pods().flat_map(|pod| &pod.containers);
        let proven = CHAIN.iter().filter_map(|(name, file)| {
            let written = containers().filter(|one| one.name == *name).find_map(|one| match one.state {
                ContainerState::Running(at) if one.has_started => Some(at.unwrap_or(now)),
                ContainerState::Terminated(0) => Some(now),
                _ => None,
            })?;
            let present = FileState::Present { written, text: String::new() };
            Some(((*file).to_owned(), (PathBuf::from("/run/nvidia/validations").join(file), present)))
        });
        proven.collect()
    }
}

fn is_openshift(node: &GatheredNode) -> bool {
    node.image.as_deref().is_some_and(|image| image.contains("CoreOS"))
        || node.labels.keys().any(|label| label.starts_with("node.openshift.io/"))
}

fn process(pod: &GatheredPod, container: &GatheredContainer) -> Option<Process> {
    let environment = container.environment.as_ref().map(|all| {
        let ours = all.iter().filter(|(name, _)| VARIABLES.contains(&name.as_str()));
        Ok(ours.map(|(name, value)| (name.clone(), value.clone())).collect())
    });
    Some(Process {
        pid: 0,
        role: role(&container.name)?,
        name: container.name.clone(),
        arguments: vec![container.name.clone()],
        started: match container.state {
            ContainerState::Running(at) => at,
            _ => None,
        },
        pod: Some(pod.uid.clone()),
        has_literal_cgroup: false,
        directory: within(&pod.file, &pod.name, &container.name, "status").into(),
        environment,
    })
}

/// /sys/module shows the same module. lsmod shows no taint.
fn witness(modules: &ProcModules, name: &str) -> SysModule {
    let unread = |file: &str| Err(unread::at(&format!("/sys/module/{name}/{file}")));
    let Some(module) = modules.named(name).next() else {
        return SysModule { state: SysState::NoDirectory, inode: None, taint: Ok(None), version: Ok(None) };
    };
    let state = match module.state {
        ProcState::Live => SysState::Live,
        ProcState::Loading => SysState::Coming,
        ProcState::Unloading => SysState::Going,
    };
    let has_taints = !module.address.is_empty();
    let taint = if has_taints { Ok(Some(module.taint.clone())) } else { unread("taint") };
    SysModule { state, inode: None, taint, version: unread("version") }
}

/// The parts of the node that the bundle has, and those that it lacks.
fn parts(
    files: &NodeFiles<'_>,
    scanned: &ScannedNode,
    has_modules: bool,
    forms: &BTreeSet<&'static str>,
) -> (Vec<String>, Vec<&'static str>) {
    let logs = scanned.logs.files.iter();
    let containers: BTreeSet<_> =
        logs.filter_map(|file| Some(file.container.as_ref()?.container.as_str())).collect();
    let has = |names: &[&str]| names.iter().any(|name| containers.contains(name));
    let is_kubelets = |path: &&String| path.contains("kubelet");
    let has_kernel = scanned.system.iter().any(|path| !is_kubelets(&path));
    let has_kubelet = scanned
        .system
        .iter()
        .any(|path| ["kubelet", "journal", "messages", "syslog"].iter().any(|name| path.contains(name)));
    let has_pods = files.pods().next().is_some();
    let is_posted = |found: &&LogMatch| {
        let file = &scanned.logs.files[found.file];
        file.container.is_none() && !scanned.system.contains(file.path.to_string_lossy().as_ref())
    };
    let programs: BTreeSet<_> =
        scanned.logs.matches.iter().filter(is_posted).map(|found| found.source.name()).collect();
    let rows = [
        (has_pods, "the pods' states"),
        (has(&["mofed-container"]), "the log of MOFED's container"),
        (has(&["nvidia-driver-ctr", "k8s-driver-manager"]), "the logs of the driver's containers"),
        (
            has(&["nvidia-container-toolkit-ctr", "driver-validation", "toolkit-validation"]),
            "the logs of the toolkit's and the validator's containers",
        ),
        (has_kernel, "the kernel's log"),
        (has_kubelet, "kubelet's log"),
        (has_modules, "the list of all loaded modules"),
        (forms.contains(DEVICES), DEVICES),
        (
            false,
            "the node's files: MOFED's marker and headers, nvidia-peermem.ko, the runtimes' configuration",
        ),
    ];
    let missing = rows.iter().filter(|(is_there, _)| !is_there).map(|(_, part)| *part).collect();
    let mut read: Vec<String> =
        rows.iter().filter(|(is_there, _)| *is_there).map(|(_, part)| (*part).to_owned()).collect();
    read.extend(forms.iter().filter(|form| **form != DEVICES).map(|form| (*form).to_owned()));
    read.extend(programs.iter().map(|name| format!("words of {name}")));
    if !containers.is_empty() {
        let logs = scanned.logs.files.iter().filter(|file| file.container.is_some()).count();
        let [logs, containers] =
            [(logs, "log"), (containers.len(), "container")].map(|(count, noun)| counted(count as u64, noun));
        read.push(format!("{logs} of {containers}"));
    }
    (read, missing)
}

/// By its labels: neither for virtual machines, nor without a device plugin, nor while mig-manager changes its GPUs.
fn is_to_offer_gpus(node: &GatheredNode) -> bool {
    let label = |name: &str| node.labels.get(&format!("nvidia.com/{name}")).map_or("", String::as_str);
    let has_some = node.offered.is_some_and(|(capacity, _)| capacity > 0);
    let plugin = label("gpu.deploy.device-plugin");
    (plugin == "true" || plugin.is_empty() && has_some)
        && !label("gpu.workload.config").starts_with("vm-")
        && label("mig.config.state") != "pending"
}

impl BundleNode {
    /// The finding with the names of the bundle's files that it rests on; `None` where it rests on none. What was not
    /// read is said for the node.
    pub fn reliable(&self, mut finding: Finding) -> Option<Finding> {
        let named = |mut evidence: Evidence| {
            evidence.source = self.sources.found(&evidence.source)?;
            (!evidence.seen.contains(unread::WHY)).then_some(evidence)
        };
        finding.evidence = finding.evidence.into_iter().filter_map(named).collect();
        (!finding.evidence.is_empty()).then_some(finding)
    }
}
