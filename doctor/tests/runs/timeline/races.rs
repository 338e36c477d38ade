// SPDX-License-Identifier: Apache-2.0
//! Every race that a timeline names.

use super::drawn;
use super::files::{DRIVER, MOFED, MOFED_GO, REFUSED, START, Tree, bracketed, cri, zap};
use peermem_doctor::probe::gathered;
use peermem_doctor::stamp::{SECOND, Stamp};
use peermem_doctor::timeline::{DoctorAnswer, NodeEvent, Race, Since, Timeline, Trace};

/// A kind of file, and when it was written, in seconds since the start.
type Files = &'static [(NodeEvent, i64)];

fn with_files(tree: &Tree, files: Files) -> Timeline {
    answered(tree, files, DoctorAnswer::NOT)
}

fn answered(tree: &Tree, files: Files, answer: DoctorAnswer) -> Timeline {
    let mut history = gathered(&[tree.root().to_owned()], &[]);
    history.traces.extend(files.iter().map(|(node_event, seconds)| Trace {
        node_event: *node_event,
        at: Stamp::wall((START + seconds) * SECOND, 1),
        it: String::new(),
        path: "a file".into(),
    }));
    Timeline::new(history, Since::Boot, answer)
}

/// What the story of each is, by the log lines of its programs and by its files.
pub(super) fn every_kind_of_race_gets_its_verdict() {
    use NodeEvent::{MarkerWritten, PeermemWritten, StubWritten};
    let storage = "Storage modules are loaded for current driver, terminating prior driver reload failure due to UNLOAD_STORAGE_MODULES not set to \"true\"";
    let pinned = "Module nvidia_peermem is used and will FAIL driver reload, aborting execution.";
    let set = "Setting driver ready state";
    let start = "NVIDIA driver container exec start";
    let third = "third-party RDMA modules are loaded";
    let mofed = |lines: &[(i64, &str)]| {
        (MOFED.log("0.log"), lines.iter().map(|(s, t)| cri(*s, &[bracketed(*s, t)])).collect::<String>())
    };
    let driver = |from: i64, lines: &[&str]| (DRIVER.log("0.log"), cri(from, lines));
    let (build, done) =
        ("Compiling NVIDIA driver kernel modules...", "Relinking NVIDIA driver kernel modules...");
    let modprobe = "+ modprobe nvidia-peermem";
    let cases: Vec<(Race, Vec<(String, String)>)> = vec![
        (
            Race::StubBuilt,
            vec![mofed(&[(0, start), (300, set)]), driver(100, &[build, done, modprobe, REFUSED])],
        ),
        (
            Race::StubPossible,
            vec![mofed(&[(0, start), (101, set)]), driver(100, &[build, "x", done, modprobe, REFUSED])],
        ),
        (Race::LoadedTooEarly, vec![mofed(&[(0, start), (300, set)]), driver(100, &[modprobe, REFUSED])]),
        (
            Race::SwappedAfterBuild,
            vec![
                mofed(&[(0, start), (50, set), (500, start), (600, set)]),
                (
                    DRIVER.log("0.log"),
                    [cri(100, &[build, done, modprobe]), cri(700, &[modprobe, REFUSED])].concat(),
                ),
            ],
        ),
        (Race::PeermemPinsMofed, vec![mofed(&[(0, start), (1, pinned), (300, start), (301, pinned)])]),
        (Race::PeermemPinsMofed, vec![mofed(&[(0, start), (1, pinned), (300, start), (720, set)])]),
        (
            Race::StorageHoldsMofed,
            vec![mofed(&[(0, start), (1, storage)]), driver(100, &[build, done, modprobe, REFUSED])],
        ),
        (Race::ThirdPartyHoldsMofed, vec![(MOFED_GO.log("0.log"), cri(0, &[zap(0, third)]))]),
        (Race::MofedNotReady, vec![mofed(&[(0, start)]), driver(100, &[build, done])]),
        (Race::RefusedUnexplained, vec![driver(100, &[modprobe, REFUSED])]),
        (Race::NoRace, vec![mofed(&[(0, start), (50, set)]), driver(100, &[build, done, modprobe])]),
        (Race::NothingKnown, vec![driver(100, &["Mounting NVIDIA driver rootfs..."])]),
    ];
    let by_files: Vec<(Race, Files)> = vec![
        (Race::NoRace, &[(MarkerWritten, 10), (PeermemWritten, 90)]),
        (Race::MofedCameLater, &[(PeermemWritten, 90), (MarkerWritten, 500)]),
        (Race::NoSignOfRace, &[(PeermemWritten, 90)]),
        (Race::StubBuilt, &[(StubWritten, 90), (MarkerWritten, 500)]),
        (Race::StubWithoutMofed, &[(StubWritten, 90)]),
        (Race::NothingKnown, &[(MarkerWritten, 90)]),
    ];
    for race in Race::ALL {
        let by_logs = cases.iter().any(|(named, _)| named == race);
        assert!(by_logs || by_files.iter().any(|(named, _)| named == race), "{}", race.name());
    }
    for (race, files) in by_files {
        let timeline = with_files(&Tree::new(), files);
        assert_eq!(timeline.verdict.race, race, "{}", timeline.text(100));
        is_of_its_picture(&timeline);
    }
    for (race, logs) in cases {
        let tree = Tree::new();
        for (path, text) in &logs {
            tree.write(path, text);
        }
        let timeline = drawn(&tree);
        assert_eq!(timeline.verdict.race, race, "{}", timeline.text(100));
        is_of_its_picture(&timeline);
    }
}

/// What is called unknown is not drawn.
fn is_of_its_picture(timeline: &Timeline) {
    let text = timeline.text(100);
    let unknown = timeline.verdict.text.split("No log or file shows").nth(1).unwrap_or_default();
    let is_marked = ["MOFED sets its marker", "MOFED's marker is written"].iter().any(|m| text.contains(m));
    assert!(!(is_marked && unknown.contains("MOFED was ready")), "{text}");
    let is_built = text.contains("nvidia-peermem.ko is written") || text.contains("begins to build");
    assert!(!(is_built && unknown.contains("built")), "{text}");
}

/// A run of MOFED writes its headers and then its marker: a marker that it logged before is not the one that counts.
pub(super) fn the_time_of_the_markers_file_counts_more_than_a_logged_marker_without_headers() {
    use NodeEvent::{MarkerWritten, PeermemWritten, SymversWritten};
    let tree = Tree::new();
    let mofed = [(0, "NVIDIA driver container exec start"), (3, "Setting driver ready state")];
    tree.write(&MOFED.log("0.log"), mofed.map(|(s, text)| cri(s, &[bracketed(s, text)])).concat());
    let timeline = with_files(&tree, &[(SymversWritten, 358), (MarkerWritten, 360), (PeermemWritten, 400)]);
    assert_eq!(timeline.verdict.race, Race::NoRace, "{}", timeline.text(100));
    assert!(
        timeline
            .notes
            .iter()
            .any(|note| note.contains("before its headers existed: this picture uses the later marker")),
        "{:?}",
        timeline.notes
    );
    let early = with_files(&tree, &[(SymversWritten, 358), (MarkerWritten, 360), (PeermemWritten, 300)]);
    assert_eq!(early.verdict.race, Race::MofedCameLater, "{}", early.text(100));
}

/// Words of a pod in another namespace, whatever its containers' names: in kubelet's place, and in a must-gather's.
pub(super) fn a_users_pod_does_not_change_the_timeline() {
    let tree = Tree::new();
    tree.stub_race();
    let honest = Timeline::new(gathered(&[tree.root().to_owned()], &[]), Since::Boot, DoctorAnswer::NOT);
    let uid = "00000000-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
    let log = cri(0, &["[21-Nov-25_11:51:07] Setting driver ready state", "exec failed {\"error\": \"x\"}"]);
    tree.write(&format!("var/log/pods/team-a_web-0_{uid}/mofed-container/0.log"), &log);
    tree.write("namespaces/team-a/pods/web-0/mofed-container/mofed-container/logs/current.log", &log);
    tree.write(
        "pods.yaml",
        format!(
            "kind: Pod\nmetadata: {{name: {}, namespace: team-a}}\nspec: {{nodeName: other}}\n",
            DRIVER.pod
        ),
    );
    let lied_to = Timeline::new(gathered(&[tree.root().to_owned()], &[]), Since::Boot, DoctorAnswer::NOT);
    assert_eq!(lied_to.verdict, honest.verdict);
    let named = Timeline::new(
        gathered(&[tree.root().to_owned()], &["team-a".to_owned()]),
        Since::Boot,
        DoctorAnswer::NOT,
    );
    assert_ne!(named.verdict, honest.verdict, "--operator-namespace counts it");
    let text = |timeline: &Timeline| -> Vec<String> {
        let text = timeline.text(100);
        text.lines().filter(|line| !line.contains("team-a")).map(str::to_owned).collect()
    };
    let is_note = |line: &String| line.trim().is_empty() || line.contains("note");
    let [honest, lied_to] = [&honest, &lied_to].map(text);
    let [honest, lied_to]: [Vec<_>; 2] =
        [honest, lied_to].map(|lines| lines.into_iter().filter(|line| !is_note(line)).collect());
    assert_eq!(lied_to, honest);
}

/// A file that was looked at goes before its time.
pub(super) fn a_module_file_that_was_inspected_counts_more_than_its_time() {
    let race = |files: Files| {
        let tree = Tree::new();
        tree.stub_race();
        with_files(&tree, files).verdict.race
    };
    assert_eq!(race(&[(NodeEvent::StubWritten, 173)]), Race::StubBuilt);
    assert_eq!(race(&[(NodeEvent::PeermemWritten, 173)]), Race::LoadedTooEarly);
}

/// Where nothing asks for the module, a stub is as good as none.
pub(super) fn a_stub_is_named_only_where_something_asks_for_the_module() {
    let tree = Tree::new();
    let named = |wants_rdma| {
        let answer = DoctorAnswer { wants_rdma, ..DoctorAnswer::NOT };
        let text = answered(&tree, &[(NodeEvent::StubWritten, 173)], answer).text(100);
        assert_eq!(text.contains("Nothing here asks for GPUDirect RDMA."), !wants_rdma, "{text}");
        text.contains("stub")
    };
    assert_eq!([true, false].map(named), [true, false]);
}
