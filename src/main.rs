// SPDX-License-Identifier: Apache-2.0
//! The binary: parse, run, and turn an ending into an exit code.
#![forbid(unsafe_code)]

use anyhow::Context;
use peermem_gate::act::exec::Program;
use peermem_gate::act::{self, log, termination_log};
use peermem_gate::cli::{Verb, WaitArgs};
use peermem_gate::config::{Node, Policy, refuse_beside_marker};
use peermem_gate::ending::Ending;
use peermem_gate::environment::{self, Refusal, Variables, value_of};
use peermem_gate::report;
use peermem_gate::verb::check;
use peermem_gate::verb::wait::{Door, Wait};
use peermem_gate::wake::Signals;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let variables: Variables = std::env::vars_os().collect();
    let main = Main { termination_log: termination_log(&args, &variables) };
    let last = main.clone();
    std::panic::set_hook(Box::new(move |panic| {
        last.words(&format!("peermem-gate failed, which is a fault in it; please report this: {panic}"));
        std::process::exit(Ending::Failed.code().into());
    }));
    main.run(&args, &variables).into()
}

/// Where the last words go, known before anything can fail.
#[derive(Clone)]
struct Main {
    termination_log: Option<PathBuf>,
}

impl Main {
    fn run(self, args: &[OsString], variables: &Variables) -> Ending {
        let invocation = match environment::parse(args, variables) {
            Ok(invocation) => invocation,
            Err(refusal) => return self.refuse(&refusal),
        };
        match invocation.cli.verb {
            Verb::Wait(wait) => self.wait(wait, invocation.disabled, variables),
            Verb::Check(check) => {
                log::start(&check.log);
                match Node::new(&check.node, variables) {
                    Ok(node) => check::run(&check, &node).unwrap_or_else(|error| self.fail(&error)),
                    Err(refusal) => self.refuse(&refusal),
                }
            }
        }
    }

    fn wait(self, args: WaitArgs, disabled: Option<String>, variables: &Variables) -> Ending {
        // Before anything that takes time: as PID 1 an earlier signal would be lost.
        let signals = match Signals::take().context("cannot take signals") {
            Ok(signals) => signals,
            Err(error) => return self.fail(&error),
        };
        log::start(&args.log);
        let program = match Program::find(&args.command, value_of(variables, "PATH")) {
            Ok(program) => program,
            Err(why) => {
                self.words(&format!("error: {}", why.message));
                return why.ending;
            }
        };
        if let Some(reason) = disabled {
            return Door { program, termination_log: self.termination_log }.disabled(&reason, &signals);
        }
        match asked(&args, variables) {
            Ok((policy, node)) => {
                let door = Door { program, termination_log: self.termination_log };
                Wait { node, policy, metrics_file: args.metrics_file, door }.run(signals)
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Ending {
        match refusal {
            // The help or the version that was asked for.
            Refusal::Usage(answer) if !answer.use_stderr() => act::answer(&answer.to_string())
                .map_or_else(|error| self.fail(&error.into()), |()| Ending::Opened),
            Refusal::Misplaced(_) => {
                Self { termination_log: None }.words(&refusal.to_string());
                Ending::Refused
            }
            Refusal::Usage(_) | Refusal::Said(_) => {
                self.words(refusal.to_string().trim_end());
                Ending::Refused
            }
        }
    }

    fn fail(&self, error: &anyhow::Error) -> Ending {
        self.words(&format!("error: {error:#}"));
        Ending::Failed
    }

    /// The last words of an ending before there is a wait to end.
    fn words(&self, sentence: &str) {
        // Nothing is left to be done about a standard error that is gone.
        let _ = writeln!(std::io::stderr(), "{sentence}");
        if let Some(path) = &self.termination_log {
            termination_log::write(path, &report::termination_log(sentence, None));
        }
    }
}

fn asked(args: &WaitArgs, variables: &Variables) -> Result<(Policy, Node), Refusal> {
    let policy = Policy::new(args)?;
    let node = Node::new(&args.node, variables)?;
    refuse_beside_marker("--metrics-file", args.metrics_file.as_deref(), &node.places)?;
    refuse_beside_marker("--termination-log", args.termination_log.as_deref(), &node.places)?;
    Ok((policy, node))
}

/// Read past clap, so that a command line that clap refuses still has its last words there.
fn termination_log(args: &[OsString], variables: &Variables) -> Option<PathBuf> {
    const OPTION: &str = "--termination-log";
    if args.get(1).is_some_and(|verb| verb == "check") {
        return None;
    }
    let mut options = args.iter().take_while(|arg| *arg != "--");
    let typed = options.find_map(|arg| match arg.as_bytes().strip_prefix(OPTION.as_bytes())? {
        [] => Some(None),
        [b'=', path @ ..] => Some(Some(OsStr::from_bytes(path).to_owned())),
        _ => None,
    });
    let typed = typed.and_then(|inline| inline.or_else(|| options.next().cloned()));
    let asked = typed.or_else(|| value_of(variables, "PEERMEM_GATE_TERMINATION_LOG").map(OsStr::to_owned));
    // What begins with a dash is the next option, which clap will say.
    let asked = asked.filter(|path| !path.is_empty() && !path.as_bytes().starts_with(b"-"));
    termination_log::place(asked.map(PathBuf::from))
}
