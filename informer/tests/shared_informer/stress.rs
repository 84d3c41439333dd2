//! A stress test with a fixed number of operations on real threads. Handlers of every kind are
//! added and removed, some of them slow or panicking, while several threads write, watches break
//! and lists follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Registration};
use deltafifo_testkit::status;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::oracle::Oracle;
use super::rig::{MapNotification, QUEUES, Rig, builder, map, run, server};

const WRITERS: u64 = 3;
const NAMES: u64 = 8;
const WRITES: u64 = 300;
const LISTS: usize = 6;
const TASKS: u64 = 4;
const EACH: usize = 25;

/// The data that a handler shares with the test.
struct Seen {
    oracle: Mutex<Oracle>,
    /// The first fault that was found, by the handler's oracle or because the handler was notified
    /// after its removal. The panics that the handler raises on purpose do not count.
    wrong: Mutex<Option<String>>,
    is_removed: AtomicBool,
    received: Notify,
}

impl Seen {
    fn note(&self, received: &MapNotification) {
        let mut oracle = self.oracle.lock();
        let noted =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| oracle.note(received)));
        if let Err(panic) = noted {
            let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            self.wrong.lock().get_or_insert(message);
        }
        // Relaxed: the removal of a handler is ordered after its last call.
        if self.is_removed.load(Ordering::Relaxed) {
            self.wrong.lock().get_or_insert("notified after its removal".to_owned());
        }
        drop(oracle);
        self.received.notify_one();
    }

    /// Waits until the handler knows exactly the objects `all`.
    async fn knows(&self, all: &BTreeMap<String, String>) {
        while self.oracle.lock().known != *all {
            self.received.notified().await;
        }
    }
}

struct Handler {
    registration: Registration<ConfigMap>,
    seen: Arc<Seen>,
}

fn add(rig: &Rig, dice: &mut fastrand::Rng) -> Handler {
    let seen = Arc::new(Seen {
        oracle: Mutex::default(),
        wrong: Mutex::default(),
        is_removed: AtomicBool::new(false),
        received: Notify::new(),
    });
    let buffer = match dice.u8(0..4) {
        0 => Buffer::HoldBack(dice.usize(1..20)),
        1 => Buffer::DropAndResync(dice.usize(1..20)),
        _ => Buffer::Compress,
    };
    let options = HandlerOptions::new().buffer(buffer);
    let (slowness, panics, note) = (dice.usize(0..50), dice.u8(0..4) == 0, seen.clone());
    let mut calls = 0;
    // Records a whole batch before the panic, because the panic would lose the rest of it.
    let mut call = move |batch: &[MapNotification]| {
        for received in batch {
            note.note(received);
        }
        calls += 1;
        assert!(!panics || calls % 7 != 0, "expected by this test");
    };
    let informer = &rig.informer;
    let registration = match dice.u8(0..3) {
        0 => informer.add_event_handler_with(options, move |received: MapNotification| {
            (0..slowness).for_each(|_| std::thread::yield_now());
            call(&[received]);
        }),
        1 => informer.add_batch_handler(options, 5, move |batch| call(&batch)),
        _ => {
            let call = Arc::new(Mutex::new(call));
            informer.add_async_handler(options, move |received| {
                let call = call.clone();
                async move {
                    for _ in 0..slowness {
                        tokio::task::yield_now().await;
                    }
                    (call.lock())(&[received]);
                }
            })
        }
    };
    Handler { registration: registration.unwrap(), seen }
}

/// Writes objects whose names no other writer uses. Returns the final objects.
async fn write(rig: Arc<Rig>, writer: u64) -> BTreeMap<String, String> {
    let mut dice = fastrand::Rng::with_seed(writer);
    let mut written = BTreeMap::new();
    for data in 0..WRITES {
        let name = format!("{writer}-{}", dice.u64(0..NAMES));
        if dice.u8(0..4) == 0 && written.remove(&name).is_some() {
            rig.delete(&name);
        } else {
            rig.apply(&name, &data.to_string());
            written.insert(name, data.to_string());
        }
        tokio::task::yield_now().await;
    }
    written
}

/// Returns a backoff without delays, because the test's clock is real.
fn without_delay() -> Backoff {
    Backoff::new(Duration::ZERO, Duration::ZERO, Duration::MAX)
}

/// Adds handlers and removes some of them. Returns the remaining handlers.
async fn add_and_remove(rig: Arc<Rig>, seed: u64) -> Vec<Handler> {
    let (mut dice, mut handlers) = (fastrand::Rng::with_seed(100 + seed), Vec::<Handler>::new());
    for _ in 0..EACH {
        handlers.push(add(&rig, &mut dice));
        for _ in 0..dice.usize(0..30) {
            tokio::task::yield_now().await;
        }
        // Sometimes removes a handler that was just added.
        if handlers.len() > 3 || dice.bool() {
            let removed = handlers.swap_remove(dice.usize(0..handlers.len()));
            removed.registration.remove().await;
            // Relaxed: as above.
            removed.seen.is_removed.store(true, Ordering::Relaxed);
            assert_eq!(removed.registration.depth(), 0);
            assert_eq!(*removed.seen.wrong.lock(), None);
        }
    }
    handlers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn remaining_handlers_know_the_final_state_under_concurrent_changes() {
    for queue in QUEUES {
        let server = server();
        for writer in 0..WRITERS {
            server.apply(map(&format!("{writer}-x"), "0")).unwrap();
        }
        let informer = queue(builder(&server))
            .workers(3)
            .reflector(|reflector| reflector.backoff(without_delay()))
            .on_error(|_| ());
        let informer = informer.build().unwrap();
        let rig = Arc::new(Rig { run: run(&informer), server, informer });
        let mut all: Vec<_> = vec![add(&rig, &mut fastrand::Rng::with_seed(0))];
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write(rig.clone(), writer))).collect();
        let tasks: Vec<_> =
            (0..TASKS).map(|seed| tokio::spawn(add_and_remove(rig.clone(), seed))).collect();
        for _ in 0..LISTS {
            rig.server.wait_for_watchers(1).await;
            rig.server.error_watches(status::expired("cut off by the test"));
            rig.server.compact();
        }
        let mut written: BTreeMap<_, _> =
            (0..WRITERS).map(|writer| (format!("{writer}-x"), "0".to_owned())).collect();
        for writer in writers {
            written.extend(writer.await.unwrap());
        }
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        for handler in &all {
            handler.seen.knows(&written).await;
            handler.registration.wait_for_sync().await.unwrap();
            assert_eq!(*handler.seen.wrong.lock(), None);
        }
        rig.informer.stop().await;
        for handler in all {
            assert_eq!(handler.registration.depth(), 0);
            assert_eq!(*handler.seen.wrong.lock(), None);
        }
    }
}
