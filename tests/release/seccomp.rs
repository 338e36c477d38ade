// SPDX-License-Identifier: Apache-2.0
//! manifests/seccomp/wait.json, and the profile that containers have by default: a filter that kills for every call
//! that these do not name. The static build runs under it, because that is what the image has.

use crate::place::Place;
use crate::support::{self, HOST, Node, Process, can, code, output, product, skip, tests, wrapped};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs the filter and becomes the program. A call whose number this architecture does not have is left out, as
/// a container runtime does it.
const FILTER: &str = include_str!("filter.c");

fn allowed() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/seccomp/wait.json");
    let profile: Value = serde_json::from_slice(&fs::read(path).expect("a profile")).expect("JSON");
    let names = profile["syscalls"][0]["names"].as_array().expect("names");
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// The filter of these calls as a program, and the product; says so where there is no compiler or no product.
fn filter(directory: &Path, names: &[String]) -> Option<(PathBuf, PathBuf)> {
    let product = product(HOST)?;
    if !can(&["cc", "--version"]) {
        return None;
    }
    let allow = |name: &String| format!("#ifdef __NR_{name}\nALLOW(__NR_{name})\n#endif");
    let text = FILTER.replace("@ALLOWED@", &names.iter().map(allow).collect::<Vec<_>>().join("\n"));
    let (source, filter) = (directory.join("filter.c"), directory.join("filter"));
    fs::write(&source, text).expect("a source");
    let built = output(Command::new("cc").arg("-o").arg(&filter).arg(&source));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let probe = output(Command::new(&filter).arg("/no/such/program"));
    if code(probe.status) == 99 {
        skip("no seccomp filter can be installed here");
        return None;
    }
    Some((filter, product))
}

fn ended(filter: &Path, wait: &Command) -> i32 {
    code(output(&mut wrapped([filter], wait)).status)
}

fn every_system_call_of_wait_is_in_the_seccomp_profile() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some((filter, product)) = filter(directory.path(), &allowed()) else { return };
    let waits = |node: &Node, args: &[&str]| {
        let mut wait = node.wait_by(&product);
        wait.args(["--settle", "20ms", "--timeout", "300ms", "--termination-log"])
            .arg(node.path("last-words"));
        wait.arg("--metrics-file").arg(node.path("metrics.prom")).args(args);
        ended(&filter, &wait)
    };
    assert_eq!(waits(&Node::ready(), &[]), 0);
    assert_eq!(waits(&Node::ready(), &["--log-level", "trace"]), 0);
    assert_eq!(waits(&Node::ready().suspect(), &["--suspect-hold", "50ms"]), 0);
    assert_eq!(waits(&Node::ready().without_mofed().without_nic(), &[]), 0);
    assert_eq!(waits(&Node::ready().without_nic(), &["--suspect-hold", "50ms"]), 0);
    assert_eq!(waits(&Node::ready().without_marker(), &[]), 124);
    assert_eq!(waits(&Node::ready().in_tree(), &["--peermem"]), 124);
    assert_eq!(waits(&Node::ready().without(support::SYMVERS), &[]), 124);
    assert_eq!(waits(&Node::ready().without_marker(), &["--on-timeout", "proceed"]), 0);
}

/// Directories that come and go, and a signal.
fn a_wait_that_is_woken_and_ended_stays_within_the_seccomp_profile() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some((filter, product)) = filter(directory.path(), &allowed()) else { return };
    let node = Node::ready();
    node.rename("run/mellanox/drivers", "prepared");
    let mut gate = support::Gate::start(&mut wrapped([&filter], &node.wait_by(&product)));
    gate.logs("MarkerParentMissing");
    node.rename("prepared", "run/mellanox/drivers");
    gate.assert_opened();

    let node = Node::ready().without_marker();
    let mut gate = support::Gate::start(&mut wrapped([&filter], &node.wait_by(&product)));
    gate.logs("MarkerAbsent");
    gate.process().signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(gate.ended(), 143);
}

/// What the filter does to somebody who makes another call.
fn the_seccomp_filter_kills_a_process_that_makes_another_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let names: Vec<_> = allowed().into_iter().filter(|name| name != "uname").collect();
    let Some((filter, product)) = filter(directory.path(), &names) else { return };
    let node = Node::ready();
    let mut killed =
        Process::new(wrapped([&filter], node.wait_by(&product).arg("--dry-run")).spawn().expect("it starts"));
    assert_eq!(code(killed.ended()), 125, "the worker is killed, and the supervisor says so");
}

/// The profile that podman brings, which is Docker's and containerd's too: `RuntimeDefault`.
const DEFAULT: &str = "/usr/share/containers/seccomp.json";
/// What manifests/keeper asks for.
const CAPABILITIES: [&str; 2] = ["CAP_SYS_MODULE", "CAP_SYS_CHROOT"];

/// The calls that a container with these capabilities may make, with whatever arguments.
fn allowed_by_default() -> Option<Vec<String>> {
    let Ok(profile) = fs::read(DEFAULT) else {
        skip(&format!("there is no {DEFAULT}: podman brings it"));
        return None;
    };
    let profile: Value = serde_json::from_slice(&profile).expect("JSON");
    let is_ours = |rule: &&Value| {
        let needed = rule["includes"]["caps"].as_array();
        let has = |capability: &Value| CAPABILITIES.iter().any(|ours| capability == ours);
        rule["action"] == "SCMP_ACT_ALLOW" && needed.is_none_or(|needed| needed.iter().any(has))
    };
    let rules = profile["syscalls"].as_array().expect("rules").iter().filter(is_ours);
    let names = rules.flat_map(|rule| rule["names"].as_array().expect("names"));
    Some(names.map(|name| name.as_str().expect("a name").to_owned()).collect())
}

/// A build, a load and an unload, with all that kmod's programs and make do here: none of them is killed.
fn keep_stays_within_the_seccomp_profile_that_containers_have_by_default() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some((filter, product)) = allowed_by_default().and_then(|all| filter(directory.path(), &all)) else {
        return;
    };
    let Some(place) = Place::new() else { return };
    let outputs = ["--metrics-file", "--status-file"].map(|option| (option, place.node.path(&option[2..])));
    let keep = place.run("keep", &["--rebuild", "auto"]);
    let mut by_product = support::gate_by(&product);
    by_product.args(keep.get_args());
    by_product.envs(keep.get_envs().filter_map(|(name, value)| Some((name, value?))));
    for (option, path) in &outputs {
        by_product.arg(option).arg(path);
    }
    let mut keep = support::Gate::start(&mut wrapped([&filter], &by_product));
    keep.logs("is installed and usable");
    let has_called = |what: &str| place.called().iter().any(|call| call.starts_with(what));
    support::until("it is loaded", || has_called("load updates/"));
    place.node.remove(support::MARKER);
    support::until("it is unloaded", || has_called("unload "));
    keep.process().signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(keep.ended(), 0, "{:#?}", keep.lines);
    assert!(!keep.said("was killed") && !keep.said("is not written"), "{:#?}", keep.lines);
}

tests![
    keep_stays_within_the_seccomp_profile_that_containers_have_by_default,
    every_system_call_of_wait_is_in_the_seccomp_profile,
    a_wait_that_is_woken_and_ended_stays_within_the_seccomp_profile,
    the_seccomp_filter_kills_a_process_that_makes_another_call,
];
