//! Plans of lists: the objects of a list, in order, with their versions, before they are built.

use std::sync::Arc;

/// The version of a planned object; `None` is the object's original version.
type Version = Option<String>;

/// The plan of a list.
pub struct ListPlan {
    len: usize,
    entry: Box<dyn Fn(usize) -> (usize, Version) + Send + Sync>,
}

/// The number of different objects that a run of the workload `stall` updates. They are spread
/// over all objects by a prime step.
const HOT_OBJECTS: usize = 1000;

impl ListPlan {
    fn new(len: usize, entry: impl Fn(usize) -> (usize, Version) + Send + Sync + 'static) -> Self {
        Self { len, entry: Box::new(entry) }
    }

    /// Plans the list of the initial fill and of a relist: all objects, unchanged.
    pub fn same(objects: usize) -> Self {
        Self::new(objects, |at| (at, None))
    }

    /// Plans a relist after some time: 1 % of the objects deleted, 10 % with a new version, 1 % new
    /// at the end.
    pub fn churn(objects: usize) -> Self {
        let kept = objects - removed(objects);
        Self::new(kept + added(objects), move |at| {
            if at >= kept {
                return (objects + at - kept, None);
            }
            // Object 7 of every hundred is deleted.
            let (hundreds, rest) = (at / 99, at % 99);
            let index = hundreds * 100 + rest + usize::from(rest >= 7);
            (index, is_changed(index).then(|| (2_000_000 + index).to_string()))
        })
    }

    /// Plans updates of the objects with these indexes, each with a version of its own.
    pub fn events(indexes: Arc<[usize]>) -> Self {
        Self::new(indexes.len(), move |event| {
            (indexes[event], Some((3_000_000 + event).to_string()))
        })
    }

    /// Plans the fixed set of objects that a run of the workload `stall` updates.
    pub fn hot(objects: usize) -> Self {
        Self::new(HOT_OBJECTS, move |at| (hot_key(at, objects), None))
    }

    /// Plans the updates of a run of the workload `stall`. The version of an update is `e` with
    /// the number of the update, and no other version starts with an `e`.
    pub fn offers(offers: usize, objects: usize) -> Self {
        Self::new(offers, move |at| (hot_key(at, objects), Some(format!("e{at}"))))
    }

    /// Returns how many objects the list has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the index and version of the object at a position.
    pub fn entry(&self, at: usize) -> (usize, Version) {
        (self.entry)(at)
    }
}

/// Returns how many objects a churn relist deletes.
pub fn removed(objects: usize) -> usize {
    (objects + 92) / 100
}

/// Returns how many objects a churn relist adds.
pub fn added(objects: usize) -> usize {
    objects / 100
}

/// Returns how many objects have a new version after a churn relist.
pub fn changed(objects: usize) -> usize {
    (objects + 6) / 10
}

fn is_changed(index: usize) -> bool {
    index % 10 == 3
}

/// Returns the index of the object that offer number `offer` of a run of the workload `stall`
/// updates.
pub fn hot_key(offer: usize, objects: usize) -> usize {
    offer % HOT_OBJECTS * 7919 % objects
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the list of the workload `churn` has the objects that it should have, and that
    /// [`changed`] returns the number of its objects with a new version.
    #[test]
    fn churn_has_the_documented_shares() {
        for objects in [1, 3, 4, 7, 8, 99, 100, 107, 108, 1000, 1234] {
            let mut expected: Vec<_> = (0..objects).filter(|index| index % 100 != 7).collect();
            expected.extend(objects..objects + objects / 100);
            let plan = ListPlan::churn(objects);
            let entries: Vec<_> = (0..plan.len()).map(|at| plan.entry(at)).collect();
            assert_eq!(
                entries.iter().map(|entry| entry.0).collect::<Vec<_>>(),
                expected,
                "{objects} objects"
            );
            let changes = entries.iter().filter(|entry| entry.1.is_some()).count();
            assert_eq!(changes, changed(objects), "{objects} objects");
        }
    }
}
