// SPDX-License-Identifier: Apache-2.0
//! From what was found to what will be done, or to what is in the way.

#[cfg(test)]
mod tests;

use super::{Kind, Material, Obstacle, Pair, ROOM, Signing, Sources, Tool, preference, recipe};
use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::{not_live, state};
use crate::ready::observation::{Observation, Offer, Signatures};
use crate::ready::verdict::{Condition, Outcome, Verdict};
use crate::text::Page;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Who builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Builder {
    /// `make` in a copy of these sources; the kernel's build tree is named where its modules do not.
    Make {
        /// `make`, as seen from inside the build's root.
        make: PathBuf,
        /// NVIDIA's sources.
        sources: Sources,
        /// The kernel's build tree, likewise.
        headers: PathBuf,
        /// `make` needs its path.
        names_headers: bool,
        /// The compiler, where it is not the `cc` that NVIDIA's Makefile calls.
        compiler: Option<String>,
    },
    /// A program of the user's.
    Program(PathBuf),
    /// Nobody: the node's store has a module for exactly this.
    Stored(PathBuf, Pair),
}

/// A rebuild that can be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Why: the reason of `PeermemUsable`.
    pub reason: Reason,
    /// The driver's root, as this process sees it.
    pub driver_root: PathBuf,
    /// The root that the build runs in, likewise.
    pub build_root: PathBuf,
    /// The kernel's release and machine.
    pub kernel: (String, String),
    /// The live nvidia's version.
    pub nvidia_version: String,
    /// Who builds.
    pub builder: Builder,
    /// The Module.symvers that is taken, and its text.
    pub symvers: (PathBuf, String),
    /// That file is the kernel's own: the build finds its symbols without us.
    pub symvers_are_kernels: bool,
    /// nvidia.ko's file, and the CRCs of its exports.
    pub nvidia: (PathBuf, BTreeMap<String, u32>),
    /// What signs the module, where the kernel demands that. Only a stored one does without sign-file: it is signed.
    pub signing: Option<Signing>,
    /// `depmod`, as seen from inside the driver's root.
    pub depmod: PathBuf,
    /// How many jobs make may run at a time.
    pub jobs: usize,
}

impl Plan {
    /// The Module.symvers that the build is given: nvidia's symbols, and MOFED's. The kernel's own are in its build
    /// tree, and modpost refuses to see them twice ("exported twice").
    #[must_use]
    pub fn extra_symvers(&self) -> Option<String> {
        let (mofed, nvidia) = (self.symvers.1.as_str(), &self.nvidia.1);
        let of_nvidia = recipe::nvidia_symvers(mofed, nvidia)?;
        Some(if self.symvers_are_kernels { of_nvidia } else { mofed.to_owned() + &of_nvidia })
    }

    /// Where the module goes, as seen from inside the driver's root.
    #[must_use]
    pub fn target(&self) -> PathBuf {
        target(&self.kernel.0)
    }

    /// `make`'s arguments. `copy` is the copy of the sources as make sees it.
    #[must_use]
    pub fn arguments(&self, copy: &Path) -> Vec<OsString> {
        let Builder::Make { headers, names_headers, compiler, .. } = &self.builder else { return Vec::new() };
        let headers = names_headers.then_some(headers.as_path());
        recipe::arguments(copy, &self.kernel.0, headers, compiler.as_deref(), self.jobs)
    }

    /// The plan for a person, a line for each step. `copy` is where the build will be.
    #[must_use]
    pub fn text(&self, copy: &Path) -> String {
        let mut page = Page::default();
        let root = self.driver_root.display();
        page.line(format_args!(
            "nvidia-peermem.ko can be rebuilt ({}): everything needed exists",
            self.reason
        ));
        page.line(format_args!("driver's root: {root}"));
        page.line(format_args!("kernel: {} ({})", self.kernel.0, self.kernel.1));
        page.line(format_args!("nvidia: {}, symbols from {}", self.nvidia_version, self.nvidia.0.display()));
        for (symbol, crc) in &self.nvidia.1 {
            page.line(format_args!("  {crc:#010x} {symbol}"));
        }
        let stack = if self.symvers_are_kernels { "the kernel's own RDMA stack" } else { "MOFED" };
        page.line(format_args!("{stack}: symbols from {}", self.symvers.0.display()));
        match &self.builder {
            Builder::Make { make, sources, headers, .. } => {
                let arguments = self.arguments(copy);
                let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
                if self.build_root != self.driver_root {
                    page.line(format_args!("built in: {}", self.build_root.display()));
                }
                page.line(format_args!("sources: {}", sources.directory.display()));
                page.line(format_args!("kernel headers: {}", headers.display()));
                page.line(format_args!("copy: {}", copy.display()));
                page.line(format_args!("build: {} {}", make.display(), words.join(" ")));
            }
            Builder::Program(program) => page.line(format_args!("build: {}", program.display())),
            Builder::Stored(entry, _) => page.line(format_args!("module: from {}", entry.display())),
        }
        if let Some(Signing { directory, program: Some(program), hash, .. }) = &self.signing {
            let (program, directory) = (program.display(), directory.display());
            page.line(format_args!("sign: {program} {hash}, with the key in {directory}"));
        }
        page.line(format_args!("install: {}", self.target().display()));
        page.line(format_args!("prefer: {}", preference::path(&self.kernel.0).display()));
        page.line(format_args!("then: {} {}", self.depmod.display(), self.kernel.0));
        page.into_text()
    }
}

/// The only file that is ever installed, as seen from inside the driver's root.
#[must_use]
pub fn target(release: &str) -> PathBuf {
    Path::new("/lib/modules").join(release).join("updates").join(recipe::MODULE)
}

/// The rebuild to do: by the user's program, or from NVIDIA's sources. Obstacles come in the order of
/// [`Kind::ALL`].
///
/// # Errors
/// The first obstacle.
pub fn plan(
    program: Option<&Path>,
    verdict: &Verdict,
    seen: &Observation,
    material: &Material,
) -> Result<Plan, Obstacle> {
    let reason = curable(verdict, seen)?;
    let signing = signing(seen, material)?;
    let nvidia_version = nvidia_version(seen)?;
    let nvidia = nvidia(material)?;
    let symvers = || symvers(seen, material, &nvidia.1);
    let (builder, symvers) = if let Some(program) = program {
        (Builder::Program(program.to_owned()), symvers()?)
    } else if let Some(stored) = &material.stored {
        (Builder::Stored(stored.clone(), material.pair.clone()), (PathBuf::new(), String::new()))
    } else {
        let (sources, headers) = (sources(material, &nvidia_version)?, headers(material)?);
        let symvers = symvers()?;
        (make(material, sources, headers)?, symvers)
    };
    let depmod = tool(material, Tool::Depmod, "depmod")?;
    place(material)?;
    Ok(Plan {
        reason,
        driver_root: material.driver_root.clone(),
        build_root: material.build_root.clone(),
        kernel: (seen.kernel.release.clone(), seen.kernel.machine.clone()),
        nvidia_version,
        builder,
        symvers,
        symvers_are_kernels: material.symvers_are_kernels,
        nvidia,
        signing,
        depmod,
        jobs: material.jobs,
    })
}

/// The reason that a rebuild cures.
fn curable(verdict: &Verdict, seen: &Observation) -> Result<Reason, Obstacle> {
    if verdict.outcome == Outcome::NotApplicable {
        let why = verdict.deciding().map(|c| c.message.clone()).unwrap_or_default();
        return Err(Obstacle::new(Kind::DoesNotApply, why));
    }
    match not_live(&state(&seen.modules, "nvidia_peermem")) {
        None => return Err(Obstacle::new(Kind::Loaded, "nvidia_peermem is loaded")),
        Some((Reason::ModuleNotLoaded, _)) => {}
        Some((_, why)) => return Err(Obstacle::new(Kind::NotReady, format!("nvidia_peermem: {why}"))),
    }
    let says = |c: &Condition| format!("{}: {}: {}", c.r#type, c.reason, c.message);
    let is_other =
        |c: &&Condition| !matches!(c.r#type, ConditionType::PeermemUsable | ConditionType::Settled);
    if let Some(other) = verdict.unmet().find(is_other) {
        return Err(Obstacle::new(Kind::NotReady, says(other)));
    }
    match verdict.get(ConditionType::PeermemUsable) {
        Some(peermem) if peermem.reason.needs_rebuild() && verdict.needs_rebuild() => Ok(peermem.reason),
        Some(peermem) => Err(Obstacle::new(Kind::NotCurable, says(peermem))),
        None => Err(Obstacle::new(Kind::NotCurable, "nvidia-peermem was not inspected")),
    }
}

/// What signs the module; `None` where the kernel demands no signature.
fn signing(seen: &Observation, material: &Material) -> Result<Option<Signing>, Obstacle> {
    let Some(why) = demanded(seen)? else { return Ok(None) };
    let enforced =
        || Obstacle::new(Kind::SignaturesEnforced, format!("{why}, but a module built here is not signed"));
    let signing = material.signing.as_ref().ok_or_else(enforced)?;
    if let Some(why) = &signing.unusable {
        return Err(Obstacle::new(Kind::SigningKeyUnusable, why.clone()));
    }
    if signing.program.is_none() && material.stored.is_none() {
        let why = "the kernel's build tree has no scripts/sign-file, which signs modules";
        return Err(Obstacle::new(Kind::HeadersMissing, why));
    }
    Ok(Some(signing.clone()))
}

/// By what the kernel demands a signature, if it does.
fn demanded(seen: &Observation) -> Result<Option<String>, Obstacle> {
    let Some(peermem) = &seen.peermem else { return Ok(None) };
    let Signatures { enforced, lockdown } = &peermem.signatures;
    match (enforced, lockdown) {
        (Ok(Some(true)), _) => Ok(Some("module.sig_enforce is on".to_owned())),
        (_, Ok(Some(mode))) if mode != "none" => Ok(Some(format!("the kernel is locked down ({mode})"))),
        (Err(why), _) | (_, Err(why)) => Err(Obstacle::new(Kind::SignaturesUnknown, why.to_string())),
        _ => Ok(None),
    }
}

fn nvidia_version(seen: &Observation) -> Result<String, Obstacle> {
    match seen.modules.sys.get("nvidia").map(|nvidia| &nvidia.version) {
        Some(Ok(Some(version))) => Ok(version.clone()),
        Some(Err(why)) => Err(Obstacle::new(Kind::NvidiaNotLive, why.to_string())),
        _ => Err(Obstacle::new(Kind::NvidiaNotLive, "nvidia is not loaded, or has no version in sysfs")),
    }
}

fn nvidia(material: &Material) -> Result<(PathBuf, BTreeMap<String, u32>), Obstacle> {
    match &material.nvidia {
        Err(why) => Err(Obstacle::new(Kind::NvidiaFileMissing, why.clone())),
        Ok((path, crcs)) if crcs.is_empty() => {
            let why = format!("{} does not show which nvidia_p2p_* symbols it exports", path.display());
            Err(Obstacle::new(Kind::NvidiaWithoutVersions, why))
        }
        Ok(found) => Ok(found.clone()),
    }
}

fn headers(material: &Material) -> Result<PathBuf, Obstacle> {
    material.headers.clone().ok_or_else(|| {
        let places = recipe::header_places(&material.pair.kernel);
        let places: Vec<_> = places.map(|place| place.display().to_string()).collect();
        let why = format!(
            "below {} none of these is a kernel's build tree: {}",
            material.build_root.display(),
            places.join(", ")
        );
        Obstacle::new(Kind::HeadersMissing, why)
    })
}

fn make(material: &Material, sources: &Sources, headers: PathBuf) -> Result<Builder, Obstacle> {
    let compiler = tool(material, Tool::Compiler, "cc or gcc")?;
    let compiler = compiler.file_name().filter(|name| *name != "cc");
    Ok(Builder::Make {
        compiler: compiler.map(|name| name.to_string_lossy().into_owned()),
        make: tool(material, Tool::Make, "make")?,
        sources: sources.clone(),
        headers,
        names_headers: !material.headers_are_linked,
    })
}

fn sources<'a>(material: &'a Material, version: &str) -> Result<&'a Sources, Obstacle> {
    let Some(first) = material.sources.first() else {
        let why = format!(
            "there are no sources of nvidia {version} below {} (no {})",
            material.driver_root.join("usr/src").display(),
            recipe::KNOWN_BY
        );
        return Err(Obstacle::new(Kind::SourcesMissing, why));
    };
    let of_version = |sources: &&Sources| sources.version.as_deref() == Some(version);
    let Some(sources) = material.sources.iter().find(of_version) else {
        let theirs = first.version.as_deref().unwrap_or("an unknown version");
        let why = format!("{} is of {theirs}, but the live nvidia is {version}", first.directory.display());
        return Err(Obstacle::new(Kind::VersionDiffers, why));
    };
    match &sources.misfit {
        Some(why) => {
            Err(Obstacle::new(Kind::RecipeDoesNotFit, format!("{}: {why}", sources.directory.display())))
        }
        None => Ok(sources),
    }
}

/// MOFED's Module.symvers, if the live stack is the one that it is of.
fn symvers(
    seen: &Observation,
    material: &Material,
    nvidia: &BTreeMap<String, u32>,
) -> Result<(PathBuf, String), Obstacle> {
    let unusable = |why: String| Obstacle::new(Kind::SymversUnusable, why);
    let (path, text) = material.symvers.as_ref().map_err(|why| unusable(why.to_string()))?;
    if recipe::nvidia_symvers(text, nvidia).is_none() {
        return Err(unusable(format!("{} does not list both peer-memory symbols", path.display())));
    }
    let live = match seen.peermem.as_ref().map(|peermem| &peermem.peer_memory) {
        Some(Offer::LoadedFile(file, crcs)) => Some((file, crcs)),
        Some(Offer::Unknown(why)) => return Err(unusable(why.clone())),
        // Without CRCs only the live modules' own files show that these headers came with them.
        _ if !material.symvers_are_kernels && nvidia.values().all(|crc| *crc == 0) => {
            return Err(unusable(format!(
                "this kernel has no symbol versions, and no file of the live RDMA modules was found: unknown \
                    whether {} is of the same MOFED",
                path.display()
            )));
        }
        _ => None,
    };
    for symbol in PEER_MEMORY_SYMBOLS {
        let entry = text.lines().find(|line| line.split('\t').nth(1) == Some(symbol)).unwrap_or_default();
        let crc =
            entry.split('\t').next().and_then(|crc| u32::from_str_radix(crc.strip_prefix("0x")?, 16).ok());
        let differs = live
            .and_then(|(file, crcs)| Some((file, *crcs.get(symbol)?)))
            .filter(|(_, live)| crc != Some(*live));
        if let Some((file, live)) = differs {
            return Err(unusable(format!(
                "{} is of another {}: {symbol} has another CRC there than {live:#010x}, which {} (loaded) has",
                path.display(),
                if material.symvers_are_kernels { "kernel" } else { "MOFED" },
                file.display()
            )));
        }
    }
    Ok((path.clone(), text.clone()))
}

fn tool(material: &Material, tool: Tool, name: &str) -> Result<PathBuf, Obstacle> {
    material.tools.get(&tool).cloned().ok_or_else(|| {
        Obstacle::new(
            Kind::ToolMissing,
            format!("there is no {name} below {}", material.root_of(tool).display()),
        )
    })
}

fn place(material: &Material) -> Result<(), Obstacle> {
    if let Some(why) = &material.unwritable {
        return Err(Obstacle::new(Kind::Unwritable, why.clone()));
    }
    if let Some(why) = &material.exposed {
        return Err(Obstacle::new(Kind::Exposed, why.clone()));
    }
    if let Some(free) = material.free.filter(|free| *free < ROOM) {
        let why = format!(
            "{} MiB are free below {}, but {} MiB are needed",
            free >> 20,
            material.driver_root.display(),
            ROOM >> 20
        );
        return Err(Obstacle::new(Kind::NoRoom, why));
    }
    if let Some(path) = &material.foreign {
        return Err(Obstacle::new(
            Kind::ForeignFile,
            format!("peermem-gate did not install the existing {}", path.display()),
        ));
    }
    match &material.tried {
        Some(why) => Err(Obstacle::new(Kind::AlreadyTried, why.clone())),
        None => Ok(()),
    }
}
