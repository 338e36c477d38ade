// SPDX-License-Identifier: Apache-2.0
//! Who exports the peer-memory symbols, from /proc/kallsyms: 100,000 lines and more, read as a
//! stream that can be broken off.

use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::files::read::{BUFFER, open, unreadable};
use crate::ready::observation::Symbols;
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Some ten times the largest.
const KALLSYMS: u64 = 128 * 1024 * 1024;
/// How many reads go by between two questions whether to go on: some milliseconds.
const READS: u32 = 64;

/// Looks for the exporter; `None` when `interrupted` said so.
pub(super) fn read(path: &Path, interrupted: &mut dyn FnMut() -> bool) -> Option<Symbols> {
    let symbols = open(path).and_then(|file| scan(file, interrupted));
    symbols.unwrap_or_else(|error| Some(Symbols::Unreadable(unreadable(path, &error))))
}

fn scan(file: File, interrupted: &mut dyn FnMut() -> bool) -> io::Result<Option<Symbols>> {
    // Exported symbols are global ones, `T`; `.cold` parts and `__ksymtab_` entries are not.
    let needle = format!(" T {}", PEER_MEMORY_SYMBOLS[0]);
    let finder = Finder::new(&needle);
    // What has no end is not the kernel's list, and exports nothing.
    let mut file = file.take(KALLSYMS);
    let mut buffer = [0; BUFFER];
    let mut filled = 0;
    for reads in 1.. {
        let read = file.read(&mut buffer[filled..])?;
        filled += read;
        // A last line without its end may lack its module, which would make it the kernel's own.
        let whole = match memchr::memrchr(b'\n', &buffer[..filled]) {
            Some(at) => at + 1,
            // Not a line of this file: drop it.
            None if filled == BUFFER => filled,
            None => 0,
        };
        for at in finder.find_iter(&buffer[..whole]) {
            if let Some(provider) = provider(&buffer[at + needle.len()..whole]) {
                return Ok(Some(Symbols::ExportedBy(provider)));
            }
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
        if read == 0 {
            break;
        }
        if reads % READS == 0 && interrupted() {
            return Ok(None);
        }
    }
    Ok(Some(Symbols::Missing))
}

/// The module behind a symbol: the end of the line, or a tab and the module in brackets.
#[expect(clippy::option_option, reason = "no match; the kernel itself; a module")]
fn provider(rest: &[u8]) -> Option<Option<String>> {
    let line = rest.split(|byte| *byte == b'\n').next()?;
    if line.is_empty() {
        return Some(None);
    }
    let name = line.strip_prefix(b"\t[")?.strip_suffix(b"]")?;
    Some(Some(String::from_utf8_lossy(name).replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read_text(text: &[u8]) -> Symbols {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        read(file.path(), &mut || false).unwrap()
    }

    #[test]
    fn only_the_whole_name_of_a_global_symbol_counts() {
        let exported = b"0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n";
        assert_eq!(read_text(exported), Symbols::ExportedBy(Some("ib_uverbs".into())));
        assert_eq!(read_text(b"0 T ib_register_peer_memory_client\n"), Symbols::ExportedBy(None));
        for other in [
            "0 t ib_register_peer_memory_client\t[ib_uverbs]\n",
            "0 t ib_register_peer_memory_client.cold\t[ib_uverbs]\n",
            "0 T ib_register_peer_memory_client.cold\t[ib_uverbs]\n",
            "0 r __ksymtab_ib_register_peer_memory_client\t[ib_uverbs]\n",
            "0 T ib_register_peer_memory_client",
            "0 T my_ib_register_peer_memory_client\t[x]\n",
            "",
        ] {
            assert_eq!(read_text(other.as_bytes()), Symbols::Missing, "{other}");
        }
    }

    #[test]
    fn a_line_across_two_reads_is_found_wherever_it_falls() {
        for padding in BUFFER - 100..BUFFER + 10 {
            let mut text = vec![b'x'; padding];
            text.extend_from_slice(b"\n0 T ib_register_peer_memory_client\t[ib_core]\n");
            assert_eq!(read_text(&text), Symbols::ExportedBy(Some("ib_core".into())), "{padding}");
        }
    }

    #[test]
    fn reading_the_kernels_symbols_can_be_interrupted() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let line = b"0000000000000000 t some_symbol_of_the_kernel\n";
        file.write_all(&line.repeat(3 * BUFFER)).unwrap();
        assert_eq!(read(file.path(), &mut || true), None);
    }
}
