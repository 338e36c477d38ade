// SPDX-License-Identifier: Apache-2.0
//! The manifests are whole and valid, and do to the GPU Operator's pods what they say.
//!
//! Kubernetes' own schemas and a CEL of others come by tests/manifests/tools; patches are rendered and
//! applied by kubectl, whose JSON patch is the API server's. tests/manifests/fixtures has the pods.

use crate::cluster::{
    Checker, Cluster, assert_nothing_twice, base_container, base_volumes, can_kubectl, container,
    container_mut, container_of, copy_tree, each_object, files, fixture, init_containers, is_yaml, manifests,
    named, only, pod_of, policy, render, render_overlay, render_with, root, set_env, set_image, set_variable,
    variable, yaml,
};
use crate::support::{Node, code, gate, output, suite};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const GATE_CONTAINER: &str = "peermem-gate";
const MANAGER: &str = "k8s-driver-manager";
const DRIVER: &str = "nvidia-driver-ctr";
const PEERMEM: &str = "nvidia-peermem-ctr";
const TOOLKIT: &str = "openshift-driver-toolkit-ctr";
const INSTALLED: &str = "/opt/peermem-gate/peermem-gate";

/// With what the GPU Operator's pods are like, `USE_HOST_MOFED` and precompiled, in each.
const FIXTURES: [(&str, &str, &str); 4] = [
    ("clusterpolicy", "false", "false"),
    ("nvidiadriver", "true", "false"),
    ("openshift", "false", "false"),
    ("precompiled", "false", "true"),
];

const POLICIES: [&str; 3] = ["admission", "wrapper", "shim"];

fn every_manifest_says_what_it_survives_and_what_it_needs() {
    for path in files(&manifests()) {
        if path.ends_with("kustomization.yaml") || path.extension().is_some_and(|e| e == "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        let head = head.to_lowercase();
        for word in ["survives", "needs"] {
            assert!(head.contains(word), "{}: its head does not tell what it {word}", path.display());
        }
    }
}

/// And the way to each, with its needs, is in the document.
fn the_document_leads_to_every_manifest() {
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let text = read("integration.md") + &read("rights.md");
    for path in files(&manifests()) {
        let place = path.parent().unwrap().strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let name = place.strip_prefix("manifests/").unwrap();
        let is_led_to = text.contains(&format!("](../{place}/")) || text.contains(&format!("`{name}`"));
        assert!(is_led_to, "{place} is neither in docs/integration.md nor in rights.md");
    }
}

/// What each container may do: nothing, except for those that read other processes, write where others are the owner,
/// or load a module.
fn rights(name: &str) -> Value {
    let privileges: &[&str] = match name {
        "node-problem-detector" | "nfd" => &["SYS_PTRACE"],
        "metrics" => &["SYS_PTRACE", "DAC_OVERRIDE"],
        "keeper" => &["SYS_MODULE", "SYS_CHROOT"],
        _ => &[],
    };
    let mut rights = json!({
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "runAsNonRoot": true,
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if !privileges.is_empty() {
        for at in ["runAsUser", "runAsGroup"] {
            rights[at] = json!(0);
        }
        rights.as_object_mut().unwrap().remove("runAsNonRoot");
        rights["capabilities"]["add"] = json!(privileges);
        rights["appArmorProfile"] = json!({"type": "Unconfined"});
    }
    rights
}

fn every_container_drops_privileges_and_requests_resources() {
    let mut found = 0;
    for document in files(&manifests()).iter().filter(|path| is_yaml(path)).flat_map(|path| yaml(path)) {
        each_object(&document, &mut |object| {
            if !object.contains_key("image") || !object.contains_key("name") || object.contains_key("newName")
            {
                return;
            }
            found += 1;
            let container = Value::Object(object.clone());
            // In somebody else's pod they would change its QoS class.
            let is_guest = container["volumeMounts"].to_string().contains("peermem-gate-nothing");
            for at in ["/resources/requests/cpu", "/resources/requests/memory", "/resources/limits/memory"] {
                assert_eq!(container.pointer(at).is_none(), is_guest, "{at}: {container:#}");
            }
            let mut given = container["securityContext"].clone();
            given.as_object_mut().unwrap().remove("seLinuxOptions");
            assert_eq!(given, rights(container["name"].as_str().unwrap()), "{container:#}");
            assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError", "{container:#}");
            assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{container:#}");
        });
    }
    assert!(found >= 4, "only {found} containers were found");
}

const KUSTOMIZE: [&str; 2] = ["Kustomization", "Component"];

/// Kinds that Kubernetes' schemas do not know.
/// [`the_readiness_rule_has_the_right_fields`] looks at the first, promtool at the second.
const OTHERS: [&str; 2] = ["NodeReadinessRule", "PrometheusRule"];

fn the_schemas_accept_every_manifest() {
    let Some(mut checker) = Checker::start() else { return };
    let fixtures = files(&root().join("tests/manifests/fixtures"));
    for path in files(&manifests()).iter().chain(&fixtures).filter(|path| is_yaml(path)) {
        // A patch has no kind, and kustomize's are not Kubernetes'.
        let is_kubernetes = |d: &Value| d["kind"].as_str().is_some_and(|kind| !KUSTOMIZE.contains(&kind));
        for document in yaml(path).into_iter().filter(|d| d.is_object() && is_kubernetes(d)) {
            let kind = document["kind"].as_str().unwrap();
            for minor in 30..=37 {
                let answer = checker.ask(&json!({"validate": document, "version": format!("1.{minor}")}));
                // MutatingAdmissionPolicy is v1 since 1.36.
                let is_unknown =
                    OTHERS.contains(&kind) || kind.starts_with("MutatingAdmission") && minor < 36;
                let expected = if is_unknown { json!("unknown") } else { Value::Null };
                assert_eq!(answer, expected, "{}: {kind} in 1.{minor}", path.display());
            }
        }
    }
    let with_a_fault = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [], "volume": []}});
    assert_ne!(checker.ask(&json!({"validate": with_a_fault})), Value::Null, "it finds no fault");
}

fn the_readiness_rule_has_the_right_fields() {
    let rule = &yaml(&manifests().join("node/readiness/rule.yaml"))[0];
    assert_eq!(rule["apiVersion"], "readiness.node.x-k8s.io/v1alpha1");
    assert_eq!(rule["kind"], "NodeReadinessRule");
    let expected = json!({
        "dryRun": true,
        "enforcementMode": "continuous",
        "conditions": [{"type": "PeermemNotReady", "requiredStatus": "False"}],
        "taint": {"key": "readiness.k8s.io/mofed-not-ready", "effect": "NoSchedule"},
        // Only nodes whose owner asked for it.
        "nodeSelector": {"matchLabels": {"peermem-gate.github.io/taint": "true"}},
    });
    assert_eq!(rule["spec"], expected);
}

/// One match for all policies: pods as they are made, in the driver's namespace, with the driver's containers.
fn every_policy_matches_only_the_drivers_pods() {
    let conditions = |spec: &Value| spec["matchConditions"].as_array().unwrap()[1..].to_vec();
    let first = conditions(&policy("admission")["spec"]);
    for policy in POLICIES {
        let documents = yaml(&manifests().join(policy).join("policy.yaml"));
        let spec = &documents[0]["spec"];
        assert_eq!(spec["failurePolicy"], "Fail", "{policy}");
        let constraints = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gpu-operator"}},
            "resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }],
        });
        assert_eq!(spec["matchConstraints"], constraints, "{policy}");
        assert_eq!(conditions(spec), first, "{policy}");
        // components/ count them.
        let settings = [(0, "image"), (2, "dryRun")];
        for (at, name) in settings {
            assert_eq!(spec["variables"][at]["name"], name, "{policy}");
        }
        assert_eq!(spec["variables"][1]["name"], "timeout", "{policy}");
        assert_eq!(documents[1]["kind"], "MutatingAdmissionPolicyBinding");
        assert_eq!(documents[1]["spec"], json!({"policyName": documents[0]["metadata"]["name"]}));
    }
}

fn the_init_container_is_appended_once_and_is_the_one_in_plain_yaml() {
    let Some(mut cluster) = Cluster::start() else { return };
    for components in [&[][..], &["v1beta1"], &["openshift"]] {
        let rendered = render_with(&["admission"], components);
        let policy = only(&rendered, |kind| kind == "MutatingAdmissionPolicy");
        let version = if components.contains(&"v1beta1") { "v1beta1" } else { "v1" };
        for document in &rendered {
            let at = document["apiVersion"].as_str().unwrap();
            assert_eq!(at.rsplit('/').next(), Some(version), "{at} with {components:?}");
        }
        for (name, use_host_mofed, precompiled) in FIXTURES {
            let pod = pod_of(&fixture(name));
            let admitted = cluster.admits(policy, &pod).expect("it matches");
            assert_eq!(init_containers(&admitted), [MANAGER, GATE_CONTAINER], "{components:?}: {name}");

            let mut expected = base_container(GATE_CONTAINER);
            set_env(&mut expected, "USE_HOST_MOFED", use_host_mofed);
            set_env(&mut expected, "PEERMEM_GATE_PRECOMPILED", precompiled);
            let digest = digest(&pod);
            expected["env"].as_array_mut().unwrap().extend(digest.cloned());
            if components.contains(&"openshift") {
                expected["securityContext"]["seLinuxOptions"] = json!({"type": "spc_t"});
            }
            let mut left = admitted.clone();
            let containers = left["spec"]["initContainers"].as_array_mut().unwrap();
            assert_eq!(containers.pop().unwrap(), expected, "{components:?}: {name}");
            let volume = left["spec"]["volumes"].as_array_mut().unwrap().pop();
            assert_eq!(volume, base_volumes().pop(), "{components:?}: {name}");
            assert_eq!(left, pod, "{components:?}: nothing else of {name} has changed");

            assert_eq!(
                cluster.admits(policy, &admitted),
                Err("not-there-yet".to_owned()),
                "{components:?}: {name}"
            );
        }
    }
}

/// What the operator has told the driver's container, which is not in every release.
fn digest(pod: &Value) -> Option<&Value> {
    let variables = container(pod, DRIVER)["env"].as_array().unwrap();
    variables.iter().find(|variable| variable["name"] == "DRIVER_CONFIG_DIGEST")
}

/// The mount only adds a message, so a pod without it is not refused.
fn a_pod_without_the_volume_of_the_state_file_gets_its_gate_too() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut pod = pod_of(&fixture("precompiled"));
    let is_kept = |one: &Value| one["name"] != "run-nvidia";
    pod["spec"]["volumes"].as_array_mut().unwrap().retain(is_kept);
    let admitted = cluster.admits(&policy("admission"), &pod).expect("it matches");
    let gate = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
    let mut mounts = base_container(GATE_CONTAINER)["volumeMounts"].as_array().unwrap().clone();
    mounts.retain(is_kept);
    assert_eq!(gate["volumeMounts"], Value::from(mounts));
}

/// A name or a value that is none is refused at the start.
fn the_gate_takes_the_settings_that_it_is_given() {
    let node = Node::ready();
    let mut command = gate();
    command.args(["wait", "--root"]).arg(node.root());
    for variable in base_container(GATE_CONTAINER)["env"].as_array().unwrap() {
        let value = variable["value"].as_str().unwrap_or("gpu-1");
        command.env(variable["name"].as_str().unwrap(), value);
    }
    let opened = output(&mut command);
    assert_eq!(code(opened.status), 0, "{}", String::from_utf8_lossy(&opened.stderr));
    assert_eq!(code(output(command.env("PEERMEM_GATE_NO_SUCH", "1")).status), 2);

    let container = base_container("peermem-gate-install");
    let [verb, place] = &container["args"].as_array().unwrap()[..] else { panic!("{container}") };
    assert_eq!((verb, place), (&json!("install"), &container["volumeMounts"][0]["mountPath"]));
    let volume = TempDir::new().unwrap();
    assert_eq!(code(output(gate().arg(verb.as_str().unwrap()).arg(volume.path())).status), 0);
    let file = INSTALLED.strip_prefix(place.as_str().unwrap()).unwrap();
    assert!(volume.path().join(file.trim_matches('/')).is_file(), "{file}");
}

fn a_pod_without_rdma_or_without_its_manager_is_left_alone() {
    let Some(mut cluster) = Cluster::start() else { return };
    for policy in POLICIES.map(policy) {
        let policy = &policy;
        let pod = || pod_of(&fixture("clusterpolicy"));
        for value in ["false", "yes", ""] {
            let mut other = pod();
            set_env(container_mut(&mut other, DRIVER), "GPU_DIRECT_RDMA_ENABLED", value);
            assert_eq!(cluster.admits(policy, &other), Err("rdma-requested".to_owned()), "{value}");
        }
        let mut other = pod();
        container_mut(&mut other, DRIVER).as_object_mut().unwrap().remove("env");
        assert_eq!(cluster.admits(policy, &other), Err("rdma-requested".to_owned()));

        let mut other = pod();
        other["spec"]["initContainers"][0]["name"] = json!("something-else");
        assert_eq!(cluster.admits(policy, &other), Err("behind-k8s-driver-manager".to_owned()));
        let mut other = pod();
        other["spec"].as_object_mut().unwrap().remove("initContainers");
        assert_eq!(cluster.admits(policy, &other), Err("behind-k8s-driver-manager".to_owned()));
    }
}

fn rdma_is_asked_for_in_any_case_of_letters_and_by_the_last_word() {
    let Some(mut cluster) = Cluster::start() else { return };
    let asked = |values: &[&str]| {
        let mut pod = pod_of(&fixture("clusterpolicy"));
        let variable = |value: &&str| json!({"name": "GPU_DIRECT_RDMA_ENABLED", "value": value});
        container_mut(&mut pod, DRIVER)["env"] = values.iter().map(variable).collect();
        pod
    };
    for policy in POLICIES.map(policy) {
        for values in [&["true"][..], &["True"], &["TRUE"], &["false", "tRue"]] {
            assert!(cluster.admits(&policy, &asked(values)).is_ok(), "{values:?}");
        }
        assert_eq!(cluster.admits(&policy, &asked(&["true", "false"])), Err("rdma-requested".to_owned()));
    }
    let mut host = pod_of(&fixture("nvidiadriver"));
    set_env(container_mut(&mut host, DRIVER), "USE_HOST_MOFED", "True");
    let admitted = cluster.admits(&policy("admission"), &host).unwrap();
    let gate = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
    assert_eq!(gate["env"][1], json!({"name": "USE_HOST_MOFED", "value": "true"}));
}

/// A volume of the user's that is called like ours, of whatever kind: both are in the pod, and each is where it
/// belongs.
fn a_users_volume_with_the_gates_name_is_left_alone() {
    let Some(mut cluster) = Cluster::start() else { return };
    let theirs = json!([
        {"name": "peermem-gate", "emptyDir": {}},
        {"name": "peermem-gate-nothing", "configMap": {"name": "theirs"}},
    ]);
    let policies = ["admission", "wrapper", "shim"].map(policy);
    for order in orders(&policies.iter().collect::<Vec<_>>()) {
        let mut pod = pod_of(&fixture("openshift"));
        pod["spec"]["volumes"].as_array_mut().unwrap().extend(theirs.as_array().unwrap().clone());
        for policy in order {
            pod = cluster.admits(policy, &pod).expect("it matches");
        }
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let names: BTreeSet<_> = volumes.iter().map(|volume| volume["name"].to_string()).collect();
        assert_eq!(names.len(), volumes.len(), "{volumes:#?}");
        for volume in theirs.as_array().unwrap() {
            assert!(volumes.contains(volume), "{volume}");
        }
        for container in
            ["initContainers", "containers"].iter().flat_map(|at| pod["spec"][at].as_array().unwrap())
        {
            for mount in container["volumeMounts"].as_array().unwrap() {
                assert!(
                    mount["name"] != "peermem-gate" && mount["name"] != "peermem-gate-nothing",
                    "{mount}"
                );
            }
        }
    }
}

fn the_drivers_container_is_found_in_any_place_of_the_list() {
    let Some(mut cluster) = Cluster::start() else { return };
    for (name, place) in [("wrapper", DRIVER), ("shim", DRIVER)] {
        let mut pod = pod_of(&fixture("clusterpolicy"));
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        let others =
            (0..19).map(|at| json!({"name": format!("nvidia-driver-ctr-{at}"), "image": "other:test"}));
        containers.splice(0..0, others);
        let before = pod.clone();
        let admitted = cluster.admits(&policy(name), &pod).expect("it matches");
        let mounts = container(&admitted, place)["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["name"] == GATE_CONTAINER), "{name}");
        for at in 0..19 {
            assert_eq!(admitted["spec"]["containers"][at], before["spec"]["containers"][at], "{name}");
        }
    }
}

/// What our containers bring into somebody else's pod: no token, no right, no other quality of service.
fn the_gates_containers_add_no_token_right_or_resource_to_the_pod() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut pod = pod_of(&fixture("clusterpolicy"));
    for policy in ["admission", "wrapper", "shim"].map(policy) {
        pod = cluster.admits(&policy, &pod).expect("it matches");
    }
    let ours = &pod["spec"]["initContainers"].as_array().unwrap()[1..];
    assert_eq!(ours.len(), 2);
    for container in ours {
        assert!(container.get("resources").is_none(), "{container:#}");
        let mounts = container["volumeMounts"].as_array().unwrap();
        let token = "/var/run/secrets/kubernetes.io/serviceaccount";
        let token =
            mounts.iter().find(|mount| mount["mountPath"] == token).expect("nothing in the token's place");
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == token["name"]).unwrap();
        assert_eq!(volume["emptyDir"], json!({"medium": "Memory", "sizeLimit": "4Ki"}));
        let writable: Vec<_> = mounts.iter().filter(|mount| mount["readOnly"] != true).collect();
        let is_installer = container["name"] == "peermem-gate-install";
        assert_eq!(writable.len(), usize::from(is_installer), "{container:#}");
    }
}

/// kubernetes#142181: API servers up to 1.36.4 panic on them.
fn no_patch_has_a_list_of_objects_as_its_value() {
    for policy in POLICIES.map(policy) {
        for mutation in policy["spec"]["mutations"].as_array().unwrap() {
            let expression: String =
                mutation["jsonPatch"]["expression"].as_str().unwrap().split_whitespace().collect();
            assert!(expression.contains("value:Object"), "{expression}");
            assert!(!expression.contains("value:[Object"), "{expression}");
        }
    }
}

fn the_wrapper_becomes_the_drivers_original_command() {
    let Some(mut cluster) = Cluster::start() else { return };
    for components in [&[][..], &["dry-run"], &["v1beta1"]] {
        let policy = named(&render_with(&["wrapper"], components), "peermem-gate-wrapper");
        for (name, _, precompiled) in FIXTURES {
            let pod = pod_of(&fixture(name));
            let admitted = cluster.admits(&policy, &pod).expect("it matches");
            let dry_run = components.contains(&"dry-run");
            let mut command = vec![
                json!(INSTALLED),
                json!("wait"),
                json!("--for"),
                json!("peermem"),
                json!("--timeout"),
                json!("10m"),
                json!(format!("--precompiled={precompiled}")),
                json!(format!("--dry-run={dry_run}")),
                json!("--"),
            ];
            let original = container(&pod, DRIVER);
            command.extend(original["command"].as_array().unwrap().clone());
            let wrapped = container(&admitted, DRIVER);
            assert_eq!(wrapped["command"], Value::from(command.clone()), "{name}");
            assert_eq!(wrapped["args"], original["args"], "{name}");
            assert_eq!(wrapped["env"], original["env"], "{name}: OpenShift writes it into a shell file");
            let mount = json!({"name": GATE_CONTAINER, "mountPath": "/opt/peermem-gate", "readOnly": true});
            assert_eq!(wrapped["volumeMounts"].as_array().unwrap().last(), Some(&mount), "{name}");
            // What it is called with is what this binary takes, except for the command.
            let words = command[1..command.len() - original["command"].as_array().unwrap().len()].iter();
            let mut gate = gate();
            gate.args(words.map(|word| word.as_str().unwrap()))
                .arg("true")
                .env("PEERMEM_GATE_DISABLED", "a test");
            assert_eq!(code(output(&mut gate).status), 0);

            for other in
                [PEERMEM, TOOLKIT].map(|name| (container_of(&pod, name), container_of(&admitted, name)))
            {
                assert_eq!(other.0, other.1, "{name}");
            }
            let volumes = admitted["spec"]["volumes"].as_array().unwrap();
            let volume = volumes.iter().find(|volume| volume["name"] == GATE_CONTAINER).unwrap();
            let base = base_volumes();
            assert_eq!(Some(volume), base.iter().find(|v| v["name"] == GATE_CONTAINER));
            let installer = admitted["spec"]["initContainers"].as_array().unwrap().last();
            assert_eq!(installer, Some(&base_container("peermem-gate-install")), "{name}");
            assert_eq!(cluster.admits(&policy, &admitted), Err("not-wrapped-yet".to_owned()), "{name}");
        }
    }
}

fn the_shim_is_mounted_only_in_containers_that_call_modprobe() {
    let Some(mut cluster) = Cluster::start() else { return };
    let policy = policy("shim");
    for (name, _, precompiled) in FIXTURES {
        let pod = pod_of(&fixture(name));
        let admitted = cluster.admits(&policy, &pod).expect("it matches");
        let mount = json!({
            "name": GATE_CONTAINER,
            "mountPath": "/usr/local/sbin/modprobe",
            "subPath": "peermem-gate",
            "readOnly": true,
        });
        let has_shim = |container: &&Value| container["volumeMounts"].as_array().unwrap().contains(&mount);
        let containers = admitted["spec"]["containers"].as_array().unwrap();
        let with_shim: Vec<_> = containers.iter().filter(has_shim).map(|c| c["name"].clone()).collect();
        assert_eq!(with_shim, [DRIVER], "{name}");
        assert_eq!(container_of(&pod, TOOLKIT), container_of(&admitted, TOOLKIT), "{name}");
        for caller in [DRIVER, PEERMEM] {
            let Some(caller) = container_of(&admitted, caller) else { continue };
            let settings = [("TIMEOUT", "10m"), ("PRECOMPILED", precompiled), ("DRY_RUN", "false")]
                .map(|(name, value)| json!({"name": format!("PEERMEM_GATE_{name}"), "value": value}));
            let env = caller["env"].as_array().unwrap();
            assert_eq!(env[env.len() - 3..], settings, "{name}");
        }
        assert_eq!(cluster.admits(&policy, &admitted), Err("no-shim-yet".to_owned()), "{name}");
    }
}

/// In whatever order the API server takes them, one is no hindrance to the others.
fn the_policies_work_together_in_every_order() {
    let Some(mut cluster) = Cluster::start() else { return };
    let policies = ["admission", "wrapper", "shim"].map(policy);
    for order in orders(&policies.iter().collect::<Vec<_>>()) {
        let mut pod = pod_of(&fixture("openshift"));
        for policy in &order {
            pod = cluster.admits(policy, &pod).expect("it matches");
        }
        let names = init_containers(&pod);
        assert_eq!(names[0], MANAGER);
        let names: BTreeSet<_> = names.into_iter().collect();
        assert_eq!(names, [MANAGER, GATE_CONTAINER, "peermem-gate-install"].map(str::to_owned).into());
        assert_eq!(pod["spec"]["initContainers"].as_array().unwrap().len(), 3);
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        assert_eq!(volumes.iter().filter(|volume| volume["name"] == GATE_CONTAINER).count(), 1);
        for policy in order {
            assert!(cluster.admits(policy, &pod).is_err(), "a second time changes nothing");
        }
    }
}

/// These policies with these settings.
fn policies_with(names: &[&str], settings: &[(&str, bool, &str)]) -> Vec<Value> {
    let set = |name: &&str| {
        let mut policy = policy(name);
        for (setting, _, value) in settings.iter().filter(|(_, is_set, _)| *is_set) {
            if variable(&policy, setting).is_some() {
                set_variable(&mut policy, setting, value);
            }
        }
        policy
    };
    names.iter().map(set).collect()
}

/// API servers warn of a variable that is there twice, and refuse volumes and mounts: every choice of policies, with
/// every setting that adds something, half of them in the order of their names and half against it. What a person has
/// set stays.
fn no_container_gets_a_variable_a_volume_or_a_mount_twice() {
    let Some(mut cluster) = Cluster::start() else { return };
    let theirs = [("TIMEOUT", "7m"), ("REBUILD", "off")]
        .map(|(name, value)| json!({"name": format!("PEERMEM_GATE_{name}"), "value": value}));
    for bits in 0_usize..16 {
        let is_set = |at: usize| bits >> at & 1 == 1;
        let names = ["admission", "shim", "wrapper"];
        let mut names: Vec<_> = (0..3).filter(|at| is_set(*at)).map(|at| names[at]).collect();
        if bits.count_ones() % 2 == 1 {
            names.reverse();
        }
        let settings = [("rebuild", is_set(3), "'auto'")];
        let mut pod = pod_of(&fixture(FIXTURES[bits % FIXTURES.len()].0));
        let is_theirs = bits % 3 == 0;
        if is_theirs {
            for container in pod["spec"]["containers"].as_array_mut().unwrap() {
                let env = container["env"].as_array().cloned().unwrap_or_default();
                container["env"] = env.into_iter().chain(theirs.clone()).collect();
            }
        }
        for policy in policies_with(&names, &settings) {
            pod = cluster.admits(&policy, &pod).expect("it matches");
        }
        assert_nothing_twice(&pod);
        let driver = &container(&pod, DRIVER)["env"];
        assert!(!is_theirs || theirs.iter().all(|one| driver.as_array().unwrap().contains(one)), "{driver}");
    }
}

/// The overlay for `NVLink` 5 takes every driver pod, and the gate asks the node.
fn the_overlay_for_nvlink5_takes_drivers_pods_whatever_they_ask_for() {
    let Some(mut cluster) = Cluster::start() else { return };
    let rendered = render_with(&["admission", "wrapper"], &["nvlink5"]);
    let [gate, wrapper] = ["peermem-gate", "peermem-gate-wrapper"].map(|name| named(&rendered, name));
    for asked in ["true", "false", ""] {
        let mut pod = pod_of(&fixture("clusterpolicy"));
        set_env(container_mut(&mut pod, DRIVER), "GPU_DIRECT_RDMA_ENABLED", asked);
        {
            let admitted = cluster.admits(&gate, &pod).expect("it matches");
            let mut expected = base_container(GATE_CONTAINER);
            set_env(&mut expected, "GPU_DIRECT_RDMA_ENABLED", if asked == "true" { "true" } else { "false" });
            set_env(&mut expected, "PEERMEM_GATE_FOR", "any");
            let context = expected["securityContext"].as_object_mut().unwrap();
            context
                .extend([("runAsUser", json!(0)), ("runAsGroup", json!(0))].map(|(k, v)| (k.to_owned(), v)));
            context.insert("runAsNonRoot".to_owned(), json!(false));
            let made = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
            assert_eq!(*made, expected, "{asked}");
            let again = cluster.admits(&gate, &admitted);
            assert_eq!(again, Err("not-there-yet".to_owned()), "a second time changes nothing");
        }
        let admitted = cluster.admits(&wrapper, &pod).expect("it matches");
        let command = &container(&admitted, DRIVER)["command"];
        // The driver's container has no variable that says no.
        let consumers = if asked == "true" { "any" } else { "fabric" };
        assert_eq!((&command[2], &command[3]), (&json!("--for"), &json!(consumers)), "{asked}");
    }
    let mut pod = pod_of(&fixture("clusterpolicy"));
    pod["spec"]["initContainers"][0]["name"] = json!("something-else");
    for policy in [&gate, &wrapper] {
        assert_eq!(cluster.admits(policy, &pod), Err("behind-k8s-driver-manager".to_owned()));
    }
    // The vGPU and VFIO managers have a k8s-driver-manager too, and none of the volumes.
    let mut manager = pod_of(&fixture("clusterpolicy"));
    container_mut(&mut manager, DRIVER)["name"] = json!("nvidia-vfio-manager");
    assert_eq!(cluster.admits(&gate, &manager), Err("behind-k8s-driver-manager".to_owned()));
    assert_eq!(cluster.admits(&wrapper, &manager), Err("not-wrapped-yet".to_owned()));
}

fn orders<'a>(all: &[&'a Value]) -> Vec<Vec<&'a Value>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |at: usize| {
        let mut others = all.to_vec();
        let first = others.remove(at);
        orders(&others).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..all.len()).flat_map(with_first).collect()
}

fn each_kustomize_component_changes_what_its_name_says() {
    if !can_kubectl() {
        return;
    }
    let rendered = |lines: &[&str]| -> Vec<Value> {
        let all = render_overlay("default", lines);
        all.into_iter().filter(|document| document["kind"] == "MutatingAdmissionPolicy").collect()
    };
    let all = |policies: &[Value], get: &dyn Fn(&Value) -> Option<String>| -> BTreeSet<String> {
        assert_eq!(policies.len(), 3);
        policies.iter().filter_map(get).collect()
    };
    let text = |policy: &Value, name: &str| variable(policy, name).map(str::to_owned);
    let namespace = |policy: &Value| {
        let at = "/spec/matchConstraints/namespaceSelector/matchLabels/kubernetes.io~1metadata.name";
        policy.pointer(at).and_then(Value::as_str).map(str::to_owned)
    };
    let is_only = |found: BTreeSet<String>, expected: &str| assert_eq!(found, [expected.to_owned()].into());
    is_only(all(&rendered(&["dry-run"]), &|policy| text(policy, "dryRun")), "'true'");
    is_only(all(&rendered(&[]), &namespace), "gpu-operator");
    is_only(all(&rendered(&[]), &|policy| text(policy, "seLinuxType")), "''");
    is_only(all(&rendered(&["openshift"]), &namespace), "nvidia-gpu-operator");
    is_only(all(&rendered(&["openshift"]), &|policy| text(policy, "seLinuxType")), "'spc_t'");
    let versions = all(&rendered(&["v1beta1"]), &|policy| Some(policy["apiVersion"].as_str()?.to_owned()));
    is_only(versions, "admissionregistration.k8s.io/v1beta1");
    let of_nvlink5 = all(&rendered(&["nvlink5"]), &|policy| text(policy, "consumers"));
    is_only(of_nvlink5, "'any'");
}

/// Until somebody sets it no policy compiles, and the API server refuses it; tests/chart/engine.rs has its words.
fn the_manifests_name_no_image_until_a_user_sets_it() {
    if !can_kubectl() {
        return;
    }
    let copy = TempDir::new().unwrap();
    copy_tree(&manifests(), copy.path());
    let images = |directory: &Path| -> Vec<String> {
        let rendered = render(directory);
        rendered.iter().filter_map(|policy| Some(variable(policy, "image")?.to_owned())).collect()
    };
    let overlay = copy.path().join("overlays/default");
    assert_eq!(images(&overlay), vec!["image_is_not_set"; 3]);
    set_image(copy.path(), "registry.example/a/gate:7.8.9");
    assert_eq!(images(&overlay), vec!["'registry.example/a/gate:7.8.9'"; 3]);
}

/// From outside, in a kustomization above an overlay: the example's two lines.
fn a_kustomization_above_an_overlay_sets_what_it_wants() {
    if !can_kubectl() {
        return;
    }
    let rendered = render(&root().join("examples/cluster"));
    let [gate, wrapper] = ["peermem-gate", "peermem-gate-wrapper"].map(|name| named(&rendered, name));
    for policy in [&gate, &wrapper] {
        assert_eq!(variable(policy, "image"), Some("'registry.example/peermem-gate:0.3.0'"));
    }
    assert_eq!((variable(&gate, "timeout"), variable(&wrapper, "timeout")), (Some("'60m'"), Some("'8m'")));
}

/// Of what can go wrong in an expression, most would show in a cluster alone. Here it shows.
fn the_tests_cluster_reports_broken_expressions() {
    let Some(mut cluster) = Cluster::start() else { return };
    let policy = named(&render_with(&["admission"], &[]), "peermem-gate");
    let pod = pod_of(&fixture("clusterpolicy"));
    let at = "/spec/mutations/0/jsonPatch/expression";
    let faults = [
        ("mountPath: '/usr/src'", "mountPth: '/usr/src'", "undefined field 'mountPth'"),
        (
            "imagePullPolicy: 'IfNotPresent'",
            "imagePullPolicy: 65532",
            "expected type of field 'imagePullPolicy'",
        ),
        (
            "Object.spec.initContainers.env.valueFrom{",
            "Object.spec.containers.env.valueFrom{",
            "expected type of field",
        ),
        ("{drop: ['ALL']}", "{drop: [1]}", "expected type of field 'drop'"),
        ("image: variables.image", "image: variables.immage", "immage"),
        ("value: variables.rdma}", "value: variables.rdma", "Syntax error"),
        ("? [\n  JSONPatch{", "? [[\n  JSONPatch{", "Syntax error"),
    ];
    for (right, wrong, words) in faults {
        let mut policy = policy.clone();
        let expression = policy.pointer(at).unwrap().as_str().unwrap();
        assert!(expression.contains(right), "{right} is in no expression");
        let expression = expression.replacen(right, wrong, 1);
        *policy.pointer_mut(at).unwrap() = json!(expression);
        let answer = cluster.checker.ask(&json!({"admit": policy, "pod": pod}));
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{wrong} is accepted: {answer}"));
        assert!(error.contains(words), "{wrong}: {error}");
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        every_manifest_says_what_it_survives_and_what_it_needs,
        the_document_leads_to_every_manifest,
        every_container_drops_privileges_and_requests_resources,
        the_schemas_accept_every_manifest,
        the_readiness_rule_has_the_right_fields,
        every_policy_matches_only_the_drivers_pods,
        the_init_container_is_appended_once_and_is_the_one_in_plain_yaml,
        a_pod_without_the_volume_of_the_state_file_gets_its_gate_too,
        the_gate_takes_the_settings_that_it_is_given,
        a_pod_without_rdma_or_without_its_manager_is_left_alone,
        rdma_is_asked_for_in_any_case_of_letters_and_by_the_last_word,
        a_users_volume_with_the_gates_name_is_left_alone,
        the_drivers_container_is_found_in_any_place_of_the_list,
        the_gates_containers_add_no_token_right_or_resource_to_the_pod,
        no_patch_has_a_list_of_objects_as_its_value,
        the_wrapper_becomes_the_drivers_original_command,
        the_shim_is_mounted_only_in_containers_that_call_modprobe,
        the_policies_work_together_in_every_order,
        no_container_gets_a_variable_a_volume_or_a_mount_twice,
        the_overlay_for_nvlink5_takes_drivers_pods_whatever_they_ask_for,
        each_kustomize_component_changes_what_its_name_says,
        the_manifests_name_no_image_until_a_user_sets_it,
        a_kustomization_above_an_overlay_sets_what_it_wants,
        the_tests_cluster_reports_broken_expressions
    ]
}
