// SPDX-License-Identifier: Apache-2.0
//! All that decides whether nvidia-peermem will load: its file, its parameters, and what the loaded
//! modules offer.

use crate::peermem::driver_root::{DriverRoot, built_for_a_container, driver_root, is_shown};
use crate::peermem::modprobe_conf::ModprobeSettings;
use crate::peermem::module_file::{FoundModule, Interrupted, NotAModule};
use crate::peermem::pair::{loaded_build_id, pair};
use crate::peermem::record::{Installed, RefusedVersion, record};
use crate::peermem::store::read::stored_nvidia;
use crate::peermem::unpacking::{Signature, Unpacking};
use crate::peermem::{driver_state, modprobe_conf, module_file};
use crate::process::privilege::signatures;
use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::clock::now;
use crate::ready::files::root::resolve;
use crate::ready::node::{Node, Places};
use crate::ready::observation::{
    Accepted, HeaderTree, ModuleFile, ModuleInfo, Observation, Offer, OtherFile, Peermem, REBUILT_BY, Seen,
    Symbols, Unreadable,
};
use crate::ready::probe::{Depth, Probe, file_signature, headers, is_lost};
use crate::ready::time::BootTime;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "nvidia_peermem";

/// A module that is in no file is searched for through a whole tree, so not at every look: modprobe, too, finds a new
/// file only when depmod has run, and that shows.
const ABSENT: Duration = Duration::from_secs(60);

/// Cached contents of files, kept for as long as these stay the same: nvidia.ko has 100 MB.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    /// The driver's root whose files these are.
    root: PathBuf,
    infos: Cached<Result<ModuleInfo, NotAModule>>,
    /// Of a large packed file.
    unpacking: Unpacking,
    build_ids: Cached<Result<Option<String>, NotAModule>>,
    /// By name, below a directory of modules; for as long as its modules.dep stays the same.
    found: Cached<Seen<Option<FoundModule>>>,
    /// When each of them was searched for.
    searched: BTreeMap<PathBuf, BootTime>,
    /// The peer-memory symbols of a Module.symvers.
    symvers: Cached<Seen<Exported>>,
    /// All files of nvidia-peermem, likewise.
    all: Cached<Seen<Vec<(PathBuf, PathBuf)>>>,
}

/// Symbols with their CRCs, and the module that exports them.
type Exported = (BTreeMap<String, u32>, Option<String>);

type Cached<T> = BTreeMap<PathBuf, (Signature, T)>;

/// The value of `read`, or the cached one where the state of `file` is the same.
fn cached<T: Clone>(
    cache: &mut Cached<T>,
    key: &Path,
    file: &Path,
    read: impl FnOnce() -> T,
    lasts: fn(&T) -> bool,
) -> T {
    let signature = file.metadata().ok().map(|metadata| file_signature(&metadata));
    if let Some((_, value)) = cache.get(key).filter(|(before, _)| Some(*before) == signature) {
        return value.clone();
    }
    let value = read();
    match signature {
        Some(signature) if lasts(&value) => _ = cache.insert(key.to_owned(), (signature, value.clone())),
        _ => _ = cache.remove(key),
    }
    value
}

/// A failed read may succeed later; a value that was read stays as it is.
fn was_read<T>(value: &Result<T, NotAModule>) -> bool {
    !matches!(value, Err(NotAModule::Unreadable(_)))
}

impl Inspected {
    /// Forgets the files of another root: each container of the driver may have one of its own.
    fn turn_to(&mut self, root: &Path) {
        if self.root != root {
            *self = Self { root: root.to_owned(), ..Self::default() };
        }
    }

    fn inspect(&mut self, path: &Path, interrupted: Interrupted<'_>) -> Result<ModuleInfo, NotAModule> {
        let Self { infos, unpacking, .. } = self;
        let inspect = || {
            if module_file::takes_long(path) {
                unpacking.inspect(path, interrupted)
            } else {
                module_file::inspect(path, interrupted)
            }
        };
        cached(infos, path, path, inspect, was_read)
    }

    fn build_id(&mut self, path: &Path, interrupted: Interrupted<'_>) -> Result<Option<String>, NotAModule> {
        if module_file::takes_long(path) {
            // Once for all that is asked of it.
            return Ok(self.inspect(path, interrupted)?.build_id);
        }
        cached(&mut self.build_ids, path, path, || module_file::build_id(path, interrupted), was_read)
    }

    pub(crate) fn find(&mut self, root: &Path, release: &str, name: &str) -> Seen<Option<FoundModule>> {
        let directory = module_file::directory(root, release);
        let key = directory.join(name);
        // Without one, nothing is kept.
        let modules_dep = resolve(root, &directory.join("modules.dep")).unwrap_or_default();
        let is_old = self.searched.get(&key).is_none_or(|searched| now() >= *searched + ABSENT);
        if is_old && matches!(self.found.get(&key), Some((_, Ok(None)))) {
            self.found.remove(&key);
        }
        let find = || module_file::find(root, release, name);
        let search = || {
            self.searched.insert(key.clone(), now());
            find()
        };
        let found = cached(&mut self.found, &key, &modules_dep, search, Result::is_ok);
        match found {
            // depmod has not run since.
            Ok(Some(found)) if !found.real.exists() => find(),
            found => found,
        }
    }

    /// All files of the module but this one.
    fn others(&mut self, root: &Path, release: &str, than: &Path) -> Vec<(PathBuf, PathBuf)> {
        let directory = module_file::directory(root, release);
        let modules_dep = resolve(root, &directory.join("modules.dep")).unwrap_or_default();
        let all = || module_file::all(root, release, NAME);
        let all = cached(&mut self.all, &directory, &modules_dep, all, Result::is_ok);
        all.unwrap_or_default().into_iter().filter(|(path, _)| path != than).collect()
    }
}

/// Looks at a node and at its nvidia-peermem.ko.
#[derive(Debug)]
pub struct NodeProbe<'a> {
    node: &'a Node,
    /// All but the module file.
    pub ready: Probe<'a>,
    inspected: Inspected,
}

impl<'a> NodeProbe<'a> {
    /// Reads what never changes while this container runs.
    #[must_use]
    pub fn new(node: &'a Node) -> Self {
        Self { node, ready: Probe::new(node), inspected: Inspected::default() }
    }

    /// As [`Probe::look`], and then the module file, if it is asked for: `None` also when `interrupted` became true
    /// while it was unpacked.
    pub fn look(&mut self, depth: Depth, interrupted: &mut dyn FnMut() -> bool) -> Option<Observation> {
        let seen = self.look_at_all(depth, interrupted);
        if seen.is_none() {
            self.ready.forget_look();
        }
        seen
    }

    fn look_at_all(&mut self, depth: Depth, interrupted: Interrupted<'_>) -> Option<Observation> {
        let mut seen = self.ready.look(depth, interrupted)?;
        // It matters only to a consumer that needs the build.
        if self.node.expected.needs_build() {
            seen.driver_state = driver_state::read(&self.node.places.root);
        }
        let (node, marker) = (self.node, seen.marker.clone());
        if node.expected.peermem.is_none() {
            return Some(seen);
        }
        let mut interrupted = || interrupted() || is_lost(node, depth, &marker);
        let peermem = read(&node.places, &seen, &mut self.inspected, &mut interrupted)?;
        if let ModuleFile::Read { info, .. } = &peermem.file {
            for name in &info.depends {
                self.ready.witness(&mut seen, name);
            }
        }
        seen.peermem = Some(peermem);
        Some(seen)
    }
}

/// Reads it all; `seen` is the rest of the same look. `None` when `interrupted` became true: to unpack a
/// module takes seconds.
pub(crate) fn read(
    places: &Places,
    seen: &Observation,
    inspected: &mut Inspected,
    interrupted: Interrupted<'_>,
) -> Option<Peermem> {
    let mut is_broken_off = false;
    let mut interrupted = || {
        is_broken_off |= interrupted();
        is_broken_off
    };
    let DriverRoot { path: root, rejected_pid, unreadable } = driver_root(places, &seen.kernel.release);
    inspected.turn_to(&root);
    let mut reading = Reading { places, root: &root, seen, inspected, interrupted: &mut interrupted };
    let file = unreadable.map_or_else(|| reading.file(), ModuleFile::Unreadable);
    let ModprobeSettings { parameters, install, unreadable: parameters_unreadable } =
        modprobe_conf::given(&root, &places.proc, NAME);
    let exporter = reading.exporter();
    let nvidia = reading.loaded("nvidia");
    let has =
        |info: &ModuleInfo, symbol: &str| info.versions.contains_key(symbol) || info.imports.contains(symbol);
    let is_wanted = |symbol: &str| file.info().is_some_and(|info| has(info, symbol));
    let accepted = [&exporter, &nvidia].into_iter().flatten().map(|(path, info)| Accepted {
        path: path.clone(),
        vermagic: info.vermagic.clone(),
        versions: only(&info.versions, is_wanted),
    });
    let accepted = accepted.collect();
    let installed: Option<Installed> = record(&root, &seen.kernel.release).ok().flatten();
    let installed = installed.unwrap_or_default();
    let is_ours = |info: &ModuleInfo| installed.is_for(info.build_id.as_ref(), &pair(places, seen));
    let is_for_live = file.info().is_some_and(is_ours);
    let mut rebuilt = installed.build_ids;
    // Known without any record.
    let marked = file.info().filter(|info| info.rebuilt_by.as_deref() == Some(REBUILT_BY.1));
    rebuilt.extend(marked.and_then(|info| info.build_id.clone()));
    let refused = refused(places, seen, &root);
    let loaded = if rebuilt.is_empty() { None } else { loaded_build_id(&places.sys, NAME).ok() };
    let mut peermem = Peermem {
        root: root.clone(),
        rejected_pid,
        file,
        parameters,
        parameters_unreadable,
        install,
        peer_memory: reading.peer_memory(exporter, refused.as_ref()),
        nvidia: match nvidia {
            Ok((path, info)) => {
                Offer::LoadedFile(path, only(&info.exports, |symbol| symbol.starts_with("nvidia_p2p_")))
            }
            Err(why) => stored_offer(places, seen).unwrap_or(Offer::Unknown(why)),
        },
        accepted,
        signatures: signatures(&places.sys),
        rebuilt,
        is_for_live,
        refused,
        other_files: Vec::new(),
        loaded,
    };
    if peermem.is_rebuilt() {
        peermem.other_files = reading.other_files(&peermem.file);
    }
    (!is_broken_off).then_some(peermem)
}

/// nvidia's CRCs by its build id, where its file is gone with its container.
fn stored_offer(places: &Places, seen: &Observation) -> Option<Offer> {
    let (path, crcs) = stored_nvidia(places.store.as_deref()?, &pair(places, seen))?;
    Some(Offer::LoadedFile(path, crcs))
}

/// The path and data of the loaded module's file, or why that is unknown.
type Loaded = Result<(PathBuf, ModuleInfo), String>;

struct Reading<'a> {
    places: &'a Places,
    /// Where the driver's files are now.
    root: &'a Path,
    seen: &'a Observation,
    inspected: &'a mut Inspected,
    interrupted: Interrupted<'a>,
}

impl Reading<'_> {
    fn file(&mut self) -> ModuleFile {
        let (root, release) = (self.root, &self.seen.kernel.release);
        if release.is_empty() {
            let path = self.places.proc.join("sys/kernel/osrelease");
            return ModuleFile::Unreadable(Unreadable {
                path,
                why: "the kernel's release cannot be read".to_owned(),
            });
        }
        let FoundModule { path, real, ignored_paths, listed } = match self.inspected.find(root, release, NAME)
        {
            Ok(Some(found)) => found,
            Ok(None) => match built_for_a_container(self.places) {
                Some(path) => {
                    FoundModule { real: path.clone(), path, ignored_paths: Vec::new(), listed: None }
                }
                None => return self.missing(),
            },
            Err(why) => return ModuleFile::Unreadable(why),
        };
        match self.inspected.inspect(&real, self.interrupted) {
            Ok(info) => ModuleFile::Read { path, ignored_paths, listed, info: Box::new(info) },
            Err(NotAModule::Unreadable(why)) => ModuleFile::Unreadable(why),
            Err(NotAModule::Damaged(why)) => ModuleFile::Damaged(why),
        }
    }

    /// No nvidia-peermem.ko is in the root. An unmounted root is empty, and where no container shows its root the
    /// host may have no driver of its own.
    fn missing(&mut self) -> ModuleFile {
        let Self { places, root, .. } = *self;
        let directory = module_file::directory(root, &self.seen.kernel.release);
        let may_be_elsewhere = places.finds_driver && root == places.driver_root;
        let nvidia = self.inspected.find(root, &self.seen.kernel.release, "nvidia");
        let is_away = is_shown(root) == Ok(false) || may_be_elsewhere && !matches!(nvidia, Ok(Some(_)));
        if is_away { ModuleFile::Away(directory) } else { ModuleFile::Missing(directory) }
    }

    /// The files that modprobe would take if ours were not there, as far as they can be read.
    fn other_files(&mut self, ours: &ModuleFile) -> Vec<OtherFile> {
        let ModuleFile::Read { path: ours, .. } = ours else { return Vec::new() };
        let others = self.inspected.others(self.root, &self.seen.kernel.release, ours);
        let read = |(path, real): (PathBuf, PathBuf)| {
            let info = self.inspected.inspect(&real, self.interrupted).ok()?;
            Some(OtherFile { path, info: Box::new(info) })
        };
        others.into_iter().filter_map(read).collect()
    }

    /// The module that exports peer memory, by name if the symbols could be read.
    fn exporter(&mut self) -> Loaded {
        match &self.seen.symbols {
            Symbols::ExportedBy(Some(name)) => self.loaded(name),
            Symbols::ExportedBy(None) => Err("the kernel itself exports it".to_owned()),
            // ib_uverbs since 24.07, ib_core up to 24.04.
            _ => self.loaded("ib_uverbs").and_then(|found| {
                let exports = found.1.exports.contains_key(PEER_MEMORY_SYMBOLS[0]);
                if exports { Ok(found) } else { self.loaded("ib_core") }
            }),
        }
    }

    /// The file of a loaded module: the one of the same build id.
    fn loaded(&mut self, name: &str) -> Loaded {
        let loaded = loaded_build_id(&self.places.sys, name)?;
        let mut roots = vec![self.root];
        for root in [self.places.mofed_root.as_path(), self.places.root.as_path()] {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        for root in &roots {
            let Ok(Some(found)) = self.inspected.find(root, &self.seen.kernel.release, name) else {
                continue;
            };
            if self.inspected.build_id(&found.real, self.interrupted) != Ok(Some(loaded.clone())) {
                continue;
            }
            if let Ok(info) = self.inspected.inspect(&found.real, self.interrupted) {
                return Ok((found.path, info));
            }
        }
        let roots: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
        Err(format!("no {name}.ko with the loaded one's build id can be read below {}", roots.join(" or ")))
    }

    fn peer_memory(&mut self, exporter: Loaded, refused: Option<&(String, u32)>) -> Offer {
        let ours = |crcs: &BTreeMap<String, u32>| only(crcs, |symbol| PEER_MEMORY_SYMBOLS.contains(&symbol));
        let why = match exporter {
            Ok((path, info)) if ours(&info.exports).len() == PEER_MEMORY_SYMBOLS.len() => {
                return Offer::LoadedFile(path, ours(&info.exports));
            }
            Ok((path, _)) => format!("{} does not say which CRCs it exports", path.display()),
            Err(why) => why,
        };
        let (tree, kernel_build) = (&self.seen.headers.tree, &self.seen.headers.kernel_build);
        let (path, root) = match (tree, kernel_build) {
            (_, Some((path, _))) if self.seen.is_exporter_in_tree() => {
                (path.clone(), root_of(self.places, path))
            }
            // Ubuntu 22.04's kernel exports peer memory itself, with other CRCs than MOFED.
            (HeaderTree::Taken { directory, .. }, None) if self.seen.is_exporter_in_tree() => {
                return Offer::Unknown(format!(
                    "{why}, and {} is MOFED's: the live exporter is the kernel's own",
                    directory.display()
                ));
            }
            (HeaderTree::Taken { directory, other_kernel: Some(other), .. }, _) => {
                return Offer::Unknown(format!("{why}, and {} is of kernel {other}", directory.display()));
            }
            (HeaderTree::Taken { directory, .. }, _) => {
                (directory.join("Module.symvers"), self.places.mofed_root.as_path())
            }
            (_, Some((path, _))) => (path.clone(), root_of(self.places, path)),
            _ => return Offer::Unknown(format!("{why}, and there is no Module.symvers of MOFED's")),
        };
        let file = resolve(root, &path).unwrap_or_default();
        let read = || headers::peer_memory(root, &path);
        let (crcs, built_into) = match cached(&mut self.inspected.symvers, &path, &file, read, Result::is_ok)
        {
            Ok(found) => found,
            Err(unreadable) => return Offer::Unknown(format!("{why}, and {unreadable}")),
        };
        match (&self.seen.symbols, built_into) {
            _ if crcs.is_empty() => Offer::Unknown(format!("{why}, and {} does not list it", path.display())),
            _ if refused.is_some_and(|(symbol, crc)| crcs.get(symbol) == Some(crc)) => {
                Offer::Unknown(format!(
                    "{} is not of the live RDMA stack: the kernel refused a module that was built against it",
                    path.display()
                ))
            }
            // It moved from one module to the other between two releases.
            (Symbols::ExportedBy(Some(live)), Some(built)) if *live != built => Offer::Unknown(format!(
                "{why}, and {} is of another MOFED: {built} exports it there, {live} does here",
                path.display()
            )),
            _ => Offer::Symvers(path, crcs),
        }
    }
}

/// The CRC that the kernel refused, if the same modules are still live.
fn refused(places: &Places, seen: &Observation, root: &Path) -> Option<(String, u32)> {
    let refused: RefusedVersion = record(root, &seen.kernel.release).ok().flatten()?;
    (refused.pair == pair(places, seen)).then_some((refused.symbol, refused.crc))
}

/// The live RDMA stack is the kernel's own. Where a container brings MOFED, the kernel's build tree is not read.
pub(crate) fn is_in_box(seen: &Observation) -> bool {
    seen.headers.kernel_build.is_some() && seen.is_in_box()
}

/// The root that the kernel's Module.symvers was found in.
fn root_of<'a>(places: &'a Places, path: &Path) -> &'a Path {
    if path.starts_with(&places.driver_root) { &places.driver_root } else { &places.root }
}

fn only(crcs: &BTreeMap<String, u32>, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, u32> {
    crcs.iter().filter(|(symbol, _)| wanted(symbol)).map(|(symbol, crc)| (symbol.clone(), *crc)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peermem::module_file::tests::image::Image;
    use crate::ready::observation::Symvers;
    use crate::rebuild::sample;
    use std::fs;

    const OURS: [u8; 3] = [0xab, 1, 0xff];
    const ANOTHER: [u8; 3] = [0xab, 1, 0xfe];

    fn write(path: &Path, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The file of each module is of the build `OURS`, and the loaded ones are of this build.
    fn look(loaded: [u8; 3]) -> Peermem {
        let root = tempfile::tempdir().unwrap();
        let places = sample::node(root.path()).places;
        for (name, symbols) in
            [("nvidia", &["nvidia_p2p_get_pages"][..]), ("ib_uverbs", &PEER_MEMORY_SYMBOLS)]
        {
            let mut image =
                Image::new(&[&format!("name={name}"), &format!("vermagic={} SMP", sample::RELEASE)]);
            image.build_id(&OURS);
            for symbol in symbols {
                image.export_absolute(symbol, 7);
            }
            let directory = module_file::directory(root.path(), sample::RELEASE);
            write(&directory.join(format!("kernel/{name}.ko")), image.build());

            let note = [&[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &loaded].concat();
            write(&places.sys.join("module").join(name).join("notes/.note.gnu.build-id"), note);
        }
        let mut seen = sample::seen();
        seen.headers.tree = HeaderTree::Missing;
        read(&places, &seen, &mut Inspected::default(), &mut || false).expect("nothing interrupts it")
    }

    /// A container's root has its pid or its pod's UID in its path.
    #[test]
    fn nothing_is_kept_of_a_drivers_root_that_was_replaced() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut inspected = Inspected::default();
        for root in &roots {
            let directory = module_file::directory(root.path(), sample::RELEASE);
            let vermagic = format!("vermagic={} SMP", sample::RELEASE);
            let image = Image::new(&["name=nvidia_peermem", &vermagic]).build();
            write(&directory.join("kernel/nvidia-peermem.ko"), image);
            let places = sample::node(root.path()).places;
            read(&places, &sample::seen(), &mut inspected, &mut || false).expect("nothing interrupts it");
            let kept: Vec<_> = inspected.infos.keys().collect();
            assert!(!kept.is_empty() && kept.iter().all(|path| path.starts_with(root.path())), "{kept:?}");
        }
    }

    #[test]
    fn a_module_that_is_not_there_is_searched_for_again_when_depmod_has_run() {
        let root = tempfile::tempdir().unwrap();
        let directory = module_file::directory(root.path(), sample::RELEASE);
        let mut inspected = Inspected::default();
        let mut is_found = || inspected.find(root.path(), sample::RELEASE, "nvidia").unwrap().is_some();
        write(&directory.join("modules.order"), "");
        assert!(!is_found());
        write(&directory.join("updates/nvidia.ko"), "");
        assert!(is_found(), "without a modules.dep each look searches");
        fs::remove_file(directory.join("updates/nvidia.ko")).unwrap();
        write(&directory.join("modules.dep"), "kernel/other.ko:\n");
        assert!(!is_found());
        write(&directory.join("updates/nvidia.ko"), "");
        assert!(!is_found(), "the tree is not searched at every look");
        write(&directory.join("modules.dep"), "kernel/other.ko:\nupdates/nvidia.ko:\n");
        assert!(is_found());
    }

    #[test]
    fn a_file_of_the_same_build_has_the_loaded_modules_symbols() {
        let seen = look(OURS);
        for (offer, count) in [(&seen.nvidia, 1), (&seen.peer_memory, 2)] {
            assert!(matches!(offer, Offer::LoadedFile(_, crcs) if crcs.len() == count), "{offer:?}");
        }
        assert_eq!(seen.accepted.len(), 2);
    }

    /// Ubuntu 22.04's kernel exports peer memory itself. MOFED's headers are there before its modules are.
    #[test]
    fn mofeds_headers_do_not_describe_the_kernels_own_exporter() {
        let root = tempfile::tempdir().unwrap();
        let places = sample::node(root.path()).places;
        let directory = PathBuf::from("/usr/src/ofa_kernel/x86_64").join(sample::RELEASE);
        let mofed = crate::ready::node::below(&places.mofed_root, &directory);
        write(&mofed.join("Module.symvers"), sample::symvers(7));
        let mut seen = sample::seen();
        seen.headers.tree =
            HeaderTree::Taken { directory: mofed, other_kernel: None, symvers: Symvers::WithPeerMemory };
        assert!(!seen.is_exporter_in_tree());
        let offer = |seen: &Observation| {
            read(&places, seen, &mut Inspected::default(), &mut || false)
                .expect("not interrupted")
                .peer_memory
        };
        assert!(matches!(offer(&seen), Offer::Symvers(..)), "{:?}", offer(&seen));
        seen.symbols = Symbols::ExportedBy(None);
        let offer = offer(&seen);
        assert!(matches!(&offer, Offer::Unknown(why) if why.contains("the kernel's own")), "{offer:?}");
    }

    /// An upgrade has replaced it: what is loaded has other symbols.
    #[test]
    fn a_file_of_another_build_does_not_describe_the_loaded_module() {
        let seen = look(ANOTHER);
        for offer in [&seen.nvidia, &seen.peer_memory] {
            assert!(
                matches!(offer, Offer::Unknown(why) if why.contains("with the loaded one's build id")),
                "{offer:?}"
            );
        }
        assert_eq!(seen.accepted, []);
    }
}
