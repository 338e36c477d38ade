// SPDX-License-Identifier: Apache-2.0
//! A worker's messages to its supervisor, over a pipe: a letter, a length, and as many bytes.

use crate::ready::time::BootTime;
use nix::unistd::Pid;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::time::Duration;

pub(super) const LOG: u8 = b'S';
pub(super) const ANSWER: u8 = b'A';
const NEEDS: u8 = b'N';
pub(super) const ENDED: u8 = b'E';
pub(super) const KILLED: u8 = b'K';
const BEGUN: u8 = b'B';
const DECIDED: u8 = b'D';
pub(super) const DRAW: u8 = b'P';

/// A letter, and a length in the machine's own byte order.
const HEAD: usize = 5;

/// The worker's end.
#[derive(Clone, Debug)]
pub struct WorkerPipe(Arc<PipeWriter>);

impl WorkerPipe {
    pub(super) fn new(writer: PipeWriter) -> Self {
        Self(Arc::new(writer))
    }

    /// From now on the work may take this long, whatever the deadline is, because it is better finished than broken
    /// off. Whole seconds, at most 255.
    pub fn needs(&self, time: Duration) {
        self.send(NEEDS, &[u8::try_from(time.as_secs()).unwrap_or(u8::MAX)]);
    }

    /// The answer that follows was true at this time. If it is too old, the next worker begins with this memory.
    pub fn decided(&self, at: BootTime, memory: &[u8]) {
        let nanoseconds = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.send(DECIDED, &[&nanoseconds.to_ne_bytes(), memory].concat());
    }

    /// The worker is this process.
    pub(super) fn begun(&self, worker: Pid) {
        self.send(BEGUN, &worker.as_raw().to_ne_bytes());
    }

    /// Sends a message. If the pipe is full, this waits for the supervisor, which does nothing but read.
    pub(super) fn send(&self, kind: u8, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let text = &text[..length as usize];
        // Without a supervisor there is no reader: the kernel is about to end this process.
        let _ = (&*self.0).write_all(&[&[kind][..], &length.to_ne_bytes(), text].concat());
    }
}

/// When an answer was true, and what the worker knew then.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    /// When its look began.
    pub at: BootTime,
    /// In the worker's own words, for the next one.
    pub memory: Vec<u8>,
}

/// One message from the worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// For standard error.
    Log(Vec<u8>),
    /// For standard output.
    Answer(Vec<u8>),
    /// For the terminal: how far long work is.
    Draw(Vec<u8>),
    /// The worker needs this many seconds more.
    Needs(u8),
    /// The worker ends with this exit code.
    Ended(u8),
    /// This signal has killed it.
    Killed(u8),
    /// The worker is this process.
    Begun(Pid),
    /// The worker has decided.
    Decided(Decision),
}

/// The supervisor's end.
#[derive(Debug)]
pub(super) struct MessageReader {
    pub(super) reader: PipeReader,
    /// The beginning of a message that has not come whole yet.
    begun: Vec<u8>,
}

impl MessageReader {
    pub(super) fn new(reader: PipeReader) -> Self {
        Self { reader, begun: Vec::new() }
    }

    /// Reads what has come, which must be something. False at the end: the worker has ended.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = self.reader.read(&mut buffer).unwrap_or_default();
        self.begun.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// The next whole word.
    pub(super) fn next(&mut self) -> Option<Message> {
        loop {
            let length = u32::from_ne_bytes(self.begun.get(1..HEAD)?.try_into().ok()?) as usize;
            let end = HEAD.checked_add(length).filter(|end| *end <= self.begun.len())?;
            let word: Vec<u8> = self.begun.drain(..end).collect();
            let (kind, text) = (word[0], word[HEAD..].to_vec());
            match (kind, text.first().copied()) {
                (LOG, _) => return Some(Message::Log(text)),
                (DRAW, _) => return Some(Message::Draw(text)),
                (ANSWER, _) => return Some(Message::Answer(text)),
                (NEEDS, Some(seconds)) => return Some(Message::Needs(seconds)),
                (ENDED, Some(code)) => return Some(Message::Ended(code)),
                (KILLED, Some(signal)) => return Some(Message::Killed(signal)),
                (BEGUN, _) => {
                    let pid = text.try_into().map(i32::from_ne_bytes).unwrap_or_default();
                    return Some(Message::Begun(Pid::from_raw(pid)));
                }
                (DECIDED, _) => {
                    let (nanoseconds, memory) = text.split_first_chunk().unwrap_or((&[0; 8], &[]));
                    let at = Duration::from_nanos(u64::from_ne_bytes(*nanoseconds));
                    return Some(Message::Decided(Decision { at, memory: memory.to_vec() }));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_from_the_worker_arrive_whole_and_in_order() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut line = MessageReader::new(reader);
        let long = vec![b'x'; 40_000];
        let worker_pipe = WorkerPipe::new(writer);
        worker_pipe.send(LOG, b"one\n");
        worker_pipe.send(ANSWER, &long);
        worker_pipe.send(DRAW, b"12 files");
        worker_pipe.needs(Duration::from_secs(600));
        worker_pipe.decided(Duration::from_millis(1500), b"a NIC");
        worker_pipe.send(ENDED, &[124]);
        drop(worker_pipe);
        let mut words = Vec::new();
        while line.read() {
            words.extend(std::iter::from_fn(|| line.next()));
        }
        let expected = [
            Message::Log(b"one\n".to_vec()),
            Message::Answer(long),
            Message::Draw(b"12 files".to_vec()),
            Message::Needs(255),
            Message::Decided(Decision { at: Duration::from_millis(1500), memory: b"a NIC".to_vec() }),
            Message::Ended(124),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn half_a_message_from_the_worker_is_not_delivered() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[&[LOG][..], &7_u32.to_ne_bytes(), b"half"].concat()).unwrap();
        drop(writer);
        let mut line = MessageReader::new(reader);
        assert!(line.read() && line.next().is_none() && !line.read());
    }
}
