// SPDX-License-Identifier: Apache-2.0
//! Builds the gate: `cargo run --package incident` builds its library, but not the program.

use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");

/// Builds `peermem-gate` in the profile of this program, and answers where cargo put it.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With this package, the dependencies have the same features: none is built twice.
    let output = Command::new(cargo)
        .args(["build", "--package", "peermem-gate", "--package", env!("CARGO_PKG_NAME")])
        .args(["--bin", "peermem-gate", "--profile", &profile()?, "--manifest-path", MANIFEST])
        .args(["--quiet", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo to build peermem-gate")?;
    ensure!(output.status.success(), "cargo could not build peermem-gate ({})", output.status);
    let messages = String::from_utf8(output.stdout)?;
    messages.lines().find_map(executable).context("cargo does not say where it put peermem-gate")
}

/// The directory that this program lies in: `target/<profile>`.
fn profile() -> anyhow::Result<String> {
    let own = std::env::current_exe()?;
    let directory = own.parent().and_then(|path| path.file_name());
    let name = directory.context("this program does not lie in cargo's target directory")?.to_string_lossy();
    // The one profile whose directory has another name.
    Ok(if name == "debug" { "dev".to_owned() } else { name.into_owned() })
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_gate = message["target"]["name"] == "peermem-gate" && message["target"]["kind"][0] == "bin";
    is_gate.then(|| message["executable"].as_str().map(PathBuf::from))?
}
