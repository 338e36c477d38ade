// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::peermem::module_file::build_id_of_file;
use crate::peermem::module_file::tests::image::Image;
use crate::rebuild::build_dir::owner::LOCK;
use crate::rebuild::sample::RELEASE;
use crate::rebuild::{Kind, Pair, target};
use nix::fcntl::FlockArg;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// A driver's root without any module.
fn root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for directory in ["var/lib", &format!("lib/modules/{RELEASE}")] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    root
}

/// A module of this build, in a file below the root, and where it is to be installed.
fn module(root: &TempDir, build_id: u8) -> (PathBuf, PathBuf) {
    let mut image = Image::peermem().without(".note.gnu.build-id");
    image.build_id(&[build_id; 20]);
    let path = root.path().join("built.ko");
    fs::write(&path, image.build()).unwrap();
    (path, below(root.path(), &target(RELEASE)))
}

fn pair() -> Pair {
    Pair { kernel: RELEASE.to_owned(), ..Pair::default() }
}

fn install(root: &TempDir, build_id: u8) -> io::Result<PathBuf> {
    let (built, installed) = module(root, build_id);
    let build_id = build_id_of_file(&built).expect("a build id");
    let build_dir = BuildDir::open(root.path()).expect("nobody else is at work");
    build_dir.install(&built, &build_id, &pair(), &built).map(|()| installed)
}

fn recorded(root: &TempDir) -> Vec<String> {
    record::<Installed>(root.path(), RELEASE).unwrap().unwrap_or_default().build_ids
}

#[test]
fn an_installed_module_is_recorded_as_the_gates() {
    let root = root();
    for build in 1..=2 {
        let installed = install(&root, build).unwrap();
        assert_eq!(installed.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(recorded(&root).last(), build_id_of_file(&installed).as_ref());
        assert_eq!(foreign(root.path(), RELEASE), None);
    }
    assert_eq!(recorded(&root).len(), 2);
    assert!(BuildDir::open(root.path()).unwrap().remove(RELEASE).unwrap());
    assert_eq!((recorded(&root), foreign(root.path(), RELEASE)), (Vec::new(), None));
}

#[test]
fn a_file_that_the_record_does_not_name_is_foreign() {
    let root = root();
    assert_eq!(foreign(root.path(), RELEASE), None, "there is none");
    let installed = install(&root, 1).unwrap();
    let (another, _) = module(&root, 2);
    for theirs in [fs::read(another).unwrap(), b"garbage".to_vec()] {
        fs::write(&installed, theirs).unwrap();
        assert_eq!(foreign(root.path(), RELEASE), Some(installed.clone()));
    }
    fs::remove_file(&installed).unwrap();
    std::os::unix::fs::symlink("/no/such/file", &installed).unwrap();
    assert_eq!(foreign(root.path(), RELEASE), None, "modprobe finds nothing there");
}

#[test]
fn depmods_file_comes_and_goes_with_the_module() {
    let root = root();
    let file = below(root.path(), &preference::path(RELEASE));
    install(&root, 1).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), preference::text(RELEASE));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    fs::write(&file, "torn").unwrap();
    install(&root, 2).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), preference::text(RELEASE));
    let theirs = file.with_file_name("ubuntu.conf");
    fs::write(&theirs, "search updates\n").unwrap();
    let build_dir = BuildDir::open(root.path()).unwrap();
    assert!(build_dir.remove(RELEASE).unwrap());
    assert!(!file.exists() && theirs.exists());
    assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1, "no unfinished file");
}

/// A planted link is not followed.
#[test]
fn without_depmods_file_nothing_is_installed() {
    let root = root();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("etc/depmod.d")).unwrap();
    assert!(install(&root, 1).is_err());
    assert!(!below(root.path(), &target(RELEASE)).exists());
    assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}

/// As a power cut left it, when the record was renamed before it was on the disk.
#[test]
fn a_module_with_the_gates_mark_is_the_gates_whatever_the_record_says() {
    let root = root();
    let mut image = Image::new(&["vermagic=6.1", "depends=", "rebuilt_by=peermem-gate"]);
    image.build_id(&[7; 20]);
    let built = root.path().join("built.ko");
    fs::write(&built, image.build()).unwrap();
    let build_dir = BuildDir::open(root.path()).unwrap();
    build_dir.install(&built, &"07".repeat(20), &pair(), &built).unwrap();
    drop(build_dir);
    let file = Installed::path(root.path(), RELEASE);
    for damage in ["", "{", "\0\0\0\0", r#"{"build_ids":[]}"#] {
        fs::write(&file, damage).unwrap();
        assert_eq!(foreign(root.path(), RELEASE), None, "{damage:?}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(foreign(root.path(), RELEASE), None);
    // The mark is the name and ours behind it, and no less.
    for theirs in ["rebuilt_by=another", "xrebuilt_by=peermem-gate", "author=peermem-gate"] {
        let image = Image::new(&["vermagic=6.1", "depends=", theirs]);
        fs::write(below(root.path(), &target(RELEASE)), image.build()).unwrap();
        assert!(foreign(root.path(), RELEASE).is_some(), "{theirs}");
    }
    let unreadable = install(&root, 1).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(foreign(root.path(), RELEASE), Some(unreadable), "another builder's has no mark");
    install(&root, 2).unwrap();
    assert_eq!(recorded(&root), ["02".repeat(20)], "a damaged record is replaced");
}

#[test]
fn only_root_can_hold_the_build_lock_or_write_beside_it() {
    let root = root();
    let held = BuildDir::open(root.path()).unwrap();
    assert!(BuildDir::open(root.path()).is_err_and(|busy| busy.kind == Kind::Busy));
    drop(held);
    let place = below(root.path(), Path::new(PLACE));
    let lock = place.join(LOCK);
    assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(exposed(root.path()), None);
    // Every process that can open the directory can lock that, which delays no rebuild.
    let directory = fs::File::open(&place).unwrap();
    let _lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock).unwrap();
    assert!(BuildDir::open(root.path()).is_ok());
    for (path, mode) in [(&place, 0o777), (&place, 0o1775), (&lock, 0o644), (&lock, 0o660)] {
        let before = path.metadata().unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let words = format!("its mode is {mode:04o}");
        assert!(exposed(root.path()).unwrap().ends_with(&words));
        let refused = BuildDir::open(root.path()).expect_err("it is exposed");
        assert!(refused.kind == Kind::Exposed && refused.message.ends_with(&words), "{refused}");
        fs::set_permissions(path, before).unwrap();
    }
    for make in [
        |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRUSR).unwrap(),
        |path: &Path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
    ] {
        fs::remove_file(&lock).unwrap();
        make(&lock);
        assert!(BuildDir::open(root.path()).is_err());
    }
}

#[test]
fn an_undo_that_ended_before_depmod_is_seen_in_modules_dep() {
    let root = root();
    assert!(!is_listed(root.path(), RELEASE));
    let list = root.path().join(format!("lib/modules/{RELEASE}/modules.dep"));
    let theirs = "updates/dkms/nvidia-peermem.ko: x.ko\nkernel/updates/nvidia-peermem.ko:\n";
    fs::write(&list, theirs).unwrap();
    assert!(!is_listed(root.path(), RELEASE));
    fs::write(&list, format!("{theirs}updates/nvidia-peermem.ko: x.ko\n")).unwrap();
    assert!(is_listed(root.path(), RELEASE));
}

/// A file without a record would be foreign forever.
#[test]
fn the_record_of_a_build_is_written_before_the_module_file() {
    let root = root();
    let installed = below(root.path(), &target(RELEASE));
    // No file can have this name.
    fs::create_dir_all(installed.join("full")).unwrap();
    assert!(install(&root, 1).is_err());
    assert_eq!(recorded(&root), ["01".repeat(20)]);
    assert_eq!(installed.parent().unwrap().read_dir().unwrap().count(), 1, "no unfinished file");
}

#[test]
fn a_refusal_is_noted_only_where_something_was_built() {
    let root = root();
    let pair = Pair { kernel: RELEASE.into(), nvidia: "4e".into(), mofed: "4d".into() };
    let refused = RefusedVersion { pair, symbol: "ib_register_peer_memory_client".to_owned(), crc: 7 };
    note_refusal(root.path(), &refused);
    assert!(!root.path().join("var/lib/peermem-gate").exists());
    drop(BuildDir::open(root.path()).unwrap());
    note_refusal(root.path(), &refused);
    assert_eq!(record(root.path(), RELEASE), Ok(Some(refused)));
    BuildDir::open(root.path()).unwrap().forget_refusal(RELEASE);
    assert_eq!(record::<RefusedVersion>(root.path(), RELEASE), Ok(None));
}

#[test]
fn an_attempt_is_noted_until_it_is_forgotten() {
    let root = root();
    let build_dir = BuildDir::open(root.path()).unwrap();
    let pair = Pair { kernel: RELEASE.into(), nvidia: "4e".into(), mofed: "4d".into() };
    let tried = FailedBuild { pair, why: "make ended with 2".to_owned(), inputs: 7 };
    build_dir.note(&tried);
    assert_eq!(record(root.path(), RELEASE), Ok(Some(tried)));
    build_dir.forget_attempt(RELEASE);
    assert_eq!(record::<FailedBuild>(root.path(), RELEASE), Ok(None));
}
