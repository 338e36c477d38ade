// SPDX-License-Identifier: Apache-2.0
//! `keep` as a service: on a scratch node whose modprobe and rmmod are scripts that do to its files what
//! the kernel would. A real kernel is in tests/kernel.rs.

mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use support::{DRIVERS, Gate, LIMIT, LOCK, MARKER, MODULES, Node, PROMPT, VIDEO, code, gate, output, skip};

/// Run in the node's own root: notes that it was called, and does what the kernel would, all of it in one
/// rename of /proc/modules.
const MODPROBE: &str = r#"#!/bin/busybox sh
for word; do
    if [ "$word" = --show-depends ]; then
        echo "insmod /@VIDEO@/nvidia.ko"
        echo "insmod /@VIDEO@/nvidia-peermem.ko"
        exit
    fi
done
echo load >>/calls
. /bin/loading
mkdir -p /sys/module/nvidia_peermem
echo live >/sys/module/nvidia_peermem/initstate
echo OE >/sys/module/nvidia_peermem/taint
sed 's/^\(ib_uverbs .*\) mlx5_ib,/\1 nvidia_peermem,mlx5_ib,/' /proc/modules >/next
echo "nvidia_peermem 1 0 - Live 0x0 (OE)" >>/next
mv /next /proc/modules
"#;

const RMMOD: &str = r#"#!/bin/busybox sh
echo "unload $*" >>/calls
. /bin/unloading
if ! grep -q '^nvidia_peermem 1 0 ' /proc/modules; then
    echo "rmmod: ERROR: Module nvidia_peermem is in use" >&2
    exit 1
fi
sed -e '/^nvidia_peermem /d' -e 's/ nvidia_peermem,/ /' /proc/modules >/next
mv /next /proc/modules
rm -r /sys/module/nvidia_peermem
"#;

struct Place {
    node: Node,
}

impl Place {
    /// All is ready, but for nvidia_peermem itself.
    fn new() -> Option<Self> {
        Self::of(Node::ready().with_peermem("new")?)
    }

    fn of(node: Node) -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("a mask");
        if u64::from_str_radix(mask, 16).expect("hexadecimal") & 1 << 16 == 0 {
            skip("no CAP_SYS_MODULE, without which keep does not begin");
            return None;
        }
        let place = Self { node };
        let busybox = support::mofed().join("../bin/busybox");
        place.node.write("bin/busybox", fs::read(busybox).expect("tests/vm/build makes it"));
        for name in ["sed", "mkdir", "mv", "rm", "grep", "sleep", "touch"] {
            symlink("busybox", place.node.path(&format!("bin/{name}"))).expect("a link");
        }
        place.node.write("bin/modprobe", MODPROBE.replace("@VIDEO@", VIDEO));
        place.node.write("bin/rmmod", RMMOD);
        for name in ["busybox", "modprobe", "rmmod"] {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(place.node.path(&format!("bin/{name}")), mode).expect("chmod");
        }
        for name in ["loading", "unloading"] {
            place.node.write(&format!("bin/{name}"), "");
        }
        Some(place)
    }

    /// The node's root is the driver's, and the only one with an rmmod.
    fn keep(&self) -> Command {
        let path = |relative: &str| self.node.path(relative);
        let mut command = gate();
        command.args(["keep", "--log-format", "json", "--settle", "100ms", "--heartbeat", "1s"]);
        command.arg("--proc").arg(path("proc")).arg("--sys").arg(path("sys"));
        command.arg("--marker").arg(path(MARKER)).arg("--driver-root").arg(self.node.root());
        command.arg("--status-file").arg(self.status()).arg("--metrics-file").arg(path("metrics.prom"));
        command.arg("--termination-log").arg(path("last-words"));
        command.env("PATH", "/bin");
        command.env("MLX_DRIVERS_MOUNT", path(DRIVERS)).env("LOCK_FILE_PATH", path(LOCK));
        command
    }

    fn status(&self) -> PathBuf {
        self.node.path("status.json")
    }

    fn start(&self) -> Gate {
        Gate::start(&mut self.keep())
    }

    /// `load` and `unload …`, as they were called.
    fn called(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.node.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// The status file, once this is true of it.
    fn told(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let text = fs::read_to_string(self.status()).unwrap_or_default();
            // Replaced atomically: never half of it.
            let status: Value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < until, "never {what}: {status:#}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_in(&self, state: &str) -> Value {
        self.told(state, |status| status["keep"]["state"] == state)
    }

    fn check(&self) -> (i32, String) {
        let mut check = gate();
        check.arg("check").arg("--status-file").arg(self.status()).arg("--proc").arg(self.node.path("proc"));
        let output = output(&mut check);
        (code(output.status), String::from_utf8(output.stdout).expect("text"))
    }

    /// What uses it, as the reference count tells.
    fn uses(&self, count: u32) {
        let modules = fs::read_to_string(self.node.path("proc/modules")).expect("modules");
        let line = modules.lines().find(|line| line.starts_with("nvidia_peermem ")).expect("it is loaded");
        let changed = modules.replace(line, &format!("nvidia_peermem 1 {count} - Live 0x0 (OE)"));
        self.node.write("next", changed);
        self.node.rename("next", "proc/modules");
    }

    fn is_loaded(&self) -> bool {
        self.node.path("sys/module/nvidia_peermem").exists()
    }
}

#[test]
fn it_loads_lets_go_and_loads_again() {
    let Some(place) = Place::new() else { return };
    let mut keep = place.start();
    let status = place.is_in("Loaded");
    assert_eq!(status["keep"]["loaded_by"], "keep", "{status:#}");
    assert_eq!(place.called(), ["load"]);
    place.told("Ready", |status| status["verdict"] == "Ready");
    let (ends, said) = place.check();
    assert_eq!(ends, 0, "{said}");
    assert!(said.starts_with("Ready: "), "{said}");

    for round in 2..5 {
        place.node.remove(MARKER);
        place.is_in("Waiting");
        assert!(!place.is_loaded());
        assert_eq!(place.check().0, 1);
        place.node.set_marker();
        place.is_in("Loaded");
        assert!(place.is_loaded());
        let loads = place.called().iter().filter(|call| *call == "load").count();
        assert_eq!(loads, round);
    }
    assert!(place.called().iter().filter(|call| *call != "load").all(|call| call == "unload nvidia_peermem"));
    keep.assert_woken();
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(PROMPT));
    assert_eq!(keep.ended(), 0);
    assert!(place.is_loaded(), "it stays as it is");
    assert_eq!(place.check().0, 2, "nobody keeps it any more");
    assert!(!place.node.path("last-words").exists());
}
