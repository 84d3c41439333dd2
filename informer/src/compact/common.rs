//! State that all objects of one informer share.

use super::cache::Cache;
use super::pointer::Pointer;
use super::shapes::Shapes;
use super::sync::{AtomicU64, AtomicUsize, HashState};
use crate::wire::Types;

pub(super) struct Common {
    /// The `apiVersion` and `kind` of objects whose text does not have them, such as the items of a
    /// list.
    pub(super) types: Option<Types>,
    /// The fields that the user has named. The header of an object (`header.rs`) stores them in
    /// addition to the metadata.
    pub(super) pointers: Vec<Pointer>,
    pub(super) cache: Cache,
    pub(super) counts: Counts,
    pub(super) shapes: Shapes,
    /// The hasher of groups, shapes, finalizers and annotations. It is random, so that names with
    /// equal hashes cannot be chosen on purpose.
    pub(super) state: HashState,
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
