// SPDX-License-Identifier: Apache-2.0
//! Laws 7 and 12: what people post about a node is a source, whatever the file is called and from standard input too.
//! Each form (doctor/tests/posted.txt) gives its finding and, after `then`, words of its steps, or a part of
//! the node, or is named as not read.

use crate::examples::examples;
use crate::expected::text;
use crate::support::{GATE, output, tests};
use peermem_doctor::log::{ActiveWhen, RULES};
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// A form: the command, what becomes of its answer, and the answer.
type Form = (&'static str, &'static str, &'static str);

fn forms() -> Vec<Form> {
    let all = include_str!("../posted.txt").split("== ").skip(1);
    let form = |form: &'static str| -> Option<Form> {
        let (head, words) = form.split_once('\n')?;
        let (command, becomes) = head.split_once(" | ")?;
        Some((command, becomes, words))
    };
    all.map(|text| form(text).unwrap_or_else(|| panic!("{text}"))).collect()
}

/// What is said of a file, or of standard input.
fn report(posted: &str, stdin: Stdio, form: &str) -> Value {
    let mut doctor = Command::new(GATE);
    let answer = output(doctor.args(["doctor", posted, "--format", "json"]).stdin(stdin).env_clear());
    let said = String::from_utf8_lossy(&answer.stdout);
    let error = String::from_utf8_lossy(&answer.stderr);
    serde_json::from_str(&said).unwrap_or_else(|why| panic!("{form}: {why}: {said}{error}"))
}

/// Why this report is no answer to the form.
fn wrong(report: &Value, becomes: &str) -> Option<String> {
    let ids: Vec<_> = report["findings"].as_array()?.iter().map(|finding| text(finding, "id")).collect();
    let unread = report["not_read"].to_string();
    let is_named = unread.contains("none of its lines is known") || unread.contains("only its node was read");
    let looked = report["looked_at"].to_string();
    let steps = report["findings"][0]["remedy"].to_string();
    let (id, step) = becomes.split_once(" then ").unwrap_or((becomes, ""));
    let is_right = match becomes.strip_prefix("looked at: ") {
        Some(part) => looked.contains(part) && ids.is_empty() && !is_named,
        None if becomes == "not read" => is_named && ids.is_empty(),
        None => ids.first() == Some(&id) && steps.contains(step) && !is_named,
    };
    (!is_right).then(|| format!("{ids:?}, {steps}, looked at: {looked}, not read: {unread}"))
}

fn each_form_that_people_post_is_understood_or_named_as_not_read() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a name");
    let mut unlike = Vec::new();
    for (form, becomes, words) in forms() {
        fs::write(path, words).expect("a file");
        let stdin = File::open(path).expect("a file").into();
        for (way, posted, stdin) in [("a file", path, Stdio::null()), ("standard input", "-", stdin)] {
            let report = report(posted, stdin, form);
            unlike.extend(wrong(&report, becomes).map(|why| format!("{form}, from {way}: {why}")));
        }
    }
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), 2 * forms().len(), unlike.join("\n"));
}

/// Files of one node, each by its text, and the findings of all together.
fn files_of_one_node_do_not_gainsay_each_other() {
    const GPU: &str =
        "18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n\tKernel driver in use: ";
    const NIC: &str = "c1:00.0 Infiniband controller [0207]: Mellanox Technologies [15b3:1021]\n\t\
                       Kernel driver in use: mlx5_core\n";
    const LSMOD: &str = "Module Size Used by\nmlx5_core 23 1 mlx5_ib\nmlx5_ib 23 0\next4 12 1\n";
    const JOURNAL: &str = "2026-09-24T11:00:00+00:00 gpu-7 alice[99]: Command line: amd_iommu=on\n\
                           2026-09-24T11:00:00+00:00 gpu-7 systemd[1]: Started kubelet.service - kubelet.\n";
    let lspci = format!("{GPU}nvidia\n{NIC}");
    let nova = format!("{GPU}NovaCore\n\tKernel modules: nova_core\n");
    let ports = "hca_id: mlx5_0\n".to_owned() + &"port: 1\nstate: PORT_DOWN (1)\n".repeat(300);
    let link = "NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx";
    let rows: [(&[&str], &[&str]); 4] = [
        (&[LSMOD, &lspci, "No IB devices found", link], &["RdmaDeviceMissing"]),
        (&[JOURNAL, &lspci], &[]),
        (&[&nova], &["OtherDriverHasGpu"]),
        (&[&ports], &["RdmaPortsDown"]),
    ];
    for (files, ids) in rows {
        let directory = tempfile::tempdir().expect("a directory");
        for (at, words) in files.iter().enumerate() {
            fs::write(directory.path().join(format!("{at}.txt")), words).expect("a file");
        }
        let report = report(directory.path().to_str().expect("a name"), Stdio::null(), files[0]);
        let found = report["findings"].as_array().expect("findings");
        assert_eq!(found.iter().map(|finding| text(finding, "id")).collect::<Vec<_>>(), ids, "{files:?}");
        assert!(!report.to_string().contains("blacklist NovaCore"), "{report}");
        let evidence = |finding: &Value| finding["evidence"].as_array().map_or(0, Vec::len);
        assert!(found.iter().all(|finding| evidence(finding) <= 255), "{report}");
    }
}

/// Law 7: the line by which a finding is recognized, alone in a log, brings that finding, with a condition in words
/// for each state of the node that the log does not show.
fn each_findings_line_alone_brings_the_finding() {
    let directory = tempfile::tempdir().expect("a directory");
    let examples = examples();
    let (mut count, mut silent) = (0, Vec::new());
    for rule in RULES {
        // Two states make a fault of a step of a healthy life.
        let is_step = |when| matches!(when, ActiveWhen::Restarted | ActiveWhen::HostDriverUnseen);
        for row in rule.findings.iter().filter(|row| !is_step(row.when)) {
            let its = examples.iter().filter(|one| one.event == rule.event);
            let mut lines = its.flat_map(|one| one.fits.iter().map(move |line| (one.pattern.source, line)));
            let is_about = |line: &str| match row.about {
                Some(("module", names)) => names.iter().any(|name| line.starts_with(&format!("{name}: "))),
                Some((_, words)) => words.iter().any(|word| line.contains(word)),
                None => true,
            };
            let Some((source, line)) = lines.find(|(_, line)| is_about(line)) else { continue };
            count += 1;
            let (name, lines) = match source.identifiers().first() {
                Some(name) => (
                    "messages".to_owned(),
                    [0, 1, 2].map(|at| format!("Sep 24 14:0{at}:00 gpu-1 {name}[900]: {line}\n")).concat(),
                ),
                None => (format!("{}.log", source.containers()[0]), format!("{line}\n").repeat(3)),
            };
            let path = directory.path().join(name);
            fs::write(&path, lines).expect("a file");
            let report = report(path.to_str().expect("a name"), Stdio::null(), line);
            let is_of_log = |when: ActiveWhen| {
                use ActiveWhen::{Always, Cdi, Persists, Repeats, Unproven};
                matches!(when, Always | Cdi | Persists(_) | Repeats(_) | Unproven)
            };
            let is_sure = rule.findings.iter().any(|one| one.id == row.id && is_of_log(one.when));
            let mut found = report["findings"].as_array().expect("findings").iter();
            let said = found.find(|one| text(one, "id") == row.id.name());
            let is_open = |one: &Value| one["evidence"].to_string().contains("this counts if ");
            if said.is_none_or(|one| !is_sure && !is_open(one)) {
                silent.push(format!("{} {} while {:?}: {line}", rule.event, row.id, row.when));
            }
        }
    }
    assert!(count > 50 && silent.is_empty(), "{} of {count}:\n{}", silent.len(), silent.join("\n"));
}

tests![
    each_findings_line_alone_brings_the_finding,
    each_form_that_people_post_is_understood_or_named_as_not_read,
    files_of_one_node_do_not_gainsay_each_other,
];
