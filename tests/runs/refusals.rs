// SPDX-License-Identifier: Apache-2.0
//! What is refused at start, and that each refusal names what is wrong with what.

use crate::support::{self, GATE, Node, Report, can, code, gate, output, refusal, tests};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

fn assert_refused(command: &mut Command, named: &str) {
    let shown = format!("{command:?}");
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 2, "{shown}: {said}");
    assert!(said.contains(named), "{shown} does not name {named}: {said}");
    assert!(said.starts_with("error: "), "{shown}: {said}");
    assert!(output.stdout.is_empty(), "{shown}");
}

fn the_refusal_of_a_command_line_shows_the_right_one() {
    let behind = "tip: put a command, or a module's parameters, after `--`";
    let verbs = "tip: begin with one of wait, check, load, keep, rebuild, install, doctor, \
        timeline, fleet, paths, inspect, explain";
    for (words, tip) in [
        (&["wait", "nvidia-driver", "init"][..], behind),
        (&["load", "peerdirect_support=0"], behind),
        (&["keep", "peerdirect_support=0"], behind),
        (&["status"], verbs),
        (&["help", "status"], verbs),
        (&["--timeout", "5m"], verbs),
        (&["wait", "--timout", "5m"], "tip: a similar argument exists: '--timeout'"),
    ] {
        assert_refused(gate().args(words), tip);
    }
    let (_, said) = refusal(gate().arg("chekc"));
    assert!(said.contains(verbs) && !said.contains("similar"), "{said}");
    // What no verb has is no command and no parameter of a module either.
    let (_, said) = refusal(gate().args(["load", "--nonsense"]));
    assert!(said.contains("unexpected argument '--nonsense'") && !said.contains("tip"), "{said}");
}

fn the_refusal_of_an_option_names_the_verbs_that_have_it() {
    for (words, owners) in [
        (&["check", "--timeout", "5m"][..], "--timeout is an option of wait, load"),
        (&["load", "--root=/host"], "--root is an option of wait, check"),
        (&["fleet", "--root", "/host"], "--root is an option of doctor, timeline, paths"),
    ] {
        assert_refused(gate().args(words), owners);
    }
}

fn the_refusal_of_a_misspelled_variable_names_the_right_one() {
    for (misspelled, meant) in [
        ("PEERMEM_GATE_TIMOUT", "did you mean PEERMEM_GATE_TIMEOUT?"),
        ("PEERMEM_GATE_ON_TIME_OUT", "did you mean PEERMEM_GATE_ON_TIMEOUT?"),
        // One that another verb of the same pod has.
        ("PEERMEM_GATE_STATUSFILE", "did you mean PEERMEM_GATE_STATUS_FILE?"),
    ] {
        assert_refused(wait().env(misspelled, "1m"), meant);
    }
    let (_, said) = refusal(wait().env("PEERMEM_GATE_QQQQ", "1m"));
    assert!(said.contains("PEERMEM_GATE_QQQQ") && !said.contains("did you mean"), "{said}");
}

fn a_refusal_has_no_blank_line() {
    for words in [&["wait", "--nonsense"][..], &["nonsense"], &["install"], &["wait", "--on-timeout", "open"]]
    {
        let (_, said) = refusal(gate().args(words));
        assert!(!said.contains("\n\n"), "{words:?}: {said}");
    }
}

fn a_missing_root_is_refused_and_not_judged_as_an_empty_node() {
    let node = Node::ready();
    let file = node.path("proc/modules");
    for verb in ["wait", "check", "doctor"] {
        for root in [&node.path("none"), &file] {
            assert_refused(
                gate().arg(verb).arg("--root").arg(root),
                "is not a directory here: mount the host there",
            );
        }
        let empty = node.path("no-host");
        fs::create_dir_all(empty.join("proc")).unwrap();
        assert_refused(gate().arg(verb).arg("--root").arg(&empty), "/no-host has neither proc nor sys");
        let unmounted = node.path("unmounted");
        for name in ["proc", "sys"] {
            fs::create_dir_all(unmounted.join(name)).unwrap();
        }
        assert_refused(gate().arg(verb).arg("--root").arg(&unmounted), "has an empty proc and sys");
        // Unless it is said where they are.
        let mut look = gate();
        look.arg(verb).arg("--root").arg(&empty).arg("--proc").arg(node.path("proc"));
        let said = end(look.arg("--sys").arg(node.path("sys")).env("PEERMEM_GATE_TIMEOUT", "0s")).1;
        assert!(!said.contains("neither proc nor sys"), "{said}");
    }
    let (code, said) = refusal(gate().args(["load", "--driver-root"]).arg(node.path("none")));
    assert_eq!(code, 127, "{said}");
    assert!(said.contains("/none does not exist: start the driver's container"), "{said}");
}

/// Nobody said where the driver is, and a driver container shows its root.
fn the_driver_containers_root_is_where_modprobe_is_looked_for() {
    let unshare = ["unshare", "--user", "--map-root-user", "--mount"];
    if !can(&[&unshare[..], &["true"]].concat()) {
        return;
    }
    let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/nvidia/driver/lib/modules && exec \"$@\"";
    let look = |arguments: &[&str]| {
        let mut load = Command::new(unshare[0]);
        load.args(&unshare[1..]).args(["sh", "-c", script, "sh", support::GATE, "load", "--timeout", "0s"]);
        refusal(load.args(arguments))
    };
    let (code, said) = look(&[]);
    assert_eq!(code, 127, "{said}");
    assert!(said.contains("there is no modprobe") && said.contains("below /run/nvidia/driver"), "{said}");
    let (_, said) = look(&["--driver-root", "/"]);
    assert!(!said.contains("/run/nvidia/driver"), "{said}");
}

fn a_relative_root_is_accepted() {
    let node = Node::ready();
    let parent = node.root().parent().unwrap().to_owned();
    for root in [".", "./proc/../", node.root().file_name().unwrap().to_str().unwrap()] {
        let mut check = gate();
        let directory = if root.starts_with('.') { node.root() } else { &parent };
        check.args(["check", "--root", root]).current_dir(directory);
        assert_eq!(code(output(&mut check).status), 0, "{root}");
    }
}

/// In a root of its own, as a debug pod has it, with `at` mounted at /host.
fn in_a_pod(words: &str, at: &Path) -> (i32, String) {
    let script = format!(
        r#"set -e
        mount -t tmpfs none "$1"; mkdir "$1/host"
        for entry in /*; do
            if [ -L "$entry" ]; then cp -P "$entry" "$1$entry"
            elif [ -d "$entry" ]; then mkdir -p "$1$entry"; mount --rbind "$entry" "$1$entry"; fi
        done
        mount --rbind "$2" "$1/host"; exec chroot "$1" "$0" {words}"#
    );
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, GATE]);
    end(command.arg(scratch.path()).arg(at))
}

fn in_a_pod_check_looks_at_the_host_and_says_so() {
    if !can(&["unshare", "--user", "--map-root-user", "--mount", "true"]) {
        return;
    }
    let (node, said) = (Node::ready(), "looking at the host's file system in /host");
    for (words, is_there) in [
        ("check", true),
        ("doctor -v", true),
        ("check --root /", false),
        ("check --sys /sys", false),
        ("wait --timeout=0s", false),
    ] {
        let (_, answer) = in_a_pod(words, node.root());
        assert_eq!(answer.contains(said), is_there, "{words}: {answer}");
        assert_eq!(answer.contains("/host/run/mellanox/drivers/.driver-ready exists"), is_there, "{answer}");
    }
    let (_, answer) = in_a_pod("check", &node.path("run"));
    assert!(!answer.contains(said), "a volume without proc and sys is not a host: {answer}");
}

/// It means what it means to NVIDIA's scripts, and anyone who wrote it meant something else.
fn a_misspelled_value_of_use_host_mofed_is_reported() {
    let node = Node::ready().without_marker();
    let mut misspelled = node.check();
    let report = Report::of(misspelled.env("USE_HOST_MOFED", "True").args(["--format", "json"]));
    assert_eq!(report.reason("MarkerPresent"), "MarkerAbsent");
    let told = report.message("MarkerPresent");
    assert!(told.contains("USE_HOST_MOFED is \"True\", not \"true\""), "{told}");
    let mut meant = node.check();
    let report = Report::of(meant.env("USE_HOST_MOFED", "false").args(["--format", "json"]));
    assert!(!report.message("MarkerPresent").contains("USE_HOST_MOFED"));
}

/// A gate that would open or end at once if it did not refuse.
fn start(verb: &str) -> Command {
    let mut command = gate();
    command.arg(verb).env("GPU_DIRECT_RDMA_ENABLED", "false");
    match verb {
        "load" => command.env("PEERMEM_GATE_MODPROBE", "/bin/true"),
        "keep" => command.env("PEERMEM_GATE_MODPROBE", "/no/such/modprobe"),
        // What is refused for its options is refused before DIR is looked at.
        "install" => command.arg("/no/such/directory"),
        _ => &mut command,
    };
    command
}

fn wait() -> Command {
    start("wait")
}

fn check() -> Command {
    start("check")
}

fn assert_accepted(command: &mut Command) {
    let shown = format!("{command:?}");
    let (code, said) = refusal(command);
    assert_eq!(code, 0, "{shown}: {said}");
}

fn unknown_options_and_words_are_refused() {
    assert_refused(wait().arg("--nonsense"), "--nonsense");
    assert_refused(wait().arg("--time-out=3s"), "--time-out");
    assert_refused(wait().arg("--timeou=3s"), "--timeou");
    assert_refused(wait().arg("nonsense"), "nonsense");
    assert_refused(check().args(["--", "nonsense"]), "nonsense");
    assert_refused(gate().arg("nonsense"), "nonsense");
    assert_refused(gate().arg("--nonsense"), "--nonsense");
    assert_refused(wait().args(["--settle", "1s", "--settle", "2s"]), "--settle");
    assert_refused(wait().arg("--timeout"), "--timeout");
    let (code, said) = refusal(&mut gate());
    assert_eq!(code, 2, "no verb: {said}");
    assert!(said.contains("Usage"), "{said}");
    // A verb comes with its issue, and is no stub until then.
}

const WRONG_DURATIONS: [&str; 14] =
    ["30", "0", "", "s", "1.5s", "-1s", "+1s", "1 s", " 1s", "1h30m", "1d", "10S", "1s\n", "99999999999h"];

fn durations_without_a_number_and_a_unit_are_refused() {
    for option in ["timeout", "settle", "suspect-hold", "heartbeat"] {
        let variable = format!("PEERMEM_GATE_{}", option.to_uppercase().replace('-', "_"));
        for wrong in WRONG_DURATIONS {
            assert_refused(wait().arg(format!("--{option}={wrong}")), &format!("--{option}"));
            assert_refused(wait().env(&variable, wrong), &variable);
        }
        // To clap the value is an option.
        assert_refused(wait().args([&format!("--{option}"), "-1s"]), "like 300ms, 10s, 20m or 2h");
        assert_accepted(wait().arg(format!("--{option}=2000ms")));
    }
    assert_refused(wait().args(["--heartbeat", "0s"]), "--heartbeat");
    assert_refused(wait().args(["--heartbeat", "1ms"]), "at least 1s");
    assert_refused(wait().args(["--settle", "none"]), "--settle");
    assert_accepted(wait().args(["--timeout", "none"]));
}

fn a_settle_time_that_leaves_no_time_to_open_is_refused() {
    for args in [
        ["--settle", "30m", "--timeout", "30m"],
        ["--settle", "2s", "--timeout", "1s"],
        ["--settle", "1s", "--timeout", "1000ms"],
    ] {
        assert_refused(wait().args(args), "--settle");
    }
    assert_refused(wait().args(["--timeout", "1s"]), "--settle");
    assert_refused(wait().args(["--settle", "1h"]), "--timeout");
    assert_refused(wait().env("PEERMEM_GATE_TIMEOUT", "1s"), "--settle");
    assert_accepted(wait().args(["--timeout", "0s", "--settle", "1h"]));
    assert_accepted(wait().args(["--timeout", "none", "--settle", "1h"]));
    assert_accepted(wait().args(["--timeout", "1001ms"]));
}

/// By its option and by its mirror. An empty value is refused for every option below.
fn a_value_that_an_option_does_not_take_is_refused() {
    const BOOLEANS: &[&str] = &["1", "0", "yes", "True", "TRUE", " true", "on"];
    const MODULES: &[&str] =
        &[",", "ib_core,", ",ib_core", "a b", "../x", "ib_core, mlx5_core", "ä", "ib/core", "a\nb"];
    for (verb, option, wrong) in [
        ("wait", "fail-fast", BOOLEANS),
        ("wait", "dry-run", BOOLEANS),
        ("wait", "precompiled", BOOLEANS),
        ("wait", "on-timeout", &["open", "FAIL", "fail,proceed"]),
        ("wait", "log-format", &["xml", "JSON"]),
        ("wait", "log-level", &["loud", "info,debug", "peermem_gate=debug"]),
        ("check", "format", &["xml", "Json"]),
        ("wait", "module", MODULES),
        ("check", "mofed-version", &["banana", "v25.07", "25.07-", "25.07 ", "latest"]),
        ("wait", "marker", &["relative", "./relative", "/", "..", "/run/.."]),
    ] {
        let variable = format!("PEERMEM_GATE_{}", option.to_uppercase().replace('-', "_"));
        for wrong in wrong {
            assert_refused(start(verb).arg(format!("--{option}={wrong}")), &format!("--{option}"));
            assert_refused(start(verb).env(&variable, wrong), &variable);
        }
        if wrong == BOOLEANS {
            for right in ["true", "false"] {
                assert_accepted(wait().arg(format!("--{option}={right}")));
                assert_accepted(wait().env(&variable, right));
            }
            assert_accepted(wait().arg(format!("--{option}")));
        }
    }
    assert_accepted(wait().args(["--module", "ib-core,ib_uverbs", "--module", "mlx5_core"]));
    let named = "[possible values: fail, proceed]";
    assert_refused(wait().env("PEERMEM_GATE_ON_TIMEOUT", "open"), named);
}

fn relative_paths_in_the_operators_variables_are_refused() {
    for name in ["DRIVER_READY_PATH", "LOCK_FILE_PATH", "MLX_DRIVERS_MOUNT"] {
        assert_refused(wait().env(name, "relative/path"), name);
        assert_refused(check().env(name, "relative/path"), name);
    }
    // What counts before it says something.
    assert_accepted(wait().env("DRIVER_READY_PATH", "relative").args(["--marker", "/a"]));
}

fn unknown_variables_are_refused() {
    for name in
        ["NONSENSE", "TIMEOUTS", "TIME_OUT", "timeout", "Timeout", "", "HELP", "VERSION", "CMD", "TIMEOUT_"]
    {
        let name = format!("PEERMEM_GATE_{name}");
        assert_refused(wait().env(&name, "1s"), &name);
        assert_refused(check().env(&name, "1s"), &name);
    }
    // Not one of our names.
    assert_accepted(
        wait().env("peermem_gate_timeout", "x").env("PEERMEM_GATE", "x").env("XPEERMEM_GATE_Y", "x"),
    );
}

fn names_and_values_that_are_not_text_are_refused() {
    let name = OsStr::from_bytes(b"PEERMEM_GATE_TIMEOUT\xff");
    assert_refused(wait().env(name, "1s"), "PEERMEM_GATE_TIMEOUT");
    let odd = OsStr::from_bytes(b"1s\xff");
    assert_refused(wait().env("PEERMEM_GATE_TIMEOUT", odd), "PEERMEM_GATE_TIMEOUT");
    assert_refused(wait().arg("--timeout").arg(odd), "");
}

fn a_gate_disabled_without_a_reason_is_refused() {
    for wrong in ["", "0", "false", " "] {
        assert_refused(wait().env("PEERMEM_GATE_DISABLED", wrong), "PEERMEM_GATE_DISABLED");
    }
    // Where nothing can be opened, nothing can be disabled either.
    assert_accepted(check().env("PEERMEM_GATE_DISABLED", "why"));
}

/// A pod sets one variable for all its containers, and a Service injects its own.
fn variables_that_services_inject_are_accepted() {
    for (name, value) in [
        ("PEERMEM_GATE_SERVICE_HOST", "10.0.0.1"),
        ("PEERMEM_GATE_SERVICE_PORT", "80"),
        ("PEERMEM_GATE_SERVICE_PORT_HTTP", "80"),
        ("PEERMEM_GATE_PORT", "tcp://10.0.0.1:80"),
        ("PEERMEM_GATE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("PEERMEM_GATE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("PEERMEM_GATE_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("PEERMEM_GATE_METRICS_SERVICE_PORT", "9400"),
        ("PEERMEM_GATE_METRICS_SERVICE_PORT_HTTP_METRICS", "9400"),
        ("PEERMEM_GATE_METRICS_PORT", "tcp://10.0.0.1:9400"),
        ("PEERMEM_GATE_METRICS_PORT_9400_TCP", "tcp://10.0.0.1:9400"),
        ("PEERMEM_GATE_METRICS_PORT_9400_TCP_PROTO", "tcp"),
        ("PEERMEM_GATE_A_B_PORT_9400_UDP_PORT", "9400"),
        ("PEERMEM_GATE_NO_YIELD", "true"),
        ("PEERMEM_GATE_UNLOAD_ON_EXIT", "true"),
        ("PEERMEM_GATE_MODPROBE", "/sbin/modprobe"),
        ("PEERMEM_GATE_DRIVER_ROOT", "/run/nvidia/driver"),
    ] {
        assert_accepted(wait().env(name, value));
        assert_accepted(check().env(name, value));
    }
    for (name, value) in [("FORMAT", "json"), ("STATUS_FILE", "/run/status")] {
        assert_accepted(wait().env(format!("PEERMEM_GATE_{name}"), value));
    }
    for name in ["METRICS_SERVICE", "METRICS_PORTS", "SERVICE_HOSTS", "SERVICEPORT"] {
        assert_refused(wait().env(format!("PEERMEM_GATE_{name}"), "x"), name);
    }
    for name in ["TIMEOUT", "SETTLE", "SUSPECT_HOLD", "HEARTBEAT", "TERMINATION_LOG", "METRICS_FILE"] {
        assert_accepted(check().env(format!("PEERMEM_GATE_{name}"), "5s"));
    }
}

fn the_command_line_wins_over_variables() {
    assert_accepted(wait().env("PEERMEM_GATE_TIMEOUT", "30").args(["--timeout", "30s"]));
    assert_accepted(wait().env("PEERMEM_GATE_DRY_RUN", "yes").arg("--dry-run"));
    let node = Node::ready().in_tree();
    let mut check = node.check();
    check.env("PEERMEM_GATE_FORMAT", "text").env("PEERMEM_GATE_MODULE", "nonsense");
    let report = Report::of(check.args(["--format", "json", "--module", "ib_core"]));
    assert_eq!(report.reason("ModulesLive"), "AllLive");
    let mut wait = node.wait();
    wait.env("PEERMEM_GATE_TIMEOUT", "none").env("PEERMEM_GATE_SETTLE", "1h");
    assert_eq!(refusal(wait.args(["--timeout", "0s"])).0, 124);
}

/// Every option that the help lists, as `(option, mirror)`.
fn options(verb: &str) -> Vec<(String, String)> {
    let output = output(gate().args([verb, "--help"]));
    let help = String::from_utf8(output.stdout).unwrap();
    let listed = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let long = ["-h, --", "-v, --"]
            .iter()
            .find_map(|short| line.strip_prefix(short))
            .or_else(|| line.strip_prefix("--"))?;
        Some(long.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?.to_owned())
    });
    let ours = listed.filter(|option| option != "help" && option != "version");
    ours.map(|option| {
        let mirror = format!("PEERMEM_GATE_{}", option.to_uppercase().replace('-', "_"));
        (option, mirror)
    })
    .collect()
}

fn every_option_has_a_mirror_and_refuses_an_empty_value() {
    for (verb, least) in [
        ("wait", 20),
        ("check", 11),
        ("load", 15),
        ("keep", 17),
        ("doctor", 10),
        ("fleet", 3),
        ("install", 2),
    ] {
        let options = options(verb);
        assert!(options.len() >= least, "{verb}: {options:?}");
        for (option, mirror) in options {
            assert_refused(start(verb).arg(format!("--{option}=")), &format!("--{option}"));
            assert_refused(start(verb).env(&mirror, ""), &mirror);
        }
    }
}

/// What changes nothing but times, or shows in a file; and without its timeout the gate waits.
const UNSEEN: [&str; 8] = [
    "rebuild",
    "settle",
    "suspect-hold",
    "fail-fast",
    "heartbeat",
    "termination-log",
    "metrics-file",
    "timeout",
];

/// A value that shows, for each option that the help lists.
fn value_that_shows(option: &str, node: &Node, elsewhere: &Node) -> String {
    let path = |node: &Node, relative: &str| node.path(relative).display().to_string();
    match option {
        "timeout" => "0s".into(),
        "on-timeout" => "proceed".into(),
        "settle" => "123ms".into(),
        "suspect-hold" => "1ms".into(),
        "fail-fast" | "dry-run" | "precompiled" | "peermem" | "verbose" => "true".into(),
        "driver-root" => "/odd".into(),
        "heartbeat" => "7s".into(),
        // Only on OpenShift.
        "rebuild" => "auto".into(),
        "for" => "fabric".into(),
        "status-file" => path(node, "odd/status"),
        "termination-log" => path(node, "odd/log"),
        "metrics-file" => path(node, "odd/metrics"),
        "mofed-version" => "24.10".into(),
        "module" => "nvidia_uvm".into(),
        "marker" => "/odd/marker".into(),
        "root" => path(node, "odd"),
        "proc" => path(elsewhere, "proc"),
        "sys" => path(elsewhere, "run"),
        "format" | "log-format" => "json".into(),
        "log-level" => "error".into(),
        "operator-namespace" => "odd".into(),
        other => panic!("a new option --{other}: give it a value that shows"),
    }
}

/// How it ends and what it says, except for times. On a machine so busy that an answer gets too old it runs again.
fn end(command: &mut Command) -> (i32, String) {
    let mut run = || {
        let output = output(command);
        (code(output.status), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let runs = std::iter::repeat_with(&mut run).take(3);
    let (code, said) = runs.into_iter().find(|(_, said)| !said.contains("asking again")).unwrap_or_else(run);
    let said: String = said.chars().filter(|c| !c.is_ascii_digit()).collect();
    let lines = said.lines().filter(|line| !line.contains("still waiting"));
    (code, lines.collect::<Vec<_>>().join("\n"))
}

fn every_mirror_does_what_its_option_does() {
    let elsewhere = Node::ready().in_tree();
    let node = Node::ready();
    node.write("odd/marker/is-a-directory", "");
    node.write("var/log/pods/odd_pod_0-0-0/mofed-container/0.log", "");
    for verb in ["wait", "check", "doctor"] {
        // `doctor --every` does not end: doctor/tests/runs/every.rs has its mirror.
        for (option, mirror) in options(verb).into_iter().filter(|(option, _)| option != "every") {
            let value = value_that_shows(&option, &node, &elsewhere);
            let start = || {
                let mut command = gate();
                command.arg(verb);
                if option != "root" {
                    command.arg("--root").arg(node.root());
                }
                if verb == "doctor" && option != "verbose" {
                    command.arg("--verbose");
                }
                if option == "driver-root" && verb != "doctor" {
                    command.arg("--peermem");
                }
                if verb == "wait" && option != "timeout" {
                    command.args(["--timeout", if option == "settle" { "1m" } else { "300ms" }]);
                    if option != "settle" {
                        command.args(["--settle", "0s"]);
                    }
                }
                if verb == "wait"
                    && ["timeout", "on-timeout", "termination-log", "metrics-file"].contains(&&*option)
                {
                    command.env("DRIVER_READY_PATH", "/no/such/marker");
                }
                command
            };
            let typed = end(start().arg(format!("--{option}={value}")));
            let mirrored = end(start().env(&mirror, &value));
            assert_eq!(typed, mirrored, "{verb} {mirror}");
            let unseen = match verb {
                "wait" => option == "precompiled",
                // Its answer is no log.
                _ => option.starts_with("log-"),
            };
            if !unseen && !UNSEEN.contains(&&*option) {
                assert_ne!(mirrored, end(&mut start()), "{verb} {mirror} does nothing");
            }
        }
    }
    assert!(node.path("odd/log").exists() && node.path("odd/metrics").exists());
}

fn no_option_reaches_modprobe_as_a_parameter() {
    for word in ["-f", "--force-vermagic", "-C", ""] {
        assert_refused(start("load").args(["--", "peerdirect_support=1", word]), "no option of modprobe");
    }
    assert_accepted(start("load").args(["--", "peerdirect_support=1", "odd"]));
}

fn a_disabled_load_needs_only_a_root_and_a_modprobe() {
    let disabled = |modprobe: &str| {
        let mut command = gate();
        command.arg("load").env("PEERMEM_GATE_DISABLED", "drill 7").env("PEERMEM_GATE_MODPROBE", modprobe);
        command.env("PEERMEM_GATE_TIMEOUT", "nonsense").env("DRIVER_READY_PATH", "nonsense");
        refusal(&mut command)
    };
    let (code, said) = disabled("/bin/true");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("drill 7"), "{said}");
    let (code, said) = disabled("/bin/false");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("modprobe ended with 1"), "{said}");
    let (code, said) = disabled("/no/such/modprobe");
    assert_eq!(code, 127, "{said}");
    let mut elsewhere = gate();
    elsewhere
        .arg("load")
        .env("PEERMEM_GATE_DISABLED", "drill 7")
        .env("PEERMEM_GATE_DRIVER_ROOT", "/no/such/root");
    let (code, said) = refusal(&mut elsewhere);
    assert_eq!(code, 127, "{said}");
    assert!(said.contains("/no/such/root"), "{said}");
}

tests![
    the_refusal_of_an_option_names_the_verbs_that_have_it,
    the_refusal_of_a_misspelled_variable_names_the_right_one,
    a_refusal_has_no_blank_line,
    the_refusal_of_a_command_line_shows_the_right_one,
    a_missing_root_is_refused_and_not_judged_as_an_empty_node,
    a_misspelled_value_of_use_host_mofed_is_reported,
    unknown_options_and_words_are_refused,
    durations_without_a_number_and_a_unit_are_refused,
    a_settle_time_that_leaves_no_time_to_open_is_refused,
    a_value_that_an_option_does_not_take_is_refused,
    relative_paths_in_the_operators_variables_are_refused,
    unknown_variables_are_refused,
    names_and_values_that_are_not_text_are_refused,
    a_gate_disabled_without_a_reason_is_refused,
    variables_that_services_inject_are_accepted,
    the_command_line_wins_over_variables,
    every_option_has_a_mirror_and_refuses_an_empty_value,
    every_mirror_does_what_its_option_does,
    no_option_reaches_modprobe_as_a_parameter,
    a_disabled_load_needs_only_a_root_and_a_modprobe,
    the_driver_containers_root_is_where_modprobe_is_looked_for,
    a_relative_root_is_accepted,
    in_a_pod_check_looks_at_the_host_and_says_so,
];
