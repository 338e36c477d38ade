// SPDX-License-Identifier: Apache-2.0
//! Manifests, the chart, admission and workflows, judged by Kubernetes' schemas, helm, kubectl, the API server's
//! admission engine, promtool and actionlint.

mod chart;
mod chart_releases;
mod chart_values;
mod cluster;
mod engine;
mod helm;
mod manifests;
mod node_checks;
#[path = "../rebuild/place.rs"]
mod place;
#[path = "../support/mod.rs"]
mod support;
mod ways;
mod workflows;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        chart::tests(),
        chart_releases::tests(),
        chart_values::tests(),
        engine::tests(),
        manifests::tests(),
        node_checks::tests(),
        ways::tests(),
        workflows::tests(),
    ];
    support::suite::run(tests.into_iter().flatten().collect(), None)
}
