// SPDX-License-Identifier: Apache-2.0
//! Steps that a host cannot do are left out: Talos has no shell and no programs, other systems come as an image and
//! have no packages.

use super::fact::{IMAGE, TALOS};
use peermem_gate::steps;
use peermem_gate::words::remedy::{Facts, Step};

/// Programs that run elsewhere than on the node: no other is on Talos, which has no shell.
const ELSEWHERE: [&str; 4] = ["helm", "kubectl", "oc", "talosctl"];
/// Programs that install packages, or that packages keep up to date.
const OF_PACKAGES: [&str; 5] = ["apt", "dkms", "dnf", "dracut", "update-initramfs"];

/// Steps in place of a shell, which Talos does not have, and in place of packages.
pub(super) const INSTEAD: &[Step] = steps![
    @TALOS "Use Talos' own ways, because it has no shell: `machine.kernel.modules`, `machine.sysctls` and `machine.files` of the machine \
        configuration, system extensions for drivers, `talosctl -n {node} dmesg` and `talosctl -n {node} logs kubelet` for logs.",
    @IMAGE "Bring what is missing with the image or its configuration, because this host has no package manager: a MachineConfig on OpenShift, \
        Ignition or a system extension on Flatcar, the settings on Bottlerocket.",
];

/// The steps that the node's host can do, and in place of the others what its system has for them.
pub(super) fn possible(steps: &[Step], facts: &Facts) -> Vec<Step> {
    let lacks: &dyn Fn(&str) -> bool = match (facts.is(TALOS), facts.is(IMAGE)) {
        (Some(true), _) => &|program| !ELSEWHERE.contains(&program),
        (_, Some(true)) => &|program| OF_PACKAGES.contains(&program),
        _ => return steps.to_vec(),
    };
    let may_help = |step: &Step| step.when.iter().all(|fact| facts.is(*fact) != Some(false));
    let (foreign, own): (Vec<_>, Vec<_>) = steps.iter().partition(|step| calls(step.text, lacks));
    let is_left_out = foreign.into_iter().any(may_help);
    own.into_iter().copied().chain(INSTEAD.iter().copied().filter(|_| is_left_out)).collect()
}

/// A command in backticks begins with one of these programs. A setting has a sign behind its name.
fn calls(text: &str, lacks: &dyn Fn(&str) -> bool) -> bool {
    let is_name =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_0123456789".contains(&byte));
    let quoted = text.split('`').skip(1).step_by(2);
    let mut commands = quoted.flat_map(|text| text.split(" && ")).flat_map(|text| text.split(" | "));
    commands.any(|command| {
        let parts = command.split_once(' ').filter(|(name, rest)| is_name(name) && !rest.starts_with('='));
        parts.is_some_and(|(program, _)| lacks(program))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peermem_gate::words::remedy::fact::{DRIVER_POD, HOST_DRIVER};

    const STEPS: &[Step] = steps![
        "Load it: `modprobe x`.",
        @HOST_DRIVER "Build it: `dkms install x`, or read `dmesg`.",
        @DRIVER_POD "Delete it: `kubectl delete pod x`.",
    ];

    fn texts(facts: &Facts) -> Vec<&'static str> {
        let may_help = |step: &&Step| step.when.iter().all(|fact| facts.is(*fact) != Some(false));
        possible(STEPS, facts).iter().filter(may_help).map(|step| step.text).collect()
    }

    #[test]
    fn a_host_gets_no_step_whose_program_it_does_not_have() {
        let facts = |fact, is_so| {
            let none = [TALOS, IMAGE].iter().fold(Facts::default(), |all, fact| all.with(*fact, Some(false)));
            none.with(fact, Some(is_so))
        };
        assert_eq!(texts(&facts(TALOS, false)).len(), 3);
        assert_eq!(texts(&facts(TALOS, true)), [STEPS[2].text, INSTEAD[0].text]);
        assert_eq!(texts(&facts(IMAGE, true)), [STEPS[0].text, STEPS[2].text, INSTEAD[1].text]);
        let facts = facts(IMAGE, true).with(HOST_DRIVER, Some(false));
        assert_eq!(texts(&facts), [STEPS[0].text, STEPS[2].text], "nothing is left out that would help");
    }

    #[test]
    fn a_word_in_backticks_is_no_command() {
        let calls = |text| calls(text, &|program| !ELSEWHERE.contains(&program));
        assert!(!calls(
            "Read `dmesg`, set `mount`, `mode = \"auto\"` and `a.b: true`; see `kubectl get pod`."
        ));
        assert!(calls("Run `x && rmmod y`.") && calls("Run `x | ps -e`."));
    }
}
