// SPDX-License-Identifier: Apache-2.0
//! The clock of the kernel's log. It is not the one of /proc/uptime: no time server corrects it, and where the kernel
//! missed ticks before it had chosen its clock, as on an emulated arm64 machine, it is ahead from the beginning.

use crate::stamp::{MILLISECOND, SECOND, Stamp};
use peermem_gate::ready::clock;
use peermem_gate::ready::files::read::lines;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Since Linux 5.13, and before it, below /proc.
const SCHEDULER: [&str; 2] = ["kernel/debug/sched/debug", "sched_debug"];
/// The clocks stand at the beginning of the file. Behind them the kernel would list all processes.
const HEAD: u64 = 1024;

/// When this machine's kernel log began, by the wall clock as it is now. Where the kernel does not show the log's
/// clock, that of /proc/uptime must do, and more than whole seconds are not known.
pub(super) fn zero(sys: &Path, proc: &Path) -> Option<Stamp> {
    let shown = [sys.join(SCHEDULER[0]), proc.join(SCHEDULER[1])].iter().find_map(|file| shown(file));
    let (since, precision) = shown.map_or_else(|| (clock::now(), SECOND), |clock| (clock, MILLISECOND));
    let wall = clock::wall().duration_since(UNIX_EPOCH).ok()?;
    let zero = i64::try_from(wall.checked_sub(since)?.as_nanos()).ok()?;
    Some(Stamp::wall(zero, precision))
}

/// `cpu_clk   : 7477.462346`, in milliseconds.
fn shown(file: &Path) -> Option<Duration> {
    let mut clock = None;
    let each = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let Some((name, value)) = line.split_once(':') else { return ControlFlow::Continue(()) };
        if name.trim() != "cpu_clk" {
            return ControlFlow::Continue(());
        }
        clock = value.trim().split_once('.').and_then(|(milliseconds, nanoseconds)| {
            let milliseconds = Duration::from_millis(milliseconds.parse().ok()?);
            Some(milliseconds + Duration::from_nanos(nanoseconds.parse().ok()?))
        });
        ControlFlow::Break(())
    };
    lines(file, HEAD, each).ok()?;
    clock
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SHOWN: &str = "Sched Debug Version: v0.11, 6.1.0-50-arm64 #1\n\
        ktime                                   : 3600000.000001\n\
        sched_clk                               : 3600987.100004\n\
        cpu_clk                                 : 3600987.100005\n\
        jiffies                                 : 4295792293\n";

    #[test]
    fn the_kernels_log_has_the_clock_that_the_scheduler_shows() {
        let dir = tempfile::tempdir().unwrap();
        let [sys, proc] = ["sys", "proc"].map(|name| dir.path().join(name));
        fs::create_dir_all(sys.join("kernel/debug/sched")).unwrap();
        fs::create_dir(&proc).unwrap();
        let now = || i64::try_from(clock::wall().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
        for file in [sys.join(SCHEDULER[0]), proc.join(SCHEDULER[1])] {
            fs::write(&file, SHOWN).unwrap();
            assert_eq!(shown(&file), Some(Duration::new(3600, 987_100_005)));
            let before = now();
            let zero = zero(&sys, &proc).unwrap();
            assert_eq!(zero.precision_ns, MILLISECOND);
            assert!((before..=now()).contains(&(zero.ns + 3_600_987_100_005)));
            fs::remove_file(file).unwrap();
        }
        let boot = zero(&sys, &proc).unwrap();
        let uptime = i64::try_from(clock::now().as_nanos()).unwrap();
        assert!(boot.precision_ns == SECOND && (now() - uptime - boot.ns).abs() < SECOND);
    }

    #[test]
    fn a_clock_in_another_form_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "cpu_clk\n", "cpu_clk : 1\n", "cpu_clk : -1.000000\n", "ktime : 1.000000\n"] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(shown(file.path()), None, "{text}");
        }
    }
}
