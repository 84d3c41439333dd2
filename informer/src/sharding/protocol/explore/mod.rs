//! An exhaustive search of the protocol for a history in which two members work on the same shard
//! at the same time, a key is missed, or a reconcile begins from a stale state.
//!
//! A *world* is an API server with the Leases of a group, two or three processes that are members,
//! and the messages between them. Its next worlds are all that can happen next: time passes, a
//! process takes a step, a request arrives, an answer or a watch event is delivered, a member lists
//! all Leases, an attempt is given up, a member's work ends. Nothing is urgent, so that every
//! request, answer, watch event and process may be delayed for any time or for ever. This covers
//! lost messages, cut connections and paused processes. A few delays are left out where a comment
//! says why they have no effect of their own. Every member may claim or give up any shard at any
//! time, so that nothing depends on the assignment. Crashes, stops, duplicated requests, steps of a
//! wall clock, time that a suspended machine does not count, Leases with other settings, and
//! changes by hand are *faults*, of which a history has a limited number.
//!
//! The Lease of the group has an effect only on members that join: they create it if their view
//! lacks it. A stagger of fences adds no history, because any fence may be late. So one small scope
//! of each checks that the calm comes to rest: with a group whose Lease is missing, created or
//! deleted by hand, and with a stagger that is longer than the calm.
//!
//! A world with *data* also has one object in each shard, its writes, the members' stores, work
//! queues and reconciles, and requests of reconciles in flight. Without data, a member that owns a
//! shard always works on it.
//!
//! The present is always `NOW`: when time passes, all other times move into the past. The
//! versions of each Lease are numbered in their order. So worlds that differ only in their age are
//! one world. The search visits every world that can be reached within its bounds. It remembers
//! the worlds that it has visited by hashes of 128 bits: among 12 million worlds, two share one
//! with a probability of about 2·10⁻²⁵. Worlds whose successors it has not visited share their
//! equal processes, messages and servers.

mod calm;
mod contents;
mod events;
mod normal;
mod objects;
mod searches;
mod world;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::mutants::Mutant;
use super::{Answer, GroupTiming};
use crate::lease::explored::TICK;
use crate::util::search::{SearchResult, breadth_first};
use contents::Contents;
use events::Event;
use world::{Id, Packed, Process, Violation, World};

/// The answer of a server that does not answer. Longer pauses add no history, because every step of
/// a process may be delayed for any time. A calm has none.
const UNCLEAR: Answer<Id> = Answer::Unclear { pause: Duration::from_millis(TICK) };

/// The bounds of a search.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    processes: &'a [Config],
    shards: u32,
    /// The kinds of faults that a history may have.
    faults: &'a [Fault],
    /// The largest number of faults in a history.
    most_faults: u8,
    /// The largest number of claims of one shard in a history.
    most_claims: i32,
    /// Whether only the first process makes the first claim of a shard, and only the second one the
    /// second claim, so that every second claim is a hand-over.
    takes_turns: bool,
    /// The largest number of identities of one process in a history.
    most_identities: u8,
    /// The largest number of messages in flight of one process about one Lease.
    most_messages: usize,
    /// The largest number of events that a watch has not delivered.
    most_events: usize,
    /// The largest number of answered renewals whose versions the member has not seen.
    most_unseen: usize,
    /// The largest number of writes of the object of a shard; without data, `None`.
    writes: Option<u8>,
    /// Whether a history begins with the Lease of the group.
    has_group: bool,
    /// Whether a history begins with a Lease for each shard.
    has_leases: bool,
    /// The stagger of fences: zero, or longer than a calm.
    fence_stagger: Duration,
    /// The drain timeout in ticks.
    drain: u64,
}

/// The configuration of a process. The renew deadline is two thirds of the lease duration, and the
/// retry period one tick.
#[derive(Clone, Copy)]
struct Config {
    /// The lease duration in ticks.
    lease: u64,
    /// The rate of the clocks in percent.
    rate: u64,
    /// Whether the member has no deadline, and its Lease never expires.
    is_steady: bool,
    /// Whether the server answers the member's requests at once.
    is_prompt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A process ends at any point, and another one starts in its place if `most_identities` allows
    /// it.
    Crash,
    /// A member is stopped. Another one starts in its place if `most_identities` allows it.
    Stop,
    /// A creation is copied. The copy may arrive at any later time.
    Duplicate,
    /// A wall clock is set forward or back.
    WallStep,
    /// A tick passes that a monotonic clock does not count.
    Suspend,
    /// The Lease of a shard is deleted by hand.
    DeleteShard,
    /// The Lease of a member is deleted by hand.
    DeleteMember,
    /// The Lease of the group is deleted by hand.
    DeleteGroup,
    /// The Lease of a shard or member is written by hand, unchanged.
    Touch,
    /// A member sees a Lease with other settings.
    Mismatch,
}

struct Search<'a> {
    bounds: Bounds<'a>,
    mutant: Option<Mutant>,
    contents: Contents,
}

impl<'a> Search<'a> {
    /// Visits all worlds. Every world whose number is a multiple of `calm_every` is followed by a
    /// calm, in which all shards must find an owner.
    fn run(
        bounds: Bounds<'a>,
        mutant: Option<Mutant>,
        calm_every: Option<usize>,
    ) -> (SearchResult<Event, Violation>, Contents) {
        let search = Self { bounds, mutant, contents: Contents::default() };
        let parts = RefCell::default();
        let pack = |world: World| world.pack(&mut parts.borrow_mut());
        let mut start = search.start();
        search.normalise(&mut start);
        let is_late = |process: &Process| process.unseen.len() > bounds.most_events;
        let successors = |packed: &Packed, visit: &mut dyn FnMut(Event, Packed)| {
            let world = packed.unpack();
            search.successors(&world, &mut |event, mut after| {
                search.normalise(&mut after);
                if !after.processes.iter().any(is_late) {
                    search.contents.count(event, &world, &after);
                    visit(event, pack(after));
                }
            });
        };
        let violation = |packed: &Packed, number: usize| {
            let world = packed.unpack();
            let is_calm = calm_every.is_some_and(|every| number.is_multiple_of(every));
            world.violation().or_else(|| is_calm.then(|| search.calm_down(&world)).flatten())
        };
        let result = breadth_first(pack(start), |packed| packed.fingerprint, successors, violation);
        (result, search.contents)
    }

    fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.bounds.drain * TICK)
    }

    fn timing(&self, process: usize) -> GroupTiming {
        let lease_ticks = self.bounds.processes[process].lease;
        GroupTiming {
            lease_duration: Duration::from_millis(lease_ticks * TICK),
            renew_deadline: Duration::from_millis(lease_ticks * TICK * 2 / 3),
            retry_period: Duration::from_millis(TICK),
            drain_timeout: self.drain_timeout(),
            // Members settle only in a calm. Only the assignment depends on that, and before a calm
            // they claim and give up shards without it. The simulation has the rest.
            settle: Duration::MAX,
            fence_stagger: self.bounds.fence_stagger,
        }
    }
}

const fn process(lease: u64, rate: u64) -> Config {
    Config { lease, rate, is_steady: false, is_prompt: false }
}

/// Returns a process that takes shards over from another one. Its requests are answered at once and
/// it has no deadline, because delays and a deadline would only limit it. The other process of the
/// search has both.
const fn heir(lease: u64, rate: u64) -> Config {
    Config { lease, rate, is_steady: true, is_prompt: true }
}

/// Two processes whose clocks run at rates that differ by a factor of 1.5, the most that is safe.
const RATES: &[Config] = &[process(3, 100), heir(3, 150)];

/// Two processes with different lease durations. The process with the shorter one must wait for the
/// longer one.
const DURATIONS: &[Config] = &[process(6, 100), heir(3, 150)];

/// Two processes that never lose their Leases.
const STEADY: &[Config] = &[Config { is_steady: true, ..process(3, 100) }, heir(3, 100)];

/// Two processes without delays at the server, of which the second one never loses its Lease.
const PROMPT: &[Config] = &[Config { is_prompt: true, ..process(3, 100) }, heir(3, 100)];

/// The bounds of two processes whose clocks differ, and one shard, without faults.
const TWO: Bounds<'_> = Bounds {
    processes: RATES,
    shards: 1,
    faults: &[],
    most_faults: 1,
    most_claims: 2,
    takes_turns: false,
    most_identities: 1,
    most_messages: 1,
    most_events: 4,
    most_unseen: 1,
    writes: None,
    has_group: true,
    has_leases: true,
    fence_stagger: Duration::ZERO,
    drain: 0,
};

/// The bounds of a process that joins while the Lease of the group is missing. Members make claims
/// only in the calm.
const NO_GROUP: Bounds<'_> = Bounds { has_group: false, most_claims: 0, most_events: 2, ..TWO };

/// The bounds of an heir that fences two members of another process.
const STAGGERED: Bounds<'_> = Bounds {
    processes: PROMPT,
    faults: &[Fault::Crash],
    most_faults: 2,
    most_claims: 1,
    most_identities: 2,
    most_events: 1,
    fence_stagger: Duration::from_secs(100),
    ..TWO
};

/// The bounds of two processes and one shard with data.
const WITH_DATA: Bounds<'_> = Bounds { processes: STEADY, writes: Some(2), ..TWO };

/// Searches within bounds, and prints the number of its worlds. Returns the first history that ends
/// with a violation, or `None` if there is none, and what the search contains.
fn search(
    title: &str,
    bounds: Bounds<'_>,
    mutant: Option<Mutant>,
    calm_every: Option<usize>,
) -> (Option<String>, Contents) {
    let began = Instant::now();
    let (result, contents) = Search::run(bounds, mutant, calm_every);
    let SearchResult { states: worlds, violation } = result;
    let seconds = began.elapsed().as_secs_f32();
    let found = violation.as_ref().map(|(violation, _)| format!("{violation:?}"));
    println!("| {title} | {worlds} | {seconds:.1} | {} |", found.as_deref().unwrap_or("safe"));
    let history = violation.map(|(violation, events)| {
        let events = events.iter().map(Event::to_string).collect::<Vec<_>>().join(", ");
        format!("{violation:?}: {events}")
    });
    (history, contents)
}

/// Checks that no history has a violation, and that the search contains each of its faults, and
/// hand-overs beside another shard if processes take turns.
fn assert_safe(title: &str, bounds: Bounds<'_>) {
    assert_safe_and_calm(title, bounds, 512);
}

/// Checks the same as [`assert_safe`], with a calm after every world whose number is a multiple of
/// `calm_every`.
fn assert_safe_and_calm(title: &str, bounds: Bounds<'_>, calm_every: usize) {
    let title = format!("{title}, faults: {:?}", bounds.faults);
    let (history, contents) = search(&title, bounds, None, Some(calm_every));
    if let Some(history) = history {
        panic!("{history}");
    }
    for fault in bounds.faults {
        assert!(contents.faults(*fault) > 0, "{title}: no history has the fault {fault:?}");
    }
    if bounds.takes_turns {
        let (released, fenced) = contents.hand_overs();
        println!("hand-overs beside an owned shard: {released} released, {fenced} fenced");
        assert!(released > 0 && fenced > 0, "{title}: no history has a hand-over of each kind");
    }
}

#[test]
fn no_history_without_faults_has_two_members_at_work() {
    // A debug build takes minutes for watches that are later.
    let most_events = if cfg!(debug_assertions) { 2 } else { TWO.most_events };
    assert_safe("two processes", Bounds { most_events, drain: 1, ..TWO });
}

#[test]
fn every_world_of_a_small_scope_calms_down() {
    use Fault::{Crash, DeleteMember, Stop};
    // Members make claims only in the calm.
    let small = Bounds { most_claims: 0, most_events: 2, ..TWO };
    let bounds = Bounds { faults: &[DeleteMember, Crash, Stop], ..small };
    assert_safe_and_calm("two processes", bounds, 1);
    let alone = Bounds { processes: &[process(3, 100)], most_identities: 2, ..bounds };
    assert_safe_and_calm("one process that joins again", alone, 1);
}

#[test]
fn every_member_joins_although_the_lease_of_the_group_is_missing() {
    let bounds = Bounds { faults: &[Fault::DeleteGroup], ..NO_GROUP };
    assert_safe_and_calm("a process that creates the group", bounds, 4);
}

#[test]
fn every_dead_member_is_fenced_although_fences_are_staggered() {
    assert_safe_and_calm("an heir of two members", STAGGERED, 16);
}

#[test]
fn every_mutant_has_a_history_with_a_violation() {
    use Fault::{DeleteMember, DeleteShard, Mismatch, Stop, Suspend, WallStep};
    let mut alive = Vec::new();
    for (mutant, defect) in Mutant::ALL {
        let bounds = match mutant {
            Mutant::MemberIgnoresWallClock => Bounds { faults: &[Suspend], ..TWO },
            Mutant::MemberIgnoresMonotonicClock | Mutant::ObserverUsesWallClock => {
                Bounds { faults: &[WallStep], ..TWO }
            }
            Mutant::RenewalCountsUnseen
            | Mutant::ClaimsWhileWorking
            | Mutant::ClaimOverridesView
            | Mutant::AbsentShardIsFree
            | Mutant::CreatedShardIsFree
            | Mutant::KeepsShardOfAnother => Bounds { faults: &[DeleteShard], ..TWO },
            Mutant::CreatorNeverEnds => Bounds { faults: &[Stop], has_leases: false, ..TWO },
            Mutant::ListKeepsGone => Bounds { faults: &[DeleteShard, Stop], most_faults: 2, ..TWO },
            Mutant::AbsentMemberIsDead | Mutant::JoinsForever => {
                Bounds { faults: &[DeleteMember], ..TWO }
            }
            Mutant::AwaitsGroup => NO_GROUP,
            Mutant::StaggersBehindExpired => STAGGERED,
            Mutant::KeepsIdentity => Bounds { faults: &[DeleteMember], most_identities: 2, ..TWO },
            Mutant::FencesItselfBeforeIdle => Bounds { faults: &[Mismatch], ..TWO },
            Mutant::ReleasesBeforeIdle | Mutant::ReleasesDroppedWork => Bounds { drain: 1, ..TWO },
            Mutant::ObserverUsesOwnDuration => Bounds { processes: DURATIONS, ..TWO },
            Mutant::OldAnswersCount => Bounds { most_messages: 2, ..TWO },
            Mutant::ReleasesAnothersShard => Bounds { most_claims: 3, ..TWO },
            Mutant::KeysNotEnqueued
            | Mutant::OwnsAgainWithoutEnqueue
            | Mutant::ListsBeforeClaim
            | Mutant::StoreLacksList
            | Mutant::StoreKeepsDeleted => WITH_DATA,
            Mutant::OldFillsCount => Bounds { most_claims: 3, ..WITH_DATA },
            _ => TWO,
        };
        // To find a history of these mutants takes minutes without optimisation.
        let is_long = matches!(
            mutant,
            Mutant::MemberIgnoresMonotonicClock
                | Mutant::RenewalCountsUnseen
                | Mutant::ClaimOverridesView
                | Mutant::OldAnswersCount
                | Mutant::KeepsShardOfAnother
                | Mutant::ReleasesAnothersShard
        );
        if cfg!(debug_assertions) && is_long {
            continue;
        }
        // These are found by the calm after a history.
        let is_of_liveness = matches!(
            mutant,
            Mutant::CreatorNeverEnds
                | Mutant::ListKeepsGone
                | Mutant::JoinsForever
                | Mutant::AwaitsGroup
                | Mutant::StaggersBehindExpired
        );
        if search(defect, bounds, Some(mutant), is_of_liveness.then_some(1)).0.is_none() {
            alive.push(mutant);
        }
    }
    assert!(alive.is_empty(), "these mutants survive: {alive:?}");
}
