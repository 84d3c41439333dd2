//! Tests of the keys of a scope: scopes and objects that are refused, and keys in two scopes.

use super::rig::{Names, Object, drain, fused, list, object, store, stored, two_scopes};
use deltafifo::{
    DeltaFifo, KeyFunc, KeyScope, OfferError, Refused, RelistError, ScopeError, StoreError,
};

#[test]
fn keys_outside_the_scope_are_refused_and_released() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &green, &[object("green", "a", 1)], "1");
    drain(&fifo);
    let mut of_green = fifo.begin_replace_in(&green);
    let mut of_blue = fifo.begin_replace_in(&blue);
    let refused = of_blue.offer(vec![object("green", "a", 2), object("blue", "a", 2)]).unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].index, 0);
    assert!(
        matches!(&refused[0].source, OfferError::OutOfScope { key, scope, older: None } if key == "green/a" && scope == "blue")
    );
    let out = |error: &RelistError| matches!(error, RelistError::OutOfScope { key, .. } if key == "green/a");
    assert!(out(&of_blue.keep("green/a").unwrap_err()));
    assert!(out(&of_blue.probe(&[("green/a", "1")]).unwrap_err()));
    assert!(
        matches!(of_blue.delete(object("green", "a", 1)), Err(StoreError::Relist(error)) if out(&error))
    );
    of_blue.commit("2").unwrap();
    of_green.keep("green/b").unwrap();
    assert_eq!(of_green.commit("3").unwrap().deleted, 1, "nothing has stamped green/a");
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a"]);
}

#[test]
fn overlapping_scopes_and_relists_of_the_whole_queue_are_refused() {
    let fifo = fused();
    let whole = fifo.begin_replace();
    let namespace = || KeyScope::namespace("blue");
    assert!(matches!(fifo.add_scope(namespace()), Err(ScopeError::RelistOpen { .. })));
    drop(whole);
    let blue = fifo.add_scope(namespace()).unwrap();
    assert!(matches!(fifo.add_scope(namespace()), Err(ScopeError::Overlaps { .. })));
    assert!(matches!(fifo.replace(vec![object("blue", "a", 1)], "1"), Err(RelistError::HasScopes)));
    let mut whole = fifo.begin_replace();
    assert!(matches!(whole.offer(vec![object("blue", "a", 1)]), Err(RelistError::HasScopes)));
    assert!(matches!(whole.commit("1"), Err(RelistError::HasScopes)));
    assert!(!fifo.has_synced());
    list(&fifo, &blue, &[object("blue", "a", 1)], "1");
    drain(&fifo);
    let overlapping = KeyScope::keys("names of a", |key| key.ends_with("/a"));
    assert!(
        matches!(fifo.add_scope(overlapping), Err(ScopeError::CommonKey { key, .. }) if key == "blue/a")
    );
    fifo.remove_scope(&blue).unwrap();
    // Without scopes, the whole queue can be relisted again.
    fifo.replace(vec![object("red", "a", 3)], "3").unwrap();
    drain(&fifo);
    assert_eq!(stored(&fifo), ["red/a"]);
}

#[test]
fn key_that_comes_later_and_lies_in_two_scopes_belongs_to_the_older_one() {
    for newer_is_a_namespace in [false, true] {
        let fifo = fused();
        let of_a = KeyScope::keys("names of a", |key| key.ends_with("/a"));
        let namespace = KeyScope::namespace("blue");
        let scopes = if newer_is_a_namespace { [of_a, namespace] } else { [namespace, of_a] };
        // Beside the open relist of the older one, which keeps its keys.
        let [first, second] = scopes;
        let older = fifo.add_scope(first).unwrap();
        let mut relist = fifo.begin_replace_in(&older);
        let newer = fifo.add_scope(second).unwrap();
        relist.offer(vec![object("blue", "a", 1)]).unwrap();
        relist.commit("1").unwrap();

        // The newer one refuses the key, and neither lists nor deletes it.
        let mut relist = fifo.begin_replace_in(&newer);
        let refused = relist.offer(vec![object("blue", "a", 2)]).unwrap();
        let [Refused { index: 0, source }] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!(
            source.to_string(),
            format!(
                "key \"blue/a\" does not belong to scope {:?}, because the older scope {:?} contains \
                 it as well (change a predicate), so the object was not queued",
                newer.name(),
                older.name(),
            )
        );
        assert!(matches!(
            relist.keep("blue/a"),
            Err(RelistError::OutOfScope { older: Some(name), .. }) if name == older.name()
        ));
        assert_eq!(relist.commit("2").unwrap().deleted, 0);
        drain(&fifo);
        assert_eq!(stored(&fifo), ["blue/a"]);

        // The older one deletes it.
        assert_eq!(list(&fifo, &older, &[], "3"), 1);
        fifo.add(object("blue", "a", 4)).unwrap();
        assert_eq!(fifo.remove_scope(&older).unwrap().deleted, 1);
        drain(&fifo);
        assert_eq!(stored(&fifo), [""; 0]);

        // Without the older scope it belongs to the newer one.
        list(&fifo, &newer, &[object("blue", "a", 5)], "5");
        drain(&fifo);
        assert_eq!(stored(&fifo), ["blue/a"]);
        assert_eq!(list(&fifo, &newer, &[], "6"), 1);
    }
}

#[test]
fn deleted_key_with_a_stale_entry_in_the_backlog_does_not_refuse_a_scope() {
    let fifo = DeltaFifo::over(store()).live_lane(true).build();
    fifo.add(object("green", "a", 1)).unwrap();
    drain(&fifo);
    fifo.resync();
    // Leaves the backlog, whose entry keeps the slot.
    fifo.delete(object("green", "a", 2)).unwrap();
    fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    assert!(fifo.store().is_empty());
    fifo.add_scope(KeyScope::namespace("green")).unwrap();
    fifo.add_scope(KeyScope::keys("names of a", |key| key.ends_with("/a"))).unwrap();
}

#[test]
fn namespace_scope_requires_namespaced_keys() {
    let keys = KeyFunc::custom(Names, |object: &Object| Ok(object.name.to_owned()));
    let fifo = DeltaFifo::builder(keys).build();
    assert!(matches!(
        fifo.add_scope(KeyScope::namespace("blue")),
        Err(ScopeError::NeedsNames { .. })
    ));
}

#[test]
fn namespace_with_a_slash_in_its_name_is_refused() {
    let fifo = fused();
    fifo.add_scope(KeyScope::namespace("a")).unwrap();
    for name in ["a/b", "a/", "/a", "/"] {
        let refused = fifo.add_scope(KeyScope::namespace(name));
        assert!(matches!(&refused, Err(ScopeError::NotANamespace { scope }) if scope == name));
    }
    // A predicate names the keys of a part of a namespace, and is compared with the other scopes.
    fifo.add(object("a", "b/c", 1)).unwrap();
    let part = fifo.add_scope(KeyScope::keys("a/b", |key| key.starts_with("a/b/")));
    assert!(matches!(part, Err(ScopeError::CommonKey { .. })));
}
