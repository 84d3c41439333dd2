//! Runs the steps of a relist on several threads.

use std::panic::resume_unwind;
use std::thread;

use super::DeltaFifo;
use super::join::PIECE;
use crate::Meta;
use crate::engine::sync::Mutex;

/// The smallest number of objects for which a page is joined, or a table swept, by more than one
/// thread. With fewer, starting a thread for each step takes longer than it saves.
const WORTH_THREADS: usize = 2 * PIECE;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Returns the number of threads for a step over this many objects, which are counted only if
    /// relists may use several threads.
    pub(super) fn threads_for(&self, objects: impl FnOnce() -> usize) -> usize {
        if self.relist_threads == 1 || objects() < WORTH_THREADS { 1 } else { self.relist_threads }
    }
}

/// Runs `work` on every item. Each item has a thread of its own, except the last, which the caller
/// processes. If a thread cannot be started, the caller does its work too. A panic is resumed in
/// the caller when all threads have ended.
pub(super) fn on_threads<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    if items.len() == 1 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let run = |item: &Mutex<Option<I>>| {
        let item = item.lock().take();
        item.map(work)
    };
    thread::scope(|scope| {
        let (mine, others) = items.split_last().unwrap_or_else(|| unreachable!("there are items"));
        let started: Vec<_> = others
            .iter()
            .map(|item| thread::Builder::new().spawn_scoped(scope, move || run(item)))
            .collect();
        let last = run(mine);
        let mut results = Vec::with_capacity(items.len());
        for (thread, item) in started.into_iter().zip(others) {
            match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => results.extend(result),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => results.extend(run(item)),
            }
        }
        results.extend(last);
        results
    })
}
