// SPDX-License-Identifier: Apache-2.0
//! How an ending is reported: on standard error, and where Kubernetes looks for it.

use crate::cli::log;
use crate::process::termination_log::TerminationLog;
use crate::ready::ending::Ending;
use crate::ready::verdict::Verdict;
use crate::words::report;

/// Where the last words go.
#[derive(Clone, Debug, Default)]
pub struct LastWords {
    /// `None` where there is no termination log.
    pub log: Option<TerminationLog>,
}

impl LastWords {
    /// Ends with a sentence that the log has said already.
    #[must_use]
    pub fn leave(&self, ending: Ending, sentence: &str, verdict: Option<&Verdict>) -> Ending {
        if let Some(log) = &self.log {
            log.write(&report::termination_log(sentence, verdict));
        }
        ending
    }

    /// Ends with a sentence that was not logged yet.
    #[must_use]
    pub fn report(&self, ending: Ending, sentence: &str) -> Ending {
        log::print_unstamped(sentence);
        self.leave(ending, sentence, None)
    }
}
