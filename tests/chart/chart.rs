// SPDX-License-Identifier: Apache-2.0
//! The chart makes what kustomize makes of the same manifests, object by object; and it refuses what makes no sense.

use crate::cluster::{Helper, checker, manifests, policy, root, set_variable, tool, variable, yaml};
use crate::helm::{
    self, Objects, by_name, can_helm, chart, from_outside, from_outside_at, helm, kustomize, merge, unlabeled,
};
use crate::support::{note, output, tests};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

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

/// Except for the `ServiceAccount`, which only the chart makes.
fn assert_same(made: &Objects, expected: &Objects, values: &Value) {
    let mut made = made.clone();
    let account = made.remove(&("ServiceAccount".to_owned(), "peermem-gate".to_owned()));
    for object in made.values_mut().filter(|object| object["kind"] == "DaemonSet") {
        let spec = object["spec"]["template"]["spec"].as_object_mut().unwrap();
        if spec["serviceAccountName"] == "peermem-gate" {
            spec.remove("serviceAccountName");
            assert!(account.is_some(), "{values}");
        }
    }
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(expected), "{values}");
    for (name, object) in expected {
        assert_eq!(&made[name], object, "{name:?} with {values}");
    }
}

const GATE: &str = "registry.example/a/peermem-gate:7.8.9";

/// The manifest with the values as its settings.
fn the_charts_policy_is_that_of_the_manifest() {
    for (timeout, dry_run, namespaces) in
        [("60m", false, ["gpu-operator", "nvidia-gpu-operator"].as_slice()), ("none", true, &["gpus"])]
    {
        let wait = json!({"enabled": true, "timeout": timeout, "dryRun": dry_run, "namespaces": namespaces});
        let made = chart(&json!({ "wait": wait }));
        let mut expected = policy("init-container");
        for (name, value) in
            [("image", GATE), ("timeout", timeout), ("dryRun", if dry_run { "true" } else { "false" })]
        {
            set_variable(&mut expected, name, &format!("'{value}'"));
        }
        let selector = "/spec/matchConstraints/namespaceSelector/matchExpressions/0/values";
        *expected.pointer_mut(selector).unwrap() = json!(namespaces);
        let binding = yaml(&manifests().join("wait/init-container.yaml")).remove(1);
        assert_same(&made, &by_name(vec![expected, binding]), &wait);
    }
    assert!(chart(&json!({})).is_empty());
}

/// With no value: the keeper, as kustomize makes it of the manifest as it stands.
fn the_charts_default_is_the_keeper() {
    let made = by_name(unlabeled(helm(&json!({}), &[]).unwrap()));
    assert_same(&made, &kustomize(&["keeper"], &json!({})), &json!({}));
    let image = json!({"image": {"repository": "registry.example/a/peermem-gate", "tag": "7.8.9"}});
    let made = by_name(unlabeled(helm(&image, &[]).unwrap()));
    assert_same(&made, &kustomize(&["keeper"], &from_outside()), &image);
}

/// 2 parts and the readiness rule, which has a dry run: 12.
fn the_charts_node_checks_are_those_of_the_kustomizations() {
    let mut compared = 0;
    let rule = kustomize(&["node/readiness"], &json!({}));
    let parts = ["npd", "nfd"];
    let each = parts.map(|part| kustomize(&[&format!("node/{part}")], &from_outside()));
    for bits in 0..4 {
        for (readiness, dry_run) in [(false, true), (true, true), (true, false)] {
            let mut values = json!({"readiness": {"enabled": readiness, "dryRun": dry_run}});
            merge(&mut values, &switched_on(&chosen(&parts, bits)));
            let chosen: Vec<_> = (0..2).filter(|at| bits >> at & 1 == 1).map(|at| each[at].clone()).collect();
            let mut expected = together(chosen);
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
    note!("{compared} combinations of node checks");
    assert_eq!(compared, 12);
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
        // That of node-problem-detector has the token, and comes first.
        let (first, second) = match one.take() {
            None => {
                one = Some(object);
                continue;
            }
            Some(other) if object["metadata"]["name"] == "peermem-problem-detector" => (object, other),
            Some(other) => (other, object),
        };
        let mut into = first;
        let (spec, from) = (&mut into["spec"]["template"]["spec"], &second["spec"]["template"]["spec"]);
        for list in ["containers", "volumes"] {
            for more in from[list].as_array().unwrap() {
                let all = spec[list].as_array_mut().unwrap();
                match all.iter().find(|one| one["name"] == more["name"]) {
                    Some(same) => assert_eq!(same, more, "{list} of one name differ"),
                    None => all.push(more.clone()),
                }
            }
        }
        for same in
            ["initContainers", "hostPID", "nodeSelector", "affinity", "tolerations", "securityContext"]
        {
            assert_eq!(spec[same], from[same], "{same}");
        }
        one = Some(into);
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

/// A report is not only of nodes with a NIC.
fn the_charts_parts_share_a_daemonset() {
    let values = switched_on(&["nfd", "doctor"]);
    let made = chart(&values);
    let mut daemonsets = made.values().filter(|object| object["kind"] == "DaemonSet");
    let spec = &daemonsets.next().unwrap()["spec"]["template"]["spec"];
    assert!(daemonsets.next().is_none(), "{values}");
    let labels: Vec<_> = spec["nodeSelector"].as_object().unwrap().keys().collect();
    assert_eq!(labels, ["feature.node.kubernetes.io/pci-10de.present"]);
    let containers = spec["containers"].as_array().unwrap();
    assert_eq!((&containers[0]["name"], &containers[1]["name"]), (&json!("nfd"), &json!("doctor")));
    assert_eq!(spec["automountServiceAccountToken"], json!(false), "no container of it needs a token");
}

/// 4 of them: 16.
fn the_rest_of_the_chart_is_that_of_the_kustomizations() {
    let keeper = kustomize(&["keeper"], &from_outside());
    let doctor = kustomize(&["fleet"], &from_outside_at(helm::DOCTOR));
    let monitoring = kustomize(&["monitoring"], &json!({"namespace": helm::NAMESPACE}));
    for bits in 0..16 {
        let names = chosen(&["keeper", "doctor", "alerts", "dashboard"], bits);
        let values = switched_on(&names);
        let mut expected = Objects::new();
        for name in names {
            let one = |kind: &str| monitoring.clone().into_iter().filter(|(key, _)| key.0 == kind).collect();
            let part: Objects = match name {
                "keeper" => keeper.clone(),
                "doctor" => doctor.clone(),
                "alerts" => one("PrometheusRule"),
                _ => one("ConfigMap"),
            };
            expected.extend(part);
        }
        assert_same(&chart(&values), &expected, &values);
    }
}

fn everything() -> Value {
    switched_on(&["keeper", "wait", "metrics", "npd", "nfd", "readiness", "doctor", "alerts", "dashboard"])
}

fn the_chart_takes_values_and_refuses_senseless_ones() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for (more, image) in [
        ("image.tag=1.2.3", "'a/b:1.2.3'".to_owned()),
        (&*format!("image.digest={digest}"), format!("'a/b@{digest}'")),
        ("image.digest=", format!("'a/b:{}'", env!("CARGO_PKG_VERSION"))),
    ] {
        let words = ["--set", "image.repository=a/b", "--set", more];
        let rendered = by_name(helm(&json!({"wait": {"enabled": true}}), &words).unwrap());
        let policy = &rendered[&("MutatingAdmissionPolicy".to_owned(), "peermem-gate".to_owned())];
        assert_eq!(variable(policy, "image"), Some(&*image));
    }
    let wrong = [
        (json!({"wait": {"timeout": 60}}), "/wait/timeout"),
        (json!({"wait": {"timeout": "60"}}), "/wait/timeout"),
        (json!({"wait": {"namespaces": []}}), "/wait/namespaces"),
        (json!({"keeper": {"dryRun": "yes"}}), "/keeper/dryRun"),
        (json!({"logFormat": "xml"}), "/logFormat"),
        (json!({"keper": {"enabled": true}}), "keper"),
        (json!({"image": {"repository": "it's"}}), "/image/repository"),
        (json!({"image": {"tag": "1.2.3+4"}}), "/image/tag"),
        (json!({"image": {"tag": "0.3.0"}}), "image.tag is 0.3.0: this chart needs 0.4 or later"),
        (json!({"doctor": {"image": {"tag": "0.3.0"}}}), "doctor.image.tag is 0.3.0"),
    ];
    for (values, place) in wrong {
        let refusal = helm(&values, &[]).unwrap_err();
        assert!(refusal.contains(place), "{values}: {refusal}");
    }
}

/// What 0.3.0 and earlier took: it works as it is, or the refusal has the new name.
fn the_values_of_0_3_0_work_or_are_refused_with_the_new_name() {
    let works = json!({
        "image": {"repository": "registry.example/peermem-gate", "tag": "1.2.3"},
        "admission": "auto", "openshift": true, "heal": true, "hostMofed": false, "nvlink5": false, "dryRun": false,
        "namespace": "", "wrapper": {"enabled": false, "timeout": "10m"}, "shim": {"enabled": false},
        "textfile": {"enabled": false, "resources": {}}, "keeper": {"enabled": true, "resources": {}},
        "npd": {"enabled": true, "image": {"repository": "registry.example/npd"}},
    });
    helm(&works, &[]).expect("nothing of it asks for what is gone");
    let gone = [
        (json!({"admission": "v1"}), "admission", "wait.enabled=true"),
        (json!({"admission": "kyverno"}), "admission", "The keeper needs no admission"),
        (json!({"namespace": "gpus"}), "namespace", "wait.namespaces"),
        (json!({"timeout": "30m"}), "timeout", "wait.timeout"),
        (json!({"dryRun": true}), "dryRun", "keeper.dryRun"),
        (json!({"nvlink5": true}), "nvlink5", "wait.enabled=true"),
        (json!({"hostMofed": true}), "hostMofed", "USE_HOST_MOFED"),
        (json!({"wrapper": {"enabled": true}}), "wrapper.enabled", "manifests/wait/wrapper.yaml"),
        (json!({"shim": {"enabled": true}}), "shim.enabled", "manifests/wait/shim.yaml"),
        (json!({"textfile": {"enabled": true}}), "textfile.enabled", "by itself"),
        (json!({"textfile": {"directory": "/m"}}), "textfile.directory", "metrics.directory"),
        (json!({"keep": {"enabled": true}}), "keep.enabled", "keeper.enabled"),
        (json!({"hostDriver": {"enabled": true}}), "hostDriver.enabled", "keeper.enabled"),
        (json!({"imageVolume": true}), "imageVolume", "Nothing is to be set"),
        (json!({"pool": "host"}), "pool", "each node is asked"),
    ];
    for (values, name, new) in gone {
        let refusal = helm(&values, &[]).unwrap_err();
        assert!(
            refusal.contains(&format!("{name} is gone. ")) && refusal.contains(new),
            "{values}: {refusal}"
        );
    }
    for path in ["wrapper.yaml", "shim.yaml"] {
        assert!(manifests().join("wait").join(path).is_file(), "{path}");
    }
}

/// Kinds that Kubernetes' schemas do not know.
const OTHERS: [&str; 3] = ["NodeReadinessRule", "PrometheusRule", "PodMonitor"];

/// Everything that it can make, for each version of Kubernetes that it says it is for.
fn the_schemas_accept_the_charts_objects(checker: &mut Helper) {
    let (made, tests) =
        helm::rendered(&everything(), &["--api-versions", "security.openshift.io/v1"]).unwrap();
    for object in made.iter().chain(&tests) {
        let kind = object["kind"].as_str().unwrap();
        for minor in 30..=37 {
            let answer = checker.ask(&json!({"validate": object, "version": format!("1.{minor}")}));
            let is_unknown = OTHERS.contains(&kind) || kind.starts_with("Mutating") && minor < 36;
            assert_eq!(
                answer,
                if is_unknown { json!("unknown") } else { Value::Null },
                "{kind} in 1.{minor}"
            );
        }
    }
}

/// Lint, and NOTES that tell how to go on; a package holds all that it renders.
fn the_chart_passes_lint_and_has_notes() {
    let directory = root().join("charts/peermem-gate");
    let values = ["--set", "wait.enabled=true,metrics.enabled=true"];
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

tests![
    if can_helm [
        the_charts_policy_is_that_of_the_manifest,
        the_charts_default_is_the_keeper,
        the_charts_node_checks_are_those_of_the_kustomizations,
        the_charts_parts_share_a_daemonset,
        the_rest_of_the_chart_is_that_of_the_kustomizations,
        the_chart_takes_values_and_refuses_senseless_ones,
        the_values_of_0_3_0_work_or_are_refused_with_the_new_name,
        the_chart_passes_lint_and_has_notes,
    ],
    if can_helm on checker [the_schemas_accept_the_charts_objects],
];
