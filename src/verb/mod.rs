// SPDX-License-Identifier: Apache-2.0
//! One file a verb; each a few lines over the same core.

mod attempt;
pub mod check;
pub mod doctor;
pub mod fleet;
mod held;
pub mod install;
pub mod keep;
pub mod load;
mod outlets;
pub mod shim;
mod vigil;
pub mod wait;
mod watch;

pub use held::Hold;

use crate::act::termination_log;
use crate::condition::Verdict;
use crate::ending::Ending;
use crate::report;
use std::path::Path;

/// Ends with a sentence where Kubernetes looks for it.
fn last_words(path: Option<&Path>, ending: Ending, sentence: &str, verdict: Option<&Verdict>) -> Ending {
    if let Some(path) = path {
        termination_log::write(path, &report::termination_log(sentence, verdict));
    }
    ending
}
