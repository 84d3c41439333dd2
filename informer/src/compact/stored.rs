//! The stored form of an object's text, and the dictionary or base that it is compressed against.

use std::sync::Arc;

use super::base::Base;
use super::bytes::{Reader, put_bytes, put_number};
use super::codec::{self, CodecError, Dictionary, With};
use super::common::Common;
use super::sync::Ordering;
use super::values::{Cut, Document, Own, join};

/// A packed text, or the text itself if it has no shorter form. The object or base that owns it
/// knows the length of the text.
///
/// A packed text consists of, in this order: the number of bytes by which [`values`](super::values)
/// shortened the text, the length of the values that it cut out, these values, and the zstd frame.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) bytes: Box<[u8]>,
    pub(super) with: Arc<Reference>,
}

/// The dictionary or base that texts are compressed against, if any, together with the state that
/// all objects of their informer share. Each object then needs a single pointer for both.
pub(super) struct Reference {
    pub(super) common: Arc<Common>,
    pub(super) kind: Material,
}

pub(super) enum Material {
    Nothing,
    Dictionary(Dictionary),
    Base(Base),
}

impl Reference {
    pub(super) fn new(common: &Arc<Common>, dictionary: Option<Dictionary>) -> Arc<Self> {
        let size = dictionary.as_ref().map_or(0, Dictionary::size);
        common.counts.dictionary_bytes.fetch_add(size, Ordering::Relaxed);
        let kind = dictionary.map_or(Material::Nothing, Material::Dictionary);
        Arc::new(Self { common: common.clone(), kind })
    }

    pub(super) fn base(&self) -> Option<&Base> {
        if let Material::Base(base) = &self.kind { Some(base) } else { None }
    }

    fn use_for<R>(&self, work: impl FnOnce(With) -> R) -> Result<R, CodecError> {
        Ok(match &self.kind {
            Material::Nothing => work(With::Nothing),
            Material::Dictionary(dictionary) => work(With::Dictionary(dictionary)),
            Material::Base(base) => {
                let text = base.text()?;
                work(With::Base(&text))
            }
        })
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        if let Material::Dictionary(dictionary) = &self.kind {
            self.common.counts.dictionary_bytes.fetch_sub(dictionary.size(), Ordering::Relaxed);
        }
    }
}

impl Stored {
    /// Packs a text, or stores it unpacked if packing fails or does not make it shorter.
    pub(super) fn pack(document: &Document, with: &Arc<Reference>) -> Self {
        Self::try_pack(document, with)
            .unwrap_or_else(|_| Self { bytes: document.text.into(), with: with.clone() })
    }

    /// Packs a text, or stores it unpacked if packing does not make it shorter.
    ///
    /// # Errors
    /// If zstd fails, as it does without enough memory.
    pub(super) fn try_pack(document: &Document, with: &Arc<Reference>) -> Result<Self, CodecError> {
        let packed = with.use_for(|with| pack(document, with)).flatten();
        if let Some(base) = with.base() {
            // The caller's handle is counted in place of the handle that the new object will hold.
            base.record_holders(Arc::strong_count(with));
        }
        let bytes = packed?.unwrap_or_else(|| document.text.into());
        Ok(Self { bytes, with: with.clone() })
    }

    /// Returns the text, which has `length` bytes. `own` holds the name, uid and version of its
    /// object, which were cut out of the text when it was packed.
    pub(super) fn unpack(&self, length: usize, own: &Own) -> Result<Vec<u8>, CodecError> {
        if self.bytes.len() == length {
            return Ok(self.bytes.to_vec());
        }
        let mut reader = Reader(&self.bytes);
        let cut = usize::try_from(reader.number()).unwrap_or(usize::MAX);
        let values = reader.bytes();
        let text_length = length.checked_sub(cut).ok_or(CodecError::Values)?;
        let unpack = |with: With| codec::unpack(reader.0, with, text_length);
        join(&self.with.use_for(unpack).flatten()?, values, own, length)
    }
}

/// Packs the text of `document`. Returns `None` if the result is not shorter.
pub(super) fn pack(document: &Document, with: With) -> Result<Option<Box<[u8]>>, CodecError> {
    let base = if let With::Base(base) = with { Some(base) } else { None };
    let Cut { text, values } = document.cut(base);
    let Some(frame) = codec::pack(&text, with)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(values.len() + frame.len() + 8);
    put_number(&mut bytes, (document.text.len() - text.len()) as u64);
    put_bytes(&mut bytes, &values);
    bytes.extend_from_slice(&frame);
    Ok((bytes.len() < document.text.len()).then(|| bytes.into()))
}
