// SPDX-License-Identifier: Apache-2.0
//! The properties. Each has a name, by which a search reports it.

use super::Life;
use super::search::Scene;

/// A law that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    EarlyOpen,
    LateOpen,
    NeverOpen,
    NeverEnds,
    LoadIntoSwap,
    Refused,
    PinnedSwap,
    LostUnload,
    UnloadInUse,
    NeverLive,
    InstallIntoSwap,
    OtherHeaders,
    OtherStored,
    BuiltAgain,
    PastWake,
    StubBuilt,
    ModuleNotFound,
    LoadIntoUnload,
    TwoLoaders,
    NobodyLoads,
    ScriptEnds,
    UvmLost,
}

/// A law: the fault that breaks it, its name, and whether it is unbroken at this moment.
pub(crate) type Law = (Fault, &'static str, fn(&Scene, &Life) -> bool);

macro_rules! law {
    ($fault:ident, $name:literal) => {
        (Fault::$fault, $name, |_, life| life.fault != Some(Fault::$fault))
    };
}

/// All laws, by what is true as long as nobody breaks them.
pub(crate) const LAWS: [Law; 22] = [
    // Safety of an opening.
    law!(
        EarlyOpen,
        "no wait ends before MOFED is ready, and a gate's not before the settle time or without the NIC"
    ),
    law!(LateOpen, "no gate opens after its deadline, unless it was told to proceed"),
    // Liveness of an opening: within a time that `gated` gives.
    law!(NeverOpen, "once everything is ready, the gate opens"),
    law!(NeverEnds, "a gate with a deadline ends at it"),
    // Safety of a load.
    law!(LoadIntoSwap, "no load is cleared by a look that shows a swap"),
    law!(Refused, "the gate gives the kernel no file that a look shows to be a wrong one"),
    law!(LoadIntoUnload, "nvidia_peermem is not loaded again while another process unloads the driver"),
    law!(PinnedSwap, "nvidia_peermem is not loaded when MOFED unloads ib_core"),
    // One owner.
    law!(TwoLoaders, "while a keeper owns nvidia_peermem, nobody else loads it"),
    law!(NobodyLoads, "no modprobe is declined unless a keeper runs that loads"),
    law!(ScriptEnds, "beside a keeper no script ends because of nvidia-peermem"),
    law!(
        UvmLost,
        "the script of a driver that is deleted finds no nvidia_peermem, so nvidia_uvm does not go alone"
    ),
    // Safety of an unload.
    law!(LostUnload, "nobody unloads what MOFED is about to unload"),
    law!(UnloadInUse, "no unload is tried while a job uses it"),
    // Liveness of a load, after a rebuild where that is the cure: within a time that `patience` gives.
    law!(NeverLive, "once everything is ready, nvidia_peermem becomes live"),
    // Safety of a rebuild.
    law!(InstallIntoSwap, "no rebuilt module is installed while a look shows a swap"),
    law!(OtherHeaders, "no module is installed for another MOFED than the live one, if its file is known"),
    law!(OtherStored, "no stored module is used unless every build id fits, and none of a damaged store"),
    law!(BuiltAgain, "a build that failed for good is not repeated for the same MOFED"),
    // Rest.
    law!(PastWake, "no wake is asked for at a time that has passed"),
    // What upstream's own actors break.
    law!(StubBuilt, "no driver is built without MOFED's headers and a NIC"),
    law!(ModuleNotFound, "modprobe finds nvidia-peermem.ko"),
];

/// The name of a law.
pub(crate) fn law(fault: Fault) -> &'static str {
    LAWS.iter().find(|(of, ..)| *of == fault).expect("every fault has its law").1
}

/// What a scene is about: it has to be reached in some life, or the scene shows nothing.
pub(crate) type Sight = (&'static str, fn(&Scene, &Life) -> bool);
