// SPDX-License-Identifier: Apache-2.0
//! The bytes of a module file, a range at a time, compressed or not. What counts is how the file
//! begins, as for kmod, not how its name ends.

use crate::peermem::module_file::{Fault, Interrupted, damaged};
use crate::ready::files::read::open;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use object::elf::ELFMAG;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Some five times the largest: nvidia.ko with all its symbols.
const PLAIN: u64 = 512 * 1024 * 1024;
/// The bound of a packed file, and of its unpacked bytes, which are kept in memory.
pub(super) const IN_MEMORY: u64 = 128 * 1024 * 1024;
/// The bound of one part of a file. The largest part that is read of the largest module, nvidia.ko with all its
/// symbols, has some megabytes.
pub(super) const PART: u64 = 32 * 1024 * 1024;
/// As for kmod, or rather libzstd: what `zstd --ultra -22` asks for.
const ZSTD_WINDOW: u64 = 128 * 1024 * 1024;
/// In KiB: the dictionary of `xz -9`, the largest that xz's levels ask for, and what else it takes.
const XZ_MEMORY: u32 = 66 * 1024;

/// A packed file of this size takes a second and more. nvidia-peermem.ko is far smaller.
const LARGE: u64 = 1024 * 1024;

/// How much is unpacked between two questions whether to go on: of xz some milliseconds.
const CHUNK: u64 = 128 * 1024;
/// How much is read of a packed file between two such questions: it may have millions of parts that unpack to
/// nothing.
const PACKED_CHUNK: usize = 16 * 1024;

/// Some of the bytes of a module.
pub(super) type Bytes<'a> = Cow<'a, [u8]>;

/// The bytes of a module, never compressed.
pub(super) enum Contents {
    /// To be read as needed.
    Plain(File, u64),
    /// Unpacked, whole.
    Unpacked(Vec<u8>),
}

impl Contents {
    pub(super) fn open(path: &Path, interrupted: Interrupted<'_>) -> Result<Self, Fault> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return damaged("a directory, not a file");
        }
        if !metadata.is_file() {
            return damaged("not a regular file");
        }
        let size = metadata.len();
        if size == 0 {
            return damaged("empty");
        }
        if size > PLAIN {
            return damaged(format!("{size} bytes, more than any module has"));
        }
        let mut beginning = [0; 6];
        let length = file.read_at(&mut beginning, 0)?;
        let beginning = &beginning[..length];
        if beginning.starts_with(&ELFMAG) {
            return Ok(Self::Plain(file, size));
        }
        let Some(packing) = Packing::of(beginning) else {
            return damaged("neither an ELF file nor one that gzip, xz or zstd made");
        };
        if size > IN_MEMORY {
            return damaged(format!("{size} bytes compressed, more than any module has"));
        }
        unpack(packing, &mut file.take(size), IN_MEMORY, interrupted).map(Self::Unpacked)
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Plain(_, size) => *size,
            Self::Unpacked(bytes) => bytes.len() as u64,
        }
    }

    /// The `size` bytes at `at`, which must lie inside.
    pub(super) fn bytes(&self, at: u64, size: u64) -> Result<Bytes<'_>, Fault> {
        let Some(end) = at.checked_add(size).filter(|end| *end <= self.size()) else {
            return damaged(format!("cut off: {size} bytes at {at} end behind it ({})", self.size()));
        };
        if size > PART {
            return damaged(format!("{size} bytes in one part of it, too many to look at"));
        }
        match self {
            Self::Unpacked(bytes) => {
                let range = usize::try_from(at).ok().zip(usize::try_from(end).ok());
                let bytes = range.and_then(|(at, end)| bytes.get(at..end));
                Ok(Cow::Borrowed(bytes.unwrap_or_default()))
            }
            Self::Plain(file, _) => {
                let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
                match file.read_exact_at(&mut bytes, at) {
                    Ok(()) => Ok(Cow::Owned(bytes)),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        damaged("cut off while it was read")
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

/// Whether the file is packed and large.
pub(super) fn takes_long(path: &Path) -> io::Result<bool> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    let mut beginning = [0; 6];
    let is_large = metadata.is_file() && (LARGE..=IN_MEMORY).contains(&metadata.len());
    if !is_large {
        return Ok(false);
    }
    let length = file.read_at(&mut beginning, 0)?;
    Ok(Packing::of(&beginning[..length]).is_some())
}

/// The compression of a module file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packing {
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    fn of(beginning: &[u8]) -> Option<Self> {
        match beginning {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// Unpacks at most `limit` bytes.
pub(super) fn unpack(
    packing: Packing,
    from: &mut dyn Read,
    limit: u64,
    interrupted: Interrupted<'_>,
) -> Result<Vec<u8>, Fault> {
    let stop = Interrupt { interrupted: RefCell::new(interrupted), error: RefCell::default() };
    let mut packed = BufReader::with_capacity(PACKED_CHUNK, Packed { from, stop: &stop });
    let mut unpacked = Unpacked { bytes: Vec::new(), limit, stop: &stop };
    let done = match packing {
        Packing::Gzip => unpacked.take(&mut MultiGzDecoder::new(&mut packed)),
        Packing::Xz => unpacked.take(&mut XzReader::new_mem_limit(&mut packed, true, XZ_MEMORY)),
        Packing::Zstd => unpack_zstd(&mut packed, &mut unpacked),
    };
    let unpacked = unpacked.bytes;
    if let Some(error) = stop.error.take() {
        return Err(error.into());
    }
    match done {
        _ if unpacked.len() as u64 > limit => {
            damaged(format!("unpacks to more than {limit} bytes, too many to look at"))
        }
        Ok(()) => Ok(unpacked),
        Err(error) => damaged(format!("its {} data does not unpack: {error}", packing.name())),
    }
}

/// Why unpacking ends early for a reason that is not the file's contents. The decoders hide it behind errors of their
/// own.
struct Interrupt<'a> {
    interrupted: RefCell<Interrupted<'a>>,
    error: RefCell<Option<io::Error>>,
}

impl Interrupt<'_> {
    fn with(&self, error: io::Error) -> io::Error {
        self.error.borrow_mut().get_or_insert(error);
        io::Error::other("broken off")
    }

    fn unless_interrupted(&self) -> io::Result<()> {
        let is_interrupted = (self.interrupted.borrow_mut())();
        if is_interrupted { Err(self.with(io::Error::other("broken off"))) } else { Ok(()) }
    }
}

/// The packed bytes.
struct Packed<'a> {
    from: &'a mut dyn Read,
    stop: &'a Interrupt<'a>,
}

impl Read for Packed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.unless_interrupted()?;
        loop {
            match self.from.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.stop.with(error)),
                read => return read,
            }
        }
    }
}

/// The bytes unpacked so far.
struct Unpacked<'a> {
    bytes: Vec<u8>,
    limit: u64,
    stop: &'a Interrupt<'a>,
}

impl Unpacked<'_> {
    /// Appends what `from` gives, up to one byte more than the limit: that byte shows the excess.
    fn take(&mut self, from: &mut dyn Read) -> io::Result<()> {
        loop {
            let room = (self.limit + 1).saturating_sub(self.bytes.len() as u64).min(CHUNK);
            // Not doubled, as a vector grows by itself: half of its memory would be empty.
            self.bytes.reserve_exact(usize::try_from(room).unwrap_or_default());
            if from.take(room).read_to_end(&mut self.bytes)? == 0 {
                return Ok(());
            }
            self.stop.unless_interrupted()?;
        }
    }
}

/// Frame after frame, block after block; ruzstd leaves the checksum to its caller. Its own errors, put
/// into words, would take 20 KB of the binary.
fn unpack_zstd(packed: &mut dyn BufRead, to: &mut Unpacked<'_>) -> io::Result<()> {
    let fault = |why| Err(io::Error::other(why));
    let mut frame = FrameDecoder::new();
    frame.set_max_window_size(ZSTD_WINDOW);
    while !packed.fill_buf()?.is_empty() {
        match frame.init(&mut *packed) {
            Ok(()) => unpack_frame(&mut frame, packed, to)?,
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => return fault("its window is too large"),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let skipped = io::copy(&mut (&mut *packed).take(length.into()), &mut io::sink())?;
                if skipped < u64::from(length) {
                    return fault("a frame is cut off");
                }
            }
            Err(_) => return fault("a frame's header is damaged"),
        }
    }
    Ok(())
}

fn unpack_frame(frame: &mut FrameDecoder, packed: &mut dyn BufRead, to: &mut Unpacked<'_>) -> io::Result<()> {
    while !frame.is_finished() {
        let block = frame.decode_blocks(&mut *packed, BlockDecodingStrategy::UptoBlocks(1));
        block.map_err(|_| io::Error::other("a block is cut off or damaged"))?;
        to.take(frame)?;
        if to.bytes.len() as u64 > to.limit {
            return Err(io::Error::other("it is too long"));
        }
    }
    let expected = frame.get_checksum_from_data();
    if expected.is_some() && expected != frame.get_calculated_checksum() {
        return Err(io::Error::other("its checksum is another"));
    }
    Ok(())
}
