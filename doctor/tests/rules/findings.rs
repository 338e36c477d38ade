// SPDX-License-Identifier: Apache-2.0
//! The table of findings, their order, how a node stands by them, and causes in words.

use peermem_doctor::finding::cause::FailureCause;
use peermem_doctor::finding::{Finding, Id, ordered};
use peermem_doctor::report::standing::{Standing, StandingFinding};
use peermem_gate::ready::condition::{Consequence, Reason};
use peermem_gate::words::remedy::{Facts, Step};

#[test]
fn every_reason_that_keeps_the_gate_closed_has_a_finding() {
    for reason in Reason::ALL {
        let holds = matches!(reason.consequence(), Consequence::Waits | Consequence::Blocks);
        assert_eq!(Id::of(*reason).is_some(), holds, "{reason}");
    }
}

#[test]
fn a_cause_is_listed_above_its_consequences() {
    for id in Id::ALL {
        assert!(id.causes().iter().all(|cause| cause < id), "{id}: {:?}", id.causes());
    }
}

#[test]
fn titles_and_remedies_are_for_people() {
    for id in Id::ALL {
        assert!(id.title().len() <= 110 && !id.title().ends_with('.'), "{id}");
        assert!(!id.remedy().is_empty(), "{id} has no remedy");
        for step in id.remedy() {
            let step = step.text;
            assert!(step.ends_with(['.', ':']) && step.matches('`').count() % 2 == 0, "{id}: {step}");
        }
    }
}

#[test]
fn a_pod_is_found_before_a_step_needs_its_name() {
    for id in Id::ALL {
        for (label, log) in [("nvidia-driver ", "{driver-logs}"), ("nvidia.com/ofed-driver ", "{mofed-logs}")]
        {
            let find = |step: &Step| step.text.starts_with("Find ") && step.text.contains(label);
            let found = id.remedy().iter().position(find);
            let needed = id.remedy().iter().position(|step| step.text.contains(log));
            assert!(found.zip(needed).is_none_or(|(found, needed)| found < needed), "{id}: {label}");
        }
    }
}

#[test]
fn no_step_lowers_a_protection_of_the_node() {
    let lowering =
        ["Secure Boot off", "sig_enforce", "setenforce", "audit2allow", "harden=", "IOMMU (", "ACS off"];
    for id in Id::ALL {
        for step in id.remedy() {
            let found = lowering.iter().find(|words| step.text.contains(**words));
            assert_eq!(found, None, "{id}: {}", step.text);
        }
    }
}

#[test]
fn a_harmless_cause_is_as_urgent_as_its_worst_consequence() {
    use Id::{MarkerAbsent, MofedBuilding, SourceUnreadable};
    let found = [SourceUnreadable, MarkerAbsent, MofedBuilding].map(|id| Finding::new(id, "source", "seen"));
    let ids: Vec<_> = ordered(found.into(), &Facts::default()).iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [MofedBuilding, MarkerAbsent, SourceUnreadable]);
}

#[test]
fn the_root_cause_comes_first_and_its_consequences_below_it() {
    use Id::{HeadersMissing, LegacyClientLoaded, MarkerAbsent, ModuleInTree, StorageModulesLoaded};
    let mixed = [ModuleInTree, LegacyClientLoaded, HeadersMissing, StorageModulesLoaded, MarkerAbsent];
    let found = mixed.iter().chain(&mixed).map(|id| Finding::new(*id, "source", "seen"));
    let ordered = ordered(
        found.collect(),
        &Facts::default()
            .node(&peermem_gate::words::remedy::NodeName { name: "node-1".into(), is_guess: false }),
    );
    let ids: Vec<_> = ordered.iter().map(|finding| finding.id).collect();
    assert_eq!(ids[0], StorageModulesLoaded);
    assert_eq!(ids.last(), Some(&LegacyClientLoaded), "of the same severity, and no consequence");
    assert!(ordered[1..4].iter().all(|finding| finding.follows_from.is_some()), "{ids:?}");
    assert!(ordered.iter().all(|finding| finding.evidence.len() == 1), "the same evidence is reported once");
    assert!(!format!("{ordered:?}").contains("{node}"));
}

#[test]
fn a_finding_that_no_step_of_the_chain_needs_stops_no_step() {
    use Id::{
        DevCharLinksMissing, DriverCtrNotReady, DriverCtrReadyStale, DriverStopped, MacvlanOnInfiniband,
        RdmaPortsDown, ToolkitNotReady,
    };
    let cause = |root, step| {
        let found = [root, step].map(|id| Finding::new(id, "source", "seen"));
        let ordered = ordered(found.into(), &Facts::default());
        ordered.iter().find(|finding| finding.id == step).and_then(|finding| finding.follows_from)
    };
    assert_eq!(cause(DevCharLinksMissing, ToolkitNotReady), None);
    assert_eq!(cause(RdmaPortsDown, ToolkitNotReady), None);
    assert_eq!(cause(DriverStopped, DriverCtrReadyStale), None, "it is no step");
    assert_eq!(cause(DriverStopped, DriverCtrNotReady), Some(DriverStopped));
    assert_eq!(cause(MacvlanOnInfiniband, DriverCtrNotReady), None);
    assert_eq!(cause(MacvlanOnInfiniband, ToolkitNotReady), Some(MacvlanOnInfiniband));
}

#[test]
fn the_worst_root_cause_decides_and_then_the_gate() {
    let finding = |id, severity, is_root| StandingFinding { id, severity, is_root };
    let standing = |verdict, findings: &[StandingFinding<'static>]| {
        Standing::of(verdict, Some(findings.iter().copied()))
    };
    assert_eq!(standing("Ready", &[finding("A", "info", true)]), Standing::Ok);
    assert_eq!(standing("Ready", &[finding("A", "critical", true)]), Standing::Critical);
    assert_eq!(standing("Waiting", &[finding("A", "critical", false)]), Standing::Waiting);
    assert_eq!(standing("NotApplicable", &[finding("ChainUnderWay", "info", false)]), Standing::Waiting);
    let both = [finding("A", "warning", true), finding("B", "unknown", true)];
    assert_eq!(standing("Unknown", &both), Standing::Warning);
    assert_eq!(standing("Blocked", &[]), Standing::Waiting);
    let of_check = |verdict| Standing::of(verdict, None::<[StandingFinding<'_>; 0]>);
    assert_eq!(
        ["Blocked", "Waiting", "Unknown", "Odd", "Ready"].map(of_check),
        [Standing::Critical, Standing::Waiting, Standing::Unknown, Standing::Unknown, Standing::Ok]
    );
}

/// Each line: a cause, and words of it.
const WORDS: &str = r#"
KeyRejected modprobe: ERROR: could not insert 'nvidia_fs': Key was rejected by service
NoSpace tar: x: Cannot write: No space left on device
ReadOnly open /etc/containerd/config.toml: read-only file system
Forbidden nodefeatures.nfd.k8s-sigs.io is forbidden: User "system:serviceaccount:a:b" cannot create
KindMissing no matches for kind "NodeFeature" in version "nfd.k8s-sigs.io/v1alpha1"
NoSocket dial unix /var/run/nri/nri.sock: connect: no such file or directory
Unreachable dial tcp 10.96.0.1:443: connect: connection refused
Certificate x509: certificate signed by unknown authority
PortTaken listen tcp :9400: bind: address already in use
OtherArchitecture exec /usr/bin/x: exec format error
LibraryMissing x: error while loading shared libraries: libz.so.1: cannot open shared object file
AccessRefused fork/exec /usr/local/nvidia/toolkit/nvidia-container-runtime: permission denied
AccessRefused Failed to initialize NVML: Insufficient Permissions
NotSupported [ERR] Unsupported OS: flatcar
QuotaExceeded pods "x" is forbidden: exceeded quota: q, limited: 8
RefusedByRule pods "x" is forbidden: violates PodSecurity "restricted"
"#;

#[test]
fn a_reason_is_known_whichever_program_repeats_it() {
    for line in WORDS.lines().filter(|line| !line.is_empty()) {
        let (cause, words) = line.split_once(' ').unwrap();
        assert_eq!(
            FailureCause::of(words).map(|cause| format!("{cause:?}")).as_deref(),
            Some(cause),
            "{words}"
        );
    }
    for other in ["", "Error: it cannot work", "open /a: no such file or directory", "exit status 1"] {
        assert_eq!(FailureCause::of(other), None, "{other}");
    }
}
