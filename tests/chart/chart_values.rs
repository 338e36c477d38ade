// SPDX-License-Identifier: Apache-2.0
//! The chart's values: each is described, none may be null, and what goes with the cluster is asked or refused.

use crate::cluster::{self, root, yaml};
use crate::helm::{by_name, can_helm, chart, helm, merge, notes, rendered};
use crate::support::{code, gate, note, output, tests, write_program};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread;
use tempfile::TempDir;

/// Everything that the chart installs.
fn everything() -> Value {
    let on = json!({"enabled": true});
    let parts = ["wait", "metrics", "npd", "nfd", "readiness", "doctor", "alerts", "dashboard"];
    Value::Object(parts.iter().map(|part| ((*part).to_owned(), on.clone())).collect())
}

/// The paths of all values, groups of values included, with their defaults.
fn paths(values: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, value) in values.as_object().unwrap() {
        found.push((name.clone(), value.clone()));
        if value.as_object().is_some_and(|object| !object.is_empty()) {
            found.extend(paths(value).into_iter().map(|(path, value)| (format!("{name}.{path}"), value)));
        }
    }
    found
}

fn defaults() -> Value {
    yaml(&root().join("charts/peermem-gate/values.yaml")).remove(0)
}

/// This value at this path, as a file of values has it.
fn at(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| json!({ name: value }))
}

/// helm drops null before it asks the schema, which may not be asked at all.
fn the_chart_refuses_null_values() {
    let paths: Vec<_> = paths(&defaults()).into_iter().map(|(path, _)| path).collect();
    note!("{} values", paths.len());
    assert!(paths.len() >= 70, "{paths:?}");
    thread::scope(|scope| {
        for part in paths.chunks(paths.len().div_ceil(4)) {
            scope.spawn(move || part.iter().for_each(|path| assert_refused_where_null(path)));
        }
    });
}

fn assert_refused_where_null(path: &str) {
    let mut values = everything();
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    merge(&mut values, &at(path, json!("to be null")));
    let pointer = format!("/{}", path.replace('.', "/"));
    *values.pointer_mut(&pointer).unwrap() = Value::Null;
    let refusal = helm(&values, &[]).expect_err(path);
    assert!(refusal.contains(&format!("missing property '{name}'")), "{path} in {above:?}: {refusal}");
    let refusal = helm(&values, &["--skip-schema-validation"]).expect_err(path);
    assert!(refusal.contains("execution error") || refusal.contains("nil pointer"), "{path}: {refusal}");
}

fn an_empty_option_is_refused_with_and_without_the_schema() {
    let values = json!({"metrics": {"directory": ""}});
    let refusal = helm(&values, &[]).unwrap_err();
    assert!(refusal.contains("/metrics/directory"), "{refusal}");
    let refusal = helm(&values, &["--skip-schema-validation"]).unwrap_err();
    assert!(refusal.contains("metrics.directory is \"\": it must be an absolute path"), "{refusal}");
    for value in ["", "60", "1.5h", "60m "] {
        let values = at("wait.timeout", json!(value));
        helm(&values, &[]).expect_err(value);
        let refusal = helm(&values, &["--skip-schema-validation"]).expect_err(value);
        assert!(refusal.contains(&format!("wait.timeout is {value:?}: it must be a number")), "{refusal}");
    }
}

/// The schema describes each value, requires it, and names no other.
fn every_value_has_a_default_and_a_description() {
    let schema = serde_json::from_slice(
        &std::fs::read(root().join("charts/peermem-gate/values.schema.json")).unwrap(),
    )
    .unwrap();
    assert_described(&schema, &defaults(), "the chart");
}

fn assert_described(schema: &Value, defaults: &Value, place: &str) {
    let description = schema["description"].as_str().unwrap_or_default();
    assert!(description.ends_with('.') && description.contains(' '), "{place}: {description:?}");
    let Some(properties) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{place}");
    // Nobody sets the first, and helm adds it. The others were values of an earlier chart.
    let is_set = |name: &&String| {
        let described = properties[*name]["description"].as_str().unwrap_or_default();
        !described.starts_with("A value of an earlier chart.") && *name != "global"
    };
    let names: BTreeSet<_> = properties.keys().filter(is_set).collect();
    let values: BTreeSet<_> = defaults.as_object().expect(place).keys().collect();
    assert_eq!(names, values, "{place}: the schema's and the values");
    let required = schema["required"].as_array().expect(place).iter().map(|name| name.as_str().unwrap());
    assert_eq!(required.collect::<BTreeSet<_>>(), names.iter().map(|n| n.as_str()).collect(), "{place}");
    for (name, property) in properties {
        assert_described(property, &defaults[name], &format!("{place}: {name}"));
    }
}

/// Where the cluster can be asked; a file of `helm template` is for whatever cluster it is for.
fn a_cluster_without_the_policys_kind_refuses_the_wait_with_a_sentence() {
    let asked = ["--api-versions", "v1/Pod", "--kube-version", "1.35.8-gke.1000"];
    let made = by_name(helm(&json!({}), &asked).unwrap());
    assert!(made.keys().all(|(kind, _)| !kind.starts_with("Mutating")), "{made:?}");
    let wait = json!({"wait": {"enabled": true}});
    let refusal = helm(&wait, &asked).unwrap_err();
    let sentence = "wait.enabled needs admissionregistration.k8s.io/v1/MutatingAdmissionPolicy, which Kubernetes has \
                    since 1.36, and this cluster (Kubernetes v1.35.8-gke.1000) has not";
    assert!(refusal.contains(sentence), "{refusal}");
    let kind = ["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
    helm(&wait, &[&asked[..], &kind].concat()).expect("it has it");
    helm(&wait, &[]).expect("no cluster was asked");
}

/// `helm test` is of the keeper, by the file that it leaves on the node.
fn the_charts_test_asks_the_keeper_of_a_node() {
    let (made, tests) = rendered(&json!({}), &[]).unwrap();
    let keeper =
        &made.iter().find(|object| object["kind"] == "DaemonSet").unwrap()["spec"]["template"]["spec"];
    let [test] = &tests[..] else { panic!("{tests:?}") };
    // What is deleted once it has succeeded has no log.
    let hook = json!({"helm.sh/hook": "test", "helm.sh/hook-delete-policy": "before-hook-creation"});
    assert_eq!(test["metadata"]["annotations"], hook);
    for same in ["affinity", "tolerations"] {
        assert_eq!(test["spec"][same], keeper[same], "{same}");
    }
    let volume = |spec: &Value| {
        spec["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "run").cloned()
    };
    assert_eq!(volume(&test["spec"]), volume(keeper));
    let container = &test["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
    let status = &container["args"][1];
    assert!(keeper["containers"][0]["args"].as_array().unwrap().contains(status), "{status}");
    let place = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(status.as_str().unwrap().starts_with(&format!("--status-file={place}/")), "{status}");
    // The keeper has not looked yet.
    let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words = words.map(|word| word.replace(place, "/no/such/directory"));
    let ran = output(gate().args(words));
    assert_eq!(code(ran.status), 2, "{}", String::from_utf8_lossy(&ran.stderr));
    let named = json!({"test": {"node": "gpu-7"}});
    let spec = &rendered(&named, &[]).unwrap().1[0]["spec"];
    // A node's name is not always its label kubernetes.io/hostname.
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is = json!({"key": "metadata.name", "operator": "In", "values": ["gpu-7"]});
    assert_eq!(terms["nodeSelectorTerms"], json!([{"matchFields": [is]}]));
    assert!(spec.get("nodeSelector").is_none(), "{spec}");
    let marked =
        json!({"podLabels": {"team": "gpu"}, "podAnnotations": {"sidecar.istio.io/inject": "false"}});
    let metadata = &rendered(&marked, &[]).unwrap().1[0]["metadata"];
    assert_eq!(metadata["labels"]["team"], "gpu");
    assert_eq!(metadata["annotations"]["sidecar.istio.io/inject"], "false");
    let off = json!({"keeper": {"enabled": false}});
    assert!(rendered(&off, &[]).unwrap().1.is_empty());
}

/// With metrics it asks every keeper that the Service knows: one is ready, one has nothing to do, one is blocked, and
/// one does not answer.
fn the_charts_test_says_how_many_keepers_are_ready() {
    let (made, tests) = rendered(&json!({"metrics": {"enabled": true, "port": 9999}}), &[]).unwrap();
    let service = made.iter().find(|object| object["kind"] == "Service").unwrap();
    let command = &tests[0]["spec"]["containers"][0]["command"];
    let words: Vec<_> = command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let [shell, option, script, name, asked, port] = words[..] else { panic!("{words:?}") };
    assert_eq!((asked, port), (service["metadata"]["name"].as_str().unwrap(), "9999"));
    let place = TempDir::new().unwrap();
    let program =
        |name: &str, text: &str| write_program(&place.path().join(name), format!("#!/bin/sh\n{text}\n"));
    program("wget", "exec cat \"${0%/*}/${6#http://}\"");
    let answer = |keepers: &[(&str, &str)]| {
        let addresses: String =
            keepers.iter().map(|(state, _)| ["Address: ", state, "\n"].concat()).collect();
        let said = format!("Server: 10.0.0.1\nAddress: 10.0.0.1:53\n\nName: {asked}\n{addresses}");
        program("nslookup", &format!("cat <<'E'\n{said}E"));
        for (state, verdict) in keepers.iter().filter(|(state, _)| *state != "silent") {
            let at = place.path().join(format!("{state}:{port}"));
            fs::create_dir_all(&at).unwrap();
            let metrics = format!(
                "peermem_gate_keep_state{{state=\"Other\"}} 0\npeermem_gate_keep_state{{state=\"{state}\"}} 1\n\
                 peermem_gate_verdict{{verdict=\"{verdict}\"}} 1\n"
            );
            fs::write(at.join("metrics"), metrics).unwrap();
        }
        let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
        let ran = output(Command::new(shell).args([option, script, name, asked, port]).env("PATH", path));
        (code(ran.status), String::from_utf8(ran.stdout).unwrap())
    };
    let (ready, idle) = (("Loaded", "Ready"), ("Waiting", "NotApplicable"));
    let (ends, said) = answer(&[ready, idle, ("Blocked", "Blocked"), ("silent", "")]);
    assert!(ends == 1 && said.ends_with("\n2 of 4 keepers are ready\n"), "{ends}: {said}");
    assert!(said.contains("\nsilent no answer \n") && said.contains("Blocked Blocked Blocked\n"), "{said}");
    let (ends, said) = answer(&[ready, idle]);
    assert!(ends == 0 && said.ends_with("\n2 of 2 keepers are ready\n"), "{ends}: {said}");
    assert_eq!(answer(&[]), (1, "0 of 0 keepers are ready\n".to_owned()));
}

/// In the chart's README, from the schema's descriptions: `BLESS=1 cargo test --test chart -- table_of_its_values`
/// writes it.
fn the_readme_has_the_table_of_its_values() {
    let place = root().join("charts/peermem-gate");
    let schema = serde_json::from_slice(&std::fs::read(place.join("values.schema.json")).unwrap()).unwrap();
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    describe(&schema, &defaults(), "", &mut table);
    let path = place.join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let begin = readme.find("| value | default |").expect("the table");
    let end = begin + readme[begin..].find("\n\n").expect("its end") + 1;
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &readme[..begin], &readme[end..])).unwrap();
        return;
    }
    assert_eq!(readme[begin..end], table, "BLESS=1 writes it");
}

/// A row for each value, in the order of the values' file.
fn describe(schema: &Value, defaults: &Value, above: &str, table: &mut String) {
    for name in schema["required"].as_array().expect(above).iter().map(|name| name.as_str().unwrap()) {
        let (property, default) = (&schema["properties"][name], &defaults[name]);
        if property["properties"].is_object() {
            describe(property, default, &format!("{above}{name}."), table);
            continue;
        }
        let shown = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        let shown = if shown.is_empty() { "empty".to_owned() } else { format!("`{shown}`") };
        // "Install it" says nothing without the group's own description.
        let described = if name == "enabled" { schema } else { property };
        let meaning = described["description"].as_str().unwrap().replace('|', "\\|");
        *table += &format!("| `{above}{name}` | {shown} | {meaning} |\n");
    }
}

/// The API's versions as clouds call them.
fn the_chart_is_for_the_versions_of_kubernetes_that_it_names() {
    let values = json!({});
    for version in
        ["1.27.0", "1.30.0", "v1.30.14-eks-1a2b3c4", "1.31.0+k3s1", "1.35.8-gke.1000", "1.37.0-alpha.1"]
    {
        helm(&values, &["--kube-version", version]).expect(version);
    }
    for version in ["1.26.15", "v1.26.15-gke.1"] {
        let refusal = helm(&values, &["--kube-version", version]).unwrap_err();
        assert!(refusal.contains("incompatible with Kubernetes"), "{refusal}");
    }
}

/// What a label may hold: at most 63 characters, the first and the last a letter or a digit.
fn is_label_value(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_none_or(|end| end.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && is_end(text.chars().next())
        && is_end(text.chars().last())
}

fn the_label_of_the_version_is_one_that_kubernetes_allows() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let (long, ends) = ("v".repeat(128), format!("{}-.-.-1", "1".repeat(60)));
    let of_digest = json!({"tag": "", "digest": digest});
    for (image, label) in [
        (json!({"tag": "1.2.3"}), "1.2.3"),
        (json!({"tag": ""}), env!("CARGO_PKG_VERSION")),
        (json!({"tag": "1.2.3", "digest": digest}), "1.2.3"),
        (of_digest, "sha256_0123456789ab"),
        (json!({ "tag": long }), &long[..63]),
        (json!({ "tag": ends }), &ends[..60]),
        (json!({"tag": "_dev_"}), "dev"),
        (json!({"tag": "__"}), ""),
    ] {
        let mut values = json!({"keeper": {"enabled": true}, "doctor": {"enabled": true, "image": image}});
        values["image"] = image;
        for object in chart(&values).values().filter(|object| object["kind"] == "DaemonSet") {
            for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
                let found = &object.pointer(labels).unwrap()["app.kubernetes.io/version"];
                assert_eq!(found, label, "{values}");
                assert!(is_label_value(found.as_str().unwrap()), "{found}");
            }
        }
    }
}

const DAEMONSETS: [&str; 4] = ["npd", "nfd", "keeper", "doctor"];

/// With these parts alone.
fn daemonsets(parts: &[&str], values: &Value) -> Vec<Value> {
    let mut all = values.clone();
    for part in parts {
        merge(&mut all, &json!({ *part: {"enabled": true} }));
    }
    let made = chart(&all).into_iter().filter(|((kind, _), _)| kind == "DaemonSet");
    made.map(|(_, object)| object).collect()
}

fn the_daemonsets_take_what_a_cluster_asks_for() {
    let secrets = json!([{"name": "pull"}]);
    let tolerations = json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    let resources = json!({"limits": {"memory": "99Mi"}});
    let variable = json!({"name": "USE_HOST_MOFED", "value": "true"});
    for part in DAEMONSETS {
        let mut values = json!({
            "imagePullSecrets": secrets, "tolerations": tolerations, "priorityClassName": "high",
            "extraEnv": [variable], "podLabels": {"team": "a"}, "podAnnotations": {"note": "b"},
            "commonLabels": {"cost": "c"}, "image": {"pullPolicy": "Always"},
            "serviceAccount": {"create": false, "name": "theirs"},
            "logFormat": "json", "logLevel": "debug",
        });
        merge(&mut values, &json!({ part: {"resources": resources} }));
        let mut expected = daemonsets(&[part], &json!({})).remove(0);
        expected["metadata"]["labels"]["cost"] = json!("c");
        let template = &mut expected["spec"]["template"];
        template["metadata"]["labels"]["cost"] = json!("c");
        template["metadata"]["labels"]["team"] = json!("a");
        template["metadata"]["annotations"] = json!({"note": "b"});
        let pod = &mut template["spec"];
        pod["imagePullSecrets"] = secrets.clone();
        pod["tolerations"] = tolerations.clone();
        pod["priorityClassName"] = json!("high");
        // That of node-problem-detector has rights of its own.
        if part != "npd" {
            pod["serviceAccountName"] = json!("theirs");
        }
        for list in ["initContainers", "containers"] {
            for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["imagePullPolicy"] = json!("Always");
            }
        }
        let container = &mut pod["containers"][0];
        container["resources"] = resources.clone();
        let mut env = container["env"].as_array().cloned().unwrap_or_default();
        env.push(variable.clone());
        if ["keeper", "doctor"].contains(&part) {
            env.extend(
                [("FORMAT", "json"), ("LEVEL", "debug")]
                    .map(|(name, value)| json!({"name": format!("PEERMEM_GATE_LOG_{name}"), "value": value})),
            );
        }
        container["env"] = env.into();
        assert_eq!(daemonsets(&[part], &values), [expected], "{part}");
    }
}

/// The key is root's alone, and only keep has it.
fn the_keeper_gets_the_secret_to_sign_with() {
    let made = daemonsets(&["keeper"], &json!({"keeper": {"signing": {"secretName": "own"}}})).remove(0);
    let spec = &made["spec"]["template"]["spec"];
    let volumes = spec["volumes"].as_array().unwrap();
    let secret = json!({"name": "signing", "secret": {"secretName": "own", "defaultMode": 0o400}});
    assert!(volumes.contains(&secret), "{volumes:?}");
    let keep = &spec["containers"][0];
    let mount = json!({"name": "signing", "mountPath": "/etc/peermem-gate/signing", "readOnly": true});
    assert!(keep["volumeMounts"].as_array().unwrap().contains(&mount), "{keep}");
    assert!(
        keep["args"].as_array().unwrap().contains(&json!("--signing=/etc/peermem-gate/signing")),
        "{keep}"
    );
}

/// Three nodes first.
fn the_keeper_goes_to_the_nodes_that_are_chosen_and_does_nothing_in_a_dry_run() {
    let affinity = json!({"nodeAffinity": {}});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
    let values = json!({"keeper": {
        "dryRun": true, "nodeSelector": {"first": "true"}, "updateStrategy": strategy, "extraArgs": ["--settle=2s"],
    }});
    let plain = daemonsets(&["keeper"], &json!({})).remove(0);
    let mut expected = plain.clone();
    expected["spec"]["updateStrategy"] = strategy;
    let spec = &mut expected["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"first": "true"});
    let args = spec["containers"][0]["args"].as_array_mut().unwrap();
    args.extend([json!("--dry-run"), json!("--settle=2s")]);
    assert_eq!(daemonsets(&["keeper"], &values), [expected]);
    let made = daemonsets(&["keeper"], &json!({"keeper": {"affinity": affinity}})).remove(0);
    assert_eq!(
        made["spec"]["template"]["spec"]["affinity"], affinity,
        "still with the node's labels of a GPU otherwise"
    );
    // All of it is understood.
    let words = made["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let words = words.iter().map(|word| word.as_str().unwrap().replace("/host", "/no/such/root"));
    let ran = output(gate().args(words).args(["--dry-run", "--settle=2s"]));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(code(ran.status) == 2 && said.contains("/no/such/root is not a directory"), "{said}");
}

/// A mirror takes the place of each image's registry, the digest stays.
fn a_mirror_takes_the_place_of_every_registry() {
    let mut values = everything();
    let digest = format!("sha256:{}", "0".repeat(64));
    merge(&mut values, &json!({"image": {"registry": "mirror.example:5000/hub", "digest": digest}}));
    let made = helm(&values, &[]).unwrap();
    let mut images = BTreeSet::new();
    for object in made.iter().filter(|object| object["kind"] == "DaemonSet") {
        cluster::each_object(&object["spec"]["template"]["spec"], &mut |one| {
            images.extend(one.get("image").and_then(Value::as_str).map(str::to_owned));
        });
    }
    let names = ["peermem-gate/peermem-gate", "peermem-gate/peermem-doctor", "prometheus/node-exporter"];
    let names = names.into_iter().chain(["node-problem-detector/node-problem-detector", "library/busybox"]);
    for name in names {
        let image = images.iter().find(|image| image.starts_with(&format!("mirror.example:5000/hub/{name}")));
        let image = image.unwrap_or_else(|| panic!("{name}: {images:?}"));
        assert_eq!(image.ends_with(&digest), name.ends_with("peermem-gate"), "{image}");
    }
    assert_eq!(images.len(), 5, "{images:?}");
}

/// In names, and in what leads to them.
fn every_name_follows_the_override() {
    for values in [json!({"fullnameOverride": "gpu-x"}), json!({"nameOverride": "gpu-x"})] {
        let mut all = everything();
        merge(&mut all, &values);
        let (made, tests) = rendered(&all, &[]).unwrap();
        for object in made.iter().chain(&tests).filter(|object| object["kind"] != "NodeReadinessRule") {
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(name.starts_with("gpu-x"), "{name}");
        }
        let named = |kind: &'static str| made.iter().filter(move |object| object["kind"] == kind);
        let maps: BTreeSet<_> = named("ConfigMap").map(|map| map["metadata"]["name"].to_string()).collect();
        let accounts: BTreeSet<_> =
            named("ServiceAccount").map(|one| one["metadata"]["name"].to_string()).collect();
        for daemonset in named("DaemonSet") {
            let template = &daemonset["spec"]["template"];
            let labels = &template["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/name"], daemonset["metadata"]["name"]);
            let selected = &daemonset["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"];
            assert_eq!(*selected, labels["app.kubernetes.io/name"]);
            assert!(accounts.contains(&template["spec"]["serviceAccountName"].to_string()), "{template}");
            for volume in template["spec"]["volumes"].as_array().unwrap() {
                let map = &volume["configMap"]["name"];
                assert!(map.is_null() || maps.contains(&map.to_string()), "{volume}");
            }
        }
        let monitor = named("PodMonitor").next().unwrap();
        let keeper = named("DaemonSet").find(|one| one["metadata"]["name"] == "gpu-x-keeper").unwrap();
        assert_eq!(monitor["spec"]["selector"], keeper["spec"]["selector"]);
        let binding = named("MutatingAdmissionPolicyBinding").next().unwrap();
        assert_eq!(
            binding["spec"]["policyName"],
            named("MutatingAdmissionPolicy").next().unwrap()["metadata"]["name"]
        );
    }
}

/// `OpenShift` lets nobody have hostPath whose `ServiceAccount` has no SCC; that of the namespace's
/// `default` stays as it is.
fn on_openshift_the_pods_account_has_its_scc() {
    let words = ["--api-versions", "security.openshift.io/v1"];
    let made = helm(&everything(), &words).unwrap();
    let of_scc = |object: &&Value| object["roleRef"]["name"] == "system:openshift:scc:privileged";
    let binding = made.iter().find(of_scc).expect("a binding");
    let subjects: BTreeSet<_> =
        binding["subjects"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let used = made.iter().filter(|object| object["kind"] == "DaemonSet");
    let used: BTreeSet<_> = used
        .map(|object| object["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap())
        .collect();
    assert_eq!(subjects, used);
    assert!(helm(&everything(), &[]).unwrap().iter().all(|object| object["kind"] != "RoleBinding"));
}

/// Its Prometheus may list pods in three namespaces of its own, and elsewhere where a Role lets it
/// (cluster-monitoring-operator, assets/prometheus-k8s).
fn on_openshift_prometheus_may_find_the_keepers() {
    let words = ["--api-versions", "security.openshift.io/v1"];
    let made = helm(&everything(), &words).unwrap();
    let role = made.iter().find(|object| object["kind"] == "Role").expect("a Role");
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}])
    );
    let name = &role["metadata"]["name"];
    let binding = made.iter().find(|object| object["roleRef"]["name"] == *name).expect("a binding");
    let prometheus = &binding["subjects"][0];
    assert_eq!([&prometheus["name"], &prometheus["namespace"]], ["prometheus-k8s", "openshift-monitoring"]);
}

fn no_container_of_the_daemonsets_has_anything_twice() {
    for daemonset in daemonsets(&DAEMONSETS, &json!({"metrics": {"enabled": true}})) {
        cluster::assert_nothing_twice(&daemonset["spec"]["template"]);
    }
}

/// What is scraped is the keeper's own file, by a container that may do nothing else.
fn the_metrics_are_of_the_keepers_file_and_reach_prometheus() {
    let labels = json!({"release": "kube-prometheus-stack"});
    let values = json!({
        "keeper": {"enabled": true},
        "metrics": {"enabled": true, "podMonitor": {"labels": labels}},
        "alerts": {"enabled": true, "labels": labels},
    });
    let made = chart(&values);
    let object = |kind: &str, name: &str| &made[&(kind.to_owned(), name.to_owned())];
    let keeper = object("DaemonSet", "peermem-gate-keeper");
    let spec = &keeper["spec"]["template"]["spec"];
    let file = |container: &Value| -> Value {
        let mounts = container["volumeMounts"].as_array().unwrap().iter();
        mounts
            .filter(|mount| mount["name"] == "textfile")
            .map(|mount| mount["mountPath"].clone())
            .next()
            .unwrap()
    };
    let [keep, exporter] = &spec["containers"].as_array().unwrap()[..] else { panic!("{spec}") };
    let written =
        keep["args"].as_array().unwrap().iter().find_map(|arg| arg.as_str()?.strip_prefix("--metrics-file="));
    assert!(written.unwrap().starts_with(file(keep).as_str().unwrap()));
    let read = format!("--collector.textfile.directory={}", file(exporter).as_str().unwrap());
    assert!(exporter["args"].as_array().unwrap().contains(&json!(read)), "{exporter}");
    assert_eq!(exporter["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(exporter["securityContext"]["runAsNonRoot"], true);
    let volume =
        spec["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "textfile").unwrap();
    assert!(volume["emptyDir"].is_object(), "no other file of the node is shown: {volume}");
    let monitor = object("PodMonitor", "peermem-gate-keeper");
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], exporter["ports"][0]["name"]);
    let policy = object("NetworkPolicy", "peermem-gate-keeper");
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], exporter["ports"][0]["name"]);
    assert_eq!(policy["spec"]["egress"], json!([]));
    for selected in [&monitor["spec"]["selector"], &policy["spec"]["podSelector"]] {
        assert_eq!(*selected, keeper["spec"]["selector"]);
    }
    for object in [monitor, object("PrometheusRule", "peermem-gate")] {
        assert_eq!(object["metadata"]["labels"]["release"], "kube-prometheus-stack", "{object}");
    }
    // Without it the host's node_exporter reads them.
    let host = daemonsets(&["keeper"], &json!({"metrics": {"directory": "/var/lib/m"}})).remove(0);
    let spec = &host["spec"]["template"]["spec"];
    assert_eq!(spec["containers"].as_array().unwrap().len(), 1);
    let volume =
        spec["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "textfile").unwrap();
    assert_eq!(volume["hostPath"]["path"], "/var/lib/m");
}

/// A missing directory would keep the pod from starting, without a word but in its events, and in a shared pod all
/// other containers too. Every node has the one that is left.
fn no_daemonset_waits_for_a_directory_that_a_node_may_lack() {
    let mut waits = BTreeSet::new();
    for daemonset in daemonsets(&DAEMONSETS, &json!({})) {
        for volume in daemonset["spec"]["template"]["spec"]["volumes"].as_array().unwrap() {
            if volume["hostPath"].is_object() && volume["hostPath"]["type"] != "DirectoryOrCreate" {
                waits.insert(volume["hostPath"]["path"].as_str().unwrap().to_owned());
            }
        }
    }
    // /etc is there; one of its directories may not be, where nobody can make it.
    assert_eq!(waits, ["/", "/etc"].map(str::to_owned).into());
}

/// At most ten lines where all is well.
fn the_notes_say_what_is_installed_and_how_to_stop_it() {
    let lines = |said: &str| said.trim_end().lines().count();
    let said = notes(&json!({}));
    assert!(said.contains("Each GPU node has the keeper. ") && lines(&said) <= 10, "{said}");
    assert!(!said.contains("kubectl delete"), "{said}");
    let nothing = notes(&json!({"keeper": {"enabled": false}}));
    assert!(nothing.contains("This release installs nothing"), "{nothing}");
    let parts = notes(&json!({"npd": {"enabled": true}, "keeper": {"dryRun": true}}));
    assert!(parts.contains("as a dry run: it logs what it would do"), "{parts}");
    assert!(parts.contains("Also installed: npd."), "{parts}");
    let wait = notes(&json!({"wait": {"enabled": true}, "nameOverride": "x"}));
    assert!(wait.contains("kubectl delete mutatingadmissionpolicybinding x\n"), "{wait}");
}

tests![
    if can_helm [
        the_chart_refuses_null_values,
        an_empty_option_is_refused_with_and_without_the_schema,
        a_cluster_without_the_policys_kind_refuses_the_wait_with_a_sentence,
        the_charts_test_asks_the_keeper_of_a_node,
        the_charts_test_says_how_many_keepers_are_ready,
        the_chart_is_for_the_versions_of_kubernetes_that_it_names,
        the_label_of_the_version_is_one_that_kubernetes_allows,
        the_daemonsets_take_what_a_cluster_asks_for,
        the_keeper_goes_to_the_nodes_that_are_chosen_and_does_nothing_in_a_dry_run,
        the_keeper_gets_the_secret_to_sign_with,
        a_mirror_takes_the_place_of_every_registry,
        every_name_follows_the_override,
        on_openshift_the_pods_account_has_its_scc,
        on_openshift_prometheus_may_find_the_keepers,
        no_container_of_the_daemonsets_has_anything_twice,
        the_metrics_are_of_the_keepers_file_and_reach_prometheus,
        no_daemonset_waits_for_a_directory_that_a_node_may_lack,
        the_notes_say_what_is_installed_and_how_to_stop_it,
    ],
    [
        every_value_has_a_default_and_a_description,
        the_readme_has_the_table_of_its_values,
    ],
];
