// SPDX-License-Identifier: Apache-2.0
//! Who opened when, on what, and whether that was right.

use crate::clock::{Clock, SPEED};
use crate::contest::{Built, Contestant, Who};
use crate::node::Stack;
use std::fmt;
use std::time::Instant;

/// What an act came to.
pub(crate) struct Outcome {
    pub(crate) clock: Clock,
    pub(crate) marker_at: Option<Instant>,
    pub(crate) contestants: Vec<Contestant>,
}

/// What modprobe would say of nvidia-peermem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Loads,
    /// A stub's init function returns EINVAL.
    InvalidArgument,
    /// No live module exports what it imports.
    UnknownSymbol,
}

impl Outcome {
    fn of(&self, who: Who) -> Option<&Contestant> {
        self.contestants.iter().find(|one| one.who == who)
    }

    /// The module that lies behind this wait: built by what waited for it, or long before.
    fn built(&self, one: &Contestant) -> Option<(Instant, Built)> {
        let builder = if one.who.builds_behind() { one } else { self.of(Who::Compiler)? };
        builder.builds.last().copied()
    }

    /// What came of an opening?
    fn load(&self, one: &Contestant) -> Option<Load> {
        let opening = one.opening?;
        Some(match self.built(one)?.1 {
            Built::Stub => Load::InvalidArgument,
            Built::Real if opening.saw.symbol => Load::Loads,
            Built::Real => Load::UnknownSymbol,
        })
    }

    fn after_the_marker(&self, who: Who) -> bool {
        let opened = self.of(who).and_then(|one| one.opening);
        opened.zip(self.marker_at).is_some_and(|(opening, marker_at)| opening.at >= marker_at)
    }

    fn before_the_build(&self, who: Who) -> bool {
        let one = self.of(who);
        let built = one.and_then(|one| self.built(one));
        let opened = one.and_then(|one| one.opening);
        opened.zip(built).is_some_and(|(opening, (built_at, _))| opening.at < built_at)
    }

    fn comes_to(&self, who: Who, load: Load) -> bool {
        self.of(who).and_then(|one| self.load(one)) == Some(load)
    }

    fn logged(&self, who: Who, words: &str) -> bool {
        self.of(who).is_some_and(|one| one.log.iter().any(|line| line.contains(words)))
    }

    /// How much sooner after its wait the healed nvidia-peermem was there, in the incident's seconds. The
    /// two waits may end seconds apart: without inotify they look every 5 s.
    fn won(&self) -> Option<u64> {
        let took = |who| {
            let one = self.of(who)?;
            self.built(one)?.0.checked_duration_since(one.opening?.at)
        };
        let won = took(Who::Waiter)?.checked_sub(took(Who::Rebuilder)?)?;
        Some((won * SPEED).as_secs())
    }

    /// When each of its builds was done.
    fn built_at(&self, one: &Contestant) -> String {
        let times = one.builds.iter().map(|(at, _)| self.clock.shows(*at).to_string());
        times.collect::<Vec<_>>().join(" and ")
    }

    /// In one short phrase: was it right?
    fn judgment(&self, one: &Contestant) -> String {
        let Some(load) = self.load(one) else {
            let held = one.who == Who::HastyGate;
            return if held { "yes: it did not open, and logged why" } else { "no: it never opened" }
                .to_owned();
        };
        match (one.who, load) {
            (Who::DriverManager, Load::InvalidArgument) => {
                "no: it took the kernel's own mlx5_core for MOFED's".to_owned()
            }
            (Who::LoopBeforeModprobe, Load::InvalidArgument) => match self.built(one) {
                Some((at, _)) => format!(
                    "no: it waited before modprobe, but the stub was built at {}",
                    self.clock.shows(at)
                ),
                None => "no".to_owned(),
            },
            (Who::InitContainer, Load::Loads) => {
                "yes, this time: it sees only the marker file (see act 2)".to_owned()
            }
            (Who::Waiter, Load::Loads) => format!("yes: it built the driver by {}", self.built_at(one)),
            (Who::Rebuilder, Load::Loads) => format!(
                "yes: driver and healed nvidia-peermem by {}: {} s won",
                self.built_at(one),
                self.won().unwrap_or_default()
            ),
            (_, Load::Loads) => "yes".to_owned(),
            (_, Load::InvalidArgument) => "no: the build made a stub".to_owned(),
            (_, Load::UnknownSymbol) => "no: the marker file is there, MOFED is not".to_owned(),
        }
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, one: &Contestant) -> fmt::Result {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        let opened =
            one.opening.map_or("never".to_owned(), |opening| self.clock.shows(opening.at).to_string());
        let saw = one.opening.map(|opening| opening.saw);
        let stack = saw.map_or("", |saw| match saw.stack {
            Stack::InTree => "in-tree",
            Stack::Mofed => "MOFED",
            Stack::Swapping => "swapping",
        });
        let load = self.load(one).map_or("", |load| match load {
            Load::Loads => "loads",
            Load::InvalidArgument => "Invalid argument",
            Load::UnknownSymbol => "Unknown symbol",
        });
        let marker = saw.map_or("", |saw| yes_no(saw.marker));
        let headers = saw.map_or("", |saw| yes_no(saw.headers));
        let (who, judgment) = (one.who.name(), self.judgment(one));
        let row = format!("  {who:<25} {opened:<8}  {marker:<6} {stack:<8}  {headers:<7} {load}");
        writeln!(f, "{}", row.trim_end())?;
        writeln!(f, "      {judgment}")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {:<25} {:<8}  {:<6} {:<8}  {:<7} nvidia-peermem\n      was that right?",
            "who", "opened", "marker", "modules", "headers"
        )?;
        let waiting = self.contestants.iter().filter(|one| one.who != Who::Compiler);
        waiting.into_iter().try_for_each(|one| self.row(f, one))
    }
}

/// Something that the story says, and how to tell that it was so.
pub(crate) struct Claim(&'static str, fn(&Outcome) -> bool);

pub(crate) const OF_THE_INCIDENT: [Claim; 6] = [
    Claim("peermem-gate opened after the marker was set", |outcome| outcome.after_the_marker(Who::Gate)),
    Claim("behind peermem-gate a real nvidia-peermem was built and would load", |outcome| {
        outcome.comes_to(Who::Gate, Load::Loads)
    }),
    Claim("k8s-driver-manager v0.9.0 opened before the marker", |outcome| {
        outcome.of(Who::DriverManager).is_some_and(|one| one.opening.is_some())
            && !outcome.after_the_marker(Who::DriverManager)
    }),
    Claim("the build that k8s-driver-manager let through made a stub", |outcome| {
        outcome.before_the_build(Who::DriverManager)
            && outcome.comes_to(Who::DriverManager, Load::InvalidArgument)
    }),
    Claim("the loop before modprobe opened after the marker, and had only a stub to load", |outcome| {
        outcome.comes_to(Who::LoopBeforeModprobe, Load::InvalidArgument)
            && outcome.after_the_marker(Who::LoopBeforeModprobe)
    }),
    Claim("the init container's loop opened after the marker, to a real build", |outcome| {
        outcome.comes_to(Who::InitContainer, Load::Loads) && outcome.after_the_marker(Who::InitContainer)
    }),
];

pub(crate) const OF_A_STALE_MARKER: [Claim; 3] = [
    Claim("the init container's loop opened although MOFED was gone", |outcome| {
        outcome.comes_to(Who::InitContainer, Load::UnknownSymbol)
    }),
    Claim("peermem-gate waited until its timeout (exit code 124)", |outcome| {
        let gate = outcome.of(Who::HastyGate);
        gate.is_some_and(|gate| {
            gate.opening.is_none() && gate.ended.is_some_and(|end| end.code() == Some(124))
        })
    }),
    Claim("peermem-gate named the kernel's own modules as the reason (ModuleInTree)", |outcome| {
        outcome.logged(Who::HastyGate, "ModuleInTree")
    }),
];

pub(crate) const OF_A_HEALED_STUB: [Claim; 5] = [
    Claim("the driver that was built beside MOFED had a stub", |outcome| {
        let builds = outcome.of(Who::Rebuilder).map(|one| &one.builds);
        builds.and_then(|builds| builds.first()).is_some_and(|(_, built)| *built == Built::Stub)
    }),
    Claim("peermem-gate found that a rebuild cures that stub", |outcome| {
        outcome.logged(Who::Rebuilder, "can be rebuilt (StubModule)")
    }),
    Claim("peermem-gate judged the rebuilt nvidia-peermem usable", |outcome| {
        outcome.logged(Who::Rebuilder, "nothing to do")
    }),
    Claim("behind both waits nvidia-peermem would load", |outcome| {
        [Who::Waiter, Who::Rebuilder].iter().all(|who| outcome.comes_to(*who, Load::Loads))
    }),
    Claim("nvidia-peermem was healed in less time than the whole driver was built", |outcome| {
        outcome.won().is_some()
    }),
];

/// The claims that did not come true.
pub(crate) fn untrue(claims: &[Claim], outcome: &Outcome) -> Vec<&'static str> {
    claims.iter().filter(|Claim(_, holds)| !holds(outcome)).map(|Claim(claim, _)| *claim).collect()
}
