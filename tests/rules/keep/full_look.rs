// SPDX-License-Identifier: Apache-2.0
//! What `keep` makes of an observation, beside the verdict.

use crate::judge::line;
use crate::model::eyes::recorded;
use peermem_gate::cli::{Verb, environment};
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::look::{Look, Recorded};
use peermem_gate::ready::node::{Expectations, Node};
use peermem_gate::ready::observation::{ModuleFile, Observation, Peermem, ProcState, SysModule, SysState};
use peermem_gate::ready::verdict::{Condition, Outcome, Verdict};
use peermem_gate::watch::KeepInput;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

fn expectations() -> Expectations {
    let args = ["peermem-gate", "keep"].map(OsString::from);
    let Verb::Keep(args) = environment::parse(&args, &Vec::new()).expect("options").verb else {
        unreachable!()
    };
    Node::new(&args.node, Path::new("/"), None, &Vec::new()).expect("options that go together").expected
}

/// A look at a real kernel on which MOFED's modules are live.
fn seen() -> Observation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/sidecar.kept");
    let trace = fs::read_to_string(path).expect("a trace");
    let look = trace.lines().nth(1).expect("a look");
    let Recorded { mut seen, .. } = serde_json::from_str(look).expect("a recorded look");
    let none = SysModule { state: SysState::NoDirectory, inode: None, taint: Ok(None), version: Ok(None) };
    seen.modules.sys.insert("nvidia".to_owned(), none);
    let root = PathBuf::from("/");
    seen.peermem = recorded().peermem.map(|peermem| Peermem { root, ..peermem });
    seen
}

fn full_look(seen: &Observation, reason: Reason) -> KeepInput {
    let usable = Condition::new(ConditionType::PeermemUsable, reason, "as the test says");
    let verdict = Verdict::of(vec![usable]);
    let look = Look { verdict, identity: seen.identity(), next_build: None };
    KeepInput::of(&expectations(), seen, look, true)
}

fn load(seen: &mut Observation, name: &str) {
    let sys = SysModule { state: SysState::Live, inode: Some(7), taint: Ok(None), version: Ok(None) };
    seen.modules.sys.insert(name.to_owned(), sys);
    let line = line(name, ProcState::Live, "");
    seen.modules.proc.as_mut().expect("a list").modules.push(line);
}

#[test]
fn a_module_of_a_replaced_stack_is_unloaded() {
    assert_eq!(
        full_look(&seen(), Reason::LoadedOnGoneStack).glimpse.swap.as_deref(),
        Some("as the test says")
    );
    assert_eq!(full_look(&seen(), Reason::StubModule).glimpse.swap, None);
}

#[test]
fn a_missing_file_is_waited_for_until_the_driver_is_loaded() {
    let usable = |seen: &Observation, reason| {
        let full_look = full_look(seen, reason);
        (
            full_look.look.verdict.get(ConditionType::PeermemUsable).expect("a condition").reason,
            full_look.is_blocked(),
        )
    };
    assert_eq!(usable(&seen(), Reason::ModuleFileMissing), (Reason::DependencyNotLive, false));
    assert_eq!(usable(&seen(), Reason::StubModule), (Reason::StubModule, true));
    let mut loaded = seen();
    load(&mut loaded, "nvidia");
    assert_eq!(usable(&loaded, Reason::ModuleFileMissing), (Reason::ModuleFileMissing, true));
    // Its container's root is unmounted, and no other is shown yet.
    loaded.peermem.as_mut().expect("a driver").file = ModuleFile::Away(PathBuf::from("/lib/modules/6.1"));
    assert_eq!(usable(&loaded, Reason::ModuleFileMissing), (Reason::DependencyNotLive, false));
    assert_eq!(usable(&loaded, Reason::BuildSkipped), (Reason::BuildSkipped, true), "the fast path");
    assert_eq!(full_look(&loaded, Reason::Usable).look.verdict.outcome, Outcome::Ready);
}

#[test]
fn the_evidence_changes_with_every_possible_cause_of_a_refusal() {
    let evidence = |change: &dyn Fn(&mut Observation)| {
        let mut seen = seen();
        change(&mut seen);
        full_look(&seen, Reason::Usable).evidence
    };
    let before = evidence(&|_| ());
    assert_eq!(evidence(&|seen| load(seen, "nvidia_peermem")), before, "its own coming and going");
    for (what, change) in [
        ("another module", &|seen: &mut Observation| load(seen, "nvidia") as _),
        ("an address", &|seen: &mut Observation| {
            seen.modules.proc.as_mut().expect("a list").modules[0].address = "0x2".to_owned();
        }),
        ("the file", &|seen: &mut Observation| seen.peermem = None),
        ("the marker", &|seen: &mut Observation| {
            seen.marker = peermem_gate::ready::observation::Marker::Absent;
        }),
    ] as [(&str, &dyn Fn(&mut Observation)); 4]
    {
        assert_ne!(evidence(change), before, "{what}");
    }
}
