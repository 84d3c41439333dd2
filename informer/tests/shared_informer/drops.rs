//! Objects whose drop panics, wherever an informer drops the last of one: in its store, in
//! buffers, with a handler.

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
async fn objects_whose_drop_panics_end_no_worker_and_no_handler() {
    let queues: [Queue; 2] = [|informer| informer.workers(2), |informer| informer.in_order()];
    for queue in queues {
        let before = broken();
        let server = server();
        server.apply(map("a", "0")).unwrap();
        let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = SharedInformer::with_keys(source, KeyFunc::meta_namespace(FragileMeta));
        // Lists that are abandoned by a panic follow each other at once.
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
        let is_calm = |told: &Notification<Fragile>| match told {
            Notification::Added { new, .. } | Notification::Updated { new, .. } => {
                new.data() == CALM
            }
            _ => false,
        };
        informer
            .add_event_handler(move |told: Notification<Fragile>| {
                on_thread.send(is_calm(&told)).unwrap();
            })
            .unwrap();
        let async_handler = move |told: Notification<Fragile>| {
            in_task.send(is_calm(&told)).unwrap();
            async move { drop(told) }
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
        for told in [&mut thread, &mut task] {
            let mut calm = 0;
            while calm < 3 {
                calm += usize::from(told.recv().await.expect("the handler goes on"));
            }
        }
        unread[0].registration().remove().await;
        drop(unread);
        informer.stop().await;
        running.await.unwrap().unwrap();
        drop(informer);
        let broken = broken() - before;
        assert!(broken > 3, "{broken}: the test is about those that do");
    }
}
