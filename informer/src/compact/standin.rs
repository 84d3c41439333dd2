//! The functions of the crate `zstd` that `codec` calls, in safe Rust, for Miri, which runs no C,
//! and for the schedules of `loom-tests/src/compact`, where training with zstd would take most of
//! the time.
//!
//! A text is cut into pieces, behind each quote. A frame contains zstd's magic number, the length
//! of the text, and its pieces. A run of pieces that occurs earlier in the text, or in the base or
//! dictionary, is stored as two numbers: one more than the index of the earlier run's first piece,
//! and the number of pieces. Any other piece is stored as 0, its length and its bytes.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use foldhash::fast::FixedState;

use super::bytes::{Reader, put_bytes, put_number};

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// The header of a dictionary, which has an id that the codec sets to zero.
const DICTIONARY_HEADER: [u8; 8] = [7; 8];
/// The largest number of bytes of samples in a dictionary. It is small, because packing a text
/// first adds all pieces of the dictionary to a hash table.
const DICTIONARY_BYTES: usize = 1 << 10;

thread_local! {
    /// Whether the calls of this thread fail, as those of zstd do without enough memory. Tests set
    /// it.
    pub(super) static IS_OUT_OF_MEMORY: Cell<bool> = const { Cell::new(false) };
    /// Whether packing fails on this thread, although unpacking does not. Tests set it.
    pub(super) static DOES_NOT_PACK: Cell<bool> = const { Cell::new(false) };
}

/// A context for packing, which has no state.
pub(super) struct CCtx<'a>(PhantomData<&'a ()>);

/// A context for unpacking, which has no state.
pub(super) struct DCtx<'a>(PhantomData<&'a ()>);

/// A dictionary for packing.
pub(super) struct CDict<'a>(Box<[u8]>, PhantomData<&'a ()>);

/// A dictionary for unpacking.
pub(super) struct DDict<'a>(Box<[u8]>, PhantomData<&'a ()>);

pub(super) fn compress_bound(length: usize) -> usize {
    length
}

pub(super) fn get_error_name(_code: usize) -> &'static str {
    "the frame is damaged"
}

/// Returns a dictionary of the beginnings of the samples.
pub(super) fn from_continuous(
    samples: &[u8],
    lengths: &[usize],
    _size: usize,
) -> io::Result<Vec<u8>> {
    if lengths.len() < 2 {
        return Err(io::Error::other("too few samples"));
    }
    let (mut dictionary, mut rest) = (DICTIONARY_HEADER.to_vec(), samples);
    for length in lengths {
        let (sample, others) = rest.split_at(*length);
        rest = others;
        let room = DICTIONARY_HEADER.len() + DICTIONARY_BYTES - dictionary.len();
        dictionary.extend_from_slice(&sample[..(length / 2).min(room)]);
    }
    Ok(dictionary)
}

impl CDict<'_> {
    pub(super) fn try_create(dictionary: &[u8], _level: i32) -> Option<Self> {
        has_memory()?;
        Some(Self(dictionary.get(DICTIONARY_HEADER.len()..)?.into(), PhantomData))
    }

    pub(super) fn sizeof(&self) -> usize {
        self.0.len()
    }
}

impl DDict<'_> {
    pub(super) fn try_create(dictionary: &[u8]) -> Option<Self> {
        has_memory()?;
        Some(Self(dictionary.get(DICTIONARY_HEADER.len()..)?.into(), PhantomData))
    }

    pub(super) fn sizeof(&self) -> usize {
        self.0.len()
    }
}

#[expect(clippy::unused_self, reason = "zstd's functions are like this")]
impl CCtx<'_> {
    pub(super) fn try_create() -> Option<Self> {
        has_memory()?;
        Some(Self(PhantomData))
    }

    pub(super) fn sizeof(&self) -> usize {
        size_of::<Self>()
    }

    pub(super) fn compress(
        &mut self,
        out: &mut Vec<u8>,
        text: &[u8],
        level: i32,
    ) -> Result<usize, usize> {
        self.compress_using_dict(out, text, &[], level)
    }

    pub(super) fn compress_using_cdict(
        &mut self,
        out: &mut Vec<u8>,
        text: &[u8],
        dictionary: &CDict,
    ) -> Result<usize, usize> {
        self.compress_using_dict(out, text, &dictionary.0, 0)
    }

    pub(super) fn compress_using_dict(
        &mut self,
        out: &mut Vec<u8>,
        text: &[u8],
        base: &[u8],
        _level: i32,
    ) -> Result<usize, usize> {
        has_memory().filter(|()| !DOES_NOT_PACK.get()).ok_or(0_usize)?;
        *out = pack(text, base);
        Ok(out.len())
    }
}

#[expect(clippy::unused_self, reason = "zstd's functions are like this")]
impl DCtx<'_> {
    pub(super) fn try_create() -> Option<Self> {
        has_memory()?;
        Some(Self(PhantomData))
    }

    pub(super) fn decompress(&mut self, out: &mut Vec<u8>, frame: &[u8]) -> Result<usize, usize> {
        self.decompress_using_dict(out, frame, &[])
    }

    pub(super) fn decompress_using_ddict(
        &mut self,
        out: &mut Vec<u8>,
        frame: &[u8],
        dictionary: &DDict,
    ) -> Result<usize, usize> {
        self.decompress_using_dict(out, frame, &dictionary.0)
    }

    pub(super) fn decompress_using_dict(
        &mut self,
        out: &mut Vec<u8>,
        frame: &[u8],
        base: &[u8],
    ) -> Result<usize, usize> {
        has_memory().ok_or(0_usize)?;
        *out = unpack(frame, base, out.capacity()).ok_or(0_usize)?;
        Ok(out.len())
    }
}

fn has_memory() -> Option<()> {
    (!IS_OUT_OF_MEMORY.get()).then_some(())
}

/// Returns the places of the pieces of a text: each ends behind a quote, or at the end.
fn pieces(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    text.split_inclusive(|byte| *byte == b'"').map(move |piece| {
        let place = from..from + piece.len();
        from = place.end;
        place
    })
}

fn pack(text: &[u8], base: &[u8]) -> Vec<u8> {
    let mut earlier: Vec<&[u8]> = pieces(base).map(|place| &base[place]).collect();
    let mut places: HashMap<&[u8], usize, FixedState> =
        earlier.iter().enumerate().map(|(at, piece)| (*piece, at)).collect();
    let mut out = MAGIC.to_vec();
    put_number(&mut out, text.len() as u64);
    let (mut next, mut run) = (0, 0);
    let end_run = |out: &mut Vec<u8>, end: usize, run: &mut usize| {
        if *run > 0 {
            put_number(out, (end - *run) as u64 + 1);
            put_number(out, *run as u64);
            *run = 0;
        }
    };
    for place in pieces(text) {
        let piece = &text[place];
        if earlier.get(next) != Some(&piece) {
            end_run(&mut out, next, &mut run);
            match places.get(piece) {
                Some(at) => next = *at,
                None => {
                    put_number(&mut out, 0);
                    put_bytes(&mut out, piece);
                }
            }
        }
        if earlier.get(next) == Some(&piece) {
            run += 1;
        }
        // Behind a new piece, the one that it replaces is passed over too.
        next += 1;
        places.insert(piece, earlier.len());
        earlier.push(piece);
    }
    end_run(&mut out, next, &mut run);
    out
}

/// Returns the text, or `None` if the frame is damaged or the text has more than `most` bytes.
fn unpack(frame: &[u8], base: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut reader = Reader(frame.strip_prefix(&MAGIC)?);
    let length = usize::try_from(reader.number()).ok().filter(|length| *length <= most)?;
    let mut places: Vec<Range<usize>> = pieces(base).collect();
    let mut text = base.to_vec();
    while !reader.0.is_empty() {
        let first = reader.number();
        let number = usize::try_from(reader.number()).ok()?;
        let from = text.len();
        if let Some(at) = usize::try_from(first).ok()?.checked_sub(1) {
            for at in at..at.checked_add(number)? {
                let piece = places.get(at)?.clone();
                let from = text.len();
                text.extend_from_within(piece);
                places.push(from..text.len());
                (text.len() - base.len() <= length).then_some(())?;
            }
        } else {
            text.extend_from_slice(reader.take(number));
            places.push(from..text.len());
        }
    }
    let text = text.split_off(base.len());
    (text.len() == length).then_some(text)
}
