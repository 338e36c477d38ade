// SPDX-License-Identifier: Apache-2.0
//! The shipped image in real containers: the pods that we ship, run by podman. Only their host paths
//! are other ones, those of a scratch node.

#[path = "chart/cluster.rs"]
mod cluster;
#[path = "containers/podman.rs"]
mod podman;
mod support;

use cluster::{Cluster, container_mut, fixture, pod_of, policy};
use flate2::read::ZlibDecoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use object::{Object, ObjectSection};
use podman::{BUSYBOX, DOCTOR, Emulator, IMAGE, Podman, Shared, bind_over, built, lifted, oci, replaced};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, thread};
use support::{DRIVERS, HOST, LIMIT, MARKER, Node, can, note, refusal, skip, suite};

const EXAMPLE: &str = "examples/pod-test.yaml";
const BASH: &str = "localhost/bash";
const SOURCES: &str = "run/mellanox/drivers/usr/src";
const PROPAGATION: &str = "          mountPropagation: HostToContainer\n";

/// The example on this node, its last words kept in the node's `termination-log`: podman's `kube
/// play` gives a container no file for them, as Kubernetes does.
fn example(node: &Node) -> String {
    let log = node.path("termination-log");
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    let yaml = lifted(EXAMPLE, node);
    let mounts = "      volumeMounts: &volumeMounts\n";
    let yaml = replaced(
        &yaml,
        mounts,
        &format!("{mounts}        - name: termination-log\n          mountPath: /dev/termination-log\n"),
    );
    format!(
        "{}    - name: termination-log\n      hostPath:\n        path: {}\n        type: File\n",
        yaml,
        log.display()
    )
}

fn last_words(node: &Node) -> String {
    fs::read_to_string(node.path("termination-log")).unwrap()
}

/// The driver's own volume, in place of its parent.
fn with_the_directory_itself(yaml: &str) -> String {
    replaced(yaml, "/run/mellanox\n", "/run/mellanox/drivers\n")
}

fn each_image_has_its_programs_and_little_else() {
    for architecture in ["x86_64", "aarch64"] {
        let Some(podman) = Podman::with(architecture) else { return };
        podman.pull(DOCTOR, architecture);
        assert_image(&podman, architecture, IMAGE, "wait", &["peermem-gate"]);
        // The gate is there too: a debug pod of this image has all verbs.
        assert_image(&podman, architecture, DOCTOR, "doctor", &["peermem-doctor", "peermem-gate"]);
    }
}

/// The first of `programs` is the image's own, and `verb` what it does unasked.
fn assert_image(podman: &Podman, architecture: &str, image: &str, verb: &str, programs: &[&str]) {
    let package = ["Cargo.toml", "doctor/Cargo.toml"]
        .map(|manifest| {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(manifest);
            toml::from_str::<toml::Table>(&fs::read_to_string(path).unwrap()).unwrap()["package"].clone()
        })
        .into_iter()
        .find(|package| package["name"].as_str() == Some(programs[0]))
        .unwrap();
    let config: Value = serde_json::from_str(&podman.run(&["inspect", image])).unwrap();
    let config = &config[0];
    assert_eq!(config["Architecture"], oci(architecture));
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Config"]["Entrypoint"], json!([format!("/{}", programs[0])]));
    assert_eq!(config["Config"]["Cmd"], json!([verb]));
    let label = |name: &str| config["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap();
    for (name, key) in [("title", "name"), ("description", "description"), ("version", "version")] {
        assert_eq!(label(name), package[key].as_str().unwrap());
    }
    assert_eq!(label("licenses"), env!("CARGO_PKG_LICENSE"));
    assert!(!label("revision").is_empty());

    let built = built().join(oci(architecture));
    let wanted: u64 = programs.iter().map(|program| built.join(program).metadata().unwrap().len()).sum();
    let size = config["Size"].as_u64().unwrap();
    note!("{architecture}: the image {image} has {size} bytes, its programs {wanted}");
    assert!((wanted..=wanted + 64 * 1024).contains(&size));
    let root = PathBuf::from(podman.run(&["image", "mount", image]).trim());
    let names: BTreeSet<_> = root.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, programs.iter().map(OsString::from).collect());
    for program in programs {
        let is_ours = fs::read(root.join(program)).unwrap() == fs::read(built.join(program)).unwrap();
        assert!(is_ours, "{program} is another program");
    }
}

/// The way of those who have the internet at hand, with a stand-in for Rust: a shell, and an
/// image/binary that says what it was asked for.
fn the_containerfile_builds_the_program_too(podman: &Podman) {
    podman.import("localhost/builder", &["busybox"], &["ENV PATH=/bin"]);
    let context = podman.path("context");
    fs::create_dir_all(context.join("image")).unwrap();
    fs::create_dir_all(context.join("target")).unwrap();
    for file in ["Containerfile", ".containerignore"] {
        fs::copy(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file), context.join(file)).unwrap();
    }
    let binary =
        "#!/bin/sh\n[ ! -e target ] && mkdir out && echo $1 $2 $BUILD_COMMIT >out/$1 && echo out/$1\n";
    support::write_program(&context.join("image/binary"), binary);
    let context = context.to_str().unwrap();
    let builder = ["--build-arg", "BUILDER=localhost/builder", "--build-arg", "COMMIT=0123"];
    let last: &[&str] = &[];
    for (target, programs) in [
        (last, &["peermem-gate"][..]),
        (&["--target", "peermem-doctor"], &["peermem-gate", "peermem-doctor"]),
    ] {
        let build = ["build", "--isolation", "chroot", "--tag", "localhost/built"];
        podman.run(&[&build[..], &builder, target, &[context]].concat());
        let root = PathBuf::from(podman.run(&["image", "mount", "localhost/built"]).trim());
        for program in programs {
            let text = fs::read_to_string(root.join(program)).unwrap();
            let wanted = format!("{program} {} 0123\n", oci(HOST));
            assert_eq!(text, wanted, "neither what this machine built, nor another's");
        }
    }
}

fn the_programs_of_an_image_report_their_source() {
    for (architecture, program) in ["amd64", "arm64"]
        .into_iter()
        .flat_map(|arch| ["peermem-gate", "peermem-doctor"].map(|name| (arch, name)))
    {
        let directory = built().join(architecture);
        if !directory.exists() {
            skip("no image: image/build makes it");
            return;
        }
        let bytes = fs::read(directory.join(program)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let list = file.section_by_name(".dep-v0").expect("a list of dependencies").data().unwrap();
        let list: Value = serde_json::from_reader(ZlibDecoder::new(list)).unwrap();
        let named = |package: &Value| {
            format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
        };
        let packages = list["packages"].as_array().unwrap();
        let made_of: BTreeSet<_> = packages.iter().map(named).collect();

        let bill = fs::read_to_string(directory.join(program).with_extension("cdx.json")).unwrap();
        let root = env!("CARGO_MANIFEST_DIR");
        assert!(!bill.contains(root), "it names a path of this machine");
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["bomFormat"], "CycloneDX");
        let mut billed: BTreeSet<_> = bill["components"].as_array().unwrap().iter().map(named).collect();
        billed.insert(named(&bill["metadata"]["component"]));
        assert_eq!(billed, made_of, "{program} for {architecture}");
        assert!(made_of.contains(concat!("peermem-gate ", env!("CARGO_PKG_VERSION"))));
        assert!(made_of.iter().any(|package| package.starts_with("nix ")));
        let has_the_doctor = made_of.iter().any(|package| package.starts_with("peermem-doctor "));
        assert_eq!(has_the_doctor, program == "peermem-doctor", "{program} for {architecture}");
    }
}

fn a_pod_waits_until_mofed_sets_its_marker(podman: &Podman) {
    let touched: fn(&Node) = Node::set_marker;
    let renamed = |node: &Node| {
        node.write("run/mellanox/drivers/.new", "");
        node.rename("run/mellanox/drivers/.new", MARKER);
    };
    for set in [touched, renamed] {
        let node = Node::ready().without_marker();
        let mut pod = podman.play(example(&node));
        pod.logs("MarkerAbsent");
        set(&node);
        pod.assert_opened("marker event");
        assert_eq!(last_words(&node), "", "all went well");
        pod.down();
    }
}

fn a_pod_waits_without_any_privilege(podman: &Podman) {
    let node = Node::ready().without_marker();
    let mut pod = podman.play(example(&node));
    pod.logs("MarkerAbsent");
    let proc = PathBuf::from("/proc").join(pod.pid("peermem-gate"));
    let status = fs::read_to_string(proc.join("status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(field("Name"), ["peermem-gate"]);
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(name), ["0000000000000000"], "{name}");
    }
    for name in ["Uid", "Gid"] {
        assert_eq!(field(name), ["65532"; 4], "{name}");
    }
    assert_eq!(field("NoNewPrivs"), ["1"]);
    assert_eq!(field("Seccomp"), ["2"]);
    let mounts = fs::read_to_string(proc.join("mountinfo")).unwrap();
    for point in ["/", "/run/mellanox", "/host/proc", "/host/sys"] {
        let mount = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(point)).expect(point);
        assert!(mount.split(' ').nth(5).unwrap().starts_with("ro"), "{mount}");
    }

    // As the kubelet ends a pod: the gate is process 1 there, which no signal ends by default.
    podman.run(&["stop", "--time", "60", &pod.container("peermem-gate")]);
    assert_eq!(pod.fails(), "143");
    assert!(last_words(&node).contains("ended by signal 15"), "{}", last_words(&node));
}

/// The runtime's log collector stands still, as on a full disk: nobody reads what the gate says.
fn a_log_that_nobody_reads_does_not_delay_the_opening(podman: &Podman) {
    let node = Node::ready().without_marker();
    let traced = "value: 10s\n        - name: PEERMEM_GATE_LOG_LEVEL\n          value: trace\n";
    let mut pod = podman.play(replaced(&example(&node), "value: 10m\n", traced));
    pod.logs("MarkerAbsent");
    let gate = PathBuf::from("/proc").join(pod.pid("peermem-gate"));
    let conmon = podman.inspect(&pod.container("peermem-gate"), ".ConmonPidFile");
    let conmon = fs::read_to_string(conmon.trim()).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(conmon), Signal::SIGSTOP).unwrap();
    // Each change logs a whole look: far more than a pipe takes.
    for _ in 0..200 {
        node.set_marker();
        node.remove(MARKER);
        thread::sleep(Duration::from_millis(12));
    }
    let started = Instant::now();
    // Its end is not taken by anybody either.
    let state = || fs::read_to_string(gate.join("stat")).unwrap_or_default();
    while !state().is_empty() && !state().contains(") Z ") {
        assert!(started.elapsed() < LIMIT, "it goes on: {}", state());
        thread::sleep(Duration::from_millis(10));
    }
    let took = started.elapsed();
    kill(Pid::from_raw(conmon), Signal::SIGCONT).unwrap();
    assert_eq!(pod.fails(), "124");
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(last_words(&node).contains("the deadline passed"), "{}", last_words(&node));
}

fn a_pod_sees_what_mofed_mounts_over_its_directory(podman: &Podman) {
    let parent: fn(&str) -> String = str::to_owned;
    for volume in [parent, with_the_directory_itself] {
        let node = Node::ready().without_marker();
        let mofed = Node::ready().without_marker();
        let shared = Shared::new(node.root());
        let mut pod = podman.play(volume(&example(&node)));
        pod.logs("MarkerAbsent");
        bind_over(&mofed.path(DRIVERS), &node.path(DRIVERS));
        node.hold_lock();
        mofed.set_marker();
        pod.assert_opened("");
        assert!(!pod.log().contains("private mount"), "{}", pod.log());
        pod.down();
        drop(shared);
    }
}

fn a_pod_that_cannot_see_mofeds_mounts_says_so(podman: &Podman) {
    // Older MOFEDs mount over their directory; of today's the marker is seen, and the headers are not.
    for (mounted, reason) in [(DRIVERS, "MarkerAbsent"), (SOURCES, "HeadersMissing")] {
        let node = Node::ready().without_marker();
        let mofed = Node::ready();
        node.remove("run/mellanox/drivers/usr/src/ofa_kernel");
        let shared = Shared::new(node.root());
        let yaml = replaced(&example(&node), PROPAGATION, "");
        let mut pod = podman.play(replaced(&yaml, "value: 10m", "value: 5s"));
        pod.logs("MarkerAbsent");
        bind_over(&mofed.path(mounted), &node.path(mounted));
        node.hold_lock();
        node.set_marker();
        assert_eq!(pod.fails(), "124");
        let words = last_words(&node);
        note!("{words}");
        assert!(words.len() <= 1024);
        assert!(words.contains("the deadline passed") && words.contains(reason), "{words}");
        assert!(words.contains("/run/mellanox") && words.contains("HostToContainer"), "{words}");
        pod.remove();
        drop(shared);
    }
}

/// Its layouts: today usr/src alone is mounted, before that the container's whole root.
fn the_gate_sees_the_marker_and_headers_of_mofeds_own_container(podman: &Podman) {
    for layout in [
        "/busybox mount -o bind /usr/src /run/mellanox/drivers/usr/src && : >/run/mellanox/drivers/.driver-ready",
        "/busybox mount -o rbind / /run/mellanox/drivers && : >/.driver-ready",
    ] {
        let node = Node::ready().without_marker();
        let headers = Node::ready();
        node.remove("run/mellanox/drivers/usr/src/ofa_kernel");
        let shared = Shared::new(node.root());
        let mut pod = podman.play(example(&node));
        pod.logs("MarkerAbsent");
        let drivers = format!("{}:/run/mellanox/drivers:rshared", node.path(DRIVERS).display());
        let sources = format!("{}/usr/src:/usr/src:ro", headers.path(DRIVERS).display());
        let script = format!("{layout} && exec /busybox sleep 600");
        let mofed = podman.run(&[
            "run",
            "--detach",
            "--privileged",
            "-v",
            &drivers,
            "-v",
            &sources,
            BUSYBOX,
            "sh",
            "-c",
            &script,
        ]);
        pod.assert_opened("");
        pod.down();
        podman.run(&["kill", mofed.trim()]);
        // Its whole root is mounted there, too.
        drop(shared);
        podman.run(&["rm", mofed.trim()]);
    }
}

/// As nvidia-driver has them, and more of them.
// No `$$`: in a container's command Kubernetes makes a `$` of it, and podman 5 too.
const ENTRYPOINT: &str = r#"trap "echo 'Caught signal'; exit 1" HUP INT QUIT PIPE TERM
trap "echo 'Shutting down'" EXIT
trap -p PIPE
(/busybox yes; echo "yes: $?" >&2) | /busybox true
echo "pid $BASHPID, running $*"
/busybox sleep 600 &
wait $!
"#;

/// The driver's pod as our policies leave it, except for what is the GPU Operator's: k8s-driver-manager
/// goes, and bash stands for the driver behind the wrapper's command.
fn driver_pod(node: &Node) -> Option<String> {
    let mut cluster = Cluster::start()?;
    let mut pod = pod_of(&fixture("clusterpolicy"));
    for name in ["init-container", "wrapper"] {
        pod = cluster.admits(&policy(name), &pod).expect("it matches");
    }
    let driver = container_mut(&mut pod, "nvidia-driver-ctr");
    driver["image"] = BASH.into();
    driver["securityContext"] = json!({});
    driver["startupProbe"].take();
    let command = driver["command"].as_array_mut().unwrap();
    let wrapped = command.iter().position(|word| word == "nvidia-driver").expect("the driver's command");
    command.splice(wrapped.., ["/bash-static", "-c", ENTRYPOINT, "bash"].map(Value::from));
    let driver = driver.clone();

    let spec = &mut pod["spec"];
    spec["restartPolicy"] = "Never".into();
    spec["containers"] = json!([driver]);
    spec["initContainers"].as_array_mut().unwrap().retain(is_ours);
    let volumes = spec["volumes"].as_array_mut().unwrap();
    for name in ["proc", "sys"] {
        volumes.push(json!({ "name": name, "hostPath": { "path": format!("/{name}") } }));
    }
    for volume in volumes {
        if let Some(Value::String(path)) = volume.pointer_mut("/hostPath/path") {
            path.insert_str(0, node.root().to_str().unwrap());
        }
        // For `medium: Memory` podman 5 gives each container a tmpfs of its own.
        if let Some(shared) = volume.get_mut("emptyDir") {
            *shared = json!({});
        }
    }
    for place in ["initContainers", "containers"] {
        for container in spec[place].as_array_mut().unwrap() {
            on_node(container);
        }
    }
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "driver-pod" }, "spec": spec });
    Some(serde_norway::to_string(&pod).unwrap())
}

fn is_ours(container: &Value) -> bool {
    container["image"].as_str().is_some_and(|image| image.contains("/peermem-gate:"))
}

/// Has it see the scratch node's modules and devices, and do without what podman does not know.
fn on_node(container: &mut Value) {
    if is_ours(container) {
        container["image"] = IMAGE.into();
    }
    let mounts = container["volumeMounts"].as_array_mut().unwrap();
    for name in ["proc", "sys"] {
        mounts.push(json!({ "name": name, "mountPath": format!("/host/{name}"), "readOnly": true }));
    }
    let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) else { return };
    env.retain(|variable| variable["name"] != "NODE_NAME");
    for name in ["proc", "sys"] {
        let variable = format!("PEERMEM_GATE_{}", name.to_uppercase());
        env.push(json!({ "name": variable, "value": format!("/host/{name}") }));
    }
}

fn the_program_is_installed_and_becomes_the_entrypoint(podman: &Podman) {
    if !can(&["bash-static", "-c", ":"]) {
        return;
    }
    podman.import(BASH, &["bash-static", "busybox"], &[]);
    let node = Node::ready().without_marker();
    let Some(pod) = driver_pod(&node) else { return };
    let mut pod = podman.play(pod);
    pod.logs("MarkerAbsent");
    node.set_marker();
    pod.assert_starts();
    pod.logs("running init");
    let log = pod.log();
    note!("{log}");
    let place = |words: &str| log.find(words).unwrap_or_else(|| panic!("no {words:?}: {log}"));
    assert!(place("installed: /opt/peermem-gate/peermem-gate") < place("trap -- 'echo"));
    let count = |words: &str| log.matches(words).count();
    // On a busy machine an answer is old before it is used.
    let opened = count("open: MOFED is ready") - count("asking again");
    assert_eq!(opened, 2, "before the driver's pod, and before its entrypoint");
    assert!(log.contains("SIGPIPE\n"), "the trap is set");
    assert!(log.contains("yes: 141\n"), "SIGPIPE ends what has no trap");
    // Podman 5 gives the pod the machine's processes, as its hostPID asks; podman 4 gives it its own.
    let pids = ["1".to_owned(), pod.pid("nvidia-driver-ctr")];
    assert!(pids.iter().any(|pid| log.contains(&format!("pid {pid}, running init\n"))), "{pids:?}: {log}");

    podman.run(&["stop", "--time", "60", &pod.container("nvidia-driver-ctr")]);
    assert_eq!(pod.exit_code("nvidia-driver-ctr"), "1");
    let log = pod.log();
    assert!(log.contains("Caught signal\nShutting down\n"), "{log}");
}

fn a_volume_that_nothing_can_be_run_from_is_refused(podman: &Podman) {
    let mut install = podman.command(&["run", "--rm", "--read-only", "--cap-drop", "ALL"]);
    install.args(["--tmpfs", "/opt/peermem-gate:rw,noexec,mode=1777", IMAGE, "install", "/opt/peermem-gate"]);
    let (code, said) = refusal(&mut install);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("noexec") && said.contains("/opt/peermem-gate"), "{said}");
}

/// A pod whose container runs, prints, and is called what its author likes.
struct Pretender<'a> {
    /// `NAMESPACE_POD_UID`, as kubelet names the directory of its logs.
    pod: &'a str,
    container: &'a str,
    process: &'a str,
    says: &'a str,
    is_privileged: bool,
}

impl Pretender<'_> {
    /// Starts it, and shows its process and its log on the node.
    fn start(&self, podman: &Podman, node: &Node) {
        let Self { pod, container, process, says, is_privileged } = self;
        let uid = pod.rsplit('_').next().expect("a UID");
        let log = node.path(&format!("var/log/pods/{pod}/{container}/0.log"));
        fs::create_dir_all(log.parent().expect("a directory")).expect("directories");
        let script =
            format!("echo {process} >/proc/self/comm; echo '{says}'; while :; do /busybox sleep 60; done");
        let group = format!("/kubepods/pod{uid}");
        let log_path = format!("path={}", log.display());
        let mut run = vec!["run", "--detach", "--cgroup-parent", &group];
        run.extend(["--log-driver", "k8s-file", "--log-opt", &log_path]);
        run.extend(is_privileged.then_some("--privileged"));
        run.extend(["--env", "USE_HOST_MOFED=true", BUSYBOX, "sh", "-c", &script]);
        let id = podman.run(&run);
        let pid = podman.inspect(id.trim(), ".State.Pid");
        let process = node.path(&format!("proc/{pid}"));
        fs::create_dir_all(&process).expect("a directory");
        for file in ["comm", "cmdline", "environ", "mountinfo", "stat", "status", "uid_map", "cgroup"] {
            symlink(format!("/proc/{pid}/{file}"), process.join(file)).expect("a link");
        }
        let started = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|text| text.contains(says)) {
            assert!(started.elapsed() < LIMIT, "{} stays empty", log.display());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The findings of `doctor`, and what it left out.
fn diagnosed(node: &Node) -> (Value, Value) {
    let mut doctor = support::gate();
    doctor.args(["doctor", "--format", "json", "--root"]).arg(node.root());
    let output = support::output(&mut doctor);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report["findings"].clone(), report["not_counted"].clone())
}

/// Real processes, logs and control groups. What a pod is called, and what it prints, counts only where a privileged
/// process of an operator lives.
fn a_containers_settings_count_only_in_a_namespace_of_an_operator() {
    const SAYS: &str = "WARNING: infoROM is corrupted at gpu 0000:1b:00.0";
    let Some(podman) = Podman::bare() else { return };
    let node = Node::ready();
    let is_told = |findings: &Value| findings.to_string().contains("GpuInforomCorrupted");
    let (before, _) = diagnosed(&node);
    assert!(!is_told(&before), "{before:#}");
    let liar = Pretender {
        pod: "team-a_web-0_00000000-8f2b-4c5e-9d0a-0a1b2c3d4e5f",
        container: "driver-validation",
        process: "nvidia-driver",
        says: SAYS,
        is_privileged: false,
    };
    liar.start(&podman, &node);
    let (after, left_out) = diagnosed(&node);
    assert_eq!(after, before);
    assert_eq!(left_out[0]["namespace"], "team-a", "{left_out}");
    // A privileged process that is the driver's lives in this namespace.
    let driver = Pretender {
        pod: "platform_driver-x_11111111-8f2b-4c5e-9d0a-0a1b2c3d4e5f",
        container: "nvidia-driver-ctr",
        process: "nvidia-driver",
        says: "nothing",
        is_privileged: true,
    };
    driver.start(&podman, &node);
    let validator =
        Pretender { pod: "platform_validator-x_22222222-8f2b-4c5e-9d0a-0a1b2c3d4e5f", process: "sh", ..liar };
    validator.start(&podman, &node);
    let (found, left_out) = diagnosed(&node);
    assert!(is_told(&found), "{found:#} {left_out}");
    assert_eq!(left_out.as_array().map(Vec::len), Some(1), "{left_out}");
}

fn the_other_architectures_image_runs() {
    let other = if HOST == "aarch64" { "x86_64" } else { "aarch64" };
    let Some(podman) = Podman::with(other) else { return };
    let Some(_emulator) = Emulator::register(other) else { return };
    let node = Node::ready().without_marker();
    let mut pod = podman.play(example(&node));
    pod.logs("MarkerAbsent");
    node.set_marker();
    pod.assert_opened("marker event");
    let version = podman.run(&["run", "--rm", IMAGE, "--version"]);
    assert!(version.contains(&format!("{other}-unknown-linux-musl")), "{version}");
    // A node is of the architecture that its own files say.
    let tree = format!("{}:/host:ro", node.root().display());
    let check = ["run", "--rm", "--volume", &tree, IMAGE, "check", "--root", "/host", "--format", "json"];
    let report: Value = serde_json::from_str(&podman.run(&check)).expect("a report");
    assert_eq!((&report["verdict"], &report["arch"]), (&json!("Ready"), &json!("x86_64")), "{report}");
    node.remove(MARKER);
    let (code, said) = refusal(&mut podman.command(&check));
    assert_eq!(code, 1, "{said}");
}

/// runc calls within the profile before it starts the program. docs/integration.md asks for what the flags stand for.
fn runc_starts_the_program_under_the_seccomp_profile(podman: &Podman) {
    let profile = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests/seccomp/wait.json");
    let profile = format!("seccomp={}", profile.display());
    let node = Node::ready();
    let mount = format!("{}:/host:ro", node.root().display());
    let (confined, look) =
        (["--security-opt", &profile, "--security-opt", "no-new-privileges"], ["--cap-drop", "ALL"]);
    let args =
        [&["run", "--rm"][..], &confined, &look, &["--volume", &mount, IMAGE, "wait", "--root", "/host"]];
    podman.run(&args.concat());
}

fn main() -> ExitCode {
    let tests = suite![
        [
            each_image_has_its_programs_and_little_else,
            the_programs_of_an_image_report_their_source,
            a_containers_settings_count_only_in_a_namespace_of_an_operator,
            the_other_architectures_image_runs,
        ],
        on Podman::new [
            the_containerfile_builds_the_program_too,
            a_pod_waits_until_mofed_sets_its_marker,
            a_pod_waits_without_any_privilege,
            a_log_that_nobody_reads_does_not_delay_the_opening,
            a_pod_sees_what_mofed_mounts_over_its_directory,
            a_pod_that_cannot_see_mofeds_mounts_says_so,
            the_gate_sees_the_marker_and_headers_of_mofeds_own_container,
            the_program_is_installed_and_becomes_the_entrypoint,
            a_volume_that_nothing_can_be_run_from_is_refused,
            runc_starts_the_program_under_the_seccomp_profile,
        ],
    ];
    support::suite::run(tests, None)
}
