// SPDX-License-Identifier: Apache-2.0
//! The gate on a real kernel of a distribution, with its real RDMA modules and with stand-ins for
//! MOFED's, in qemu.
//!
//! `tests/vm/build` makes the machine, `tests/vm/boot SCENARIO` plays one of `tests/vm/scenarios`
//! on it, and here is said what must have come of it. A scenario's lines (tests/vm/machine.rs) are
//! timed by the guest's boot clock, which counts instructions: a busy host makes nothing late, and idle
//! time takes none. A machine that says nothing for `LIMIT` has hung.
//!
//! Without the machine, the binary or qemu the tests are skipped; with `NO_SKIPPED_TESTS` in the
//! environment they fail. `GATE_BINARY` names another binary than the release build's.

#[path = "vm/machine.rs"]
mod machine;
mod support;

use machine::Line;
use serde_json::Value;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs};
use support::{note, skip, suite};

/// More than any scenario is silent on a busy host; a machine that hangs is killed.
const LIMIT: Duration = Duration::from_secs(300);

/// What one step of /proc/uptime may hide.
const GRAIN: f64 = 0.02;

/// More than the gate needs on an emulated processor, less than the safety net's five seconds.
const AT_ONCE: f64 = 3.0;

/// The status that `tests/vm/guest/opened` ends with.
const OPENED: i32 = 42;

/// modprobe's words for an errno.
const EINVAL: &str = "could not insert 'nvidia_peermem': Invalid argument";
const ENOENT: &str =
    "could not insert 'nvidia_peermem': Unknown symbol in module, or unknown parameter (see dmesg)";
const ENOEXEC: &str = "could not insert 'nvidia_peermem': Exec format error";
const EBUSY: &str = "could not insert 'nvidia_peermem': Device or resource busy";
const EPERM: &str = "could not insert 'nvidia_peermem': Operation not permitted";
const DUPLICATE: &str = "ib_uverbs: exports duplicate symbol";
const EKEYREJECTED: &str = "could not insert 'nvidia_peermem': Key was rejected by service";
const NOT_FOUND: &str = "FATAL: Module nvidia-peermem not found in directory";

/// The kernel's, in its log.
const NO_MOFED: &str = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)";
const OTHER_MOFED: &str = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client";
const OTHER_NVIDIA: &str = "nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages";

/// The kernel compares CRCs of symbols. Debian's since 7.2 does not.
const VERSIONS: &str = "CONFIG_MODVERSIONS=y";
/// The kernel loads a module that has no version at all: Debian's do, Ubuntu's do not.
const FORCED: &str = "CONFIG_MODULE_FORCE_LOAD=y";
/// The kernel's own RDMA modules export peer memory: Ubuntu's of 5.15.
const OWN_PEER_MEMORY: &str = "ib_register_peer_memory_client";
/// What the kernel says of a module for another architecture, since 5.13.
const ARCHITECTURE: &str = "Invalid architecture in ELF header";

/// These words of the kernel, or the one sentence that kernels before 5.13 have for every damaged file.
fn of_the_elf(words: &'static str) -> &'static str {
    if kernel_has(ARCHITECTURE) { words } else { "invalid ELF structures" }
}

/// What the stand-in of MOFED saw when `nvidia_peermem` registered with it.
const COMPLETE: &str = "marker=there ib_core=live ib_uverbs=live mlx5_core=live mlx5_ib=live";

fn a_stale_marker_over_the_in_tree_stack_keeps_the_gate_closed() {
    play("intree-stale-marker", |run| {
        let report = run.check(0);
        assert_eq!(report.status, 1);
        report.assert("MarkerPresent", "True", "");
        report.assert("ModulesLive", "True", "");
        report.assert("ModulesFromMofed", "False", "ModuleInTree");
        if kernel_has(OWN_PEER_MEMORY) {
            report.assert("SymbolsExported", "True", "SymbolExported");
        } else {
            report.assert("SymbolsExported", "False", "SymbolMissing");
        }
        report.assert("HeadersReady", "True", "");
        run.assert_held();
        run.assert_logged("ModuleInTree");
    });
}

fn a_node_with_mofed_2407_opens() {
    play("new-complete", |run| {
        run.check(0).assert_ready();
        run.check(1).assert_ready();
        run.check(1).assert("VersionMatches", "True", "");
        run.check(2).assert("VersionMatches", "False", "VersionMismatch");
        run.check(3).assert_ready();
        run.assert_opened();
    });
}

fn a_half_swapped_stack_keeps_the_gate_closed() {
    play("half-swapped", |run| {
        let all = run.check(0);
        assert_eq!(all.status, 1);
        if kernel_has(VERSIONS) {
            all.assert("ModulesLive", "False", "ModuleNotLoaded");
        } else {
            all.assert("ModulesLive", "True", "AllLive");
        }
        all.assert("ModulesFromMofed", "False", "MixedStack");
        let loaded = run.check(1);
        assert_eq!(loaded.status, 1);
        loaded.assert("ModulesLive", "True", "");
        loaded.assert("ModulesFromMofed", "False", "MixedStack");
        run.assert_held();
        run.assert_logged("MixedStack");
    });
}

/// `NVLink` 5 with DMA-BUF: who asks for peermem is let through at once, who asks for any waits for Fabric Manager.
fn fabric_manager_waits_for_its_device() {
    play("fabric", |run| {
        assert_eq!((run.check(0).status, run.check(0).verdict()), (0, "NotApplicable"));
        let held = |at: usize, condition: &str, status: &str, reason: &str| {
            let report = run.check(at);
            report.assert(condition, status, reason);
            assert_eq!(report.status, 1, "check {at}");
        };
        held(1, "ModulesFromMofed", "False", "ModuleInTree");
        run.check(2).assert("ManagementDevicePresent", "True", "ManagementDeviceFound");
        run.check(3).assert("ManagementDevicePresent", "Unknown", "VpdUnreadable");
        held(4, "ModulesLive", "False", "ModuleNotLoaded");
        held(5, "UmadLive", "False", "ModuleNotLoaded");
        held(6, "UmadLive", "False", "ModuleLoading");
        held(7, "RdmaDevicePresent", "False", "FabricDeviceMissing");
        run.assert_logged("ib_umad: not loaded");
        // No uevent tells of this class directory, which is not the kernel's: the safety net finds it.
        let opened = run.assert_opened();
        assert!(opened >= run.last("device", "") + 1.0 - GRAIN);
        run.assert_logged("safety net");
        run.check(8).assert_ready();
    });
}

fn doctor_names_the_root_cause() {
    play("doctor", |run| {
        let findings = |name: &str| -> (i32, Vec<(String, Option<String>)>) {
            let report = run.report("doctor", name);
            let all = report.json["findings"].as_array().expect("findings").iter();
            let told = all.map(|finding| {
                let word = |key: &str| finding[key].as_str().map(str::to_owned);
                (word("id").expect("an id"), word("follows_from"))
            });
            (report.status, told.collect())
        };
        let roots = |name: &str| -> Vec<String> {
            let (status, all) = findings(name);
            note!("{name}: {status} {all:?}");
            assert_eq!(status, i32::from(!all.is_empty()), "{name}");
            all.into_iter().filter(|(_, cause)| cause.is_none()).map(|(id, _)| id).collect()
        };
        let follows = |name: &str, id: &str| -> Option<String> {
            findings(name).1.into_iter().find(|(found, _)| found == id).expect("such a finding").1
        };
        // The machine has just booted: MOFED may still come.
        assert_eq!(roots("never-came"), ["MofedNotYetHere"]);
        for storage in ["storage", "storage-unprivileged"] {
            assert_eq!(roots(storage)[0], "StorageModulesLoaded");
            assert_eq!(follows(storage, "MarkerAbsent").as_deref(), Some("StorageModulesLoaded"));
            assert_eq!(follows(storage, "ModuleInTree").as_deref(), Some("MarkerAbsent"));
        }
        assert!(roots("building").contains(&"MofedBuilding".to_owned()));
        assert_eq!(roots("mixed")[0], "MixedStack");
        assert_eq!(follows("mixed", "ModuleNotLoaded").as_deref(), Some("MixedStack"));
        assert_eq!(roots("stub"), ["StubModule"]);
        assert_eq!(roots("whole"), [""; 0]);
        assert_eq!(roots("holder"), ["LoadedOnGoneStack"]);
        assert_eq!(follows("holder", "ModuleNotLoaded").as_deref(), Some("LoadedOnGoneStack"));
    });
}

fn modules_that_load_or_unload_are_not_live() {
    play("coming-and-going", |run| {
        let [provider, versioned, going] = [0, 1, 2].map(|number| run.check(number));
        provider.assert("ModulesLive", "False", "ModuleLoading");
        assert_ne!(provider.condition("SymbolsExported")["status"], "True");
        versioned.assert("ModulesLive", "False", "ModuleLoading");
        assert!(versioned.message("ModulesLive").contains("mlx5_core"));
        going.assert("ModulesLive", "False", "ModuleUnloading");
        for report in [provider, versioned, going] {
            assert_eq!(report.status, 1);
        }
        run.check(3).assert_ready();
    });
}

fn a_swap_opens_after_its_marker() {
    play("swap-marker-last", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        assert!(opened >= run.last("marking", "") + 1.0 - GRAIN);
    });
}

fn a_swap_under_a_stale_marker_opens_after_its_last_module() {
    play("swap-stale-marker", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        // One second of mlx5_ib's init, one to settle.
        assert!(opened >= run.last("loading", "mlx5_ib") + 2.0 - GRAIN);
    });
}

fn a_module_whose_init_fails_does_not_count_as_loaded() {
    play("failed-init", |run| {
        run.assert_seen("Loading/coming");
        assert!(run.assert_opened() >= run.last("loading", "mlx5_ib") + 1.0 - GRAIN);
    });
}

fn a_reload_restarts_the_settle_time() {
    play("reload-during-settle", |run| {
        run.assert_seen("Loading/coming");
        run.assert_seen("Unloading/going");
        let opened = run.assert_opened();
        assert!(
            run.last("unloading", "mlx5_ib") < run.last("waiting", "") + 4.0,
            "the reload came too late to prove anything"
        );
        assert!(opened >= run.last("loading", "mlx5_ib") + 0.5 + 4.0 - GRAIN);
    });
}

fn a_reload_without_an_event_restarts_the_settle_time() {
    play("reload-unheard", |run| {
        let opened = run.assert_opened();
        assert!(
            run.last("unloading", "mlx5_ib") < run.last("waiting", "") + 4.0,
            "the reload came too late to prove anything"
        );
        assert!(opened >= run.last("loading", "mlx5_ib") + 4.0 - GRAIN);
        run.assert_not_logged("module event");
    });
}

fn a_uevent_wakes_the_gate() {
    play("uevent", |run| {
        let opened = run.assert_opened();
        let loaded = run.last("loaded", "mlx5_ib");
        assert!(opened < loaded + AT_ONCE, "woken {:.2} s late", opened - loaded);
        run.assert_logged("module event");
    });
}

fn a_lock_that_is_lost_makes_the_marker_suspect_and_accepted_late() {
    play("lock-lost", |run| {
        run.check(0).assert("MarkerTrusted", "True", "LockHeld");
        run.check(1).assert("MarkerTrusted", "False", "MarkerSuspect");
        let opened = run.assert_opened();
        assert!(opened >= run.last("releasing", "") + 3.0 - GRAIN);
        run.assert_logged("MarkerSuspect");
        let warned = |line: &Line| line.text.contains("WARN") && line.text.contains("MarkerBelieved");
        assert!(run.all("log").any(warned));
    });
}

fn check_predicts_the_kernels_answer_for_every_module_file() {
    play("foretell-files", |run| {
        for name in ["new", "signed", "link"] {
            run.row(name).foretold_usable().loaded();
        }
        // Debian's modprobe knows nothing of gzip; that of Ubuntu 20.04 and before, of zstd neither.
        for (name, feature) in [("xz", "+XZ"), ("zst", "+ZSTD"), ("gz", "+ZLIB")] {
            if run.only("features").split(' ').any(|word| word == feature) {
                run.row(name).foretold_usable().loaded();
            } else {
                run.row(name).foretold_blocked("ModuleFileMissing").refused(NOT_FOUND, "");
            }
        }
        for (name, reason, words, log) in [
            ("stub", "StubModule", EINVAL, ""),
            ("flags", "WrongKernel", ENOEXEC, "version magic"),
            ("machine", "WrongKernel", ENOEXEC, of_the_elf(ARCHITECTURE)),
            ("truncated", "ModuleFileDamaged", ENOEXEC, of_the_elf("Invalid ELF")),
            ("text", "ModuleFileDamaged", ENOEXEC, of_the_elf("Invalid ELF")),
            ("empty", "ModuleFileDamaged", EINVAL, ""),
            ("unlisted", "ModuleFileMissing", NOT_FOUND, ""),
            ("missing", "ModuleFileMissing", NOT_FOUND, ""),
            ("dangling", "ModuleFileMissing", ENOENT, ""),
            ("preferred", "StubModule", EINVAL, ""),
        ] {
            run.row(name).foretold_blocked(reason).refused(words, log);
        }
        judge_versions_of_files(run);
        // Without any list the directories are searched. That modprobe does not is said, and `load` asks it first.
        let never_listed = run.row("never-listed").foretold_usable().refused(NOT_FOUND, "");
        assert!(never_listed.report().message("PeermemUsable").contains("there is no modules.dep"));
        assert_eq!(run.all("foretold").count(), 22);
    });
}

fn judge_versions_of_files(run: &Run) {
    if !kernel_has(VERSIONS) {
        // The release counts, and nothing else.
        for name in ["release", "foreign"] {
            run.row(name).foretold_blocked("WrongKernel").refused(ENOEXEC, "version magic");
        }
        for name in ["old", "nocrc", "unversioned"] {
            run.row(name).foretold_usable().loaded();
        }
        return;
    }
    run.row("release").foretold_usable().loaded();
    run.row("old").foretold_blocked("SymbolVersionMismatch").refused(EINVAL, OTHER_MOFED);
    let nocrc = run.row("nocrc");
    if kernel_has(OWN_PEER_MEMORY) {
        // It was built with the kernel's Module.symvers.
        nocrc.foretold_blocked("SymbolVersionMismatch").refused(EINVAL, OTHER_MOFED);
    } else if !kernel_has(FORCED) {
        // Debian's refuse what all others only warn of.
        nocrc.foretold_blocked("SymbolVersionMissing").loaded().logged("symbol version for");
    } else {
        let words = "no symbol version for ib_register_peer_memory_client";
        nocrc.foretold_blocked("SymbolVersionMissing").refused(EINVAL, words);
    }
    let unversioned = run.row("unversioned").foretold_blocked("SymbolVersionMissing");
    let foreign = run.row("foreign").foretold_blocked("WrongKernel");
    if kernel_has(FORCED) {
        foreign.refused(ENOEXEC, "version magic");
        // Without any version at all it is taken by force, which the gate never uses.
        unversioned.loaded().logged("module_layout: kernel tainted");
    } else {
        for row in [unversioned, foreign] {
            row.refused(ENOEXEC, "");
        }
    }
}

fn check_predicts_the_kernels_answer_for_nvidia_rivals_and_parameters() {
    play("foretell-node", |run| {
        // modprobe would bring in nvidia, which is not ours to load.
        run.row("nvidia-absent").foretold_held("DependencyNotLive").loaded();
        run.row("live").foretold("Ready", "PeermemLive").loaded();
        for name in ["good-values", "of-nvidia", "masked"] {
            run.row(name).foretold_usable().loaded();
        }
        run.row("no-such").foretold_usable().loaded().logged("unknown parameter 'no_such' ignored");
        for (name, reason, log) in [
            ("legacy-client", "LegacyClientLoaded", "sysfs: cannot create duplicate filename"),
            ("peerdirect-2", "BadParameter", "invalid peerdirect_support param value 2"),
            ("persistent-7", "BadParameter", "invalid persistent_api_support param value 7"),
            ("persistent-abc", "BadParameter", "`abc' invalid for parameter `persistent_api_support'"),
            ("peerdirect-empty", "BadParameter", "`' invalid for parameter `peerdirect_support'"),
            ("peerdirect-alone", "BadParameter", "`' invalid for parameter `peerdirect_support'"),
            ("of-the-distribution", "BadParameter", "invalid peerdirect_support param value 2"),
            ("kernel-command-line", "BadParameter", "invalid peerdirect_support param value 2"),
        ] {
            run.row(name).foretold_blocked(reason).refused(EINVAL, log);
        }
        assert_eq!(run.all("foretold").count(), 17);
        let others = ["other-nvidia", "other-nvidia-live", "other-nvidia-on-disk"].map(|name| run.row(name));
        if !kernel_has(VERSIONS) {
            for row in others {
                row.foretold_usable().loaded();
            }
            return;
        }
        let [other, live, on_disk] = others;
        other.foretold_blocked("SymbolVersionMismatch").refused(EINVAL, OTHER_NVIDIA);
        // What lies on disk is not what is live, so nobody can tell.
        live.foretold("Unknown", "SymbolVersionUnknown").refused(EINVAL, OTHER_NVIDIA);
        on_disk.foretold("Unknown", "SymbolVersionUnknown").loaded();
    });
}

fn check_predicts_the_kernels_answer_for_every_rdma_stack() {
    play("foretell-stack", |run| {
        assert_eq!(run.all("foretold").count(), 13);
        judge_stacks_without_mofed(run);
        if !kernel_has(VERSIONS) {
            // Nothing tells one MOFED's symbols from another's.
            for name in
                ["old-live", "old-live-on-disk", "old-live-precompiled", "old-live-new-on-disk", "untold"]
            {
                run.row(name).foretold_usable().loaded();
            }
            run.row("old-live-new-headers-with-version").foretold_held("Usable").loaded();
            return;
        }
        for name in ["old-live", "old-live-on-disk", "old-live-precompiled"] {
            run.row(name).foretold_blocked("SymbolVersionMismatch").refused(EINVAL, OTHER_MOFED);
        }
        // The headers name another exporter than the one that is live: not its.
        let [unnamed, named] =
            ["old-live-new-on-disk", "old-live-new-headers-with-version"].map(|name| run.row(name));
        unnamed.foretold("Unknown", "SymbolVersionUnknown").refused(EINVAL, OTHER_MOFED);
        named.foretold_held("SymbolVersionUnknown").refused(EINVAL, OTHER_MOFED);
        for name in ["all-old", "new-live-precompiled"] {
            run.row(name).foretold_usable().loaded();
        }
        run.row("untold").foretold("Unknown", "SymbolVersionUnknown").loaded();
    });
}

fn judge_stacks_without_mofed(run: &Run) {
    let [nothing, alone, intree, on_disk] =
        ["nothing-live", "intree-ib-core-alone", "intree", "intree-on-disk"].map(|name| run.row(name));
    run.row("nothing-live-on-disk").foretold_held("DependencyNotLive").loaded();
    nothing.foretold_held("DependencyNotLive");
    alone.foretold_held("DependencyNotLive");
    if kernel_has(VERSIONS) {
        alone.refused(EINVAL, "ib_uverbs: disagrees about version");
    } else {
        alone.refused(ENOEXEC, DUPLICATE);
    }
    if kernel_has(OWN_PEER_MEMORY) {
        nothing.refused(EINVAL, OTHER_MOFED);
        intree.foretold_held("SymbolVersionMismatch").refused(EINVAL, OTHER_MOFED);
        on_disk.foretold_held("SymbolVersionUnknown").refused(EINVAL, OTHER_MOFED);
    } else {
        nothing.refused(ENOENT, NO_MOFED);
        for row in [intree, on_disk] {
            row.foretold_held("DependencyNotLive").refused(ENOENT, NO_MOFED);
        }
    }
}

/// A report of today, a Module.symvers of tomorrow: exactly the modules that need no rebuild load then.
fn a_forecast_of_an_upgrade_agrees_with_the_kernel_after_it() {
    const MODULES: [&str; 7] = ["old", "new", "stub", "nocrc", "release", "unversioned", "xz"];
    play("forecast", |run| {
        let forecast = |name: &str| -> Value {
            let line = run.named("forecast", name).unwrap_or_else(|| panic!("no forecast {name}"));
            serde_json::from_str(line.split_once(' ').expect("a status and a forecast").1).expect("JSON")
        };
        let count = |forecast: &Value, list: &str| forecast[list].as_array().expect("a list").len();
        let mut pairs = 0;
        for (live, next, module) in ["old", "new"]
            .into_iter()
            .flat_map(|live| ["old", "new"].map(|next| (live, next)))
            .flat_map(|(live, next)| MODULES.map(|module| (live, next, module)))
        {
            let said = forecast(&format!("{live}-{module}-{next}"));
            let loads =
                run.named("kernel", &format!("{module}-{next}")).expect("an attempt").starts_with("0 live");
            note!("{live}-{module}-{next}: {said}, and the kernel loads it: {loads}");
            if count(&said, "unknown") > 0 {
                // No file that modprobe takes, or none with CRCs.
                let is_compared = kernel_has(VERSIONS) && !matches!(module, "unversioned" | "xz");
                assert!(!is_compared, "{live}-{module}-{next}: {said}");
                continue;
            }
            if module == "nocrc" && !kernel_has(FORCED) {
                continue;
            }
            assert_eq!(count(&said, "rebuild"), usize::from(!loads), "{live}-{module}-{next}: {said}");
            assert_eq!(count(&said, "nothing"), usize::from(loads), "{live}-{module}-{next}: {said}");
            pairs += 1;
        }
        if !kernel_has(VERSIONS) {
            return;
        }
        assert!(pairs >= 20, "{pairs} pairs were forecast");
        for (live, next) in [("old", "old"), ("old", "new"), ("new", "old"), ("new", "new")] {
            let said = forecast(&format!("{live}-live-{next}"));
            assert_eq!(count(&said, "rebuild") == 0, live == next, "{live}-live-{next}: {said}");
        }
        for live in ["old", "new"] {
            assert_eq!(count(&forecast(&format!("{live}-used-{live}")), "drain"), 1, "{live}");
        }
    });
}

fn a_module_is_not_called_usable_while_its_dependencies_load_or_unload() {
    play("foretell-swap", |run| {
        run.row("provider-coming").foretold_held("DependencyNotLive").loaded();
        for name in ["provider-going", "provider-failing"] {
            let row = run.row(name).foretold_held("DependencyNotLive");
            // There modprobe brings in the kernel's own ib_uverbs first.
            if kernel_has(OWN_PEER_MEMORY) {
                assert_eq!(row.kernel().0, "1", "{name}");
            } else {
                row.refused(ENOENT, NO_MOFED);
            }
        }
        let reason = if kernel_has(VERSIONS) { "SymbolVersionMismatch" } else { "DependencyNotLive" };
        let [coming, going] =
            ["old-provider-coming", "old-provider-going"].map(|name| run.row(name).foretold_held(reason));
        if kernel_has(OWN_PEER_MEMORY) {
            assert_eq!((coming.kernel().0, going.kernel().0), ("1", "1"));
        } else {
            if kernel_has(VERSIONS) {
                coming.refused(EINVAL, OTHER_MOFED);
            } else {
                coming.loaded();
            }
            going.refused(EBUSY, "");
        }
        // The kernel would take it, and MOFED could not be restarted any more.
        run.row("rest-coming").foretold("Waiting", "Usable").loaded();
        assert_eq!(run.all("foretold").count(), 6);
    });
}

fn the_kernel_gives_up_where_the_gate_waits() {
    play("foretell-slow", |run| {
        let slow = run.row("provider-slow").foretold_held("DependencyNotLive");
        if kernel_has(OWN_PEER_MEMORY) {
            // modprobe asks for ib_uverbs itself, and waits as long as that takes.
            slow.loaded();
        } else {
            slow.refused(EBUSY, "gave up waiting for init of module ib_uverbs");
        }
    });
}

fn check_predicts_the_kernels_answer_for_rights_and_signatures() {
    play("foretell-rights", |run| {
        for name in ["unrestricted", "unprivileged"] {
            run.row(name).foretold_usable().loaded();
        }
        run.row("unreadable").foretold("Unknown", "ModuleFileUnreadable").refused("Permission denied", "");
        run.row("lockdown").foretold_blocked("UnsignedModule").refused(EPERM, "Lockdown: modprobe");
        run.row("enforced")
            .foretold_blocked("UnsignedModule")
            .refused(EKEYREJECTED, "unsigned module is rejected");
        // That it is signed can be seen, but not whose keys the kernel trusts.
        run.row("lockdown-signed").foretold_usable().refused(EPERM, "Lockdown: modprobe");
        run.row("enforced-signed").foretold_usable().refused(EKEYREJECTED, "unavailable key is rejected");

        for (name, words) in [
            ("no-capability", "CAP_SYS_MODULE"),
            ("user-namespace", "CAP_SYS_MODULE"),
            ("lockdown", "not signed"),
            ("enforced-signed", "EKEYREJECTED"),
            ("modules-disabled", "modules_disabled"),
        ] {
            run.loading(name).ended(3, "absent").said(words);
        }
        for name in ["no-capability", "user-namespace", "modules-disabled"] {
            run.row(name).refused(EPERM, "");
        }
    });
}

fn load_waits_for_mofed_then_loads_and_proves_it() {
    play("load-whole", |run| {
        run.loading("not-ready-dry").ended(0, "absent").said("MarkerAbsent");
        run.loading("deadline").ended(124, "absent").said("MarkerAbsent");
        run.loading("terminated").ended(143, "absent");
        run.loading("waits").ended(0, "live").said("loaded: nvidia_peermem is live and uses");
        assert_eq!(run.only("witness"), COMPLETE);
        assert!(run.last("outcome", "waits") >= run.last("marking", "") + 1.0 - GRAIN);

        run.loading("again").ended(0, "live").said("already loaded");
        run.loading("gone").ended(124, "live").said("ModuleNotLoaded");
        let gone = run.report("foretold", "gone");
        assert_eq!(gone.verdict(), "Waiting");
        gone.assert("PeermemUsable", "False", "LoadedOnGoneStack");
        run.loading("ready-dry").ended(0, "absent");
        run.loading("parameter").ended(0, "live");
        assert_eq!(run.only("parameter"), "1");
        let by_line = run.named("kernel", "install-line").expect("an attempt");
        assert!(by_line.starts_with("0 live ") && by_line.contains("peerdirect_support=1"), "{by_line}");
        run.row("install-line-held").refused("MarkerPresent", "");
    });
}

fn load_names_the_cause_of_a_refusal_and_its_remedy() {
    play("load-refused", |run| {
        for (name, words) in [("stub", "StubModule"), ("parameter", "BadParameter")] {
            run.loading(name).ended(3, "absent").said(words).ran_modprobe(0);
            let is_asked = |text: &str| text.starts_with(name) && text.contains("peermem");
            assert!(!run.all("dmesg").any(|line| is_asked(&line.text)), "the kernel was asked");
        }
        run.loading("stub-dry").ended(0, "absent").said("StubModule").ran_modprobe(0);
        run.loading("good").ended(0, "live").ran_modprobe(1);

        let squatter = run.loading("squatter").ended(3, "absent").ran_modprobe(1);
        squatter.said("EINVAL").said("another client");
        let log = "nvidia-peermem nv_mem_nc_client_init:603 ERROR nv_mem_client_init -- error while registering nc client";
        assert!(run.all("dmesg").any(|line| line.text.starts_with("squatter ") && line.text.ends_with(log)));
        squatter.said(log).said("cannot create duplicate filename");

        run.loading("busy-once").ended(0, "live").ran_modprobe(2).said("EBUSY");
        run.loading("nothing-done").ended(3, "absent").ran_modprobe(1).said("modprobe reported success");
        run.loading("done-yet-failed").ended(0, "live").ran_modprobe(1);
        run.loading("killed").ended(3, "absent").ran_modprobe(1);
        for name in ["install-false", "install-true"] {
            run.loading(name).ended(3, "absent").said("has `install nvidia_peermem").ran_modprobe(0);
        }
        run.loading("blacklisted").ended(0, "live");
        run.loading("softdep").ended(124, "absent").said("mlxfw").ran_modprobe(0);
    });
}

fn load_works_below_another_root_and_with_other_modprobes() {
    play("load-elsewhere", |run| {
        run.row("outer").foretold_blocked("StubModule").refused(EINVAL, "");
        run.row("inner").foretold_usable().loaded();
        run.loading("outer").ended(3, "absent").said("StubModule");
        run.loading("inner").ended(0, "live");
        run.loading("found").ended(0, "live").said("chroot /run/nvidia/driver");
        for (name, status) in [
            ("no-such-modprobe", 127),
            ("plain-modprobe", 126),
            ("no-modprobe", 127),
            ("only-the-shim", 127),
            ("shim-alone", 127),
        ] {
            run.loading(name).ended(status, "absent");
        }

        run.loading("shim-not-ready").ended(124, "absent").said("MarkerAbsent");
        run.loading("shim-ready").ended(0, "live");
        run.loading("shim-removes").ended(0, "absent");
        run.loading("shim-shows").ended(0, "absent");
        assert!(
            run.all("out")
                .any(|line| line.text.contains("insmod") && line.text.contains("nvidia-peermem.ko"))
        );
        run.loading("shim-other").ended(0, "absent");
        run.loading("shim-unknown").ended(1, "absent").said("FATAL: Module no-such-module not found");
        run.loading("shim-all").ended(0, "live");
        run.loading("shim-stub").ended(3, "absent").said("StubModule");
    });
}

/// Swaps of one boot, as the scenarios have them.
const SWAPS: u32 = 10;

/// `SWAP_ROUNDS` asks for more than one boot's.
fn a_load_is_in_time_whenever_mofed_swaps_its_modules() {
    for seed in 0..swap_boots() {
        play_seeded("swap-under-load", seed, judge_swaps);
    }
}

fn judge_swaps(run: &Run) {
    let (mut last, mut early, mut overlapped) = (0, 0, 0);
    for round in run.all("round") {
        let [number, when, _from, _delay, status, peermem, witness] =
            round.text.splitn(7, ' ').collect::<Vec<_>>()[..]
        else {
            panic!("{}", round.text)
        };
        let said = |words| {
            let prefix = format!("{number} {when} ");
            run.all("said").any(|line| line.text.starts_with(&prefix) && line.text.contains(words))
        };
        assert_eq!(peermem, "peermem=live", "{}", round.text);
        match (when, status) {
            (_, "status=0") => assert_eq!(witness, COMPLETE, "loaded too early: {}", round.text),
            // Loaded as MOFED began to go, which nothing can rule out: but not unnoticed.
            ("early", "status=3") => assert!(said("MOFED began to restart"), "{}", round.text),
            _ => panic!("{}", round.text),
        }
        last += usize::from(when == "last");
        early += usize::from(when == "early");
        overlapped += usize::from(status == "status=3");
    }
    note!("{last} rounds, {early} loads before the swap, {overlapped} of them overlapped its beginning");
    assert_eq!(last, SWAPS as usize);
    for line in run.all("refused") {
        let einval = line.text.split(' ').nth(1).expect("a number");
        assert_eq!(einval, "0", "EINVAL in round {}", line.text);
    }
}

/// `SWAP_ROUNDS` asks for more than one boot's swaps.
fn keep_unloads_before_mofeds_swap_and_loads_after_it() {
    let mut tally = Tally::default();
    let boots = swap_boots();
    for seed in 0..boots {
        play_seeded("keep-swaps", seed, |run| {
            tally.add(run);
            let ended: Vec<_> = run.all("ended").map(|line| line.text.as_str()).collect();
            assert_eq!(ended, ["0", "0"], "a signal ended it, as it should");
            run.assert_metric("peermem_gate_keep_state{state=\"Loaded\"} 1");
        });
    }
    if tally.rounds == 0 {
        return;
    }
    tally.print("keep");
    assert_eq!(tally.rounds, SWAPS * boots);
    assert_eq!(tally.disturbed, 0, "MOFED could not unload its modules");
    assert_eq!(tally.never_live, 0, "nvidia_peermem did not come back");
    // Far below the safety net's five seconds: an event told. docs/measurements.md has the figures.
    for (what, times, limit) in [
        ("the marker's removal", &tally.begun, 500.0),
        ("mlx5_ib's unload on a host", &tally.begun_on_host, 1000.0),
    ] {
        let [median, worst] = [50, 100].map(|percent| percentile(times, percent).expect("it let go"));
        assert!(median <= limit && worst <= AT_ONCE * 1000.0, "{median}, at most {worst} ms from {what}");
    }
}

/// The same beside what nvidia-peermem-ctr does.
fn a_loop_that_only_loads_disturbs_mofeds_swaps() {
    let mut tally = Tally::default();
    for seed in 0..swap_boots() {
        play_seeded("loop-swaps", seed, |run| tally.add(run));
    }
    if tally.rounds > 0 {
        tally.print("loop");
        assert!(tally.disturbed > 0, "the swaps prove nothing");
    }
}

fn swap_boots() -> u32 {
    env::var("SWAP_ROUNDS").map_or(1, |rounds| rounds.parse::<u32>().expect("a number").div_ceil(SWAPS))
}

/// What became of many swaps.
#[derive(Default)]
struct Tally {
    rounds: u32,
    disturbed: u32,
    never_live: u32,
    /// Milliseconds from the end of a swap until `nvidia_peermem` was live.
    live: Vec<f64>,
    /// From the marker's removal: until rmmod was started for `keep`, and until it asked the kernel.
    begun: Vec<f64>,
    asked: Vec<f64>,
    /// The same of a host's MOFED, from where it begins to unload `mlx5_ib`.
    begun_on_host: Vec<f64>,
}

impl Tally {
    fn add(&mut self, run: &Run) {
        for line in run.all("round") {
            let words: Vec<_> = line.text.split(' ').collect();
            let [number, kind, disturbed, live] = words[..] else { panic!("{}", line.text) };
            if kind == "begin" {
                continue;
            }
            self.rounds += 1;
            self.disturbed += u32::from(disturbed != "disturbed=0");
            match live.trim_start_matches("live=").parse() {
                Ok(live) => self.live.push(live),
                Err(_) => self.never_live += 1,
            }
            if let Some((begun, asked)) = yielded(run, number, kind) {
                if kind == "host" {
                    self.begun_on_host.push(begun);
                } else {
                    self.begun.push(begun);
                    self.asked.push(asked);
                }
            }
        }
    }

    fn print(&self, what: &str) {
        let Self { rounds, disturbed, never_live, .. } = self;
        note!("{what}: {rounds} swaps, {disturbed} disturbed, {never_live} without nvidia_peermem after");
        for (what, times) in [
            ("from the end of the swap until it is live", &self.live),
            ("from the marker's removal to rmmod's start", &self.begun),
            ("from the marker's removal to delete_module(2)", &self.asked),
            ("on a host, from mlx5_ib's unload to rmmod's start", &self.begun_on_host),
        ] {
            let [half, most, worst] = [50, 99, 100].map(|p| percentile(times, p).unwrap_or(f64::NAN));
            note!("{what}: median {half:.1}, p99 {most:.1}, at most {worst:.1} ms ({} times)", times.len());
        }
    }
}

/// From the trace of a round: when the swap began to show, and how much later `keep` started an rmmod of
/// `nvidia_peermem`, and that rmmod asked the kernel. `None` where somebody else took it away first.
fn yielded(run: &Run, round: &str, kind: &str) -> Option<(f64, f64)> {
    let prefix = format!("{round} ");
    let trace: Vec<_> =
        run.all("trace").filter_map(|line| Traced::parse(line.text.strip_prefix(&prefix)?)).collect();
    let begins = if kind == "host" { "name=\"mlx5_ib\"" } else { "driver-ready\"" };
    let begun = trace.iter().find(|line| line.what.contains(begins))?.at;
    let after: Vec<_> = trace.iter().filter(|line| line.at >= begun).collect();
    let forked = after.iter().filter(|line| line.what.contains("sched_process_fork: comm=peermem-"));
    let children: Vec<&str> =
        forked.filter_map(|line| line.what.rsplit_once("child_pid=").map(|(_, pid)| pid)).collect();
    let unload = after.iter().find(|line| {
        line.what.contains("name=\"nvidia_peermem\"") && children.contains(&line.pid.as_str())
    })?;
    let is_start = |line: &&&Traced| line.pid == unload.pid && line.what.contains("sched_process_exec");
    let start = after.iter().rfind(is_start)?;
    Some(((start.at - begun) * 1000.0, (unload.at - begun) * 1000.0))
}

/// `COMM-PID [CPU] FLAGS SECONDS: EVENT`.
struct Traced {
    pid: String,
    at: f64,
    what: String,
}

impl Traced {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let pid = words.next()?.rsplit_once('-')?.1.to_owned();
        let at = words.find(|word| word.ends_with(':'))?.trim_end_matches(':').parse().ok()?;
        Some(Self { pid, at, what: words.collect::<Vec<_>>().join(" ") })
    }
}

fn percentile(times: &[f64], percent: usize) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(at).copied()
}

fn nvidias_own_peermem_is_predicted_to_load_and_loads() {
    play_real("real-peermem", "real", |run| {
        let report = run.check(0);
        report.assert_ready();
        report.assert("PeermemUsable", "True", "Usable");
        assert_eq!(run.only("modprobe"), "0");
        assert_eq!(run.status(), 0);
        assert_eq!(run.all("peermem").filter(|line| line.text.contains(" Live ")).count(), 2);
    });
}

fn nvidias_own_stub_is_predicted_to_be_refused() {
    play_real("real-stub", "stub", |run| {
        let report = run.check(0);
        assert_eq!(report.verdict(), "Blocked");
        report.assert("PeermemUsable", "False", "StubModule");
        assert!(run.only("modprobe").starts_with("1 ") && run.only("modprobe").contains(EINVAL));
    });
}

/// What is drawn afterwards has the times of what the scenario did.
fn a_timeline_has_the_times_of_the_race() {
    /// In seconds, beyond what lies between two lines of the scenario.
    const EXACT: f64 = 0.05;
    play("timeline", |run| {
        let at = |kind: &str| run.all(kind).next().unwrap_or_else(|| panic!("no line `{kind}`")).at;
        let time = |kind: &str, what: &str| {
            let drawn: Value = serde_json::from_str(run.only(kind)).expect("JSON");
            let events = drawn["events"].as_array().expect("events").clone();
            let event = events.into_iter().find(|event| event["what"] == what);
            let event = event.unwrap_or_else(|| panic!("{what} is not drawn: {drawn}"));
            let time = humantime::parse_rfc3339(event["time"].as_str().expect("a time")).expect("a time");
            i64::try_from(time.duration_since(UNIX_EPOCH).expect("since 1970").as_nanos())
                .expect("this century")
        };
        let seconds = |ns: i64| Duration::from_nanos(ns.unsigned_abs()).as_secs_f64();
        let drawn: Value = serde_json::from_str(run.only("timeline")).expect("JSON");
        assert_eq!(drawn["verdict"]["id"], "LoadedTooEarly", "{drawn}");
        // The marker tells both clocks, as exactly as the scenario knows when it was made.
        let marker = time("timeline", "MarkerWritten");
        let since_boot =
            |ns: i64| at("marking") + if ns < marker { -seconds(marker - ns) } else { seconds(ns - marker) };
        for (kind, what, from, to) in [
            ("timeline", "KernelUnknownSymbol", at("refusing"), at("refused")),
            ("timeline", "MarkerWritten", at("marking"), at("marked")),
            ("timeline", "ValidationWritten", at("validating"), at("validated")),
            ("gatelog", "GateOpened", at("marking"), at("opened")),
        ] {
            let drawn = since_boot(time(kind, what));
            println!("{what}: drawn {drawn:.3} s, between {from:.2} s and {to:.2} s");
            // On a busy host the marker is made some time after `marking`.
            let exact = EXACT + at("marked") - at("marking");
            assert!((from - exact..=to + exact).contains(&drawn), "{what}: {drawn} is not in {from} to {to}");
        }
    });
}

/// What a scenario left behind.
struct Run(Vec<Line>);

impl Run {
    fn all<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Line> {
        self.0.iter().filter(move |line| line.kind == kind)
    }

    /// When the last line of this kind and beginning was written.
    fn last(&self, kind: &str, text: &str) -> f64 {
        let line = self.all(kind).filter(|line| line.text.starts_with(text)).last();
        line.unwrap_or_else(|| panic!("no line `{kind} {text}`")).at
    }

    fn check(&self, number: usize) -> Report {
        Report::parse(&self.all("check").nth(number).expect("a check").text)
    }

    /// What follows the name in the line of this kind and name.
    fn named(&self, kind: &str, name: &str) -> Option<&str> {
        self.all(kind).find_map(|line| line.text.strip_prefix(name)?.strip_prefix(' '))
    }

    fn report(&self, kind: &str, name: &str) -> Report {
        Report::parse(self.named(kind, name).unwrap_or_else(|| panic!("no line `{kind} {name}`")))
    }

    fn only(&self, kind: &str) -> &str {
        let lines: Vec<_> = self.all(kind).collect();
        assert_eq!(lines.len(), 1, "lines `{kind}`");
        &lines[0].text
    }

    fn row<'a>(&'a self, name: &'a str) -> Row<'a> {
        Row { run: self, name }
    }

    fn loading<'a>(&'a self, name: &'a str) -> Loading<'a> {
        Loading { run: self, name }
    }

    /// CMD ran, once, as the process that had waited, with the whole stack live and MOFED's, and
    /// the status is its own. When was that?
    fn assert_opened(&self) -> f64 {
        let opened: Vec<_> = self.all("opened").collect();
        assert_eq!(opened.len(), 1, "CMD runs once");
        let waiting = self.all("waiting").next().expect("a gate that waits");
        assert!(
            opened[0].text.starts_with(&format!("{} ", waiting.text)),
            "CMD is not the process that waited"
        );
        let stack = opened[0].text.split(' ').skip(1);
        assert_eq!(
            stack.filter(|module| module.ends_with("=Live/live/(OE)")).count(),
            4,
            "opened over {}",
            opened[0].text
        );
        assert_eq!(self.status(), OPENED);
        opened[0].at
    }

    /// The deadline passed, and CMD never ran.
    fn assert_held(&self) {
        assert_eq!(self.all("opened").count(), 0, "opened");
        assert_eq!(self.status(), 124);
    }

    fn status(&self) -> i32 {
        let ended = self.all("ended").next().expect("a gate that ended");
        ended.text.parse().expect("a status")
    }

    fn logs(&self, words: &str) -> bool {
        self.all("log").any(|line| line.text.contains(words))
    }

    fn assert_metric(&self, line: &str) {
        assert!(self.all("metrics").any(|metric| metric.text == line), "no {line}");
    }

    fn assert_logged(&self, words: &str) {
        assert!(self.logs(words), "the log does not say {words}");
    }

    fn assert_not_logged(&self, words: &str) {
        assert!(!self.logs(words), "the log says {words}");
    }

    /// The scenario did what it is for, and while the gate was there.
    fn assert_seen(&self, state: &str) {
        let since = self.last("waiting", "");
        let mut stacks = self.all("stack").filter(|line| line.at > since);
        assert!(stacks.any(|line| line.text.contains(state)), "{state} was never to be seen");
    }
}

/// What was foretold of `nvidia_peermem`, and what became of it when nobody asked the gate.
#[derive(Clone, Copy)]
struct Row<'a> {
    run: &'a Run,
    name: &'a str,
}

impl Row<'_> {
    fn report(&self) -> Report {
        self.run.report("foretold", self.name)
    }

    fn foretold(self, verdict: &str, reason: &str) -> Self {
        let report = self.report();
        let condition = report.condition("PeermemUsable");
        note!("{}: {} {}", self.name, report.verdict(), condition["reason"]);
        assert_eq!(report.verdict(), verdict, "{}: {}", self.name, report.json);
        assert_eq!(condition["reason"], reason, "{}: {condition}", self.name);
        self
    }

    fn foretold_usable(self) -> Self {
        self.foretold("Ready", "Usable")
    }

    fn foretold_blocked(self, reason: &str) -> Self {
        self.foretold("Blocked", reason)
    }

    /// Neither promised nor refused.
    fn foretold_held(self, reason: &str) -> Self {
        self.foretold("Waiting", reason)
    }

    fn kernel(&self) -> (&str, &str) {
        let line =
            self.run.named("kernel", self.name).unwrap_or_else(|| panic!("no attempt at {}", self.name));
        note!("{}: {line}", self.name);
        line.split_once(' ').expect("a status and a state")
    }

    fn loaded(self) -> Self {
        assert_eq!(self.kernel(), ("0", "live"), "{}", self.name);
        self
    }

    /// With these words of modprobe, and with these of the kernel, or with none.
    fn refused(self, words: &str, log: &str) -> Self {
        let (status, said) = self.kernel();
        assert_eq!(status, "1", "{}", self.name);
        assert!(said.starts_with("absent ") && said.contains(words), "{}: {said}", self.name);
        if log.is_empty() {
            assert_eq!(self.run.named("dmesg", self.name), None, "{}", self.name);
            return self;
        }
        self.logged(log)
    }

    fn logged(self, words: &str) -> Self {
        let prefix = format!("{} ", self.name);
        let mut lines = self.run.all("dmesg").filter(|line| line.text.starts_with(&prefix));
        assert!(lines.any(|line| line.text.contains(words)), "{}: the kernel did not say {words}", self.name);
        self
    }
}

/// One run of `load`, or of the shim.
#[derive(Clone, Copy)]
struct Loading<'a> {
    run: &'a Run,
    name: &'a str,
}

impl Loading<'_> {
    fn ended(self, status: i32, peermem: &str) -> Self {
        let done = self.run.named("outcome", self.name).unwrap_or_else(|| panic!("no load {}", self.name));
        assert_eq!(done, format!("{status} {peermem}"), "{}", self.name);
        self
    }

    fn said(self, words: &str) -> Self {
        let prefix = format!("{} ", self.name);
        let mut said = self.run.all("said").filter(|line| line.text.starts_with(&prefix));
        assert!(said.any(|line| line.text.contains(words)), "{} did not say {words}", self.name);
        self
    }

    /// To load, not to be asked.
    fn ran_modprobe(self, times: usize) -> Self {
        let prefix = format!("{} ", self.name);
        let runs = self.run.all("modprobe").filter(|line| line.text.starts_with(&prefix));
        assert_eq!(runs.count(), times, "{}", self.name);
        self
    }
}

struct Report {
    status: i32,
    json: Value,
}

impl Report {
    fn parse(text: &str) -> Self {
        let (status, report) = text.split_once(' ').expect("a status and a report");
        Self {
            status: status.parse().expect("a status"),
            json: serde_json::from_str(report).expect("one line of JSON"),
        }
    }

    fn verdict(&self) -> &str {
        self.json["verdict"].as_str().expect("a verdict")
    }

    fn condition(&self, kind: &str) -> &Value {
        let mut conditions = self.json["conditions"].as_array().expect("conditions").iter();
        conditions.find(|condition| condition["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    fn message(&self, kind: &str) -> &str {
        self.condition(kind)["message"].as_str().expect("a message")
    }

    /// An empty reason is any.
    fn assert(&self, kind: &str, status: &str, reason: &str) {
        let condition = self.condition(kind);
        assert_eq!(condition["status"], status, "{condition}");
        assert!(reason.is_empty() || condition["reason"] == reason, "{reason} expected: {condition}");
    }

    fn assert_ready(&self) {
        assert_eq!(self.verdict(), "Ready", "{}", self.json);
        assert_eq!(self.status, 0);
    }
}

/// The stub is cured, and so is the module of a MOFED that is gone; a swap that begins meanwhile goes first.
fn nvidia_peermem_is_rebuilt_and_live() {
    if machine::made().join("traits").exists() && !kernel_has(VERSIONS) {
        let why = "this scenario hides MOFED's own files, by which alone such a kernel shows whose headers they are";
        return support::suite::set_aside(why);
    }
    play("rebuild", |run| {
        run.loading("off").ended(3, "absent").said("StubModule");
        run.loading("auto")
            .ended(0, "live")
            .said("is installed and usable")
            .said("loaded: nvidia_peermem is live");
        assert!(run.only("file").contains("/updates/nvidia-peermem.ko"), "{}", run.only("file"));
        assert_eq!(run.only("ended-build"), "0", "nothing was installed");
        run.loading("swap").ended(0, "live").said("nothing is installed").said("is installed and usable");
        run.loading("wrong")
            .ended(3, "absent")
            .said("is installed and usable")
            .said("disagrees about version of symbol ib_register_peer_memory_client");
        assert!(run.only("again").starts_with("SymversUnusable"), "{}", run.only("again"));
        assert_eq!(run.only("kept"), "live");
        assert_eq!(run.only("healed"), "live \"installed\":2");
    });
}

/// A keeper that was killed with its compiler would build again as soon as it is started again, and be killed again.
fn a_compiler_without_memory_does_not_take_the_keeper_with_it() {
    play("memory", |run| {
        assert_eq!(run.only("killed"), "oom_kill 0");
        assert_eq!(run.only("healed"), "live");
        let limit = "raise the container's memory limit, which leaves each process 48 MiB";
        run.loading("keep").said(limit);
    });
}

/// By what `tests/vm/build` has found out about the machine's kernel.
fn kernel_has(wanted: &str) -> bool {
    let traits = fs::read_to_string(machine::made().join("traits")).expect("tests/vm/build leaves it");
    traits.lines().any(|line| line == wanted)
}

/// Plays a scenario to its end, or says why it cannot be played here.
fn play(scenario: &str, judge: impl FnOnce(&Run)) {
    play_seeded(scenario, 1, judge);
}

fn play_seeded(scenario: &str, seed: u32, judge: impl FnOnce(&Run)) {
    let gate = machine::gate();
    if let Some(reason) = machine::missing(&gate) {
        skip(&reason);
        return;
    }
    let mut lines = Vec::new();
    machine::boot(scenario, &gate, seed, LIMIT, |line| {
        // Shown when the test fails.
        note!("{scenario}: {line}");
        lines.extend(Line::parse(line));
    });
    judge(&Run(lines));
}

/// With the module of this `kind` that `tests/vm/real`, or `tests/rebuilds`, made; it says itself why it could not.
fn play_real(scenario: &str, kind: &str, judge: impl FnOnce(&Run)) {
    let vm = machine::made();
    let stamp = |path| fs::read_to_string(vm.join(path)).unwrap_or_default();
    let is_made = vm.join(format!("real/{kind}/nvidia-peermem.ko")).exists();
    if is_made && stamp("real/stamp").starts_with(&format!("{} ", stamp("stamp").trim_end())) {
        play(scenario, judge);
    } else {
        support::suite::set_aside("tests/vm/real has not made NVIDIA's own nvidia-peermem for this machine");
    }
}

fn main() -> ExitCode {
    let tests = suite![
        a_stale_marker_over_the_in_tree_stack_keeps_the_gate_closed,
        a_node_with_mofed_2407_opens,
        a_half_swapped_stack_keeps_the_gate_closed,
        fabric_manager_waits_for_its_device,
        doctor_names_the_root_cause,
        modules_that_load_or_unload_are_not_live,
        a_swap_opens_after_its_marker,
        a_swap_under_a_stale_marker_opens_after_its_last_module,
        a_module_whose_init_fails_does_not_count_as_loaded,
        a_reload_restarts_the_settle_time,
        a_reload_without_an_event_restarts_the_settle_time,
        a_uevent_wakes_the_gate,
        a_lock_that_is_lost_makes_the_marker_suspect_and_accepted_late,
        check_predicts_the_kernels_answer_for_every_module_file,
        check_predicts_the_kernels_answer_for_nvidia_rivals_and_parameters,
        check_predicts_the_kernels_answer_for_every_rdma_stack,
        a_forecast_of_an_upgrade_agrees_with_the_kernel_after_it,
        a_module_is_not_called_usable_while_its_dependencies_load_or_unload,
        the_kernel_gives_up_where_the_gate_waits,
        check_predicts_the_kernels_answer_for_rights_and_signatures,
        load_waits_for_mofed_then_loads_and_proves_it,
        load_names_the_cause_of_a_refusal_and_its_remedy,
        load_works_below_another_root_and_with_other_modprobes,
        a_load_is_in_time_whenever_mofed_swaps_its_modules,
        keep_unloads_before_mofeds_swap_and_loads_after_it,
        a_loop_that_only_loads_disturbs_mofeds_swaps,
        nvidias_own_peermem_is_predicted_to_load_and_loads,
        nvidias_own_stub_is_predicted_to_be_refused,
        a_timeline_has_the_times_of_the_race,
        nvidia_peermem_is_rebuilt_and_live,
        a_compiler_without_memory_does_not_take_the_keeper_with_it,
    ];
    support::suite::run(tests, None)
}
