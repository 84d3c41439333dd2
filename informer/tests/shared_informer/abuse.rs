//! A test in which an informer is stopped while handlers are added and removed, on real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo_informer::shared_informer::{AddHandlerError, Buffer, HandlerOptions, Registration};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::rig::{Informer, MapNotification, QUEUES, builder, map, run, server};

/// The number of tasks that add and remove handlers.
const TASKS: u64 = 6;
/// The number of handlers that are added before the stop.
const ADDED_BEFORE_STOP: usize = 200;
/// The largest number of handlers that one task has at a time.
const MOST_PER_TASK: usize = 10;

/// A counter of the calls of handlers after the stop.
#[derive(Default)]
struct Calls {
    is_stopped: AtomicBool,
    after: AtomicUsize,
}

impl Calls {
    fn record(&self) {
        // Relaxed: the informer itself orders the end of a stop after every call.
        if self.is_stopped.load(Ordering::Relaxed) {
            self.after.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Adds and removes handlers until the informer refuses them. Returns the remaining handlers.
async fn add_and_remove(
    informer: Informer,
    seed: u64,
    calls: Arc<Calls>,
    added: mpsc::UnboundedSender<()>,
) -> Vec<Registration<ConfigMap>> {
    let (mut dice, mut handlers) = (fastrand::Rng::with_seed(seed), Vec::new());
    loop {
        let buffers = [Buffer::Compress, Buffer::HoldBack(3), Buffer::DropAndResync(3)];
        let options = HandlerOptions::new().buffer(buffers[dice.usize(..buffers.len())]);
        let calls = calls.clone();
        let registration = if dice.bool() {
            informer.add_event_handler_with(options, move |_: MapNotification| calls.record())
        } else {
            informer.add_async_handler(options, move |_| {
                calls.record();
                yield_now()
            })
        };
        match registration {
            Ok(handler) => handlers.push(handler),
            Err(AddHandlerError::Stopped) => return handlers,
            Err(other) => panic!("{other}"),
        }
        // It fails only if the test has already failed.
        let _ = added.send(());
        if handlers.len() > MOST_PER_TASK || dice.bool() {
            let removed = handlers.swap_remove(dice.usize(..handlers.len()));
            if dice.bool() { removed.remove().await } else { removed.detach() }
        }
        yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stop_ends_concurrently_added_handlers_and_no_call_follows() {
    for queue in QUEUES {
        let server = server();
        for name in 0..50 {
            server.apply(map(&name.to_string(), "0")).unwrap();
        }
        let informer = queue(builder(&server)).resync(Duration::from_secs(1)).build().unwrap();
        let (running, calls) = (run(&informer), Arc::new(Calls::default()));
        let (added, mut additions) = mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..TASKS)
            .map(|seed| {
                tokio::spawn(add_and_remove(informer.clone(), seed, calls.clone(), added.clone()))
            })
            .collect();
        for number in 0..ADDED_BEFORE_STOP {
            server.apply(map(&(number % 50).to_string(), &number.to_string())).unwrap();
            additions.recv().await.expect("more are added");
        }
        informer.stop().await;
        calls.is_stopped.store(true, Ordering::Relaxed);
        assert!(informer.is_stopped());
        for task in tasks {
            for handler in task.await.expect("no panic") {
                handler.ended().await;
                assert_eq!(handler.depth(), 0);
            }
        }
        running.await.expect("no panic").expect("the informer ran");
        assert_eq!(calls.after.load(Ordering::Relaxed), 0, "calls after the stop");
    }
}
