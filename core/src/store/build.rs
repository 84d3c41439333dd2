//! Adds an index to a filled store, while consumers write and readers read.
//!
//! 1. The index is put into the list. A writer that loads the list from then on updates the index,
//!    too.
//! 2. Every slot is visited, a few at a time, with the lock of its shard held shared. The visit
//!    reads the known object and leaves a notice
//!    ([`Slot::notice`](crate::engine::slot::Slot::notice)). A writer that loaded the list before,
//!    and has not swapped its object yet, finds its swap refused and begins again with the new
//!    list. So no writer misses the index. A writer that creates a slot after the visit of its
//!    shard sees the new list, because it takes the same lock.
//! 3. Index functions run with no lock held. Then the objects that are still known are added to
//!    the index, under a lock (`building`) that every writer takes while an index is being built.
//!    For objects that were replaced, the functions run again with the new objects.
//! 4. When all slots have been visited, readers find the index.

use std::ops::Range;

use super::Core;
use super::index::Index;
use super::indexes::Indexers;
use crate::Meta;
use crate::engine::buckets::Cursor;
use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, GROUP, mutant};
use crate::error::IndexError;

/// Some objects of one shard, with their keys.
struct ShardObjects<T> {
    keys: String,
    objects: OneByOne<Vec<KeyedObject<T>>>,
}

/// The range of the key in the string of all keys, its hash, and the object.
type KeyedObject<T> = (Range<usize>, u64, Arc<T>);

impl<T> ShardObjects<T> {
    fn push(&mut self, key: &str, hash: u64, object: Arc<T>) {
        let from = self.keys.len();
        self.keys.push_str(key);
        self.objects.push((from..self.keys.len(), hash, object));
    }
}

/// Indexes that are being built. If the `Build` is dropped before the indexes are finished, they
/// are removed.
struct Build<'c, T, M: Meta<T>> {
    core: &'c Core<T, M>,
    new: Vec<Arc<Index<T>>>,
    finished: bool,
}

impl<T, M: Meta<T>> Core<T, M> {
    pub(super) fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), IndexError> {
        let mut build = Build { core: self, new: self.indexes.begin(indexers)?, finished: false };
        for number in 0..self.table.shards().len() {
            build.shard(number)?;
        }
        self.indexes.finish(&build.new);
        build.finished = true;
        Ok(())
    }
}

impl<T, M: Meta<T>> Build<'_, T, M> {
    fn shard(&self, number: usize) -> Result<(), IndexError> {
        let table = &self.core.table;
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let mut found =
                ShardObjects { keys: String::new(), objects: OneByOne(Vec::with_capacity(GROUP)) };
            cursor = table.walk(number, from, GROUP, |slot, hash| {
                if let Some(object) = slot.notice() {
                    found.push(slot.key(), hash, object);
                }
            });
            while !found.objects.is_empty() {
                found = self.put(number, &found)?;
            }
        }
        Ok(())
    }

    /// Adds to the indexes those of the `found` objects that are still known. `number` is the
    /// number of their shard. Returns the objects that have replaced the others; the caller adds
    /// them next. Fails, and adds nothing, if an index function fails.
    fn put(&self, number: usize, found: &ShardObjects<T>) -> Result<ShardObjects<T>, IndexError> {
        let mut values = Vec::with_capacity(found.objects.len());
        for (key, _, object) in &*found.objects {
            let of_object = self.new.iter().map(|index| {
                index.values_of(object).map_err(|source| IndexError::Build {
                    index: index.name.clone(),
                    key: found.keys[key.clone()].to_owned(),
                    source,
                })
            });
            values.push(of_object.collect::<Result<Vec<_>, _>>()?);
        }
        let mut again = ShardObjects { keys: String::new(), objects: OneByOne::default() };
        {
            // Locked before the shard, because the holder of `building` may wait for readers of an
            // index. If this thread waited for it with the shard locked, and a writer waited for
            // the shard, readers of the shard's keys would wait, too.
            let _building = self.core.indexes.building.lock();
            mutant!(BuiltUnlocked => drop(_building));
            let shard = self.core.table.shards()[number].read();
            for ((key, hash, object), values) in found.objects.iter().zip(values) {
                let key = &found.keys[key.clone()];
                let Some(slot) = shard.find(*hash, key.as_bytes()) else { continue };
                let Some(now) = slot.known() else { continue };
                let is_same = Arc::ptr_eq(&now, object);
                mutant!(BuiltFromOldObject => let is_same = true);
                if is_same {
                    // `found` holds the object too, so `now` is not the last reference.
                    for (index, values) in self.new.iter().zip(values) {
                        index.join_once(&values, slot);
                    }
                } else {
                    again.push(key, *hash, now);
                }
            }
        }
        Ok(again)
    }
}

impl<T, M: Meta<T>> Drop for Build<'_, T, M> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let building = self.core.indexes.building.lock();
        self.new.iter().for_each(|index| index.abandon());
        drop(building);
        // After the lock is released, so that writers proceed: clearing a large index takes long.
        self.new.iter().for_each(|index| index.values.clear());
        self.core.indexes.withdraw(&self.new);
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Build, Core};
    use crate::engine::sync::Arc;
    use crate::{Indexers, KeyFunc, NoMeta};

    /// Checks that the builder holds no shard of the table while it waits for the lock `building`,
    /// whose holder may wait for a long read of an index. A writer that waited for the shard would
    /// then delay all readers of its keys.
    #[test]
    fn builder_locks_no_shard_before_it_has_the_lock_of_the_build() {
        let keys = KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned()));
        let core = Core::new(keys, Indexers::new()).unwrap();
        core.write("a", Some(Arc::new(1)));
        let called = Arc::new(Barrier::new(2));
        let later = {
            let called = called.clone();
            Indexers::new().index("later", move |_: &u32| {
                // The first wait shows the test that the function runs. The second one ends when
                // the test has locked the shard.
                called.wait();
                called.wait();
                Ok(vec![])
            })
        };
        thread::scope(|scope| {
            let builder = scope.spawn(|| core.add_indexers(later));
            called.wait();
            let shard = core.table.shard(core.table.hash(b"a")).write();
            called.wait();
            let began = Instant::now();
            while !core.indexes.building.is_locked() {
                assert!(began.elapsed() < Duration::from_secs(10), "it waits for the shard first");
                thread::yield_now();
            }
            drop(shard);
            builder.join().unwrap().unwrap();
        });
    }

    /// Checks that a writer leaves no entry in an index whose build failed. Such an entry would
    /// keep the slot alive, and the next plan of a writer would not match the slot's entries.
    #[test]
    fn writer_adds_nothing_to_an_index_whose_build_failed() {
        let core =
            Core::new(KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned())), Indexers::new())
                .unwrap();
        core.write("a", Some(Arc::new(1)));
        let later = Indexers::new().index("later", |number: &u32| Ok(vec![number.to_string()]));
        let build = Build { core: &core, new: core.indexes.begin(later).unwrap(), finished: false };
        let list = core.indexes.load();
        drop(build);
        let Ok(Some(mut running)) = core.claim(core.table.hash(b"a"), "a", false) else {
            panic!("it is stored")
        };
        let values = core.index_values(&list, "a", Some(&1), Some(&2));
        let plan = core.plan(&list, values, running.slot());
        assert!(core.carry_out(&list, &plan, &mut running, Some(Arc::new(2))).is_ok());
        assert_eq!(running.slot().index_entries(), 1, "only the entry of its namespace");
        core.unclaim(running);
    }
}
