// SPDX-License-Identifier: Apache-2.0
//! What `--version` says: the commit and the target of the build. And what a release build leaves out.
//!
//! Both packages of this repository have it. The commit is the last one that changed what the program is built from
//! (image/sources), so a program whose sources did not change stays the same to the last bit.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let repository = package.ancestors().find(|path| path.join("image/sources").is_dir()).unwrap_or(&package);
    println!("cargo:rerun-if-changed={}", repository.join(".git/logs/HEAD").display());
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    let commit = std::env::var("BUILD_COMMIT").ok().or_else(|| last_change(repository));
    println!("cargo:rustc-env=BUILD_COMMIT={}", commit.as_deref().unwrap_or("unknown commit"));
    println!("cargo:rustc-env=BUILD_TARGET={}", variable("TARGET"));
    leave_out_unwind_tables(repository);
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn last_change(repository: &Path) -> Option<String> {
    let git = Command::new(repository.join("image/commit")).arg(variable("CARGO_PKG_NAME")).output().ok()?;
    let commit = String::from_utf8_lossy(&git.stdout).trim().to_owned();
    (git.status.success() && !commit.is_empty()).then_some(commit)
}

/// A panic aborts, so nobody reads them; but Rust's own library comes with them, and they are an
/// eighth of a static binary. What is lost is the backtrace, which a stripped binary has no names for.
fn leave_out_unwind_tables(repository: &Path) {
    let is = |name: &str, value: &str| variable(name) == value;
    if is("CARGO_CFG_TARGET_ENV", "musl") && is("PROFILE", "release") {
        println!("cargo:rustc-link-arg-bins=-T{}/image/no-unwind-tables.ld", repository.display());
    }
}
