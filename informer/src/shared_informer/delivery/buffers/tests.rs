//! Tests that compare each buffer with a simple model, a list that is searched from end to end.

use std::collections::VecDeque;
use std::sync::Arc;

use deltafifo::DeltaObject;
use deltafifo::room::LEAST_ROOM;
use proptest::prelude::*;
use tokio::time::{Duration, Instant};

use super::super::notification::Cause;
use super::super::step::{CurrentState, Step};
use super::queue::ChunkedQueue;
use super::steps::{Steps, TABLES};
use super::{Compress, Log, StepBuffer};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Pushes a step. The fields are its key, whether the key is stored (or deleted), the cause,
    /// whether the step is initial, and whether it is from a walk.
    Push(u8, bool, Cause, bool, bool),
    Pop,
}

fn op() -> impl Strategy<Value = Op> {
    let cause = prop_oneof![Just(Cause::Watch), Just(Cause::Relist), Just(Cause::Resync)];
    let push = (0..5_u8, any::<bool>(), cause, any::<bool>(), any::<bool>());
    prop_oneof![
        4 => push.prop_map(|(key, stored, cause, initial, walked)| Op::Push(key, stored, cause, initial, walked)),
        1 => Just(Op::Pop),
    ]
}

/// A step in a comparable form.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    key: String,
    delivered: Option<u32>,
    now: Option<u32>,
    cause: Cause,
    initial: bool,
    walked: bool,
    since: Instant,
}

impl Plain {
    fn of(step: &Step<u32>) -> Self {
        let now = match &step.now {
            CurrentState::Stored(now) => Some(**now),
            CurrentState::Gone(_) => None,
        };
        let (key, delivered) = (step.key.to_string(), step.delivered.as_deref().copied());
        let Step { cause, is_in_initial_list: initial, is_walked: walked, since, .. } = *step;
        Self { key, delivered, now, cause, initial, walked, since }
    }

    fn step(&self) -> Step<u32> {
        let gone = || CurrentState::Gone(DeltaObject::Object(Arc::new(0)));
        Step {
            key: self.key.as_str().into(),
            delivered: self.delivered.map(Arc::new),
            now: self.now.map_or_else(gone, |now| CurrentState::Stored(Arc::new(now))),
            cause: self.cause,
            is_in_initial_list: self.initial,
            is_walked: self.walked,
            since: self.since,
        }
    }
}

/// Applies the documented rules of compression. The resulting step has the old state of the first
/// step and the new state of the last. Its cause is the last one that is not a resync, if there is
/// one. It is initial if any of the steps is.
fn compress(waiting: &mut Vec<Plain>, step: Plain) {
    match waiting.iter_mut().find(|one| one.key == step.key) {
        Some(one) => {
            one.now = step.now;
            if step.cause != Cause::Resync {
                one.cause = step.cause;
            }
            one.initial |= step.initial;
        }
        None => waiting.push(step),
    }
    waiting.retain(|one| one.delivered.is_some() || one.now.is_some());
}

fn follows(mut buffer: impl StepBuffer<u32>, push: impl Fn(&mut Vec<Plain>, Plain), ops: Vec<Op>) {
    let (mut waiting, mut stored) = (Vec::<Plain>::new(), [None; 5]);
    let began = Instant::now();
    for (number, op) in (1..).zip(ops) {
        match op {
            Op::Push(key, is_stored, cause, initial, walked) => {
                let now = is_stored.then_some(number);
                let delivered = std::mem::replace(&mut stored[usize::from(key)], now);
                let since = began + Duration::from_secs(number.into());
                let step =
                    Plain { key: key.to_string(), delivered, now, cause, initial, walked, since };
                drop(buffer.push(step.step()));
                push(&mut waiting, step);
            }
            Op::Pop => {
                let popped = buffer.pop().map(|step| Plain::of(&step));
                let expected = (!waiting.is_empty()).then(|| waiting.remove(0));
                assert_eq!(popped, expected);
            }
        }
        assert_eq!(buffer.len(), waiting.len());
        assert_eq!(buffer.initial(), waiting.iter().filter(|one| one.initial).count());
        assert_eq!(buffer.oldest(), waiting.first().map(|one| one.since));
    }
    while let Some(step) = buffer.pop() {
        assert_eq!(Plain::of(&step), waiting.remove(0));
    }
    assert!(waiting.is_empty());
}

proptest! {
    #[test]
    fn compressing_buffer_has_the_delivered_and_the_current_state_of_each_key(ops in prop::collection::vec(op(), 0..60)) {
        follows(Compress::new(), compress, ops);
    }

    #[test]
    fn log_buffer_has_everything_in_order(ops in prop::collection::vec(op(), 0..60)) {
        follows(Log::new(), Vec::push, ops);
    }
}

proptest! {
    #[test]
    fn queue_is_in_order_over_all_its_chunks(ops in prop::collection::vec((any::<bool>(), 1..700_usize), 0..20)) {
        let (mut queue, mut expected, mut next) = (ChunkedQueue::new(), VecDeque::new(), 0);
        for (pushes, many) in ops {
            for item in next..next + many {
                if pushes {
                    queue.push_back(item);
                    expected.push_back(item);
                } else {
                    assert_eq!(queue.pop_front(), expected.pop_front());
                }
            }
            next += many;
            assert_eq!(queue.len(), expected.len());
            assert!(queue.iter().eq(&expected));
        }
    }
}

#[test]
fn delivered_steps_keep_no_memory() {
    let (mut steps, since) = (Steps::new(), Instant::now());
    for number in 0..100_000 {
        steps.push(
            Plain {
                key: format!("key-{number}"),
                delivered: None,
                now: Some(number),
                cause: Cause::Watch,
                initial: false,
                walked: false,
                since,
            }
            .step(),
        );
    }
    while let Some(first) = steps.first() {
        steps.remove(first);
    }
    let (entries, keys) = steps.capacity();
    assert!(entries <= 512, "{entries}");
    assert!(keys <= 2 * TABLES * LEAST_ROOM, "{keys}");
}
