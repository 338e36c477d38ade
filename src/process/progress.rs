// SPDX-License-Identifier: Apache-2.0
//! One line on a terminal that shows that long work goes on. It is drawn over itself, and cleared before anything
//! else is written.

use crate::process::log_writer;
use crate::ready::clock::now;
use crate::ready::time::BootTime;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Work that ends sooner shows nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// How often the line is drawn again at most.
const PACE: Duration = Duration::from_millis(200);

/// Long work, and when its line is due.
struct LongWork {
    began: BootTime,
    due: BootTime,
}

static WORK: Mutex<Option<LongWork>> = Mutex::new(None);

/// From now on [`show`] draws a line, once the work has taken a second.
pub fn begin() {
    let began = now();
    *work() = Some(LongWork { began, due: began + SHOWN_AFTER });
}

/// Draws the line, if it is due and standard error is a terminal. `text` is given the time that the work has taken.
pub fn show(text: impl FnOnce(Duration) -> String) {
    let now = now();
    let mut work = work();
    let Some(work) = work.as_mut().filter(|work| now >= work.due) else { return };
    work.due = now + PACE;
    log_writer::draw(&text(now.saturating_sub(work.began)));
}

fn work() -> std::sync::MutexGuard<'static, Option<LongWork>> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}
