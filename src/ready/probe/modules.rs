// SPDX-License-Identifier: Apache-2.0
//! The two witnesses for a module's state: /proc/modules and /sys/module.
//!
//! The procfs crate drops the taint letters and gives up a whole list for one odd line, so
//! /proc/modules is parsed here; a test compares the two.

use crate::ready::files::read::{FileEnd, lines, small, stat, unreadable};
use crate::ready::observation::{
    Modules, ProcModule, ProcModules, ProcState, Seen, SysModule, SysState, Unreadable,
};
use std::io::ErrorKind::NotFound;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tens of thousands of modules: more than any kernel has.
const MODULES: u64 = 4 * 1024 * 1024;

/// Of MOFED's RDMA modules only this one has a version; and NVIDIA's driver has one.
const VERSIONED: [&str; 2] = ["mlx5_core", "nvidia"];

/// The trace in /sys of a module that is part of the kernel and has no directory in /sys/module. Source: Linux,
/// `uverbs_main.c`, `user_mad.c`, and mlx5's `main.c` (since 5.11).
const SIGNS_OF_BUILT_IN: [(&str, &str); 3] = [
    ("ib_uverbs", "class/infiniband_verbs"),
    ("ib_umad", "class/infiniband_mad"),
    ("mlx5_ib", "bus/auxiliary/drivers/mlx5_ib.rdma"),
];

/// Adds the second witness, for these modules, to what the first has said. The directories are /proc and /sys.
pub fn both<'a>(
    (proc, sys): (&Path, &Path),
    first: Seen<ProcModules>,
    names: impl Iterator<Item = &'a str>,
) -> Modules {
    let second = names.map(|name| (name.to_owned(), read_sys(sys, name))).collect();
    let mut modules = Modules { proc: first, sys: second };
    if modules.sys.keys().any(|name| modules.is_built_in(name)) {
        // A module that has just begun to load has no state either, but by now it is listed.
        modules.proc = read_proc(&proc.join("modules"));
    }
    if modules.is_built_in("ib_core") {
        for (name, sign) in SIGNS_OF_BUILT_IN {
            let module = modules.sys.entry(name.to_owned()).or_insert_with(|| read_sys(sys, name));
            if module.state == SysState::NoDirectory && stat(&sys.join(sign)).is_ok() {
                module.state = SysState::NoInitstate;
            }
        }
    }
    modules
}

/// Reads /proc/modules in one go: one snapshot, as nearly as the kernel gives one.
pub fn read_proc(path: &Path) -> Seen<ProcModules> {
    let mut modules = Vec::new();
    let garbled = each_of_proc(path, |line| modules.push(line.module()))?;
    Ok(ProcModules { modules, garbled })
}

/// Hands on each module of /proc/modules, and returns the start of the first line that is not one.
pub(super) fn each_of_proc(path: &Path, mut found: impl FnMut(&ProcLine<'_>)) -> Seen<Option<String>> {
    let mut garbled = None;
    let ended = lines(path, MODULES, |line| {
        let text = String::from_utf8_lossy(line);
        match ProcLine::parse(&text) {
            Some(line) => found(&line),
            None => drop(garbled.get_or_insert_with(|| text.chars().take(80).collect())),
        }
        ControlFlow::Continue(())
    });
    match ended {
        Ok(FileEnd::Whole) => Ok(garbled),
        Ok(FileEnd::Truncated | FileEnd::NotReached) => {
            Err(Unreadable { path: path.to_owned(), why: "its last line is cut off".to_owned() })
        }
        Err(error) if error.kind() == NotFound && loads_none(path) => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// A kernel without loadable modules has no list of them, and no setting that ends their loading.
fn loads_none(list: &Path) -> bool {
    let setting = |name| stat(&list.with_file_name("sys/kernel").join(name));
    setting("ostype").is_ok() && setting("modules_disabled").is_err_and(|error| error.kind() == NotFound)
}

/// A line of /proc/modules, in place: `name size refcount users state address [(taint)]`; `- -` for refcount and
/// users where the kernel cannot unload modules.
#[derive(Debug)]
pub(super) struct ProcLine<'a> {
    pub(super) name: &'a str,
    size: u64,
    pub(super) refcount: Option<i64>,
    users: &'a str,
    pub(super) state: ProcState,
    pub(super) address: &'a str,
    pub(super) taint: &'a str,
}

/// A line of /proc/modules.
#[must_use]
pub fn parse_line(line: &str) -> Option<ProcModule> {
    ProcLine::parse(line).map(|line| line.module())
}

impl<'a> ProcLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ');
        let name = fields.next().filter(|name| is_name(name))?;
        let size = fields.next()?.parse().ok()?;
        let refcount = match fields.next()? {
            "-" => None,
            count => Some(count.parse().ok()?),
        };
        let users = fields.next()?;
        let state = match fields.next()? {
            "Live" => ProcState::Live,
            "Loading" => ProcState::Loading,
            "Unloading" => ProcState::Unloading,
            _ => return None,
        };
        let address = fields.next().filter(|address| address.starts_with("0x"))?;
        let taint = match fields.next() {
            None => "",
            // `(OE+)` while loading, `(OE-)` while unloading.
            Some(taint) => taint.strip_prefix('(')?.strip_suffix(')')?.trim_end_matches(['+', '-']),
        };
        if fields.next().is_some() {
            return None;
        }
        Some(Self { name, size, refcount, users, state, address, taint })
    }

    fn module(&self) -> ProcModule {
        let is_user = |user: &&str| !user.is_empty() && *user != "-" && !user.starts_with('[');
        ProcModule {
            name: self.name.replace('-', "_"),
            size: self.size,
            refcount: self.refcount,
            users: self.users.split(',').filter(is_user).map(str::to_owned).collect(),
            state: self.state,
            address: self.address.to_owned(),
            taint: self.taint.to_owned(),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Reads one module's directory. Every attribute is opened again: an open one never follows a reload.
#[must_use]
pub fn read_sys(sys: &Path, name: &str) -> SysModule {
    let directory = sys.join("module").join(name);
    let inode = |directory: &Path| stat(directory).map(|metadata| metadata.ino());
    let before = match inode(&directory) {
        Ok(inode) => inode,
        Err(error) => return without_directory(&directory, &error),
    };
    let mut module = SysModule {
        state: state(&directory),
        inode: Some(before),
        taint: small(&directory.join("taint")),
        version: if VERSIONED.contains(&name) { small(&directory.join("version")) } else { Ok(None) },
    };
    if inode(&directory).ok() != Some(before) {
        module.state = SysState::Unreadable(Unreadable {
            path: directory,
            why: "it changed during the look".to_owned(),
        });
    }
    module
}

fn without_directory(directory: &Path, error: &std::io::Error) -> SysModule {
    let state = match error.kind() {
        // Without /sys/module there is no second witness at all.
        std::io::ErrorKind::NotFound if directory.parent().is_some_and(Path::is_dir) => SysState::NoDirectory,
        _ => SysState::Unreadable(unreadable(directory, error)),
    };
    SysModule { state, inode: None, taint: Ok(None), version: Ok(None) }
}

fn state(directory: &Path) -> SysState {
    let path = directory.join("initstate");
    match small(&path) {
        Ok(None) => SysState::NoInitstate,
        Ok(Some(text)) => match text.as_str() {
            "live" => SysState::Live,
            "coming" => SysState::Coming,
            "going" => SysState::Going,
            other => {
                let shown: String = other.chars().take(20).collect();
                SysState::Unreadable(Unreadable { path, why: format!("{shown:?} is not a module's state") })
            }
        },
        Err(why) => SysState::Unreadable(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_modules_lines_of_real_nodes_are_read() {
        let line = parse_line("mlx5_core 2342912 1 mlx5_ib, Live 0xffffffffc0330000 (OE)").unwrap();
        assert_eq!(
            (line.name.as_str(), line.state, line.taint.as_str()),
            ("mlx5_core", ProcState::Live, "OE")
        );
        assert_eq!(line.users, ["mlx5_ib"]);
        assert_eq!(parse_line("a 1 1 - Loading 0x0 (OE+)").unwrap().taint, "OE");
        assert_eq!(parse_line("a 1 -1 - Unloading 0x0 (OE-)").unwrap().refcount, Some(-1));
        assert_eq!(parse_line("a 1 - - Live 0x0").unwrap().refcount, None);
        assert_eq!(parse_line("a 1 2 b,[permanent], Live 0x0").unwrap().users, ["b"]);
    }

    #[test]
    fn a_built_in_module_without_a_directory_is_found_by_its_class() {
        let directory = tempfile::tempdir().unwrap();
        let (proc, sys) = (directory.path().join("proc"), directory.path().join("sys"));
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/modules", "nvidia 1 0 - Live 0x0 (OE)\n");
        write("sys/module/ib_core/parameters/netns_mode", "Y\n");
        let look_after = |first| both((&proc, &sys), first, ["ib_core", "ib_uverbs"].into_iter());
        let look = || look_after(read_proc(&proc.join("modules")));
        let modules = look();
        assert!(modules.is_built_in("ib_core") && !modules.is_built_in("ib_uverbs"), "{modules:?}");
        write("sys/class/infiniband_verbs/abi_version", "6\n");
        assert!(look().is_built_in("ib_uverbs"));
        write("proc/modules", "ib_uverbs 1 0 - Loading 0x0 (OE+)\n");
        assert!(!look().is_built_in("ib_uverbs"), "it is listed");
        let before = read_proc(&proc.join("modules"));
        write("proc/modules", "ib_core 1 0 - Loading 0x0 (OE+)\n");
        let modules = look_after(before);
        assert!(!modules.is_built_in("ib_core") && !modules.is_built_in("ib_uverbs"), "{modules:?}");
    }

    #[test]
    fn odd_lines_of_proc_modules_are_rejected() {
        for line in [
            "",
            "a",
            "a 1 0 -",
            "a 1 0 - Alive 0x0",
            "a x 0 - Live 0x0",
            "a 1 0 - Live",
            "a 1 0 - Live 0x0 OE",
            "a 1 0 - Live 0x0 (OE) more",
            "a  1 0 - Live 0x0",
            "/ 1 0 - Live 0x0",
            "\0\0\0",
            " a 1 0 - Live 0x0",
        ] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn proc_modules_is_read_as_the_procfs_crate_reads_it() {
        use procfs::FromBufRead;
        let text = "ib_core 454656 8 rdma_ucm,mlx5_ib, Live 0xffffffffc020b000 (OE)\n\
                    configfs 57344 2 rdma_cm, Live 0xffffffffc0590000\n\
                    mlx5_core 2342912 0 - Loading 0xffffffffc0330000 (OE+)\n";
        let theirs = procfs::KernelModules::from_buf_read(text.as_bytes()).unwrap().0;
        for line in text.lines() {
            let ours = parse_line(line).unwrap();
            let other = &theirs[&ours.name];
            assert_eq!(
                (u64::from(other.size), i64::from(other.refcount)),
                (ours.size, ours.refcount.unwrap())
            );
            assert_eq!(other.state, format!("{:?}", ours.state));
            let used_by = other.used_by.iter().filter(|user| *user != "-");
            assert!(used_by.eq(&ours.users), "{:?} {:?}", other.used_by, ours.users);
        }
    }
}
