// SPDX-License-Identifier: Apache-2.0
//! From the path on the node that a judge names as its evidence to the file of the bundle that shows it.

use std::collections::{BTreeMap, BTreeSet};

/// Between a file of the bundle and the container that it describes.
const WITHIN: &str = "!/";

/// The files of the bundle behind the paths of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BundleSources {
    /// By the path on the node.
    pub(super) files: BTreeMap<String, String>,
    /// System logs, which have their own paths.
    pub(super) logs: BTreeSet<String>,
    /// Files that list a pod, by the pod's name.
    pub(super) pods: BTreeMap<String, String>,
}

/// The path that is used for a container's part of a file, with a separate directory for each container.
pub(super) fn within(file: &str, pod: &str, container: &str, name: &str) -> String {
    format!("{file}{WITHIN}{pod}/{container}/{name}")
}

impl BundleSources {
    /// The evidence's source as the bundle has it; `None` where no file of it shows that.
    pub(super) fn found(&self, source: &str) -> Option<String> {
        let known: Vec<_> = source.split(", ").filter_map(|one| self.one(one)).collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    fn one(&self, source: &str) -> Option<String> {
        if let Some((file, place)) = source.split_once(WITHIN) {
            let mut names = place.split('/');
            let of = [names.next(), names.next()].into_iter().flatten().filter(|name| !name.is_empty());
            let of: Vec<_> = of.collect();
            return Some(if of.is_empty() { file.to_owned() } else { format!("{file} ({})", of.join(", ")) });
        }
        if let Some(pod) = source.strip_prefix("pod ") {
            return self.pods.get(pod).map(|file| format!("{file} ({pod})"));
        }
        let of_file = || {
            // A list of devices shows what is below its path, too.
            let is_below = |path: &str| source.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            let mut files = self.files.iter().filter(|(path, _)| *path == source || is_below(path));
            let (_, file) = files.next()?;
            let file = if file.contains(WITHIN) { self.one(file)? } else { file.clone() };
            Some(format!("{file} (for {source})"))
        };
        self.logs.get(source).cloned().or_else(of_file)
    }
}
