// SPDX-License-Identifier: Apache-2.0
//! What a release publishes (release/pack): complete, the same each time, signed by a key from outside; and its
//! packages are installed, upgraded and removed on a Debian of their own without a unit being enabled.

use crate::support::{skip, tests};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAMS: [&str; 2] = ["peermem-gate", "peermem-doctor"];
/// A release before this one, as far as a package manager can see.
const BEFORE: &str = "0.0.9";
const UNIT: &str = "peermem-gate-keep.service";
const UNITS: [&str; 3] = [UNIT, "peermem-gate-load.service", "peermem-gate-fabric.service"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the release of each program, if release/pack made them.
fn releases() -> Option<[Release; 2]> {
    let releases = PROGRAMS.map(|program| Release {
        program,
        version: done(Command::new("release/version").arg(program).current_dir(repository()))
            .trim()
            .to_owned(),
        dist: repository().join("target/dist").join(program),
    });
    if releases.iter().all(|release| release.dist.join("SHA256SUMS").exists()) {
        return Some(releases);
    }
    skip("no packages: release/pack makes them");
    None
}

struct Release {
    program: &'static str,
    version: String,
    dist: PathBuf,
}

impl Release {
    fn deb(&self, version: &str, arch: &str) -> String {
        format!("{}_{version}-1_{arch}.deb", self.program)
    }

    fn rpm(&self, version: &str, arch: &str) -> String {
        format!("{}-{version}-1.{arch}.rpm", self.program)
    }
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

fn done(command: &mut Command) -> String {
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn files_of(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn a_release_has_everything_for_both_architectures() {
    for release in releases().into_iter().flatten() {
        let Release { program, version, dist } = &release;
        let mut expected = ["NOTES.md", "REFERENCES", "SHA256SUMS"].map(str::to_owned).to_vec();
        expected.push(format!("{program}-{version}.oci.tar"));
        if *program == "peermem-gate" {
            expected.push(format!("{program}-{version}.tgz"));
            expected.push(format!("{program}-chart-{version}.oci.tar"));
        } else {
            expected.extend(files_of(&repository().join("docs/schemas")));
        }
        for (deb, rpm) in [("amd64", "x86_64"), ("arm64", "aarch64")] {
            expected.push(format!("{program}-{version}-linux-{deb}"));
            expected.push(format!("{program}-{version}-linux-{deb}.tar.gz"));
            let bill = format!("{program}-{version}-linux-{deb}.cdx.json");
            let text = fs::read_to_string(dist.join(&bill)).unwrap();
            assert!(!text.contains("serialNumber"), "{bill}: a random number, and the time of the build");
            expected.push(bill);
            expected.push(release.deb(version, deb));
            expected.push(release.rpm(version, rpm));
        }
        expected.sort();
        let mut found = files_of(dist);
        found.retain(|name| !["minisig", "pub"].iter().any(|end| name.ends_with(end)));
        assert_eq!(found, expected);
        done(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(dist));
        let sums = fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
        assert_eq!(sums.lines().count(), expected.len() - 1);
    }
}

/// What a program's archive has beside what every archive has.
const IN_ARCHIVE: [(&str, &[&str]); 2] = [
    (
        "peermem-gate",
        &[
            "man/peermem-gate-wait.1.gz",
            "units/peermem-gate-keep.service",
            "units/peermem-gate-load.service",
            "units/peermem-gate-metrics.timer",
            "manifests/keeper/kustomization.yaml",
            // The chart's link to the manifests must lead there.
            "charts/peermem-gate/manifests/wait/wrapper.yaml",
        ],
    ),
    ("peermem-doctor", &["man/peermem-doctor-timeline.1.gz", "docs/findings.md"]),
];

fn the_archive_unpacks_to_a_program_its_pages_completions_units_and_manifests() {
    let Some(releases) = releases() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (Release { program, version, dist }, (_, own)) in releases.iter().zip(IN_ARCHIVE) {
        for arch in ["amd64", "arm64"] {
            let name = format!("{program}-{version}-linux-{arch}");
            done(
                Command::new("tar").arg("-xf").arg(dist.join(format!("{name}.tar.gz"))).current_dir(&scratch),
            );
            let top = scratch.path().join(&name);
            let completions = [("_", ""), ("", ".bash"), ("", ".fish")]
                .map(|(before, after)| format!("completions/{before}{program}{after}"));
            let page = format!("man/{program}.1.gz");
            let files = [&page, "LICENSE", "README.md", "CHANGELOG.md"].map(str::to_owned);
            for file in own.iter().map(|file| (*file).to_owned()).chain(files).chain(completions) {
                assert!(top.join(&file).is_file(), "{name}: {file}");
            }
            for other in PROGRAMS.iter().filter(|other| *other != program) {
                assert!(!top.join(format!("man/{other}.1.gz")).exists(), "{name}: a page of {other}");
            }
            let mode = fs::metadata(top.join(program)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        let at = scratch.path().join(format!("{program}-{version}-linux-amd64/{program}"));
        assert!(done(Command::new(at).arg("--version")).starts_with(&format!("{program} {version} (")));
    }
}

fn the_chart_of_a_release_names_its_images_and_has_the_files_that_helm_would_pack() {
    let helm = repository().join("target/manifests/bin/helm");
    if !helm.exists() {
        return skip("no helm: tests/manifests/tools installs it");
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut chart = Command::new("release/chart");
    done(chart.arg(scratch.path()).env("REGISTRY", "Registry.Example/Team").current_dir(repository()));
    let versions =
        PROGRAMS.map(|program| done(Command::new("release/version").arg(program).current_dir(repository())));
    let [gate, doctor] = versions.each_ref().map(|version| version.trim());
    let name = format!("peermem-gate-{gate}.tgz");
    let package = scratch.path().join(&name);

    let mut template = Command::new(&helm);
    template.args(["template", "gate"]).arg(&package).args([
        "--set",
        "doctor.enabled=true",
        "--kube-version",
        "1.36",
    ]);
    template.args(["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]);
    let rendered = done(&mut template);
    for image in [format!("peermem-gate:{gate}"), format!("peermem-doctor:{doctor}")] {
        assert!(rendered.contains(&format!("registry.example/team/{image}")), "{image}");
    }

    let by_helm = scratch.path().join("helm");
    done(
        Command::new(&helm)
            .args(["package", "charts/peermem-gate", "--destination"])
            .arg(&by_helm)
            .current_dir(repository()),
    );
    let files = |package: &Path| {
        let list = done(Command::new("tar").arg("-tzf").arg(package));
        let mut files: Vec<_> = list.lines().filter(|name| !name.ends_with('/')).map(str::to_owned).collect();
        files.sort();
        files
    };
    assert_eq!(files(&package), files(&by_helm.join(name)));
}

/// Into two directories: target/dist may be of another commit. The second time from a checkout of another day.
fn packing_twice_gives_the_same_bytes() {
    if releases().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let sums = |name: &str| {
        PROGRAMS.map(|program| {
            let dir = scratch.path().join(name).join(program);
            done(Command::new("release/pack").arg(program).arg(&dir).current_dir(repository()));
            fs::read_to_string(dir.join("SHA256SUMS")).unwrap()
        })
    };
    let once = sums("once");
    let touch = |when: &str| {
        let documents = ["README.md", "CHANGELOG.md", "LICENSE"];
        done(Command::new("touch").args(["--date", when]).args(documents).current_dir(repository()));
    };
    touch("2020-01-01");
    let again = sums("again");
    touch("now");
    assert_eq!(once, again);
}

fn a_signature_is_made_with_a_key_from_outside_and_fails_on_another_sum() {
    let Some([Release { dist, .. }, _]) = releases() else { return };
    if Command::new("minisign").arg("-v").output().is_err() {
        return skip("minisign is not installed");
    }
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    done(Command::new("minisign").args(["-G", "-W", "-p"]).arg(at("key.pub")).arg("-s").arg(at("key")));
    let copy = at("dist");
    done(Command::new("cp").arg("-r").arg(&dist).arg(&copy));
    let sign = || {
        let mut sign = Command::new(repository().join("release/sign"));
        sign.arg(&copy).arg("peermem-gate-v1.2.3");
        sign
    };
    let refused = run(sign().env_remove("MINISIGN_KEY"));
    assert!(!refused.status.success(), "without a key");
    done(sign().env("MINISIGN_KEY", at("key")));
    let verify =
        || run(Command::new("minisign").arg("-Vm").arg(copy.join("SHA256SUMS")).arg("-p").arg(at("key.pub")));
    assert!(verify().status.success());
    let public = |at: &Path| fs::read_to_string(at).unwrap().lines().last().map(str::to_owned);
    assert_eq!(public(&copy.join("minisign.pub")), public(&at("key.pub")));

    let notes = copy.join("NOTES.md");
    fs::write(&notes, "others").unwrap();
    assert!(!run(sign().env("MINISIGN_KEY", at("key"))).status.success(), "sums that do not agree");
    let sums = fs::read_to_string(copy.join("SHA256SUMS")).unwrap();
    fs::write(copy.join("SHA256SUMS"), sums.replacen(|c: char| c.is_ascii_hexdigit(), "z", 1)).unwrap();
    assert!(!verify().status.success(), "other sums under the old signature");
}

fn the_notes_of_a_version_are_its_section() {
    let scratch = tempfile::tempdir().unwrap();
    for file in ["release/notes", "doctor/CHANGELOG.md"] {
        let to = scratch.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(repository().join(file), to).unwrap();
    }
    let changelog = "# Changelog\n\n## Unreleased\n\n- next\n\n## 1.20.0 - 2026-12-01\n\n- twenty\n\n## [1.2.0]\n\n- two\n";
    fs::write(scratch.path().join("doctor/CHANGELOG.md"), changelog).unwrap();
    let notes = |version: &str| {
        run(Command::new(scratch.path().join("release/notes")).args(["peermem-doctor", version]))
    };
    for (version, text) in [("Unreleased", "- next\n"), ("1.20.0", "- twenty\n"), ("1.2.0", "- two\n")] {
        assert_eq!(String::from_utf8(notes(version).stdout).unwrap(), text, "{version}");
    }
    assert!(!notes("1.2").status.success());
}

/// The tracked files as they are, in a repository of their own.
fn copy_of_the_tree() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let copy = "git ls-files -z --cached | xargs -0 cp -P --parents --target-directory=\"$1\"
        git -C \"$1\" init --quiet && git -C \"$1\" add --all --force";
    let mut shell = Command::new("sh");
    done(shell.args(["-euc", copy, "sh"]).arg(scratch.path()).current_dir(repository()));
    scratch
}

fn a_new_version_reaches_every_file_that_names_the_old_one() {
    let tree = copy_of_the_tree();
    let version = |program: &str, new: &[&str]| {
        done(Command::new(tree.path().join("release/version")).arg(program).args(new)).trim().to_owned()
    };
    let next = "9.8.7";
    let olds = PROGRAMS.map(|program| version(program, &[]));
    for program in PROGRAMS {
        version(program, &[next]);
        assert_eq!(version(program, &[]), next);
    }
    for old in olds {
        let mut grep = Command::new("git");
        // A log line's first release, and reports of that release, keep its number.
        let records = [":!doctor/src/log/table.rs", ":!doctor/tests/runs/upgrade.rs", ":!fuzz/corpus"];
        grep.args(["grep", "-nwF", &old, "--", ".", ":!*CHANGELOG.md", ":!*Cargo.lock"]).args(records);
        let left = run(grep.current_dir(&tree)).stdout;
        assert_eq!(String::from_utf8_lossy(&left), "", "release/version leaves these at {old}");
    }
    let read = |name: &str| fs::read_to_string(tree.path().join(name)).unwrap();
    assert!(
        read("charts/peermem-gate/Chart.yaml").contains(&format!("\nversion: {next}\nappVersion: {next}\n"))
    );
    for program in PROGRAMS {
        assert!(read("Cargo.lock").contains(&format!("name = \"{program}\"\nversion = \"{next}\"\n")));
    }
    // A user who starts at the README gets the newest.
    for named in [format!("/peermem-doctor:{next} "), format!("/charts/peermem-gate --version {next} ")] {
        assert!(read("README.md").contains(&named), "{named}");
    }
}

/// As a release of one program may have left them, or an addition that was written before.
fn no_document_or_manifest_names_an_image_of_an_older_version() {
    let named =
        r"peermem-(gate|doctor)(:|-v)[0-9]+\.[0-9]+\.[0-9]+|\b(image\.tag=|tag: )[0-9]+\.[0-9]+\.[0-9]+";
    let mut grep = Command::new("git");
    grep.args(["grep", "-hoE", named, "--", "*.md", "*.yaml", "*Containerfile*", ":!*CHANGELOG.md"]);
    let all = done(grep.current_dir(repository()));
    let [gate, doctor] = PROGRAMS.map(|program| {
        done(Command::new("release/version").arg(program).current_dir(repository())).trim().to_owned()
    });
    assert!(all.lines().count() > 10, "{all}");
    for image in all.lines() {
        let version = if image.contains("doctor") { &doctor } else { &gate };
        assert!(image.ends_with(version.as_str()), "{image} is not of {version}");
    }
}

fn each_changelog_s_newest_release_is_the_version_of_its_program() {
    for (program, changelog) in PROGRAMS.into_iter().zip(["CHANGELOG.md", "doctor/CHANGELOG.md"]) {
        let text = fs::read_to_string(repository().join(changelog)).unwrap();
        let newest =
            text.lines().filter_map(|line| line.strip_prefix("## ")).find(|heading| *heading != "Unreleased");
        let version = done(Command::new("release/version").arg(program).current_dir(repository()));
        let (named, day) = newest.and_then(|heading| heading.split_once(" - ")).unwrap_or_default();
        assert_eq!(named, version.trim(), "{changelog}");
        assert!(day.len() == 10 && day.starts_with("20"), "{changelog}: {day}");
    }
}

/// A release from what nobody can check out would be nobody's.
fn a_release_is_made_only_of_a_clean_tagged_checkout() {
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path();
    let files =
        ["release/make", "release/version", "release/notes", "doctor/Cargo.toml", "doctor/CHANGELOG.md"];
    for file in files {
        fs::create_dir_all(copy.join(file).parent().unwrap()).unwrap();
        fs::copy(repository().join(file), copy.join(file)).unwrap();
    }
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@test.example"];
        done(Command::new("git").arg("-C").arg(copy).args(who).args(args));
    };
    let refusal = |named: &str| {
        let output = run(Command::new(copy.join("release/make"))
            .arg("peermem-doctor")
            .env_remove("MINISIGN_KEY")
            .env("SIGNED", "yes"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(named), "{named}: {said}");
    };
    git(&["init", "--quiet"]);
    refusal("the checkout is not clean");
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "all"]);
    let version = done(Command::new("release/version").arg("peermem-doctor").current_dir(repository()));
    let tag = format!("peermem-doctor-v{}", version.trim());
    refusal(&format!("HEAD is not tagged {tag}"));
    git(&["tag", &tag]);
    refusal("MINISIGN_KEY does not name a secret key");
}

/// There is no manager to ask, but there are files to enable a unit by.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >>/tmp/asked
case " $* " in *able*) exec /usr/bin/systemctl.real --root=/ "$@" ;; esac
"#;

/// A Debian of its own, whose `systemctl` writes down what it is asked.
struct Root(PathBuf);

impl Root {
    fn make() -> Option<Self> {
        let status = Command::new(repository().join("tests/fresh/root"))
            .args(["bookworm", "systemd", "rpm", "man-db", "procps", "kmod"])
            .status()
            .unwrap();
        if status.code() == Some(75) {
            skip("no Debian to install packages in");
            return None;
        }
        assert!(status.success());
        let root = Self(repository().join("target/fresh/bookworm"));
        // rpm runs scripts with a PATH of its own.
        let (systemctl, real) = (root.0.join("usr/bin/systemctl"), root.0.join("usr/bin/systemctl.real"));
        if !real.exists() {
            fs::rename(&systemctl, real).unwrap();
        }
        fs::write(&systemctl, SYSTEMCTL).unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        // As where systemd runs.
        fs::create_dir_all(root.0.join("run/systemd/system")).unwrap();
        Some(root)
    }

    fn chroot(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.0).args(words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command
    }

    fn done(&self, words: &[&str]) -> String {
        done(&mut self.chroot(words))
    }

    /// Every file outside what package managers keep of themselves.
    fn files(&self) -> Vec<String> {
        let find = "find / -xdev ( -path /proc -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/rpm -o \
                    -path /root/.rpmdb -o -path /var/log -o -path /var/cache -o -path /var/lib/systemd ) -prune -o -print";
        let words: Vec<_> = find.split_whitespace().collect();
        let mut files: Vec<_> = self.done(&words).lines().map(str::to_owned).collect();
        files.sort();
        files
    }

    fn asked(&self) -> String {
        let asked = self.0.join("tmp/asked");
        let text = fs::read_to_string(&asked).unwrap_or_default();
        let _ = fs::remove_file(asked);
        text
    }

    /// Each of them is in this state.
    fn units_are(&self, state: &str, manager: &Manager) {
        for unit in UNITS {
            let output = run(&mut self.chroot(&["systemctl.real", "--root=/", "is-enabled", unit]));
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), state, "{}: {unit}", manager.name);
        }
    }

    fn take(&self, file: &Path) -> String {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::copy(file, self.0.join("tmp").join(name)).unwrap();
        format!("/tmp/{name}")
    }

    /// Installation, use, upgrade and removal, by the words of one package manager.
    fn lives(&self, before: &Path, now: &Path, release: &Release, manager: &Manager) {
        let files = self.files();
        let (before, now) = (self.take(before), self.take(now));
        self.asked();

        self.done(&[manager.install, &[&before]].concat());
        self.units_are("disabled", manager);
        let asked = self.asked();
        assert!(!asked.contains("enable") && !asked.contains("preset"), "{}: {asked}", manager.name);
        assert!(
            asked.lines().all(|line| ["daemon-reload", &format!("try-restart {UNIT}")].contains(&line)),
            "{asked}"
        );
        let version = &release.version;
        assert!(self.done(&["peermem-gate", "--version"]).starts_with(&format!("peermem-gate {version}")));
        let page = self.done(&["man", "--path", "peermem-gate-wait"]);
        assert_eq!(page.trim(), "/usr/share/man/man1/peermem-gate-wait.1.gz");
        let units = UNITS.map(|unit| format!("/usr/lib/systemd/system/{unit}"));
        self.done(&[&["systemd-analyze", "verify"][..], &units.each_ref().map(String::as_str)].concat());

        self.done(&[&["systemctl.real", "--root=/", "enable"][..], &UNITS].concat());
        self.done(&[manager.upgrade, &[&now]].concat());
        // An upgrade leaves them as they were.
        self.units_are("enabled", manager);
        assert_eq!(self.done(manager.version).trim(), format!("{version}-1"), "{}", manager.name);
        let asked = self.asked();
        assert!(asked.contains(&format!("try-restart {UNIT}")), "{}: {asked}", manager.name);
        assert!(!asked.contains("stop") && !asked.contains("disable"), "{}: {asked}", manager.name);

        self.done(&[manager.remove, &["peermem-gate"]].concat());
        let asked = self.asked();
        let stopped: Vec<_> = asked.lines().filter(|line| line.contains("stop ")).collect();
        assert!(
            stopped.len() == 1 && stopped[0].contains(&format!("stop {UNIT}")),
            "{}: {asked}",
            manager.name
        );
        // Directories that packages share, as those of completions, may stay.
        let ours = |file: &String| file.contains("peermem") && !files.contains(file);
        let left: Vec<_> = self.files().into_iter().filter(ours).collect();
        assert_eq!(left, Vec::<String>::new(), "{} leaves these behind", manager.name);
    }
}

impl Root {
    /// The two packages share no file, and together one calls the other.
    fn both(&self, gate: &Path, doctor: &Path, manager: &Manager) {
        let files = self.files();
        let (gate, doctor) = (self.take(gate), self.take(doctor));
        self.done(&[manager.install, &[&gate]].concat());
        let alone = run(&mut self.chroot(&["peermem-gate", "doctor", "--version"]));
        assert_eq!(alone.status.code(), Some(127), "{}: without the doctor", manager.name);
        self.done(&[manager.install, &[&doctor]].concat());
        assert!(self.done(&["peermem-gate", "doctor", "--help"]).contains("Usage: peermem-gate doctor"));
        self.done(&["man", "--path", "peermem-doctor-timeline"]);
        for program in PROGRAMS {
            self.done(&[manager.remove, &[program]].concat());
        }
        let left: Vec<_> = self
            .files()
            .into_iter()
            .filter(|file| file.contains("peermem") && !files.contains(file))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "{} leaves these behind", manager.name);
    }
}

struct Manager {
    name: &'static str,
    install: &'static [&'static str],
    upgrade: &'static [&'static str],
    version: &'static [&'static str],
    remove: &'static [&'static str],
}

/// rpm's database there does not know that Debian has /bin/sh.
const MANAGERS: [Manager; 2] = [
    Manager {
        name: "deb",
        install: &["dpkg", "--install"],
        upgrade: &["dpkg", "--install"],
        version: &["dpkg-query", "-W", "-f", "${Version}", "peermem-gate"],
        remove: &["dpkg", "--purge"],
    },
    Manager {
        name: "rpm",
        install: &["rpm", "--install", "--nodeps"],
        upgrade: &["rpm", "--upgrade", "--nodeps"],
        version: &["rpm", "--query", "--queryformat", "%{VERSION}-%{RELEASE}", "peermem-gate"],
        remove: &["rpm", "--erase"],
    },
];

fn packages_are_installed_upgraded_and_removed_and_enable_nothing() {
    let Some([gate, doctor]) = releases() else { return };
    let Some(root) = Root::make() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let older = scratch.path().join("older");
    done(Command::new("release/pack").arg(gate.program).arg(&older).arg(BEFORE).current_dir(repository()));
    for manager in &MANAGERS {
        let name = |release: &Release, version: &str| match manager.name {
            "deb" => release.deb(version, "amd64"),
            _ => release.rpm(version, "x86_64"),
        };
        let before = older.join(name(&gate, BEFORE));
        root.lives(&before, &gate.dist.join(name(&gate, &gate.version)), &gate, manager);
        root.both(
            &gate.dist.join(name(&gate, &gate.version)),
            &doctor.dist.join(name(&doctor, &doctor.version)),
            manager,
        );
    }
}

tests![
    a_release_has_everything_for_both_architectures,
    the_archive_unpacks_to_a_program_its_pages_completions_units_and_manifests,
    the_chart_of_a_release_names_its_images_and_has_the_files_that_helm_would_pack,
    packing_twice_gives_the_same_bytes,
    a_signature_is_made_with_a_key_from_outside_and_fails_on_another_sum,
    the_notes_of_a_version_are_its_section,
    a_new_version_reaches_every_file_that_names_the_old_one,
    no_document_or_manifest_names_an_image_of_an_older_version,
    each_changelog_s_newest_release_is_the_version_of_its_program,
    a_release_is_made_only_of_a_clean_tagged_checkout,
    packages_are_installed_upgraded_and_removed_and_enable_nothing,
];
