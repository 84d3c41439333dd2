//! Tests of futures that wait for an informer. Their wakers are user code, and a waker that panics
//! must not affect other waiters.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use deltafifo_informer::shared_informer::HandlerOptions;
use futures_util::StreamExt;

use super::rig::{QUEUES, Rig, builder, map, next, notes, run, server};

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("a waker"));
    }
}

macro_rules! waits_with_panicking_waker {
    ($for_it:expr) => {
        let mut waits = pin!($for_it);
        let waker = Waker::from(Arc::new(Panics));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    };
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_of_a_sync_wait_affects_no_handler() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let informer = queue(builder(&server)).build().unwrap();
        let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
        let of_stream = stream.registration().clone();
        let (note, mut received) = notes();
        let on_thread = informer.add_event_handler(note).unwrap();
        let in_task = informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
        waits_with_panicking_waker!(of_stream.wait_for_sync());
        waits_with_panicking_waker!(on_thread.wait_for_sync());
        waits_with_panicking_waker!(in_task.wait_for_sync());
        waits_with_panicking_waker!(informer.wait_for_sync());
        let rig = Rig { server, run: run(&informer), informer: informer.clone() };
        assert_eq!(next(&mut stream, 1).await, ["initial *a=1"]);
        received.next(1).await;
        in_task.wait_for_sync().await.unwrap();
        rig.server.wait_for_watchers(1).await;
        rig.apply("a", "2");
        assert_eq!(next(&mut stream, 1).await, ["watch a=1>2"]);
        assert_eq!(received.next(1).await, ["watch a=1>2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_of_a_stop_wait_does_not_block_shutdown() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        let in_task = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
        rig.informer.wait_for_sync().await.unwrap();
        let (registration, informer) = (stream.registration().clone(), rig.informer.clone());
        waits_with_panicking_waker!(registration.ended());
        waits_with_panicking_waker!(in_task.ended());
        waits_with_panicking_waker!(informer.stop());
        rig.informer.stop().await;
        assert!(rig.informer.is_stopped() && stream.next().await.is_none());
        rig.run.await.unwrap().unwrap();
    }
}
