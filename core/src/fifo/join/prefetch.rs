//! Prefetches of a join: the memory of objects, buckets and slots some steps ahead of their use.

use super::piece::PageEntry;
use crate::engine::release::release;
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
/// The distance, in objects, at which the join prefetches a known object, if its version is
/// compared.
pub(super) const KNOWN_AHEAD: usize = 5;

/// Empties `entries`, and prefetches the reference counts of unchanged objects before they are
/// decremented.
pub(super) fn clear_near<T>(entries: &mut Vec<PageEntry<T>>) {
    let mut place = 0;
    release(std::iter::from_fn(|| {
        if let Some(object) =
            entries.get(place + OBJECT_AHEAD).and_then(|ahead| ahead.object.as_ref())
        {
            prefetch(Arc::as_ptr(object));
        }
        let entry = entries.get_mut(place)?;
        place += 1;
        Some(entry.object.take())
    }));
    entries.clear();
}

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
