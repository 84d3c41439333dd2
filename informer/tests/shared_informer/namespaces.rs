//! Tests of informers of several namespaces, each of which is listed and watched separately.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_informer::lister_watcher::{
    self, EventType, ListRequest, ListStream, Listed, ListerWatcher, PageMeta, RawEvent,
    RequestError, Scripted, WatchRequest, WatchStream,
};
use deltafifo_informer::shared_informer::{
    Buffer, Cause, HandlerOptions, InformerError, Namespaces, Notification, Scope,
    SharedInformerFactory, Subscription,
};
use deltafifo_informer::{KubeListerWatcher, ReflectorError, error_chain};
use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, Verb, status};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::messages::Messages;
use super::rig::{Builder, Informer, QUEUES, idle, run, value};

/// A time that is longer than any backoff, and longer than the client waits for two requests in a
/// row that the server does not answer.
const LONG: Duration = Duration::from_secs(600);

fn server() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).resource(Resource::namespaces()).build()
}

fn apply(server: &ApiServer, namespace: &str, name: &str, data: u64) {
    let map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": namespace, "name": name },
        "data": { "data": data.to_string() },
    });
    server.apply(map).expect("a map with a name");
}

fn builder(server: &ApiServer, namespaces: &Namespaces) -> Builder {
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    Informer::in_namespaces(namespaces, move |namespace| all.in_namespace(namespace))
}

fn of<const N: usize>(names: [&str; N]) -> Namespaces {
    Namespaces::new(names).expect("valid names")
}

/// Returns `key=value` of every stored object, in order.
fn stored(informer: &Informer) -> Vec<String> {
    let mut all = Vec::new();
    informer.store().for_each(|map| {
        let meta = &map.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        all.push(format!("{}/{}={}", namespace.unwrap(), name.unwrap(), value(map)));
    });
    all.sort();
    all
}

/// Waits until exactly these objects are stored.
async fn wait_for_stored(informer: &Informer, expected: &[&str]) {
    let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
    let stored_is = async {
        while stored(informer) != expected {
            changes.next().await.expect("the informer runs");
        }
    };
    if timeout(LONG, stored_is).await.is_err() {
        assert_eq!(stored(informer), expected, "after {LONG:?}");
    }
}

/// Waits until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONG, waiting).await.expect("the condition does not hold");
}

fn in_green(request: &Request) -> bool {
    request.namespace() == Some("green")
}

type MakeFault = fn() -> Fault;

/// The ways in which requests for a namespace fail, each way with its name.
const FAULTS: [(&str, MakeFault); 6] = [
    ("403", || Fault::status(status::forbidden(&Resource::config_maps()))),
    ("404", || Fault::status(status::unknown_resource())),
    ("500", || Fault::status(status::internal_error("as the test wants"))),
    ("refused", Fault::refused),
    ("silent", Fault::silence),
    // The body stops within its first bytes.
    ("hanging", || Fault::hang(After::Bytes(20))),
];

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
            let server = server();
            apply(&server, "blue", "a", 1);
            apply(&server, "green", "b", 1);
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
        let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
        server.fault(forbidden.when(in_green).times(usize::MAX));
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
            let server = server();
            apply(&server, "blue", "a", 1);
            apply(&server, "green", "b", 1);
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

/// Formats a notification's cause and object: `Watch +a`, `Watch a` or `Watch -a`.
fn shown(notification: &Notification<ConfigMap>) -> String {
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
    match notification {
        Notification::Added { new, cause, .. } => format!("{cause:?} +{}", name(new)),
        Notification::Updated { new, cause, .. } => format!("{cause:?} {}", name(new)),
        Notification::Deleted { old, cause, .. } => format!("{cause:?} -{}", name(old)),
        Notification::ResyncBegins | Notification::ResyncEnds => "resync".to_owned(),
    }
}

async fn next(changes: &mut Subscription<ConfigMap>) -> String {
    let next = timeout(LONG, changes.next()).await.expect("nothing is delivered");
    shown(&next.expect("the informer runs"))
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_removed_namespace_are_deleted_with_a_cause_of_their_own() {
    for choose in QUEUES {
        let server = server();
        apply(&server, "blue", "a", 1);
        apply(&server, "green", "b", 1);
        let namespaces = of(["blue", "green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        let mut initial = [next(&mut changes).await, next(&mut changes).await];
        initial.sort();
        assert_eq!(initial, ["Initial +a", "Initial +b"]);

        assert!(namespaces.remove("green"));
        assert_eq!(next(&mut changes).await, "NamespaceRemoved -b");
        assert_eq!(stored(&informer), ["blue/a=1"]);
        // Its watch has ended, too.
        apply(&server, "green", "b", 2);
        apply(&server, "blue", "c", 1);
        assert_eq!(next(&mut changes).await, "Watch +c");
        until(|| server.watchers() <= 1).await;

        assert!(namespaces.add("green").unwrap());
        assert_eq!(next(&mut changes).await, "Relist +b");
        assert_eq!(informer.namespace_status().len(), 2);
        informer.stop().await;
    }
}

/// Creates or replaces `count` maps `m0`, `m1`, ... of a namespace.
fn apply_many(server: &ApiServer, namespace: &str, count: usize) {
    for n in 0..count {
        apply(server, namespace, &format!("m{n}"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn removal_keeps_its_cause_if_the_namespace_is_added_again_during_the_delivery() {
    for choose in QUEUES {
        let server = server();
        apply_many(&server, "green", 500);
        let namespaces = of(["green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        for _ in 0..500 {
            next(&mut changes).await;
        }
        namespaces.remove("green");
        assert!(next(&mut changes).await.starts_with("NamespaceRemoved -"));
        namespaces.add("green").unwrap();
        // Each object is deleted and added, or is updated if it was listed again before the
        // deletion was delivered.
        let mut listed = 0;
        while listed < 500 {
            let change = next(&mut changes).await;
            if change.contains('-') {
                assert!(change.starts_with("NamespaceRemoved -"), "{change}");
            } else {
                assert!(change.starts_with("Relist "), "{change}");
                listed += 1;
            }
        }
        informer.stop().await;
    }
}

/// An informer of the maps in a namespace that is selected by its label. The watch of the maps is
/// in a backoff, so it delivers no changes.
struct Unwatched {
    server: ApiServer,
    factory: SharedInformerFactory,
    maps: Informer,
    changes: Subscription<ConfigMap>,
}

impl Unwatched {
    /// Starts the informer with five maps of the namespace `green`, and breaks their watch.
    async fn start(choose: fn(Builder) -> Builder) -> Self {
        let server = server();
        namespace(&server, "green", "shop");
        apply_many(&server, "green", 5);
        let factory = SharedInformerFactory::new(server.client());
        let ours = Scope::all().labels("team=shop");
        let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
        let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
        tokio::spawn(following);
        let scope = Scope::namespaces(&namespaces);
        let maps = factory.informer_with::<ConfigMap>(&(), &scope, choose).unwrap();
        factory.start();
        maps.wait_for_sync().await.unwrap();
        let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
        for _ in 0..5 {
            next(&mut changes).await;
        }
        server.fault(Fault::refused().when(in_green).times(usize::MAX));
        server.end_watches();
        idle().await;
        until(|| all.watch_status().is_open).await;
        Self { server, factory, maps, changes }
    }

    /// Marks the namespace as being deleted, and deletes the first `deleted` of its maps.
    async fn begin_deletion(&self, deleted: usize) {
        let mut green = self.server.get(&Resource::namespaces(), "", "green").unwrap();
        green["metadata"]["finalizers"] = json!(["example.com/content"]);
        self.server.apply(green).unwrap();
        let client = kube::Api::<Namespace>::all(self.server.client());
        client.delete("green", &DeleteParams::default()).await.unwrap();
        for n in 0..deleted {
            self.server.delete(&Resource::config_maps(), "green", &format!("m{n}")).unwrap();
        }
    }

    fn end_deletion(&self) {
        self.server.delete(&Resource::namespaces(), "", "green").unwrap();
    }

    fn remove_label(&self) {
        let mut green = self.server.get(&Resource::namespaces(), "", "green").unwrap();
        green["metadata"]["labels"]["team"] = "bank".into();
        self.server.apply(green).unwrap();
    }

    /// Asserts that the first `of_list` maps are deleted by a list, and the others because their
    /// namespace is removed.
    async fn assert_listed_deletions(mut self, of_list: usize) {
        let mut changes = Vec::new();
        for _ in 0..5 {
            changes.push(next(&mut self.changes).await);
        }
        changes.sort_by_key(|change| change.split_once('-').map(|(_, name)| name.to_owned()));
        for (n, change) in changes.iter().enumerate() {
            let cause = if n < of_list { "Relist" } else { "NamespaceRemoved" };
            assert_eq!(*change, format!("{cause} -m{n}"), "of {changes:?}");
        }
        assert_eq!(stored(&self.maps), [""; 0]);
        drop(self.changes);
        self.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_deleted_namespace_are_deleted_by_a_final_list() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(5).await;
        green.end_deletion();
        green.server.clear_faults();
        green.assert_listed_deletions(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn living_objects_of_a_namespace_without_its_label_do_not_count_as_deleted() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.remove_label();
        green.server.clear_faults();
        green.assert_listed_deletions(0).await;
    }
}

/// Makes a change in a namespace that has just lost its label. The final list of the namespace
/// shows the change. Returns the notifications from then on until the objects of the namespace are
/// removed, in order of the objects' names.
async fn notifications_of_the_last_list(
    choose: fn(Builder) -> Builder,
    change: fn(&ApiServer),
) -> Vec<String> {
    let green = Unwatched::start(choose).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let handler = move |change: Notification<ConfigMap>| record.lock().push(shown(&change));
    let _handle = green.maps.add_event_handler(handler).unwrap();
    until(|| seen.lock().len() == 5).await;
    green.remove_label();
    change(&green.server);
    green.server.clear_faults();
    let is_removed = || green.maps.namespace_status().is_empty() && stored(&green.maps).is_empty();
    until(|| is_removed() && seen.lock().len() >= 10).await;
    idle().await;
    drop(green.changes);
    green.factory.shutdown().await;
    let mut changes = seen.lock().split_off(5);
    changes.sort_by_key(|change| change.trim_start_matches(char::is_alphabetic).to_owned());
    changes
}

const ALL_REMOVED: [&str; 5] = [
    "NamespaceRemoved -m0",
    "NamespaceRemoved -m1",
    "NamespaceRemoved -m2",
    "NamespaceRemoved -m3",
    "NamespaceRemoved -m4",
];

#[tokio::test(start_paused = true)]
async fn last_list_delivers_no_new_object() {
    for choose in QUEUES {
        let create = |server: &ApiServer| apply(server, "green", "new", 1);
        let changes = notifications_of_the_last_list(choose, create).await;
        assert_eq!(changes, ALL_REMOVED);
    }
}

#[tokio::test(start_paused = true)]
async fn last_list_delivers_no_change_of_an_object() {
    for choose in QUEUES {
        let update = |server: &ApiServer| apply(server, "green", "m0", 99);
        let changes = notifications_of_the_last_list(choose, update).await;
        assert_eq!(changes, ALL_REMOVED);
    }
}

#[tokio::test(start_paused = true)]
async fn last_list_delivers_only_the_deletion_of_an_object_that_was_created_again() {
    for choose in QUEUES {
        let create_again = |server: &ApiServer| {
            server.delete(&Resource::config_maps(), "green", "m0").unwrap();
            apply(server, "green", "m0", 1);
        };
        let changes = notifications_of_the_last_list(choose, create_again).await;
        let mut expected = ALL_REMOVED;
        expected[0] = "Relist -m0";
        assert_eq!(changes, expected);
    }
}

/// Another namespace has changes in the queue, because a handler holds the informer back.
#[tokio::test(start_paused = true)]
async fn last_list_delivers_new_objects_only_from_an_in_order_queue_with_a_backlog() {
    for (choose, of_last_list) in [(QUEUES[0], None), (QUEUES[1], Some("Relist +new"))] {
        let green = Unwatched::start(choose).await;
        let slow = HandlerOptions::new().buffer(Buffer::HoldBack(1));
        let mut slow = green.maps.subscribe(slow).unwrap();
        for _ in 0..5 {
            assert!(next(&mut slow).await.starts_with("Initial +"));
        }
        namespace(&green.server, "blue", "shop");
        apply(&green.server, "blue", "first", 1);
        idle().await;
        apply(&green.server, "blue", "second", 1);
        idle().await;
        apply(&green.server, "green", "new", 1);
        green.remove_label();
        green.server.clear_faults();
        until(|| green.maps.namespace_status().iter().all(|part| part.namespace == "blue")).await;

        let expected = ["Relist +first", "Watch +second"];
        let expected: Vec<_> = expected.into_iter().chain(of_last_list).collect();
        let mut changes = Vec::new();
        for _ in 0..expected.len() {
            changes.push(next(&mut slow).await);
        }
        assert_eq!(changes, expected);
        let removed = if of_last_list.is_some() { 6 } else { 5 };
        for _ in 0..removed {
            assert!(next(&mut slow).await.starts_with("NamespaceRemoved -"));
        }
        drop((slow, green.changes));
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn living_objects_of_a_terminating_namespace_without_its_label_do_not_count_as_deleted() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(2).await;
        green.remove_label();
        green.server.clear_faults();
        green.assert_listed_deletions(2).await;
    }
}

/// Returns whether a request is not for the first page of a first list: it has a continue token or
/// a resource version.
fn is_later(request: &Request) -> bool {
    request.continue_token().is_some() || !request.resource_version().is_empty()
}

/// Returns an informer of the maps in the namespaces that a label selects. It lists them in pages
/// of one map. It does not have an in-order queue, because that would receive nothing before the
/// list is complete.
fn followed_in_pages(server: &ApiServer) -> (SharedInformerFactory, Informer) {
    let factory = SharedInformerFactory::new(server.client());
    let ours = Scope::all().labels("team=shop");
    let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
    let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
    tokio::spawn(following);
    let in_pages =
        |maps: Builder| maps.reflector(|maps| maps.watch_list(false).newest(true).page_size(1));
    let scope = Scope::namespaces(&namespaces);
    let maps = factory.informer_with::<ConfigMap>(&(), &scope, in_pages).unwrap();
    (factory, maps)
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_incomplete_list_are_deleted_by_a_final_list() {
    let server = server();
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    let (factory, maps) = followed_in_pages(&server);
    let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    assert_eq!(next(&mut changes).await, "Initial +m0");
    assert!(!maps.has_synced());

    server.clear_faults();
    server.delete(&Resource::config_maps(), "green", "m0").unwrap();
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    let deleted = loop {
        let change = next(&mut changes).await;
        if change.ends_with("-m0") {
            break change;
        }
    };
    assert_eq!(deleted, "Relist -m0");
    drop(changes);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn final_list_that_is_not_answered_does_not_close_the_watch_status() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        namespace(&green.server, "blue", "shop");
        apply(&green.server, "blue", "a", 1);
        green.server.clear_faults();
        green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
        green.remove_label();
        let began = Instant::now();
        until(|| green.maps.watch_status().is_open).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert!(green.maps.namespace_status().iter().any(|status| status.namespace == "green"));
        drop(green.changes);
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn first_list_of_a_namespace_that_left_does_not_delay_the_sync() {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    let (factory, maps) = followed_in_pages(&server);
    let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    assert_eq!(next(&mut changes).await, "Initial +m0");
    assert!(!maps.has_synced());

    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    let began = Instant::now();
    maps.wait_for_sync().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    drop(changes);
    factory.shutdown().await;
}

/// Starts the informer of [`followed_in_pages`] with two namespaces. Requests for `blue` get the
/// fault `in_blue`, if there is one. The first list of `green` stops after the first of two maps.
/// Then `green` leaves the set, and later requests for it are not answered.
async fn start_without_a_list_of_green(
    in_blue: Option<Fault>,
) -> (ApiServer, SharedInformerFactory, Informer) {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "shop");
    apply(&server, "blue", "a", 1);
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    if let Some(fault) = in_blue {
        let in_blue = |request: &Request| request.namespace() == Some("blue");
        server.fault(fault.when(in_blue).times(usize::MAX));
    }
    let (factory, maps) = followed_in_pages(&server);
    factory.start();
    until(|| stored(&maps).contains(&"green/m0=1".to_owned())).await;
    assert!(!maps.has_synced());
    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&server, "green", "bank");
    (server, factory, maps)
}

/// Adds the namespace `green` to the set again, and waits until the informer follows it. The
/// informer's watch then stops counting as open, because the server has not answered for `green`.
async fn until_green_is_back(server: &ApiServer, maps: &Informer) {
    namespace(server, "green", "shop");
    let is_open = || maps.watch_status().is_open;
    until(|| !is_open()).await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_before_its_first_list_delays_the_sync() {
    let (server, factory, maps) = start_without_a_list_of_green(Some(Fault::silence())).await;
    let synced = timeout(Duration::from_secs(5), maps.wait_for_sync()).await;
    assert!(synced.is_err(), "blue is not listed");
    namespace(&server, "green", "shop");
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.clear_faults();
    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    assert!(timeout(LONG, maps.wait_for_sync()).await.is_err(), "green is not listed");
    assert!(stored(&maps).contains(&"blue/a=1".to_owned()));
    server.clear_faults();
    timeout(LONG, maps.wait_for_sync()).await.expect("green is listed").unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_before_its_first_list_holds_the_applied_version_back() {
    let (server, factory, maps) = start_without_a_list_of_green(None).await;
    maps.wait_for_sync().await.unwrap();
    let version = write_blue(&server, 2);
    assert!(is_applied(&maps, &version).await, "green has left the set");
    until_green_is_back(&server, &maps).await;
    assert!(maps.has_synced(), "an informer stays synced");
    assert!(!is_applied(&maps, &version).await, "green is not listed");
    assert_eq!(maps.store().applied_version(), None);
    server.clear_faults();
    let store = maps.store();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("green is listed").unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn error_of_a_final_list_says_that_it_is_not_retried() {
    let server = server();
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 1);
    let errors = Arc::new(Mutex::new(Vec::new()));
    let factory = SharedInformerFactory::new(server.client());
    let ours = Scope::all().labels("team=shop");
    let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
    let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
    tokio::spawn(following);
    let reported = errors.clone();
    let with_errors =
        |maps: Builder| maps.on_error(move |error| reported.lock().push(error_chain(error)));
    let scope = Scope::namespaces(&namespaces);
    let maps = factory.informer_with::<ConfigMap>(&(), &scope, with_errors).unwrap();
    factory.start();
    maps.wait_for_sync().await.unwrap();
    server.fault(FAULTS[0].1().when(in_green).times(usize::MAX));
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    wait_for_stored(&maps, &[]).await;
    let errors = std::mem::take(&mut *errors.lock());
    let last = errors.last().expect("the list failed");
    assert!(last.contains("is not retried") && last.contains("403"), "{last}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_object_counts_as_deleted_if_the_final_list_fails() {
    for (_, fault) in FAULTS {
        for choose in QUEUES {
            let green = Unwatched::start(choose).await;
            green.begin_deletion(5).await;
            green.end_deletion();
            green.server.clear_faults();
            green.server.fault(fault().when(in_green).times(usize::MAX));
            green.assert_listed_deletions(0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn final_list_is_tried_again_after_a_failure() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(5).await;
        green.end_deletion();
        green.server.clear_faults();
        green.server.fault(Fault::status(status::internal_error("once")).when(in_green));
        green.assert_listed_deletions(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_during_its_final_list_is_not_waited_for() {
    for choose in QUEUES {
        let mut green = Unwatched::start(choose).await;
        green.server.clear_faults();
        let hangs = |request: &Request| in_green(request) && request.verb() == Verb::List;
        green.server.fault(Fault::silence().when(hangs).times(1));
        green.remove_label();
        let lists = || green.server.requests().iter().filter(|request| hangs(request)).count();
        let before = lists();
        until(|| lists() != before).await;
        let began = Instant::now();
        green.server.delete(&Resource::config_maps(), "green", "m0").unwrap();
        namespace(&green.server, "green", "shop");
        assert!(next(&mut green.changes).await.ends_with(" -m0"));
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(stored(&green.maps).len(), 4);
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_deleted_objects_count_as_deleted_if_a_namespace_is_created_again_at_once() {
    for choose in QUEUES {
        let mut green = Unwatched::start(choose).await;
        green.begin_deletion(1).await;
        green.end_deletion();
        namespace(&green.server, "green", "shop");
        apply(&green.server, "green", "new", 1);
        green.server.clear_faults();
        let mut living: BTreeSet<String> = (0..5).map(|n| format!("m{n}")).collect();
        let expected: BTreeSet<String> = ["m1", "m2", "m3", "m4", "new"].map(Into::into).into();
        while living != expected {
            let change = next(&mut green.changes).await;
            if let Some((_, name)) = change.split_once('-') {
                assert!(name == "m0" || change.starts_with("NamespaceRemoved"), "{change}");
                living.remove(name);
            } else if let Some((_, name)) = change.split_once('+') {
                living.insert(name.to_owned());
            }
        }
        drop(green.changes);
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_optional_namespace_counts_neither_as_closed_nor_as_unlisted() {
    for choose in QUEUES {
        let server = server();
        apply(&server, "blue", "a", 1);
        apply(&server, "green", "b", 1);
        let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
        server.fault(forbidden.when(in_green).times(usize::MAX));
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
async fn wait_for_a_version_waits_for_a_namespace_that_was_just_added() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "red", "x", 1);
    let namespaces = of(["blue"]);
    let informer = builder(&server, &namespaces).on_error(|_| ()).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    apply(&server, "blue", "a", 2);
    wait_for_stored(&informer, &["blue/a=2"]).await;
    let store = informer.store();
    let version = store.get_by_key("blue/a").unwrap().metadata.resource_version.clone().unwrap();
    server.fault(Fault::silence().when(|r| r.namespace() == Some("red")).times(usize::MAX));
    namespaces.add("red").unwrap();
    until(|| informer.namespace_status().len() == 2).await;
    let waiting = store.wait_for_resource_version_async(&version);
    assert!(timeout(Duration::from_secs(60), waiting).await.is_err(), "red is not listed");
    server.clear_faults();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("red is listed").unwrap();
    assert_eq!(stored(&informer), ["blue/a=2", "red/x=1"]);
}

/// Writes the map `blue/a`, and returns the version of the write.
fn write_blue(server: &ApiServer, n: u64) -> String {
    apply(server, "blue", "a", n);
    server.version().to_string()
}

async fn is_applied(informer: &Informer, version: &str) -> bool {
    let store = informer.store();
    let waiting = store.wait_for_resource_version_async(version);
    timeout(Duration::from_secs(60), waiting).await.is_ok_and(|waited| waited.is_ok())
}

#[tokio::test(start_paused = true)]
async fn optional_namespace_that_is_forbidden_later_does_not_hold_back_the_applied_version() {
    for is_optional in [true, false] {
        let server = server();
        apply(&server, "blue", "a", 1);
        apply(&server, "green", "b", 1);
        let namespaces = of(["blue", "green"]);
        let namespaces = if is_optional { namespaces.optional() } else { namespaces };
        let informer = builder(&server, &namespaces).on_error(|_| ()).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        until(|| informer.watch_status().is_open).await;
        let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
        server.fault(forbidden.when(in_green).times(usize::MAX));
        server.end_watches();
        let version = write_blue(&server, 2);
        assert_eq!(is_applied(&informer, &version).await, is_optional);
        let green = &informer.namespace_status()[1];
        assert_eq!((green.has_listed, green.is_waived), (true, is_optional));
        assert_eq!(informer.watch_status().is_open, is_optional);

        server.clear_faults();
        apply(&server, "green", "b", 2);
        wait_for_stored(&informer, &["blue/a=2", "green/b=2"]).await;
        idle().await;
        assert!(!informer.namespace_status()[1].is_waived);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn own_write_is_applied_after_a_bookmark_of_every_namespace() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "green", "b", 1);
    let informer = builder(&server, &of(["blue", "green"])).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    until(|| informer.watch_status().is_open).await;
    let version = write_blue(&server, 2);
    assert!(!is_applied(&informer, &version).await, "green is quiet");
    assert_eq!(stored(&informer), ["blue/a=2", "green/b=1"]);
    server.bookmark(&Resource::config_maps());
    assert!(is_applied(&informer, &version).await);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_has_left_holds_the_applied_version_back_only_once_it_is_back() {
    let green = Unwatched::start(|builder| builder).await;
    green.server.clear_faults();
    green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&green.server, "blue", "shop");
    let version = write_blue(&green.server, 1);
    assert!(!is_applied(&green.maps, &version).await, "green is in the set");
    green.remove_label();
    assert!(is_applied(&green.maps, &version).await, "green has left the set");

    namespace(&green.server, "green", "shop");
    // Its watch is silent.
    until(|| !green.maps.watch_status().is_open).await;
    let version = write_blue(&green.server, 2);
    assert!(!is_applied(&green.maps, &version).await, "green is in the set again");
    green.server.clear_faults();
    let store = green.maps.store();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("green is listed or watched").unwrap();
    drop(green.changes);
    green.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_is_back_counts_for_versions_that_were_applied_without_it() {
    let green = Unwatched::start(|builder| builder).await;
    green.server.clear_faults();
    green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&green.server, "blue", "shop");
    green.remove_label();
    apply(&green.server, "green", "m0", 7);
    let written = green.server.version().to_string();
    let later = write_blue(&green.server, 2);
    assert!(is_applied(&green.maps, &later).await, "green has left the set");

    namespace(&green.server, "green", "shop");
    until(|| !green.maps.watch_status().is_open).await;
    assert!(!is_applied(&green.maps, &written).await, "the store has the old m0");
    green.server.clear_faults();
    let store = green.maps.store();
    let waiting = store.wait_for_resource_version_async(&written);
    timeout(LONG, waiting).await.expect("green is listed or watched").unwrap();
    assert_eq!(value(&store.get_by_key("green/m0").unwrap()), "7");
    drop(green.changes);
    green.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_in_a_present_namespace_keeps_its_cause() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "blue", "b", 1);
    let informer = builder(&server, &of(["blue"])).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
    next(&mut changes).await;
    next(&mut changes).await;
    server.delete(&Resource::config_maps(), "blue", "a").unwrap();
    assert_eq!(next(&mut changes).await, "Watch -a");
    server.error_watches(status::expired("as the test wants"));
    server.delete(&Resource::config_maps(), "blue", "b").unwrap();
    server.compact();
    assert_eq!(next(&mut changes).await, "Relist -b");
}

#[tokio::test]
async fn end_of_a_stream_without_names_is_logged() {
    for (items, expected) in [(vec![], 1), (vec![vec![]], 0)] {
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let (_namespaces, following) = Namespaces::follow(stream::iter(items));
        following.await;
        let logged = messages.0.lock();
        assert_eq!(logged.len(), expected, "{:?}", *logged);
        assert!(logged.iter().all(|message| message.contains("received no names")));
    }
}

#[tokio::test(start_paused = true)]
async fn informer_of_an_empty_set_is_synced() {
    for choose in QUEUES {
        let namespaces = of([]);
        let server = server();
        apply(&server, "blue", "a", 1);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        assert!(!informer.has_synced(), "it does not run");
        run(&informer);
        timeout(LONG, informer.wait_for_sync()).await.unwrap().unwrap();
        assert!(informer.watch_status().is_open);
        namespaces.add("blue").unwrap();
        wait_for_stored(&informer, &["blue/a=1"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_followed_set_syncs_after_the_first_item() {
    for choose in QUEUES {
        let server = server();
        apply(&server, "blue", "a", 1);
        apply(&server, "green", "b", 1);
        let (send, mut receive) = mpsc::unbounded_channel::<Vec<String>>();
        let names = futures_util::stream::poll_fn(move |context| receive.poll_recv(context));
        let (namespaces, following) = Namespaces::follow(names);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        tokio::spawn(following);
        assert!(timeout(LONG, informer.wait_for_sync()).await.is_err());
        assert!(!informer.watch_status().is_open);
        namespaces.add("red").unwrap();
        assert!(timeout(LONG, informer.wait_for_sync()).await.is_err());
        let is = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            send.send(names).unwrap();
        };
        is(&["blue", "Not a name", ""]);
        timeout(LONG, informer.wait_for_sync()).await.unwrap().unwrap();
        wait_for_stored(&informer, &["blue/a=1"]).await;
        assert_eq!(namespaces.names(), ["blue"]);
        is(&["green"]);
        wait_for_stored(&informer, &["green/b=1"]).await;
        informer.stop().await;
    }
}

/// Checks that an informer does not count as synced when its only namespace is replaced before the
/// server has responded to the list of either. The removal runs on another thread, at the same time
/// as the addition of the new namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_whose_only_namespace_is_replaced_waits_for_the_new_one() {
    let server = server();
    server.fault(Fault::silence().times(usize::MAX));
    for _ in 0..50 {
        for choose in QUEUES {
            let (send, mut receive) = mpsc::unbounded_channel::<Vec<String>>();
            let names = futures_util::stream::poll_fn(move |context| receive.poll_recv(context));
            let (namespaces, following) = Namespaces::follow(names);
            let informer = choose(builder(&server, &namespaces)).build().unwrap();
            run(&informer);
            tokio::spawn(following);
            for name in ["blue", "green"] {
                send.send(vec![name.to_owned()]).unwrap();
                let listed = || informer.namespace_status().into_iter().map(|one| one.namespace);
                while !listed().eq([name]) {
                    assert!(!informer.has_synced());
                    tokio::task::yield_now().await;
                }
            }
            assert!(!informer.has_synced());
            informer.stop().await;
        }
    }
}

fn namespace(server: &ApiServer, name: &str, team: &str) {
    let namespace = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": { "name": name, "labels": { "team": team } },
    });
    server.apply(namespace).unwrap();
}

#[tokio::test(start_paused = true)]
async fn factory_follows_the_namespaces_that_a_label_selects() {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "bank");
    apply(&server, "blue", "a", 1);
    apply(&server, "green", "b", 1);
    let factory = SharedInformerFactory::new(server.client());
    let selected = Scope::all().labels("team=shop");
    let all = factory.informer::<PartialObjectMeta<Namespace>>(&selected).unwrap();
    let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
    tokio::spawn(following);
    let scope = Scope::namespaces(&namespaces);
    let maps = factory.informer::<ConfigMap>(&scope).unwrap();
    factory.start();
    maps.wait_for_sync().await.unwrap();
    wait_for_stored(&maps, &["blue/a=1"]).await;
    namespace(&server, "green", "shop");
    wait_for_stored(&maps, &["blue/a=1", "green/b=1"]).await;
    namespace(&server, "blue", "bank");
    wait_for_stored(&maps, &["green/b=1"]).await;
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    wait_for_stored(&maps, &[]).await;

    assert!(factory.informer::<ConfigMap>(&scope).unwrap().store().is_empty(), "the same informer");
    factory.shutdown().await;
}

#[tokio::test]
async fn factory_names_an_informer_of_a_set_that_has_not_synced() {
    let factory = SharedInformerFactory::new(server().client());
    let (one, another) = (of(["blue"]), of(["blue"]));
    let shown = format!("{factory:?}");
    assert!(!shown.contains("namespaces"), "{shown}");
    factory.informer::<ConfigMap>(&Scope::namespaces(&one)).unwrap();
    factory.informer::<ConfigMap>(&Scope::namespaces(&another).labels("a=b")).unwrap();
    let shown = format!("{factory:?}");
    assert!(shown.contains(&format!("configmaps.v1 in {one}\"")), "{shown}");
    assert!(shown.contains(&format!("configmaps.v1 in {another}?labelSelector=a%3Db")), "{shown}");
}

fn script(objects: [String; 1], then: Vec<RawEvent>) -> Scripted {
    let page = PageMeta { resource_version: "5".to_owned(), ..PageMeta::default() };
    let items = objects.into_iter().map(Into::into).collect();
    Scripted::new()
        .list([Ok(Listed::Meta(page)), Ok(Listed::Items(items))])
        .watch_on(then.into_iter().map(Ok).collect::<Vec<_>>())
}

fn raw(namespace: &str, name: &str, version: u64) -> String {
    let map = json!({
        "metadata": { "namespace": namespace, "name": name, "resourceVersion": version.to_string() },
        "data": { "data": version.to_string() },
    });
    map.to_string()
}

/// Returns a list at `version` of the map `a` of a namespace, with the data `data`.
fn list_at(version: u64, namespace: &str, data: u64) -> [Result<Listed, RequestError>; 2] {
    let resource_version = version.to_string();
    let page = PageMeta { resource_version, ..PageMeta::default() };
    let map = json!({
        "metadata": { "namespace": namespace, "name": "a", "resourceVersion": "45" },
        "data": { "data": data.to_string() },
    });
    [Ok(Listed::Meta(page)), Ok(Listed::Items(vec![map.to_string().into()]))]
}

/// Returns a watch that ends after `seconds`, because its version is too old.
fn expiring(seconds: u64) -> WatchStream {
    let end = async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let status = Box::new(status::expired("as the test wants"));
        Err(RequestError::Status { status, retry_after: None })
    };
    stream::once(end).boxed()
}

/// Restores the API server to version 80. First the namespace `green` is listed at 85: it had
/// reached only 50, so this list does not show the restore. Then `blue`, which had reached 100, is
/// listed at 86. This shows the restore, so `green` is listed again.
#[tokio::test(start_paused = true)]
async fn namespace_that_listed_before_a_restore_was_noticed_is_listed_again() {
    // An in-order queue has no applied version.
    for (choose, applied) in QUEUES.into_iter().zip([Some("86"), None]) {
        let namespaces = of(["blue", "green"]);
        let blue = Scripted::new()
            .list(list_at(100, "blue", 1))
            .watch_stream(expiring(20))
            .list(list_at(86, "blue", 2))
            .watch_on([]);
        // The version of its object is the same in both histories.
        let green = Scripted::new()
            .list(list_at(50, "green", 1))
            .watch_stream(expiring(10))
            .list(list_at(85, "green", 1))
            .watch_on([])
            .list(list_at(87, "green", 2))
            .watch_on([]);
        let sources = [Arc::new(blue), Arc::new(green)];
        let [blue, green] = sources.clone();
        let source = move |namespace: &str| match namespace {
            "blue" => blue.clone(),
            "green" => green.clone(),
            _ => Arc::default(),
        };
        let informer = choose(Informer::in_namespaces(&namespaces, source))
            .reflector(|reflector| reflector.watch_list(false))
            .on_error(|_| ())
            .build()
            .unwrap();
        run(&informer);
        wait_for_stored(&informer, &["blue/a=2", "green/a=2"]).await;
        until(|| informer.watch_status().is_open).await;
        // Shorter than a watch lasts.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(informer.store().applied_version().as_deref(), applied);
        // A watch may have ended and begun again.
        let is_list =
            |request: &lister_watcher::Request| matches!(request, lister_watcher::Request::List(_));
        let lists = sources.map(|source| source.requests().into_iter().filter(is_list).count());
        assert_eq!(lists, [2, 3], "each restart lists once");
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn object_of_another_namespace_is_refused() {
    for choose in QUEUES {
        let (reports, mut reported) = mpsc::unbounded_channel();
        let namespaces = of(["blue", "green"]);
        let source = |namespace: &str| match namespace {
            "blue" => script([raw("blue", "a", 1)], Vec::new()),
            _ => script(
                [raw("blue", "a", 2)],
                [EventType::Added, EventType::Modified, EventType::Deleted]
                    .into_iter()
                    .map(|kind| RawEvent { kind, object: raw("blue", "a", 6).into() })
                    .collect(),
            ),
        };
        let informer = choose(Informer::in_namespaces(&namespaces, source))
            .reflector(|reflector| reflector.watch_list(false))
            .on_error(move |error| {
                if let InformerError::Namespace {
                    namespace,
                    error: ReflectorError::Refused(error),
                } = error
                {
                    reports.send(format!("{namespace}: {error}")).unwrap();
                }
            })
            .build()
            .unwrap();
        run(&informer);
        // A deletion that is refused is tried again by its key.
        for _ in 0..5 {
            let error = timeout(LONG, reported.recv()).await.expect("it is reported").unwrap();
            assert!(error.starts_with("green: key \"blue/a\""), "{error}");
        }
        wait_for_stored(&informer, &["blue/a=1"]).await;
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nameless_object_of_another_namespace_is_refused_and_the_list_is_used() {
    for choose in QUEUES {
        for metadata in [json!({ "namespace": "green" }), json!({}), json!({ "name": "b" })] {
            let namespaces = of(["blue"]);
            let source = move |_: &str| {
                let page = PageMeta { resource_version: "5".to_owned(), ..PageMeta::default() };
                let bad = json!({ "metadata": metadata }).to_string();
                let items = vec![raw("blue", "a", 1).into(), bad.into()];
                Scripted::new()
                    .list([Ok(Listed::Meta(page)), Ok(Listed::Items(items))])
                    .watch_on([])
            };
            let (reports, mut reported) = mpsc::unbounded_channel();
            let informer = choose(Informer::in_namespaces(&namespaces, source))
                .reflector(|reflector| reflector.watch_list(false))
                .on_error(move |error| reports.send(error.to_string()).unwrap())
                .build()
                .unwrap();
            run(&informer);
            timeout(LONG, informer.wait_for_sync()).await.expect("the list is used").unwrap();
            assert_eq!(stored(&informer), ["blue/a=1"]);
            // The list may be handled before its errors are reported.
            timeout(LONG, reported.recv()).await.expect("it is reported").unwrap();
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_source_stops_only_its_namespace() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "green", "b", 1);
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
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "green", "b", 1);
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

#[tokio::test(start_paused = true)]
async fn addition_has_no_cause_of_a_removal() {
    let server = server();
    for number in 0..200 {
        apply(&server, "green", &format!("map-{number}"), 1);
    }
    for choose in QUEUES {
        let namespaces = of(["green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        run(&informer);
        // Removed while the first objects are being delivered.
        let first = changes.next().await.unwrap();
        namespaces.remove("green");
        let mut all = vec![first];
        while let Ok(Some(change)) = timeout(Duration::from_secs(60), changes.next()).await {
            all.push(change);
        }
        for change in &all {
            if let Notification::Added { cause, .. } = change {
                assert_ne!(*cause, Cause::NamespaceRemoved);
            }
        }
        informer.stop().await;
    }
}

#[test]
fn invalid_names_are_refused() {
    for name in ["", "Blue", "-blue", "blue-", "blue/green", "a.b", &"a".repeat(64)] {
        let error = Namespaces::new([name]).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{name:?} is not")), "{error}");
        assert!(of([]).add(name).is_err());
    }
    let namespaces = of(["a", "blue-2", "0"]);
    assert!(namespaces.add(&"a".repeat(63)).unwrap());
    assert!(!namespaces.add("a").unwrap());
    assert!(!namespaces.remove("b"));
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_every_namespace_and_ends_their_watches() {
    for choose in QUEUES {
        let server = server();
        let namespaces = of(["blue", "green", "red"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        let running = run(&informer);
        informer.wait_for_sync().await.unwrap();
        assert_eq!(server.watchers(), 3);
        informer.stop().await;
        assert!(informer.is_stopped());
        running.await.unwrap().unwrap();
        assert_eq!(server.watchers(), 0);
        assert!(!namespaces.add("blue").unwrap(), "a set outlives its informers");
    }
}

/// The state that a handler derives from its notifications, as `key=value`.
#[derive(Default)]
struct View(BTreeMap<String, String>);

impl View {
    fn key(map: &ConfigMap) -> String {
        let meta = &map.metadata;
        format!("{}/{}", meta.namespace.as_ref().unwrap(), meta.name.as_ref().unwrap())
    }

    fn record(&mut self, notification: &Notification<ConfigMap>) {
        let key = Self::key;
        match notification {
            Notification::Added { new, .. } => {
                let before = self.0.insert(key(new), value(new).to_owned());
                assert_eq!(before, None, "{} is added twice", key(new));
            }
            Notification::Updated { old, new, .. } => {
                let before = self.0.insert(key(new), value(new).to_owned());
                assert_eq!(
                    before.as_deref(),
                    Some(value(old)),
                    "an update must follow the last state"
                );
            }
            Notification::Deleted { old, .. } => {
                assert_eq!(self.0.remove(&key(old)).as_deref(), Some(value(old)));
            }
            Notification::ResyncBegins | Notification::ResyncEnds => {}
        }
    }

    fn shown(&self) -> Vec<String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

/// The choices of a random history.
#[derive(Clone, Copy)]
struct Choices {
    steps: usize,
    /// Whether requests fail. Otherwise, namespaces are added and removed more often.
    with_faults: bool,
    /// The lengths of pauses between two steps, in milliseconds.
    pauses: &'static [u64],
    /// Whether some steps let watches expire, or compact the server's versions. A new watch then
    /// waits for a backoff.
    expire: bool,
    /// The longest time after the last step until the informer's store has the expected objects.
    limit: Duration,
}

/// The pauses of a history under a paused clock.
const PAUSES: &[u64] = &[1, 1_000, 100_000];

/// A random history: writes, faults and changes of the set of namespaces, with the objects that
/// must exist in the end.
struct History<'h> {
    server: &'h ApiServer,
    namespaces: &'h Namespaces,
    names: &'h [String],
    choices: Choices,
    dice: fastrand::Rng,
    objects: BTreeMap<String, u64>,
    /// The number of times that a namespace was removed from the set.
    removals: usize,
    /// The namespaces that were removed from the set at least once.
    removed: BTreeSet<String>,
    /// The objects that were deleted on the server at least once.
    deleted: BTreeSet<String>,
}

impl History<'_> {
    /// Stores in each namespace an object that no step writes or deletes.
    fn begin(&mut self) {
        for name in self.names {
            apply(self.server, name, "first", 0);
            self.objects.insert(format!("{name}/first"), 0);
        }
    }

    async fn step(&mut self) {
        let with_faults = self.choices.with_faults;
        let at = self.dice.usize(..self.names.len());
        let name = self.names[at].clone();
        match self.dice.u8(..100) {
            0..50 => {
                let object = ["a", "b", "c"][self.dice.usize(..3)];
                let data = self.objects.values().max().map_or(1, |most| most + 1);
                apply(self.server, &name, object, data);
                self.objects.insert(format!("{name}/{object}"), data);
            }
            50..60 => {
                let object = ["a", "b", "c"][self.dice.usize(..3)];
                let key = format!("{name}/{object}");
                if self.objects.remove(&key).is_some() {
                    self.deleted.insert(key);
                    self.server.delete(&Resource::config_maps(), &name, object).unwrap();
                }
            }
            60..68 => drop(self.namespaces.add(&name).unwrap()),
            68..74 => self.remove(name),
            74..80 if !with_faults => drop(self.namespaces.add(&name).unwrap()),
            80..87 if !with_faults => self.remove(name),
            74..84 if with_faults => {
                let (_, fault) = FAULTS[self.dice.usize(..FAULTS.len())];
                let times = [1, 2, 5, usize::MAX][self.dice.usize(..4)];
                let fails = move |request: &Request| request.namespace() == Some(name.as_str());
                self.server.fault(fault().when(fails).times(times));
            }
            84..87 if with_faults => self.server.clear_faults(),
            87..90 => drop(self.server.end_watches()),
            90..92 => drop(self.server.break_watches()),
            92..94 if self.choices.expire => {
                self.server.error_watches(status::expired("as the test wants"));
            }
            94..96 if self.choices.expire => self.server.compact(),
            _ => {
                let pauses = self.choices.pauses;
                let millis = pauses[self.dice.usize(..pauses.len())];
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        }
        // Lets the informer do a part of its work, so that the next step meets it at any point. A
        // test with a paused clock would otherwise run it only while it waits for a timer.
        for _ in 0..self.dice.usize(..12) {
            yield_now().await;
        }
    }

    fn remove(&mut self, name: String) {
        if self.namespaces.remove(&name) {
            self.removals += 1;
            self.removed.insert(name);
        }
    }

    /// Asserts that a deletion has its cause: its namespace was removed from the set, or its object
    /// was deleted on the server.
    fn check(&self, change: &Notification<ConfigMap>, seed: u64) {
        let Notification::Deleted { old, cause, .. } = change else { return };
        let key = View::key(old);
        let (namespace, _) = key.split_once('/').unwrap();
        let is_explained = match cause {
            Cause::NamespaceRemoved => self.removed.contains(namespace),
            _ => self.deleted.contains(&key),
        };
        assert!(is_explained, "seed {seed}: {change:?}");
    }

    /// Asserts that a synced informer has the first object of each namespace that has always been
    /// in its set.
    fn check_synced(&self, informer: &Informer, seed: u64) {
        if !informer.has_synced() {
            return;
        }
        for name in self.names.iter().filter(|name| !self.removed.contains(*name)) {
            let first = informer.store().get_by_key(&format!("{name}/first"));
            assert!(first.is_some(), "seed {seed}: synced before the first list of {name}");
        }
    }

    /// Returns the objects that an informer of the set must have in the end.
    fn expected(&self) -> Vec<String> {
        let namespaces = self.namespaces.names();
        let present = self.objects.iter().filter(|(key, _)| {
            let (namespace, _) = key.split_once('/').unwrap();
            namespaces.iter().any(|name| name == namespace)
        });
        present.map(|(key, data)| format!("{key}={data}")).collect()
    }
}

/// Runs a random history, and compares the informer with it. Returns the number of removals.
async fn random_history(seed: u64, names: &[String], choices: Choices) -> usize {
    let dice = fastrand::Rng::with_seed(seed);
    let server = server();
    let namespaces = Namespaces::new(names).unwrap();
    let waits_for_all = seed.is_multiple_of(3);
    let namespaces = if waits_for_all { namespaces } else { namespaces.optional() };
    let mut history = History {
        server: &server,
        namespaces: &namespaces,
        names,
        choices,
        dice,
        objects: BTreeMap::new(),
        removals: 0,
        removed: BTreeSet::new(),
        deleted: BTreeSet::new(),
    };
    history.begin();
    let choose = QUEUES[usize::from(seed.is_multiple_of(2))];
    let unnamed = Arc::new(Mutex::new(Vec::new()));
    let reported = unnamed.clone();
    let informer = choose(builder(&server, &namespaces))
        .on_error(move |error| {
            let text = error.to_string();
            if !matches!(error, InformerError::Namespace { namespace, .. } if text.contains(namespace))
            {
                reported.lock().push(text);
            }
        })
        .build()
        .unwrap();
    let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
    let running = run(&informer);
    let mut view = View::default();
    for _ in 0..choices.steps {
        history.step().await;
        if waits_for_all {
            history.check_synced(&informer, seed);
        }
        while let Some(change) = changes.next().now_or_never() {
            let change = change.expect("the informer runs");
            history.check(&change, seed);
            view.record(&change);
        }
    }
    server.clear_faults();
    // A watch that a fault keeps silent lasts until its timeout.
    server.end_watches();
    let expected = history.expected();
    let follow = async {
        while stored(&informer) != expected || view.shown() != expected {
            let change = changes.next().await.expect("the informer runs");
            history.check(&change, seed);
            view.record(&change);
        }
        informer.wait_for_sync().await.unwrap();
    };
    if timeout(choices.limit, pin!(follow)).await.is_err() {
        let status = informer.namespace_status();
        assert_eq!(stored(&informer), expected, "seed {seed}: {status:#?}");
        panic!("seed {seed}: the handler or the sync is missing: {:?} {status:#?}", view.shown());
    }
    assert_eq!(*unnamed.lock(), [""; 0], "seed {seed}: these errors do not name a namespace");
    informer.stop().await;
    running.await.unwrap().unwrap();
    history.removals
}

#[tokio::test(start_paused = true)]
async fn random_faults_over_three_namespaces_lose_nothing() {
    let names = ["blue", "green", "red"].map(str::to_owned);
    let seeds = std::env::var("NAMESPACE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let choices =
        Choices { steps: 60, with_faults: true, pauses: PAUSES, expire: true, limit: 3 * LONG };
    for seed in 0..seeds.unwrap_or(600) {
        random_history(seed, &names, choices).await;
    }
}

/// A random history of namespaces that gain and lose a label or are deleted, and of the objects in
/// them.
struct Followed {
    server: ApiServer,
    dice: fastrand::Rng,
}

impl Followed {
    async fn step(&mut self) {
        let name = ["blue", "green"][self.dice.usize(..2)];
        let object = ["a", "b", "c"][self.dice.usize(..3)];
        let exists = self.server.get(&Resource::namespaces(), "", name).is_some();
        match self.dice.u8(..100) {
            0..35 if exists => apply(&self.server, name, object, self.dice.u64(..)),
            35..45 => drop(self.server.delete(&Resource::config_maps(), name, object)),
            45..60 => namespace(&self.server, name, ["shop", "bank"][self.dice.usize(..2)]),
            60..65 if exists => {
                let client = kube::Api::<Namespace>::all(self.server.client());
                let mut marked = self.server.get(&Resource::namespaces(), "", name).unwrap();
                marked["metadata"]["finalizers"] = json!(["example.com/content"]);
                self.server.apply(marked).unwrap();
                // This can fail only because of a fault.
                drop(client.delete(name, &DeleteParams::default()).await);
            }
            65..70 if exists => {
                for object in ["a", "b", "c"] {
                    drop(self.server.delete(&Resource::config_maps(), name, object));
                }
                self.server.delete(&Resource::namespaces(), "", name).unwrap();
            }
            70..78 => {
                let (_, fault) = FAULTS[self.dice.usize(..FAULTS.len())];
                let fails = move |request: &Request| request.namespace() == Some(name);
                self.server.fault(fault().when(fails).times([1, 3, 9][self.dice.usize(..3)]));
            }
            78..82 => self.server.clear_faults(),
            82..88 => drop(self.server.end_watches()),
            88..91 => drop(self.server.error_watches(status::expired("as the test wants"))),
            91..93 => self.server.compact(),
            _ => {
                let millis = PAUSES[self.dice.usize(..PAUSES.len())];
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        }
        // As in `History::step`.
        for _ in 0..self.dice.usize(..12) {
            yield_now().await;
        }
    }

    /// Asserts that the object of a deletion does not exist on the server, unless the deletion's
    /// cause is the removal of the namespace from the set.
    fn check(&self, change: &Notification<ConfigMap>, seed: u64) {
        let Notification::Deleted { old, cause, .. } = change else { return };
        let meta = &old.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let now = self.server.get(&Resource::config_maps(), namespace.unwrap(), name.unwrap());
        let lives = now.is_some_and(|now| now["metadata"]["uid"].as_str() == meta.uid.as_deref());
        assert!(meta.uid.is_some());
        assert!(*cause == Cause::NamespaceRemoved || !lives, "seed {seed}: {change:?}");
    }

    /// Returns the objects in the namespaces that have the label.
    fn expected(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in ["blue", "green"] {
            let namespace = self.server.get(&Resource::namespaces(), "", name);
            if namespace.is_none_or(|found| found["metadata"]["labels"]["team"] != "shop") {
                continue;
            }
            for object in ["a", "b", "c"] {
                let map = self.server.get(&Resource::config_maps(), name, object);
                let data =
                    |map: serde_json::Value| map["data"]["data"].as_str().unwrap().to_owned();
                all.extend(map.map(|map| format!("{name}/{object}={}", data(map))));
            }
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn random_labels_and_deletions_of_namespaces_report_no_living_object_as_deleted() {
    for seed in 0..300 {
        let mut history = Followed { server: server(), dice: fastrand::Rng::with_seed(seed) };
        let factory = SharedInformerFactory::new(history.server.client());
        let ours = Scope::all().labels("team=shop");
        let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
        let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
        tokio::spawn(following);
        let scope = Scope::namespaces(&namespaces);
        let choose = QUEUES[usize::from(seed.is_multiple_of(2))];
        let maps = factory
            .informer_with::<ConfigMap>(&(), &scope, |maps| choose(maps).on_error(|_| ()))
            .unwrap();
        let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
        factory.start();
        let mut view = View::default();
        for _ in 0..80 {
            history.step().await;
            while let Some(change) = changes.next().now_or_never() {
                let change = change.expect("the informer runs");
                history.check(&change, seed);
                view.record(&change);
            }
        }
        history.server.clear_faults();
        history.server.end_watches();
        let expected = history.expected();
        let follow = async {
            while stored(&maps) != expected || view.shown() != expected {
                let change = changes.next().await.expect("the informer runs");
                history.check(&change, seed);
                view.record(&change);
            }
            maps.wait_for_sync().await.unwrap();
        };
        if timeout(3 * LONG, pin!(follow)).await.is_err() {
            let status = maps.namespace_status();
            assert_eq!(stored(&maps), expected, "seed {seed}: {status:#?}");
            panic!("seed {seed}: the handler or the sync is missing: {:?}", view.shown());
        }
        drop(changes);
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_namespaces_are_added_and_removed_under_writes() {
    let names: Vec<_> = (0..200).map(|number| format!("shop-{number}")).collect();
    let choices =
        Choices { steps: 4_000, with_faults: false, pauses: PAUSES, expire: true, limit: 3 * LONG };
    for seed in 0..2 {
        let removals = random_history(seed, &names, choices).await;
        assert!(removals > 200, "{removals}");
    }
}

/// Repeats the test above with an informer that runs at the same time as the steps. No watch
/// expires, because the backoff after that would take real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_namespaces_are_added_and_removed_beside_writes() {
    let names: Vec<_> = (0..200).map(|number| format!("shop-{number}")).collect();
    let limit = Duration::from_secs(60);
    let choices = Choices { steps: 4_000, with_faults: false, pauses: &[1], expire: false, limit };
    for seed in 0..2 {
        let removals = random_history(seed, &names, choices).await;
        assert!(removals > 200, "{removals}");
    }
}

#[tokio::test(start_paused = true)]
async fn sets_are_equal_only_to_their_own_handles() {
    let (one, another) = (of(["blue"]), of(["blue"]));
    assert_eq!(one, one.clone());
    assert_ne!(one, another);
    assert_eq!(Scope::namespaces(&one), Scope::namespaces(&one.clone()));
    assert_ne!(Scope::namespaces(&one), Scope::namespaces(&another));
    assert_eq!(format!("{one:?}"), r#"{"blue"}"#);
    assert_eq!(Cause::NamespaceRemoved, Cause::NamespaceRemoved);
}
