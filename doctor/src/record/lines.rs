// SPDX-License-Identifier: Apache-2.0
//! Bytes, as they come, to lines.

/// The runtimes cut lines at 16 KiB and put a stamp before them.
const LINE: usize = 20 * 1024;
/// A look at a node with thousands of modules.
const LONG_LINE: usize = 1024 * 1024;

/// Cuts a stream of bytes into lines. Of a line that is longer than any log has, the beginning counts.
#[derive(Debug)]
pub struct Lines {
    begun: Vec<u8>,
    longest: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { begun: Vec::new(), longest: LINE }
    }
}

impl Lines {
    /// For files that also contain the gate's looks, which list all modules.
    pub fn of_any_length() -> Self {
        Self { longest: LONG_LINE, ..Self::default() }
    }

    /// Calls `each` with every line that ends in these bytes, without its newline.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            if self.begun.is_empty() {
                each(&rest[..at.min(self.longest)]);
            } else {
                self.begin(&rest[..at]);
                each(&self.begun);
                self.begun.clear();
            }
            rest = &rest[at + 1..];
        }
        self.begin(rest);
    }

    /// The bytes have ended: what is left is a line without an end.
    pub fn end(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            each(&self.begun);
            self.begun.clear();
        }
    }

    fn begin(&mut self, more: &[u8]) {
        let room = self.longest - self.begun.len().min(self.longest);
        self.begun.extend_from_slice(&more[..more.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |line| all.push(line.to_vec()));
        }
        lines.end(|line| all.push(line.to_vec()));
        all
    }

    #[test]
    fn a_line_may_come_in_parts_and_without_an_end() {
        assert_eq!(cut(&[b"a\nb", b"c\n", b"\nd"]), [&b"a"[..], b"bc", b"", b"d"]);
        assert_eq!(cut(&[]), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn an_endless_line_counts_by_its_beginning() {
        let endless = vec![b'x'; LINE * 3];
        let all = cut(&[&endless, &endless, b"\nnext"]);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [LINE, 4]);
        assert_eq!(cut(&[&[endless.as_slice(), b"\n"].concat()])[0].len(), LINE);
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_split(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..300_usize) {
            let at = at.min(bytes.len());
            prop_assert_eq!(cut(&[&bytes]), cut(&[&bytes[..at], &bytes[at..]]));
        }
    }
}
