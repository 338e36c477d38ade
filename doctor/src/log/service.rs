// SPDX-License-Identifier: Apache-2.0
//! Services of the host that GPUs or containers need: systemd says that one has ended, and the service itself has
//! said why. Pure.

use super::trouble::{Weight, weight};
use std::collections::BTreeMap;

/// A unit of systemd's, and the names that its programs have in the system's log.
struct HostService {
    unit: &'static str,
    programs: &'static [&'static str],
}

const SERVICES: [HostService; 14] = [
    HostService { unit: "kubelet.service", programs: &["kubelet", "kubenswrapper", "hyperkube"] },
    HostService { unit: "k3s.service", programs: &["k3s"] },
    HostService { unit: "k3s-agent.service", programs: &["k3s"] },
    HostService { unit: "rke2-server.service", programs: &["rke2"] },
    HostService { unit: "rke2-agent.service", programs: &["rke2"] },
    HostService { unit: "containerd.service", programs: &["containerd"] },
    HostService { unit: "crio.service", programs: &["crio"] },
    HostService {
        unit: "nvidia-fabricmanager.service",
        programs: &["nv-fabricmanager", "nvidia-fabricmanager-start.sh"],
    },
    HostService { unit: "nvidia-persistenced.service", programs: &["nvidia-persistenced"] },
    HostService { unit: "openibd.service", programs: &["openibd"] },
    HostService { unit: "nvidia-cdi-refresh.service", programs: &["nvidia-ctk"] },
    HostService { unit: "nvidia-imex.service", programs: &["nvidia-imex"] },
    HostService { unit: "dkms.service", programs: &["dkms"] },
    HostService { unit: "systemd-modules-load.service", programs: &["systemd-modules-load"] },
];

/// Whether a program with this name in the system's log belongs to such a service.
#[must_use]
pub fn is_of_a_service(program: &[u8]) -> bool {
    SERVICES.iter().any(|service| service.programs.iter().any(|own| own.as_bytes() == program))
}

/// The last words of the services about their troubles.
#[derive(Debug, Default)]
pub(super) struct ServiceWords {
    by_program: BTreeMap<&'static str, (Weight, String)>,
}

impl ServiceWords {
    /// A line of this program. Of the lines that say most about a trouble, the last counts.
    pub(super) fn heard(&mut self, program: &[u8], line: &[u8]) {
        let mut programs = SERVICES.iter().flat_map(|service| service.programs);
        let Some(program) = programs.find(|own| own.as_bytes() == program) else { return };
        let text = String::from_utf8_lossy(line);
        let weight = weight(&text).unwrap_or(Weight::None);
        let says_more = self.by_program.get(program).is_none_or(|(least, _)| weight >= *least);
        if says_more {
            self.by_program.insert(program, (weight, super::shortened(line, super::CAUSE)));
        }
    }

    /// Those of the unit's programs, which has ended: what it says from now on belongs to its next start.
    pub(super) fn of(&mut self, unit: &str) -> Option<String> {
        let service = SERVICES.iter().find(|service| service.unit == unit)?;
        let words = service.programs.iter().filter_map(|program| self.by_program.remove(program));
        words.max_by_key(|(weight, _)| *weight).map(|(_, text)| text)
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
