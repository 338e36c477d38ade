// SPDX-License-Identifier: Apache-2.0
//! System calls that fail (tests/injection says how) in `wait`, driver-manager, `load`, `rebuild` and the node's
//! keeper. What is not ready is never opened, loaded, stored or called done; nothing hangs, and nothing panics.

mod injection;
#[path = "rebuild/place.rs"]
mod place;
mod support;

use injection::{Fault, inject, only, with_fault};
use peermem_gate::peermem::store::StoreEntry;
use place::{Place, WORKSHOP};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::time::Duration;
use std::{fs, thread};
use support::hung::{Hung, apart};
use support::{KERNEL, Node, can, code, gate, note, suite, wrapped};

fn wait(node: &Node) -> Command {
    let mut wait = node.wait();
    wait.args(["--settle", "10ms", "--timeout", "300ms"]);
    wait
}

fn can_inject() -> bool {
    can(&["strace", "true"])
}

fn inject_into_wait(node: &Node, codes: &[i32]) {
    if can_inject() {
        inject(|| wait(node), only(codes));
    }
}

/// It may open, give up, or say that it cannot run.
fn failing_calls_on_a_ready_node_end_in_words() {
    inject_into_wait(&Node::ready(), &[0, 2, 124, 125]);
}

/// The kernel may have no memory for a moment, and the wait goes on.
fn a_poll_that_fails_for_lack_of_memory_is_repeated() {
    let node = Node::ready();
    for occurrence in 1..=4 {
        let (ended, _) = with_fault("poll", "ENOMEM", occurrence, &wait(&node));
        assert_eq!(code(ended.status), 0, "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

const CLOSED: [i32; 3] = [2, 124, 125];

fn failing_calls_open_no_node_without_a_marker() {
    inject_into_wait(&Node::ready().without_marker(), &CLOSED);
}

fn failing_calls_open_no_node_with_a_suspect_marker() {
    inject_into_wait(&Node::ready().suspect(), &CLOSED);
}

fn failing_calls_open_no_node_with_the_kernels_own_modules() {
    inject_into_wait(&Node::ready().in_tree(), &CLOSED);
}

fn failing_calls_open_no_node_without_headers() {
    inject_into_wait(&Node::ready().without(support::SYMVERS), &CLOSED);
}

/// With CMD a third process stands between supervisor and worker.
fn failing_calls_run_no_cmd_on_a_node_without_a_marker() {
    let node = Node::ready().without_marker();
    let ran = node.path("ran");
    if can_inject() {
        let program = || {
            let mut wait = wait(&node);
            wait.arg("--").arg("/usr/bin/touch").arg(&ran);
            wait
        };
        inject(program, |ended| {
            let is_wrong = ran.exists() || ![2, 124, 125, 126, 127].contains(&code(ended.status));
            is_wrong.then(|| "CMD ran, or a wrong exit code".to_owned())
        });
    }
}

/// Runs on a place that is each time as it was before. `wrong` judges the ending, and what it left.
fn inject_into(place: &Place, args: &[&str], wrong: impl Fn(&Output) -> Option<String>) {
    if can_inject() {
        let program = || {
            place.as_before();
            place.run(args[0], &args[1..])
        };
        inject(program, wrong);
    }
}

fn loads(place: &Place) -> bool {
    place.called().iter().any(|call| call.starts_with("load "))
}

/// `load` must neither run modprobe nor say that all is well.
fn failing_calls_load_nothing_on(place: &Place) {
    let load = ["load", "--settle", "10ms", "--timeout", "300ms"];
    inject_into(place, &load, |ended| {
        let is_wrong = loads(place) || ![2, 3, 124, 125, 126, 127].contains(&code(ended.status));
        is_wrong.then(|| format!("called {:?}", place.called()))
    });
}

fn failing_calls_load_no_stub(place: &Place) {
    failing_calls_load_nothing_on(place);
}

fn failing_calls_load_nothing_without_a_marker(place: &Place) {
    place.becomes_usable();
    place.node.remove(support::MARKER);
    failing_calls_load_nothing_on(place);
}

fn failing_calls_load_no_module_of_another_mofed(place: &Place) {
    place.becomes_usable();
    place.mofed_is("old", 2);
    failing_calls_load_nothing_on(place);
}

/// What says that it is done has installed the module.
fn failing_calls_call_no_stub_rebuilt(place: &Place) {
    inject_into(place, &["rebuild"], |ended| {
        let is_done = code(ended.status) == 0;
        (is_done && !place.is_installed()).then(|| "it is not installed".to_owned())
    });
}

/// A plan is for what is broken, and changes nothing.
fn failing_calls_plan_no_impossible_rebuild(place: &Place) {
    place.node.remove(place::SOURCES);
    inject_into(place, &["rebuild", "--dry-run"], |ended| {
        let is_wrong = code(ended.status) == 0 || !place.called().is_empty() || place.is_installed();
        is_wrong.then(|| String::from_utf8_lossy(&ended.stdout).into_owned())
    });
}

/// A node's keeper on this place, which is each time as it was before. It gets a signal after so many seconds.
fn inject_into_keeper(place: &Place, seconds: &str, wrong: impl Fn() -> Option<String>) {
    if !can_inject() {
        return;
    }
    let changed = ["proc/modules".to_owned(), format!("lib/modules/{KERNEL}/modules.dep")];
    let before = changed.map(|name| (fs::read(place.node.path(&name)).expect("a file"), name));
    let program = || {
        place.as_before();
        let _ = fs::remove_dir_all(place.node.path("sys/module/nvidia_peermem"));
        for (bytes, name) in &before {
            place.node.write(name, bytes);
        }
        fs::create_dir_all(place.node.path(WORKSHOP)).expect("a directory");
        let mut keep = gate();
        keep.args(["keep", "--log-format", "json", "--settle", "10ms", "--rebuild", "auto"]);
        keep.arg("--proc").arg(place.node.path("proc")).arg("--sys").arg(place.node.path("sys"));
        keep.arg("--node-root").arg(place.node.root()).env("PATH", "/bin");
        keep.arg("--termination-log").arg(place.node.path("last-words"));
        wrapped(["timeout", "--preserve-status", "--kill-after=15", seconds], &keep)
    };
    inject(program, |ended| {
        let wrong = wrong().or_else(|| is_stored_in_part(place));
        wrong.map(|wrong| format!("{wrong}: {}", String::from_utf8_lossy(&ended.stdout)))
    });
}

/// An entry of the node's store that is not whole.
fn is_stored_in_part(place: &Place) -> Option<String> {
    let store = fs::read_dir(place.node.path(WORKSHOP).join("store"));
    let entries = store.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries = entries.filter(|path| path.to_string_lossy().contains("/entry-"));
    let is_whole = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| StoreEntry::read(&bytes).is_some());
    entries.find(|path| !is_whole(path)).map(|path| format!("{} is not whole", path.display()))
}

/// Its build, its load, and the process that writes the store: only the module that was built is ever loaded.
fn failing_calls_in_a_nodes_keeper_load_no_stub_and_store_nothing_in_part(place: &Place) {
    let good = fs::read(place.node.path("made/0x065554c2.ko")).expect("a module");
    let count = Cell::new(0);
    inject_into_keeper(place, "3", || {
        let installed = fs::read(place.node.path(place::TARGET)).ok();
        if installed.as_ref().is_some_and(|installed| *installed != good) {
            return Some("it installed another module".to_owned());
        }
        let is_ours = |call: &String| call == "load updates/nvidia-peermem.ko" && installed.is_some();
        let called = place.called();
        count.set(count.get() + u32::from(loads(place)));
        let is_wrong = called.iter().any(|call| call.starts_with("load ") && !is_ours(call));
        is_wrong.then(|| format!("called {called:?}"))
    });
    note!("loaded all the same: {}", count.get());
}

fn failing_calls_in_a_nodes_keeper_do_nothing_without_a_marker(place: &Place) {
    place.node.remove(support::MARKER);
    inject_into_keeper(place, "1", || {
        let called = place.called();
        (!called.is_empty() || place.is_installed()).then(|| format!("called {called:?}"))
    });
}

/// A node whose look hangs, and whose live module has to go: MOFED's marker is gone.
struct HungNode {
    hung: Hung,
    place: Place,
}

impl HungNode {
    fn new() -> Option<Self> {
        let place = Place::new()?;
        let node = &place.node;
        node.write("sys/module/nvidia_peermem/initstate", "live\n");
        node.write("sys/module/nvidia_peermem/taint", "OE\n");
        let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
        node.write("proc/modules", format!("nvidia_peermem 1 0 - Live 0x0 (OE)\n{modules}"));
        node.remove(support::MARKER);
        let hung = Hung::over(node.path(support::DRIVERS).join("usr/src"))?;
        Some(Self { hung, place })
    }

    /// It ends by a signal, and what hangs in it some seconds later.
    fn keep(&self) -> Command {
        let keep = self.place.run("keep", &["--rebuild", "auto"]);
        wrapped(["timeout", "--preserve-status", "--kill-after=15", BESIDE], &keep)
    }

    /// Runs it. Whoever hangs goes on only when the file system is gone.
    fn lives(self, run: impl FnOnce(&Command) -> (Output, String)) -> (Place, Output, String) {
        let keep = self.keep();
        let Self { hung, place } = self;
        let until = Duration::from_secs(BESIDE.parse::<u64>().expect("a number") + 3);
        let gone = thread::spawn(move || {
            thread::sleep(until);
            drop(hung);
        });
        let (ended, failed) = run(&keep);
        gone.join().expect("it ends");
        (place, ended, failed)
    }
}

/// Seconds: keep misses its worker after 24 at the latest, and looks for it again every 12.
const BESIDE: &str = "50";
/// So many faults are tried where `FAULTS` is not set, and at most so many at once.
const BESIDE_SAMPLE: usize = 12;
const AT_ONCE: usize = 60;

/// keep's second worker, beside a look that hangs: it loads nothing, and unloads the module in the end.
fn failing_calls_in_keeps_second_worker_load_nothing_and_delay_no_unload_for_good() {
    let Some(node) = HungNode::new() else { return };
    let mut faults = Vec::new();
    node.lives(|keep| {
        faults = injection::faults(keep, BESIDE_SAMPLE);
        with_fault("poll", "EINTR", 100_000, &Command::new("true"))
    });
    let tried = |fault: &Fault| {
        let node = HungNode::new()?;
        let run = |keep: &Command| with_fault(&fault.call, fault.errno, fault.occurrence, keep);
        let (place, ended, failed) = node.lives(run);
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        let is_loaded = place.node.path("sys/module/nvidia_peermem").exists();
        // The fault may also hit the stand-in of rmmod: its shell, which ends with 0, or one of its programs, after
        // which half of the module is left. keep says what that means.
        let half = ["sh: ", "grep: ", "sed: ", "mv: ", "rm: ", "/bin/rmmod: "]
            .map(|by| format!("cannot unload nvidia_peermem: {by}"));
        let half = half.iter().map(String::as_str);
        let mut half = half.chain(["rmmod reported success, but nvidia_peermem is still loaded"]);
        let is_rmmods = half.any(|said| errors.contains(said));
        // Without signals it does not begin, nor with an option's file that it cannot look at, nor if the fault hits
        // timeout(1), or the loader of its libraries, of which a static binary has none.
        let is_over = ended.status.code() == Some(2) && errors.starts_with("error: --")
            || ended.status.code() == Some(125) && errors.starts_with("error: cannot receive signals")
            || ended.status.code() == Some(127) && errors.contains("error while loading shared libraries")
            || errors.starts_with("timeout: ");
        let is_wrong = is_loaded && !is_rmmods && !is_over || loads(&place) || errors.contains("panicked");
        is_wrong.then(|| format!("{failed}: {:?}, {}: {errors}", place.called(), ended.status))
    };
    let wrong: Vec<_> = faults
        .chunks(AT_ONCE)
        .flat_map(|some| {
            thread::scope(|scope| {
                let all: Vec<_> = some.iter().map(|fault| scope.spawn(|| tried(fault))).collect();
                all.into_iter().filter_map(|tried| tried.join().expect("it ends")).collect::<Vec<_>>()
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

fn main() -> ExitCode {
    let tests = suite![
        if can_inject [a_poll_that_fails_for_lack_of_memory_is_repeated],
        [
            failing_calls_on_a_ready_node_end_in_words,
            failing_calls_open_no_node_without_a_marker,
            failing_calls_open_no_node_with_a_suspect_marker,
            failing_calls_open_no_node_with_the_kernels_own_modules,
            failing_calls_open_no_node_without_headers,
            failing_calls_run_no_cmd_on_a_node_without_a_marker,
        ],
        on Place::new [
            failing_calls_load_no_stub,
            failing_calls_load_nothing_without_a_marker,
            failing_calls_load_no_module_of_another_mofed,
            failing_calls_call_no_stub_rebuilt,
            failing_calls_plan_no_impossible_rebuild,
            failing_calls_in_a_nodes_keeper_load_no_stub_and_store_nothing_in_part,
            failing_calls_in_a_nodes_keeper_do_nothing_without_a_marker,
        ],
        if can_inject if apart [failing_calls_in_keeps_second_worker_load_nothing_and_delay_no_unload_for_good],
    ];
    support::suite::run(tests, None)
}
