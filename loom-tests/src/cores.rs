//! Runs copies of this program in child processes, as many at a time as there are cores.

use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// Calls `work` with each of `items`. Starts the calls in order, on as many threads as there are
/// cores.
pub fn on_every_core<I: Send>(items: impl Iterator<Item = I> + Send, work: impl Fn(I) + Sync) {
    let waiting = Mutex::new(items);
    let next = || waiting.lock().unwrap().next();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

/// Returns a command that runs this program again.
pub fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("the path of this program"))
}
