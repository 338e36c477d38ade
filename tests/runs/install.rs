// SPDX-License-Identifier: Apache-2.0
//! `install`: what it leaves in a volume, and what it leaves alone.

use crate::support::{
    GATE, NOBODY, Process, can, can_be_nobody, can_unshare, code, copy_program, gate, gate_by, note, output,
    refusal, tests, wrapped, write_program,
};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const UNSHARE: [&str; 2] = ["unshare", "-m"];

/// The gate without what is for debuggers, which would be most of every copy.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let stripped = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peermem-gate");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(GATE).status();
    if strip.is_ok_and(|status| status.success()) { stripped } else { GATE.into() }
});

/// A volume, as an emptyDir is one.
struct Volume {
    directory: TempDir,
}

impl Volume {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("volume").tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("chmod");
        fs::create_dir(directory.path().join("gate")).expect("a directory");
        Self { directory }
    }

    /// DIR, which has a place outside it.
    fn dir(&self) -> PathBuf {
        self.outside("gate")
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self) -> PathBuf {
        self.dir().join("peermem-gate")
    }

    fn link(&self) -> PathBuf {
        self.dir().join("shim/modprobe")
    }

    fn install(&self) -> Command {
        install(&self.dir())
    }

    /// All names in DIR, and what is right about each.
    fn assert_installed(&self, by: &Path) {
        assert_eq!(names(&self.dir()), ["peermem-gate", "shim"]);
        assert_eq!(names(&self.dir().join("shim")), ["modprobe"]);
        assert!(fs::read(self.program()).unwrap() == fs::read(by).unwrap(), "another content");
        let metadata = self.program().symlink_metadata().unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.mode() & 0o7777, 0o755);
        let shim = self.dir().join("shim").symlink_metadata().unwrap();
        assert!(shim.is_dir());
        assert_eq!(shim.mode() & 0o777, 0o755);
        assert_eq!(fs::read_link(self.link()).unwrap(), Path::new("../peermem-gate"));
    }
}

fn install(dir: &Path) -> Command {
    let mut command = gate_by(&PROGRAM);
    command.arg("install").arg(dir);
    command
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = directory.read_dir().unwrap().map(name).collect();
    names.sort();
    names
}

fn assert_installs(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(output.status), 0, "{shown}: {said}");
    assert!(output.stdout.is_empty(), "{shown}");
    said
}

fn assert_refused(command: &mut Command, words: &[&str]) {
    let (code, said) = refusal(command);
    assert_eq!(code, 2, "{command:?}: {said}");
    assert_says(&said, words);
}

fn assert_fails(command: &mut Command, words: &[&str]) {
    let (code, said) = refusal(command);
    assert_eq!(code, 125, "{command:?}: {said}");
    assert_says(&said, words);
}

fn assert_says(said: &str, words: &[&str]) {
    let last = said.lines().last().unwrap_or_default();
    for word in words {
        assert!(last.starts_with("error: ") && last.contains(word), "no {word:?}: {said}");
    }
}

/// What tells one file from another, and a change from none.
fn identity(path: &Path) -> (u64, i64, i64, i64) {
    let metadata = path.symlink_metadata().unwrap();
    (metadata.ino(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

/// This program in a mount namespace of its own, in which the script mounts before it calls `"$@"`.
fn within(script: &str, install: &Command) -> Command {
    wrapped(UNSHARE.into_iter().chain(["bash", "-ec", script, "within"]), install)
}

/// Another build of the same program: what stands behind an ELF file does not count.
fn another_build(place: &Path) -> PathBuf {
    let path = place.join("another-build");
    write_program(&path, [&fs::read(&*PROGRAM).unwrap()[..], b"another"].concat());
    path
}

fn install_creates_the_program_and_the_link() {
    let volume = Volume::new();
    let said = assert_installs(&mut volume.install());
    volume.assert_installed(&PROGRAM);
    for path in [volume.program(), volume.link()] {
        assert!(said.contains(&format!("installed: {}", path.display())), "{said}");
    }
    let version = output(gate_by(&volume.program()).arg("--version"));
    assert_eq!(version.stdout, output(gate().arg("--version")).stdout);
}

fn a_second_install_says_that_it_changes_nothing() {
    let volume = Volume::new();
    assert_installs(&mut volume.install());
    let all = [volume.dir(), volume.program(), volume.dir().join("shim"), volume.link()];
    let before = all.each_ref().map(|path| identity(path));
    // By itself too.
    let mut by_itself = gate_by(&volume.program());
    by_itself.arg("install").arg(volume.dir());
    for mut command in [volume.install(), by_itself] {
        let said = assert_installs(&mut command);
        assert_eq!(said.matches("already there").count(), 2, "{said}");
    }
    assert_eq!(all.each_ref().map(|path| identity(path)), before, "nothing of its own is left or made again");
}

fn an_older_running_program_is_replaced_and_keeps_running() {
    let volume = Volume::new();
    copy_program("/bin/sleep", &volume.program());
    let before = identity(&volume.program());
    let running = Command::new(volume.program()).arg("60").stdin(Stdio::null()).spawn().unwrap();
    let mut running = Process::new(running);
    assert_installs(&mut volume.install());
    volume.assert_installed(&PROGRAM);
    assert_ne!(identity(&volume.program()).0, before.0);
    assert!(!running.ends_within(Duration::ZERO));
    // And back, by another build.
    let other = another_build(volume.directory.path());
    assert_installs(gate_by(&other).arg("install").arg(volume.dir()));
    volume.assert_installed(&other);
}

fn an_installed_program_is_kept_only_if_it_is_identical() {
    let same = fs::read(&*PROGRAM).unwrap();
    let mut last_byte = same.clone();
    *last_byte.last_mut().unwrap() ^= 1;
    let half = &same[..same.len() / 2];
    for (bytes, mode) in [
        (&same[..], 0o700),
        (&same, 0o644),
        (&same, 0o4755),
        (&last_byte, 0o755),
        (half, 0o755),
        (b"", 0o000),
    ] {
        let volume = Volume::new();
        fs::write(volume.program(), bytes).unwrap();
        fs::set_permissions(volume.program(), Permissions::from_mode(mode)).unwrap();
        assert_installs(&mut volume.install());
        volume.assert_installed(&PROGRAM);
    }
}

fn the_shim_hands_over_wherever_the_volume_is_mounted() {
    if !can(&["modprobe", "--version"]) {
        return;
    }
    let volume = Volume::new();
    assert_installs(&mut volume.install());
    let moved = volume.outside("elsewhere");
    fs::rename(volume.dir(), &moved).unwrap();
    let by_itself = output(Command::new("modprobe").arg("--version").stdin(Stdio::null()));
    let mut shim = gate_by(&moved.join("shim/modprobe"));
    let path = std::env::var("PATH").unwrap();
    let by_shim =
        output(shim.arg("--version").env("PATH", format!("{}:{path}", moved.join("shim").display())));
    assert_eq!((code(by_shim.status), &by_shim.stdout), (0, &by_itself.stdout));
    assert!(by_shim.stdout.starts_with(b"kmod version"), "{by_shim:?}");
}

fn install_ignores_the_umask_of_the_container() {
    for umask in ["077", "777", "000"] {
        let volume = Volume::new();
        let script = format!("umask {umask}; exec \"$@\"");
        assert_installs(&mut wrapped(["bash", "-c", &script, "bash"], &volume.install()));
        volume.assert_installed(&PROGRAM);
    }
    // Left by one that was killed in between.
    let volume = Volume::new();
    fs::create_dir(volume.dir().join("shim")).unwrap();
    fs::set_permissions(volume.dir().join("shim"), Permissions::from_mode(0o2700)).unwrap();
    assert_installs(&mut volume.install());
    volume.assert_installed(&PROGRAM);
    assert_eq!(
        volume.dir().join("shim").metadata().unwrap().mode() & 0o7777,
        0o2755,
        "a volume's group stays"
    );
}

fn any_user_with_write_permission_may_install() {
    let volume = Volume::new();
    let nobody = || wrapped(NOBODY, &volume.install());
    let words = ["Permission denied", "fsGroup"];
    assert_refused(&mut nobody(), &words);
    assert_eq!(names(&volume.dir()), [""; 0]);
    // As an emptyDir is made.
    fs::set_permissions(volume.dir(), Permissions::from_mode(0o777)).unwrap();
    assert_installs(&mut nobody());
    volume.assert_installed(&PROGRAM);
    assert_eq!(volume.program().metadata().unwrap().uid(), 65534);
    // And root's own serves nobody as well, though nobody may not replace it.
    let volume = Volume::new();
    assert_installs(&mut volume.install());
    assert_installs(&mut wrapped(NOBODY, &volume.install()));
    fs::set_permissions(volume.dir(), Permissions::from_mode(0o700)).unwrap();
    assert_refused(&mut wrapped(NOBODY, &volume.install()), &words);
}

fn dir_must_be_a_directory_that_exists() {
    let volume = Volume::new();
    let outside = |name: &str| volume.outside(name);
    fs::write(outside("file"), "").unwrap();
    symlink("nowhere", outside("dangling")).unwrap();
    symlink("loop", outside("loop")).unwrap();
    mkfifo(&outside("fifo"), Mode::S_IRWXU).unwrap();
    let missing = ["No such file or directory", "mount the volume there"];
    for name in ["none", "none/deeper", "dangling"] {
        let path = outside(name);
        assert_refused(&mut install(&path), &missing);
        assert_refused(&mut install(&path), &[path.to_str().unwrap()]);
    }
    assert!(!outside("none").exists() && !outside("nowhere").exists());
    for name in ["file", "file/below", "fifo", "loop", &"long".repeat(100)] {
        assert_refused(&mut install(&outside(name)), &["name the directory at which the volume is mounted"]);
    }
    let (status, said) = refusal(gate().args(["install", ""]));
    assert_eq!(status, 2, "{said}");
    let (status, said) = refusal(gate().arg("install"));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("<DIR>"), "{said}");
    let (status, said) = refusal(volume.install().arg("more"));
    assert_eq!(status, 2, "{said}");
    assert_eq!(names(&volume.dir()), [""; 0]);
}

fn dir_may_be_named_by_a_link_or_from_the_working_directory() {
    let volume = Volume::new();
    symlink("gate", volume.outside("link")).unwrap();
    assert_installs(&mut install(&volume.outside("link")));
    volume.assert_installed(&PROGRAM);
    assert!(volume.outside("link").is_symlink());
    let volume = Volume::new();
    assert_installs(install(Path::new(".")).current_dir(volume.dir()));
    volume.assert_installed(&PROGRAM);
}

fn install_names_a_noexec_mount() {
    let volume = Volume::new();
    let dir = volume.dir().display().to_string();
    let list = "code=0; \"$@\" || code=$?; ls -A \"$at\"; exit $code";
    // The flag of a mount of its own, and of a volume that others have without it.
    for mounted in [
        "mount -t tmpfs -o noexec,size=1g none \"$at\"",
        "mount --bind \"$at\" \"$at\"; mount -o remount,bind,noexec \"$at\"",
    ] {
        let script = format!("at={dir}; {mounted}; {list}");
        let output = output(&mut within(&script, &volume.install()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(output.status), 2, "{said}");
        assert_eq!(output.stdout, b"shim\n", "no program is left: {output:?}");
        let kind = if mounted.contains("tmpfs") { "tmpfs" } else { "" };
        assert_says(&said, &[&format!("{dir} ({kind}"), "is mounted noexec", "another mount"]);
    }
    // Nor does one serve that is there already; and it is the mount that is named.
    fs::create_dir(volume.outside("two words")).unwrap();
    let mount = volume.outside("two words").display().to_string();
    let script = format!(
        "mount -t tmpfs -o size=1g none '{mount}'; mkdir '{mount}/deep'; \"$@\"; mount -o remount,noexec '{mount}'; \"$@\""
    );
    let command = install(&Path::new(&mount).join("deep"));
    assert_refused(
        &mut within(&script, &command),
        &[&format!("{mount} (tmpfs) is mounted noexec"), "two words/deep/peermem-gate may not be run"],
    );
}

fn install_on_a_full_disk_leaves_no_file_and_says_why() {
    let volume = Volume::new();
    let dir = volume.dir().display().to_string();
    let list = "code=0; \"$@\" || code=$?; ls -A \"$at\"; exit $code";
    let script = format!("at={dir}; mount -t tmpfs -o size=64k none \"$at\"; {list}");
    let output = output(&mut within(&script, &volume.install()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 125, "{said}");
    assert_eq!(output.stdout, b"shim\n", "{output:?}");
    assert_says(&said, &["No space left on device", "make room"]);
    // What is there already needs none.
    let megabytes = PROGRAM.metadata().unwrap().len() / 1024 / 1024 + 2;
    let script = format!(
        "mount -t tmpfs -o size={megabytes}m none {dir}; \"$@\"; cat /dev/zero >{dir}/rest || true; \"$@\""
    );
    let (status, said) = refusal(&mut within(&script, &volume.install()));
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("No space left") && said.contains("already there"), "{said}");
    // Room for bytes, but not for more files.
    let script = format!("at={dir}; mount -t tmpfs -o size=1g,nr_inodes=1 none \"$at\"; {list}");
    assert_fails(&mut within(&script, &volume.install()), &["No space left on device", "df -i"]);
    // A file system without a size of its own.
    let script = format!("mount -t tmpfs -o size=0 none {dir}; \"$@\"");
    assert_eq!(refusal(&mut within(&script, &volume.install())).0, 0);
}

fn install_names_a_read_only_mount_unless_the_files_are_there() {
    let volume = Volume::new();
    let dir = volume.dir().display().to_string();
    let read_only = format!("mount --bind {dir} {dir}; mount -o remount,bind,ro {dir}; exec \"$@\"");
    let words = ["Read-only file system", "writable", &dir];
    assert_refused(&mut within(&read_only, &volume.install()), &words);
    assert_installs(&mut volume.install());
    let (status, said) = refusal(&mut within(&read_only, &volume.install()));
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("already there"), "{said}");
    fs::remove_file(volume.link()).unwrap();
    assert_refused(&mut within(&read_only, &volume.install()), &words);
}

/// Everything below a directory, with what tells a change.
fn tree(directory: &Path) -> Vec<(PathBuf, u64, u64, u32, i64, i64)> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            todo.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        found.push((path, metadata.ino(), metadata.size(), metadata.mode(), changed.0, changed.1));
    }
    found.sort();
    found
}

fn no_link_is_followed_out_of_dir() {
    for name in ["peermem-gate", "shim/modprobe"] {
        for target in ["outside/file", "outside/directory", "outside/none", "outside/directory/none"] {
            for relative in [true, false] {
                let volume = Volume::new();
                fs::create_dir_all(volume.outside("outside/directory")).unwrap();
                fs::create_dir(volume.dir().join("shim")).unwrap();
                fs::write(volume.outside("outside/file"), "theirs").unwrap();
                let up = if name.contains('/') { "../.." } else { ".." };
                let leads = if relative { Path::new(up).join(target) } else { volume.outside(target) };
                symlink(leads, volume.dir().join(name)).unwrap();
                let before = tree(&volume.outside("outside"));
                assert_installs(&mut volume.install());
                volume.assert_installed(&PROGRAM);
                assert_eq!(tree(&volume.outside("outside")), before, "{name} -> {target}");
            }
        }
        // A second name of a file elsewhere, such as hard links make.
        let volume = Volume::new();
        fs::create_dir_all(volume.outside("outside")).unwrap();
        fs::create_dir(volume.dir().join("shim")).unwrap();
        fs::write(volume.outside("outside/file"), "theirs").unwrap();
        fs::hard_link(volume.outside("outside/file"), volume.dir().join(name)).unwrap();
        assert_installs(&mut volume.install());
        volume.assert_installed(&PROGRAM);
        assert_eq!(fs::read(volume.outside("outside/file")).unwrap(), b"theirs");
        assert_eq!(volume.outside("outside/file").metadata().unwrap().mode() & 0o777, 0o644);
    }
}

/// A process that swaps names in the volume meanwhile may spoil the install, but leads no write out of it.
fn install_stays_in_its_directory_if_names_are_swapped_meanwhile() {
    let volume = Volume::new();
    fs::create_dir(volume.outside("outside")).unwrap();
    fs::write(volume.outside("outside/modprobe"), "theirs").unwrap();
    fs::write(volume.outside("outside/peermem-gate"), "theirs").unwrap();
    fs::create_dir(volume.dir().join("shim")).unwrap();
    symlink("../outside", volume.dir().join("swapped")).unwrap();
    let before = tree(&volume.outside("outside"));
    let is_done = Arc::new(AtomicBool::new(false));
    let swap = {
        let (is_done, dir) = (Arc::clone(&is_done), volume.dir());
        move || {
            while !is_done.load(Ordering::Relaxed) {
                let (one, other) = (dir.join("shim"), dir.join("swapped"));
                let _ = renameat2(AT_FDCWD, &one, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE);
            }
        }
    };
    let swapping = thread::spawn(swap);
    let mut codes: Vec<_> = (0..60).map(|_| refusal(&mut volume.install()).0).collect();
    is_done.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    codes.sort_unstable();
    codes.dedup();
    note!("{codes:?}");
    assert!(codes.iter().all(|code| [0, 2, 125].contains(code)), "{codes:?}");
    assert_eq!(tree(&volume.outside("outside")), before);
}

fn a_shim_directory_that_is_a_link_is_refused() {
    for target in ["/etc", "../outside", "../outside/none", "../outside/file", "../gate", "."] {
        let volume = Volume::new();
        fs::create_dir(volume.outside("outside")).unwrap();
        fs::write(volume.outside("outside/file"), "theirs").unwrap();
        symlink(target, volume.dir().join("shim")).unwrap();
        let (before, etc) = (tree(&volume.outside("")), identity(Path::new("/etc")));
        let shim = volume.dir().join("shim").display().to_string();
        assert_refused(&mut volume.install(), &[&shim, "remove links and files in the way"]);
        assert_eq!(tree(&volume.outside("")), before, "nothing has changed: {target}");
        assert_eq!(identity(Path::new("/etc")), etc);
    }
}

fn install_names_what_is_in_the_way_and_leaves_it() {
    for (name, kind, words) in [
        ("peermem-gate", "directory", "it is in the way: remove it"),
        ("peermem-gate", "fifo", "it is in the way: remove it"),
        ("shim/modprobe", "directory", "it is in the way: remove it"),
        ("shim/modprobe", "fifo", "it is in the way: remove it"),
        ("shim", "file", "remove links and files in the way"),
        ("shim", "fifo", "remove links and files in the way"),
    ] {
        let volume = Volume::new();
        let path = volume.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match kind {
            "directory" => fs::create_dir(&path).unwrap(),
            "fifo" => mkfifo(&path, Mode::S_IRWXU).unwrap(),
            _ => fs::write(&path, "x").unwrap(),
        }
        let before = identity(&path);
        assert_refused(&mut volume.install(), &[path.to_str().unwrap(), words]);
        assert_eq!(identity(&path), before, "{name} {kind}");
        let is_hidden = |name: &String| name.starts_with('.');
        let shim = Some(volume.dir().join("shim")).filter(|shim| shim.is_dir());
        let all = [volume.dir()].into_iter().chain(shim).flat_map(|directory| names(&directory));
        assert_eq!(all.into_iter().find(is_hidden), None);
    }
}

fn an_install_that_is_killed_leaves_no_broken_file() {
    let volume = Volume::new();
    let limited = |before: &str| {
        let script = format!("{before} ulimit -c 0; ulimit -f 512; exec \"$@\"");
        wrapped(["bash", "-c", &script, "bash"], &volume.install())
    };
    // A failing write cleans up after itself.
    assert_fails(&mut limited("trap '' XFSZ;"), &["File too large", "cannot write"]);
    assert_eq!(names(&volume.dir()), ["shim"]);
    // SIGXFSZ, in the middle of the writing: what was there stays, and the next install is whole.
    fs::write(volume.program(), "older").unwrap();
    assert_eq!(refusal(&mut limited("")).0, 128 + 25);
    assert_eq!(fs::read(volume.program()).unwrap(), b"older");
    let left: Vec<_> = names(&volume.dir()).into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left.len(), 1, "or it was not killed half-way");
    // It may be of one that runs now; later it goes.
    assert_installs(&mut volume.install());
    let left = volume.dir().join(&left[0]);
    let before = File::open(&left).unwrap();
    before.set_modified(SystemTime::now() - Duration::from_secs(600)).unwrap();
    assert_installs(&mut volume.install());
    volume.assert_installed(&PROGRAM);
}

fn a_program_that_cannot_be_run_is_not_installed() {
    let volume = Volume::new();
    fs::set_permissions(volume.dir(), Permissions::from_mode(0o777)).unwrap();
    // A checkout below a home of mode 700 is out of nobody's reach.
    let program = volume.outside("peermem-gate");
    copy_program(&*PROGRAM, &program);
    let mut install = gate_by(&program);
    install.arg("install").arg(volume.dir());
    let limited = wrapped(["bash", "-c", "ulimit -u 0; exec \"$@\"", "bash"], &install);
    let mut limited = wrapped(NOBODY, &limited);
    if can(&[&NOBODY[..], &["true"]].concat()) {
        assert_fails(&mut limited, &["cannot run ", "check that processes may be started here"]);
        assert_eq!(names(&volume.dir()), ["shim"]);
    }
}

fn many_installs_of_two_builds_at_once_do_not_disturb_each_other() {
    let volume = Volume::new();
    let other = another_build(volume.directory.path());
    let builds = [&*PROGRAM, &other];
    let start = |build: &Path| {
        let mut command = gate_by(build);
        command.arg("install").arg(volume.dir()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let installing: Vec<_> = (0..8).map(|turn| Process::new(start(builds[turn % 2]))).collect();
    let dir = volume.dir();
    let watch = thread::spawn(move || {
        let mut runs = 0;
        for mut process in installing {
            while !process.ends_within(Duration::from_millis(1)) {
                // From the first rename on it is there, whole, and runs.
                if dir.join("peermem-gate").exists() {
                    assert!(output(gate_by(&dir.join("peermem-gate")).arg("--version")).status.success());
                    runs += 1;
                }
                let link = fs::read_link(dir.join("shim/modprobe"));
                assert!(link.is_err() || link.is_ok_and(|target| target == Path::new("../peermem-gate")));
            }
            assert_eq!(code(process.ended()), 0);
        }
        runs
    });
    let runs = watch.join().unwrap();
    assert!(runs > 0, "nobody has looked meanwhile");
    let is_other = volume.program().metadata().unwrap().len() == other.metadata().unwrap().len();
    volume.assert_installed(builds[usize::from(is_other)]);
}

fn nothing_is_written_into_mofeds_directory() {
    let volume = Volume::new();
    let script = format!(
        "mount -t tmpfs none /run; mkdir -p /run/mellanox/drivers/usr; ln -s /run/mellanox/drivers/usr {}; code=0; \
         \"$@\" || code=$?; find /run/mellanox -type f; exit $code",
        volume.outside("link").display()
    );
    let link = volume.outside("link");
    for dir in [Path::new("/run/mellanox/drivers"), Path::new("/run/mellanox/./drivers/usr"), &link] {
        let _ = fs::remove_file(&link);
        let output = output(&mut within(&script, &install(dir)));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(output.status), 2, "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
        assert_says(&said, &["nothing may be written below /run/mellanox/drivers", "name another directory"]);
    }
}

fn install_ignores_the_variables_of_the_other_verbs() {
    let volume = Volume::new();
    let with = |name: &str, value: &str| {
        let mut command = volume.install();
        command.env(name, value);
        command
    };
    for (name, value) in [
        ("PEERMEM_GATE_TIMEOUT", "nonsense"),
        ("PEERMEM_GATE_DISABLED", ""),
        ("PEERMEM_GATE_MODPROBE", "/no/such/modprobe"),
        ("PEERMEM_GATE_STATUS_FILE", "/no/such/status"),
        ("PEERMEM_GATE_SERVICE_HOST", "10.0.0.1"),
        ("DRIVER_READY_PATH", "relative"),
        ("GPU_DIRECT_RDMA_ENABLED", "false"),
    ] {
        assert_installs(&mut with(name, value));
    }
    let said = assert_installs(&mut with("PEERMEM_GATE_LOG_FORMAT", "json"));
    assert!(said.lines().all(|line| line.starts_with('{')), "{said}");
    assert_eq!(assert_installs(&mut with("PEERMEM_GATE_LOG_LEVEL", "error")), "");
    for (name, value) in
        [("PEERMEM_GATE_DIR", "/x"), ("PEERMEM_GATE_LOG_LEVEL", "loud"), ("PEERMEM_GATE_LOG_FORMAT", "")]
    {
        let (status, said) = refusal(&mut with(name, value));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(name), "{said}");
    }
}

fn a_failed_install_writes_the_termination_log() {
    let volume = Volume::new();
    let log = volume.outside("termination-log");
    fs::write(&log, "").unwrap();
    let mut command = install(&volume.outside("none"));
    let (status, said) = refusal(command.env("PEERMEM_GATE_TERMINATION_LOG", &log));
    assert_eq!(status, 2, "{said}");
    assert_eq!(fs::read_to_string(&log).unwrap().trim_end(), said.trim_end());
    assert!(said.contains("mount the volume there"), "{said}");
}

tests![
    [
        install_creates_the_program_and_the_link,
        a_second_install_says_that_it_changes_nothing,
        an_older_running_program_is_replaced_and_keeps_running,
        an_installed_program_is_kept_only_if_it_is_identical,
        the_shim_hands_over_wherever_the_volume_is_mounted,
        install_ignores_the_umask_of_the_container,
        dir_must_be_a_directory_that_exists,
        dir_may_be_named_by_a_link_or_from_the_working_directory,
        no_link_is_followed_out_of_dir,
        install_stays_in_its_directory_if_names_are_swapped_meanwhile,
        a_shim_directory_that_is_a_link_is_refused,
        install_names_what_is_in_the_way_and_leaves_it,
        an_install_that_is_killed_leaves_no_broken_file,
        a_program_that_cannot_be_run_is_not_installed,
        many_installs_of_two_builds_at_once_do_not_disturb_each_other,
        install_ignores_the_variables_of_the_other_verbs,
        a_failed_install_writes_the_termination_log,
    ],
    if can_be_nobody [any_user_with_write_permission_may_install],
    if can_unshare [
        nothing_is_written_into_mofeds_directory,
        install_names_a_read_only_mount_unless_the_files_are_there,
        install_names_a_noexec_mount,
        install_on_a_full_disk_leaves_no_file_and_says_why,
    ],
];
