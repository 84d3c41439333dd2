//! The relists of a round. They list the keys that no producer owns, and some owned keys; all
//! other owned keys are kept. Two threads run them. One relists continuously, the other
//! occasionally, which supersedes the first one's relist.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::thread;

use super::PRODUCERS;
use super::common::{Obj, ObjMeta};
use super::plan::{Dice, Plan, key};
use super::verdict::Tally;
use super::world::{CloseOnPanic, Offered, RELISTED, World};
use deltafifo::{Relist, RelistError};

/// The way in which a relist ends, unless another one supersedes it first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Committed,
    Abandoned,
    /// The thread itself supersedes its relist, because the other thread alone might never do so.
    Superseded,
    /// The relist is committed, and deletes the shared keys that it does not list.
    Last,
}

/// Relists until the producers are done.
pub fn relist(world: &World, relister: u64, tally: &Tally) -> Offered {
    let _close = CloseOnPanic(world);
    let mut dice = world.dice(200 + relister);
    let mut offered = Offered::default();
    while !world.is_stopped() {
        for _ in 0..if relister == 0 { 1 } else { dice.roll(400) } {
            thread::yield_now();
        }
        let (relist, n) = begin(world);
        let mut listed = share(n, &mut dice);
        listed.extend(list(world, n, &mut dice));
        let end = match dice.roll(10) {
            0 | 1 => End::Abandoned,
            2 => End::Superseded,
            _ => End::Committed,
        };
        let counted = match offer(world, relist, &listed, end, &mut dice, &mut offered) {
            Ok(()) if end == End::Abandoned => &tally.abandoned,
            Ok(()) => &tally.committed,
            Err(RelistError::Superseded) => &tally.superseded,
            Err(error) => panic!("{error}"),
        };
        counted.fetch_add(1, Ordering::Relaxed);
        // Objects that are gone need not be watched. Dropping their entries saves memory.
        offered.objects.retain(|object| object.strong_count() > 0);
    }
    offered
}

/// Runs the last relist, which no other relist supersedes. Before it begins, handlers stop losing
/// deltas on purpose: from then on each of them must apply its item. For the keys that relists
/// share with their owners, this relist determines the final state.
pub fn last(world: &World, owners: &[Offered]) -> Offered {
    world.mend();
    let (mut dice, mut offered) = (world.dice(299), Offered::default());
    let (relist, n) = begin(world);
    offered.truth = list(world, n, &mut dice);
    let owned = owners.iter().flat_map(|owner| &owner.truth).copied();
    let shared: Vec<_> = owned.filter(|&(number, _)| Plan::is_shared(number)).collect();
    let listed = [shared, offered.truth.clone()].concat();
    offer(world, relist, &listed, End::Last, &mut dice, &mut offered).unwrap();
    offered
}

fn begin(world: &World) -> (Relist<'_, Obj, ObjMeta>, u64) {
    let mut relists = world.relists.lock().unwrap();
    *relists += 1;
    (world.rig.fifo.begin_replace(), *relists)
}

/// Returns the objects of shared keys that relist `n` lists.
fn share(n: u64, dice: &mut Dice) -> Vec<(usize, u64)> {
    let shared = (0..Plan::owned(PRODUCERS - 1).end)
        .filter(|&number| Plan::is_shared(number) && dice.roll(2) == 0);
    shared.map(|number| (number, RELISTED + n / 2)).collect()
}

/// Returns the objects of unowned keys that relist `n` lists: some of the keys, each with an
/// object that is not older than in earlier relists.
fn list(world: &World, n: u64, dice: &mut Dice) -> Vec<(usize, u64)> {
    let listed = world.plan.unowned().filter(|_| dice.roll(4) > 0);
    listed.map(|number| (number, 1 + n / (1 + number as u64 % 5))).collect()
}

fn offer(
    world: &World,
    mut relist: Relist<'_, Obj, ObjMeta>,
    listed: &[(usize, u64)],
    end: End,
    dice: &mut Dice,
    offered: &mut Offered,
) -> Result<(), RelistError> {
    relist.expect(world.plan.keys());
    let is_listed: HashSet<_> = listed.iter().map(|&(number, _)| number).collect();
    let is_left =
        |number: &usize| is_listed.contains(number) || end == End::Last && Plan::is_shared(*number);
    for number in (0..Plan::owned(PRODUCERS - 1).end).filter(|number| !is_left(number)) {
        relist.keep(&key(number))?;
    }
    for page in listed.chunks(world.plan.page) {
        let mut objects = Vec::new();
        let probed = if dice.roll(2) == 0 {
            let keys: Vec<_> =
                page.iter().map(|&(number, n)| (key(number), n.to_string())).collect();
            let keys: Vec<_> =
                keys.iter().map(|(key, version)| (key.as_str(), version.as_str())).collect();
            Some(relist.probe(&keys)?)
        } else {
            None
        };
        for (place, &(number, n)) in page.iter().enumerate() {
            if probed.as_ref().is_none_or(|needed| needed[place]) {
                objects.push(offered.make(number, n));
            }
        }
        assert!(relist.offer(objects)?.is_empty(), "no object of the relist can be refused");
        if matches!(end, End::Abandoned | End::Superseded) && dice.roll(4) == 0 {
            break;
        }
    }
    match end {
        // Other versions could go down from one commit to the next, which would end the waits of
        // producers. 0 does not count as a version.
        End::Committed | End::Last => return relist.commit("0").map(drop),
        End::Abandoned => drop(relist),
        End::Superseded => {
            drop(begin(world).0);
            assert!(relist.offer(vec![]).is_err(), "a superseded relist continues");
            return relist.commit("1").map(|_| unreachable!("a superseded relist was committed"));
        }
    }
    Ok(())
}
