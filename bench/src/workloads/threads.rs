//! The threads of a measurement.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Starts all producers and consumers at the same moment, and calls `close` when the producers
/// have ended. Returns the time until the last consumer has ended, the results of the producers,
/// and those of the consumers.
pub(super) fn run_threads<P: Send, C: Send>(
    producers: impl ExactSizeIterator<Item = impl FnOnce() -> P + Send>,
    consumers: impl ExactSizeIterator<Item = impl FnOnce() -> C + Send>,
    close: impl FnOnce(),
) -> (Duration, Vec<P>, Vec<C>) {
    let barrier = &Barrier::new(producers.len() + consumers.len() + 1);
    thread::scope(|scope| {
        let consume = |consumer: _| scope.spawn(move || start(barrier, consumer));
        let consumers: Vec<_> = consumers.map(consume).collect();
        let produce = |producer: _| scope.spawn(move || start(barrier, producer));
        let producers: Vec<_> = producers.map(produce).collect();
        // Read before the threads start: once they run, this thread may not be scheduled for a
        // while.
        let began = Instant::now();
        barrier.wait();
        let produced = producers.into_iter().map(|thread| unwrap_join(thread.join())).collect();
        close();
        let consumed = consumers.into_iter().map(|thread| unwrap_join(thread.join())).collect();
        (began.elapsed(), produced, consumed)
    })
}

fn start<R>(barrier: &Barrier, work: impl FnOnce() -> R) -> R {
    barrier.wait();
    work()
}

/// Returns the result of a thread. If the thread panicked, resumes its panic.
pub(super) fn unwrap_join<R>(joined: thread::Result<R>) -> R {
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
