// SPDX-License-Identifier: Apache-2.0
//! `PeermemUsable`: what the kernel would say to nvidia-peermem.ko, before it is asked.
//!
//! The order of the questions is the contract's, and so decides which reason is given when several
//! fit. What the kernel does stands in its kernel/module/{main,version}.c.

use super::modules::{ModuleState, state};
use crate::PEER_MEMORY_SYMBOLS;
use crate::condition::{Condition, ConditionType, Reason};
use crate::node::{Expectations, MofedPlace, PeermemExpected};
use crate::observation::{ModuleFile, ModuleInfo, Observation, Offer, Peermem, Symbols};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "nvidia_peermem";
/// The kernel checks it first, and refuses in other words than for a symbol.
const LAYOUT: &str = "module_layout";
/// Parameters that take 0 or 1 (open-gpu-kernel-modules, nvidia-peermem.c).
const SWITCHES: [&str; 2] = ["peerdirect_support", "persistent_api_support"];

type Answer = Option<(Reason, String, String)>;

pub(super) fn usable(expected: &Expectations, seen: &Observation) -> Condition {
    let (Some(asked), Some(peermem)) = (&expected.peermem, &seen.peermem) else {
        return super::not_required(ConditionType::PeermemUsable, "no module file is inspected");
    };
    let case = Case { expected, asked, seen, peermem };
    if let Some(loaded) = case.loaded() {
        return loaded;
    }
    let (reason, message, remedy) = case.refusal().unwrap_or_else(|| case.usable());
    let condition = Condition::new(ConditionType::PeermemUsable, reason, message);
    if remedy.is_empty() { condition } else { condition.with_remedy(remedy) }
}

struct Case<'a> {
    expected: &'a Expectations,
    asked: &'a PeermemExpected,
    seen: &'a Observation,
    peermem: &'a Peermem,
}

impl Case<'_> {
    /// A module that is loaded already, or on its way, is not judged by its file.
    fn loaded(&self) -> Option<Condition> {
        let condition =
            |reason, message: String| Some(Condition::new(ConditionType::PeermemUsable, reason, message));
        match state(&self.seen.modules, NAME) {
            ModuleState::NotLoaded => None,
            ModuleState::Live(_) => Some(self.live()),
            ModuleState::Loading => condition(Reason::ModuleLoading, format!("{NAME} is still loading")),
            ModuleState::Unloading => condition(Reason::ModuleUnloading, format!("{NAME} is being unloaded")),
            ModuleState::Disagree(how) => condition(Reason::WitnessesDisagree, format!("{NAME}: {how}")),
            ModuleState::Unreadable(why) => {
                condition(Reason::ModulesUnreadable, format!("cannot tell whether {NAME} is loaded: {why}"))
            }
        }
    }

    fn live(&self) -> Condition {
        let uses = self.uses();
        let held = match &self.seen.symbols {
            Symbols::ExportedBy(Some(provider)) => uses.contains(&provider.as_str()),
            Symbols::ExportedBy(None) | Symbols::NotRead | Symbols::Unreadable(_) => true,
            Symbols::Missing => false,
        };
        let gone: Vec<_> = self.expected.modules.iter().filter(|name| self.is_gone(name)).cloned().collect();
        let uses = if uses.is_empty() { "nothing".to_owned() } else { uses.join(", ") };
        if held && gone.is_empty() {
            let mut message = format!("{NAME} is live and uses {uses}");
            if self.peermem.loaded.as_ref().is_some_and(|loaded| self.peermem.rebuilt.contains(loaded)) {
                message += "; peermem-gate rebuilt it";
            }
            return Condition::new(ConditionType::PeermemUsable, Reason::PeermemLive, message);
        }
        let missing = if gone.is_empty() {
            "what is live now exports peer memory from elsewhere, or not at all".to_owned()
        } else {
            format!("{} is not loaded", gone.join(", "))
        };
        let (consequence, then) = match self.expected.mofed {
            MofedPlace::Container => ("it keeps MOFED from coming", ""),
            MofedPlace::Host => (
                "it keeps the host's MOFED from loading",
                ", then load MOFED (`/etc/init.d/openibd restart`) and nvidia_peermem again",
            ),
        };
        let message = format!("{NAME} is loaded and holds {uses}, but {missing}: {consequence}");
        Condition::new(ConditionType::PeermemUsable, Reason::LoadedOnGoneStack, message).with_remedy(format!(
            "end what uses it (GPU pods), then `rmmod nvidia_peermem`, never `modprobe -r`, which takes nvidia along{then}"
        ))
    }

    /// The modules that `nvidia_peermem` holds.
    fn uses(&self) -> Vec<&str> {
        let lines = self.seen.modules.proc.iter().flat_map(|proc| &proc.modules);
        lines.filter(|m| m.users.iter().any(|user| user == NAME)).map(|m| m.name.as_str()).collect()
    }

    fn is_gone(&self, name: &str) -> bool {
        matches!(state(&self.seen.modules, name), ModuleState::NotLoaded)
    }

    /// The first thing that the kernel would refuse it for, or that keeps us from telling.
    fn refusal(&self) -> Answer {
        let info = match &self.peermem.file {
            ModuleFile::Read { info, .. } => Some(info.as_ref()),
            _ => None,
        };
        let file = |question: fn(&Self, &ModuleInfo) -> Answer| info.and_then(|info| question(self, info));
        self.missing()
            .or_else(|| self.unlisted())
            .or_else(|| file(Self::stub))
            .or_else(|| file(Self::mismatch))
            .or_else(|| file(Self::wrong_kernel))
            .or_else(|| file(Self::version_missing))
            .or_else(|| file(Self::unsigned))
            .or_else(|| self.legacy_client())
            .or_else(|| self.bad_parameter())
            .or_else(|| self.install_line())
            .or_else(|| file(Self::other_driver))
            .or_else(|| self.damaged())
            .or_else(|| file(Self::dependency))
            .or_else(|| self.unreadable())
            .or_else(|| file(Self::signature_unknown))
            .or_else(|| file(Self::version_unknown))
    }

    fn missing(&self) -> Answer {
        let ModuleFile::Missing(directory) = &self.peermem.file else { return None };
        Some((
            Reason::ModuleFileMissing,
            format!("there is no nvidia-peermem.ko below {}", directory.display()),
            "wait if the driver is being built or loaded; if its container skipped the build, remove \
             /run/nvidia/nvidia-driver.state on the node and delete the driver pod; on a host install the modules (dkms); or \
             correct --driver-root"
                .to_owned(),
        ))
    }

    fn unlisted(&self) -> Answer {
        let ModuleFile::Read { path, listed: Some(false), .. } = &self.peermem.file else { return None };
        let message = format!(
            "{} is there, but modules.dep does not list it, so that modprobe will not find it",
            path.display()
        );
        Some((
            Reason::ModuleFileMissing,
            message,
            format!("run depmod {} in the driver's root", self.seen.kernel.release),
        ))
    }

    /// Known by what it does not want: version, srcversion and parameters are the real one's.
    fn stub(&self, info: &ModuleInfo) -> Answer {
        if info.imports.contains(PEER_MEMORY_SYMBOLS[0]) {
            return None;
        }
        Some((
            Reason::StubModule,
            format!(
                "{} is a stub: it was built where MOFED's headers could not be seen, and no kernel will ever load it (\"Invalid argument\", mostly without a word in the kernel log)",
                self.path()
            ),
            self.rebuild(),
        ))
    }

    fn mismatch(&self, info: &ModuleInfo) -> Answer {
        let differs = |offer: &dyn Fn(&str) -> Option<(u32, String)>| {
            let wanted = info.versions.iter().filter(|(symbol, _)| *symbol != LAYOUT);
            wanted
                .filter_map(|(symbol, crc)| Some((symbol, *crc, offer(symbol)?)))
                .find(|(_, crc, (found, _))| crc != found)
        };
        let message = |symbol: &str, wanted: u32, found: u32, source: &str| {
            format!(
                "{} wants {symbol} with CRC {wanted:#010x}, and {source} has it with {found:#010x}",
                self.path()
            )
        };
        let (peer_memory, nvidia) = (&self.peermem.peer_memory, &self.peermem.nvidia);
        if let Some((symbol, wanted, (found, source))) = differs(&|symbol| offered(peer_memory, symbol)) {
            let message = message(symbol, wanted, found, &source);
            return Some((
                Reason::SymbolVersionMismatch,
                message + ": it was built against another MOFED",
                self.rebuild(),
            ));
        }
        if let Some((symbol, wanted, (found, source))) = differs(&|symbol| offered(nvidia, symbol)) {
            let message = message(symbol, wanted, found, &source);
            return Some((
                Reason::SymbolVersionMismatch,
                message + ": it was built against another nvidia than the one that is loaded",
                "load the nvidia that it belongs to: delete the driver pod, which unloads the old one; on a host reboot, or install both from one release".to_owned(),
            ));
        }
        let of_kernel = |symbol: &str| {
            let mut accepted = self.peermem.accepted.iter();
            accepted.find_map(|a| Some((*a.versions.get(symbol)?, a.path.display().to_string())))
        };
        let (symbol, wanted, (found, source)) = differs(&of_kernel)?;
        let message = format!("{}, which is loaded", message(symbol, wanted, found, &source));
        Some((
            Reason::SymbolVersionMismatch,
            message + ": it was built for another kernel or MOFED",
            self.rebuild(),
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
            format!("{path} is for {}, and this machine is {}", info.machine, kernel.machine)
        } else if let Some(accepted) = other_flags {
            format!(
                "{path} is built for a kernel with \"{}\", and this one has \"{}\" (by {})",
                flags.trim_end(),
                flags_of(&accepted.vermagic),
                accepted.path.display()
            )
        } else if other_layout {
            format!("{path} is built for another layout of kernel modules ({LAYOUT})")
        } else if release != kernel.release && info.versions.is_empty() {
            format!("{path} is built for kernel {release}, and this one is {}", kernel.release)
        } else {
            return None;
        };
        Some((
            Reason::WrongKernel,
            message,
            "build the driver for the running kernel: delete the driver pod, or take the image that was made for it".to_owned(),
        ))
    }

    fn version_missing(&self, info: &ModuleInfo) -> Answer {
        let demanded =
            info.vermagic.split(' ').any(|word| word == "modversions") || !info.versions.is_empty();
        if !demanded && !self.kernel_has_versions() {
            return None;
        }
        let mut without = info.imports.iter().filter(|symbol| !info.versions.contains_key(*symbol));
        let missing = without.find(|symbol| self.must_have_version(info, symbol))?;
        Some((
            Reason::SymbolVersionMissing,
            format!(
                "{} has no CRC for {missing}, which this kernel may ask for: it was built without the Module.symvers that has it",
                self.path()
            ),
            self.rebuild(),
        ))
    }

    /// What is exported without a CRC is imported without one, in an otherwise sound file; kernels load
    /// it. Most load the rest too, with a warning and an ABI that nobody has compared: Debian's do not.
    fn must_have_version(&self, info: &ModuleInfo, symbol: &str) -> bool {
        let is_odd = || info.versions.keys().any(|name| name != LAYOUT && !info.imports.contains(name));
        let is_offered = || self.peermem.accepted.iter().any(|a| a.versions.contains_key(symbol));
        info.versions.is_empty() || self.offer_of(symbol).is_some() || is_offered() || is_odd()
    }

    /// By the word in an accepted vermagic, or by what MOFED was built with.
    fn kernel_has_versions(&self) -> bool {
        let by_symvers = || {
            let crc = |symbol| offered(&self.peermem.peer_memory, symbol).map(|(crc, _)| crc);
            PEER_MEMORY_SYMBOLS.into_iter().filter_map(crc).any(|crc| crc != 0)
        };
        match self.peermem.accepted.first() {
            Some(accepted) => accepted.vermagic.split(' ').any(|word| word == "modversions"),
            None => by_symvers(),
        }
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
        Some((
            Reason::UnsignedModule,
            format!("{} is not signed, and {by}", self.path()),
            "sign it with a key that the kernel trusts (MOK), or take a driver with signed modules (precompiled), or turn Secure Boot off".to_owned(),
        ))
    }

    fn signature_unknown(&self, info: &ModuleInfo) -> Answer {
        let demands = &self.peermem.signatures;
        let unreadable = [demands.enforced.as_ref().err(), demands.lockdown.as_ref().err()];
        let why = unreadable.into_iter().flatten().next().filter(|_| !info.signed)?;
        Some((
            Reason::SignatureUnknown,
            format!(
                "{} is not signed, and whether this kernel demands that cannot be told: {why}",
                self.path()
            ),
            "let this process read that file (root may)".to_owned(),
        ))
    }

    fn legacy_client(&self) -> Answer {
        let proc = self.seen.modules.proc.as_ref().ok()?;
        proc.named("nv_peer_mem").next()?;
        Some((
            Reason::LegacyClientLoaded,
            "nv_peer_mem is loaded, which has taken the name that nvidia_peermem registers".to_owned(),
            "`rmmod nv_peer_mem`, and remove its package (nvidia-peer-memory), or it comes back at the next boot".to_owned(),
        ))
    }

    fn bad_parameter(&self) -> Answer {
        let typed = self.asked.parameters.iter().map(|text| (text.as_str(), "the command line".to_owned()));
        let given = self.peermem.parameters.iter().map(|p| (p.text.as_str(), p.source.display().to_string()));
        let (text, source) = given.chain(typed).find(|(text, _)| is_bad(text))?;
        let remedy = if source.ends_with("/cmdline") {
            "correct it in the boot loader's configuration, and reboot"
        } else {
            "correct it there (GPU Operator: the ConfigMap that driver.kernelModuleConfig names), then delete the driver pod"
        };
        let message = format!("nvidia-peermem is given {text} by {source}: it takes 0 or 1");
        Some((Reason::BadParameter, message, remedy.to_owned()))
    }

    /// `load` asks modprobe itself (`--show-depends`); the line says the same to those who may not run it.
    fn install_line(&self) -> Answer {
        let line = self.peermem.install.iter().find(|line| !runs_the_gate(&line.text))?;
        Some((
            Reason::InstallLine,
            format!(
                "{} has `install nvidia_peermem {}`: modprobe runs that command instead of loading the module, and may say that \
                 it succeeded",
                line.source.display(),
                line.text
            ),
            "remove that line, or have it run `peermem-gate load`".to_owned(),
        ))
    }

    /// A driver's package was upgraded under the nvidia that is loaded. Its file is gone, so nothing is left
    /// to compare but the two versions: nvidia-peermem's `MODULE_VERSION` is the driver's.
    fn other_driver(&self, info: &ModuleInfo) -> Answer {
        let wants_nvidia = |symbol: &String| symbol.starts_with("nvidia_p2p_");
        let is_open =
            matches!(self.peermem.nvidia, Offer::Unknown(_)) && info.versions.keys().any(wants_nvidia);
        let nvidia = self.seen.modules.sys.get("nvidia").filter(|_| is_open)?;
        let (Ok(Some(loaded)), Some(built)) = (&nvidia.version, &info.version) else { return None };
        (loaded != built).then(|| {
            (
                Reason::OtherDriverLoaded,
                format!("{} is of driver {built}, and the loaded nvidia is {loaded}", self.path()),
                "load the nvidia that it belongs to: delete the driver pod, which unloads the old one; on a host unload nvidia \
                 or reboot"
                    .to_owned(),
            )
        })
    }

    fn damaged(&self) -> Answer {
        let ModuleFile::Damaged(why) = &self.peermem.file else { return None };
        Some((
            Reason::ModuleFileDamaged,
            format!("{} is no module that a kernel could load: {}", why.path.display(), why.why),
            format!("{}; a full disk cuts files off", self.rebuild()),
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
        let remedy = if name == "nvidia" {
            "load the GPU driver's nvidia first: see the driver container's log"
        } else {
            ""
        };
        Some((
            Reason::DependencyNotLive,
            format!("{} needs {name}, which is not live", self.path()),
            remedy.to_owned(),
        ))
    }

    fn unreadable(&self) -> Answer {
        let ModuleFile::Unreadable(why) = &self.peermem.file else { return None };
        Some((
            Reason::ModuleFileUnreadable,
            format!("cannot read nvidia-peermem.ko: {why}"),
            "let this process read it (root may), or correct --driver-root".to_owned(),
        ))
    }

    fn version_unknown(&self, info: &ModuleInfo) -> Answer {
        let recorded = |symbol: &&String| info.versions.contains_key(*symbol);
        let unknown = |symbol: &&String| {
            let offer = self.offer_of(symbol)?;
            offered(offer, symbol).is_none().then_some(offer)
        };
        let (symbol, offer) =
            info.imports.iter().filter(recorded).find_map(|symbol| Some((symbol, unknown(&symbol)?)))?;
        let why = match offer {
            Offer::Unknown(why) => why.clone(),
            Offer::LoadedFile(path, _) | Offer::Symvers(path, _) => {
                format!("{} does not list it", path.display())
            }
        };
        Some((
            Reason::SymbolVersionUnknown,
            format!("cannot compare the CRC of {symbol}, which {} wants: {why}", self.path()),
            "let this process read the file of the module that exports it, or MOFED's Module.symvers"
                .to_owned(),
        ))
    }

    /// Who has to offer this symbol; `None` for the kernel's own.
    fn offer_of(&self, symbol: &str) -> Option<&Offer> {
        if PEER_MEMORY_SYMBOLS.contains(&symbol) {
            Some(&self.peermem.peer_memory)
        } else if symbol.starts_with("nvidia_p2p_") {
            Some(&self.peermem.nvidia)
        } else {
            None
        }
    }

    fn usable(&self) -> (Reason, String, String) {
        let mut message = format!("{} will load", self.path());
        if let ModuleFile::Read { info, others, listed, .. } = &self.peermem.file {
            if let Some(crc) = info.versions.get(PEER_MEMORY_SYMBOLS[0]) {
                let source =
                    offered(&self.peermem.peer_memory, PEER_MEMORY_SYMBOLS[0]).map(|(_, source)| source);
                let source = source.unwrap_or_default();
                message += &format!(
                    ": it wants {} with CRC {crc:#010x}, as {source} has it",
                    PEER_MEMORY_SYMBOLS[0]
                );
            }
            if info.versions.is_empty() {
                message += "; this kernel has no symbol versions (CONFIG_MODVERSIONS), so nothing was compared: whether it was \
                            built against this MOFED cannot be told";
            }
            if info.build_id.as_ref().is_some_and(|id| self.peermem.rebuilt.contains(id)) {
                message += "; peermem-gate rebuilt it";
            }
            if info.signed && self.signature_demanded().is_some() {
                message += "; whether the kernel trusts the key that signed it, only the kernel can tell";
            }
            if listed.is_none() {
                message += "; there is no modules.dep, and modprobe finds nothing before depmod has run";
            }
            if let Some(other) = others.first() {
                message += &format!("; {} is there too, and modprobe leaves it alone", other.display());
            }
        }
        if let Some(why) = self.peermem.parameters_unreadable.first() {
            message += &format!("; its parameters are not all known: {why}");
        }
        (Reason::Usable, message, String::new())
    }

    fn path(&self) -> String {
        let path = match &self.peermem.file {
            ModuleFile::Read { path, .. } => path.as_path(),
            _ => Path::new("nvidia-peermem.ko"),
        };
        path.display().to_string()
    }

    /// A restarted container keeps the bad module; only a new pod builds anew.
    fn rebuild(&self) -> String {
        if self.expected.precompiled {
            "take a driver image whose nvidia-peermem was built against this MOFED".to_owned()
        } else {
            "build the driver again now that this MOFED is ready: delete the driver pod (a restart of its container keeps \
             the bad module), after you removed /run/nvidia/nvidia-driver.state if it is there; on a host build it again (dkms)"
                .to_owned()
        }
    }
}

/// The line that docs/loading.md describes: the command is this program.
fn runs_the_gate(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| matches!(*word, "exec" | "env"));
    let program = words.next().and_then(|word| word.rsplit('/').next());
    program == Some("peermem-gate") && words.any(|word| word == "load")
}

/// The CRC and where it comes from.
fn offered(offer: &Offer, symbol: &str) -> Option<(u32, String)> {
    let crc = |crcs: &BTreeMap<String, u32>| crcs.get(symbol).copied();
    match offer {
        Offer::LoadedFile(path, crcs) => {
            Some((crc(crcs)?, format!("{} (the loaded module's file)", path.display())))
        }
        Offer::Symvers(path, crcs) => Some((crc(crcs)?, path.display().to_string())),
        Offer::Unknown(_) => None,
    }
}

/// The kernel folds dashes, and takes quotes away.
fn is_bad(parameter: &str) -> bool {
    let (name, value) =
        parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value)));
    let is_switch = SWITCHES.contains(&name.replace('-', "_").as_str());
    is_switch && !matches!(value.and_then(|value| number(value.trim_matches('"'))), Some(0 | 1))
}

/// An integer as the kernel reads it (kstrtoint with base 0): octal behind `0`, hexadecimal behind `0x`.
fn number(text: &str) -> Option<i64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    let is_digit = |c: char| c.is_digit(base);
    if digits.is_empty() || !digits.chars().all(is_digit) {
        return None;
    }
    i64::from_str_radix(digits, base).ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_as_the_kernel_reads_them() {
        for good in ["0", "1", "01", "001", "0x1", "0X0", "+1", "-0", "1\n", "\"1\""] {
            assert!(!is_bad(&format!("peerdirect-support={good}")), "{good:?}");
        }
        for bad in [
            "",
            "2",
            "02",
            "08",
            "0x",
            "0x2",
            "-1",
            "1 ",
            " 1",
            "yes",
            "1\n\n",
            "+-1",
            "99999999999999999999",
        ] {
            assert!(is_bad(&format!("persistent_api_support={bad}")), "{bad:?}");
        }
        assert!(is_bad("peerdirect_support") && !is_bad("anything=else"));
    }
}
