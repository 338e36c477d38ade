// SPDX-License-Identifier: Apache-2.0
//! What becomes of the manifests in a cluster, as far as it can be had without one.
#![allow(dead_code, reason = "the tests of manifests and of containers use their parts of this")]

use crate::support::{can, output, skip};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// `kubectl patch`, the schemas, and a CEL: what an API server does with a pod, as far as it can be had without one.
pub(crate) struct Cluster {
    pub(crate) checker: Helper,
}

impl Cluster {
    pub(crate) fn start() -> Option<Self> {
        if !can_kubectl() {
            return None;
        }
        Some(Self { checker: checker()? })
    }

    /// The pod as the policy makes it, valid; or the name of the condition by which it is left alone.
    pub(crate) fn admits(&mut self, policy: &Value, pod: &Value) -> Result<Value, String> {
        let mut answer = self.checker.ask(&json!({"admit": policy, "pod": pod}));
        if let Some(name) = answer["unmatched"].as_str() {
            return Err(name.to_owned());
        }
        assert!(answer["patch"].is_array(), "{}: {answer:#}", policy["metadata"]["name"]);
        let admitted = patch(pod, &answer["patch"].take()).unwrap();
        assert_eq!(self.checker.ask(&json!({"validate": admitted})), Value::Null, "{admitted:#}");
        Ok(admitted)
    }
}

/// A program that answers a line to each line.
pub(crate) struct Helper {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, requests, answers }
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests.as_ref().unwrap(), "{request}").expect("it takes requests");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?} to {request:#}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.process.wait();
    }
}

/// tests/manifests/check.py.
pub(crate) fn checker() -> Option<Helper> {
    if !root().join("target/manifests/stamp").exists() {
        skip("no schemas and no CEL: tests/manifests/tools installs them");
        return None;
    }
    let python = root().join("target/manifests/python/bin/python");
    Some(Helper::start(Command::new(python).arg(root().join("tests/manifests/check.py"))))
}

/// A program that tests/manifests/tools installs, or the machine's own.
pub(crate) fn tool(name: &str) -> String {
    let installed = root().join("target/manifests/bin").join(name);
    if installed.exists() { installed.to_str().unwrap().to_owned() } else { name.to_owned() }
}

pub(crate) fn can_kubectl() -> bool {
    can(&[&tool("kubectl"), "version", "--client"])
}

pub(crate) fn kubectl(words: &[&str]) -> Output {
    output(Command::new(tool("kubectl")).args(words).env("KUBECONFIG", "/dev/null"))
}

pub(crate) fn render(directory: &Path) -> Vec<Value> {
    let output = kubectl(&["kustomize", directory.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).unwrap())
}

/// A policy of the tree.
pub(crate) fn policy(name: &str) -> Value {
    yaml(&manifests().join("wait").join(name).with_extension("yaml")).remove(0)
}

pub(crate) fn set_variable(policy: &mut Value, name: &str, expression: &str) {
    let variables = policy["spec"]["variables"].as_array_mut().unwrap();
    let variable = variables.iter_mut().find(|variable| variable["name"] == name).expect("such a variable");
    variable["expression"] = json!(expression);
}

/// RFC 6902 by the API server's own library, or its refusal.
pub(crate) fn patch(object: &Value, operations: &Value) -> Result<Value, String> {
    let scratch = TempDir::new().unwrap();
    let [object_file, patch_file] = ["object.json", "patch.json"].map(|name| scratch.path().join(name));
    fs::write(&object_file, object.to_string()).unwrap();
    fs::write(&patch_file, operations.to_string()).unwrap();
    let [object_file, patch_file] = [&object_file, &patch_file].map(|path| path.to_str().unwrap());
    let words =
        ["patch", "--local", "-f", object_file, "--type=json", "--patch-file", patch_file, "-o", "json"];
    let output = kubectl(&words);
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn manifests() -> PathBuf {
    root().join("manifests")
}

pub(crate) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

pub(crate) fn yaml(path: &Path) -> Vec<Value> {
    documents(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let parse = |document| Value::deserialize(document).unwrap_or_else(|error| panic!("{error} in {text}"));
    serde_norway::Deserializer::from_str(text).map(parse).collect()
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    for path in files(from) {
        let copy = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(path, copy).unwrap();
    }
}

pub(crate) fn each_object(value: &Value, found: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            found(object);
            object.values().for_each(|value| each_object(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| each_object(value, found)),
        _ => {}
    }
}

pub(crate) fn fixture(name: &str) -> Value {
    yaml(&root().join(format!("tests/manifests/fixtures/{name}.yaml"))).remove(0)
}

/// As its controller would make it.
pub(crate) fn pod_of(daemonset: &Value) -> Value {
    let template = &daemonset["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!(format!("{}-x7k2p", daemonset["metadata"]["name"].as_str().unwrap()));
    metadata["namespace"] = daemonset["metadata"]["namespace"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

pub(crate) fn init_containers(pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["initContainers"].as_array().unwrap();
    containers.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
}

/// In a pod or a pod's template: no volume, and in no container a variable or a mount.
pub(crate) fn assert_nothing_twice(pod: &Value) {
    let assert_once = |list: &Value, key: &str, place: &str| {
        let mut seen = BTreeSet::new();
        for one in list.as_array().into_iter().flatten() {
            assert!(seen.insert(one[key].to_string()), "{place}: {} is there twice: {pod:#}", one[key]);
        }
    };
    assert_once(&pod["spec"]["volumes"], "name", "volumes");
    for containers in ["initContainers", "containers"] {
        assert_once(&pod["spec"][containers], "name", containers);
        for container in pod["spec"][containers].as_array().into_iter().flatten() {
            let name = container["name"].as_str().unwrap();
            assert_once(&container["env"], "name", name);
            assert_once(&container["volumeMounts"], "mountPath", name);
        }
    }
}

pub(crate) fn container_of<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    pod["spec"]["containers"].as_array().unwrap().iter().find(|container| container["name"] == name)
}

pub(crate) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    container_of(pod, name).expect("such a container")
}

pub(crate) fn container_mut<'a>(pod: &'a mut Value, name: &str) -> &'a mut Value {
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.iter_mut().find(|container| container["name"] == name).expect("such a container")
}

pub(crate) fn set_env(container: &mut Value, name: &str, value: &str) {
    let variables = container["env"].as_array_mut().unwrap();
    let variable = variables.iter_mut().find(|variable| variable["name"] == name).expect("such a variable");
    variable["value"] = json!(value);
}

pub(crate) fn only(documents: &[Value], wanted: impl Fn(&str) -> bool) -> &Value {
    let found: Vec<_> = documents.iter().filter(|d| wanted(d["kind"].as_str().unwrap())).collect();
    assert_eq!(found.len(), 1, "{documents:#?}");
    found[0]
}

pub(crate) fn variable<'a>(policy: &'a Value, name: &str) -> Option<&'a str> {
    let variables = policy["spec"]["variables"].as_array()?;
    variables.iter().find(|variable| variable["name"] == name)?["expression"].as_str()
}
