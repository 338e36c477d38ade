// SPDX-License-Identifier: Apache-2.0
//! What is fuzzed: a function for each parser of text from outside. None may panic, and what a person reads stays
//! plain text whatever comes in. tests/fuzz runs them under libFuzzer, tests/corpus.rs on the corpus alone.

mod node;

use peermem_doctor::cli::{self, Verb};
use peermem_doctor::fleet::{Cluster, Fleet, Release};
use peermem_doctor::log::{Form, Insist, LogSource, LogSources, awaited, failed_build, scan, trouble};
use peermem_doctor::operators::Operators;
use peermem_doctor::probe::bundle::of_bytes;
use peermem_doctor::probe::gathered;
use peermem_doctor::probe::journal::Journal;
use peermem_doctor::probe::runtime::settings;
use peermem_doctor::signature::{LARGEST, signer};
use peermem_doctor::timeline::{DoctorAnswer, Since, Timeline, only};
use peermem_doctor::{record, stamp, verb};
use peermem_gate::cli::{arguments, environment};
use peermem_gate::keeper::status::Stored;
use peermem_gate::peermem::store::StoreEntry;
use peermem_gate::peermem::{module_file, plan, refusal};
use peermem_gate::ready::probe::parse_line;
use peermem_gate::ready::version::Version;
use peermem_gate::ready::wake;
use peermem_gate::rebuild::{recipe, signing as keys};
use peermem_gate::text::{self, escaped};
use peermem_gate::words::report::style::Style;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A name, which is also that of its corpus, and what is done with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 19] = [
    ("arguments", arguments),
    ("bundle", bundle),
    ("cluster", cluster),
    ("fleet", fleet),
    ("journal", journal),
    ("logs", logs),
    ("look", node::look),
    ("modprobe", modprobe),
    ("module_file", module_file),
    ("node", node::doctor),
    ("options", options),
    ("recipe", recipe),
    ("records", records),
    ("settings", settings),
    ("signing", signing),
    ("status", status),
    ("store", store),
    ("timeline", timeline),
    ("words", words),
];

/// Runs the target of this name.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    target(data);
}

/// A text that steers no terminal and forges no line.
pub fn assert_plain(text: &str) {
    let is_odd = |c: char| {
        c != '\n' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(is_odd), "{text:?}");
}

fn split(data: &[u8]) -> Vec<OsString> {
    data.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

/// An entry of the node's store: it is read as it was written, or it is none.
pub fn store(data: &[u8]) {
    if let Some((entry, module)) = StoreEntry::read(data) {
        let again = entry.bytes(module);
        assert_eq!(StoreEntry::read(&again), Some((entry, module)));
    }
}

/// A file of systemd's journal.
pub fn journal(data: &[u8]) {
    if let Ok(mut journal) = Journal::open(data, data.len() as u64, 1000) {
        journal.each(1 << 20, |_| ());
    }
}

/// modprobe's command line: `MODPROBE_OPTIONS`, then words, each ended by a null byte.
pub fn arguments(data: &[u8]) {
    let mut words = split(data);
    let options = words.remove(0);
    for posixly_correct in [false, true] {
        let variables = arguments::ModprobeVariables { modprobe_options: Some(&options), posixly_correct };
        let Some(load) = arguments::read(&words, variables) else { continue };
        // The two command lines that it is split into mean what they are made for.
        let none = arguments::ModprobeVariables { modprobe_options: None, posixly_correct };
        match arguments::read(&load.peermem, none) {
            Some(again) => {
                assert!(!again.forced && again.others.is_none(), "{load:?} {again:?}");
            }
            None => panic!("{load:?}"),
        }
        if let Some(others) = &load.others {
            assert_eq!(arguments::read(others, none), None, "{load:?}");
        }
    }
}

/// Our own command line.
pub fn options(data: &[u8]) {
    let mut words = split(data);
    words.insert(0, "peermem-gate".into());
    let name = words.pop().unwrap_or_default();
    let variables = vec![(OsString::from("PEERMEM_GATE_SETTLE"), name)];
    let _ = environment::parse(&words, &variables);
}

/// Reports of many nodes.
pub fn fleet(data: &[u8]) {
    let mut fleet = Fleet::default();
    for (number, line) in data.split(|byte| *byte == b'\n').enumerate() {
        fleet.line("standard input", number + 1, line);
    }
    let crcs = ["ib_register_peer_memory_client", "ib_unregister_peer_memory_client"];
    let crcs = crcs.map(|symbol| (symbol.to_owned(), "0x9ca761a2".to_owned())).into();
    let release = Release { symvers: "Module.symvers".to_owned(), crcs, kernel: None };
    let forecast = fleet.forecast(&release);
    assert_plain(&forecast.text());
    serde_json::from_str::<serde_json::Value>(&text::json(&forecast).expect("JSON")).expect("JSON");
    let rollup = fleet.rollup();
    assert_plain(&rollup.text(Style::default()));
    let json = text::json(&rollup).expect("JSON");
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
}

/// A bundle: an archive, or a line with a file's name and the file behind it.
pub fn bundle(data: &[u8]) {
    let words = ["peermem-doctor", "doctor", "bundle"].map(OsString::from);
    let Ok(Verb::Doctor(args)) = cli::parse(&words, &Vec::new()) else { panic!("these are options") };
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (name, text) = (String::from_utf8_lossy(&data[..end]), &data[(end + 1).min(data.len())..]);
    for bundle in [of_bytes("bundle.tar", data), of_bytes(&name, text)] {
        let Ok((answer, _)) = verb::bundle::answer(&bundle, Path::new("bundle"), &args, Style::default())
        else {
            panic!("these are options");
        };
        assert_plain(&answer);
    }
}

/// A list of nodes and pods, beside the report of one node.
pub fn cluster(data: &[u8]) {
    let operators = Operators::default();
    let json = Cluster::read(&mut serde_json::Deserializer::from_reader(data), &operators);
    let Ok(cluster) = json.or_else(|_| Cluster::read_yaml(data, &operators)) else { return };
    let mut fleet = Fleet::default();
    fleet.line("standard input", 1, br#"{"node":"gpu-1","verdict":"Ready","findings":[]}"#);
    let rollup = fleet.rollup_in(&cluster);
    assert_plain(&rollup.text(Style::default()));
    text::json(&rollup).expect("JSON");
}

/// What a rebuild reads of NVIDIA's sources and of MOFED: a null byte behind Module.symvers, then conftest.sh.
pub fn recipe(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (symvers, conftest) = text.split_once('\0').unwrap_or((&text, &text));
    let place = Path::new("/copy/ofa");
    if let Some(edited) = recipe::conftest(conftest, place) {
        assert!(edited.contains("=/copy/ofa") && !edited.contains("/usr/src/ofa_kernel"), "{edited:?}");
    }
    assert!(recipe::version(conftest).is_none_or(|version| !version.is_empty()));
    let crcs = BTreeMap::from([("nvidia_p2p_get_pages".to_owned(), 0x1234_5678)]);
    if let Some(added) = recipe::nvidia_symvers(symvers, &crcs) {
        assert!(added.contains("0x12345678\tnvidia_p2p_get_pages\t"), "{added:?}");
        assert_eq!(added.matches('\n').count(), 1, "{added:?}");
    }
}

/// The files of container runtimes.
pub fn settings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = settings::of_containerd(&text);
    let _ = settings::of_crio(&text);
    let _ = settings::cdi_spec(&text);
    let _ = failed_build(text.as_bytes());
    let _ = settings::toolkit_mode(&text);
}

/// Where a log may lie that somebody gathered: the name decides how it is read.
const GATHERED: [&str; 7] = [
    "nvidia-driver-x_nvidia-driver-ctr.log",
    "namespaces/nvidia/pods/nvidia-driver-x/nvidia-driver-ctr/nvidia-driver-ctr/logs/current.log",
    "nvidia_driver-x_00000000-0000-4000-8000-000000000001/nvidia-driver-ctr/0.log",
    "sosreport/var/log/kern.log",
    "gathered.txt",
    "pods.yaml",
    "gathered.tar",
];

/// A gathered log, drawn in each form. The first byte says where it lies.
pub fn timeline(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let directory = node::scratch().join("gathered");
    let path = directory.join(GATHERED[usize::from(*first) % GATHERED.len()]);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(&path, bytes).expect("a file");
    // An archive in a directory is not read: the user names it.
    let history = gathered(&[directory, path.clone()], &[]);
    fs::remove_file(&path).expect("a file");
    let Ok(history) = only(history, None) else { return };
    let timeline = Timeline::new(history, Since::default(), DoctorAnswer::NOT);
    assert_plain(&timeline.text(80));
    assert_plain(&timeline.svg());
    let json = text::json(&timeline).expect("JSON");
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
}

/// A whole log, in each of its forms.
pub fn logs(data: &[u8]) {
    let everybody: LogSources = LogSource::ALL.iter().copied().collect();
    for form in [Form::Container, Form::System, Form::Bare] {
        let _ = scan(everybody, form, data, i64::MAX);
    }
    let _ = trouble(data, i64::MAX, Insist::LastWords);
    let _ = awaited(&String::from_utf8_lossy(data));
}

/// One line of a log, one name of a file, one stamp.
pub fn records(data: &[u8]) {
    let _ = record::container(data);
    let _ = record::prefixed(data);
    let _ = record::stern(data);
    let _ = record::printed(data);
    let _ = record::system_line(data);
    let _ = record::ring(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = record::place::pod(text);
        let _ = record::place::log(text);
    }
    for stamp in [stamp::rfc3339, stamp::entrypoint, stamp::date, stamp::since_boot] {
        let _ = stamp(data);
    }
    for latest in [0, 1_755_650_000_000_000_000, i64::MAX] {
        let _ = stamp::classic(data, latest);
        let _ = stamp::klog(data, latest);
    }
}

/// What modprobe and the kernel say: the plan, or a code, standard error and, behind a null byte, the kernel's log.
pub fn modprobe(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let plan = plan::read(&text);
    let _ = plan::objection(&plan, Path::new("/lib/modules/x/nvidia-peermem.ko"), |_| false);
    let (stderr, log) = text.split_once('\0').unwrap_or((&text, ""));
    let log = Ok(log.lines().map(str::to_owned).collect());
    let code = data.first().copied().unwrap_or_default();
    let attempt = refusal::Attempt {
        code,
        stderr,
        log: &log,
        file: None,
        is_packed: code % 2 == 0,
        by_headers: code % 3 == 0,
        others: &plan.others,
    };
    assert!(!refusal::refusal(&attempt).verdict.is_empty());
}

/// A module file, plain or packed: its first byte says which.
pub fn module_file(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let name = ["m.ko", "m.ko.gz", "m.ko.xz", "m.ko.zst"][usize::from(*first) % 4];
    let path = node::scratch().join(name);
    fs::write(&path, bytes).expect("a file");
    let end = module_file::inspect_with_end(&path, LARGEST, &mut || false);
    let _ = end.map(|(_, end)| signer(&end));
    let _ = module_file::build_id(&path, &mut || false);
}

/// A certificate, or what the kernel lists of its keys.
pub fn signing(data: &[u8]) {
    if let Some(id) = keys::key_id(data) {
        let _ = keys::is_listed(&String::from_utf8_lossy(data), &id);
    }
}

/// A status file that `keep` may have left.
pub fn status(data: &[u8]) {
    let Ok(stored) = Stored::read(&String::from_utf8_lossy(data)) else { return };
    let _ = stored.outdated(Some("0fb0e9b4-0000-4000-8000-000000000001"), Duration::from_secs(1000));
    assert_plain(&stored.text(Style::new(None, &Vec::new())));
}

/// Short texts.
pub fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_line(&text);
    let _ = wake::uevent(data);
    let shown = escaped(&text);
    assert_plain(&shown);
    assert!(!shown.contains('\n'));
    let _ = text.parse::<Version>().map(|version| version.agrees_with(&version));
}
