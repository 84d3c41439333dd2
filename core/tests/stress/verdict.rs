//! What must hold when a round is over, and over all rounds.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PRODUCERS;
use super::common::Mode;
use super::consumers::told;
use super::plan::{Plan, key, number};
use super::world::{Handled, Offered, RELISTED, Told, World};

/// How often things happened that the stress is there for.
#[derive(Debug, Default)]
pub struct Tally {
    pub committed: AtomicUsize,
    pub abandoned: AtomicUsize,
    pub superseded: AtomicUsize,
    pub put_back: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub failed: AtomicUsize,
    pub panicked: AtomicUsize,
    pub lost: AtomicUsize,
    pub syncs: AtomicUsize,
    /// What relists brought of keys that have an owner.
    pub shared: AtomicUsize,
    /// Keys with an owner that the last relist deleted.
    pub swept: AtomicUsize,
    /// Markers that were waited for.
    pub waited: AtomicUsize,
}

impl Tally {
    /// A stress in which something never happens would pass by accident.
    pub fn assert_that_everything_happened(&self) {
        let counts = [
            &self.committed,
            &self.abandoned,
            &self.superseded,
            &self.put_back,
            &self.cancelled,
            &self.failed,
            &self.panicked,
            &self.lost,
            &self.syncs,
            &self.shared,
            &self.swept,
            &self.waited,
        ];
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{self:?}");
    }
}

/// Compares what was offered with what was handled and what is stored, then takes the world down.
pub fn compare(world: World, offered: &[Offered], mut handled: Vec<Handled>, tally: &Tally) {
    // Consumers end when the queue is closed and empty, and take again themselves what they put
    // back. But one may have found it empty while another still had in hand what it then put back
    // and took at once.
    let left = drain(&world);
    assert!(left.is_empty(), "left by the consumers: {} keys", left.len());
    handled.extend(left);
    let fifo = &world.rig.fifo;
    assert!(fifo.has_synced());
    assert_eq!(fifo.pending_deltas(), 0);
    assert!(fifo.list_keys().is_empty() && fifo.list().is_empty() && fifo.try_pop().is_none());
    assert!(world.keys.iter().all(|key| key.handlers.load(Ordering::Relaxed) == 0));
    compare_order(offered, handled, tally);
    compare_store(&world, offered);
    // The store, and it alone, holds its objects; nothing else is held, and then nothing at all.
    let objects: Vec<_> = offered.iter().flat_map(|offered| &offered.objects).collect();
    let held: Vec<_> =
        objects.iter().map(|object| object.strong_count()).filter(|&count| count > 0).collect();
    let stored: usize = offered.iter().map(|offered| offered.truth.len()).sum();
    assert_eq!(
        (held.len(), held.iter().sum::<usize>()),
        (stored, stored),
        "objects are held that are not stored"
    );
    drop(world);
    assert!(
        objects.iter().all(|object| object.strong_count() == 0),
        "an object is held after the queue is gone"
    );
}

fn drain(world: &World) -> Vec<Handled> {
    let mut left = Vec::new();
    while let Some(mut guard) = world.rig.fifo.try_pop() {
        let key = number(guard.key());
        let pop = world.keys[key].pops.fetch_add(1, Ordering::Relaxed);
        left.push(Handled { key, pop, told: told(&guard) });
        world.rig.apply(&mut guard);
        guard.done();
    }
    left
}

/// Per key of a producer, what was handled is what was offered, in order. Only this may be
/// missing: all but one of deletions in a row, and an add-if-not-present. What relists list stands
/// between it, the older before the newer.
fn compare_order(offered: &[Offered], mut handled: Vec<Handled>, tally: &Tally) {
    let mut expected: HashMap<usize, Vec<(Told, bool)>> = HashMap::new();
    for &(key, told, optional) in offered.iter().flat_map(|offered| &offered.told) {
        expected.entry(key).or_default().push((told, optional));
    }
    handled.sort_by_key(|handled| (handled.key, handled.pop));
    let mut seen: HashMap<usize, Vec<Told>> = HashMap::new();
    for handled in handled.iter().filter(|handled| handled.key < Plan::owned(PRODUCERS - 1).end) {
        seen.entry(handled.key).or_default().extend(&handled.told);
    }
    for number in 0..Plan::owned(PRODUCERS - 1).end {
        let expected = expected.remove(&number).unwrap_or_default();
        let mut seen = seen.remove(&number).unwrap_or_default();
        let relists = take_listed(&mut seen);
        tally.shared.fetch_add(relists.len(), Ordering::Relaxed);
        assert!(
            relists.is_empty() || Plan::is_shared(number),
            "{}: kept, and listed by {relists:?}",
            key(number)
        );
        assert!(
            relists.is_sorted(),
            "{}: a relist's object comes after a newer one's: {relists:?}",
            key(number)
        );
        // What is deleted after all that its owner has done was deleted by the last relist.
        let is_swept = Plan::is_shared(number)
            && seen.last().is_some_and(|last| last.kind == 'D')
            && matches(&expected, &seen[..seen.len() - 1]).is_ok();
        if is_swept {
            tally.swept.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if let Err((at, place)) = matches(&expected, &seen) {
            let offered = &expected[at.saturating_sub(3)..(at + 4).min(expected.len())];
            let handled = &seen[place.saturating_sub(3)..(place + 4).min(seen.len())];
            panic!(
                "{}: of what was offered, …{offered:?}…, was handled …{handled:?}…",
                key(number)
            );
        }
    }
}

/// Takes out of what was handled of a key what relists brought, and says which relists did.
fn take_listed(seen: &mut Vec<Told>) -> Vec<u64> {
    let last = seen.len().saturating_sub(1);
    let listed = seen.iter().enumerate().filter(|(_, told)| told.kind == 'R');
    // The last relist brings what the owner has offered, under the owner's number.
    let number = |(place, told): (usize, &Told)| match told.n.checked_sub(RELISTED) {
        None if place == last => u64::MAX,
        relist => relist.expect("a relist before the last brings its own objects"),
    };
    let relists = listed.map(number).collect();
    seen.retain(|told| told.kind != 'R');
    relists
}

/// Where they differ, in both.
fn matches(expected: &[(Told, bool)], seen: &[Told]) -> Result<(), (usize, usize)> {
    let mut place = 0;
    // Whether a deletion of this run has been seen.
    let mut deleted = false;
    for (at, (told, optional)) in expected.iter().enumerate() {
        let is_deletion = told.kind == 'D';
        if seen.get(place) == Some(told) {
            place += 1;
            deleted = is_deletion;
            continue;
        }
        let more = expected.get(at + 1).is_some_and(|(next, _)| next.kind == 'D');
        if !(*optional || is_deletion && (deleted || more)) {
            return Err((at, place));
        }
        deleted &= is_deletion;
    }
    if place == seen.len() { Ok(()) } else { Err((expected.len(), place)) }
}

fn compare_store(world: &World, offered: &[Offered]) {
    let truth = offered.iter().flat_map(|offered| &offered.truth);
    let expected: BTreeSet<_> = truth.map(|&(number, n)| format!("{}={n}", key(number))).collect();
    let stored: BTreeSet<_> = world.rig.stored().into_iter().collect();
    let differ: Vec<_> = expected.symmetric_difference(&stored).collect();
    assert!(differ.is_empty(), "either missing or too much: {differ:?}");
    let store = world.rig.fifo.store();
    if world.rig.mode == Mode::Fused {
        assert_eq!((store.len(), store.list_keys().len()), (expected.len(), expected.len()));
    }
    // Each index holds exactly what is stored under each of its values.
    let indexes: &[_] = if world.plan.indexed { &["namespace", "class"] } else { &["namespace"] };
    for index in indexes {
        let mut counted = 0;
        for value in store.list_index_func_values(index).unwrap() {
            let keys = store.index_keys(index, &value).unwrap();
            assert_eq!(keys.len(), store.by_index(index, &value).unwrap().len());
            assert!(!keys.is_empty(), "an empty set is kept: {value} of {index}");
            counted += keys.len();
        }
        let values = |object: &super::common::Obj| match *index {
            "class" => {
                let mut classes = super::plan::classes(object.n);
                classes.dedup();
                classes.len()
            }
            _ => 1,
        };
        assert_eq!(
            counted,
            store.list().iter().map(|object| values(object)).sum::<usize>(),
            "index {index}"
        );
    }
}
