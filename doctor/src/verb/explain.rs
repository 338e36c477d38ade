// SPDX-License-Identifier: Apache-2.0
//! `explain`: the page of a word, on the terminal, or all words.

use crate::cli::ExplainArgs;
use crate::report::explain::list;
use crate::verb::print;
use peermem_gate::cli::Format;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::one_look::one_look;

/// Prints the page, or the list.
pub(super) fn run(args: &ExplainArgs, start: &Start) -> Result<Exit, VerbError> {
    one_look(&args.log, Format::Text.into(), start, |style| {
        let topic = args.topic.as_ref().filter(|_| !args.list);
        let answer = topic.map_or_else(|| list(style.columns), |topic| topic.page(style.columns));
        print(&answer)?;
        Ok(Exit::Opened)
    })
}
