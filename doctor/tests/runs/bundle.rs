// SPDX-License-Identifier: Apache-2.0
//! `doctor BUNDLE`: gathered files of nodes that are elsewhere. tests/bundles has one of each gatherer,
//! and a paragraph of tests/bundles.txt is a bundle of a few files, with what is said of each of its nodes.

use crate::expected::schema::check;
use crate::support::{GATE, output, suite};
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MUST_GATHER: &str = "must-gather";
const SOSREPORT: &str = "sosreport";
const KUBECTL: &str = "kubectl";

fn bundle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundles").join(name)
}

fn doctor(bundle: &Path, args: &[&str]) -> Output {
    output(Command::new(GATE).arg("doctor").arg(bundle).args(args).env_clear())
}

/// The reports of all nodes, and how it ended.
fn reports(bundle: &Path, args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = doctor(bundle, &[&["--format", "json"], args].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let reports: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    reports.iter().for_each(check);
    (reports, output.status.code())
}

/// The findings that alarm, by their ids.
fn loud(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let is_loud = |finding: &&Value| finding["severity"] == "critical" || finding["severity"] == "warning";
    findings.filter(is_loud).filter_map(|finding| finding["id"].as_str()).collect()
}

fn sources(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let evidence = findings.flat_map(|finding| finding["evidence"].as_array().expect("evidence"));
    evidence.filter_map(|evidence| evidence["source"].as_str()).collect()
}

/// A bundle of these files, as a directory.
fn of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    directory
}

fn a_must_gather_gives_a_report_for_each_node_and_a_recovered_container_gives_no_finding() {
    let (reports, code) = reports(&bundle(MUST_GATHER), &[]);
    let nodes: Vec<_> = reports.iter().map(|report| report["node"].as_str().expect("a name")).collect();
    assert_eq!((nodes.as_slice(), code), (["gpu-1", "gpu-2"].as_slice(), Some(1)));
    assert_eq!(loud(&reports[0]), ["PeermemRefused"]);
    assert_eq!(loud(&reports[1]), Vec::<&str>::new());
    let file = "gpu_operand_pod_nvidia-driver-daemonset-aaaaa.log (nvidia-driver-daemonset-aaaaa, nvidia-driver-ctr)";
    assert!(sources(&reports[0]).contains(&file), "{:?}", sources(&reports[0]));
    for report in &reports {
        let keys = ["schema", "version", "kernel", "arch", "time", "conditions", "chain", "runtimes"];
        assert!(keys.iter().all(|key| !report[key].is_null()), "{report}");
        let missing = report["not_in_bundle"].as_array().expect("what is missing");
        assert!(missing.iter().any(|part| part == "the list of all loaded modules"), "{missing:?}");
    }
}

fn a_bundle_without_findings_lists_what_it_lacks_and_is_not_a_success() {
    let good = of(&[("nvidia-driver-ctr.log", "Done, now waiting for signal\n")]);
    let output = doctor(good.path(), &[]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("UNKNOWN: no cause") && text.contains("not in this bundle: "), "{text}");
    assert!(!text.contains("nothing found") && !text.contains("Ready"), "{text}");
}

/// As in a node's own report: an operators' log of which no line is known is evidence that was not read.
fn a_bundles_log_that_is_not_understood_is_counted_and_named_with_its_last_line() {
    let pod = |name: &str| format!("namespaces/gpu-operator/pods/{name}/nvidia-fs-ctr/nvidia-fs-ctr/logs");
    let [current, previous] = ["current.log", "previous.log"].map(|log| format!("{}/{log}", pod("driver-x")));
    let driver = "namespaces/gpu-operator/pods/driver-x/nvidia-driver-ctr/nvidia-driver-ctr/logs/current.log";
    let users = pod("web-0").replace("gpu-operator", "team-a") + "/current.log";
    let files = of(&[
        (&current, "a word\nanother\n\n"),
        (&previous, "an older one\n"),
        (driver, "Done, now waiting for signal\n"),
        (&users, "a user's\n"),
    ]);
    let (reports, _) = reports(files.path(), &[]);
    let unknown =
        serde_json::json!([{"container": "gpu-operator/driver-x/nvidia-fs-ctr", "last": "another"}]);
    assert_eq!(reports.iter().map(|report| &report["not_understood"]).collect::<Vec<_>>(), [&unknown]);
    let text = String::from_utf8(doctor(files.path(), &[]).stdout).expect("text");
    assert!(text.contains("not understood: 1 log of the operators: gpu-operator/driver-x/"), "{text}");
}

fn a_dash_is_standard_input_and_an_empty_one_is_refused() {
    let fed = |verb: &str, input: &[u8]| {
        let mut doctor = Command::new(GATE);
        doctor
            .args([verb, "-"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = doctor.spawn().expect("a child");
        // One that ends before it has read all closes the pipe.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("an output");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("text").replace('\n', " "))
    };
    let archive =
        Command::new("tar").arg("cC").arg(bundle("")).arg(MUST_GATHER).output().expect("tar").stdout;
    let log = "[pod/driver-x/nvidia-driver-ctr] 2025-11-21T11:50:00Z modprobe: ERROR: could not insert \
               'nvidia_peermem': Invalid argument\n";
    for (verb, input, code, words) in [
        ("doctor", archive.as_slice(), 1, "CRITICAL gpu-1"),
        ("doctor", log.as_bytes(), 1, "PeermemRefused"),
        ("timeline", log.as_bytes(), 0, "recognized: 1"),
        ("inspect", b"no module", 1, "neither an ELF file"),
        ("fleet", b"", 2, "no report"),
        ("doctor", b"", 2, "error: cannot read standard input: it is empty"),
        ("timeline", b"", 2, "error: cannot read standard input: it is empty"),
        ("inspect", b"", 2, "error: cannot read standard input: it is empty"),
        ("timeline", b"\0", 2, "error: cannot read standard input: it has no logs"),
    ] {
        let (ends, said) = fed(verb, input);
        assert!(ends == Some(code) && said.contains(words), "{verb}: {ends:?}: {said}");
    }
}

fn a_sosreport_names_the_module_that_keeps_mofed_from_starting() {
    let (reports, code) = reports(&bundle(SOSREPORT), &[]);
    assert_eq!((reports.len(), code), (1, Some(1)));
    assert_eq!(loud(&reports[0]), ["ThirdPartyRdmaModulesLoaded"]);
    let remedy = reports[0]["findings"][0]["remedy"].to_string();
    assert!(remedy.contains("rmmod mana_ib"), "{remedy}");
    // `lsmod | grep mlx` shows a part: nothing that it lacks is missing on the node.
    assert!(
        !sources(&reports[0]).iter().any(|source| source.contains("lsmod")),
        "{:?}",
        sources(&reports[0])
    );
}

fn described_pods_show_why_a_container_waits_and_a_users_log_does_not_count() {
    let (reports, _) = reports(&bundle(KUBECTL), &[]);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!((reports[0]["node"].as_str(), loud(&reports[0])), (Some("gpu-3"), vec!["ImageNotPulled"]));
    let unread = reports[0]["not_read"].to_string();
    assert!(unread.contains("web-0 of namespace team-a does not count"), "{unread}");
    let (reports, _) = self::reports(&bundle(KUBECTL), &["--operator-namespace", "team-a"]);
    assert!(loud(&reports[0]).contains(&"MofedModuleInUse"), "{:?}", loud(&reports[0]));
}

/// A pod that kubelet refused concerns its node, whether or not an operator's pod is there; one that no controller
/// could create has no node, so it concerns them all.
fn a_refusal_is_said_of_each_node_that_it_concerns() {
    let list = include_str!("../bundles/refused.yaml");
    let of_list = |list: &str| -> Vec<String> {
        let (reports, _) = reports(of(&[("pods.yaml", list)]).path(), &[]);
        reports.iter().map(|report| format!("{} {:?}", report["node"], loud(report))).collect()
    };
    let (pods, _) = list.split_once("- kind: Event").expect("an event");
    assert_eq!(of_list(pods), [r#""n1" []"#, r#""n2" ["PodRefused"]"#, r#""n3" ["PodRefused"]"#]);
    assert_eq!(of_list(list), ["n1", "n2", "n3"].map(|node| format!("{node:?} [\"PodRefused\"]")));
}

/// Whatever somebody calls a file that he posts, and a file of which no line is known is named.
/// Law 2: of a posted file without a known sentence its own last error is said, as text.
fn a_strange_files_own_last_error_is_said() {
    let errors = [
        "gb300:61204:61257 [0] misc/mlx5dvwrap.cc:77 NCCL WARN Call to mlx5dv_reg_dmabuf_mr failed with error Operation not supported",
        "slurmd: error: Waiting for gres.conf file /dev/nvidia7",
        "[1732190000.1] [gpu-1:77] ib_device.c:1330 UCX ERROR ibv_create_ah failed: Connection timed out",
        "dcgmi: Error: unable to establish a connection to the specified host: localhost",
        "Couldn't allocate MR: failed to create mr \u{1b}[2J",
    ];
    for error in errors {
        let files = of(&[("posted.txt", &format!("step 1\n{error}\nstep 2\n"))]);
        let (reports, _) = reports(files.path(), &[]);
        let unread = reports[0]["not_read"][0].as_str().unwrap_or_default().to_owned();
        assert!(unread.ends_with(&format!("its own last error: {error}")), "{unread}");
        let shown = doctor(files.path(), &[]).stdout;
        assert!(!shown.contains(&0x1b), "{error:?}");
    }
}

fn archives_are_read_packed_or_not_and_nothing_of_them_is_written() {
    let scratch = tempfile::tempdir().expect("a directory");
    let tar = |options: &str, name: &str| {
        let archive = scratch.path().join(name);
        let mut made = Command::new("tar");
        made.arg(options).arg(&archive).arg("-C").arg(bundle(SOSREPORT)).arg(".");
        assert!(output(&mut made).status.success());
        archive
    };
    let (expected, _) = reports(&bundle(SOSREPORT), &[]);
    for (options, name) in [("-cf", "a.tar"), ("-czf", "a.tar.gz"), ("-czf", "b.tgz")] {
        let (reports, code) = self::reports(&tar(options, name), &[]);
        assert_eq!((loud(&reports[0]), code), (loud(&expected[0]), Some(1)), "{name}");
        assert_eq!(sources(&reports[0]), sources(&expected[0]), "{name}");
    }
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).expect("an encoder");
    std::io::Write::write_all(&mut xz, &fs::read(scratch.path().join("a.tar")).expect("an archive"))
        .expect("xz");
    let packed = xz.finish().expect("xz");
    fs::write(scratch.path().join("a.tar.xz"), packed).expect("a file");
    let (reports, _) = reports(&scratch.path().join("a.tar.xz"), &[]);
    assert_eq!(loud(&reports[0]), loud(&expected[0]));
    let whole = fs::read(scratch.path().join("a.tar.gz")).expect("an archive");
    let cut = tempfile::Builder::new().suffix(".tar.gz").tempfile().expect("a file");
    fs::write(cut.path(), &whole[..whole.len() / 2]).expect("half an archive");
    let said = doctor(cut.path(), &[]);
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("ends early"), "{}", String::from_utf8_lossy(&said));
    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .expect("names")
        .map(|entry| entry.expect("a name").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a.tar", "a.tar.gz", "a.tar.xz", "b.tgz"]);
}

/// A path in an archive is a name, and a link in it is nothing.
fn paths_and_links_of_a_hostile_archive_lead_nowhere() {
    let scratch = tempfile::tempdir().expect("a directory");
    let archive = scratch.path().join("hostile.tar");
    let mut tar = tar::Builder::new(fs::File::create(&archive).expect("a file"));
    let words = b"rmmod: ERROR: Module ib_uverbs is in use by: mana_ib\n";
    let mut header = tar::Header::new_gnu();
    header.set_size(words.len() as u64);
    let name = b"../../../mofed-container.log";
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_cksum();
    tar.append(&header, words.as_slice()).expect("an entry");
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    tar.append_link(&mut link, "nvidia-driver-ctr.log", "/etc/passwd").expect("a link");
    drop(tar);
    let (reports, _) = reports(&archive, &[]);
    assert_eq!(loud(&reports[0]), ["ThirdPartyRdmaModulesLoaded"]);
    assert!(!scratch.path().join("../../../mofed-container.log").exists());
    assert!(!reports[0]["looked_at"].to_string().contains("driver's containers"), "{}", reports[0]);

    let directory = of(&[("mofed-container.log", "Setting driver ready state\n")]);
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("nvidia-driver-ctr.log"))
        .expect("a link");
    let (reports, _) = self::reports(directory.path(), &[]);
    assert!(!reports[0]["looked_at"].to_string().contains("driver's containers"), "{}", reports[0]);
}

fn unreadable_files_of_a_bundle_are_named() {
    let deep = format!("kind: Pod\nmetadata: {}\n", "[".repeat(100_000));
    let directory =
        of(&[("pods.yaml", &deep), ("mofed-container.log", "x\n"), ("system.journal", "LPKSHHRH")]);
    let (reports, code) = reports(directory.path(), &[]);
    let unread = reports[0]["not_read"].to_string();
    assert!(unread.contains("pods.yaml: ") && unread.contains("system.journal: "), "{unread}");
    assert_eq!(code, Some(2));

    let scratch = tempfile::tempdir().expect("a directory");
    let archive = scratch.path().join("cut.tar");
    let mut made = Command::new("tar");
    made.arg("-cf").arg(&archive).arg("-C").arg(bundle(MUST_GATHER)).arg(".");
    assert!(output(&mut made).status.success());
    let bytes = fs::read(&archive).expect("an archive");
    fs::write(&archive, &bytes[..bytes.len() / 2 - 100]).expect("a part of it");
    let (reports, _) = self::reports(&archive, &[]);
    assert!(reports[0]["not_read"].to_string().contains("cut"), "{}", reports[0]["not_read"]);
}

fn a_path_that_is_not_a_bundle_is_refused() {
    let empty = tempfile::tempdir().expect("a directory");
    for path in [empty.path().to_owned(), empty.path().join("missing.tar.gz")] {
        let output = doctor(&path, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot read"), "{said}");
    }
    let root = empty.path().join("host");
    for directory in ["proc/1", "sys/module"] {
        std::fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    let said = doctor(&root, &[]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(
        String::from_utf8_lossy(&said.stderr).contains(&format!("use --root {}", root.display())),
        "{said:?}"
    );
    // None of these has an end.
    let pipe = empty.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let socket = empty.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for (path, what) in [(&pipe, "a pipe"), (&socket, "a socket"), (&PathBuf::from("/dev/zero"), "a device")]
    {
        let output = output(Command::new("timeout").arg("60").arg(GATE).arg("doctor").arg(path));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("it is {what}: name a directory or an archive")), "{said}");
    }
    let output = doctor(&bundle(SOSREPORT), &["--every", "1h"]);
    assert_eq!(output.status.code(), Some(2));
}

/// What a paragraph of bundles.txt expects of its files, and is not so.
fn unmet(paragraph: &str) -> Vec<String> {
    let (mut files, mut expected, mut words) = (Vec::<(&str, String)>::new(), Vec::new(), Vec::new());
    for line in paragraph.lines() {
        let (directive, rest) = line.split_once(' ').unwrap_or((line, ""));
        match directive {
            "#" => {}
            "file" => files.push((rest, String::new())),
            "|" => files.last_mut().expect("a file").1 += &format!("{rest}\n"),
            "expect" => expected.push(rest),
            "says" | "lacks" => words.push((directive == "says", rest.split_once(' ').expect("a key"))),
            other => panic!("{other} is no directive"),
        }
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let (reports, code) = reports(of(&files).path(), &[]);
    let found =
        |report: &Value| [&[report["node"].as_str().expect("a name")], &loud(report)[..]].concat().join(" ");
    let found: Vec<_> = reports.iter().map(found).collect();
    let is_quiet = found.iter().all(|found| !found.contains(' '));
    let mut unmet = Vec::new();
    if found != expected || code != Some(if is_quiet { 2 } else { 1 }) {
        unmet.push(format!("{found:?}, and it ends with {code:?}"));
    }
    for (is_said, (key, words)) in words {
        let is_there =
            reports.iter().any(|report| report.get(key).expect("a key").to_string().contains(words));
        unmet.extend((is_there != is_said).then(|| format!("{key}: {words:?}: {is_there}: {reports:#?}")));
    }
    unmet
}

/// A test for each paragraph, which has its first line as its name.
fn described() -> impl Iterator<Item = Trial> {
    include_str!("../bundles.txt").split("\n\n").map(|paragraph| {
        let what = paragraph.lines().next().unwrap_or_default().trim_start_matches("# ");
        Trial::test(format!("bundle: {what}"), move || {
            let unmet = unmet(paragraph);
            if unmet.is_empty() { Ok(()) } else { Err(unmet.join("\n").into()) }
        })
    })
}

pub(crate) fn tests() -> Vec<Trial> {
    let own = suite![
        a_must_gather_gives_a_report_for_each_node_and_a_recovered_container_gives_no_finding,
        a_bundle_without_findings_lists_what_it_lacks_and_is_not_a_success,
        a_bundles_log_that_is_not_understood_is_counted_and_named_with_its_last_line,
        a_dash_is_standard_input_and_an_empty_one_is_refused,
        a_sosreport_names_the_module_that_keeps_mofed_from_starting,
        described_pods_show_why_a_container_waits_and_a_users_log_does_not_count,
        a_refusal_is_said_of_each_node_that_it_concerns,
        a_strange_files_own_last_error_is_said,
        archives_are_read_packed_or_not_and_nothing_of_them_is_written,
        paths_and_links_of_a_hostile_archive_lead_nowhere,
        unreadable_files_of_a_bundle_are_named,
        a_path_that_is_not_a_bundle_is_refused,
    ];
    own.into_iter().chain(described()).collect()
}
