// SPDX-License-Identifier: Apache-2.0
//! What the pages claim of upstream by name is in one table, doctor/tests/upstream.txt, with the file that has it and
//! that file's date.

use crate::tree::{documents, read};
use std::collections::BTreeSet;

const TABLE: &str = "doctor/tests/upstream.txt";
/// Labels of upstream's objects, by domain.
const DOMAINS: [&str; 4] = ["nvidia.com", "feature.node.kubernetes.io", "openshift.io", "app.kubernetes.io"];
/// Ours, and labels that a chart's user sets.
const OWN_LABELS: [&str; 1] = ["app.kubernetes.io/name"];
/// Everything below these directories is of the driver's or MOFED's files.
const TREES: [&str; 2] = ["/run/nvidia/driver", "/run/mellanox/drivers/usr/src"];
/// The driver toolkit's, in a volume of the pod.
const FLAG: &str = "driver_built";
/// Variables, capabilities and settings of the kernel, kmod, NCCL, nvidia-smi, terminals and this project.
const OTHER_WORDS: [&str; 11] = [
    "CLICOLOR_FORCE",
    "CMDLINE_OPTS",
    "DRIVER_UNLOAD",
    "IMAGE_WITH_A_SHELL",
    "IPC_LOCK",
    "MLNX_OFED",
    "MODPROBE_MODULE",
    "MODPROBE_OPTIONS",
    "NODE_NAME",
    "NO_COLOR",
    "ROW_REMAPPER",
];
const OTHER_PREFIXES: [&str; 7] = ["CAP_", "CONFIG_", "DAC_", "NCCL_", "PEERMEM_GATE_", "SWAP_", "SYS_"];

#[test]
fn every_upstream_name_of_the_pages_is_in_the_table_with_its_file_and_date() {
    let text = read(TABLE);
    let names = table(&text);
    assert!(names.len() > 40, "only {names:?} were found");
    let mut claims = BTreeSet::new();
    for page in documents().into_iter().filter(|page| is_for_users(page)) {
        let text = read(&page);
        for claim in words(&text).filter(|word| is_claim(word)) {
            assert!(is_known(claim, &names), "{page}: {claim} is not in {TABLE}");
            claims.insert(claim.to_owned());
        }
    }
    let is_claimed = |name: &&str| claims.iter().any(|claim| is_known(claim, &[*name]));
    let unclaimed: Vec<_> = names.iter().filter(|name| !is_claimed(name)).collect();
    assert_eq!(unclaimed, [&""; 0], "no page names them any longer");
}

#[test]
fn claims_are_told_from_other_words() {
    let claims = [
        "nvidia.com/gpu.deploy.driver",
        "nvidia-peermem-ctr",
        "/run/nvidia/nvidia-driver.state",
        ".driver-ctr-ready",
        "driver_built",
        "FORCE_REINSTALL",
    ];
    let text = claims.map(|claim| format!("`{claim}`, ")).concat();
    assert_eq!(words(&text).filter(|word| is_claim(word)).collect::<Vec<_>>(), claims);
    let others =
        "https://docs.nvidia.com/x PEERMEM_GATE_FOR CAP_SYS_ADMIN /run/nvidia/.peermem-gate-keeper KREL a_b";
    assert_eq!(words(others).filter(|word| is_claim(word)).collect::<Vec<_>>(), [""; 0]);
    let names =
        ["/run/nvidia/driver", "/run/nvidia/validations/.driver-ctr-ready", "nvidia.com/gpu.deploy.*"];
    for known in
        ["/run/nvidia", "/run/nvidia/driver/usr", ".driver-ctr-ready", "nvidia.com/gpu.deploy.driver"]
    {
        assert!(is_known(known, &names), "{known}");
    }
    for unknown in
        ["/run/nvidia/validations/.ready", "/run/nvidia/drive", "nvidia.com/gpu.count", ".ctr-ready"]
    {
        assert!(!is_known(unknown, &names), "{unknown}");
    }
}

/// Each name, after its source's commit and date and before its file.
fn table(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut has_source = false;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<_> = line.split_whitespace().collect();
        match (line.starts_with(' '), &columns[..]) {
            (true, [name, file]) if has_source && file.contains('.') | file.contains('/') => {
                names.push(*name);
            }
            (false, [_, commit, date]) => {
                assert!(commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{TABLE}: {line}");
                assert!(date.len() == 10 && date.starts_with("20"), "{TABLE}: {line}");
                has_source = true;
            }
            _ => panic!("{TABLE}: {line:?} is neither SOURCE COMMIT DATE nor a name with its file"),
        }
    }
    names
}

fn is_for_users(page: &str) -> bool {
    page == "README.md" || page == "SECURITY.md" || page.starts_with("docs/")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._/*-".contains(c);
    text.split(move |c| !is_part(c)).map(|word| {
        let word = word.trim_end_matches(['.', '/', '-', '*']);
        word.strip_prefix("/host").filter(|rest| rest.starts_with("/run")).unwrap_or(word)
    })
}

fn is_claim(word: &str) -> bool {
    is_label(word) || is_container(word) || is_path(word) || is_variable(word)
}

fn is_label(word: &str) -> bool {
    let Some((domain, name)) = word.split_once('/') else { return false };
    let is_upstreams = DOMAINS.iter().any(|upstream| {
        domain.strip_suffix(upstream).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    is_upstreams && !name.contains('/') && !OWN_LABELS.contains(&word)
}

fn is_container(word: &str) -> bool {
    let is_name = !word.contains(['/', '.']);
    is_name && (word.ends_with("-ctr") || word.ends_with("-validation"))
        || ["mofed-container", "k8s-driver-manager"].contains(&word)
}

fn is_path(word: &str) -> bool {
    let is_of_upstream = ["/run/nvidia", "/run/mellanox"].iter().any(|start| word.starts_with(start));
    let is_hidden = word.starts_with('.') && (word.ends_with("-ready") || word.ends_with("-status"));
    let is_file = is_hidden || word.ends_with(FLAG);
    is_file || is_of_upstream && !word.contains("peermem-gate")
}

fn is_variable(word: &str) -> bool {
    let is_one = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    word.contains('_')
        && word.split('_').all(is_one)
        && !OTHER_WORDS.contains(&word)
        && !OTHER_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn is_known(claim: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        let below =
            |whole: &str, part: &str| whole.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'));
        *name == claim
            || name.strip_suffix('*').is_some_and(|start| claim.starts_with(start.trim_end_matches('.')))
            || claim.starts_with('/') && below(name, claim)
            || TREES.contains(name) && below(claim, name)
            || claim.starts_with('.') && name.rsplit('/').next() == Some(claim)
            || *name == FLAG && claim.ends_with(FLAG)
    })
}
