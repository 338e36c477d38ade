// SPDX-License-Identifier: Apache-2.0
//! What looks at nodes and reports to fleets: plugins, labels, metrics, alerts, and the sidecar where the driver is
//! the host's.

use crate::cluster::{
    Helper, can_kubectl, checker, documents, files, manifests, only, render, root, tool, yaml,
};
use crate::place::Place;
use crate::support::{self, GATE, Node, can, can_mount, code, gate, output, suite, wrapped};
use libtest_mimic::Trial;
use peermem_gate::keeper::{self, Keep, LoadFailure, LoadResult, Stay};
use peermem_gate::ready::gate::Policy;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const INSTALLED: &str = "/opt/peermem-gate/peermem-gate";

fn node_problem_detector_gets_a_plugin_that_answers_as_it_expects() {
    let path = manifests().join("node/npd/peermem.json");
    let plugin: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let rule = &plugin["rules"][0];
    assert_eq!(rule["path"], INSTALLED);
    assert_eq!(rule["condition"], plugin["conditions"][0]["type"]);
    assert_eq!(rule["type"], "permanent");
    let seconds = |text: &Value| humantime::parse_duration(text.as_str().unwrap()).unwrap();
    let whole = &plugin["pluginConfig"];
    assert!(seconds(&rule["timeout"]) <= seconds(&whole["timeout"]), "it refuses to start otherwise");
    assert!(seconds(&whole["timeout"]) < seconds(&whole["invoke_interval"]));
    // Its first condition would say "no problem" before the gate was asked, and the taint of ../readiness would go.
    assert_eq!(whole["skip_initial_status"], true);

    let limit = usize::try_from(whole["max_output_length"].as_u64().unwrap()).unwrap();
    let blind = blind();
    // Ready for the build, and no nvidia-peermem.ko: `check` would be green.
    let roots = [(served(), 0), (served().without_marker(), 1), (Node::ready(), 1)];
    let roots = roots.iter().map(|(node, ends)| (node.root(), *ends)).chain([(blind.path(), 1)]);
    for (root, ends) in roots {
        let words = rule["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let output = output(gate().args(words).arg("--root").arg(root));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(code(output.status), ends, "{said}");
        // It takes all of the output, and cuts it.
        assert!(said.trim_end().is_ascii() && said.trim_end().len() <= limit, "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
    // The reason of False and of Unknown alike.
    let reason = plugin["conditions"][0]["reason"].as_str().unwrap();
    assert!(!reason.contains("Ready"), "{reason}");

    if can_kubectl() {
        let rendered = render(&manifests().join("node/npd"));
        let config = only(&rendered, |kind| kind == "ConfigMap");
        let daemonset = only(&rendered, |kind| kind == "DaemonSet");
        let volumes = daemonset["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        assert_eq!(volumes[0]["configMap"]["name"], config["metadata"]["name"]);
        assert!(config["data"]["peermem.json"].as_str().unwrap().contains(INSTALLED));
        assert_eq!(render(&manifests().join("node/readiness")).len(), 1);
    }
}

/// A node that is ready, where nvidia-peermem is live too: `doctor` finds nothing.
fn served() -> Node {
    let node = Node::ready();
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    let drivers = "nvidia_peermem 1 0 - Live 0x0 (OE)\nnvidia 1 1 nvidia_peermem, Live 0x0 (OE)\n";
    // As the kernel counts it: nvidia_peermem uses ib_uverbs, too.
    let used = "ib_uverbs 217088 2 mlx5_ib,nvidia_peermem,";
    let modules = modules.replace("ib_uverbs 217088 1 mlx5_ib,", used);
    assert!(modules.contains(used), "{modules}");
    node.write("proc/modules", drivers.to_owned() + &modules);
    for module in ["nvidia", "nvidia_peermem"] {
        node.write(&format!("sys/module/{module}/initstate"), "live\n");
        node.write(&format!("sys/module/{module}/taint"), "OE\n");
    }
    let gpu = "sys/bus/pci/devices/0000:41:00.0";
    node.write(&format!("{gpu}/vendor"), "0x10de\n");
    node.write(&format!("{gpu}/class"), "0x030200\n");
    fs::create_dir_all(node.path("sys/bus/pci/drivers/nvidia")).unwrap();
    symlink("../../drivers/nvidia", node.path(&format!("{gpu}/driver"))).unwrap();
    node
}

/// A host of which next to nothing can be seen.
fn blind() -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir_all(root.path().join("proc/sys")).unwrap();
    root
}

/// What the pods print, `kubectl logs --prefix` hands on and `fleet` reads; and the document's commands name them.
fn the_fleets_reports_are_what_fleet_reads() {
    let daemonset = &yaml(&manifests().join("fleet/daemonset.yaml"))[0];
    let spec = &daemonset["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    let mount = &container["volumeMounts"][0];
    assert_eq!((&mount["readOnly"], &mount["mountPropagation"]), (&json!(true), &json!("HostToContainer")));
    assert_eq!(spec["automountServiceAccountToken"], false);
    let nodes = [("n-1", Node::ready()), ("n-2", Node::ready().without_marker())];
    let mut reports = String::new();
    for (name, node) in &nodes {
        node.write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n");
        node.write("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n");
        let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words =
            words.map(|word| if word == mount["mountPath"] { node.root().to_str().unwrap() } else { word });
        // One report of those that it repeats.
        let words: Vec<_> = words.collect();
        let at = words.iter().position(|word| *word == "--every").expect("its pods stay");
        let mut gate = gate();
        gate.args(&words[..at])
            .args(&words[at + 2..])
            .env(container["env"][0]["name"].as_str().unwrap(), name);
        let output = output(gate.env("GPU_DIRECT_RDMA_ENABLED", "true"));
        let report = String::from_utf8(output.stdout).unwrap();
        reports += &format!("[pod/peermem-doctor-{name}/{}] {report}", container["name"].as_str().unwrap());
    }
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("reports");
    fs::write(&file, reports).unwrap();
    let output = output(gate().args(["fleet", "--format", "json"]).arg(&file));
    assert_eq!(code(output.status), 1);
    let rollup: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&rollup["nodes"], &rollup["damaged"]), (&json!(2), &json!(0)), "{rollup:#}");

    let text = fs::read_to_string(root().join("docs/fleet.md")).unwrap();
    let kustomization = &yaml(&manifests().join("fleet/kustomization.yaml"))[0];
    let namespace = kustomization["namespace"].as_str().unwrap();
    let label = daemonset["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"].as_str().unwrap();
    let collect = format!("kubectl logs -n {namespace} -l app.kubernetes.io/name={label} --prefix");
    assert!(text.contains(&collect) && text.contains("kubectl apply -k manifests/fleet\n"), "{collect}");
    if can_kubectl() {
        let rendered = render(&manifests().join("fleet"));
        assert_eq!(rendered.len(), 1);
        assert_eq!(rendered[0]["metadata"]["namespace"], namespace);
    }
}

fn node_feature_discovery_gets_a_label_that_expires() {
    let features = TempDir::new().unwrap();
    let label = |root: &Path| {
        let mut script = script("nfd/peermem-gate-nfd");
        script.arg("--root").arg(root).env("FEATURES_DIR", features.path());
        let output = output(&mut script);
        assert_eq!(code(output.status), 0, "{}", String::from_utf8_lossy(&output.stderr));
        let left: Vec<_> = fs::read_dir(features.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["peermem-gate"]);
        let text = fs::read_to_string(features.path().join("peermem-gate")).unwrap();
        let (expiry, label) = text.split_once('\n').expect("lines");
        let expiry = humantime::parse_rfc3339(expiry.strip_prefix("# +expiry-time=").unwrap()).unwrap();
        assert!(expiry > std::time::SystemTime::now());
        label.trim_end().to_owned()
    };
    let name = "feature.node.kubernetes.io/peermem-gate.ready";
    assert_eq!(label(served().root()), format!("{name}=true"));
    assert_eq!(label(served().without_marker().root()), format!("{name}=false"));
    assert_eq!(label(served().without("sys/bus").root()), format!("{name}=unknown"));
    // Nothing asks for RDMA: neither ready nor not.
    let unasked = served();
    unasked.write("run/nvidia/validations/.driver-ctr-ready", "GPU_DIRECT_RDMA_ENABLED: false\n");
    unasked.write("proc/uptime", "9000.00 9000.00\n");
    assert_eq!(label(unasked.root()), "");
}

/// A script of manifests/node with this program in its PATH.
fn script(name: &str) -> Command {
    let path = format!("{}:/usr/bin:/bin", Path::new(GATE).parent().unwrap().display());
    let mut script = Command::new(manifests().join("node").join(name));
    script.env("PATH", path);
    script
}

fn node_exporter_gets_a_file_at_every_look() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("peermem-gate.prom");
    let look = |node: &Node, directory: &Path| {
        let mut script = script("textfile/peermem-gate-metrics");
        let output = output(script.arg("--root").arg(node.root()).env("TEXTFILE_DIR", directory));
        (code(output.status), String::from_utf8(output.stderr).unwrap())
    };
    for (node, standing) in [(served(), "ok"), (served().without_marker(), "waiting"), (served(), "ok")] {
        assert_eq!(look(&node, directory.path()).0, 0);
        let written = fs::read_to_string(&file).unwrap();
        let sample = format!("peermem_doctor_standing{{standing=\"{standing}\"}} 1\n");
        assert!(written.contains(&sample), "{written}");
        assert!(!written.contains("type=\"Settled\""), "nobody asked for it: {written}");
    }
    // What cannot be written is not replaced, and that shows.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for place in [directory.path(), Path::new("/no/such/directory")] {
        let (ends, said) = look(&Node::ready(), place);
        assert_ne!(ends, 0, "{said}");
        assert!(said.contains("peermem-gate.prom"), "{said}");
    }
}

/// The unit has just what it takes to write where another user is the owner; without it the unit fails.
fn the_metrics_are_written_where_node_exporter_is_the_owner() {
    let unit = fs::read_to_string(manifests().join("node/textfile/peermem-gate-metrics.service")).unwrap();
    let bounds = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let bounds =
        bounds.split(' ').map(|name| format!(",+{}", name.strip_prefix("CAP_").unwrap().to_lowercase()));
    let bounds: String = bounds.collect();
    for (bounds, ends) in [(&*format!("-all{bounds}"), 0), ("-all", 1)] {
        if !can(&["setpriv", "--bounding-set", bounds, "true"]) {
            return;
        }
        let directory = TempDir::new().unwrap();
        std::os::unix::fs::chown(directory.path(), Some(65534), Some(65534)).unwrap();
        let node = Node::ready();
        let mut script = script("textfile/peermem-gate-metrics");
        script.arg("--root").arg(node.root()).env("TEXTFILE_DIR", directory.path());
        let output = output(&mut wrapped(["setpriv", "--bounding-set", bounds], &script));
        assert_eq!(code(output.status), ends, "{bounds}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// In a `DaemonSet` they run in whatever image has a shell, such as busybox's.
fn the_node_check_scripts_run_in_busybox_sh() {
    if !can(&["busybox", "true"]) {
        return;
    }
    let scratch = TempDir::new().unwrap();
    let busybox = output(Command::new("which").arg("busybox"));
    let busybox = String::from_utf8(busybox.stdout).unwrap();
    for applet in ["sh", "cat", "date", "ls", "mv", "rm", "sleep"] {
        symlink(busybox.trim(), scratch.path().join(applet)).unwrap();
    }
    symlink(GATE, scratch.path().join("peermem-gate")).unwrap();
    let node = Node::ready();
    for (name, variable) in
        [("nfd/peermem-gate-nfd", "FEATURES_DIR"), ("textfile/peermem-gate-metrics", "TEXTFILE_DIR")]
    {
        let place = TempDir::new().unwrap();
        let mut script = Command::new(scratch.path().join("sh"));
        script.arg(manifests().join("node").join(name)).arg("--root").arg(node.root());
        let output = output(script.env("PATH", scratch.path()).env(variable, place.path()));
        assert_eq!(code(output.status), 0, "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "{name}");
    }
}

/// Applied as they stand, with the images of this release; and with others from outside.
fn the_daemonsets_have_their_images() {
    for directory in ["node/npd", "node/nfd", "node/textfile", "fleet", "keeper"] {
        let rendered = render(&manifests().join(directory));
        let spec = &only(&rendered, |kind| kind == "DaemonSet")["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array().into_iter().flatten() {
                let image = container["image"].as_str().unwrap();
                assert!(image.contains('.') && image.contains('/'), "{directory}: {image} has no registry");
            }
        }
    }
    let rendered = render(&root().join("examples/node"));
    let daemonset = only(&rendered, |kind| kind == "DaemonSet");
    let spec = &daemonset["spec"]["template"]["spec"];
    for container in ["initContainers", "containers"].iter().flat_map(|at| spec[at].as_array().unwrap()) {
        assert!(container["image"].as_str().unwrap().starts_with("registry.example/"), "{container}");
    }
}

/// Each unit is what systemd takes, and calls what this program takes with its variables.
fn the_systemd_units_are_valid() {
    let is_unit = |path: &PathBuf| path.extension().is_some_and(|end| end == "service" || end == "timer");
    let all = [manifests().join("node"), root().join("examples")];
    let units: Vec<_> = all.iter().flat_map(|directory| files(directory)).filter(is_unit).collect();
    assert_eq!(units.len(), 4 + 3, "{units:?}");
    let scratch = TempDir::new().unwrap();
    let mut copies = Vec::new();
    for unit in units {
        let text = fs::read_to_string(&unit).unwrap();
        let values = |name: &str| {
            text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect::<Vec<_>>()
        };
        let command = values("ExecStart").first().copied().unwrap_or_default();
        if let Some(words) = command.strip_prefix("/usr/local/bin/peermem-gate ") {
            let mut run = gate();
            run.args(words.split(' '));
            // `wait` runs nothing.
            let ends = if words.starts_with("wait ") { 0 } else { 127 };
            if ends == 127 {
                run.args(["--modprobe", "/no/such/modprobe"]);
            }
            if !words.starts_with("keep") {
                run.env("PEERMEM_GATE_DISABLED", "only to see whether it is refused");
            }
            run.envs(values("Environment").iter().map(|variable| variable.split_once('=').unwrap()));
            assert_eq!(code(output(&mut run).status), ends, "{}", unit.display());
        }
        if unit.ends_with("peermem-gate-keep.service") {
            for (name, value) in
                [("Type", "notify"), ("ExecReload", "/bin/kill -HUP $MAINPID"), ("Restart", "on-failure")]
            {
                assert_eq!(values(name), [value]);
            }
            assert_eq!(values("WatchdogSec").len(), 1);
        }
        let copy = scratch.path().join(unit.file_name().unwrap());
        let text = ["-metrics", "-nfd"].iter().fold(text.clone(), |text, end| {
            text.replace(&format!("/usr/local/bin/peermem-gate{end}"), "/bin/true")
        });
        fs::write(&copy, text.replace("/usr/local/bin/peermem-gate", GATE)).unwrap();
        copies.push(copy);
    }
    if can(&["systemd-analyze", "--version"]) {
        let verified = output(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&copies));
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && !said.contains("peermem-gate-"), "{said}");
    }
}

/// The node's keeper calls what this program takes, sees the whole node, and writes little of it.
fn the_keeper_sees_the_node_and_has_no_probe() {
    let daemonset = &yaml(&manifests().join("keeper/daemonset.yaml"))[0];
    let spec = &daemonset["spec"]["template"]["spec"];
    assert!(spec.get("hostPID").is_none() && spec.get("hostNetwork").is_none());
    assert_eq!(
        daemonset["spec"]["updateStrategy"],
        json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    );
    let container = &spec["containers"][0];
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        assert!(
            container.get(probe).is_none(),
            "{probe}: a deployer would wait for a driver that comes later"
        );
    }
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert_eq!(
        mounts[0],
        json!({"name": "host", "mountPath": "/host", "mountPropagation": "HostToContainer", "readOnly": true})
    );
    let written = mounts.iter().filter(|mount| mount["readOnly"] != true).map(|mount| &mount["mountPath"]);
    let written: Vec<_> = written.map(|path| path.as_str().unwrap()).collect();
    let of_host = ["/host/lib/modules", "/host/var/lib/peermem-gate", "/host/etc"];
    assert_eq!(written[..3], of_host);
    assert_eq!(written[3..], ["/run/peermem-gate", "/var/lib/node_exporter/textfile_collector"]);
    // It ends because nothing is mounted there, not because of its arguments.
    let words: Vec<_> =
        container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let words = words.iter().map(|word| word.replace("/host", "/no/such/root"));
    let ran = output(gate().args(words));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(code(ran.status) == 2 && said.contains("/no/such/root is not a directory"), "{said}");
}

/// A node whose RDMA stack is the kernel's own, for a rebuild that may write to a few directories only.
struct Confined {
    place: Place,
    /// Below its root.
    writable: Vec<String>,
    /// Without `CAP_`, in small letters.
    capabilities: Vec<String>,
}

impl Confined {
    fn new(writable: Vec<String>, capabilities: Vec<String>) -> Option<Self> {
        let place = Place::new().filter(|_| can_mount() && can(&["setpriv", "--version"]))?;
        place.is_in_box();
        let node = &place.node;
        for (path, script) in [
            ("usr/bin/make", "cp /made/0x065554c2.ko $2/nvidia-peermem.ko"),
            (
                "usr/sbin/depmod",
                "sed -i s,^kernel/drivers/video/nvidia-peermem.ko:,updates/nvidia-peermem.ko:, \
                    /lib/modules/$1/modules.dep",
            ),
        ] {
            support::write_program(&node.path(path), format!("#!/bin/busybox sh\n{script}\n"));
        }
        for path in &writable {
            fs::create_dir_all(node.path(path)).unwrap();
        }
        Some(Self { place, writable, capabilities })
    }

    /// Runs it without this capability.
    fn run(&self, verb: &str, more: &[&str], without: &str) -> (i32, String) {
        let mut shell = "mount --bind $0 $0; ".to_owned();
        for path in &self.writable {
            shell += &format!("mount --bind $0/{path} $0/{path}; ");
        }
        shell += "mount -o remount,bind,ro $0; ! touch $0/x 2>/dev/null; exec \"$@\"";
        let kept = self.capabilities.iter().filter(|name| *name != without);
        let set = kept.fold("--bounding-set=-all".to_owned(), |set, name| set + ",+" + name);
        let root = self.place.node.root().to_str().unwrap();
        let by = ["unshare", "-m", "sh", "-ec", &shell, root, "setpriv", "--inh-caps=-all"];
        let mut command = self.place.run(verb, more);
        command.env("PATH", "/usr/bin:/bin:/usr/sbin").env("USE_HOST_MOFED", "true");
        let output = output(&mut wrapped(by.into_iter().chain([set.as_str()]), &command));
        (code(output.status), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    fn assert_rebuilds(&self) {
        let (ends, said) = self.run("rebuild", &[], "sys_chroot");
        assert_ne!(ends, 0, "{said}");
        let (ends, said) = self.run("load", &["--timeout", "1s"], "sys_module");
        assert!(ends == 3 && said.contains("CAP_SYS_MODULE"), "{said}");
        let (ends, said) = self.run("rebuild", &[], "");
        assert!(ends == 0 && self.place.is_installed(), "{said}");
        let (ends, said) = self.run("rebuild", &["--undo"], "");
        assert!(ends == 0 && !self.place.is_installed(), "{said}");
    }
}

/// In a read-only root with the mounts of the `DaemonSet`, and with its capabilities, of which it needs each.
fn the_keeper_rebuilds_with_its_mounts_and_capabilities() {
    let daemonset = &yaml(&manifests().join("keeper/daemonset.yaml"))[0];
    let container = &daemonset["spec"]["template"]["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let written = mounts.filter(|mount| mount["readOnly"] != true).map(|mount| &mount["mountPath"]);
    let written = written.filter_map(|path| path.as_str().unwrap().strip_prefix("/host/"));
    let capabilities = container["securityContext"]["capabilities"]["add"].as_array().unwrap();
    let capabilities: Vec<_> =
        capabilities.iter().map(|name| name.as_str().unwrap().to_lowercase()).collect();
    assert_eq!(capabilities, ["sys_module", "sys_chroot", "sys_ptrace"]);
    let Some(confined) = Confined::new(written.map(str::to_owned).collect(), capabilities) else { return };
    confined.assert_rebuilds();
}

/// `ProtectSystem=strict` leaves a unit what it names. The unit that loads once enters no other root.
fn the_hosts_systemd_units_allow_a_rebuild() {
    for (unit, added) in
        [("peermem-gate-keep.service", None), ("systemd/peermem-gate-load.service", Some("sys_chroot"))]
    {
        let text = fs::read_to_string(root().join("examples").join(unit)).unwrap();
        if let Some(confined) = confined_as(&text, added) {
            confined.assert_rebuilds();
        }
    }
}

/// What systemd leaves this unit, and a capability more.
fn confined_as(text: &str, added: Option<&str>) -> Option<Confined> {
    let values = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        lines.flat_map(|value| value.split(' ').map(str::to_owned)).collect::<Vec<_>>()
    };
    // systemd makes those two; what a path with a dash names need not be there.
    let named = values("ReadWritePaths").into_iter().filter(|path| !path.starts_with('-'));
    let named = named.map(|path| path.trim_start_matches('/').to_owned());
    let state = values("StateDirectory").into_iter().map(|name| format!("var/lib/{name}"));
    let settings = values("ConfigurationDirectory").into_iter().map(|name| format!("etc/{name}"));
    let capabilities = values("CapabilityBoundingSet").into_iter();
    let capabilities = capabilities.map(|name| name.trim_start_matches("CAP_").to_lowercase());
    let capabilities = capabilities.chain(added.map(str::to_owned)).collect();
    Confined::new(named.chain(state).chain(settings).collect(), capabilities)
}

/// What is below `spec` there is a rule file of Prometheus.
fn rules() -> Value {
    yaml(&manifests().join("monitoring/rules.yaml")).remove(0)["spec"].take()
}

fn can_promtool() -> bool {
    can(&[&tool("promtool"), "--version"])
}

fn promtool(words: &[&str], directory: &Path) {
    let output = output(Command::new(tool("promtool")).args(words).current_dir(directory));
    let [said, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said}{complained}");
}

fn every_alert_fires_when_it_should_and_only_then() {
    let tests = fs::read_to_string(root().join("tests/manifests/alerts.yaml")).unwrap();
    let scratch = TempDir::new().unwrap();
    fs::write(scratch.path().join("rules.yaml"), rules().to_string()).unwrap();
    fs::write(scratch.path().join("alerts.yaml"), &tests).unwrap();
    promtool(&["check", "rules", "rules.yaml"], scratch.path());
    promtool(&["test", "rules", "alerts.yaml"], scratch.path());
    // Each does not fire yet, fires, and ends with its cause, in one story.
    let stories = documents(&tests).remove(0)["tests"].take();
    for rule in rules()["groups"][0]["rules"].as_array().unwrap() {
        let is_whole = |story: &Value| fires(story, &rule["alert"]) == [false, true, false];
        assert!(stories.as_array().unwrap().iter().any(is_whole), "{}", rule["alert"]);
    }
}

/// Whether the alert fires at each of the story's times.
fn fires(story: &Value, alert: &Value) -> Vec<bool> {
    let cases =
        story["alert_rule_test"].as_array().unwrap().iter().filter(|case| case["alertname"] == *alert);
    let minute = |case: &Value| {
        let time = case["eval_time"].as_str().unwrap();
        time.strip_suffix('m').unwrap().parse::<u32>().unwrap()
    };
    let mut cases: Vec<_> = cases.map(|case| (minute(case), case["exp_alerts"].is_array())).collect();
    cases.sort_unstable();
    cases.dedup_by_key(|(_, fires)| *fires);
    cases.into_iter().map(|(_, fires)| fires).collect()
}

fn prometheus_accepts_every_query_of_the_dashboard() {
    let text = fs::read_to_string(manifests().join("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let number = |panel: &Value, at: &str| panel["gridPos"][at].as_u64().unwrap();
    let covers = |panel: &Value| {
        let (x, y) = (number(panel, "x"), number(panel, "y"));
        let (w, h) = (number(panel, "w"), number(panel, "h"));
        assert!(x + w <= 24, "{panel}");
        (x..x + w).flat_map(move |x| (y..y + h).map(move |y| (x, y))).collect::<Vec<_>>()
    };
    let covered: Vec<_> = panels.iter().flat_map(covers).collect();
    assert_eq!(covered.iter().collect::<BTreeSet<_>>().len(), covered.len(), "one is above another");
    let mut expressions = Vec::new();
    for panel in panels {
        assert!(panel["title"].is_string() && panel["description"].is_string(), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"));
        }
    }
    // The documents promise each of our metrics.
    let documents =
        ["usage.md", "sidecar.md"].map(|name| fs::read_to_string(root().join("docs").join(name)).unwrap());
    let of_rules = rules()["groups"][0]["rules"].as_array().unwrap().clone();
    let of_rules = of_rules.iter().map(|rule| rule["expr"].as_str().unwrap());
    for expression in expressions.iter().map(String::as_str).chain(of_rules) {
        for (at, _) in expression.match_indices("peermem_gate_") {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let name = expression[at..].split(|letter| !is_name(letter)).next().unwrap();
            assert!(documents.iter().any(|text| text.contains(name)), "{name}");
        }
    }
    if !can_promtool() {
        return;
    }
    let rules: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(at, expression)| json!({"record": format!("panel:{at}"), "expr": expression}))
        .collect();
    let scratch = TempDir::new().unwrap();
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(scratch.path().join("rules.yaml"), file.to_string()).unwrap();
    promtool(&["check", "rules", "rules.yaml"], scratch.path());
}

/// A node exporter's sample lines as promtool's series, of this instance.
fn series(text: &str, instance: &str) -> Vec<Value> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let of = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let labels = format!("instance=\"{instance}\",{labels}").replace(",}", "}");
        json!({"series": format!("{name}{{{labels}"), "values": format!("{value}+0x20")})
    };
    samples.map(of).collect()
}

/// One node is ready, one waits, and one has the sidecar. Their metrics and the cluster's fill every panel.
fn the_dashboard_shows_what_wait_keep_and_a_fleet_report() {
    let scratch = TempDir::new().unwrap();
    let written = scratch.path().join("wait.prom");
    let mut input = Vec::new();
    for (instance, node, ends) in [("n-1", Node::ready(), 0), ("n-2", Node::ready().without_marker(), 124)] {
        let mut wait = gate();
        wait.args(["wait", "--timeout", "0s", "--metrics-file"]).arg(&written).arg("--root").arg(node.root());
        assert_eq!(code(output(&mut wait).status), ends);
        input.extend(series(&fs::read_to_string(&written).unwrap(), instance));
    }
    let moment = std::time::Duration::from_secs(1);
    let policy = Policy {
        timeout: None,
        proceed_on_timeout: false,
        settle: moment,
        suspect_hold: moment,
        fail_fast: false,
        dry_run: false,
        heartbeat: moment,
    };
    let mut keep = Keep::new(policy, Stay::Yields, moment);
    keep.done(moment * 2, LoadResult::refused(LoadFailure::Errno("EINVAL"), "as the test says".to_owned()));
    input.extend(series(&keeper::status::metrics(&keep, None), "n-3"));
    input.extend([
        json!({"series": "kube_node_status_condition{condition=\"PeermemNotReady\",status=\"true\"}", "values": "1x20"}),
        json!({"series": "ALERTS{alertname=\"PeermemKeepBlocked\",alertstate=\"firing\"}", "values": "1x20"}),
    ]);
    let text = fs::read_to_string(manifests().join("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    let shows_something = |target: &Value| {
        let expression = target["expr"].as_str().unwrap();
        let expression = expression.replace("$__rate_interval", "5m").replace("$instance", ".*");
        json!({
            "expr": format!("clamp_max(count({expression}), 1)"),
            "eval_time": "10m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        })
    };
    let tests: Vec<_> = targets.map(shows_something).collect();
    let nodes = json!({
        "expr": "sum by (verdict) (peermem_gate_verdict) > 0",
        "eval_time": "10m",
        "exp_samples": [
            {"labels": "{verdict=\"Ready\"}", "value": 1},
            {"labels": "{verdict=\"Waiting\"}", "value": 1},
        ],
    });
    let tests = [tests, vec![nodes]].concat();
    let file = json!({"tests": [{"interval": "1m", "input_series": input, "promql_expr_test": tests}]});
    fs::write(scratch.path().join("test.yaml"), file.to_string()).unwrap();
    promtool(&["test", "rules", "test.yaml"], scratch.path());
}

/// Its policies, by CEL: the condition, and the exception for a pod that waits for the gate.
fn nvsentinel_leaves_a_node_in_service_while_the_gate_waits(checker: &mut Helper) {
    let values = yaml(&manifests().join("nvsentinel/values.yaml")).remove(0);
    let policies = values["kubernetes-object-monitor"]["policies"].clone();
    let mut holds = |policy: usize, resource: Value| {
        let expression = &policies[policy]["predicate"]["expression"];
        let given = json!({"resource": resource, "now": "2026-11-20T12:00:00+00:00"});
        let answer = checker.ask(&json!({"evaluate": expression, "given": given}));
        answer["value"].as_bool().unwrap_or_else(|| panic!("{answer}"))
    };
    let node = |kind: &str, status: &str, since: &str| {
        let condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
        json!({"metadata": {"name": "gpu-1"}, "status": {"conditions": [condition]}})
    };
    assert!(holds(0, node("PeermemNotReady", "True", "2026-11-20T10:30:00Z")));
    assert!(
        !holds(0, node("PeermemNotReady", "True", "2026-11-20T11:00:00Z")),
        "MOFED may still be building"
    );
    for status in ["False", "Unknown"] {
        assert!(!holds(0, node("PeermemNotReady", status, "2026-11-20T08:00:00Z")), "{status}");
    }
    assert!(!holds(0, node("DiskPressure", "True", "2026-11-20T08:00:00Z")));
    assert!(!holds(0, json!({"metadata": {"name": "gpu-1"}, "status": {}})));

    let pod = |gate: Value| {
        json!({
            "metadata": {"namespace": "gpu-operator", "ownerReferences": [{"kind": "DaemonSet"}]},
            "spec": {"nodeName": "gpu-1"},
            "status": {
                "phase": "Pending",
                "startTime": "2026-11-20T11:00:00Z",
                "initContainerStatuses": [{"name": "k8s-driver-manager", "state": {"terminated": {}}}, gate],
            },
        })
    };
    let gate = |since: &str| json!({"name": "peermem-gate", "state": {"running": {"startedAt": since}}});
    assert!(!holds(1, pod(gate("2026-11-20T11:01:00Z"))), "the gate waits, and says for what");
    assert!(holds(1, pod(gate("2026-11-20T10:50:00Z"))), "longer than it may");
    assert!(holds(
        1,
        pod(json!({"name": "peermem-gate", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}))
    ));
    assert!(holds(
        1,
        pod(json!({"name": "other", "state": {"running": {"startedAt": "2026-11-20T11:01:00Z"}}}))
    ));
    let mut young = pod(gate("2026-11-20T11:01:00Z"));
    young["status"]["startTime"] = json!("2026-11-20T11:45:00Z");
    young["status"]["initContainerStatuses"] = json!([]);
    assert!(!holds(1, young));
}

/// The script ends with 0 whenever there is a verdict, and the verdict decides.
fn gpud_gets_a_verdict_from_its_plugin() {
    if !can(&["bash", "-c", ":"]) {
        return;
    }
    let plugin = &yaml(&manifests().join("gpud/peermem-gate.yaml"))[0][0];
    assert_eq!((&plugin["plugin_type"], &plugin["run_mode"]), (&json!("component"), &json!("auto")));
    let checks = &plugin["health_state_plugin"];
    let script = &checks["steps"][0]["run_bash_script"];
    assert_eq!(script["content_type"], "plaintext");
    let standing = &checks["parser"]["json_paths"][0];
    assert_eq!(standing["query"], "$.standing");
    let expected = standing["expect"]["regex"].as_str().unwrap();
    let healthy: Vec<_> =
        expected.strip_prefix("^(").unwrap().strip_suffix(")$").unwrap().split('|').collect();
    let script = script["script"].as_str().unwrap().replace("/usr/local/bin/peermem-gate", GATE);
    let blind = blind();
    let [ready, waiting, unreadable] = [served(), served().without_marker(), served().without("sys/bus")];
    let roots =
        [(ready.root(), true), (waiting.root(), false), (unreadable.root(), true), (blind.path(), false)];
    for (root, is_healthy) in roots {
        let output = output(Command::new("bash").args(["-c", &script]).env("PEERMEM_GATE_ROOT", root));
        assert_eq!(code(output.status), 0, "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            healthy.contains(&report["standing"].as_str().unwrap()),
            is_healthy,
            "{}",
            report["findings"]
        );
    }
    let output = output(Command::new("bash").args(["-c", &script.replace(GATE, "/no/such/program")]));
    assert_eq!(code(output.status), 1, "no program is no verdict");
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        [
            node_problem_detector_gets_a_plugin_that_answers_as_it_expects,
            the_fleets_reports_are_what_fleet_reads,
            node_feature_discovery_gets_a_label_that_expires,
            node_exporter_gets_a_file_at_every_look,
            the_metrics_are_written_where_node_exporter_is_the_owner,
            the_node_check_scripts_run_in_busybox_sh,
            the_systemd_units_are_valid,
            the_keeper_sees_the_node_and_has_no_probe,
            the_keeper_rebuilds_with_its_mounts_and_capabilities,
            the_hosts_systemd_units_allow_a_rebuild,
            prometheus_accepts_every_query_of_the_dashboard,
            gpud_gets_a_verdict_from_its_plugin,
        ],
        if can_kubectl [the_daemonsets_have_their_images],
        on checker [nvsentinel_leaves_a_node_in_service_while_the_gate_waits],
        if can_promtool [
            every_alert_fires_when_it_should_and_only_then,
            the_dashboard_shows_what_wait_keep_and_a_fleet_report,
        ],
    ]
}
