//! Tests of namespaces whose requests fail or whose sources panic: they affect no other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::lister_watcher::{
    ListRequest, ListStream, ListerWatcher, RequestError, WatchRequest, WatchStream,
};
use deltafifo_informer::shared_informer::InformerError;
use deltafifo_testkit::status;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, timeout};

use super::rig::{
    FAULTS, LONG, apply, blue_and_green, builder, forbidden, in_green, of, server, until,
    wait_for_stored,
};
use crate::rig::{Builder, Informer, QUEUES, idle, run};

/// A record of the namespaces that errors name.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<BTreeSet<String>>>);

impl Reported {
    fn by(&self, builder: Builder) -> Builder {
        let Self(reported) = self.clone();
        builder.on_error(move |error| {
            let InformerError::Namespace { namespace, .. } = error else {
                panic!("{error}");
            };
            assert!(error.to_string().contains(namespace), "{error}");
            reported.lock().insert((*namespace).to_owned());
        })
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_that_fails_from_the_start_delays_no_other_and_recovers() {
    for (kind, fault) in FAULTS {
        for choose in QUEUES {
            let server = blue_and_green();
            server.fault(fault().when(in_green).times(usize::MAX));
            let reported = Reported::default();
            let namespaces = of(["blue", "green"]).optional();
            let informer = reported.by(choose(builder(&server, &namespaces))).build().unwrap();
            let started = Instant::now();
            let running = run(&informer);
            wait_for_stored(&informer, &["blue/a=1"]).await;
            assert!(started.elapsed() < Duration::from_secs(2), "{kind}: {:?}", started.elapsed());
            timeout(LONG, informer.wait_for_sync()).await.expect(kind).unwrap();
            // A request to a silent or hanging server is not repeated. Others are repeated for a
            // few seconds.
            let most = if ["silent", "hanging"].contains(&kind) { 91 } else { 20 };
            assert!(started.elapsed().as_secs() < most, "{kind}: {:?}", started.elapsed());
            assert_eq!(reported.names(), ["green"], "{kind}");
            // The reflector learns of its commit a moment after the queue.
            idle().await;
            let listed: Vec<_> = informer
                .namespace_status()
                .into_iter()
                .map(|status| (status.namespace, status.has_listed, status.is_waived))
                .collect();
            let expected = [("blue".to_owned(), true, false), ("green".to_owned(), false, true)];
            assert_eq!(listed, expected, "{kind}");

            server.clear_faults();
            wait_for_stored(&informer, &["blue/a=1", "green/b=1"]).await;
            informer.stop().await;
            running.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn required_namespace_that_fails_delays_the_initial_sync() {
    for (kind, fault) in FAULTS {
        for choose in QUEUES {
            let server = server();
            apply(&server, "blue", "a", 1);
            server.fault(fault().when(in_green).times(usize::MAX));
            let namespaces = of(["blue", "green"]);
            let informer = choose(builder(&server, &namespaces)).on_error(|_| ()).build().unwrap();
            run(&informer);
            wait_for_stored(&informer, &["blue/a=1"]).await;
            assert!(timeout(LONG, informer.wait_for_sync()).await.is_err(), "{kind}");
            server.clear_faults();
            timeout(LONG, informer.wait_for_sync()).await.expect(kind).unwrap();
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_optional_namespaces_of_a_set_do_not_delay_the_initial_sync() {
    for (optional, delays) in [("green", false), ("blue", true)] {
        let server = server();
        server.fault(forbidden().when(in_green).times(usize::MAX));
        let namespaces = of(["blue", "green"]).optional_in([optional]);
        let informer = builder(&server, &namespaces).on_error(|_| ()).build().unwrap();
        run(&informer);
        let synced = timeout(LONG, informer.wait_for_sync()).await;
        assert_eq!(synced.is_err(), delays, "{optional} is optional");
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_that_fails_later_delays_no_other_and_keeps_its_objects() {
    for (kind, fault) in FAULTS {
        for choose in QUEUES {
            let server = blue_and_green();
            let reported = Reported::default();
            let namespaces = of(["blue", "green"]);
            let informer = reported.by(choose(builder(&server, &namespaces))).build().unwrap();
            run(&informer);
            informer.wait_for_sync().await.unwrap();

            server.fault(fault().when(in_green).times(usize::MAX));
            server.error_watches(status::expired("as the test wants"));
            apply(&server, "blue", "a", 2);
            apply(&server, "green", "b", 2);
            server.compact();
            let failed = Instant::now();
            wait_for_stored(&informer, &["blue/a=2", "green/b=1"]).await;
            assert!(failed.elapsed() < Duration::from_secs(2), "{kind}: {:?}", failed.elapsed());
            until(|| reported.names().contains(&"green".to_owned())).await;
            apply(&server, "blue", "c", 1);
            wait_for_stored(&informer, &["blue/a=2", "blue/c=1", "green/b=1"]).await;
            assert!(informer.has_synced());

            server.clear_faults();
            wait_for_stored(&informer, &["blue/a=2", "blue/c=1", "green/b=2"]).await;
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_optional_namespace_counts_neither_as_closed_nor_as_unlisted() {
    for choose in QUEUES {
        let server = blue_and_green();
        server.fault(forbidden().when(in_green).times(usize::MAX));
        let namespaces = of(["blue", "green"]).optional();
        let informer = choose(builder(&server, &namespaces)).on_error(|_| ()).build().unwrap();
        run(&informer);
        timeout(LONG, informer.wait_for_sync()).await.expect("green is not waited for").unwrap();
        let is_fresh =
            || informer.watch_status().is_open && informer.last_sync_resource_version().is_some();
        until(is_fresh).await;
        let waived = || {
            let status = informer.namespace_status();
            status.iter().map(|status| status.is_waived).collect::<Vec<_>>()
        };
        assert_eq!(waived(), [false, true]);
        assert!(informer.watch_status().last_error.is_some(), "its error is shown");

        server.clear_faults();
        until(|| waived() == [false, false]).await;
        wait_for_stored(&informer, &["blue/a=1", "green/b=1"]).await;
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_source_stops_only_its_namespace() {
    let server = blue_and_green();
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let calls = Mutex::new(0);
    let source = move |namespace: &str| {
        if namespace == "green" {
            *calls.lock() += 1;
            assert!(*calls.lock() > 3, "as the test wants");
        }
        all.in_namespace(namespace)
    };
    let reported = Reported::default();
    let namespaces = of(["blue", "green"]);
    let informer = reported.by(Informer::in_namespaces(&namespaces, source)).build().unwrap();
    run(&informer);
    wait_for_stored(&informer, &["blue/a=1"]).await;
    wait_for_stored(&informer, &["blue/a=1", "green/b=1"]).await;
    assert_eq!(reported.names(), ["green"]);
}

#[tokio::test(start_paused = true)]
async fn optional_set_syncs_although_a_source_panics() {
    let server = server();
    apply(&server, "blue", "a", 1);
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let source = move |namespace: &str| {
        assert_ne!(namespace, "green", "as the test wants");
        all.in_namespace(namespace)
    };
    let namespaces = of(["blue", "green"]).optional();
    let informer = Informer::in_namespaces(&namespaces, source).on_error(|_| ()).build().unwrap();
    run(&informer);
    timeout(LONG, informer.wait_for_sync()).await.expect("green is not waited for").unwrap();
    wait_for_stored(&informer, &["blue/a=1"]).await;
}

/// A lister-watcher that panics when it or one of its watches is dropped.
struct Fragile(KubeListerWatcher);

impl ListerWatcher for Fragile {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.0.list(request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        let watch = self.0.watch(request);
        async {
            let (mut watch, bomb) = (watch.await?, PanicsWhenDropped);
            let watch = futures_util::stream::poll_fn(move |context| {
                let _bomb = &bomb;
                watch.poll_next_unpin(context)
            });
            Ok(watch.boxed())
        }
        .boxed()
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        drop(PanicsWhenDropped);
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("as the test wants"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn panics_of_destructors_of_a_removed_namespace_affect_no_other() {
    let server = blue_and_green();
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let source = move |namespace: &str| -> Arc<dyn ListerWatcher> {
        let source = all.in_namespace(namespace);
        if namespace == "green" { Arc::new(Fragile(source)) } else { Arc::new(source) }
    };
    let namespaces = of(["blue", "green"]);
    let informer = Informer::in_namespaces(&namespaces, source)
        .reflector(|reflector| reflector.watch_list(false))
        .build()
        .unwrap();
    let running = run(&informer);
    for round in 1..=3 {
        wait_for_stored(&informer, &["blue/a=1", "green/b=1"]).await;
        until(|| server.watchers() >= 2).await;
        namespaces.remove("green");
        wait_for_stored(&informer, &["blue/a=1"]).await;
        assert!(!running.is_finished(), "round {round}");
        namespaces.add("green").unwrap();
    }
}
