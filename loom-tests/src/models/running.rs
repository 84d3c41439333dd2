//! Models of delete, replace and resync against a running handler: each takes effect as if it had
//! been called just after the handler ended.

use deltafifo::DeltaFifo;
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Access, Fifo, Log, Object, end, fused, pop_and_show, rest, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "running::delete_while_it_adds",
        bound: None,
        at_least: 28,
        outcomes: &["[+a1] [-a1], stored: "],
        body: delete_while_it_adds,
    },
    Model {
        name: "running::delete_while_it_deletes",
        bound: None,
        at_least: 16,
        outcomes: &["[-a1], stored: "],
        body: delete_while_it_deletes,
    },
    Model {
        name: "running::delete_and_update",
        bound: Some(5), // 14 s
        at_least: 43_900,
        outcomes: &["[-a1] [~a2 -a1], stored: ", "[-a1] [~a2], stored: a2"],
        body: delete_and_update,
    },
    Model {
        name: "running::replace_while_it_adds",
        bound: None,
        at_least: 28,
        outcomes: &["[+a1] [-a1], stored: "],
        body: replace_while_it_adds,
    },
    Model {
        name: "running::replace_while_it_deletes",
        bound: None,
        at_least: 5,
        outcomes: &["[-a1], stored: "],
        body: replace_while_it_deletes,
    },
    Model {
        name: "running::listed_while_it_adds",
        bound: None,
        at_least: 28,
        outcomes: &["[+a1] [=a2], stored: a2"],
        body: listed_while_it_adds,
    },
    Model {
        name: "running::listed_while_it_deletes",
        bound: None,
        at_least: 6,
        outcomes: &["[-a1] [=a2], stored: a2"],
        body: listed_while_it_deletes,
    },
    Model {
        name: "running::resync_while_it_adds",
        bound: None,
        at_least: 28,
        outcomes: &["[+a1] [:a1], stored: a1"],
        body: resync_while_it_adds,
    },
    Model {
        name: "running::resync_while_it_deletes",
        bound: None,
        at_least: 4,
        outcomes: &["[-a1], stored: "],
        body: resync_while_it_deletes,
    },
    Model {
        name: "running::delete_with_a_batch_and_a_consumer",
        bound: Some(3), // 22 s
        at_least: 66_800,
        outcomes: &[
            ", [-a1 ~a2], stored: a2",
            ", [~a2 -a1], stored: ",
            "[-a1 ~a2], , stored: a2",
            "[-a1], [~a2], stored: a2",
            "[~a2 -a1], , stored: ",
            "[~a2], [-a1], stored: ",
        ],
        body: delete_with_a_batch_and_a_consumer,
    },
];

/// Calls `others`, each on a thread of its own, while a handler of `a` is about to add `a`, or, if
/// `adds` is false, to delete it.
fn while_it(adds: bool, others: &[fn(&Fifo)]) -> String {
    let log = Log::default();
    let fifo = if adds { fused(&[]) } else { fused(&[Object::new("a", 1)]) };
    if adds {
        fifo.add(Object::new("a", 1)).unwrap();
    } else {
        fifo.delete(Object::new("a", 1)).unwrap();
    }
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    let others: Vec<_> = others.iter().map(|other| spawn_with(&fifo, *other)).collect();
    end(item, true);
    others.into_iter().for_each(|other| other.join().unwrap());
    rest(&fifo, &log)
}

fn delete(fifo: &DeltaFifo<Object, Access>) {
    fifo.delete(Object::new("a", 1)).unwrap();
}

fn update(fifo: &Fifo) {
    fifo.update(Object::new("a", 2)).unwrap();
}

fn replace(fifo: &Fifo) {
    fifo.replace(Vec::<Arc<Object>>::new(), "1").unwrap();
}

fn list(fifo: &Fifo) {
    fifo.replace(vec![Object::new("a", 2)], "1").unwrap();
}

fn delete_while_it_adds() -> String {
    while_it(true, &[delete])
}

/// Deletes a key while a batch of offers pushes it and a consumer handles it. The deletion holds a
/// lock that excludes other offers, but not the push of a batch. The known object of an idle slot
/// must not disappear during the deletion's push.
fn delete_with_a_batch_and_a_consumer() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let batch = spawn_with(&fifo, |fifo| fifo.update_batch(vec![Object::new("a", 2)]).unwrap());
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    delete(&fifo);
    batch.join().unwrap();
    let first = consumer.join().unwrap();
    format!("{first}, {}", rest(&fifo, &log))
}

fn delete_while_it_deletes() -> String {
    while_it(false, &[delete])
}

fn delete_and_update() -> String {
    while_it(false, &[delete, update])
}

fn replace_while_it_adds() -> String {
    while_it(true, &[replace])
}

fn replace_while_it_deletes() -> String {
    while_it(false, &[replace])
}

fn listed_while_it_adds() -> String {
    while_it(true, &[list])
}

fn listed_while_it_deletes() -> String {
    while_it(false, &[list])
}

fn resync_while_it_adds() -> String {
    while_it(true, &[Fifo::resync])
}

fn resync_while_it_deletes() -> String {
    while_it(false, &[Fifo::resync])
}
