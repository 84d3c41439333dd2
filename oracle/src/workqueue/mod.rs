//! Compares the work queue of `deltafifo-informer` with a plain one, on one thread with a paused
//! clock. Getters sleep and are dropped, and items end in every way.
//!
//! | file | contents |
//! | --- | --- |
//! | `model` | the plain queue |
//! | `op` | operations on a few keys |
//! | `wake` | futures that are polled by hand |

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
pub use op::{AddArgs, Ending, Op};
pub use wake::{Sleeper, poll};

/// Builds a queue, applies `ops` to the queue and to the model, and calls `compare` with the model
/// after each operation.
///
/// # Panics
/// Panics if the two differ.
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
        in_work: Vec::new(),
        getters: Vec::new(),
        drains: Vec::new(),
    };
    // In the end every delayed add becomes due.
    for op in ops.iter().copied().chain([Op::Pass(10)]) {
        both.step(op).await;
        both.compare();
        compare(&both.model);
    }
    both.finish();
}

/// A sleeping future. It is boxed, so that one list can hold different futures.
type Waits<'q, R> = Sleeper<Pin<Box<dyn Future<Output = R> + 'q>>>;

struct Both<'q> {
    queue: &'q WorkQueue<u8>,
    model: Model,
    in_work: Vec<Item<u8>>,
    getters: Vec<Waits<'q, Option<Item<u8>>>>,
    drains: Vec<Waits<'q, ()>>,
}

/// Polls a future until it ends or sleeps. tokio's cooperative budget, which could make the future
/// yield, is off.
fn waits<'q, R>(future: impl Future<Output = R> + 'q) -> Result<Waits<'q, R>, R> {
    Sleeper::or_output(Box::pin(unconstrained(future)))
}

impl Both<'_> {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Add(args) => self.add(args),
            Op::Take => {
                let item = self.queue.try_get();
                self.check_taken(item);
            }
            Op::Get => match waits(self.queue.get()) {
                Ok(getter) => {
                    assert!(
                        self.model.len() == 0 && !self.model.is_shutting_down(),
                        "the getter sleeps although a key can be taken"
                    );
                    self.getters.push(getter);
                }
                Err(output) => self.check_got(output),
            },
            Op::Poll(which) if !self.getters.is_empty() => {
                self.poll_getter(usize::from(which) % self.getters.len());
            }
            Op::DropGetter(which) if !self.getters.is_empty() => {
                drop(self.getters.swap_remove(usize::from(which) % self.getters.len()));
            }
            Op::End(which, ending) if !self.in_work.is_empty() => {
                let item = self.in_work.swap_remove(usize::from(which) % self.in_work.len());
                self.end(item, ending);
            }
            Op::Poll(_) | Op::DropGetter(_) | Op::End(..) => {}
            Op::Cycle(key, priority) => {
                self.add(AddArgs { key, priority, after: None, limited: false });
                let item = self.queue.try_get();
                if self.check_taken(item)
                    && let Some(item) = self.in_work.pop()
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
                // An extra millisecond lets the queue's timer task run. No operation is due in it.
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

    fn add(&mut self, args: AddArgs) {
        let AddArgs { key, priority, after, limited } = args;
        let mut options = AddOptions::new().priority(priority);
        if let Some(after) = after {
            options = options.after(Duration::from_secs(after));
        }
        if limited {
            options = options.rate_limited();
        }
        self.queue.add_with(key, options);
        self.model.add(args);
        assert_eq!(self.queue.num_requeues(&key), self.model.failures(key));
    }

    /// Compares a taken item with the model's. Returns whether there was one.
    fn check_taken(&mut self, item: Option<Item<u8>>) -> bool {
        let taken = self.model.take();
        assert_eq!(item.as_ref().map(|item| (*item.key(), item.priority())), taken);
        self.in_work.extend(item);
        taken.is_some()
    }

    /// Compares the result of a getter with the model's.
    fn check_got(&mut self, item: Option<Item<u8>>) {
        assert!(
            item.is_some() || self.model.is_shutting_down(),
            "the getter ended before the shutdown"
        );
        self.check_taken(item);
    }

    /// Polls a getter again. Checks that it ends only if it was woken, and that a woken getter does
    /// not sleep on while a key can be taken.
    fn poll_getter(&mut self, which: usize) {
        let is_woken = self.getters[which].is_woken();
        match self.getters[which].poll() {
            Some(output) => {
                assert!(is_woken, "the getter ended without a wake-up");
                drop(self.getters.swap_remove(which));
                self.check_got(output);
            }
            None => assert!(
                !is_woken || self.model.len() == 0 && !self.model.is_shutting_down(),
                "the getter sleeps although a key can be taken"
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
                    // `resume_unwind` skips the panic hook, which would end a fuzzer's run.
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
        // A woken getter that is dropped passes its wake-up on.
        let woken = self.getters.iter().filter(|getter| getter.is_woken()).count();
        let wanted = if model.is_shutting_down() { usize::MAX } else { model.len() };
        assert!(
            woken >= wanted.min(self.getters.len()),
            "{woken} of {} getters woken for {wanted}",
            self.getters.len()
        );
        let drains = model.is_draining();
        self.drains.retain_mut(|drain| {
            assert!(drains || drain.is_woken(), "the drain was not woken");
            assert_eq!(drain.is_woken() && drain.poll().is_some(), !drains);
            drains
        });
    }

    /// Ends all items and takes the remaining keys.
    fn finish(mut self) {
        for which in (0..self.getters.len()).rev() {
            self.poll_getter(which);
        }
        self.getters.clear();
        loop {
            while let Some(item) = self.in_work.pop() {
                self.end(item, Ending::Done);
                self.compare();
            }
            let item = self.queue.try_get();
            if !self.check_taken(item) {
                return assert!(self.drains.is_empty());
            }
        }
    }
}
