//! Tests of the in-order queue: refused offers, offers through the traits, and the drop of a queue.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{keys, nameless, obj, tombstone};
use crate::rig::{Fifo, bare, events, notified, over, show_event};
use deltafifo::caches::Queue;
use deltafifo::{
    Closed, Event, InOrderFifo, KeyError, KeyFunc, NoMeta, OfferError, ProcessError,
    ReflectorStore, RelistError, StoreError, error_chain,
};

#[test]
fn offer_without_a_key_queues_nothing_and_populates() {
    type Offer = fn(&Fifo) -> Result<(), OfferError>;
    let offers: [Offer; 3] = [
        |fifo| fifo.add(nameless()),
        |fifo| fifo.update(nameless()),
        |fifo| fifo.delete(nameless()),
    ];
    for offer in offers {
        let fifo = bare();
        assert!(matches!(offer(&fifo), Err(OfferError::Key(KeyError::NoName))));
        assert!(fifo.try_pop().is_none() && fifo.has_synced());
        assert_eq!(fifo.pending(), 0);
    }
}

#[test]
fn relist_with_an_object_without_a_key_queues_and_populates_nothing() {
    let fifo = over([obj("a", 1)]);
    let refused = fifo.replace(vec![obj("b", 1), nameless(), obj("c", 1)], "7").unwrap_err();
    assert!(matches!(
        refused,
        RelistError::RefusedWhole { index: 1, source: OfferError::Key(KeyError::NoName) }
    ));
    assert!(
        refused
            .to_string()
            .starts_with("object 1 of the list was refused, so nothing of the list is queued")
    );
    assert!(!fifo.has_synced() && fifo.try_pop().is_none());
    assert_eq!(fifo.pending(), 0);
    fifo.replace(vec![obj("b", 1)], "8").unwrap();
    assert_eq!(notified(&fifo), ["-a(1)", "R+b1"]);
    assert!(fifo.has_synced());
}

#[test]
fn failing_transformer_refuses_the_offer_with_key_and_version() {
    let fifo = InOrderFifo::builder(keys())
        .transformer(|object| if object.n == 13 { Err("unlucky".into()) } else { Ok(object) })
        .build();
    let refused = fifo.update(obj("a", 13)).unwrap_err();
    assert!(
        matches!(&refused, OfferError::Transform { key, version: Some(version), .. } if key == "a" && version == "13"),
        "{refused}"
    );
    fifo.delete(tombstone("a", Some(obj("a", 13)))).unwrap();
    let refused = fifo.replace(vec![obj("b", 1), obj("c", 13)], "7").unwrap_err();
    let RelistError::RefusedWhole { index: 1, source: OfferError::Transform { key, .. } } = refused
    else {
        panic!("{refused}")
    };
    assert_eq!(key, "c");
    assert_eq!(events(&fifo), ["a:D(13)"]);
}

#[test]
fn in_order_queue_works_as_store_and_as_queue() {
    let fifo = bare();
    let store: &dyn ReflectorStore<_> = &fifo;
    store.replace(vec![obj("a", 1)], "7").unwrap();
    store.add(obj("b", 1)).unwrap();
    store.update(obj("b", 2)).unwrap();
    store.delete(obj("a", 2).into()).unwrap();
    store.resync().unwrap();
    assert!(matches!(
        store.replace(vec![nameless()], "8"),
        Err(StoreError::Relist(RelistError::RefusedWhole { .. }))
    ));
    assert!(matches!(
        store.add(nameless()),
        Err(StoreError::Refused(OfferError::Key(KeyError::NoName)))
    ));

    let queue: &dyn Queue<_, Item = Event<_>> = &fifo;
    assert!(!queue.has_synced() && !queue.is_closed());
    queue.close();
    assert!(queue.is_closed());
    let mut seen = Vec::new();
    let mut pop = || {
        queue.process(&mut |event, initial| {
            seen.push((show_event(event), initial));
            if seen.len() == 2 { Err("not today".into()) } else { Ok(()) }
        })
    };
    pop().unwrap();
    assert_eq!(error_chain(&pop().unwrap_err()), "the handler of key \"b\" failed: not today");
    (0..3).for_each(|_| pop().unwrap());
    assert!(matches!(pop(), Err(ProcessError::Closed(Closed))));
    let expected =
        [("all@7 a1", true), ("b:A1", false), ("b:U2", false), ("a:D2", false), ("sync", false)];
    assert_eq!(seen, expected.map(|(event, initial)| (event.to_owned(), initial)));
    queue.wait_for_sync().unwrap();
}

/// An object that counts its drop, and panics in it if `panics` is set.
struct Counts {
    name: &'static str,
    dropped: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if self.panics {
            // Skips the panic hook, because the panic is expected.
            resume_unwind(Box::new("an object whose release panics"));
        }
    }
}

#[test]
fn dropped_queue_releases_all_objects_although_one_drop_panics() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let object = |name, panics| Arc::new(Counts { name, dropped: dropped.clone(), panics });
    let fifo =
        InOrderFifo::builder(KeyFunc::custom(NoMeta, |object: &Counts| Ok(object.name.to_owned())))
            .build();
    for panics in [false, true, false, true] {
        fifo.add(object("a", panics)).unwrap();
    }
    fifo.replace(vec![object("b", false), object("c", true)], "1").unwrap();
    fifo.add(object("d", false)).unwrap();
    drop(fifo.pop_batch(1).unwrap());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(fifo))).is_err(), "the first panic propagates");
    assert_eq!(dropped.load(Ordering::Relaxed), 7);
}

#[test]
fn events_can_be_printed() {
    let fifo = bare();
    fifo.replace(vec![obj("a", 1)], "7").unwrap();
    fifo.delete(tombstone("b", None)).unwrap();
    fifo.resync();
    let mut printed = Vec::new();
    while let Some(turn) = fifo.try_pop() {
        printed.push(format!("{turn:?}"));
        turn.done();
    }
    let printed = printed.join(" ");
    for part in [
        "ReplacedAll at version \"7\": {\"a\": Obj {",
        "b: Deleted DeletedFinalStateUnknown {",
        "SyncAll",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}
