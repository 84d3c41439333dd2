//! Decides when a collection frees memory that it no longer needs.

/// The number of entries for which a collection always keeps room, however few it has.
pub const LEAST_ROOM: usize = 64;

/// Returns the capacity to which a collection with `entries` entries and the capacity `room`
/// should shrink, or `None` if it should not shrink.
///
/// A collection should shrink if its capacity is more than [`LEAST_ROOM`] and more than eight
/// times its entries. The new capacity is twice its entries. So it does not shrink again before
/// more than half of these entries have been removed.
#[inline]
#[must_use]
pub fn less_room(entries: usize, room: usize) -> Option<usize> {
    (room > LEAST_ROOM && entries < room / 8).then_some(2 * entries)
}
