// SPDX-License-Identifier: Apache-2.0
//! How an ending is reported: on standard error, and where Kubernetes looks for it.

use crate::cli::log;
use crate::process::termination_log::TerminationLog;
use crate::ready::exit::Exit;
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
    pub fn leave(&self, exit: Exit, sentence: &str, verdict: Option<&Verdict>) -> Exit {
        if let Some(log) = &self.log {
            log.write(&report::termination_log(sentence, verdict));
        }
        exit
    }

    /// Ends with a sentence that was not logged yet.
    #[must_use]
    pub fn report(&self, exit: Exit, sentence: &str) -> Exit {
        log::print_unstamped(sentence);
        self.leave(exit, sentence, None)
    }
}
