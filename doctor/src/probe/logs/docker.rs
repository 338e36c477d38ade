// SPDX-License-Identifier: Apache-2.0
//! Docker's logs of containers that no kubelet has started: `/var/lib/docker/containers/ID/ID-json.log`. Those of
//! pods are read by kubelet's links.

use super::pods::PODS;
use super::{Form, LogReader, LogSource, LogSources, RuleSet};
use crate::symptoms::logs::ContainerLog;
use peermem_gate::ready::files::read::lstat;
use peermem_gate::ready::files::root::resolve;
use std::cmp::Reverse;
use std::path::Path;

const CONTAINERS: &str = "var/lib/docker/containers";
/// As much of an id as `docker ps` shows.
const SHORT: usize = 12;

impl LogReader<'_> {
    /// The newest log of each container, those that were written last first. Anybody's programs run there: only what
    /// they say about their GPU counts, as evidence.
    pub(super) fn docker(&mut self) {
        if resolve(self.root, &self.root.join(PODS)).is_ok_and(|pods| pods.exists()) {
            return;
        }
        let directory = self.root.join(CONTAINERS);
        let mut ids = self.listed(&directory);
        ids.retain(|id| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let log = |id: String| (directory.join(&id).join(format!("{id}-json.log")), id);
        let written = |path: &Path| resolve(self.root, path).and_then(|real| lstat(&real)?.modified()).ok();
        let mut logs: Vec<_> = ids.into_iter().map(log).collect();
        logs.sort_by_cached_key(|(path, _)| Reverse(written(path)));
        self.logs.left_out.pods += logs.len().saturating_sub(self.limits.pods) as u64;
        let rules = RuleSet::of(LogSources::from_iter([LogSource::NvmlClient]));
        for (path, id) in logs.into_iter().take(self.limits.pods) {
            let [namespace, pod] = [String::new(), String::new()];
            let container =
                ContainerLog { namespace, pod, container: id[..SHORT].to_owned(), uid: id, restart: 0 };
            self.scan(path, Some(container), Form::Container, false, &rules);
        }
    }
}
