// SPDX-License-Identifier: Apache-2.0
//! From words to verdicts, each word once.

use super::*;
use crate::ready::observation::Unreadable;

fn say(stderr: &str, lines: &[&str]) -> Refusal {
    let log = Ok(lines.iter().map(|line| (*line).to_owned()).collect());
    let others = ["ib_uverbs".to_owned()];
    refusal(&Attempt {
        code: 1,
        stderr,
        log: &log,
        file: None,
        is_packed: false,
        by_headers: false,
        others: &others,
    })
}

const EINVAL: &str = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n";
const ENOENT: &str = "modprobe: ERROR: could not insert 'nvidia_peermem': Unknown symbol in module, or unknown parameter (see dmesg)\n";
const EBUSY: &str = "modprobe: ERROR: could not insert 'nvidia_peermem': Device or resource busy\n";

#[test]
fn the_symbol_that_the_kernel_refused_is_known() {
    let symbol = |lines: &[&str]| say(EINVAL, lines).symbol;
    let refused = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client";
    assert_eq!(symbol(&[refused]).as_deref(), Some("ib_register_peer_memory_client"));
    assert_eq!(symbol(&["ib_uverbs: disagrees about version of symbol ib_register_client"]), None);
    assert_eq!(symbol(&["nvidia_peermem: no symbol version for ib_register_peer_memory_client"]), None);
}

#[test]
fn the_kernels_message_decides_the_reason_of_a_refusal() {
    let cases: &[(&str, &[&str], &str, bool)] = &[
        (
            EINVAL,
            &[
                "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
                "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            ],
            "another MOFED",
            false,
        ),
        (
            EINVAL,
            &["nvidia_peermem: disagrees about version of symbol nvidia_p2p_free_page_table"],
            "another nvidia",
            false,
        ),
        (
            EINVAL,
            &[
                "nvidia_peermem: no symbol version for ib_register_peer_memory_client",
                "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            ],
            "without the Module.symvers",
            false,
        ),
        (
            EINVAL,
            &["nvidia_peermem: `abc' invalid for parameter `persistent_api_support'"],
            "not a number",
            false,
        ),
        (
            EINVAL,
            &["nvidia-peermem nv_mem_param_peerdirect_conf_check:619 ERROR invalid peerdirect_support \
                    param value 2"],
            "does not accept",
            false,
        ),
        (
            EINVAL,
            &[
                "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/nv_mem'",
                "nvidia-peermem nv_mem_nc_client_init:603 ERROR nv_mem_client_init -- error while \
                    registering nc client",
            ],
            "nv_peer_mem",
            false,
        ),
        (
            ENOENT,
            &["nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"],
            "not live",
            true,
        ),
        (
            EBUSY,
            &[
                "nvidia_peermem: gave up waiting for init of module ib_uverbs.",
                "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -16)",
            ],
            "30 s",
            true,
        ),
        (
            EINVAL,
            &[
                "ib_uverbs: disagrees about version of symbol ib_unregister_client",
                "ib_uverbs: Unknown symbol ib_unregister_client (err -22)",
            ],
            "tried to load ib_uverbs",
            true,
        ),
    ];
    for (stderr, lines, words, transient) in cases {
        let refusal = say(stderr, lines);
        assert!(refusal.verdict.contains(words), "{lines:?}: {refusal:?}");
        assert_eq!(refusal.transient, *transient, "{refusal:?}");
        assert_eq!(refusal.lines.len(), lines.len());
    }
}

#[test]
fn the_errno_is_read_from_modprobes_message() {
    assert_eq!(say(EINVAL, &[]).errno, Some("EINVAL"));
    assert_eq!(say(ENOENT, &[]).errno, Some("ENOENT"));
    assert_eq!(
        say("modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\n", &[]).errno,
        Some("EKEYREJECTED")
    );
    assert_eq!(say("whatever\n", &[]).errno, None);
}

#[test]
fn a_refusal_without_a_kernel_message_says_that_there_was_none() {
    let stub = ModuleInfo::default();
    let silent = refusal(&Attempt {
        code: 1,
        stderr: EINVAL,
        log: &Ok(vec![]),
        file: Some(&stub),
        is_packed: false,
        by_headers: false,
        others: &[],
    });
    assert!(silent.verdict.contains("stub") && silent.verdict.contains("says nothing"), "{silent:?}");
    let deaf = Err(Unreadable { path: "/dev/kmsg".into(), why: "Operation not permitted".into() });
    let unheard = refusal(&Attempt {
        code: 1,
        stderr: EBUSY,
        log: &deaf,
        file: None,
        is_packed: false,
        by_headers: false,
        others: &[],
    });
    assert!(unheard.transient && unheard.verdict.contains("cannot be read"), "{unheard:?}");
}

#[test]
fn without_a_kernel_message_modprobe_and_the_file_decide_the_reason() {
    let check = |code, stderr: &str, file, is_packed, words: &str, is_transient: bool| {
        let log = Ok(vec![]);
        let refusal =
            refusal(&Attempt { code, stderr, log: &log, file, is_packed, by_headers: false, others: &[] });
        assert!(refusal.verdict.contains(words), "{stderr}: {refusal:?}");
        assert_eq!(
            (refusal.transient, refusal.remedy.is_empty()),
            (is_transient, is_transient),
            "{refusal:?}"
        );
    };
    for (text, words, is_transient) in [
        ("Invalid argument", "its symbol CRCs differ", false),
        ("Unknown symbol in module, or unknown parameter (see dmesg)", "was not live", true),
        ("Device or resource busy", "was busy", true),
        ("Resource temporarily unavailable", "was busy", true),
        ("Exec format error", "another kernel or machine", false),
        ("Key was rejected by service", "trusts no key", false),
        ("Required key not available", "trusts no key", false),
        ("Operation not permitted", "may not load modules", false),
        ("Permission denied", "may not load modules", false),
        ("Cannot allocate memory", "no memory", true),
        ("Bad message", "it is damaged", false),
        ("No such device", "modprobe failed; ", false),
    ] {
        let stderr = format!("modprobe: ERROR: could not insert 'nvidia_peermem': {text}\n");
        check(1, &stderr, None, false, words, is_transient);
    }
    let no_module = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.1\n";
    let install = "modprobe: ERROR: Error running install command '/bin/false' for module nvidia_peermem\n";
    let packed = "modprobe: ERROR: could not insert 'nvidia_peermem': Exec format error\n";
    let imports = [crate::ready::PEER_MEMORY_SYMBOLS[0].to_owned()].into();
    let fits = ModuleInfo { imports, ..ModuleInfo::default() };
    check(1, EINVAL, Some(&fits), false, "although its file fits", false);
    check(1, packed, None, true, "cannot unpack", false);
    check(1, no_module, None, false, "finds no such module", false);
    check(1, install, None, false, "an install line", false);
    check(1, "whatever\n", None, false, "modprobe failed; ", false);
    check(1, " \n", None, false, "without a message", true);
    check(128, "", None, false, "without a message", true);
    check(137, "", None, false, "ended by a signal", false);
}

#[test]
fn only_a_line_of_the_kernels_module_loader_names_another_module() {
    let verdict = |line: &str| say(EINVAL, &[line]).verdict;
    let other = verdict("ib-uverbs: disagrees about version of symbol ib_unregister_client");
    assert!(other.contains("tried to load ib-uverbs"), "{other}");
    let nobodys = verdict("a sentence: Unknown symbol ib_dealloc_pd (err -2)");
    assert!(nobodys.contains("is not live") && !nobodys.contains("tried to load"), "{nobodys}");
}

#[test]
fn a_refused_load_is_reported_in_one_line_with_its_remedy() {
    let of = |errno, remedy| Refusal {
        errno,
        verdict: "it is a stub".to_owned(),
        remedy,
        transient: false,
        symbol: None,
        lines: vec![],
    };
    assert_eq!(of(Some("EINVAL"), "build it").to_string(), "EINVAL: it is a stub; what to do: build it");
    assert_eq!(of(None, "").to_string(), "it is a stub");
}

#[test]
fn kernel_lines_about_other_things_are_left_out_of_a_refusal() {
    let refusal = say(
        EINVAL,
        &["eth0: link up", "nvidia: module license taints kernel.", "foo: Unknown symbol bar (err -2)"],
    );
    assert!(refusal.lines.is_empty(), "{refusal:?}");
    assert!(!refusal.transient);
}
