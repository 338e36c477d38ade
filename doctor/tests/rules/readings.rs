// SPDX-License-Identifier: Apache-2.0
//! What single readings mean: how far the chain has come, the names of logs, and what kubelet offers.

use peermem_doctor::chain::{ChainContext, DRIVER_CTR_READY, DRIVER_READY, MARKER, end, links};
use peermem_doctor::record::{place, prefixed};
use peermem_doctor::symptoms::chain::{Chain, FileState};
use peermem_doctor::symptoms::offer::KubeletOffer;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The last sentence about a node that has been up for so many seconds, with these files since its boot.
fn ending(there: &[&'static str], uptime: i64) -> String {
    let mut seen = Chain { has_directory: Ok(true), ..Chain::default() };
    (seen.clock.boot, seen.clock.uptime) = (Ok(0), Ok(uptime));
    let file = || (PathBuf::new(), FileState::Present { written: 0, text: String::new() });
    seen.files = there.iter().map(|name| ((*name).to_owned(), file())).collect();
    let around = ChainContext {
        wants_marker: true,
        has_driver: None,
        driver_started: Some(0),
        validates_plugin: false,
        validator_started: Some(0),
    };
    end(&seen, &links(&seen, around))
}

#[test]
fn the_chain_is_stuck_only_where_its_next_file_is_overdue() {
    for (there, uptime, begin) in [
        (&[][..], 170, "waiting for 2 m 50 s at: .driver-ready, which MOFED's container writes"),
        (&[], 3000, "stuck for 50 m at: .driver-ready"),
        (&[MARKER], 1800, "waiting for 30 m at: .driver-ctr-ready"),
        (&[MARKER], 1801, "stuck for 30 m 1 s at: .driver-ctr-ready"),
        (&[MARKER, DRIVER_CTR_READY], 60, "waiting for 1 m at: driver-ready"),
    ] {
        assert!(ending(there, uptime).starts_with(begin), "{}", ending(there, uptime));
    }
    assert!(!ending(&[MARKER, DRIVER_CTR_READY, DRIVER_READY], 60).contains("stuck"));
}

#[test]
fn only_whole_gpus_count_and_each_once_however_often_it_is_shared() {
    for (resource, ids, count) in [
        ("nvidia.com/gpu.shared", &["GPU-a::0", "GPU-a::1", "GPU-b::0"][..], Some(2)),
        ("nvidia.com/gpu", &["GPU-a", "MIG-b"], None),
        ("nvidia.com/GH100_H100_SXM5_80GB", &["0", "1"], None),
        ("rdma/shared", &["0", "1"], None),
        ("nvidia.com/gpu", &[], None),
    ] {
        let ids = ids.iter().map(ToString::to_string).collect();
        let offer = KubeletOffer {
            directory: PathBuf::new(),
            names: Ok(None),
            devices: BTreeMap::from([(resource.to_owned(), ids)]),
            changed: None,
            has_dra: false,
            counted: None,
            gpus: BTreeMap::new(),
        };
        assert_eq!(offer.whole_gpus().map(|gpus| gpus.len()), count, "{resource}");
    }
}

#[test]
fn the_newest_log_file_sorts_last() {
    let names = ["1.log", "0.log", "1.log.20251121-120000", "1.log.20251121-115839.gz"];
    let mut logs: Vec<_> = names.iter().map(|name| (place::log(name).expect("a log"), *name)).collect();
    logs.sort();
    let sorted: Vec<_> = logs.into_iter().map(|(_, name)| name).collect();
    assert_eq!(sorted, ["0.log", "1.log.20251121-115839.gz", "1.log.20251121-120000", "1.log"]);
}

#[test]
fn kubectls_prefix_names_pod_and_container() {
    let line = b"[pod/nvidia-driver-daemonset-564xm/nvidia-driver-ctr] a text";
    assert_eq!(prefixed(line), Some(("nvidia-driver-daemonset-564xm", "nvidia-driver-ctr", &b"a text"[..])));
    for odd in ["[pod/a/b]", "[pod/a] x", "[pod//b] x", "[pod/A/b] x", "[pod/a/b/c] x", "[pod/a/\u{1b}] x"] {
        assert_eq!(prefixed(odd.as_bytes()), None, "{odd}");
    }
}
