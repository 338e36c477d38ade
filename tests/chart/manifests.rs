// SPDX-License-Identifier: Apache-2.0
//! The manifests are whole and valid, and do to the GPU Operator's pods what they say.
//!
//! Kubernetes' own schemas and a CEL of others come by tests/manifests/tools; patches are rendered and
//! applied by kubectl, whose JSON patch is the API server's. tests/manifests/fixtures has the pods.

use crate::cluster::{
    Cluster, Helper, assert_nothing_twice, checker, container, container_mut, container_of, each_object,
    files, fixture, init_containers, is_yaml, manifests, pod_of, policy, root, set_env, yaml,
};
use crate::support::{Node, code, gate, output, tests};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
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

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const POLICIES: [&str; 3] = ["init-container", "wrapper", "shim"];

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
        "keeper" => &["SYS_MODULE", "SYS_CHROOT", "SYS_PTRACE"],
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
            for at in ["/resources/requests/cpu", "/resources/requests/memory", "/resources/limits/memory"] {
                assert!(container.pointer(at).is_some(), "{at}: {container:#}");
            }
            assert_eq!(
                container["securityContext"],
                rights(container["name"].as_str().unwrap()),
                "{container:#}"
            );
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

fn the_schemas_accept_every_manifest(checker: &mut Helper) {
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

/// One match for all policies: pods as they are made, in the driver's namespaces, with the driver's containers.
fn every_policy_matches_only_the_drivers_pods() {
    for policy in POLICIES {
        let documents = yaml(&manifests().join("wait").join(policy).with_extension("yaml"));
        let spec = &documents[0]["spec"];
        assert_eq!(spec["failurePolicy"], "Fail", "{policy}");
        let namespaces = ["gpu-operator", "nvidia-gpu-operator"];
        let constraints = json!({
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
            ]},
            "resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }],
        });
        assert_eq!(spec["matchConstraints"], constraints, "{policy}");
        assert_eq!(spec["matchConditions"][1]["name"], "behind-k8s-driver-manager", "{policy}");
        assert_eq!(documents[1]["kind"], "MutatingAdmissionPolicyBinding");
        assert_eq!(documents[1]["spec"], json!({"policyName": documents[0]["metadata"]["name"]}));
    }
}

/// The card's uses are a file each that a person reads, and that is applied as it stands.
fn the_cards_uses_are_a_manifest_of_at_most_80_lines_each() {
    let version = env!("CARGO_PKG_VERSION");
    let by_hand = root().join("examples/pod-test.yaml");
    let wait = files(&manifests().join("wait"));
    assert_eq!(wait.len(), POLICIES.len());
    for path in wait.iter().chain([&by_hand]) {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.lines().count() <= 80, "{}: {} lines", path.display(), text.lines().count());
        let image = format!("peermem-gate:{version}");
        assert!(text.contains(&image), "{}: the image of this release", path.display());
    }
}

/// The container that this policy adds, and the mounts and settings that it must have.
fn the_init_container_is_appended_once_with_the_drivers_settings(cluster: &mut Cluster) {
    let policy = policy("init-container");
    for (name, use_host_mofed, precompiled) in FIXTURES {
        let pod = pod_of(&fixture(name));
        let admitted = cluster.admits(&policy, &pod).expect("it matches");
        assert_eq!(init_containers(&admitted), [MANAGER, GATE_CONTAINER], "{name}");
        let mut left = admitted.clone();
        let gate = left["spec"]["initContainers"].as_array_mut().unwrap().pop().unwrap();
        let args = [
            "wait",
            "--for=any",
            "--timeout=60m",
            &format!("--precompiled={precompiled}"),
            "--dry-run=false",
        ];
        assert_eq!(gate["args"], json!(args), "{name}");
        let set = |name: &str| {
            let variables = gate["env"].as_array().unwrap().iter();
            variables
                .filter(|variable| variable["name"] == name)
                .map(|one| one["value"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(set("GPU_DIRECT_RDMA_ENABLED"), ["true"], "{name}");
        let host: Vec<_> = (use_host_mofed == "true").then(|| json!("true")).into_iter().collect();
        assert!(set("USE_HOST_MOFED") == host || set("USE_HOST_MOFED") == ["false"], "{name}: {gate}");
        let digest: Vec<_> = digest(&pod).map(|one| one["value"].clone()).into_iter().collect();
        assert_eq!(set("DRIVER_CONFIG_DIGEST"), digest, "{name}");
        let mounts = gate["volumeMounts"].as_array().unwrap().iter();
        let mounts: Vec<_> = mounts
            .map(|mount| {
                let is_safe = mount["readOnly"] == true && mount["mountPropagation"] == "HostToContainer";
                assert!(is_safe, "{mount}");
                (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap())
            })
            .collect();
        let expected = [
            ("run-mellanox-drivers", "/run/mellanox/drivers"),
            ("mlnx-ofed-usr-src", "/usr/src"),
            ("peermem-gate-nothing", TOKEN),
            ("run-nvidia", "/run/nvidia"),
        ];
        assert_eq!(mounts, expected, "{name}");
        // User 0 reads how an NVLink 5 machine is known.
        assert_eq!(gate["securityContext"]["runAsUser"], 0);
        assert_confined(&gate);
        let volume = left["spec"]["volumes"].as_array_mut().unwrap().pop().unwrap();
        assert_eq!(volume["name"], "peermem-gate-nothing", "{name}");
        assert_eq!(left, pod, "nothing else of {name} has changed");
        assert_eq!(cluster.admits(&policy, &admitted), Err("not-there-yet".to_owned()), "{name}");
        assert_nothing_twice(&admitted);
    }
}

/// What our containers bring into somebody else's pod: no token, no right, no other quality of service.
fn assert_confined(container: &Value) {
    assert!(container.get("resources").is_none(), "{container:#}");
    let context = &container["securityContext"];
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(
        (&context["allowPrivilegeEscalation"], &context["readOnlyRootFilesystem"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(
        mounts.iter().any(|mount| mount["mountPath"] == TOKEN),
        "nothing in the token's place: {container:#}"
    );
}

/// What the operator has told the driver's container, which is not in every release.
fn digest(pod: &Value) -> Option<&Value> {
    let variables = container(pod, DRIVER)["env"].as_array().unwrap();
    variables.iter().find(|variable| variable["name"] == "DRIVER_CONFIG_DIGEST")
}

/// The mount only adds a message, so a pod without it is not refused.
fn a_pod_without_the_volume_of_the_state_file_gets_its_gate_too(cluster: &mut Cluster) {
    let mut pod = pod_of(&fixture("precompiled"));
    pod["spec"]["volumes"].as_array_mut().unwrap().retain(|one| one["name"] != "run-nvidia");
    let admitted = cluster.admits(&policy("init-container"), &pod).expect("it matches");
    let gate = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
    assert_eq!(gate["volumeMounts"].as_array().unwrap().len(), 3, "{gate}");
}

/// The driver's settings are the gate's, in any case of letters; a pod that says nothing of RDMA wants none.
fn the_gate_takes_the_settings_that_it_is_given(cluster: &mut Cluster) {
    let node = Node::ready();
    for (asked, expected) in [(Some("True"), "open: MOFED is ready"), (Some("false"), "open"), (None, "open")]
    {
        let mut pod = pod_of(&fixture("clusterpolicy"));
        let env = container_mut(&mut pod, DRIVER)["env"].as_array_mut().unwrap();
        env.retain(|one| one["name"] != "GPU_DIRECT_RDMA_ENABLED");
        env.extend(asked.map(|value| json!({"name": "GPU_DIRECT_RDMA_ENABLED", "value": value})));
        let admitted = cluster.admits(&policy("init-container"), &pod).expect("it matches");
        let made = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
        let mut command = gate();
        command.args(made["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        command.arg("--root").arg(node.root());
        for variable in made["env"].as_array().unwrap() {
            command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap_or("gpu-1"));
        }
        let opened = output(&mut command);
        let said = String::from_utf8_lossy(&opened.stderr);
        assert!(code(opened.status) == 0 && said.contains(expected), "{asked:?}: {said}");
        let value = json!({"name": "GPU_DIRECT_RDMA_ENABLED", "value": if asked == Some("True") { "true" } else { "false" }});
        assert!(made["env"].as_array().unwrap().contains(&value), "{asked:?}: {made}");
        assert_eq!(code(output(command.env("PEERMEM_GATE_NO_SUCH", "1")).status), 2);
    }
}

fn a_pod_without_rdma_or_without_its_manager_is_left_alone(cluster: &mut Cluster) {
    for name in POLICIES {
        let policy = policy(name);
        let pod = || pod_of(&fixture("clusterpolicy"));
        // The init container asks the node itself: an NVLink 5 machine waits with DMA-BUF, too.
        if name != "init-container" {
            for value in ["false", "yes", ""] {
                let mut other = pod();
                set_env(container_mut(&mut other, DRIVER), "GPU_DIRECT_RDMA_ENABLED", value);
                assert_eq!(cluster.admits(&policy, &other), Err("rdma-requested".to_owned()), "{value}");
            }
            for value in ["true", "True", "TRUE"] {
                let mut other = pod();
                set_env(container_mut(&mut other, DRIVER), "GPU_DIRECT_RDMA_ENABLED", value);
                assert!(cluster.admits(&policy, &other).is_ok(), "{value}");
            }
            let mut other = pod();
            container_mut(&mut other, DRIVER).as_object_mut().unwrap().remove("env");
            assert_eq!(cluster.admits(&policy, &other), Err("rdma-requested".to_owned()));
        }
        let mut other = pod();
        other["spec"]["initContainers"][0]["name"] = json!("something-else");
        assert_eq!(cluster.admits(&policy, &other), Err("behind-k8s-driver-manager".to_owned()));
        let mut other = pod();
        other["spec"].as_object_mut().unwrap().remove("initContainers");
        assert_eq!(cluster.admits(&policy, &other), Err("behind-k8s-driver-manager".to_owned()));
        // The vGPU and VFIO managers have a k8s-driver-manager too, and none of the volumes.
        let mut manager = pod();
        container_mut(&mut manager, DRIVER)["name"] = json!("nvidia-vfio-manager");
        assert!(cluster.admits(&policy, &manager).is_err(), "{name}");
    }
}

fn the_drivers_container_is_found_in_any_place_of_the_list(cluster: &mut Cluster) {
    for name in ["wrapper", "shim"] {
        let mut pod = pod_of(&fixture("clusterpolicy"));
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        let others =
            (0..19).map(|at| json!({"name": format!("nvidia-driver-ctr-{at}"), "image": "other:test"}));
        containers.splice(0..0, others);
        let before = pod.clone();
        let admitted = cluster.admits(&policy(name), &pod).expect("it matches");
        let mounts = container(&admitted, DRIVER)["volumeMounts"].as_array().unwrap();
        let volume = format!("peermem-gate-{name}");
        assert!(mounts.iter().any(|mount| mount["name"] == *volume), "{name}");
        for at in 0..19 {
            assert_eq!(admitted["spec"]["containers"][at], before["spec"]["containers"][at], "{name}");
        }
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

/// The pod's own init container that fills the volume, confined, with its token hidden.
fn assert_installs(admitted: &Value, name: &str) {
    let installer = admitted["spec"]["initContainers"].as_array().unwrap().last().unwrap();
    assert_eq!(installer["name"], name);
    assert_eq!(installer["securityContext"]["runAsUser"], 65532);
    assert_confined(installer);
    let [verb, place] = &installer["args"].as_array().unwrap()[..] else { panic!("{installer}") };
    assert_eq!((verb, place), (&json!("install"), &installer["volumeMounts"][0]["mountPath"]));
    let volume = TempDir::new().unwrap();
    assert_eq!(code(output(gate().arg("install").arg(volume.path())).status), 0);
    let file = INSTALLED.strip_prefix(place.as_str().unwrap()).unwrap();
    assert!(volume.path().join(file.trim_matches('/')).is_file(), "{file}");
    let volume = admitted["spec"]["volumes"].as_array().unwrap().last().unwrap();
    assert_eq!(*volume, json!({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}));
}

fn the_wrapper_becomes_the_drivers_original_command(cluster: &mut Cluster) {
    let policy = policy("wrapper");
    for (name, _, precompiled) in FIXTURES {
        let pod = pod_of(&fixture(name));
        let admitted = cluster.admits(&policy, &pod).expect("it matches");
        let mut command: Vec<_> =
            [INSTALLED, "wait", "--timeout=10m", &format!("--precompiled={precompiled}"), "--"]
                .map(|word| json!(word))
                .to_vec();
        command.extend(container(&pod, DRIVER)["command"].as_array().unwrap().clone());
        assert_eq!(container(&admitted, DRIVER)["command"], json!(command), "{name}");
        assert_eq!(container(&admitted, DRIVER)["args"], container(&pod, DRIVER)["args"], "{name}");
        // What is said is understood, and the entrypoint is become.
        let mut run = gate();
        let words: Vec<_> = command[1..].iter().map(|word| word.as_str().unwrap()).collect();
        let wrapped = words.iter().position(|word| *word == "--").unwrap();
        run.args(&words[..=wrapped]).arg("true").env("PEERMEM_GATE_DISABLED", "a test");
        assert_eq!(code(output(&mut run).status), 0);
        for other in [PEERMEM, TOOLKIT] {
            assert_eq!(container_of(&pod, other), container_of(&admitted, other), "{name}");
        }
        assert_installs(&admitted, "peermem-gate-wrapper");
        assert_nothing_twice(&admitted);
        assert_eq!(cluster.admits(&policy, &admitted), Err("not-there-yet".to_owned()), "{name}");
    }
    let mut without = pod_of(&fixture("clusterpolicy"));
    container_mut(&mut without, DRIVER).as_object_mut().unwrap().remove("command");
    assert_eq!(cluster.admits(&policy, &without), Err("not-there-yet".to_owned()), "no command to wrap");
}

fn the_shim_is_mounted_only_in_the_container_whose_root_calls_modprobe(cluster: &mut Cluster) {
    let policy = policy("shim");
    let mount = json!({
        "name": "peermem-gate-shim",
        "mountPath": "/usr/local/sbin/modprobe",
        "subPath": "peermem-gate",
        "readOnly": true,
    });
    for (name, _, precompiled) in FIXTURES {
        let pod = pod_of(&fixture(name));
        let admitted = cluster.admits(&policy, &pod).expect("it matches");
        let has_shim = |container: &&Value| container["volumeMounts"].as_array().unwrap().contains(&mount);
        let containers = admitted["spec"]["containers"].as_array().unwrap();
        let with_shim: Vec<_> = containers.iter().filter(has_shim).map(|c| c["name"].clone()).collect();
        assert_eq!(with_shim, [DRIVER], "{name}");
        assert_eq!(container_of(&pod, TOOLKIT), container_of(&admitted, TOOLKIT), "{name}");
        for caller in [DRIVER, PEERMEM] {
            let Some(caller) = container_of(&admitted, caller) else { continue };
            let settings = [("TIMEOUT", "10m"), ("PRECOMPILED", precompiled), ("REBUILD", "auto")]
                .map(|(name, value)| json!({"name": format!("PEERMEM_GATE_{name}"), "value": value}));
            let env = caller["env"].as_array().unwrap();
            assert_eq!(env[env.len() - 3..], settings, "{name}");
        }
        assert_installs(&admitted, "peermem-gate-shim");
        assert_nothing_twice(&admitted);
        assert_eq!(cluster.admits(&policy, &admitted), Err("not-there-yet".to_owned()), "{name}");
    }
    // Whoever sets one of our variables keeps all of his.
    let mut pod = pod_of(&fixture("clusterpolicy"));
    let theirs = json!({"name": "PEERMEM_GATE_TIMEOUT", "value": "7m"});
    container_mut(&mut pod, DRIVER)["env"].as_array_mut().unwrap().push(theirs);
    let admitted = cluster.admits(&policy, &pod).expect("it matches");
    assert_eq!(container(&admitted, DRIVER)["env"], container(&pod, DRIVER)["env"]);
}

/// In whatever order the API server takes them, one is no hindrance to the others, and nothing is there twice.
fn the_policies_work_together_in_every_order(cluster: &mut Cluster) {
    let policies = POLICIES.map(policy);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut pod = pod_of(&fixture("openshift"));
        for at in order {
            pod = cluster.admits(&policies[at], &pod).expect("it matches");
        }
        let names = init_containers(&pod);
        assert_eq!(names[0], MANAGER);
        let names: BTreeSet<_> = names.into_iter().collect();
        let expected = [MANAGER, GATE_CONTAINER, "peermem-gate-shim", "peermem-gate-wrapper"];
        assert_eq!(names, expected.map(str::to_owned).into());
        assert_nothing_twice(&pod);
        for policy in &policies {
            assert!(cluster.admits(policy, &pod).is_err(), "a second time changes nothing");
        }
    }
}

/// Of what can go wrong in an expression, most would show in a cluster alone. Here it shows.
fn the_tests_cluster_reports_broken_expressions(cluster: &mut Cluster) {
    let policy = policy("init-container");
    let pod = pod_of(&fixture("clusterpolicy"));
    let at = "/spec/mutations/0/jsonPatch/expression";
    let faults = [
        ("mountPath: m[1]", "mountPth: m[1]", "undefined field 'mountPth'"),
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
        ("variables.image", "variables.immage", "immage"),
        ("value: 'false'}", "value: 'false'", "Syntax error"),
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

tests![
    [
        every_manifest_says_what_it_survives_and_what_it_needs,
        the_document_leads_to_every_manifest,
        every_container_drops_privileges_and_requests_resources,
        the_readiness_rule_has_the_right_fields,
        every_policy_matches_only_the_drivers_pods,
        the_cards_uses_are_a_manifest_of_at_most_80_lines_each,
        no_patch_has_a_list_of_objects_as_its_value,
    ],
    on checker [the_schemas_accept_every_manifest],
    on Cluster::start [
        the_init_container_is_appended_once_with_the_drivers_settings,
        a_pod_without_the_volume_of_the_state_file_gets_its_gate_too,
        the_gate_takes_the_settings_that_it_is_given,
        a_pod_without_rdma_or_without_its_manager_is_left_alone,
        the_drivers_container_is_found_in_any_place_of_the_list,
        the_wrapper_becomes_the_drivers_original_command,
        the_shim_is_mounted_only_in_the_container_whose_root_calls_modprobe,
        the_policies_work_together_in_every_order,
        the_tests_cluster_reports_broken_expressions,
    ],
];
