// SPDX-License-Identifier: Apache-2.0
//! The chart, rendered, and what kustomize makes of the same manifests.
#![allow(dead_code, reason = "the tests of the chart use their parts of this")]

use crate::cluster::{self, copy_tree, documents, manifests, render, root, tool};
use crate::support::{can, output};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// That of node/npd: kustomize leaves the subject of a binding as it is.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The doctor's version.
pub(crate) const DOCTOR: &str = "1.2.3";

/// By kind and name.
pub(crate) type Objects = BTreeMap<(String, String), Value>;

pub(crate) fn can_helm() -> bool {
    can(&[&tool("helm"), "version"]) && cluster::can_kubectl()
}

/// What `helm install` with these values would apply, or its refusal.
pub(crate) fn helm(values: &Value, words: &[&str]) -> Result<Vec<Value>, String> {
    Ok(rendered(values, words)?.0)
}

/// The file that `helm template` writes, with its comments.
pub(crate) fn text(values: &Value, words: &[&str]) -> Result<String, String> {
    run(&["template"], values, words)
}

/// What `helm install` would apply, and what only `helm test` would.
pub(crate) fn rendered(values: &Value, words: &[&str]) -> Result<(Vec<Value>, Vec<Value>), String> {
    let rendered = documents(&text(values, words)?).into_iter().filter(Value::is_object);
    Ok(rendered.partition(|object| object["metadata"]["annotations"]["helm.sh/hook"].is_null()))
}

/// As kustomize makes them: without the labels that say whose release they are, which each must have.
pub(crate) fn unlabeled(mut made: Vec<Value>) -> Vec<Value> {
    let chart = format!("peermem-gate-{}", env!("CARGO_PKG_VERSION"));
    for object in &mut made {
        let name = object["metadata"]["name"].to_string();
        let metadata = object["metadata"].as_object_mut().unwrap();
        let labels = metadata["labels"].as_object_mut().unwrap_or_else(|| panic!("{name} has no labels"));
        for (label, value) in [
            ("app.kubernetes.io/instance", "release"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("helm.sh/chart", &*chart),
        ] {
            assert_eq!(labels.remove(label), Some(json!(value)), "{label} of {name}");
        }
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
    made
}

/// What `helm install` with these values tells a person.
pub(crate) fn notes(values: &Value) -> String {
    let said =
        run(&["install", "--dry-run=client"], values, &[]).unwrap_or_else(|refusal| panic!("{refusal}"));
    said.split_once("NOTES:\n").expect("it has notes").1.to_owned()
}

/// helm with a file of values, for the chart of the tree.
fn run(verb: &[&str], values: &Value, words: &[&str]) -> Result<String, String> {
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("values.yaml");
    fs::write(&file, values.to_string()).unwrap();
    let mut command = Command::new(tool("helm"));
    command.args(verb).args(["release", "--namespace", NAMESPACE, "--values"]).arg(file).args(words);
    command.env("KUBECONFIG", "/dev/null");
    for (variable, directory) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config")] {
        command.env(variable, scratch.path().join(directory));
    }
    let output = output(command.arg(root().join("charts/peermem-gate")));
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(String::from_utf8(output.stdout).unwrap())
}

/// With the image set, and everything off that `values` does not switch on.
pub(crate) fn chart(values: &Value) -> Objects {
    let images = json!({
        "image": {"repository": "registry.example/a/peermem-gate", "tag": "7.8.9"},
        "doctor": {"image": {"repository": "registry.example/a/peermem-doctor", "tag": DOCTOR}},
        "npd": {"image": {"repository": "registry.example/npd"}},
        "shell": {"image": {"repository": "registry.example/busybox"}},
    });
    let mut all = json!({"keeper": {"enabled": false}});
    merge(&mut all, &images);
    merge(&mut all, values);
    let rendered = helm(&all, &[]).unwrap_or_else(|refusal| panic!("{refusal}: {all}"));
    by_name(unlabeled(rendered))
}

pub(crate) fn by_name(rendered: Vec<Value>) -> Objects {
    let count = rendered.len();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let key = |object: &Value| (text(&object["kind"]), text(&object["metadata"]["name"]));
    let objects: Objects = rendered.into_iter().map(|object| (key(&object), object)).collect();
    assert_eq!(objects.len(), count, "two of one name");
    objects
}

pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// What kustomize makes of these directories of ../manifests.
pub(crate) fn kustomize(resources: &[&str], more: &Value) -> Objects {
    let copy = TempDir::new().unwrap();
    copy_tree(&manifests(), &copy.path().join("manifests"));
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources.iter().map(|name| format!("manifests/{name}")).collect::<Vec<_>>(),
    });
    merge(&mut kustomization, more);
    fs::write(copy.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    by_name(render(copy.path()))
}

/// What a person sets for a `DaemonSet`, in a kustomization above theirs.
pub(crate) fn from_outside() -> Value {
    from_outside_at("7.8.9")
}

/// With images of this version.
pub(crate) fn from_outside_at(version: &str) -> Value {
    let image = |name: &str, new_name: &str, tag: Option<&str>| {
        let mut image = json!({"name": name, "newName": format!("registry.example/{new_name}")});
        if let Some(tag) = tag {
            image["newTag"] = json!(tag);
        }
        image
    };
    json!({
        "namespace": NAMESPACE,
        "images": [
            image("ghcr.io/peermem-gate/peermem-gate", "a/peermem-gate", Some("7.8.9")),
            image("ghcr.io/peermem-gate/peermem-doctor", "a/peermem-doctor", Some(DOCTOR)),
            image("registry.k8s.io/node-problem-detector/node-problem-detector", "npd", None),
            image("docker.io/library/busybox", "busybox", None),
        ],
        "labels": [{"pairs": {"app.kubernetes.io/version": version}, "includeTemplates": true}],
    })
}
