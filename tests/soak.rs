// SPDX-License-Identifier: Apache-2.0
//! The race, soaked: random lives of MOFED and the GPU driver on a real kernel, the gate in each of its places, and
//! in the same lives the loops that people use. `tests/soak --lives N --seed S` plays as many as one wants.
//!
//! A seed decides a life: its plan (tests/life/plan.rs) is a script for the guest that says what happens when.
//! Containers are killed, restarted or frozen at any point, NICs go away for a moment, builds look for headers at
//! their own time, the node is suspended, its clock is set, it reboots, or its power is cut. The guest's clock counts
//! instructions and skips idle time: a life of minutes takes seconds, and a busy host changes nothing of it. A reset
//! is real: the machine boots again, and keeps a disk. Who opened too early is judged by what the scenario itself did
//! (tests/life/truth.rs). An early opening of the gate fails the run and names the seed of its life; the plan and all
//! that was said are printed. So does a life that the model of tests/model cannot explain.

#[path = "life/mod.rs"]
mod life;
#[path = "vm/machine.rs"]
mod machine;
#[path = "model/mod.rs"]
mod model;
#[path = "support/picture.rs"]
mod picture;
mod support;

use life::plan::{Life, Selection};
use life::tally::Tally;
use machine::Line;
use model::Pace;
use model::replay::{LIVES, WHOLE_LISTS, explain};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};
use support::{note, suite};

/// What CI plays.
const PLAYED: u64 = 18;

/// So many machines are played at a time.
const MACHINES: u64 = 2;

/// A machine that says nothing for so long hangs: an idle hour of a node takes a second, and a boot less than ten.
const LIMIT: Duration = Duration::from_secs(300);

fn random_lives_of_a_node_on_a_real_kernel_end_well() {
    let started = Instant::now();
    let soak = match env::var("SOAK_SUM") {
        Ok(directories) => sum(&directories),
        Err(_) => match play() {
            Some(soak) => soak,
            None => return,
        },
    };
    let (tally, mut faults) = soak.results.into_inner().expect("no panic while held");
    faults.extend(tally.worse());
    say(&format!("{tally}\n{:.0} s", started.elapsed().as_secs_f64()));
    if let Some(file) = env::var_os("SOAK_SVG") {
        fs::write(file, tally.svg()).expect("a picture");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// All the lives that are asked for, or none where there is no machine.
fn play() -> Option<Soak> {
    let gate = machine::gate();
    if let Some(reason) = machine::missing(&gate) {
        support::skip(&reason);
        return None;
    }
    let (lives, seed) = (number("SOAK_LIVES").unwrap_or(PLAYED), number("SOAK_SEED").unwrap_or_else(draw));
    let selection = if env::var_os("SOAK_PAIRED").is_some() { Selection::Paired } else { Selection::Each };
    let kernels = kernels();
    say(&format!("tests/soak --lives {lives} --seed {seed}"));
    let kept = env::var_os("SOAK_INTO").map(|directory| Kept::new(directory.into(), &gate));
    let soak = Soak { gate, kept, results: Mutex::default() };
    let boots: Vec<u64> = (0..lives).step_by(selection.boot()).collect();
    let next = Mutex::new(boots.into_iter().zip(kernels.iter().cycle()));
    thread::scope(|scope| {
        for _ in 0..number("SOAK_MACHINES").unwrap_or(MACHINES) {
            scope.spawn(|| {
                while let Some((first, kernel)) = { next.lock().expect("no panic while held").next() } {
                    let count = (lives - first).min(selection.boot() as u64);
                    soak.play_boot(kernel, &Boot { first: seed.wrapping_add(first), count, selection });
                }
            });
        }
    });
    Some(soak)
}

/// The results of earlier runs, added up; nothing is played.
fn sum(directories: &str) -> Soak {
    let soak = Soak { gate: PathBuf::new(), kept: None, results: Mutex::default() };
    for directory in directories.split_whitespace() {
        let mut files: Vec<_> =
            fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file").path()).collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).expect("a text");
            match text.split_once('\n').and_then(|(first, heard)| Some((Boot::parse(first)?, heard))) {
                Some(((kernel, boot), heard)) => soak.judge_boot(&kernel, &boot, heard),
                None => say(&format!("of another plan, and left out: {}", file.display())),
            }
        }
    }
    soak
}

/// A machine that tests/vm/build has made, and what it is called.
struct Kernel {
    name: String,
    machine: PathBuf,
}

/// Those that are asked for, which `tests/kernels` makes, or the one of all tests.
fn kernels() -> Vec<Kernel> {
    let machines = match env::var("SOAK_KERNELS") {
        Ok(names) => {
            let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/kernels");
            names.split_whitespace().map(|name| all.join(name)).collect()
        }
        Err(_) => vec![machine::made()],
    };
    let named = |machine: PathBuf| {
        let stamp = fs::read_to_string(machine.join("stamp")).expect("tests/kernels has made it");
        Kernel { name: stamp.split(' ').next().unwrap_or_default().to_owned(), machine }
    };
    machines.into_iter().map(named).collect()
}

impl Selection {
    /// So many lives follow each other in one boot: paired, those of one plan.
    fn boot(self) -> usize {
        match self {
            Self::Each => 9,
            Self::Paired => life::plan::Place::ALL.len(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Paired => "paired",
        }
    }
}

/// Lives that follow each other in one machine.
struct Boot {
    first: u64,
    count: u64,
    selection: Selection,
}

impl Boot {
    fn lives(&self) -> Vec<Life> {
        (0..self.count).map(|number| Life::of(self.first.wrapping_add(number), self.selection)).collect()
    }

    /// A look at a whole list of symbols takes ten times as long as on a real node: in one machine of four.
    fn has_whole_lists(&self) -> bool {
        (self.first / self.selection.boot() as u64).is_multiple_of(4)
    }

    /// For the guest. Its parts are numbered, because a machine that is reset begins again at the first line.
    fn scenario(&self) -> String {
        let symbols = if self.has_whole_lists() { "whole" } else { "short" };
        let mut scenario = format!(". /life/library\nnode {symbols}\n");
        let mut number = 0;
        for life in self.lives() {
            for (part, script) in life.parts.iter().enumerate() {
                number += 1;
                let name = if part == 0 { format!("note life {}\n", life.seed) } else { String::new() };
                scenario += &format!("if begins {number}; then\n{name}{script}fi\n");
            }
        }
        scenario
    }

    /// As the first line of what it said: `lives FIRST COUNT SELECTION PLAN KERNEL`.
    fn line(&self, kernel: &str) -> String {
        let Self { first, count, selection } = self;
        format!("lives {first} {count} {} {:016x} {kernel}", selection.word(), hash(&self.scenario()))
    }

    /// The kernel's name, and the boot, if its plan is still this program's.
    fn parse(line: &str) -> Option<(String, Self)> {
        let words: Vec<_> = line.split(' ').collect();
        let ["lives", first, count, selection, _, kernel] = words[..] else { return None };
        let selection =
            [Selection::Each, Selection::Paired].into_iter().find(|one| one.word() == selection)?;
        let boot = Self { first: first.parse().ok()?, count: count.parse().ok()?, selection };
        (boot.line(kernel) == line).then(|| (kernel.to_owned(), boot))
    }
}

struct Soak {
    gate: PathBuf,
    kept: Option<Kept>,
    /// And what must not be.
    results: Mutex<(Tally, Vec<String>)>,
}

impl Soak {
    fn play_boot(&self, kernel: &Kernel, boot: &Boot) {
        let heard = match self.kept.as_ref().and_then(|kept| kept.heard(kernel, boot)) {
            Some(heard) => heard,
            None => self.boot(kernel, boot),
        };
        self.judge_boot(&kernel.name, boot, &heard);
        let results = self.results.lock().expect("no panic while held");
        say(&format!("{} lives, {} faults", results.0.lives(), results.1.len()));
    }

    fn judge_boot(&self, kernel: &str, boot: &Boot, heard: &str) {
        let lives = boot.lives();
        let mut each: Vec<Vec<String>> = Vec::new();
        for line in heard.lines() {
            if Line::parse(line).is_some_and(|line| line.kind == "life") {
                each.push(Vec::new());
            }
            if let Some(life) = each.last_mut() {
                life.push(line.to_owned());
            }
        }
        assert_eq!(each.len(), lives.len(), "lives that began, of {}", boot.line(kernel));
        let pace = if boot.has_whole_lists() { &WHOLE_LISTS } else { &LIVES };
        for (number, heard) in each.iter().enumerate() {
            self.judge(kernel, &lives[..=number], heard, pace);
        }
    }

    /// Lives that hang are the same lives in a second machine, for both count instructions: only an emulator's own
    /// hang is gone then.
    fn boot(&self, kernel: &Kernel, boot: &Boot) -> String {
        let heard = self.play_in_a_machine(kernel, boot).or_else(|hung| {
            say(&format!("a machine hung, and its lives are played in another: {hung}"));
            self.play_in_a_machine(kernel, boot)
        });
        let heard = heard.unwrap_or_else(|hung| panic!("two machines hung: {hung}"));
        if let Some(kept) = &self.kept {
            kept.keep(kernel, boot, &heard);
        }
        heard
    }

    /// The file is named by its first seed: a machine that does not end is named by its file.
    fn play_in_a_machine(&self, kernel: &Kernel, boot: &Boot) -> Result<String, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(format!("lives-from-seed-{}", boot.first));
        fs::write(&path, boot.scenario()).expect("a scenario");
        let mut heard = String::new();
        let path = path.to_str().expect("a plain path");
        let hear = |line: &str| heard.extend([line, "\n"]);
        machine::play(&kernel.machine, path, &self.gate, LIMIT, hear)?;
        Ok(heard)
    }

    /// The last of these lives; those before it were played in the same boot.
    fn judge(&self, kernel: &str, boot: &[Life], heard: &[String], pace: &'static Pace) {
        let (Some(life), Some(first)) = (boot.last(), boot.first()) else { return };
        let mut lines: Vec<_> = heard.iter().filter_map(|line| Line::parse(line)).collect();
        // What the machine says at its end is not the life's.
        lines.retain(|line| line.kind != "end");
        let explained = explain(life.place.word(), &lines, pace);
        let mut results = self.results.lock().expect("no panic while held");
        let mut faults = results.0.add(kernel, life, &lines);
        results.0.explained_in_part +=
            u32::from(explained.as_ref().is_ok_and(|explained| explained.is_partial));
        faults.extend(explained.err().map(|why| format!("the model (tests/model) cannot explain {why}")));
        if !faults.is_empty() || env::var_os("SOAK_SHOW").is_some() {
            note!("{}\n{}", life.parts.join("\n"), heard.join("\n"));
        }
        let (seed, count, first) = (life.seed, boot.len(), first.seed);
        results.1.extend(faults.iter().map(|what| {
            format!("seed {seed}, {kernel}: {what} (as it was, with those before it: tests/soak --lives {count} --seed {first})")
        }));
    }
}

/// What was played before, by this gate on these machines: a run that was broken off goes on there.
struct Kept {
    directory: PathBuf,
    /// Of the gate, and of what is played in the guest.
    programs: u64,
}

impl Kept {
    fn new(directory: PathBuf, gate: &Path) -> Self {
        fs::create_dir_all(&directory).expect("a directory");
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/guest");
        let files = [
            "init",
            "library",
            "life/library",
            "life/entrypoint",
            "life/pod",
            "life/driver",
            "life/toolkit",
            "life/note",
            "life/bin/modprobe",
            "life/bin/rmmod",
        ];
        let files = files.map(|file| guest.join(file));
        let texts: Vec<_> = files
            .iter()
            .map(PathBuf::as_path)
            .chain([gate])
            .map(|file| fs::read(file).expect("a file"))
            .collect();
        Self { directory, programs: hash(&texts) }
    }

    /// One file for each boot. Its first line says which.
    fn path(&self, kernel: &Kernel, boot: &Boot) -> PathBuf {
        let machine = fs::read(kernel.machine.join("stamp")).expect("a file");
        self.directory.join(format!("{:016x}", hash(&(self.programs, machine, boot.scenario()))))
    }

    fn heard(&self, kernel: &Kernel, boot: &Boot) -> Option<String> {
        let text = fs::read_to_string(self.path(kernel, boot)).ok()?;
        Some(text.split_once('\n')?.1.to_owned())
    }

    /// Whole or not at all.
    fn keep(&self, kernel: &Kernel, boot: &Boot, heard: &str) {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).expect("a file");
        write!(file, "{}\n{heard}", boot.line(&kernel.name)).expect("it is written");
        file.persist(self.path(kernel, boot)).expect("it has its name");
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

/// Another one each time.
fn draw() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// Past the test harness, which keeps what a test that passes prints.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn main() -> ExitCode {
    let tests = suite![
        random_lives_of_a_node_on_a_real_kernel_end_well,
        life::plan::the_same_seed_is_the_same_life,
        life::plan::any_eighteen_lives_have_each_kind_of_event,
        life::plan::paired_lives_differ_in_the_place_alone,
        life::tally::tests::a_module_is_usable_so_long_after_the_last_readiness,
        life::tally::tests::a_place_is_compared_with_the_loop_in_the_same_plan,
        life::tally::tests::a_gate_that_is_early_is_a_fault_and_a_loop_that_is_early_is_counted,
        life::tally::tests::what_a_build_leaves_is_counted,
        life::tally::tests::a_load_by_the_gate_that_the_kernel_refuses_is_a_fault,
        life::tally::tests::an_unload_by_others_that_fails_because_of_the_keeper_is_a_fault,
        life::tally::tests::beside_the_keeper_a_person_is_counted_and_a_module_that_never_loads_is_a_fault,
        life::tally::tests::a_container_that_ends_because_of_the_module_is_counted_and_beside_a_keeper_named,
        life::tally::tests::the_picture_has_a_bar_for_each_place_and_one_for_the_keeper,
        life::tally::tests::a_stub_of_the_gates_that_no_loop_left_is_a_fault_unless_it_came_after_the_opening,
        life::tally::tests::the_gate_is_worse_than_a_loop_if_chance_does_not_explain_it,
        life::tally::tests::inspect_must_say_what_the_kernel_says,
        life::tally::tests::on_a_node_with_nothing_to_load_a_gate_rests_and_loads_nothing,
        life::tally::tests::a_gate_may_end_if_it_was_ended,
        life::tally::tests::each_reset_is_one_boot_and_time_goes_on,
        life::tally::tests::runs_of_two_kernels_are_counted_apart_and_together,
        life::truth::before_a_start_has_ended_all_are_early,
        life::truth::a_dead_containers_marker_is_suspect_where_there_is_a_lock_and_untold_where_there_is_none,
        life::truth::who_opens_a_moment_after_the_end_has_met_it,
        life::truth::in_a_reset_mofed_counts_first,
        life::truth::a_nic_that_is_away_for_the_whole_hold_is_gone,
        life::truth::who_stood_still_may_open_by_what_was_ready_then,
        life::truth::nothing_of_mofed_outlives_a_boot,
        life::truth::on_a_node_without_a_nic_everyone_may_open,
        life::truth::the_node_sleeps_and_a_container_does_not,
    ];
    support::suite::run(tests, None)
}
