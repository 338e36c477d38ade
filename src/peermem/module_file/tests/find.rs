// SPDX-License-Identifier: Apache-2.0
//! Trees of modules, whole and broken.

use crate::peermem::module_file::{FoundModule, directory, find};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const RELEASE: &str = "6.1.0-56-amd64";

struct Tree(tempfile::TempDir);

impl Tree {
    /// With these module files, below the directory of the kernel's modules.
    fn new(files: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for file in files {
            tree.add(file, "");
        }
        tree
    }

    fn path(&self, file: &str) -> PathBuf {
        directory(self.0.path(), RELEASE).join(file)
    }

    fn add(&self, file: &str, contents: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), contents).unwrap();
    }

    fn link(&self, to: &str, link: &str) {
        fs::create_dir_all(self.path(link).parent().unwrap()).unwrap();
        symlink(to, self.path(link)).unwrap();
    }

    fn find(&self) -> FoundModule {
        find(self.0.path(), RELEASE, "nvidia_peermem").unwrap().unwrap()
    }

    #[track_caller]
    fn expect(&self, path: &str, others: &[&str], listed: Option<bool>) {
        let found = self.find();
        assert_eq!(found.path, self.path(path));
        assert_eq!(found.ignored_paths, others.iter().map(|other| self.path(other)).collect::<Vec<_>>());
        assert_eq!(found.listed, listed);
    }
}

#[test]
fn modules_dep_decides_which_module_file_is_used() {
    let tree = Tree::new(&["updates/nvidia-peermem.ko", "kernel/drivers/video/nvidia-peermem.ko.xz"]);
    tree.add(
        "modules.dep",
        "a.ko: updates/nvidia-peermem.ko\nkernel/drivers/video/nvidia-peermem.ko.xz: a.ko\n",
    );
    let (chosen, other) = ("kernel/drivers/video/nvidia-peermem.ko.xz", "updates/nvidia-peermem.ko");
    tree.expect(chosen, &[other], Some(true));
    let absolute = format!("/lib/modules/{RELEASE}/{other}:\n{chosen}:");
    tree.add("modules.dep", &absolute);
    tree.expect(other, &[chosen], Some(true));
}

#[test]
fn a_module_has_one_name_in_four_suffixes() {
    for file in ["nvidia-peermem.ko", "nvidia_peermem.ko.gz", "nvidia-peermem.ko.xz", "nvidia_peermem.ko.zst"]
    {
        let tree = Tree::new(&[&format!("misc/{file}")]);
        tree.add("modules.dep", &format!("misc/{file}:\n"));
        tree.expect(&format!("misc/{file}"), &[], Some(true));
    }
    for file in [
        "xnvidia-peermem.ko",
        "nvidia-peermem.ko.old",
        "peermem.ko",
        ".ko",
        "nvidia-peermem",
        "nvidia+peermem.ko",
    ] {
        let tree = Tree::new(&[file]);
        tree.add("modules.dep", &format!("{file}:\n"));
        assert_eq!(find(tree.0.path(), RELEASE, "nvidia_peermem"), Ok(None), "{file}");
    }
}

#[test]
fn module_files_that_modules_dep_lacks_are_searched_for() {
    let kernel = ["kernel/a/b/nvidia-peermem.ko", "kernel/nvidia_peermem.ko"];
    let tree = Tree::new(&kernel);
    tree.expect(kernel[1], &kernel[..1], None);
    tree.add("modules.dep", "kernel/gone/nvidia-peermem.ko:\nkernel/other.ko:\n");
    tree.expect(kernel[1], &kernel[..1], Some(false));
    tree.add("weak-updates/nvidia-peermem.ko", "");
    tree.add("extra/nvidia/nvidia-peermem.ko.xz", "");
    tree.expect(
        "extra/nvidia/nvidia-peermem.ko.xz",
        &["weak-updates/nvidia-peermem.ko", kernel[1], kernel[0]],
        Some(false),
    );
    tree.add("updates/dkms/nvidia-peermem.ko", "");
    assert_eq!(tree.find().path, tree.path("updates/dkms/nvidia-peermem.ko"));
    assert_eq!(find(tree.0.path(), RELEASE, "none"), Ok(None));
    assert_eq!(find(tree.0.path(), "none", "none"), Ok(None));
}

#[test]
fn other_files_of_a_module_are_each_listed_once() {
    let tree =
        Tree::new(&["extra/nvidia-peermem.ko", "extra/nvidia_peermem.ko", "extra/nvidia-peermem.ko.xz"]);
    tree.link("../extra/nvidia-peermem.ko", "updates/nvidia-peermem.ko");
    tree.link("../extra/nvidia_peermem.ko", "updates/nvidia_peermem.ko");
    tree.add("modules.dep", "extra/nvidia-peermem.ko:\n");
    let others = ["extra/nvidia-peermem.ko.xz", "extra/nvidia_peermem.ko"];
    tree.expect("extra/nvidia-peermem.ko", &others, Some(true));
}

#[test]
fn links_stay_below_the_root_and_lead_nowhere_twice() {
    let tree = Tree::new(&["kernel/real/nvidia-peermem.ko"]);
    tree.link("..", "kernel/loop");
    tree.link(".", "kernel/real/self");
    tree.link("/usr/src/linux", "build");
    let to = format!("/lib/modules/{RELEASE}/kernel/real");
    tree.link(&format!("{to}/nvidia-peermem.ko"), "weak-updates/nvidia-peermem.ko");
    tree.expect("weak-updates/nvidia-peermem.ko", &[], None);
    assert_eq!(tree.find().real, tree.path("kernel/real/nvidia-peermem.ko"));
    fs::remove_file(tree.path("weak-updates/nvidia-peermem.ko")).unwrap();
    tree.link(&to, "updates");
    tree.expect("updates/nvidia-peermem.ko", &[], None);
}

#[test]
fn unreadable_files_are_named() {
    let tree = Tree::new(&[]);
    tree.link("modules.dep", "modules.dep");
    let why = find(tree.0.path(), RELEASE, "x").unwrap_err();
    assert_eq!(why.path, tree.path("modules.dep"));
    fs::remove_file(tree.path("modules.dep")).unwrap();
    tree.add("modules.dep", "x.ko:\n");
    tree.link("x.ko", "x.ko");
    assert_eq!(find(tree.0.path(), RELEASE, "x").unwrap_err().path, tree.path("x.ko"));
}

/// An unreadable directory counts only if depmod prefers it to the one with the file.
#[test]
fn a_directory_that_cannot_be_read_hides_nothing() {
    let tree = Tree::new(&["extra/nvidia-peermem.ko"]);
    tree.link("updates", "updates");
    let why = find(tree.0.path(), RELEASE, "nvidia_peermem").unwrap_err();
    assert_eq!(why.path, tree.path("updates"));
    fs::remove_file(tree.path("updates")).unwrap();
    tree.link("weak-updates", "weak-updates");
    tree.expect("extra/nvidia-peermem.ko", &[], None);
}
