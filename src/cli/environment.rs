// SPDX-License-Identifier: Apache-2.0
//! From argv and environment to one [`Verb`]: the mirrors `PEERMEM_GATE_<OPTION>` are derived from
//! the options themselves, so none can be forgotten. Pure: it is given both.

use crate::cli::{Cli, LoadArgs, Verb, hint};
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

/// Variables that a disabled `load` still reads.
const LOADING: [&str; 3] = ["PEERMEM_GATE_DRIVER_ROOT", "PEERMEM_GATE_DRY_RUN", "PEERMEM_GATE_MODPROBE"];

/// The environment of a program that `--rebuild` names, which may itself call us. Two more are options of
/// peermem-doctor: `KERNEL` and `SYMVERS`.
const TOLD_TO_BUILDERS: [&str; 6] = ["ARCH", "HEADERS", "NVIDIA_SYMVERS", "NVIDIA_VERSION", "REASON", "OUT"];

/// The verbs that answer on standard output, and leave no last words.
const WITHOUT_LAST_WORDS: [&str; 1] = ["check"];

/// The mirrors of peermem-doctor's own options. A pod may run both programs with one environment.
const OF_DOCTOR: [&str; 10] = [
    "BRIEF",
    "COMMANDS",
    "EVERY",
    "KERNEL",
    "NODE",
    "NODES",
    "OPERATOR_NAMESPACE",
    "SINCE",
    "SYMVERS",
    "VERBOSE",
];

/// A program's command line, and what is known of the options that it does not have.
#[derive(Debug)]
pub struct Surface {
    /// The command line.
    pub command: Command,
    /// Whether this mirror, without its prefix, belongs to the other program.
    pub is_elsewhere: fn(&str) -> bool,
    /// Verbs that the program hands on.
    pub handed_on: &'static [&'static str],
}

/// The verbs of peermem-doctor, which the gate hands on.
pub const DOCTORS_VERBS: [&str; 6] = ["doctor", "timeline", "fleet", "paths", "inspect", "explain"];

/// The operator's variable that asks for RDMA.
pub const RDMA: &str = "GPU_DIRECT_RDMA_ENABLED";
/// The operator's variable that says who provides MOFED.
pub const HOST_MOFED: &str = "USE_HOST_MOFED";
/// The digest of the driver's configuration: the driver container builds nothing for one that is loaded already.
pub const DIGEST: &str = "DRIVER_CONFIG_DIGEST";

/// The environment, as pairs.
pub type Variables = Vec<(OsString, OsString)>;

/// Why the program does not start.
#[derive(Debug)]
pub enum Misuse {
    /// clap's own answer: a usage error, or the help that was asked for.
    Usage(clap::Error),
    /// A sentence from us.
    Message(String),
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
            Self::Message(sentence) | Self::Misplaced(sentence) => write!(f, "error: {}", escaped(sentence)),
        }
    }
}

fn is_refusal(error: &clap::Error) -> bool {
    error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The command line, and the reason for which the gate is disabled, if it is.
#[derive(Debug)]
pub struct Invocation {
    /// The verb, with its options.
    pub verb: Verb,
    /// The value of `PEERMEM_GATE_DISABLED`.
    pub disabled: Option<String>,
}

/// Reads both. The command line wins over its mirrors; a disabled gate asks nothing of the others.
pub fn parse(args: &[OsString], variables: &Variables) -> Result<Invocation, Misuse> {
    let is_elsewhere = |mirror: &str| OF_DOCTOR.contains(&mirror);
    let mut surface = Surface { command: Cli::command(), is_elsewhere, handed_on: &DOCTORS_VERBS };
    let typed = surface.matches(args)?;
    let verb = typed.subcommand_name().unwrap_or_default();
    let disabled = match (verb, disabled(variables)) {
        ("wait" | "load", disabled) => disabled?,
        _ => None,
    };
    // Where to load, and by what, must be known even then.
    let needed =
        |name: &OsStr| disabled.is_none() || verb == "load" && LOADING.iter().any(|needed| name == *needed);
    let relevant = variables.iter().filter(|(name, _)| needed(name)).cloned().collect();
    let matches = surface.with_mirrors(typed, args, &relevant)?;
    let verb = Cli::from_arg_matches(&matches).map_err(Misuse::Usage)?.verb;
    Ok(Invocation { verb, disabled })
}

/// The options of `load` from the environment only: the shim has no options.
pub fn load_args(variables: &Variables) -> Result<LoadArgs, Misuse> {
    match parse(&["peermem-gate".into(), "load".into()], variables)?.verb {
        Verb::Load(args) => Ok(args),
        _ => Err(Misuse::Message("no load".to_owned())),
    }
}

/// The reason for which the gate is off, if it is.
pub fn disabled(variables: &Variables) -> Result<Option<String>, Misuse> {
    let Some(reason) = value_of(variables, "PEERMEM_GATE_DISABLED") else { return Ok(None) };
    let reason = reason.to_string_lossy();
    match reason.trim() {
        "" | "0" | "false" => Err(Misuse::Message(format!(
            "PEERMEM_GATE_DISABLED={reason:?} gives no reason: set it to the reason why the gate is off, or unset it"
        ))),
        reason => Ok(Some(reason.to_owned())),
    }
}

/// Where the last words go.
#[derive(Debug, PartialEq, Eq)]
pub enum LastWordsPlace {
    /// Nowhere: the verb's answer is its output.
    Nowhere,
    /// Where Kubernetes looks for them.
    Usual,
    /// Where the command line or a variable asks for them.
    Asked(PathBuf),
}

/// Read past clap: a command line that clap refuses has last words, too.
#[must_use]
pub fn last_words_place(args: &[OsString], variables: &Variables) -> LastWordsPlace {
    const OPTION: &str = "--termination-log";
    if args.get(1).is_some_and(|verb| WITHOUT_LAST_WORDS.iter().any(|other| verb == other)) {
        return LastWordsPlace::Nowhere;
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
    asked
        .filter(|path| !path.is_empty() && !path.as_bytes().starts_with(b"-"))
        .map_or(LastWordsPlace::Usual, |path| LastWordsPlace::Asked(PathBuf::from(path)))
}

impl Surface {
    /// The command line, without its mirrors.
    ///
    /// # Errors
    /// clap's, with a hint where clap has none.
    pub fn matches(&mut self, args: &[OsString]) -> Result<ArgMatches, Misuse> {
        self.command.try_get_matches_from_mut(args).or_else(|error| {
            if is_refusal(&error) {
                // A hint may name an option of another verb.
                self.command.build();
            }
            if error.kind() == ErrorKind::UnknownArgument
                && let Some(joined) = self.joined(args)
            {
                return self.matches(&joined);
            }
            Err(Misuse::Usage(plain(self.hinted(error, args))))
        })
    }

    /// With `--timeout=-1s` for `--timeout -1s`, where there is such a word: then the option says what it takes. To
    /// clap a word with a dash is an option.
    fn joined(&self, args: &[OsString]) -> Option<Vec<OsString>> {
        let verb = self.command.find_subcommand(args.get(1)?)?;
        let takes_next = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
        let is_option = |word: &OsStr| {
            let name = word.to_str().and_then(|word| word.strip_prefix("--"));
            name.is_some_and(|name| {
                verb.get_opts().any(|arg| arg.get_long() == Some(name) && takes_next(arg))
            })
        };
        let is_negative = |word: &OsStr| matches!(word.as_bytes(), [b'-', b'0'..=b'9', ..]);
        let end = args.iter().position(|word| word == "--").unwrap_or(args.len());
        let at = args[..end].windows(2).position(|pair| is_option(&pair[0]) && is_negative(&pair[1]))?;
        let mut joined = args.to_vec();
        let value = joined.remove(at + 1);
        joined[at].push("=");
        joined[at].push(value);
        Some(joined)
    }

    /// The command line, completed by the mirrors in `variables`.
    ///
    /// # Errors
    /// A mirror of no option, or one whose value is refused.
    pub fn with_mirrors(
        &mut self,
        typed: ArgMatches,
        args: &[OsString],
        variables: &Variables,
    ) -> Result<ArgMatches, Misuse> {
        let mirrored = match typed.subcommand() {
            Some((verb, options)) => self.mirrors(&args[0], verb, options, variables)?,
            None => Vec::new(),
        };
        if mirrored.is_empty() {
            return Ok(typed);
        }
        let all: Vec<_> = args[..2].iter().chain(&mirrored).chain(&args[2..]).cloned().collect();
        self.matches(&all)
    }

    /// Turns each mirror of an option that was not typed into `--option=value`, and refuses the rest.
    fn mirrors(
        &mut self,
        program: &OsStr,
        verb: &str,
        typed: &ArgMatches,
        variables: &Variables,
    ) -> Result<Vec<OsString>, Misuse> {
        let mut mirrored = Vec::new();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            let Some(mirror) = name.strip_prefix(PREFIX).filter(|mirror| !is_injected(mirror)) else {
                continue;
            };
            match self.command.find_subcommand(verb).and_then(|verb| mirrored_by(mirror, verb)).cloned() {
                Some(option)
                    if typed.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine) => {}
                Some(option) => {
                    let mut argument =
                        OsString::from(format!("--{}=", option.get_long().unwrap_or_default()));
                    argument.push(value);
                    self.accepted(&[program.to_owned(), verb.into(), argument.clone()], &name, value)?;
                    mirrored.push(argument);
                }
                None if self.is_of_another_verb(mirror) => {}
                None => return Err(self.unknown(verb, &name, mirror)),
            }
        }
        Ok(mirrored)
    }

    fn is_of_another_verb(&mut self, mirror: &str) -> bool {
        self.command.build();
        let is_ours = self.command.get_subcommands().any(|other| mirrored_by(mirror, other).is_some());
        is_ours || (self.is_elsewhere)(mirror)
    }

    fn unknown(&self, verb: &str, name: &str, mirror: &str) -> Misuse {
        let similar = hint::similar_mirror(&self.command, mirror);
        let guess = similar.map(|similar| format!("did you mean {PREFIX}{similar}? ")).unwrap_or_default();
        let program = self.command.get_name();
        Misuse::Message(format!(
            "{name} is not a variable of peermem-gate: {guess}correct or remove it (`{program} {verb} --help` \
                lists the options)"
        ))
    }

    /// Tries one mirror by itself, so the message names the variable, and not an option that was not typed.
    fn accepted(&mut self, args: &[OsString], name: &str, value: &OsStr) -> Result<(), Misuse> {
        let Err(Misuse::Usage(error)) = self.matches(args) else { return Ok(()) };
        // A word that the verb needs is on the command line, and not here.
        if error.kind() == ErrorKind::MissingRequiredArgument {
            return Ok(());
        }
        let rendered = error.render().to_string();
        // The first paragraph: what is wrong, and which values are possible.
        let why: Vec<_> = rendered.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let why = why.join(" ");
        let value = value.to_string_lossy();
        Err(Misuse::Message(format!("{name}={value:?} is refused: {}", why.trim_start_matches("error: "))))
    }

    /// With a hint where clap has none, or the wrong one.
    fn hinted(&self, mut error: clap::Error, args: &[OsString]) -> clap::Error {
        let all = self.command.get_subcommands().map(Command::get_name);
        let verbs: Vec<_> = all.filter(|verb| *verb != "help").collect();
        let verb = args.get(1).and_then(|word| word.to_str()).filter(|word| verbs.contains(word));
        let argument = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(word)) => word.as_str(),
            _ => "",
        };
        let hint = match (error.kind(), verb) {
            (ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument, None) => {
                Some(format!("begin with one of {}", [&verbs, self.handed_on].concat().join(", ")))
            }
            (ErrorKind::UnknownArgument, Some("wait" | "load" | "keep")) if !argument.starts_with('-') => {
                Some("put a command, or a module's parameters, after `--`".to_owned())
            }
            // An unknown option is no command and no parameter either.
            (ErrorKind::UnknownArgument, Some(_)) => hint::of_another_verb(&self.command, argument),
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
        if verb.is_none() {
            // clap knows no verb of the other program, so its guess may be wrong.
            error.remove(ContextKind::SuggestedSubcommand);
        }
        let hints = hint.map(styled).into_iter().collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
        error
    }
}

/// Variables that are not mirrors: Kubernetes sets them for Services such as peermem-gate and peermem-gate-metrics.
fn is_injected(mirror: &str) -> bool {
    // The dash before a longer name, or before the words themselves.
    let name = format!("_{mirror}");
    let is_of_service = name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_");
    mirror == "DISABLED" || is_of_service || TOLD_TO_BUILDERS.contains(&mirror)
}

fn mirrored_by<'a>(mirror: &str, verb: &'a Command) -> Option<&'a Arg> {
    verb.get_arguments().find(|arg| arg.get_long().is_some_and(|option| hint::mirror(option) == mirror))
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

/// The value of one variable.
#[must_use]
pub fn value_of<'a>(variables: &'a Variables, name: &str) -> Option<&'a OsStr> {
    variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
}
