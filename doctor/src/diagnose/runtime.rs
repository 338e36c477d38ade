// SPDX-License-Identifier: Apache-2.0
//! The container runtime that kubelet uses: would it start a container with a GPU?
//!
//! An absent entry is no fault by itself: the toolkit may not have come yet, may have taken its
//! settings back, or may work by NRI and need none. `toolkit-ready`, if it is newer than the
//! configuration, proves that a container with a GPU did start, whatever the files look like.

use super::{Case, helm, unreadable};
use crate::chain::span;
use crate::finding::{Finding, Id};
use crate::symptoms::runtime::{
    ConfigFile, Distribution, Handler, ProgramState, Runtime, RuntimeSettings, Runtimes, TOOLKIT_PID,
    Unusable, cri_table,
};
use peermem_gate::survey::process::Role;
use peermem_gate::words::remedy::CommandText;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Display;

/// The toolkit writes its pid file first, then its programs, then the configuration, and has the
/// runtime restarted; seconds in all.
const TOOLKIT: i64 = 5 * 60;
/// The boot's time is kept in whole seconds, and so is a file's here.
const GRAIN: i64 = 2;
const TOOLKIT_CTR: &str = "nvidia-container-toolkit-ctr";
/// Runtimes that need no entry: they are the built-in defaults.
const BUILT_IN: [&str; 2] = ["runc", "crun"];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let seen = &case.symptoms.runtimes;
    let mut found: Vec<_> = several(seen).into_iter().collect();
    found.extend(seen.toolkit.cdi_specs.as_ref().err().map(unreadable));
    found.extend(cgroups_differ(case).into_iter().chain(super::cdi::stale(case)));
    match (seen.used(), &seen.endpoint) {
        (Some(used), _) => found.extend(RuntimeCase { seen, used }.judge()),
        // Where the operator has been, a runtime has started it; elsewhere there may be none.
        (None, _) if seen.all.is_empty() => {
            let has_operator = case.symptoms.chain.has_directory == Ok(true);
            let places = "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s, /var/snap";
            let nothing = "neither a configuration nor a socket exists";
            found.extend(has_operator.then(|| Finding::new(Id::RuntimeNotSeen, places, nothing)));
        }
        (None, Ok(endpoint)) => {
            let seen = format!("kubelet uses {}, which belongs to no known runtime", endpoint.socket);
            found.push(Finding::new(Id::RuntimeInUseUnknown, &endpoint.source, seen));
        }
        // Without a kubelet nobody asks which runtime it uses.
        (None, Err(_)) if case.is_of_kubernetes() == Some(false) => {}
        (None, Err(why)) => {
            found.push(Finding::new(Id::RuntimeInUseUnknown, why.path.display(), why.why.clone()));
        }
    }
    found
}

/// kubelet's runtime has no entry for NVIDIA's, and no toolkit is about to write one: its container has done so or is
/// not on this node.
pub(super) fn has_no_handler(case: &Case<'_>) -> bool {
    let (seen, survey) = (&case.symptoms.runtimes, &case.symptoms.survey);
    let has_entry = |used: &Runtime| used.handlers().values().any(|(_, handler)| handler.is_nvidias());
    let has_toolkit =
        survey.processes.first(Role::Toolkit).is_some() || survey.pods.with(TOOLKIT_CTR).is_some();
    let is_late = seen.toolkit.started.and_then(|at| seen.clock.age(at)).is_some_and(|age| age >= TOOLKIT);
    !seen.used().is_some_and(has_entry) && (is_late || !has_toolkit)
}

/// kubelet's words for systemd, taken for a path by a runtime that does not ask it (runc, without `SystemdCgroup`).
fn cgroups_differ(case: &Case<'_>) -> Option<Finding> {
    let mut processes = case.symptoms.survey.processes.all().filter(|process| process.has_literal_cgroup);
    processes.next().map(|process| {
        let why = "is not systemd's, though kubelet asks for systemd's (SystemdCgroup is not set)";
        let seen = format!("the group of {} {why}", process.name);
        Finding::new(Id::RuntimeCgroupsDiffer, process.directory.join("cgroup").display(), seen)
    })
}

fn several(seen: &Runtimes) -> Option<Finding> {
    let running = || seen.all.iter().filter(|runtime| runtime.is_running());
    let one = |runtime: &Runtime| {
        let used = seen.used().is_some_and(|used| used.config == runtime.config);
        let whose = if used { ", which kubelet uses" } else { "" };
        // A runtime may do with its defaults.
        let config = runtime.config.strip_prefix("/").unwrap_or(&runtime.config);
        let has_file = runtime.files.iter().any(|file| file.path.ends_with(config));
        let config =
            if has_file { format!(", configured by {}", runtime.config.display()) } else { String::new() };
        (runtime.socket.clone(), format!("{}{config}{whose}", runtime.distribution))
    };
    Finding::of(Id::SeveralRuntimes, running().map(one)).filter(|_| running().nth(1).is_some())
}

/// The file, and what is in it.
fn at(file: &ConfigFile, seen: String) -> (Display<'_>, String) {
    (file.path.display(), seen)
}

/// The runtime that kubelet uses, among all that was seen.
struct RuntimeCase<'a> {
    seen: &'a Runtimes,
    used: &'a Runtime,
}

impl RuntimeCase<'_> {
    fn judge(&self) -> Vec<Finding> {
        let unusable = [Id::RuntimeConfigBroken, Id::RuntimeConfigUnreadable];
        let mut found: Vec<_> = unusable.into_iter().filter_map(|id| self.unusable(id)).collect();
        // What is missing may be in what cannot be read.
        let is_whole = self.used.files.iter().all(|file| file.settings.is_ok());
        let always = [self.cdi(), self.template()];
        let unproven =
            [self.program(), self.not_in_force(), self.version(), self.without_type(), self.name()];
        let whole = [self.table(), self.import(), self.default(), self.missing()];
        found.extend(always.into_iter().flatten());
        if !self.is_proven() {
            found.extend(unproven.into_iter().chain(whole.into_iter().filter(|_| is_whole)).flatten());
        }
        found
    }

    /// A container with a GPU started after the last change of the configuration.
    fn is_proven(&self) -> bool {
        let written = self.used.written().unwrap_or_default();
        self.seen.toolkit.proven.is_some_and(|proven| proven > written)
    }

    fn has_nvidias(&self) -> bool {
        self.used.handlers().values().any(|(_, handler)| handler.is_nvidias())
    }

    fn variable(&self, names: &[&str]) -> Option<&str> {
        let environment = self.seen.toolkit.environment.as_ref()?;
        names.iter().find_map(|name| environment.get(*name)).map(String::as_str)
    }

    fn main_file(&self) -> Option<(&str, &RuntimeSettings)> {
        let first = self.used.files.first()?;
        Some((first.path.to_str()?, first.settings.as_ref().ok()?))
    }

    /// Of the files that cannot be used, those that are broken or those that cannot be read.
    fn unusable(&self, id: Id) -> Option<Finding> {
        let unusable = self.used.files.iter().filter_map(|file| match (&file.settings, id) {
            (Err(Unusable::Broken(why)), Id::RuntimeConfigBroken) => Some(at(file, why.clone())),
            (Err(Unusable::Unreadable(why)), Id::RuntimeConfigUnreadable) => Some(at(file, why.why.clone())),
            _ => None,
        });
        Finding::of(id, unusable)
    }

    fn version(&self) -> Option<Finding> {
        let (main, settings) = self.main_file()?;
        let higher = self.used.settings().skip(1).filter(|(_, other)| other.version > settings.version);
        let findings = higher.map(|(file, other)| {
            let (version, of_main) = (other.version, settings.version);
            at(file, format!("the file is of version {version}, but {main} is of version {of_main}"))
        });
        Finding::of(Id::DropInVersionTooHigh, findings)
    }

    fn import(&self) -> Option<Finding> {
        if self.has_nvidias() {
            return None;
        }
        let is_nvidias = |settings: &RuntimeSettings| settings.handlers.iter().any(Handler::is_nvidias);
        let left = self.used.not_imported.iter();
        let mut left = left.filter(|file| file.settings.as_ref().is_ok_and(is_nvidias));
        // CRI-O reads its files from one directory.
        if self.used.distribution == Distribution::CriO {
            let file = left.next()?;
            let seen =
                "it names NVIDIA's runtime, and CRI-O reads its drop-ins from /etc/crio/crio.conf.d only";
            let name = file.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let finding = Finding::new(Id::DropInElsewhere, file.path.display(), seen);
            return Some(finding.word("drop-in", CommandText::plain(name, "FILE")));
        }
        let (main, settings) = self.main_file()?;
        let imports = match &settings.imports {
            None => "imports no file".to_owned(),
            Some(imports) => format!("imports only {imports:?}"),
        };
        let findings =
            left.map(|file| at(file, format!("the file names NVIDIA's runtime, but {main} {imports}")));
        self.with_values(Finding::of(Id::DropInNotImported, findings))
    }

    fn table(&self) -> Option<Finding> {
        if self.has_nvidias() {
            return None;
        }
        let findings = self.used.settings().flat_map(|(file, settings)| {
            settings.other_tables.iter().map(move |table| {
                let (version, right) = (settings.version, cri_table(settings.version));
                at(file, format!("version {version} has its runtimes in {right:?}; NVIDIA's is in {table:?}"))
            })
        });
        self.with_values(Finding::of(Id::CriTableIgnored, findings))
    }

    fn default(&self) -> Option<Finding> {
        let all = self.used.settings();
        let named = all.filter_map(|(file, settings)| Some((file, settings.default_runtime.as_ref()?)));
        let (file, name) = named.last()?;
        let is_known = name.is_empty() || BUILT_IN.contains(&name.as_str());
        let finding = at(file, format!("the default is {name:?}"));
        let is_wrong = !is_known && !self.used.handlers().contains_key(name.as_str());
        Finding::of(Id::DefaultRuntimeUndefined, is_wrong.then_some(finding))
    }

    fn program(&self) -> Option<Finding> {
        // The toolkit takes the old ones away before it installs again.
        let is_installing = self.toolkit_age().is_some_and(|age| age < TOOLKIT);
        let handlers = self.used.handlers();
        let nvidias = handlers.values().filter(|(_, handler)| handler.is_nvidias() && !is_installing);
        let findings = nvidias.filter_map(|(file, handler)| {
            let binary = handler.binary.as_deref()?;
            let wrong = match self.seen.programs.get(binary)? {
                ProgramState::Missing => "is not there",
                ProgramState::NotExecutable => "is not executable",
                ProgramState::Executable | ProgramState::Unreadable(_) => return None,
            };
            Some(at(file, format!("runtime {:?}: {binary} {wrong}", handler.name)))
        });
        Finding::of(Id::NvidiaProgramMissing, findings)
    }

    /// A `RuntimeClass`'s handler is a DNS label, so in lower case; the toolkit's default is `nvidia`. Where NVIDIA's
    /// runtime is the default, no name is asked for.
    fn name(&self) -> Option<Finding> {
        let by_toolkit = self.variable(&["NVIDIA_RUNTIME_NAME", "CONTAINERD_RUNTIME_CLASS"]);
        let asked = by_toolkit.unwrap_or("nvidia");
        let handlers = self.used.handlers();
        let nvidias: Vec<_> = handlers.values().filter(|(_, handler)| handler.is_nvidias()).collect();
        let default =
            self.used.settings().filter_map(|(_, settings)| settings.default_runtime.as_deref()).last();
        let is_default = |name: &str| by_toolkit.is_none() && default == Some(name);
        let fits = |name: &str| name == asked || is_default(name);
        if nvidias.is_empty() || nvidias.iter().any(|(_, handler)| fits(&handler.name)) {
            return None;
        }
        let findings = nvidias.iter().map(|(file, handler)| {
            let is_alike = handler.name.eq_ignore_ascii_case(asked);
            let differs = if is_alike { ", which differs by case" } else { "" };
            at(
                file,
                format!("NVIDIA's runtime has the name {:?} there, not {asked:?}{differs}", handler.name),
            )
        });
        Finding::of(Id::RuntimeNameMismatch, findings)
    }

    /// The toolkit writes one at its start.
    fn cdi(&self) -> Option<Finding> {
        let is_wanted = self.variable(&["CDI_ENABLED"]) == Some("true");
        let age = self.toolkit_age().filter(|age| *age >= TOOLKIT)?;
        let is_missing = self.seen.toolkit.cdi_specs.as_ref().is_ok_and(BTreeMap::is_empty);
        (is_wanted && is_missing).then(|| {
            Finding::new(Id::CdiSpecMissing, "/etc/cdi, /run/cdi", "NVIDIA's file does not exist")
                .seen("the toolkit's environment", format!("CDI_ENABLED=true, for {}", span(age)))
        })
    }

    fn template(&self) -> Option<Finding> {
        let seen = format!("replaces the configuration of {}: it has no `{{{{`", self.used.distribution);
        let findings = self.used.bare_templates.iter().map(|path| (path.display(), seen.clone()));
        Finding::of(Id::RuntimeTemplateIncomplete, findings)
    }

    /// In none of the files that name it: containerd merges their tables.
    fn without_type(&self) -> Option<Finding> {
        let all = || self.used.settings().flat_map(|(_, settings)| &settings.handlers);
        let has_type = |name: &str| all().any(|handler| handler.name == name && handler.has_type);
        let handlers = self.used.handlers();
        let untyped = handlers.values().filter(|(_, one)| one.is_nvidias() && !has_type(&one.name));
        let findings = untyped
            .map(|(file, handler)| at(file, format!("runtime {:?} has no runtime_type", handler.name)));
        Finding::of(Id::RuntimeTypeMissing, findings)
    }

    fn not_in_force(&self) -> Option<Finding> {
        // CRI-O takes a change on SIGHUP, as the same process.
        if self.used.distribution == Distribution::CriO {
            return None;
        }
        let started = self.used.process.as_ref()?.started?;
        let newer = self.used.files.iter().filter_map(|file| Some((file, file.written? - started)));
        let findings = newer.filter(|(_, late)| *late > GRAIN).map(|(file, late)| {
            at(file, format!("written {} after {} was started", span(late), self.used.distribution))
        });
        Finding::of(Id::RuntimeConfigNotInForce, findings)
    }

    fn missing(&self) -> Option<Finding> {
        if self.has_nvidias() {
            return None;
        }
        if let Some(elsewhere) = self.elsewhere() {
            return Some(elsewhere);
        }
        let is_nri =
            self.variable(&["ENABLE_NRI_PLUGIN", "NO_RUNTIME_CONFIG"]).is_some_and(|on| on == "true");
        if is_nri || self.seen.toolkit.has_hook {
            return None;
        }
        let age = self.toolkit_age().filter(|age| *age >= TOOLKIT)?;
        let is_clear = self.seen.toolkit.environment.is_some() || !self.seen.toolkit.has_nri_socket;
        let id = if is_clear { Id::NvidiaRuntimeMissing } else { Id::NvidiaRuntimeUnclear };
        let running = format!("the toolkit's container has run for {}", span(age));
        let finding = Finding::new(id, self.used.config.display(), "it has no NVIDIA runtime");
        self.with_values(Some(finding.seen(TOOLKIT_PID, running)))
    }

    fn elsewhere(&self) -> Option<Finding> {
        let others = self.seen.all.iter().filter(|other| other.config != self.used.config);
        let findings = others.flat_map(|other| {
            let nvidias = other.handlers().into_values().filter(|(_, handler)| handler.is_nvidias());
            let seen =
                |name: &str| format!("runtime {name:?}, in the configuration of {}", other.distribution);
            nvidias.map(|(file, handler)| at(file, seen(&handler.name))).collect::<Vec<_>>()
        });
        let (used, endpoint) = (self.used, self.seen.endpoint.as_ref().ok()?);
        let seen = format!("kubelet uses {} at {}, which has none", used.distribution, endpoint.socket);
        let finding = Finding::of(Id::NvidiaRuntimeElsewhere, findings)?;
        self.with_values(Some(finding.seen(&endpoint.source, seen)))
    }

    fn toolkit_age(&self) -> Option<i64> {
        self.seen.clock.age(self.seen.toolkit.started?)
    }

    fn with_values(&self, finding: Option<Finding>) -> Option<Finding> {
        finding.map(|finding| helm::with_values(finding, self.used, self.seen.toolkit.environment.as_ref()))
    }
}
