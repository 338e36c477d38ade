// SPDX-License-Identifier: Apache-2.0
//! Services of the host that GPUs or containers need: systemd says that one has ended, and the service itself has
//! said why. Pure.

use super::trouble::{Weight, weight};
use std::collections::BTreeMap;

/// Parts of the names of units, and of their programs, that GPUs, RDMA or containers need.
const PARTS: [&str; 18] = words! {
    "nvidia" "nv-" "imex" "dcgm" "gdrdrv" "openibd" "mlnx" "rdma" "dkms" "slurmd" "kubelet" "kubenswrapper"
    "hyperkube" "k3s" "rke2" "containerd" "crio" "modules-load"
};
/// A laptop's: it ends on every server.
const POWERD: &str = "nvidia-powerd";
/// Programs of a unit that does not have their name.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("kubelet", "kubenswrapper"),
    ("kubelet", "hyperkube"),
    ("nvidia-fabricmanager", "nv-fabricmanager"),
    ("nvidia-cdi-refresh", "nvidia-ctk"),
];
/// Programs whose words are kept.
const PROGRAMS: usize = 64;

/// Whether a unit, or a program with this name in the system's log, is one of these services.
#[must_use]
pub fn is_of_a_service(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    PARTS.iter().any(|part| name.contains(part)) && !name.starts_with(POWERD)
}

/// A program has its unit's name, or a part of it.
fn is_program_of(program: &str, unit: &str) -> bool {
    unit.contains(program) || program.contains(unit) || OTHER_NAMES.contains(&(unit, program))
}

/// The last words of the services about their troubles.
#[derive(Debug, Default)]
pub(super) struct ServiceWords {
    by_program: BTreeMap<String, (Weight, String)>,
}

impl ServiceWords {
    /// A line of this program. Of the lines that say most about a trouble, the last counts.
    pub(super) fn heard(&mut self, program: &[u8], line: &[u8]) {
        if !is_of_a_service(program) {
            return;
        }
        let program = String::from_utf8_lossy(program).into_owned();
        let text = String::from_utf8_lossy(line);
        let weight = weight(&text).unwrap_or(Weight::None);
        let says_more = self.by_program.get(&program).is_none_or(|(least, _)| weight >= *least);
        if says_more && (self.by_program.contains_key(&program) || self.by_program.len() < PROGRAMS) {
            self.by_program.insert(program, (weight, super::shortened(line, super::CAUSE)));
        }
    }

    /// Those of the unit's programs, which has ended: what it says from now on belongs to its next start.
    pub(super) fn of(&mut self, unit: &str) -> Option<String> {
        let unit = unit.trim_end_matches(".service");
        let all = std::mem::take(&mut self.by_program);
        let (its, others): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(program, _)| is_program_of(program, unit));
        self.by_program = others;
        its.into_values().max_by_key(|(weight, _)| *weight).map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_services_last_words_are_those_of_the_run_that_ended() {
        let mut words = ServiceWords::default();
        words.heard(b"nvidia-persistenced", b"Failed to open /sys/x: Permission denied");
        words.heard(b"nvidia-persistenced", b"Failed to initialize");
        words.heard(b"kubelet", b"E0823 00:30:22.000000    1500 kubelet.go:1542] first");
        words.heard(b"kubelet", b"E0823 00:30:22.000000    1500 kubelet.go:1542] last");
        words.heard(b"kubelet", b"I0823 00:30:22.000000    1500 kubelet.go:1542] all is well");
        words.heard(b"openibd", b"it is over");
        words.heard(b"sshd", b"error: x");
        assert_eq!(
            words.of("nvidia-persistenced.service").as_deref(),
            Some("Failed to open /sys/x: Permission denied"),
            "the line that has a reason"
        );
        assert!(words.of("kubelet.service").unwrap().ends_with("] last"));
        assert_eq!(words.of("openibd.service").as_deref(), Some("it is over"));
        assert_eq!((words.of("kubelet.service"), words.of("sshd.service")), (None, None));
    }
}
