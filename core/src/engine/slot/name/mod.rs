//! The key of a slot, and the version of the known object as a number. A key of up to 39 bytes is
//! in the slot's own cache line.
//!
//! | key | place | room for a version |
//! | --- | --- | --- |
//! | up to 32 bytes | in `head` | yes |
//! | 33 to 39 bytes | in `head`, its end in `tail` | no |
//! | longer | in a box, to which `head` points | yes |

use std::mem::ManuallyDrop;
use std::slice;

use crate::engine::sync::{AtomicU64, Ordering};

const HEAD: usize = 32;
const INLINE: usize = HEAD + 7;
const BOXED: u8 = u8::MAX;

#[repr(C)]
pub(super) struct Name {
    head: Head,
    /// The last byte is the tag, which never changes: the length of an inline key, or [`BOXED`].
    /// If the key has more than [`HEAD`] inline bytes, the other seven bytes are its end and
    /// never change either. Otherwise they are the number of a version, or 0, in little-endian
    /// order on every machine.
    tail: AtomicU64,
}

#[repr(C)]
union Head {
    inline: [u8; HEAD],
    boxed: ManuallyDrop<Box<str>>,
}

const _: () = assert!(size_of::<Name>() == INLINE + 1);

impl Name {
    pub(super) fn new(key: &str) -> Self {
        let (mut head, mut tail) = ([0; HEAD], [0; 8]);
        if let Some(length) =
            u8::try_from(key.len()).ok().filter(|&length| usize::from(length) <= INLINE)
        {
            let (start, end) = key.as_bytes().split_at(key.len().min(HEAD));
            head[..start.len()].copy_from_slice(start);
            tail[..end.len()].copy_from_slice(end);
            tail[7] = length;
            return Self {
                head: Head { inline: head },
                tail: AtomicU64::new(u64::from_ne_bytes(tail)),
            };
        }
        tail[7] = BOXED;
        let head = Head { boxed: ManuallyDrop::new(key.into()) };
        Self { head, tail: AtomicU64::new(u64::from_ne_bytes(tail)) }
    }

    /// Returns the bytes of the tail.
    fn tail(&self) -> [u8; 8] {
        // Relaxed: the tag never changes, and readers of the version are ordered by the slot's
        // word.
        self.tail.load(Ordering::Relaxed).to_ne_bytes()
    }

    pub(super) fn as_str(&self) -> &str {
        let tag = self.tail()[7];
        if tag == BOXED {
            // SAFETY: the tag says that `boxed` was written; it never changes after `new`.
            return unsafe { &self.head.boxed };
        }
        // SAFETY: 1. The tag says that `inline` was written. 2. `head` and `tail` are adjacent
        // (repr(C), size asserted above), and the pointer covers both. 3. If the tag is above
        // HEAD, `tail` is never written (`note_version`); if it is lower, the slice ends before
        // `tail`. 4. These bytes are a copy of a whole `&str`.
        unsafe {
            std::str::from_utf8_unchecked(slice::from_raw_parts(
                (&raw const *self).cast::<u8>(),
                usize::from(tag),
            ))
        }
    }

    /// Returns whether the key leaves room for a version.
    pub(super) fn has_room(&self) -> bool {
        has_room(self.tail()[7])
    }

    /// Returns the number of the known object's version, or 0 if none is recorded.
    pub(super) fn version(&self) -> u64 {
        let mut tail = self.tail();
        let tag = std::mem::take(&mut tail[7]);
        if has_room(tag) { u64::from_le_bytes(tail) } else { 0 }
    }

    /// Records the number of a version, at most 56 bits, or 0 for none. Does nothing if the key
    /// leaves no room for it. Only the holder of the running slot calls this.
    pub(super) fn note_version(&self, version: u64) {
        let [.., tag] = self.tail();
        if has_room(tag) {
            let mut tail = version.to_le_bytes();
            debug_assert_eq!(tail[7], 0, "16 digits have less than 56 bits");
            tail[7] = tag;
            // Relaxed: published by the slot's word.
            self.tail.store(u64::from_ne_bytes(tail), Ordering::Relaxed);
        }
    }
}

fn has_room(tag: u8) -> bool {
    tag == BOXED || usize::from(tag) <= HEAD
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.tail()[7] == BOXED {
            // SAFETY: 1. The tag says that `boxed` was written. 2. It is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.head.boxed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_never_changes_the_key_whatever_its_length() {
        let text: String = ('a'..='z').cycle().take(300).collect();
        for length in [0, 1, 31, 32, 33, 38, 39, 40, 41, 254, 255, 256, 300] {
            let key = &text[..length];
            let name = Name::new(key);
            assert_eq!((name.as_str(), name.version()), (key, 0), "{length} bytes");
            for version in [1, 9_999_999_999_999_999, 0, 7] {
                name.note_version(version);
                let noted = if (33..=39).contains(&length) { 0 } else { version };
                assert_eq!((name.as_str(), name.version()), (key, noted), "{length} bytes");
            }
        }
    }
}
