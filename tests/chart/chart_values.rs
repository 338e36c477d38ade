// SPDX-License-Identifier: Apache-2.0
//! The chart's values: each is described, none may be null, and what goes with the cluster is asked or refused.

use crate::cluster::{self, root, yaml};
use crate::helm::{by_name, can_helm, chart, helm, merge, notes, rendered, text};
use crate::support::{code, gate, note, output, suite};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;

const GROUP: &str = "admissionregistration.k8s.io";

/// Enough to render the policies.
fn image() -> Value {
    json!({"image": {"repository": "a/b", "tag": "1.2.3"}})
}

fn with(values: &Value) -> Value {
    let mut all = image();
    merge(&mut all, values);
    all
}

/// Everything that the chart installs.
fn everything() -> Value {
    let on = json!({"enabled": true});
    let mut all = json!({
        "admission": "v1", "heal": true,
        "doctor": {"image": {"repository": "a/d", "tag": "1"}},
        "npd": {"image": {"repository": "a/n"}},
        "shell": {"image": {"repository": "a/s"}},
    });
    let parts = ["wrapper", "shim", "npd", "nfd", "textfile", "readiness", "doctor", "alerts"];
    for part in parts {
        merge(&mut all, &json!({ part: on }));
    }
    with(&all)
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
    if !can_helm() {
        return;
    }
    let paths: Vec<_> = paths(&defaults()).into_iter().map(|(path, _)| path).collect();
    note!("{} values", paths.len());
    assert!(paths.len() >= 55, "{paths:?}");
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
    if !can_helm() {
        return;
    }
    let values = with(&json!({"admission": "none", "textfile": {"directory": ""}}));
    let refusal = helm(&values, &[]).unwrap_err();
    assert!(refusal.contains("/textfile/directory"), "{refusal}");
    let refusal = helm(&values, &["--skip-schema-validation"]).unwrap_err();
    assert!(refusal.contains("textfile.directory is \"\": it must be an absolute path"), "{refusal}");
    for path in ["timeout", "wrapper.timeout", "shim.timeout"] {
        for value in ["", "60", "1.5h", "60m "] {
            let mut values = everything();
            merge(&mut values, &at(path, json!(value)));
            helm(&values, &[]).expect_err(path);
            let refusal = helm(&values, &["--skip-schema-validation"]).expect_err(path);
            assert!(refusal.contains(&format!("{path} is {value:?}: it must be a number")), "{refusal}");
        }
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
    let unset = ["global", "hostDriver", "keep", "imageVolume", "pool"];
    let names: BTreeSet<_> = properties.keys().filter(|name| !unset.contains(&name.as_str())).collect();
    let values: BTreeSet<_> = defaults.as_object().expect(place).keys().collect();
    assert_eq!(names, values, "{place}: the schema's and the values");
    let required = schema["required"].as_array().expect(place).iter().map(|name| name.as_str().unwrap());
    assert_eq!(required.collect::<BTreeSet<_>>(), names.iter().map(|n| n.as_str()).collect(), "{place}");
    for (name, property) in properties {
        assert_described(property, &defaults[name], &format!("{place}: {name}"));
    }
}

fn kind_of(version: &str) -> String {
    format!("{GROUP}/{version}/MutatingAdmissionPolicy")
}

/// As helm finds them in a cluster, and as Argo CD passes them: the versions, and the kinds in them.
fn admission_auto_takes_the_version_that_the_cluster_has() {
    if !can_helm() {
        return;
    }
    for (served, taken) in [(&["v1"][..], "v1"), (&["v1beta1"], "v1beta1"), (&["v1", "v1beta1"], "v1")] {
        let kinds: Vec<_> = served.iter().map(|version| kind_of(version)).collect();
        let mut words = vec!["--api-versions", "v1/Pod"];
        words.extend(kinds.iter().flat_map(|kind| ["--api-versions", kind]));
        let rendered = by_name(helm(&image(), &words).unwrap());
        assert_eq!(rendered.len(), 7, "{served:?}");
        let explicit = by_name(helm(&with(&json!({ "admission": taken })), &words).unwrap());
        assert_eq!(rendered, explicit, "{served:?}");
        for object in rendered.values().filter(|object| object["kind"] != "DaemonSet") {
            assert_eq!(object["apiVersion"], format!("{GROUP}/{taken}"), "{served:?}");
        }
    }
}

/// Every cluster serves the group's two versions, for webhooks and other policies, so these words prove nothing.
fn a_cluster_without_the_policy_kind_gets_the_keeper_and_the_lines_for_driver_manager() {
    if !can_helm() {
        return;
    }
    let versions = ["v1", "v1beta1"].map(|version| format!("{GROUP}/{version}"));
    let mut words: Vec<_> = versions.iter().flat_map(|version| ["--api-versions", version]).collect();
    words.extend(["--api-versions", "v1/Pod", "--kube-version", "1.35.8-gke.1000"]);
    let made = by_name(helm(&image(), &words).unwrap());
    let names: Vec<_> = made.keys().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["peermem-gate-keeper"]);
    let said = notes(&image());
    let lines = said.lines().filter(|line| line.contains("driver.manager.") || line.contains("helm upgrade"));
    assert_eq!(lines.count(), 3, "{said}");
}

/// Where the cluster can be asked it is refused; a file for an older cluster says so, and so do the notes.
fn policies_that_a_cluster_is_too_old_for_say_so() {
    if !can_helm() {
        return;
    }
    for (version, old, new) in [("v1", "1.35.8-gke.1", "1.36.0-alpha.1"), ("v1beta1", "1.33.2", "1.34.0")] {
        let values = with(&json!({"admission": version}));
        let file = text(&values, &["--kube-version", old]).unwrap();
        let said = format!("# Kubernetes v{old} has no MutatingAdmissionPolicy {version}: it needs ");
        assert_eq!(file.matches(&said).count(), 3, "{said}");
        assert!(!text(&values, &["--kube-version", new]).unwrap().contains("# Kubernetes v"), "{new}");
        let asked = ["--api-versions", "v1/Pod", "--kube-version", old];
        let refusal = helm(&values, &asked).expect_err("the API server would refuse it");
        assert!(
            refusal.contains(&format!("admission={version}: this cluster (Kubernetes v{old})")),
            "{refusal}"
        );
    }
}

/// `helm test` is of the keeper, by the file that it leaves on the node.
fn the_charts_test_asks_the_keeper_of_a_node() {
    if !can_helm() {
        return;
    }
    let (made, tests) = rendered(&image(), &[]).unwrap();
    let keeper =
        &made.iter().find(|object| object["kind"] == "DaemonSet").unwrap()["spec"]["template"]["spec"];
    let [test] = &tests[..] else { panic!("{tests:?}") };
    assert_eq!(test["metadata"]["annotations"]["helm.sh/hook"], "test");
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
    let off = with(&json!({"keeper": {"enabled": false}}));
    assert!(rendered(&off, &[]).unwrap().1.is_empty());
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
    if !can_helm() {
        return;
    }
    let values = with(&json!({"admission": "none"}));
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

/// A tag that an older release set, and an upgrade kept, would be a program without the options of this chart.
fn the_chart_refuses_an_older_doctor_image_and_names_it() {
    if !can_helm() {
        return;
    }
    let tagged = |tag: &str| {
        let mut all = everything();
        merge(&mut all, &json!({"doctor": {"image": {"tag": tag}}}));
        helm(&all, &[])
    };
    let refusal = tagged("0.2.0").expect_err("it has no --every");
    assert!(refusal.contains("doctor.image.tag is 0.2.0"), "{refusal}");
    for tag in ["0.30.0", "1.10.1", "main"] {
        tagged(tag).unwrap_or_else(|refusal| panic!("{tag}: {refusal}"));
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
    if !can_helm() {
        return;
    }
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let (long, ends) = ("v".repeat(128), format!("{}-.-.-1", "1".repeat(60)));
    let of_digest = json!({"tag": "", "digest": digest});
    for (image, label) in [
        (json!({"tag": "1.2.3"}), "1.2.3"),
        (json!({"tag": "1.2.3", "digest": digest}), "1.2.3"),
        (of_digest, "sha256_0123456789ab"),
        (json!({ "tag": long }), &long[..63]),
        (json!({ "tag": ends }), &ends[..60]),
        (json!({"tag": "_dev_"}), "dev"),
        (json!({"tag": "__"}), ""),
    ] {
        let mut values = json!({"keeper": {"enabled": true}, "doctor": {"enabled": true, "image": image}});
        values["image"] = image;
        for object in chart(&values).values() {
            for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
                let found = &object.pointer(labels).unwrap()["app.kubernetes.io/version"];
                assert_eq!(found, label, "{values}");
                assert!(is_label_value(found.as_str().unwrap()), "{found}");
            }
        }
    }
}

const DAEMONSETS: [&str; 5] = ["npd", "nfd", "textfile", "keeper", "doctor"];

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
    if !can_helm() {
        return;
    }
    let secrets = json!([{"name": "pull"}]);
    let tolerations = json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    let resources = json!({"limits": {"memory": "99Mi"}});
    for part in DAEMONSETS {
        let mut values =
            json!({"imagePullSecrets": secrets, "tolerations": tolerations, "priorityClassName": "high"});
        merge(&mut values, &json!({"textfile": {"directory": "/var/lib/m"}}));
        merge(&mut values, &json!({ part: {"resources": resources} }));
        let mut expected = daemonsets(&[part], &json!({})).remove(0);
        let pod = &mut expected["spec"]["template"]["spec"];
        pod["imagePullSecrets"] = secrets.clone();
        pod["tolerations"] = tolerations.clone();
        pod["priorityClassName"] = json!("high");
        pod["containers"][0]["resources"] = resources.clone();
        let directories = pod["volumes"].as_array_mut().unwrap().iter_mut();
        for volume in directories.filter(|volume| volume["name"] == "textfile") {
            volume["hostPath"]["path"] = json!("/var/lib/m");
        }
        assert_eq!(daemonsets(&[part], &values), [expected], "{part}");
    }
}

/// With MOFED on the host or not, on `OpenShift` or not.
fn no_container_of_the_daemonsets_has_anything_twice() {
    if !can_helm() {
        return;
    }
    for host_mofed in [false, true] {
        let each = DAEMONSETS.iter().map(|part| (std::slice::from_ref(part), false));
        for (parts, openshift) in each.chain([(&DAEMONSETS[..], false), (&DAEMONSETS, true)]) {
            for daemonset in daemonsets(parts, &json!({"hostMofed": host_mofed, "openshift": openshift})) {
                cluster::assert_nothing_twice(&daemonset["spec"]["template"]);
            }
        }
    }
}

/// A missing directory would keep the pod from starting, without a word but in its events, and in a shared pod all
/// other containers too. Every node has the one that is left.
fn no_daemonset_waits_for_a_directory_that_a_node_may_lack() {
    if !can_helm() {
        return;
    }
    let mut waits = BTreeSet::new();
    for daemonset in daemonsets(&DAEMONSETS, &json!({})) {
        for volume in daemonset["spec"]["template"]["spec"]["volumes"].as_array().unwrap() {
            if volume["hostPath"].is_object() && volume["hostPath"]["type"] != "DirectoryOrCreate" {
                waits.insert(volume["hostPath"]["path"].as_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(waits, ["/".to_owned()].into());
}

fn the_notes_say_what_is_installed_and_how_to_stop_it() {
    if !can_helm() {
        return;
    }
    let off = json!({"admission": "none", "keeper": {"enabled": false}});
    let alone = notes(&with(&off));
    assert!(alone.contains("This release installs nothing"), "{alone}");
    // The plugin of npd is in the doctor's image.
    let image = json!({"image": everything()["doctor"]["image"]});
    let npd = json!({"admission": "none", "npd": everything()["npd"], "doctor": image});
    let parts = notes(&with(&npd));
    assert!(
        parts.contains("Each GPU node has the keeper") && parts.contains("Also installed: npd."),
        "{parts}"
    );
    for text in [&alone, &parts] {
        assert!(text.contains("Not installed: the policies") && text.contains("driver-manager"), "{text}");
        assert!(!text.contains("kubectl delete"), "{text}");
    }
    let delete = "kubectl delete mutatingadmissionpolicybinding";
    for (ways, names) in [
        (&[][..], "peermem-gate\n"),
        (&["wrapper"], "peermem-gate peermem-gate-wrapper\n"),
        (&["wrapper", "shim"], "peermem-gate peermem-gate-wrapper peermem-gate-shim\n"),
    ] {
        let mut values = with(&json!({"admission": "v1"}));
        for way in ["wrapper", "shim"] {
            merge(&mut values, &json!({ way: {"enabled": ways.contains(&way)} }));
        }
        let said = notes(&values);
        assert!(said.contains(&format!("{delete} {names}")), "{said}");
        let bound = by_name(helm(&values, &[]).unwrap());
        let bound = bound.keys().filter(|(kind, _)| kind == "MutatingAdmissionPolicyBinding");
        assert_eq!(
            bound.map(|(_, name)| &**name).collect::<BTreeSet<_>>(),
            names.split_whitespace().collect()
        );
    }
    let beta = notes(&with(&json!({"admission": "v1beta1"})));
    assert!(
        ["MutatingAdmissionPolicy v1beta1", "--feature-gates=MutatingAdmissionPolicy", "From v1beta1 to v1"]
            .iter()
            .all(|said| beta.contains(said)),
        "{beta}"
    );
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        the_chart_refuses_null_values,
        an_empty_option_is_refused_with_and_without_the_schema,
        every_value_has_a_default_and_a_description,
        admission_auto_takes_the_version_that_the_cluster_has,
        a_cluster_without_the_policy_kind_gets_the_keeper_and_the_lines_for_driver_manager,
        policies_that_a_cluster_is_too_old_for_say_so,
        the_charts_test_asks_the_keeper_of_a_node,
        the_readme_has_the_table_of_its_values,
        the_chart_is_for_the_versions_of_kubernetes_that_it_names,
        the_chart_refuses_an_older_doctor_image_and_names_it,
        the_label_of_the_version_is_one_that_kubernetes_allows,
        the_daemonsets_take_what_a_cluster_asks_for,
        no_container_of_the_daemonsets_has_anything_twice,
        no_daemonset_waits_for_a_directory_that_a_node_may_lack,
        the_notes_say_what_is_installed_and_how_to_stop_it
    ]
}
