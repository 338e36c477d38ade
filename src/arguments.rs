// SPDX-License-Identifier: Apache-2.0
//! What a modprobe command line means to kmod's modprobe (30 to 34): would it load `nvidia_peermem`?
//!
//! Read as kmod reads it, with glibc's `getopt_long`: options stand anywhere, long ones may be cut as
//! long as they stay unambiguous, short ones may be bundled. What kmod would refuse is none of ours
//! (but for `--wait` with no number, which it may refuse itself).
//!
//! Not seen: a load by an alias of modprobe.d's, by a link of another name, or as a dependency.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// kmod's short options that take no value, and those that do.
const SHORT: &[u8] = b"arRibfDcnsqvVh";
const SHORT_WITH_VALUE: &[u8] = b"wCdS";

/// kmod's long options in its order: name, letter (a digit where it has no short form), and whether
/// it takes a value.
const LONG: [(&str, u8, bool); 29] = [
    ("all", b'a', false),
    ("remove", b'r', false),
    ("remove-dependencies", b'5', false),
    ("remove-holders", b'5', false),
    ("wait", b'w', true),
    ("resolve-alias", b'R', false),
    ("first-time", b'3', false),
    ("ignore-install", b'i', false),
    ("ignore-remove", b'i', false),
    ("use-blacklist", b'b', false),
    ("force", b'f', false),
    ("force-modversion", b'2', false),
    ("force-vermagic", b'1', false),
    ("show-depends", b'D', false),
    ("showconfig", b'c', false),
    ("show-config", b'c', false),
    ("show-modversions", b'4', false),
    ("dump-modversions", b'4', false),
    ("show-exports", b'6', false),
    ("dry-run", b'n', false),
    ("show", b'n', false),
    ("config", b'C', true),
    ("dirname", b'd', true),
    ("set-version", b'S', true),
    ("syslog", b's', false),
    ("quiet", b'q', false),
    ("verbose", b'v', false),
    ("version", b'V', false),
    ("help", b'h', false),
];

/// Of SUSE's kmod alone, and heeded only in full: elsewhere its beginning means something else.
const SUSE: [(&str, u8, bool); 2] =
    [("allow-unsupported", b'7', false), ("allow-unsupported-modules", b'7', false)];

/// Any of these and nothing is loaded. `--remove-holders` and `--wait` are not among them: without
/// `-r`, kmod takes no notice of them and loads.
const LOADS_NOTHING: &[u8] = b"rRDcnVh46";
const FORCES: &[u8] = b"f12";

/// The environment variables that modprobe's reading of its command line depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    /// `MODPROBE_OPTIONS`: stands before the arguments.
    pub modprobe_options: Option<&'a OsStr>,
    /// `POSIXLY_CORRECT` is set: the first word that is no option ends the options.
    pub posixly_correct: bool,
}

/// What a command line is to us.
#[derive(Debug, PartialEq, Eq)]
pub enum Call {
    /// None of ours: to be handed over untouched.
    PassThrough,
    /// It would load `nvidia_peermem`.
    Loads(Load),
}

/// A command line that would load `nvidia_peermem`.
///
/// The two command lines below hold what `MODPROBE_OPTIONS` said, and are to be run without it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The same command line for the other modules, of which only `-a` can name some.
    pub others: Option<Vec<OsString>>,
    /// The same command line for `nvidia_peermem` alone, without any force option.
    pub peermem: Vec<OsString>,
    /// `PARAM=VALUE` words; none with `-a`, which takes every word for a module.
    pub parameters: Vec<OsString>,
    /// A force option was given, and left out of `peermem`.
    pub forced: bool,
    /// `-d`: where lib/modules is, in place of `/`.
    pub dirname: Option<PathBuf>,
}

/// Reads the arguments (without `argv[0]`) as kmod's modprobe would.
#[must_use]
pub fn read(arguments: &[OsString], variables: Variables<'_>) -> Call {
    let mut all = variables.modprobe_options.map(options_of_environment).unwrap_or_default();
    all.extend_from_slice(arguments);
    let Some(line) = parse(&all, variables.posixly_correct) else { return Call::PassThrough };
    if line.has(LOADS_NOTHING) {
        return Call::PassThrough;
    }
    let (ours, others, parameters) = if line.has(b"a") {
        let (ours, others) = line.words.iter().cloned().partition::<Vec<_>, _>(|word| is_peermem(word));
        (ours, others, Vec::new())
    } else {
        match line.words.split_first() {
            Some((module, parameters)) if is_peermem(module) => {
                (vec![module.clone()], Vec::new(), parameters.to_vec())
            }
            _ => return Call::PassThrough,
        }
    };
    if ours.is_empty() {
        return Call::PassThrough;
    }
    Call::Loads(Load {
        others: (!others.is_empty()).then(|| line.command_line(b"", &others)),
        peermem: line.command_line(FORCES, &[ours.as_slice(), &parameters].concat()),
        forced: line.has(FORCES),
        dirname: line.value(b'd').map(PathBuf::from),
        parameters,
    })
}

/// kmod looks for a path's file instead of a name among the modules.
fn is_path(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"/") || word.as_bytes().starts_with(b"./")
}

/// A path's module is its file name up to the first dot, to kmod as well.
fn is_peermem(word: &OsStr) -> bool {
    let mut name = word.as_bytes();
    if is_path(word) {
        name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        name = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    }
    let folded = name.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte });
    folded.eq(b"nvidia_peermem".iter().copied())
}

/// One option as given, its long name in full.
#[derive(Debug)]
struct Given {
    letter: u8,
    spelled: OsString,
    value: Option<OsString>,
}

/// A command line taken apart.
#[derive(Debug, Default)]
struct Line {
    options: Vec<Given>,
    words: Vec<OsString>,
}

impl Line {
    fn has(&self, letters: &[u8]) -> bool {
        self.options.iter().any(|given| letters.contains(&given.letter))
    }

    /// The last one counts.
    fn value(&self, letter: u8) -> Option<OsString> {
        self.options.iter().rev().find(|given| given.letter == letter)?.value.clone()
    }

    /// The options but for these, then these words.
    fn command_line(&self, without: &[u8], words: &[OsString]) -> Vec<OsString> {
        let kept = self.options.iter().filter(|given| !without.contains(&given.letter));
        let mut all: Vec<_> =
            kept.flat_map(|given| [Some(given.spelled.clone()), given.value.clone()]).flatten().collect();
        if words.iter().any(|word| word.as_bytes().starts_with(b"-")) {
            all.push("--".into());
        }
        all.extend_from_slice(words);
        all
    }
}

/// As `getopt_long` does it. `None` for what kmod refuses.
fn parse(arguments: &[OsString], posixly_correct: bool) -> Option<Line> {
    let mut line = Line::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"--" => line.words.extend(rest.by_ref().cloned()),
            [b'-', b'-', long @ ..] => {
                let equals = long.iter().position(|byte| *byte == b'=');
                let (name, letter, takes_value) = long_option(&long[..equals.unwrap_or(long.len())])?;
                let value = match (equals, takes_value) {
                    (Some(at), true) => Some(OsStr::from_bytes(&long[at + 1..]).to_owned()),
                    (None, true) => Some(rest.next()?.clone()),
                    (None, false) => None,
                    (Some(_), false) => return None,
                };
                line.options.push(Given { letter, spelled: format!("--{name}").into(), value });
            }
            [b'-', bundle @ ..] if !bundle.is_empty() => {
                for (at, &letter) in bundle.iter().enumerate() {
                    let spelled = OsStr::from_bytes(&[b'-', letter]).to_owned();
                    if SHORT.contains(&letter) {
                        line.options.push(Given { letter, spelled, value: None });
                    } else if SHORT_WITH_VALUE.contains(&letter) {
                        let value = match &bundle[at + 1..] {
                            [] => rest.next()?.clone(),
                            inline => OsStr::from_bytes(inline).to_owned(),
                        };
                        line.options.push(Given { letter, spelled, value: Some(value) });
                        break;
                    } else {
                        return None;
                    }
                }
            }
            _ => {
                line.words.push(word.clone());
                if posixly_correct {
                    line.words.extend(rest.by_ref().cloned());
                }
            }
        }
    }
    Some(line)
}

/// By its name or the beginning of it. glibc takes one that fits several for ambiguous only if these
/// do different things.
fn long_option(name: &[u8]) -> Option<(&'static str, u8, bool)> {
    if let Some(exact) = LONG.iter().chain(&SUSE).find(|(long, ..)| long.as_bytes() == name) {
        return Some(*exact);
    }
    let mut fitting = LONG.iter().filter(|(long, ..)| long.as_bytes().starts_with(name));
    let first = *fitting.next()?;
    fitting.all(|(_, letter, _)| *letter == first.1).then_some(first)
}

/// Split at spaces, and with quotes taken away, as kmod does: a word that begins with a quote ends
/// with the quote, so that the space behind it makes an empty word.
fn options_of_environment(value: &OsStr) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    // The quote, and where in the word it stands.
    let mut quote: Option<(u8, usize)> = None;
    for &byte in value.as_bytes() {
        match quote {
            Some((open, at)) if byte == open => {
                word.remove(at);
                if at == 0 {
                    words.push(std::mem::take(&mut word));
                }
                quote = None;
                continue;
            }
            None if byte == b' ' => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            None if byte == b'"' || byte == b'\'' => quote = Some((byte, word.len())),
            _ => {}
        }
        word.push(byte);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn call(line: &str) -> Call {
        read(&words(line), Variables::default())
    }

    fn load(line: &str) -> Load {
        match call(line) {
            Call::Loads(load) => load,
            Call::PassThrough => panic!("{line:?} is passed through"),
        }
    }

    fn behind(options: &str, line: &str) -> Call {
        read(&words(line), Variables { modprobe_options: Some(options.as_ref()), posixly_correct: false })
    }

    /// A load of which nothing is special but these.
    fn plain(peermem: &str, others: Option<&str>, parameters: &str) -> Load {
        Load {
            peermem: words(peermem),
            others: others.map(words),
            parameters: words(parameters),
            ..Load::default()
        }
    }

    /// What the driver containers' scripts call (gpu-driver-container: nvidia-driver, common.sh,
    /// `ocp_dtk_entrypoint`; gpu-operator; k8s-driver-manager), and what an install line of modprobe.d would.
    #[test]
    fn nvidias_own_calls() {
        for (line, expected) in [
            ("nvidia", None),
            ("nvidia NVreg_EnableGpuFirmware=0 NVreg_OpenRmEnableUnsupportedGpus=1", None),
            ("nvidia-uvm", None),
            ("nvidia-uvm uvm_disable_hmm=1", None),
            ("nvidia-modeset", None),
            ("-a nvidia nvidia-uvm nvidia-modeset", None),
            ("-a nvidia-vgpu-vfio", None),
            ("nvidia-fs", None),
            ("gdrdrv", None),
            ("-d /host -a i2c_core ipmi_msghandler", None),
            ("-r nvidia_peermem", None),
            ("-r nvidia-peermem nvidia-modeset nvidia-uvm nvidia", None),
            ("-r -f nvidia-peermem", None),
            ("-D nvidia-peermem", None),
            ("--show-depends nvidia-peermem", None),
            ("--set-version=5.14.0-427.el9.x86_64 --show-depends nvidia-peermem", None),
            ("-S 5.14.0 -D nvidia nvidia-peermem", None),
            ("-R nvidia-peermem", None),
            ("-n nvidia-peermem", None),
            ("-c", None),
            ("nvidia-peermem", Some(plain("nvidia-peermem", None, ""))),
            (
                "--allow-unsupported-modules nvidia-peermem",
                Some(plain("--allow-unsupported-modules nvidia-peermem", None, "")),
            ),
            ("nvidia_peermem", Some(plain("nvidia_peermem", None, ""))),
            ("-a nvidia-peermem", Some(plain("-a nvidia-peermem", None, ""))),
            (
                "-a nvidia-peermem peerdirect_support=1",
                Some(plain("-a nvidia-peermem", Some("-a peerdirect_support=1"), "")),
            ),
            (
                "nvidia-peermem peerdirect_support=1 persistent_api_support=0",
                Some(plain(
                    "nvidia-peermem peerdirect_support=1 persistent_api_support=0",
                    None,
                    "peerdirect_support=1 persistent_api_support=0",
                )),
            ),
            ("--ignore-install nvidia-peermem", Some(plain("--ignore-install nvidia-peermem", None, ""))),
        ] {
            let expected = expected.map_or(Call::PassThrough, Call::Loads);
            assert_eq!(call(line), expected, "modprobe {line}");
        }
    }

    #[test]
    fn what_loads_nothing_is_passed_through() {
        for line in [
            "",
            "-a",
            "nvidia-peermem -r",
            "nvidia-peermem --remove",
            "-ra nvidia-peermem nvidia",
            "-ar nvidia-peermem",
            "-qn nvidia-peermem",
            "--dry nvidia-peermem",
            "--dry-run nvidia-peermem",
            "--show nvidia-peermem",
            "--show-d nvidia-peermem",
            "-V nvidia-peermem",
            "--vers nvidia-peermem",
            "-h nvidia-peermem",
            "--help nvidia-peermem",
            "--resolve nvidia-peermem",
            "-c nvidia-peermem",
            "--showc nvidia-peermem",
            "--show-c nvidia-peermem",
            "--show-modversions ./nvidia-peermem.ko",
            "--du ./nvidia-peermem.ko",
            "--show-e ./nvidia-peermem.ko",
            // A parameter, a value, or a part of a name.
            "nvidia nvidia-peermem",
            "-C nvidia-peermem nvidia",
            "-Cnvidia-peermem nvidia",
            "--config=nvidia-peermem nvidia",
            "-d nvidia-peermem -a nvidia",
            "nvidia-peermem2",
            "my-nvidia-peermem",
            "nv_peer_mem",
            "NVIDIA-PEERMEM",
            "nvidia-peermem=1",
            // No path to kmod, and no module's name.
            "nvidia-peermem.ko",
            "../nvidia-peermem.ko",
            "updates/nvidia-peermem.ko",
            "/lib/modules/nvidia-peermem/",
            "/lib/nvidia-peermem/nvidia.ko",
            // Refused by modprobe itself.
            "--rem nvidia-peermem",
            "--sho nvidia-peermem",
            "--forc nvidia-peermem",
            "--v nvidia-peermem",
            "--d nvidia-peermem",
            "--=x nvidia-peermem",
            "--all=yes nvidia-peermem",
            "--unknown nvidia-peermem",
            "-l nvidia-peermem",
            "-t dir nvidia-peermem",
            "-5 nvidia-peermem",
            "-- -a nvidia-peermem",
            "nvidia-peermem -C",
            "nvidia-peermem --config",
            "nvidia-peermem -aS",
        ] {
            assert_eq!(call(line), Call::PassThrough, "modprobe {line}");
        }
    }

    #[test]
    fn what_loads() {
        for (line, peermem) in [
            ("nvidia_peermem", "nvidia_peermem"),
            ("-q nvidia-peermem", "-q nvidia-peermem"),
            ("nvidia-peermem -bv", "-b -v nvidia-peermem"),
            ("-- nvidia-peermem", "nvidia-peermem"),
            ("nvidia-peermem -- -x", "-- nvidia-peermem -x"),
            ("nvidia-peermem - a=1", "-- nvidia-peermem - a=1"),
            ("--al nvidia-peermem", "--all nvidia-peermem"),
            ("-aq nvidia_peermem", "-a -q nvidia_peermem"),
            ("-C conf nvidia-peermem", "-C conf nvidia-peermem"),
            ("-Cconf nvidia-peermem", "-C conf nvidia-peermem"),
            ("-qCconf nvidia-peermem", "-q -C conf nvidia-peermem"),
            ("-C -r nvidia-peermem", "-C -r nvidia-peermem"),
            ("-C -- nvidia-peermem", "-C -- nvidia-peermem"),
            ("nvidia-peermem --conf=a=b", "--config a=b nvidia-peermem"),
            ("--config= nvidia-peermem", "--config  nvidia-peermem"),
            // kmod heeds these only beside -r.
            ("--remove-holders nvidia-peermem", "--remove-holders nvidia-peermem"),
            ("--remove- nvidia-peermem", "--remove-dependencies nvidia-peermem"),
            ("-w 100 nvidia-peermem", "-w 100 nvidia-peermem"),
            ("--ignore nvidia-peermem", "--ignore-install nvidia-peermem"),
            ("-i -b nvidia-peermem", "-i -b nvidia-peermem"),
            ("/tmp/nvidia-peermem.ko.xz", "/tmp/nvidia-peermem.ko.xz"),
            ("./nvidia_peermem.ko", "./nvidia_peermem.ko"),
        ] {
            let load = load(line);
            let joined: Vec<_> = load.peermem.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(joined.join(" "), peermem, "modprobe {line}");
            assert_eq!(load.others, None, "modprobe {line}");
            assert!(!load.forced, "modprobe {line}");
        }
    }

    #[test]
    fn force_is_seen_and_left_out() {
        for line in [
            "-f nvidia-peermem",
            "--force nvidia-peermem",
            "--force-modversion nvidia-peermem",
            "--force-m nvidia-peermem",
            "nvidia-peermem --force-vermagic",
            "-ff nvidia-peermem",
        ] {
            let load = load(line);
            assert!(load.forced, "modprobe {line}");
            assert_eq!(load.peermem, words("nvidia-peermem"), "modprobe {line}");
        }
        let bundled = load("-qfa nvidia-peermem other");
        assert!(bundled.forced);
        assert_eq!(bundled.peermem, words("-q -a nvidia-peermem"));
        assert_eq!(bundled.others, Some(words("-q -f -a other")), "the others are not ours");
        assert!(!load("-Cf nvidia-peermem").forced, "a value");
    }

    #[test]
    fn modules_beside_ours_keep_their_order() {
        let load = load("--quiet nvidia -a nvidia_peermem nvidia-uvm -S 6.1 nvidia-peermem -- -odd");
        assert_eq!(load.others, Some(words("--quiet -a -S 6.1 -- nvidia nvidia-uvm -odd")));
        assert_eq!(load.peermem, words("--quiet -a -S 6.1 nvidia_peermem nvidia-peermem"));
    }

    #[test]
    fn what_the_options_say() {
        let all = load("--first-time -s -d /a -d/b --set-version 1 -S2 nvidia-peermem");
        assert_eq!(all.dirname, Some("/b".into()), "the last one counts");
    }

    #[test]
    fn words_that_are_no_text() {
        let bundle = OsString::from_vec(b"-q\xff".to_vec());
        let args = [bundle.clone(), "nvidia-peermem".into()];
        assert_eq!(read(&args, Variables::default()), Call::PassThrough, "no option of kmod's");
        let odd = OsString::from_vec(b"x=\xff".to_vec());
        let args = ["-C".into(), bundle.clone(), "nvidia-peermem".into(), OsString::new(), odd.clone()];
        let Call::Loads(load) = read(&args, Variables::default()) else { panic!("it loads") };
        assert_eq!(load.parameters, [OsString::new(), odd]);
        assert_eq!(load.peermem, args);
        let args = [OsString::new(), "nvidia-peermem".into()];
        assert_eq!(read(&args, Variables::default()), Call::PassThrough, "an empty word is the module");
    }

    #[test]
    fn options_of_the_environment_come_first() {
        let split = |value: &str| options_of_environment(value.as_ref());
        assert_eq!(split(""), words(""));
        assert_eq!(split("-q -C conf"), words("-q -C conf"));
        assert_eq!(split("-C 'a b'"), ["-C", "a b"].map(OsString::from));
        assert_eq!(split("-C'a b'c\" \"d"), ["-Ca bc d"].map(OsString::from));
        assert_eq!(split("'a b' -q"), ["a b", "", "-q"].map(OsString::from), "as kmod does");
        assert_eq!(split(" -q "), ["", "-q"].map(OsString::from));
        assert_eq!(split("'a\"b' c"), ["a\"b", "", "c"].map(OsString::from));
        assert_eq!(split("-q 'open end"), ["-q", "'open end"].map(OsString::from));
        assert_eq!(split("''"), [""].map(OsString::from));

        assert_eq!(behind("-r", "nvidia-peermem"), Call::PassThrough);
        assert_eq!(behind("nvidia", "nvidia-peermem"), Call::PassThrough, "a parameter of nvidia");
        let expected = plain("-a nvidia-peermem", Some("-a nvidia"), "");
        assert_eq!(behind("-a nvidia", "nvidia-peermem"), Call::Loads(expected));
        let expected = plain("-C conf -- nvidia-peermem -a", None, "-a");
        assert_eq!(behind("-C conf --", "nvidia-peermem -a"), Call::Loads(expected));
    }

    #[test]
    fn posixly_correct_ends_the_options_at_the_first_word() {
        let variables = Variables { posixly_correct: true, ..Variables::default() };
        assert_eq!(
            read(&words("-q nvidia-peermem -r"), variables),
            Call::Loads(plain("-q -- nvidia-peermem -r", None, "-r"))
        );
        assert_eq!(read(&words("-r nvidia-peermem"), variables), Call::PassThrough);
    }

    fn word() -> impl Strategy<Value = OsString> {
        prop_oneof![
            3 => proptest::collection::vec(any::<u8>().prop_filter("NUL", |byte| *byte != 0), 0..8)
                .prop_map(OsString::from_vec),
            2 => "-{0,2}[a-zA-Z=-]{0,6}".prop_map(OsString::from),
            2 => (0..LONG.len()).prop_map(|at| format!("--{}", LONG[at].0).into()),
            1 => Just("nvidia-peermem".into()),
            1 => Just("/x/nvidia_peermem.ko.zst".into()),
        ]
    }

    fn names_peermem(word: &OsStr) -> bool {
        word.to_string_lossy().replace('-', "_").contains("nvidia_peermem")
    }

    proptest! {
        #[test]
        fn never_a_panic_and_never_a_load_of_what_is_not_named(
            line in proptest::collection::vec(word(), 0..8),
            options in proptest::option::of("[-a-z '\"]{0,12}"),
            posixly_correct in any::<bool>(),
        ) {
            let options = options.map(OsString::from);
            let variables = Variables { modprobe_options: options.as_deref(), posixly_correct };
            match read(&line, variables) {
                Call::PassThrough => {}
                Call::Loads(load) => {
                    prop_assert!(line.iter().any(|word| names_peermem(word)));
                    // Each of the two means what it says.
                    let variables = Variables { posixly_correct, ..Variables::default() };
                    let Call::Loads(again) = read(&load.peermem, variables) else { panic!("it loads") };
                    prop_assert!(!again.forced);
                    prop_assert_eq!(again.others, None);
                    prop_assert_eq!(&again.peermem, &load.peermem);
                    prop_assert_eq!(&again.parameters, &load.parameters);
                    prop_assert_eq!(again.dirname, load.dirname);
                    if let Some(others) = load.others {
                        prop_assert_eq!(read(&others, variables), Call::PassThrough);
                    }
                }
            }
        }
    }
}
