//! Models of an index that is added while a consumer applies a change. A consumer that planned its
//! change with the previous list of indexes detects the new list. Readers find no object under a
//! value that the object does not have.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc as StdArc, Mutex, OnceLock, Weak};

use deltafifo::{DeltaFifo, Indexer, Indexers, KeyFunc};
use loom::sync::{Arc, mpsc};

use crate::explore::Model;
use crate::rig::{
    Access, Fifo, Log, Object, PARITY, by_parity, fused, indexed, parity, pop_one, spawn_with,
};

pub const MODELS: &[Model] = &[
    Model {
        name: "build::update",
        bound: Some(2), // 175 s on a busy machine
        at_least: 293_000,
        outcomes: &[" then even", "even then even", "odd then even"],
        body: update,
    },
    Model {
        name: "build::delete",
        bound: Some(1), // 3 s; with 2, more than 200 s on a busy machine
        at_least: 3_300,
        outcomes: &[" then ", "odd then "],
        body: delete,
    },
    Model {
        name: "build::add",
        bound: Some(3), // 9 s
        at_least: 40_000,
        outcomes: &[" then odd", "odd then odd"],
        body: add,
    },
    Model {
        name: "build::update_of_an_indexed",
        bound: Some(1), // 1 s; with 2, 33 s
        at_least: 3_000,
        outcomes: &[" then even", "even then even", "odd then even"],
        body: update_of_an_indexed,
    },
    Model {
        name: "build::update_within_a_value",
        bound: Some(2), // 0.3 s
        at_least: 380,
        outcomes: &["a"],
        body: update_within_a_value,
    },
    Model {
        name: "build::second_user",
        bound: Some(2), // 2 s
        at_least: 4_800,
        outcomes: &["odd, odd"],
        body: second_user,
    },
    Model {
        name: "build::function_fails_once",
        bound: None,
        at_least: 1,
        outcomes: &["[a], later: even, even before: 0"],
        body: function_fails_once,
    },
];

const LATER: &str = "later";

/// Pops and applies the offered key while an index is added. Returns the contents of the index
/// when it has just been added, and those at the end.
fn during_an_index(fifo: &Arc<Fifo>) -> String {
    let consumer = spawn_with(fifo, |fifo| pop_one(fifo, &Log::default(), true));
    fifo.store()
        .add_indexers(Indexers::new().index(LATER, |object| Ok(vec![parity(object).to_owned()])))
        .unwrap();
    let found = by_parity(fifo, LATER);
    consumer.join().unwrap();
    let known: String = fifo.store().list().iter().map(|object| parity(object)).collect();
    assert_eq!(by_parity(fifo, LATER), known, "the index differs from the store");
    format!("{found} then {known}")
}

fn update() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    during_an_index(&fifo)
}

/// Deletes an object while an index is added. Checks that the slot is freed together with the
/// object, so that no index keeps the slot at the end.
fn delete() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.delete(Object::new("a", 1)).unwrap();
    let seen = during_an_index(&fifo);
    assert_eq!(deltafifo::mutants::slots(&fifo), 0, "a slot is left");
    seen
}

fn add() -> String {
    let fifo = fused(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    during_an_index(&fifo)
}

/// Updates an object of a store that has an index already. The writer may plan the update with the
/// list of indexes from before the new one was added.
fn update_of_an_indexed() -> String {
    let fifo = indexed();
    fifo.add(Object::new("a", 1)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    fifo.update(Object::new("a", 2)).unwrap();
    let seen = during_an_index(&fifo);
    assert_eq!(by_parity(&fifo, PARITY), "even");
    seen
}

/// Updates an object that keeps its value in an index under construction. The writer, or the
/// builder, adds the object, and the other one finds it there.
///
/// The builder starts the writer when it has visited the slot, and waits until the writer has
/// called the function for the new object.
fn update_within_a_value() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    let writer = StdArc::new(Mutex::new(None));
    let (called, calls) = mpsc::channel();
    let (called, calls) = (Mutex::new(called), Mutex::new(calls));
    let key = {
        // The first call takes the queue, because the queue owns the function.
        let (queue, writer) = (Mutex::new(Some(fifo.clone())), writer.clone());
        move |object: &Object| {
            let first = queue.lock().unwrap().take();
            if let Some(fifo) = first {
                let write = |fifo: &Fifo| pop_one(fifo, &Log::default(), true);
                *writer.lock().unwrap() = Some(spawn_with(&fifo, write));
                calls.lock().unwrap().recv().unwrap();
            } else if object.number == 2 {
                called.lock().unwrap().send(()).unwrap();
            }
            Ok(vec![object.key.to_owned()])
        }
    };
    fifo.store().add_indexers(Indexers::new().index(LATER, key)).unwrap();
    let writer = writer.lock().unwrap().take();
    writer.unwrap().join().unwrap();
    fifo.store().index_keys(LATER, "a").unwrap().join(" ")
}

/// Adds the index of a label on two threads. One of them builds it, and the other one waits for
/// that build. Each finds the object when its call returns.
fn second_user() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    let add = |fifo: &Fifo| {
        fifo.store().add_indexers(Indexers::new().label(Access, LATER)).unwrap();
        by_parity(fifo, "label:later")
    };
    let other = spawn_with(&fifo, add);
    let found = add(&fifo);
    format!("{found}, {}", other.join().unwrap())
}

/// Checks a write whose old object an index function rejects once.
///
/// The write begins while an index is being built. The function adds another index, and then fails.
/// The new index makes the store refuse the write and plan it again, and now the function succeeds.
/// At this time no index must have an entry of the refused write.
fn function_fails_once() -> String {
    let (fails, queue) =
        (StdArc::new(AtomicBool::new(false)), StdArc::new(OnceLock::<Weak<Fifo>>::new()));
    let fifo_of = |queue: &OnceLock<Weak<Fifo>>| queue.get().unwrap().upgrade().unwrap();
    let by_parity_of =
        || Indexers::new().index(LATER, |object| Ok(vec![parity(object).to_owned()]));
    let even = StdArc::new(AtomicUsize::new(0));
    let name = {
        let (fails, queue, even) = (fails.clone(), queue.clone(), even.clone());
        move |object: &Object| {
            let fifo = queue.get().and_then(Weak::upgrade);
            if object.number == 1 && fails.swap(false, Ordering::Relaxed) {
                fifo.unwrap().store().add_indexers(by_parity_of())?;
                return Err("fails once".into());
            }
            if let Some(fifo) = fifo.filter(|_| object.number == 2) {
                even.fetch_add(fifo.store().by_index(PARITY, "even")?.len(), Ordering::Relaxed);
            }
            Ok(vec![object.key.to_owned()])
        }
    };
    let store = Indexer::builder(KeyFunc::meta_namespace(Access))
        .index("name", name)
        .index(PARITY, |object| Ok(vec![parity(object).to_owned()]))
        .build()
        .unwrap();
    let fifo = StdArc::new(DeltaFifo::over(store).build());
    queue.set(StdArc::downgrade(&fifo)).unwrap();
    fifo.add(Object::new("a", 1)).unwrap();
    pop_one(&fifo, &Log::default(), true);
    fifo.update(Object::new("a", 2)).unwrap();
    let slow = Indexers::new().index("slow", move |_: &Object| {
        if let Some(mut item) = fifo_of(&queue).try_pop() {
            fails.store(true, Ordering::Relaxed);
            item.apply(|_| ()).unwrap();
        }
        Ok(vec![])
    });
    fifo.store().add_indexers(slow).unwrap();
    format!(
        "[{}], later: {}, even before: {}",
        fifo.store().index_keys("name", "a").unwrap().join(" "),
        by_parity(&fifo, LATER),
        even.load(Ordering::Relaxed)
    )
}
