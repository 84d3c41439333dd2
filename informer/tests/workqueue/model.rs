//! The queue against a plain serial model of it, by property tests: one thread, and a clock that stands still.

use std::collections::BTreeMap;
use std::time::Duration;

use deltafifo_informer::workqueue::{AddOptions, Item};
use proptest::prelude::*;

use crate::common::pass;
use crate::recorder::Notes;

#[derive(Clone, Debug)]
enum Op {
    /// A key, its priority, and after how many seconds.
    Add(u8, i32, Option<u64>),
    Take,
    /// Of the items in hand, which.
    Done(usize),
    /// Adds and takes with nobody holding on: what makes turns.
    Cycle(u8, i32),
    /// So many seconds pass.
    Pass(u64),
    ShutDown,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..12_u8;
    let priority = -2..4_i32;
    prop_oneof![
        8 => (key.clone(), priority.clone(), prop_oneof![3 => Just(None), 2 => (0..5_u64).prop_map(Some)])
            .prop_map(|(key, priority, after)| Op::Add(key, priority, after)),
        4 => Just(Op::Take),
        4 => any::<usize>().prop_map(Op::Done),
        12 => (key, priority).prop_map(|(key, priority)| Op::Cycle(key, priority)),
        2 => (1..4_u64).prop_map(Op::Pass),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let open = proptest::collection::vec(op(), 0..150);
    let shut = proptest::collection::vec(op(), 0..20);
    (open, any::<bool>(), shut).prop_map(|(mut ops, shuts, shut)| {
        if shuts {
            ops.push(Op::ShutDown);
            ops.extend(shut);
        }
        ops
    })
}

#[derive(Default)]
struct State {
    priority: i32,
    dirty: bool,
    processing: bool,
    /// Until when, and which waiting it is.
    waits: Option<(Duration, u32)>,
    /// Since when it is in line, and since when with this priority.
    in_line: Option<(u32, u32)>,
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, State>,
    now: Duration,
    /// A number for everything whose order counts.
    number: u32,
    passed_over: u32,
    shut_down: bool,
    adds: u32,
    retries: u32,
}

impl Model {
    fn number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn add(&mut self, key: u8, priority: i32, after: Option<u64>) {
        if self.shut_down {
            return;
        }
        self.retries += u32::from(after.is_some());
        let number = self.number();
        let at = self.now + Duration::from_secs(after.unwrap_or_default());
        let state = self.keys.entry(key).or_default();
        if !state.dirty && state.waits.is_none() {
            state.priority = priority;
        } else if priority > state.priority {
            state.priority = priority;
            state.in_line = state.in_line.map(|(age, _)| (age, number));
        }
        if state.dirty {
            return;
        }
        if at > self.now {
            if state.waits.is_none_or(|(earlier, _)| earlier > at) {
                state.waits = Some((at, number));
            }
        } else {
            self.make_dirty(key);
        }
    }

    fn make_dirty(&mut self, key: u8) {
        self.adds += 1;
        let number = self.number();
        let state = self.keys.get_mut(&key).unwrap();
        state.waits = None;
        state.dirty = true;
        if !state.processing {
            state.in_line = Some((number, number));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut due: Vec<_> = self.keys.iter().filter_map(|(&key, state)| Some((state.waits?, key))).collect();
        due.retain(|((at, _), _)| *at <= self.now && !self.shut_down);
        due.sort_unstable();
        for (_, key) in due {
            self.make_dirty(key);
        }
    }

    fn take(&mut self) -> Option<(u8, i32)> {
        let line = || self.keys.iter().filter_map(|(&key, state)| Some((key, state.priority, state.in_line?)));
        let (oldest, ..) = line().min_by_key(|(_, _, (age, _))| *age)?;
        let (highest, ..) = line().min_by_key(|&(_, priority, (_, since))| (-priority, since))?;
        let key = if self.passed_over == 7 { oldest } else { highest };
        self.passed_over = if key == oldest { 0 } else { self.passed_over + 1 };
        let state = self.keys.get_mut(&key).unwrap();
        (state.dirty, state.processing, state.in_line) = (false, true, None);
        Some((key, state.priority))
    }

    fn done(&mut self, key: u8) {
        let number = self.number();
        let state = self.keys.get_mut(&key).unwrap();
        state.processing = false;
        state.in_line = state.dirty.then_some((number, number));
    }

    fn len(&self) -> usize {
        self.keys.values().filter(|state| state.in_line.is_some()).count()
    }

    fn depth(&self) -> usize {
        self.keys.values().filter(|state| state.dirty).count()
    }
}

fn describe(item: Option<&Item<u8>>) -> Option<(u8, i32)> {
    item.map(|item| (*item.key(), item.priority()))
}

async fn compare(ops: Vec<Op>) {
    let (notes, mut model) = (Notes::default(), Model::default());
    let queue = notes.queue("test");
    let mut in_hand: Vec<Item<u8>> = Vec::new();
    // Whatever was asked for comes in the end.
    let ending = [Op::Pass(10), Op::Take, Op::Take, Op::Take].into_iter();
    for op in ops.into_iter().chain(ending) {
        match op {
            Op::Add(key, priority, after) => {
                let options = AddOptions::new().priority(priority);
                queue.add_with(key, after.map_or(options, |after| options.after(Duration::from_secs(after))));
                model.add(key, priority, after);
            }
            Op::Take => {
                let item = queue.try_get();
                assert_eq!(describe(item.as_ref()), model.take());
                in_hand.extend(item);
            }
            Op::Done(which) if !in_hand.is_empty() => {
                let item = in_hand.swap_remove(which % in_hand.len());
                model.done(*item.key());
                item.done();
            }
            Op::Done(_) => {}
            Op::Cycle(key, priority) => {
                queue.add_with(key, AddOptions::new().priority(priority));
                model.add(key, priority, None);
                let item = queue.try_get();
                let taken = model.take();
                assert_eq!(describe(item.as_ref()), taken);
                drop(item);
                if let Some((key, _)) = taken {
                    model.done(key);
                }
            }
            Op::Pass(secs) => {
                // A millisecond more is for the keeper: no time falls into it.
                pass(Duration::from_secs(secs)).await;
                model.pass(Duration::from_secs(secs) + Duration::from_millis(1));
            }
            Op::ShutDown => {
                queue.shut_down();
                model.shut_down = true;
            }
        }
        assert_eq!(queue.len(), model.len());
        let told = notes.stand(&["depth", "adds_total", "retries_total"]);
        let depth = u32::try_from(model.depth()).unwrap();
        assert_eq!(told, [depth, model.adds, model.retries].map(f64::from));
    }
    for item in in_hand {
        model.done(*item.key());
        item.done();
    }
    while let Some((key, priority)) = model.take() {
        assert_eq!(describe(queue.try_get().as_ref()), Some((key, priority)));
        model.done(key);
    }
    assert!(queue.try_get().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(compare(ops));
    }
}
