// SPDX-License-Identifier: Apache-2.0
//! Timelines: drawn from logs on disk, gathered elsewhere or on a node, and compared with what happened.

mod elsewhere;
pub(crate) mod files;
mod hostile;
mod races;

use crate::examples::{Example, examples};
use crate::expected::schema::check;
use crate::support::{GATE, output, suite};
use files::{DRIVER, GPU, MOFED, MOFED_GO, REFUSED, Tree, at, bracketed, cri, restarts, zap};
use libtest_mimic::Trial;
use peermem_doctor::log::{Drawn, LogEvent, LogSource};
use peermem_doctor::probe::gathered;
use peermem_doctor::timeline::{DoctorAnswer, Event, Race, Since, Timeline, What, only};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn drawn(tree: &Tree) -> Timeline {
    drawn_since(tree, Since::Boot)
}

fn drawn_since(tree: &Tree, since: Since) -> Timeline {
    let history = only(gathered(&[tree.root().to_owned()], &[]), None).expect("one node");
    Timeline::new(history, since, DoctorAnswer::NOT)
}

fn logged(timeline: &Timeline) -> Vec<LogEvent> {
    let of_log = |event: &Event| match event.what {
        What::Logged(logged) => Some(logged),
        What::Seen(_) | What::ClockSet => None,
    };
    timeline.events.iter().filter_map(of_log).collect()
}

fn gaps(timeline: &Timeline) -> Vec<&str> {
    timeline.gaps.iter().map(|gap| gap.text.as_str()).collect()
}

/// Seconds after the start.
fn times(timeline: &Timeline) -> Vec<i64> {
    let seconds = |event: &Event| event.ns().expect("a time") / 1_000_000_000 - files::START;
    timeline.events.iter().map(seconds).collect()
}

fn timeline(args: &[&str]) -> Output {
    output(Command::new(GATE).arg("timeline").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear())
}

fn stdout(output: &Output) -> String {
    // 2: nothing is known of the files, and the answer says why.
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// `BLESS=1` writes what is drawn.
fn golden(file: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines").join(file);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, drawn).expect("written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == expected, "{} differs (BLESS=1 writes it):\n{drawn}", path.display());
}

fn the_timeline_of_the_incident_matches_its_golden_files() {
    let drawn = |args: &[&str], columns: &str| {
        let mut command = Command::new(GATE);
        command.arg("timeline").args(args).arg("tests/timelines/incident");
        stdout(&output(command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().env("COLUMNS", columns)))
    };
    golden("incident.txt", &drawn(&[], "100"));
    golden("incident.80.txt", &drawn(&[], ""));
    golden("incident.brief.txt", &drawn(&["--brief"], ""));
    golden("incident.svg", &drawn(&["--format", "svg"], ""));
    golden("incident.brief.svg", &drawn(&["--brief", "--format", "svg"], ""));
    let mut json: Value = serde_json::from_str(&drawn(&["--format", "json"], "")).expect("JSON");
    check(&json);
    json["version"] = "".into();
    golden("incident.json", &(serde_json::to_string_pretty(&json).expect("JSON") + "\n"));
    for (text, columns) in [(drawn(&[], "100"), 100), (drawn(&[], ""), 80), (drawn(&["--brief"], ""), 80)] {
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("× 64")).count(), 1, "{text}");
        assert!(
            text.starts_with("nvidia-peermem was built before MOFED was ready"),
            "the verdict is first: {text}"
        );
        assert_eq!(text.matches("nvidia-peermem.ko is a stub").count(), 1, "the stub has its name: {text}");
    }
    let brief = drawn(&["--brief"], "");
    let is_event = |line: &&str| line.get(2..3) == Some(":") && line.get(5..6) == Some(":");
    assert!(brief.lines().filter(is_event).count() <= 12, "{brief}");
}

fn the_picture_has_the_verdict_as_its_title_and_names_what_it_shows() {
    let svg = stdout(&timeline(&["--format", "svg", "tests/timelines/incident"]));
    let title = svg.find("class=\"h\">nvidia-peermem was built before MOFED was ready").expect("the title");
    let first = svg.find("the kernel starts").expect("an event");
    assert!(title < first, "{svg}");
    assert!(svg.contains("the time axis is not to scale"), "{svg}");
    assert!(svg.contains("the gate would have waited 6 m 58 s<"), "{svg}");
    let stub = svg.lines().find(|line| line.contains("nvidia-peermem.ko is a stub")).expect("the stub");
    let frame = svg.lines().take_while(|line| *line != stub).last().expect("a line before it");
    assert!(format!("{frame}{stub}").contains("class=\"b x\""), "the stub's box is red: {frame}{stub}");
    let bottom = svg.rfind("nvidia-driver-ctr restarts").expect("the last event");
    assert!(svg[bottom..].contains("x=\"948\""), "a gap's words are beside the rows: {svg}");
}

/// A picture of few events.
fn the_race_is_drawn_with_twelve_events_at_most() {
    let json = race();
    let events = json["events"].as_array().expect("events").len();
    assert!((8..=12).contains(&events), "{events} events");
    golden("race.svg", &stdout(&timeline(&["--format", "svg", "tests/timelines/race"])));
}

fn race() -> Value {
    let drawn = stdout(&timeline(&["--format", "json", "tests/timelines/race"]));
    serde_json::from_str(&drawn).expect("JSON")
}

/// It is drawn by hand, and can be read at the width of a README.
fn the_readmes_picture_has_the_incidents_times_in_six_rows_and_two_lanes() {
    let svg = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/race.svg"))
        .expect("a picture");
    let json = race();
    let events = json["events"].as_array().expect("events");
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}"));
        rest.split_once(to).expect("an end").0.to_owned()
    };
    let number = |text: &str, name: &str| -> usize {
        between(text, &format!(" {name}=\""), "\"").parse().expect(name)
    };
    let width = number(&svg, "width");
    assert!(width <= 760, "{width}");
    let rows: Vec<_> = svg.split("<g data-what=").skip(1).collect();
    let mut lanes = Vec::new();
    for row in &rows {
        let (what, time) = (between(row, "\"", "\""), between(row, ">", "</text>"));
        let time = time.rsplit('>').next().expect("a time");
        let is_it = |event: &&Value| {
            event["what"] == *what
                && event["time"].as_str().is_some_and(|at| at.contains(&format!("T{time}")))
        };
        assert!(events.iter().any(|event| is_it(&event)), "no {what} at {time}");
        lanes.push(number(&between(row, "<rect", "/>"), "x"));
    }
    assert_eq!(rows.len(), 6);
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes.len(), 2, "{lanes:?}");
    // Each box's words fit into it, at 8 pixels a letter.
    for part in svg.split("<rect class=").skip(2) {
        let (text, room) = (between(part, "<text", "</text>"), number(part, "width"));
        let words = text.rsplit('>').next().expect("words");
        assert!(words.chars().count() * 8 <= room - 14, "{words}");
    }
    assert!(svg.contains("64 restarts") && timeline_text("incident").contains("× 64"), "{svg}");
}

fn timeline_text(tree: &str) -> String {
    stdout(&timeline(&[&format!("tests/timelines/{tree}")]))
}

fn split_rotated_and_gzipped_parts_are_read_as_one_log() {
    let tree = Tree::new();
    let (one, two) = REFUSED.split_at(30);
    let parts = format!("{} stderr P {one}\n{} stderr F {two}\n", at(400), at(401));
    tree.write(&DRIVER.log("0.log"), parts);
    tree.write(
        &MOFED.log("0.log.20251121-115200"),
        cri(0, &[bracketed(0, "NVIDIA driver container exec start")]),
    );
    tree.gz(
        &MOFED.log("0.log.20251121-115100.gz"),
        &cri(-60, &[bracketed(-60, "Unsetting driver ready state")]),
    );
    tree.write(&MOFED.log("0.log"), cri(500, &[bracketed(500, "Setting driver ready state")]));
    let expected = [
        LogEvent::MofedMarkerUnset,
        LogEvent::MofedStarted,
        LogEvent::PeermemRefused,
        LogEvent::MofedMarkerSet,
    ];
    let timeline = drawn(&tree);
    assert_eq!(logged(&timeline), expected);
    assert_eq!(timeline.events[2].stamp().map(|stamp| stamp.to_string()), Some(at(400)), "of the first part");

    // The same below a node's root.
    tree.write("proc/stat", format!("btime {}\n", files::START - 120));
    let node = tree.root().to_str().expect("a path");
    let json: Value =
        serde_json::from_str(&stdout(&self::timeline(&["--root", node, "--format", "json"]))).expect("JSON");
    let what: Vec<_> =
        json["events"].as_array().expect("events").iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(what, expected.map(LogEvent::name));
}

/// What kubelet says about a pod of anybody's is no step of MOFED's or the driver's.
fn a_users_pod_is_not_an_event_of_the_timeline() {
    let tree = Tree::new();
    let kubelet = |text: &str| {
        format!(
            "{} gpu-1 kubelet[1500]: E1121 11:52:00.000000    1500 {text}\n",
            at(10).replace('Z', "+00:00")
        )
    };
    let refused = "kuberuntime_sandbox.go:72] \"Failed to create sandbox for pod\" \
        err=\"failed to find plugin \\\"ib-sriov\\\" in path [/opt/cni/bin]\" pod=\"default/x\"";
    let unshared = "pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" \
        for \\\"nvidia-driver-ctr\\\" with CreateContainerError: \\\"failed to generate spec: path \\\\\\\"/run\\\\\\\" is mounted on \
        \\\\\\\"/\\\\\\\" but it is not a shared mount\\\"\" pod=";
    let [ours, theirs] = ["gpu-operator", "team-a"].map(|namespace| format!("{unshared}\"{namespace}/y\""));
    tree.write("var/log/syslog", kubelet(refused) + &kubelet(&ours) + &kubelet(&theirs));
    let timeline = drawn(&tree);
    assert_eq!(logged(&timeline), [LogEvent::MountNotShared]);
    assert_eq!(timeline.events[0].count, 1);
}

fn sixty_four_restarts_are_folded_into_one_row() {
    let tree = Tree::new();
    tree.stub_race();
    restarts(&tree, 1..=64);
    let timeline = drawn(&tree);
    let text = timeline.text(100);
    // The one that built, the first that did not, and all others.
    assert_eq!(text.matches("is refused: Invalid argument").count(), 3, "{text}");
    assert!(text.contains("nvidia-driver-ctr restarts × 63, each time:"), "{text}");
    assert!(
        gaps(&timeline).contains(&"nvidia-peermem was refused 65 times in 5 h 19 m"),
        "{:?}",
        gaps(&timeline)
    );
    assert!(!text.contains("note:"), "{text}");

    // kubelet keeps two.
    let tree = Tree::new();
    restarts(&tree, 63..=64);
    let timeline = drawn(&tree);
    let text = timeline.text(100);
    let note = "the first 63 logs of nvidia-driver-ctr are gone; when it built the driver is not known";
    assert_eq!(timeline.notes, [note], "{text}");
    assert_eq!(timeline.verdict.race, Race::RefusedUnexplained);
    assert!(timeline.verdict.opens_ns.is_none());
}

fn a_clock_that_is_set_at_boot_is_found_and_corrected() {
    let tree = Tree::new();
    // The clock is an hour late for the first 60 s: MOFED's container starts before it is set.
    let line =
        |wall: i64, boot: i64, text: &str| format!("{} gpu-1 kernel: [{boot:5}.000000] {text}\n", at(wall));
    let log = [
        line(-3630, 0, "Linux version 5.14.0 (x) #1"),
        line(-3580, 50, "x"),
        line(30, 60, "Compat-mlnx-ofed backport release: 25.07"),
        line(40, 70, "x"),
    ];
    tree.write("var/log/kern.log", log.concat());
    tree.write(
        &MOFED.log("0.log"),
        [
            cri(-3590, &[bracketed(-3590, "Unsetting driver ready state")]),
            cri(100, &[bracketed(100, "Setting driver ready state")]),
        ]
        .concat(),
    );
    let timeline = drawn(&tree);
    assert_eq!(times(&timeline), [-30, 10, 30, 30, 100], "{:#?}", timeline.events);
    assert_eq!(timeline.events[1].corrected_ns, 3600 * 1_000_000_000);
    assert!(
        timeline.notes[0].starts_with("the clock is set forward by 1 h at 2025-11-21 11:51:36"),
        "{:?}",
        timeline.notes
    );
    assert!(timeline.text(100).contains("───── the clock is set forward by 1 h"));

    // One that goes back shows in the container's own log.
    let tree = Tree::new();
    let lines = [
        cri(3600, &[bracketed(3600, "Unsetting driver ready state")]),
        cri(10, &[bracketed(10, "Setting driver ready state")]),
    ];
    tree.write(&MOFED.log("0.log"), lines.concat());
    let timeline = drawn(&tree);
    assert_eq!(logged(&timeline), [LogEvent::MofedMarkerUnset, LogEvent::MofedMarkerSet]);
    assert!(timeline.notes[0].starts_with("the clock is set back by 59 m 50 s"), "{:?}", timeline.notes);
}

fn a_step_that_chronyd_logs_is_one_step_of_the_clock() {
    let tree = Tree::new();
    let log = format!(
        "{} gpu-1 kernel: Linux version 5.14.0 (x) #1\n{} gpu-1 chronyd[812]: System clock was stepped by 3600.000000 seconds\n",
        at(-3600),
        at(60)
    );
    tree.write("var/log/messages", log);
    let timeline = drawn(&tree);
    assert_eq!(times(&timeline), [0, 60], "{:#?}", timeline.events);
}

fn pods_that_follow_each_other_are_named_and_pods_side_by_side_are_of_two_nodes() {
    let tree = Tree::new();
    tree.stub_race();
    let second = DRIVER.of("nvidia-driver-daemonset-new42");
    tree.write(&second.log("0.log"), cri(3000, &files::driver_build()));
    let timeline = drawn(&tree);
    let text = timeline.text(100);
    assert!(text.contains("[564xm]") && text.contains("[new42]"), "{text}");
    assert_eq!(timeline.verdict.race, Race::StubBuilt);
    assert!(timeline.verdict.text.ends_with("cured it."), "{}", timeline.verdict.text);

    let other = MOFED.of("mofed-rhcos-ds-other");
    tree.write(
        &other.log("0.log"),
        cri(
            100,
            &[bracketed(100, "Unsetting driver ready state"), bracketed(500, "Setting driver ready state")]
                .map(|l| l),
        ),
    );
    tree.write(&other.log("1.log"), cri(300, &[bracketed(300, "Setting driver ready state")]));
    let refused = self::timeline(&[tree.root().to_str().unwrap()]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("both ran mofed-container at the same time"), "{error}");
}

fn both_mofed_entrypoints_give_the_same_timeline() {
    let bash = [
        (0, "NVIDIA driver container exec start"),
        (100, "Apply blacklisted mofed modules file to host (/host/x)"),
        (300, "Setting driver ready state"),
    ];
    let go = [
        (0, "NVIDIA driver container exec preStart"),
        (100, "NVIDIA driver container exec start"),
        (300, "driver ready indicator set\t{\"path\": \"/run/mellanox/drivers/.driver-ready\"}"),
    ];
    let expected = [LogEvent::MofedStarted, LogEvent::MofedLoads, LogEvent::MofedMarkerSet];
    let logs: [(&files::Container, Vec<String>); 2] = [
        (&MOFED, bash.iter().map(|(s, text)| cri(*s, &[bracketed(*s, text)])).collect()),
        (&MOFED_GO, go.iter().map(|(s, text)| cri(*s, &[zap(*s, text)])).collect()),
    ];
    for (container, lines) in logs {
        let tree = Tree::new();
        tree.write(&container.log("0.log"), lines.concat());
        tree.write(&DRIVER.log("0.log"), cri(400, &files::driver_build()));
        let timeline = drawn(&tree);
        let mofed: Vec<_> = logged(&timeline).into_iter().filter(|m| expected.contains(m)).collect();
        assert_eq!(mofed, expected);
        assert_eq!(timeline.verdict.race, Race::NoRace, "{}", timeline.text(100));
        assert_eq!(
            gaps(&timeline),
            [
                "the GPU driver's build began 1 m 40 s after MOFED's marker",
                "MOFED took 5 m from its start to its marker"
            ]
        );
    }
}

fn files_and_processes_of_a_node_have_times_too() {
    let tree = Tree::new();
    let volume =
        format!("var/lib/kubelet/pods/{GPU}/volumes/kubernetes.io~empty-dir/shared-nvidia-driver-toolkit");
    for (path, seconds) in [
        (format!("{volume}/driver_build_started"), 172),
        (format!("{volume}/driver_built"), 236),
        ("run/mellanox/drivers/.driver-ready".to_owned(), 453),
        ("run/nvidia/validations/driver-ready".to_owned(), 900),
    ] {
        tree.write(&path, "");
        tree.touch(&path, seconds);
    }
    tree.write(&format!("var/log/pods/gpu-operator_nvidia-driver_{GPU}/nvidia-driver-ctr/0.log"), "");
    // Anybody may have a volume of that name.
    let theirs = "00000000-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
    tree.write(&format!("var/log/pods/team-a_web-0_{theirs}/web/0.log"), "");
    tree.write(&format!("{}/driver_built", volume.replace(GPU, theirs)), "");
    tree.write("proc/stat", format!("btime {}\n", files::START - 100));
    tree.write("proc/sys/kernel/hostname", "gpu-1\n");
    tree.write("proc/2/comm", "kthreadd\n");
    tree.write("proc/700/comm", "nvidia-driver\n");
    tree.write("proc/700/status", "CapEff:\t000001ffffffffff\n");
    tree.write("proc/700/cmdline", "bash\0/usr/local/bin/nvidia-driver\0init\0");
    tree.write(
        "proc/700/stat",
        "700 (nvidia-driver) S 1 700 700 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 35000 1 1",
    );
    let json = stdout(&timeline(&["--root", tree.root().to_str().unwrap(), "--format", "json"]));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let events: Vec<_> = json["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["what"].as_str().unwrap(), e["time"].as_str().unwrap()))
        .collect();
    let second = |seconds: i64| files::rounded(&at(seconds));
    assert_eq!(
        events,
        [
            ("DriverBuildBegun", second(172).as_str()),
            ("DriverBuilt", &second(236)),
            ("GpuProcess", &second(250)),
            ("MarkerWritten", &second(453)),
            ("ValidationWritten", &second(900)),
        ]
    );
    assert_eq!(json["node"], "gpu-1");
    assert_eq!(json["verdict"]["id"], "StubBuilt");
    assert_eq!(json["verdict"]["held_from"], at(172));
    assert_eq!(json["verdict"]["opens"], at(454));
    assert_eq!(json["gaps"][0]["seconds"], 217.0);
}

fn a_hosts_mofed_sets_no_marker() {
    let tree = Tree::new();
    let kernel =
        |seconds: i64, text: &str| format!("{} gpu-1 kernel: {text}\n", at(seconds).replace('Z', "+00:00"));
    tree.write(
        "journal",
        [
            kernel(0, "Linux version 5.14.0 (x) #1"),
            kernel(20, "Compat-mlnx-ofed backport release: 24.10-1.1.4"),
        ]
        .concat(),
    );
    tree.write(&DRIVER.log("0.log"), cri(60, &files::driver_build()));
    let timeline = drawn(&tree);
    assert_eq!(timeline.verdict.race, Race::NoRace, "{}", timeline.text(100));
}

fn the_timeline_says_how_long_mofed_waited() {
    let tree = Tree::new();
    let pinned = "Module nvidia_peermem is used and will FAIL driver reload, aborting execution.";
    for (restart, seconds) in [0, 300, 600].into_iter().enumerate() {
        tree.write(&MOFED.log(&format!("{restart}.log")), cri(seconds, &[bracketed(seconds, pinned)]));
    }
    tree.write(&MOFED.log("3.log"), cri(720, &[bracketed(720, "Setting driver ready state")]));
    let timeline = drawn(&tree);
    assert_eq!(gaps(&timeline), ["MOFED waited 12 m for nvidia_peermem to go: it refused to start 3 times"]);
}

fn since_leaves_out_earlier_events() {
    let tree = Tree::new();
    tree.stub_race();
    let all = drawn(&tree).events.len();
    let moment = Since::Moment((files::START + 174) * 1_000_000_000);
    let later = drawn_since(&tree, moment);
    assert!(
        later.events.len() < all
            && later.events.iter().all(|event| event.ns().unwrap() >= (files::START + 174) * 1_000_000_000)
    );
    assert!(later.notes[0].contains("earlier event"), "{:?}", later.notes);
    let last = drawn_since(&tree, Since::Last(1_000_000_000));
    assert!(!last.events.is_empty() && last.events.len() < later.events.len());
    for (value, is_right) in [
        ("2025-11-21T11:50:00Z", true),
        ("3h", true),
        ("2025-11-21T11:50:00", false),
        ("3", false),
        ("yesterday", false),
    ] {
        let code = timeline(&[tree.root().to_str().unwrap(), "--since", value]).status.code();
        assert_eq!(code, Some(if is_right { 0 } else { 2 }), "{value}");
    }
}

/// Every line of the table becomes an event, no matter which program writes it.
fn every_known_log_line_is_an_event_of_the_timeline() {
    for Example { event, pattern, fits, .. } in examples() {
        for line in fits {
            let tree = Tree::new();
            match (pattern.source.containers(), pattern.source.identifiers()) {
                ([container, ..], _) => {
                    tree.write(&files::Container { pod: "pod-x", container }.log("0.log"), cri(0, &[&line]));
                }
                (_, [program, ..]) => {
                    let id = if *program == "kernel" { "" } else { "[1500]" };
                    tree.write("var/log/messages", format!("{} gpu-1 {program}{id}: {line}\n", at(0)));
                }
                _ => panic!("{} writes nowhere", pattern.source),
            }
            let drawn: Vec<_> = drawn(&tree).events.iter().map(|event| event.what).collect();
            let is_step = pattern.source == LogSource::Clock;
            let expected = if is_step { What::ClockSet } else { What::Logged(event) };
            let is_drawn = event.rule().drawn != Drawn::Never;
            assert_eq!(drawn, is_drawn.then_some(expected).into_iter().collect::<Vec<_>>(), "{line:?}");
        }
    }
}

/// 1 GiB in logs as a build leaves them. `cargo test --release --test runs -- --ignored a_gibibyte --nocapture`.
fn a_gibibyte_takes_seconds_and_little_memory() {
    let tree = Tree::new();
    let noise: Vec<_> = (0..600_000)
        .map(|n| format!("  CC [M]  /usr/src/nvidia-570.195.03/kernel-open/nvidia-uvm/uvm_{n}.o"))
        .collect();
    let log = cri(0, &noise);
    let copies = (1 << 30) / log.len() + 1;
    for restart in 0..copies {
        tree.write(&DRIVER.log(&format!("{restart}.log")), [log.as_str(), &cri(3600, &[REFUSED])].concat());
    }
    tree.write("proc/stat", format!("btime {}\n", files::START - 100));
    let root = tree.root().to_str().unwrap();
    for args in [vec!["--root", root], vec![root]] {
        // The second time from memory: a disk is not what is measured.
        let mut figures = Vec::new();
        for _ in 0..3 {
            let started = std::time::Instant::now();
            let measured = output(
                Command::new("/usr/bin/time")
                    .args(["-v", env!("CARGO_BIN_EXE_peermem-doctor"), "timeline"])
                    .args(&args),
            );
            let took = started.elapsed();
            assert!(measured.status.success(), "{measured:?}");
            let said = String::from_utf8_lossy(&measured.stderr).into_owned();
            let kib = said
                .lines()
                .find_map(|line| line.trim().strip_prefix("Maximum resident set size (kbytes): "));
            figures.push((took, kib.expect("a size").parse::<u64>().expect("a number")));
        }
        println!("{copies} logs, {} bytes: {figures:?} {args:?}", copies * log.len());
        let (fastest, _) = figures.iter().min().unwrap();
        assert!(fastest.as_secs_f64() < 3.0 && figures.iter().all(|(_, kib)| *kib < 32 << 10), "{figures:?}");
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    let ignored = suite![a_gibibyte_takes_seconds_and_little_memory];
    let mut tests = suite![
        the_timeline_of_the_incident_matches_its_golden_files,
        the_picture_has_the_verdict_as_its_title_and_names_what_it_shows,
        the_race_is_drawn_with_twelve_events_at_most,
        the_readmes_picture_has_the_incidents_times_in_six_rows_and_two_lanes,
        split_rotated_and_gzipped_parts_are_read_as_one_log,
        a_users_pod_is_not_an_event_of_the_timeline,
        sixty_four_restarts_are_folded_into_one_row,
        a_clock_that_is_set_at_boot_is_found_and_corrected,
        a_step_that_chronyd_logs_is_one_step_of_the_clock,
        pods_that_follow_each_other_are_named_and_pods_side_by_side_are_of_two_nodes,
        both_mofed_entrypoints_give_the_same_timeline,
        files_and_processes_of_a_node_have_times_too,
        a_hosts_mofed_sets_no_marker,
        the_timeline_says_how_long_mofed_waited,
        since_leaves_out_earlier_events,
        every_known_log_line_is_an_event_of_the_timeline,
        elsewhere::timeline_asks_which_node_of_a_must_gather_it_should_draw,
        elsewhere::events_without_times_keep_their_order,
        elsewhere::the_gates_own_log_is_read_as_text_and_as_json,
        elsewhere::recorded_looks_show_what_changed,
        elsewhere::a_line_that_two_sources_have_is_one_event,
        elsewhere::timeline_reads_an_archive_like_its_directory,
        elsewhere::an_archive_without_logs_is_named,
        elsewhere::timeline_and_doctor_agree_whose_log_a_file_is,
        elsewhere::timeline_refuses_wrong_arguments_and_names_files_that_are_not_logs,
        races::every_kind_of_race_gets_its_verdict,
        races::the_time_of_the_markers_file_counts_more_than_a_logged_marker_without_headers,
        races::a_users_pod_does_not_change_the_timeline,
        races::a_module_file_that_was_inspected_counts_more_than_its_time,
        races::a_stub_is_named_only_where_something_asks_for_the_module,
    ];
    tests.extend(hostile::tests());
    tests.extend(ignored.into_iter().map(|test| test.with_ignored_flag(true)));
    tests
}
