//! Tests of waits for a version: the state that waiters find, the events that end a wait with an
//! error, and stores and queues that do not track versions.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;

use crate::common::{Fifo, Mode, Obj, Rig, block_on, ends, failing_late, keys, obj};
use deltafifo::{DeltaFifo, Indexer, ReflectorStore, Store, VersionError, WaitError};

fn tracked() -> Rig {
    Rig::with(Mode::Fused, |builder| builder.track_applied(true))
}

fn closed(version: &str) -> Result<(), WaitError> {
    Err(WaitError::Closed { version: version.to_owned() })
}

#[test]
fn waiters_find_the_version_in_the_store_blocking_or_async() {
    type Wait = fn(&Fifo) -> Result<(), WaitError>;
    let waits: [Wait; 2] = [
        |fifo| fifo.store().wait_for_resource_version("7"),
        |fifo| block_on(fifo.store().wait_for_resource_version_async("7")),
    ];
    ends(move || {
        for wait in waits {
            let rig = tracked();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    wait(&rig.fifo).unwrap();
                    rig.fifo.store().get_by_key("a").map(|object| object.n)
                });
                rig.fifo.add(obj("a", 1)).unwrap();
                rig.fifo.bookmark("8").unwrap();
                rig.handle();
                assert_eq!(waiter.join().unwrap(), Some(1));
            });
        }
    });
}

#[test]
fn close_wakes_waiters_for_versions_without_a_marker() {
    ends(|| {
        let rig = tracked();
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.bookmark("7").unwrap();
        thread::scope(|scope| {
            let waiters = ["7", "8"].map(|version| {
                (version, scope.spawn(|| rig.fifo.store().wait_for_resource_version(version)))
            });
            rig.fifo.close();
            let [(_, marked), (_, unmarked)] = waiters;
            assert_eq!(unmarked.join().unwrap(), closed("8"));
            // The remaining items can still be popped.
            rig.handle();
            assert_eq!(marked.join().unwrap(), Ok(()));
        });
        assert_eq!(block_on(rig.fifo.store().wait_for_resource_version_async("8")), closed("8"));
    });
}

#[test]
fn drop_wakes_waiters_even_for_a_marked_version() {
    ends(|| {
        let fifo =
            DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).track_applied(true).build();
        fifo.bookmark("6").unwrap();
        fifo.add(obj("a", 1)).unwrap();
        fifo.bookmark("7").unwrap();
        let store = fifo.store();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| store.wait_for_resource_version("7"));
            drop(fifo);
            assert_eq!(waiter.join().unwrap(), closed("7"));
        });
        assert_eq!(
            store.applied_version().as_deref(),
            Some("6"),
            "an applied version stays applied"
        );
        store.wait_for_resource_version("6").unwrap();
    });
}

#[test]
fn without_tracking_bookmarks_are_ignored_and_waits_fail() {
    let rig = Rig::new(Mode::Fused);
    let refused = || VersionError::NotTracked { version: "7".to_owned() };
    assert_eq!(rig.fifo.bookmark("7"), Err(refused()));
    assert_eq!(rig.fifo.store().wait_for_resource_version("7"), Err(WaitError::Version(refused())));
    rig.fifo.replace(vec![obj("a", 1)], "7").unwrap();
    rig.drain();
    assert_eq!(rig.fifo.store().applied_version(), None);
}

#[test]
fn indexer_alone_has_the_version_that_was_set() {
    ends(|| {
        let store = Indexer::builder(keys()).build().unwrap();
        let reader = store.reader();
        assert_eq!(reader.applied_version(), None);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| reader.wait_for_resource_version("9"));
            store.add(obj("a", 1)).unwrap();
            store.bookmark("10").unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(()));
        });
        store.bookmark("9").unwrap();
        assert_eq!(reader.applied_version().as_deref(), Some("10"));
        assert_eq!(store.bookmark("x"), Err(VersionError::NotANumber { version: "x".to_owned() }));
        let feed: &dyn ReflectorStore<_> = &store;
        feed.replace(vec![obj("a", 2)], "12").unwrap();
        assert_eq!(reader.applied_version().as_deref(), Some("12"));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| reader.wait_for_resource_version("13"));
            drop(store);
            assert_eq!(waiter.join().unwrap(), closed("13"));
        });
    });
}

#[test]
fn queue_continues_from_its_stores_version() {
    let store = Indexer::builder(keys()).build().unwrap();
    store.bookmark("5").unwrap();
    let reader = store.reader();
    let fifo = DeltaFifo::over(store).track_applied(true).build();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    fifo.bookmark("6").unwrap();
    assert_eq!(reader.applied_version().as_deref(), Some("6"));
}

fn is_pending(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn rewound(version: &str) -> Result<(), WaitError> {
    Err(WaitError::Rewound { version: version.to_owned() })
}

#[test]
fn committed_list_with_a_lower_version_fails_older_waits_and_later_ones_need_its_history() {
    ends(|| {
        let rig = tracked();
        let store = rig.fifo.store();
        rig.fifo.replace(vec![obj("a", 1)], "1000").unwrap();
        rig.drain();
        let mut waits = Box::pin(store.wait_for_resource_version_async("1001"));
        assert!(is_pending(waits.as_mut()));
        thread::scope(|scope| {
            let blocked = scope.spawn(|| store.wait_for_resource_version("1002"));
            while !blocked.is_finished() {
                // The state after an etcd restore. A waiter may start even after the first of
                // these lists.
                rig.fifo.replace(vec![obj("a", 2)], "500").unwrap();
                rig.fifo.bookmark("501").unwrap();
            }
            assert_eq!(blocked.join().unwrap(), rewound("1002"));
        });
        assert_eq!(
            block_on(waits),
            rewound("1001"),
            "even if the version is applied again before the poll"
        );
        assert_eq!(store.applied_version(), None, "nothing of the list is handled yet");
        rig.drain();
        assert_eq!(store.applied_version().as_deref(), Some("501"));
        let mut waits = Box::pin(store.wait_for_resource_version_async("502"));
        assert!(is_pending(waits.as_mut()), "no such version was ever offered");
        rig.fifo.update(obj("a", 3)).unwrap();
        rig.fifo.bookmark("502").unwrap();
        assert!(is_pending(waits.as_mut()));
        rig.drain();
        assert_eq!(block_on(waits), Ok(()));
    });
}

#[test]
fn replacing_an_indexers_objects_at_a_lower_version_takes_its_version_back() {
    ends(|| {
        let store = Indexer::builder(keys()).build().unwrap();
        let feed: &dyn ReflectorStore<_> = &store;
        feed.replace(vec![obj("a", 1)], "1000").unwrap();
        let mut waits = Box::pin(store.wait_for_resource_version_async("1001"));
        assert!(is_pending(waits.as_mut()));
        feed.replace(vec![obj("a", 2)], "500").unwrap();
        assert_eq!(block_on(waits), rewound("1001"));
        assert_eq!(store.applied_version().as_deref(), Some("500"));
        let kept: &dyn Store<_> = &store;
        kept.replace_keeping(vec![], &["a"], "400").unwrap();
        assert_eq!(store.applied_version().as_deref(), Some("400"));
        store.bookmark("300").unwrap();
        assert_eq!(store.applied_version().as_deref(), Some("400"), "a bookmark lowers no version");
        let fifo = DeltaFifo::over(store).track_applied(true).build();
        fifo.replace(vec![], "7").unwrap();
        assert_eq!(fifo.store().applied_version(), None, "a queue has its store's version");
    });
}

#[test]
fn stored_list_sets_an_indexers_version_although_one_of_its_objects_is_refused() {
    let late = failing_late(|object: &Obj| object.n == 13);
    let store = Indexer::builder(keys()).index("late", late).build().unwrap();
    let feed: &dyn ReflectorStore<_> = &store;
    feed.replace(vec![obj("a", 1)], "9").unwrap();
    feed.replace(vec![obj("b", 13), obj("c", 2)], "5").unwrap_err();
    assert_eq!(store.list_keys(), ["c"]);
    assert_eq!(store.applied_version().as_deref(), Some("5"));
    feed.replace(vec![obj("b", 13)], "3").unwrap_err();
    assert_eq!(store.list_keys(), ["c"]);
    assert_eq!(store.applied_version().as_deref(), Some("5"), "nothing of the list is stored");
}
