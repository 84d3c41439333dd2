//! Tests of objects that panic when they are dropped, at each place where an informer drops the
//! last reference: in its store, in buffers, and with a handler.

use std::time::Duration;

use deltafifo::KeyFunc;
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{
    Buffer, HandlerOptions, Notification, SharedInformerBuilder,
};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{Resource, status};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;

use super::fragile::{CALM, Fragile, FragileMeta, broken};
use super::rig::{map, server};

type Queue =
    fn(SharedInformerBuilder<Fragile, FragileMeta>) -> SharedInformerBuilder<Fragile, FragileMeta>;

#[tokio::test]
async fn object_drop_panics_stop_no_worker_and_no_handler() {
    let queues: [Queue; 2] = [|informer| informer.workers(2), |informer| informer.in_order()];
    for queue in queues {
        let before = broken();
        let server = server();
        server.apply(map("a", "0")).unwrap();
        let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = SharedInformer::with_keys(source, KeyFunc::meta_namespace(FragileMeta));
        // A list that a panic abandons is retried without a delay.
        let soon = || Backoff::new(Duration::ZERO, Duration::ZERO, Duration::MAX);
        let informer =
            queue(informer).reflector(move |reflector| reflector.backoff(soon())).on_error(|_| ());
        let informer = informer.build().unwrap();
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run().await }
        });

        let (on_thread, mut thread) = mpsc::unbounded_channel();
        let (in_task, mut task) = mpsc::unbounded_channel();
        let is_calm = |received: &Notification<Fragile>| match received {
            Notification::Added { new, .. } | Notification::Updated { new, .. } => {
                new.data() == CALM
            }
            _ => false,
        };
        informer
            .add_event_handler(move |received: Notification<Fragile>| {
                on_thread.send(is_calm(&received)).unwrap();
            })
            .unwrap();
        let async_handler = move |received: Notification<Fragile>| {
            in_task.send(is_calm(&received)).unwrap();
            async move { drop(received) }
        };
        informer.add_async_handler(HandlerOptions::new(), async_handler).unwrap();
        let unread = [Buffer::Compress, Buffer::DropAndResync(2), Buffer::HoldBack(1_000)];
        let unread =
            unread.map(|buffer| informer.subscribe(HandlerOptions::new().buffer(buffer)).unwrap());
        informer.wait_for_sync().await.unwrap();

        for data in 1..30 {
            server.apply(map(["a", "b", "c"][data % 3], &data.to_string())).unwrap();
            if data % 10 == 0 {
                server.error_watches(status::expired("cut off by the test"));
                server.delete(&Resource::config_maps(), "shop", "a").unwrap();
                server.compact();
            }
        }
        for name in ["a", "b", "c"] {
            server.apply(map(name, CALM)).unwrap();
        }
        for received in [&mut thread, &mut task] {
            let mut calm = 0;
            while calm < 3 {
                calm += usize::from(received.recv().await.expect("the handler continues"));
            }
        }
        unread[0].registration().remove().await;
        drop(unread);
        informer.stop().await;
        running.await.unwrap().unwrap();
        drop(informer);
        let broken = broken() - before;
        assert!(broken > 3, "{broken}: too few drops panicked");
    }
}
