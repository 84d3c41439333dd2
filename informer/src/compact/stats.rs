//! The memory and the work of a compactor.

use std::time::Duration;

use super::common::Common;
use super::compactor::Compactor;
use super::decoded::DecodedCache;
use super::sync::{AtomicUsize, Ordering};

/// The memory that the objects of a [`Compactor`] take now, by kind, and counts of the compactor's
/// work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactStats {
    /// The number of objects that have been packed so far.
    pub packed: u64,
    /// The number of objects that are alive.
    pub objects: usize,
    /// The number of bytes that these objects take, without what they share: bases, dictionaries,
    /// metadata, and values of [named fields](super::CompactorBuilder::field).
    pub bytes: usize,
    /// The number of bytes of the JSON of these objects.
    pub raw_bytes: usize,
    /// The number of bases that are alive.
    pub bases: usize,
    /// The number of bytes that the packed bases take.
    pub base_bytes: usize,
    /// The number of bytes of the texts of bases that are kept unpacked. Hashes of their values are
    /// not counted: up to 2 KiB for each of these bases.
    pub unpacked_base_bytes: usize,
    /// The number of bytes that the dictionaries take.
    pub dictionary_bytes: usize,
    /// The number of calls of [`Compact::decode`](super::Compact::decode) so far.
    pub decodes: u64,
    /// The number of these calls that failed.
    pub failed_decodes: u64,
    /// The time that all calls of [`Compact::decode`](super::Compact::decode) took together.
    pub decode_time: Duration,
    /// The number of calls of [`Compact::decode_shared`](super::Compact::decode_shared) so far that
    /// found the object in the [cache](super::CompactorBuilder::decoded_cache) of decoded objects.
    pub decoded_hits: u64,
    /// The number of these calls so far that did not find the object there, and decoded it. Calls
    /// for an object without a uid or a resource version are not counted.
    pub decoded_misses: u64,
    /// The number of bytes that the objects in this cache are assumed to take.
    pub decoded_bytes: usize,
    /// The number of passes that the informer has made over all stored objects, to pack some of
    /// them again. The informer makes one after each list, and one a minute while objects change.
    pub passes: u64,
}

impl<K> Compactor<K> {
    /// Returns the memory that the objects take now, and how often they were packed and decoded.
    pub fn stats(&self) -> CompactStats {
        let Common { counts, decoded, .. } = &*self.common;
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        CompactStats {
            packed: counts.packed.load(Ordering::Relaxed),
            objects: load(&counts.objects),
            bytes: load(&counts.bytes),
            raw_bytes: load(&counts.raw_bytes),
            bases: load(&counts.bases),
            base_bytes: load(&counts.base_bytes),
            unpacked_base_bytes: load(&self.common.cache.bytes),
            dictionary_bytes: load(&counts.dictionary_bytes),
            decodes: counts.decodes.load(Ordering::Relaxed),
            failed_decodes: counts.failed_decodes.load(Ordering::Relaxed),
            decode_time: Duration::from_nanos(counts.decode_nanos.load(Ordering::Relaxed)),
            decoded_hits: decoded.as_ref().map_or(0, DecodedCache::hits),
            decoded_misses: decoded.as_ref().map_or(0, DecodedCache::misses),
            decoded_bytes: decoded.as_ref().map_or(0, DecodedCache::bytes),
            passes: self.passes.load(Ordering::Relaxed),
        }
    }
}
