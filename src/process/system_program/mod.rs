// SPDX-License-Identifier: Apache-2.0
//! A program of the system's that this one calls or is called instead of: found, never ourselves, and run, in another
//! root too.

mod find;
pub mod run;
pub mod step;

pub use find::is_ourselves;
pub use step::{CHROOT_EXEC, step};

use crate::process::exec::Unrunnable;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use step::{become_below, is_system, tried};

/// One program that is looked for.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// Its file's name.
    pub name: &'static str,
    /// The advice where there is none.
    remedy: &'static str,
}

/// kmod's modprobe.
pub const MODPROBE: ProgramSpec = ProgramSpec {
    name: "modprobe",
    remedy: "install kmod, or name the real one with --modprobe or PEERMEM_GATE_MODPROBE",
};
/// kmod's rmmod. It needs nothing of the root that it runs in.
pub const RMMOD: ProgramSpec = ProgramSpec { name: "rmmod", remedy: "install kmod" };
/// kmod's depmod.
pub const DEPMOD: ProgramSpec = ProgramSpec { name: "depmod", remedy: "install kmod" };

/// How long it may take to end after the signal.
const END_LIMIT: Duration = Duration::from_secs(1);

/// One that can be run.
#[derive(Clone, Debug)]
pub struct SystemProgram {
    is: &'static ProgramSpec,
    root: PathBuf,
    path: PathBuf,
    /// The program that takes the hidden step: this one, and in a test the gate.
    pub step: PathBuf,
    patience: Duration,
    /// `PATH`, and the program that was asked for: to find it again in another root.
    found_by: (Option<OsString>, Option<PathBuf>),
}

/// The use of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Both outputs are kept, in English.
    Kept,
    /// They go where ours go, in whatever language; its errors are kept as well.
    Passed,
}

/// How it ran.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// As a shell shows it: 128+n where signal n ended it, or has not ended it a second later.
    pub code: u8,
    /// Standard output, if it was kept.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Why it got a signal to end, if it did.
    pub broken_off: Option<Interruption>,
}

/// Why a run is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// This signal came for us.
    Signal(u8),
    /// The run has taken too long.
    Late,
}

impl SystemProgram {
    /// Where it is, as seen from inside the root that it runs in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root that it runs in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same program in another root.
    ///
    /// # Errors
    /// As [`SystemProgram::find`].
    pub fn below(&self, root: &Path) -> Result<Self, Unrunnable> {
        let (path_variable, asked) = &self.found_by;
        let found = Self::find(self.is, root, path_variable.as_deref(), asked.as_deref())?;
        Ok(Self { step: self.step.clone(), patience: self.patience, ..found })
    }

    /// How long it may take to end after the signal.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The command line, as one would type it.
    #[must_use]
    pub fn shown(&self, args: &[OsString]) -> String {
        let mut words = vec![self.path.as_os_str()];
        if !is_system(&self.root) {
            words = vec!["chroot".as_ref(), self.root.as_os_str(), self.path.as_os_str()];
        }
        words.extend(args.iter().map(OsString::as_os_str));
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Becomes it: same pid, arguments, environment and signal mask. Its first word decides what
    /// kmod's one program is. Returns only when that failed.
    #[must_use]
    pub fn exec(&self, argv0: &OsStr, args: &[OsString]) -> Unrunnable {
        become_below(&self.root, &self.path, argv0, args, &self.with_tried())
    }

    /// [`SEEN_SHIMS`] as the program below us is to find it.
    fn with_tried(&self) -> OsString {
        let all = tried().into_iter().chain([self.path.clone()]);
        // A path with a colon in it cannot be named, and is found again.
        std::env::join_paths(all).unwrap_or_default()
    }
}

/// A word as one would type it for a shell.
#[must_use]
pub fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=./,:+@%".contains(byte);
    let text = word.to_string_lossy();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| is_plain(&byte));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
