//! A list's item or a watch's line that is large: it has a buffer of its own, and one that is too
//! large passes without being kept.

use bytes::Bytes;

use super::budget::Share;
use super::outline::Outline;
use super::{LARGE, WireError};

/// What is longer than this, and than any limit, has no end.
pub(super) const ENDLESS: usize = if cfg!(test) { 64 << 20 } else { 1 << 30 };

/// A large item or line as its bytes arrive.
pub(super) struct Large {
    /// What has arrived. It doubles up to `limit`, so that what is in memory while it moves is not
    /// more than that.
    bytes: Vec<u8>,
    size: usize,
    limit: usize,
    share: Option<Share>,
    /// It is too large.
    outline: Option<Outline>,
    new_outline: fn() -> Outline,
}

/// An item or line that has come to its end.
pub(crate) enum Whole {
    /// All of it. A large one that arrived in pieces holds a share of the budget.
    Read(Bytes, Option<Share>),
    /// It was too large.
    Skipped(Outline),
}

impl Large {
    /// One that begins with `begun`.
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

    /// Takes the next bytes of it.
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

    /// How large it may become, if it has no share of the budget and needs one.
    pub(super) fn wants_share(&self) -> Option<usize> {
        (self.outline.is_none() && self.share.is_none() && self.size > LARGE).then_some(self.limit)
    }

    pub(super) fn give(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// It has come to its end.
    pub(super) fn finish(self) -> Whole {
        match self.outline {
            Some(outline) => Whole::Skipped(outline),
            None => Whole::Read(self.bytes.into(), self.share),
        }
    }
}
