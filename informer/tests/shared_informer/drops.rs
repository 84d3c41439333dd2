//! Objects whose drop panics, wherever an informer drops the last of one: in its store, in buffers, with a handler.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::{KeyFunc, Meta};
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Notification, SharedInformerBuilder};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{Resource, status};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::rig::{map, server};

static GONE_OFF: AtomicUsize = AtomicUsize::new(0);

/// A config map that panics when it is dropped, unless it is calm.
#[derive(Debug, Deserialize)]
struct Bomb {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

impl Bomb {
    fn text(&self) -> String {
        format!("{}={}", self.metadata.name.as_deref().unwrap_or_default(), self.data["data"])
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.data["data"] != "calm" {
            // Relaxed: a count.
            GONE_OFF.fetch_add(1, Ordering::Relaxed);
            if !std::thread::panicking() {
                resume_unwind(Box::new("a drop that panics"));
            }
        }
    }
}

struct BombMeta;

impl Meta<Bomb> for BombMeta {
    fn namespace<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        bomb.metadata.namespace.as_deref()
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        bomb.metadata.name.as_deref()
    }

    fn version<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        bomb.metadata.resource_version.as_deref()
    }

    fn uid<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        bomb.metadata.uid.as_deref()
    }
}

type Queue = fn(SharedInformerBuilder<Bomb, BombMeta>) -> SharedInformerBuilder<Bomb, BombMeta>;

#[tokio::test]
async fn objects_whose_drop_panics_end_no_worker_and_no_handler() {
    let queues: [Queue; 2] = [|informer| informer.workers(2), |informer| informer.in_order()];
    for queue in queues {
        let before = GONE_OFF.load(Ordering::Relaxed);
        let server = server();
        server.apply(map("a", "0")).unwrap();
        let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = SharedInformer::with_keys(source, KeyFunc::meta_namespace(BombMeta));
        // Lists that are abandoned by a panic follow each other at once.
        let soon = || Backoff::new(Duration::ZERO, Duration::ZERO, Duration::MAX);
        let informer = queue(informer).reflector(move |reflector| reflector.backoff(soon())).on_error(|_| ());
        let informer = informer.build().unwrap();
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run().await }
        });

        let (on_thread, mut thread) = mpsc::unbounded_channel();
        let (in_task, mut task) = mpsc::unbounded_channel();
        let text = |told: &Notification<Bomb>| match told {
            Notification::Added { new, .. } | Notification::Updated { new, .. } => new.text(),
            other => format!("{other:?}"),
        };
        informer.add_event_handler(move |told: Notification<Bomb>| on_thread.send(text(&told)).unwrap()).unwrap();
        let async_handler = move |told: Notification<Bomb>| {
            in_task.send(text(&told)).unwrap();
            async move { drop(told) }
        };
        informer.add_async_handler(HandlerOptions::new(), async_handler).unwrap();
        let unread = [Buffer::Compress, Buffer::DropAndResync(2), Buffer::HoldBack(1_000)];
        let unread = unread.map(|buffer| informer.subscribe(HandlerOptions::new().buffer(buffer)).unwrap());
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
            server.apply(map(name, "calm")).unwrap();
        }
        for told in [&mut thread, &mut task] {
            let mut calm = 0;
            while calm < 3 {
                calm += usize::from(told.recv().await.expect("the handler goes on").ends_with("=calm"));
            }
        }
        unread[0].registration().remove().await;
        drop(unread);
        informer.stop().await;
        running.await.unwrap().unwrap();
        drop(informer);
        let gone_off = GONE_OFF.load(Ordering::Relaxed) - before;
        assert!(gone_off > 3, "{gone_off}: the test is about those that do");
    }
}
