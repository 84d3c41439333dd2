//! The producers of a round. Each owns its keys, so the handled deltas of a key are its owner's
//! offers, in order.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::common::{block_on, deltas, tombstone};
use super::plan::{Dice, Plan, key};
use super::verdict::Tally;
use super::world::{CloseOnPanic, Note, Offered, World};
use deltafifo::DeltaType;

/// Offers adds, updates and deletions with every method, until the queue refuses them.
pub fn produce(world: &World, producer: usize, tally: &Tally) -> Offered {
    let _close = CloseOnPanic(world);
    let (fifo, mut dice) = (&world.rig.fifo, world.dice(100 + producer as u64));
    let (mut offered, mut truth) = (Offered::default(), HashMap::new());
    let mut n = 0;
    for _ in 0..world.plan.offers {
        n += 1;
        let mut number = Plan::owned(producer).start + dice.below(Plan::owned(producer).len());
        let made = offered.make(number, n);
        let mut kind = match truth.get(&number) {
            None => 'A',
            Some(_) if dice.roll(3) == 0 => 'D',
            Some(_) => 'U',
        };
        match (kind, dice.roll(6)) {
            ('A', 0) => fifo.add_batch(vec![made]).unwrap(),
            ('A', _) => fifo.add(made).unwrap(),
            ('U', 0) => {
                let mut batch = vec![made];
                let mut others: Vec<_> = truth.keys().copied().collect();
                others.sort_unstable();
                for _ in 0..dice.roll(4) {
                    offered.notes.push((number, Note { kind, n }, false));
                    truth.insert(number, n);
                    n += 1;
                    number = others[dice.below(others.len())];
                    let made = offered.make(number, n);
                    batch.push(made);
                }
                fifo.update_batch(batch).unwrap();
            }
            ('U', 1) => {
                // This offer counts only if no delta of the key is pending, so it may be missing
                // later. The offers after it may not.
                fifo.add_if_not_present(deltas([(DeltaType::Added, made)])).unwrap();
                offered.notes.push((number, Note { kind: 'A', n }, true));
                n += 1;
                let made = offered.make(number, n);
                fifo.update(made).unwrap();
            }
            ('U', 2) => {
                // An add of a key that exists is still an add.
                fifo.add(made).unwrap();
                kind = 'A';
            }
            ('U', _) => fifo.update(made).unwrap(),
            (_, 0) => fifo.delete(tombstone(&key(number), Some(made))).unwrap(),
            (_, 1) => {
                // The two are folded into one, or the second is ignored.
                fifo.delete(made).unwrap();
                offered.notes.push((number, Note { kind, n }, false));
                n += 1;
                let made = offered.make(number, n);
                fifo.delete(tombstone(&key(number), Some(made))).unwrap();
            }
            _ => fifo.delete(made).unwrap(),
        }
        if kind == 'D' {
            truth.remove(&number)
        } else {
            truth.insert(number, n)
        };
        offered.notes.push((number, Note { kind, n }, false));
        let ready = if dice.roll(4) == 0 { block_on(fifo.ready_async()) } else { fifo.ready() };
        if ready.is_err() {
            break; // Another thread has panicked.
        }
        if world.plan.track_applied && dice.roll(100) == 0 {
            wait_until_applied(world, &truth, &mut dice, tally);
        }
    }
    offered.truth = truth.into_iter().collect();
    offered
}

/// Adds a marker and waits for it. Checks that the offers before it are handled, except deletions,
/// because the queue may merge or ignore them.
fn wait_until_applied(world: &World, truth: &HashMap<usize, u64>, dice: &mut Dice, tally: &Tally) {
    let (fifo, version) = (&world.rig.fifo, world.next_version());
    fifo.bookmark(&version).unwrap();
    let waited = match dice.roll(2) {
        0 => block_on(fifo.store().wait_for_resource_version_async(&version)),
        _ => fifo.store().wait_for_resource_version(&version),
    };
    waited.unwrap();
    tally.waited.fetch_add(1, Ordering::Relaxed);
    for (&number, &n) in truth {
        // Relaxed: knowing that a version is applied includes seeing the effects of its handlers.
        let handled = world.keys[number].handled.load(Ordering::Relaxed);
        assert!(
            handled >= n,
            "{}: {version} is applied, {n} is not handled, but {handled}",
            key(number)
        );
    }
}
