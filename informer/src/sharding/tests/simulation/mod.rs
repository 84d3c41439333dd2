//! A deterministic simulation of sharded controllers whose processes, clocks and networks fail.
//!
//! A seed decides everything: the settings, the faults and their times, the changes of objects, and
//! the identities and delays of the members. `SEEDS=1000` runs the seeds 0 to 999, and `SEED=17`
//! runs one seed and prints its history.
//!
//! * `world.rs`: the machines and objects of a history, and the faults.
//! * `machine.rs`: a machine with its own clocks, on which a process runs.
//! * `replica.rs`: that process: a member of the group, and a controller.
//! * `network.rs`, `weather.rs`, `message.rs`: the network between the machines and the server.
//! * `history.rs`: the record of a history.
//! * `rules.rs`: the rules that every history must obey.
//!
//! Each process has a tokio runtime of its own, and machines take turns. A request takes at least
//! a turn, so the order of the machines in a turn has no effect. A process that has its turn again
//! after a suspension finds that its clocks have gone on.

mod history;
mod machine;
mod message;
mod network;
mod replica;
mod rules;
mod weather;
mod world;

use std::ops::Range;
use std::time::Duration;

use crate::sharding::mutants::{CHOSEN, TaskMutant};
use crate::sharding::protocol::{CHOSEN_MUTANT, Mutant};
use crate::util::mutant::with_chosen;
use crate::util::seeds::{Total, check, number, on_all_cores};
use history::trace;
use weather::Weather;
use world::World;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The number of times that something fails in a history. About two seconds pass after each.
const EVENTS: usize = 18;

/// The longest time in which everything comes to rest if nothing fails: leases expire, watches that
/// are silent end, and work of a former owner ends.
const SETTLED: Duration = Duration::from_secs(90);

/// The time in which the load of idle members is measured.
const IDLE: Duration = Duration::from_secs(20);

/// The time in which members stop if they have no work.
const STOPPED: Duration = Duration::from_secs(10);

/// The largest number of seeds whose histories are compared with a second run of them.
const REPEATED: u64 = 100;

/// The length of a turn after the last fault.
const LONG_TURN: Duration = Duration::from_millis(400);

/// The outcome of a history.
struct Outcome {
    trace: String,
    violations: Vec<String>,
    reconciles: usize,
    claims: usize,
    faults: usize,
}

/// Lets something fail.
fn fail(world: &mut World) {
    let machine = world.random.usize(..world.machines.len());
    match world.random.u8(..20) {
        0 => world.stop(machine),
        1 | 2 => world.kill(machine),
        3..=5 => {
            let time = world.random.u32(..45_000) * MILLISECOND;
            world.suspend(machine, time);
        }
        6 => world.resume(machine),
        7..=9 => {
            let weather = Weather::random(&mut world.random);
            world.set_weather(machine, weather);
        }
        10 | 11 => world.set_weather(machine, Weather::CUT),
        12..=14 => world.set_weather(machine, Weather::CALM),
        15 | 16 => world.set_wall_clock(machine),
        17 | 18 => world.delete_lease(),
        _ => world.end_watches(),
    }
}

/// Runs the history of a seed.
fn simulate(seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let count = world.machines.len();
    for machine in 0..count {
        if machine == 0 || world.random.bool() {
            world.start(machine);
        }
    }
    let mut faults = 0;
    for _ in 0..EVENTS {
        let time = world.random.u32(..4_000) * MILLISECOND;
        world.run(time);
        for _ in 0..world.random.usize(1..=2) {
            fail(&mut world);
            faults += 1;
        }
        for _ in 0..world.random.usize(..3) {
            world.change_object();
        }
        for machine in 0..count {
            if world.machines[machine].replica().is_none() && world.random.u8(..3) == 0 {
                world.start(machine);
            }
        }
    }
    world.history.note(world.now, "calm begins");
    world.turn = LONG_TURN;
    for machine in 0..count {
        world.resume(machine);
        world.set_weather(machine, Weather::CALM);
    }
    if world.machines[0].replica().is_none_or(|replica| replica.is_stopping()) {
        world.kill(0);
        world.start(0);
    }
    world.rest(SETTLED, IDLE);
    let setting = world.setting();
    for machine in 0..count {
        world.stop(machine);
    }
    world.run(STOPPED);
    world.check_end();
    for machine in 0..count {
        world.kill(machine);
    }
    let facts = world.history.facts();
    let counted =
        |is_it: fn(&history::Fact) -> bool| facts.iter().filter(|(_, fact)| is_it(fact)).count();
    Outcome {
        trace: trace(&facts),
        violations: rules::violations(&facts, &setting),
        reconciles: counted(|fact| matches!(fact, history::Fact::Begun { .. })),
        claims: counted(|fact| matches!(fact, history::Fact::Claimed { .. })),
        faults,
    }
}

#[test]
fn no_history_of_sharded_controllers_violates_a_rule() {
    let total = on_all_cores(|seed| {
        let Outcome { trace, violations, reconciles, claims, faults } = simulate(seed);
        check(seed, &trace, &violations);
        [reconciles, claims, faults].map(|count| count as u64)
    });
    let Total { counts: [reconciles, claims, faults], seeds, seconds } = total;
    println!(
        "sharding: seeds={seeds} seconds={seconds} reconciles={reconciles} claims={claims} \
         faults={faults}"
    );
}

#[test]
fn same_seed_gives_the_same_history() {
    let differ = |seed: &u64| {
        let (one, other) = (simulate(*seed).trace, simulate(*seed).trace);
        let lines = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        lines.inspect(|lines| println!("seed {seed}: {lines:#?}"));
        one != other
    };
    let seeds = number("SEEDS").unwrap_or(8).min(REPEATED);
    let differing: Vec<u64> = (0..seeds).filter(differ).collect();
    assert!(differing.is_empty(), "the histories of these seeds differ: {differing:?}");
}

/// A deliberate defect of a member.
#[derive(Clone, Copy, Debug)]
enum Defect {
    OfProtocol(Mutant),
    OfTasks(TaskMutant),
}

/// Defects, each with seeds. The history of the first seed shows the defect. If a change of the
/// shipped code or of the simulation changes the histories, that of a later seed does.
const DEFECTS: [(Defect, Range<u64>); 10] = [
    (Defect::OfTasks(TaskMutant::ClientIsNotFenced), 0..100),
    (Defect::OfTasks(TaskMutant::WorkOutlivesPermit), 339..1000),
    (Defect::OfTasks(TaskMutant::StoreIsNotFilled), 4..300),
    (Defect::OfProtocol(Mutant::KeysNotEnqueued), 0..100),
    (Defect::OfProtocol(Mutant::ReleasesBeforeIdle), 1..100),
    (Defect::OfProtocol(Mutant::FencesLiveMember), 0..100),
    (Defect::OfProtocol(Mutant::WorksForLeaseDuration), 29..300),
    (Defect::OfProtocol(Mutant::DeadlineFromAnswer), 1369..2400),
    (Defect::OfProtocol(Mutant::AbsentMemberIsDead), 258..800),
    (Defect::OfProtocol(Mutant::MemberIgnoresMonotonicClock), 170..1000),
];

#[test]
fn history_of_each_defect_has_a_violation() {
    for (defect, seeds) in DEFECTS {
        let find = || {
            seeds.into_iter().find_map(|seed| {
                let violation = simulate(seed).violations.into_iter().next()?;
                Some(format!("SEED={seed}: {violation}"))
            })
        };
        let found = match defect {
            Defect::OfProtocol(mutant) => with_chosen(&CHOSEN_MUTANT, mutant, find),
            Defect::OfTasks(mutant) => with_chosen(&CHOSEN, mutant, find),
        };
        println!("{defect:?}: {found:?}");
        assert!(found.is_some(), "{defect:?} survives");
    }
}
