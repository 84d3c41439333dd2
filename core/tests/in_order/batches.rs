//! Tests of batches (their order, and the return of unhandled events to the queue) and of
//! `process` (handlers that fail or panic).

use std::panic::resume_unwind;

use crate::common::obj;
use crate::rig::{Fifo, apply, bare, delta_of, events, notified, over, show_turn, stored};
use deltafifo::{Closed, ProcessError};

fn with(fifo: Fifo, keys: &[&str]) -> Fifo {
    for (n, key) in (1..).zip(keys) {
        fifo.add(obj(key, n)).unwrap();
    }
    fifo
}

#[test]
fn unhandled_events_of_a_batch_return_to_the_front_in_order() {
    let fifo = with(over([]), &["a", "b", "c", "b", "d"]);
    let mut turn = fifo.pop_batch(9).unwrap();
    assert_eq!((turn.events().count(), apply(&mut turn)), (3, vec!["A+a1".to_owned()]));
    fifo.add(obj("e", 6)).unwrap();
    drop(turn);
    let turn = fifo.pop_batch(9).unwrap();
    assert_eq!(show_turn(&turn), ["b:A2", "c:A3"], "the remaining event stays queued");
    drop(turn);
    assert_eq!(notified(&fifo), ["A+b2", "A+c3", "A b2>4", "A+d5", "A+e6"]);
}

#[test]
fn batch_can_be_read_as_a_whole_and_passed() {
    let fifo = with(bare(), &["a", "b", "a"]);
    let turn = fifo.pop_batch(9).unwrap();
    let deltas: Vec<_> =
        turn.events().map(|event| delta_of(event).object.object().unwrap().n).collect();
    assert_eq!(deltas, [1, 2]);
    turn.done();
    assert_eq!(events(&fifo), ["a:A3"]);
}

#[test]
fn ended_turn_has_no_event_and_applies_nothing() {
    let fifo = with(over([]), &["a"]);
    let mut turn = fifo.pop().unwrap();
    apply(&mut turn);
    assert!(turn.event().is_none() && turn.events().next().is_none());
    turn.apply(|_, _| unreachable!()).unwrap();
    turn.advance();
    drop(turn);
    assert!(fifo.try_pop().is_none());
}

#[test]
fn failing_or_panicking_handler_affects_only_its_event() {
    let fifo = with(over([]), &["a", "b", "c", "d", "e", "f"]);
    let mut failures = Vec::new();
    for _ in 0..6 {
        let handled = fifo.process(|turn| {
            let key = turn.event().unwrap().key().unwrap().to_owned();
            match key.as_str() {
                // Fails before it is applied, and after.
                "b" => return Err("refused"),
                "d" => resume_unwind(Box::new("meant")),
                _ => {}
            }
            turn.apply(|key, _| {
                if key == "e" {
                    resume_unwind(Box::new("meant too"))
                }
            })
            .unwrap();
            if key == "c" { Err("late") } else { Ok(()) }
        });
        failures.extend(handled.err().map(|failure| match failure {
            ProcessError::Handler { key, error } => format!("{key} {error}"),
            ProcessError::Panicked { key, message } => format!("{key} panicked: {message}"),
            ProcessError::Closed(Closed) => unreachable!(),
        }));
    }
    assert_eq!(failures, ["b refused", "c late", "d panicked: meant", "e panicked: meant too"]);
    assert_eq!(stored(&fifo), ["a1", "c3", "e5", "f6"], "exactly the applied objects are stored");
    assert!(fifo.try_pop().is_none(), "no event is popped again");
    assert_eq!(fifo.pending(), 0);
}
