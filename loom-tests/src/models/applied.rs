//! Models of the applied version. A marker is not reached before everything that was offered ahead
//! of it is handled, on every path into and out of the queue, and every waiter is woken.

use std::future::Future;
use std::task::{Context, Waker};

use deltafifo::{DeltaFifoBuilder, WaitError};
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use super::elsewhere;
use crate::explore::Model;
use crate::rig::{Access, Fifo, Log, Object, drain, end, fused_with, pop_one, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "applied::two_handlers_and_an_observer",
        bound: Some(5), // 3.0 s
        at_least: 14_000,
        outcomes: &["not yet", "7"],
        body: two_handlers_and_an_observer,
    },
    Model {
        name: "applied::pushed_over_a_handler",
        bound: None,
        at_least: 930,
        outcomes: &["[~a2]"],
        body: pushed_over_a_handler,
    },
    Model {
        name: "applied::put_back",
        bound: None,
        at_least: 220,
        outcomes: &["[+a1]"],
        body: put_back,
    },
    Model {
        name: "applied::given_back",
        bound: None,
        at_least: 73,
        outcomes: &["[+a1] [+b1]"],
        body: given_back,
    },
    Model {
        name: "applied::offer_during_a_batch",
        bound: Some(4), // 4.7 s
        at_least: 16_000,
        outcomes: &["[~a1 ~a2]", "[~a2 ~a1]"],
        body: offer_during_a_batch,
    },
    Model {
        name: "applied::batch_during_an_offer",
        bound: Some(4), // 3.7 s
        at_least: 14_000,
        outcomes: &["[~a1 ~a2]", "[~a2 ~a1]"],
        body: batch_during_an_offer,
    },
    Model {
        name: "applied::batch_during_a_claim",
        bound: Some(3), // 5.0 s
        at_least: 18_000,
        outcomes: &["[-a1 ~a2], stored: a2", "[~a2 -a1], stored: "],
        body: batch_during_a_claim,
    },
    Model {
        name: "applied::past_the_backlog",
        bound: Some(5), // 3.3 s
        at_least: 9600,
        outcomes: &["", "[~a2]"],
        body: past_the_backlog,
    },
    Model { name: "applied::waiting", bound: None, at_least: 29, outcomes: &["a1"], body: waiting },
    Model {
        name: "applied::waiting_async",
        bound: None,
        at_least: 40,
        outcomes: &["a1"],
        body: waiting_async,
    },
    Model {
        name: "applied::closed",
        bound: None,
        at_least: 29,
        outcomes: &["closed"],
        body: closed,
    },
    Model {
        name: "applied::dropped",
        bound: None,
        at_least: 95,
        outcomes: &["closed"],
        body: dropped,
    },
    Model {
        name: "applied::commit_superseded",
        bound: Some(3), // 0.7 s
        at_least: 500,
        outcomes: &["committed [-a1]", "superseded ", "superseded [-a1]"],
        body: commit_superseded,
    },
    Model {
        name: "applied::two_bookmarks",
        bound: None,
        at_least: 1100,
        outcomes: &["10"],
        body: two_bookmarks,
    },
    Model {
        name: "applied::rewound",
        bound: None,
        at_least: 32,
        outcomes: &["rewound"],
        body: rewound,
    },
    Model {
        name: "applied::two_commits",
        bound: Some(3),
        at_least: 580,
        outcomes: &["8, then 5", "5"],
        body: two_commits,
    },
    Model {
        name: "applied::late_bookmark",
        bound: None,
        at_least: 8000,
        outcomes: &["5", "9"],
        body: late_bookmark,
    },
];

fn tracking(objects: &[Arc<Object>]) -> DeltaFifoBuilder<Object, Access> {
    fused_with(objects).track_applied(true)
}

fn tracked(objects: &[Arc<Object>]) -> Arc<Fifo> {
    Arc::new(tracking(objects).build())
}

/// Handles all remaining keys, and returns their deltas. Checks that no version is applied before
/// that, and that version 7 is applied afterwards.
fn applied_with_the_rest(fifo: &Fifo) -> String {
    let log = Log::default();
    assert_eq!(fifo.store().applied_version(), None, "applied before it was handled");
    drain(fifo, &log, true);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "handled, but not applied");
    log.text()
}

/// Checks that a thread that learns that a version is applied sees the work of all handlers, not
/// only of the last one.
fn two_handlers_and_an_observer() -> String {
    let fifo = tracked(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    fifo.bookmark("7").unwrap();
    let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    // Relaxed: the queue must make it visible.
    let [one, other] = [0, 1].map(|number: usize| {
        let work = work.clone();
        spawn_with(&fifo, move |fifo| {
            let item = fifo.try_pop().unwrap();
            work[number].store(1, Ordering::Relaxed);
            item.done();
        })
    });
    let applied = fifo.store().applied_version();
    if applied.is_some() {
        let seen = [0, 1].map(|number: usize| work[number].load(Ordering::Relaxed));
        assert_eq!(seen, [1, 1], "the work of a handler is not visible");
    }
    one.join().unwrap();
    other.join().unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "handled, but not applied");
    applied.unwrap_or_else(|| "not yet".to_owned())
}

/// Pushes a delta on a running slot; the end of the handler queues the delta behind the marker.
fn pushed_over_a_handler() -> String {
    let fifo = tracked(&[Object::new("a", 0)]);
    fifo.update(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    let producer = spawn_with(&fifo, |fifo| {
        fifo.update(Object::new("a", 2)).unwrap();
        fifo.bookmark("7").unwrap();
    });
    end(item, true);
    producer.join().unwrap();
    applied_with_the_rest(&fifo)
}

/// Checks a handler that puts its deltas back: they are queued behind the marker.
fn put_back() -> String {
    let fifo = tracked(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    let marking = spawn_with(&fifo, |fifo| fifo.bookmark("7").unwrap());
    item.requeue();
    marking.join().unwrap();
    applied_with_the_rest(&fifo)
}

fn given_back() -> String {
    let fifo = tracked(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let batch = fifo.try_pop_batch(2).unwrap();
    let marking = spawn_with(&fifo, |fifo| fifo.bookmark("7").unwrap());
    drop(batch);
    marking.join().unwrap();
    applied_with_the_rest(&fifo)
}

/// Checks an offer of a key while a batch of offers has pushed a delta of that key, but has not
/// queued the key yet. The key must be ahead of the marker that follows the offer.
fn offer_during_a_batch() -> String {
    let fifo = tracked(&[Object::new("a", 0)]);
    let batch = spawn_with(&fifo, |fifo| fifo.update_batch(vec![Object::new("a", 1)]).unwrap());
    fifo.update(Object::new("a", 2)).unwrap();
    fifo.bookmark("7").unwrap();
    batch.join().unwrap();
    applied_with_the_rest(&fifo)
}

/// Checks a batch of offers of a key while a single offer has pushed a delta of that key, but has
/// not queued the key yet.
fn batch_during_an_offer() -> String {
    let fifo = tracked(&[Object::new("a", 0)]);
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 1)).unwrap());
    fifo.update_batch(vec![Object::new("a", 2)]).unwrap();
    fifo.bookmark("7").unwrap();
    producer.join().unwrap();
    applied_with_the_rest(&fifo)
}

/// Pushes a batch of offers on a slot that a deletion has claimed. The deletion keeps the slot, as
/// a handler would, while it reads an external store.
fn batch_during_a_claim() -> String {
    let (builder, outside) = elsewhere::over(&[Object::new("a", 1)]);
    let fifo = Arc::new(builder.track_applied(true).build());
    let deletion = spawn_with(&fifo, |fifo| fifo.delete(Object::new("a", 1)).unwrap());
    fifo.update_batch(vec![Object::new("a", 2)]).unwrap();
    fifo.bookmark("7").unwrap();
    deletion.join().unwrap();
    assert_eq!(fifo.store().applied_version(), None, "applied before it was handled");
    let rest = outside.rest(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "handled, but not applied");
    rest
}

/// Pops a key from the live lane, where no marker is ahead of it, while the key also waits in the
/// backlog ahead of the marker.
fn past_the_backlog() -> String {
    let fifo = Arc::new(tracking(&[]).live_lane(true).build());
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo.bookmark("7").unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    let (first, second) = (fifo.try_pop(), fifo.try_pop());
    producer.join().unwrap();
    let item = first.or(second).or_else(|| fifo.try_pop()).unwrap();
    assert!(fifo.try_pop().is_none(), "a key is popped twice");
    assert_eq!(fifo.store().applied_version(), None, "applied before it was handled");
    end(item, true);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "handled, but not applied");
    let log = Log::default();
    drain(&fifo, &log, true);
    log.text()
}

/// Creates a queue with one key, which is not handled yet, ahead of the marker of version 7.
fn about_to_apply() -> Arc<Fifo> {
    let fifo = tracked(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.bookmark("7").unwrap();
    fifo
}

/// Checks that a thread that has waited for version 7 finds in the store the object that was
/// offered before that version.
fn stored_after(wait: fn(&Fifo)) -> String {
    let fifo = about_to_apply();
    let waiter = spawn_with(&fifo, move |fifo| {
        wait(fifo);
        fifo.store()
            .get_by_key("a")
            .map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
    });
    pop_one(&fifo, &Log::default(), true);
    waiter.join().unwrap()
}

fn waiting() -> String {
    stored_after(|fifo| fifo.store().wait_for_resource_version("7").unwrap())
}

fn waiting_async() -> String {
    stored_after(|fifo| block_on(fifo.store().wait_for_resource_version_async("7")).unwrap())
}

/// Checks that a wait for a version without a marker ends when the queue is closed.
fn closed() -> String {
    let fifo = about_to_apply();
    let waiter = spawn_with(&fifo, |fifo| fifo.store().wait_for_resource_version("8").is_ok());
    fifo.close();
    if waiter.join().unwrap() { "applied" } else { "closed" }.to_owned()
}

/// Checks that a wait for a version with a marker ends when the queue is dropped.
fn dropped() -> String {
    let fifo = tracking(&[]).build();
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.bookmark("7").unwrap();
    let store = fifo.store();
    let waiter = loom::thread::spawn(move || store.wait_for_resource_version("7").is_ok());
    drop(fifo);
    if waiter.join().unwrap() { "applied" } else { "closed" }.to_owned()
}

/// Checks that the greater one of two bookmarks is applied, whichever marker is queued first.
fn two_bookmarks() -> String {
    let fifo = tracked(&[]);
    let other = spawn_with(&fifo, |fifo| fifo.bookmark("10").unwrap());
    fifo.bookmark("9").unwrap();
    other.join().unwrap();
    fifo.store().applied_version().unwrap()
}

/// Checks that a list committed at a lower version ends an earlier wait, even one that is about to
/// sleep.
fn rewound() -> String {
    let fifo = tracked(&[]);
    fifo.bookmark("7").unwrap();
    // Not handled during the commit, so that nothing else wakes the waiter.
    fifo.add(Object::new("a", 1)).unwrap();
    let store = fifo.store();
    let mut wait = Box::pin(store.wait_for_resource_version_async("9"));
    assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let restore = spawn_with(&fifo, |fifo| fifo.replace(vec![], "5").unwrap());
    let waited = block_on(wait);
    restore.join().unwrap();
    assert_eq!(fifo.store().applied_version(), None, "the list is not handled");
    drain(&fifo, &Log::default(), true);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    match waited {
        Err(WaitError::Rewound { .. }) => "rewound".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Checks that the version of the later one of two commits is applied, although it is lower.
fn two_commits() -> String {
    let fifo = tracked(&[]);
    let relist = fifo.begin_replace();
    let restore = spawn_with(&fifo, |fifo| fifo.replace(vec![], "5").unwrap());
    let committed = relist.commit("8").is_ok();
    restore.join().unwrap();
    assert_eq!(
        fifo.store().applied_version(),
        fifo.resource_version(),
        "the version of an older commit was marked last"
    );
    format!(
        "{}{}",
        if committed { "8, then " } else { "" },
        fifo.store().applied_version().unwrap()
    )
}

/// Races a bookmark with a commit at a lower version. The bookmark counts only for the history in
/// which it was offered.
fn late_bookmark() -> String {
    let fifo = tracked(&[]);
    fifo.bookmark("7").unwrap();
    let bookmark = spawn_with(&fifo, |fifo| fifo.bookmark("9").unwrap());
    fifo.replace(vec![], "5").unwrap();
    bookmark.join().unwrap();
    fifo.store().applied_version().unwrap()
}

/// Checks that a relist does not change the applied version if its commit is refused because a
/// newer one has begun.
fn commit_superseded() -> String {
    let (fifo, log) = (tracked(&[Object::new("a", 1)]), Log::default());
    let relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| drop(fifo.begin_replace()));
    let is_committed = relist.commit("7").is_ok();
    newer.join().unwrap();
    drain(&fifo, &log, true);
    let applied = fifo.store().applied_version();
    assert_eq!(
        applied.as_deref(),
        is_committed.then_some("7"),
        "the applied version is the committed one"
    );
    format!("{} {}", if is_committed { "committed" } else { "superseded" }, log.text())
}
