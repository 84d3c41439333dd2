//! An informer is stopped while handlers are added and removed, on real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo_informer::shared_informer::{AddHandlerError, Buffer, HandlerOptions, Registration};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::rig::{Informer, MapNotification, QUEUES, builder, map, run, server};

const COMERS: u64 = 6;
/// The number of handlers that are added before the stop.
const BEFORE: usize = 200;
/// The largest number of handlers that one task has at a time.
const HERE: usize = 10;

#[derive(Default)]
struct Calls {
    is_stopped: AtomicBool,
    after: AtomicUsize,
}

impl Calls {
    fn note(&self) {
        // Relaxed: the informer itself orders the end of a stop after every call.
        if self.is_stopped.load(Ordering::Relaxed) {
            self.after.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Adds and removes handlers until the informer refuses. Returns the remaining ones.
async fn come_and_go(
    informer: Informer,
    seed: u64,
    calls: Arc<Calls>,
    came: mpsc::UnboundedSender<()>,
) -> Vec<Registration<ConfigMap>> {
    let (mut dice, mut here) = (fastrand::Rng::with_seed(seed), Vec::new());
    loop {
        let buffers = [Buffer::Compress, Buffer::HoldBack(3), Buffer::DropAndResync(3)];
        let options = HandlerOptions::new().buffer(buffers[dice.usize(..buffers.len())]);
        let calls = calls.clone();
        let added = if dice.bool() {
            informer.add_event_handler_with(options, move |_: MapNotification| calls.note())
        } else {
            informer.add_async_handler(options, move |_| {
                calls.note();
                yield_now()
            })
        };
        match added {
            Ok(handler) => here.push(handler),
            Err(AddHandlerError::Stopped) => return here,
            Err(other) => panic!("{other}"),
        }
        // Once the informer is being stopped, nobody counts any more.
        let _ = came.send(());
        if here.len() > HERE || dice.bool() {
            let gone = here.swap_remove(dice.usize(..here.len()));
            if dice.bool() { gone.remove().await } else { gone.detach() }
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
        let (came, mut arrivals) = mpsc::unbounded_channel();
        let comers: Vec<_> = (0..COMERS)
            .map(|seed| {
                tokio::spawn(come_and_go(informer.clone(), seed, calls.clone(), came.clone()))
            })
            .collect();
        for number in 0..BEFORE {
            server.apply(map(&(number % 50).to_string(), &number.to_string())).unwrap();
            arrivals.recv().await.expect("more are added");
        }
        informer.stop().await;
        calls.is_stopped.store(true, Ordering::Relaxed);
        assert!(informer.is_stopped());
        for comer in comers {
            for handler in comer.await.expect("no panic") {
                handler.ended().await;
                assert_eq!(handler.depth(), 0);
            }
        }
        running.await.expect("no panic").expect("the informer ran");
        assert_eq!(calls.after.load(Ordering::Relaxed), 0, "calls after the stop");
    }
}
