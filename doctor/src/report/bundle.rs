// SPDX-License-Identifier: Apache-2.0
//! The answer of `doctor` about one node of a bundle: the causes, what was looked at, and what the bundle lacks.

use super::coverage::not_understood;
use super::doctor::{Diagnosis, consequence, one_line, root};
use crate::bundle::{BundleNode, UNKNOWN_NODE};
use crate::finding::Finding;
use crate::gathered::Bundle;
use crate::symptoms::logs::UnknownLog;
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::words::report::style::Style;
use serde::Serialize;

/// The keys of a node's own report, and the bounds of what a bundle can show.
#[derive(Debug, Serialize)]
pub struct BundleReport<'a> {
    #[serde(flatten)]
    diagnosis: Diagnosis<'a>,
    bundle: &'a str,
    looked_at: &'a [String],
    not_in_bundle: &'a [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    not_understood: &'a [UnknownLog],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_read: Vec<String>,
    #[serde(skip)]
    node: &'a BundleNode,
}

/// Of a root cause, by default.
const EVIDENCE: usize = 3;

impl<'a> BundleReport<'a> {
    /// `path` is the bundle's.
    pub fn new(diagnosis: Diagnosis<'a>, path: &'a str, node: &'a BundleNode, bundle: &'a Bundle) -> Self {
        let mut not_read: Vec<_> = node.unread.iter().chain(&bundle.left_out).cloned().collect();
        if bundle.more_left_out > 0 {
            not_read.push(format!("{} more files", bundle.more_left_out));
        }
        let diagnosis = diagnosis.without_coverage();
        Self {
            diagnosis,
            bundle: path,
            looked_at: &node.read,
            not_in_bundle: &node.missing,
            not_understood: &node.symptoms.logs.not_understood,
            not_read,
            node,
        }
    }

    /// One ASCII sentence of at most 80 bytes.
    pub fn line(&self) -> String {
        one_line(&self.headline())
    }

    /// How the node stands, its name, and the first cause.
    fn headline(&self) -> String {
        let name = Some(&*self.node.name).filter(|name| *name != UNKNOWN_NODE);
        let kernel = Some(&*self.node.seen.kernel.release).filter(|kernel| *kernel != "unknown");
        let kernel = kernel.map(|kernel| format!("kernel {kernel}"));
        let of: Vec<_> = name.into_iter().chain(kernel.as_deref()).collect();
        let begin = format!("{} {}", self.diagnosis.standing(), of.join(", "));
        let begin = begin.trim_end();
        match self.diagnosis.first_cause() {
            Some(first) => format!("{begin}: {}: {}", first.id, first.title),
            None => format!("{begin}: no cause is found in what this bundle has"),
        }
    }

    /// All causes on this node; with all evidence and consequences if `verbose`.
    pub fn text(&self, style: Style, verbose: bool) -> String {
        let mut page = crate::text::page(style.columns);
        page.painted(self.headline(), self.diagnosis.color(style));
        for finding in self.diagnosis.findings {
            match finding.follows_from {
                None if verbose => root(finding, style, &mut page),
                None => root(&shortened(finding), style, &mut page),
                Some(_) if verbose => consequence(finding, &mut page),
                Some(_) => {}
            }
        }
        self.bounds(&mut page);
        page.into_text()
    }

    /// The parts of the node that were read, and those that were not.
    fn bounds(&self, page: &mut Page) {
        let entry =
            |page: &mut Page, head: &str, words: String| page.entry(&LinePrefixText::new(0, head), words);
        if self.looked_at.is_empty() {
            entry(page, "looked at: ", "nothing of this node is in the bundle".to_owned());
        } else {
            entry(page, "looked at: ", self.looked_at.join("; "));
        }
        entry(page, "not in this bundle: ", self.not_in_bundle.join("; "));
        not_understood(self.not_understood, page);
        for unread in &self.not_read {
            entry(page, "not read: ", unread.clone());
        }
    }
}

fn shortened(finding: &Finding) -> Finding {
    let mut short = finding.clone();
    short.evidence.truncate(EVIDENCE);
    short
}
