// SPDX-License-Identifier: Apache-2.0
//! Command lines mean to us what they mean to kmod's modprobe, and a modprobe that we run is run as
//! if it had been called by hand, in another root too.

use crate::support::{
    GATE, HOST, LIMIT, NOBODY, PROMPT, can, can_chroot, code, output, product, refusal, tests,
};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use peermem_gate::cli::arguments;
use peermem_gate::cli::arguments::ModprobeVariables;
use peermem_gate::process::system_program::{
    CHROOT_EXEC, Interruption, MODPROBE, OutputMode, Ran, SystemProgram, is_ourselves,
};
use peermem_gate::ready::exit::Exit;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Above all that is kept of an output, below what it was.
const KEPT: usize = 64 * 1024;

fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("chmod");
    directory
}

fn words(line: &[&str]) -> Vec<OsString> {
    line.iter().map(OsString::from).collect()
}

/// What kmod would load by this command line, for every module has an install command that says so.
fn loaded_by_kmod(line: &[OsString], modprobe_options: Option<&str>) -> Vec<String> {
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).arg("modprobe").args(line).env_remove("POSIXLY_CORRECT");
    match modprobe_options {
        Some(options) => command.env("MODPROBE_OPTIONS", options),
        None => command.env_remove("MODPROBE_OPTIONS"),
    };
    let output = output(&mut command);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut loaded: Vec<_> = stdout.lines().filter(|line| line.starts_with('@')).map(str::to_owned).collect();
    loaded.sort();
    loaded
}

fn a_command_line_means_what_it_means_to_kmod() {
    if !can(&[&NOBODY[..], &["modprobe", "--version"]].concat()) {
        return;
    }
    let directory = directory();
    let conf = directory.path().join("modprobe.conf");
    let names = ["nvidia_peermem", "one_more", "other"];
    let install = |name| format!("install {name} echo @{name} $CMDLINE_OPTS\n");
    fs::write(&conf, names.map(install).concat()).expect("a configuration");
    let conf = conf.to_str().expect("text");
    let own = ["-C", "--config", "--conf"].map(|option| format!("{option} {conf}"));
    let inline = [format!("-C{conf}"), format!("--config={conf}"), format!("-qaC{conf}")];
    let mut known: Vec<_> = [
        "-a -q -v -b -f -s -w5 -S1 -d/none -aq -vaf -afS1 --all --al --a=x --quiet --verb --use --first-time --force \
         --forc --force-v --force-modversion --wait=5 --set-version=1 --dirname=/none --remove-holders --remove-d \
         --remove- --syslog",
        "-r -n -D -R -c -V -h -an -rf -aD --remove --rem --dry --dry-run --show --sho --show-d --show-depends \
         --resolve --showconf --vers --help --ver --d --show-modv --du --show-exports",
        "-- - -x --bogus --= -l -t --all=x -C -5",
    ]
    .map(|line| line.split(' ').map(OsString::from).collect::<Vec<_>>())
    .into();
    // kmod before 30 refuses these, and the gate lets it do so after its wait.
    known[0].retain(|word| {
        let is_newer = ["-w5", "--wait=5", "--remove-holders"].iter().any(|newer| word == newer);
        !is_newer || !loaded_by_kmod(&[word.clone(), "other".into()], Some(&format!("-C {conf}"))).is_empty()
    });
    let with_conf = own.iter().flat_map(|two| two.split(' ')).chain(inline.iter().map(String::as_str));
    let with_conf: Vec<_> = with_conf.map(OsString::from).collect();
    let modules = words(&["other", "one-more", "one_more", "a=1", "b", "", "/x/nvidia-peermem.ko.d/other"]);
    let word = prop_oneof![
        4 => proptest::sample::select(words(&["nvidia-peermem", "nvidia_peermem"])),
        4 => proptest::sample::select(known[0].clone()),
        2 => proptest::sample::select(modules),
        1 => proptest::sample::select(known[1].clone()),
        1 => proptest::sample::select(known[2].clone()),
        1 => proptest::sample::select(with_conf),
    ];
    let options =
        proptest::sample::select(vec!["", " -q", " -a", " -a other", " '-q'", " \"--\"", " other", " -n"]);
    let line = (proptest::collection::vec(word, 0..6), options);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let mut loads = 0;
    let count = std::cell::RefCell::new(&mut loads);
    let same = |(line, options): (Vec<OsString>, &str)| {
        let options = format!("-C {conf}{options}");
        let by_kmod = loaded_by_kmod(&line, Some(&options));
        let variables =
            ModprobeVariables { modprobe_options: Some(options.as_ref()), posixly_correct: false };
        match arguments::read(&line, variables) {
            None => {
                let ours = by_kmod.iter().any(|module| module.starts_with("@nvidia_peermem"));
                prop_assert!(!ours, "kmod loads it: {by_kmod:?}");
            }
            Some(load) => {
                **count.borrow_mut() += 1;
                let mut split = loaded_by_kmod(&load.peermem, None);
                prop_assert!(!split.is_empty(), "kmod does not load it");
                prop_assert!(split.iter().all(|module| module.starts_with("@nvidia_peermem")), "{split:?}");
                split.extend(load.others.iter().flat_map(|others| loaded_by_kmod(others, None)));
                split.sort();
                prop_assert_eq!(split, by_kmod);
            }
        }
        Ok(())
    };
    let outcome = runner.run(&line, same);
    if let Err(why) = outcome {
        panic!("{why}");
    }
    assert!(loads > 50, "only {loads} of the command lines would load it");
}

/// A shell writes what is to be run: were it open for writing here, a child that another test starts
/// in that moment would hold it open too, and it could not be run.
fn by_shell(commands: &str, args: &[&OsStr]) {
    let status = Command::new("sh").args(["-ec", commands, "sh"]).args(args).status();
    assert!(status.expect("sh").success(), "{commands}");
}

/// A script to be found as modprobe.
fn script(directory: &Path, text: &str) -> PathBuf {
    script_for("/bin/sh", directory, text)
}

fn script_for(shell: &str, directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("modprobe");
    let write = "printf '#!%s\\n%s\\n' \"$1\" \"$2\" > \"$3\"; chmod 755 \"$3\"";
    by_shell(write, &[shell.as_ref(), text.as_ref(), path.as_os_str()]);
    path
}

fn copied(from: &Path, to: &Path) {
    by_shell("cp \"$1\" \"$2\"", &[from.as_os_str(), to.as_os_str()]);
}

/// The tests are not this program, which takes the hidden step.
fn stepping_by(program: &str, mut found: SystemProgram) -> SystemProgram {
    found.step = program.into();
    found
}

fn modprobe(path: &Path) -> SystemProgram {
    let modprobe = SystemProgram::find(&MODPROBE, Path::new("/"), None, Some(path));
    stepping_by(GATE, modprobe.expect("a modprobe"))
}

/// Undisturbed.
fn run(modprobe: &SystemProgram, args: &[&str]) -> Ran {
    let (signals, _kept_open) = UnixStream::pair().expect("a pair");
    modprobe.run(&words(args), OutputMode::Kept, signals.as_fd(), || None).expect("it can be run")
}

fn modprobe_is_run_as_if_called_by_hand() {
    let directory = directory();
    let text = "printf '<%s>' \"$@\"; echo; echo \"$LC_ALL,${MODPROBE_OPTIONS-unset}\" >&2; exit 7";
    let path = script(directory.path(), text);
    let ran = run(&modprobe(&path), &["-q", "nvidia-peermem", "a b", ""]);
    let expected = Ran {
        code: 7,
        stdout: "<-q><nvidia-peermem><a b><>\n".to_owned(),
        stderr: "C,unset\n".to_owned(),
        broken_off: None,
    };
    assert_eq!(ran, expected);

    script(directory.path(), "kill -s KILL $$");
    assert_eq!(run(&modprobe(&path), &[]).code, 128 + 9);
}

fn modprobe_has_its_own_name_and_default_signals() {
    let ours = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);
    // This thread's alone, from which the child is started.
    ours.thread_block().expect("blocked");
    let directory = directory();
    let cat = directory.path().join("modprobe");
    by_shell("cp \"$(command -v cat)\" \"$1\"", &[cat.as_os_str()]);
    let ran = run(&modprobe(&cat), &["/proc/self/cmdline", "/proc/self/status"]);
    assert!(ran.stdout.starts_with("modprobe\0/proc/self/cmdline\0"), "{}", ran.stdout);
    let blocked = format!("SigBlk:\t{:016x}\n", 0);
    assert!(ran.stdout.contains(&blocked), "{}", ran.stdout);
    // SIGPIPE has its default, as std's own children have it.
    let direct = output(Command::new("cat").arg("/proc/self/status")).stdout;
    let direct = String::from_utf8(direct).expect("text");
    let ignored = direct.lines().find(|line| line.starts_with("SigIgn:")).expect("a mask");
    assert!(ran.stdout.contains(ignored), "{}", ran.stdout);
}

fn only_the_end_of_modprobes_long_output_is_kept() {
    let directory = directory();
    let path = script(directory.path(), "seq 200000 >&2; seq 200000; echo last >&2");
    let ran = run(&modprobe(&path), &[]);
    for text in [ran.stderr.strip_suffix("last\n").expect("the last line"), &ran.stdout] {
        assert!(text.ends_with("\n199999\n200000\n"), "{text}");
        assert!(text.len() <= KEPT && text.len() > KEPT - 20, "{}", text.len());
        let first = text.lines().next().expect("a line");
        assert_eq!(first.len(), 6, "whole lines only: {first:?}");
    }
}

fn modprobes_own_children_are_not_waited_for() {
    let directory = directory();
    let path = script(directory.path(), "sleep 1000 & echo $!; echo said >&2; exit 3");
    let begun = Instant::now();
    let ran = run(&modprobe(&path), &[]);
    let left = Pid::from_raw(ran.stdout.trim_end().parse().expect("a pid"));
    kill(left, Signal::SIGKILL).expect("it is still there");
    assert_eq!((ran.code, ran.stderr.as_str()), (3, "said\n"));
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    // One that says nothing any more, but is still at work.
    script(directory.path(), "exec >&- 2>&-; sleep 0.3; exit 4");
    assert_eq!(run(&modprobe(&path), &[]).code, 4);
}

/// Broken off by a SIGHUP as soon as it says by a file that it has begun.
fn broken_off(text: &str) -> (Ran, Duration) {
    let directory = directory();
    let begun = directory.path().join("begun");
    let path = script(directory.path(), text);
    let (signals, mut sender) = UnixStream::pair().expect("a pair");
    let until = Instant::now() + LIMIT;
    let sent = std::thread::spawn({
        let begun = begun.clone();
        move || {
            while !begun.exists() {
                assert!(Instant::now() < until, "it never begins");
                std::thread::sleep(Duration::from_millis(1));
            }
            sender.write_all(&[Signal::SIGHUP as u8]).expect("sent");
            (Instant::now(), sender)
        }
    });
    let mut receiver = signals.try_clone().expect("a descriptor");
    receiver.set_nonblocking(true).expect("non-blocking");
    let take = move || {
        let mut signal = [0];
        receiver.read_exact(&mut signal).ok().map(|()| Interruption::Signal(signal[0]))
    };
    let ran =
        modprobe(&path).run(&[begun.into()], OutputMode::Kept, signals.as_fd(), take).expect("it can be run");
    let ended = Instant::now();
    let (sent, _sender) = sent.join().expect("sent");
    (ran, ended - sent)
}

fn a_signal_ends_modprobe() {
    let (ran, took) = broken_off(": > \"$1\"; exec sleep 1000");
    assert_eq!((ran.code, ran.broken_off), (128 + 15, Some(Interruption::Signal(1))));
    assert!(took < PROMPT, "{took:?}");

    let (ran, took) = broken_off("trap 'echo sorry >&2; exit 9' TERM; : > \"$1\"; sleep 1000 & wait");
    assert_eq!(
        (ran.code, ran.broken_off, ran.stderr.as_str()),
        (9, Some(Interruption::Signal(1)), "sorry\n")
    );
    assert!(took < PROMPT, "{took:?}");

    let (ran, took) = broken_off("trap '' TERM; echo $$; : > \"$1\"; exec sleep 1000");
    let stubborn = Pid::from_raw(ran.stdout.trim_end().parse().expect("a pid"));
    kill(stubborn, Signal::SIGKILL).expect("it is still there");
    assert_eq!((ran.code, ran.broken_off), (128 + 15, Some(Interruption::Signal(1))));
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(1) + PROMPT, "{took:?}");
}

fn a_modprobe_that_cannot_be_run_ends_with_the_right_exit_code() {
    let directory = directory();
    let path = script_for("/no/such/shell", directory.path(), "");
    let why = |modprobe: &SystemProgram| {
        let (signals, _kept_open) = UnixStream::pair().expect("a pair");
        modprobe.run(&[], OutputMode::Kept, signals.as_fd(), || None).expect_err("it cannot be run")
    };
    let missing = why(&modprobe(&path));
    assert_eq!(missing.exit, Exit::NotFound);
    assert!(missing.message.starts_with(&path.display().to_string()), "{}", missing.message);
    let found = modprobe(&path);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("chmod");
    let closed = why(&found);
    assert_eq!(closed.exit, Exit::NotExecutable);
    assert!(closed.message.contains(" cannot be run: Permission denied: "), "{}", closed.message);
    let unstarted = why(&stepping_by("/none", found));
    assert_eq!(unstarted.exit, Exit::Failed);
    // Somebody else's 127 is not our sentence.
    script(directory.path(), "exit 127");
    assert_eq!(run(&modprobe(&path), &[]).code, 127);
}

/// A root in which a shell can run.
fn root_with_a_shell() -> TempDir {
    let root = directory();
    let copy = "cd \"$1\" && mkdir -p bin usr/sbin && cp /bin/sh bin/sh && \
                for lib in $(ldd /bin/sh | grep -o '/[^ )]*'); do mkdir -p \".${lib%/*}\" && cp -L \"$lib\" \".$lib\"; done";
    by_shell(copy, &[root.path().as_os_str()]);
    root
}

fn modprobe_runs_in_another_root() {
    let root = root_with_a_shell();
    script(&root.path().join("usr/sbin"), "echo \"$PWD $*\"; for entry in /*; do echo \"$entry\"; done");
    let found = SystemProgram::find(&MODPROBE, root.path(), Some("/nothing/here".as_ref()), None)
        .expect("a modprobe");
    assert_eq!(found.path(), Path::new("/usr/sbin/modprobe"));
    let found = stepping_by(GATE, found);
    let ran = run(&found, &["nvidia-peermem"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let mut lines = ran.stdout.lines();
    assert_eq!(lines.next(), Some("/ nvidia-peermem"));
    assert!(lines.all(|entry| root.path().join(&entry[1..]).exists()), "outside: {}", ran.stdout);
    let shown = format!("chroot {} /usr/sbin/modprobe nvidia-peermem", root.path().display());
    assert_eq!(found.shown(&words(&["nvidia-peermem"])), shown);
}

/// The hidden step itself.
fn step(by: &[&str], args: &[&OsStr]) -> (i32, String) {
    let mut command = Command::new(by.first().copied().unwrap_or(GATE));
    if by.is_empty() {
        command.arg0(CHROOT_EXEC);
    } else {
        command.args(&by[1..]);
    }
    refusal(command.args(args))
}

fn the_static_binary_steps_into_a_root_that_holds_nothing_else() {
    let Some(gate) = product(HOST) else { return };
    if !can(&["chroot", "/", "true"]) {
        return;
    }
    let root = directory();
    copied(&gate, &root.path().join("modprobe"));
    let mut command = Command::new(GATE);
    command.arg0(CHROOT_EXEC).arg("modprobe").arg(root.path()).args(["/modprobe", "--version"]);
    // As `modprobe` it would be the shim, which finds no modprobe: either way it was run in there.
    let ended = output(&mut command);
    assert!(!String::from_utf8_lossy(&ended.stderr).contains(CHROOT_EXEC), "{ended:?}");
}

fn the_hidden_step_into_a_root_names_its_error() {
    let none = step(&[], &[]);
    assert_eq!(none.0, 2);
    assert!(none.1.starts_with("peermem-gate-step: a name, a root and a program are missing"), "{}", none.1);
    let (code, said) = step(&[], &["modprobe".as_ref(), "/no/such/root".as_ref(), "/modprobe".as_ref()]);
    assert_eq!(code, 126);
    assert!(said.contains("/no/such/root cannot be entered: No such file or directory: "), "{said}");
    if can(&[&NOBODY[..], &["true"]].concat()) {
        // argv[0] by way of a shell that has the word for it.
        let directory = directory();
        let gate = directory.path().join("gate");
        copied(Path::new(GATE), &gate);
        let exec = format!(
            "exec -a {CHROOT_EXEC} {} modprobe {} /modprobe",
            gate.display(),
            directory.path().display()
        );
        let (code, said) = step(&[&NOBODY[..], &["bash", "-c", &exec]].concat(), &[]);
        assert_eq!(code, 126);
        assert!(
            said.contains("cannot be entered: Operation not permitted: it needs CAP_SYS_CHROOT"),
            "{said}"
        );
    }
}

fn builds_of_peermem_gate_are_recognized_and_other_programs_are_not() {
    assert!(is_ourselves(Path::new(GATE)), "a debug build");
    for architecture in ["x86_64", "aarch64"] {
        if let Some(product) = product(architecture) {
            assert!(is_ourselves(&product), "{}", product.display());
        }
    }
    for other in ["/bin/sh", "/usr/bin/kmod", "/usr/sbin/modprobe", "/usr/bin/env"] {
        assert!(!is_ourselves(Path::new(other)), "{other}");
    }
}

fn an_ignored_sigchld_is_reported() {
    // Run by the test itself, in a process that ignores SIGCHLD.
    if std::env::var_os("RUN_WITHOUT_SIGCHLD").is_some() {
        let directory = directory();
        // No other test runs here, and a shell could not be waited for.
        let path = directory.path().join("modprobe");
        fs::write(&path, "#!/bin/sh\n").expect("a script");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("chmod");
        let (signals, _kept_open) = UnixStream::pair().expect("a pair");
        let why =
            modprobe(&path).run(&[], OutputMode::Kept, signals.as_fd(), || None).expect_err("nobody knows");
        assert!(why.message.contains("SIGCHLD is ignored"), "{}", why.message);
        return;
    }
    if !can(&["env", "--ignore-signal=CHLD", "true"]) {
        return;
    }
    let ourselves = std::env::current_exe().expect("this test");
    let mut again = Command::new("env");
    again.arg("--ignore-signal=CHLD").arg(ourselves).env("RUN_WITHOUT_SIGCHLD", "1");
    again.args(["--exact", "an_ignored_sigchld_is_reported"]);
    let output = output(&mut again);
    assert_eq!(code(output.status), 0, "{output:?}");
}

tests![
    [
        a_command_line_means_what_it_means_to_kmod,
        modprobe_is_run_as_if_called_by_hand,
        modprobe_has_its_own_name_and_default_signals,
        only_the_end_of_modprobes_long_output_is_kept,
        modprobes_own_children_are_not_waited_for,
        a_signal_ends_modprobe,
        a_modprobe_that_cannot_be_run_ends_with_the_right_exit_code,
        the_static_binary_steps_into_a_root_that_holds_nothing_else,
        the_hidden_step_into_a_root_names_its_error,
        builds_of_peermem_gate_are_recognized_and_other_programs_are_not,
        an_ignored_sigchld_is_reported,
    ],
    if can_chroot [modprobe_runs_in_another_root],
];
