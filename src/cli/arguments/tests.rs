// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn call(line: &str) -> Option<Load> {
    read(&words(line), ModprobeVariables::default())
}

fn load(line: &str) -> Load {
    match call(line) {
        Some(load) => load,
        None => panic!("{line:?} is passed through"),
    }
}

fn behind(options: &str, line: &str) -> Option<Load> {
    read(&words(line), ModprobeVariables { modprobe_options: Some(options.as_ref()), posixly_correct: false })
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

/// The calls of the driver containers' scripts (gpu-driver-container: nvidia-driver, common.sh,
/// `ocp_dtk_entrypoint`; gpu-operator; k8s-driver-manager), and of an install line of modprobe.d.
#[test]
fn nvidias_own_calls_are_read() {
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
        assert_eq!(call(line), expected, "modprobe {line}");
    }
}

#[test]
fn a_command_line_that_loads_nothing_is_passed_through() {
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
        assert_eq!(call(line), None, "modprobe {line}");
    }
}

#[test]
fn command_lines_that_load_peermem_are_gated() {
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
fn the_option_force_is_recognized_and_left_out() {
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
fn the_last_of_repeated_options_counts() {
    let all = load("--first-time -s -d /a -d/b --set-version 1 -S2 nvidia-peermem");
    assert_eq!(all.dirname, Some("/b".into()), "the last one counts");
}

#[test]
fn a_command_line_that_is_not_utf8_is_read_as_kmod_reads_it() {
    let bundle = OsString::from_vec(b"-q\xff".to_vec());
    let args = [bundle.clone(), "nvidia-peermem".into()];
    assert_eq!(read(&args, ModprobeVariables::default()), None, "no option of kmod's");
    let odd = OsString::from_vec(b"x=\xff".to_vec());
    let args = ["-C".into(), bundle.clone(), "nvidia-peermem".into(), OsString::new(), odd.clone()];
    let Some(load) = read(&args, ModprobeVariables::default()) else { panic!("it loads") };
    assert_eq!(load.parameters, [OsString::new(), odd]);
    assert_eq!(load.peermem, args);
    let args = [OsString::new(), "nvidia-peermem".into()];
    assert_eq!(read(&args, ModprobeVariables::default()), None, "an empty word is the module");
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

    assert_eq!(behind("-r", "nvidia-peermem"), None);
    assert_eq!(behind("nvidia", "nvidia-peermem"), None, "a parameter of nvidia");
    let expected = plain("-a nvidia-peermem", Some("-a nvidia"), "");
    assert_eq!(behind("-a nvidia", "nvidia-peermem"), Some(expected));
    let expected = plain("-C conf -- nvidia-peermem -a", None, "-a");
    assert_eq!(behind("-C conf --", "nvidia-peermem -a"), Some(expected));
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_word() {
    let variables = ModprobeVariables { posixly_correct: true, ..ModprobeVariables::default() };
    assert_eq!(
        read(&words("-q nvidia-peermem -r"), variables),
        Some(plain("-q -- nvidia-peermem -r", None, "-r"))
    );
    assert_eq!(read(&words("-r nvidia-peermem"), variables), None);
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
    fn no_command_line_panics_or_loads_a_module_that_it_does_not_name(
        line in proptest::collection::vec(word(), 0..8),
        options in proptest::option::of("[-a-z '\"]{0,12}"),
        posixly_correct in any::<bool>(),
    ) {
        let options = options.map(OsString::from);
        let variables = ModprobeVariables { modprobe_options: options.as_deref(), posixly_correct };
        match read(&line, variables) {
            None => {}
            Some(load) => {
                prop_assert!(line.iter().any(|word| names_peermem(word)));
                // Each of the two means what it says.
                let variables = ModprobeVariables { posixly_correct, ..ModprobeVariables::default() };
                let Some(again) = read(&load.peermem, variables) else { panic!("it loads") };
                prop_assert!(!again.forced);
                prop_assert_eq!(again.others, None);
                prop_assert_eq!(&again.peermem, &load.peermem);
                prop_assert_eq!(&again.parameters, &load.parameters);
                prop_assert_eq!(again.dirname, load.dirname);
                if let Some(others) = load.others {
                    prop_assert_eq!(read(&others, variables), None);
                }
            }
        }
    }
}
