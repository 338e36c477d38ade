// SPDX-License-Identifier: Apache-2.0
//! What `--version` says: the commit and the target of the build. And what a release build leaves out.

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
    leave_out_unwind_tables();
}

/// A panic aborts, so nobody reads them; but Rust's own library comes with them, and they are an
/// eighth of a static binary. What is lost is the backtrace, which a stripped binary has no names for.
fn leave_out_unwind_tables() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_ENV", "musl") && is("PROFILE", "release") {
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{root}/image/no-unwind-tables.ld");
    }
}
