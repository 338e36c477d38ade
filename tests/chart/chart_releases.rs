// SPDX-License-Identifier: Apache-2.0
//! The life of a release of the chart: installed, upgraded and removed by the real helm, with a server that has only
//! discovery and storage (tests/manifests/api-server.py).

use crate::cluster::{self, root, tool};
use crate::helm::can_helm;
use crate::support::{self, output, tests};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const GROUP: &str = "admissionregistration.k8s.io";
const CHART: &str = "charts/peermem-gate";

/// The objects of a cluster, which outlive its API servers.
struct Cluster(TempDir);

/// An API server that has the two kinds of policies in these versions.
struct Server<'a> {
    cluster: &'a Cluster,
    process: Child,
}

impl Cluster {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn server(&self, versions: &[&str]) -> Server<'_> {
        let mut command = Command::new("python3");
        command.arg(root().join("tests/manifests/api-server.py")).arg(self.0.path().join("objects"));
        command.args(["v1/Pod", "v1/Secret"]);
        for kind in ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"] {
            command.args(versions.iter().map(|version| format!("{GROUP}/{version}/{kind}")));
        }
        let mut process = command.stdout(Stdio::piped()).spawn().expect("python3 can be run");
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{}", port.trim())}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        });
        fs::write(self.0.path().join("config"), config.to_string()).unwrap();
        // What a server offers is kept there.
        let _ = fs::remove_dir_all(self.0.path().join("home"));
        Server { cluster: self, process }
    }

    /// The versions in which the policies and bindings were written, and the releases that own them.
    fn policies(&self) -> Vec<(String, String)> {
        let directory = self.0.path().join("objects").join(GROUP);
        let files = if directory.exists() { cluster::files(&directory) } else { Vec::new() };
        let describe = |path: &PathBuf| {
            let object: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            let release = &object["metadata"]["annotations"]["meta.helm.sh/release-name"];
            (version, release.as_str().unwrap_or_default().to_owned())
        };
        files.iter().map(describe).collect()
    }
}

impl Server<'_> {
    fn run(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let place = self.cluster.0.path();
        let mut command = Command::new(tool(program));
        command.args(words).current_dir(root());
        command.env("KUBECONFIG", place.join("config")).env("HOME", place.join("home"));
        let output = output(&mut command);
        let said = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(said(output.stdout)) } else { Err(said(output.stderr)) }
    }

    fn helm(&self, words: &[&str]) -> Result<String, String> {
        self.run("helm", &[words, &["--namespace", "kube-system"]].concat())
    }

    /// The release `gate` with these values. This server has no schemas.
    fn apply_with(&self, values: &str, words: &[&str]) -> Result<String, String> {
        let set = format!("keeper.enabled=false,{values}");
        let all = ["gate", CHART, "--disable-openapi-validation", "--set", &set];
        self.helm(&[words, &all].concat())
    }

    /// With the policy.
    fn apply(&self, words: &[&str]) -> Result<String, String> {
        self.apply_with("wait.enabled=true", words)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn can_serve() -> bool {
    can_helm() && support::can(&["python3", "--version"])
}

/// The policy and its binding.
fn all_are(version: &str, release: &str) -> Vec<(String, String)> {
    vec![(version.to_owned(), release.to_owned()); 2]
}

fn the_wait_is_installed_where_the_cluster_has_its_kind_and_refused_where_it_has_not() {
    let cluster = Cluster::new();
    let server = cluster.server(&["v1"]);
    server.apply(&["install"]).unwrap();
    assert_eq!(cluster.policies(), all_are("v1", "gate"));
    server.apply_with("wait.enabled=false", &["upgrade"]).unwrap();
    assert_eq!(cluster.policies(), []);
    server.apply(&["upgrade"]).unwrap();
    server.helm(&["uninstall", "gate"]).unwrap();
    assert_eq!(cluster.policies(), []);
    for versions in [&["v1beta1"][..], &[]] {
        let cluster = Cluster::new();
        let server = cluster.server(versions);
        let refusal = server.apply(&["install"]).unwrap_err();
        assert!(refusal.contains("wait.enabled needs"), "{refusal}");
        server.apply_with("wait.enabled=false", &["install"]).unwrap();
        assert_eq!(cluster.policies(), []);
    }
}

fn the_chart_takes_over_what_the_manifest_has_made() {
    let cluster = Cluster::new();
    let server = cluster.server(&["v1"]);
    server
        .run("kubectl", &["apply", "--validate=false", "-f", "manifests/wait/init-container.yaml"])
        .unwrap();
    assert_eq!(cluster.policies(), all_are("v1", ""));
    let refusal = server.apply(&["install"]).unwrap_err();
    assert!(refusal.contains("cannot be imported into the current release"), "{refusal}");
    server.apply(&["install", "--take-ownership", "--force-conflicts"]).unwrap();
    assert_eq!(cluster.policies(), all_are("v1", "gate"));
    server.helm(&["uninstall", "gate"]).unwrap();
    assert_eq!(cluster.policies(), []);
}

/// docs/rollout.md, "Three nodes first": helm merges an upgrade's objects into those that it has.
fn a_release_of_three_nodes_is_widened_as_the_page_says() {
    let page = fs::read_to_string(root().join("docs/rollout.md")).unwrap();
    let words = |marked: &str| {
        let (_, after) = page.split_once(marked).unwrap_or_else(|| panic!("{marked}"));
        after.split(['`', '\n']).next().unwrap().replace('\'', "")
    };
    let (first, widen) = (words("  --set-string "), words("5. Widen: `--set "));
    let cluster = Cluster::new();
    let server = cluster.server(&["v1"]);
    let has_first = || server.helm(&["get", "values", "gate"]).unwrap().contains("github.io/first: \"true\"");
    server.apply(&["install", "--set-string", &first]).unwrap();
    assert!(has_first(), "only those nodes");
    server.apply(&["upgrade", "--reset-then-reuse-values", "--set", &widen]).unwrap();
    assert!(!has_first(), "{widen} widens nothing");
}

tests![
    if can_serve [
        a_release_of_three_nodes_is_widened_as_the_page_says,
        the_wait_is_installed_where_the_cluster_has_its_kind_and_refused_where_it_has_not,
        the_chart_takes_over_what_the_manifest_has_made,
    ],
];
