// SPDX-License-Identifier: Apache-2.0
//! What `keep` tells: its status file, its memory, the service manager.

use super::Place;
use crate::support::{self, DRIVERS, Gate, LIMIT, MARKER, PROMPT, VIDEO, gate, output, tests, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What a dead one says of a node that was well is not said when the next one ends at once.
fn the_status_file_of_a_dead_keep_is_not_accepted(place: &Place) {
    let mut keep = place.start();
    place.told("Ready", |status| status["verdict"] == "Ready" && status["keep"]["state"] == "Loaded");
    keep.ended_by(Signal::SIGKILL);
    assert_eq!(place.check().0, 0);
    place.unload();
    let file = place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"));
    fs::write(&file, "no module").expect("a damaged module");
    assert_eq!(place.start().ended(), 3);
    assert_eq!(place.check().0, 2);
    assert!(!place.node.path("metrics.prom").exists());
}

fn keep_notifies_the_service_manager(place: &Place) {
    let path = place.node.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never {wanted}: {error}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.starts_with(wanted) {
                return;
            }
        }
    };
    let mut keep = place.keep();
    keep.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let mut keep = Gate::start(&mut keep);
    hear("READY=1");
    hear("STATUS=Loaded: ");
    let begun = Instant::now();
    (0..10).for_each(|_| hear("WATCHDOG=1"));
    assert!(begun.elapsed() < Duration::from_secs(3) + PROMPT, "{:?}", begun.elapsed());
    place.node.remove(MARKER);
    hear("STATUS=Waiting: MOFED has not set its marker");
    keep.process().signal(Signal::SIGTERM);
    hear("STOPPING=1");
    assert_eq!(keep.ended(), 0);
}

/// A pipe or a link there is nobody's order, and no reason to end: `keep` would be started again and again.
fn whatever_is_at_the_memorys_path_ends_no_keep() {
    let put: [fn(&Path); 3] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe"),
        |path| symlink("/etc/passwd", path).expect("a link"),
        |path| fs::create_dir(path).expect("a directory"),
    ];
    for put in put {
        let Some(place) = Place::new() else { return };
        put(&place.node.path("status.json.memory"));
        let mut keep = place.start();
        keep.logs("the next keep will not know of an order to unload");
        place.is_in("Loaded");
    }
}

/// Its directory may be mounted later.
fn the_memory_is_written_as_soon_as_it_can_be(place: &Place) {
    let outputs = place.node.path("outputs");
    let keep = Gate::start(&mut place.keep_writing_to(&outputs));
    until("it is loaded", || place.is_loaded());
    thread::sleep(Duration::from_secs(1));
    fs::create_dir(&outputs).expect("a directory");
    until("it is written", || outputs.join("status.json.memory").exists());
    drop(keep);
}

/// It gets earlier messages once it reads.
fn a_service_manager_that_reads_late_still_gets_ready(place: &Place) {
    let path = place.node.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"STATUS=full", &path).is_ok() {}
    let _keep = Gate::start(place.keep().env("NOTIFY_SOCKET", &path));
    place.is_in("Loaded");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut owed = vec!["READY=1", "STATUS=Loaded: "];
    while !owed.is_empty() {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never {owed:?}: {error}"));
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        owed.retain(|wanted| !text.starts_with(wanted));
    }
}

fn a_service_manager_that_does_not_read_delays_nothing(place: &Place) {
    let path = place.node.path("notify");
    let _unread = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"STATUS=full", &path).is_ok() {}
    let mut keep = place.keep();
    keep.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let mut keep = Gate::start(&mut keep);
    place.is_in("Loaded");
    place.node.remove(MARKER);
    place.is_in("Waiting");
    assert!(!place.is_loaded());
    let told = Instant::now();
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(told.elapsed() < PROMPT, "{:?}", told.elapsed());
}

fn the_service_manager_may_listen_on_an_abstract_socket(place: &Place) {
    let name = format!("peermem-gate-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let _keep = Gate::start(place.keep().env("NOTIFY_SOCKET", format!("@{name}")));
    let mut buffer = [0; 4096];
    loop {
        let length = manager.recv(&mut buffer).expect("never READY=1");
        if buffer[..length] == *b"READY=1" {
            return;
        }
    }
}

fn a_status_file_is_judged_by_its_age_and_its_boot(place: &Place) {
    let mut keep = place.start();
    place.told("Ready", |s| s["verdict"] == "Ready" && s["keep"]["state"] == "Loaded");
    keep.ended_by(Signal::SIGKILL);
    let text = fs::read_to_string(place.status()).expect("a status");
    assert_eq!(place.check().0, 0, "it is not old yet");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut status: Value = serde_json::from_str(&text).expect("a status");
        change(&mut status);
        fs::write(place.status(), status.to_string()).expect("a status");
        place.check()
    };
    // What else is wrong with one is for the rules: tests/rules/keep/status.rs.
    let (ends, said) = with(&|status| status["keep"]["written_s"] = 1.0.into());
    assert_eq!(ends, 2, "{said}");
    assert!(said.starts_with("Unknown: ") && said.contains("more than two heartbeats"), "{said}");
    assert_eq!(with(&|status| status["verdict"] = "Nonsense".into()).0, 2);
    for garbage in ["", "{", "[]", "nonsense", "{\"schema\":\"peermem-gate/v1\"}"] {
        fs::write(place.status(), garbage).expect("a file");
        assert_eq!(place.check().0, 2, "{garbage}");
    }
    fs::remove_file(place.status()).expect("removed");
    let (ends, said) = place.check();
    assert_eq!(ends, 2, "{said}");
    assert!(said.lines().next().unwrap().len() <= 80 && said.is_ascii(), "{said}");
    let as_json = || {
        let mut check = gate();
        check.args(["check", "--format", "json", "--status-file"]).arg(place.status());
        String::from_utf8(output(check.arg("--proc").arg(place.node.path("proc"))).stdout).unwrap()
    };
    // A reader of reports finds each key in an answer that knows nothing.
    let answer: Value = serde_json::from_str(&as_json()).expect("JSON");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    for (key, value) in report.as_object().expect("an object").iter().filter(|(key, _)| *key != "keep") {
        assert!(!answer[key].is_null(), "{key} is missing: {answer:#}");
        if ["node", "kernel", "arch", "boot_id", "version", "for"].contains(&key.as_str()) {
            assert_eq!(&answer[key], value, "{key}");
        }
    }
    // As JSON it is what keep wrote.
    fs::write(place.status(), &text).expect("a status");
    assert_eq!(as_json(), text);
}

fn keep_refuses_contradictions_and_mofeds_directory(place: &Place) {
    let both = support::refusal(place.keep().args(["--no-yield", "--unload-on-exit"]));
    assert_eq!((both.0, both.1.contains("--unload-on-exit")), (2, true), "{}", both.1);
    for option in ["--status-file", "--metrics-file", "--termination-log"] {
        let mut keep = gate();
        keep.arg("keep").arg("--marker").arg(place.node.path(MARKER));
        let (code, said) = support::refusal(keep.arg(option).arg(place.node.path(&format!("{DRIVERS}/x"))));
        assert_eq!((code, said.contains(option)), (2, true), "{said}");
    }
    let (code, said) = support::refusal(gate().args(["keep", "--modprobe", "/no/such/modprobe"]));
    assert_eq!(code, 127, "{said}");
}

tests![
    on Place::new [
        the_status_file_of_a_dead_keep_is_not_accepted,
        keep_notifies_the_service_manager,
        the_memory_is_written_as_soon_as_it_can_be,
        a_service_manager_that_reads_late_still_gets_ready,
        a_service_manager_that_does_not_read_delays_nothing,
        the_service_manager_may_listen_on_an_abstract_socket,
        a_status_file_is_judged_by_its_age_and_its_boot,
        keep_refuses_contradictions_and_mofeds_directory,
    ],
    [whatever_is_at_the_memorys_path_ends_no_keep],
];
