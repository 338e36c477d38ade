// SPDX-License-Identifier: Apache-2.0
//! Lines of modprobe's files, and of the kernel's command line, that keep nvidia from loading.

use super::super::listed;
use peermem_gate::peermem::modprobe_conf;
use peermem_gate::ready::files::read::{lines, small};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::Places;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// kmod's directories: a file name in one hides the same name in those behind it.
const DIRECTORIES: [&str; 5] =
    ["etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"];
const NVIDIA: &str = "nvidia";
/// More files than any of them has.
const FILES: usize = 1000;
/// Bytes of one.
const FILE: u64 = 64 * 1024;
/// Parameters of the kernel's command line that have a list of modules.
const PARAMETERS: [&str; 3] = ["modprobe.blacklist=", "module_blacklist=", "rd.driver.blacklist="];

/// Each line, with its file.
pub(super) fn read(places: &Places) -> Vec<(PathBuf, String)> {
    let commands = modprobe_conf::given(&places.root, &places.proc, NVIDIA).install.into_iter();
    let installs = commands.map(|line| (line.source, format!("install {NVIDIA} {}", line.text)));
    installs.chain(blacklists(&places.root)).chain(parameters(&places.proc)).collect()
}

fn blacklists(root: &Path) -> Vec<(PathBuf, String)> {
    let mut files = BTreeMap::new();
    for directory in DIRECTORIES.map(|directory| root.join(directory)) {
        for name in listed(root, &directory, FILES) {
            if Path::new(&name).extension().is_some_and(|it| it == "conf") && !name.starts_with('.') {
                files.entry(name.clone()).or_insert_with(|| directory.join(name));
            }
        }
    }
    files.into_values().filter_map(|path| Some((path.clone(), blacklist(root, &path)?))).collect()
}

/// `blacklist nvidia`
fn blacklist(root: &Path, path: &Path) -> Option<String> {
    let real = resolve(root, path).ok().filter(|real| real.is_file())?;
    let mut found = None;
    let each = |line: &[u8]| {
        let words: Vec<_> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        if words == [b"blacklist".as_slice(), NVIDIA.as_bytes()] {
            found = Some(format!("blacklist {NVIDIA}"));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    lines(&real, FILE, each).ok()?;
    found
}

fn parameters(proc: &Path) -> Vec<(PathBuf, String)> {
    let path = proc.join("cmdline");
    let text = small(&path).ok().flatten().unwrap_or_default();
    let names_it = |word: &&str| {
        let list = PARAMETERS.iter().find_map(|parameter| word.strip_prefix(parameter));
        list.is_some_and(|list| list.split(',').any(|name| name == NVIDIA))
    };
    text.split_whitespace().filter(names_it).map(|word| (path.clone(), word.to_owned())).collect()
}
