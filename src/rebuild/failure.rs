// SPDX-License-Identifier: Apache-2.0
//! A build that failed: the line that says why, and whether its cause passes by itself.
//!
//! A verdict is final until MOFED, nvidia or the kernel is another. So only the build's own end is one: a process
//! that was killed, a full disk and a shortage of memory say nothing about the sources. The mechanism is asked first;
//! a compiler that was killed below `make` leaves nothing but words, and the C locale makes these stable.

use super::ROOM;
use crate::text::escaped;

/// Words of a line that says why, in any case; the earlier, the better it says it.
const ERRORS: [&str; 4] = ["error:", ": not found", "*** ", "error "];

const SHORT: &str = "memory is short";

/// The words for a cause that passes, as gcc, make, sh and the C library say them.
const PASSING: [(&str, &str); 12] = [
    ("No space left on device", "the disk is full"),
    ("Disk quota exceeded", "the disk's quota is used up"),
    ("Cannot allocate memory", SHORT),
    ("out of memory", SHORT),
    ("memory exhausted", SHORT),
    ("Resource temporarily unavailable", "no process could be started"),
    ("Killed signal terminated program", "a process was killed"),
    ("Terminated signal terminated program", "a process was ended"),
    ("] Killed", "a process was killed"),
    ("] Terminated", "a process was ended"),
    ("Error 137", "a process was killed"),
    ("Error 143", "a process was ended"),
];

/// The signals that end a build, by their numbers.
const SIGNALS: [(u8, &str); 8] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (6, "SIGABRT"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
];

/// The known facts about a build that failed.
#[derive(Clone, Copy, Debug)]
pub struct BuildFailure<'a> {
    /// Its exit code, as a shell shows it: above 128 a signal ended it.
    pub code: u8,
    /// Its last lines.
    pub lines: &'a [String],
    /// Free bytes where it was built, afterwards.
    pub free: Option<u64>,
    /// Memory was so short meanwhile that the kernel killed a process, of the build or another.
    pub was_short_of_memory: bool,
}

impl BuildFailure<'_> {
    /// The cause, if it passes by itself.
    #[must_use]
    pub fn passing(&self) -> Option<&'static str> {
        if self.code > 128 {
            return Some("a signal ended it");
        }
        if self.free.is_some_and(|free| free < ROOM) {
            return Some("the disk is full");
        }
        if self.was_short_of_memory {
            return Some("the kernel killed a process meanwhile because memory was short");
        }
        let says = |words: &str| self.lines.iter().any(|line| line.contains(words));
        PASSING.iter().find(|(words, _)| says(words)).map(|(_, cause)| *cause)
    }

    /// The first line that is an error; otherwise the last one.
    #[must_use]
    pub fn line(&self) -> &str {
        let first = |words: &&str| self.lines.iter().find(|line| line.to_ascii_lowercase().contains(*words));
        ERRORS.iter().find_map(first).or(self.lines.last()).map_or("", String::as_str)
    }

    /// How it ended, in a sentence without its subject. `memory` is what each of its processes may have had.
    #[must_use]
    pub fn how(&self, memory: Option<u64>) -> String {
        let line = Some(self.line()).filter(|line| !line.is_empty());
        let cause = self.passing().filter(|_| self.code <= 128);
        let more = line.map_or(String::new(), |line| format!(": {}", escaped(line)));
        let left = |memory| {
            let left: u64 = memory >> 20;
            format!("; what to do: raise the container's memory limit, which leaves each process {left} MiB")
        };
        let limit = memory.filter(|_| cause == Some(SHORT)).map_or(String::new(), left);
        ended(self.code) + &more + &cause.map_or(String::new(), |cause| format!(" ({cause})")) + &limit
    }
}

/// How a program ended, by its exit code as a shell shows it.
#[must_use]
pub fn ended(code: u8) -> String {
    match code.checked_sub(128).filter(|signal| *signal > 0) {
        None => format!("ended with {code}"),
        Some(number) => match SIGNALS.iter().find(|(signal, _)| *signal == number) {
            Some((_, name)) => format!("was ended by {name}"),
            None => format!("was ended by signal {number}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn end(code: u8, lines: &[String]) -> BuildFailure<'_> {
        BuildFailure { code, lines, free: None, was_short_of_memory: false }
    }

    /// As gcc, make, modpost and sh print it when they fail.
    #[test]
    fn the_first_error_says_why_a_build_failed() {
        for (text, expected) in [
            (
                "  CC [M]  nvidia-peermem.o\n/c/nvidia-peermem.c:9:2: warning: unused\n\
                 /c/nvidia-peermem.c:50:2: error: #error no\nmake[3]: *** [Makefile:250: nvidia-peermem.o] Error 1\n\
                 make[1]: *** [Makefile:1: modules] Error 2\nmake: Leaving directory '/c'",
                "/c/nvidia-peermem.c:50:2: error: #error no",
            ),
            (
                "ERROR: modpost: \"nvidia_p2p_get_pages\" [nvidia-peermem.ko] undefined!\nmake[2]: *** [x] Error 1",
                "ERROR: modpost: \"nvidia_p2p_get_pages\" [nvidia-peermem.ko] undefined!",
            ),
            (
                "/bin/sh: 1: cc: not found\nmake[1]: *** [Makefile:109: modules] Error 127",
                "/bin/sh: 1: cc: not found",
            ),
            (
                "make: *** No rule to make target 'modules'.  Stop.",
                "make: *** No rule to make target 'modules'.  Stop.",
            ),
            ("make: entering\ngcc: fatal error: no input files\nrest", "gcc: fatal error: no input files"),
            ("CONFTEST: pci_error_recovery\nlast", "last"),
            ("", ""),
        ] {
            assert_eq!(end(2, &lines(text)).line(), expected);
        }
    }

    #[test]
    fn only_the_builds_own_failure_is_remembered() {
        let own = lines(
            "/c/x.c:1: error: #error no\nmake[1]: *** [Makefile:1: x.o] Error 1\nmake: *** [all] Error 2",
        );
        for code in [1, 2, 127, 128] {
            assert_eq!(end(code, &own).passing(), None, "{code}");
        }
        for code in [129, 137, 143, 255] {
            assert!(end(code, &own).passing().is_some(), "{code}");
        }
        let room = |free| BuildFailure { free: Some(free), ..end(2, &own) }.passing();
        assert_eq!((room(ROOM), room(ROOM - 1)), (None, Some("the disk is full")));
        assert!(BuildFailure { was_short_of_memory: true, ..end(2, &own) }.passing().is_some());
        for text in [
            "x.c:9: fatal error: error writing to /tmp/x.s: No space left on device",
            "gcc: fatal error: Killed signal terminated program cc1",
            "make[3]: *** [scripts/Makefile.build:250: x.o] Killed",
            "make[3]: *** [scripts/Makefile.build:250: x.o] Error 137",
            "fork: Resource temporarily unavailable",
        ] {
            assert!(end(2, &lines(text)).passing().is_some(), "{text}");
        }
    }

    #[test]
    fn a_failed_build_is_described_with_its_error_and_cause() {
        let said = lines("x.c:1: fatal error: No space left on device\nmake: *** [all] Error 2");
        assert_eq!(
            end(2, &said).how(Some(64 << 20)),
            "ended with 2: x.c:1: fatal error: No space left on device (the disk is full)"
        );
        assert_eq!(end(137, &[]).how(None), "was ended by SIGKILL");
        let short = lines("cc1: out of memory allocating 65536 bytes after a total of 9 bytes");
        assert!(end(1, &short).how(Some(64 << 20)).ends_with(
            "(memory is short); what to do: raise the container's memory limit, which leaves each process 64 MiB"
        ));
        assert_eq!(end(1, &lines("a\u{1b}b")).how(None), format!("ended with 1: {}", escaped("a\u{1b}b")));
    }

    #[test]
    fn a_signal_is_called_by_its_name() {
        for (code, words) in [
            (0, "ended with 0"),
            (2, "ended with 2"),
            (128, "ended with 128"),
            (137, "was ended by SIGKILL"),
            (143, "was ended by SIGTERM"),
            (163, "was ended by signal 35"),
        ] {
            assert_eq!(ended(code), words);
        }
    }
}
