//! The work queue of `deltafifo-informer` beside a plain one: one thread, and a clock that stands
//! still. Getters sleep and are dropped, items end in every way.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `model` | the plain queue |
//! | `op` | operations on a few keys |
//! | `wake` | futures polled by hand |

mod model;
mod op;
mod wake;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use deltafifo_informer::workqueue::{
    AddOptions, Builder, Item, ItemExponentialFailureRateLimiter, WorkQueue,
};
use tokio::runtime;
use tokio::task::unconstrained;
use tokio::time::sleep;

pub use model::Model;
use model::{BASE, MOST};
pub use op::{Asked, Ending, Op};
pub use wake::{Sleeper, poll};

/// Builds a queue, does `ops` to it and to the model, and lets `compare` look at the model after
/// each.
///
/// # Panics
/// When the two differ.
pub fn run(builder: Builder<u8>, ops: &[Op], compare: impl FnMut(&Model)) {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread").block_on(run_in_time(builder, ops, compare));
}

async fn run_in_time(builder: Builder<u8>, ops: &[Op], mut compare: impl FnMut(&Model)) {
    let limiter = ItemExponentialFailureRateLimiter::new(BASE, MOST);
    let queue = builder.rate_limiter(limiter).build().expect("within a runtime");
    let mut both = Both {
        queue: &queue,
        model: Model::new(),
        in_hand: Vec::new(),
        getters: Vec::new(),
        drains: Vec::new(),
    };
    // Whatever was asked for comes in the end.
    for op in ops.iter().copied().chain([Op::Pass(10)]) {
        both.step(op).await;
        both.compare();
        compare(&both.model);
    }
    both.finish();
}

/// Futures of several kinds are in one list.
type Waits<'q, R> = Sleeper<Pin<Box<dyn Future<Output = R> + 'q>>>;

struct Both<'q> {
    queue: &'q WorkQueue<u8>,
    model: Model,
    in_hand: Vec<Item<u8>>,
    getters: Vec<Waits<'q, Option<Item<u8>>>>,
    drains: Vec<Waits<'q, ()>>,
}

/// Polls a future until it ends or sleeps, and that only if it has to: tokio makes its own sleep
/// to give others a turn.
fn waits<'q, R>(future: impl Future<Output = R> + 'q) -> Result<Waits<'q, R>, R> {
    Sleeper::or_output(Box::pin(unconstrained(future)))
}

impl Both<'_> {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Add(asked) => self.add(asked),
            Op::Take => {
                let item = self.queue.try_get();
                self.took(item);
            }
            Op::Get => match waits(self.queue.get()) {
                Ok(getter) => {
                    assert!(
                        self.model.len() == 0 && !self.model.is_shutting_down(),
                        "it sleeps, and there was something"
                    );
                    self.getters.push(getter);
                }
                Err(got) => self.got(got),
            },
            Op::Look(which) if !self.getters.is_empty() => {
                self.look(usize::from(which) % self.getters.len());
            }
            Op::Leave(which) if !self.getters.is_empty() => {
                drop(self.getters.swap_remove(usize::from(which) % self.getters.len()));
            }
            Op::End(which, ending) if !self.in_hand.is_empty() => {
                let item = self.in_hand.swap_remove(usize::from(which) % self.in_hand.len());
                self.end(item, ending);
            }
            Op::Look(_) | Op::Leave(_) | Op::End(..) => {}
            Op::Cycle(key, priority) => {
                self.add(Asked { key, priority, after: None, limited: false });
                let item = self.queue.try_get();
                if self.took(item)
                    && let Some(item) = self.in_hand.pop()
                {
                    self.end(item, Ending::Dropped);
                }
            }
            Op::Forget(key) => {
                self.queue.forget(&key);
                self.model.forget(key);
                assert_eq!(self.queue.num_requeues(&key), 0);
            }
            Op::Pass(secs) => {
                // A millisecond more is for the keeper: no time falls into it.
                let (time, more) = (Duration::from_secs(secs), Duration::from_millis(1));
                sleep(time).await;
                sleep(more).await;
                self.model.pass(time + more);
            }
            Op::ShutDown => {
                self.queue.shut_down();
                self.model.end(false);
            }
            Op::Drain => {
                let drain = waits(self.queue.shut_down_with_drain());
                self.model.end(true);
                assert_eq!(drain.is_ok(), self.model.is_draining());
                self.drains.extend(drain);
            }
        }
    }

    fn add(&mut self, asked: Asked) {
        let Asked { key, priority, after, limited } = asked;
        let mut options = AddOptions::new().priority(priority);
        if let Some(after) = after {
            options = options.after(Duration::from_secs(after));
        }
        if limited {
            options = options.rate_limited();
        }
        self.queue.add_with(key, options);
        self.model.add(asked);
        assert_eq!(self.queue.num_requeues(&key), self.model.failures(key));
    }

    /// What was taken, or that there was nothing; whether there was something.
    fn took(&mut self, item: Option<Item<u8>>) -> bool {
        let taken = self.model.take();
        assert_eq!(item.as_ref().map(|item| (*item.key(), item.priority())), taken);
        self.in_hand.extend(item);
        taken.is_some()
    }

    /// What a getter ended with.
    fn got(&mut self, item: Option<Item<u8>>) {
        assert!(
            item.is_some() || self.model.is_shutting_down(),
            "told of an end that has not come"
        );
        self.took(item);
    }

    /// A getter looks again: only if it was woken, and then it does not sleep while there is
    /// something.
    fn look(&mut self, which: usize) {
        let is_woken = self.getters[which].is_woken();
        match self.getters[which].poll() {
            Some(got) => {
                assert!(is_woken, "it had no reason to look");
                drop(self.getters.swap_remove(which));
                self.got(got);
            }
            None => assert!(
                !is_woken || self.model.len() == 0 && !self.model.is_shutting_down(),
                "it sleeps on"
            ),
        }
    }

    fn end(&mut self, item: Item<u8>, ending: Ending) {
        self.model.done(*item.key());
        match ending {
            Ending::Done => item.done(),
            Ending::Dropped => drop(item),
            Ending::Panicked => {
                let reconcile = || -> bool {
                    let _item = item;
                    // Without the hook, which ends a fuzzer's run.
                    resume_unwind(Box::new("expected by this test"))
                };
                assert!(catch_unwind(AssertUnwindSafe(reconcile)).is_err());
            }
        }
    }

    fn compare(&mut self) {
        let (queue, model) = (self.queue, &self.model);
        assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.len() == 0));
        assert_eq!(queue.is_shutting_down(), model.is_shutting_down());
        // Whoever is woken and goes away hands that on.
        let woken = self.getters.iter().filter(|getter| getter.is_woken()).count();
        let wanted = if model.is_shutting_down() { usize::MAX } else { model.len() };
        assert!(
            woken >= wanted.min(self.getters.len()),
            "{woken} of {} getters woken for {wanted}",
            self.getters.len()
        );
        let drains = model.is_draining();
        self.drains.retain_mut(|drain| {
            assert!(drains || drain.is_woken(), "nobody told it of the end");
            assert_eq!(drain.is_woken() && drain.poll().is_some(), !drains);
            drains
        });
    }

    /// Ends what is in hand and takes what is left.
    fn finish(mut self) {
        for which in (0..self.getters.len()).rev() {
            self.look(which);
        }
        self.getters.clear();
        loop {
            while let Some(item) = self.in_hand.pop() {
                self.end(item, Ending::Done);
                self.compare();
            }
            let item = self.queue.try_get();
            if !self.took(item) {
                return assert!(self.drains.is_empty());
            }
        }
    }
}
