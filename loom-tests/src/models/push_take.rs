//! Models of push against take: no delta is lost or handed out twice, and the deltas of one
//! producer keep their order.

use crate::explore::Model;
use crate::rig::{Log, Object, bare, drain, pop_and_show, pop_one, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "push_take::one_producer",
        bound: None,
        at_least: 13_910,
        outcomes: &["[+a1 ~a2]", "[+a1] [~a2]"],
        body: one_producer,
    },
    Model {
        name: "push_take::two_producers",
        bound: Some(3), // 17 s
        at_least: 58_900,
        outcomes: &[
            ", [+a1 +a2]",
            ", [+a2 +a1]",
            "[+a1 +a2], ",
            "[+a1], [+a2]",
            "[+a2 +a1], ",
            "[+a2], [+a1]",
        ],
        body: two_producers,
    },
];

fn one_producer() -> String {
    let (fifo, log) = (bare(), Log::default());
    let producer = spawn_with(&fifo, |fifo| {
        fifo.add(Object::new("a", 1)).unwrap();
        fifo.update(Object::new("a", 2)).unwrap();
    });
    pop_one(&fifo, &log, false);
    producer.join().unwrap();
    drain(&fifo, &log, false);
    log.text()
}

fn two_producers() -> String {
    let (fifo, log) = (bare(), Log::default());
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, false));
    fifo.add(Object::new("a", 2)).unwrap();
    producer.join().unwrap();
    let first = consumer.join().unwrap();
    drain(&fifo, &log, false);
    format!("{first}, {}", log.text())
}
