// SPDX-License-Identifier: Apache-2.0
//! Real containers: podman as root, with storage, settings and mounts of each test's own, so
//! nothing of it is left on the machine.
#![allow(dead_code, reason = "the tests and the benchmark use their parts of this")]

use crate::support::{self, HOST, LIMIT, Node, Process, can, code, skip};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// As examples and manifests name it.
pub(crate) const IMAGE: &str = "localhost/peermem-gate:0.4.0";
pub(crate) const DOCTOR: &str = "localhost/peermem-doctor:0.4.0";
/// What else runs in a container: one static program.
pub(crate) const BUSYBOX: &str = "localhost/busybox";

const NONE: Option<&str> = None;

/// Where image/build leaves what it makes.
pub(crate) fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/image")
}

/// As images name architectures.
pub(crate) fn oci(architecture: &str) -> &'static str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no image is made for {other}"),
    }
}

/// A podman that has [`IMAGE`] and [`BUSYBOX`]. It lives on the thread that made it, which has
/// mounts of its own.
pub(crate) struct Podman {
    directory: TempDir,
}

impl Podman {
    /// `None`, having said so, where it cannot be had.
    pub(crate) fn new() -> Option<Self> {
        Self::with(HOST)
    }

    /// With the image of this architecture.
    pub(crate) fn with(architecture: &str) -> Option<Self> {
        let archive = built().join("peermem-gate.oci.tar");
        if !archive.exists() {
            skip("no image: image/build makes it");
            return None;
        }
        if !is_of_this_commit(&built().join(oci(HOST)).join("peermem-gate")) {
            skip("the image is another commit's: image/build");
            return None;
        }
        let podman = Self::bare()?;
        podman.pull(IMAGE, architecture);
        Some(podman)
    }

    /// With [`BUSYBOX`] alone.
    pub(crate) fn bare() -> Option<Self> {
        if !(can(&["podman", "--version"]) && can(&["runc", "--version"]) && can(&["busybox", "true"])) {
            return None;
        }
        // What is mounted from here on is seen by this thread, and by what it starts, alone.
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNS) {
            skip(&format!("mounts of our own need root: {errno}"));
            return None;
        }
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).expect("private mounts");
        let directory = tempfile::Builder::new().prefix("podman").tempdir().expect("a directory");
        let podman = Self { directory };
        podman.import(BUSYBOX, &["busybox"], &["ENTRYPOINT [\"/busybox\"]"]);
        Some(podman)
    }

    /// Takes an image of image/build's, for this architecture.
    pub(crate) fn pull(&self, image: &str, architecture: &str) {
        let program = image.trim_start_matches("localhost/").split(':').next().expect("a name");
        let archive = format!("oci-archive:{}", built().join(program).with_extension("oci.tar").display());
        let id = self.run(&["pull", "--quiet", "--arch", oci(architecture), &archive]);
        self.run(&["tag", id.trim(), image]);
    }

    /// A file or directory of its own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/containers/containers.conf");
        let mut command = Command::new("podman");
        // Plain copies of a few megabytes work on every file system.
        command.env("CONTAINERS_CONF", settings).args(["--storage-driver", "vfs"]);
        // Podman 5 warns on every call otherwise.
        command.env("PODMAN_IGNORE_CGROUPSV1_WARNING", "1");
        for (option, name) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.arg(option).arg(self.path(name));
        }
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = support::output(&mut self.command(args));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {args:?}: {}: {said}", output.status);
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// One field of what podman knows about a container or an image.
    pub(crate) fn inspect(&self, what: &str, field: &str) -> String {
        self.run(&["inspect", "--format", &format!("{{{{{field}}}}}"), what]).trim().to_owned()
    }

    /// Makes an image of these programs of the machine's, which need no libraries.
    pub(crate) fn import(&self, name: &str, programs: &[&str], changes: &[&str]) {
        let root = Root::new(self, "root");
        for program in programs {
            root.program(program, &format!("/{program}"));
        }
        // Where a shell is looked for, and what it calls.
        for applet in ["sh", "mkdir", "cp"] {
            root.link(&format!("/bin/{applet}"), "/busybox");
        }
        root.import(name, changes);
    }

    /// Makes an image of a whole tree.
    pub(crate) fn import_tree(&self, name: &str, tree: &Path, changes: &[&str]) {
        let archive = self.path("root.tar");
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(tree).arg(".");
        assert!(support::output(&mut tar).status.success());
        let mut import = self.command(&["import", "--quiet"]);
        for change in changes {
            import.args(["--change", change]);
        }
        let output = support::output(import.arg(&archive).arg(name));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(&archive).expect("removed");
    }

    /// Starts a pod; podman returns when all its containers have started.
    pub(crate) fn play(&self, yaml: String) -> Pod<'_> {
        Pod::play(self, yaml)
    }
}

/// The tree of an image that is being made.
pub(crate) struct Root<'a> {
    podman: &'a Podman,
    tree: PathBuf,
}

impl<'a> Root<'a> {
    pub(crate) fn new(podman: &'a Podman, name: &str) -> Self {
        let tree = podman.path(name);
        fs::create_dir_all(tree.join("tmp")).expect("a directory");
        Self { podman, tree }
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a parent")).expect("a directory");
        place
    }

    /// A program of the machine's, which needs no libraries.
    pub(crate) fn program(&self, program: &str, to: &str) {
        let found = support::output(Command::new("which").arg(program));
        let found = String::from_utf8(found.stdout).expect("UTF-8");
        fs::copy(found.trim(), self.place(to)).unwrap_or_else(|error| panic!("{program}: {error}"));
    }

    pub(crate) fn link(&self, link: &str, to: &str) {
        symlink(to, self.place(link)).expect("a link");
    }

    /// Makes the image, and removes the tree.
    pub(crate) fn import(self, name: &str, changes: &[&str]) {
        self.podman.import_tree(name, &self.tree, changes);
        fs::remove_dir_all(&self.tree).expect("removed");
    }
}

/// Does the image's program name the commit of the one under test?
fn is_of_this_commit(program: &Path) -> bool {
    let commit = |program: &Path| {
        let said = support::output(Command::new(program).arg("--version")).stdout;
        let said = String::from_utf8(said).expect("UTF-8");
        said.split_once('(')
            .map(|(_, rest)| rest.split([' ', ',', ')']).next().unwrap_or_default().to_owned())
    };
    commit(program) == commit(Path::new(support::GATE))
}

impl Drop for Podman {
    fn drop(&mut self) {
        for args in [
            &["pod", "rm", "--all", "--force", "--time", "0"][..],
            &["rm", "--all", "--force", "--time", "0"],
        ] {
            let removed = self.command(args).output();
            if !removed.as_ref().is_ok_and(|output| output.status.success()) {
                println!("containers are left: {removed:?}");
            }
        }
        unmount_below(self.directory.path());
    }
}

/// The kernel runs another architecture's programs by qemu, on the whole machine, until this ends.
pub(crate) struct Emulator(Option<PathBuf>);

impl Emulator {
    /// `None`, having said so, where that cannot be.
    pub(crate) fn register(architecture: &str) -> Option<Self> {
        const BINFMT: &str = "/proc/sys/fs/binfmt_misc";
        let name = format!("qemu-{architecture}");
        if !can(&[&format!("{name}-static"), "--version"]) {
            return None;
        }
        let register = Path::new(BINFMT).join("register");
        if !register.exists()
            && let Err(errno) = mount(Some("none"), BINFMT, Some("binfmt_misc"), MsFlags::empty(), NONE)
        {
            skip(&format!("no binfmt_misc: {errno}"));
            return None;
        }
        if Path::new(BINFMT).join(&name).exists() {
            return Some(Self(None));
        }
        let rule = PathBuf::from(format!("/usr/lib/binfmt.d/{name}.conf"));
        let rule = fs::read_to_string(&rule).unwrap_or_else(|error| panic!("{}: {error}", rule.display()));
        // As a name of our own: what comes later under qemu's is not ours to take away.
        let ours = format!("peermem-gate-{architecture}");
        let rule = rule.trim().replacen(&name, &ours, 1);
        let place = Path::new(BINFMT).join(&ours);
        // Left by one that was killed.
        if place.exists() {
            return Some(Self(Some(place)));
        }
        if let Err(error) = fs::write(&register, rule) {
            skip(&format!("programs for {architecture} cannot be registered: {error}"));
            return None;
        }
        Some(Self(Some(place)))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(rule) = &self.0 {
            // No panic: it would end the other tests before they have cleaned up.
            if let Err(error) = fs::write(rule, "-1") {
                println!("{} is left: {error}", rule.display());
            }
        }
    }
}

/// A directory that is a mount of its own and whose later mounts reach containers, as a host's /run
/// is; undone at its end.
pub(crate) struct Shared(PathBuf);

impl Shared {
    pub(crate) fn new(directory: &Path) -> Self {
        bind_over(directory, directory);
        mount(NONE, directory, NONE, MsFlags::MS_SHARED, NONE).expect("a shared mount");
        Self(directory.to_owned())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        unmount_below(&self.0);
    }
}

/// Shows one directory at the place of another.
pub(crate) fn bind_over(directory: &Path, place: &Path) {
    mount(Some(directory), place, NONE, MsFlags::MS_BIND, NONE).expect("a bind mount");
}

/// All that this thread sees mounted below it, the last first.
fn unmount_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").expect("mountinfo");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    let below: Vec<_> = points.filter(|point| point.starts_with(directory)).collect();
    for point in below.into_iter().rev() {
        if let Err(errno) = umount2(point, MntFlags::MNT_DETACH) {
            println!("{} is left mounted: {errno}", point.display());
        }
    }
}

/// The YAML that we ship, for this node: other host paths, and nothing else.
pub(crate) fn lifted(file: &str, node: &Node) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let shipped = fs::read_to_string(shipped).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lifted = shipped.replace(" path: /", &format!(" path: {}/", node.root().display()));
    assert_ne!(lifted, shipped, "{file} has no host paths");
    lifted
}

/// The same with one text in place of another, which must be there.
pub(crate) fn replaced(yaml: &str, from: &str, to: &str) -> String {
    assert!(yaml.contains(from), "no {from:?} in {yaml}");
    yaml.replace(from, to)
}

/// A pod of [`Podman::play`], by its init container peermem-gate and its container driver.
pub(crate) struct Pod<'a> {
    podman: &'a Podman,
    play: Process,
    name: String,
    file: PathBuf,
}

impl<'a> Pod<'a> {
    fn play(podman: &'a Podman, yaml: String) -> Self {
        let name = yaml.lines().find_map(|line| line.strip_prefix("  name: ")).expect("a name").to_owned();
        let file = podman.path("pod.yaml");
        fs::write(&file, yaml).expect("a file");
        let log = format!("path={}", podman.path("log").display());
        let mut play = podman.command(&["kube", "play", "--network", "none", "--log-opt", &log]);
        let _ = fs::remove_file(podman.path("log"));
        let said = File::create(podman.path("play")).expect("a file");
        play.arg(&file).stdout(said.try_clone().expect("a descriptor")).stderr(said);
        let play = Process::new(play.spawn().expect("podman runs"));
        Self { podman, play, name, file }
    }

    /// As podman names it.
    pub(crate) fn container(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// All that the containers have logged so far, without what podman puts before each line.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.podman.path("log")).unwrap_or_default();
        let told = |line: &str| {
            let mut fields = line.splitn(4, ' ').skip(2);
            // P: the rest of the line follows.
            let end = if fields.next()? == "P" { "" } else { "\n" };
            Some(fields.next()?.to_owned() + end)
        };
        log.lines().filter_map(told).collect()
    }

    fn said(&self) -> String {
        format!("{}\n{}", self.log(), fs::read_to_string(self.podman.path("play")).unwrap_or_default())
    }

    /// Waits until a container has logged these words.
    pub(crate) fn logs(&mut self, words: &str) {
        let started = Instant::now();
        while !self.log().contains(words) {
            let failed = self.play.ends_within(Duration::ZERO) && !self.play.ended().success();
            assert!(!failed && started.elapsed() < LIMIT, "it never says {words:?}: {}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process of a container that runs, as the machine sees it.
    pub(crate) fn pid(&self, name: &str) -> String {
        self.podman.inspect(&self.container(name), ".State.Pid")
    }

    /// All init containers succeeded, and the other containers were started.
    pub(crate) fn assert_starts(&mut self) {
        let exit = code(self.play.ended());
        assert_eq!(exit, 0, "{}", self.said());
    }

    /// It was held, and opened because all was ready, by this event; then the driver's place saw
    /// the same.
    pub(crate) fn assert_opened(&mut self, event: &str) {
        self.assert_starts();
        assert_eq!(self.exit_code("driver"), "0", "{}", self.said());
        let log = self.log();
        let place = |words: &str| log.find(words).unwrap_or_else(|| panic!("no {words:?}: {}", self.said()));
        assert!(place("MarkerAbsent") < place("open: MOFED is ready"));
        assert!(place("open: MOFED is ready") < place("MarkerFound"), "{log}");
        assert!(log.contains(event) && !log.contains("safety net"), "{log}");
    }

    /// The exit code of the init container, which is not 0; the driver was not started.
    pub(crate) fn fails(&mut self) -> String {
        assert_ne!(code(self.play.ended()), 0, "{}", self.said());
        assert_eq!(self.podman.inspect(&self.container("driver"), ".State.Status"), "created");
        self.podman.inspect(&self.container("peermem-gate"), ".State.ExitCode")
    }

    /// Waits for a container's end.
    pub(crate) fn exit_code(&self, name: &str) -> String {
        self.podman.run(&["wait", &self.container(name)]).trim().to_owned()
    }

    /// Takes it away at once.
    pub(crate) fn remove(self) {
        self.podman.run(&["pod", "rm", "--force", "--time", "0", &self.name]);
    }

    /// Takes it away, its containers and all.
    pub(crate) fn down(self) {
        self.podman.run(&["kube", "down", self.file.to_str().expect("UTF-8")]);
    }
}
