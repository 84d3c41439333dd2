//! Models of a store that is written without a queue. A claim on the slot serialises the writers
//! of a key and holds no lock. Readers run at the same time, and so does the building of an index.

use deltafifo::{Indexer, Indexers, KeyFunc};
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Access, Object, PARITY, parity, show_all, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "alone::two_writers",
        bound: Some(3), // 4.6 s
        at_least: 24_000,
        outcomes: &["a2", "a3"],
        body: two_writers,
    },
    Model {
        name: "alone::write_and_delete",
        bound: Some(3), // 3.9 s
        at_least: 21_900,
        outcomes: &["", "a2"],
        body: write_and_delete,
    },
    Model {
        name: "alone::delete_and_add",
        bound: Some(4), // 0.4 s
        at_least: 3000,
        outcomes: &["", "a2"],
        body: delete_and_add,
    },
    Model {
        name: "alone::get_and_delete",
        bound: Some(4), // 3.4 s
        at_least: 27_000,
        outcomes: &["a1", "nothing"],
        body: get_and_delete,
    },
    Model {
        name: "alone::index_and_write",
        bound: Some(2), // 2.9 s; with 3, 80 s
        at_least: 7_200,
        outcomes: &["", "a1", "a2"],
        body: index_and_write,
    },
    Model {
        name: "alone::build_and_write",
        bound: Some(2), // 3.0 s
        at_least: 16_700,
        outcomes: &["a2"],
        body: build_and_write,
    },
    Model {
        name: "alone::build_and_add",
        bound: Some(3), // 0.7 s
        at_least: 3_100,
        outcomes: &["a1"],
        body: build_and_add,
    },
];

type Store = Indexer<Object, Access>;

fn parities(object: &Object) -> Vec<String> {
    vec![parity(object).to_owned()]
}

/// Creates a store that holds `objects`, with an index by parity.
fn holding(objects: &[Arc<Object>]) -> Arc<Store> {
    let store = Indexer::builder(KeyFunc::meta_namespace(Access));
    let store = store.index(PARITY, |object: &Object| Ok(parities(object))).build().unwrap();
    objects.iter().for_each(|object| store.add(object.clone()).unwrap());
    Arc::new(store)
}

fn add(number: usize) -> impl FnOnce(&Store) {
    move |store| store.add(Object::new("a", number)).unwrap()
}

fn delete(store: &Store) {
    store.delete(&*Object::new("a", 1)).unwrap();
}

/// Returns the stored objects. Checks that the index contains the same objects.
fn stored(store: &Store) -> String {
    let known = show_all(&store.list());
    assert_eq!(by_parity(store), known, "the index differs from the store");
    known
}

/// Returns the contents of the index. Checks that each object is under a value that it has.
fn by_parity(store: &Store) -> String {
    let mut found = Vec::new();
    for value in ["even", "odd"] {
        let objects = store.by_index(PARITY, value).unwrap();
        assert!(
            objects.iter().all(|object| parity(object) == value),
            "an object under a value that it does not have"
        );
        found.extend(objects);
    }
    show_all(&found)
}

/// Runs two writes at the same time. Each may find the slot claimed by the other.
fn both(
    store: &Arc<Store>,
    one: impl FnOnce(&Store) + Send + 'static,
    other: impl FnOnce(&Store),
) -> String {
    let thread = spawn_with(store, one);
    other(store);
    thread.join().unwrap();
    stored(store)
}

fn two_writers() -> String {
    both(&holding(&[Object::new("a", 1)]), add(2), add(3))
}

fn write_and_delete() -> String {
    both(&holding(&[Object::new("a", 1)]), add(2), delete)
}

/// Checks a deletion against an add of a new key: the deletion retires the new slot, or finds
/// none.
fn delete_and_add() -> String {
    both(&holding(&[]), delete, add(2))
}

fn get_and_delete() -> String {
    let store = holding(&[Object::new("a", 1)]);
    let reader = spawn_with(&store, |store| {
        store.get_by_key("a").map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
    });
    delete(&store);
    assert_eq!(stored(&store), "");
    reader.join().unwrap()
}

fn index_and_write() -> String {
    let store = holding(&[Object::new("a", 1)]);
    let reader = spawn_with(&store, by_parity);
    add(2)(&store);
    assert_eq!(stored(&store), "a2");
    reader.join().unwrap()
}

/// Builds an index while `write` runs. Checks that the index then has the stored objects, and
/// returns them.
fn build(store: &Arc<Store>, write: impl FnOnce(&Store) + Send + 'static) -> String {
    const LATER: &str = "later";
    let writer = spawn_with(store, write);
    store.add_indexers(Indexers::new().index(LATER, |object| Ok(parities(object)))).unwrap();
    writer.join().unwrap();
    let known = stored(store);
    let later: Vec<_> =
        ["even", "odd"].iter().flat_map(|value| store.by_index(LATER, value).unwrap()).collect();
    assert_eq!(show_all(&later), known, "the index differs from the store");
    known
}

fn build_and_write() -> String {
    build(&holding(&[Object::new("a", 1)]), add(2))
}

fn build_and_add() -> String {
    build(&holding(&[]), add(1))
}
