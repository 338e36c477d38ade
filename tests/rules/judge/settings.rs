// SPDX-License-Identifier: Apache-2.0
//! What a node's containers and files say of what is asked for, where nobody set a variable here.

use peermem_gate::cli::environment::RDMA;
use peermem_gate::ready::observation::Unreadable;
use peermem_gate::survey::Survey;
use peermem_gate::survey::pod::{Build, Pod};
use peermem_gate::survey::setting::{Setting, Settings};
use peermem_gate::survey::settings::settings;

/// All that an otherwise silent node says.
fn said(change: impl FnOnce(&mut Survey)) -> Settings {
    let mut survey = Survey::default();
    change(&mut survey);
    settings(&survey, &Vec::new())
}

/// A pod that kubelet has, with this container.
fn pod(name: &str, container: &str) -> Pod {
    Pod {
        uid: "uid-1".to_owned(),
        name: Some(("gpu-operator".to_owned(), name.to_owned())),
        containers: [container.to_owned()].into(),
        is_operators: true,
        is_here: true,
        build: None,
    }
}

#[test]
fn a_node_without_settings_requests_no_rdma() {
    assert_eq!(said(|_| {}), Settings::default());
}

#[test]
fn a_driver_named_for_the_kernel_is_precompiled() {
    const OURS: &str = "nvidia-gpu-driver-rhel9.4-5.14.0-427.el9.x86-64-abc-x2x4v";
    const DRIVER: &str = "nvidia-driver-ctr";
    let is = |name: &str, container: &str, release: &str| {
        let settings = said(|survey| {
            survey.pods.all.push(pod(name, container));
            release.clone_into(&mut survey.release);
        });
        settings.precompiled.is_some()
    };
    assert!(is(OURS, DRIVER, "5.14.0-427.el9.x86_64"));
    assert!(is("nvidia-driver-6.1.0-64k-abc", DRIVER, "6.1.0+64K"));
    assert!(!is(OURS, DRIVER, "5.14.0-503.el9.x86_64"), "another kernel's");
    assert!(!is("nvidia-driver-daemonset-x2x4v", DRIVER, "5.14.0-427.el9.x86_64"));
    assert!(!is(OURS, DRIVER, ""), "the release could not be read");
    assert!(!is(OURS, "mofed-container", "5.14.0-427.el9.x86_64"));
}

#[test]
fn a_shared_build_shows_the_settings_of_its_driver() {
    let rdma = |value: Option<&str>, is_here: bool| {
        let environment = value.map(|value| (RDMA.to_owned(), value.to_owned())).into_iter().collect();
        let build = Build { environment: Some(environment), ..Build::default() };
        said(|survey| {
            survey.pods.all.push(Pod { is_here, build: Some(build), ..pod("driver", "nvidia-driver-ctr") });
        })
        .rdma
    };
    assert!(rdma(Some("true"), true).is_on());
    assert!(rdma(Some("false"), true).is_off());
    assert!(rdma(None, true).is_off(), "the operator sets it only where it is true");
    assert_eq!(rdma(Some("true"), false), Setting::Unset, "that pod is gone");
}

#[test]
fn the_drivers_ready_file_shows_the_settings_of_its_driver() {
    let rdma = |text: &str| {
        said(|survey| {
            survey.driver_ready = ("/run/nvidia/validations/.driver-ctr-ready".into(), Some(text.to_owned()));
        })
        .rdma
    };
    assert!(rdma("GDRCOPY_ENABLED: false\n  GPU_DIRECT_RDMA_ENABLED: true\n").is_on());
    assert!(rdma("GPU_DIRECT_RDMA_ENABLED: false\n").is_off());
    assert_eq!(rdma("GDRCOPY_ENABLED: true\n"), Setting::Unset);
}

#[test]
fn a_container_for_peermem_requests_rdma() {
    let rdma = |is_here| {
        said(|survey| survey.pods.all.push(Pod { is_here, ..pod("driver", "nvidia-peermem-ctr") })).rdma
    };
    assert!(rdma(true).is_on());
    assert_eq!(rdma(false), Setting::Unset);
}

/// A container's name is anybody's choice.
#[test]
fn a_users_pod_with_an_operators_container_name_is_ignored() {
    let users = |name: &str, container: &str| Pod { is_operators: false, ..pod(name, container) };
    for container in ["nvidia-peermem-ctr", "mofed-container", "nvidia-driver-ctr"] {
        let settings = said(|survey| survey.pods.all.push(users("web-6.1.0", container)));
        assert_eq!(settings, Settings::default(), "{container}");
    }
    let environment = [(RDMA.to_owned(), "false".to_owned())].into();
    let build = Build { environment: Some(environment), ..Build::default() };
    let settings =
        said(|survey| survey.pods.all.push(Pod { build: Some(build), ..users("web", "nvidia-driver-ctr") }));
    assert_eq!(settings, Settings::default());
}

#[test]
fn an_unreadable_source_leaves_the_use_of_rdma_possible() {
    let why = Unreadable { path: "/proc/modules".into(), why: "Input/output error".to_owned() };
    let settings = said(|survey| survey.unreadable = Some(why));
    assert!(settings.rdma == Setting::Unset && settings.is_rdma_used());
}

#[test]
fn an_installed_or_loaded_mofed_implies_that_rdma_is_wanted() {
    let installed = said(|survey| survey.installed = Some("/usr/sbin/ofed_info".into()));
    assert!(
        installed.host_provides_rdma.is_some()
            && installed.rdma_trace.is_some()
            && installed.on_host.is_some()
    );
    let left = said(|survey| {
        survey.installed = Some("/usr/sbin/ofed_info".into());
        survey.mofed_trace = Some("/run/mellanox/drivers/.driver-ready".into());
    });
    assert!(left.host_provides_rdma.is_none() && left.in_container.is_some(), "a container provides it");
    let loaded = said(|survey| survey.has_peermem = Some("/proc/modules".into()));
    assert!(loaded.rdma_trace.is_some() && loaded.rdma == Setting::Unset && loaded.is_rdma_used());
    let listed = said(|survey| survey.loads_peermem.push("/etc/modules".into()));
    assert!(listed.rdma.is_on() && listed.host_provides_rdma.is_some() && listed.on_host.is_none());
}
