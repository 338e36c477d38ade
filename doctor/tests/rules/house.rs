// SPDX-License-Identifier: Apache-2.0
//! The house rules that a machine can check: which rooms are pure, which room may use which, what a file begins with.

use crate::tree::{files_with, has_word, read, root, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Places that look at the world, wait for it or change it, and what puts them together. All others are pure:
/// they get all they know from their arguments.
const IMPURE: [&str; 52] = [
    "main.rs",
    "lib.rs",
    "ready/clock.rs",
    "ready/files/",
    "ready/probe/",
    "ready/wake/",
    "process/",
    "cli/log.rs",
    "survey/expected.rs",
    "survey/pod_roots.rs",
    "survey/pods.rs",
    "survey/processes.rs",
    "survey/root.rs",
    "survey/search.rs",
    "peermem/driver_root.rs",
    "peermem/driver_state.rs",
    "peermem/look.rs",
    "peermem/modprobe_conf.rs",
    "peermem/module_file/",
    "peermem/pair.rs",
    "peermem/record.rs",
    "peermem/store/read.rs",
    "peermem/unpacking.rs",
    "words/last_words.rs",
    "start.rs",
    "watch/",
    "wait.rs",
    "check.rs",
    "rebuild/attempt.rs",
    "rebuild/build.rs",
    "rebuild/build_dir/",
    "rebuild/inputs.rs",
    "rebuild/probe.rs",
    "rebuild/rebuilder.rs",
    "rebuild/run.rs",
    "rebuild/signing.rs",
    "rebuild/store.rs",
    "keeper/loader.rs",
    "keeper/load.rs",
    "keeper/shim.rs",
    "keeper/leftovers.rs",
    "keeper/node_lock.rs",
    "keeper/ownership.rs",
    "keeper/store_writer.rs",
    "keeper/notify.rs",
    "keeper/publisher.rs",
    "keeper/run/",
    "keeper/service.rs",
    "survey/users.rs",
    "keeper/users.rs",
    "keeper/kmsg.rs",
    "keeper/check_status.rs",
];

/// The same of both programs' verbs that only put others together, and of the doctor.
const IMPURE_ROOMS: [&str; 6] = ["install.rs", "doctor.rs", "verbs.rs", "verb/", "probe/", "wake/"];

/// The gate's rooms: each uses only those before it.
const DIRECTION: [&str; 17] = [
    "ready",
    "text",
    "process",
    "cli",
    "survey",
    "peermem",
    "words",
    "start",
    "watch",
    "wait",
    "check",
    "rebuild",
    "keeper",
    "vocabulary",
    "install",
    "doctor",
    "verbs",
];

/// The most lines of the core, without comments, empty lines and tests: an afternoon's reading.
const READY: usize = 5_000;

/// The most lines of each package, without comments and empty lines, its own tests included.
const MOST: [(&str, usize); 2] = [("src/", 26_328), ("doctor/src/", 23_866)];

/// The most lines of Rust that prove them, raw: tests, benchmarks, fuzz targets and what packs a release.
const TESTS: usize = 44_750;

/// The most uses of one of the gate's rooms by another.
const ARROWS: usize = 82;

/// The sources of both programs.
const PACKAGES: [&str; 2] = ["src/", "doctor/src/"];

/// What would let a pure room look at the world, or at a clock.
const IMPURE_PATHS: [&str; 24] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os::fd",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::process",
    "std::thread",
    "nix",
    "crate::process",
    "crate::probe",
    "crate::verb",
    "crate::watch",
    "crate::ready::clock",
    "crate::ready::files",
    "crate::ready::probe",
    "crate::ready::wake",
    "crate::peermem::look",
    "crate::peermem::module_file",
    "peermem_gate::process",
    "peermem_gate::ready::clock",
    "peermem_gate::ready::files",
    "peermem_gate::ready::probe",
];

/// Types and numbers of those that do nothing.
const HARMLESS_PATHS: [&str; 7] = [
    "crate::process::privilege::SYS_MODULE",
    "crate::watch::KeepInput",
    "std::process::ExitCode",
    "nix::errno::Errno",
    "std::io::Error",
    "std::io::ErrorKind",
    "peermem_gate::ready::files::mount::Mount",
];

/// Calls that look without any path.
const IMPURE_CALLS: [&str; 7] =
    ["Instant::now", "SystemTime::now", "metadata()", "exists()", "is_dir()", "is_file()", "read_dir()"];

/// Type names that both programs declare, and why.
const SHARED_NAMES: [(&str, &str); 5] = [
    ("Cli", "each program has its own command line"),
    ("Verb", "each program has its own verbs"),
    ("Condition", "`fleet` reads the part of a report that `check` writes"),
    ("Drivers", "`fleet` reads the part of a report that `doctor` writes"),
    ("Link", "`fleet` reads the part of a report that `doctor` writes"),
];

/// deny.toml says why; this needs no cargo-deny.
#[test]
fn the_tree_has_no_banned_crate() {
    let lock = read("Cargo.lock");
    for banned in read("deny.toml").lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")) {
        let name = banned.split('"').next().expect("a name");
        assert!(
            !lock.contains(&format!("name = \"{name}\"\n")),
            "deny.toml bans the crate {name}: remove the dependency that brings it"
        );
    }
}

/// Only names: versions change, and Cargo.lock has them. The doctor has no such list: there a well-kept library is
/// better than code of our own.
#[test]
fn the_gate_uses_exactly_the_crates_of_its_list() {
    let tree =
        ["tree", "--locked", "--package=peermem-gate", "--edges=normal", "--prefix=none", "--format={p}"];
    let target = "--target=x86_64-unknown-linux-musl";
    let output = Command::new("cargo").args(tree).arg(target).current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let crates: BTreeSet<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect();
    let made_of: String = crates.into_iter().map(|name| name + "\n").collect();
    let list = root().join("tests/crates.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&list, &made_of).unwrap();
    }
    assert_eq!(
        made_of,
        read("tests/crates.txt"),
        "`BLESS=1 cargo test house::` writes tests/crates.txt; say in the commit why a new crate is needed"
    );
}

#[test]
fn the_pure_rooms_use_no_file_clock_or_system_call() {
    let is_pure = |path: &String| !IMPURE.iter().chain(&IMPURE_ROOMS).any(|place| path.starts_with(place));
    let mut rooms = Vec::new();
    for package in PACKAGES {
        rooms.extend(sources(package).into_iter().filter(is_pure).map(|path| package.to_owned() + &path));
    }
    assert!(rooms.len() > 120, "only these files of pure rooms were found: {rooms:?}");
    for path in rooms {
        let found = impurities(&read(&path));
        assert!(
            found.is_empty(),
            "{path} is in a pure room: pass what {} yields as an argument",
            found.join(", ")
        );
    }
}

/// Of one package, without the package's own directory.
fn sources(package: &str) -> Vec<String> {
    files_with("rs").into_iter().filter_map(|path| path.strip_prefix(package).map(str::to_owned)).collect()
}

/// The program's lines, without comments and tests.
fn code(path: &str) -> String {
    let text = read(path);
    let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = program.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.to_owned() + "\n").collect()
}

/// `judge/peermem/mod.rs` is `judge::peermem`, and so are its tests.
fn module(path: &str) -> String {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').collect::<Vec<_>>().join("::")
}

/// Which module uses which, by the paths in their code. What a module has from those that contain it, or contains
/// itself, does not count.
fn uses(package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let is_program =
        |path: &String| !path.contains("tests") && !matches!(path.as_str(), "lib.rs" | "main.rs");
    let files: Vec<_> = sources(package).into_iter().filter(is_program).collect();
    let modules: BTreeSet<_> = files.iter().map(|path| module(path)).collect();
    let is_around = |one: &str, other: &str| {
        other == one || other.strip_prefix(one).is_some_and(|rest| rest.starts_with("::"))
    };
    let used = |path: &String| {
        let own = module(path);
        let named = paths(&code(&format!("{package}{path}")));
        let found = named.iter().filter_map(|path| resolved(&own, path, &modules));
        let found = found.filter(|other| !is_around(&own, other) && !is_around(other, &own)).collect();
        (own, found)
    };
    files.iter().map(used).collect()
}

/// The module that a path leads to: `crate::a::B` to `a`, and within `a::b` `super::c::D` to `a::c`.
fn resolved(own: &str, path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut words: Vec<_> = path.split("::").collect();
    let mut place: Vec<_> = match *words.first()? {
        "crate" => Vec::new(),
        "super" => own.split("::").collect(),
        _ => return None,
    };
    if words[0] == "crate" {
        words.remove(0);
    }
    while words.first() == Some(&"super") {
        words.remove(0);
        place.pop();
    }
    place.extend(words);
    while !place.is_empty() {
        let name = place.join("::");
        if modules.contains(&name) {
            return Some(name);
        }
        place.pop();
    }
    None
}

/// A way from a module back to itself, if there is one.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        at: &str,
        uses: &BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        if let Some(start) = way.iter().position(|module| module == at) {
            way.drain(..start);
            return true;
        }
        if !done.insert(at.to_owned()) {
            return false;
        }
        way.push(at.to_owned());
        for next in uses.get(at).into_iter().flatten() {
            if walk(next, uses, way, done) {
                return true;
            }
        }
        way.pop();
        false
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|module| {
        let mut way = Vec::new();
        walk(module, uses, &mut way, &mut done).then_some(way)
    })
}

/// The same of whole rooms: the first word of a module.
fn of_rooms(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, used) in uses {
        let own = room(module);
        let others = used.iter().map(|other| room(other)).filter(|other| *other != own);
        rooms.entry(own.clone()).or_default().extend(others.collect::<Vec<_>>());
    }
    rooms
}

#[test]
fn no_module_or_room_has_a_circular_dependency() {
    for package in PACKAGES {
        let uses = uses(package);
        assert!(uses.len() > 50, "{package} has only {} modules", uses.len());
        assert_eq!(
            circle(&uses),
            None,
            "modules of {package} use each other in a circle: move what both need to a third"
        );
        assert_eq!(
            circle(&of_rooms(&uses)),
            None,
            "rooms of {package} use each other in a circle: move what both need to a third"
        );
    }
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (one, other) in pairs {
            uses.entry((*one).to_owned()).or_default().insert((*other).to_owned());
        }
        uses
    };
    assert_eq!(circle(&uses(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    let found = circle(&uses(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned()]));
    let modules = ["judge", "judge::facts", "node"].map(str::to_owned).into();
    let lead = |path: &str| resolved("judge::facts", path, &modules);
    assert_eq!(lead("crate::node::Places::root"), Some("node".to_owned()));
    assert_eq!(lead("super::facts::facts"), Some("judge::facts".to_owned()));
    assert_eq!(lead("super::super::node::Node"), Some("node".to_owned()));
    assert_eq!(lead("std::fmt"), None);
}

/// So `ready` is a place of its own, and `wait` and `check` know no load, keep or rebuild.
#[test]
fn each_room_of_the_gate_uses_only_rooms_before_it() {
    let rooms = of_rooms(&uses("src/"));
    let listed: BTreeSet<_> = DIRECTION.iter().map(|room| (*room).to_owned()).collect();
    assert_eq!(rooms.keys().cloned().collect::<BTreeSet<_>>(), listed, "list each room in DIRECTION");
    let place = |room: &str| DIRECTION.iter().position(|listed| *listed == room);
    for (room, used) in &rooms {
        for other in used {
            assert!(
                place(other) < place(room),
                "src/{room} must not use {other}, which comes later in DIRECTION"
            );
        }
    }
}

/// One who reads them knows what the gate does.
#[test]
fn the_core_can_be_read_in_an_afternoon() {
    let files = sources("src/").into_iter().filter(|path| path.starts_with("ready/"));
    let lines =
        |path: String| code(&format!("src/{path}")).lines().filter(|line| !line.trim().is_empty()).count();
    let sum: usize = files.map(lines).sum();
    assert!((3_000..=READY).contains(&sum), "src/ready/ has {sum} lines of code, not {READY} at most");
}

/// A law in place of cases: both programs learn without growing.
#[test]
fn neither_program_grows() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    for (package, most) in MOST {
        let lines = |path: String| read(&format!("{package}{path}")).lines().filter(is_code).count();
        let sum: usize = sources(package).into_iter().map(lines).sum();
        assert!(sum <= most, "{package} has {sum} lines of code with its tests, not {most} at most");
    }
}

/// Another test takes the place of one that proves less.
#[test]
fn the_tests_do_not_grow() {
    let is_test =
        |path: &&String| !["src/", "doctor/src/", "examples/"].iter().any(|of| path.starts_with(of));
    let sum: usize = files_with("rs").iter().filter(is_test).map(|path| read(path).lines().count()).sum();
    assert!(sum <= TESTS, "{sum} lines of Rust are tests, not {TESTS} at most");
    let arrows: usize = of_rooms(&uses("src/")).values().map(BTreeSet::len).sum();
    assert!(arrows <= ARROWS, "rooms of src/ use each other {arrows} times, not {ARROWS} at most");
}

/// The doors do not use each other, and none of them judges.
#[test]
fn probe_and_wake_do_not_use_each_other_or_judge() {
    for (package, within) in [("src/", "ready::"), ("doctor/src/", "")] {
        let uses = uses(package);
        for door in ["probe", "wake"] {
            for other in
                ["probe", "wake", "gate", "judge", "diagnose", "verb"].iter().filter(|other| **other != door)
            {
                let (door, other) = (format!("{within}{door}"), format!("{within}{other}"));
                let is_in = |module: &String, room: &str| {
                    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                let of_door = uses.iter().filter(|(module, _)| is_in(module, &door));
                let found: Vec<_> =
                    of_door.flat_map(|(_, others)| others).filter(|used| is_in(used, &other)).collect();
                assert!(found.is_empty(), "{package}{door} must not use {found:?}: let its caller use both");
            }
        }
    }
}

/// The standard library's sort is some 4 KiB for each type that is sorted.
#[test]
fn the_gate_sorts_only_by_its_own_small_sort() {
    let is_ours = |path: &&String| path.starts_with("src/") && **path != "src/ready/sort.rs";
    for path in tree().iter().filter(is_ours) {
        let program = read(path);
        let program = program.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(
            !program.contains(".sort"),
            "{path}: sort with src/ready/sort.rs instead of the standard library"
        );
    }
}

/// The types that this code declares. An indented `type` belongs to the trait of its `impl`.
fn types(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let item = line.trim_start();
        let item = match item.strip_prefix("pub") {
            Some(rest) => rest.split_once(if rest.starts_with('(') { ") " } else { " " })?.1,
            None => item,
        };
        let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
        let kinds = if line.starts_with(' ') { &kinds[..4] } else { &kinds };
        let name = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
        name.split(|c: char| !c.is_alphanumeric()).next()
    })
}

/// A reader who searches for a type finds one, so an import needs no other name.
#[test]
fn no_type_name_is_declared_twice() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in PACKAGES {
        for path in sources(package).into_iter().filter(|path| !path.contains("tests")) {
            let path = format!("{package}{path}");
            for name in types(&code(&path)) {
                places.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    assert!(places.len() > 250, "only {} types were found", places.len());
    places.retain(|_, places| places.len() > 1);
    let shared: BTreeSet<_> = SHARED_NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let found: BTreeSet<_> = places.keys().cloned().collect();
    assert_eq!(
        found, shared,
        "rename a type that is declared more than once, or list it in SHARED_NAMES: {places:?}"
    );
    let code = "pub struct A;\nenum B {\n    C,\n}\npub(in crate::a) type D<T> = T;\nimpl X for Y {\n    type Item = A;\n}\n\
                fn f() {\n    struct E(u8);\n}\ntypes();\n";
    assert_eq!(types(code).collect::<Vec<_>>(), ["A", "B", "D", "E"]);
}

#[test]
fn every_room_is_in_the_table_of_rooms() {
    let design = read("docs/design.md");
    let table: String = design.lines().filter(|line| line.starts_with("| ")).collect();
    let entries = PACKAGES.iter().flat_map(|package| root().join(package).read_dir().unwrap());
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let named = if entry.path().is_dir() { format!("`{name}/`") } else { format!("`{name}`") };
        assert!(table.contains(&named), "add {named} to the table of rooms in docs/design.md");
    }
    let is_room = |named: &&str| {
        named.ends_with('/') || Path::new(named).extension().is_some_and(|extension| extension == "rs")
    };
    for named in table.split('`').skip(1).step_by(2).filter(is_room) {
        let is_there =
            ["src", "src/ready", "src/ready/judge", "src/process", "doctor/src", "doctor/src/probe"]
                .iter()
                .any(|room| root().join(room).join(named).exists());
        assert!(
            is_there,
            "docs/design.md names the room {named}, which does not exist: remove it from the table"
        );
    }
}

/// The parts of this Rust text that look at the world.
fn impurities(text: &str) -> Vec<String> {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let is_within = |path: &str, place: &&str| {
        path == *place || path.strip_prefix(*place).is_some_and(|rest| rest.starts_with("::"))
    };
    let is_impure = |path: &String| {
        IMPURE_PATHS.iter().any(|place| is_within(path, place))
            && !HARMLESS_PATHS.iter().any(|place| is_within(path, place))
    };
    let calls = IMPURE_CALLS.iter().filter(|call| has_word(&code, call)).map(ToString::to_string);
    paths(&code).into_iter().filter(is_impure).chain(calls).collect()
}

/// Every path in this code, those of `use` in full: `std::{fs, io::Read}` is `std::fs` and `std::io::Read`.
fn paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    // What a brace that opens stands behind, and the path that is being read.
    let (mut prefixes, mut path) = (Vec::new(), String::new());
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            path += "::";
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let is_end = !(c.is_alphanumeric() || c == '_' || c.is_whitespace() && path.ends_with("::"));
        match c {
            '{' => prefixes.push(if path.ends_with("::") { path.clone() } else { String::new() }),
            _ if !is_end && !c.is_whitespace() => path.push(c),
            _ => {}
        }
        if is_end {
            if path.contains("::") && !path.ends_with("::") {
                paths.push(path.trim_end_matches("::self").to_owned());
            }
            if c == '}' {
                prefixes.pop();
            }
            path = prefixes.last().cloned().unwrap_or_default();
        }
    }
    paths
}

/// The compiler leaves out a `#[test]` of a file that is run by tests/support/suite.rs, and says nothing.
#[test]
fn every_test_of_a_suite_is_listed_in_its_suite() {
    for package in ["", "doctor/"] {
        let manifest: toml::Table = read(&format!("{package}Cargo.toml")).parse().unwrap();
        let targets = manifest["test"].as_array().expect("test programs").iter();
        for name in
            targets.filter(|target| target.get("harness").is_some()).map(|target| target["name"].as_str())
        {
            let program = format!("{package}tests/{}", name.expect("a name"));
            let is_of_it = |path: &&String| {
                path.strip_prefix(&program)
                    .is_some_and(|rest| rest.starts_with(".rs") || rest.starts_with('/'))
            };
            let files = files_with("rs");
            let files: Vec<_> = files.iter().filter(is_of_it).collect();
            assert!(!files.is_empty(), "{program} has no files");
            for path in files {
                assert!(!read(path).contains("#[test]"), "{path}: add the test to its tests![…] instead");
            }
        }
    }
    for path in tree().iter().filter(|path| path.starts_with("tests/life/")) {
        assert!(!read(path).contains("#[test]"), "{path}: add the test to the suite![…] of tests/soak.rs");
    }
}

/// Else `tests/mutants by-hand` would change nothing, and prove nothing.
#[test]
fn the_text_of_every_manual_mutant_occurs_exactly_once() {
    let list = read("tests/mutants-by-hand.txt");
    let mutants = list.split("\n\n").skip(1);
    assert!(mutants.clone().count() > 13);
    for mutant in mutants {
        let lines: Vec<_> = mutant.trim_end().lines().collect();
        let [_, file, old, new, tests] = lines[..] else {
            panic!("tests/mutants-by-hand.txt: this paragraph needs five lines: {mutant}")
        };
        let [file, old, new, tests] =
            [(file, "in "), (old, "- "), (new, "+ "), (tests, "by ")].map(|(line, start)| {
                line.strip_prefix(start).unwrap_or_else(|| {
                    panic!("tests/mutants-by-hand.txt: this line must begin with {start:?}: {line}")
                })
            });
        let program = read(file);
        let program = program.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        assert_eq!(
            program.matches(old).count(),
            1,
            "tests/mutants-by-hand.txt: quote text that occurs once in {file}, unlike: {old}"
        );
        assert_ne!(old, new);
        let is_named = match tests.split_once(' ') {
            Some(("--lib", room)) => {
                let rest =
                    file.strip_prefix("src/").and_then(|file| file.strip_prefix(&room.replace("::", "/")));
                rest.is_some_and(|rest| rest.starts_with(['.', '/']))
            }
            Some(("--test=rules", words)) => {
                let model = read("tests/rules/scenes.rs");
                model.lines().any(|line| line.starts_with("fn ") && line.contains(words))
            }
            _ => false,
        };
        assert!(
            is_named,
            "tests/mutants-by-hand.txt: the tests {tests} are not those of {file}, or of the model"
        );
    }
}

#[test]
fn every_rust_file_names_its_license() {
    for path in files_with("rs") {
        assert!(
            read(&path).starts_with("// SPDX-License-Identifier: Apache-2.0\n"),
            "{path}: begin with the SPDX line"
        );
    }
}

#[test]
fn the_house_rules_find_what_they_forbid() {
    for impure in [
        "use std::fs;",
        "use std::{fs, path::Path};",
        "use std::{\n    collections::BTreeMap,\n    fs::{self, File},\n};",
        "use crate::ready::probe;",
        "use crate::ready::{condition::Reason, probe};",
        "use crate::{\n    ready::probe::{self, Depth},\n};",
        "use nix::unistd::getpid;",
        "fn f() -> usize { std::fs::read(\"x\").map_or(0, |b| b.len()) }",
        "fn f() { crate::process::exec::start() }",
        "fn f(p: &Path) -> bool { p.exists() }",
        "fn f() { if x { std::process::exit(1) } }",
        "let now = Instant::now();",
    ] {
        assert!(!impurities(impure).is_empty(), "{impure}");
    }
    for pure in [
        "use std::{collections::BTreeMap, fmt};",
        "use crate::condition::{Condition, Reason};",
        "use std::process::ExitCode;\nuse nix::errno::Errno;",
        "// std::fs would look at the world",
        "mod probe_words { use super::fs; }",
    ] {
        assert_eq!(impurities(pure), Vec::<String>::new(), "{pure}");
    }
}
