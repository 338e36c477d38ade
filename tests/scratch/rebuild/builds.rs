// SPDX-License-Identifier: Apache-2.0
//! What a build is given, where it looks for that, and how it ends.

use super::failures::is_alive;
use super::{Change, until};
use crate::place::{CONFTEST, Place, SOURCES, TARGET};
use crate::support::{
    self, DRIVERS, KERNEL, Node, SYMVERS, VIDEO, can_mount, code, note, output, refusal, skip, tests,
};
use peermem_gate::peermem::module_file;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// MOFED's container shows its /usr/src in the driver's, too.
pub(super) const MOFED_SHOWS: &str = "run/mellanox/drivers/usr/src";

fn the_build_directory_has_only_the_sources_symbols_and_mofeds_path(place: &Place) {
    place.making(
        "cat $copy/conftest.sh $copy/nvidia-peermem/nvidia-peermem.c $symvers >/seen; ls -R $copy >/listed; cp $made $copy/nvidia-peermem.ko",
    );
    symlink("busybox", place.node.path("bin/ls")).expect("a link");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let seen = fs::read_to_string(place.node.path("seen")).expect("it was seen");
    assert!(
        !seen.contains("/usr/src/ofa_kernel")
            && seen.contains("MLNX_OFED_KERNEL_DIR=/var/lib/peermem-gate/build-"),
        "{seen}"
    );
    let mark = "MODULE_INFO(rebuilt_by, \"peermem-gate\");";
    assert!(seen.contains(mark), "{seen}");
    let source = fs::read_to_string(place.node.path(&format!("{SOURCES}/nvidia-peermem/nvidia-peermem.c")));
    assert!(!source.expect("text").contains(mark), "in the copy only");
    let theirs = fs::read_to_string(support::mofed().join("../../modules/new/Module.symvers"))
        .expect("a Module.symvers");
    for line in theirs.lines().filter(|line| line.contains("nvidia_p2p")) {
        let (crc, rest) = line.split_once('\t').expect("fields");
        let symbol = rest.split('\t').next().expect("a symbol");
        assert!(seen.contains(&format!("{crc}\t{symbol}\tnvidia\tEXPORT_SYMBOL")), "{line} in {seen}");
    }
    let listed = fs::read_to_string(place.node.path("listed")).expect("it was listed");
    assert!(listed.contains("nv-p2p.h") && !listed.contains("nv.c"), "{listed}");
    assert_eq!(
        fs::read_to_string(place.node.path(&format!("{SOURCES}/conftest.sh"))).expect("text"),
        CONFTEST
    );
}

/// Where no MOFED is, as on AKS: modpost would refuse to see the kernel's own symbols twice.
fn the_kernels_own_rdma_stack_is_built_against_the_kernels_own_symbols(place: &Place) {
    place.is_in_box();
    place.making(
        "if grep -q peer_memory $symvers; then echo 'exported twice'; exit 2; fi
        grep -q nvidia_p2p_get_pages $symvers && cp /made/0x065554c2.ko $copy/nvidia-peermem.ko",
    );
    let run = |verb: &str, more: &[&str]| {
        let output = output(place.run(verb, more).env("USE_HOST_MOFED", "true"));
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        (code(output.status), said)
    };
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (3, 0), "nobody says that no container comes: {said}");
    let (ends, said) = run("rebuild", &["--dry-run"]);
    assert_eq!(ends, 0, "{said}");
    assert!(said.contains("the kernel's own RDMA stack: symbols from"), "{said}");
    let (ends, said) = run("rebuild", &[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
    let (ends, said) = run("load", &["--timeout", "20s"]);
    assert_eq!(ends, 0, "{said}");
}

/// Headers of a MOFED mean that it is still to load its modules: what is live then is not what will stay.
fn the_kernels_own_stack_is_accepted_only_if_no_mofed_has_headers(place: &Place) {
    place.is_in_box();
    let check = || {
        let mut check = place.node.check();
        check.args(["--peermem", "--format", "json"]).env("USE_HOST_MOFED", "true");
        let report: Value = serde_json::from_slice(&output(&mut check).stdout).expect("a report");
        let conditions = report["conditions"].as_array().expect("conditions").clone();
        move |name: &str| conditions.iter().find(|c| c["type"] == name).expect(name).clone()
    };
    let made = |crc: &str| {
        let module = fs::read(place.node.path(&format!("made/{crc}.ko"))).expect("a module");
        place.node.write(&format!("{VIDEO}/nvidia-peermem.ko"), module);
    };
    made("0x3016e014");
    let condition = check();
    for (name, reason) in [
        ("MarkerPresent", "NotRequired"),
        ("ModulesFromMofed", "InTreeWithPeerMemory"),
        ("VersionMatches", "VersionNotExpected"),
        ("HeadersReady", "HeadersComplete"),
        ("PeermemUsable", "SymbolVersionMismatch"),
    ] {
        let condition = condition(name);
        assert_eq!(condition["reason"], reason, "{condition:#}");
        let message = condition["message"].as_str().expect("text");
        assert!(message.contains("kernel's own RDMA stack"), "{message}");
    }
    made("0x065554c2");
    let usable = check()("PeermemUsable");
    assert_eq!(usable["reason"], "Usable", "{usable:#}");
    place.has_a_mofed_to_come();
    let late = check();
    let version = late("VersionMatches");
    assert_eq!(
        (&version["reason"], &version["status"]),
        (&"VersionMismatch".into(), &"False".into()),
        "{version:#}"
    );
    place.node.remove("usr/src/ofa_kernel");
    place.node.remove("usr/src/mlnx-ofa_kernel-24.04");
    // Without the kernel's headers nothing can be built.
    place.node.remove(&format!("lib/modules/{KERNEL}/build/Module.symvers"));
    let headers = check()("HeadersReady");
    assert_eq!(headers["reason"], "HeadersMissing", "{headers:#}");
    assert!(headers["remedy"].as_str().is_some_and(|remedy| remedy.contains("linux-headers")), "{headers:#}");
}

/// Whatever directory holds the sources, and whatever MOFED's tree looks like.
fn every_layout_of_sources_and_headers_is_found() {
    let tree = format!("{DRIVERS}/usr/src/ofa_kernel");
    let shown = format!("{DRIVERS}/usr/src");
    let build = format!("lib/modules/{KERNEL}/build");
    let layouts: [(&str, Change<'_>); 9] = [
        ("nvidia-installer's", &|node| {
            node.rename(SOURCES, "usr/src/kernel-open");
            fs::create_dir(node.path(SOURCES)).unwrap();
            node.rename("usr/src/kernel-open", &format!("{SOURCES}/kernel-open"));
        }),
        ("the proprietary flavor", &|node| {
            node.rename(SOURCES, "usr/src/kernel");
            fs::create_dir(node.path(SOURCES)).unwrap();
            node.rename("usr/src/kernel", &format!("{SOURCES}/kernel"));
        }),
        ("a distribution's", &|node| node.rename(SOURCES, "usr/src/nvidia-current-595.45.04")),
        ("MOFED without the machine", &|node| {
            node.rename(&format!("{tree}/x86_64/{KERNEL}"), &format!("{tree}/{KERNEL}"));
        }),
        ("MOFED's absolute default link", &|node| {
            node.rename(&format!("{tree}/x86_64/{KERNEL}"), &format!("{tree}/built"));
            symlink("/usr/src/ofa_kernel/built", node.path(&format!("{tree}/default"))).unwrap();
        }),
        ("headers that nobody links", &|node| {
            node.rename(&build, &format!("usr/src/linux-headers-{KERNEL}"));
        }),
        ("headers of RHEL", &|node| {
            fs::create_dir(node.path("usr/src/kernels")).unwrap();
            node.rename(&build, &format!("usr/src/kernels/{KERNEL}"));
        }),
        // A link of the image's to a package that is not in it.
        ("headers that MOFED's container shows", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}"));
            symlink(format!("/usr/src/linux-headers-{KERNEL}"), node.path(&build)).unwrap();
        }),
        ("headers that MOFED's container shows, of RHEL", &|node| {
            fs::create_dir(node.path(&shown).join("kernels")).unwrap();
            node.rename(&build, &format!("{shown}/kernels/{KERNEL}"));
        }),
    ];
    for (what, change) in layouts {
        let Some(place) = Place::new() else { return };
        change(&place.node);
        let (ends, said) = place.rebuild(&[]);
        assert!(ends == 0 && place.is_installed(), "{what}: {said}");
        let call = &place.called()[0];
        assert_eq!(call.contains("SYSSRC="), what.starts_with("headers"), "{what}: {call}");
    }
}

/// Neither of another kernel, nor incomplete.
fn only_headers_of_the_running_kernel_that_are_complete_are_taken() {
    let shown = format!("{DRIVERS}/usr/src");
    let build = format!("lib/modules/{KERNEL}/build");
    let others: [(&str, Change<'_>); 3] = [
        ("of another kernel", &|node| node.rename(&build, &format!("{shown}/linux-headers-6.1.0-57-amd64"))),
        ("of a kernel whose name begins so", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}-lowlatency"));
        }),
        ("incomplete", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}"));
            node.remove(&format!("{shown}/linux-headers-{KERNEL}/include/generated/autoconf.h"));
        }),
    ];
    for (what, change) in others {
        let Some(place) = Place::new() else { return };
        change(&place.node);
        let (ends, said) = place.rebuild(&[]);
        assert!(ends == 3 && place.makes() == 0, "{what}: {said}");
        assert!(said.contains("HeadersMissing") && said.contains("/run/mellanox/drivers"), "{what}: {said}");
    }
}

fn a_rebuild_on_arm64_uses_the_arm64_directory(place: &Place) {
    // The modules are x86_64's: a machine that calls itself aarch64 refuses what was built.
    place.node.write("proc/sys/kernel/arch", "aarch64\n");
    let tree = format!("{DRIVERS}/usr/src/ofa_kernel");
    place.node.rename(&format!("{tree}/x86_64"), &format!("{tree}/aarch64"));
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (125, 1), "{said}");
    assert!(said.contains("is for x86_64, but this machine is aarch64"), "{said}");
    place.assert_clean();
}

/// No NIC, and no trace of MOFED.
pub(super) fn has_no_rdma(node: &Node) {
    node.reset_nic();
    node.remove("run/mellanox");
    node.write("proc/modules", "nvidia 1 0 - Live 0x0 (OE)\n");
    for module in support::MODULES {
        node.remove(&format!("sys/module/{module}"));
    }
}

fn a_users_builder_gets_its_inputs_in_variables(place: &Place) {
    let builder = place.node.path("builder");
    support::write_program(
        &builder,
        "#!/bin/sh\nset -e\nenv | grep ^PEERMEM_GATE_ >\"$PEERMEM_GATE_DRIVER_ROOT/told\"\n\
         grep -q nvidia_p2p_get_pages \"$PEERMEM_GATE_NVIDIA_SYMVERS\"\n\
         grep -q ib_register_peer_memory_client \"$PEERMEM_GATE_SYMVERS\"\n\
         cp \"$PEERMEM_GATE_DRIVER_ROOT/made/0x065554c2.ko\" \"$PEERMEM_GATE_OUT\"\n",
    );
    // It needs neither sources nor a compiler below the driver's root.
    place.node.remove(SOURCES);
    place.node.remove("usr/bin/gcc");
    let mut command = place.run("rebuild", &["--rebuild", builder.to_str().unwrap()]);
    command.env("PATH", "/bin:/usr/bin");
    let (ends, said) = refusal(&mut command);
    assert_eq!(ends, 0, "{said}");
    assert!(place.is_installed());
    let told = fs::read_to_string(place.node.path("told")).expect("it was told");
    for line in [
        "PEERMEM_GATE_KERNEL=6.1.0-56-amd64",
        "PEERMEM_GATE_ARCH=x86_64",
        "PEERMEM_GATE_NVIDIA_VERSION=595.45.04",
        "PEERMEM_GATE_REASON=StubModule",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    for name in ["HEADERS", "SYMVERS", "NVIDIA_SYMVERS", "DRIVER_ROOT", "OUT"] {
        assert!(told.contains(&format!("PEERMEM_GATE_{name}=/")), "{name} in {told}");
    }
}

/// What it leaves is judged as what `make` leaves.
fn a_users_builder_that_fails_installs_nothing() {
    for (script, ends, words) in [
        ("echo 'no compiler' >&2; exit 7", 125, "ended with 7: no compiler"),
        (":", 125, "it did not write nvidia-peermem.ko"),
        ("echo garbage >\"$PEERMEM_GATE_OUT\"", 125, "its nvidia-peermem.ko is not a module"),
        ("echo $$ >\"$PEERMEM_GATE_DRIVER_ROOT/make\"; exec sleep 1000", 124, "it has not ended after 1"),
    ] {
        let Some(place) = Place::new() else { return };
        let builder = place.node.path("builder");
        support::write_program(&builder, format!("#!/bin/sh\n{script}\n"));
        let limit = if ends == 124 { "1s" } else { "60s" };
        let options = ["--rebuild", builder.to_str().unwrap(), "--rebuild-timeout", limit];
        let mut rebuild = place.run("rebuild", &options);
        let (ended, said) = refusal(rebuild.env("PATH", "/bin:/usr/bin"));
        assert_eq!(ended, ends, "{script}: {said}");
        assert!(said.contains(words), "{script}: {said}");
        if let Ok(pid) = fs::read_to_string(place.node.path("make")) {
            until("it is gone", || !is_alive(pid.trim()));
        }
        place.assert_clean();
    }
}

fn the_module_gets_the_label_of_its_neighbor() {
    const LABEL: &str = "security.selinux";
    let Some(place) = Place::new() else { return };
    let context = b"system_u:object_r:modules_object_t:s0\0";
    let neighbor = place.node.path(&format!("{VIDEO}/nvidia.ko"));
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(errno) = rustix::fs::setxattr(&neighbor, LABEL, context, flags) {
        return skip(&format!("no label can be set here: {errno}"));
    }
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let mut label = [0; 64];
    let length = rustix::fs::getxattr(place.node.path(TARGET), LABEL, &mut label[..]).expect("a label");
    assert_eq!(&label[..length], context);
}

/// NVIDIA's own sources (tests/vm/real), and a real compiler. Both traps are real, and neither is stepped into: a
/// second `make` in the same tree ends with 0 and makes what the first one made. The second time `load` does all, and
/// its time is shown beside that of a plain `make`.
fn nvidias_own_sources_are_rebuilt_for_one_mofed_after_the_other() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm");
    let source = target.join("nvidia-open-kernel-source");
    if !source.exists() {
        return skip("no sources of NVIDIA's: tests/vm/real fetches them");
    }
    if !can_mount() {
        return;
    }
    let Some(place) = Place::new() else { return };
    let stamp = fs::read_to_string(target.join("stamp")).expect("a stamp");
    let [release, debian] = [0, 1].map(|field| stamp.split(' ').nth(field).expect("a field").to_owned());
    // Debian's, of the day.
    let kbuild = fs::read_to_string(source.join("Kbuild")).expect("theirs");
    let version = kbuild.split("DNV_VERSION_STRING=\\\"").nth(1).and_then(|rest| rest.split('\\').next());
    let version = version.expect("a version");
    place.node.write("sys/module/nvidia/version", format!("{version}\n"));
    let headers = target.join(format!("debian-{debian}/usr/src/linux-headers-{release}"));
    for (first, generation, build) in [("", "new", 1), ("new", "old", 2)] {
        place.mofed_is(generation, build);
        let root = Path::new("/mnt/root");
        let mut rebuild = match first {
            "" => place.run_below(root, "rebuild", &[]),
            _ => place.run_below(root, "load", &["--rebuild", "auto", "--settle", "1s", "--timeout", "10m"]),
        };
        rebuild.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let script = REAL.replace("@KERNEL@", KERNEL).replace("@VERSION@", version);
        let by = ["unshare", "-m", "sh", "-euc", &script, "sh", first, generation].map(PathBuf::from);
        let paths = [place.node.root().into(), source.clone(), headers.clone(), target.clone()];
        let ran = support::wrapped(by.into_iter().chain(paths), &rebuild).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(code(ran.status), 0, "{generation}: {said}");
        note!("{}", String::from_utf8_lossy(&ran.stdout));

        let symvers = fs::read_to_string(place.node.path(SYMVERS)).expect("a Module.symvers");
        let crc = |name: &str| {
            let info = module_file::inspect(&place.node.path(name), &mut || false).expect("a module");
            assert_eq!(info.version.as_deref(), Some(version));
            info.versions.get("ib_register_peer_memory_client").copied()
        };
        let is_live = |crc: u32| symvers.contains(&format!("{crc:#010x}\tib_register_peer_memory_client"));
        assert!(crc("rebuilt.ko").is_some_and(is_live), "{generation}");
        assert!(!crc("trap.ko").is_some_and(is_live), "a second make in place made what is right");
    }
}

/// The machine's programs, and our files over them; nothing of the machine is written to.
const REAL: &str = include_str!("real.sh");

tests![
    on Place::new [
        the_build_directory_has_only_the_sources_symbols_and_mofeds_path,
        the_kernels_own_rdma_stack_is_built_against_the_kernels_own_symbols,
        the_kernels_own_stack_is_accepted_only_if_no_mofed_has_headers,
        a_rebuild_on_arm64_uses_the_arm64_directory,
        a_users_builder_gets_its_inputs_in_variables,
    ],
    [
        every_layout_of_sources_and_headers_is_found,
        only_headers_of_the_running_kernel_that_are_complete_are_taken,
        a_users_builder_that_fails_installs_nothing,
        the_module_gets_the_label_of_its_neighbor,
        nvidias_own_sources_are_rebuilt_for_one_mofed_after_the_other,
    ],
];
