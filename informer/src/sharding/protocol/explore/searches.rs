//! Searches that take minutes, of which each is a test: no history within its bounds has two
//! members at work, and none with data misses a key. `ci/full.sh sharding` runs all, and
//! `docs/design/verification.md` lists them.

use super::Fault::{
    Crash, DeleteMember, DeleteShard, Duplicate, Mismatch, Stop, Suspend, Touch, WallStep,
};
use super::{Bounds, Config, DURATIONS, TWO, WITH_DATA, assert_safe, heir, process};

/// Two processes with equal clocks.
const EQUAL: &[Config] = &[process(3, 100), heir(3, 100)];

/// Two processes, neither of which is steady.
const MORTAL: &[Config] = &[process(3, 100), process(3, 150)];

/// A process, and two that take shards over from it.
const TWO_HEIRS: &[Config] = &[process(3, 100), heir(3, 100), heir(3, 100)];

/// Two processes, neither of which is steady, and one that takes shards over from them.
const MORTAL_AND_HEIR: &[Config] = &[process(3, 100), process(3, 100), heir(3, 100)];

/// The bounds of two processes whose watches are soon up to date. Later watches make some searches
/// many times as large.
const SOON: Bounds<'_> = Bounds { most_events: 2, ..TWO };

/// The bounds of two processes and one shard with data, of which one process has a deadline.
const DEADLINE: Bounds<'_> = Bounds { processes: EQUAL, writes: Some(1), ..SOON };

/// The bounds of two processes and two shards.
const TWO_SHARDS: Bounds<'_> = Bounds { processes: EQUAL, shards: 2, most_events: 1, ..TWO };

/// The bounds of a process with a deadline, and of two that take its shard over.
const HEIRS: Bounds<'_> = Bounds { processes: TWO_HEIRS, most_events: 1, ..TWO };

/// The bounds of a process that joins again under a second identity after it has left. With two
/// late watch events such a search takes hours.
const AGAIN: Bounds<'_> = Bounds { most_identities: 2, most_events: 1, ..TWO };

/// The bounds of two faults in a history. With two late watch events such a search takes hours.
const PAIR: Bounds<'_> = Bounds { most_faults: 2, most_events: 1, ..TWO };

macro_rules! searches {
    ($($name:ident: $bounds:expr;)*) => {
        $(
            #[test]
            #[ignore = "takes minutes"]
            fn $name() {
                assert_safe(stringify!($name), $bounds);
            }
        )*
    };
}

searches! {
    crash: Bounds { faults: &[Crash], ..TWO };
    copied_creation: Bounds { faults: &[Duplicate], ..TWO };
    suspension: Bounds { faults: &[Suspend], ..TWO };
    deleted_member: Bounds { faults: &[DeleteMember], ..TWO };
    other_settings: Bounds { faults: &[Mismatch], ..TWO };
    deleted_shard: Bounds { faults: &[DeleteShard], ..SOON };
    edit_by_hand: Bounds { faults: &[Touch], ..SOON };
    step_of_a_wall_clock: Bounds { faults: &[WallStep], ..SOON };
    created_shards: Bounds { faults: &[DeleteShard], has_leases: false, ..SOON };

    again_after_a_crash: Bounds { faults: &[Crash], most_events: 2, ..AGAIN };
    again_after_a_stop: Bounds { faults: &[Stop], ..AGAIN };
    again_after_a_deletion: Bounds { faults: &[DeleteMember], ..AGAIN };
    again_after_other_settings: Bounds { faults: &[Mismatch], ..AGAIN };

    copied_creation_and_deleted_shard: Bounds { faults: &[Duplicate, DeleteShard], ..PAIR };
    copied_creation_and_deleted_member: Bounds { faults: &[Duplicate, DeleteMember], ..PAIR };
    deleted_member_and_shard: Bounds { faults: &[DeleteMember, DeleteShard], ..PAIR };
    crash_and_deleted_shard: Bounds { faults: &[Crash, DeleteShard], ..PAIR };
    stop_and_deleted_shard: Bounds { faults: &[Stop, DeleteShard], ..PAIR };
    other_settings_and_deleted_member: Bounds { faults: &[Mismatch, DeleteMember], ..PAIR };
    suspension_and_crash: Bounds { faults: &[Suspend, Crash], ..PAIR };

    data: Bounds { drain: 1, ..WITH_DATA };
    data_and_a_stop: Bounds { faults: &[Stop], ..WITH_DATA };
    data_and_other_settings: Bounds { faults: &[Mismatch], ..WITH_DATA };
    data_and_a_deleted_shard: Bounds { faults: &[DeleteShard], ..WITH_DATA };
    data_and_a_deadline: DEADLINE;
    data_a_deadline_and_a_crash: Bounds { faults: &[Crash], ..DEADLINE };
    data_a_deadline_and_a_stop: Bounds { faults: &[Stop], ..DEADLINE };
    // The copy of an object's write is like a write of another client, or is refused because of its
    // version.
    data_a_deadline_and_a_copied_creation: Bounds { faults: &[Duplicate], ..DEADLINE };

    three_claims: Bounds { most_claims: 3, ..TWO };
    two_messages: Bounds { most_messages: 2, most_unseen: 2, ..TWO };
    two_durations: Bounds { processes: DURATIONS, ..TWO };

    two_shards: TWO_SHARDS;
    two_shards_that_are_handed_over: Bounds { takes_turns: true, most_events: 2, ..TWO_SHARDS };

    two_mortal_members: Bounds { processes: MORTAL, ..SOON };
    two_mortal_members_and_a_crash: Bounds {
        processes: MORTAL,
        faults: &[Crash],
        most_events: 1,
        ..TWO
    };
    two_mortal_members_and_an_heir: Bounds {
        processes: MORTAL_AND_HEIR,
        most_events: 1,
        ..TWO
    };
    two_heirs_and_a_crash: Bounds { faults: &[Crash], ..HEIRS };
    two_heirs_and_a_suspension: Bounds { faults: &[Suspend], ..HEIRS };
}
