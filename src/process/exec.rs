// SPDX-License-Identifier: Apache-2.0
//! CMD: found and found runnable before the wait, and become after it.

use crate::process::executable;
use crate::process::executable::{NotExecutable, NotSeen};
use crate::ready::errno;
use crate::ready::exit::Exit;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shell's own default, for when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// A program that can be run.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    argv: Vec<OsString>,
}

/// Why it cannot.
#[derive(Debug)]
pub struct Unrunnable {
    /// 126 or 127.
    pub exit: Exit,
    /// A sentence.
    pub message: String,
}

impl Program {
    /// Finds CMD as execvp(3) would: by PATH, unless its name has a slash. `None` without a CMD.
    pub fn find(argv: &[OsString], path: Option<&OsStr>) -> Result<Option<Self>, Unrunnable> {
        let Some(name) = argv.first() else { return Ok(None) };
        let found = |path: PathBuf| Ok(Some(Self { path, argv: argv.to_vec() }));
        if name.as_encoded_bytes().contains(&b'/') {
            runnable(Path::new(name))?;
            return found(name.into());
        }
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        let mut there_but = None;
        let mut not_seen = NotSeen::default();
        for directory in std::env::split_paths(path).filter(|_| !name.is_empty()) {
            // An empty entry is the working directory.
            let candidate = if directory.as_os_str().is_empty() {
                Path::new(".").join(name)
            } else {
                directory.join(name)
            };
            match executable::check(&candidate) {
                Ok(()) => return found(candidate),
                Err(NotExecutable::NotSeen(error)) => not_seen.add(&candidate, error),
                Err(why) => there_but = Some(not_executable(&candidate, why)),
            }
        }
        Err(there_but.unwrap_or_else(|| Unrunnable {
            exit: Exit::NotFound,
            message: format!(
                "CMD {:?} is in no directory of PATH ({}){}: correct the command",
                name.to_string_lossy(),
                path.to_string_lossy(),
                not_seen.sentence()
            ),
        }))
    }

    /// The program at this path.
    ///
    /// # Errors
    /// The file cannot be run.
    pub fn at(path: &Path, argv: &[OsString]) -> Result<Option<Self>, Unrunnable> {
        runnable(path)?;
        Ok(Some(Self { path: path.to_owned(), argv: argv.to_vec() }))
    }

    /// The same, which will see this as its own name.
    #[must_use]
    pub fn called(mut self, name: OsString) -> Self {
        self.argv[0] = name;
        self
    }

    /// Becomes CMD: same pid, argv, environment, working directory and signal mask. Returns only
    /// when that failed.
    #[must_use]
    pub fn exec(&self) -> Unrunnable {
        // std's exec also gives SIGPIPE its default back, which Rust's runtime took away.
        let error = Command::new(&self.path).arg0(&self.argv[0]).args(&self.argv[1..]).exec();
        unrunnable(&self.path, &error)
    }
}

fn runnable(path: &Path) -> Result<(), Unrunnable> {
    executable::check(path).map_err(|why| not_executable(path, why))
}

fn not_executable(path: &Path, why: NotExecutable) -> Unrunnable {
    let refused = |why: &str| Unrunnable {
        exit: Exit::NotExecutable,
        message: format!("CMD {} {why}", path.display()),
    };
    match why {
        NotExecutable::NotAFile => refused("is not a regular file: correct the command"),
        NotExecutable::NotSeen(error) if error.kind() == io::ErrorKind::PermissionDenied => refused(
            "cannot be looked for: permission denied: let this user search the directories above it, or correct \
            the command",
        ),
        NotExecutable::NotSeen(error) | NotExecutable::Denied(error) => unrunnable(path, &error),
    }
}

fn unrunnable(path: &Path, error: &io::Error) -> Unrunnable {
    let (exit, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (Exit::NotFound, "correct the command, or the interpreter that its #! line names")
        }
        io::ErrorKind::PermissionDenied => {
            (Exit::NotExecutable, "make it executable (chmod +x) on a mount without noexec")
        }
        _ => (Exit::NotExecutable, "use a program for this machine, or a script whose #! line names one"),
    };
    Unrunnable {
        exit,
        message: format!("CMD {} cannot be run: {}: {remedy}", path.display(), errno::words(error)),
    }
}
