// SPDX-License-Identifier: Apache-2.0
//! From argv and environment to one [`Verb`]: the mirrors `PEERMEM_GATE_<OPTION>` are derived from
//! the options themselves, so none can be forgotten. Pure: it is given both.

use crate::cli::{Cli, LoadArgs, Verb};
use crate::hint;
use crate::text::escaped;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const PREFIX: &str = "PEERMEM_GATE_";

/// What a disabled `load` still has to know.
const LOADING: [&str; 3] = ["PEERMEM_GATE_DRIVER_ROOT", "PEERMEM_GATE_DRY_RUN", "PEERMEM_GATE_MODPROBE"];

/// The environment of a program that `--rebuild` names, which may itself call us.
const TOLD_TO_BUILDERS: [&str; 8] =
    ["KERNEL", "ARCH", "HEADERS", "SYMVERS", "NVIDIA_SYMVERS", "NVIDIA_VERSION", "REASON", "OUT"];

/// Verbs that answer on standard output, and leave no last words.
const WITHOUT_LAST_WORDS: [&str; 4] = ["check", "doctor", "fleet", "timeline"];

/// The environment, as pairs.
pub type Variables = Vec<(OsString, OsString)>;

/// Why the program does not start.
#[derive(Debug)]
pub enum Misuse {
    /// clap's own answer: a usage error, or the help that was asked for.
    Usage(clap::Error),
    /// A sentence from us.
    Said(String),
    /// The same, of a file that must not be written, last words included.
    Misplaced(String),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Paragraphs are for a help; a refusal is read in a log.
            Self::Usage(error) if is_refusal(error) => {
                let rendered = error.render().to_string();
                let lines: Vec<_> = rendered.lines().filter(|line| !line.is_empty()).collect();
                lines.join("\n").fmt(f)
            }
            Self::Usage(error) => error.render().fmt(f),
            Self::Said(sentence) | Self::Misplaced(sentence) => write!(f, "error: {}", escaped(sentence)),
        }
    }
}

fn is_refusal(error: &clap::Error) -> bool {
    error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The command line, and the reason for which the gate is disabled, if it is.
#[derive(Debug)]
pub struct Invocation {
    /// What was asked for.
    pub verb: Verb,
    /// The value of `PEERMEM_GATE_DISABLED`.
    pub disabled: Option<String>,
}

/// Reads both. The command line wins over its mirrors; a disabled gate asks nothing of the others.
pub fn parse(args: &[OsString], variables: &Variables) -> Result<Invocation, Misuse> {
    let mut command = Cli::command();
    let typed = matches(&mut command, args)?;
    let (verb, typed_options) = typed.subcommand().ok_or_else(|| said("no verb"))?;
    let disabled = match (verb, disabled(variables)) {
        ("wait" | "load", disabled) => disabled?,
        _ => None,
    };
    // Where to load, and by what, must be known even then.
    let needed =
        |name: &OsStr| disabled.is_none() || verb == "load" && LOADING.iter().any(|needed| name == *needed);
    let heeded = variables.iter().filter(|(name, _)| needed(name)).cloned().collect();
    let mirrored = mirrors(&mut command, &args[0], verb, typed_options, &heeded)?;
    let verb = if mirrored.is_empty() {
        asked(&typed)?
    } else {
        let all: Vec<_> = args[..2].iter().chain(&mirrored).chain(&args[2..]).cloned().collect();
        asked(&matches(&mut command, &all)?)?
    };
    Ok(Invocation { verb, disabled })
}

/// What the environment alone asks of `load`: the shim has no options of its own.
pub fn load_args(variables: &Variables) -> Result<LoadArgs, Misuse> {
    match parse(&["peermem-gate".into(), "load".into()], variables)?.verb {
        Verb::Load(args) => Ok(args),
        _ => Err(said("no load")),
    }
}

/// The reason for which the gate is off, if it is.
pub fn disabled(variables: &Variables) -> Result<Option<String>, Misuse> {
    let Some(reason) = value_of(variables, "PEERMEM_GATE_DISABLED") else { return Ok(None) };
    let reason = reason.to_string_lossy();
    match reason.trim() {
        "" | "0" | "false" => Err(Misuse::Said(format!(
            "PEERMEM_GATE_DISABLED={reason:?} gives no reason: set it to the reason why the gate is off, or unset it"
        ))),
        reason => Ok(Some(reason.to_owned())),
    }
}

/// Where the last words were asked for, read past clap: a command line that clap refuses has last words, too.
#[must_use]
pub fn termination_log(args: &[OsString], variables: &Variables) -> Option<Option<PathBuf>> {
    const OPTION: &str = "--termination-log";
    if args.get(1).is_some_and(|verb| WITHOUT_LAST_WORDS.iter().any(|other| verb == other)) {
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
    // What begins with a dash is the next option, and clap will say so.
    Some(asked.filter(|path| !path.is_empty() && !path.as_bytes().starts_with(b"-")).map(PathBuf::from))
}

/// Turns each mirror of an option that was not typed into `--option=value`, and refuses the rest.
fn mirrors(
    command: &mut Command,
    program: &OsStr,
    verb: &str,
    typed: &ArgMatches,
    variables: &Variables,
) -> Result<Vec<OsString>, Misuse> {
    let mut mirrored = Vec::new();
    for (name, value) in variables {
        let name = name.to_string_lossy();
        let Some(mirror) = name.strip_prefix(PREFIX).filter(|mirror| !is_injected(mirror)) else { continue };
        match command.find_subcommand(verb).and_then(|verb| mirrored_by(mirror, verb)).cloned() {
            Some(option)
                if typed.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine) => {}
            Some(option) => {
                let mut argument = OsString::from(format!("--{}=", option.get_long().unwrap_or_default()));
                argument.push(value);
                accepted(command, &[program.to_owned(), verb.into(), argument.clone()], &name, value)?;
                mirrored.push(argument);
            }
            None if is_of_another_verb(mirror, command) => {}
            None => {
                let similar = hint::similar_mirror(command, mirror);
                let guess =
                    similar.map(|similar| format!("did you mean {PREFIX}{similar}? ")).unwrap_or_default();
                return Err(Misuse::Said(format!(
                    "{name} is not a variable of peermem-gate: {guess}correct or remove it (`peermem-gate \
                        {verb} --help` lists the options)"
                )));
            }
        }
    }
    Ok(mirrored)
}

/// Kubernetes sets `SERVICE_` and `PORT` variables for a Service named peermem-gate.
fn is_injected(mirror: &str) -> bool {
    mirror == "DISABLED"
        || mirror.starts_with("SERVICE_")
        || mirror.starts_with("PORT")
        || TOLD_TO_BUILDERS.contains(&mirror)
}

fn mirrored_by<'a>(mirror: &str, verb: &'a Command) -> Option<&'a Arg> {
    verb.get_arguments().find(|arg| arg.get_long().is_some_and(|option| hint::mirror(option) == mirror))
}

fn is_of_another_verb(mirror: &str, command: &mut Command) -> bool {
    command.build();
    command.get_subcommands().any(|other| mirrored_by(mirror, other).is_some())
}

/// Tries one mirror alone, so the message names the variable and not an option nobody typed.
fn accepted(command: &mut Command, args: &[OsString], name: &str, value: &OsStr) -> Result<(), Misuse> {
    let Err(Misuse::Usage(error)) = matches(command, args) else { return Ok(()) };
    // A word that the verb needs is on the command line, and not here.
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return Ok(());
    }
    let rendered = error.render().to_string();
    // The first paragraph: what is wrong, and which values are possible.
    let why: Vec<_> = rendered.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let why = why.join(" ");
    let value = value.to_string_lossy();
    Err(Misuse::Said(format!("{name}={value:?} is refused: {}", why.trim_start_matches("error: "))))
}

fn matches(command: &mut Command, args: &[OsString]) -> Result<ArgMatches, Misuse> {
    command.try_get_matches_from_mut(args).map_err(|error| {
        if is_refusal(&error) {
            // A hint may name an option of another verb.
            command.build();
        }
        Misuse::Usage(plain(hinted(error, args, command)))
    })
}

/// Escapes typed values: a control character could forge a line of the log.
fn plain(mut error: clap::Error) -> clap::Error {
    let typed = |(kind, value): (ContextKind, &ContextValue)| match value {
        ContextValue::String(text) => match escaped(text) {
            Cow::Owned(text) => Some((kind, text)),
            Cow::Borrowed(_) => None,
        },
        _ => None,
    };
    let deceptive: Vec<_> = error.context().filter_map(typed).collect();
    for (kind, text) in deceptive {
        error.insert(kind, ContextValue::String(text));
    }
    error
}

/// With a hint where clap has none, or the wrong one.
fn hinted(mut error: clap::Error, args: &[OsString], command: &Command) -> clap::Error {
    let verbs: Vec<_> =
        command.get_subcommands().map(Command::get_name).filter(|verb| *verb != "help").collect();
    let verb = args.get(1).and_then(|word| word.to_str()).filter(|word| verbs.contains(word));
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let hint = match (error.kind(), verb) {
        (ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument, None) => {
            Some(format!("begin with one of {}", verbs.join(", ")))
        }
        (ErrorKind::UnknownArgument, Some("wait" | "load" | "keep")) if !argument.starts_with('-') => {
            Some("put a command, or a module's parameters, after `--`".to_owned())
        }
        // An option that nobody knows is no command and no parameter either.
        (ErrorKind::UnknownArgument, Some(verb)) => hint::of_another_verb(command, verb, argument),
        _ => return error,
    };
    let styled = |hint: String| {
        let mut styled = StyledStr::new();
        let _ = styled.write_str(&hint);
        styled
    };
    if !argument.is_empty() && hint.as_ref().is_some_and(|hint| hint.starts_with(argument)) {
        // What the option would be a misspelling of is beside the point.
        error.remove(ContextKind::SuggestedArg);
    }
    let hints = hint.map(styled).into_iter().collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    error
}

fn asked(matches: &ArgMatches) -> Result<Verb, Misuse> {
    Cli::from_arg_matches(matches).map(|cli| cli.verb).map_err(Misuse::Usage)
}

fn said(sentence: &str) -> Misuse {
    Misuse::Said(sentence.to_owned())
}

/// The value of one variable.
#[must_use]
pub fn value_of<'a>(variables: &'a Variables, name: &str) -> Option<&'a OsStr> {
    variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
}
