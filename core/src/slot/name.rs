//! The key inside the slot: up to 39 bytes in the slot's own line, longer ones in a box of their own.

use std::mem::ManuallyDrop;

const INLINE: usize = 39;
const HEAP: u8 = u8::MAX;

#[repr(C)]
struct Heap {
    key: ManuallyDrop<Box<str>>,
    _pad: [u8; INLINE - size_of::<Box<str>>()],
    tag: u8,
}

/// The last byte of both is the tag: the length of an inline key, or [`HEAP`].
#[repr(C)]
pub(super) union Name {
    inline: [u8; INLINE + 1],
    heap: ManuallyDrop<Heap>,
}

const _: () = assert!(size_of::<Name>() == INLINE + 1 && size_of::<Heap>() == INLINE + 1);

impl Name {
    pub(super) fn new(key: &str) -> Self {
        if let Some(length) = u8::try_from(key.len()).ok().filter(|&length| usize::from(length) <= INLINE) {
            let mut inline = [0; INLINE + 1];
            inline[..key.len()].copy_from_slice(key.as_bytes());
            inline[INLINE] = length;
            return Self { inline };
        }
        let key = ManuallyDrop::new(key.into());
        Self { heap: ManuallyDrop::new(Heap { key, _pad: [0; INLINE - size_of::<Box<str>>()], tag: HEAP }) }
    }

    fn tag(&self) -> u8 {
        // SAFETY: both variants initialise their last byte, which is the tag, at the same offset (repr(C), sizes
        // asserted above).
        unsafe { self.inline[INLINE] }
    }

    pub(super) fn as_str(&self) -> &str {
        let tag = self.tag();
        if tag == HEAP {
            // SAFETY: the tag says that `heap` was written; it never changes after `new`.
            return unsafe { &self.heap.key };
        }
        // SAFETY: 1. The tag says that `inline` was written. 2. Its first `tag` bytes are a whole `&str`'s, copied.
        unsafe { std::str::from_utf8_unchecked(&self.inline[..usize::from(tag)]) }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.tag() == HEAP {
            // SAFETY: 1. The tag says that `heap` was written. 2. It is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut (*self.heap).key) };
        }
    }
}
