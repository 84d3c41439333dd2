//! Compression of texts with libzstd: alone, with a trained dictionary, or as the difference from
//! a similar text.
//!
//! Contexts of zstd are pooled, because packing takes three times as long with a new context for
//! each text. Each call passes its base or dictionary to zstd, and no context keeps a reference to
//! it. Pooled contexts therefore have no lifetime, and this module needs no `unsafe`.
//! (`ZSTD_CCtx_refPrefix` would keep a reference in the context. `ZSTD_compress_usingDict`, used
//! here, finds the same matches.)
//!
//! Frames are stored without zstd's magic number. They have neither a checksum nor a dictionary
//! id; the header of a frame contains the length of the text.

use deltafifo::locks::Mutex;
#[cfg(not(any(miri, deltafifo_shuttle)))]
use zstd::dict::from_continuous;
#[cfg(not(any(miri, deltafifo_shuttle)))]
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound, get_error_name};

#[cfg(any(miri, deltafifo_shuttle))]
use super::standin::{CCtx, CDict, DCtx, DDict, compress_bound, from_continuous, get_error_name};
use super::values::BaseText;

/// The compression level of zstd. With level 3 the initial list of 100,000 pods took 3 to 13 % more
/// CPU time, and the memory was the same (`bench/LOG.md`). Level 6 would make differences a tenth
/// smaller, and packing would take several times as long.
const LEVEL: i32 = 1;
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// The position of the id in a trained dictionary. The id is set to zero, because otherwise each
/// frame would repeat it.
const DICTIONARY_ID: std::ops::Range<usize> = 4..8;
/// The largest size of a trained dictionary, in bytes. This is zstd's own default.
pub(super) const DICTIONARY_SIZE: usize = 112 << 10;
/// The largest size, in bytes, of a context that is returned to the pool.
const POOLED_SIZE: usize = 4 << 20;
/// The largest number of contexts in each pool.
const POOLED: usize = 64;

static COMPRESSORS: Mutex<Vec<Compressor>> = Mutex::new(Vec::new());
static DECOMPRESSORS: Mutex<Vec<DCtx<'static>>> = Mutex::new(Vec::new());

struct Compressor {
    context: CCtx<'static>,
    out: Vec<u8>,
}

/// The input of zstd besides the text. A text must be unpacked with the input that it was packed
/// with.
#[derive(Clone, Copy)]
pub(super) enum With<'a> {
    Nothing,
    Dictionary(&'a Dictionary),
    /// A similar JSON text. It must not share memory with the text: zstd would ignore it.
    Base(&'a BaseText),
}

/// A trained dictionary, ready to be used.
pub(super) struct Dictionary {
    pack: CDict<'static>,
    unpack: DDict<'static>,
}

/// The reason why a text cannot be packed, or a packed text cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CodecError {
    #[error("there is not enough memory for a zstd context")]
    Memory,
    #[error("zstd reports: {0}")]
    Zstd(&'static str),
    #[error("it has {found} bytes instead of {expected}")]
    Length { expected: usize, found: usize },
    #[error("the values that were cut out of it are damaged")]
    Values,
    #[error("it is not UTF-8")]
    Utf8,
}

impl Dictionary {
    /// Trains a dictionary on `samples`, whose lengths are `lengths`. Returns `None` if zstd finds
    /// too little in common.
    pub(super) fn train(samples: &[u8], lengths: &[usize]) -> Option<Self> {
        let mut bytes = from_continuous(samples, lengths, DICTIONARY_SIZE).ok()?;
        bytes.get_mut(DICTIONARY_ID)?.fill(0);
        Some(Self { pack: CDict::try_create(&bytes, LEVEL)?, unpack: DDict::try_create(&bytes)? })
    }

    pub(super) fn size(&self) -> usize {
        self.pack.sizeof() + self.unpack.sizeof()
    }
}

/// Packs `text`. Returns `None` if the result is not shorter.
///
/// # Errors
/// If zstd fails, as it does without enough memory.
pub(super) fn pack(text: &[u8], with: With) -> Result<Option<Box<[u8]>>, CodecError> {
    let pooled = COMPRESSORS.lock().pop();
    let create = || {
        let context = CCtx::try_create().ok_or(CodecError::Memory)?;
        Ok(Compressor { context, out: Vec::new() })
    };
    let mut compressor = pooled.map_or_else(create, Ok)?;
    let Compressor { context, out } = &mut compressor;
    out.clear();
    out.reserve(compress_bound(text.len()));
    let packed = match with {
        With::Nothing => context.compress(out, text, LEVEL),
        With::Dictionary(dictionary) => context.compress_using_cdict(out, text, &dictionary.pack),
        With::Base(base) => context.compress_using_dict(out, text, base, LEVEL),
    };
    packed.map_err(|code| CodecError::Zstd(get_error_name(code)))?;
    let frame = out.strip_prefix(&MAGIC).filter(|frame| frame.len() < text.len());
    let frame = frame.map(Into::into);
    if context.sizeof() + out.capacity() <= POOLED_SIZE {
        let mut pool = COMPRESSORS.lock();
        if pool.len() < POOLED {
            pool.push(compressor);
        }
    }
    Ok(frame)
}

/// Unpacks the text of `length` bytes that `frame` contains. Never allocates more than `length`
/// bytes for the text, even if the header of the frame has another length.
pub(super) fn unpack(frame: &[u8], with: With, length: usize) -> Result<Vec<u8>, CodecError> {
    let frame = [&MAGIC, frame].concat();
    let pooled = DECOMPRESSORS.lock().pop();
    let mut context = match pooled {
        Some(context) => context,
        None => DCtx::try_create().ok_or(CodecError::Memory)?,
    };
    let mut text = Vec::with_capacity(length);
    let unpacked = match with {
        With::Nothing => context.decompress(&mut text, &frame),
        With::Dictionary(dictionary) => {
            context.decompress_using_ddict(&mut text, &frame, &dictionary.unpack)
        }
        With::Base(base) => context.decompress_using_dict(&mut text, &frame, base),
    };
    let found = unpacked.map_err(|code| CodecError::Zstd(get_error_name(code)))?;
    let mut pool = DECOMPRESSORS.lock();
    if pool.len() < POOLED {
        pool.push(context);
    }
    drop(pool);
    if found == length { Ok(text) } else { Err(CodecError::Length { expected: length, found }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BaseText, CodecError, Dictionary, With, pack, unpack};

    fn pod(number: usize) -> Vec<u8> {
        let spec = (0..20).map(|at| format!(r#"{{"name":"V{at}","value":"{}"}}"#, at * at));
        let spec = spec.collect::<Vec<_>>().join(",");
        let uid = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(r#"{{"metadata":{{"name":"web-{number}","uid":"{uid:x}"}},"env":[{spec}]}}"#).into()
    }

    fn dictionary() -> Dictionary {
        let samples: Vec<_> = (0..200).map(pod).collect();
        let lengths: Vec<_> = samples.iter().map(Vec::len).collect();
        Dictionary::train(&samples.concat(), &lengths).unwrap()
    }

    #[test]
    fn text_comes_back_from_each_form() {
        let (dictionary, base, text) = (dictionary(), BaseText::new(pod(1000)), pod(1001));
        let mut before = usize::MAX;
        for with in [With::Nothing, With::Dictionary(&dictionary), With::Base(&base)] {
            let packed = pack(&text, with).unwrap().unwrap();
            assert!(packed.len() < before, "each form is smaller than the one before");
            before = packed.len();
            assert_eq!(unpack(&packed, with, text.len()).unwrap(), text);
        }
        assert!(before < 60, "a difference of {before} bytes");
    }

    #[test]
    fn copy_of_the_base_takes_few_bytes() {
        let packed = pack(&pod(0), With::Base(&BaseText::new(pod(0)))).unwrap();
        assert!(packed.unwrap().len() < 30);
    }

    #[test]
    fn text_that_does_not_shrink_is_not_packed() {
        assert!(pack(b"{}", With::Nothing).unwrap().is_none());
        assert!(pack(b"", With::Nothing).unwrap().is_none());
    }

    #[test]
    fn dictionary_needs_texts_with_something_in_common() {
        assert!(Dictionary::train(b"", &[]).is_none());
        assert!(Dictionary::train(&pod(0), &[pod(0).len()]).is_none());
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56).to_le_bytes()[0]
        });
        let noise: Vec<u8> = noise.take(100 * 64).collect();
        // The training may succeed or fail, but it must not panic.
        let _ = Dictionary::train(&noise, &[64; 100]);
    }

    #[test]
    fn frame_that_says_another_length_is_refused() {
        let text = pod(0);
        let packed = pack(&text, With::Nothing).unwrap().unwrap();
        for length in [0, 1, text.len() - 1] {
            assert!(matches!(
                unpack(&packed, With::Nothing, length).unwrap_err(),
                CodecError::Zstd(_)
            ));
        }
        assert_eq!(
            unpack(&packed, With::Nothing, text.len() + 1).unwrap_err(),
            CodecError::Length { expected: text.len() + 1, found: text.len() }
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back(
            text in prop::collection::vec(any::<u8>(), 0..600),
            base in "\\{[ -~]{0,600}",
        ) {
            let base = BaseText::new(base.as_bytes());
            for with in [With::Nothing, With::Base(&base)] {
                if let Some(packed) = pack(&text, with).unwrap() {
                    prop_assert_eq!(&unpack(&packed, with, text.len()).unwrap(), &text);
                }
            }
        }

        #[test]
        fn damaged_frame_is_an_error_or_another_text(
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
            is_cut in any::<bool>(),
        ) {
            let (base, text) = (BaseText::new(pod(1)), pod(2));
            let mut packed = pack(&text, With::Base(&base)).unwrap().unwrap().into_vec();
            let at = at.index(packed.len());
            packed[at] ^= flip;
            if is_cut {
                packed.truncate(at);
                prop_assert!(unpack(&packed, With::Base(&base), text.len()).is_err());
            } else if let Ok(found) = unpack(&packed, With::Base(&base), text.len()) {
                prop_assert_eq!(found.len(), text.len());
            }
        }
    }
}
