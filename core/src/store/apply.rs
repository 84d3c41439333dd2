//! Replaces an object and its index entries. User code runs before any lock is taken; then the one
//! writer of the key makes a plan and carries it out.

use std::borrow::Cow;
use std::cmp;

use super::Core;
use super::index::{Index, Leave};
use super::indexes::List;
use crate::Meta;
use crate::engine::release::OneByOne;
use crate::engine::slot::{RunningSlot, Slot, Swapped};
use crate::engine::sync::{Arc, mutant};
use crate::error::{BoxError, StoreError};
use crate::key::namespace_of;
use crate::panics::{ignore_error, ignore_panic};

/// The index values, as user code returned them, of an object and of the one that is to replace it.
pub(super) struct IndexValues<'a> {
    /// The namespace of the old object.
    before: Option<Cow<'a, str>>,
    /// The namespace of the new object.
    after: Option<Cow<'a, str>>,
    /// The values of the old object, per index. `None` if the function fails now; it may not have
    /// failed when the object was added to the index.
    leaves: Vec<Option<Vec<String>>>,
    /// The values of the new object, per index.
    joins: Vec<Vec<String>>,
    /// The last index whose function failed for the new object. The destructor of the error is user
    /// code, which may run while a panic unwinds.
    pub(super) failed: OneByOne<Option<Failed>>,
}

/// The planned changes of the indexes for one key.
#[derive(Default)]
pub(super) struct Plan {
    /// The namespace from which the key is removed, and the one to which it is added. Both are
    /// `None` if the namespace stays the same.
    namespace: (Option<String>, Option<String>),
    /// For each user index that changes: its position, the values from which the key is removed,
    /// and the values to which it is added.
    values: Vec<(usize, Leave, Vec<String>)>,
    /// Whether every index has the old object under exactly the values that the plan assumes.
    /// Otherwise a new value may have the slot already.
    is_certain: bool,
    /// Whether an index function returned other values for the old object than when it was added.
    /// An [`Indexer`](crate::Indexer) [logs](log_differing) this after it has released its claim,
    /// because other writers wait for the claim. [`Core::apply`] logs it while the slot is held: no
    /// writer waits for that slot.
    pub(super) differs: bool,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.namespace == (None, None)
    }
}

/// An index function that failed.
pub(super) struct Failed {
    pub(super) index: String,
    pub(super) source: BoxError,
}

impl<T, M: Meta<T>> Core<T, M> {
    fn namespace<'a>(&self, key: &'a str, object: &'a T) -> Cow<'a, str> {
        if self.keys.is_meta_namespace() {
            return Cow::Borrowed(namespace_of(key));
        }
        self.keys.namespace(object).into()
    }

    /// Calls the index functions and, if the key does not contain the namespace, the namespace
    /// accessor for both objects. No lock may be held, because all of these are user code.
    pub(super) fn index_values<'a>(
        &self,
        list: &List<T>,
        key: &'a str,
        old: Option<&'a T>,
        new: Option<&'a T>,
    ) -> IndexValues<'a> {
        let mut values = self.new_values(list, key, new);
        self.add_old_values(&mut values, list, key, old);
        values
    }

    /// Adds the values of the old object to those of the new one: see
    /// [`index_values`](Self::index_values).
    fn add_old_values<'a>(
        &self,
        values: &mut IndexValues<'a>,
        list: &List<T>,
        key: &'a str,
        old: Option<&'a T>,
    ) {
        values.before = old.map(|old| self.namespace(key, old));
        let of_old = |index: &Index<T>| {
            old.map_or_else(|| Some(Vec::new()), |old| ignore_error(index.values_of(old)))
        };
        values.leaves = list.iter().map(of_old).collect();
    }

    /// Returns the values of the new object only: see [`index_values`](Self::index_values).
    fn new_values<'a>(&self, list: &List<T>, key: &'a str, new: Option<&'a T>) -> IndexValues<'a> {
        let after = new.map(|new| self.namespace(key, new));
        let mut failed = OneByOne(None);
        let joins = list.iter().map(|index| {
            match new.map_or_else(|| Ok(Vec::new()), |new| index.values_of(new)) {
                Ok(values) => values,
                Err(source) => {
                    failed.supersede(Some(Failed { index: index.name.clone(), source }));
                    Vec::new()
                }
            }
        });
        let joins = joins.collect();
        IndexValues { before: None, after, leaves: Vec::new(), joins, failed }
    }

    /// Returns whether the slot has the index entries of the new object and no others. The known
    /// object then has the same values. The caller is the writer of `slot`.
    ///
    /// An index that was added since `list` was loaded has no entry of the slot then. Its builder
    /// visits the slot later, or has left a notice by which the swap is refused.
    fn has_exactly(&self, list: &List<T>, values: &IndexValues<'_>, slot: &Slot<T>) -> bool {
        let IndexValues { after, joins, .. } = values;
        let entries = usize::from(after.is_some()) + joins.iter().map(Vec::len).sum::<usize>();
        !list.is_building()
            && slot.index_entries() == entries
            && after.iter().all(|namespace| {
                self.keys.is_meta_namespace() || self.namespaces.has(namespace, slot)
            })
            && list
                .iter()
                .zip(joins)
                .all(|(index, join)| join.iter().all(|value| index.values.has(value, slot)))
    }

    /// Returns how many index entries a slot has for either object, if the key contains the
    /// namespace, and all indexes are of labels that are the same in both objects. A slot with this
    /// number of entries keeps them when `new` replaces `old`. Returns `None` otherwise. No lock
    /// may be held.
    pub(super) fn same_entries(&self, list: &List<T>, old: &T, new: &T) -> Option<usize> {
        if list.is_building() || !self.keys.is_meta_namespace() {
            return None;
        }
        let labels = list.iter().map(|index| index.same_label(old, new)).sum::<Option<usize>>()?;
        Some(1 + labels)
    }

    /// Returns whether it is certain, without a copy of index values, that the slot keeps its
    /// entries when `new` replaces the known object.
    fn keeps_entries(&self, running: &RunningSlot<T>, new: &T) -> bool {
        running.known_ref().is_some_and(|old| {
            let entries = self.same_entries(&self.indexes.load(), &old, new);
            entries == Some(running.slot().index_entries())
        })
    }

    /// Plans the changes of the indexes. The caller is the writer of `slot`, whose known object is
    /// the old one, so all index entries of the slot belong to that object.
    pub(super) fn plan(
        &self,
        list: &Arc<List<T>>,
        values: IndexValues<'_>,
        slot: &Slot<T>,
    ) -> Plan {
        let IndexValues { before, after, leaves, joins, .. } = values;
        // The old object has one entry for its namespace and one for each value. Another number
        // means that a function failed, or that its result has changed. Functions that do not
        // depend on the object only can also agree with the number by accident, for example if one
        // returns a value more than when the object was added, and another a value fewer. Nothing
        // is logged then. If a value that both objects now have has no entry, it gets none; the
        // entry of a value that is no longer returned stays, and a reader of that value gets the
        // new object. This lasts until a write for which the numbers differ.
        let entries = slot.index_entries();
        let expected =
            usize::from(before.is_some()) + leaves.iter().flatten().map(Vec::len).sum::<usize>();
        let all_known = leaves.iter().all(Option::is_some);
        let is_expected = all_known && entries == expected;
        // The number counts only if every index has the old object: one under construction may or
        // may not have it, and neither may one that was added or removed since `list` was loaded.
        // If the expected number includes an entry of an index that was added since then, the
        // builder has left a notice, and the swap is refused.
        let counts = !list.is_building() && (is_expected || self.indexes.is_current(list));
        // If all entries are found, no index whose function fails now has the object: the function
        // failed when the object was added, too.
        let failed_then = counts && !all_known && entries == expected && {
            let mut found = list
                .iter()
                .zip(&leaves)
                .filter_map(|(index, leave)| Some((index, leave.as_ref()?)));
            before.iter().all(|namespace| self.namespaces.has(namespace, slot))
                && found
                    .all(|(index, leave)| leave.iter().all(|value| index.values.has(value, slot)))
        };
        let differs = counts && all_known && entries != expected;
        let is_certain = counts && (is_expected || failed_then);
        let mut plan = Plan { is_certain, differs, ..Plan::default() };
        // An unchanged namespace keeps its entry, so a reader of it never misses the key.
        if before != after {
            plan.namespace = (before.map(Cow::into_owned), after.map(Cow::into_owned));
        }
        for (place, (leave, mut join)) in leaves.into_iter().zip(joins).enumerate() {
            let leave = leave.or_else(|| failed_then.then(Vec::new));
            let Some(mut leave) = leave.filter(|_| !differs) else {
                // The old values are not known, so the whole index is searched for them.
                plan.values.push((place, Leave::Everything, join));
                continue;
            };
            // A value of both objects keeps its entry, so a reader of the value never misses the
            // key. If the function failed when the old object was stored, or the builder has not
            // visited the slot, there is no entry to keep.
            let index = list.at(place);
            remove_common(&mut leave, &mut join, |value| {
                is_certain || index.values.has(value, slot)
            });
            // An index without changes is left out. If the whole plan is empty, the write is no
            // move, which readers would have to check.
            if !leave.is_empty() || !join.is_empty() {
                plan.values.push((place, Leave::Values(leave), join));
            }
        }
        plan
    }

    /// Adds the new index values, swaps the object, and removes the old values. So a reader of an
    /// index does not miss an object that matches before and after. In between, the slot is under
    /// the values of both objects, and readers check the object that they find
    /// ([`IndexedSlot::found`](crate::engine::slot::IndexedSlot::found)). Returns the old object.
    ///
    /// Returns `new` as the error if the swap was refused because an index was added in between:
    /// every index then has the old object as before, and the writer has to plan again.
    pub(super) fn carry_out(
        &self,
        list: &List<T>,
        plan: &Plan,
        running: &mut RunningSlot<T>,
        new: Option<Arc<T>>,
    ) -> Swapped<T> {
        mutant!(OldValuesLeftEarly => return self.carry_out_early(list, plan, running, new));
        let is_building = list.is_building();
        mutant!(WrittenUnlocked => let is_building = false);
        // The builder of an index reads the known object and adds its slot under the same lock.
        // Without it, the builder could add an object that this write has just replaced.
        let _building = is_building.then(|| self.indexes.building.lock());
        let is_deletion = new.is_none();
        // A reader that finds an object during its addition or deletion finds the only one.
        let is_move = !is_deletion && running.is_known() && !plan.is_empty();
        // Before the first entry: a reader that finds the slot under a new value must see that the
        // slot moves, since the old object may not have that value.
        if is_move {
            running.begin_move();
        }
        // The new values first, the old values last: in between, a value of either object leads to
        // the slot.
        let had = self.join(list, plan, running.slot());
        let swapped = running.swap_known(new);
        if swapped.is_ok() {
            self.leave(list, plan, running.slot());
            if is_deletion && running.slot().index_entries() > 0 {
                // A function returns other values for this object than when it was added. An entry
                // that is left would keep the slot in memory.
                self.namespaces.remove_everywhere(&[], running.slot());
                list.iter().for_each(|index| index.values.remove_everywhere(&[], running.slot()));
            }
        } else {
            // An index was added since the plan was made, so the writer must plan again, with that
            // index. The next plan must find the entries as they were.
            self.take_back(list, plan, &had, running.slot());
        }
        // Only now do all entries belong to the known object again.
        if is_move {
            running.end_move();
        }
        swapped
    }

    /// Adds the slot to the new values of the plan. Returns the values that had it already, with
    /// the positions of their indexes.
    fn join<'p>(&self, list: &List<T>, plan: &'p Plan, slot: &Slot<T>) -> Vec<(usize, &'p str)> {
        let mut had = Vec::new();
        plan.namespace.1.iter().for_each(|namespace| self.namespaces.insert(namespace, slot));
        let is_certain = plan.is_certain;
        mutant!(BuiltIsJoinedAgain => let is_certain = true);
        for (place, _, join) in &plan.values {
            let index = list.at(*place);
            for value in join {
                // The new values may be among the old ones if those are not known, and the builder
                // of an index may have added the slot since the plan was made.
                if !is_certain && index.values.has(value, slot) {
                    had.push((*place, &**value));
                } else {
                    index.join(value, slot);
                }
            }
        }
        had
    }

    /// Removes the slot from the old values of the plan.
    fn leave(&self, list: &List<T>, plan: &Plan, slot: &Slot<T>) {
        plan.namespace.0.iter().for_each(|namespace| self.namespaces.remove(namespace, slot));
        for (place, leave, join) in &plan.values {
            list.at(*place).leave(leave, join, slot);
        }
    }

    /// Reverts [`join`](Self::join), which has returned `had`.
    fn take_back(&self, list: &List<T>, plan: &Plan, had: &[(usize, &str)], slot: &Slot<T>) {
        mutant!(RefusedWriteStaysJoined => return);
        plan.namespace.1.iter().for_each(|namespace| self.namespaces.remove(namespace, slot));
        // `Self::join` has visited the values in the order of the loops below.
        let mut had = had.iter().peekable();
        for (place, _, join) in &plan.values {
            for value in join {
                if had.next_if_eq(&&(*place, &**value)).is_none() {
                    list.at(*place).values.remove(value, slot);
                }
            }
        }
    }

    /// Plans the change from the known object to `new`. Calls the index functions for the known
    /// object only if that object may have other values than `new`. Also returns the
    /// [failure](IndexValues::failed) of a function for `new`.
    fn plan_of(
        &self,
        list: &Arc<List<T>>,
        running: &RunningSlot<T>,
        new: Option<&T>,
    ) -> (Plan, OneByOne<Option<Failed>>) {
        let mut values = self.new_values(list, running.key(), new);
        let failed = std::mem::take(&mut values.failed);
        if failed.is_none() && self.has_exactly(list, &values, running.slot()) {
            return (Plan::default(), failed);
        }
        let old = OneByOne(running.known());
        self.add_old_values(&mut values, list, running.key(), old.as_deref());
        (self.plan(list, values, running.slot()), failed)
    }

    /// Stores `new` in the slot `running`, or removes the slot's object if `new` is `None`.
    /// Returns the former object, and an error if an index function failed for `new`; the object
    /// is then stored without entries in that index. No lock may be held.
    pub(crate) fn apply(
        &self,
        running: &mut RunningSlot<T>,
        mut new: Option<Arc<T>>,
    ) -> (Option<Arc<T>>, Option<Box<StoreError>>) {
        if self.keys.is_meta_namespace()
            && let Some(object) = &new
            && (self.indexes.none() || self.keeps_entries(running, object))
        {
            // The frequent case: the key contains the namespace, and there are no other indexes or
            // the object keeps its entries in them. So an update changes no index.
            let is_new = !running.is_known();
            match running.swap_known(new) {
                Ok(old) => {
                    if is_new {
                        self.namespaces.insert(namespace_of(running.key()), running.slot());
                    }
                    return (old, None);
                }
                Err(again) => new = again,
            }
        }
        // The accessor may panic, and so may the destructor of the new object.
        let mut new = OneByOne(new);
        loop {
            running.heed();
            let list = self.indexes.load();
            let (plan, mut failed) = self.plan_of(&list, running, new.as_deref());
            if plan.differs {
                log_differing(running.key());
            }
            match self.carry_out(&list, &plan, running, new.take()) {
                Ok(old) => {
                    let key = || running.key().to_owned();
                    // Boxed, so that the frequent result without an error is small.
                    let not_indexed = |Failed { index, source }| {
                        Box::new(StoreError::NotIndexed { index, key: key(), source })
                    };
                    return (old, failed.take().map(not_indexed));
                }
                Err(again) => *new = again,
            }
        }
    }
}

/// Removes the values that are in both lists: always from `leave`, and from `join` if `has_entry`
/// returns true for the value. The lists must be sorted. O(values).
fn remove_common<V: Ord>(
    leave: &mut Vec<V>,
    join: &mut Vec<V>,
    mut has_entry: impl FnMut(&V) -> bool,
) {
    // The values of `join` before `kept` stay, those from `kept` to `next` are removed, and those
    // from `next` on are not less than the values of `leave` so far.
    let (mut kept, mut next) = (0, 0);
    leave.retain(|old| {
        while let Some(new) = join.get(next) {
            match new.cmp(old) {
                cmp::Ordering::Less => {
                    join.swap(kept, next);
                    kept += 1;
                    next += 1;
                }
                cmp::Ordering::Equal => {
                    next += usize::from(has_entry(old));
                    return false;
                }
                cmp::Ordering::Greater => return true,
            }
        }
        true
    });
    join.drain(kept..next);
}

/// Logs that the plan for a key [differs](Plan::differs) from the indexes. Subscribers to the log
/// are user code, which may write the key.
#[cold]
pub(super) fn log_differing(key: &str) {
    ignore_panic(|| {
        tracing::error!(
            key,
            "index function returned other values for the same object; all indexes are searched for \
             it: the function must depend on the object only"
        );
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp;

    use super::{Core, Leave, Plan, remove_common};
    use crate::engine::sync::Arc;
    use crate::error::BoxError;
    use crate::store::Values;
    use crate::{Indexers, KeyFunc, NoMeta};

    /// A number that counts how often it is compared.
    struct Counted<'a>(u32, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted<'_> {}

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> cmp::Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    /// Checks the changes of the values 0..400, of which every third one is lost and as many are
    /// new. Every seventh value has no entry, although the old object has it.
    #[test]
    fn values_of_both_objects_are_found_by_one_comparison_per_value() {
        let (compared, count) = (Cell::new(0), 400);
        let of = |is: fn(&u32) -> bool| -> Vec<_> {
            (0..count).filter(is).map(|number| Counted(number, &compared)).collect()
        };
        let (mut leave, mut join) = (of(|number| number % 3 > 0), of(|number| number % 3 < 2));
        let values = leave.len() + join.len();
        remove_common(&mut leave, &mut join, |value| value.0 % 7 > 0);
        assert!(compared.get() <= values, "{} for {values} values", compared.get());
        let numbers = |of: Vec<Counted>| of.into_iter().map(|value| value.0).collect::<Vec<_>>();
        assert_eq!(numbers(leave), numbers(of(|number| number % 3 == 2)));
        let joins =
            |number: &u32| number.is_multiple_of(3) || number % 3 == 1 && number.is_multiple_of(7);
        assert_eq!(numbers(join), numbers(of(joins)));
    }

    /// Checks that the index is not searched for the object's entries, which would cost O(values
    /// of the index) for every update.
    #[test]
    fn index_whose_function_fails_for_an_object_is_not_searched_for_it() {
        let by_name = |name: &String| {
            if name.is_empty() { Err(BoxError::from("no name")) } else { Ok(vec![name.clone()]) }
        };
        let indexers = Indexers::new()
            .index("name", by_name)
            .index("length", |name: &String| Ok(vec![name.len().to_string()]));
        let core =
            Core::new(KeyFunc::custom(NoMeta, |_: &String| Ok("a".to_owned())), indexers).unwrap();
        let plan = |old: &str| {
            let (old, new) = (old.to_owned(), String::from("new"));
            let list = core.indexes.load();
            let values = core.index_values(&list, "a", Some(&old), Some(&new));
            let hash = core.table.hash(b"a");
            let shard = core.table.shard(hash).read();
            let plan = core.plan(&list, values, shard.find(hash, b"a").unwrap());
            plan.values.into_iter().map(|(_, leave, _)| leave).collect::<Vec<_>>()
        };
        core.write("a", Some(Arc::new(String::new())));
        assert!(
            matches!(&plan("")[..], [Leave::Values(none), Leave::Values(length)] if none.is_empty() && length == &["0"])
        );
        // The function did not fail when this object was added, so its values are not known now.
        core.write("a", Some(Arc::new("old".to_owned())));
        assert!(matches!(&plan("")[..], [Leave::Everything, Leave::Values(_)]));
    }

    /// Checks that a refused write changes no index: the writer then plans again, perhaps with
    /// other index values, or gives up.
    #[test]
    fn refused_write_leaves_every_index_as_it_was() {
        let by_length =
            Indexers::new().index("length", |name: &String| Ok(vec![name.len().to_string()]));
        let core =
            Core::new(KeyFunc::custom(NoMeta, |_: &String| Ok("a".to_owned())), by_length).unwrap();
        core.write("a", Some(Arc::new("old".to_owned())));
        let hash = core.table.hash(b"a");
        let everywhere = || Plan {
            values: vec![(0, Leave::Everything, vec!["9".to_owned()])],
            ..Plan::default()
        };
        for (plan, new) in [(everywhere(), Some("new")), (Plan::default(), None)] {
            let Ok(Some(mut running)) = core.claim(hash, "a", false) else {
                panic!("it is stored")
            };
            core.table.shard(hash).read().find(hash, b"a").unwrap().notice();
            let new = new.map(|new| Arc::new(new.to_owned()));
            let list = core.indexes.load();
            assert!(core.carry_out(&list, &plan, &mut running, new).is_err());
            running.heed();
            core.unclaim(running);
            let is_in = |values: &Values<_>, value| {
                let mut slots = 0;
                values.for_each(value, |_| slots += 1);
                slots == 1
            };
            assert!(is_in(&core.namespaces, ""));
            assert_eq!(list.at(0).values.values(), ["3"]);
            assert!(is_in(&list.at(0).values, "3"));
        }
    }
}

/// The behaviour of a mutant (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Arc, Core, List, Meta, Plan, RunningSlot, Swapped};

    impl<T, M: Meta<T>> Core<T, M> {
        /// Carries out `plan`, with the defect `OldValuesLeftEarly`: for a moment an index has the
        /// object under neither its old nor its new values.
        pub(super) fn carry_out_early(
            &self,
            list: &List<T>,
            plan: &Plan,
            running: &mut RunningSlot<T>,
            new: Option<Arc<T>>,
        ) -> Swapped<T> {
            self.leave(list, plan, running.slot());
            let old = running.swap_known(new)?;
            self.join(list, plan, running.slot());
            Ok(old)
        }
    }
}
