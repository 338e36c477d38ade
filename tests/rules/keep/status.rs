// SPDX-License-Identifier: Apache-2.0
//! The status file: when it speaks of this moment, and what is made of it.

use super::{Keep, LoadFailure, LoadResult, Stay, World, ms, policy};
use peermem_gate::keeper::status::{Stored, Summary, metrics};
use peermem_gate::ready::look::Cause;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::rebuild::{RebuildLabel, RebuildResult};
use peermem_gate::words::report::style::Style;
use serde_json::{Value, json};
use std::time::Duration;

const BOOT: &str = "f5df7e41";
const WRITTEN: Duration = Duration::from_secs(1000);

/// As `keep` writes it with a heartbeat of 30 s, of a node on which every condition is met.
fn file(state: &str) -> Value {
    json!({
        "schema": "peermem-gate/v1",
        "boot_id": BOOT,
        "verdict": "Ready",
        "conditions": [{"type": "MarkerPresent", "status": "True", "reason": "MarkerFound", "message": "there"}],
        "keep": {"state": state, "message": "as the test says", "written_s": 1000.0, "heartbeat_s": 30.0},
    })
}

fn read(file: &Value) -> Stored {
    Stored::read(&file.to_string()).expect("a status")
}

#[test]
fn only_a_status_file_of_this_schema_with_conditions_is_accepted() {
    assert!(Stored::read(&file("Loaded").to_string()).is_ok());
    for (key, value, told) in [
        ("schema", json!("another/v1"), "its schema is \"another/v1\""),
        ("conditions", json!([]), "it lists no conditions"),
        ("keep", json!({}), "it is not a status of `keep`"),
    ] {
        let mut other = file("Loaded");
        other[key] = value;
        let error = Stored::read(&other.to_string()).expect_err(key);
        assert!(error.starts_with(told), "{error}");
    }
}

#[test]
fn a_status_file_is_valid_for_two_heartbeats_and_a_grace_time() {
    let outdated =
        |file: &Value, boot, after: f64| read(file).outdated(boot, WRITTEN.mul_f64(1.0 + after / 1000.0));
    let status = file("Loaded");
    for (after, told) in [
        (-10.1, Some("in the future")),
        (-10.0, None),
        (0.0, None),
        (70.0, None),
        (70.1, Some("it is 70.1 s old, more than two heartbeats")),
    ] {
        let said = outdated(&status, Some(BOOT), after);
        assert_eq!(said.is_some(), told.is_some(), "{after}: {said:?}");
        assert!(said.unwrap_or_default().contains(told.unwrap_or_default()), "{after}");
    }
    assert!(outdated(&status, Some("another"), 0.0).unwrap().contains("before this boot"));
    assert_eq!(outdated(&status, None, 0.0), None, "where /proc does not name the boot");
    let mut nameless = status;
    nameless.as_object_mut().unwrap().remove("boot_id");
    assert!(outdated(&nameless, Some(BOOT), 0.0).unwrap().contains("does not say in which boot"));
    assert_eq!(outdated(&nameless, None, 0.0), None);
}

#[test]
fn keep_is_ready_only_if_the_module_is_loaded_on_a_ready_node() {
    for (verdict, state, outcome, headline) in [
        ("Ready", "Loaded", Outcome::Ready, "Ready: nvidia_peermem is live, and MOFED is ready"),
        ("Ready", "Waiting", Outcome::Waiting, "Waiting: nvidia_peermem is not usable now"),
        ("Ready", "Blocked", Outcome::Blocked, "Blocked: nvidia_peermem is not usable now"),
        ("Waiting", "Blocked", Outcome::Blocked, "MarkerAbsent: "),
        ("Waiting", "Loaded", Outcome::Waiting, "MarkerAbsent: "),
    ] {
        let mut status = file(state);
        status["verdict"] = verdict.into();
        if verdict != "Ready" {
            status["conditions"][0]["status"] = "False".into();
            status["conditions"][0]["reason"] = "MarkerAbsent".into();
        }
        let (text, stored) = (status.to_string(), read(&status));
        assert_eq!(stored.outcome(), outcome, "{verdict}, {state}");
        assert!(stored.headline().starts_with(headline), "{}", stored.headline());
        let told: Value = serde_json::from_str(&stored.json(&text)).unwrap();
        assert_eq!(told["verdict"], json!(outcome));
        assert_eq!(stored.json(&text) == text, json!(outcome) == status["verdict"], "{verdict}, {state}");
    }
}

#[test]
fn a_status_files_text_names_the_holders() {
    let text = |status: &Value| read(status).text(Style::new(None, &Vec::new()));
    let mut status = file("Busy");
    assert!(text(&status).contains("\nkeep: Busy: as the test says\n"), "{}", text(&status));
    assert!(!text(&status).contains("open on"));
    status["keep"]["holders"] = json!(["python (7)", "ib_write_bw (8)"]);
    assert!(text(&status).contains("\nopen on GPU or RDMA devices: python (7), ib_write_bw (8)\n"));
}

#[test]
fn the_summary_and_the_metrics_show_the_state_of_keep() {
    let mut keep = Keep::new(policy(), Stay::Yields, ms(0));
    let summary = |keep: &Keep| Summary::of(keep, &[], ms(30_000), ms(2500));
    assert_eq!((summary(&keep).loaded_by, summary(&keep).refcount), (None, None));
    keep.look(ms(0), &Cause::Start, World::ready().full_look());
    keep.look(ms(500), &Cause::Timer, World::ready().full_look());
    let _ = keep.rebuilt(ms(1500), &RebuildResult::Installed("rebuilt".to_owned()), ms(1500));
    keep.done(ms(560), LoadResult::refused(LoadFailure::Errno("EINVAL"), "refused".to_owned()));
    keep.ask();
    keep.look(ms(600), &Cause::Asked, World::ready().full_look());
    keep.done(ms(700), LoadResult::Live("loaded".to_owned(), Some(0)));
    let told = summary(&keep);
    assert_eq!((told.loaded_by.as_deref(), told.refcount), (Some("keep"), Some(0)));
    assert_eq!((told.written_s, told.heartbeat_s), (2.5, 30.0));
    assert_eq!(told.rebuilds[&RebuildLabel::Installed.to_string()], 1);
    let text = metrics(&keep, Some(1.5));
    for line in [
        "peermem_gate_keep_state{state=\"Loaded\"} 1",
        "peermem_gate_keep_state{state=\"Waiting\"} 0",
        "peermem_gate_keep_state_seconds_total{state=\"Waiting\"} 0.660",
        "peermem_gate_keep_state_seconds_total{state=\"Blocked\"} 0.040",
        "peermem_gate_keep_transitions_total{from=\"Waiting\",to=\"Blocked\"} 1",
        "peermem_gate_keep_refused_loads_total{reason=\"EINVAL\"} 1",
        "peermem_gate_keep_rebuild_seconds_total 1.500",
        "peermem_gate_keep_loads_total 1",
        "peermem_gate_keep_last_success_timestamp_seconds 1.500",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
    assert!(!metrics(&keep, None).contains("last_success"));
    let another = World { is_loaded: true, ..World::ready() };
    let mut keep = Keep::new(policy(), Stay::Yields, ms(0));
    keep.look(ms(0), &Cause::Start, another.full_look());
    assert_eq!(summary(&keep).loaded_by.as_deref(), Some("another"));
}
