// SPDX-License-Identifier: Apache-2.0
//! The chart makes what the overlays make, object by object, in every combination of its values; and it refuses what
//! makes no sense.

use crate::cluster::{Checker, root, tool, variable, yaml};
use crate::helm::{
    self, Objects, by_name, can_helm, chart, from_outside, from_outside_at, helm, kustomize, merge, unlabeled,
};
use crate::support::{note, output, suite};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

const BOTH: [bool; 2] = [false, true];

/// The members of `all` that `bits` selects.
fn chosen<'a>(all: &[&'a str], bits: usize) -> Vec<&'a str> {
    all.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, name)| *name).collect()
}

fn switched_on(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| ((*name).to_owned(), json!({"enabled": true})))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The components for these values, in the order of the overlays.
fn components(values: &[(&'static str, bool)]) -> Vec<&'static str> {
    let set = values.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name);
    ["image"].into_iter().chain(set).collect()
}

fn assert_same(made: &Objects, expected: &Objects, values: &Value) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(made), names(expected), "{values}");
    for (name, object) in expected {
        assert_eq!(&made[name], object, "{name:?} with {values}");
    }
}

const WAYS: [&str; 2] = ["wrapper", "shim"];

/// 2 versions, 4 choices of ways, and 3 settings: 64.
fn the_charts_policies_are_those_of_the_overlays() {
    if !can_helm() {
        return;
    }
    let mut compared = 0;
    for bits in 0..16 {
        let [beta, dry_run, openshift, heal] = [0, 1, 2, 3].map(|at| bits >> at & 1 == 1);
        let with =
            components(&[("heal", heal), ("openshift", openshift), ("dry-run", dry_run), ("v1beta1", beta)]);
        let all = kustomize(&["admission", "wrapper", "shim"], &with, &json!({}));
        for ways in (0..4).map(|bits| chosen(&WAYS, bits)) {
            let mut values = json!({
                "admission": if beta { "v1beta1" } else { "v1" },
                "dryRun": dry_run, "openshift": openshift, "heal": heal,
            });
            merge(&mut values, &switched_on(&ways));
            let is_chosen = |name: &str| name == "peermem-gate" || ways.iter().any(|way| name.ends_with(way));
            let expected = all.clone().into_iter().filter(|((_, name), _)| is_chosen(name)).collect();
            assert_same(&chart(&values), &expected, &values);
            compared += 1;
        }
    }
    note!("{compared} combinations of policies");
    assert_eq!(compared, 64);
    assert!(chart(&json!({"admission": "none"})).is_empty());
}

/// With no value except the image: with admission and without.
fn the_charts_default_is_the_overlays() {
    if !can_helm() {
        return;
    }
    let words = ["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
    let image = json!({"image": {"repository": "registry.example/a/peermem-gate", "tag": "7.8.9"}});
    let keeper = kustomize(&["keeper"], &[], &from_outside());
    assert_same(&by_name(unlabeled(helm(&image, &[]).unwrap())), &keeper, &image);
    let mut all = kustomize(&["admission", "wrapper", "shim"], &["image", "heal"], &json!({}));
    all.extend(keeper);
    assert_same(&by_name(unlabeled(helm(&image, &words).unwrap())), &all, &image);
    // The overlays are these parts, and nothing else.
    let keeper = kustomize(&["keeper"], &[], &json!({}));
    assert_same(&kustomize(&["overlays/driver-manager"], &[], &json!({})), &keeper, &image);
    let mut all = kustomize(&["admission", "wrapper", "shim"], &["image", "heal"], &json!({}));
    all.extend(keeper);
    assert_same(&kustomize(&["overlays/default"], &[], &json!({})), &all, &image);
}

/// With 4 choices of ways.
fn the_charts_nvlink5_policies_are_those_of_the_component() {
    if !can_helm() {
        return;
    }
    let all = kustomize(&["admission", "wrapper", "shim"], &components(&[("nvlink5", true)]), &json!({}));
    for ways in (0..4).map(|bits| chosen(&WAYS, bits)) {
        let mut values = json!({"admission": "v1", "nvlink5": true});
        merge(&mut values, &switched_on(&ways));
        let is_chosen = |name: &str| name == "peermem-gate" || ways.iter().any(|way| name.ends_with(way));
        let expected = all.clone().into_iter().filter(|((_, name), _)| is_chosen(name)).collect();
        assert_same(&chart(&values), &expected, &values);
    }
}

const PARTS: [&str; 3] = ["npd", "nfd", "textfile"];

/// 3 parts and the readiness rule, which has a dry run, with MOFED on the host or not, on `OpenShift` or not: 96.
fn the_charts_node_checks_are_those_of_the_kustomizations() {
    if !can_helm() {
        return;
    }
    let mut compared = 0;
    let rule = kustomize(&["node/readiness"], &[], &json!({}));
    for (host_mofed, openshift) in BOTH.into_iter().flat_map(|host| BOTH.map(|openshift| (host, openshift))) {
        let with = components_of_nodes(host_mofed, openshift);
        let each = PARTS.map(|part| kustomize(&[&format!("node/{part}")], &with, &from_outside()));
        for bits in 0..8 {
            for (readiness, dry_run) in [(false, true), (true, true), (true, false)] {
                let mut values = json!({
                    "hostMofed": host_mofed, "openshift": openshift,
                    "readiness": {"enabled": readiness, "dryRun": dry_run},
                });
                merge(&mut values, &switched_on(&chosen(&PARTS, bits)));
                let parts: Vec<_> =
                    (0..3).filter(|at| bits >> at & 1 == 1).map(|at| each[at].clone()).collect();
                let mut expected = together(parts);
                if readiness {
                    expected.extend(rule.clone().into_iter().map(|(name, mut rule)| {
                        rule["spec"]["dryRun"] = json!(dry_run);
                        (name, rule)
                    }));
                }
                assert_same(&chart(&values), &expected, &values);
                compared += 1;
            }
        }
    }
    note!("{compared} combinations of node checks");
    assert_eq!(compared, 96);
}

/// The components for the node's `DaemonSets`.
fn components_of_nodes(host_mofed: bool, openshift: bool) -> Vec<&'static str> {
    host_mofed.then_some("host-mofed").into_iter().chain(openshift.then_some("openshift")).collect()
}

/// These parts' objects, with one `DaemonSet` for all of them.
fn together(parts: Vec<Objects>) -> Objects {
    let count = parts.len();
    let mut all = Objects::new();
    let mut one: Option<Value> = None;
    for (key, object) in parts.into_iter().flatten() {
        if count < 2 || key.0 != "DaemonSet" {
            all.insert(key, object);
            continue;
        }
        let Some(one) = &mut one else {
            one = Some(object);
            continue;
        };
        let (into, from) = (&mut one["spec"]["template"]["spec"], &object["spec"]["template"]["spec"]);
        for list in ["containers", "volumes"] {
            for more in from[list].as_array().unwrap() {
                let all = into[list].as_array_mut().unwrap();
                match all.iter().find(|one| one["name"] == more["name"]) {
                    Some(same) => assert_eq!(same, more, "{list} of one name differ"),
                    None => all.push(more.clone()),
                }
            }
        }
        for same in
            ["initContainers", "hostPID", "nodeSelector", "affinity", "tolerations", "securityContext"]
        {
            assert_eq!(into[same], from[same], "{same}");
        }
    }
    if let Some(mut one) = one {
        one["metadata"]["name"] = json!("peermem-gate-node");
        for labels in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            one.pointer_mut(labels).unwrap()["app.kubernetes.io/name"] = json!("peermem-gate-node");
        }
        all.extend(by_name(vec![one]));
    }
    all
}

/// What looks at a node is one pod.
fn the_charts_parts_share_the_daemonset_of_the_kustomization() {
    if !can_helm() {
        return;
    }
    for openshift in BOTH {
        let with: Vec<&str> = openshift.then_some("openshift").into_iter().collect();
        let mut values = switched_on(&["npd", "nfd", "textfile", "doctor"]);
        values["openshift"] = json!(openshift);
        assert_same(&chart(&values), &kustomize(&["node/together"], &with, &from_outside()), &values);
    }
    // A report is not only of nodes with a NIC.
    for host_mofed in BOTH {
        let mut values = switched_on(&["nfd", "doctor"]);
        values["hostMofed"] = json!(host_mofed);
        let made = chart(&values);
        let mut daemonsets = made.values().filter(|object| object["kind"] == "DaemonSet");
        let spec = &daemonsets.next().unwrap()["spec"]["template"]["spec"];
        assert!(daemonsets.next().is_none(), "{values}");
        let labels: Vec<_> = spec["nodeSelector"].as_object().unwrap().keys().collect();
        assert_eq!(labels, ["feature.node.kubernetes.io/pci-10de.present"]);
        let containers = spec["containers"].as_array().unwrap();
        assert_eq!((&containers[0]["name"], &containers[1]["name"]), (&json!("nfd"), &json!("doctor")));
        let variable = json!({"name": "USE_HOST_MOFED", "value": "true"});
        for container in containers {
            let is_set = container["env"].as_array().unwrap().contains(&variable);
            assert_eq!(is_set, host_mofed, "{container:#}");
        }
        assert_eq!(spec["automountServiceAccountToken"], json!(false), "no container of it needs a token");
    }
}

/// 4 of them, with MOFED on the host or not, on `OpenShift` or not: 64.
fn the_rest_of_the_chart_is_that_of_the_kustomizations() {
    if !can_helm() {
        return;
    }
    let mut compared = 0;
    for (host_mofed, openshift) in BOTH.into_iter().flat_map(|host| BOTH.map(|openshift| (host, openshift))) {
        let with = components_of_nodes(host_mofed, openshift);
        let keeper = kustomize(&["keeper"], &with, &from_outside());
        let doctor = kustomize(&["fleet"], &with, &from_outside_at(helm::DOCTOR));
        let monitoring = kustomize(&["monitoring"], &[], &json!({"namespace": helm::NAMESPACE}));
        for bits in 0..16 {
            let names = chosen(&["keeper", "doctor", "alerts", "dashboard"], bits);
            let mut values = switched_on(&names);
            merge(&mut values, &json!({"hostMofed": host_mofed, "openshift": openshift}));
            let mut expected = Objects::new();
            for name in names {
                let one =
                    |kind: &str| monitoring.clone().into_iter().filter(|(key, _)| key.0 == kind).collect();
                let part: Objects = match name {
                    "keeper" => keeper.clone(),
                    "doctor" => doctor.clone(),
                    "alerts" => one("PrometheusRule"),
                    _ => one("ConfigMap"),
                };
                expected.extend(part);
            }
            assert_same(&chart(&values), &expected, &values);
            compared += 1;
        }
    }
    note!("{compared} combinations of the rest");
    assert_eq!(compared, 64);
}

const IMAGES: &str = "image.repository=a/b,image.tag=1.2.3,doctor.image.repository=a/d,doctor.image.tag=1.2.3,\
                      npd.image.repository=a/n,shell.image.repository=a/s";

fn everything() -> Value {
    let mut all = switched_on(&["wrapper", "shim", "npd", "nfd", "textfile", "readiness"]);
    merge(&mut all, &switched_on(&["doctor", "alerts", "dashboard"]));
    merge(&mut all, &json!({"admission": "v1"}));
    all
}

/// So the combinations above are all of them: each part is the same, whatever the values of the others are.
fn the_charts_parts_do_not_depend_on_each_other() {
    if !can_helm() {
        return;
    }
    let policies = json!({"dryRun": true, "heal": true, "wrapper": {"timeout": "7m"}});
    let nodes = json!({"hostMofed": true, "readiness": {"dryRun": false}});
    let select = |objects: Objects, is_policy: bool| -> Objects {
        objects.into_iter().filter(|((kind, _), _)| kind.starts_with("Mutating") == is_policy).collect()
    };
    let [mut with_policies, mut with_nodes] = [everything(), everything()];
    merge(&mut with_policies, &policies);
    merge(&mut with_nodes, &nodes);
    assert_same(&select(chart(&with_policies), false), &select(chart(&everything()), false), &policies);
    assert_same(&select(chart(&with_nodes), true), &select(chart(&everything()), true), &nodes);
    assert_ne!(select(chart(&with_policies), true), select(chart(&everything()), true));
    assert_ne!(select(chart(&with_nodes), false), select(chart(&everything()), false));
}

fn the_chart_takes_values_and_refuses_senseless_ones() {
    if !can_helm() {
        return;
    }
    let refusal = helm(&json!({}), &[]).unwrap_err();
    assert!(refusal.contains("image.repository is not set"), "{refusal}");
    let refusal = helm(&json!({"image": {"repository": "a/b"}}), &[]).unwrap_err();
    assert!(refusal.contains("neither image.tag nor image.digest is set"), "{refusal}");
    let digest = format!("sha256:{}", "0".repeat(64));
    for (more, image) in [
        ("image.tag=1.2.3", "'a/b:1.2.3'".to_owned()),
        (&*format!("image.digest={digest}"), format!("'a/b@{digest}'")),
    ] {
        let words = ["--set", "image.repository=a/b", "--set", more];
        let rendered = by_name(helm(&json!({"admission": "v1"}), &words).unwrap());
        let policy = &rendered[&("MutatingAdmissionPolicy".to_owned(), "peermem-gate".to_owned())];
        assert_eq!(variable(policy, "image"), Some(&*image));
    }
    let wrong = [
        (json!({"timeout": 60}), "/timeout"),
        (json!({"timeout": "60"}), "/timeout"),
        (json!({"dryRun": "yes"}), "/dryRun"),
        (json!({"admission": "v2"}), "/admission"),
        (json!({"admission": "kyverno"}), "admission=kyverno is gone: the keeper needs no admission"),
        (json!({"keep": {"enabled": true}}), "keep.enabled is gone: keeper.enabled"),
        (json!({"hostDriver": {"enabled": true}}), "hostDriver.enabled is gone: keeper.enabled"),
        (json!({"imageVolume": true}), "imageVolume is gone"),
        (json!({"pool": "host"}), "pool is gone: the node checks find out what each node wants"),
        (json!({"wraper": {"enabled": true}}), "wraper"),
        (json!({"image": {"repository": "it's"}}), "/image/repository"),
        (json!({"image": {"tag": "1.2.3+4"}}), "/image/tag"),
    ];
    for (values, place) in wrong {
        let mut all = json!({"image": {"repository": "a/b", "tag": "1.2.3"}});
        merge(&mut all, &values);
        let refusal = helm(&all, &[]).unwrap_err();
        assert!(refusal.contains(place), "{values}: {refusal}");
    }
}

/// Everything that it can make, for each version of Kubernetes that it says it is for.
fn the_schemas_accept_the_charts_objects() {
    if !can_helm() {
        return;
    }
    let Some(mut checker) = Checker::start() else { return };
    for (values, first) in [
        (json!({}), 36),
        (json!({"admission": "v1beta1"}), 34),
        (json!({"hostMofed": true, "openshift": true}), 36),
    ] {
        let mut all = everything();
        merge(&mut all, &values);
        let (made, tests) = helm::rendered(&all, &["--set", IMAGES]).unwrap();
        for object in made.iter().chain(&tests) {
            let kind = object["kind"].as_str().unwrap();
            for minor in 30..=37 {
                let answer = checker.ask(&json!({"validate": object, "version": format!("1.{minor}")}));
                let is_unknown = ["NodeReadinessRule", "PrometheusRule"].contains(&kind)
                    || kind.starts_with("Mutating") && minor < first;
                assert_eq!(
                    answer,
                    if is_unknown { json!("unknown") } else { Value::Null },
                    "{kind} in 1.{minor}"
                );
            }
        }
    }
}

/// Lint, and NOTES that tell how to go on; a package holds all that it renders.
fn the_chart_passes_lint_and_has_notes() {
    if !can_helm() {
        return;
    }
    let directory = root().join("charts/peermem-gate");
    let values = ["--set", "image.repository=a/b,image.tag=1.2.3,admission=v1"];
    let lint = output(Command::new(tool("helm")).args(["lint", "--strict"]).arg(&directory).args(values));
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let scratch = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let output = output(Command::new(tool("helm")).args(words).current_dir(scratch.path()));
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["package", directory.to_str().unwrap()]);
    let version = env!("CARGO_PKG_VERSION");
    let package = format!("peermem-gate-{version}.tgz");
    let mut words = vec!["template", "release", &package];
    words.extend(values);
    let of_package = run(&words);
    words[2] = directory.to_str().unwrap();
    assert_eq!(of_package, run(&words), "a package is the directory, with what its links lead to");
    let described = yaml(&directory.join("Chart.yaml")).remove(0);
    assert_eq!((&described["version"], &described["appVersion"]), (&json!(version), &json!(version)));
    let home = env!("CARGO_PKG_REPOSITORY");
    assert_eq!((&described["home"], &described["sources"]), (&json!(home), &json!([home])));
    let (_, icon) = described["icon"].as_str().unwrap().split_once("/main/").unwrap();
    assert!(root().join(icon).is_file(), "{icon}");
    let readme = run(&["show", "readme", &package]);
    assert_eq!(readme.trim(), fs::read_to_string(directory.join("README.md")).unwrap().trim());
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        the_charts_policies_are_those_of_the_overlays,
        the_charts_default_is_the_overlays,
        the_charts_nvlink5_policies_are_those_of_the_component,
        the_charts_node_checks_are_those_of_the_kustomizations,
        the_charts_parts_share_the_daemonset_of_the_kustomization,
        the_rest_of_the_chart_is_that_of_the_kustomizations,
        the_charts_parts_do_not_depend_on_each_other,
        the_chart_takes_values_and_refuses_senseless_ones,
        the_schemas_accept_the_charts_objects,
        the_chart_passes_lint_and_has_notes
    ]
}
