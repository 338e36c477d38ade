// SPDX-License-Identifier: Apache-2.0
//! The policies in Kubernetes' own admission engine, on pods that are shaped like those of five releases of the GPU
//! Operator. tests/engine/build makes the engine.

use crate::cluster::{
    self, Cluster, Helper, container, container_mut, init_containers, policy, root, set_variable, yaml,
};
use crate::support::{skip, tests};
use serde_json::{Value, json};
use std::process::Command;

const POLICIES: [&str; 3] = ["init-container", "shim", "wrapper"];
const DRIVER: &str = "nvidia-driver-ctr";
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// With `USE_HOST_MOFED`, precompiled and `DRIVER_CONFIG_DIGEST`, as the gate must be told.
const RELEASES: [(&str, &str, &str, &str); 5] = [
    ("24.9", "false", "false", ""),
    ("25.3", "false", "false", ""),
    ("25.10", "false", "false", ""),
    ("26.3", "false", "true", "2938475610"),
    ("26.7", "true", "false", "1029384756"),
];

/// target/engine/engine.
struct Engine(Helper);

impl Engine {
    fn start() -> Option<Self> {
        let directory = root().join("target/engine");
        if !directory.join("stamp").exists() {
            skip("no engine: tests/engine/build makes it");
            return None;
        }
        Some(Self(Helper::start(&mut Command::new(directory.join("engine")))))
    }

    /// What the API server of the release after `version` says of this policy when it is applied.
    fn refusals(&mut self, policy: &Value, version: &str) -> Vec<String> {
        let answer = self.0.ask(&json!({"compile": policy, "version": version}));
        let errors = answer["errors"].as_array().unwrap_or_else(|| panic!("{answer}"));
        errors.iter().map(|error| error.as_str().unwrap().to_owned()).collect()
    }

    /// The pod as it would be stored, or the refusal.
    fn admits(&mut self, policies: &[Value], pod: &Value) -> Result<Value, String> {
        let answer = self.0.ask(&json!({"policies": policies, "pod": pod}));
        match answer["refused"].as_str() {
            Some(refusal) => Err(refusal.to_owned()),
            None => Ok(answer["pod"].clone()),
        }
    }
}

fn pod(release: &str) -> Value {
    yaml(&root().join(format!("tests/engine/pods/{release}.yaml"))).remove(0)
}

/// These policies and their bindings, for the namespace of this pod.
fn bound(names: &[&str], pod: &Value) -> Vec<Value> {
    let namespace = pod["metadata"]["namespace"].clone();
    let both = |name: &&str| {
        let mut policy = policy(name);
        policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"] =
            json!([namespace]);
        let name = policy["metadata"]["name"].clone();
        let binding = json!({
            "apiVersion": policy["apiVersion"],
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        });
        [policy, binding]
    };
    names.iter().flat_map(both).collect()
}

/// As JSON has it, without what is empty, which Go writes and YAML does not.
fn plain(value: &Value) -> Value {
    let is_empty = |value: &Value| *value == json!({}) || *value == json!([]) || value.is_null();
    match value {
        Value::Object(object) => {
            let members = object.iter().map(|(key, value)| (key.clone(), plain(value)));
            Value::Object(members.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(list) => list.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// Without the tokens that the stand-in has added.
fn without_tokens(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let keep = |list: &mut Value| list.as_array_mut().unwrap().retain(|one| one["name"] != "kube-api-access");
    keep(&mut pod["spec"]["volumes"]);
    for at in ["initContainers", "containers"] {
        pod["spec"][at]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|container| keep(&mut container["volumeMounts"]));
    }
    pod
}

/// 1.33 is what the API server of 1.34 still understands, the first that has the kind.
fn every_policy_compiles_where_the_kind_exists(engine: &mut Engine) {
    for (name, version) in
        POLICIES.iter().flat_map(|name| ["1.33", "1.34", "1.35", "1.36"].map(|v| (name, v)))
    {
        assert_eq!(engine.refusals(&policy(name), version), [""; 0], "{name} in {version}");
    }
}

fn a_policy_with_a_setting_of_another_type_is_refused(engine: &mut Engine) {
    for name in POLICIES {
        for setting in ["image", "timeout"] {
            for wrong in ["true", "5", "['60m']", "60m", "registry.example/peermem-gate:0.4.0"] {
                let mut policy = policy(name);
                set_variable(&mut policy, setting, wrong);
                assert_ne!(engine.refusals(&policy, "1.35"), [""; 0], "{name}: {setting} is {wrong}");
            }
        }
    }
}

fn the_driver_pods_of_five_operator_releases_get_their_gate(engine: &mut Engine) {
    for (release, use_host_mofed, precompiled, digest) in RELEASES {
        let pod = pod(release);
        let policies = bound(&POLICIES, &pod);
        let admitted = engine.admits(&policies, &pod).unwrap();
        let names = init_containers(&admitted);
        assert_eq!(names[0], "k8s-driver-manager", "{release}");
        assert_eq!(names.len(), 4, "{release}: {names:?}");
        let gates = admitted["spec"]["initContainers"].as_array().unwrap();
        let gate = gates.iter().find(|container| container["name"] == "peermem-gate").unwrap();
        let value = |name: &str| {
            let variable = gate["env"].as_array().unwrap().iter().find(|v| v["name"] == name);
            variable.map_or("", |variable| variable["value"].as_str().unwrap()).to_owned()
        };
        assert_eq!(value("USE_HOST_MOFED") == "true", use_host_mofed == "true", "{release}");
        let args = gate["args"].as_array().unwrap();
        assert!(args.contains(&json!(format!("--precompiled={precompiled}"))), "{release}: {gate}");
        assert_eq!(value("DRIVER_CONFIG_DIGEST"), digest, "{release}");
        let state = gate["volumeMounts"].as_array().unwrap().last().unwrap();
        assert_eq!((&state["name"], &state["readOnly"]), (&json!("run-nvidia"), &json!(true)), "{release}");
        let command = container(&admitted, DRIVER)["command"].as_array().unwrap();
        assert_eq!(command[0], "/opt/peermem-gate/peermem-gate", "{release}");
        assert_eq!(
            command.last(),
            container(&pod, DRIVER)["command"].as_array().unwrap().last(),
            "{release}"
        );
        // Names are one each, and no mount is left without its volume.
        let volumes: Vec<_> =
            admitted["spec"]["volumes"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
        assert!(
            volumes.iter().all(|name| volumes.iter().filter(|other| other == &name).count() == 1),
            "{release}"
        );
        for at in ["initContainers", "containers"] {
            for container in admitted["spec"][at].as_array().unwrap() {
                let mounts = container["volumeMounts"].as_array().unwrap();
                assert!(
                    mounts.iter().all(|mount| volumes.contains(&&mount["name"])),
                    "{release}: {container}"
                );
            }
        }
        assert_eq!(
            engine.admits(&policies, &admitted).unwrap(),
            admitted,
            "{release}: a second time changes nothing"
        );
    }
}

/// docs/integration.md proves a policy with it, before a pod is deleted.
fn the_policies_gate_the_example_pod(engine: &mut Engine) {
    let pod = yaml(&root().join("examples/driver-pod.yaml")).remove(0);
    let admitted = engine.admits(&bound(&POLICIES, &pod), &pod).unwrap();
    assert_eq!(init_containers(&admitted).len(), 4);
}

/// The chain is invoked again after a change, and the plugin for tokens with it: what has nothing in their place gets
/// one.
fn our_containers_get_no_token(engine: &mut Engine) {
    let pod = pod("24.9");
    let policies = bound(&POLICIES, &pod);
    let tokens = |admitted: &Value| -> Vec<String> {
        let containers = ["initContainers", "containers"]
            .into_iter()
            .flat_map(|at| admitted["spec"][at].as_array().unwrap());
        let is_token = |mount: &Value| mount["name"] == "kube-api-access" && mount["mountPath"] == TOKEN;
        let with = containers.filter(|one| one["volumeMounts"].as_array().unwrap().iter().any(is_token));
        with.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let operators = ["k8s-driver-manager", DRIVER, "nvidia-peermem-ctr"];
    assert_eq!(tokens(&engine.admits(&policies, &pod).unwrap()), operators);
    // Mounted elsewhere it would be of no use.
    let mut other = policies;
    for policy in &mut other {
        let Some(expression) = policy.pointer_mut("/spec/mutations/0/jsonPatch/expression") else { continue };
        *expression = json!(expression.as_str().unwrap().replace(TOKEN, "/elsewhere"));
    }
    assert_eq!(tokens(&engine.admits(&other, &pod).unwrap()).len(), 6);
}

fn the_policies_leave_other_pods_unchanged(engine: &mut Engine) {
    let driver = pod("24.9");
    let policies = bound(&POLICIES, &driver);
    let mut elsewhere = driver.clone();
    elsewhere["metadata"]["namespace"] = json!("default");
    let mut without_rdma = driver.clone();
    cluster::set_env(container_mut(&mut without_rdma, DRIVER), "GPU_DIRECT_RDMA_ENABLED", "false");
    let only_the_ways_of_peermem = bound(&["shim", "wrapper"], &driver);
    let alone = engine.admits(&[], &without_rdma).unwrap();
    assert_eq!(engine.admits(&only_the_ways_of_peermem, &without_rdma), Ok(alone));
    let mut without_manager = driver.clone();
    without_manager["spec"]["initContainers"][0]["name"] = json!("other");
    // No env, no mounts, no init containers, no volumes.
    let bare = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "toolkit", "namespace": "gpu-operator", "labels": driver["metadata"]["labels"]},
        "spec": {"containers": [{"name": "nvidia-container-toolkit-ctr", "image": "toolkit:test"}]},
    });
    for other in [elsewhere, without_manager, bare] {
        let alone = engine.admits(&[], &other).unwrap();
        assert_eq!(engine.admits(&policies, &other), Ok(alone));
    }
}

/// The evaluation that the other tests use, by CEL for C++ and kubectl, makes the same pods. Each policy by itself:
/// the API server takes them in no certain order.
fn both_admission_engines_agree(engine: &mut Engine) {
    let Some(mut cluster) = Cluster::start() else { return };
    for (name, (release, ..)) in POLICIES.iter().flat_map(|name| RELEASES.map(|release| (name, release))) {
        let pod = pod(release);
        let policies = bound(&[name], &pod);
        let patched = cluster.admits(&policies[0], &pod).expect("it matches");
        let admitted = without_tokens(&engine.admits(&policies, &pod).unwrap());
        assert_eq!(plain(&admitted["spec"]), plain(&patched["spec"]), "{name}: {release}");
    }
}

tests![
    on Engine::start [
        every_policy_compiles_where_the_kind_exists,
        a_policy_with_a_setting_of_another_type_is_refused,
        the_driver_pods_of_five_operator_releases_get_their_gate,
        the_policies_gate_the_example_pod,
        our_containers_get_no_token,
        the_policies_leave_other_pods_unchanged,
        both_admission_engines_agree,
    ],
];
