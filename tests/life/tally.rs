// SPDX-License-Identifier: Apache-2.0
//! What many lives came to: counts for each who waits and for each who loads, and tables of them.

use super::plan::{Life, Place};
use super::truth::{Opening, Truth};
use crate::machine::Line;
use crate::plot::{Contender, Plot, percentile};
use std::collections::BTreeMap;
use std::fmt;

/// Who waits before a build, side by side in each life: the gate, and two loops.
const WAITERS: [(&str, &str); 3] = [
    ("wait", "`peermem-gate wait`"),
    ("poll", "`until [ -f MARKER ]; do sleep 5; done`"),
    ("grep", "the same with `&& grep -q mlx5_core /proc/modules`"),
];

/// Counts of everything.
#[derive(Default)]
pub(crate) struct Tally {
    waiters: BTreeMap<&'static str, Counts>,
    places: BTreeMap<Place, Counts>,
    lives: u32,
    /// Of the nodes.
    hours: f64,
}

#[derive(Default)]
struct Counts {
    lives: u32,
    openings: BTreeMap<Opening, u32>,
    builds: u32,
    stubs: u32,
    einval: u32,
    /// MOFED could not unload its modules because of `nvidia_peermem`.
    held: u32,
    /// MOFED's own unload of `nvidia_peermem` failed because somebody else was doing it.
    collisions: u32,
    /// A person had to delete the driver's pod.
    persons: u32,
    never: u32,
    /// Seconds, from when the node was ready to the opening, or to a live `nvidia_peermem`.
    times: Vec<f64>,
}

/// A life as it was: its lines, and what they say.
struct Lived<'a> {
    lines: &'a [Line],
    truth: Truth,
    place: Place,
}

impl Tally {
    pub(crate) fn lives(&self) -> u32 {
        self.lives
    }

    /// Counts a life. What must not be comes back.
    pub(crate) fn add(&mut self, life: &Life, lines: &[Line]) -> Vec<String> {
        let lived = Lived { lines, truth: Truth::of(lines), place: life.place };
        self.lives += 1;
        if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
            self.hours += (last.at - first.at) / 3600.0;
        }
        let mut faults = lived.unfinished();
        for line in lines {
            faults.extend(self.add_opening(&lived, line));
            self.add_build(&lived, line);
        }
        self.places.entry(life.place).or_default().add_life(&lived);
        faults
    }

    /// The counts of the one that a line names first: the driver's pod, or who only waits.
    fn counts(&mut self, who: &str, place: Place) -> &mut Counts {
        match WAITERS.iter().find(|(waiter, _)| *waiter == who) {
            Some((waiter, _)) => self.waiters.entry(waiter).or_default(),
            None => self.places.entry(place).or_default(),
        }
    }

    /// Answers with a fault where it was the gate's, and early.
    fn add_opening(&mut self, lived: &Lived, line: &Line) -> Option<String> {
        let (who, number) = line.text.split_once(' ').unwrap_or((&line.text, ""));
        let (is_gate, began) = match (line.kind.as_str(), who) {
            ("opened", "pod") => (lived.place.waits_by_gate(), "pod".to_owned()),
            // They begin together, and the gate says so.
            ("opened", _) => (who == "wait", format!("wait {number}")),
            ("asked", _) => (lived.place.loads_by_gate(), "loader".to_owned()),
            _ => return None,
        };
        let began = lived.started(&began, line.at);
        // Only a gate asks at its beginning whether there is a NIC.
        let opening = lived.truth.opening(line.at, if is_gate { began } else { 0.0 });
        // What a pod waits for shows in the table by what it loads.
        if who != "pod" {
            let counts = self.counts(who, lived.place);
            *counts.openings.entry(opening).or_default() += 1;
            let ready = lived.truth.ready_since(line.at);
            let waited = ready.filter(|ready| line.kind == "opened" && *ready > began);
            counts.times.extend(waited.map(|ready| line.at - ready));
        }
        let is_fault = is_gate && opening == Opening::Early;
        is_fault.then(|| format!("early, at {:.3}: {} {}", line.at, line.kind, line.text))
    }

    fn add_build(&mut self, lived: &Lived, line: &Line) {
        let Some((who, found)) = line.text.rsplit_once(' ').filter(|_| line.kind == "built") else { return };
        let counts = self.counts(who.split(' ').next().unwrap_or_default(), lived.place);
        counts.builds += 1;
        counts.stubs += u32::from(found == "stub");
    }
}

impl Counts {
    fn add_life(&mut self, lived: &Lived) {
        let count = |kind: &str, begins: &str| -> u32 {
            let all = lived.lines.iter().filter(|line| line.kind == kind && line.text.starts_with(begins));
            u32::try_from(all.count()).expect("a small number")
        };
        self.lives += 1;
        self.held += count("failed", "held");
        self.collisions += count("failed", "collision");
        self.persons += count("person", "pod");
        self.never += count("never", "");
        let mut answers = lived.lines.iter().filter(|line| line.kind == "answered");
        self.einval +=
            answers.clone().map(|line| u32::from(line.text.contains("Invalid argument"))).sum::<u32>();
        let live = answers.rfind(|line| line.text.starts_with('0')).filter(|_| count("never", "") == 0);
        let ready = lived.truth.ready_since(f64::INFINITY);
        self.times.extend(live.zip(ready).map(|(live, ready)| (live.at - ready).max(0.0)));
    }
}

impl Lived<'_> {
    /// When the wait that opened at this time began.
    fn started(&self, who: &str, at: f64) -> f64 {
        let mut starts =
            self.lines.iter().filter(|line| line.kind == "started" && line.text == who && line.at <= at);
        starts.next_back().map_or(0.0, |line| line.at)
    }

    /// What did not come to its end: a track of the plan, a gate on a node that is ready, the life itself.
    fn unfinished(&self) -> Vec<String> {
        let ended = self.lines.iter().filter(|line| matches!(line.kind.as_str(), "ended" | "stuck"));
        let mut faults: Vec<_> = ended.map(|line| format!("{} {}", line.kind, line.text)).collect();
        for track in ["mofeds", "pods", "resets", "watchers", "clocks"] {
            if !self.lines.iter().any(|line| line.kind == "done" && line.text == track) {
                faults.push(format!("the plan's {track} broke off"));
            }
        }
        if self.lines.last().is_none_or(|line| line.kind != "over") {
            faults.push("the life did not end".to_owned());
        }
        faults
    }
}

impl Tally {
    /// A picture of how long nvidia-peermem took to be live, a row for each who loads it.
    pub(crate) fn svg(&self) -> String {
        let plot = Plot {
            title: "Time from MOFED's last readiness to a live nvidia_peermem, the driver's build included",
            panels: &["MOFED is ready → nvidia_peermem is live"],
            decades: 2..=6,
            names: 300.0,
        };
        let times = |counts: &Counts| counts.times.iter().map(|seconds| seconds * 1e3).collect::<Vec<_>>();
        let all: Vec<_> = self.places.iter().map(|(place, counts)| (place, times(counts))).collect();
        let contenders = all.iter().map(|(place, times)| Contender {
            name: place.name(),
            is_gate: place.is_gates(),
            times: vec![times],
        });
        plot.svg(&contenders.collect::<Vec<_>>())
    }
}

/// As tables of Markdown.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} lives, {:.0} hours of nodes\n", self.lives, self.hours)?;
        writeln!(
            f,
            "| who waits before a build | openings | early | untold | overlapped | NIC away | believed | builds | stubs | opens after: s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for (waiter, name) in WAITERS {
            let Some(counts) = self.waiters.get(waiter) else { continue };
            let Counts { builds, stubs, .. } = counts;
            writeln!(
                f,
                "| {name} | {} | {builds} | {stubs} | {} |",
                counts.shown_openings(),
                spread(&counts.times)
            )?;
        }
        writeln!(
            f,
            "\n| who loads | lives | attempts | early | untold | overlapped | NIC away | believed | EINVAL | stubs | MOFED held | collisions | a person | never | usable after: s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
        for (place, counts) in &self.places {
            let Counts { lives, einval, stubs, held, collisions, persons, never, .. } = counts;
            writeln!(
                f,
                "| {} | {lives} | {} | {einval} | {stubs} | {held} | {collisions} | {persons} | {never} | {} |",
                place.name(),
                counts.shown_openings(),
                spread(&counts.times)
            )?;
        }
        Ok(())
    }
}

impl Counts {
    fn shown_openings(&self) -> String {
        let count = |opening| self.openings.get(&opening).copied().unwrap_or_default();
        let all = self.openings.values().sum();
        let columns =
            [Opening::Early, Opening::Untold, Opening::Overlapped, Opening::Away, Opening::Believed];
        let shown: Vec<_> =
            std::iter::once(all).chain(columns.map(count)).map(|number: u32| number.to_string()).collect();
        shown.join(" | ")
    }
}

/// The median, and in brackets the 90th percentile.
fn spread(times: &[f64]) -> String {
    format!("{:.1} ({:.1})", percentile(times, 50), percentile(times, 90))
}
