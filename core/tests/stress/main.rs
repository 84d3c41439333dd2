//! A stress test of all operations on real threads: producers, relists that supersede each other,
//! resyncs, readers, index look-ups, and consumers that fail, panic, cancel and requeue. Rounds of
//! a few thousand operations, each on a new queue, cycle through the plans until `STRESS_SECS`
//! (10) have passed. After each round everything is compared, down to the allocated bytes.
//!
//! | file | contents |
//! | --- | --- |
//! | `plan` | the kind of queue of a round, its names and random numbers |
//! | `world` | the data that the threads of a round share without ordering each other |
//! | `producers`, `relists` | the offers |
//! | `consumers` | the handlers, and the ways in which they fail |
//! | `readers` | reads of the store and the queue during a round |
//! | `verdict` | the checks at the end of a round |
//! | `memory` | the number of allocated bytes |
//! | `race` | a deliberate race, for the sanitizers' own test |
//!
//! A failure prints the seed of its round; `STRESS_SEED` starts with that seed. The seed fixes the
//! operations of each thread, but not how the threads interleave: the models and shuttle explore
//! that.

#[path = "../common/mod.rs"]
mod common;
mod consumers;
mod memory;
mod plan;
mod producers;
mod race;
mod readers;
mod relists;
mod verdict;
mod world;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use plan::{PLANS, Plan};
use verdict::Tally;
use world::World;

/// The number of producers in a round. A round has more threads than a small machine has cores, so
/// that a thread may be preempted at any point.
const PRODUCERS: usize = if cfg!(miri) { 2 } else { 3 };
/// The number of consumers in a round.
const CONSUMERS: u64 = 2;
/// The number of threads that run relists in a round.
const RELISTERS: u64 = 2;
/// The number of readers in a round.
const READERS: u64 = if cfg!(miri) { 1 } else { 2 };

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is not a number"))
    })
}

/// A guard that prints how to repeat a failed round.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("this round again: STRESS_SEED={}", self.0);
        }
    }
}

/// Runs one round, with the plan of its seed.
fn round(seed: u64, tally: &Tally) {
    let plan = Plan::of(seed);
    let _seed = Seed(seed);
    let world = World::new(plan, seed);
    let (offered, handled) = thread::scope(|scope| {
        let (world, tally) = (&world, tally);
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|number| scope.spawn(move || consumers::consume(world, number, tally)))
            .collect();
        let readers: Vec<_> =
            (0..READERS).map(|number| scope.spawn(move || readers::read(world, number))).collect();
        let relisters: Vec<_> = (0..RELISTERS)
            .map(|number| scope.spawn(move || relists::relist(world, number, tally)))
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|number| scope.spawn(move || producers::produce(world, number, tally)))
            .collect();
        let mut offered: Vec<_> =
            producers.into_iter().map(|producer| producer.join().unwrap()).collect();
        world.stop();
        offered.extend(relisters.into_iter().map(|relister| relister.join().unwrap()));
        for reader in readers {
            reader.join().unwrap();
        }
        let last = relists::last(world, &offered);
        offered.push(last);
        world.rig.fifo.close();
        (offered, consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect())
    });
    verdict::compare(world, &offered, handled, tally);
}

#[test]
fn everything_at_once() {
    let time = Duration::from_secs(setting("STRESS_SECS", 10));
    let (first, began, tally) =
        (setting("STRESS_SEED", 0), Instant::now(), Arc::new(Tally::default()));
    let mut memory = memory::Watch::default();
    if !cfg!(miri) {
        memory::warm();
    }
    for seed in first.. {
        // Every plan runs at least once, and the last round runs to its end. Under Miri a round
        // takes minutes, so a run has only one.
        let enough = if cfg!(miri) { 1 } else { PLANS };
        if seed - first >= enough && (cfg!(miri) || began.elapsed() >= time) {
            println!("{} rounds, {tally:?}", seed - first);
            // In fewer rounds, it depends on chance whether every situation occurs.
            if seed - first >= 2 * PLANS && !cfg!(miri) {
                tally.assert_that_everything_happened();
            }
            break;
        }
        let tally = tally.clone();
        common::ends(move || round(seed, &tally));
        memory.record(seed - first);
    }
    if !cfg!(miri) {
        memory.assert_that_it_is_back();
    }
}

/// Runs a deliberate data race. `ci/sanitizers.sh` expects a report of it, which shows that
/// `ThreadSanitizer` detects races.
#[test]
#[ignore = "races on purpose"]
fn a_race() {
    race::run();
}

/// Leaks an object deliberately. `ci/sanitizers.sh` expects a report of it, which shows that the
/// sanitizers detect leaks.
#[test]
#[ignore = "leaks on purpose"]
fn a_leak() {
    std::mem::forget(std::hint::black_box(plan::object(1, 1)));
}
