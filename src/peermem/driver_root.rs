// SPDX-License-Identifier: Apache-2.0
//! Where the GPU driver's files are, found in one way for every verb that looks for them.

use crate::peermem::module_file;
use crate::ready::files::read::{metadata, present, there};
use crate::ready::files::root::resolve;
use crate::ready::node::{Places, below};
use crate::ready::observation::{Seen, Unreadable};
use crate::ready::probe::kernel;
use crate::ready::probe::lock::{is_held_by, shows_the_host};
use crate::survey::pods::built;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a driver container shows its root once its modules are loaded (gpu-driver-container, `_mount_rootfs`).
const SHOWN: &str = "/run/nvidia/driver";
/// gpu-driver-container, `PID_FILE`: its script, which runs in the host's pid namespace, flocks it and keeps it open.
pub const PID_FILE: &str = "/run/nvidia/nvidia-driver.pid";

/// The root of the driver's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverRoot {
    /// Where it is. Where that is not certain, the root that was asked for.
    pub path: PathBuf,
    /// Whose root was not taken, although the pid file names it.
    pub rejected_pid: Option<u32>,
    /// Why it is unknown whether there is another one.
    pub unreadable: Option<Unreadable>,
}

/// The process that [`PID_FILE`] names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// The driver's script, which holds the lock on the file.
    Runs(u32),
    /// There is no file, or no such process.
    Gone,
    /// This /proc is not the host's: the number says nothing here.
    Hidden,
    /// Another process, without the lock: the file outlives the script, whose number goes to others.
    Another(u32),
}

/// Where the driver container shows its root; before it does, that container's own root, if there is a driver in it;
/// else the root that was asked for. Within that container it is the same root, by its shortest name.
#[must_use]
pub fn driver_root(places: &Places, release: &str) -> DriverRoot {
    let asked =
        |rejected_pid, unreadable| DriverRoot { path: places.driver_root.clone(), rejected_pid, unreadable };
    if !places.finds_driver {
        return asked(None, None);
    }
    match found(places, release) {
        Ok((Some(path), _)) => DriverRoot { path, rejected_pid: None, unreadable: None },
        Ok((None, rejected_pid)) => asked(rejected_pid, None),
        Err(why) => asked(None, Some(why)),
    }
}

/// A driver container's root, and the process that the pid file names and that is not the driver's script.
fn found(places: &Places, release: &str) -> Seen<(Option<PathBuf>, Option<u32>)> {
    let shown = below(&places.root, Path::new(SHOWN));
    if !is_shown(&shown)? {
        let script = match script(&places.root, &places.proc) {
            // A root that cannot be entered is none that a driver could be found in.
            Err(_) if is_closed(places) => return Ok((None, None)),
            script => script?,
        };
        return Ok(match script {
            Script::Runs(pid) => {
                let own = places.proc.join(pid.to_string()).join("root");
                let is_other = has_module(&own, release, "nvidia") && !is_same(&own, &places.driver_root);
                (is_other.then_some(own), None)
            }
            Script::Another(pid) => (None, Some(pid)),
            Script::Gone | Script::Hidden => (None, None),
        });
    }
    if is_same(&shown, &places.driver_root) {
        return Ok((None, None));
    }
    // One that a container has left behind does not count where the root that was asked for has an nvidia-peermem
    // itself.
    let is_left =
        matches!(script(&places.root, &places.proc), Ok(script) if !matches!(script, Script::Runs(_)));
    let is_passed_over = is_left && has_module(&places.driver_root, release, crate::ready::probe::PEERMEM);
    Ok(((!is_passed_over).then_some(shown), None))
}

/// Whether something is mounted there. The operator's fast path shows a root without /lib/modules: Ubuntu's image has
/// none, and the driver's script installed no module (gpu-operator#2619).
pub(crate) fn is_shown(shown: &Path) -> Seen<bool> {
    Ok(is_directory(&shown.join("lib/modules"))? || is_directory(&shown.join("usr"))?)
}

fn is_directory(path: &Path) -> Seen<bool> {
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        metadata => Ok(there(path, metadata)?.is_some_and(|metadata| metadata.is_dir())),
    }
}

/// The root of the process that [`PID_FILE`] names is closed to this process: that one has more capabilities.
fn is_closed(places: &Places) -> bool {
    let pid = present(&below(&places.root, Path::new(PID_FILE)));
    let pid = pid.ok().flatten().and_then(|text| text.trim().parse::<u32>().ok());
    let root = pid.map(|pid| places.proc.join(pid.to_string()).join("root"));
    root.is_some_and(
        |root| matches!(root.read_dir(), Err(error) if error.kind() == ErrorKind::PermissionDenied),
    )
}

/// Which root it is: another container's has another.
pub(crate) fn id(root: &Path) -> Option<(u64, u64)> {
    root.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    id(one).is_some_and(|one| Some(one) == id(other))
}

fn has_module(root: &Path, release: &str, name: &str) -> bool {
    matches!(module_file::find(root, release, name), Ok(Some(_)))
}

/// The process that [`PID_FILE`] names.
///
/// # Errors
/// Neither the file nor who holds its lock can be read.
pub fn script(root: &Path, proc: &Path) -> Seen<Script> {
    let path = below(root, Path::new(PID_FILE));
    let Some(real) = there(&path, resolve(root, &path))? else { return Ok(Script::Gone) };
    let Some(text) = present(&real)? else { return Ok(Script::Gone) };
    let Ok(pid) = text.trim().parse::<u32>() else {
        return Err(Unreadable { path, why: "it does not contain a process id".to_owned() });
    };
    if !shows_the_host(proc)? {
        return Ok(Script::Hidden);
    }
    let process = proc.join(pid.to_string());
    if there(&process, process.symlink_metadata())?.is_none() {
        return Ok(Script::Gone);
    }
    Ok(if is_held_by(root, proc, &path, pid)? { Script::Runs(pid) } else { Script::Another(pid) })
}

/// Whether a program may be run in this root now. A root of a process, which was found and not asked for, must still
/// be the driver's: the number of a process that has ended goes to another.
///
/// # Errors
/// Why not.
pub fn may_run_in(places: &Places, root: &Path) -> Result<(), Unreadable> {
    let of_process = root.strip_prefix(&places.proc).ok().filter(|_| places.finds_driver);
    let named = of_process.and_then(|below| below.iter().next()?.to_str()?.parse().ok());
    match named {
        Some(pid) if script(&places.root, &places.proc)? != Script::Runs(pid) => {
            let why = format!("process {pid} does not hold the lock on {PID_FILE}: it is not the driver's");
            Err(Unreadable { path: root.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// An nvidia-peermem.ko that was built for a driver container, and that no root shows yet: on `OpenShift` its pod's
/// volume keeps it from one crash to the next.
#[must_use]
pub fn built_for_a_container(places: &Places) -> Option<PathBuf> {
    let newest = built(&places.root).into_iter().max_by_key(|build| build.finished)?;
    newest.peermem.filter(|_| places.finds_driver)
}

/// Where the GPU driver's files are at this moment: the root that was asked for, or a driver container's.
#[must_use]
pub fn driver_root_now(places: &Places) -> PathBuf {
    driver_root(places, &kernel::read(&places.proc).release).path
}

/// Is the path that modprobe names, run in its root, the module file that was found in the driver's root?
#[must_use]
pub fn is_same_file(modprobe_root: &Path, named: &Path, driver_root: &Path, found: &Path) -> bool {
    let id = |root: &Path, path: &Path| {
        let real = metadata(root, path);
        real.map(|metadata| (metadata.dev(), metadata.ino())).ok()
    };
    let named = id(modprobe_root, &below(modprobe_root, named));
    named.is_some() && named == id(driver_root, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::sample;
    use nix::sys::stat::{major, minor};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A host whose pid file names process 4242, in whose root there is a driver.
    struct Host {
        tree: tempfile::TempDir,
        places: Places,
    }

    impl Host {
        fn new() -> Self {
            let tree = tempfile::tempdir().unwrap();
            let places = sample::node(tree.path()).places;
            let host = Self { tree, places: Places { finds_driver: true, ..places } };
            host.write("proc/2/comm", "kthreadd\n");
            host.write("proc/4242/comm", "nvidia-driver\n");
            host.write(&format!("container/lib/modules/{}/kernel/nvidia.ko", sample::RELEASE), "");
            symlink(host.tree.path().join("container"), host.tree.path().join("proc/4242/root")).unwrap();
            host.write("run/nvidia/nvidia-driver.pid", "4242\n");
            host.write("proc/locks", "");
            host
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A lock on the pid file, as the kernel shows it.
        fn lock(&self, pid: u32) -> String {
            let file = self.tree.path().join("run/nvidia/nvidia-driver.pid").metadata().unwrap();
            let (major, minor) = (major(file.dev()), minor(file.dev()));
            format!("1: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n", file.ino())
        }

        fn found(&self) -> DriverRoot {
            driver_root(&self.places, sample::RELEASE)
        }

        fn own(&self) -> PathBuf {
            self.places.proc.join("4242/root")
        }
    }

    #[test]
    fn a_process_that_only_has_the_scripts_number_and_name_has_no_root_of_the_drivers() {
        let host = Host::new();
        assert_eq!(
            (host.found().path, host.found().rejected_pid),
            (host.places.driver_root.clone(), Some(4242))
        );
        assert!(may_run_in(&host.places, &host.own()).is_err());
        host.write("proc/locks", &host.lock(4242));
        assert_eq!((host.found().path, host.found().rejected_pid), (host.own(), None));
        assert_eq!(may_run_in(&host.places, &host.own()), Ok(()));
        host.write("proc/locks", &host.lock(4241));
        assert_eq!(host.found().rejected_pid, Some(4242), "another process holds the lock");
    }

    #[test]
    fn the_script_holds_a_lock_that_flock_took_for_it() {
        let host = Host::new();
        // flock(1) has ended since: /proc/locks still has its number.
        host.write("proc/locks", &host.lock(4243));
        host.write("proc/4242/fdinfo/3", &format!("pos:\t5\nflags:\t0100001\nlock:\t{}", host.lock(4243)));
        assert_eq!(host.found().path, host.own());
        host.write("proc/4242/fdinfo/3", "pos:\t5\nflags:\t0100001\n");
        assert_eq!(host.found().path, host.places.driver_root, "it has the file open, and no lock on it");
        let waits = host.lock(4242).replace("1: ", "1: -> ");
        host.write("proc/4242/fdinfo/3", &format!("lock:\t{waits}"));
        assert_eq!(host.found().path, host.places.driver_root, "it waits for the lock");
    }

    #[test]
    fn without_readable_locks_the_drivers_root_is_unknown() {
        let host = Host::new();
        fs::remove_file(host.tree.path().join("proc/locks")).unwrap();
        fs::create_dir(host.tree.path().join("proc/locks")).unwrap();
        let found = host.found();
        assert_eq!(found.path, host.places.driver_root);
        assert!(found.unreadable.is_some_and(|why| why.path == host.places.proc.join("locks")));
        // Where /proc is not the host's, the number says nothing, and what can be seen is all that there is.
        fs::remove_dir_all(host.tree.path().join("proc/2")).unwrap();
        assert_eq!((host.found().path, host.found().unreadable), (host.places.driver_root.clone(), None));
    }
}
