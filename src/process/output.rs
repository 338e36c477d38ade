// SPDX-License-Identifier: Apache-2.0
//! Files that others read while we write them (metrics, status): replaced whole, in one step.

use crate::process::directory::Directory;
use crate::process::hung::Hung;
use crate::process::subtask::Subtask;
use crate::ready::errno;
use nix::sys::stat::SFlag;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one write is waited for. A file system that answers takes far less.
const WRITE_LIMIT: Duration = Duration::from_millis(200);

/// A file that we write and others read. A separate process does all that touches its file system: if that process
/// hangs, it delays nothing, and nothing else is written meanwhile.
#[derive(Debug)]
pub struct OutputFile {
    /// The name for messages.
    what: String,
    path: PathBuf,
    /// Nothing is written beside MOFED's marker.
    marker: PathBuf,
    /// The log has a line about a write that failed.
    warned: Cell<bool>,
    /// A write that has not come back within [`WRITE_LIMIT`].
    under_way: RefCell<Option<Subtask>>,
}

impl OutputFile {
    /// The file at `path`. Nothing is written yet, and the directory may still be missing.
    ///
    /// # Errors
    /// The path leads to something other than a regular file, or into MOFED's directory; in words.
    pub fn new(what: &str, path: &Path, marker: &Path) -> Result<Self, String> {
        let file = Self::at(what, path, marker);
        file.attempt(|| file.check())?;
        if file.under_way.borrow().is_some() {
            file.warn_of_a_hang();
        }
        Ok(file)
    }

    fn at(what: &str, path: &Path, marker: &Path) -> Self {
        Self {
            what: what.to_owned(),
            path: path.to_owned(),
            marker: marker.to_owned(),
            warned: Cell::default(),
            under_way: RefCell::default(),
        }
    }

    /// Replaces the file: a reader sees the old text or the new one, and never half of one. The first failure is a
    /// warning, and nothing else changes. True where the file has the new text.
    pub fn publish(&self, text: &str) -> bool {
        match self.attempt(|| self.replace(text)) {
            Ok(is_done) => is_done,
            Err(why) => {
                self.warn(|| cannot_write(&self.what, &self.path, &why));
                false
            }
        }
    }

    /// Removes the file if it is a regular one: anything else is not ours.
    pub fn remove(&self) {
        let _ = self.attempt(|| self.remove_regular());
    }

    /// Whether the work was done: it may go on by itself, or may not have been begun.
    fn attempt(&self, work: impl FnOnce() -> io::Result<()>) -> Result<bool, String> {
        let begin = || Subtask::begin(|| work().map_err(|error| errno::words(&error)));
        match one_at_a_time(&mut self.under_way.borrow_mut(), begin, Subtask::wait) {
            Attempted::Begun(done) => done.map_or(Ok(false), |done| done.map(|()| true)),
            // That says nothing about the file.
            Attempted::Failed(error) => {
                let (what, path, why) = (&self.what, self.path.display(), errno::words(&error));
                self.warn(|| {
                    format!(
                        "the {what} {path} is not written, because no process can be started: {why}; \
                            what to do: check the limits of processes and memory"
                    )
                });
                Ok(false)
            }
            Attempted::EarlierHangs => {
                self.warn_of_a_hang();
                Ok(false)
            }
        }
    }

    fn warn_of_a_hang(&self) {
        let (what, path) = (&self.what, self.path.display());
        self.warn(|| {
            format!(
                "the {what} {path} is not written: its file system does not answer, or the node is busy; what to do: {}",
                Hung::REMEDY
            )
        });
    }

    fn warn(&self, message: impl FnOnce() -> String) {
        if !self.warned.replace(true) {
            tracing::warn!("{}", message());
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.open_directory() {
            // The directory may be mounted later, or be out of reach by then: each write reports that.
            Err(error) if error.kind() != ErrorKind::PermissionDenied || error.raw_os_error().is_some() => {
                Ok(())
            }
            directory => refuse_irregular(&directory?, self.name()?),
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let (directory, name) = (self.open_directory()?, self.name()?);
        refuse_irregular(&directory, name)?;
        directory.put(name, text)
    }

    fn remove_regular(&self) -> io::Result<()> {
        let (directory, name) = (self.open_directory()?, self.name()?);
        match directory.kind(name)? {
            Some(SFlag::S_IFREG) => Ok(directory.remove(name)?),
            _ => Ok(()),
        }
    }

    fn open_directory(&self) -> io::Result<Directory> {
        Directory::of_output(&self.path, Some(&self.marker))
    }

    fn name(&self) -> io::Result<&OsStr> {
        file_name(&self.path)
    }
}

/// How the work came out, or did not yet: what [`Subtask::wait`] returns.
type TaskResult = Option<Result<(), String>>;

/// An attempt to do something that may hang.
#[derive(Debug)]
enum Attempted {
    /// The task was begun, and either is done or hangs by now.
    Begun(TaskResult),
    /// The task could not be begun.
    Failed(io::Error),
    /// The task was not begun, because the one before it has not ended: processes that hang must not pile up.
    EarlierHangs,
}

fn one_at_a_time<Task>(
    under_way: &mut Option<Task>,
    begin: impl FnOnce() -> io::Result<Task>,
    wait: impl Fn(&mut Task, Duration) -> TaskResult,
) -> Attempted {
    if under_way.as_mut().is_some_and(|earlier| wait(earlier, Duration::ZERO).is_none()) {
        return Attempted::EarlierHangs;
    }
    let mut task = match begin() {
        Ok(task) => task,
        Err(error) => return Attempted::Failed(error),
    };
    let done = wait(&mut task, WRITE_LIMIT);
    *under_way = done.is_none().then_some(task);
    Attempted::Begun(done)
}

pub(super) fn cannot_write(what: &str, path: &Path, why: &str) -> String {
    let path = path.display();
    format!("cannot write the {what} {path}: {why}: check that its directory exists and is writable")
}

pub(super) fn file_name(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it is not the path of a file"))
}

/// A FIFO would block us, a link would lead the write elsewhere, a device would be replaced.
pub(super) fn refuse_irregular(directory: &Directory, name: &OsStr) -> io::Result<()> {
    match directory.kind(name)? {
        None | Some(SFlag::S_IFREG) => Ok(()),
        Some(kind) => {
            Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {}, not a regular file", word(kind))))
        }
    }
}

fn word(kind: SFlag) -> &'static str {
    match kind {
        SFlag::S_IFLNK => "a symbolic link",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::collections::VecDeque;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const MARKER: &str = "/nowhere/.driver-ready";

    /// In this process, because tests with threads must not fork.
    fn output(path: &Path) -> io::Result<OutputFile> {
        let file = OutputFile::at("file", path, Path::new(MARKER));
        file.check().map(|()| file)
    }

    /// A task of these answers, one at each wait.
    fn task(answers: &[TaskResult]) -> VecDeque<TaskResult> {
        answers.iter().cloned().collect()
    }

    fn wait(task: &mut VecDeque<TaskResult>, limit: Duration) -> TaskResult {
        assert!(limit <= WRITE_LIMIT, "it is waited for too long");
        task.pop_front().expect("an answer")
    }

    #[test]
    fn while_a_write_hangs_no_other_is_begun() {
        let mut under_way = None;
        let hangs = task(&[None, None, None, Some(Ok(()))]);
        let first = one_at_a_time(&mut under_way, || Ok(hangs), wait);
        assert!(matches!(first, Attempted::Begun(None)));
        for _ in 0..2 {
            let next = one_at_a_time(&mut under_way, || panic!("a second process beside the first"), wait);
            assert!(matches!(next, Attempted::EarlierHangs));
        }
        // The first has come back.
        let refused = || Ok(task(&[Some(Err("No space left on device".to_owned()))]));
        let next = one_at_a_time(&mut under_way, refused, wait);
        assert!(matches!(next, Attempted::Begun(Some(Err(why))) if why.starts_with("No space")));
        assert!(under_way.is_none(), "it has ended");
        let next = one_at_a_time(&mut under_way, || Err(io::ErrorKind::WouldBlock.into()), wait);
        assert!(matches!(next, Attempted::Failed(_)));
    }

    #[test]
    fn an_output_file_is_replaced_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate.prom");
        let file = output(&path).unwrap();
        for text in ["one", "two"] {
            file.replace(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
        file.remove_regular().unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn two_gates_with_one_path_never_show_half_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate.prom");
        output(&path).unwrap().replace("a").unwrap();
        std::thread::scope(|scope| {
            for letter in ["a", "b"] {
                let path = &path;
                scope.spawn(move || {
                    let file = output(path).unwrap();
                    (0..200).for_each(|_| file.replace(&letter.repeat(10_000)).unwrap());
                });
            }
            for _ in 0..200 {
                let text = fs::read_to_string(&path).unwrap();
                assert!(matches!(text.len(), 1 | 10_000), "{} bytes", text.len());
                assert!(text.chars().all(|letter| text.starts_with(letter)), "two texts in one file");
            }
        });
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn an_output_that_is_not_a_regular_file_is_refused_at_the_start_and_later() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let target = at("target");
        fs::write(&target, "theirs").unwrap();
        mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        symlink(&target, at("link")).unwrap();
        symlink(at("none"), at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        for (path, word) in [
            (at("fifo"), "FIFO"),
            (at("link"), "symbolic link"),
            (at("dangling"), "symbolic link"),
            (at("directory"), "directory"),
            ("/dev/null".into(), "device"),
        ] {
            let why = output(&path).unwrap_err().to_string();
            assert!(why.contains(word), "{}: {why}", path.display());
        }
        let later = output(&at("later")).unwrap();
        symlink(&target, at("later")).unwrap();
        assert!(later.replace("ours").is_err());
        later.remove_regular().unwrap();
        assert!(at("later").is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }

    #[test]
    fn no_link_on_the_way_to_an_output_is_followed_at_the_start_or_later() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("theirs/below")).unwrap();
        symlink(at("theirs"), at("absolute")).unwrap();
        symlink("theirs", at("relative")).unwrap();
        for path in ["absolute/x", "relative/x", "relative/below/x"] {
            let why = output(&at(path)).unwrap_err().to_string();
            assert!(why.contains("a link leads") && why.contains("/theirs"), "{path}: {why}");
        }
        let later = output(&at("later/x")).unwrap();
        symlink(at("theirs"), at("later")).unwrap();
        assert!(later.replace("ours").is_err());
        assert_eq!(fs::read_dir(at("theirs")).unwrap().count(), 1);
        // Names that lead nowhere else are as good as none.
        output(&at("theirs/./below/../x")).unwrap().replace("ours").unwrap();
    }

    /// A pid is known beforehand: as PID 1 it is always the same.
    #[test]
    fn files_planted_at_temporary_names_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let planted = dir.path().join(format!("gate.prom.{}.tmp", std::process::id()));
        symlink(&target, &planted).unwrap();
        output(&dir.path().join("gate.prom")).unwrap().replace("ours").unwrap();
        assert!(!target.exists() && planted.is_symlink());
    }

    #[test]
    fn nothing_is_written_beside_a_marker_whatever_leads_there() {
        let dir = tempfile::tempdir().unwrap();
        let (drivers, link) = (dir.path().join("drivers"), dir.path().join("link"));
        fs::create_dir(&drivers).unwrap();
        symlink(&drivers, &link).unwrap();
        let marker = drivers.join(".driver-ready");
        for directory in [&drivers, &link] {
            let why = OutputFile::at("file", &directory.join("x"), &marker).check().unwrap_err().to_string();
            assert!(why.contains("belongs to MOFED"), "{why}");
        }
        fs::remove_file(&link).unwrap();
        let file = OutputFile::at("file", &link.join("x"), &marker);
        file.check().unwrap();
        symlink(&drivers, &link).unwrap();
        assert!(file.replace("ours").is_err());
        assert_eq!(drivers.read_dir().unwrap().count(), 0);
    }
}
