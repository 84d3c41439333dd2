//! A relist as one event: what it comes to in the store, for readers and for handlers that go
//! wrong.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::common::{Obj, keys, nameless, obj, tombstone, versioned};
use crate::rig::{Fifo, apply, bare, events, over, picky, show_turn, stored, told};
use deltafifo::{
    Event, InOrderFifo, Indexer, KeyError, KeyFunc, NoMeta, OfferError, ProcessError, StoreError,
};

fn list(names: &[(&str, u64)]) -> Vec<Arc<Obj>> {
    names.iter().map(|(key, n)| obj(key, *n)).collect()
}

#[test]
fn deletions_come_first_by_key_then_what_is_listed_in_its_order() {
    let fifo = over(list(&[("z", 1), ("b", 1), ("a", 1), ("c", 1)]));
    fifo.replace(list(&[("y", 2), ("c", 2), ("x", 2)]), "2").unwrap();
    assert_eq!(told(&fifo), ["-a(1)", "-b(1)", "-z(1)", "R+y2", "R c1>2", "R+x2"]);
    assert_eq!(stored(&fifo), ["c2", "x2", "y2"]);
    assert_eq!(fifo.store().index_keys("namespace", "").unwrap(), ["c", "x", "y"]);
}

#[test]
fn of_a_key_that_is_listed_twice_the_last_object_stays() {
    let fifo = over([]);
    fifo.replace(list(&[("a", 1), ("b", 1), ("a", 2)]), "2").unwrap();
    assert_eq!(told(&fifo), ["R+a1", "R+b1", "R a1>2"]);
    assert_eq!(stored(&fifo), ["a2", "b1"]);
}

#[test]
fn what_is_missing_is_asked_in_the_relists_turn() {
    let fifo = over(list(&[("a", 1)]));
    fifo.add(obj("b", 2)).unwrap();
    fifo.replace(list(&[("c", 3)]), "3").unwrap();
    fifo.add(obj("a", 4)).unwrap();
    fifo.replace(list(&[("a", 5)]), "5").unwrap();
    assert_eq!(told(&fifo), ["A+b2", "-a(1)", "-b(2)", "R+c3", "A+a4", "-c(3)", "R a4>5"]);
}

#[test]
fn a_relist_of_nothing_deletes_everything() {
    let fifo = over(list(&[("a", 1), ("b", 1)]));
    fifo.replace(vec![], "2").unwrap();
    assert_eq!(told(&fifo), ["-a(1)", "-b(1)"]);
    assert!(fifo.store().is_empty());
    fifo.replace(vec![], "3").unwrap();
    assert!(told(&fifo).is_empty());
}

#[test]
fn a_handler_finds_all_of_a_relist_in_the_store_and_nothing_of_what_comes_after_it() {
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
fn a_relist_of_many_is_found_again_key_by_key() {
    let many = if cfg!(miri) { 100 } else { 5_000 };
    let every = |step: usize, n| {
        (0..many).step_by(step).map(move |k| obj(&format!("space-{}/k{k}", k % 7), n)).collect()
    };
    let fifo = over([]);
    fifo.replace(every(1, 1), "1").unwrap();
    assert_eq!(told(&fifo).len(), many);
    fifo.replace(every(2, 2), "2").unwrap();
    let told = told(&fifo);
    assert_eq!(told.iter().filter(|told| told.starts_with('-')).count(), many / 2);
    assert_eq!(told.iter().filter(|told| told.ends_with("1>2")).count(), many.div_ceil(2));
    assert_eq!(fifo.store().len(), many.div_ceil(2));
    for k in 0..many {
        let found = fifo.store().get_by_key(&format!("space-{}/k{k}", k % 7));
        assert_eq!(found.map(|object| object.n), (k % 2 == 0).then_some(2));
    }
}

#[test]
fn without_a_store_the_list_is_handed_out_with_its_keys() {
    let fifo = bare();
    fifo.replace(list(&[("ns/a", 1), ("b", 2), ("ns/a", 3)]), "7").unwrap();
    assert_eq!(fifo.pending(), 3);
    let mut turn = fifo.pop().unwrap();
    let Some(Event::ReplacedAll(all)) = turn.event() else { panic!("a relist") };
    assert_eq!((all.version(), all.len(), all.is_empty()), ("7", 3, false));
    let listed: Vec<_> = all.iter().map(|(key, object)| (key.to_owned(), object.n)).collect();
    assert_eq!(listed, [("ns/a", 1), ("b", 2), ("ns/a", 3)].map(|(key, n)| (key.to_owned(), n)));
    assert!(
        matches!(turn.apply(|_, _| unreachable!()), Err(StoreError::NoStore { key }) if key == "*")
    );
    assert_eq!(turn.len(), 1, "it is still in hand");
    turn.done();
    assert_eq!(fifo.pending(), 0);
}

#[test]
fn a_handler_that_panics_within_a_relist_leaves_it_applied_and_is_told_by_the_key_in_hand() {
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
    assert_eq!(told(&fifo), ["A+e3"], "and it is not told again");
}

#[test]
fn objects_whose_release_panics_keep_no_change_of_a_relist_untold() {
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
    let mut told = Vec::new();
    let applied = fifo.process(|turn| turn.apply(|key, _| told.push(key.to_owned())));
    assert!(matches!(applied, Err(ProcessError::Panicked { .. })));
    assert_eq!(told, ["a", "c", "b", "d"]);
    assert_eq!((fifo.pending(), fifo.has_synced()), (0, true));
}

#[test]
fn a_handler_that_fails_a_relist_or_resync_is_told_for_all_keys() {
    let fifo = over(list(&[("a", 1)]));
    fifo.replace(list(&[("b", 2)]), "2").unwrap();
    fifo.resync();
    for _ in 0..2 {
        let failed = fifo.process(|turn| {
            apply(turn);
            Err::<(), _>("no")
        });
        assert!(matches!(failed, Err(ProcessError::Handler { key, source: "no" }) if key == "*"));
    }
    fifo.resync();
    let failed = fifo.process(|turn| turn.apply(|_, _| resume_unwind(Box::new("meant"))));
    assert!(matches!(failed, Err(ProcessError::Panicked { key, .. }) if key == "b"));
    fifo.replace(vec![], "3").unwrap();
    let failed = fifo.process(|_| Err::<(), _>("unseen"));
    assert!(matches!(failed, Err(ProcessError::Handler { key, .. }) if key == "*"));
    assert_eq!(stored(&fifo), ["b2"], "what its handler does not apply is not applied");
}

#[test]
fn a_relist_that_is_given_back_comes_again_whole() {
    let fifo = over(list(&[("a", 1)]));
    fifo.replace(list(&[("b", 2)]), "2").unwrap();
    fifo.add(obj("c", 3)).unwrap();
    drop(fifo.pop().unwrap());
    assert!(!fifo.has_synced(), "it is not handled");
    let turn = fifo.pop().unwrap();
    assert!(turn.is_in_initial_list());
    drop(turn);
    assert_eq!(told(&fifo), ["-a(1)", "R+b2", "A+c3"]);
    assert!(fifo.has_synced());
}

#[test]
fn an_index_that_fails_is_told_and_everything_else_is_done() {
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
fn an_accessor_that_panics_costs_its_object_and_no_other() {
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
    // Its key is as good as any other.
    fifo.update(obj("b", 2)).unwrap();
    fifo.process(|turn| turn.apply(|_, _| ())).unwrap();
    assert_eq!(fifo.store().get_by_key("b").unwrap().n, 2);
}

#[test]
fn every_object_is_released_once_it_is_neither_stored_nor_queued() {
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
    told(&fifo);
    assert_eq!(held(), [0, 0, 0, 1, 0, 1]);
    drop::<Fifo>(fifo);
    assert_eq!(held(), [0; 6]);
}

#[test]
fn a_kept_key_stays_as_the_events_before_the_relist_make_it() {
    let fifo = over(list(&[("stored", 1), ("updated", 1), ("deleted", 1), ("gone", 1)]));
    fifo.update(obj("updated", 2)).unwrap();
    fifo.add(obj("added", 3)).unwrap();
    fifo.delete(obj("deleted", 4)).unwrap();
    let kept = ["stored", "updated", "added", "deleted", "never-known"];
    assert!(fifo.replace_keeping(list(&[("listed", 5)]), kept, "5").is_empty());
    fifo.update(obj("added", 6)).unwrap();
    assert_eq!(
        told(&fifo),
        ["U updated1>2", "A+added3", "-deleted4", "-gone(1)", "R+listed5", "U added3>6"]
    );
    assert_eq!(
        stored(&fifo),
        ["added6", "listed5", "stored1", "updated2"],
        "what was never known does not come to be"
    );
    // Of what was kept nothing stays behind: the next relist deletes it.
    fifo.replace_keeping(vec![], ["stored"], "7");
    assert_eq!(told(&fifo), ["-added(6)", "-listed(5)", "-updated(2)"]);
}

#[test]
fn relist_that_keeps_what_is_unlisted_deletes_nothing_known_in_its_turn() {
    let fifo = over(list(&[("a", 1), ("b", 1)]));
    fifo.add(obj("pending", 2)).unwrap();
    assert!(fifo.replace_keeping_unlisted(list(&[("a", 3), ("c", 3)]), "3").is_empty());
    assert_eq!(told(&fifo), ["A+pending2", "R a1>3", "R+c3"]);
    assert_eq!(stored(&fifo), ["a3", "b1", "c3", "pending2"]);
    fifo.replace(list(&[("a", 3)]), "4").unwrap();
    assert_eq!(told(&fifo), ["-b(1)", "-c(3)", "-pending(2)", "R a3>3"]);
}

#[test]
fn of_a_key_that_is_kept_and_listed_the_object_counts() {
    let fifo = over(list(&[("a", 1)]));
    assert!(fifo.replace_keeping(list(&[("a", 2), ("b", 2)]), ["b", "a", "a"], "2").is_empty());
    assert_eq!(told(&fifo), ["R a1>2", "R+b2"]);
    assert_eq!(stored(&fifo), ["a2", "b2"]);
}

#[test]
fn what_a_relist_refuses_comes_back_and_is_kept_if_it_has_a_key() {
    let fifo = picky();
    fifo.replace(list(&[("a", 1), ("b", 1), ("c", 1)]), "1").unwrap();
    assert_eq!(told(&fifo).len(), 3);
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
fn without_a_store_kept_keys_are_handed_out_and_weigh_nothing() {
    let fifo = bare();
    fifo.replace_keeping(list(&[("a", 1), ("b", 1)]), ["c", "d", "e"], "1");
    fifo.replace_keeping(vec![], ["c"], "2");
    assert_eq!(fifo.pending(), 3, "a relist of nothing counts as one");
    assert!(!fifo.has_synced());
    assert_eq!(events(&fifo), ["all@1 a1 b1 +c +d +e", "all@2 +c"]);
    assert!(fifo.has_synced() && fifo.pending() == 0);
}

#[test]
fn a_relist_of_which_everything_is_refused_populates_the_queue_all_the_same() {
    let fifo = picky();
    assert_eq!(
        fifo.replace_keeping(vec![nameless(), versioned("a", 1, "refused")], [], "1").len(),
        2
    );
    assert!(!fifo.has_synced());
    assert!(told(&fifo).is_empty());
    assert!(fifo.has_synced() && fifo.store().is_empty());
}
