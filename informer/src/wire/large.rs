//! A buffer for one large item of a list, or one large line of a watch. If the text is larger than
//! the limit, its bytes are parsed for an [outline](super::outline), which has the names and the
//! version of the object, and are then dropped.

use bytes::Bytes;

use super::budget::Share;
use super::outline::Outline;
use super::{LARGE, WireError};

/// The size in bytes above which the rest of an item or line is not read, even to find its end. If
/// the limit for objects is higher, that limit applies instead.
pub(super) const ENDLESS: usize = if cfg!(test) { 64 << 20 } else { 1 << 30 };

/// A large item or line whose bytes are arriving.
pub(super) struct Large {
    /// The bytes so far. The capacity doubles, and ends at `limit`. While bytes are moved to a
    /// larger buffer, the old and the new one together take up to twice `limit`.
    bytes: Vec<u8>,
    size: usize,
    limit: usize,
    share: Option<Share>,
    /// The outline, once the item is too large.
    outline: Option<Outline>,
    new_outline: fn() -> Outline,
}

/// A complete item or line.
pub(crate) enum CompleteText {
    /// All bytes. If it is large and arrived in pieces, it holds a share of the budget.
    Read(Bytes, Option<Share>),
    /// The outline of an item that was too large.
    Skipped(Outline),
}

impl Large {
    /// Creates a buffer that contains the bytes that have arrived.
    pub(super) fn new(
        begun: &[u8],
        limit: usize,
        new_outline: fn() -> Outline,
    ) -> Result<Self, WireError> {
        let mut large =
            Self { bytes: Vec::new(), size: 0, limit, share: None, outline: None, new_outline };
        large.push(begun)?;
        Ok(large)
    }

    /// Appends the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.size += bytes.len();
        if let Some(outline) = &mut self.outline {
            outline.push(bytes);
        } else if self.size > self.limit {
            let mut outline = (self.new_outline)();
            outline.push(&std::mem::take(&mut self.bytes));
            outline.push(bytes);
            (self.outline, self.share) = (Some(outline), None);
        } else {
            if self.bytes.capacity() < self.size {
                let capacity =
                    self.bytes.capacity().saturating_mul(2).min(self.limit).max(self.size);
                self.bytes.reserve_exact(capacity - self.bytes.len());
            }
            self.bytes.extend_from_slice(bytes);
        }
        if self.size > self.limit.max(ENDLESS) { Err(WireError::TooLong) } else { Ok(()) }
    }

    /// Returns the share of the budget that the item needs, in bytes, if it is large and has no
    /// share yet. Its final size is not known, so the share is `limit`.
    pub(super) fn wants_share(&self) -> Option<usize> {
        (self.outline.is_none() && self.share.is_none() && self.size > LARGE).then_some(self.limit)
    }

    pub(super) fn give(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// Ends the item, and returns it or its outline.
    pub(super) fn finish(self) -> CompleteText {
        match self.outline {
            Some(outline) => CompleteText::Skipped(outline),
            None => CompleteText::Read(self.bytes.into(), self.share),
        }
    }
}
