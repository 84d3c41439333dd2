//! State that all objects of one informer share.

use serde::de::DeserializeOwned;

use super::cache::Cache;
use super::decoded::DecodedCache;
use super::interned::Interned;
use super::shapes::Shapes;
use super::sync::{AtomicU64, AtomicUsize, HashState};
use crate::pointer::Pointer;
use crate::wire::{Prune, Types};

pub(super) struct Common {
    /// The members that are cut out of texts.
    pub(super) prune: Prune,
    /// The `apiVersion` and `kind` of objects whose text does not have them, such as the items of a
    /// list.
    pub(super) types: Option<Types>,
    /// The fields that the user has named. The header of an object (`header.rs`) stores them in
    /// addition to the metadata.
    pub(super) named: Vec<NamedField>,
    pub(super) cache: Cache,
    /// The decoded objects that are kept, or `None` if they are not kept.
    pub(super) decoded: Option<DecodedCache>,
    pub(super) counts: Counts,
    pub(super) shapes: Shapes,
    /// The hasher of groups, shapes, finalizers and annotations. It is random, so that names with
    /// equal hashes cannot be chosen on purpose.
    pub(super) state: HashState,
}

/// A field that the user has named.
pub(super) struct NamedField {
    pub(super) pointer: Pointer,
    pub(super) values: Interned,
}

impl Common {
    /// Decodes a text out of which members have been cut. Adds `apiVersion` and `kind` if the text
    /// does not have them, unless they are among these members.
    pub(super) fn decode<K: DeserializeOwned>(&self, text: &str) -> serde_json::Result<K> {
        self.prune.decode(text, self.types.as_ref())
    }
}

/// Totals for [`CompactStats`](super::CompactStats). They order nothing, so all accesses are
/// relaxed.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) packed: AtomicU64,
    pub(super) objects: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) raw_bytes: AtomicUsize,
    pub(super) bases: AtomicUsize,
    pub(super) base_bytes: AtomicUsize,
    pub(super) dictionary_bytes: AtomicUsize,
    pub(super) decodes: AtomicU64,
    pub(super) failed_decodes: AtomicU64,
    pub(super) decode_nanos: AtomicU64,
}
