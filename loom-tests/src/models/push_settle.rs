//! Models of push against settle: a delta that arrives while the handler runs is handed out, and no
//! pop is empty.

use crate::explore::Model;
use crate::rig::{Log, Object, drain, end, fused, pop_one, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "push_settle::one_push",
        bound: None,
        at_least: 360,
        outcomes: &["[+a1] [~a2]"],
        body: one_push,
    },
    Model {
        name: "push_settle::two_pushes",
        bound: Some(6), // 22 s
        at_least: 90_700,
        outcomes: &["[+a1] [~a2 ~a3]", "[+a1] [~a2] [~a3]"],
        body: two_pushes,
    },
];

fn pushes(numbers: &'static [usize]) -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    let producer = spawn_with(&fifo, |fifo| {
        numbers.iter().for_each(|number| fifo.update(Object::new("a", *number)).unwrap())
    });
    end(item, true);
    pop_one(&fifo, &log, true);
    producer.join().unwrap();
    drain(&fifo, &log, true);
    log.text()
}

fn one_push() -> String {
    pushes(&[2])
}

fn two_pushes() -> String {
    pushes(&[2, 3])
}
