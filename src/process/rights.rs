// SPDX-License-Identifier: Apache-2.0
//! The rights of a privileged container, given up where they are not needed.

use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// Gives up every capability, for this process and all that it starts. Its user stays what it is.
///
/// # Errors
/// As prctl(2) and capset(2). No right is gained then, and some may be gone.
pub fn give_up() -> io::Result<()> {
    // Those that this kernel does not know are not in the set either.
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    clear_ambient_capability_set()?;
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
