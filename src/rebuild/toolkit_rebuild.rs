// SPDX-License-Identifier: Apache-2.0
//! Has the driver toolkit build again: by itself at most once an hour for the same MOFED, which may have restarted
//! during the build, and whenever a person asks.

use crate::process::directory::Directory;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Beside the file that is removed: for which MOFED that was done last.
const NOTE: &str = ".peermem-gate-ordered";
/// A build id has 40 digits.
const LONGEST: u64 = 200;
/// Longer than a build of the whole driver and the load of its modules take.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// Whether that was done for this MOFED within the hour.
///
/// # Errors
/// As open(2) and read(2).
pub fn was_given(directory: &Path, mofed: &str) -> io::Result<bool> {
    let note = directory.join(NOTE);
    let kind = Directory::of(&note, None)?.kind(OsStr::new(NOTE));
    if !matches!(kind, Ok(Some(kind)) if kind == nix::sys::stat::SFlag::S_IFREG) {
        return Ok(false);
    }
    let (mut last, file) = (String::new(), std::fs::File::open(&note)?);
    // A clock that was set back makes no age.
    let is_old = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age > PAUSE);
    file.take(LONGEST).read_to_string(&mut last)?;
    Ok(last == mofed && !is_old)
}

/// Removes `name` in `directory`. If that was done for the same MOFED within the hour, and a person does not ask for
/// it, gives false.
///
/// # Errors
/// As open(2), write(2) and unlink(2).
pub fn again(directory: &Path, name: &str, mofed: &str, is_asked: bool) -> io::Result<bool> {
    if !is_asked && was_given(directory, mofed)? {
        return Ok(false);
    }
    let opened = Directory::of(&directory.join(NOTE), None)?;
    // The note first: without it there would be no end of builds.
    let (temporary, mut file) = opened.create_beside(OsStr::new(NOTE))?;
    file.write_all(mofed.as_bytes())?;
    opened.rename(&temporary, OsStr::new(NOTE))?;
    opened.remove(OsStr::new(name))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_ordered_once_an_hour_for_each_mofed_and_whenever_a_person_asks() {
        let shared = tempfile::tempdir().unwrap();
        let built = shared.path().join("driver_built");
        let again = |mofed, is_asked| again(shared.path(), "driver_built", mofed, is_asked);
        for (mofed, is_asked, removes) in [
            ("a", false, true),
            ("a", false, false),
            ("a", true, true),
            ("b", false, true),
            ("b", false, false),
        ] {
            std::fs::write(&built, "").unwrap();
            assert_eq!(again(mofed, is_asked).unwrap(), removes, "{mofed}");
            assert_eq!(built.exists(), !removes);
        }
        let note = std::fs::File::options().write(true).open(shared.path().join(NOTE)).unwrap();
        note.set_modified(std::time::SystemTime::now() - PAUSE * 2).unwrap();
        assert!(again("b", false).unwrap(), "an hour later");
        assert!(again("c", true).is_err(), "nothing to remove");
    }
}
