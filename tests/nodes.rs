// SPDX-License-Identifier: Apache-2.0
//! Whole nodes, described in `tests/nodes/<scenario>/node` and judged by the real `check`, or the verb that
//! the description names, whose text report must be the one beside it, `report`; of `doctor` that is the whole one, and
//! where there is a `screen`, the short one must be that. `BLESS=1` writes them again.
//!
//! A description has a directive a line: `file PATH` (its `| ` lines follow), `dir PATH`,
//! `link PATH TARGET`, `remove PATH`, `lock held|free`, `environ PATH NAME=VALUE…` (a process's), `env NAME=VALUE`, `args ARG…`,
//! `verb VERB`, and `include NAME` for `tests/nodes/common/NAME`. Later directives win.
//!
//! Of a node that runs: `touch SECONDS PATH` (written so long after the boot of `common/booted`), `holds PATH`
//! (somebody has a lock on it), `program PATH`, and `process PID NAME SECONDS CGROUP ARG…` (started so long
//! after the boot).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// When the node of `common/booted` was started, in seconds since 1970.
const BOOT: u64 = 1_755_650_000;
const LOCK: &str = "run/mellanox/drivers/.lock";

fn nodes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nodes")
}

fn pair(text: &str, separator: char) -> (String, String) {
    let (first, second) = text.split_once(separator).unwrap_or_else(|| panic!("{text:?} is not a pair"));
    (first.to_owned(), second.to_owned())
}

/// A node tree on disk, and how the gate is to be asked about it.
struct Node {
    tree: tempfile::TempDir,
    env: Vec<(String, String)>,
    verb: String,
    args: Vec<String>,
}

impl Node {
    fn described(path: &Path) -> Self {
        // Always as long as that: answers that are wrapped name it.
        let tree = tempfile::tempdir_in("/tmp").expect("a scratch directory");
        let mut node = Self { tree, env: Vec::new(), verb: "check".to_owned(), args: Vec::new() };
        node.follow(path);
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.tree.path().join(path)
    }

    fn follow(&mut self, description: &Path) {
        let text =
            fs::read_to_string(description).unwrap_or_else(|e| panic!("{}: {e}", description.display()));
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (directive, rest) = line.split_once(' ').unwrap_or((line, ""));
            match directive {
                "" | "#" => {}
                "include" => self.follow(&nodes().join("common").join(rest)),
                "file" => {
                    let mut content = String::new();
                    while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                        content += line.strip_prefix("| ").unwrap_or("");
                        content.push('\n');
                    }
                    self.write(rest, &content.replace("\\t", "\t").replace("\\0", "\0"));
                }
                "dir" => fs::create_dir_all(self.path(rest)).expect("a directory"),
                "link" => self.link(rest),
                "remove" => self.remove(rest),
                "lock" => self.lock(rest == "held"),
                "environ" => {
                    let (path, variables) = pair(rest, ' ');
                    self.write(&path, &(variables.replace(' ', "\0") + "\0"));
                }
                "env" => self.env.push(pair(rest, '=')),
                "touch" => self.touch(rest),
                "holds" => self.holds(rest),
                "program" => self.program(rest),
                "process" => self.process(rest),
                "verb" => rest.clone_into(&mut self.verb),
                "args" => self.args.extend(rest.split(' ').map(str::to_owned)),
                other => panic!("{}: no directive {other:?}", description.display()),
            }
        }
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    fn link(&self, words: &str) {
        let (path, target) = pair(words, ' ');
        fs::create_dir_all(self.path(&path).parent().expect("a parent")).expect("directories");
        symlink(target, self.path(&path)).expect("a link");
    }

    fn remove(&self, path: &str) {
        let path = self.path(path);
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// The lock file, and a /proc/locks that lists a holder of this very inode, or none of it.
    fn lock(&self, held: bool) {
        self.write(LOCK, "");
        let file = self.path(LOCK).metadata().expect("the lock file");
        let device = nix::sys::stat::major(file.dev());
        let device = format!("{device:02x}:{:02x}", nix::sys::stat::minor(file.dev()));
        let inode = if held { file.ino() } else { file.ino() + 1 };
        self.write("proc/locks", &format!("1: FLOCK  ADVISORY  WRITE 4711 {device}:{inode} 0 EOF\n"));
    }

    fn touch(&self, words: &str) {
        let (seconds, path) = pair(words, ' ');
        let path = self.path(&path);
        if !path.exists() {
            self.write(path.to_str().expect("a plain path"), "");
        }
        let written =
            UNIX_EPOCH + Duration::from_secs(BOOT.saturating_add_signed(seconds.parse().expect("seconds")));
        File::options().write(true).open(path).and_then(|file| file.set_modified(written)).expect("a time");
    }

    fn holds(&self, path: &str) {
        let file = self.path(path).metadata().expect("a file to lock");
        let device = (nix::sys::stat::major(file.dev()), nix::sys::stat::minor(file.dev()));
        let others = fs::read_to_string(self.path("proc/locks")).unwrap_or_default();
        let line = format!(
            "7: FLOCK  ADVISORY  WRITE 4712 {:02x}:{:02x}:{} 0 EOF\n",
            device.0,
            device.1,
            file.ino()
        );
        self.write("proc/locks", &(others + &line));
    }

    fn program(&self, path: &str) {
        self.write(path, "");
        fs::set_permissions(self.path(path), Permissions::from_mode(0o755)).expect("a mode");
    }

    fn process(&self, words: &str) {
        let words: Vec<_> = words.split(' ').collect();
        let [pid, name, seconds, cgroup, arguments @ ..] = words.as_slice() else { panic!("{words:?}") };
        let file = |file: &str, text: &str| self.write(&format!("proc/{pid}/{file}"), text);
        file("comm", &format!("{name}\n"));
        file("cmdline", &(arguments.join("\0") + "\0"));
        file("cgroup", &format!("0::{cgroup}\n"));
        // proc(5): the 22nd field is the start in hundredths of a second; the others do not matter here.
        let started: u64 = seconds.parse().expect("seconds");
        let rest = "0 ".repeat(30);
        file(
            "stat",
            &format!("{pid} ({name}) S 1 1 1 0 -1 {}{}00 {}\n", "0 ".repeat(13), started, rest.trim_end()),
        );
    }

    /// The verb's whole report with the tree's place taken out, and its exit code.
    fn report(&self) -> String {
        let is_doctor = self.verb == "doctor";
        // On a page without an edge: how long the tree's own path is must not show.
        self.answer(if is_doctor { &["--verbose"] } else { &[] }, "10000")
    }

    /// On a page so many columns wide.
    fn answer(&self, options: &[&str], columns: &str) -> String {
        let root = self.tree.path().to_str().expect("a plain path");
        let out = Command::new(env!("CARGO_BIN_EXE_peermem-gate"))
            .args([self.verb.as_str(), "--root", root])
            .args(&self.args)
            .args(options)
            .env_clear()
            .env("COLUMNS", columns)
            .envs(self.env.iter().cloned())
            .output()
            .expect("the gate runs");
        let text = String::from_utf8(out.stdout).expect("text");
        let errors = String::from_utf8(out.stderr).expect("text");
        format!("{}{errors}exit {}\n", text, out.status.code().expect("an exit code")).replace(root, "")
    }
}

fn scenarios() -> Vec<PathBuf> {
    let mut scenarios: Vec<_> =
        fs::read_dir(nodes()).expect("scenarios").map(|e| e.expect("an entry").path()).collect();
    scenarios.retain(|path| path.join("node").exists());
    scenarios.sort();
    assert!(scenarios.len() > 30, "scenarios are missing");
    scenarios
}

/// What is wrong with `text`, if it is not the one that is expected there.
fn compared(text: &str, expected: &Path) -> Option<String> {
    if std::env::var_os("BLESS").is_some() {
        fs::write(expected, text).expect("a report");
    }
    let is_same = fs::read_to_string(expected).unwrap_or_default() == text;
    (!is_same).then(|| format!("{}:\n{text}", expected.display()))
}

#[test]
fn every_node_gets_its_report() {
    let of = |path: &PathBuf| compared(&Node::described(&path.join("node")).report(), &path.join("report"));
    let wrong: Vec<_> = scenarios().iter().filter_map(of).collect();
    assert!(wrong.is_empty(), "reports differ from those beside the nodes:\n{}", wrong.join("\n"));
}

/// Characters, which are columns in all that these nodes say.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

#[test]
fn every_answer_of_doctor_fits_a_screen_and_none_is_wider() {
    let mut wrong = Vec::new();
    let mut fullest = 0;
    for scenario in scenarios() {
        let node = Node::described(&scenario.join("node"));
        let name = scenario.display();
        let whole = node.report();
        let screen = node.answer(&[], "80");
        assert!(widest(&screen) <= 80, "{name}:\n{screen}");
        if node.verb != "doctor" {
            continue;
        }
        let wrapped = node.answer(&["--verbose"], "80");
        assert!(widest(&wrapped) <= 80, "{name}:\n{wrapped}");
        let (text, ending) = screen.rsplit_once("exit ").expect("an exit code");
        fullest = fullest.max(text.lines().count());
        assert!(text.lines().count() <= 24 && widest(text) <= 80, "{name}:\n{text}");
        assert!(whole.ends_with(&format!("exit {ending}")), "{name}: {whole}");
        // The same verdict, and every root cause by name.
        let first = text.lines().next().expect("a headline");
        assert!(whole.starts_with(first.trim_end_matches('…')), "{name}: {first}");
        let roots = ["critical ", "warning  ", "unknown  ", "info     "];
        for line in whole.lines() {
            let root = roots.iter().find_map(|severity| line.strip_prefix(severity)?.split(':').next());
            assert!(root.is_none_or(|id| text.contains(id)), "{name}: {line}");
        }
        let expected = scenario.join("screen");
        if expected.exists() {
            wrong.extend(compared(&screen, &expected));
        }
    }
    assert!(fullest > 20, "no node fills a screen: {fullest}");
    assert!(wrong.is_empty(), "answers differ from those beside the nodes:\n{}", wrong.join("\n"));
}
