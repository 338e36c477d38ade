// SPDX-License-Identifier: Apache-2.0
//! The search for processes that may be using `nvidia_peermem`.

use crate::process::subtask::Subtask;
use crate::ready::clock::now;
use crate::ready::time::BootTime;
use crate::survey::users::{UNSEARCHED, users};
use std::path::Path;
use std::time::Duration;

/// How long a search may take.
const LIMIT: Duration = Duration::from_secs(1);
/// The pause between two searches, and after one that was broken off.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// The search for them, by a process of its own: an unload waits for nobody's name.
#[derive(Default)]
pub(super) struct UserSearch {
    under_way: Option<Subtask>,
    next: Option<BootTime>,
}

impl UserSearch {
    /// Begins a search if one is due. Returns what the last one found, once.
    pub(super) fn attend(&mut self, proc: &Path) -> Option<Vec<String>> {
        if let Some(subtask) = &mut self.under_way {
            let found = subtask.wait(Duration::ZERO)?.err().unwrap_or_default();
            let found: Vec<_> = found.lines().map(str::to_owned).collect();
            let is_broken_off = found.last().is_some_and(|last| last == UNSEARCHED);
            *self =
                Self { under_way: None, next: Some(now() + if is_broken_off { PAUSE.1 } else { PAUSE.0 }) };
            return Some(found);
        }
        if self.next.is_none_or(|next| now() >= next) {
            let report = || Err(users(proc, now() + LIMIT).join("\n"));
            self.under_way = Subtask::begin(report).ok();
            self.next = Some(now() + PAUSE.0);
        }
        None
    }
}
