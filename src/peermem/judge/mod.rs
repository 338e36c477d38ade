// SPDX-License-Identifier: Apache-2.0
//! `PeermemUsable`: what the kernel would say to nvidia-peermem.ko, before it is asked.
//!
//! The order of the questions is the contract's, and so decides which reason is given when several
//! fit. What the kernel does is in its kernel/module/{main,version}.c.

mod loaded;
mod parameter;
mod versions;

use crate::peermem::keeper_line;
use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::{ModuleState, state};
use crate::ready::judge::next_build::{NextBuild, needs_driver_build, next_build};
use crate::ready::judge::{needed, not_required};
use crate::ready::node::{Expectations, PeermemExpected};
use crate::ready::observation::{ModuleFile, ModuleInfo, Observation, Offer, OtherFile, Peermem, Symbols};
use crate::ready::verdict::Condition;
use std::path::Path;
use versions::offered;

const NAME: &str = "nvidia_peermem";
/// The kernel checks it first, and refuses in other words than for a symbol.
const LAYOUT: &str = "module_layout";

type Answer = Option<(Reason, String)>;

/// All conditions: those of [`crate::ready::judge::conditions`], and nvidia-peermem.ko's behind those that it rests
/// on.
#[must_use]
pub fn conditions(expected: &Expectations, seen: &Observation) -> Vec<Condition> {
    let mut conditions = crate::ready::judge::conditions(expected, seen);
    let settled = conditions.iter().position(|condition| condition.r#type == ConditionType::Settled);
    conditions.insert(settled.unwrap_or(conditions.len()), needed(expected, usable(expected, seen)));
    conditions
}

fn usable(expected: &Expectations, seen: &Observation) -> Condition {
    let (Some(asked), Some(peermem)) = (&expected.peermem, &seen.peermem) else {
        return not_required(ConditionType::PeermemUsable, "no module file is inspected");
    };
    let case = PeermemCase { expected, asked, seen, peermem };
    if let Some(loaded) = case.loaded() {
        return loaded;
    }
    let refusal = case.refusal().map(|refusal| case.with_better(case.with_next_build(refusal)));
    let (reason, message) = refusal.unwrap_or_else(|| case.usable());
    Condition::new(ConditionType::PeermemUsable, reason, message)
}

/// A file that would load if the one that we rebuilt were not there. Ours was rebuilt for a MOFED or an nvidia
/// that is gone, so undoing that is the cure.
#[must_use]
pub fn shadowed<'a>(expected: &'a Expectations, seen: &'a Observation) -> Option<&'a Path> {
    let (asked, peermem) = (expected.peermem.as_ref()?, seen.peermem.as_ref()?);
    let case = PeermemCase { expected, asked, seen, peermem };
    let (reason, _) = case.refusal().filter(|_| case.loaded().is_none())?;
    case.better().filter(|_| reason.needs_rebuild())
}

/// Whether the bad parameter comes from the kernel's command line; `None` where there is none.
pub(crate) fn is_boot_parameter(expected: &Expectations, seen: &Observation) -> Option<bool> {
    let (asked, peermem) = (expected.peermem.as_ref()?, seen.peermem.as_ref()?);
    let (_, source) = PeermemCase { expected, asked, seen, peermem }.bad_parameter_of()?;
    Some(source.ends_with("/cmdline"))
}

struct PeermemCase<'a> {
    expected: &'a Expectations,
    asked: &'a PeermemExpected,
    seen: &'a Observation,
    peermem: &'a Peermem,
}

impl<'a> PeermemCase<'a> {
    /// The first thing that the kernel would refuse it for, or that keeps us from telling.
    fn refusal(&self) -> Answer {
        let info = self.peermem.file.info();
        let file = |question: fn(&Self, &ModuleInfo) -> Answer| info.and_then(|info| question(self, info));
        self.missing()
            .or_else(|| self.unlisted())
            .or_else(|| file(Self::stub))
            .or_else(|| file(Self::mismatch))
            .or_else(|| file(Self::refused))
            .or_else(|| file(Self::wrong_kernel))
            .or_else(|| file(Self::version_missing))
            .or_else(|| file(Self::unsigned))
            .or_else(|| self.legacy_client())
            .or_else(|| self.bad_parameter())
            .or_else(|| self.install_line())
            .or_else(|| file(Self::other_driver))
            .or_else(|| self.damaged())
            .or_else(|| file(Self::dependency))
            .or_else(|| self.unshown())
            .or_else(|| self.unreadable())
            .or_else(|| file(Self::signature_unknown))
            .or_else(|| file(Self::version_unknown))
    }

    /// A new driver pod is no cure as long as it skips the build.
    fn with_next_build(&self, refusal: (Reason, String)) -> (Reason, String) {
        let (reason, message) = refusal;
        let is_unlisted = matches!(self.peermem.file, ModuleFile::Read { listed: Some(false), .. });
        let next = next_build(self.expected, self.seen).filter(NextBuild::is_skipped);
        let Some(next) = next.filter(|_| needs_driver_build(reason) && !is_unlisted) else {
            return (reason, message);
        };
        let reason = match reason {
            Reason::ModuleFileMissing | Reason::StubModule => Reason::BuildSkipped,
            reason => reason,
        };
        (reason, format!("{message}; {}", next.message))
    }

    /// The first file behind ours with no known fault.
    fn better(&self) -> Option<&'a Path> {
        let is_usable = |other: &&OtherFile| {
            let OtherFile { path, info } = (*other).clone();
            let file = ModuleFile::Read { path, ignored_paths: Vec::new(), listed: Some(true), info };
            let peermem = Peermem { file, is_for_live: false, ..self.peermem.clone() };
            PeermemCase { peermem: &peermem, ..*self }.refusal().is_none()
        };
        self.peermem.other_files.iter().find(is_usable).map(|other| other.path.as_path())
    }

    /// If our own file comes before a usable one of the driver, ours is to be removed.
    fn with_better(&self, refusal: (Reason, String)) -> (Reason, String) {
        let (reason, message) = refusal;
        match self.better().filter(|_| reason.needs_rebuild()) {
            Some(better) => {
                let better = better.display();
                (reason, format!("{message}; peermem-gate rebuilt it, and {better} would load in its place"))
            }
            None => (reason, message),
        }
    }

    fn missing(&self) -> Answer {
        let (ModuleFile::Missing(directory) | ModuleFile::Away(directory)) = &self.peermem.file else {
            return None;
        };
        Some((
            Reason::ModuleFileMissing,
            format!("there is no nvidia-peermem.ko below {}{}", directory.display(), self.rejected_pid()),
        ))
    }

    /// The process whose root was not searched.
    fn rejected_pid(&self) -> String {
        self.peermem.rejected_pid.map_or_else(String::new, |pid| {
            format!(
                "; the root of process {pid} does not count: the driver's pid file names it, but it does not hold \
                    the lock on that file"
            )
        })
    }

    fn unlisted(&self) -> Answer {
        let ModuleFile::Read { path, listed: Some(false), .. } = &self.peermem.file else { return None };
        let message = format!(
            "{} exists, but modules.dep does not list it, so modprobe does not find it",
            path.display()
        );
        Some((Reason::ModuleFileMissing, message))
    }

    fn stub(&self, info: &ModuleInfo) -> Answer {
        if !info.is_stub() {
            return None;
        }
        Some((
            Reason::StubModule,
            format!(
                "{} is a stub: it was built without MOFED's headers, so no kernel loads it (\"Invalid \
                    argument\", usually with nothing in the kernel log)",
                self.path()
            ),
        ))
    }

    fn wrong_kernel(&self, info: &ModuleInfo) -> Answer {
        let kernel = &self.seen.kernel;
        let (release, flags) = info.vermagic.split_once(' ').unwrap_or((&info.vermagic, ""));
        let accepted = &self.peermem.accepted;
        let flags_of =
            |vermagic: &str| vermagic.split_once(' ').map_or("", |(_, flags)| flags).trim_end().to_owned();
        let other_flags = accepted.iter().find(|a| flags_of(&a.vermagic) != flags.trim_end());
        let layout = info.versions.get(LAYOUT);
        let other_layout = accepted
            .iter()
            .any(|a| layout.zip(a.versions.get(LAYOUT)).is_some_and(|(ours, theirs)| ours != theirs));
        let path = self.path();
        let message = if info.machine != kernel.machine && !kernel.machine.is_empty() {
            format!("{path} is for {}, but this machine is {}", info.machine, kernel.machine)
        } else if let Some(accepted) = other_flags {
            format!(
                "{path} is built for a kernel with \"{}\", but this one has \"{}\" (from {})",
                flags.trim_end(),
                flags_of(&accepted.vermagic),
                accepted.path.display()
            )
        } else if other_layout {
            format!("{path} is built for another layout of kernel modules ({LAYOUT})")
        } else if release != kernel.release && !info.is_of_any_release() {
            format!("{path} is built for kernel {release}, but this one is {}", kernel.release)
        } else {
            return None;
        };
        Some((Reason::WrongKernel, message))
    }

    /// By what the kernel demands signatures, if it does.
    fn signature_demanded(&self) -> Option<String> {
        let demands = &self.peermem.signatures;
        match (&demands.enforced, &demands.lockdown) {
            (Ok(Some(true)), _) => {
                Some("this kernel loads only signed modules (module.sig_enforce)".to_owned())
            }
            (_, Ok(Some(lockdown))) if lockdown != "none" => {
                Some(format!("the kernel is locked down ({lockdown}, as with Secure Boot)"))
            }
            _ => None,
        }
    }

    fn unsigned(&self, info: &ModuleInfo) -> Answer {
        let by = self.signature_demanded().filter(|_| !info.signed)?;
        Some((Reason::UnsignedModule, format!("{} is not signed, and {by}", self.path())))
    }

    fn signature_unknown(&self, info: &ModuleInfo) -> Answer {
        let demands = &self.peermem.signatures;
        let unreadable = [demands.enforced.as_ref().err(), demands.lockdown.as_ref().err()];
        let why = unreadable.into_iter().flatten().next().filter(|_| !info.signed)?;
        Some((
            Reason::SignatureUnknown,
            format!(
                "{} is not signed, and cannot tell whether this kernel requires a signature: {why}",
                self.path()
            ),
        ))
    }

    fn legacy_client(&self) -> Answer {
        let proc = self.seen.modules.proc.as_ref().ok()?;
        proc.named("nv_peer_mem").next()?;
        Some((
            Reason::LegacyClientLoaded,
            "nv_peer_mem is loaded and has registered the name that nvidia_peermem needs".to_owned(),
        ))
    }

    fn bad_parameter(&self) -> Answer {
        let (text, source) = self.bad_parameter_of()?;
        Some((Reason::BadParameter, format!("{source} gives nvidia-peermem {text}: it takes 0 or 1")))
    }

    /// The first one, and where it is given.
    fn bad_parameter_of(&self) -> Option<(&str, String)> {
        let typed = self.asked.parameters.iter().map(|text| (text.as_str(), "the command line".to_owned()));
        let given = self.peermem.parameters.iter().map(|p| (p.text.as_str(), p.source.display().to_string()));
        given.chain(typed).find(|(text, _)| parameter::is_bad(text))
    }

    /// `load` asks modprobe itself (`--show-depends`); the line says the same to those who may not run it.
    fn install_line(&self) -> Answer {
        let is_ours = |command: &str| runs_the_gate(command) || keeper_line::is_keepers(command);
        let line = self.peermem.install.iter().find(|line| !is_ours(&line.text))?;
        Some((
            Reason::InstallLine,
            format!(
                "{} has `install nvidia_peermem {}`: modprobe runs that command instead of loading the \
                    module, and may report success",
                line.source.display(),
                line.text
            ),
        ))
    }

    fn damaged(&self) -> Answer {
        let ModuleFile::Damaged(why) = &self.peermem.file else { return None };
        Some((
            Reason::ModuleFileDamaged,
            format!("{} is not a loadable module: {}", why.path.display(), why.why),
        ))
    }

    /// modprobe would load what is missing, which is for others to do.
    fn dependency(&self, info: &ModuleInfo) -> Answer {
        let wants_nvidia = info.imports.iter().any(|symbol| symbol.starts_with("nvidia_p2p_"));
        let implied = ["nvidia"].into_iter().filter(|_| wants_nvidia);
        let needed = implied.chain(info.depends.iter().map(String::as_str));
        let is_live = |name: &str| matches!(state(&self.seen.modules, name), ModuleState::Live(_));
        let exporter = match &self.seen.symbols {
            Symbols::Missing => Some("a module that exports its symbols"),
            Symbols::ExportedBy(Some(name)) if !is_live(name) => Some(name.as_str()),
            _ => None,
        };
        let name = exporter.or_else(|| needed.into_iter().find(|name| !is_live(name)))?;
        Some((Reason::DependencyNotLive, format!("{} needs {name}, which is not live", self.path())))
    }

    /// A file in the volume of a driver's pod: judged, but not found there by any modprobe.
    fn unshown(&self) -> Answer {
        let ModuleFile::Read { path, listed: None, .. } = &self.peermem.file else { return None };
        (!path.starts_with(&self.peermem.root)).then(|| {
            (
                Reason::ModuleFileMissing,
                format!(
                    "{} is built, but not installed in any root that a modprobe could run in",
                    path.display()
                ),
            )
        })
    }

    fn unreadable(&self) -> Answer {
        let ModuleFile::Unreadable(why) = &self.peermem.file else { return None };
        Some((Reason::ModuleFileUnreadable, format!("cannot read nvidia-peermem.ko: {why}")))
    }

    fn usable(&self) -> (Reason, String) {
        let mut message = format!("{} will load", self.path());
        if let ModuleFile::Read { info, ignored_paths, listed, .. } = &self.peermem.file {
            if let Some(crc) = info.versions.get(PEER_MEMORY_SYMBOLS[0]) {
                let source =
                    offered(&self.peermem.peer_memory, PEER_MEMORY_SYMBOLS[0]).map(|(_, source)| source);
                let source = source.unwrap_or_default();
                message += &format!(
                    ": it needs {} with CRC {crc:#010x}, which {source} has",
                    PEER_MEMORY_SYMBOLS[0]
                );
            }
            if let Offer::Symvers(..) = self.peermem.peer_memory {
                message += " (the live module's own file was not found, so nothing was compared with it)";
            }
            if info.versions.is_empty() {
                message += "; this kernel has no symbol versions (CONFIG_MODVERSIONS), so nothing was \
                    compared: unknown whether it was built against this MOFED";
            }
            if self.peermem.is_rebuilt() {
                message += "; peermem-gate rebuilt it";
            }
            if info.signed && self.signature_demanded().is_some() {
                message += "; only the kernel knows whether it trusts the signing key";
            }
            if listed.is_none() {
                message += "; there is no modules.dep: modprobe finds nothing before depmod runs";
            }
            if let Some(better) = self.better() {
                message += &format!(
                    "; {} would load, too: `peermem-gate rebuild --undo` makes modprobe take it again",
                    better.display()
                );
            } else if let Some(other) = ignored_paths.first() {
                message += &format!("; {} also exists, but modprobe ignores it", other.display());
            }
        }
        if let Some(why) = self.peermem.parameters_unreadable.first() {
            message += &format!("; some parameters are unknown: {why}");
        }
        (Reason::Usable, message)
    }

    fn path(&self) -> String {
        let path = match &self.peermem.file {
            ModuleFile::Read { path, .. } => path.as_path(),
            _ => Path::new("nvidia-peermem.ko"),
        };
        path.display().to_string()
    }
}

/// The line that docs/loading.md describes: the command is this program.
fn runs_the_gate(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| matches!(*word, "exec" | "env"));
    let program = words.next().and_then(|word| word.rsplit('/').next());
    program == Some("peermem-gate") && words.any(|word| word == "load")
}
