// SPDX-License-Identifier: Apache-2.0
//! The door that only reads. One [`Probe::look`] gives one [`Observation`], whatever fails during the look: a failed
//! read is part of the observation.

pub mod clock;
mod fabric;
pub mod headers;
pub(crate) mod holder_start;
pub mod kernel;
pub mod lock;
pub mod marker;
pub mod modules;
mod pci;
mod symbols;

pub use fabric::address;
pub use kernel::{boot_id, own as own_kernel, read as kernel};
use marker::nearest_ancestor;
pub use modules::parse_line;
pub use pci::{MELLANOX, read as nic, vendor};

use crate::ready::condition::{ConditionType, Reason, Status};
use crate::ready::consumer::UMAD;
use crate::ready::files::{mount, read};
use crate::ready::mofed::{MofedPlace, ProviderTraces};
use crate::ready::node::{Expectations, Node, Places, below};
use crate::ready::observation::{
    DriverState, Fabric, FileId, Headers, HolderStart, Kernel, Lock, LockHolder, Management, Marker, Modules,
    Nic, Observation, ProcModule, ProcModules, ProcState, Seen, Symbols, Unreadable,
};
use crate::ready::verdict::Condition;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of nvidia-peermem's module.
pub const PEERMEM: &str = "nvidia_peermem";

/// How often a look is begun again because the node changed while the symbols were read.
const MAX_LOOKS: usize = 3;

/// How much a look reads.
#[derive(Clone, Copy, Debug)]
pub enum Depth {
    /// Everything, for a complete report.
    Full,
    /// The kernel's symbols only once this function, of all that is cheap to read, says that they are needed.
    Frugal(fn(&Expectations, &Observation) -> bool),
}

impl Depth {
    fn is_full(self) -> bool {
        matches!(self, Self::Full)
    }

    fn needs_symbols(self, expected: &Expectations, seen: &Observation) -> bool {
        match self {
            Self::Full => expected.needs(ConditionType::SymbolsExported),
            Self::Frugal(matter) => matter(expected, seen),
        }
    }
}

/// Looks at one node, again and again, and keeps what does not change between two looks.
#[derive(Debug)]
pub struct Probe<'a> {
    node: &'a Node,
    kernel: Kernel,
    private_mount: Option<PathBuf>,
    /// Real nodes have hundreds of devices, so they are searched once, and again when a device comes or goes.
    devices: Option<Devices>,
    /// The devices on a bus without a NIC, and since when after the boot, as far as is known.
    bus: Option<(u64, Duration)>,
    /// The symbols, with the signature of the modules for which they were read.
    symbols: Option<(u64, Symbols)>,
    /// The headers, with the signature of the files from which they were read.
    headers: Option<(u64, Headers, Seen<Vec<String>>)>,
    /// The values of the last look with which a quick check compares.
    quickly_checked: Option<QuickCheck>,
    /// The marker, and how long after the boot it was seen first.
    marker_seen: Option<(FileId, Option<Duration>)>,
}

/// The search for devices, with the signature of the names on the bus.
#[derive(Clone, Debug)]
struct Devices {
    signature: u64,
    nic: Nic,
    /// The management device, if it is checked.
    management: Option<Management>,
}

impl Devices {
    fn is_readable(&self) -> bool {
        !matches!(self.nic, Nic::Unreadable(_)) && !matches!(self.management, Some(Management::Unreadable(_)))
    }
}

/// Signatures of what is cheap to read.
#[derive(Debug)]
struct QuickCheck {
    marker: Marker,
    lock: (Lock, Option<i32>),
    /// The marker was compared with the start of the process that holds the lock.
    has_holder: bool,
    modules: u64,
    headers: u64,
    /// nvidia is not loaded.
    lacks_driver: bool,
}

impl<'a> Probe<'a> {
    /// Reads what never changes while this container runs, if it can be read.
    #[must_use]
    pub fn new(node: &'a Node) -> Self {
        let kernel = kernel::read(&node.places.proc);
        Self {
            node,
            kernel,
            private_mount: private_mount(node),
            devices: None,
            bus: None,
            symbols: None,
            headers: None,
            quickly_checked: None,
            marker_seen: None,
        }
    }

    /// A PCI device came or went: search again at the next look.
    pub fn forget_devices(&mut self) {
        self.devices = None;
    }

    /// The search for devices, or its earlier result if the same devices are on the bus.
    fn devices(&mut self) -> Devices {
        let sys = &self.node.places.sys;
        let signature = pci::signature(sys);
        // What could not be read may be readable by now.
        let last = self.devices.take().filter(|last| last.signature == signature && last.is_readable());
        let devices = last.unwrap_or_else(|| {
            let nic = pci::read(sys);
            let is_checked = self.node.expected.needs(ConditionType::ManagementDevicePresent);
            let management = is_checked.then(|| management(sys, &nic));
            Devices { signature, nic, management }
        });
        self.devices.insert(devices).clone()
    }

    /// How long these devices have been on the bus. A reset that takes a NIC's driver along leaves `ib_uverbs`, which
    /// the driver needs: where no other vendor's driver uses it, nothing is known of the time before the first look.
    fn bus_still(&mut self, signature: u64, modules: &Modules) -> Option<Duration> {
        let now = holder_start::uptime(&self.node.places.proc)?;
        let is_left = |uverbs: &ProcModule| uverbs.users.iter().all(|user| user == "rdma_ucm");
        let had_nic = modules.proc.as_ref().is_ok_and(|proc| proc.named("ib_uverbs").any(is_left));
        let since = match self.bus {
            Some((last, since)) if last == signature => since,
            None if !had_nic => Duration::ZERO,
            _ => now,
        };
        self.bus = Some((signature, since));
        Some(now.saturating_sub(since))
    }

    /// Looks for what Fabric Manager will look for, although `--for` does not name fabric.
    pub fn look_at_fabric(&self, seen: &mut Observation) {
        if seen.fabric.is_none() {
            seen.fabric = Some(self.fabric(management(&self.node.places.sys, &seen.nic)));
        }
        self.witness(seen, UMAD);
    }

    fn fabric(&self, management: Management) -> Fabric {
        Fabric { management, rdma_devices: fabric::rdma_devices(&self.node.places.sys) }
    }

    /// The search for a Mellanox device.
    pub fn nic(&mut self) -> Nic {
        self.devices().nic
    }

    /// Looks at everything except nvidia-peermem.ko. `None` when `interrupted` became true while the kernel's symbols
    /// were read, or when the marker disappeared: the observation would be out of date.
    pub fn look(&mut self, depth: Depth, interrupted: &mut dyn FnMut() -> bool) -> Option<Observation> {
        for _ in 0..MAX_LOOKS {
            let mut seen = self.look_at_all_but_symbols(depth);
            if !depth.needs_symbols(&self.node.expected, &seen) {
                return Some(seen);
            }
            seen.symbols = if let Some(symbols) = self.symbols_read_for(&seen) {
                symbols
            } else {
                let symbols = self.read_symbols(&seen, depth, interrupted)?;
                if self.is_outdated(&seen) {
                    continue;
                }
                symbols
            };
            // The second witness of the exporter is judged like the modules of `--module`.
            if let Symbols::ExportedBy(Some(name)) = seen.symbols.clone() {
                self.witness(&mut seen, &name);
            }
            return Some(seen);
        }
        // The modules change faster than their symbols can be read.
        Some(self.look_at_all_but_symbols(depth))
    }

    /// Whether the marker or the modules changed while the symbols were read, which takes a while.
    fn is_outdated(&self, seen: &Observation) -> bool {
        let modules = modules_signature(&self.proc_modules()) != modules_signature(&seen.modules.proc);
        modules
            || marker(self.node) != seen.marker
            || self.lock(&seen.marker) != (seen.lock.clone(), seen.lock_holder)
    }

    fn look_at_all_but_symbols(&mut self, depth: Depth) -> Observation {
        // It never changes, but the first read may have failed, or /proc may have been mounted since.
        if self.kernel.release.is_empty() || self.kernel.boot_id.is_none() {
            self.kernel = kernel::read(&self.node.places.proc);
        }
        let Devices { signature, nic, management } = self.devices();
        let fabric = management.map(|management| self.fabric(management));
        let marker = marker(self.node);
        let marker_seen = self.marker_seen(&marker);
        let (lock, lock_holder) = self.lock(&marker);
        let holder_start = holder_start::read(&self.node.places, lock_holder, marker_seen);
        let modules = self.modules();
        // A single look cannot wait.
        let matters = !depth.is_full() && nic == Nic::None;
        let bus_still = if matters { self.bus_still(signature, &modules) } else { None };
        // A single whole look has nothing to compare with.
        let signature = if depth.is_full() { 0 } else { self.headers_signature() };
        let (headers, header_versions) = self.headers(signature);
        self.quickly_checked = Some(QuickCheck {
            marker: marker.clone(),
            lock: (lock.clone(), lock_holder),
            has_holder: holder_start != HolderStart::NotRead,
            modules: modules_signature(&modules.proc),
            headers: signature,
            lacks_driver: modules.proc.as_ref().is_ok_and(|proc| proc.named("nvidia").next().is_none()),
        });
        Observation {
            kernel: self.kernel.clone(),
            nic,
            bus_still,
            fabric,
            marker,
            private_mount: self.private_mount.clone(),
            lock,
            lock_holder,
            holder_start,
            modules,
            symbols: Symbols::NotRead,
            headers,
            header_versions,
            driver_state: DriverState::NotRead,
            peermem: None,
        }
    }

    /// Adds what /sys/module shows of one more module.
    pub(crate) fn witness(&self, seen: &mut Observation, name: &str) {
        let read = || modules::read_sys(&self.node.places.sys, name);
        seen.modules.sys.entry(name.to_owned()).or_insert_with(read);
    }

    /// The last look was broken off, so there is no verdict of what it saw.
    pub(crate) fn forget_look(&mut self) {
        self.quickly_checked = None;
    }

    /// A quick check: may the condition that the gate waits for, or anything if it waits for none, have changed
    /// since the last look? It reads only what that needs, and what it cannot see counts as changed, except a marker
    /// or a lock that still cannot be read for the same reason.
    #[must_use]
    pub fn changed(&self, unmet: Option<&Condition>) -> bool {
        let Some(last) = &self.quickly_checked else { return true };
        let marker = || marker(self.node) != last.marker;
        let lock = || self.lock(&last.marker) != last.lock;
        let modules = || self.glimpsed_modules() != last.modules;
        let headers = || self.headers_signature() != last.headers;
        let are_new = |devices: &Devices| devices.signature != pci::signature(&self.node.places.sys);
        let devices = || self.devices.as_ref().is_none_or(are_new);
        let stack = || marker() || lock() || modules();
        // A loaded module needs no headers; the next load looks at them again.
        let Some(unmet) = unmet else { return stack() };
        match unmet.r#type {
            // The process that holds the lock grows older, and the marker may then be its own.
            ConditionType::MarkerTrusted if last.has_holder => true,
            // The modules count without a marker, too: the message names what uses nvidia_peermem. Why the marker or
            // the lock cannot be read is compared with them.
            ConditionType::MarkerTrusted | ConditionType::MarkerPresent => stack(),
            _ if unmet.status != Status::False => true,
            // The environment does not change.
            ConditionType::RdmaRequested => false,
            ConditionType::NicPresent => devices() || stack(),
            ConditionType::ModulesLive
            | ConditionType::ModulesFromMofed
            | ConditionType::UmadLive
            | ConditionType::SymbolsExported => marker() || modules(),
            ConditionType::HeadersReady => marker() || modules() || headers(),
            ConditionType::Settled => stack() || headers(),
            // Without the driver, the kernel accepts no file of nvidia-peermem, so its changes do not matter.
            _ if last.lacks_driver && unmet.reason == Reason::DependencyNotLive => stack(),
            _ => true,
        }
    }

    /// When an earlier look saw this very marker first.
    fn marker_seen(&mut self, marker: &Marker) -> Option<Duration> {
        let Marker::Present(id) = marker else {
            self.marker_seen = None;
            return None;
        };
        match self.marker_seen {
            Some((seen, at)) if seen == *id => at,
            _ => {
                self.marker_seen = Some((*id, holder_start::uptime(&self.node.places.proc)));
                None
            }
        }
    }

    /// With a marker the lock decides whether to trust it; without one it only shows whether MOFED runs.
    fn lock(&self, marker: &Marker) -> (Lock, Option<i32>) {
        let places = &self.node.places;
        let read = || lock::read(&places.root, &places.proc, &places.lock);
        match marker {
            Marker::Present(_) => read(),
            Marker::Absent | Marker::ParentMissing(_) => (read().0, None),
            _ => (Lock::NoFile, None),
        }
    }

    /// The signature of the modules, without a list of them: musl's malloc would map and unmap pages for it at every
    /// quick check.
    fn glimpsed_modules(&self) -> u64 {
        let mut signature = ModulesSignature::default();
        let garbled = modules::each_of_proc(&self.node.places.proc.join("modules"), |m| {
            signature.add((m.name, m.refcount, m.state, m.address, m.taint));
        });
        signature.end(garbled.as_ref())
    }

    fn proc_modules(&self) -> Seen<ProcModules> {
        modules::read_proc(&self.node.places.proc.join("modules"))
    }

    fn modules(&self) -> Modules {
        let places = &self.node.places;
        let proc = self.proc_modules();
        // mlx5_core has the version, whether `--module` names it or not.
        let expected = &self.node.expected;
        let peermem = expected.peermem.iter().flat_map(|_| ["nvidia", PEERMEM]);
        let names: BTreeSet<_> = expected.all_modules().chain(["mlx5_core"]).chain(peermem).collect();
        modules::both((&places.proc, &places.sys), proc, names.into_iter())
    }

    fn symbols_read_for(&self, seen: &Observation) -> Option<Symbols> {
        let signature = symbols_signature(seen);
        self.symbols
            .as_ref()
            .filter(|(read_for, _)| *read_for == signature)
            .map(|(_, symbols)| symbols.clone())
    }

    fn read_symbols(
        &mut self,
        seen: &Observation,
        depth: Depth,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Option<Symbols> {
        let mut broken_off = || interrupted() || is_lost(self.node, depth, &seen.marker);
        let symbols = symbols::read(&self.node.places.proc.join("kallsyms"), &mut broken_off)?;
        // What could not be read may be readable by now, with no module changed.
        let lasts = !matches!(symbols, Symbols::Unreadable(_));
        self.symbols = lasts.then(|| (symbols_signature(seen), symbols.clone()));
        Some(symbols)
    }

    fn headers(&mut self, signature: u64) -> (Headers, Seen<Vec<String>>) {
        if let Some((_, headers, versions)) =
            self.headers.as_ref().filter(|(read_for, ..)| *read_for == signature)
        {
            return (headers.clone(), versions.clone());
        }
        let places = &self.node.places;
        let headers = Headers {
            root: headers::ofa_kernel(&places.mofed_root),
            tree: headers::read(&places.mofed_root, &self.kernel),
            kernel_build: self.node.expected.mofed.is_on_host().then(|| {
                let (root, path) = self.kernel_symvers();
                let symvers = headers::symvers(root, &path);
                (path, symvers)
            }),
        };
        let versions = headers::versions(&places.mofed_root);
        // What could not be read may be readable by now, with nothing else changed.
        let is_readable = headers.is_readable() && versions.is_ok();
        self.headers = is_readable.then(|| (signature, headers.clone(), versions.clone()));
        (headers, versions)
    }

    /// The kernel's own Module.symvers, and the root that it is in: the driver's, where NVIDIA's build reads it.
    fn kernel_symvers(&self) -> (&Path, PathBuf) {
        let places = &self.node.places;
        let at = |root| (root, headers::kernel_symvers(root, &self.kernel.release));
        let in_driver_root = at(places.driver_root.as_path());
        let is_there = read::metadata(in_driver_root.0, &in_driver_root.1).is_ok();
        if is_there { in_driver_root } else { at(&places.root) }
    }

    /// A signature that changes when a file changes from which the headers were read. Links are followed as in the
    /// reading.
    fn headers_signature(&self) -> u64 {
        let root = &self.node.places.mofed_root;
        let metadata = |path: &Path| read::metadata(root, path).ok();
        let signature = |path: &Path| metadata(path).as_ref().map(file_signature);
        let tree = signature(&headers::ofa_kernel(root));
        let mut all = vec![signature(&root.join("usr/src")), tree];
        // As in the reading: nothing below a missing tree, and nothing after the first directory.
        let candidates = headers::candidates(root, &self.kernel);
        for candidate in candidates.iter().take_while(|_| tree.is_some()) {
            let found = metadata(candidate);
            all.push(found.as_ref().map(file_signature));
            if found.is_some_and(|found| found.is_dir()) {
                all.push(signature(&candidate.join("Module.symvers")));
                break;
            }
        }
        if self.node.expected.mofed.is_on_host() {
            let (root, path) = self.kernel_symvers();
            let real = read::metadata(root, &path);
            all.push(real.as_ref().ok().map(file_signature));
        }
        hash(&all)
    }
}

/// The management devices. If no device is Mellanox's, there is nothing to search.
fn management(sys: &Path, nic: &Nic) -> Management {
    if *nic == Nic::None { Management::None } else { fabric::management(sys) }
}

/// MOFED's directory, if it is on a private mount. Below `--root` that would say nothing about the gate's container.
fn private_mount(node: &Node) -> Option<PathBuf> {
    let own = node.places.root == Path::new("/") && node.expected.mofed == MofedPlace::Container;
    own.then(|| mount::private_mount(&nearest_ancestor(&node.places.marker))).flatten()
}

fn marker(node: &Node) -> Marker {
    match node.expected.mofed {
        MofedPlace::Container => marker::read(&node.places.root, &node.places.marker),
        MofedPlace::Host | MofedPlace::InBox => Marker::Absent,
    }
}

/// The marker disappeared during a look. A report is wanted in any case; a wait needs no look without a marker.
pub(crate) fn is_lost(node: &Node, depth: Depth, was: &Marker) -> bool {
    let is_needed = !depth.is_full() && matches!(was, Marker::Present(_));
    is_needed && !matches!(marker(node), Marker::Present(_))
}

/// Reads the marker and the modules. That is quick, and enough to decide on an unload: while `nvidia_peermem` is not
/// listed, MOFED's modules are read only if `all` is set.
#[must_use]
pub fn glimpse(node: &Node, all: bool) -> (Marker, Modules) {
    let marker = marker(node);
    let proc = modules::read_proc(&node.places.proc.join("modules"));
    let is_read = all || proc.as_ref().map_or(true, |proc| proc.named(PEERMEM).next().is_some());
    let names = node.expected.modules.iter().map(String::as_str).filter(|_| is_read).chain([PEERMEM]);
    (marker, modules::both((&node.places.proc, &node.places.sys), proc, names))
}

/// Which process holds MOFED's lock.
#[must_use]
pub fn lock_holder(places: &Places) -> LockHolder {
    let (lock, process) = lock::read(&places.root, &places.proc, &places.lock);
    LockHolder::of(&lock, process)
}

/// The files of MOFED's headers that NVIDIA's build would look for, in its order.
#[must_use]
pub fn header_files(node: &Node) -> Vec<PathBuf> {
    let kernel = kernel::read(&node.places.proc);
    let directories = headers::candidates(&node.places.mofed_root, &kernel);
    directories.into_iter().map(|directory| directory.join("Module.symvers")).collect()
}

/// A text file of a megabyte at most.
///
/// # Errors
/// In the system's words.
pub fn text(path: &Path) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        read::open(path)?.take(1 << 20).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| read::unreadable(path, &error).why)
}

/// Does /proc/modules list `nvidia_peermem`?
///
/// # Errors
/// It cannot be read.
pub fn is_listed(places: &Places) -> Seen<bool> {
    let proc = modules::read_proc(&places.proc.join("modules"))?;
    Ok(proc.named(PEERMEM).next().is_some())
}

/// The traces of MOFED on this node.
#[must_use]
pub fn mofed_traces(places: &Places) -> ProviderTraces {
    let headers = |root: &str| below(&places.root, Path::new(root)).join("usr/src/ofa_kernel");
    let seen = |path: &Path| read::there(path, path.symlink_metadata());
    let container = [&places.marker, &places.lock, &headers("/run/mellanox/drivers")].map(|path| seen(path));
    ProviderTraces {
        container: container.iter().any(|seen| matches!(seen, Ok(Some(_)))),
        is_unread: container.iter().any(Result::is_err),
        host: is_there(&headers("/")),
    }
}

/// What cannot be read is not there.
pub(crate) fn is_there(path: &Path) -> bool {
    matches!(read::there(path, path.symlink_metadata()), Ok(Some(_)))
}

pub(crate) fn file_signature(metadata: &Metadata) -> (u64, u64, u64, i64, i64) {
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec())
}

/// The signature of the modules for the symbols. It leaves out `nvidia_peermem`, which exports no symbol that counts,
/// and which `keep` loads and unloads.
fn symbols_signature(seen: &Observation) -> u64 {
    let mut modules = seen.modules.proc.clone();
    if let Ok(proc) = &mut modules {
        proc.modules.retain(|module| module.name != PEERMEM);
    }
    let mut inodes = seen.identity().modules;
    inodes.remove(PEERMEM);
    hash(&(modules_signature(&modules), inodes))
}

/// The signature of the modules. It leaves out the reference counts, which change all day, except that of
/// `nvidia_peermem`, and the size, which shrinks when a live module's init section is freed.
fn modules_signature(proc: &Seen<ProcModules>) -> u64 {
    let mut signature = ModulesSignature::default();
    for m in proc.iter().flat_map(|proc| &proc.modules) {
        signature.add((&m.name, m.refcount, m.state, &m.address, &m.taint));
    }
    signature.end(proc.as_ref().map(|proc| &proc.garbled))
}

/// A hash of the fields of /proc/modules that may change a verdict.
#[derive(Default)]
struct ModulesSignature(DefaultHasher);

impl ModulesSignature {
    fn add(&mut self, (name, refcount, state, address, taint): (&str, Option<i64>, ProcState, &str, &str)) {
        let refcount = (name == PEERMEM).then_some(refcount);
        (name, state, address, taint, refcount).hash(&mut self.0);
    }

    fn end(mut self, garbled: Result<&Option<String>, &Unreadable>) -> u64 {
        match garbled {
            Ok(garbled) => garbled.hash(&mut self.0),
            // A list that was cut off counts as unreadable, whatever it began with.
            Err(why) => return hash(why),
        }
        self.0.finish()
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
