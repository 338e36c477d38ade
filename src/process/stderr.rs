// SPDX-License-Identifier: Apache-2.0
//! Standard error, which may have no reader. A line that does not fit at once is dropped and counted: a log that
//! blocks would delay deadlines, signals and the opening itself.

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::write;
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The bytes that a pipe with any room takes without waiting (`PIPE_BUF`, pipe(7)).
const PIECE: usize = 4096;

/// To the line's beginning, and all of the line erased (ECMA-48 EL).
const CLEAR: &str = "\r\x1b[K";
/// Where a terminal does not say how wide it is.
const COLUMNS: usize = 80;

/// A descriptor, the rest of a line that did not fit, and how many lines were left out behind it.
pub(super) struct NonBlockingWriter<F> {
    fd: F,
    way: WriteMode,
    rest: Vec<u8>,
    left_out: u64,
    /// A progress line is on the terminal.
    is_drawn: bool,
}

/// How to write without waiting.
pub(super) enum WriteMode {
    /// A pipe or a terminal, opened once more: `O_NONBLOCK` is then set only for us, and CMD's stays as it is.
    Again(File),
    /// A pipe or a terminal that cannot be opened again: asked each time whether there is room.
    Asked,
    /// A socket takes the wish not to wait with each write.
    Socket,
    /// A file takes everything at once.
    Plain,
}

impl<F: AsFd> NonBlockingWriter<F> {
    pub(super) fn new(fd: F) -> Self {
        let way = WriteMode::of(fd.as_fd());
        Self { fd, way, rest: Vec::new(), left_out: 0, is_drawn: false }
    }

    /// A regular file: a write may hang with its file system.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.way, WriteMode::Plain)
    }

    /// Writes a line, or drops it. `left_out` words the line that reports dropped ones.
    pub(super) fn line(&mut self, text: &[u8], left_out: fn(u64) -> String) {
        self.clear();
        let rest = std::mem::take(&mut self.rest);
        if !self.write(&rest) {
            self.rest = rest;
        }
        if self.left_out > 0 && self.rest.is_empty() {
            let notice = left_out(self.left_out);
            if self.write(notice.as_bytes()) {
                self.left_out = 0;
            }
        }
        if self.left_out > 0 || !self.rest.is_empty() || !self.write(text) {
            self.left_out += 1;
        }
    }

    /// Draws a line without an end over the one drawn before. Only on a terminal, and only if it fits at once.
    pub(super) fn draw(&mut self, text: &str) {
        if !self.rest.is_empty() || self.left_out > 0 || !is_ours(self.fd.as_fd()) {
            return;
        }
        let columns = tcgetwinsize(self.fd.as_fd()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { COLUMNS } else { columns };
        let text: String = text.chars().take(columns - 1).collect();
        self.is_drawn |= self.write(format!("{CLEAR}{text}").as_bytes());
    }

    /// Clears the line that is drawn, if one is.
    pub(super) fn clear(&mut self) {
        if !std::mem::take(&mut self.is_drawn) || !is_ours(self.fd.as_fd()) {
            return;
        }
        if !self.rest.is_empty() || !self.write(CLEAR.as_bytes()) {
            self.rest.extend_from_slice(CLEAR.as_bytes());
        }
    }

    /// The rest that did not fit, to be written before an answer on the same terminal.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        if isatty(self.fd.as_fd()) { std::mem::take(&mut self.rest) } else { Vec::new() }
    }

    /// False when nothing of it fitted. The rest of what fits in part comes before all else.
    fn write(&mut self, text: &[u8]) -> bool {
        let mut written = 0;
        while written < text.len() {
            match self.way.write(self.fd.as_fd(), &text[written..]) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Nothing can be done about a standard error that is gone: it counts as said.
                Err(_) => return true,
            }
        }
        if written > 0 {
            self.rest = text[written..].to_vec();
        }
        written > 0 || text.is_empty()
    }
}

impl WriteMode {
    pub(super) fn of(fd: BorrowedFd<'_>) -> Self {
        let mode = fstat(fd).map_or(0, |stat| stat.st_mode & SFlag::S_IFMT.bits());
        match SFlag::from_bits_truncate(mode) {
            SFlag::S_IFSOCK => Self::Socket,
            SFlag::S_IFIFO | SFlag::S_IFCHR => reopened(fd).map_or(Self::Asked, Self::Again),
            _ => Self::Plain,
        }
    }

    /// As write(2); `WouldBlock` where nothing fits.
    pub(super) fn write(&mut self, fd: BorrowedFd<'_>, text: &[u8]) -> io::Result<usize> {
        match self {
            Self::Again(file) => file.write(text),
            Self::Plain => Ok(write(fd, text)?),
            Self::Socket => Ok(send(fd.as_raw_fd(), text, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?),
            Self::Asked => {
                let mut ready = [PollFd::new(fd, PollFlags::POLLOUT)];
                if poll(&mut ready, PollTimeout::ZERO)? == 0 {
                    return Err(ErrorKind::WouldBlock.into());
                }
                Ok(write(fd, &text[..text.len().min(PIECE)])?)
            }
        }
    }
}

/// A terminal that this process is in the foreground of, and that knows [`CLEAR`]. One in the background would draw
/// over the shell's prompt, and be stopped where the terminal says so (`TOSTOP`, termios(3)).
fn is_ours(fd: BorrowedFd<'_>) -> bool {
    let is_dumb = || std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    tcgetpgrp(fd).is_ok_and(|group| group == getpgrp()) && !is_dumb()
}

/// Fails where another user owns it, or where there is no /proc.
fn reopened(fd: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    OpenOptions::new().append(true).custom_flags(flags.bits()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn notice(count: u64) -> String {
        format!("{count} left out\n")
    }

    /// Fills it, says more, reads all that is there, says one more line, and reads that.
    fn write_to(stderr: &mut NonBlockingWriter<impl AsFd>, reader: &mut impl Read) -> String {
        let line = [&[b'x'; 999][..], b"\n"].concat();
        (0..1000).for_each(|_| stderr.line(&line, notice));
        assert!(stderr.left_out > 0, "it was never full");
        let mut text = vec![0; 1 << 20];
        let mut read = reader.read(&mut text).unwrap();
        stderr.line(b"last\n", notice);
        stderr.line(b"", notice);
        read += reader.read(&mut text[read..]).unwrap();
        text.truncate(read);
        String::from_utf8(text).unwrap()
    }

    fn lines_are_whole_and_counted(text: &str) {
        let lines: Vec<_> = text.lines().collect();
        let whole = lines.iter().filter(|line| line.len() == 999).count();
        let notices = lines.iter().filter_map(|line| line.strip_suffix(" left out"));
        let left_out: usize = notices.map(|count| count.parse::<usize>().unwrap()).sum();
        assert_eq!((whole + left_out, lines.last()), (1000, Some(&"last")));
    }

    #[test]
    fn a_full_pipe_leaves_lines_out_and_says_how_many() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut stderr = NonBlockingWriter::new(writer);
        assert!(matches!(stderr.way, WriteMode::Again(_)));
        lines_are_whole_and_counted(&write_to(&mut stderr, &mut reader));
    }

    #[test]
    fn a_full_pipe_that_cannot_be_reopened_leaves_lines_out_and_counts_them() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut stderr = NonBlockingWriter { way: WriteMode::Asked, ..NonBlockingWriter::new(writer) };
        lines_are_whole_and_counted(&write_to(&mut stderr, &mut reader));
    }

    #[test]
    fn a_full_socket_leaves_lines_out_and_counts_them() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let mut stderr = NonBlockingWriter::new(writer);
        assert!(matches!(stderr.way, WriteMode::Socket));
        reader.set_nonblocking(true).unwrap();
        let line = [&[b'x'; 999][..], b"\n"].concat();
        (0..1000).for_each(|_| stderr.line(&line, notice));
        let left_out = stderr.left_out;
        assert!(left_out > 0);
        let mut all = Vec::new();
        assert_eq!(reader.read_to_end(&mut all).unwrap_err().kind(), ErrorKind::WouldBlock);
        stderr.line(b"last\n", notice);
        let _ = reader.read_to_end(&mut all);
        assert!(String::from_utf8(all).unwrap().ends_with(&format!("{left_out} left out\nlast\n")));
    }

    #[test]
    fn a_line_is_drawn_on_no_pipe() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut stderr = NonBlockingWriter::new(writer);
        stderr.draw("12 s");
        stderr.line(b"one\n", notice);
        drop(stderr);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
    }

    #[test]
    fn a_pipe_without_a_reader_is_no_failure_and_keeps_no_line() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut stderr = NonBlockingWriter::new(writer);
        stderr.line(b"x\n", notice);
        assert_eq!((stderr.left_out, stderr.rest.len()), (0, 0));
    }
}
