// SPDX-License-Identifier: Apache-2.0
//! A Module.symvers of another machine.

use peermem_gate::ready::files::read::{FileEnd, lines, unreadable};
use peermem_gate::ready::observation::{Seen, Unreadable};
use peermem_gate::ready::probe::headers::{SYMVERS, crc, exported};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// All CRCs in a Module.symvers, whatever module exports the symbols.
///
/// # Errors
/// Why it is not one, or cannot be read.
pub fn crcs(path: &Path) -> Seen<BTreeMap<String, u32>> {
    let mut crcs = BTreeMap::new();
    let mut is_garbled = false;
    let read = lines(path, SYMVERS, |line| {
        let entry = exported(line).and_then(|symbol| Some((symbol, crc(&String::from_utf8_lossy(line))?)));
        let Some((symbol, crc)) = entry else {
            is_garbled = true;
            return ControlFlow::Break(());
        };
        crcs.insert(String::from_utf8_lossy(symbol).into_owned(), crc);
        ControlFlow::Continue(())
    });
    let why = match read {
        Err(error) => return Err(unreadable(path, &error)),
        Ok(_) if is_garbled => "it is no Module.symvers",
        Ok(FileEnd::Truncated) => "it is cut off, or far too large",
        Ok(_) => return Ok(crcs),
    };
    Err(Unreadable { path: path.to_owned(), why: why.to_owned() })
}
