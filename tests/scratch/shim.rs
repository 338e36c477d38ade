// SPDX-License-Identifier: Apache-2.0
//! Called as `modprobe`, in front of another one that notes what it is called with. What it would
//! load is seen in a scratch node; a real kernel's answers are in tests/kernel.rs.

use crate::support::{
    self, GATE, MARKER, Node, Process, VIDEO, can, code, gate_by, output, skip, tests,
    with_places_in_variables, write_program,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Every call of modprobe that NVIDIA's driver containers make (gpu-driver-container's scripts, the
/// driver toolkit's entrypoint, nvidia-peermem-ctr), except for those that load nvidia-peermem.
const RECORDED: &[&[&str]] = &[
    &["nvidia"],
    &["nvidia", "NVreg_OpenRmEnableUnsupportedGpus=1", "NVreg_RegistryDwords=\"a=1;b=2\""],
    &["nvidia-uvm"],
    &["nvidia-uvm", "uvm_disable_hmm=1"],
    &["nvidia-modeset"],
    &["-a", "nvidia", "nvidia-uvm", "nvidia-modeset"],
    &["-a", "i2c_core", "ipmi_msghandler", "ipmi_devintf"],
    &["nvidia-fs"],
    &["gdrdrv"],
    &["-r", "nvidia-peermem"],
    &["-r", "nvidia_peermem"],
    &["-r", "nvidia-modeset"],
    &["--show-depends", "nvidia-peermem"],
    &["-D", "nvidia_peermem"],
    &["--resolve-alias", "nvidia-peermem"],
    &["-n", "-v", "nvidia-peermem"],
    &["-c"],
    &["--version"],
    &["--dump-modversions", "./nvidia-peermem.ko"],
    // Nothing of it is ours, however it looks.
    &["nvidia", "options=nvidia-peermem"],
    &["nvidia", ""],
    &["--no-such-option", "nvidia-peermem"],
    &[],
];

/// The fake: it notes its arguments, and then does what the file `does` beside it says.
const FAKE: &str = r#"#!/bin/bash
here=${0%/*}
{ for word; do printf '%s\0' "$word"; done; echo; } >>"$here/calls"
. "$here/does"
"#;

/// The words with which the fake does what the kernel does.
const LOADS: &str = ". \"$root/bin/loads\"";

struct Place {
    node: Node,
}

impl Place {
    /// The shim is in `front`, the fake in `bin`.
    fn new(node: Node) -> Self {
        node.write("bin/does", "");
        node.write("bin/loads", support::LOADS);
        write_program(&node.path("bin/modprobe"), FAKE);
        fs::create_dir(node.path("front")).expect("a directory");
        symlink(GATE, node.path("front/modprobe")).expect("a link");
        Self { node }
    }

    /// A node on which the real one would load: the fake one says and does what it would.
    fn that_loads() -> Option<Self> {
        if !may_load() {
            return None;
        }
        let place = Self::new(Node::ready().with_peermem("new")?);
        place.does(&format!(
            r#"root={root}
for word in "$@"; do [ "$word" = --show-depends ] && {{ echo "insmod $root/{VIDEO}/nvidia.ko"; echo "insmod $root/{VIDEO}/nvidia-peermem.ko"; exit; }}; done
case " $* " in *peermem*) ;; *) exit "${{OTHERS:-0}}" ;; esac
. "$root/bin/loads"
"#,
            root = place.node.root().display()
        ));
        Some(place)
    }

    fn does(&self, script: &str) {
        self.node.write("bin/does", script);
    }

    fn does_now(&self) -> String {
        fs::read_to_string(self.node.path("bin/does")).expect("a script")
    }

    /// A PATH of these directories of the node, before the usual ones.
    fn path(&self, names: &[&str]) -> String {
        names.iter().fold(String::new(), |path, name| path + &format!("{}:", self.node.path(name).display()))
            + "/usr/bin:/bin"
    }

    /// `modprobe` by PATH, in which the shim is first.
    fn modprobe(&self, arguments: &[&str]) -> Command {
        let path = |relative: &str| self.node.path(relative);
        let mut command = gate_by(&path("front/modprobe"));
        with_places_in_variables(&mut command, self.node.root())
            .args(arguments)
            .env("PATH", self.path(&["front", "bin"]))
            .env("PEERMEM_GATE_TERMINATION_LOG", path("last-words"))
            .env("PEERMEM_GATE_SETTLE", "0s")
            .env("PEERMEM_GATE_TIMEOUT", "20s");
        command
    }

    /// The same where the driver is, as `modprobe -d` has it.
    fn load(&self, arguments: &[&str]) -> Command {
        let root = self.node.root().to_str().expect("a plain path").to_owned();
        self.modprobe(&[&["-d", &root][..], arguments].concat())
    }

    /// What the fake was called with, a call a line.
    fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.node.path("bin/calls")).unwrap_or_default();
        let words = |line: &str| line.split_terminator('\0').map(str::to_owned).collect();
        calls.lines().map(words).collect()
    }
}

fn may_load() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
    let may = mask.is_some_and(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & 1 << 16 != 0));
    if !may {
        skip("no CAP_SYS_MODULE, without which load does not begin");
    }
    may
}

fn the_shim_passes_other_command_lines_on_unchanged() {
    let place = Place::new(Node::ready());
    place.does("exit 7");
    for arguments in RECORDED {
        // Nothing ours is even read.
        let mut command = place.modprobe(arguments);
        let output = output(command.env("PEERMEM_GATE_TIMEOUT", "nonsense"));
        assert_eq!(code(output.status), 7, "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
        assert_eq!(place.calls().pop().unwrap(), *arguments);
    }
    assert_eq!(place.calls().len(), RECORDED.len());
}

fn a_modprobe_run_by_the_shim_ends_by_its_own_signals() {
    let place = Place::new(Node::ready());
    place.does("kill -TERM $$");
    assert_eq!(code(output(&mut place.modprobe(&["nvidia"])).status), 143);
    place.does("kill -KILL $$");
    assert_eq!(code(output(&mut place.modprobe(&["-r", "nvidia-peermem"])).status), 137);
}

fn the_shim_loads_nvidia_peermem_once_every_condition_is_met(place: &Place) {
    for spelling in ["nvidia-peermem", "nvidia_peermem"] {
        let output = output(&mut place.load(&[spelling]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(output.status), 0, "{said}");
        let last = place.calls().pop().unwrap();
        assert_eq!(last[2..], [spelling.to_owned()], "{said}");
    }
    let calls = place.calls();
    assert_eq!(calls.len(), 3, "asked, loaded; and told again that it is loaded: {calls:?}");
    assert_eq!(calls[0][0], "--show-depends");
}

fn the_shim_does_not_load_nvidia_peermem_before_every_condition_is_met(place: &Place) {
    let marker = place.node.path(MARKER);
    fs::remove_file(&marker).unwrap();
    let held = output(place.load(&["-a", "nvidia-peermem"]).env("PEERMEM_GATE_TIMEOUT", "300ms"));
    assert_eq!(code(held.status), 124);
    assert_eq!(place.calls(), Vec::<Vec<String>>::new());
    let last_words = fs::read_to_string(place.node.path("last-words")).unwrap();
    assert!(last_words.contains("MarkerAbsent"), "{last_words}");

    let child = place.load(&["-a", "nvidia-peermem"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut waiting = Process::new(child);
    assert!(!waiting.ends_within(std::time::Duration::from_millis(200)));
    place.node.set_marker();
    assert_eq!(code(waiting.ended()), 0);
}

fn the_shim_loads_other_modules_at_once_and_their_failure_counts(place: &Place) {
    let mut command = place.load(&["-a", "nvidia-peermem", "X=Y"]);
    let output = output(command.env("OTHERS", "1"));
    assert_eq!(code(output.status), 1, "{}", String::from_utf8_lossy(&output.stderr));
    let calls = place.calls();
    let words: Vec<_> =
        calls.iter().map(|call| call.iter().skip_while(|w| *w != "-a").collect::<Vec<_>>()).collect();
    assert_eq!(words, [vec!["-a", "X=Y"], vec!["-a", "nvidia-peermem"], vec!["-a", "nvidia-peermem"]]);
    assert!(place.node.path("sys/module/nvidia_peermem").exists(), "loaded all the same");
}

fn the_shim_does_not_try_to_load_a_stub() {
    let Some(node) = Node::ready().with_peermem("stub") else { return };
    let place = Place::new(node);
    let output = output(&mut place.load(&["nvidia-peermem"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(output.status), 3, "{said}");
    assert!(said.contains("is a stub") && said.contains("delete the driver pod"), "{said}");
    assert!(place.calls().is_empty());
}

fn the_shim_drops_force(place: &Place) {
    let output = output(&mut place.load(&["--force-modversion", "nvidia-peermem"]));
    assert_eq!(code(output.status), 0);
    assert!(place.calls().iter().flatten().all(|word| !word.contains("force")), "{:?}", place.calls());
    assert!(String::from_utf8_lossy(&output.stderr).contains("force"));
}

fn the_shim_refuses_a_plan_that_loads_additional_modules(place: &Place) {
    let file = place.node.path(VIDEO).join("nvidia-peermem.ko").display().to_string();
    place.does(&format!("echo 'insmod /x/mlx4_core.ko'; echo 'insmod {file}'"));
    // It may still come.
    let (status, said) =
        support::refusal(place.load(&["nvidia-peermem"]).env("PEERMEM_GATE_TIMEOUT", "300ms"));
    assert_eq!(status, 124, "{said}");
    let last_words = fs::read_to_string(place.node.path("last-words")).unwrap();
    assert!(last_words.contains("would also load mlx4_core"), "{last_words}");
    assert!(said.contains("would also load mlx4_core"), "{said}");
    place.does(&format!("echo 'install /sbin/anything'; echo 'insmod {file}'"));
    let (status, said) = support::refusal(&mut place.load(&["nvidia-peermem"]));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("`/sbin/anything`"), "{said}");
    place.does("echo 'insmod /x/nvidia-peermem.ko'");
    let (status, said) = support::refusal(&mut place.load(&["nvidia-peermem"]));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("would load /x/nvidia-peermem.ko"), "{said}");
}

fn the_shim_explains_a_refusal_and_retries_a_temporary_one(place: &Place) {
    let loads = place.does_now();
    let (begin, end) = loads.split_once(LOADS).unwrap();
    let busy = "modprobe: ERROR: could not insert 'nvidia_peermem': Device or resource busy";
    place.does(&format!(
        "{begin}[ -e {tried} ] || {{ touch {tried}; echo \"{busy}\" >&2; exit 1; }}\n{LOADS}{end}",
        tried = place.node.path("tried").display()
    ));
    let tried = output(&mut place.load(&["nvidia-peermem"]));
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert_eq!(code(tried.status), 0, "{said}");
    assert!(said.contains("EBUSY") && said.contains("not loaded yet"), "{said}");

    let Some(place) = Place::that_loads() else { return };
    let invalid = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument";
    place.does(&format!("{begin}echo \"{invalid}\" >&2; exit 1"));
    // The root of the first place is in its words.
    let does = place.does_now();
    let own = place.node.root().display().to_string();
    let other = does.lines().next().unwrap().trim_start_matches("root=").to_owned();
    place.does(&does.replace(&other, &own));
    let (status, said) = support::refusal(&mut place.load(&["nvidia-peermem"]));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("EINVAL") && said.contains("what to do"), "{said}");
}

fn a_modprobe_that_succeeds_without_a_live_module_is_a_failure(place: &Place) {
    let loads = place.does_now();
    place.does(loads.split_once(LOADS).unwrap().0);
    let (status, said) = support::refusal(&mut place.load(&["nvidia-peermem"]));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("not live"), "{said}");
}

fn a_marker_that_goes_while_modprobe_runs_is_reported_at_once(place: &Place) {
    let loads = place.does_now();
    place.does(&format!("{loads}rm {}\n", place.node.path(MARKER).display()));
    let (status, said) = support::refusal(&mut place.load(&["nvidia-peermem"]));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("MOFED began to restart") && said.contains("rmmod nvidia_peermem"), "{said}");
}

fn a_disabled_or_dry_run_shim_lets_modprobe_run(place: &Place) {
    fs::remove_file(place.node.path(MARKER)).unwrap();
    let (status, said) =
        support::refusal(place.load(&["nvidia-peermem"]).env("PEERMEM_GATE_DISABLED", "drill 7"));
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("drill 7") && said.contains("WARN"), "{said}");
    assert_eq!(place.calls().len(), 1);

    let (status, said) =
        support::refusal(place.load(&["nvidia-peermem"]).env("PEERMEM_GATE_DRY_RUN", "true"));
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("would wait for MarkerPresent"), "{said}");
    assert_eq!(place.calls().len(), 2);
}

fn the_shim_never_finds_itself_as_modprobe() {
    let place = Place::new(Node::ready());
    let lonely = |arguments: &[&str]| {
        let mut command = place.modprobe(arguments);
        // Behind PATH the usual directories are looked through: only a root of its own is without them.
        command.env("PEERMEM_GATE_MODPROBE", place.node.path("front/modprobe"));
        support::refusal(&mut command)
    };
    for arguments in [&["nvidia"][..], &["nvidia-peermem"], &["-r", "nvidia"]] {
        let (status, said) = lonely(arguments);
        assert_eq!(status, 126, "{said}");
        assert!(said.contains("it is this program"), "{said}");
    }
    // A copy by another name in front of the real one.
    support::copy_program(GATE, &place.node.path("copy-of-the-gate"));
    let copy = place.node.path("copy");
    fs::create_dir(&copy).unwrap();
    symlink("../copy-of-the-gate", copy.join("modprobe")).unwrap();
    place.does("exit 5");
    let path = place.path(&["front", "copy", "bin"]);
    let output = output(place.modprobe(&["nvidia"]).env("PATH", path));
    assert_eq!(code(output.status), 5);
}

fn a_shim_without_any_other_modprobe_says_so() {
    let unshare = ["unshare", "-m"];
    if !can(&[&unshare[..], &["true"]].concat()) {
        return;
    }
    let place = Place::new(Node::ready());
    let shim = place.modprobe(&["nvidia"]);
    // Nothing called modprobe is left in the usual directories.
    let hide = "for d in /usr/local/sbin /usr/local/bin /usr/sbin /sbin; do mount -t tmpfs none $d; done; exec \"$@\"";
    let mut command = support::wrapped(unshare.into_iter().chain(["/bin/bash", "-c", hide, "hide"]), &shim);
    command.env("PATH", place.path(&["front"]));
    let (status, said) = support::refusal(&mut command);
    assert_eq!(status, 127, "{said}");
    assert!(
        said.contains("only this program, or one that calls it, is called modprobe")
            && said.contains("install kmod"),
        "{said}"
    );
    assert!(Path::new("/usr/sbin").exists());
}

/// A script called modprobe, before the real one, that hands its calls to the shim: each would be the other's
/// modprobe.
fn a_script_that_calls_the_shim_is_not_run_forever() {
    for (does, how) in [("exec", "as the same process"), ("", "as a child")] {
        let place = Place::new(Node::ready());
        let shim = place.node.path("front/modprobe");
        place.does(&format!("{does} {} \"$@\"", shim.display()));
        let mut process = Process::new(place.modprobe(&["nvidia"]).spawn().expect("it starts"));
        assert!(process.ends_within(Duration::from_secs(20)), "{how}: it never ends");
        let calls = place.calls().len();
        assert!((1..=5).contains(&calls), "{how}: {calls} calls");
        // One behind it is found in the end.
        let place = Place::new(Node::ready());
        place.does(&format!("{does} {} \"$@\"", place.node.path("front/modprobe").display()));
        fs::create_dir(place.node.path("real")).expect("a directory");
        let script = format!("#!/bin/sh\necho \"$@\" >{}\n", place.node.path("real/calls").display());
        write_program(&place.node.path("real/modprobe"), script);
        let mut modprobe = place.modprobe(&["nvidia"]);
        modprobe.env("PATH", place.path(&["front", "bin", "real"]));
        assert_eq!(code(output(&mut modprobe).status), 0, "{how}");
        assert_eq!(fs::read_to_string(place.node.path("real/calls")).expect("a call"), "nvidia\n", "{how}");
    }
}

tests![
    [
        the_shim_passes_other_command_lines_on_unchanged,
        a_modprobe_run_by_the_shim_ends_by_its_own_signals,
        the_shim_never_finds_itself_as_modprobe,
        a_shim_without_any_other_modprobe_says_so,
        a_script_that_calls_the_shim_is_not_run_forever,
    ],
    on Place::that_loads [
        the_shim_loads_nvidia_peermem_once_every_condition_is_met,
        the_shim_does_not_load_nvidia_peermem_before_every_condition_is_met,
        the_shim_loads_other_modules_at_once_and_their_failure_counts,
        the_shim_drops_force,
        the_shim_refuses_a_plan_that_loads_additional_modules,
        the_shim_explains_a_refusal_and_retries_a_temporary_one,
        a_modprobe_that_succeeds_without_a_live_module_is_a_failure,
        a_marker_that_goes_while_modprobe_runs_is_reported_at_once,
        a_disabled_or_dry_run_shim_lets_modprobe_run,
    ],
    if may_load [the_shim_does_not_try_to_load_a_stub],
];
