// SPDX-License-Identifier: Apache-2.0
//! The inspection of a large packed module, by a process of its own. It takes up to half a minute, and a look may be
//! broken off meanwhile, by a swap or a signal: the next look goes on where this one was.

use crate::peermem::module_file::{self, Interrupted, NotAModule};
use crate::process::subtask::Subtask;
use crate::ready::observation::{ModuleInfo, Unreadable};
use crate::ready::probe::file_signature;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often to ask whether to go on.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The device, inode, size and change time of a file.
pub(crate) type Signature = (u64, u64, u64, i64, i64);

/// At most one inspection that is under way.
#[derive(Debug, Default)]
pub(crate) struct Unpacking(Option<UnderWay>);

#[derive(Debug)]
struct UnderWay {
    path: PathBuf,
    signature: Signature,
    /// Its report is the answer.
    subtask: Subtask,
}

impl Unpacking {
    /// As [`module_file::inspect`]. Where no process can be started, this one does it.
    pub(crate) fn inspect(
        &mut self,
        path: &Path,
        interrupted: Interrupted<'_>,
    ) -> Result<ModuleInfo, NotAModule> {
        let Some(signature) = path.metadata().ok().map(|metadata| file_signature(&metadata)) else {
            return module_file::inspect(path, interrupted);
        };
        let is_it = |under_way: &UnderWay| under_way.path == path && under_way.signature == signature;
        let begun = self.0.take().filter(is_it).or_else(|| UnderWay::begin(path, signature));
        let Some(mut under_way) = begun else { return module_file::inspect(path, interrupted) };
        loop {
            if let Some(done) = under_way.subtask.wait(POLL_INTERVAL) {
                let answer = serde_json::from_str(&done.err().unwrap_or_default());
                return answer
                    .unwrap_or_else(|_| Err(unreadable(path, "the process that unpacked it was killed")));
            }
            if interrupted() {
                self.0 = Some(under_way);
                return Err(unreadable(path, "broken off"));
            }
        }
    }
}

impl UnderWay {
    fn begin(path: &Path, signature: Signature) -> Option<Self> {
        let work =
            || Err(serde_json::to_string(&module_file::inspect(path, &mut || false)).unwrap_or_default());
        let subtask = Subtask::begin(work).ok()?;
        Some(Self { path: path.to_owned(), signature, subtask })
    }
}

fn unreadable(path: &Path, why: &str) -> NotAModule {
    NotAModule::Unreadable(Unreadable { path: path.to_owned(), why: why.to_owned() })
}
