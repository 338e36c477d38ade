// SPDX-License-Identifier: Apache-2.0
//! The ways into a cluster: examples/gitops, what a server fills in, and the documents' tables of rights and of where
//! to start.

use crate::cluster::{self, Helper, checker, each_object, files, is_yaml, manifests, root, yaml};
use crate::helm::{self, can_helm};
use crate::support::{self, skip, tests};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn gitops(name: &str) -> Vec<Value> {
    yaml(&root().join("examples/gitops").join(name))
}

fn policy(changes: &[(&str, Value)]) -> Value {
    let mut policy = cluster::policy("init-container");
    for (pointer, value) in changes {
        *policy.pointer_mut(pointer).expect(pointer) = value.clone();
    }
    policy
}

/// A policy, and its health for Argo CD and (failed, current) for Flux.
fn cases() -> [(Value, &'static str, (bool, bool)); 3] {
    let open = policy(&[("/spec/failurePolicy", json!("Ignore"))]);
    let dry = policy(&[("/spec/variables/2/expression", json!("'true'"))]);
    assert_eq!(dry["spec"]["variables"][2]["name"], "dryRun");
    [
        (policy(&[]), "Healthy", (false, true)),
        (open, "Degraded", (true, true)),
        (dry, "Suspended", (false, true)),
    ]
}

fn argo_cd_and_flux_judge_the_policies_health(checker: &mut Helper) {
    let data = &gitops("argocd-cm.yaml")[0]["data"];
    let of = |kind: &str| {
        data[format!("resource.customizations.health.admissionregistration.k8s.io_{kind}")].clone()
    };
    let expressions = gitops("flux-health.yaml")[0]["spec"]["healthCheckExprs"].clone();
    for (policy, health, (failed, current)) in cases() {
        for (name, expected) in [("failed", failed), ("current", current)] {
            let question = json!({"evaluate": expressions[0][name], "given": {"spec": policy["spec"]}});
            assert_eq!(checker.ask(&question), json!({"value": expected}), "{name} of one that is {health}");
        }
        let answer = checker.ask(&json!({"lua": of("MutatingAdmissionPolicy"), "obj": policy}));
        if answer["error"].as_str().is_some_and(|error| error.contains("lupa")) {
            return skip("no Lua: tests/manifests/tools installs it");
        }
        assert_eq!(answer["status"], health, "{answer}");
    }
    let binding = &yaml(&manifests().join("wait/init-container.yaml"))[1];
    for (binding, health) in [(binding.clone(), "Healthy"), (json!({"spec": {}}), "Degraded")] {
        let answer = checker.ask(&json!({"lua": of("MutatingAdmissionPolicyBinding"), "obj": binding}));
        assert_eq!(answer["status"], health, "{answer}");
    }
}

fn the_chart_takes_the_values_of_the_gitops_examples() {
    let argo = gitops("argocd-application.yaml")[0]["spec"]["source"]["helm"]["valuesObject"].clone();
    let flux = gitops("flux.yaml")[1]["spec"]["values"].clone();
    let mut without_image = argo.clone();
    without_image.as_object_mut().unwrap().remove("image");
    assert_eq!(without_image, flux, "both examples install the same; the release's own chart has its images");
    let made = helm::by_name(helm::helm(&argo, &[]).expect("objects"));
    for (kind, name) in [
        ("MutatingAdmissionPolicy", "peermem-gate"),
        ("MutatingAdmissionPolicyBinding", "peermem-gate"),
        ("DaemonSet", "peermem-gate-keeper"),
    ] {
        assert!(made.contains_key(&(kind.to_owned(), name.to_owned())), "{kind} {name}");
    }
}

/// A tool that does not know a kind replaces its lists as a whole. What the API server fills in inside a list
/// would be a difference forever; outside of lists it is none.
fn every_list_of_a_policy_has_its_defaults_written_out() {
    let mut rules = 0;
    for path in files(&manifests()).iter().filter(|path| is_yaml(path)) {
        for document in yaml(path).iter().filter(|document| document["kind"] == "MutatingAdmissionPolicy") {
            each_object(document, &mut |object| {
                if object.contains_key("apiVersions") {
                    rules += 1;
                    assert!(object.contains_key("scope"), "{}: {object:?}", path.display());
                }
            });
            assert!(document["spec"]["matchConstraints"]["resourceRules"].is_array(), "{}", path.display());
        }
    }
    assert_eq!(rules, 3);
}

/// The table in docs/rights.md has each `DaemonSet`, with what it really asks for.
fn the_table_of_rights_is_that_of_the_manifests() {
    let text = fs::read_to_string(root().join("docs/rights.md")).unwrap();
    let row = |part: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(&format!("| {part} |")));
        line.unwrap_or_else(|| panic!("no row of {part}"))
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    for part in ["node/npd", "node/nfd", "node/textfile", "fleet", "keeper"] {
        let spec = &yaml(&manifests().join(part).join("daemonset.yaml"))[0]["spec"]["template"]["spec"];
        let cells = row(part);
        let context = &spec["containers"][0]["securityContext"];
        assert_eq!(cells[2], context["runAsUser"].to_string(), "{part}: user");
        let added: Vec<_> = context["capabilities"]["add"].as_array().into_iter().flatten().collect();
        let added: BTreeSet<_> = added.iter().map(|name| name.as_str().unwrap()).collect();
        let said: BTreeSet<_> = cells[3].split(", ").filter(|name| *name != "none").collect();
        assert_eq!(said, added, "{part}: capabilities");
        assert_eq!(cells[4] == "yes", spec["hostPID"] == true, "{part}: hostPID");
        let has_account = spec["serviceAccountName"].is_string();
        assert_eq!(cells[6] != "none", has_account, "{part}: RBAC");
        // All mount the host's directories, which only this level allows.
        assert_eq!(cells[5], "privileged", "{part}: PodSecurity");
    }
}

/// A cluster is one row, and its command is all that it takes.
fn each_cluster_has_one_command_that_installs_the_keeper() {
    let text = fs::read_to_string(root().join("docs/integration.md")).unwrap();
    assert!(text.split_whitespace().count() <= 1100, "{} words", text.split_whitespace().count());
    let (_, section) = text.split_once("\n## Your cluster, one command\n").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let spans = section.lines().filter_map(|line| line.split('`').nth(1).filter(|_| line.starts_with('|')));
    let commands: Vec<_> = spans.filter(|span| span.starts_with("helm install")).collect();
    assert!(commands.len() >= 2, "{commands:?}");
    if !can_helm() {
        return;
    }
    for command in commands {
        let set = command.split_once("--set ").map(|(_, set)| set);
        let image = json!({"image": {"repository": "registry.example/peermem-gate", "tag": "7.8.9"}});
        let words: Vec<_> = set.into_iter().flat_map(|set| ["--set", set]).collect();
        let made = helm::by_name(helm::helm(&image, &words).unwrap_or_else(|why| panic!("{command}: {why}")));
        assert!(made.contains_key(&("DaemonSet".to_owned(), "peermem-gate-keeper".to_owned())), "{command}");
    }
}

/// As a source archive without links leaves it.
fn a_copy_of_the_chart_without_its_manifests_installs_nothing_and_says_so() {
    let copy = tempfile::tempdir().unwrap();
    let chart = root().join("charts/peermem-gate");
    let copied = Command::new("cp").arg("-r").arg(&chart).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    let copy = copy.path().join("peermem-gate");
    fs::remove_file(copy.join("manifests")).expect("it is a link");
    for wait in ["true", "false"] {
        let set = format!("wait.enabled={wait},npd.enabled=true");
        let ran = support::output(
            Command::new(cluster::tool("helm"))
                .args(["template", "peermem-gate"])
                .arg(&copy)
                .args(["--set", &set]),
        );
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains("this copy of the chart has no manifests"), "{said}");
    }
}

tests![
    on checker [argo_cd_and_flux_judge_the_policies_health],
    [
        every_list_of_a_policy_has_its_defaults_written_out,
        the_table_of_rights_is_that_of_the_manifests,
        each_cluster_has_one_command_that_installs_the_keeper,
    ],
    if can_helm [
        the_chart_takes_the_values_of_the_gitops_examples,
        a_copy_of_the_chart_without_its_manifests_installs_nothing_and_says_so,
    ],
];
