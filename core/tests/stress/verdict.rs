//! The verdict: the conditions that must hold at the end of a round, and over all rounds.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PRODUCERS;
use super::common::Mode;
use super::consumers::owner_notes;
use super::plan::{Plan, key, number};
use super::world::{Handled, Note, Offered, RELISTED, World};

/// The number of occurrences of each situation that the stress is meant to produce.
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
    /// The number of owned keys that relists listed.
    pub shared: AtomicUsize,
    /// The number of owned keys that the last relist deleted.
    pub swept: AtomicUsize,
    /// The number of markers for which a producer waited.
    pub waited: AtomicUsize,
}

impl Tally {
    /// Asserts that every situation occurred. A stress test in which one never occurs would not
    /// test that situation.
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

/// Compares the offers with the handled items and the stored objects, then drops the world.
pub fn compare(world: World, offered: &[Offered], mut handled: Vec<Handled>, tally: &Tally) {
    // Consumers end when the queue is closed and empty, and take requeued items again themselves.
    // But a consumer may find the queue empty while another one holds an item that it requeues and
    // then takes again; so items may remain.
    let rest = drain(&world);
    assert!(rest.is_empty(), "not handled by the consumers: {} keys", rest.len());
    handled.extend(rest);
    let fifo = &world.rig.fifo;
    assert!(fifo.has_synced());
    assert_eq!(fifo.pending_deltas(), 0);
    assert!(fifo.list_keys().is_empty() && fifo.list().is_empty() && fifo.try_pop().is_none());
    assert!(world.keys.iter().all(|key| key.handlers.load(Ordering::Relaxed) == 0));
    compare_order(offered, handled, tally);
    compare_store(&world, offered);
    // First only the store holds objects, and each of them once. After the drop of the store no
    // object is alive.
    let objects: Vec<_> = offered.iter().flat_map(|offered| &offered.objects).collect();
    let held: Vec<_> =
        objects.iter().map(|object| object.strong_count()).filter(|&count| count > 0).collect();
    let stored: usize = offered.iter().map(|offered| offered.truth.len()).sum();
    assert_eq!(
        (held.len(), held.iter().sum::<usize>()),
        (stored, stored),
        "an object is held that is not stored"
    );
    drop(world);
    assert!(
        objects.iter().all(|object| object.strong_count() == 0),
        "an object outlives the queue"
    );
}

fn drain(world: &World) -> Vec<Handled> {
    let mut rest = Vec::new();
    while let Some(mut guard) = world.rig.fifo.try_pop() {
        let key = number(guard.key());
        let pop = world.keys[key].pops.fetch_add(1, Ordering::Relaxed);
        rest.push(Handled { key, pop, notes: owner_notes(&guard) });
        world.rig.apply(&mut guard);
        guard.done();
    }
    rest
}

/// Checks that the handled items of a producer's key equal its offers, in order. Only these may be
/// missing: all but one of consecutive deletions, and an add-if-not-present. Objects of relists
/// may be between them, older ones before newer ones.
fn compare_order(offered: &[Offered], mut handled: Vec<Handled>, tally: &Tally) {
    let mut expected: HashMap<usize, Vec<(Note, bool)>> = HashMap::new();
    for &(key, note, optional) in offered.iter().flat_map(|offered| &offered.notes) {
        expected.entry(key).or_default().push((note, optional));
    }
    handled.sort_by_key(|handled| (handled.key, handled.pop));
    let mut seen: HashMap<usize, Vec<Note>> = HashMap::new();
    for handled in handled.iter().filter(|handled| handled.key < Plan::owned(PRODUCERS - 1).end) {
        seen.entry(handled.key).or_default().extend(&handled.notes);
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
        assert!(relists.is_sorted(), "{}: relists in the wrong order: {relists:?}", key(number));
        // A deletion after the owner's last offer is the last relist's.
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
            panic!("{}: offered …{offered:?}…, handled …{handled:?}…", key(number));
        }
    }
}

/// Removes the deltas of relists from the handled deltas of a key, and returns the numbers of
/// these relists.
fn take_listed(seen: &mut Vec<Note>) -> Vec<u64> {
    let last = seen.len().saturating_sub(1);
    let listed = seen.iter().enumerate().filter(|(_, note)| note.kind == 'R');
    // The last relist offers the owner's objects, under the owner's numbers.
    let number = |(place, note): (usize, &Note)| match note.n.checked_sub(RELISTED) {
        None if place == last => u64::MAX,
        relist => relist.expect("a relist before the last brings its own objects"),
    };
    let relists = listed.map(number).collect();
    seen.retain(|note| note.kind != 'R');
    relists
}

/// Compares the offers of a key with the handled deltas. An offer may be missing if its flag is
/// true, or if it is one of consecutive deletions of which another one was handled.
///
/// # Errors
/// If the sequences differ, returns the position of the first difference in each of them.
fn matches(expected: &[(Note, bool)], seen: &[Note]) -> Result<(), (usize, usize)> {
    let mut place = 0;
    // Whether a deletion of the current run was seen.
    let mut deleted = false;
    for (at, (note, optional)) in expected.iter().enumerate() {
        let is_deletion = note.kind == 'D';
        if seen.get(place) == Some(note) {
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
    // Each index holds exactly the stored objects of each value.
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
