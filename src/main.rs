// SPDX-License-Identifier: Apache-2.0
//! The binary: parse, run, and turn an ending into an exit code.
#![forbid(unsafe_code)]

use anyhow::Context;
use peermem_gate::act::exec::{Program, Unrunnable};
use peermem_gate::act::install::NotInstalled;
use peermem_gate::act::modprobe::{self, Modprobe, Words};
use peermem_gate::act::{self, log, termination_log};
use peermem_gate::arguments::{self, Call};
use peermem_gate::cli::{CheckArgs, DoctorArgs, HoldArgs, KeepArgs, LoadArgs, LogArgs, Verb, WaitArgs};
use peermem_gate::config::{Node, PeermemExpected, Policy, refuse_beside_marker};
use peermem_gate::ending::Ending;
use peermem_gate::environment::{self, Refusal, Variables, value_of};
use peermem_gate::probe::{Operator, driver_root};
use peermem_gate::report;
use peermem_gate::verb::keep::{Service, Tools};
use peermem_gate::verb::load::{self, Finished, Load};
use peermem_gate::verb::shim::{self, Shim};
use peermem_gate::verb::wait::{self, Door};
use peermem_gate::verb::{Hold, check, doctor, fleet, install};
use peermem_gate::wake::Signals;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let name = args.first().and_then(|name| Path::new(name).file_name());
    if name == Some(OsStr::new(modprobe::STEP)) {
        return modprobe::step(&args[1..]).into();
    }
    let variables: Variables = std::env::vars_os().collect();
    let is_shim = name == Some(OsStr::new("modprobe"));
    let options: &[_] = if is_shim { &[] } else { &args };
    let main = Main { termination_log: termination_log(options, &variables) };
    let last = main.clone();
    std::panic::set_hook(Box::new(move |panic| {
        last.words(&format!("peermem-gate failed, which is a fault in it; please report this: {panic}"));
        std::process::exit(Ending::Failed.code().into());
    }));
    let ending = if is_shim { main.shim(&args, &variables) } else { main.run(&args, &variables) };
    ending.unwrap_or_else(|stop| main.stop(&stop)).into()
}

/// Where the last words go, known before anything can fail.
#[derive(Clone)]
struct Main {
    termination_log: Option<PathBuf>,
}

/// Why a verb does not begin, or does not come to its end.
enum Stop {
    Refused(Refusal),
    CannotRun(Unrunnable),
    Failed(anyhow::Error),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unrunnable> for Stop {
    fn from(why: Unrunnable) -> Self {
        Self::CannotRun(why)
    }
}

impl From<NotInstalled> for Stop {
    fn from(why: NotInstalled) -> Self {
        match why {
            NotInstalled::Refused(sentence) => Self::Refused(Refusal::Said(sentence)),
            NotInstalled::Failed(sentence) => Self::Failed(anyhow::Error::msg(sentence)),
        }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Main {
    fn run(&self, args: &[OsString], variables: &Variables) -> Result<Ending, Stop> {
        let invocation = environment::parse(args, variables)?;
        match invocation.verb {
            Verb::Check(args) => check(&args, variables),
            Verb::Wait(args) => self.wait(args, invocation.disabled, variables),
            Verb::Load(args) => self.load(args, invocation.disabled, variables),
            Verb::Doctor(args) => doctor(&args, variables),
            Verb::Fleet(args) => {
                log::start(&args.log);
                Ok(fleet::run(fleet::Source::all(&args.files)?, args.format)?)
            }
            Verb::Keep(args) => self.keep(args, variables),
            Verb::Install(args) => {
                log::start(&args.log);
                Ok(install::run(&args.dir)?)
            }
        }
    }

    fn wait(&self, args: WaitArgs, disabled: Option<String>, variables: &Variables) -> Result<Ending, Stop> {
        let signals = signals()?;
        log::start(&args.log);
        let program = Program::find(&args.command, value_of(variables, "PATH"))?;
        let door = Door { program, termination_log: self.termination_log.clone() };
        if let Some(reason) = disabled {
            return Ok(door.disabled(&reason, &signals));
        }
        there(&args.look.root)?;
        let policy = Policy::of_wait(&args)?;
        let peermem = args.look.peermem.then(PeermemExpected::default);
        let node = Node::new(&args.node, &args.look.root, peermem, variables)?;
        Ok(wait::run(&hold(policy, node, args.hold)?, &door, signals))
    }

    fn load(&self, args: LoadArgs, disabled: Option<String>, variables: &Variables) -> Result<Ending, Stop> {
        let signals = signals()?;
        log::start(&args.log);
        let root = args.node.driver_root.clone();
        let modprobe = Modprobe::find(&root, value_of(variables, "PATH"), args.modprobe.as_deref())?;
        // Run by the module's own install line, we would be run by it again.
        let by_install_line =
            value_of(variables, "MODPROBE_MODULE").is_some_and(|name| name == "nvidia_peermem");
        let option = by_install_line.then(|| OsString::from("--ignore-install"));
        let mut arguments: Vec<_> = option.into_iter().chain(["nvidia-peermem".into()]).collect();
        arguments.extend(args.parameters.iter().cloned());
        let termination_log = self.termination_log.clone();
        if disabled.is_some() && args.hold.dry_run {
            tracing::warn!("the gate is disabled, and this is a dry run: nothing is loaded");
            return Ok(Ending::Opened);
        }
        if let Some(reason) = disabled {
            return Ok(load::disabled(&reason, &modprobe, &arguments, termination_log.as_deref(), &signals)?);
        }
        let load = Load {
            hold: hold_to_load(args, variables)?,
            modprobe,
            arguments,
            words: Words::Kept,
            termination_log,
        };
        Ok(match load.run(signals) {
            Finished::Live(_) | Finished::Open => Ending::Opened,
            Finished::Ended(ending) => ending,
        })
    }

    fn keep(&self, args: KeepArgs, variables: &Variables) -> Result<Ending, Stop> {
        let signals = signals()?;
        log::start(&args.log);
        if args.no_yield && args.unload_on_exit {
            let why = "--no-yield never unloads, and --unload-on-exit does: leave one of them out";
            return Err(Refusal::Said(why.to_owned()).into());
        }
        let tools = Tools {
            root: args.node.driver_root.clone(),
            path: value_of(variables, "PATH").map(OsStr::to_owned),
            modprobe: args.modprobe,
        };
        if let Some(reason) = value_of(variables, "PEERMEM_GATE_DISABLED") {
            tracing::warn!(
                "PEERMEM_GATE_DISABLED={reason:?} disables `wait`, `load` and the shim, and not `keep`: to have nvidia_peermem \
                 left alone, use --no-yield, or end it"
            );
        }
        let peermem = PeermemExpected { parameters: texts(&args.parameters) };
        let node = Node::new(&args.node, Path::new("/"), Some(peermem), variables)?;
        refuse_beside_marker("--metrics-file", args.pace.metrics_file.as_deref(), &node.places)?;
        refuse_beside_marker("--termination-log", args.pace.termination_log.as_deref(), &node.places)?;
        refuse_beside_marker("--status-file", args.status_file.as_deref(), &node.places)?;
        let policy = Policy::of_keep(&args.pace);
        let service = Service {
            hold: Hold { node, policy, metrics_file: args.pace.metrics_file },
            tools,
            parameters: args.parameters,
            no_yield: args.no_yield,
            unload_on_exit: args.unload_on_exit,
            status_file: args.status_file,
            termination_log: self.termination_log.clone(),
        };
        Ok(service.run(signals)?)
    }

    /// Called as `modprobe`. What is none of ours is handed over before anything else is read.
    fn shim(&self, argv: &[OsString], variables: &Variables) -> Result<Ending, Stop> {
        let Call::Loads(load) = shim::read(argv, variables) else {
            return Err(shim::hand_over(argv, variables).into());
        };
        if let Some(reason) = environment::disabled(variables)? {
            log::start(&LogArgs::default());
            tracing::warn!("modprobe is called straight through: the gate is disabled: {reason}");
            return Err(shim::hand_over(argv, variables).into());
        }
        self.gated(load, variables)
    }

    fn gated(&self, load: arguments::Load, variables: &Variables) -> Result<Ending, Stop> {
        let signals = signals()?;
        let mut args = environment::load_args(variables)?;
        log::start(&args.log);
        let modprobe = Modprobe::find(Path::new("/"), value_of(variables, "PATH"), args.modprobe.as_deref())?;
        // The shim is called where the driver is; another root is modprobe's own option.
        let dirname = load.dirname.as_deref().unwrap_or(Path::new("/"));
        args.node.driver_root = std::path::absolute(dirname).context("-d has no absolute path")?;
        args.parameters.clone_from(&load.parameters);
        let hold = hold_to_load(args, variables)?;
        let termination_log = self.termination_log.clone();
        Ok(Shim { hold, modprobe, load, termination_log }.run(signals)?)
    }

    /// The last words of an ending that no verb has come to.
    fn stop(&self, stop: &Stop) -> Ending {
        match stop {
            // The help or the version that was asked for.
            Stop::Refused(Refusal::Usage(answer)) if !answer.use_stderr() => act::answer(&answer.to_string())
                .map_or_else(|error| self.fail(&error.into()), |()| Ending::Opened),
            Stop::Refused(refusal @ Refusal::Misplaced(_)) => {
                Self { termination_log: None }.words(&refusal.to_string());
                Ending::Refused
            }
            Stop::Refused(refusal) => {
                self.words(refusal.to_string().trim_end());
                Ending::Refused
            }
            Stop::CannotRun(why) => {
                self.words(&format!("error: {}", why.message));
                why.ending
            }
            Stop::Failed(error) => self.fail(error),
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

fn check(args: &CheckArgs, variables: &Variables) -> Result<Ending, Stop> {
    log::start(&args.log);
    there(&args.look.root)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let node = Node::new(&args.node, &args.look.root, peermem, variables)?;
    Ok(check::run(args, &node)?)
}

fn doctor(args: &DoctorArgs, variables: &Variables) -> Result<Ending, Stop> {
    log::start(&args.log);
    there(&args.root)?;
    let proc = args.node.proc.clone().unwrap_or_else(|| args.root.join("proc"));
    // A debug pod is told nothing: what the operator says stands in the driver's container.
    let operator = Operator::ask(&args.root, &proc, variables);
    let mut node = Node::new(&args.node, &args.root, Some(PeermemExpected::default()), &operator.variables)?;
    if let Some(root) = driver_root(&args.root).filter(|_| args.node.driver_root == Path::new("/")) {
        node.places.driver_root = root;
    }
    let colour = value_of(variables, "NO_COLOR").is_none_or(OsStr::is_empty);
    Ok(doctor::run(args, &node, &operator, colour)?)
}

/// What stands below a root that is not there would be told as missing on the node.
fn there(root: &Path) -> Result<(), Refusal> {
    if root.is_dir() {
        return Ok(());
    }
    Err(Refusal::Said(format!(
        "--root {} is no directory here: mount the host there, or correct it",
        root.display()
    )))
}

/// To be called before anything that takes time: as PID 1 an earlier signal would be lost.
fn signals() -> anyhow::Result<Signals> {
    Signals::take().context("cannot take signals")
}

fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn hold_to_load(args: LoadArgs, variables: &Variables) -> Result<Hold, Refusal> {
    let peermem = PeermemExpected { parameters: texts(&args.parameters) };
    let node = Node::new(&args.node, Path::new("/"), Some(peermem), variables)?;
    hold(Policy::of_load(&args.hold)?, node, args.hold)
}

fn hold(policy: Policy, node: Node, args: HoldArgs) -> Result<Hold, Refusal> {
    refuse_beside_marker("--metrics-file", args.pace.metrics_file.as_deref(), &node.places)?;
    refuse_beside_marker("--termination-log", args.pace.termination_log.as_deref(), &node.places)?;
    Ok(Hold { node, policy, metrics_file: args.pace.metrics_file })
}

/// Read past clap, so that a command line that clap refuses still has its last words there.
fn termination_log(args: &[OsString], variables: &Variables) -> Option<PathBuf> {
    const OPTION: &str = "--termination-log";
    if args.get(1).is_some_and(|verb| verb == "check" || verb == "doctor" || verb == "fleet") {
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
