// SPDX-License-Identifier: Apache-2.0
//! A verb's help behind its options: exit codes, examples, variables. The long help and the
//! manual pages are both made from these rows.

use crate::text::{ONE_COLUMN, TextBox, wrapped};

/// A word and what it means.
pub type HelpRow = (&'static str, &'static str);

/// The help of one verb behind its options.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    /// The verb; empty for the program itself.
    pub verb: &'static str,
    /// Exit codes, each with its meaning.
    pub exits: &'static [HelpRow],
    /// Command lines, each with its use.
    pub examples: &'static [HelpRow],
    /// Variables that count here, in groups, each with its meaning.
    pub variables: &'static [&'static [HelpRow]],
}

/// The exit code of a refused command line: the same for every verb.
pub const REFUSED: HelpRow = ("2", "refused: bad usage, bad value or unknown variable");
/// The exit code of a program that failed itself: the same for every verb.
pub const FAILED: HelpRow = ("125", "failed: the answer cannot be written, no memory; or a bug");
const SIGNAL: HelpRow = ("128+n", "ended by signal n (TERM, INT, HUP or QUIT) while waiting");
const NO_MODPROBE: HelpRow = ("126, 127", "modprobe cannot be run, or does not exist");

/// The variables of options.
pub const MIRRORS: &[HelpRow] =
    &[("PEERMEM_GATE_<OPTION>", "sets that option, as PEERMEM_GATE_LOG_LEVEL does; the command line wins")];
const DISABLED: &[HelpRow] =
    &[("PEERMEM_GATE_DISABLED", "a reason, which is logged: the gate opens at once, without a look")];
const RDMA_ENABLED: &[HelpRow] =
    &[("GPU_DIRECT_RDMA_ENABLED", "not `true`: the gate does not apply; unset counts as `true`")];
/// The same variable, for the verbs that read the GPU Operator's containers.
pub const RDMA_ENABLED_THERE: &[HelpRow] = &[(
    "GPU_DIRECT_RDMA_ENABLED",
    "not `true`: the gate does not apply; unset: the GPU Operator's containers decide, else it counts as `true`",
)];
/// The variables of MOFED and of the GPU Operator.
pub const NEIGHBORS: &[HelpRow] = &[
    ("USE_HOST_MOFED", "`true`: MOFED is installed on the host; no marker is expected"),
    ("DRIVER_READY_PATH", "MOFED's marker, unless --marker is given"),
    ("LOCK_FILE_PATH", "MOFED's lock [default: /run/mellanox/drivers/.lock]"),
    ("MLX_DRIVERS_MOUNT", "where MOFED shows its headers [default: /run/mellanox/drivers]"),
];
/// The variable that names the node in a report.
pub const REPORTED: &[HelpRow] = &[("NODE_NAME", "the node's name in reports")];

/// The commands of the other program. Its own help has the same sentences.
const DOCTORS: &str = "Commands of peermem-doctor, where it is installed:
  doctor    Diagnose this node: root causes, evidence, fixes
  fleet     Merge the reports of many nodes
  timeline  Draw what happened on a node, from its logs and files
  paths     Report whether DMA-BUF or nvidia-peermem can be used here, and why
  inspect   Judge nvidia-peermem.ko files offline: stub or real
  explain   Explain a word of a log, a metric, an alert or a finding";

/// One row a verb; tests/help.rs compares them with the command line's own list.
pub const GUIDES: &[Guide] = &[
    Guide {
        verb: "",
        exits: &[
            ("0", "ready, opened, or the gate does not apply on this node"),
            ("1", "check: not ready"),
            ("2", "refused, or `check` cannot tell"),
            ("3", "blocked: waiting does not help"),
            ("124", "the deadline passed"),
            FAILED,
            ("126, 127", "CMD or modprobe cannot be run, or does not exist"),
            ("128+n", "ended by signal n"),
        ],
        examples: &[
            ("peermem-gate check", "is MOFED ready on this node? If not, what is missing?"),
            ("peermem-gate doctor", "diagnose this node, where peermem-doctor is installed"),
        ],
        variables: &[MIRRORS],
    },
    Guide {
        verb: "wait",
        exits: &[
            ("0", "ready, not applicable, or opened by an option; with CMD: CMD's own code"),
            REFUSED,
            ("3", "blocked: waiting does not help (only with --fail-fast)"),
            ("124", "the deadline passed"),
            FAILED,
            ("126, 127", "CMD cannot be run, or does not exist; checked before the wait"),
            SIGNAL,
        ],
        examples: &[
            ("peermem-gate wait --timeout 45m", "as an init container of the GPU driver's pod"),
            (
                "peermem-gate wait --timeout 10m -- nvidia-driver init",
                "as a wrapper: becomes the driver's entrypoint when MOFED is ready",
            ),
            ("peermem-gate wait --dry-run", "log what the gate would wait for, and open"),
        ],
        variables: &[MIRRORS, DISABLED, RDMA_ENABLED, NEIGHBORS],
    },
    Guide {
        verb: "check",
        exits: &[
            ("0", "ready, or the gate does not apply"),
            ("1", "not ready: waiting or blocked"),
            ("2", "cannot tell: something needed cannot be read; or bad usage"),
            FAILED,
        ],
        examples: &[
            ("peermem-gate check", "the verdict in one line, then every condition"),
            (
                "peermem-gate check --peermem --format json",
                "the same as JSON; also check whether nvidia-peermem.ko will load",
            ),
        ],
        variables: &[MIRRORS, RDMA_ENABLED_THERE, NEIGHBORS, REPORTED],
    },
    Guide {
        verb: "load",
        exits: &[
            ("0", "nvidia_peermem is live; or the gate does not apply; or a dry run"),
            REFUSED,
            ("3", "blocked, permanently refused by the kernel, or not allowed to load modules"),
            ("124", "the deadline passed"),
            FAILED,
            NO_MODPROBE,
            SIGNAL,
        ],
        examples: &[
            (
                "peermem-gate load --driver-root /run/nvidia/driver",
                "load the module of a containerized GPU driver, with that driver's modprobe",
            ),
            ("peermem-gate load -- peerdirect_support=1", "on a host, with a parameter of the module"),
        ],
        variables: &[MIRRORS, DISABLED, RDMA_ENABLED, NEIGHBORS],
    },
    Guide {
        verb: "keep",
        exits: &[
            ("0", "ended by a signal"),
            REFUSED,
            ("3", "blocked at the start, or not allowed to load modules"),
            FAILED,
            NO_MODPROBE,
        ],
        examples: &[
            (
                "peermem-gate keep --driver-root /run/nvidia/driver",
                "as a sidecar, in place of nvidia-peermem-ctr",
            ),
            ("peermem-gate keep --node-root /host --rebuild auto", "as a DaemonSet, for the whole node"),
            (
                "peermem-gate keep --status-file /run/peermem-gate/status.json",
                "write the report that `peermem-gate check --status-file` reads",
            ),
        ],
        variables: &[MIRRORS, RDMA_ENABLED, NEIGHBORS, REPORTED],
    },
    Guide {
        verb: "rebuild",
        exits: &[
            ("0", "a usable nvidia-peermem.ko exists or was built; with --undo: removed"),
            REFUSED,
            ("3", "a rebuild does not help, or something prevents it: the closing verdict says what"),
            ("124", "the build did not end in time"),
            ("125", "the build, or the installation, failed; or an internal error"),
            SIGNAL,
        ],
        examples: &[
            ("peermem-gate rebuild --dry-run", "print what a rebuild would do"),
            (
                "peermem-gate rebuild --driver-root /run/nvidia/driver",
                "build it for the driver container's nvidia",
            ),
        ],
        variables: &[MIRRORS, RDMA_ENABLED, NEIGHBORS],
    },
    Guide {
        verb: "install",
        exits: &[
            ("0", "the program and the shim are in DIR, and the program runs there"),
            ("2", "refused: DIR is unsuitable; or bad usage"),
            ("125", "failed (no space, a broken disk); or an internal error"),
        ],
        examples: &[
            ("peermem-gate install /shared", "in an init container, into a volume that the pod shares"),
            (
                "peermem-gate install /usr/local/bin",
                "on a host; the shim is then /usr/local/bin/shim/modprobe",
            ),
        ],
        variables: &[MIRRORS],
    },
];

/// The guide of a verb; of the program itself, for the empty word.
#[must_use]
pub fn guide(verb: &str) -> Option<&'static Guide> {
    GUIDES.iter().find(|guide| guide.verb == verb)
}

/// The text below the options in the long help.
#[must_use]
pub fn long(verb: &str) -> String {
    let text = guide(verb).map(Guide::text).unwrap_or_default();
    if verb.is_empty() { with_doctors(&text) } else { text }
}

/// The text below the verbs of this program: those of the other one come first.
#[must_use]
pub fn with_doctors(text: &str) -> String {
    format!("{DOCTORS}\n\n{text}")
}

impl Guide {
    /// As the long help has it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = table("Exit codes:", self.exits);
        text += "\nExamples:\n";
        for (command, purpose) in self.examples {
            text += &format!("  {command}\n          {purpose}\n");
        }
        text += "\n";
        text += &table("Environment:", &self.variables.concat());
        text.trim_end().to_owned()
    }
}

/// clap's help, broken at words so no line is wider than `columns`. A line goes on below its last column of words.
#[must_use]
pub fn fitted(help: &str, columns: usize) -> String {
    help.lines().map(|line| fitted_line(line.trim_end(), columns) + "\n").collect()
}

fn fitted_line(line: &str, columns: usize) -> String {
    let indent = line.len() - line.trim_start().len();
    // A shell would take the second line of an example for another command.
    if line[indent..].starts_with("peermem-") {
        return line.to_owned();
    }
    let usage = line.strip_prefix("Usage:").map(|_| "Usage:".len());
    let column = usage.or_else(|| line[indent..].find("  ").map(|gap| indent + gap)).unwrap_or_default();
    let text = line[column..].trim_start();
    let head = &line[..line.len() - text.len()];
    let taken = head.chars().count();
    let room = TextBox {
        columns,
        first: taken,
        rest: taken,
        most: usize::MAX,
        measure: ONE_COLUMN,
        has_whole_words: true,
    };
    let text = joined(text, columns.saturating_sub(taken));
    let lines = wrapped(&text, room).join(&format!("\n{}", " ".repeat(taken)));
    format!("{head}{lines}").replace(JOINT, " ")
}

/// A space at which no line ends.
const JOINT: char = '\u{a0}';

/// `text` with what clap adds in brackets as one word each, where it fits into a line: the default, and the possible
/// values.
fn joined(text: &str, columns: usize) -> String {
    let mut joined = String::new();
    let mut rest = text;
    while let Some(from) = rest.find('[') {
        let to = rest[from..].find(']').map_or(rest.len(), |end| from + end + 1);
        let (before, group) = (&rest[..from], &rest[from..to]);
        let fits = group.chars().count() <= columns;
        joined += before;
        joined += &if fits { group.replace(' ', &JOINT.to_string()) } else { group.to_owned() };
        rest = &rest[to..];
    }
    joined + rest
}

fn table(heading: &str, rows: &[HelpRow]) -> String {
    let width = rows.iter().map(|(word, _)| word.len()).max().unwrap_or_default();
    let lines = rows.iter().map(|(word, meaning)| format!("  {word:width$}  {meaning}\n"));
    format!("{heading}\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_help_goes_on_below_its_own_text() {
        let line = "      --settle <DUR>  How long every condition must be met [default: 1s]";
        let fitted = fitted(line, 56);
        let below = format!("\n{}met [default: 1s]\n", " ".repeat(22));
        assert!(fitted.ends_with(&below), "{fitted}");
    }

    #[test]
    fn a_default_and_a_command_stay_on_one_line_of_help() {
        assert_eq!(
            fitted("  --for <WHO>  The consumer [default: of this node]", 44),
            "  --for <WHO>  The consumer\n               [default: of this node]\n"
        );
        assert_eq!(
            fitted("          run `kubectl get pods`", 30),
            "          run\n          `kubectl get pods`\n"
        );
    }

    #[test]
    fn an_example_stays_on_one_line_of_help_and_a_usage_goes_on_below_its_own_text() {
        let example = "  peermem-gate inspect --symvers Module.symvers --format json FILE\n";
        assert_eq!(fitted(example, 40), example);
        assert_eq!(
            fitted("Usage: peermem-gate rebuild [OPTIONS]", 30),
            "Usage: peermem-gate rebuild\n       [OPTIONS]\n"
        );
    }

    #[test]
    fn each_group_that_fits_stays_on_one_line_of_help() {
        let help = "  --a <A>  Words [default: text] [possible values: text, json, table]";
        let below = " ".repeat(11);
        assert_eq!(
            fitted(help, 34),
            format!(
                "  --a <A>  Words [default: text]\n{below}[possible values: text,\n{below}json, table]\n"
            )
        );
    }

    #[test]
    fn a_default_that_is_wider_than_a_line_of_help_is_broken() {
        let fitted = fitted("      --module <NAME>  Modules [default: ib_core,ib_uverbs,mlx5_core]", 54);
        assert!(fitted.lines().all(|line| line.len() <= 54), "{fitted}");
    }

    #[test]
    fn a_help_that_fits_stays_as_it_is() {
        let help = "Usage: wait [OPTIONS]\n\nOptions:\n  -h, --help  Print help\n";
        assert_eq!(fitted(help, 80), help);
    }
}
