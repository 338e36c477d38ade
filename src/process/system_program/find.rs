// SPDX-License-Identifier: Apache-2.0
//! Where the system's program is: the first that is not this program, in another root too.

use crate::process::exec::Unrunnable;
use crate::process::executable;
use crate::process::executable::{NotExecutable, NotSeen};
use crate::process::system_program::step::{is_system, tried};
use crate::process::system_program::{END_LIMIT, ProgramSpec, SystemProgram};
use crate::ready::errno;
use crate::ready::exit::Exit;
use std::ffi::OsStr;
use std::fs::{File, Metadata, metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// In every build of this program, because it is searched for. It must never change: other versions are
/// known by it.
const MARKER: &[u8] = b"peermem-gate: this is the gate in front of modprobe, and not kmod's modprobe";

/// A modprobe that is not found in this much of a file is not ours: ours is far smaller.
const SEARCHED: u64 = 8 << 20;

/// Where modprobe is where PATH is not set, and where it is looked for behind PATH, which in
/// containers may lack the sbin directories.
const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How often one program may be run so: modprobe's own install lines call modprobe again.
const TRIES: usize = 3;

impl SystemProgram {
    /// The first of its name in PATH, or behind it in the usual directories, below `root`, that is not this
    /// program; or the one that is asked for, as seen from inside `root`.
    ///
    /// # Errors
    /// There is none, or it cannot be run.
    pub fn find(
        is: &'static ProgramSpec,
        root: &Path,
        path_variable: Option<&OsStr>,
        asked: Option<&Path>,
    ) -> Result<Self, Unrunnable> {
        must_be_there(root)?;
        let path = match asked {
            Some(path) => as_asked(root, path)?,
            None => searched(is, root, path_variable.unwrap_or(OsStr::new(DIRECTORIES)))?,
        };
        let step = Path::new("/proc/self/exe").to_owned();
        let found_by = (path_variable.map(OsStr::to_owned), asked.map(Path::to_owned));
        Ok(Self { is, root: root.to_owned(), path, step, patience: END_LIMIT, found_by })
    }
}

/// Checks the program that the user named.
fn as_asked(root: &Path, path: &Path) -> Result<PathBuf, Unrunnable> {
    // Inside another root the working directory is `/`.
    let base = if is_system(root) { std::path::absolute(path) } else { Ok(Path::new("/").join(path)) };
    let path = base.unwrap_or_else(|_| path.to_owned());
    match runnable(root, &path) {
        Ok(()) => Ok(path),
        Err(why) => Err(unrunnable_asked(&path, &shown_below(root), &why)),
    }
}

/// The first in PATH that can be run and is not this program.
fn searched(is: &ProgramSpec, root: &Path, path_variable: &OsStr) -> Result<PathBuf, Unrunnable> {
    let mut there_but = None;
    let mut ourselves = None;
    let mut not_seen = NotSeen::default();
    let tried = tried();
    for directory in directories(root, path_variable) {
        let path = directory.join(is.name);
        if tried.iter().filter(|tried| **tried == path).count() >= TRIES {
            ourselves = Some(path);
            continue;
        }
        match runnable(root, &path) {
            Ok(()) => return Ok(path),
            Err(NotRunnable::Seen(error)) => not_seen.add(&path, error),
            Err(NotRunnable::Another) => ourselves = Some(path),
            Err(NotRunnable::Executable(why)) => there_but = there_but.or(Some((path, why))),
        }
    }
    let ProgramSpec { name, remedy } = is;
    let below = shown_below(root);
    let places = format!(
        "PATH ({}) or in {DIRECTORIES}{below}{}",
        path_variable.to_string_lossy(),
        not_seen.sentence()
    );
    let (exit, why) = match (there_but, ourselves) {
        (Some((path, why)), _) => {
            (Exit::NotExecutable, format!("{}{below} cannot be run ({why})", path.display()))
        }
        (None, Some(path)) => {
            let path = path.display();
            let only = "only this program, or one that calls it, is called";
            (Exit::NotFound, format!("{only} {name} ({path}) in {places}"))
        }
        (None, None) => (Exit::NotFound, format!("there is no {name} in {places}")),
    };
    Err(Unrunnable { exit, message: format!("{why}: {remedy}") })
}

/// Names the root after a path, unless it is the system's own.
fn shown_below(root: &Path) -> String {
    if is_system(root) { String::new() } else { format!(" below {}", root.display()) }
}

fn must_be_there(root: &Path) -> Result<(), Unrunnable> {
    match root.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unrunnable {
            exit: Exit::NotFound,
            message: format!(
                "the driver's root {} does not exist: start the driver's container, mount its root here, or \
                    correct --driver-root",
                root.display()
            ),
        }),
        // What else may be wrong with it shows in the search.
        _ => Ok(()),
    }
}

/// True for this program under whatever name, copied or linked, and for other versions of it. A
/// script that calls it is not.
#[must_use]
pub fn is_ourselves(candidate: &Path) -> bool {
    let Ok(found) = candidate.metadata() else { return false };
    let same = |ours: Metadata| (ours.dev(), ours.ino()) == (found.dev(), found.ino());
    found.is_file()
        && (metadata("/proc/self/exe").is_ok_and(same) || holds_marker(candidate).unwrap_or(false))
}

/// The directories of PATH, then the usual ones, as seen from inside `root`. Those that depend on the
/// working directory mean nothing in another root.
fn directories(root: &Path, path_variable: &OsStr) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in std::env::split_paths(path_variable).chain(std::env::split_paths(DIRECTORIES)) {
        let directory = if is_system(root) {
            // An empty entry is the working directory.
            std::path::absolute(Path::new(".").join(&entry)).unwrap_or(entry)
        } else {
            entry
        };
        if directory.is_absolute() && !all.contains(&directory) {
            all.push(directory);
        }
    }
    all
}

/// Why a file is not the one to run.
enum NotRunnable {
    /// There is no such file, or it cannot be known whether there is one.
    Seen(io::Error),
    Executable(String),
    /// This program, or a copy.
    Another,
}

fn runnable(root: &Path, path: &Path) -> Result<(), NotRunnable> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let real = crate::ready::files::root::resolve(root, &root.join(inside)).map_err(NotRunnable::Seen)?;
    executable::check(&real).map_err(|why| match why {
        NotExecutable::NotAFile => NotRunnable::Executable("not a regular file".to_owned()),
        NotExecutable::NotSeen(error) => NotRunnable::Seen(error),
        NotExecutable::Denied(error) => NotRunnable::Executable(errno::words(&error)),
    })?;
    if is_ourselves(&real) { Err(NotRunnable::Another) } else { Ok(()) }
}

fn unrunnable_asked(path: &Path, below: &str, why: &NotRunnable) -> Unrunnable {
    let remedy = "correct --modprobe or PEERMEM_GATE_MODPROBE";
    let (exit, why) = match why {
        NotRunnable::Seen(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (Exit::NotExecutable, errno::words(error))
        }
        NotRunnable::Seen(error) => (Exit::NotFound, errno::words(error)),
        NotRunnable::Executable(why) => (Exit::NotExecutable, why.clone()),
        NotRunnable::Another => (Exit::NotExecutable, "it is this program, not kmod's modprobe".to_owned()),
    };
    Unrunnable { exit, message: format!("modprobe {}{below} cannot be run: {why}: {remedy}", path.display()) }
}

/// A program with [`MARKER`] in it. Only ELF files are read through.
fn holds_marker(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?.take(SEARCHED);
    let search = memchr::memmem::Finder::new(MARKER);
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let mut is_elf = false;
    loop {
        let read = file.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(false);
        }
        filled += read;
        if !is_elf {
            if filled < 4 {
                continue;
            }
            if !buffer.starts_with(b"\x7fELF") {
                return Ok(false);
            }
            is_elf = true;
        }
        if search.find(&buffer[..filled]).is_some() {
            return Ok(true);
        }
        // It may lie across two reads.
        let overlap = filled.min(MARKER.len() - 1);
        buffer.copy_within(filled - overlap..filled, 0);
        filled = overlap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::system_program::MODPROBE;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// A root with directories of programs.
    fn root(directories: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in directories {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        root
    }

    fn program(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn find(root: &TempDir, path: &str) -> Result<PathBuf, Unrunnable> {
        SystemProgram::find(&MODPROBE, root.path(), Some(path.as_ref()), None).map(|modprobe| modprobe.path)
    }

    fn asked(root: &TempDir, path: &str) -> Result<PathBuf, Unrunnable> {
        SystemProgram::find(&MODPROBE, root.path(), None, Some(path.as_ref())).map(|modprobe| modprobe.path)
    }

    #[test]
    fn modprobe_is_searched_in_path_and_then_in_the_usual_directories() {
        let root = root(&["opt", "usr/bin", "usr/sbin", "empty"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/sbin/modprobe"), b"#!/bin/sh\n");
        for path in ["/opt:/usr/sbin", "/none:/empty", "", "relative:opt", "/usr/sbin/modprobe"] {
            assert_eq!(find(&root, path).unwrap(), Path::new("/usr/sbin/modprobe"), "{path}");
        }
        // Neither hides the one behind it.
        fs::write(at("usr/bin/modprobe"), "not executable").unwrap();
        fs::create_dir(at("opt/modprobe")).unwrap();
        assert_eq!(find(&root, "/usr/bin:/opt:/usr/sbin").unwrap(), Path::new("/usr/sbin/modprobe"));
        fs::set_permissions(at("usr/bin/modprobe"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&root, "/usr/bin:/usr/sbin").unwrap(), Path::new("/usr/bin/modprobe"));
    }

    /// As one that this user may not search: whether the program is there cannot be known.
    #[test]
    fn a_directory_that_cannot_be_searched_hides_no_program_behind_it() {
        let root = root(&["usr/sbin"]);
        let at = |path: &str| root.path().join(path);
        symlink("loop", at("loop")).unwrap();
        for is in [&MODPROBE, &crate::process::system_program::RMMOD] {
            let find = || SystemProgram::find(is, root.path(), Some("/loop:/usr/sbin".as_ref()), None);
            let why = find().unwrap_err();
            assert_eq!(why.exit, Exit::NotFound, "{}", why.message);
            let sentence = format!("; cannot look for /loop/{}: ", is.name);
            assert!(why.message.contains(&sentence), "{}", why.message);
            program(&at("usr/sbin").join(is.name), b"#!/bin/sh\n");
            assert_eq!(find().unwrap().path, Path::new("/usr/sbin").join(is.name));
        }
    }

    #[test]
    fn links_are_followed_inside_the_root() {
        let root = root(&["usr/sbin", "usr/bin"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/bin/kmod"), b"#!/bin/sh\n");
        symlink("/usr/bin/kmod", at("usr/sbin/modprobe")).unwrap();
        symlink("usr/sbin", at("sbin")).unwrap();
        assert_eq!(
            find(&root, "/sbin").unwrap(),
            Path::new("/sbin/modprobe"),
            "the name decides what kmod is"
        );
        fs::remove_file(at("usr/bin/kmod")).unwrap();
        let why = find(&root, "/sbin").unwrap_err();
        assert_eq!(why.exit, Exit::NotFound, "outside there may be one: {}", why.message);
    }

    #[test]
    fn modprobe_is_found_in_path_order() {
        let bin = root(&["a", "b"]);
        program(&bin.path().join("b/modprobe"), b"#!/bin/sh\n");
        let path = std::env::join_paths([bin.path().join("a"), bin.path().join("b")]).unwrap();
        let modprobe = SystemProgram::find(&MODPROBE, Path::new("/"), Some(&path), None).unwrap();
        assert_eq!(modprobe.path(), bin.path().join("b/modprobe"));
        assert_eq!(
            modprobe.shown(&["-q".into(), "it's".into()]),
            format!(r"{} -q 'it'\''s'", bin.path().join("b/modprobe").display())
        );
        assert_eq!(directories(Path::new("/"), OsStr::new(""))[0], std::env::current_dir().unwrap());
    }

    #[test]
    fn this_program_is_never_found_as_modprobe() {
        let root = root(&["link", "hard", "copy", "again", "real", "script"]);
        let at = |path: &str| root.path().join(path);
        let ourselves = std::env::current_exe().unwrap();
        fs::copy(&ourselves, at("copy/modprobe")).unwrap();
        fs::copy(at("copy/modprobe"), at("again/modprobe")).unwrap();
        fs::hard_link(at("copy/modprobe"), at("hard/modprobe")).unwrap();
        symlink("/copy/modprobe", at("link/modprobe")).unwrap();
        let path = "/link:/hard:/copy:/again";
        for directory in path.split(':') {
            let why = asked(&root, &format!("{directory}/modprobe")).unwrap_err();
            assert_eq!(why.exit, Exit::NotExecutable, "{}", why.message);
            assert!(why.message.contains("it is this program"), "{}", why.message);
        }
        assert!(is_ourselves(&ourselves) && is_ourselves(Path::new("/proc/self/exe")));
        let why = find(&root, path).unwrap_err();
        assert_eq!(why.exit, Exit::NotFound);
        assert!(
            why.message
                .contains("only this program, or one that calls it, is called modprobe (/again/modprobe)"),
            "{}",
            why.message
        );
        assert!(why.message.contains(&root.path().display().to_string()), "{}", why.message);
        assert!(why.message.contains("install kmod") && why.message.contains("PEERMEM_GATE_MODPROBE"));
        // A text that says what we say is not us.
        let script = [b"#!/bin/sh\n# ", MARKER, b"\nexec peermem-gate\n"].concat();
        program(&at("script/modprobe"), &script);
        assert_eq!(find(&root, &format!("{path}:/script")).unwrap(), Path::new("/script/modprobe"));
    }

    #[test]
    fn a_program_is_recognized_as_the_gate_wherever_its_mark_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let holds = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            is_ourselves(&path)
        };
        let with_marker_at = |at: usize| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.resize(at, 0);
            [&bytes, MARKER].concat()
        };
        for at in [4, 64 * 1024 - 40, 64 * 1024 - MARKER.len(), 128 * 1024 - 100, 1 << 20] {
            assert!(holds(&with_marker_at(at)), "{at}");
        }
        assert!(
            !holds(&with_marker_at(usize::try_from(SEARCHED).unwrap())),
            "far behind the end of any build"
        );
        for other in [&b""[..], b"\x7f", b"\x7fELF", MARKER] {
            assert!(!holds(other), "{other:?}");
        }
        assert!(!is_ourselves(dir.path()) && !is_ourselves(&dir.path().join("none")));
    }

    #[test]
    fn a_modprobe_that_the_user_names_is_used_or_refused() {
        let root = root(&["usr/sbin", "opt"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/sbin/modprobe"), b"#!/bin/sh\n");
        program(&at("opt/kmod-modprobe"), b"#!/bin/sh\n");
        assert_eq!(asked(&root, "/opt/kmod-modprobe").unwrap(), Path::new("/opt/kmod-modprobe"));
        assert_eq!(asked(&root, "opt/kmod-modprobe").unwrap(), Path::new("/opt/kmod-modprobe"));
        let why = asked(&root, "/opt/none").unwrap_err();
        assert_eq!(why.exit, Exit::NotFound);
        assert!(why.message.contains("/opt/none below /"), "{}", why.message);
        assert!(why.message.ends_with("correct --modprobe or PEERMEM_GATE_MODPROBE"), "{}", why.message);
        fs::set_permissions(at("opt/kmod-modprobe"), Permissions::from_mode(0o644)).unwrap();
        for path in ["/opt/kmod-modprobe", "/opt"] {
            assert_eq!(asked(&root, path).unwrap_err().exit, Exit::NotExecutable, "{path}");
        }
    }

    #[test]
    fn a_path_without_modprobe_is_named() {
        let root = root(&["usr/sbin"]);
        let why = find(&root, "/usr/sbin").unwrap_err();
        assert_eq!(why.exit, Exit::NotFound);
        assert!(why.message.starts_with("there is no modprobe in PATH (/usr/sbin)"), "{}", why.message);
        fs::write(root.path().join("usr/sbin/modprobe"), "").unwrap();
        let why = find(&root, "/usr/sbin").unwrap_err();
        assert_eq!(why.exit, Exit::NotExecutable);
        assert!(why.message.contains("/usr/sbin/modprobe below /"), "{}", why.message);
    }
}
