//! An exhaustive search of the protocol for a state with two leaders, or with a leader that ignores
//! another one. Such a leader continues after it has read that another candidate holds the lease;
//! or it writes the lease without a read, after a watch has shown that it may have been replaced.
//!
//! A *world* is an API server with one lease, two or three processes that are candidates, and the
//! messages between them. Its next worlds are all that can happen next: time passes, a process
//! takes its next step, a request arrives, an answer or a watch event is delivered, an attempt is
//! given up, a leader is stopped, its work ends. Nothing has to happen at once, so every request,
//! answer, watch event and process may be delayed for any time or for ever. This covers lost
//! messages, cut connections and paused processes. Crashes, duplicated requests, steps of a wall
//! clock, suspended machines (whose monotonic clocks stop), and changes by hand are *faults*. A
//! history has a limited number of them.
//!
//! The present is always `NOW`: when time passes, all other times move into the past. Versions
//! are renumbered, in their order. So worlds that differ only in their age are one world. The
//! search visits every world that can be reached within its bounds, or the mirror image of that
//! world. It remembers worlds by hashes of 128 bits: among 10 million worlds, two share one with a
//! probability of about 10⁻²⁵.

mod events;
mod normal;
mod world;

use std::time::Instant;

use super::Record;
use super::mutants::Mutant;
use crate::util::search::{SearchResult, breadth_first};
use events::Event;
use world::World;

type Lease = Record<u8, ()>;

/// The difference between an identity of a process and its next one. The first identity of a
/// process is its index: 0, 1 or 2.
const IDENTITIES: u8 = 4;

/// A holder that is none of the processes.
const STRANGER: u8 = 3;

/// The bounds of a search.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// For each process, its lease duration in ticks and the rate of its clocks in percent. The
    /// renew deadline is two thirds of the lease duration, and the retry period one tick.
    processes: &'a [(u64, u64)],
    /// The kinds of faults, and how many of them a history may have.
    faults: &'a [Fault],
    most_faults: u8,
    /// The largest number of claims of one lease in a history.
    most_claims: i32,
    /// The largest number of messages in flight of one process.
    most_messages: usize,
    /// Whether a history begins with a free lease. If not, it begins without a lease.
    has_lease: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A process ends without a word, and another one starts in its place.
    Crash,
    /// A request arrives twice.
    Duplicate,
    /// A wall clock is set forward or back.
    WallStep,
    /// A tick passes that a monotonic clock does not count.
    Suspend,
    /// The lease is deleted by hand.
    Delete,
    /// The lease is written by hand: unchanged, or with a duration that is not valid.
    Touch,
    /// The lease gets another holder by hand: a stranger or one of the processes.
    Edit,
}

struct Search<'a> {
    bounds: Bounds<'a>,
    mutant: Option<Mutant>,
}

impl<'a> Search<'a> {
    fn run(bounds: Bounds<'a>, mutant: Option<Mutant>) -> SearchResult<Event, ()> {
        let search = Self { bounds, mutant };
        let mut start = search.start();
        search.normalise(&mut start);
        let successors = |world: &World, visit: &mut dyn FnMut(Event, World)| {
            search.successors(world, &mut |event, mut world| {
                search.normalise(&mut world);
                visit(event, world);
            });
        };
        let violation =
            |world: &World, _| (world.leaders() > 1 || world.ignores_another).then_some(());
        breadth_first(start, |world| search.fingerprint(world), successors, violation)
    }

    /// Returns the hash of a world. A world has the same hash as its mirror image if processes 1
    /// and 2 are configured equally.
    fn fingerprint(&self, world: &World) -> u128 {
        let hash = world.fingerprint();
        match self.bounds.processes {
            [_, second, third] if second == third => hash.min(world.mirrored().fingerprint()),
            _ => hash,
        }
    }
}

/// Two processes whose clocks run at rates that differ by a factor of 1.5, the most that is safe.
const RATES: &[(u64, u64)] = &[(3, 100), (3, 150)];

/// Two processes with different lease durations. The process with the shorter one must wait for the
/// longer one.
const DURATIONS: &[(u64, u64)] = &[(6, 100), (3, 150)];

/// Three processes. The second and the third one are equal.
const THREE: &[(u64, u64)] = &[(3, 100), (3, 150), (3, 150)];

/// The bounds of two processes whose clocks differ, without faults.
const TWO: Bounds<'_> = Bounds {
    processes: RATES,
    faults: &[],
    most_faults: 1,
    most_claims: 2,
    most_messages: 2,
    has_lease: true,
};

/// The bounds of three processes.
const OF_THREE: Bounds<'_> = Bounds { processes: THREE, most_messages: 1, ..TWO };

/// The bounds of two processes that must create the lease. In some histories the creation of an
/// earlier campaign arrives after the lease was deleted by hand.
const WITHOUT_LEASE: Bounds<'_> = Bounds { faults: &[Fault::Delete], has_lease: false, ..TWO };

/// Searches within bounds, prints the number of its worlds, and returns the first history with two
/// leaders, or with a leader that ignores another; `None` if there is none.
fn search(title: &str, bounds: Bounds<'_>, mutant: Option<Mutant>) -> Option<String> {
    let began = Instant::now();
    let SearchResult { states: worlds, violation } = Search::run(bounds, mutant);
    let seconds = began.elapsed().as_secs_f32();
    let found = if violation.is_some() { "two leaders" } else { "at most one leader" };
    println!("| {title} | {worlds} | {seconds:.1} | {found} |");
    violation.map(|((), events)| events.iter().map(Event::to_string).collect::<Vec<_>>().join(", "))
}

fn assert_safe(title: &str, bounds: Bounds<'_>) {
    if let Some(history) = search(&format!("{title}, faults: {:?}", bounds.faults), bounds, None) {
        panic!("two leaders, or a leader that ignores another: {history}");
    }
}

#[test]
fn no_history_without_faults_has_two_leaders() {
    assert_safe("two processes", TWO);
}

// The tests that a debug build ignores run in `ci/full.sh lease`.

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn no_history_with_a_fault_has_two_leaders() {
    use Fault::{Crash, Delete, Duplicate, Edit, Suspend, Touch, WallStep};
    for fault in [Crash, Duplicate, WallStep, Suspend, Delete, Touch, Edit] {
        assert_safe("two processes", Bounds { faults: &[fault], ..TWO });
    }
    assert_safe("two processes without a lease", WITHOUT_LEASE);
    // A lease that is deleted, or whose duration is removed, is safe only if all candidates have
    // equal durations.
    for fault in [Crash, Duplicate, Suspend] {
        let bounds = Bounds { processes: DURATIONS, faults: &[fault], ..TWO };
        assert_safe("two processes of different durations", bounds);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn no_history_of_three_processes_has_two_leaders() {
    assert_safe("three processes", OF_THREE);
}

#[test]
fn mutant_has_a_history_of_three_processes_with_two_leaders() {
    let mutant = Some(Mutant::TakesUnexpiredLease);
    assert!(search("three processes", OF_THREE, mutant).is_some());
}

#[test]
fn every_mutant_has_a_history_with_two_leaders() {
    use Fault::{Delete, Edit, Suspend, WallStep};
    for (mutant, defect) in Mutant::ALL {
        // To find a history of these two mutants takes minutes without optimisation.
        let is_long = matches!(mutant, Mutant::ReleasesAnothersLease | Mutant::FormerByNameAlone);
        if cfg!(debug_assertions) && is_long {
            continue;
        }
        let bounds = match mutant {
            Mutant::HolderIgnoresWallClock => Bounds { faults: &[Suspend], ..TWO },
            Mutant::HolderIgnoresMonotonicClock | Mutant::ObserverUsesWallClock => {
                Bounds { faults: &[WallStep], ..TWO }
            }
            Mutant::AbsentLeaseIsFree => Bounds { faults: &[Delete], ..TWO },
            Mutant::KeepsLeadingUnderAnother | Mutant::RenewalEndsDoubt => {
                Bounds { faults: &[Edit], ..TWO }
            }
            Mutant::ObserverUsesOwnDuration => Bounds { processes: DURATIONS, ..TWO },
            Mutant::ReleasesAnothersLease => Bounds { most_claims: 3, ..TWO },
            Mutant::FormerByNameAlone => WITHOUT_LEASE,
            _ => TWO,
        };
        assert!(search(defect, bounds, Some(mutant)).is_some(), "{mutant:?} survives");
    }
}
