// SPDX-License-Identifier: Apache-2.0
//! What `--version` says: the commit and the target of the build.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=.git/logs/HEAD");
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    let commit = std::env::var("BUILD_COMMIT").ok().or_else(|| {
        let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        git.status.success().then(|| String::from_utf8_lossy(&git.stdout).trim().to_owned())
    });
    println!("cargo:rustc-env=BUILD_COMMIT={}", commit.as_deref().unwrap_or("unknown commit"));
    println!("cargo:rustc-env=BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
