// SPDX-License-Identifier: Apache-2.0
//! The facts of a node that all actors share, and what its kernel does with modules.

/// A release of MOFED. The symbols of two releases have different CRCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Abi {
    Old,
    New,
}

/// Where loaded modules come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The kernel's own, as after a boot. Their `mlx5_core` is enough for k8s-driver-manager v0.9.0.
    Kernel,
    Mofed(Abi),
}

/// Modules that are loaded: the number tells one load from the next, as the inode in sysfs does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    pub(crate) number: u8,
    pub(crate) from: Origin,
}

/// The RDMA modules, in the two parts that come and go at different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack {
    /// `ib_core` and `ib_uverbs`: a loaded `nvidia_peermem` pins them.
    pub(crate) core: Option<Load>,
    /// `mlx5_core` and `mlx5_ib`: nothing of NVIDIA's pins them.
    pub(crate) nic: Option<Load>,
}

impl Stack {
    /// MOFED's release, if both parts are of the same one.
    pub(crate) fn abi(self) -> Option<Abi> {
        match (self.core?.from, self.nic?.from) {
            (Origin::Mofed(core), Origin::Mofed(nic)) if core == nic => Some(core),
            _ => None,
        }
    }
}

/// MOFED's `.lock`. Only the Go entrypoint makes it, and nobody removes it before the next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lock {
    Absent,
    Free,
    /// By the container with this number.
    Held(u8),
}

/// An nvidia-peermem.ko.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    /// Built without MOFED's headers: the kernel refuses it with EINVAL.
    Stub,
    /// Built with those of this release.
    Built(Abi),
}

/// The module in the node's store, which outlives each driver's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) abi: Abi,
    /// A bit of the entry differs.
    pub(crate) is_damaged: bool,
    /// The live nvidia is the one that it is for.
    pub(crate) is_of_nvidia: bool,
}

/// What the driver's root holds: it outlives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Files {
    /// The driver's own nvidia-peermem.ko. None before the driver is built, and on the fast path
    /// (gpu-driver-container#1019).
    pub(crate) driver: Option<File>,
    /// The one that the gate rebuilt, for this release: modprobe takes it first.
    pub(crate) rebuilt: Option<Abi>,
    /// nvidia.ko and NVIDIA's sources, which a rebuild needs. The fast path has neither.
    pub(crate) has_sources: bool,
    /// The gate's record: a rebuild for this release failed for good.
    pub(crate) tried: Option<Abi>,
    /// The gate's record: with this release live, the kernel refused the symbols of this other one.
    pub(crate) refused: Option<(Abi, Abi)>,
    /// The driver toolkit has built this file, and a driver's container takes it as long as that is noted
    /// (`driver_built`).
    pub(crate) toolkit: Option<File>,
}

/// A node with a Mellanox NIC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, and each comes and goes alone")]
pub(crate) struct Node {
    /// The NIC is on the bus: a reset of its firmware, a rescan or the containment of an error takes it away.
    pub(crate) has_nic: bool,
    /// The kernel compares the CRCs of symbols (`CONFIG_MODVERSIONS`). Without that it takes what was built for any
    /// MOFED; Debian's does so since 7.2.
    pub(crate) compares_crcs: bool,
    /// `.driver-ready`: the number of the container that made it.
    pub(crate) marker: Option<u8>,
    pub(crate) lock: Lock,
    pub(crate) stack: Stack,
    /// The headers that are mounted on the host.
    pub(crate) headers: Option<Abi>,
    pub(crate) files: Files,
    /// The node's keeper holds its lock: it alone loads nvidia-peermem.
    pub(crate) is_owned: bool,
    /// `.driver-ctr-ready`, where a keeper looks for it.
    pub(crate) is_driver_ready: bool,
    /// Whether `.driver-daemons-status`, if it is there, says `Ready`.
    pub(crate) daemons: Option<bool>,
    /// The driver's container does not show its root, where a keeper looks for it: its script builds, or has ended.
    pub(crate) is_root_hidden: bool,
    /// In the store of the node's keeper.
    pub(crate) stored: Option<Stored>,
    /// nvidia is loaded, so nvidia-peermem can be.
    pub(crate) has_nvidia: bool,
    /// Which load of it.
    pub(crate) nvidia: u8,
    /// `nvidia_peermem` is loaded: which load of it.
    pub(crate) peermem: Option<u8>,
    /// The module that is loaded is the one that the gate rebuilt.
    pub(crate) is_rebuilt_loaded: bool,
    /// A GPU job has it open.
    pub(crate) is_used: bool,
    /// The number of the last load of any module. Few are enough: only the next one is ever compared with it.
    pub(crate) loads: u8,
}

impl Node {
    /// After a boot: the kernel's own modules and no driver. These files are on its disk.
    pub(crate) fn booted(files: Files) -> Self {
        let own = Load { number: 0, from: Origin::Kernel };
        Self {
            has_nic: true,
            compares_crcs: true,
            marker: None,
            lock: Lock::Absent,
            stack: Stack { core: Some(own), nic: Some(own) },
            headers: None,
            files,
            is_owned: false,
            is_driver_ready: false,
            daemons: None,
            is_root_hidden: false,
            stored: None,
            has_nvidia: false,
            nvidia: 1,
            peermem: None,
            is_rebuilt_loaded: false,
            is_used: false,
            loads: 0,
        }
    }

    /// A disk on which no driver was ever built.
    pub(crate) const BARE: Files =
        Files { driver: None, rebuilt: None, has_sources: true, tried: None, refused: None, toolkit: None };

    /// Everything is ready, and `nvidia_peermem` can be loaded.
    pub(crate) fn ready() -> Self {
        let mofed = Load { number: 1, from: Origin::Mofed(Abi::New) };
        Self {
            marker: Some(1),
            lock: Lock::Held(1),
            stack: Stack { core: Some(mofed), nic: Some(mofed) },
            headers: Some(Abi::New),
            has_nvidia: true,
            loads: 1,
            ..Self::booted(Files { driver: Some(File::Built(Abi::New)), ..Self::BARE })
        }
    }

    /// The same with another file of the driver's.
    pub(crate) fn with_driver(file: Option<File>) -> Self {
        let ready = Self::ready();
        Self { files: Files { driver: file, ..ready.files }, ..ready }
    }

    /// The node has a trace of MOFED or of a NIC: without one, a node whose NIC is away looks like one without a NIC.
    pub(crate) fn is_traced(&self) -> bool {
        let Self { marker, lock, stack, headers, .. } = self;
        let is_mofeds = |load: Load| matches!(load.from, Origin::Mofed(_));
        // The kernel's own driver of the NIC is one, too.
        let has_modules = stack.core.is_some_and(is_mofeds) || stack.nic.is_some();
        marker.is_some() || *lock != Lock::Absent || headers.is_some() || has_modules
    }

    /// The file that modprobe takes.
    pub(crate) fn file(&self) -> Option<File> {
        self.files.rebuilt.map(File::Built).or(self.files.driver)
    }

    /// The release whose `ib_uverbs` is loaded.
    pub(crate) fn live_abi(&self) -> Option<Abi> {
        match self.stack.core?.from {
            Origin::Mofed(abi) => Some(abi),
            Origin::Kernel => None,
        }
    }

    /// The release that is loaded has the symbols that this file was built with.
    pub(crate) fn fits_live(&self, file: File) -> bool {
        let Some(live) = self.live_abi() else { return false };
        matches!(file, File::Built(abi) if live == abi || !self.compares_crcs)
    }

    /// The kernel would load this file: every symbol that it imports is there, with its CRC.
    pub(crate) fn fits(&self, file: File) -> bool {
        self.fits_live(file) && self.has_nvidia
    }

    /// The stored module is whole, and for exactly what is live.
    pub(crate) fn fits_stored(&self, stored: Stored) -> bool {
        self.live_abi() == Some(stored.abi) && stored.is_of_nvidia && !stored.is_damaged
    }

    /// A number for the next load.
    pub(crate) fn next_load(&mut self) -> u8 {
        self.loads = self.loads % 3 + 1;
        self.loads
    }

    /// modprobe nvidia-peermem: whether it is live afterwards.
    pub(crate) fn loads_peermem(&mut self) -> bool {
        let fits = self.file().is_some_and(|file| self.fits(file));
        if fits && self.peermem.is_none() {
            self.peermem = Some(self.next_load());
            self.is_rebuilt_loaded = self.files.rebuilt.is_some();
        }
        self.peermem.is_some()
    }

    /// The keeper's lock ends with its process.
    pub(crate) fn gives_lock_back(&mut self) {
        self.is_owned = false;
    }

    /// rmmod `nvidia_peermem`: the kernel refuses while it is in use.
    pub(crate) fn unloads_peermem(&mut self) -> bool {
        let may = self.peermem.is_some() && !self.is_used;
        if may {
            (self.peermem, self.is_rebuilt_loaded) = (None, false);
        }
        may
    }
}
