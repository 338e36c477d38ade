// SPDX-License-Identifier: Apache-2.0
//! modprobe's plan (`modprobe --show-depends`), and objections to it.

use crate::ready::observation::{Observation, ProcState};
use std::path::{Path, PathBuf};

/// Commands that modprobe.d has in place of a module so it is not loaded.
const NOTHING: [&str; 5] = ["/bin/true", "/bin/false", "true", "false", ":"];

/// The steps of a load, in modprobe's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModprobePlan {
    /// The modules to be loaded in addition, with underscores.
    pub others: Vec<String>,
    /// The file of `nvidia_peermem`.
    pub file: Option<PathBuf>,
    /// Commands that modprobe.d puts in place of modules; modprobe does not say of which.
    pub commands: Vec<String>,
}

/// Lines are `insmod PATH [PARAMETER]…`, `builtin NAME` and `install COMMAND`.
#[must_use]
pub fn read(shown: &str) -> ModprobePlan {
    let mut plan = ModprobePlan::default();
    for line in shown.lines().map(str::trim_end) {
        match line.split_once(' ') {
            Some(("insmod", rest)) => {
                let path = Path::new(rest.split(' ').next().unwrap_or_default());
                match name(path) {
                    Some(name) if name == "nvidia_peermem" => plan.file = Some(path.to_owned()),
                    name => plan.others.extend(name),
                }
            }
            Some(("install", command)) => plan.commands.push(command.to_owned()),
            _ => {}
        }
    }
    plan
}

/// A module that modprobe would load in addition to ours: it has to be live first, or is not ours to load.
#[must_use]
pub fn not_live<'a>(plan: &'a ModprobePlan, seen: &Observation) -> Option<&'a str> {
    let is_live = |name: &str| {
        let proc = seen.modules.proc.as_ref().ok();
        proc.is_some_and(|proc| proc.named(name).any(|module| module.state == ProcState::Live))
    };
    plan.others.iter().map(String::as_str).find(|name| !is_live(name))
}

/// Why this plan must never be carried out. `is_inspected` knows the file that was inspected.
#[must_use]
pub fn objection(
    plan: &ModprobePlan,
    inspected: &Path,
    is_inspected: impl FnOnce(&Path) -> bool,
) -> Option<String> {
    let mut commands = plan.commands.iter();
    let is_nothing = |command: &String| plan.file.is_some() && NOTHING.contains(&command.as_str());
    if let Some(command) = commands.find(|command| !is_nothing(command)) {
        return Some(format!(
            "an install line in modprobe.d would run `{command}`, which may load anything; what to do: \
                remove the line, or let it run `peermem-gate load`"
        ));
    }
    match &plan.file {
        Some(planned) if is_inspected(planned) => None,
        Some(planned) => Some(format!(
            "modprobe would load {}, but {} was inspected; what to do: run depmod, and remove the file that \
                you do not want",
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
    fn the_plan_that_modprobe_prints_is_read() {
        let plan = read(
            "insmod /lib/modules/6.1/updates/mlx_compat.ko \ninsmod \
                /lib/modules/6.1/kernel/drivers/video/nvidia.ko.xz a=1\n\
             builtin ib_core\ninsmod /lib/modules/6.1/kernel/drivers/video/nvidia-peermem.ko peerdirect_support=0 \n",
        );
        assert_eq!(plan.others, ["mlx_compat", "nvidia"]);
        assert_eq!(
            plan.file.as_deref(),
            Some(Path::new("/lib/modules/6.1/kernel/drivers/video/nvidia-peermem.ko"))
        );
        assert_eq!(read("install /bin/false \n").commands, ["/bin/false"]);
        assert_eq!(read(""), ModprobePlan::default());
    }

    #[test]
    fn a_modprobe_plan_with_an_install_command_is_refused() {
        let object = |shown: &str| objection(&read(shown), Path::new("/x"), |_| true).unwrap_or_default();
        assert_eq!(
            object("install /bin/true\ninsmod /x/nvidia-peermem.ko\n"),
            "",
            "a softdep that is turned off"
        );
        for shown in [
            "install /bin/false\n",
            "install /sbin/anything\ninsmod /x/nvidia-peermem.ko\n",
            "insmod /x/nvidia-peermem.ko\ninstall modprobe other\n",
        ] {
            assert!(object(shown).contains("install line"), "{shown}");
        }
    }

    #[test]
    fn a_plan_for_another_file_than_the_inspected_one_is_refused() {
        let object = |shown: &str| objection(&read(shown), Path::new("/x"), |_| false).unwrap_or_default();
        assert!(object("insmod /y/nvidia-peermem.ko\n").contains("/x was inspected"));
        assert!(object("builtin ib_core\n").contains("does not name the file"));
    }
}
