// SPDX-License-Identifier: Apache-2.0
//! Those who wait, each a real process, and what is built behind them.

use crate::clock::SPEED;
use crate::driver;
use crate::node::{KeepInput, MARKER, MOFED, symvers};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Instant;

/// k8s-driver-manager v0.9.0, whose condition was inverted: without host MOFED it asks whether
/// /proc/modules contains this text, which the kernel's own module satisfies from the boot on.
const DRIVER_MANAGER: &str = r#"
until grep -q mlx5_core "$NODE/proc/modules"; do sleep "$NAP"; done
echo open
"#;

/// Both loops of the post-mortem: ask for the file every so often, up to a limit. The limit counts
/// naps, as such scripts do.
const FILE_LOOP: &str = r#"
waited=0
until [ -f "$MARKER" ]; do
  if [ "$waited" -ge "$LIMIT" ]; then echo 'gives up'; exit 1; fi
  sleep "$NAP"
  waited=$((waited + EVERY))
done
echo open
"#;

/// What NVIDIA's build asks of MOFED's headers (conftest.sh, `ib_peer_memory_symbols`). Without an
/// answer it goes on silently, and nvidia-peermem becomes a stub.
const COMPILE: &str = r#"
for symbol in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
  grep -qs "	$symbol	.*	EXPORT_SYMBOL" "$SYMVERS" || { echo stub; exit 0; }
done
echo real
"#;

/// How long the incident's node compiled its whole driver.
const WHOLE_BUILD: u32 = 120;
/// nvidia-peermem takes 19 CPU seconds, where the whole driver takes 324 (docs/measurements.md).
const SMALL_BUILD: u32 = 10;

/// `build SECONDS` looks for the headers, as conftest.sh does before all else, takes its time, and installs what came
/// out of it.
const BUILD: &str = r#"
build() {
  built=$(sh -c "$COMPILE")
  sleep "$1"
  cp "$NODE/built/$built.ko" "$NODE/$MODULE"
  echo "$built"
}
"#;

/// The whole driver is built behind the wait.
const WAIT_AND_BUILD: &str = r#"echo open; build "$WHOLE""#;

/// The whole driver is built at once, and only nvidia-peermem behind the wait. peermem-gate plans
/// that build, and judges the module that comes out of it.
const BUILD_AND_HEAL: &str = r#"
build "$WHOLE"
"$GATE" wait --root "$NODE" --settle 17ms --log-level warn --termination-log "$NODE/termination-log"
echo open
first_line_of_plan() {
  MLX_DRIVERS_MOUNT="$NODE/run/mellanox/drivers" LOCK_FILE_PATH="$NODE/run/mellanox/drivers/.lock" \
    "$GATE" rebuild --dry-run --proc "$NODE/proc" --sys "$NODE/sys" --marker "$MARKER" \
    --driver-root "$NODE/driver" --termination-log "$NODE/termination-log" | {
      read -r first && echo "peermem-gate rebuild: ${first%%:*}"
    }
}
first_line_of_plan
build "$SMALL"
first_line_of_plan
"#;

/// A process of the GPU side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The wait that was there.
    DriverManager,
    /// Proposed first: a loop between the build and modprobe, 5 s and 300 s.
    LoopBeforeModprobe,
    /// Proposed second: an init container with a loop, 10 s and 600 s.
    InitContainer,
    /// `peermem-gate wait`.
    Gate,
    /// The same with a short timeout.
    HastyGate,
    /// The driver container's build; it waits for nobody.
    Compiler,
    /// `peermem-gate wait`, and the build of the whole driver behind it.
    Waiter,
    /// The build of the whole driver at once, and `peermem-gate rebuild` when MOFED is ready.
    Rebuilder,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DriverManager => "k8s-driver-manager v0.9.0",
            Self::LoopBeforeModprobe => "loop before modprobe",
            Self::InitContainer => "init container loop",
            Self::Gate | Self::HastyGate => "peermem-gate wait",
            Self::Compiler => "driver container",
            Self::Waiter => "wait, then build",
            Self::Rebuilder => "build, then rebuild",
        }
    }

    /// The loop is in the pod of k8s-driver-manager, behind a build that is done.
    pub(crate) fn builds_behind(self) -> bool {
        !matches!(self, Self::DriverManager | Self::LoopBeforeModprobe)
    }

    /// The module file that it builds. Act 3 has two drivers: only one lies in the root that peermem-gate
    /// is asked about.
    fn module(self) -> String {
        if self == Self::Waiter { "built/nvidia-peermem.ko".to_owned() } else { driver::module() }
    }

    fn command(self, gate: &Path, node: &Path) -> Command {
        match self {
            Self::DriverManager => shell(DRIVER_MANAGER, 5, 0),
            Self::LoopBeforeModprobe => shell(FILE_LOOP, 5, 300),
            Self::InitContainer => shell(&format!("{FILE_LOOP}{COMPILE}"), 10, 600),
            Self::Gate => wait(gate, node, "30s"),
            Self::HastyGate => wait(gate, node, "2s"),
            Self::Compiler => shell(COMPILE, 0, 0),
            Self::Waiter => wait_for(gate, node, "30s", &format!("{BUILD}{WAIT_AND_BUILD}")),
            Self::Rebuilder => shell(&format!("{BUILD}{BUILD_AND_HEAL}"), 0, 0),
        }
    }
}

/// A program that sees nothing of this machine's environment: variables of the gate that may be
/// set here are not that node's.
fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A shell that asks `every` so many seconds of the incident.
fn shell(script: &str, every: u32, limit: u32) -> Command {
    let mut shell = bare("sh");
    shell.args(["-c", script]);
    shell.env("NAP", nap(every));
    shell.env("EVERY", every.to_string()).env("LIMIT", limit.to_string());
    shell
}

/// So many seconds of the incident, for sleep(1).
fn nap(seconds: u32) -> String {
    format!("{:.3}", f64::from(seconds) / f64::from(SPEED))
}

/// The gate as a pod would have it, before the build. Its settle time of one second is as fast as
/// all else here: 17 ms.
fn wait(gate: &Path, node: &Path, timeout: &str) -> Command {
    wait_for(gate, node, timeout, &format!("echo open{COMPILE}"))
}

fn wait_for(gate: &Path, node: &Path, timeout: &str, script: &str) -> Command {
    let mut wait = bare(gate);
    wait.arg("wait").arg("--root").arg(node).args(["--settle", "17ms", "--timeout", timeout]);
    wait.args(["--mofed-version", MOFED, "--log-format", "json"]);
    // Not this machine's own.
    wait.arg("--termination-log").arg(node.join("termination-log"));
    wait.args(["--", "sh", "-c", script]);
    wait
}

/// What came out of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Built {
    Stub,
    Real,
}

/// The moment at which somebody went on, and what was to be seen then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) at: Instant,
    pub(crate) saw: KeepInput,
}

/// One process, and what is known of it.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) who: Who,
    child: Child,
    open_pipes: u8,
    pub(crate) opening: Option<Opening>,
    /// What it built, the last one last.
    pub(crate) builds: Vec<(Instant, Built)>,
    /// What it logged; only the gate does.
    pub(crate) log: Vec<String>,
    pub(crate) ended: Option<ExitStatus>,
}

/// A line that a process wrote, or the end of one of its pipes.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) from: Who,
    pub(crate) at: Instant,
    pub(crate) line: Option<String>,
}

impl Contestant {
    pub(crate) fn start(who: Who, gate: &Path, node: &Path, ear: &Sender<Heard>) -> std::io::Result<Self> {
        let mut command = who.command(gate, node);
        command.env("NODE", node).env("MARKER", node.join(MARKER)).env("SYMVERS", node.join(symvers()));
        command.env("GATE", gate).env("MODULE", who.module()).env("COMPILE", COMPILE);
        command.env("WHOLE", nap(WHOLE_BUILD)).env("SMALL", nap(SMALL_BUILD));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        listen(who, child.stdout.take(), ear.clone());
        listen(who, child.stderr.take(), ear.clone());
        Ok(Self {
            who,
            child,
            open_pipes: 2,
            opening: None,
            builds: Vec::new(),
            log: Vec::new(),
            ended: None,
        })
    }

    /// One of the two pipes has ended; with the second one the process has, too.
    pub(crate) fn pipe_ended(&mut self) -> std::io::Result<()> {
        self.open_pipes -= 1;
        if self.open_pipes == 0 {
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }
}

impl Drop for Contestant {
    /// Whatever ends the play: none of our processes stays behind.
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads in a thread of its own, so each line is stamped when it comes.
fn listen(from: Who, pipe: Option<impl Read + Send + 'static>, ear: Sender<Heard>) {
    thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        for line in lines.map(Some).chain([None]) {
            if ear.send(Heard { from, at: Instant::now(), line }).is_err() {
                // The play is over.
                return;
            }
        }
    });
}
