// SPDX-License-Identifier: Apache-2.0
//! `rebuild --signing` where the kernel loads only signed modules: sign-file is a script. The kernel's own program is
//! in tests/vm/build, which signs by it.

use crate::obstacles::is_rebuilt;
use crate::place::{Place, TARGET};
use crate::support::{self, Gate, KERNEL, can_mount, code, output, tests, wrapped};
use peermem_gate::rebuild::Kind;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

const SIGN_FILE: &str = r#"#!/bin/busybox sh
echo "sign $1 $(busybox cat "$2") $(busybox cat "$3" | busybox head -n 1)" >>/calls
printf '~Module signature appended~\n' >>"$4"
"#;
/// An extension with the key id 0c5a3b7e, and nothing else.
const CERTIFICATE: &str =
    "-----BEGIN CERTIFICATE-----\nMAwGA1UdDgQGBAQMWjt+MA==\n-----END CERTIFICATE-----\n";
const KEYS: &str =
    "14b5b0a6 I------     1 perm 1f030000     0     0 asymmetri own: 0c5a3b7e: X509.rsa 0c5a3b7e []\n";

/// The kernel enforces signatures, trusts the certificate, and its build tree has sign-file.
fn enforced() -> Option<Place> {
    let place = Place::new()?;
    place.node.write("sys/module/module/parameters/sig_enforce", "Y\n");
    place.node.write("own/tls.key", "the-key");
    fs::set_permissions(place.node.path("own/tls.key"), fs::Permissions::from_mode(0o400)).expect("a mode");
    place.node.write("own/tls.crt", CERTIFICATE);
    place.node.write("proc/keys", KEYS);
    let tree = format!("lib/modules/{KERNEL}/build");
    place.node.write(&format!("{tree}/include/config/auto.conf"), "CONFIG_MODULE_SIG_HASH=\"sha512\"\n");
    fs::create_dir_all(place.node.path(&format!("{tree}/scripts"))).expect("a directory");
    support::write_program(&place.node.path(&format!("{tree}/scripts/sign-file")), SIGN_FILE);
    Some(place)
}

/// With the machine's own /proc in the driver's root, as a container has it.
fn run(place: &Place, verb: &str, more: &[&str]) -> Command {
    let shown = place.node.path("shown");
    fs::create_dir_all(&shown).expect("a directory");
    let script = r#"mount --bind "$0" "$0/shown"; mount --rbind /proc "$0/shown/proc"; exec "$@""#;
    let by = ["unshare", "-m", "sh", "-ec", script].map(PathBuf::from);
    let mut command = place.run_below(&shown, verb, more);
    command.env("PATH", "/usr/bin:/bin:/usr/sbin");
    wrapped(by.into_iter().chain([place.node.root().to_owned()]), &command)
}

fn rebuild(place: &Place, more: &[&str]) -> (i32, String) {
    let output = output(&mut run(place, "rebuild", more));
    (code(output.status), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}

fn what_is_built_is_signed_with_the_users_key_and_the_key_is_nowhere(place: &Place) {
    let own = place.node.path("own");
    let (ends, said) = rebuild(place, &["--signing", own.to_str().expect("text")]);
    assert_eq!(ends, 0, "{said}");
    let called = place.called().join("\n");
    assert!(called.contains("sign sha512 the-key -----BEGIN CERTIFICATE-----"), "{called}");
    let installed = fs::read(place.node.path(TARGET)).expect("it is there");
    assert!(installed.ends_with(b"~Module signature appended~\n"));
    assert!(!said.contains("the-key"), "{said}");
    let build_dir = fs::read_dir(place.node.path("var/lib/peermem-gate")).expect("a directory");
    assert!(build_dir.flatten().all(|file| !file.file_name().to_string_lossy().starts_with("build-")));
}

fn without_a_key_that_the_kernel_trusts_nothing_is_built(place: &Place) {
    let own = place.node.path("own");
    let own = own.to_str().expect("text");
    let refused = |more: &[&str], kind: Kind| {
        let (ends, said) = place.rebuild(more);
        assert!(ends == 3 && said.contains(&kind.to_string()), "{kind}: {said}");
        assert_eq!(place.makes(), 0, "{kind}");
    };
    refused(&[], Kind::SignaturesEnforced);
    place.node.write("proc/keys", "");
    refused(&["--signing", own], Kind::SigningKeyUnusable);
    place.node.write("proc/keys", KEYS);
    fs::set_permissions(place.node.path("own/tls.key"), fs::Permissions::from_mode(0o444)).expect("a mode");
    refused(&["--signing", own], Kind::SigningKeyUnusable);
    fs::set_permissions(place.node.path("own/tls.key"), fs::Permissions::from_mode(0o400)).expect("a mode");
    place.node.remove(&format!("lib/modules/{KERNEL}/build/scripts/sign-file"));
    refused(&["--signing", own], Kind::HeadersMissing);
}

/// Whoever enrolls it sees the module signed with it.
fn a_key_that_the_kernel_trusts_later_is_used_without_a_signal(place: &Place) {
    place.node.write("proc/keys", "");
    let own = place.node.path("own");
    let own = own.to_str().expect("text");
    let options = ["--rebuild", "auto", "--suspect-hold", "1s", "--signing", own];
    let mut keep = Gate::start(&mut run(place, "keep", &options));
    keep.logs(&format!("not rebuilt: {}: ", Kind::SigningKeyUnusable));
    place.node.write("proc/keys", KEYS);
    is_rebuilt(Kind::SigningKeyUnusable, place);
}

tests![
    if can_mount on enforced [
        what_is_built_is_signed_with_the_users_key_and_the_key_is_nowhere,
        a_key_that_the_kernel_trusts_later_is_used_without_a_signal,
    ],
    on enforced [without_a_key_that_the_kernel_trusts_nothing_is_built],
];
