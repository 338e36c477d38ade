// SPDX-License-Identifier: Apache-2.0
//! Plays a timeline, reads the output of the processes, and prints each event as it happens.

use crate::clock::{Clock, TimeOfDay};
use crate::contest::{Built, Contestant, Heard, Opening, Who};
use crate::node::Node;
use crate::outcome::Outcome;
use crate::timeline::Timeline;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// After the last step, every program ends well within this time: the gate's slow look, which needs no event, comes
/// every 5 s, a build of 2 s follows, and the machine may be busy.
const OPENING_LIMIT: Duration = Duration::from_secs(60);

/// Where a line of the story breaks, and where it goes on.
const WIDTH: usize = 80;
const INDENT: usize = 20;

/// The node, the waiting programs, and the thread that reports on both.
pub(crate) struct Stage {
    /// Dropped before the node, so no program still looks at it.
    contestants: Vec<Contestant>,
    pub(crate) node: Node,
    clock: Clock,
    gate: PathBuf,
    marker_at: Option<Instant>,
    ear: Receiver<Heard>,
    mouth: Sender<Heard>,
}

impl Stage {
    pub(crate) fn set(gate: &Path, begins: TimeOfDay) -> anyhow::Result<Self> {
        let node = Node::boot().context("cannot make the scratch tree")?;
        let (mouth, ear) = channel();
        let (clock, gate) = (Clock::start(begins), gate.to_owned());
        Ok(Self { node, clock, gate, contestants: Vec::new(), marker_at: None, ear, mouth })
    }

    pub(crate) fn play(mut self, timeline: &Timeline) -> anyhow::Result<Outcome> {
        for step in timeline.steps {
            self.listen(self.clock.real(step.at), |_| false)?;
            self.tell(Instant::now(), step.side, step.what);
            (step.does)(&mut self).with_context(|| format!("{} {}", step.side, step.what))?;
        }
        let all_ended = |stage: &Self| stage.contestants.iter().all(|one| one.ended.is_some());
        self.listen(Instant::now() + OPENING_LIMIT, all_ended)?;
        ensure!(all_ended(&self), "a program still waits, long after MOFED was ready");
        // From the first wait that there was to the last one that was proposed.
        self.contestants.sort_by_key(|one| one.who);
        Ok(Outcome { clock: self.clock, marker_at: self.marker_at, contestants: self.contestants })
    }

    pub(crate) fn start(&mut self, who: Who) -> anyhow::Result<()> {
        let started = Contestant::start(who, &self.gate, self.node.root(), &self.mouth);
        self.contestants.push(started.with_context(|| format!("cannot start {}", who.name()))?);
        Ok(())
    }

    /// Notes the time first: every program sees the marker later.
    pub(crate) fn set_marker(&mut self) -> anyhow::Result<()> {
        self.marker_at = Some(Instant::now());
        Ok(self.node.set_marker()?)
    }

    fn listen(&mut self, until: Instant, enough: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while !enough(self) {
            match self.ear.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(heard) => self.hear(heard)?,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the stage has a mouth of its own"),
            }
        }
        Ok(())
    }

    fn hear(&mut self, Heard { from, at, line }: Heard) -> anyhow::Result<()> {
        let Some(line) = line else { return Ok(self.contestant(from)?.pipe_ended()?) };
        let said = match line.as_str() {
            "open" => {
                let saw = self.node.look().context("cannot look at the scratch tree")?;
                self.contestant(from)?.opening = Some(Opening { at, saw });
                "OPENS".to_owned()
            }
            "stub" => {
                self.contestant(from)?.builds.push((at, Built::Stub));
                "builds nvidia-peermem: sees no peer-memory symbols: a STUB".to_owned()
            }
            "real" => {
                self.contestant(from)?.builds.push((at, Built::Real));
                "builds nvidia-peermem: a real one".to_owned()
            }
            line => {
                let words = self.words(line);
                self.contestant(from)?.log.push(words.clone());
                words
            }
        };
        self.tell(at, "GPU", &format!("| {}: {said}", from.name()));
        Ok(())
    }

    fn contestant(&mut self, who: Who) -> anyhow::Result<&mut Contestant> {
        let found = self.contestants.iter_mut().find(|one| one.who == who);
        found.context("a line came from a program that was not started")
    }

    /// What the gate logged, as a sentence; any other line as it is. Paths as the node knows them.
    fn words(&self, line: &str) -> String {
        let log: Value = serde_json::from_str(line).unwrap_or_default();
        let sentence = log["message"].as_str().unwrap_or(line);
        let about = ["reason", "cause"].map(|key| log[key].as_str());
        let about: Vec<_> = about.into_iter().flatten().collect();
        let about = if about.is_empty() { String::new() } else { format!(" [{}]", about.join(", ")) };
        format!("{sentence}{about}").replace(&*self.node.root().to_string_lossy(), "")
    }

    fn tell(&self, at: Instant, side: &str, what: &str) {
        let mut line = format!("  {}  {side:<6}", self.clock.shows(at));
        for word in what.split(' ') {
            if line.chars().count() + word.len() >= WIDTH {
                println!("{line}");
                line = " ".repeat(INDENT);
            }
            line += " ";
            line += word;
        }
        println!("{line}");
    }
}
