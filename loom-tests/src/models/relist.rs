//! Models of a relist that is offered in pieces and then committed, abandoned or superseded,
//! against pops and offers.

use deltafifo::{Delta, DeltaType};
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{
    Fifo, Log, Object, drain, fused, fused_with, pop_and_show, pop_one, rest, show, spawn_with,
    wait_and_show,
};

pub const MODELS: &[Model] = &[
    Model {
        name: "relist::a_new_key_between",
        bound: None,
        at_least: 21_400,
        outcomes: &["[+a1], stored: a1"],
        body: a_new_key_between,
    },
    Model {
        name: "relist::a_batch_of_a_new_key_between",
        bound: None,
        at_least: 36_500,
        outcomes: &["[+a1], stored: a1"],
        body: a_batch_of_a_new_key_between,
    },
    Model {
        name: "relist::deltas_of_a_new_key_between",
        bound: None,
        at_least: 23_500,
        outcomes: &["[+a1], stored: a1"],
        body: deltas_of_a_new_key_between,
    },
    Model {
        name: "relist::an_update_between",
        bound: None,
        at_least: 69_700,
        outcomes: &["[-a1 ~a2], stored: a2", "[~a2], stored: a2"],
        body: an_update_between,
    },
    Model {
        name: "relist::pops_between",
        bound: Some(5), // 22 s
        at_least: 39_850,
        outcomes: &[
            ", [=a1] [-b1], stored: a1",
            "[=a1] [-b1], , stored: a1",
            "[=a1], [-b1], stored: a1",
        ],
        body: pops_between,
    },
    Model {
        name: "relist::abandoned",
        bound: None,
        at_least: 160,
        outcomes: &[", [=a1], stored: a1 b1", "[=a1], , stored: a1 b1"],
        body: abandoned,
    },
    Model {
        name: "relist::commit_superseded",
        bound: Some(6), // 25 s; without a bound, more than 360,000 schedules
        at_least: 41_200,
        outcomes: &[
            "1 deleted, seen: [-a1], [-a1 =a2]",
            "superseded, seen: [-a1], [-a1 =a2]",
            "superseded, seen: nothing, [=a2]",
        ],
        body: commit_superseded,
    },
    Model {
        name: "relist::page_superseded",
        bound: Some(4), // 13 s
        at_least: 39_600,
        outcomes: &[
            "offered, seen: [=a1], [=a1 =a2]",
            "superseded, seen: [=a1], [=a1 =a2]",
            "superseded, seen: nothing, [=a2]",
        ],
        body: page_superseded,
    },
    Model {
        name: "relist::delete_superseded",
        bound: None,
        at_least: 32_400,
        outcomes: &["deleted, seen: [-a1], [-a1 =a2]", "superseded, seen: nothing, [=a2]"],
        body: delete_superseded,
    },
    Model {
        name: "relist::an_update_during_a_page_superseded",
        bound: Some(2), // 8.3 s; with 3, more than 300,000 schedules
        at_least: 18_600,
        outcomes: &[
            "[-a0 ~a2], stored: a2",
            "[=a1 -a1 ~a2], stored: a2",
            "[=a1 ~a2 -a2], stored: ",
            "[=a1 ~a2], stored: a2",
            "[~a2 -a2], stored: ",
            "[~a2 =a1 -a1], stored: ",
            "[~a2], stored: a2",
        ],
        body: an_update_during_a_page_superseded,
    },
    Model {
        name: "relist::older_page_on_top",
        bound: Some(4), // 8.7 s
        at_least: 32_500,
        outcomes: &[
            "offered, [=a1 =a2], stored: a2",
            "superseded, [=a1 =a2], stored: a2",
            "superseded, [=a2], stored: a2",
        ],
        body: older_page_on_top,
    },
    Model {
        name: "relist::late_stamp",
        bound: None,
        at_least: 13_000,
        outcomes: &["kept, [=a2]", "superseded, [=a2]"],
        body: late_stamp,
    },
    Model {
        name: "relist::noted_while_it_changes",
        bound: Some(4), // 1 s; with one more, the mutant KnownReadBeforeTheWord does not end
        at_least: 4900,
        outcomes: &["[~a2 =a1], stored: a1", "[~a2] [=a1], stored: a1"],
        body: noted_while_it_changes,
    },
    Model {
        name: "relist::noted_by_a_list_while_it_changes",
        bound: Some(3), // 10 s
        at_least: 34_000,
        outcomes: &[
            "[~a2 =a1], stored: a1",
            "[~a2] [=a1 =a1], stored: a1",
            "[~a2] [=a1], stored: a1",
        ],
        body: noted_by_a_list_while_it_changes,
    },
    Model {
        name: "relist::unchanged_while_it_changes",
        bound: Some(6), // 8.5 s
        at_least: 29_100,
        outcomes: &["[~a2 =a1], stored: a1", "[~a2] [=a1], stored: a1"],
        body: unchanged_while_it_changes,
    },
    Model {
        name: "relist::two_sleepers_share_a_run",
        bound: Some(3), // 6.2 s
        at_least: 23_300,
        outcomes: &["[+a1] [+b1]", "[+b1] [+a1]"],
        body: two_sleepers_share_a_run,
    },
    Model {
        name: "relist::against_an_add_of_a_key",
        bound: Some(4), // 22 s
        at_least: 94_900,
        outcomes: &["[+a1 =a2], stored: a2", "[=a2 +a1], stored: a1"],
        body: against_an_add_of_a_key,
    },
];

/// Checks that a commit does not delete a new key that was offered after the relist began.
fn new_between(offer: fn(&Fifo)) -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let relist = fifo.begin_replace();
    let producer = spawn_with(&fifo, offer);
    relist.commit("1").unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}

fn a_new_key_between() -> String {
    new_between(|fifo| fifo.add(Object::new("a", 1)).unwrap())
}

fn a_batch_of_a_new_key_between() -> String {
    new_between(|fifo| fifo.add_batch(vec![Object::new("a", 1)]).unwrap())
}

fn deltas_of_a_new_key_between() -> String {
    new_between(|fifo| {
        let added = Delta::new(DeltaType::Added, Object::new("a", 1));
        fifo.add_if_not_present([added].into_iter().collect()).unwrap();
    })
}

/// Checks that a commit does not delete a known key that was written after the relist began.
fn an_update_between() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let relist = fifo.begin_replace();
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    relist.commit("1").unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}

fn pops_between() -> String {
    let fifo = fused(&[Object::new("b", 1)]);
    let consumer = spawn_with(&fifo, |fifo| {
        let log = Log::default();
        pop_one(fifo, &log, true);
        pop_one(fifo, &log, true);
        log.text()
    });
    let mut relist = fifo.begin_replace();
    relist.offer(vec![Object::new("a", 1)]).unwrap();
    relist.commit("1").unwrap();
    let first = consumer.join().unwrap();
    format!("{first}, {}", rest(&fifo, &Log::default()))
}

fn abandoned() -> String {
    let fifo = fused(&[Object::new("b", 1)]);
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    let mut relist = fifo.begin_replace();
    relist.offer(vec![Object::new("a", 1)]).unwrap();
    drop(relist);
    let first = consumer.join().unwrap();
    format!("{first}, {}", rest(&fifo, &Log::default()))
}

/// Runs a relist that lists `a`. Reads the deltas of `a` twice right after the relist has begun: an
/// older relist must have finished all its pushes by then. Returns the deltas.
fn begin_and_read_twice(fifo: &Fifo) -> String {
    let mut relist = fifo.begin_replace();
    let read = || fifo.get_by_key("a").map_or("nothing".to_owned(), |deltas| show(&deltas, "a"));
    let (one, other) = (read(), read());
    assert_eq!(one, other, "an older relist pushes after a newer one has begun");
    relist.offer(vec![Object::new("a", 2)]).unwrap();
    relist.commit("2").unwrap();
    one
}

fn commit_superseded() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| begin_and_read_twice(fifo));
    let committed = relist
        .commit("1")
        .map_or("superseded".to_owned(), |committed| format!("{} deleted", committed.deleted));
    let seen = newer.join().unwrap();
    drain(&fifo, &log, true);
    assert_eq!(fifo.resource_version().as_deref(), Some("2"));
    format!("{committed}, seen: {seen}, {}", log.text())
}

fn page_superseded() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let mut relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| begin_and_read_twice(fifo));
    let offered =
        if relist.offer(vec![Object::new("a", 1)]).is_ok() { "offered" } else { "superseded" };
    drop(relist);
    let seen = newer.join().unwrap();
    drain(&fifo, &log, true);
    format!("{offered}, seen: {seen}, {}", log.text())
}

fn delete_superseded() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let mut relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| begin_and_read_twice(fifo));
    let deleted = if relist.delete(Object::new("a", 1)).is_ok() { "deleted" } else { "superseded" };
    drop(relist);
    let seen = newer.join().unwrap();
    drain(&fifo, &log, true);
    format!("{deleted}, seen: {seen}, {}", log.text())
}

/// Checks that an older relist that lists a key late does not undo the listing by a newer one.
fn late_stamp() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let mut relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| {
        let mut relist = fifo.begin_replace();
        relist.offer(vec![Object::new("a", 2)]).unwrap();
        relist.commit("2").unwrap();
    });
    let kept = if relist.keep("a").is_ok() { "kept" } else { "superseded" };
    drop(relist);
    newer.join().unwrap();
    drain(&fifo, &log, true);
    format!("{kept}, {}", log.text())
}

fn unchanged_while_it_changes() -> String {
    listed_while_it_changes(&Arc::new(
        fused_with(&[Object::new("a", 1)]).skip_unchanged(true).build(),
    ))
}

/// Lists a known object at its known version while a handler updates the object. The queue has
/// recorded the known version in the object's slot.
fn noted_while_it_changes() -> String {
    let fifo = Arc::new(fused_with(&[]).skip_unchanged(true).build());
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    pop_one(&fifo, &Log::default(), true);
    listed_while_it_changes(&fifo)
}

/// Lists an object at its known version, which the list notes in the slot, while a handler updates
/// the object. The next list is at the known version, too, and sets the object back.
fn noted_by_a_list_while_it_changes() -> String {
    let (fifo, log) =
        (Arc::new(fused_with(&[Object::new("a", 1)]).skip_unchanged(true).build()), Log::default());
    let list = |fifo: &Fifo| {
        fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    };
    let relister = spawn_with(&fifo, list);
    fifo.update(Object::new("a", 2)).unwrap();
    pop_one(&fifo, &log, true);
    relister.join().unwrap();
    list(&fifo);
    rest(&fifo, &log)
}

/// Lists an object after an update of it was offered. The listed object comes after the update,
/// whatever the handler does at that time.
fn listed_while_it_changes(fifo: &Arc<Fifo>) -> String {
    let log = Log::default();
    fifo.update(Object::new("a", 2)).unwrap();
    let relister = spawn_with(fifo, |fifo| {
        fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    });
    pop_one(fifo, &log, true);
    relister.join().unwrap();
    rest(fifo, &log)
}

/// Checks that two sleeping consumers share the keys of a batch of offers. The producer is the last
/// thread, so that both consumers sleep already in the first schedule.
fn two_sleepers_share_a_run() -> String {
    let fifo = fused(&[]);
    let other = spawn_with(&fifo, wait_and_show);
    let producer = spawn_with(&fifo, |fifo| {
        fifo.add_batch(vec![Object::new("a", 1), Object::new("b", 1)]).unwrap()
    });
    let one = wait_and_show(&fifo);
    producer.join().unwrap();
    format!("{one} {}", other.join().unwrap())
}

/// Checks that a write counts as listed by the newer relist: a late page of the older relist must
/// not make the newer one delete the written key.
fn an_update_during_a_page_superseded() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 0)]), Log::default());
    let mut older = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| fifo.begin_replace().commit("2").unwrap().deleted);
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    let _ = older.offer(vec![Object::new("a", 1)]);
    drop(older);
    newer.join().unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}

/// Runs pages of an older and of a newer relist at the same time. Both find the slot of a key, and
/// both hold the shard's lock in shared mode.
fn older_page_on_top() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 0)]), Log::default());
    let mut relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| {
        // Not `replace`, because that reserves room and so takes every shard's lock exclusively.
        let mut relist = fifo.begin_replace();
        relist.offer(vec![Object::new("a", 2)]).unwrap();
        relist.commit("2").unwrap();
    });
    let offered =
        if relist.offer(vec![Object::new("a", 1)]).is_ok() { "offered" } else { "superseded" };
    drop(relist);
    newer.join().unwrap();
    format!("{offered}, {}", rest(&fifo, &log))
}

/// Creates the slot of a new key by an add and by a relist, on two threads.
fn against_an_add_of_a_key() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    fifo.replace(vec![Object::new("a", 2)], "1").unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}
