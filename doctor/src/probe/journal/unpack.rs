// SPDX-License-Identifier: Apache-2.0
//! Data that journald has packed: whatever is longer than 512 bytes.

use super::bytes::damaged;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, Read};

/// Messages are cut far below.
const LONGEST: u64 = 64 << 10;
/// In KiB: the most that `xz` may take, far above what journald asks for.
const XZ_MEMORY: u32 = 16 << 10;

/// How journald has packed a data object, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Xz,
    Lz4,
    Zstd,
}

impl Compression {
    /// `None` where the flags say two at once, or one that is not known.
    pub(super) fn of(flags: u8) -> Option<Self> {
        match flags {
            0 => Some(Self::None),
            1 => Some(Self::Xz),
            2 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The beginning of the data.
    pub(super) fn unpack(self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::None => bytes.extend_from_slice(packed),
            Self::Xz => {
                XzReader::new_mem_limit(packed, false, XZ_MEMORY).take(LONGEST).read_to_end(&mut bytes)?;
            }
            Self::Zstd => {
                let decoder = StreamingDecoder::new(packed).map_err(|_| damaged("no zstd frame"))?;
                decoder.take(LONGEST).read_to_end(&mut bytes)?;
            }
            Self::Lz4 => {
                let (length, block) = packed.split_first_chunk().ok_or_else(|| damaged("no lz4 block"))?;
                let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
                bytes.resize(length.min(1 << 20), 0);
                let unpacked = lz4_flex::block::decompress_into(block, &mut bytes);
                bytes.truncate(unpacked.map_err(|_| damaged("no lz4 block"))?);
            }
        }
        Ok(bytes)
    }
}
