// SPDX-License-Identifier: Apache-2.0
//! The file of depmod's that makes modprobe take our module and no other of the same name. Without it, depmod takes
//! `updates/X` or `updates/dkms/X` by the order in which the file system lists them.

use super::recipe;
use std::path::{Path, PathBuf};

/// The directory of depmod's files, as seen from inside the driver's root.
pub const DEPMOD: &str = "/etc/depmod.d";

/// The name of the file for a kernel.
#[must_use]
pub fn name(release: &str) -> String {
    format!("peermem-gate-{release}.conf")
}

/// The file for a kernel, as seen from inside the driver's root.
#[must_use]
pub fn path(release: &str) -> PathBuf {
    Path::new(DEPMOD).join(name(release))
}

/// Its text. depmod takes the kernel for a regular expression that may fit anywhere. It takes the module's name as
/// the file has it.
#[must_use]
pub fn text(release: &str) -> String {
    let module = recipe::MODULE.trim_end_matches(".ko");
    format!(
        "# By peermem-gate, for updates/{}: `peermem-gate rebuild --undo` removes both.\n\
         override {module} {} updates\n",
        recipe::MODULE,
        exactly(release)
    )
}

/// A regular expression that matches only this text, basic or extended.
fn exactly(text: &str) -> String {
    let each = text.chars().map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c.to_string(),
        // In brackets it would have another meaning.
        '^' => "\\^".to_owned(),
        c => format!("[{c}]"),
    });
    format!("^{}$", each.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian 13 names its kernels: `+` would mean "once or more".
    #[test]
    fn a_kernels_release_fits_itself_and_no_other() {
        let text = text("6.12.117+deb13-amd64");
        let line = text.lines().last().expect("a line");
        assert_eq!(line, "override nvidia-peermem ^6[.]12[.]117[+]deb13-amd64$ updates");
        assert_eq!(path("6.1.0").to_str(), Some("/etc/depmod.d/peermem-gate-6.1.0.conf"));
    }
}
