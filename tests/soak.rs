// SPDX-License-Identifier: Apache-2.0
//! The race, soaked: random lives of MOFED and the GPU driver on a real kernel, the gate in each of its places, and
//! in the same lives the loops that people use. `tests/soak --lives N --seed S` plays as many as one wants.
//!
//! A seed decides a life: its plan (tests/life/plan.rs) is a script for the guest that says what happens when.
//! Containers are killed at any point, NICs go away for a moment, builds look for headers at their own time. The
//! guest's clock counts instructions and skips idle time: a life of minutes takes seconds, and a busy host changes
//! nothing of it. Who opened too early is judged by what the scenario itself did (tests/life/truth.rs). An early
//! opening of the gate fails the run and names the seed of its life; the plan and all that was said are printed. So does
//! a life that the model of tests/model cannot explain.

#[path = "life/mod.rs"]
mod life;
#[path = "vm/machine.rs"]
mod machine;
#[path = "model/mod.rs"]
mod model;
#[path = "support/plot.rs"]
mod plot;
mod support;

use life::plan::Life;
use life::tally::Tally;
use machine::{Clock, Line};
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{note, suite};

/// What CI plays.
const LIVES: u64 = 16;

/// So many follow each other in one boot.
const BOOT: u64 = 8;

/// So many machines are played at a time.
const MACHINES: u64 = 2;

/// Far more than a boot takes.
const LIMIT: Duration = Duration::from_secs(300);

fn random_lives_of_a_node_on_a_real_kernel_end_well() {
    let gate = machine::gate();
    if let Some(reason) = machine::missing(&gate) {
        support::skip(&reason);
        return;
    }
    let (lives, seed) = (number("SOAK_LIVES").unwrap_or(LIVES), number("SOAK_SEED").unwrap_or_else(draw));
    say(&format!("tests/soak --lives {lives} --seed {seed}"));
    let started = Instant::now();
    let kept = env::var_os("SOAK_INTO").map(|directory| Kept::new(directory.into(), &gate));
    let soak = Soak { gate: &gate, kept, results: Mutex::default() };
    let boots: Vec<u64> = (0..lives).step_by(usize::try_from(BOOT).expect("a small number")).collect();
    let next = Mutex::new(boots.into_iter());
    thread::scope(|scope| {
        for _ in 0..number("SOAK_MACHINES").unwrap_or(MACHINES) {
            scope.spawn(|| {
                while let Some(first) = { next.lock().expect("no panic while held").next() } {
                    let seeds = (first..lives.min(first + BOOT)).map(|number| seed.wrapping_add(number));
                    soak.play_boot(&seeds.map(Life::of).collect::<Vec<_>>());
                }
            });
        }
    });
    let (tally, faults) = soak.results.into_inner().expect("no panic while held");
    say(&format!("{tally}\n{:.0} s", started.elapsed().as_secs_f64()));
    if let Some(file) = env::var_os("SOAK_SVG") {
        fs::write(file, tally.svg()).expect("a picture");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

struct Soak<'a> {
    gate: &'a Path,
    kept: Option<Kept>,
    /// And what must not be.
    results: Mutex<(Tally, Vec<String>)>,
}

impl Soak<'_> {
    /// One boot.
    fn play_boot(&self, lives: &[Life]) {
        let scripts: String = lives.iter().map(|life| life.script.as_str()).collect();
        let scenario = format!(". /life/library\nnode\n{scripts}");
        let heard = match self.kept.as_ref().and_then(|kept| kept.heard(&scenario)) {
            Some(heard) => heard,
            None => self.boot(lives.first().map_or(0, |life| life.seed), &scenario),
        };
        let mut each: Vec<Vec<String>> = Vec::new();
        for line in heard.lines() {
            if Line::parse(line).is_some_and(|line| line.kind == "life") {
                each.push(Vec::new());
            }
            if let Some(life) = each.last_mut() {
                life.push(line.to_owned());
            }
        }
        assert_eq!(each.len(), lives.len(), "lives that began");
        for (number, heard) in each.iter().enumerate() {
            self.judge(&lives[..=number], heard);
        }
        let results = self.results.lock().expect("no panic while held");
        say(&format!("{} lives, {} faults", results.0.lives(), results.1.len()));
    }

    /// Lives that hang are the same lives in a second machine, for both count instructions: only an emulator's own
    /// hang is gone then.
    fn boot(&self, first: u64, scenario: &str) -> String {
        let heard = self.play_in_a_machine(first, scenario).or_else(|hung| {
            say(&format!("a machine hung, and its lives are played in another: {hung}"));
            self.play_in_a_machine(first, scenario)
        });
        let heard = heard.unwrap_or_else(|hung| panic!("two machines hung: {hung}"));
        if let Some(kept) = &self.kept {
            kept.keep(scenario, &heard);
        }
        heard
    }

    /// The file is named by its first seed: a machine that does not end is named by its file.
    fn play_in_a_machine(&self, first: u64, scenario: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(format!("lives-from-seed-{first}"));
        fs::write(&path, scenario).expect("a scenario");
        let mut heard = String::new();
        let path = path.to_str().expect("a plain path");
        machine::play(path, self.gate, Clock::Counted, LIMIT, |line| heard.extend([line, "\n"]))?;
        Ok(heard)
    }

    /// The last of these lives; those before it were played in the same boot.
    fn judge(&self, boot: &[Life], heard: &[String]) {
        let (Some(life), Some(first)) = (boot.last(), boot.first()) else { return };
        let mut lines: Vec<_> = heard.iter().filter_map(|line| Line::parse(line)).collect();
        // What the machine says at its end is not the life's.
        lines.retain(|line| line.kind != "end");
        let unexplained = model::replay::explain(life.place.word(), &lines).err();
        let mut results = self.results.lock().expect("no panic while held");
        let mut faults = results.0.add(life, &lines);
        faults.extend(unexplained.map(|why| format!("the model (tests/model) cannot explain {why}")));
        if !faults.is_empty() || env::var_os("SOAK_SHOW").is_some() {
            note!("{}\n{}", life.script, heard.join("\n"));
        }
        let (seed, count, first) = (life.seed, boot.len(), first.seed);
        results.1.extend(faults.iter().map(|what| {
            format!("seed {seed}: {what} (as it was, with those before it: tests/soak --lives {count} --seed {first})")
        }));
    }
}

/// What was played before, by this program on this machine: a run that was broken off goes on there.
struct Kept {
    directory: PathBuf,
    /// Of the program and of the machine.
    stamp: u64,
}

impl Kept {
    fn new(directory: PathBuf, gate: &Path) -> Self {
        fs::create_dir_all(&directory).expect("a directory");
        let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm/stamp");
        let [gate, machine] = [gate, &machine].map(|path| fs::read(path).expect("a file"));
        Self { directory, stamp: hash(&(gate, machine)) }
    }

    /// One file for each boot.
    fn path(&self, scenario: &str) -> PathBuf {
        self.directory.join(format!("{:016x}", hash(&(self.stamp, scenario))))
    }

    fn heard(&self, scenario: &str) -> Option<String> {
        fs::read_to_string(self.path(scenario)).ok()
    }

    /// Whole or not at all.
    fn keep(&self, scenario: &str, heard: &str) {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).expect("a file");
        file.write_all(heard.as_bytes()).expect("it is written");
        file.persist(self.path(scenario)).expect("it has its name");
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
    suite![
        random_lives_of_a_node_on_a_real_kernel_end_well,
        life::plan::the_same_seed_is_the_same_life,
        life::truth::before_a_start_has_ended_all_are_early,
        life::truth::a_dead_containers_marker_is_suspect_where_there_is_a_lock_and_untold_where_there_is_none,
        life::truth::who_opens_a_moment_after_the_end_has_met_it,
        life::truth::a_reset_takes_the_modules_or_only_the_device,
    ]
}
