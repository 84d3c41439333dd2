//! Finds similar objects for an object that is being packed. Tables contain a base, or else an
//! object, for each group of objects and for each recent feature of a text (`sketch.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::object::Compact;
use super::sketch::FEATURES;
use super::stored::Reference;
use super::sync::{Mutex, RandomState};

/// The number of recent features that are kept, a power of two. Newer features take the place of
/// older ones.
const SKETCHES: usize = 1 << 12;

/// The known groups and features, with an object or base for each. The handles are weak, so the
/// tables keep no object or base alive.
pub(super) struct Groups<K>(Mutex<Tables<K>>);

/// The tables of [`Groups`], which its lock protects.
struct Tables<K> {
    /// The only member so far of each group without a base, by the hash of the group. Its text may
    /// become the base. An entry takes 16 bytes.
    firsts: HashMap<u64, Weak<Compact<K>>, RandomState>,
    bases: HashMap<u64, Weak<Reference>, RandomState>,
    /// The recent features, each at the index that its low bits give, with the last object that
    /// was added with it. Empty until the first object is added.
    sketches: Vec<Option<Sketch<K>>>,
}

/// An object that has a feature, and its group.
struct Sketch<K> {
    feature: u64,
    group: u64,
    like: Weak<Compact<K>>,
}

/// The base or object that another object may be stored as a difference from.
pub(super) enum Relative<K> {
    Base(Arc<Reference>),
    First(Arc<Compact<K>>),
}

impl<K> Groups<K> {
    pub(super) fn new() -> Self {
        let (firsts, bases) = (HashMap::default(), HashMap::default());
        Self(Mutex::new(Tables { firsts, bases, sketches: Vec::new() }))
    }

    /// Returns the base of `group`, or else its first member, or `None` if neither is alive.
    pub(super) fn find(&self, group: u64) -> Option<Relative<K>> {
        let tables = self.0.lock();
        let base = tables.bases.get(&group).and_then(Weak::upgrade).map(Relative::Base);
        base.or_else(|| tables.firsts.get(&group)?.upgrade().map(Relative::First))
    }

    /// Returns the group that has the largest number of these features, with its base, or else with
    /// an object that has one of the features. Returns `None` if no group has any of them, or if
    /// neither base nor object is alive.
    pub(super) fn similar(&self, features: &[u64; FEATURES]) -> Option<(u64, Relative<K>)> {
        let tables = self.0.lock();
        let sketches = features.iter().filter_map(|feature| {
            let sketch = tables.sketches.get(slot(*feature))?.as_ref()?;
            (sketch.feature == *feature).then_some(sketch)
        });
        let sketches: Vec<_> = sketches.collect();
        let shared = |group| sketches.iter().filter(|sketch| sketch.group == group).count();
        let sketch = sketches.iter().max_by_key(|sketch| shared(sketch.group))?;
        let base = tables.bases.get(&sketch.group).and_then(Weak::upgrade).map(Relative::Base);
        let relative = base.or_else(|| sketch.like.upgrade().map(Relative::First))?;
        Some((sketch.group, relative))
    }

    /// Makes `object` the first member of `group`, which can then be found by `features`, too.
    /// Returns the number of groups.
    pub(super) fn add_first(
        &self,
        group: u64,
        features: &[u64; FEATURES],
        object: &Arc<Compact<K>>,
    ) -> usize {
        let mut tables = self.0.lock();
        let Tables { firsts, bases, sketches } = &mut *tables;
        make_room(firsts);
        firsts.insert(group, Arc::downgrade(object));
        if sketches.is_empty() {
            sketches.resize_with(SKETCHES, || None);
        }
        for feature in *features {
            let like = Arc::downgrade(object);
            sketches[slot(feature)] = Some(Sketch { feature, group, like });
        }
        firsts.len() + bases.len()
    }

    /// Makes `base` the base of `group`, which then needs no first member.
    pub(super) fn set_base(&self, group: u64, base: &Arc<Reference>) {
        let mut tables = self.0.lock();
        tables.firsts.remove(&group);
        make_room(&mut tables.bases);
        tables.bases.insert(group, Arc::downgrade(base));
    }

    /// Returns all bases, each of them once, and all first members.
    pub(super) fn all(&self) -> (Vec<Arc<Reference>>, Vec<Arc<Compact<K>>>) {
        let tables = self.0.lock();
        let mut bases: Vec<_> = tables.bases.values().filter_map(Weak::upgrade).collect();
        let firsts = tables.firsts.values().filter_map(Weak::upgrade).collect();
        drop(tables);
        // Groups share a base if their objects are similar.
        bases.sort_unstable_by_key(Arc::as_ptr);
        bases.dedup_by(|one, other| Arc::ptr_eq(one, other));
        (bases, firsts)
    }

    /// Returns the number of groups. Until the next [`purge`](Self::purge), groups that have died
    /// out count, too.
    pub(super) fn count(&self) -> usize {
        let tables = self.0.lock();
        tables.firsts.len() + tables.bases.len()
    }

    /// Removes the groups whose base or first member was dropped, and the features by which neither
    /// an object nor a base can be found any more. This frees memory: a weak handle keeps the
    /// allocation of its object or base.
    pub(super) fn purge(&self) {
        let mut tables = self.0.lock();
        let Tables { firsts, bases, sketches } = &mut *tables;
        firsts.retain(|_, first| first.strong_count() > 0);
        bases.retain(|_, base| base.strong_count() > 0);
        firsts.shrink_to(2 * firsts.len());
        bases.shrink_to(2 * bases.len());
        for place in sketches {
            place.take_if(|sketch| {
                sketch.like.strong_count() == 0 && !bases.contains_key(&sketch.group)
            });
            if let Some(sketch) = place
                && sketch.like.strong_count() == 0
            {
                sketch.like = Weak::new();
            }
        }
    }
}

fn slot(feature: u64) -> usize {
    usize::try_from(feature % SKETCHES as u64).unwrap_or_default()
}

/// Removes the dead handles of a full table, so that it does not grow if enough of them are dead.
fn make_room<T>(table: &mut HashMap<u64, Weak<T>, RandomState>) {
    if table.len() == table.capacity() {
        table.retain(|_, handle| handle.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::rig::{job, pack, pod, pods};

    #[test]
    fn base_of_several_groups_is_returned_once() {
        let compactor = pods();
        let _objects: Vec<_> = (0..20).map(|at| pack(&compactor, &job(1, at, at))).collect();
        assert_eq!(compactor.stats().bases, 1);
        assert_eq!(compactor.groups.all().0.len(), 1);
    }

    #[test]
    fn base_is_found_by_content_after_the_object_with_the_features_was_dropped() {
        let compactor = pods();
        let [first, second] = [0, 1].map(|at| pack(&compactor, &job(1, 0, at)));
        drop(first);
        compactor.groups.purge();
        let similar = pack(&compactor, &job(1, 1, 2));
        assert!(second.with().base().is_some());
        assert!(Arc::ptr_eq(&similar.with(), &second.with()));
    }

    #[test]
    fn tables_shrink_after_the_groups_have_died_out() {
        let (many, few) = if cfg!(miri) { (40, 4) } else { (4000, 40) };
        let compactor = pods();
        let objects: Vec<_> = (0..many).map(|at| pack(&compactor, &pod(at, at))).collect();
        let siblings: Vec<_> = (0..few).map(|at| pack(&compactor, &pod(at, many + at))).collect();
        assert!(compactor.groups.0.lock().firsts.capacity() >= many - few);
        drop(objects);
        compactor.end_list();
        let tables = compactor.groups.0.lock();
        assert!(tables.firsts.capacity() < many / 10, "{}", tables.firsts.capacity());
        // A group without objects stays if it shares its base with a group of siblings.
        assert!((few..many / 4).contains(&tables.bases.len()), "{}", tables.bases.len());
        assert!(tables.bases.values().all(|base| base.strong_count() > 0));
        assert!(tables.sketches.iter().flatten().all(|sketch| {
            sketch.like.strong_count() > 0 || tables.bases.contains_key(&sketch.group)
        }));
        drop(tables);
        assert!(siblings.iter().all(|object| Arc::strong_count(object) == 1));
    }
}
