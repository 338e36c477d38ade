// SPDX-License-Identifier: Apache-2.0
//! modprobe's settings for a module: parameters of modprobe.d's `options` and of the
//! kernel's command line, and commands of its `install` lines.

use crate::ready::files::read::{entries, lines, unreadable};
use crate::ready::files::root::resolve;
use crate::ready::observation::{GivenParameter, Unreadable};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// kmod's directories: a file name in one hides the same name in those behind it.
const DIRECTORIES: [&str; 5] =
    ["etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"];
/// Far above any of them.
const FILE: u64 = 1024 * 1024;
const MAX_FILES: usize = 1000;

/// The settings that modprobe, run below a root, would apply to one module by itself.
#[derive(Debug, Default)]
pub struct ModprobeSettings {
    /// Parameters, in the order in which the kernel gets them: of two of one name, the last counts.
    pub parameters: Vec<GivenParameter>,
    /// Commands that it would run instead of loading the module.
    pub install: Vec<GivenParameter>,
    /// Sources that could not be read, which modprobe would pass over in silence, or read where we cannot.
    pub unreadable: Vec<Unreadable>,
}

/// Reads it all for the module `name`.
#[must_use]
pub fn given(root: &Path, proc: &Path, name: &str) -> ModprobeSettings {
    let name = name.replace('-', "_");
    let mut given = ModprobeSettings::default();
    for path in files(root, &mut given) {
        let lines = resolve(root, &path).and_then(|real| lines_of(&real));
        for line in given.readable(&path, lines) {
            given.take(&path, &line, &name);
        }
    }
    let cmdline = proc.join("cmdline");
    let texts = of_command_line(&cmdline, &name);
    for text in given.readable(&cmdline, texts) {
        given.parameters.push(GivenParameter { source: cmdline.clone(), text });
    }
    given
}

impl ModprobeSettings {
    /// The values of a source; a source that is missing has none.
    fn readable<T>(&mut self, source: &Path, read: io::Result<Vec<T>>) -> Vec<T> {
        match read {
            Ok(read) => return read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push(unreadable(source, &error)),
        }
        Vec::new()
    }

    /// A line `options NAME PARAMETER…`, or `install NAME COMMAND`.
    fn take(&mut self, source: &Path, line: &[u8], name: &str) {
        let line = String::from_utf8_lossy(line);
        let (command, rest) = word(&line);
        let (module, rest) = word(rest);
        if line.starts_with('#') || module.replace('-', "_") != name {
            return;
        }
        let given = |text| GivenParameter { source: source.to_owned(), text };
        match command {
            "options" => self.parameters.extend(words(rest).into_iter().map(given)),
            "install" => self.install.push(given(rest.trim().to_owned())),
            _ => {}
        }
    }
}

/// The files of modprobe.d, sorted by name, whatever their directories.
fn files(root: &Path, given: &mut ModprobeSettings) -> Vec<PathBuf> {
    let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for directory in DIRECTORIES.map(|directory| root.join(directory)) {
        let entries = resolve(root, &directory).and_then(|real| entries(&real, MAX_FILES));
        for name in given.readable(&directory, entries).into_iter().map(|entry| entry.file_name()) {
            let path = directory.join(&name);
            if is_configuration(name.as_bytes()) && !is_directory(root, &path) {
                files.entry(name).or_insert(path);
            }
        }
    }
    files.into_values().collect()
}

fn is_configuration(name: &[u8]) -> bool {
    let is_long = |suffix: &[u8]| name.ends_with(suffix) && name.len() > suffix.len();
    !name.starts_with(b".") && (is_long(b".conf") || is_long(b".alias"))
}

fn is_directory(root: &Path, path: &Path) -> bool {
    resolve(root, path).is_ok_and(|real| real.is_dir())
}

/// The lines of one file, those that a backslash continues put together.
fn lines_of(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut begun = Vec::new();
    lines(path, FILE, |line| {
        if unescape(line, &mut begun) {
            all.push(std::mem::take(&mut begun));
        }
        ControlFlow::Continue(())
    })?;
    all.push(begun);
    Ok(all)
}

/// Appends a line as kmod reads it, without its backslashes; false when it goes on in the next.
fn unescape(line: &[u8], to: &mut Vec<u8>) -> bool {
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.as_slice()) {
            (b'\\', []) => return false,
            (b'\\', [next, rest @ ..]) => {
                to.push(*next);
                bytes = rest.iter();
            }
            _ => to.push(*byte),
        }
    }
    true
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    text.split_once([' ', '\t']).unwrap_or((text, ""))
}

/// Words as the kernel splits them (lib/cmdline.c, `next_arg`): not at space inside quotes.
fn words(text: &str) -> Vec<String> {
    let mut is_quoted = false;
    let ends = |c: char| {
        is_quoted ^= c == '"';
        !is_quoted && (c.is_ascii_whitespace() || c == '\u{b}')
    };
    text.split(ends).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The words `NAME.PARAMETER` of the kernel's command line.
fn of_command_line(path: &Path, name: &str) -> io::Result<Vec<String>> {
    let mut given = Vec::new();
    lines(path, FILE, |line| {
        let words = words(&String::from_utf8_lossy(line));
        given.extend(words.iter().filter_map(|word| of_module(word, name)));
        ControlFlow::Continue(())
    })?;
    Ok(given)
}

/// The parameter in a word `NAME.PARAMETER=VALUE`; some boot loaders put all of it into quotes.
fn of_module(word: &str, name: &str) -> Option<String> {
    let (word, is_quoted) = word.strip_prefix('"').map_or((word, false), |word| (word, true));
    let (module, parameter) = word.split_once('.')?;
    let (key, value) = parameter.split_once('=').map_or((parameter, None), |(key, value)| (key, Some(value)));
    let is_plain = !key.is_empty() && !key.contains(['.', '"', ' ']);
    if module.replace('-', "_") != name || !is_plain {
        return None;
    }
    Some(match value {
        Some(value) if is_quoted => format!("{key}=\"{value}"),
        Some(value) => format!("{key}={value}"),
        None => key.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A root, and /proc below it, with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (file, contents) in files {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        tree
    }

    fn given(tree: &tempfile::TempDir) -> (Vec<String>, Vec<Unreadable>) {
        let ModprobeSettings { parameters: given, unreadable, .. } =
            super::given(tree.path(), &tree.path().join("proc"), "nvidia_peermem");
        (given.into_iter().map(|given| given.text).collect(), unreadable)
    }

    fn of_file(contents: &str) -> Vec<String> {
        given(&tree(&[("etc/modprobe.d/x.conf", contents)])).0
    }

    fn of_cmdline(contents: &str) -> Vec<String> {
        given(&tree(&[("proc/cmdline", contents)])).0
    }

    #[test]
    fn options_are_read_as_kmod_reads_them() {
        assert_eq!(
            of_file("options nvidia-peermem a=1 b\noptions\tnvidia_peermem  c=2"),
            ["a=1", "b", "c=2"]
        );
        assert_eq!(of_file("  options nvidia_peermem a=\"x  y\" \"b=c d\"\n"), ["a=\"x  y\"", "\"b=c d\""]);
        assert_eq!(of_file("options nvidia_peermem a=1 \\\n  b=2\\\n3\n"), ["a=1", "b=23"]);
        assert_eq!(of_file("options nvidia_peermem a=\\x\\\\y\\"), ["a=x\\y"]);
        let none = "#options nvidia_peermem a=1\n# \\\noptions nvidia_peermem a=1\nOptions nvidia_peermem a=1\n\
                    options nvidia a=1\noptions nvidia_peermem_x a=1\noptions nvidia_peermem\noptions\n\n\
                    alias nvidia_peermem options\nremove nvidia_peermem options nvidia_peermem a=1\n";
        assert_eq!(of_file(none), [""; 0]);
        assert_eq!(of_file("options nvidia_peermem \u{fffd}=\u{0}"), ["\u{fffd}=\u{0}"]);
    }

    #[test]
    fn a_file_hides_its_namesakes_and_all_are_sorted_by_name() {
        let options = |parameter: &str| format!("options nvidia-peermem {parameter}\n");
        let tree = tree(&[
            ("etc/modprobe.d/m.conf", &options("m=etc")),
            ("run/modprobe.d/m.conf", &options("m=run")),
            ("run/modprobe.d/z.conf", &options("z=run")),
            ("usr/lib/modprobe.d/a.conf", &options("a=usr")),
            ("usr/lib/modprobe.d/masked.conf", &options("masked=usr")),
            ("usr/local/lib/modprobe.d/b.alias", &options("b=local")),
            ("etc/modprobe.d/c.conf.bak", &options("bak=1")),
            ("etc/modprobe.d/.hidden.conf", &options("hidden=1")),
            ("etc/modprobe.d/directory.conf/x", ""),
            ("etc/modprobe.d/masked.conf", ""),
            ("srv/linked", &options("linked=srv")),
            ("proc/cmdline", "nvidia_peermem.z=boot\n"),
        ]);
        symlink("usr/lib", tree.path().join("lib")).unwrap();
        symlink("/srv/linked", tree.path().join("etc/modprobe.d/l.conf")).unwrap();
        symlink("/nowhere", tree.path().join("etc/modprobe.d/n.conf")).unwrap();
        let expected = ["a=usr", "b=local", "linked=srv", "m=etc", "z=run", "z=boot"];
        assert_eq!(given(&tree), (expected.map(str::to_owned).to_vec(), vec![]));
        let all = super::given(tree.path(), &tree.path().join("proc"), "nvidia-peermem").parameters;
        assert_eq!(all[0].source, tree.path().join("usr/lib/modprobe.d/a.conf"));
        assert_eq!(all[5].source, tree.path().join("proc/cmdline"));
    }

    #[test]
    fn the_command_line_is_read_as_kmod_reads_it() {
        let line = "ro nvidia-peermem.a=1 nvidia_peermem.b nvidia.a=1 x.nvidia_peermem.c=1 nvidia_peermem=1 q=nvidia_peermem.d=1";
        assert_eq!(of_cmdline(line), ["a=1", "b"]);
        assert_eq!(of_cmdline("nvidia_peermem.a=\"x y\" b=\"nvidia_peermem.c=1 d\"\n"), ["a=\"x y\""]);
        // GRUB's way with quotes.
        assert_eq!(of_cmdline("\"nvidia_peermem.a=x y\" z"), ["a=\"x y\""]);
        assert_eq!(
            of_cmdline("nvidia_peermem. nvidia_peermem.=1 nvidia_peermem.a.b=1 nvidia_peermem.a\"=1"),
            [""; 0]
        );
    }

    #[test]
    fn unreadable_modprobe_configuration_is_reported() {
        let tree =
            tree(&[("etc/modprobe.d", "a file"), ("run/modprobe.d/x.conf", "options nvidia_peermem a=1")]);
        symlink("loop.conf", tree.path().join("run/modprobe.d/loop.conf")).unwrap();
        nix::unistd::mkfifo(&tree.path().join("run/modprobe.d/fifo.conf"), nix::sys::stat::Mode::S_IRWXU)
            .unwrap();
        let (given, unreadable) = given(&tree);
        assert_eq!(given, ["a=1"]);
        let paths: Vec<_> = unreadable.into_iter().map(|why| why.path).collect();
        assert_eq!(paths, ["etc/modprobe.d", "run/modprobe.d/loop.conf"].map(|path| tree.path().join(path)));
    }

    #[test]
    fn install_commands_in_place_of_the_module_are_reported() {
        let tree = tree(&[(
            "etc/modprobe.d/x.conf",
            "install nvidia-peermem /bin/true\ninstall nvidia /bin/false\n# install nvidia_peermem x\n\
             install nvidia_peermem  exec \\\n  /usr/bin/load $CMDLINE_OPTS \n",
        )]);
        let given = super::given(tree.path(), &tree.path().join("proc"), "nvidia_peermem");
        let commands: Vec<_> = given.install.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(commands, ["/bin/true", "exec   /usr/bin/load $CMDLINE_OPTS"]);
        assert_eq!(given.parameters, []);
    }
}
