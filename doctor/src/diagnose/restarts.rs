// SPDX-License-Identifier: Apache-2.0
//! A container of the operators that ends again and again, and says why in words that are no known sentence.

use super::Case;
use crate::finding::{Finding, Id, Severity};
use crate::symptoms::logs::{LoggedPod, PodContainer, Trouble};
use peermem_gate::remedy::CommandText;

/// In seconds. kubelet waits five minutes at most before it starts a container again.
const BACK_OFF: i64 = 10 * 60;

/// `found` has what is known already.
pub(super) fn judge(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let all = case.troubles().filter(|(_, _, trouble)| !is_known(found, trouble));
    let findings = all.map(|(pod, container, trouble)| {
        let times = container.restart.map_or_else(String::new, |count| format!(" (restarted {count} times)"));
        let seen = format!("{}{times}", trouble.line);
        Finding::new(Id::ContainerRestarts, trouble.path.display(), seen)
            .word("container", CommandText::plain(&container.name, "CONTAINER"))
            .word("pod", CommandText::pod(&pod.namespace, &pod.name))
    });
    findings.collect()
}

/// A finding that alarms rests on a line of the same container.
fn is_known(found: &[Finding], trouble: &Trouble) -> bool {
    let Some(directory) = trouble.path.parent().map(|path| path.display().to_string()) else { return false };
    let is_loud = |finding: &&Finding| matches!(finding.severity, Severity::Critical | Severity::Warning);
    let mut sources = found.iter().filter(is_loud).flat_map(|finding| &finding.evidence);
    sources.any(|evidence| evidence.source.starts_with(&directory))
}

impl Case<'_> {
    /// Containers that end again and again, now, and whose pods are here.
    fn troubles(&self) -> impl Iterator<Item = (&LoggedPod, &PodContainer, &Trouble)> {
        let survey = &self.symptoms.survey;
        let is_here = |pod: &&LoggedPod| survey.pods.of(&pod.uid).is_none_or(|known| known.is_here);
        let is_now =
            |trouble: &&Trouble| survey.clock.age(trouble.modified).is_some_and(|age| age <= BACK_OFF);
        self.symptoms.logs.pods.iter().filter(is_here).flat_map(move |pod| {
            pod.containers.iter().filter_map(move |container| {
                container.trouble.as_ref().filter(is_now).map(|trouble| (pod, container, trouble))
            })
        })
    }

    /// The finding, with what a container says at its end.
    pub(super) fn and_trouble_of(&self, finding: Finding, container: &str) -> Finding {
        let trouble =
            self.troubles().find(|(_, one, _)| one.name == container).map(|(_, _, trouble)| trouble);
        match trouble {
            Some(trouble) => finding.seen(trouble.path.display(), trouble.line.clone()),
            None => finding,
        }
    }
}
