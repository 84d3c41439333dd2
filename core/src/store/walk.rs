//! A walk over the store that the caller makes step by step. For any key, stored or not, the caller
//! can ask whether the walk has passed it. The walk is for the informer of this workspace, and is
//! not part of the public API.

use super::IndexReader;
use crate::Meta;
use crate::engine::buckets::Cursor;
use crate::engine::sync::Arc;
use crate::engine::table::Table;

/// The largest number of passes in a step. Each pass visits as many places of the table as the step
/// still needs objects. About every second place has an object, so four passes find nearly as many
/// objects as the caller wants, unless room was reserved for a relist or many objects were deleted.
const PASSES: usize = 4;

/// The position at which a [walk](IndexReader::walk) continues. The default is the beginning.
#[derive(Clone, Copy, Default)]
pub struct WalkPosition {
    shard: usize,
    cursor: Cursor,
}

/// A step of a [walk](IndexReader::walk).
pub struct WalkStep<T> {
    /// The visited objects, with their keys.
    pub objects: Vec<(Box<str>, Arc<T>)>,
    /// The position of the next step; `None` at the end.
    pub next: Option<WalkPosition>,
}

impl<T, M: Meta<T>> IndexReader<T, M> {
    /// Returns the next step of a walk over all objects, in no particular order: about `most` of
    /// them, fewer at the end, and fewer or none where many were deleted (client-go has no such
    /// call). An object that is stored from the beginning of the walk to its end is visited
    /// exactly once. O(`most`); O(objects) in all. Nothing is locked between steps.
    ///
    /// [`has_walked`](Self::has_walked) returns for every key, stored or not, whether the walk has
    /// passed it. So a caller that is notified of changes during the walk can ignore changes of
    /// keys that the walk has not passed yet.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, KeyFunc, NoMeta, WalkPosition};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let store = Indexer::builder(keys).build()?;
    /// ["a", "b", "c"].map(|name| store.add(Arc::new(name.to_owned())));
    /// let (mut at, mut seen) = (Some(WalkPosition::default()), Vec::new());
    /// while let Some(from) = at {
    ///     let step = store.walk(from, 2);
    ///     assert!(step.objects.iter().all(|(key, _)| !store.has_walked(from, key)));
    ///     seen.extend(step.objects.into_iter().map(|(key, _)| key));
    ///     at = step.next;
    /// }
    /// seen.sort();
    /// assert_eq!(seen, ["a", "b", "c"].map(Box::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn walk(&self, from: WalkPosition, most: usize) -> WalkStep<T> {
        let (table, most) = (&self.core.table, most.max(1));
        let (mut objects, mut at) = (Vec::new(), from);
        // A step through a table that is nearly empty must not take long.
        let mut passes = PASSES;
        while at.shard < table.shards().len() && objects.len() < most && passes > 0 {
            let room = most - objects.len();
            let next = table.walk(at.shard, at.cursor, room, |slot, _| {
                objects.extend(slot.known().map(|object| (slot.key().into(), object)));
            });
            at = match next {
                Some(cursor) => {
                    passes -= 1;
                    WalkPosition { cursor, ..at }
                }
                None => WalkPosition { shard: at.shard + 1, cursor: Cursor::default() },
            };
        }
        WalkStep { objects, next: (at.shard < table.shards().len()).then_some(at) }
    }

    /// Returns whether a walk that continues at `position` has passed the place of `key`. O(1),
    /// nothing is locked.
    #[doc(hidden)]
    #[must_use]
    pub fn has_walked(&self, position: WalkPosition, key: &str) -> bool {
        let hash = self.core.table.hash(key.as_bytes());
        let shard = Table::<T>::shard_of(hash);
        shard < position.shard || shard == position.shard && position.cursor.is_past(hash)
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use std::collections::BTreeMap;

    use super::WalkPosition;
    use crate::engine::sync::Arc;
    use crate::{Indexer, KeyFunc, NoMeta};

    #[test]
    fn step_through_a_nearly_empty_table_passes_few_places() {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
        let store = Indexer::builder(keys).build().unwrap();
        store.add(Arc::new(7)).unwrap();
        let room: u32 = if cfg!(miri) { 1_000 } else { 50_000 };
        // Room is reserved in this way before a relist.
        store.reader().core.table.reserve(room as usize);
        let (mut at, mut steps, mut found) = (Some(WalkPosition::default()), 0, 0);
        while let Some(from) = at {
            let step = store.walk(from, 16);
            (steps, found, at) = (steps + 1, found + step.objects.len(), step.next);
        }
        assert_eq!(found, 1);
        assert!(steps > room / 16 / 32, "{steps} steps through room for {room} objects");
    }

    #[test]
    fn emptied_table_is_walked_in_few_steps() {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
        let store = Indexer::builder(keys).build().unwrap();
        let all = if cfg!(miri) { 1_000 } else { 50_000 };
        (0..all).for_each(|number| store.add(Arc::new(number)).unwrap());
        (1..all).for_each(|number| store.delete(&number).unwrap());
        let (mut at, mut steps) = (Some(WalkPosition::default()), 0);
        while let Some(from) = at {
            (at, steps) = (store.walk(from, 16).next, steps + 1);
        }
        // At most 256 shards with 8 buckets each. A step passes about 64 buckets.
        assert!(steps <= 256, "{steps} steps after {all} objects were removed");
    }

    #[test]
    fn has_walked_agrees_with_the_visits_of_a_store_that_grows() {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
        let store = Indexer::builder(keys).build().unwrap();
        let (stay, most) = if cfg!(miri) { (20, 60) } else { (2_000, 20_000) };
        (0..stay).for_each(|number| store.add(Arc::new(number)).unwrap());
        let (mut at, mut visits, mut came) = (Some(WalkPosition::default()), BTreeMap::new(), stay);
        while let Some(from) = at {
            let step = store.walk(from, 16);
            for (key, object) in &step.objects {
                assert_eq!(**key, *object.to_string());
                assert!(!store.has_walked(from, key), "{key} was not yet to be counted as walked");
                *visits.entry(**object).or_insert(0) += 1;
            }
            at = step.next;
            // The answers agree with the visits.
            for number in (0..came).step_by(37) {
                let walked = at.is_none_or(|at| store.has_walked(at, &number.to_string()));
                if number < stay || !walked {
                    assert_eq!(visits.contains_key(&number), walked, "{number}");
                }
            }
            let more = (came + 100).min(most);
            (came..more).for_each(|number| store.add(Arc::new(number)).unwrap());
            came = more;
        }
        assert!((0..stay).all(|number| visits.get(&number) == Some(&1)));
    }

    #[test]
    fn has_walked_agrees_with_the_visits_of_a_store_that_shrinks() {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
        let store = Indexer::builder(keys).build().unwrap();
        let (stay, most) = if cfg!(miri) { (20, 400) } else { (2_000, 100_000) };
        (0..most).for_each(|number| store.add(Arc::new(number)).unwrap());
        let (mut at, mut visits, mut left) = (Some(WalkPosition::default()), BTreeMap::new(), most);
        while let Some(from) = at {
            let step = store.walk(from, 16);
            for (key, object) in &step.objects {
                assert!(!store.has_walked(from, key), "{key} was not yet to be counted as walked");
                *visits.entry(**object).or_insert(0) += 1;
            }
            at = step.next;
            for number in (0..left).step_by(997) {
                let walked = at.is_none_or(|at| store.has_walked(at, &number.to_string()));
                assert_eq!(visits.contains_key(&number), walked, "{number}");
            }
            let fewer = left.saturating_sub(most / 50).max(stay);
            for number in fewer..left {
                store.delete(&number).unwrap();
            }
            left = fewer;
        }
        assert!((0..stay).all(|number| visits.get(&number) == Some(&1)));
    }
}
