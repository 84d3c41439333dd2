//! Prefetches memory that the join will use some objects later.

use super::entries::PageEntry;
use crate::engine::shard::Shard;
use crate::engine::slot::prefetch;
use crate::engine::sync::Arc;

/// The distance, in objects, at which the join prefetches an object's memory before its use.
pub(super) const OBJECT_AHEAD: usize = 16;
/// The distance, in objects, at which the join prefetches an object's name and, if versions are
/// compared, its version.
pub(super) const STRING_AHEAD: usize = 8;
/// The distance, in objects, at which the join prefetches the bucket of an object's key.
const BUCKET_AHEAD: usize = 20;
/// The distance, in objects, at which the join prefetches the slot of an object's key.
const SLOT_AHEAD: usize = 10;

/// Prefetches the memory of the first objects of a group.
pub(super) fn bring_first_near<T>(
    shard: &Shard<T>,
    entries: &[PageEntry<T>],
    group: &[u32],
    arena: &str,
) {
    for &number in group.iter().take(BUCKET_AHEAD) {
        shard.prefetch_bucket(entries[number as usize].hash);
    }
    for &number in group.iter().take(SLOT_AHEAD) {
        bring_slot_near(shard, &entries[number as usize], arena);
    }
}

/// Prefetches the memory of the objects some steps after `place`: first the bucket, a few steps
/// later slot and key.
#[inline]
pub(super) fn bring_near<T>(
    shard: &Shard<T>,
    entries: &[PageEntry<T>],
    group: &[u32],
    arena: &str,
    place: usize,
) {
    if let Some(&ahead) = group.get(place + BUCKET_AHEAD) {
        shard.prefetch_bucket(entries[ahead as usize].hash);
    }
    if let Some(&ahead) = group.get(place + SLOT_AHEAD) {
        bring_slot_near(shard, &entries[ahead as usize], arena);
    }
}

/// Prefetches the memory of an object that an accessor will probably read. The compiler chooses
/// where the metadata is, so the whole of a small object is prefetched, and the beginning of a
/// large one.
pub(super) fn bring_object_near<T>(object: &Arc<T>) {
    const LINE: usize = 64;
    const MOST: usize = 4 * LINE;
    let start = Arc::as_ptr(object).cast::<u8>();
    for at in (0..size_of::<T>().min(MOST)).step_by(LINE) {
        prefetch(start.wrapping_add(at));
    }
}

fn bring_slot_near<T>(shard: &Shard<T>, entry: &PageEntry<T>, arena: &str) {
    shard.prefetch_slot(entry.hash);
    prefetch(entry.key(arena).as_ptr());
}
