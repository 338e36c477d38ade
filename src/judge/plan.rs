// SPDX-License-Identifier: Apache-2.0
//! What modprobe says that it would do (`modprobe --show-depends`), and what speaks against it.

use crate::observation::{Observation, ProcState};
use std::path::{Path, PathBuf};

/// The steps of a load, in modprobe's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The modules to be loaded before it, with underscores.
    pub before: Vec<String>,
    /// The file of `nvidia_peermem`.
    pub file: Option<PathBuf>,
    /// The command that modprobe.d puts in its place.
    pub install: Option<String>,
}

/// Lines are `insmod PATH [PARAMETER]…`, `builtin NAME` and `install COMMAND`; the last is the module's own.
#[must_use]
pub fn read(shown: &str) -> Plan {
    let mut plan = Plan::default();
    let mut lines = shown.lines().map(str::trim_end).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        match line.split_once(' ') {
            Some(("insmod", rest)) => {
                let path = Path::new(rest.split(' ').next().unwrap_or_default());
                match name(path) {
                    Some(name) if name == "nvidia_peermem" => plan.file = Some(path.to_owned()),
                    Some(name) => plan.before.push(name),
                    None => {}
                }
            }
            Some(("install", command)) if is_last => plan.install = Some(command.to_owned()),
            // Some other module's command, which may load anything.
            Some(("install", command)) => plan.before.push(format!("(install {command})")),
            _ => {}
        }
    }
    plan
}

/// Why this plan must not be carried out. `is_inspected` knows the file that was inspected.
#[must_use]
pub fn objection(
    plan: &Plan,
    seen: &Observation,
    inspected: &Path,
    is_inspected: impl FnOnce(&Path) -> bool,
) -> Option<String> {
    let is_live = |name: &str| {
        let proc = seen.modules.proc.as_ref().ok();
        proc.is_some_and(|proc| proc.named(name).any(|module| module.state == ProcState::Live))
    };
    if let Some(other) = plan.before.iter().find(|name| !is_live(name)) {
        return Some(format!(
            "modprobe would load {other} as well, which is not live and not ours to load; what to do: load it first, or take \
             the softdep or install line out of modprobe.d"
        ));
    }
    match &plan.file {
        _ if plan.install.is_some() => None,
        Some(planned) if is_inspected(planned) => None,
        Some(planned) => Some(format!(
            "modprobe would load {}, and {} was inspected; what to do: run depmod, and remove the one that is not wanted",
            planned.display(),
            inspected.display()
        )),
        None => Some(
            "modprobe does not name the file that it would load; what to do: run depmod in the driver's root"
                .to_owned(),
        ),
    }
}

/// A module's name by its file's.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modprobes_words_are_read() {
        let plan = read(
            "insmod /lib/modules/6.1/updates/mlx_compat.ko \ninsmod /lib/modules/6.1/kernel/drivers/video/nvidia.ko.xz a=1\n\
             builtin ib_core\ninsmod /lib/modules/6.1/kernel/drivers/video/nvidia-peermem.ko peerdirect_support=0 \n",
        );
        assert_eq!(plan.before, ["mlx_compat", "nvidia"]);
        assert_eq!(
            plan.file.as_deref(),
            Some(Path::new("/lib/modules/6.1/kernel/drivers/video/nvidia-peermem.ko"))
        );
        assert_eq!(read("install /bin/false \n").install.as_deref(), Some("/bin/false"));
        assert_eq!(read("install /sbin/x\ninsmod /a/nvidia-peermem.ko\n").before, ["(install /sbin/x)"]);
        assert_eq!(read(""), Plan::default());
    }
}
