//! Tests of a relist as one event: its effect on the store, on readers, and on handlers that fail.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::common::{Obj, keys, nameless, obj, tombstone, versioned};
use crate::rig::{Fifo, apply, bare, events, notified, over, picky, show_turn, stored};
use deltafifo::{
    Event, InOrderFifo, Indexer, KeyError, KeyFunc, NoMeta, OfferError, ProcessError, StoreError,
};

fn list(names: &[(&str, u64)]) -> Vec<Arc<Obj>> {
    names.iter().map(|(key, n)| obj(key, *n)).collect()
}

#[test]
fn relist_notifies_deletions_by_key_and_then_listed_objects_in_order() {
    let fifo = over(list(&[("z", 1), ("b", 1), ("a", 1), ("c", 1)]));
    fifo.replace(list(&[("y", 2), ("c", 2), ("x", 2)]), "2").unwrap();
    assert_eq!(notified(&fifo), ["-a(1)", "-b(1)", "-z(1)", "R+y2", "R c1>2", "R+x2"]);
    assert_eq!(stored(&fifo), ["c2", "x2", "y2"]);
    assert_eq!(fifo.store().index_keys("namespace", "").unwrap(), ["c", "x", "y"]);
}

#[test]
fn key_listed_twice_keeps_the_last_object() {
    let fifo = over([]);
    fifo.replace(list(&[("a", 1), ("b", 1), ("a", 2)]), "2").unwrap();
    assert_eq!(notified(&fifo), ["R+a1", "R+b1", "R a1>2"]);
    assert_eq!(stored(&fifo), ["a2", "b1"]);
}

#[test]
fn missing_keys_are_determined_in_the_relists_turn() {
    let fifo = over(list(&[("a", 1)]));
    fifo.add(obj("b", 2)).unwrap();
    fifo.replace(list(&[("c", 3)]), "3").unwrap();
    fifo.add(obj("a", 4)).unwrap();
    fifo.replace(list(&[("a", 5)]), "5").unwrap();
    assert_eq!(notified(&fifo), ["A+b2", "-a(1)", "-b(2)", "R+c3", "A+a4", "-c(3)", "R a4>5"]);
}

#[test]
fn empty_relist_deletes_everything() {
    let fifo = over(list(&[("a", 1), ("b", 1)]));
    fifo.replace(vec![], "2").unwrap();
    assert_eq!(notified(&fifo), ["-a(1)", "-b(1)"]);
    assert!(fifo.store().is_empty());
    fifo.replace(vec![], "3").unwrap();
    assert!(notified(&fifo).is_empty());
}

#[test]
fn handler_finds_the_whole_relist_and_no_later_event_in_the_store() {
    let fifo = over(list(&[("a", 1), ("b", 1)]));
    fifo.replace(list(&[("b", 2), ("c", 2)]), "2").unwrap();
    fifo.add(obj("d", 3)).unwrap();
    let mut seen = Vec::new();
    fifo.pop()
        .unwrap()
        .apply(|key, _| seen.push((key.to_owned(), stored(&fifo).join(" "))))
        .unwrap();
    assert_eq!(seen, ["a", "b", "c"].map(|key| (key.to_owned(), "b2 c2".to_owned())));
}

#[test]
fn large_relist_can_be_read_key_by_key() {
    let many = if cfg!(miri) { 100 } else { 5_000 };
    let every = |step: usize, n| {
        (0..many).step_by(step).map(move |k| obj(&format!("space-{}/k{k}", k % 7), n)).collect()
    };
    let fifo = over([]);
    fifo.replace(every(1, 1), "1").unwrap();
    assert_eq!(notified(&fifo).len(), many);
    fifo.replace(every(2, 2), "2").unwrap();
    let notified = notified(&fifo);
    assert_eq!(notified.iter().filter(|notified| notified.starts_with('-')).count(), many / 2);
    assert_eq!(
        notified.iter().filter(|notified| notified.ends_with("1>2")).count(),
        many.div_ceil(2)
    );
    assert_eq!(fifo.store().len(), many.div_ceil(2));
    for k in 0..many {
        let found = fifo.store().get_by_key(&format!("space-{}/k{k}", k % 7));
        assert_eq!(found.map(|object| object.n), (k % 2 == 0).then_some(2));
    }
}

#[test]
fn without_a_store_the_relist_event_carries_the_list_and_its_keys() {
    let fifo = bare();
    fifo.replace(list(&[("ns/a", 1), ("b", 2), ("ns/a", 3)]), "7").unwrap();
    assert_eq!(fifo.pending(), 3);
    let mut turn = fifo.pop().unwrap();
    let Some(Event::ReplacedAll(all)) = turn.event() else { panic!("a relist") };
    assert_eq!((all.version(), all.iter().len()), ("7", 3));
    let listed: Vec<_> = all.iter().map(|(key, object)| (key.to_owned(), object.n)).collect();
    assert_eq!(listed, [("ns/a", 1), ("b", 2), ("ns/a", 3)].map(|(key, n)| (key.to_owned(), n)));
    assert!(
        matches!(turn.apply(|_, _| unreachable!()), Err(StoreError::NoStore { key }) if key == "*")
    );
    assert_eq!(turn.events().count(), 1, "the event is still current");
    turn.done();
    assert_eq!(fifo.pending(), 0);
}

#[test]
fn handler_panic_within_a_relist_leaves_it_applied_and_names_the_current_key() {
    let fifo = over(list(&[("a", 1), ("b", 1), ("z", 1)]));
    fifo.replace(list(&[("b", 2), ("c", 2), ("d", 2)]), "2").unwrap();
    fifo.add(obj("e", 3)).unwrap();
    let mut seen = Vec::new();
    let failed = fifo.process(|turn| {
        turn.apply(|key, _| {
            seen.push(key.to_owned());
            if key == "b" {
                resume_unwind(Box::new("meant"));
            }
        })
    });
    assert!(
        matches!(failed, Err(ProcessError::Panicked { key, message }) if key == "b" && message == "meant")
    );
    assert_eq!(seen, ["a", "z", "b"]);
    assert_eq!(stored(&fifo), ["b2", "c2", "d2"], "the store does not fall behind");
    assert!(fifo.has_synced());
    assert_eq!(notified(&fifo), ["A+e3"], "the relist is not notified again");
}

#[test]
fn object_drop_panics_suppress_no_notification_of_a_relist() {
    struct Bomb(&'static str, bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.1, "released");
        }
    }
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |bomb: &Bomb| Ok(bomb.0.to_owned())))
        .build()
        .unwrap();
    for name in ["a", "b", "c"] {
        store.add(Arc::new(Bomb(name, true))).unwrap();
    }
    let fifo = InOrderFifo::over(store).build();
    fifo.replace(["b", "d"].map(|name| Arc::new(Bomb(name, false))).to_vec(), "1").unwrap();
    let mut notified = Vec::new();
    let applied = fifo.process(|turn| turn.apply(|key, _| notified.push(key.to_owned())));
    assert!(matches!(applied, Err(ProcessError::Panicked { .. })));
    assert_eq!(notified, ["a", "c", "b", "d"]);
    assert_eq!((fifo.pending(), fifo.has_synced()), (0, true));
}

#[test]
fn handler_failure_of_a_relist_or_resync_is_reported_for_all_keys() {
    let fifo = over(list(&[("a", 1)]));
    fifo.replace(list(&[("b", 2)]), "2").unwrap();
    fifo.resync();
    for _ in 0..2 {
        let failed = fifo.process(|turn| {
            apply(turn);
            Err::<(), _>("no")
        });
        assert!(matches!(failed, Err(ProcessError::Handler { key, error: "no" }) if key == "*"));
    }
    fifo.resync();
    let failed = fifo.process(|turn| turn.apply(|_, _| resume_unwind(Box::new("meant"))));
    assert!(matches!(failed, Err(ProcessError::Panicked { key, .. }) if key == "b"));
    fifo.replace(vec![], "3").unwrap();
    let failed = fifo.process(|_| Err::<(), _>("unseen"));
    assert!(matches!(failed, Err(ProcessError::Handler { key, .. }) if key == "*"));
    assert_eq!(stored(&fifo), ["b2"], "events that the handler does not apply are not applied");
}

#[test]
fn relist_that_is_given_back_is_popped_again_whole() {
    let fifo = over(list(&[("a", 1)]));
    fifo.replace(list(&[("b", 2)]), "2").unwrap();
    fifo.add(obj("c", 3)).unwrap();
    drop(fifo.pop().unwrap());
    assert!(!fifo.has_synced(), "the relist is not handled");
    let turn = fifo.pop().unwrap();
    assert!(turn.is_in_initial_list());
    drop(turn);
    assert_eq!(notified(&fifo), ["-a(1)", "R+b2", "A+c3"]);
    assert!(fifo.has_synced());
}

#[test]
fn failing_index_is_reported_and_everything_else_is_applied() {
    let store = Indexer::builder(keys())
        .index("parity", |object: &Obj| {
            if object.n == 13 { Err("unlucky".into()) } else { Ok(vec![object.n.to_string()]) }
        })
        .build()
        .unwrap();
    let fifo = InOrderFifo::over(store).build();
    fifo.replace(list(&[("a", 1), ("b", 13), ("c", 3)]), "1").unwrap();
    let mut seen = 0;
    let failed = fifo.pop().unwrap().apply(|_, _| seen += 1);
    assert!(matches!(failed, Err(StoreError::NotIndexed { key, .. }) if key == "b"));
    assert_eq!((seen, stored(&fifo).join(" ")), (3, "a1 b13 c3".to_owned()));
    assert_eq!(fifo.store().index_keys("parity", "3").unwrap(), ["c"]);
}

#[test]
fn panicking_accessor_loses_only_its_object() {
    struct Bad;
    impl deltafifo::Meta<Obj> for Bad {
        fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
            if object.n == 13 {
                resume_unwind(Box::new("meant"));
            }
            Some(&object.ns)
        }
        fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
            Some(&object.name)
        }
    }
    let keys = deltafifo::KeyFunc::custom(Bad, |object: &Obj| Ok(object.name.clone()));
    let fifo = InOrderFifo::over(Indexer::builder(keys).build().unwrap()).build();
    fifo.replace(list(&[("a", 1), ("b", 13), ("c", 1)]), "1").unwrap();
    assert!(
        matches!(fifo.process(|turn| turn.apply(|_, _| ())), Err(ProcessError::Panicked { key, .. }) if key == "b")
    );
    let mut keys = fifo.store().list_keys();
    keys.sort();
    assert_eq!(keys, ["a", "c"]);
    // The key of the lost object is usable afterwards.
    fifo.update(obj("b", 2)).unwrap();
    fifo.process(|turn| turn.apply(|_, _| ())).unwrap();
    assert_eq!(fifo.store().get_by_key("b").unwrap().n, 2);
}

#[test]
fn object_is_released_once_it_is_neither_stored_nor_queued() {
    let objects = list(&[("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 2), ("c", 3)]);
    let weak: Vec<_> = objects.iter().map(Arc::downgrade).collect();
    let held = || weak.iter().map(std::sync::Weak::strong_count).collect::<Vec<_>>();
    let [a, b, newer_a, newer_b, c, newer_c] = objects.try_into().unwrap();
    let fifo = over([a, b]);
    fifo.replace(vec![newer_a, newer_b, c], "2").unwrap();
    assert_eq!(held(), [1, 1, 1, 1, 1, 1]);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        fifo.pop().unwrap().apply(|key, _| {
            if key == "b" {
                resume_unwind(Box::new("meant"))
            }
        })
    }));
    assert!(caught.is_err());
    assert_eq!(held(), [0, 0, 1, 1, 1, 1]);
    fifo.update(newer_c).unwrap();
    fifo.delete(tombstone("a", None)).unwrap();
    notified(&fifo);
    assert_eq!(held(), [0, 0, 0, 1, 0, 1]);
    drop::<Fifo>(fifo);
    assert_eq!(held(), [0; 6]);
}

#[test]
fn kept_key_has_the_state_of_the_events_before_the_relist() {
    let fifo = over(list(&[("stored", 1), ("updated", 1), ("deleted", 1), ("gone", 1)]));
    fifo.update(obj("updated", 2)).unwrap();
    fifo.add(obj("added", 3)).unwrap();
    fifo.delete(obj("deleted", 4)).unwrap();
    let kept = ["stored", "updated", "added", "deleted", "never-known"];
    assert!(fifo.replace_keeping(list(&[("listed", 5)]), kept, "5").is_empty());
    fifo.update(obj("added", 6)).unwrap();
    assert_eq!(
        notified(&fifo),
        ["U updated1>2", "A+added3", "-deleted4", "-gone(1)", "R+listed5", "U added3>6"]
    );
    assert_eq!(
        stored(&fifo),
        ["added6", "listed5", "stored1", "updated2"],
        "an unknown kept key is not created"
    );
    // Nothing remains of a kept key: the next relist deletes it.
    fifo.replace_keeping(vec![], ["stored"], "7");
    assert_eq!(notified(&fifo), ["-added(6)", "-listed(5)", "-updated(2)"]);
}

#[test]
fn relist_that_keeps_unlisted_keys_deletes_none_in_its_turn() {
    let fifo = over(list(&[("a", 1), ("b", 1)]));
    fifo.add(obj("pending", 2)).unwrap();
    assert!(fifo.replace_keeping_unlisted(list(&[("a", 3), ("c", 3)]), "3").is_empty());
    assert_eq!(notified(&fifo), ["A+pending2", "R a1>3", "R+c3"]);
    assert_eq!(stored(&fifo), ["a3", "b1", "c3", "pending2"]);
    fifo.replace(list(&[("a", 3)]), "4").unwrap();
    assert_eq!(notified(&fifo), ["-b(1)", "-c(3)", "-pending(2)", "R a3>3"]);
}

#[test]
fn listed_object_of_a_kept_key_counts() {
    let fifo = over(list(&[("a", 1)]));
    assert!(fifo.replace_keeping(list(&[("a", 2), ("b", 2)]), ["b", "a", "a"], "2").is_empty());
    assert_eq!(notified(&fifo), ["R a1>2", "R+b2"]);
    assert_eq!(stored(&fifo), ["a2", "b2"]);
}

#[test]
fn object_refused_by_a_relist_is_returned_and_its_key_kept() {
    let fifo = picky();
    fifo.replace(list(&[("a", 1), ("b", 1), ("c", 1)]), "1").unwrap();
    assert_eq!(notified(&fifo).len(), 3);
    let refused = |key| versioned(key, 2, "refused");
    let page =
        vec![refused("b"), obj("d", 2), nameless(), refused("new"), refused("d"), obj("e", 2)];
    let refused = fifo.replace_keeping(page, ["c"], "2");
    assert_eq!(refused.iter().map(|refused| refused.index).collect::<Vec<_>>(), [0, 2, 3, 4]);
    let OfferError::Transform { key, version, source } = &refused[0].source else {
        panic!("{}", refused[0])
    };
    assert_eq!(
        (key.as_str(), version.as_deref(), source.to_string().as_str()),
        ("b", Some("refused"), "meant")
    );
    assert!(matches!(refused[1].source, OfferError::Key(KeyError::NoName)));
    let mut turn = fifo.pop().unwrap();
    assert_eq!(show_turn(&turn), ["all@2 d2 e2 +c +b +new +d"]);
    assert_eq!(apply(&mut turn), ["-a(1)", "R+d2", "R+e2"]);
    drop(turn);
    assert_eq!(stored(&fifo), ["b1", "c1", "d2", "e2"]);
}

#[test]
fn without_a_store_kept_keys_are_in_the_event_and_do_not_count() {
    let fifo = bare();
    fifo.replace_keeping(list(&[("a", 1), ("b", 1)]), ["c", "d", "e"], "1");
    fifo.replace_keeping(vec![], ["c"], "2");
    assert_eq!(fifo.pending(), 3, "a relist of nothing counts as one");
    assert!(!fifo.has_synced());
    assert_eq!(events(&fifo), ["all@1 a1 b1 +c +d +e", "all@2 +c"]);
    assert!(fifo.has_synced() && fifo.pending() == 0);
}

#[test]
fn relist_whose_objects_are_all_refused_still_populates_the_queue() {
    let fifo = picky();
    assert_eq!(
        fifo.replace_keeping(vec![nameless(), versioned("a", 1, "refused")], [], "1").len(),
        2
    );
    assert!(!fifo.has_synced());
    assert!(notified(&fifo).is_empty());
    assert!(fifo.has_synced() && fifo.store().is_empty());
}
