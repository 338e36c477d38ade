// SPDX-License-Identifier: Apache-2.0
//! nvidia-peermem beyond its condition: who is registered, and whether one could do without it.

use super::{Case, told};
use crate::finding::{Finding, Id, Severity};

/// `found` so far: an alternative is offered only to who has a problem.
pub(super) fn judge(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    [legacy_client(case), two_clients(case), dma_buf(case, found)].into_iter().flatten().collect()
}

/// Whatever else keeps nvidia-peermem from loading, and the condition says first.
fn legacy_client(case: &Case<'_>) -> Option<Finding> {
    let line = case.line("nv_peer_mem")?;
    Some(Finding::new(Id::LegacyClientLoaded, "/proc/modules", told(line)))
}

/// Both register the name `nv_mem`, whose version is nvidia's only if `nvidia_peermem` was first.
fn two_clients(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    // What is cut off or garbled is no other version.
    let version = |text: &&String| text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.');
    let loaded = driver.loaded.1.iter().flatten().find(version);
    let client = driver.client.1.iter().flatten().find(version);
    let foreign = client.zip(loaded).filter(|(client, loaded)| client != loaded).map(|(client, loaded)| {
        Finding::new(Id::TwoPeerClients, driver.client.0.display(), client.clone())
            .seen(driver.loaded.0.display(), loaded.clone())
    });
    let listed = ["nv_peer_mem", "nvidia_peermem"].map(|name| case.line(name));
    let both = listed.iter().all(Option::is_some).then(|| {
        Finding::new(Id::TwoPeerClients, "/proc/modules", "both nv_peer_mem and nvidia_peermem are loaded")
    });
    both.or(foreign)
}

/// NVIDIA's terms for it: open kernel modules, and Linux 5.12 (cloud-native-docs, gpu-operator-rdma.rst).
fn dma_buf(case: &Case<'_>, found: &[Finding]) -> Option<Finding> {
    let (path, told) = &case.symptoms.driver.told;
    let open = told.iter().flatten().find(|line| line.contains("Open Kernel Module"))?;
    let release = &case.seen.kernel.release;
    let has_problem = found.iter().any(|finding| finding.severity == Severity::Critical);
    (has_problem && is_since_5_12(release)).then(|| {
        Finding::new(Id::DmaBufPossible, path.display(), open.clone())
            .seen("/proc/sys/kernel/osrelease", release.clone())
    })
}

fn is_since_5_12(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (5, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(is_since_5_12("5.14.0-427.96.1.el9_4.aarch64+64k") && is_since_5_12("6.1.0-56-amd64"));
        assert!(!is_since_5_12("5.4.0-1-generic") && !is_since_5_12("4.18.0-553.el8") && !is_since_5_12(""));
    }
}
