// SPDX-License-Identifier: Apache-2.0
//! The shipped Containerfile over images like NVIDIA's k8s-driver-manager, in the pods of the operator's releases.

use super::podman::{IMAGE, Podman, Root};
use crate::support::{self, Node, can, note};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

/// The shell of the image's driver-manager, and where things lie in it.
struct Manager {
    name: &'static str,
    path: &'static str,
    /// Where driver-manager is.
    directory: &'static str,
    shell: &'static str,
    /// Programs of the machine's, and as what.
    programs: &'static [(&'static str, &'static str)],
    links: &'static [(&'static str, &'static str)],
}

/// Up to v0.8 (docker/Dockerfile.ubi8): a script on a CUDA image of UBI.
const UBI: Manager = Manager {
    name: "ubi",
    path: "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    directory: "/usr/local/bin",
    shell: "/bin/bash",
    programs: &[("bash-static", "/usr/bin/bash"), ("busybox", "/usr/bin/busybox")],
    links: &[
        ("/bin", "usr/bin"),
        ("/sbin", "usr/sbin"),
        ("/usr/bin/sh", "bash"),
        ("/usr/bin/sleep", "busybox"),
    ],
};

/// Since v0.9 (deployments/container/Dockerfile.distroless): no shell but busybox's, in a directory of its own.
const DISTROLESS: Manager = Manager {
    name: "distroless",
    path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox",
    directory: "/usr/bin",
    shell: "/bin/sh",
    programs: &[("busybox", "/busybox/busybox")],
    links: &[("/busybox/sh", "busybox"), ("/busybox/sleep", "busybox"), ("/bin/sh", "/busybox/sh")],
};

/// One that a cluster's owner builds on Debian.
const DEBIAN: Manager = Manager {
    name: "debian",
    path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    directory: "/usr/sbin",
    shell: "/bin/sh",
    programs: &[("busybox", "/usr/bin/busybox")],
    links: &[
        ("/bin", "usr/bin"),
        ("/sbin", "usr/sbin"),
        ("/usr/bin/sh", "busybox"),
        ("/usr/bin/sleep", "busybox"),
    ],
};

/// The init container k8s-driver-manager of one release of the GPU Operator.
struct Release {
    name: &'static str,
    manager: &'static Manager,
    /// What it has beyond the variables of all.
    variables: &'static [(&'static str, &'static str)],
}

const HOST_MOFED: (&str, &str) = ("USE_HOST_MOFED", "true");
const DIGEST: (&str, &str) = ("DRIVER_CONFIG_DIGEST", "886542011");

const RELEASES: [Release; 6] = [
    Release { name: "v24.9.2", manager: &UBI, variables: &[] },
    Release { name: "v25.3.4", manager: &UBI, variables: &[HOST_MOFED] },
    Release { name: "v25.10.0", manager: &DISTROLESS, variables: &[] },
    Release { name: "v25.10.1", manager: &DISTROLESS, variables: &[HOST_MOFED] },
    Release { name: "v26.3.3", manager: &DISTROLESS, variables: &[DIGEST] },
    Release { name: "v26.7.0", manager: &DEBIAN, variables: &[DIGEST] },
];

/// It answers as the real one does: 3 for a command that it does not know. Its eviction takes as long as `evicting`
/// is there, and it dies of a signal as a program without a handler.
const PROGRAM: &str = r#"
case "$1" in
uninstall_driver)
  echo "uninstalls for $GPU_DIRECT_RDMA_ENABLED"
  while [ -e /run/nvidia/evicting ]; do sleep 0.05; done
  [ ! -e /run/nvidia/fails ] || exit 1
  echo "uninstalled" ;;
preflight_check) exit 9 ;;
*) echo "No help topic for '$1'"; exit 3 ;;
esac
"#;

/// Roots of real distributions are tried instead with `MANAGER_ROOTS=DIRECTORY[:DIRECTORY...]`.
pub(crate) fn roots() -> Option<OsString> {
    std::env::var_os("MANAGER_ROOTS")
}

/// The manager's image, by its name.
fn manager_image(podman: &Podman, manager: &Manager) -> String {
    let root = Root::new(podman, manager.name);
    for (program, to) in manager.programs {
        root.program(program, to);
    }
    for (link, to) in manager.links {
        root.link(link, to);
    }
    let base = format!("localhost/{}-base", manager.name);
    root.import(&base, &[]);
    with_manager(podman, manager, &base)
}

fn with_manager(podman: &Podman, manager: &Manager, base: &str) -> String {
    let Manager { name, path, directory, shell, .. } = manager;
    let context = podman.path(&format!("{name}-context"));
    fs::create_dir_all(&context).unwrap();
    support::write_program(&context.join("driver-manager"), format!("#!{shell}{PROGRAM}"));
    let containerfile = format!(
        "FROM {base}\nENV PATH={path}\nCOPY driver-manager {directory}/driver-manager\n\
         ENTRYPOINT [\"driver-manager\", \"preflight_check\"]\n"
    );
    fs::write(context.join("Containerfile"), containerfile).unwrap();
    let image = format!("localhost/{name}");
    podman.run(&["build", "--isolation", "chroot", "--tag", &image, context.to_str().unwrap()]);
    image
}

/// `podman build` of the shipped Containerfile over that image.
fn gated(podman: &Podman, manager: &str) -> (String, Output) {
    let image = format!("{manager}-gated");
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests/driver-manager/Containerfile");
    let mut build = podman.command(&["build", "--isolation", "chroot", "--tag", &image, "--file"]);
    build.arg(file).args(["--build-arg", &format!("MANAGER={manager}")]);
    build.args(["--build-arg", &format!("GATE={IMAGE}")]).arg(podman.path(""));
    let output = support::output(&mut build);
    (image, output)
}

fn built(podman: &Podman, manager: &str) -> String {
    let (image, built) = gated(podman, manager);
    assert!(built.status.success(), "{manager}: {}", String::from_utf8_lossy(&built.stderr));
    image
}

/// A pod with the init container of this release alone: command, rights and mounts are the operator's
/// (assets/state-driver/0500_daemonset.yaml). The host's root is the node's.
fn pod(release: &Release, image: &str, node: &Node) -> String {
    let common = [
        ("GPU_DIRECT_RDMA_ENABLED", "true"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("ENABLE_AUTO_DRAIN", "false"),
    ];
    // /proc is the machine's in a pod with hostPID, and here it has no modules.
    let settings = [("PEERMEM_GATE_PROC", "/host/proc"), ("PEERMEM_GATE_SETTLE", "0s")];
    let variables = common.iter().chain(release.variables).chain(&settings);
    let env: Vec<Value> = variables.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let mounts = [
        ("run-nvidia", "run/nvidia", "/run/nvidia", "Bidirectional"),
        ("host-root", "", "/host", "HostToContainer"),
        ("host-sys", "sys", "/sys", "None"),
        ("run-mellanox-drivers", "run/mellanox/drivers", "/run/mellanox/drivers", "HostToContainer"),
    ];
    let mount = |(name, _, to, propagation): &(&str, &str, &str, &str)| json!({ "name": name, "mountPath": to, "mountPropagation": propagation, "readOnly": *to == "/host" });
    let volume = |(name, path, _, _): &(&str, &str, &str, &str)| json!({ "name": name, "hostPath": { "path": node.path(path) } });
    let container = json!({
        "name": "k8s-driver-manager",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["driver-manager"],
        "args": ["uninstall_driver"],
        "env": env,
        "securityContext": { "privileged": true },
        "volumeMounts": mounts.iter().map(mount).collect::<Vec<_>>(),
    });
    let spec = json!({
        "restartPolicy": "Never",
        "hostPID": true,
        "containers": [container],
        "volumes": mounts.iter().map(volume).collect::<Vec<_>>(),
    });
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "driver-pod" }, "spec": spec });
    serde_norway::to_string(&pod).unwrap()
}

fn node() -> Node {
    let node = Node::ready().without_marker();
    fs::create_dir_all(node.path("run/nvidia")).unwrap();
    node
}

fn assert_waits_and_opens(podman: &Podman, release: &Release, image: &str) {
    let name = release.name;
    let node = node();
    let is_hosts = release.variables.contains(&HOST_MOFED);
    let waits_for = if is_hosts { "HeadersMissing" } else { "MarkerAbsent" };
    let mut pod = podman.play(pod(release, image, &node));
    pod.logs(waits_for);
    let log = pod.log();
    let before = log.split(waits_for).next().unwrap();
    assert!(before.contains("uninstalls for true\nuninstalled\n"), "{name}: the original came first: {log}");
    if is_hosts {
        fs::create_dir_all(node.path("usr")).unwrap();
        fs::rename(node.path("run/mellanox/drivers/usr/src"), node.path("usr/src")).unwrap();
    } else {
        node.set_marker();
    }
    assert_eq!(pod.exit_code("k8s-driver-manager"), "0", "{name}");
    assert!(pod.log().contains("open: MOFED is ready"), "{name}");
    pod.down();
}

pub(crate) fn a_gated_driver_manager_is_built_and_holds_the_pods_of_six_releases() {
    let Some(podman) = Podman::new() else { return };
    if !can(&["bash-static", "-c", ":"]) {
        return;
    }
    let images = [&UBI, &DISTROLESS, &DEBIAN].map(|manager| {
        let image = built(&podman, &manager_image(&podman, manager));
        // The image's own entrypoint is the original's command, handed over.
        let preflight = support::output(&mut podman.command(&["run", "--rm", &image]));
        assert_eq!(preflight.status.code(), Some(9), "{image}");
        image
    });
    for release in &RELEASES {
        let image =
            images.iter().find(|image| **image == format!("localhost/{}-gated", release.manager.name));
        assert_waits_and_opens(&podman, release, image.unwrap());
    }
    let hidden = Manager { name: "hidden", path: "/usr/bin:/usr/local/sbin", ..DISTROLESS };
    let (_, built) = gated(&podman, &manager_image(&podman, &hidden));
    assert!(!built.status.success(), "PATH finds the original first, and the build does not notice");
}

pub(crate) fn a_gated_driver_manager_ends_as_the_original_ends() {
    let Some(podman) = Podman::new() else { return };
    let image = built(&podman, &manager_image(&podman, &DISTROLESS));
    let release = &RELEASES[5];
    let node = node();
    fs::write(node.path("run/nvidia/fails"), "").unwrap();
    let mut failed = podman.play(pod(release, &image, &node));
    failed.logs("uninstalls for");
    assert_eq!(failed.exit_code("k8s-driver-manager"), "1");
    assert!(!failed.log().contains("MarkerAbsent"), "{}", failed.log());
    failed.down();

    // kubelet ends the pod while driver-manager evicts, and while the gate waits.
    for (file, words) in [("run/nvidia/evicting", "uninstalls for"), ("run/nvidia/none", "MarkerAbsent")] {
        fs::remove_file(node.path("run/nvidia/fails")).unwrap_or_default();
        fs::write(node.path(file), "").unwrap();
        let mut ended = podman.play(pod(release, &image, &node));
        ended.logs(words);
        podman.run(&["kill", "--signal", "TERM", &ended.container("k8s-driver-manager")]);
        assert_eq!(ended.exit_code("k8s-driver-manager"), "143", "{words}");
        assert!(!ended.log().contains("open: "), "{}", ended.log());
        ended.down();
        fs::remove_file(node.path(file)).unwrap();
    }
}

pub(crate) fn a_gated_driver_manager_waits_in_real_roots() {
    let Some(podman) = Podman::new() else { return };
    for root in std::env::split_paths(&roots().expect("a path")) {
        let manager = Manager { name: "real", ..UBI };
        podman.import_tree("localhost/real-base", &root, &[]);
        let image = built(&podman, &with_manager(&podman, &manager, "localhost/real-base"));
        for release in &RELEASES {
            assert_waits_and_opens(&podman, release, &image);
        }
        note!("{}: built, waits, and opens", root.display());
    }
}
