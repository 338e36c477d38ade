// SPDX-License-Identifier: Apache-2.0
//! Failed reads, noted as they fail, whatever their caller makes of them. Many files contain only a hint, and code
//! goes on where a hint is absent. "Not there" is an answer; "cannot be read" is none, and here that is true of every
//! reader.

use crate::ready::errno;
use crate::ready::observation::Unreadable;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// More than a look can miss and a person can read.
const MOST: usize = 64;

thread_local! {
    /// By path, why.
    static UNREAD: RefCell<BTreeMap<PathBuf, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// Passes the error on, and notes it if it is no answer.
pub(super) fn noted(path: &Path, error: io::Error) -> io::Error {
    if !is_answer(&error) {
        UNREAD.with_borrow_mut(|unread| {
            if unread.len() < MOST {
                unread.entry(path.to_owned()).or_insert_with(|| errno::words(&error));
            }
        });
    }
    error
}

/// All that this thread could not read since it last asked, by path.
#[must_use]
pub fn taken() -> Vec<Unreadable> {
    let unread = UNREAD.take();
    unread.into_iter().map(|(path, why)| Unreadable { path, why }).collect()
}

/// Something is not there, has just gone, or is of another kind.
fn is_answer(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, NotADirectory, NotFound};
    let is_of_a_kind = [NotFound, NotADirectory, InvalidData].contains(&error.kind());
    is_of_a_kind || matches!(error.raw_os_error(), None | Some(nix::libc::ENODEV | nix::libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_read_errors_are_noted_and_each_once() {
        let file = Path::new("/file");
        for errno in [nix::libc::ENOENT, nix::libc::ENOTDIR, nix::libc::ESRCH, nix::libc::ENODEV] {
            noted(file, io::Error::from_raw_os_error(errno));
        }
        assert_eq!(taken(), []);
        for _ in 0..2 {
            noted(file, io::Error::from_raw_os_error(nix::libc::EIO));
        }
        let unread = taken();
        assert_eq!((unread.len(), unread[0].why.as_str()), (1, "I/O error"));
        assert_eq!(taken(), [], "they are taken");
    }
}
