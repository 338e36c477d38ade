// SPDX-License-Identifier: Apache-2.0
//! Services of the host that GPUs or containers need: systemd says that one has ended, and the service itself has
//! said why. Pure.

use super::LogMatch;
use super::trouble::{Weight, repeated, weight};
use std::collections::{BTreeMap, VecDeque};

/// A service that is watched also while it runs.
#[derive(Debug)]
pub struct WatchedService {
    /// Its unit, without the suffix.
    pub unit: &'static str,
    /// The names of its programs in the system's log.
    pub programs: &'static [&'static str],
    /// How they write an error: these parts in this order, `*` is any text.
    pub errors: &'static [&'static str],
}

macro_rules! services {
    ($($unit:literal by $($program:literal),+: $($error:literal),+;)*) => {
        /// All: what ends by itself (openibd, dkms, nvidia-ctk) fails as a unit. Of slurmd, errors about GPUs.
        pub const SERVICES: &[WatchedService] =
            &[$(WatchedService { unit: $unit, programs: &[$($program),+], errors: &[$($error),+] }),*];
    };
}

services! {
    "nvidia-fabricmanager" by "nv-fabricmanager": "[*] [ERROR] [tid *] *", "failed with error:*", "has an invalid value*";
    "nvlsm" by "nvlsm": "ERR *: *";
    "nvidia-persistenced" by "nvidia-persistenced": "Failed to *", "failed to *", "ould not *";
    "nvidia-imex" by "nvidia-imex": "[*] [ERROR] [tid *] *";
    "nvidia-dcgm" by "nv-hostengine": "ERROR [*] *", "Error: *";
    "opensm" by "opensm", "OpenSM": "ERR *: *";
    "rdma-ndd" by "rdma-ndd": "ailed to *";
    "slurmd" by "slurmd": "error: *gres.conf*", "error: *gres/gpu*", "error: */dev/nvidia*";
}

impl WatchedService {
    fn of(program: &str) -> Option<&'static Self> {
        SERVICES.iter().find(|service| service.programs.contains(&program))
    }

    fn is_error(&self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        let behind = |rest, part| Some(str::split_once(rest, part)?.1);
        self.errors.iter().any(|form| form.split('*').try_fold(&*text, behind).is_some())
    }
}

/// Parts of the names of units, and of their programs, that GPUs, RDMA or containers need.
const PARTS: [&str; 21] = words! {
    "nvidia" "nv-" "nvlsm" "imex" "dcgm" "gdrdrv" "openibd" "mlnx" "rdma" "opensm" "OpenSM" "dkms" "slurmd"
    "kubelet" "kubenswrapper" "hyperkube" "k3s" "rke2" "containerd" "crio" "modules-load"
};
/// A laptop's: it ends on every server.
const POWERD: &str = "nvidia-powerd";
/// Programs of a unit that does not have their name.
const OTHER_NAMES: [(&str, &str); 3] =
    [("kubelet", "kubenswrapper"), ("kubelet", "hyperkube"), ("nvidia-cdi-refresh", "nvidia-ctk")];
/// Programs whose words are kept.
const PROGRAMS: usize = 64;
/// In nanoseconds.
const MOMENT: i64 = 10_000_000_000;
/// Of a watched service so many lines are kept.
const LINES: usize = 64;

/// Whether a unit, or a program with this name in the system's log, is one of these services.
pub fn is_of_a_service(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    PARTS.iter().any(|part| name.contains(part)) && !name.starts_with(POWERD)
}

/// A program has its unit's name, or a part of it.
fn is_program_of(program: &str, unit: &str) -> bool {
    let is_watched = WatchedService::of(program).is_some_and(|service| service.unit == unit);
    unit.contains(program) || program.contains(unit) || is_watched || OTHER_NAMES.contains(&(unit, program))
}

/// The last words of the services about their troubles.
#[derive(Debug, Default)]
pub(super) struct ServiceWords {
    by_program: BTreeMap<String, (Weight, String)>,
    /// The last lines of each watched service, newest first, by its unit.
    tails: BTreeMap<&'static str, VecDeque<LogMatch>>,
}

impl ServiceWords {
    /// A line of this program. Of the lines that say most about a trouble, the last counts.
    pub(super) fn heard(&mut self, program: &[u8], line: &[u8], found: impl FnOnce() -> LogMatch) {
        if !is_of_a_service(program) {
            return;
        }
        let program = String::from_utf8_lossy(program).into_owned();
        if let Some(service) = WatchedService::of(&program) {
            let tail = self.tails.entry(service.unit).or_default();
            tail.truncate(LINES - 1);
            tail.push_front(found());
        }
        let text = String::from_utf8_lossy(line);
        let weight = weight(&text).unwrap_or(Weight::None);
        let says_more = self.by_program.get(&program).is_none_or(|(least, _)| weight >= *least);
        if says_more && (self.by_program.contains_key(&program) || self.by_program.len() < PROGRAMS) {
            self.by_program.insert(program, (weight, super::shortened(line, super::CAUSE)));
        }
    }

    /// The errors that services repeat: the last line of each.
    pub(super) fn repeated(&mut self) -> impl Iterator<Item = LogMatch> {
        SERVICES.iter().filter_map(|service| {
            let lines: Vec<_> = self.tails.remove(service.unit)?.into_iter().rev().collect();
            let texts: Vec<_> = lines.iter().map(|line| line.text.as_bytes()).collect();
            let same = repeated(&texts, |text| service.is_error(text))?;
            let (first, last) = (&lines[*same.first()?], &lines[*same.last()?]);
            // One for each of a machine's devices, in a moment, is no repetition.
            let lasted = last.until?.ns.saturating_sub(first.until?.ns);
            let count = if lasted < MOMENT { return None } else { same.len() as u64 };
            let text = format!("{}: {}", service.unit, last.text);
            let fields = BTreeMap::from([("unit".to_owned(), format!("{}.service", service.unit))]);
            Some(LogMatch { count, fields, text, ..last.clone() })
        })
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
