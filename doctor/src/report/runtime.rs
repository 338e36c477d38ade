// SPDX-License-Identifier: Apache-2.0
//! The container runtimes of the node, as `doctor` reports them whether or not anything is wrong.

use crate::symptoms::runtime::{Runtime, Runtimes};
use peermem_gate::text::{LinePrefixText, Page};
use serde::Serialize;
use std::path::Path;

/// One runtime. Its JSON form is stable: an element of `runtimes` in a report.
#[derive(Clone, Debug, Serialize)]
pub struct RuntimeSummary<'a> {
    /// Whose it is.
    pub distribution: String,
    /// kubelet uses it; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<bool>,
    /// The runtime is running, as far as can be seen.
    pub running: bool,
    /// Its socket.
    pub socket: &'a str,
    /// Its main configuration file.
    pub config: &'a Path,
    /// That file's version; absent where it has none, or is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// How many files it is made of.
    pub files: usize,
    /// The default runtime, where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_runtime: Option<&'a str>,
    /// The names of NVIDIA's runtimes.
    pub nvidia: Vec<&'a str>,
    /// CDI is on; absent where it is left to the runtime's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cdi: Option<bool>,
    /// NRI is on; absent where it is left to the runtime's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nri: Option<bool>,
}

/// All of them.
pub fn summaries(seen: &Runtimes) -> Vec<RuntimeSummary<'_>> {
    let used = seen.used().map(|used| &used.config);
    let one = |runtime| summary(runtime, seen.endpoint.as_ref().ok().map(|_| used == Some(&runtime.config)));
    seen.all.iter().map(one).collect()
}

fn summary(runtime: &Runtime, used: Option<bool>) -> RuntimeSummary<'_> {
    let settings: Vec<_> = runtime.settings().map(|(_, settings)| settings).collect();
    let handlers = runtime.handlers();
    let nvidias = handlers.iter().filter(|(_, (_, handler))| handler.is_nvidias());
    RuntimeSummary {
        distribution: runtime.distribution.to_string(),
        used,
        running: runtime.is_running(),
        socket: &runtime.socket,
        config: &runtime.config,
        version: settings.first().map(|settings| settings.version).filter(|version| *version > 0),
        files: runtime.files.len(),
        default_runtime: settings.iter().rev().find_map(|settings| settings.default_runtime.as_deref()),
        nvidia: nvidias.map(|(name, _)| *name).collect(),
        cdi: settings.iter().rev().find_map(|settings| settings.enable_cdi),
        nri: settings.iter().rev().find_map(|settings| settings.nri),
    }
}

/// A line for each, the one that kubelet uses marked; nothing where none can be seen.
pub fn text(seen: &Runtimes, page: &mut Page) {
    for (at, runtime) in summaries(seen).iter().enumerate() {
        if at == 0 {
            page.blank();
            page.line("container runtimes");
        }
        page.entry(&LinePrefixText { rest: "    ".to_owned(), ..LinePrefixText::default() }, line(runtime));
    }
}

fn line(runtime: &RuntimeSummary<'_>) -> String {
    let on = |on: bool| if on { "on" } else { "off" };
    let known = |what: &str, is: Option<bool>| is.map(|is| format!("{what} {}", on(is)));
    let parts = [
        Some(runtime.distribution.clone()),
        (runtime.used == Some(true)).then(|| "kubelet uses it".to_owned()),
        (!runtime.running).then(|| "not running".to_owned()),
        Some(runtime.config.display().to_string()),
        runtime.version.map(|version| format!("version {version}")),
        runtime.default_runtime.map(|name| format!("default runtime {name}")),
        Some(match runtime.nvidia.as_slice() {
            [] => "no runtime of NVIDIA's".to_owned(),
            names => format!("NVIDIA's: {}", names.join(", ")),
        }),
        known("CDI", runtime.cdi),
        known("NRI", runtime.nri),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
