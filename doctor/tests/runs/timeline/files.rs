// SPDX-License-Identifier: Apache-2.0
//! Logs on disk, in the forms that runtimes and programs give them.

use flate2::Compression;
use flate2::write::GzEncoder;
use peermem_doctor::stamp::{SECOND, Stamp};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// 2025-11-21T11:51:06Z, when MOFED's container started.
pub(crate) const START: i64 = 1_763_725_866;
/// The UID of the GPU driver's pod.
pub(crate) const GPU: &str = "7c4e9a52-0f7d-4b57-8a6d-3f1b0d9e2c44";
pub(crate) const REFUSED: &str = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument";

pub(crate) const MOFED: Container<'_> =
    Container { pod: "mofed-rhcos-ds-x7k2p", container: "mofed-container" };
pub(crate) const MOFED_GO: Container<'_> = MOFED;
pub(crate) const DRIVER: Container<'_> =
    Container { pod: "nvidia-driver-daemonset-564xm", container: "nvidia-driver-ctr" };

/// A container of a pod.
#[derive(Clone, Copy)]
pub(crate) struct Container<'a> {
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
}

impl<'a> Container<'a> {
    pub(crate) fn of(self, pod: &'a str) -> Self {
        Self { pod, ..self }
    }

    /// Where kubelet has its log of this name. A pod's UID is its own.
    pub(crate) fn log(&self, file: &str) -> String {
        let digits: u64 =
            self.pod.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let uid = if self.pod == DRIVER.pod { GPU.to_owned() } else { format!("{digits:08x}") };
        format!("var/log/pods/operators_{}_{uid}/{}/{file}", self.pod, self.container)
    }
}

/// A directory of files.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, bytes).expect("a file");
    }

    pub(crate) fn gz(&self, path: &str, text: &str) {
        let mut gz = GzEncoder::new(Vec::new(), Compression::default());
        gz.write_all(text.as_bytes()).expect("packed");
        self.write(path, gz.finish().expect("packed"));
    }

    pub(crate) fn touch(&self, path: &str, seconds: i64) {
        let at = UNIX_EPOCH + Duration::from_secs((START + seconds).unsigned_abs());
        let file = File::options().append(true).open(self.root().join(path)).expect("a file");
        file.set_modified(at).expect("touched");
    }

    /// The incident in short: the driver is built, and nvidia-peermem asked for, before MOFED's marker.
    pub(crate) fn stub_race(&self) {
        let mofed = [(0, "NVIDIA driver container exec start"), (453, "Setting driver ready state")];
        let log: String =
            mofed.iter().map(|(seconds, text)| cri(*seconds, &[bracketed(*seconds, text)])).collect();
        self.write(&MOFED.log("0.log"), log);
        let mut driver = driver_build();
        driver.push(REFUSED);
        self.write(&DRIVER.log("0.log"), cri(172, &driver));
    }
}

/// What nvidia-driver-ctr says of a build and of the load after it, a second apart.
pub(crate) fn driver_build() -> Vec<&'static str> {
    vec![
        "Compiling NVIDIA driver kernel modules...",
        "Relinking NVIDIA driver kernel modules...",
        "Installing NVIDIA driver kernel modules...",
        "Loading NVIDIA driver kernel modules...",
        "+ modprobe nvidia",
        "+ modprobe nvidia-peermem",
    ]
}

/// Five minutes apart, with the same stub each time.
pub(crate) fn restarts(tree: &Tree, restarts: RangeInclusive<u32>) {
    // What was built is reused.
    let lines = &driver_build()[2..];
    for restart in restarts {
        let log =
            [cri(172 + i64::from(restart) * 300, lines), cri(176 + i64::from(restart) * 300, &[REFUSED])];
        tree.write(&DRIVER.log(&format!("{restart}.log")), log.concat());
    }
}

/// So many seconds after the start, as runtimes write it.
pub(crate) fn at(seconds: i64) -> String {
    Stamp::wall((START + seconds) * SECOND, 1).to_string()
}

/// Lines as containerd writes them, a second apart.
pub(crate) fn cri(from: i64, lines: &[impl Display]) -> String {
    (from..)
        .zip(lines)
        .map(|(seconds, line)| format!("{} stdout F {line}\n", at(seconds)))
        .collect::<Vec<_>>()
        .concat()
}

/// entrypoint.sh's own stamp.
pub(crate) fn bracketed(seconds: i64, text: &str) -> String {
    let stamp = at(seconds);
    let (day, time) = (&stamp[8..10], &stamp[11..19]);
    format!("[{day}-Nov-25_{time}] {text}")
}

/// The Go entrypoint's.
pub(crate) fn zap(seconds: i64, text: &str) -> String {
    format!("{}Z\tINFO\tentrypoint/entrypoint.go:106\t{text}", &at(seconds)[..23])
}

/// k8s-driver-manager's.
pub(crate) fn logrus(seconds: i64, text: &str) -> String {
    format!("time=\"{}Z\" level=info msg=\"{text}\"", &at(seconds)[..19])
}

/// A stamp as it is shown where the source is exact to the second.
pub(crate) fn rounded(stamp: &str) -> String {
    format!("{}Z", &stamp[..19])
}
