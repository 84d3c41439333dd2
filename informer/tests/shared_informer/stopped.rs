//! Tests that no part of an informer runs after it has stopped: no consumer, no decoder, and no
//! transformer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use deltafifo::Indexers;
use futures_util::FutureExt;
use tokio::sync::mpsc as tokio_mpsc;
use tokio::task::yield_now;

use super::rig::{Builder, Informer, QUEUES, Rig, map, server};

const OBJECTS: usize = 5;

/// A gate that blocks each call of user code until the test opens it, and counts the calls.
struct Gate {
    calls: AtomicUsize,
    begun: tokio_mpsc::UnboundedSender<()>,
    open: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    fn new() -> (Arc<Self>, tokio_mpsc::UnboundedReceiver<()>, mpsc::Sender<()>) {
        let ((begun, calls), (go, open)) = (tokio_mpsc::unbounded_channel(), mpsc::channel());
        (Arc::new(Self { calls: AtomicUsize::new(0), begun, open: Mutex::new(open) }), calls, go)
    }

    fn pass(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let _ = self.begun.send(());
        // An error means that the test no longer blocks the call.
        let _ = self.open.lock().unwrap().recv();
    }
}

/// Stops the informer while a call of user code is blocked, and asserts that the stop waits for
/// the call. If `is_dropped`, the future that runs the informer is dropped before the stop. The
/// drop of `go` ends the call.
async fn stops(rig: Rig, is_dropped: bool, go: mpsc::Sender<()>) -> Informer {
    let Rig { server: _server, informer, run } = rig;
    if is_dropped {
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        assert!(!informer.is_stopped(), "a call runs");
        assert!(informer.stop().now_or_never().is_none());
        drop(go);
        informer.stop().await;
    } else {
        let mut stopped = Box::pin(informer.stop());
        assert!(stopped.as_mut().now_or_never().is_none());
        // Lets all tasks run that do not wait for the blocked call. After that only this call
        // delays the stop.
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!informer.is_stopped() && !run.is_finished(), "a call runs");
        assert!(stopped.as_mut().now_or_never().is_none());
        drop(go);
        stopped.await;
        assert_eq!(run.await.unwrap(), Ok(()));
    }
    assert!(informer.is_stopped());
    informer
}

fn started(choose: impl FnOnce(Builder) -> Builder) -> Rig {
    let server = server();
    for name in 0..OBJECTS {
        server.apply(map(&name.to_string(), "1")).unwrap();
    }
    Rig::start(server, choose)
}

#[tokio::test]
async fn stop_waits_for_a_list_that_is_applied_in_order() {
    for is_dropped in [false, true] {
        let (gate, mut calls, go) = Gate::new();
        let passed = gate.clone();
        let index = move |_: &_| {
            passed.pass();
            Ok(Vec::new())
        };
        let rig = started(|informer| informer.in_order().index("slow", index));
        calls.recv().await.unwrap();
        let informer = stops(rig, is_dropped, go).await;
        assert_eq!(gate.calls.load(Ordering::SeqCst), OBJECTS);
        assert_eq!(informer.store().list().len(), OBJECTS);
    }
}

#[tokio::test]
async fn stop_waits_for_a_running_transform() {
    for queue in QUEUES {
        for (is_streamed, is_dropped) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let (gate, mut calls, go) = Gate::new();
            let passed = gate.clone();
            let transform = move |map| {
                passed.pass();
                Ok(map)
            };
            let rig = started(|informer| {
                queue(informer)
                    .reflector(move |reflector| reflector.watch_list(is_streamed))
                    .transform(transform)
            });
            calls.recv().await.unwrap();
            drop(stops(rig, is_dropped, go).await);
            assert_eq!(Arc::strong_count(&gate), 1, "nothing can call it");
        }
    }
}

/// Checks that the stop of an informer whose run was dropped waits for the call of an index
/// function. Dropping the run aborts the task of the worker, which still runs until its next await
/// point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_waits_for_workers_of_a_dropped_run() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        rig.informer.wait_for_sync().await.unwrap();
        let (gate, mut calls, go) = Gate::new();
        let passed = gate.clone();
        let index = move |_: &_| {
            passed.pass();
            Ok(Vec::new())
        };
        rig.informer.store().add_indexers(Indexers::new().index("slow", index)).unwrap();
        rig.apply("a", "1");
        calls.recv().await.unwrap();
        let informer = stops(rig, true, go).await;
        assert!(informer.store().get_by_key("shop/a").is_some());
    }
}
