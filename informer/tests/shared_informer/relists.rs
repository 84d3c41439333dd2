//! Tests of relists: changes that a watch missed, and unchanged objects.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo::{KeyFunc, Meta, WaitError};
use deltafifo_informer::lister_watcher::{
    EventType, Listed, PageMeta, RawEvent, RequestError, Scripted,
};
use deltafifo_informer::shared_informer::{HandlerOptions, SharedInformer};
use deltafifo_informer::{KubeListerWatcher, KubeMeta};
use deltafifo_testkit::{Resource, status};
use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::rig::{Informer, QUEUES, Rig, map, next, next_sorted, run, server, shown, value};

#[tokio::test(start_paused = true)]
async fn list_delivers_missed_changes_and_deletions_as_tombstones() {
    for queue in QUEUES {
        let server = server();
        for name in ["a", "b", "c"] {
            server.apply(map(name, "1")).unwrap();
        }
        let rig = Rig::start(server, queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 3).await;
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| {
            rig.apply("a", "2");
            rig.delete("b");
            rig.apply("d", "1");
        });
        let received = next_sorted(&mut stream, 3).await;
        assert_eq!(received, ["relist !shop/b=1", "relist +d=1", "relist a=1>2"], "c is unchanged");
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_with_a_refused_object_delivers_the_stored_object() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let refuses = Arc::new(AtomicBool::new(false));
        let refusing = refuses.clone();
        let rig = Rig::start(server, |informer| {
            queue(informer).transform(move |map| {
                if refusing.load(Ordering::SeqCst) {
                    Err("expected by this test".into())
                } else {
                    Ok(map)
                }
            })
        });
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        rig.server.wait_for_watchers(1).await;
        refuses.store(true, Ordering::SeqCst);
        rig.delete("a");
        assert_eq!(next(&mut stream, 1).await, ["watch !shop/a=1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn list_can_add_or_delete_all_objects() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        rig.informer.wait_for_sync().await.unwrap();
        assert!(stream.next().now_or_never().is_none(), "the empty initial state was delivered");
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| ["a", "b"].into_iter().for_each(|name| rig.apply(name, "1")));
        assert_eq!(next_sorted(&mut stream, 2).await, ["relist +a=1", "relist +b=1"]);
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| ["a", "b"].into_iter().for_each(|name| rig.delete(name)));
        assert_eq!(next_sorted(&mut stream, 2).await, ["relist !shop/a=1", "relist !shop/b=1"]);
        assert!(rig.informer.lister().list().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_of_a_list_are_delivered_with_notify_unchanged() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, |informer| queue(informer).notify_unchanged(true));
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        rig.server.wait_for_watchers(1).await;
        rig.missing(|_| ());
        assert_eq!(next(&mut stream, 1).await, ["relist a=1>1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn new_content_under_an_old_version_is_stored_and_delivered_with_notify_unchanged() {
    let list = |data: &str| {
        let meta = PageMeta { resource_version: "5".to_owned(), ..PageMeta::default() };
        let mut item = map("a", data);
        item["metadata"]["resourceVersion"] = "5".into();
        [Ok(Listed::Meta(meta)), Ok(Listed::Items(vec![item.to_string().into()]))]
    };
    for queue in QUEUES {
        let gone = Box::new(status::expired("cut off by the test"));
        let expired = RequestError::Status { status: gone, retry_after: None };
        let script = Scripted::new().list(list("1")).watch([Err(expired)]).list(list("2"));
        let informer =
            queue(Informer::builder(script)).reflector(|reflector| reflector.watch_list(false));
        let informer = informer.notify_unchanged(true).build().unwrap();
        let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
        let running = run(&informer);
        assert_eq!(next(&mut stream, 2).await, ["initial *a=1", "relist a=1>2"]);
        assert_eq!(value(&informer.store().get_by_key("shop/a").unwrap()), "2");
        informer.stop().await;
        assert_eq!(running.await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_etcd_restore_older_waits_fail_and_later_ones_wait_for_the_new_history() {
    let list = |version: &str| {
        let meta = PageMeta { resource_version: version.to_owned(), ..PageMeta::default() };
        [Ok(Listed::Meta(meta)), Ok(Listed::Items(vec![]))]
    };
    let event = |version: u64| {
        let mut object = map("a", "1");
        object["metadata"]["resourceVersion"] = version.to_string().into();
        Ok(RawEvent { kind: EventType::Added, object: object.to_string().into() })
    };
    let (send, events) = mpsc::unbounded_channel();
    let events = stream::unfold(events, |mut events| async {
        events.recv().await.map(|event| (event, events))
    });
    let (restore, restored) = oneshot::channel();
    let watch = stream::once(restored.map(|_: Result<(), _>| {
        let gone = Box::new(status::expired("etcd was restored"));
        Err(RequestError::Status { status: gone, retry_after: None })
    }));
    let script = Scripted::new().list(list("1000")).watch_stream(watch.boxed()).list(list("500"));
    let informer = Informer::builder(script.watch_stream(events.boxed()));
    let informer = informer.reflector(|reflector| reflector.watch_list(false)).build().unwrap();
    let running = run(&informer);
    let store = informer.store();
    store.wait_for_resource_version_async("1000").await.unwrap();
    let mut older = pin!(store.wait_for_resource_version_async("1001"));
    assert!(older.as_mut().now_or_never().is_none());
    restore.send(()).unwrap();
    assert_eq!(older.await, Err(WaitError::Rewound { version: "1001".to_owned() }));
    store.wait_for_resource_version_async("500").await.unwrap();
    let mut later = pin!(store.wait_for_resource_version_async("502"));
    send.send(event(501)).unwrap();
    store.wait_for_resource_version_async("501").await.unwrap();
    assert!(later.as_mut().now_or_never().is_none(), "no such version was seen");
    send.send(event(502)).unwrap();
    later.await.unwrap();
    informer.stop().await;
    assert_eq!(running.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn changed_object_of_a_list_is_delivered_whatever_version_a_transform_sets() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, |informer| {
            queue(informer).transform(|map: Arc<ConfigMap>| {
                let mut map = ConfigMap::clone(&map);
                map.metadata.resource_version = Some("0".to_owned());
                Ok(map.into())
            })
        });
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| rig.apply("a", "2"));
        let received = timeout(Duration::from_secs(60), next(&mut stream, 1)).await;
        assert_eq!(received.expect("the handler is notified"), ["relist a=1>2"]);
    }
}

/// An accessor that panics for the version and the uid of `b`.
struct Unlucky;

impl Meta<ConfigMap> for Unlucky {
    fn namespace<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        KubeMeta.namespace(map)
    }

    fn name<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        KubeMeta.name(map)
    }

    fn version<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        assert_ne!(self.name(map), Some("b"), "an unreadable version");
        KubeMeta.version(map)
    }

    fn uid<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        assert_ne!(self.name(map), Some("b"), "an unreadable uid");
        KubeMeta.uid(map)
    }
}

#[tokio::test(start_paused = true)]
async fn object_whose_version_and_uid_panic_is_delivered_like_later_ones() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (errors, mut failed) = tokio::sync::mpsc::unbounded_channel();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let informer = SharedInformer::with_keys(source, KeyFunc::meta_namespace(Unlucky)).in_order();
    let informer =
        informer.on_error(move |error| drop(errors.send(error.to_string()))).build().unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run().await }
    });
    for _ in 0..3 {
        stream.next().await.unwrap();
    }
    server.wait_for_watchers(1).await;
    server.error_watches(status::expired("cut off by the test"));
    for name in ["a", "b", "c"] {
        server.apply(map(name, "2")).unwrap();
    }
    server.compact();
    for received in ["relist a=1>2", "relist b=1>2", "relist c=1>2"] {
        let next =
            timeout(Duration::from_secs(60), stream.next()).await.expect("the handler is notified");
        assert_eq!(shown(&next.unwrap()), received);
    }
    let mut unreported = vec!["an unreadable version", "an unreadable uid"];
    while !unreported.is_empty() {
        let error = failed.recv().await.unwrap();
        assert!(!error.contains("is not redelivered"), "it was delivered: {error}");
        unreported.retain(|part| !error.contains(part));
    }
    informer.stop().await;
    assert_eq!(running.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn object_with_another_uid_is_another_object() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| {
            rig.delete("a");
            rig.apply("a", "2");
        });
        assert_eq!(next(&mut stream, 2).await, ["relist !shop/a=1", "relist +a=2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn broken_watch_continues_without_a_list() {
    let rig = Rig::start(server(), |informer| informer);
    let mut stream = rig.subscribe(HandlerOptions::new());
    rig.server.wait_for_watchers(1).await;
    rig.server.break_watches();
    rig.apply("a", "1");
    assert_eq!(next(&mut stream, 1).await, ["watch +a=1"]);
    rig.server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert_eq!(next(&mut stream, 1).await, ["watch -a=1"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_disruption_resyncing_handlers_get_everything_and_others_only_changes() {
    for queue in QUEUES {
        let server = server();
        for name in ["a", "b"] {
            server.apply(map(name, "1")).unwrap();
        }
        let rig = Rig::start(server, queue);
        let mut plain = rig.subscribe(HandlerOptions::new());
        let mut resyncs =
            rig.subscribe(HandlerOptions::new().resync(Some(Duration::from_secs(3_600))));
        for stream in [&mut plain, &mut resyncs] {
            next(stream, 2).await;
        }
        rig.server.wait_for_watchers(1).await;
        rig.missing(|rig| {
            rig.apply("b", "2");
            rig.apply("c", "1");
        });
        for stream in [&mut plain, &mut resyncs] {
            assert_eq!(next_sorted(stream, 2).await, ["relist +c=1", "relist b=1>2"]);
        }
        assert_eq!(
            next_sorted(&mut resyncs, 3).await,
            ["resync a=1>1", "resync b=2>2", "resync c=1>1"]
        );
        assert!(plain.next().now_or_never().is_none());
    }
}
