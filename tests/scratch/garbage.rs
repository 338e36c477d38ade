// SPDX-License-Identifier: Apache-2.0
//! Garbage in every file that the gate reads: never a panic, and never open but where contract.md
//! lets what cannot be seen pass.

use crate::support::{
    self, GATE, LOCK, MARKER, MODULES, NOBODY, Node, Report, SYMVERS, VENDOR, can_be_nobody, note, tests,
    wrapped,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Truncated,
    Binary,
    LongLine,
    Empty,
    Missing,
    Directory,
    Fifo,
    Denied,
}
use Damage::{Binary, Denied, Directory, Empty, Fifo, LongLine, Missing, Truncated};

const ALL: &[Damage] = &[Truncated, Binary, LongLine, Empty, Missing, Directory, Fifo, Denied];

struct File {
    path: String,
    /// With which of them the gate may open all the same, by contract.md.
    passes: &'static [Damage],
    node: fn() -> Node,
    args: &'static [&'static str],
}

fn file(path: &str, passes: &'static [Damage]) -> File {
    File { path: path.to_owned(), passes, node: Node::ready, args: &[] }
}

/// Every file that a look may read. The contract's words for what may pass are given with each.
fn files() -> Vec<File> {
    let mut files = vec![
        file("proc/modules", &[]),
        // `SymbolsExported`: "Unknown, which passes, when kallsyms cannot be read".
        file("proc/kallsyms", &[Missing, Directory, Denied]),
        file("proc/locks", &[]),
        // `MarkerTrusted`: "Unknown, which passes, where it cannot be seen (…, /proc is not the
        // host pid namespace's)": only kthreadd as process 2 shows that it is.
        File { node: || Node::ready().suspect(), ..file("proc/2/comm", ALL) },
        // What is not read from here is uname's: of another kernel.
        file("proc/sys/kernel/osrelease", if running(support::KERNEL) { ALL } else { &[] }),
        file("proc/sys/kernel/arch", &[Empty, Missing, Directory, Fifo, Denied]),
        // Names for people.
        file("proc/sys/kernel/hostname", ALL),
        file("proc/sys/kernel/random/boot_id", ALL),
        file(VENDOR, &[]),
        file("sys/bus/pci/devices", &[]),
        // It is only asked whether it is there, and whether it is a regular file.
        file(MARKER, &[Truncated, Binary, LongLine, Empty, Denied]),
        // The same; "no lock file" passes.
        file(LOCK, &[Truncated, Binary, LongLine, Empty, Denied, Missing]),
        file(SYMVERS, &[]),
        // Nothing is expected of the version …
        file("sys/module/mlx5_core/version", ALL),
        // … until something is: "agrees with the expected one, as far as both go".
        File {
            args: &["--mofed-version", "25.07-0.9.7"],
            ..file("sys/module/mlx5_core/version", &[Truncated])
        },
        file("run/mellanox/drivers/usr/src/ofa_kernel", &[]),
    ];
    for module in MODULES {
        files.push(file(&format!("sys/module/{module}"), &[]));
        files.push(file(&format!("sys/module/{module}/initstate"), &[]));
        // The letter that counts is still there when the others are not.
        files.push(file(&format!("sys/module/{module}/taint"), &[Truncated]));
    }
    files
}

fn running(release: &str) -> bool {
    nix::sys::utsname::uname().is_ok_and(|uname| uname.release() == release)
}

/// False where this damage says nothing: a directory cannot be cut.
fn damage(node: &Node, relative: &str, damage: Damage) -> bool {
    let path = node.path(relative);
    let is_dir = path.is_dir();
    let bytes = || fs::read(&path).expect("a file to damage");
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
    match damage {
        Truncated | Binary | LongLine | Empty | Directory if is_dir => return false,
        // In place: the lock file's inode is what counts.
        Truncated => fs::write(&path, &bytes()[..bytes().len() / 2]).expect("cut"),
        Binary => fs::write(&path, (0..=255).cycle().take(5000).collect::<Vec<u8>>()).expect("binary"),
        LongLine => fs::write(&path, vec![b'0'; 1 << 20]).expect("a long line"),
        Empty => fs::write(&path, "").expect("emptied"),
        Missing => node.remove(relative),
        // Kept elsewhere, or the new one might get its inode, which is what a lock is known by.
        Directory => {
            node.rename(relative, "kept");
            fs::create_dir(&path).expect("a directory");
        }
        Fifo => {
            node.rename(relative, "kept");
            mkfifo(&path, Mode::S_IRWXU).expect("a FIFO");
        }
        Denied => mode(0o000),
    }
    true
}

fn assert_harmless(damaged: Damage, look: impl Fn(&Node, &[&str]) -> Report) {
    let mut wrong = Vec::new();
    for File { path, passes, node, args } in files() {
        let node = node();
        if !damage(&node, &path, damaged) {
            continue;
        }
        let report = look(&node, args);
        let (code, verdict) = (report.code, report.verdict());
        let opens = code == 0;
        note!("{path} {damaged:?}: {code} {verdict}");
        if !(0..=2).contains(&code) || (opens && !passes.contains(&damaged)) {
            wrong.push(format!("{path}: {code} {}", report.json));
        }
        if damaged == Denied {
            // So the tree can be taken away by anybody.
            let _ = fs::set_permissions(node.path(&path), fs::Permissions::from_mode(0o755));
        }
    }
    assert!(wrong.is_empty(), "{damaged:?}:\n{}", wrong.join("\n"));
}

fn as_ourselves(node: &Node, args: &[&str]) -> Report {
    Report::of(node.check().args(["--format", "json"]).args(args))
}

fn the_node_that_these_tests_damage_is_ready_when_it_is_whole() {
    for File { path, node, args, .. } in files() {
        let report = as_ourselves(&node(), args);
        let wanted = if path == "proc/2/comm" { "MarkerSuspect" } else { "LockHeld" };
        assert_eq!(report.reason("MarkerTrusted"), wanted, "{path}");
        assert_eq!(report.code, i32::from(wanted == "MarkerSuspect"), "{path}: {}", report.json);
    }
}

/// The gate where anybody can run it, as root's build directory may not be.
fn for_anybody() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    support::copy_program(GATE, &directory.path().join("gate"));
    directory
}

fn as_nobody(gate: &Path, node: &Node, args: &[&str]) -> Report {
    let mut check = Command::new(gate);
    check.args(["check", "--format", "json", "--root"]).arg(node.root()).args(args);
    Report::of(&mut wrapped(NOBODY, &check))
}

fn unreadable_files_open_no_gate() {
    let directory = for_anybody();
    let gate = directory.path().join("gate");
    let whole = as_nobody(&gate, &Node::ready(), &[]);
    assert_eq!(whole.verdict(), "Ready", "{whole:#?}");
    assert_harmless(Denied, |node, args| as_nobody(&gate, node, args));
    // Not the marker itself, but what it lies in.
    for hidden in ["run", "run/mellanox/drivers", "proc", "sys", "sys/module", "proc/sys"] {
        let node = Node::ready();
        fs::set_permissions(node.path(hidden), fs::Permissions::from_mode(0o000)).expect("chmod");
        let report = as_nobody(&gate, &node, &[]);
        fs::set_permissions(node.path(hidden), fs::Permissions::from_mode(0o755)).expect("chmod");
        assert!([1, 2].contains(&report.code), "{hidden}: {}", report.json);
    }
}

/// A directory that may be searched and not listed: what it would have named is unknown, and not nothing.
fn an_unreadable_header_directory_leaves_the_expected_version_unknown() {
    let directory = for_anybody();
    let gate = directory.path().join("gate");
    let node = Node::ready();
    let sources = "run/mellanox/drivers/usr/src";
    fs::create_dir(node.path(&format!("{sources}/ofa_kernel-23.10"))).expect("a directory");
    let as_root = as_nobody(&gate, &node, &[]);
    assert_eq!(as_root.reason("VersionMatches"), "VersionMismatch", "{}", as_root.json);
    fs::set_permissions(node.path(sources), fs::Permissions::from_mode(0o711)).expect("chmod");
    let report = as_nobody(&gate, &node, &[]);
    assert_eq!(report.reason("VersionMatches"), "VersionUnreadable", "{}", report.json);
    assert_eq!((report.code, report.verdict()), (2, "Unknown"));
}

/// What would end a line, steer a terminal, or turn the reading direction.
const DECEPTIVE: &str = "x\nReady: all is well\r\u{1b}[2J\u{1b}]0;pwned\u{7}\u{9b}31m\u{202e}y";

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| {
        c == '\n' || !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// Names of directories, versions, symbols, hostnames: each is somebody else's.
fn text_from_the_node_cannot_forge_a_line_or_control_a_terminal() {
    let node = Node::ready();
    let sources = "run/mellanox/drivers/usr/src/ofa_kernel";
    fs::remove_dir_all(node.path(sources)).expect("headers");
    fs::create_dir_all(node.path(&format!("{sources}/x86_64/6.2.{}", DECEPTIVE.replace('/', ""))))
        .expect("a directory");
    node.write("proc/sys/kernel/hostname", DECEPTIVE);
    node.write("sys/module/mlx5_core/version", DECEPTIVE);
    node.write("proc/modules", DECEPTIVE.replacen('\n', "", 1) + "\n");
    for (verb, option) in [("check", "--peermem"), ("doctor", "--verbose=false"), ("doctor", "--verbose")] {
        let mut command = support::gate();
        command.args([verb, option, "--root"]).arg(node.root()).env("GPU_DIRECT_RDMA_ENABLED", "true");
        let output = support::output(&mut command);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(is_plain(&text), "{verb}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("Ready: all is well")), "{verb}: {text}");
    }
    let log = node.path("last-words");
    let mut wait = support::gate();
    wait.args(["wait", "--timeout", "0s", "--root"]).arg(node.root()).arg("--termination-log").arg(&log);
    wait.args(["--mofed-version", "24.10"]);
    let output = support::output(&mut wait);
    let said = String::from_utf8(output.stderr).expect("text");
    let words = fs::read_to_string(log).expect("last words");
    for text in [said, words] {
        assert!(is_plain(&text) && text.contains(r"\u{1b}"), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("Ready: all is well")), "{text}");
    }
}

/// A node without a finding, with all that `doctor` reads and the gate does not.
fn with_symptoms() -> Node {
    let node = Node::ready();
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    let modules =
        modules.replace("ib_uverbs 217088 1 mlx5_ib,", "ib_uverbs 217088 2 nvidia_peermem,mlx5_ib,");
    let live = "nvidia_peermem 1 0 - Live 0x0 (OE)\nnvidia 1 1 nvidia_peermem, Live 0x0 (POE)\n";
    node.write("proc/modules", format!("{live}{modules}"));
    for module in ["nvidia", "nvidia_peermem"] {
        node.write(&format!("sys/module/{module}/initstate"), "live\n");
        node.write(&format!("sys/module/{module}/taint"), "OE\n");
    }
    for (path, text) in SYMPTOMS {
        node.write(path, text);
    }
    let driver = node.path("sys/bus/pci/devices/0000:41:00.0/driver");
    std::os::unix::fs::symlink("../../../../bus/pci/drivers/nvidia", driver).expect("a link");
    for ready in ["driver-ready", "toolkit-ready", "cuda-ready"] {
        node.write(&format!("run/nvidia/validations/{ready}"), "");
    }
    // The driver's script holds a lock on its pid, cut off or not.
    let pid = node.path("run/nvidia/nvidia-driver.pid").metadata().expect("a pid file");
    let device = (nix::sys::stat::major(pid.dev()), nix::sys::stat::minor(pid.dev()));
    let held =
        format!("2: FLOCK  ADVISORY  WRITE 4242 {:02x}:{:02x}:{} 0 EOF\n", device.0, device.1, pid.ino());
    let locks = fs::read_to_string(node.path("proc/locks")).expect("locks");
    node.write("proc/locks", locks + &held);
    node.write("run/containerd/containerd.sock", "");
    node.write("etc/containerd/config.toml", "version = 2\n");
    node
}

const MOUNTS: &str =
    "22 1 259:2 / / rw shared:1 - ext4 /dev/x rw\n25 22 0:23 / /run rw shared:5 - tmpfs tmpfs rw\n";
const SYMPTOMS: [(&str, &str); 24] = [
    ("proc/1/mountinfo", MOUNTS),
    ("run/nvidia/nvidia-driver.pid", "4242\n"),
    ("proc/4242/comm", "nvidia-driver\n"),
    ("proc/4242/status", "CapEff:\t000001ffffffffff\n"),
    (
        "proc/4242/stat",
        "4242 (nvidia-driver) S 1 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 10042 1 1\n",
    ),
    ("proc/4242/environ", "A=b\0GPU_DIRECT_RDMA_ENABLED=true\0"),
    ("proc/4242/mountinfo", MOUNTS),
    ("proc/stat", "cpu 1 2 3\nbtime 1700000000\n"),
    ("proc/uptime", "600.00 1200.00\n"),
    ("proc/900/comm", "kubelet\n"),
    ("proc/900/status", "CapEff:\t000001ffffffffff\n"),
    ("proc/900/cmdline", "kubelet\0--config=/var/lib/kubelet/config.yaml\0"),
    ("proc/900/stat", "900 (kubelet) S 1 900 900 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 160042 1 1\n"),
    ("var/lib/kubelet/config.yaml", "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"),
    ("run/nvidia/validations/workload-type", "container\n"),
    ("run/nvidia/toolkit/toolkit.pid", "901\n"),
    ("proc/sys/fs/inotify/max_user_instances", "128\n"),
    ("run/nvidia/validations/.driver-ctr-ready", "GPU_DIRECT_RDMA_ENABLED: true\n"),
    ("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n"),
    ("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n"),
    ("sys/bus/pci/devices/0000:01:00.0/class", "0x020700\n"),
    ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.45.04  Thu\n"),
    ("sys/module/nvidia/version", "595.45.04\n"),
    ("sys/kernel/mm/memory_peers/nv_mem/version", "595.45.04\n"),
];

/// No finding comes of a file that makes no sense, but that it cannot be read.
fn doctor_makes_no_finding_of_garbage() {
    let look = |node: &Node| {
        let mut doctor = support::gate();
        Report::of(doctor.args(["doctor", "--format", "json", "--root"]).arg(node.root()))
    };
    let ids = |report: &Report| -> Vec<String> {
        let findings = report.json["findings"].as_array().expect("findings");
        findings.iter().map(|finding| finding["id"].as_str().expect("an id").to_owned()).collect()
    };
    // The port without a driver is there to show that it is found when it is complete.
    assert_eq!(ids(&look(&with_symptoms())), ["NicWithoutDriver"]);
    for (path, _) in SYMPTOMS {
        for damaged in [Truncated, Binary, LongLine, Empty, Missing, Directory, Fifo] {
            // A version cut in two is another one, and sysfs gives a whole one or none.
            let is_version = path.ends_with("version");
            let node = with_symptoms();
            if damaged == Truncated && is_version || !damage(&node, path, damaged) {
                continue;
            }
            let report = look(&node);
            assert!((0..=2).contains(&report.code), "{path} {damaged:?}");
            // A vendor that makes no sense may be a NIC's or a GPU's; a driver without its mark may be building.
            // Where kubelet's process and configuration say nothing, the one socket does; where one of them says
            // something else, that is the answer.
            let allowed = [
                "NicWithoutDriver",
                "SourceUnreadable",
                "DevicesUnreadable",
                "DriverBuilding",
                "NotJudged",
                "RuntimeInUseUnknown",
                "ChainUnderWay",
            ];
            let odd: Vec<_> = ids(&report).into_iter().filter(|id| !allowed.contains(&&**id)).collect();
            assert!(odd.is_empty(), "{path} {damaged:?}: {odd:?}");
        }
    }
}

/// And of what the gate reads: an answer, and never a wrong "Ready", of neither of them.
fn neither_check_nor_doctor_is_ready_by_a_damaged_file() {
    for damaged in [Truncated, Binary, LongLine, Empty, Missing, Directory, Fifo] {
        assert_harmless(damaged, |node, args| {
            // Without a GPU nothing is asked of a node.
            if node.path("sys/bus/pci/devices").is_dir() {
                node.write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n");
                node.write("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n");
            }
            let mut doctor = support::gate();
            doctor.args(["doctor", "--format", "json", "--root"]).arg(node.root()).args(args);
            let report = Report::of(doctor.env("GPU_DIRECT_RDMA_ENABLED", "true"));
            // There is no nvidia-peermem.ko on these nodes, so doctor alone is not ready.
            let check = as_ourselves(node, args);
            assert!(check.code == 0 || report.code != 0, "{}", report.json);
            check
        });
    }
}

/// Every byte at which a file may be cut off while it is read or written.
fn cut_anywhere(relative: &str, opens: impl Fn(&[u8]) -> bool) {
    let node = Node::ready();
    let whole = fs::read(node.path(relative)).expect("a file to cut");
    for length in 0..=whole.len() {
        node.write(relative, &whole[..length]);
        let report = as_ourselves(&node, &[]);
        let opened = report.code == 0;
        assert!([0, 1, 2].contains(&report.code));
        assert_eq!(opened, opens(&whole[..length]), "{relative} cut after {length}: {}", report.json);
    }
}

fn a_proc_modules_cut_anywhere_opens_only_with_all_modules_left() {
    // Whole lines, and all that matter among them.
    cut_anywhere("proc/modules", |text| {
        let text = String::from_utf8_lossy(text);
        let listed = |module: &&str| text.lines().any(|line| line.starts_with(&format!("{module} ")));
        text.ends_with('\n') && MODULES.iter().all(listed)
    });
}

fn a_module_symvers_cut_anywhere_is_incomplete() {
    let whole = fs::read(Node::ready().path(SYMVERS)).unwrap();
    cut_anywhere(SYMVERS, |text| text == whole);
}

fn a_proc_locks_cut_anywhere_opens_only_with_the_holder_left() {
    // Up to the inode the line tells the whole of what matters; a shorter inode is another one.
    let node = Node::ready();
    let line = fs::read_to_string(node.path("proc/locks")).unwrap();
    for length in 0..line.len() {
        node.write("proc/locks", &line[..length]);
        let report = as_ourselves(&node, &[]);
        assert!([0, 1, 2].contains(&report.code));
        let tells_all = line[..length].split(' ').filter(|field| !field.is_empty()).count() >= 7;
        assert!(report.code != 0 || tells_all, "cut after {length}: {}", report.json);
    }
}

fn a_vendor_cut_anywhere_is_no_other_vendor() {
    let node = Node::ready();
    for length in 0.."0x15b3".len() {
        node.write(VENDOR, &b"0x15b3"[..length]);
        let report = as_ourselves(&node, &[]);
        assert_eq!(report.reason("NicPresent"), "DevicesUnreadable", "cut after {length}");
    }
}

fn odd_lines_in_proc_modules_open_no_gate() {
    let node = Node::ready();
    let whole = fs::read_to_string(node.path("proc/modules")).unwrap();
    for line in [
        "ib_core 557056 2 mlx5_ib, Live 0xffffffffc0800000 (OE)\n",
        "ib_core 557056 2 mlx5_ib, Unloading 0xffffffffc0800000 (OE-)\n",
        "mlx5-core 1 0 - Live 0x0 (OE)\n",
    ] {
        node.write("proc/modules", format!("{whole}{line}"));
        assert_ne!(node.report().code, 0, "a module that is listed twice: {line}");
    }
    for line in ["\n", "garbage\n", "\0\n", "ib_core\n", "ib_core_2 1 0 - Live 0x0 (OE)\n"] {
        node.write("proc/modules", format!("{line}{whole}"));
        let report = node.report();
        assert_eq!(report.verdict(), "Ready", "what matters is all there, beside {line:?}");
        // A line that makes no sense may have been the missing one.
        let others = whole.lines().filter(|other| !other.starts_with("ib_core "));
        let others = others.collect::<Vec<_>>().join("\n");
        node.write("proc/modules", format!("{line}{others}\n"));
        assert_ne!(node.report().code, 0, "beside {line:?}");
    }
}

fn links_that_lead_in_circles_or_nowhere_open_no_gate() {
    for path in
        [MARKER, SYMVERS, "run/mellanox/drivers", "sys/module/ib_core", "proc/modules", "sys/bus/pci/devices"]
    {
        for target in ["self", "/nowhere", "/", "../../../../../../.."] {
            let node = Node::ready();
            node.remove(path);
            let target = if target == "self" { node.path(path) } else { target.into() };
            std::os::unix::fs::symlink(target, node.path(path)).unwrap();
            let report = node.report();
            assert!([1, 2].contains(&report.code), "{path}: {}", report.json);
        }
    }
}

/// The gate does not hang on it, or eat all memory.
fn a_file_without_an_end_hangs_no_look() {
    for path in ["proc/modules", "proc/locks", "proc/2/comm", VENDOR, "sys/module/mlx5_core/initstate"] {
        let node = Node::ready();
        if path == "proc/2/comm" {
            node.write("proc/locks", "");
        }
        node.remove(path);
        std::os::unix::fs::symlink("/dev/zero", node.path(path)).unwrap();
        if path == "proc/modules" {
            // Lines without an end are skipped one by one; this one does end.
            node.remove(path);
            fs::File::create(node.path(path)).unwrap().set_len(1 << 28).unwrap();
        }
        let limited = r#"ulimit -v 400000 && exec "$0" "$@""#;
        let mut check = node.check();
        let report = Report::of(&mut wrapped(["sh", "-c", limited], check.args(["--format", "json"])));
        let passes = path == "proc/2/comm";
        assert_eq!(report.code == 0, passes, "{path}: {}", report.json);
    }
}

tests![
    [
        the_node_that_these_tests_damage_is_ready_when_it_is_whole,
        text_from_the_node_cannot_forge_a_line_or_control_a_terminal,
        doctor_makes_no_finding_of_garbage,
        neither_check_nor_doctor_is_ready_by_a_damaged_file,
        a_proc_modules_cut_anywhere_opens_only_with_all_modules_left,
        a_module_symvers_cut_anywhere_is_incomplete,
        a_proc_locks_cut_anywhere_opens_only_with_the_holder_left,
        a_vendor_cut_anywhere_is_no_other_vendor,
        odd_lines_in_proc_modules_open_no_gate,
        links_that_lead_in_circles_or_nowhere_open_no_gate,
        a_file_without_an_end_hangs_no_look,
    ],
    if can_be_nobody [
        unreadable_files_open_no_gate,
        an_unreadable_header_directory_leaves_the_expected_version_unknown,
    ],
];
