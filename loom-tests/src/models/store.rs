//! Models of reads of a store against apply and delete: a reader never gets a freed object, and
//! never finds an object under an index value that the object does not have. It does not miss an
//! object that matches before and after an update.

use deltafifo::{DeltaFifo, Indexer, KeyFunc, NAMESPACE_INDEX};
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{self, Access, Fifo, Log, Object, PARITY, by_parity, fused, pop_one, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "store::get_and_update",
        bound: None,
        at_least: 34_820,
        outcomes: &["a1 then a2", "a2 then a2"],
        body: get_and_update,
    },
    Model {
        name: "store::get_and_delete",
        bound: Some(5), // 3.4 s
        at_least: 19_210,
        outcomes: &["a1 then nothing", "nothing then nothing"],
        body: get_and_delete,
    },
    Model {
        name: "store::list_and_delete",
        bound: Some(5), // 4.4 s
        at_least: 25_420,
        outcomes: &[" then ", "a1 then "],
        body: list_and_delete,
    },
    Model {
        name: "store::namespace_and_update",
        bound: None,
        at_least: 34_820,
        outcomes: &["a1 then a2", "a2 then a2"],
        body: namespace_and_update,
    },
    Model {
        name: "store::index_and_update",
        bound: Some(3), // 4.5 s; with 4, 68 s
        at_least: 11_000,
        outcomes: &[" then even", "even then even", "odd then even"],
        body: index_and_update,
    },
    Model {
        name: "store::index_and_delete",
        bound: Some(4), // 27 s on a busy machine
        at_least: 37_900,
        outcomes: &[" then ", "odd then "],
        body: index_and_delete,
    },
    Model {
        name: "store::index_of_either_value_and_update",
        bound: Some(3), // 4.7 s; with 4, 82 s
        at_least: 10_500,
        outcomes: &["a1 then a2", "a2 then a2"],
        body: index_of_either_value_and_update,
    },
    Model {
        name: "store::index_and_gain_of_a_value",
        bound: Some(4), // 24 s on a busy machine
        at_least: 28_600,
        outcomes: &[" then even", "even then even"],
        body: index_and_gain_of_a_value,
    },
    Model {
        name: "store::index_and_loss_of_a_value",
        bound: Some(4), // 47 s on a busy machine
        at_least: 101_000,
        outcomes: &[" then ", "even then "],
        body: index_and_loss_of_a_value,
    },
    Model {
        name: "store::index_of_two_threads",
        bound: Some(3), // 1.0 s
        at_least: 780,
        outcomes: &["0 then even", "1 then even"],
        body: index_of_two_threads,
    },
];

/// Calls `offer`, and then pops and applies the offered delta while `read` runs. The store already
/// holds an object `a`. Returns the result of `read`, and the result of another `read` at the end.
fn read_while(fifo: &Arc<Fifo>, offer: fn(&Fifo), read: fn(&Fifo) -> String) -> String {
    offer(fifo);
    let reader = spawn_with(&fifo, read);
    pop_one(fifo, &Log::default(), true);
    format!("{} then {}", reader.join().unwrap(), read(fifo))
}

fn update(fifo: &Fifo) {
    fifo.update(Object::new("a", 2)).unwrap();
}

fn delete(fifo: &Fifo) {
    fifo.delete(Object::new("a", 1)).unwrap();
}

fn get(fifo: &Fifo) -> String {
    fifo.store()
        .get_by_key("a")
        .map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
}

fn list(fifo: &Fifo) -> String {
    let objects: Vec<_> = fifo
        .store()
        .list()
        .iter()
        .map(|object| format!("{}{}", object.key, object.read()))
        .collect();
    objects.join(" ")
}

fn by_index(fifo: &Fifo) -> String {
    by_parity(fifo, PARITY)
}

fn indexed() -> Arc<Fifo> {
    let fifo = rig::indexed();
    fifo.add(Object::new("a", 1)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    fifo
}

fn get_and_update() -> String {
    read_while(&fused(&[Object::new("a", 1)]), update, get)
}

fn get_and_delete() -> String {
    read_while(&fused(&[Object::new("a", 1)]), delete, get)
}

fn list_and_delete() -> String {
    read_while(&fused(&[Object::new("a", 1)]), delete, list)
}

/// Reads by namespace while the object is updated. No lock synchronises the thread that creates
/// the new object with the reader that finds its slot; only the store's own cell does.
fn namespace_and_update() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    let reader = spawn_with(&fifo, |fifo| by_namespace(fifo));
    update(&fifo);
    pop_one(&fifo, &Log::default(), true);
    format!("{} then {}", reader.join().unwrap(), by_namespace(&fifo))
}

fn by_namespace(fifo: &Fifo) -> String {
    let found = fifo.store().by_index(NAMESPACE_INDEX, "").unwrap();
    found.iter().map(|object| format!("a{}", object.read())).collect()
}

fn index_and_update() -> String {
    read_while(&indexed(), update, by_index)
}

fn index_and_delete() -> String {
    read_while(&indexed(), delete, by_index)
}

/// Reads two values at once while an object moves from one to the other: it matches throughout.
fn index_of_either_value_and_update() -> String {
    let either = |object: &Object| {
        let of_probe = vec!["even".to_owned(), "odd".to_owned()];
        Ok(if object.number == 0 { of_probe } else { vec![rig::parity(object).to_owned()] })
    };
    let store = Indexer::builder(KeyFunc::meta_namespace(Access)).index(PARITY, either);
    let fifo = Arc::new(DeltaFifo::over(store.build().unwrap()).build());
    fifo.add(Object::new("a", 1)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    read_while(&fifo, update, |fifo| {
        rig::show_all(&fifo.store().index(PARITY, &Object::new("probe", 0)).unwrap())
    })
}

/// Creates a queue whose store holds the object `a` with this number. The store has an index of the
/// objects with an even number.
fn with_index_of_even(number: usize) -> Arc<Fifo> {
    let even = |object: &Object| {
        Ok(Some(rig::parity(object))
            .into_iter()
            .filter(|parity| *parity == "even")
            .map(str::to_owned)
            .collect())
    };
    let store = Indexer::builder(KeyFunc::meta_namespace(Access)).index(PARITY, even);
    let fifo = Arc::new(DeltaFifo::over(store.build().unwrap()).build());
    fifo.add(Object::new("a", number)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    fifo
}

/// Reads a value that an object gains. The writer has no value to remove, and so never waits for
/// the reader after it has put the new object into the slot.
fn index_and_gain_of_a_value() -> String {
    read_while(&with_index_of_even(1), update, by_index)
}

/// Reads a value that an object loses. The writer has no value to add, and so never waits for the
/// reader before it puts the new object into the slot.
fn index_and_loss_of_a_value() -> String {
    let update = |fifo: &Fifo| fifo.update(Object::new("a", 3)).unwrap();
    read_while(&with_index_of_even(2), update, by_index)
}

/// Reads an index value while another thread moves an object out of the value and into it again.
/// The number of the thread that adds an entry chooses the entry's shard, so the second entry is in
/// another shard than the first.
fn index_of_two_threads() -> String {
    let fifo = rig::indexed();
    fifo.add(Object::new("a", 2)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    fifo.update(Object::new("a", 3)).unwrap();
    fifo.update(Object::new("a", 4)).unwrap();
    let writer = spawn_with(&fifo, |fifo| pop_one(fifo, &Log::default(), true));
    let found = fifo.store().by_index(PARITY, "even").unwrap();
    assert!(
        found.iter().all(|object| rig::parity(object) == "even"),
        "an object under a value that it does not have"
    );
    writer.join().unwrap();
    format!("{} then {}", found.len(), by_index(&fifo))
}
