// SPDX-License-Identifier: Apache-2.0
//! `doctor`: one look, and all that is wrong.

use crate::cli::DoctorArgs;
use crate::diagnose::{diagnose, links};
use crate::peer_memory::{PeerMemory, as_if_unfit, only_versions_block};
use crate::probe::{rdma_users, survey, symptoms};
use crate::report::doctor::Diagnosis;
use crate::symptoms::Symptoms;
use crate::timeline::DoctorAnswer;
use crate::verb::looks::Looks;
use crate::verb::schedule::ReportSchedule;
use crate::verb::{JudgedNode, json, long_read, print};
use anyhow::Context;
use nix::unistd::geteuid;
use peermem_gate::cli::AnswerFormat;
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::process::system_program::quoted;
use peermem_gate::ready::clock;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::files::unread;
use peermem_gate::ready::node::PeermemExpected;
use peermem_gate::ready::observation::Observation;
use peermem_gate::ready::probe::Depth;
use peermem_gate::rebuild::rebuilder;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::survey::settings::settings;
use peermem_gate::survey::{expected, root};
use peermem_gate::watch::supervised::output;
use peermem_gate::words::judge;
use peermem_gate::words::report::style::Style;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

/// Looks at more than `check` does, and prints what is wrong: once, or again and again.
pub(super) fn run(args: &DoctorArgs, start: &Start) -> Result<Exit, VerbError> {
    let mut looks = Looks::new(&args.log, args.format, start)?;
    let Some(every) = args.every else { return looks.answer(|style| look(args, style, start)) };
    let mut schedule = ReportSchedule::new(clock::now(), every, random_share());
    // Arguments that the first look refuses are refused by every look.
    let exit = looks.answer(|style| report(args, style, start))?;
    if matches!(exit, Exit::Passed(code) if code == Exit::Refused.code()) {
        return Ok(exit);
    }
    loop {
        if let Some(exit) = looks.sleep(schedule.next(clock::now())) {
            return Ok(exit);
        }
        // A look that fails is logged; the next one may succeed.
        if let Err(stop) = looks.answer(|style| report(args, style, start)) {
            _ = stop.end(&start.last_words);
        }
    }
}

/// As [`look`], but a problem of the node is not an exit.
fn report(args: &DoctorArgs, style: Style, start: &Start) -> Result<Exit, VerbError> {
    look(args, style, start).map(|_| Exit::Opened)
}

/// A number that differs from pod to pod. The standard library seeds its hashes with one.
fn random_share() -> u32 {
    let number = RandomState::new().build_hasher().finish();
    u32::try_from(number >> u32::BITS).unwrap_or_default()
}

/// All that one look sees and says.
struct Looked {
    judged: JudgedNode,
    seen: Observation,
    symptoms: Symptoms,
}

fn looked(args: &DoctorArgs, start: &Start) -> Result<Looked, VerbError> {
    let root = root::on_host(args.root.as_deref(), &args.node)?;
    let proc = args.node.proc.clone().unwrap_or_else(|| root.join("proc"));
    let sys = args.node.sys.clone().unwrap_or_else(|| root.join("sys"));
    // A debug pod lacks the operator's variables: only the operator's containers have them.
    let (survey, logs) = survey(&root, &proc, &sys, &args.operators.namespaces);
    let settings = settings(&survey, start.variables);
    let peermem = Some(PeermemExpected::default());
    let node = expected::described(&args.node, &root, peermem, (&survey, &settings), start.variables)?;
    let mut probe = NodeProbe::new(&node);
    let mut seen = probe.look(Depth::Full, &mut || false).context("the look was interrupted")?;
    probe.ready.look_at_fabric(&mut seen);
    let mut symptoms = symptoms(&node.places, &seen, survey, logs, settings);
    let verdict = judge(&node.expected, &seen);
    symptoms.rebuild = verdict.needs_rebuild().then(|| rebuilder::possible(&node.places, &seen, &verdict));
    symptoms.unread = unread::taken();
    let findings = diagnose(&node.expected, &seen, &symptoms, &verdict);
    let chain = links(&node.expected, &seen, &symptoms, &verdict);
    Ok(Looked { judged: JudgedNode { node, verdict, findings, chain }, seen, symptoms })
}

/// The same for `timeline`.
pub(super) fn judged(args: &DoctorArgs, start: &Start) -> Result<DoctorAnswer, VerbError> {
    let looked = looked(args, start)?;
    Ok(looked.diagnosis().judged())
}

impl Looked {
    fn diagnosis(&self) -> Diagnosis<'_> {
        self.judged.diagnosis(&self.seen, &self.symptoms).by_user(geteuid().as_raw())
    }
}

fn look(args: &DoctorArgs, style: Style, start: &Start) -> Result<Exit, VerbError> {
    long_read::begin();
    let looked = looked(args, start)?;
    let diagnosis = looked.diagnosis();
    let diagnosis = match args.format {
        AnswerFormat::Text | AnswerFormat::Line => diagnosis,
        AnswerFormat::Json => diagnosis.with_peer_memory(peer_memory(&looked)),
    };
    if let Some(file) =
        output("--metrics-file", args.metrics_file.as_deref(), &looked.judged.node.places.marker)?
    {
        file.publish(&diagnosis.metrics());
    }
    let text = match args.format {
        AnswerFormat::Text if args.verbose => diagnosis.text(style),
        AnswerFormat::Text => diagnosis.screen(style, &more()),
        AnswerFormat::Json => json(&diagnosis)?,
        AnswerFormat::Line => diagnosis.line() + "\n",
    };
    print(&text)?;
    Ok(diagnosis.standing().exit())
}

/// The command that was typed, with `-v`.
fn more() -> String {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or(OsStr::new("peermem-doctor")).to_owned();
    let words = words.filter(|word| !word.as_encoded_bytes().starts_with(b"--verbose"));
    let words: Vec<_> = std::iter::once(name).chain(words).map(|word| quoted(&word)).collect();
    format!("{} -v", words.join(" "))
}

/// The facts that `fleet --symvers` compares. An unreadable one is no finding: it is absent from the report.
fn peer_memory(looked: &Looked) -> PeerMemory {
    let Looked { judged: JudgedNode { node, verdict, .. }, seen, .. } = looked;
    let (unfit, without) = as_if_unfit(seen, verdict);
    let rebuild = match rebuilder::possible(&node.places, &unfit, &without) {
        Ok(_) => "Possible".to_owned(),
        Err(obstacle) => obstacle.kind.to_string(),
    };
    let users = rdma_users(&node.places.proc);
    let only_versions_block = only_versions_block(&node.expected, seen, verdict);
    PeerMemory { users, rebuild: Some(rebuild), only_versions_block, ..PeerMemory::of(seen) }
}
