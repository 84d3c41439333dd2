//! A server with objects in several namespaces, faults of one of them, and an informer whose
//! namespaces a label selects.

use std::time::Duration;

use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::shared_informer::{
    HandlerOptions, Namespaces, Notification, Scope, SharedInformer, SharedInformerFactory,
    Subscription,
};
use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::time::timeout;

use crate::rig::{Builder, Informer, value};

/// A time that is longer than any backoff, and longer than the client waits for two requests in a
/// row that the server does not answer.
pub const LONG: Duration = Duration::from_secs(600);

pub fn server() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).resource(Resource::namespaces()).build()
}

pub fn apply(server: &ApiServer, namespace: &str, name: &str, data: u64) {
    let map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": namespace, "name": name },
        "data": { "data": data.to_string() },
    });
    server.apply(map).expect("a map with a name");
}

/// Returns a server with the maps `blue/a` and `green/b`, whose data are 1.
pub fn blue_and_green() -> ApiServer {
    let server = server();
    for (namespace, name) in [("blue", "a"), ("green", "b")] {
        apply(&server, namespace, name, 1);
    }
    server
}

/// Creates or replaces `count` maps `m0`, `m1`, ... of a namespace.
pub fn apply_many(server: &ApiServer, namespace: &str, count: usize) {
    for n in 0..count {
        apply(server, namespace, &format!("m{n}"), 1);
    }
}

/// Creates or replaces a namespace that has the label `team`.
pub fn namespace(server: &ApiServer, name: &str, team: &str) {
    let namespace = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": { "name": name, "labels": { "team": team } },
    });
    server.apply(namespace).unwrap();
}

pub fn builder(server: &ApiServer, namespaces: &Namespaces) -> Builder {
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    Informer::in_namespaces(namespaces, move |namespace| all.in_namespace(namespace))
}

pub fn of<const N: usize>(names: [&str; N]) -> Namespaces {
    Namespaces::new(names).expect("valid names")
}

/// Returns `key=value` of every stored object, in order.
pub fn stored(informer: &Informer) -> Vec<String> {
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
pub async fn wait_for_stored(informer: &Informer, expected: &[&str]) {
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
pub async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONG, waiting).await.expect("the condition does not hold");
}

pub fn in_green(request: &Request) -> bool {
    request.namespace() == Some("green")
}

/// Returns a fault that answers with 403.
pub fn forbidden() -> Fault {
    Fault::status(status::forbidden(&Resource::config_maps()))
}

type MakeFault = fn() -> Fault;

/// The ways in which requests for a namespace fail, each way with its name.
pub const FAULTS: [(&str, MakeFault); 6] = [
    ("403", forbidden),
    ("404", || Fault::status(status::unknown_resource())),
    ("500", || Fault::status(status::internal_error("as the test wants"))),
    ("refused", Fault::refused),
    ("silent", Fault::silence),
    // The body stops within its first bytes.
    ("hanging", || Fault::hang(After::Bytes(20))),
];

/// The pauses of a history under a paused clock.
pub const PAUSES: &[u64] = &[1, 1_000, 100_000];

/// Formats a notification's cause and object: `Watch +a`, `Watch a` or `Watch -a`.
pub fn shown(notification: &Notification<ConfigMap>) -> String {
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
    match notification {
        Notification::Added { new, cause, .. } => format!("{cause:?} +{}", name(new)),
        Notification::Updated { new, cause, .. } => format!("{cause:?} {}", name(new)),
        Notification::Deleted { old, cause, .. } => format!("{cause:?} -{}", name(old)),
        Notification::ResyncBegins | Notification::ResyncEnds => "resync".to_owned(),
    }
}

pub async fn next(changes: &mut Subscription<ConfigMap>) -> String {
    let next = timeout(LONG, changes.next()).await.expect("nothing is delivered");
    shown(&next.expect("the informer runs"))
}

/// Writes the map `blue/a`, and returns the version of the write.
pub fn write_blue(server: &ApiServer, n: u64) -> String {
    apply(server, "blue", "a", n);
    server.version().to_string()
}

pub async fn is_applied(informer: &Informer, version: &str) -> bool {
    let store = informer.store();
    let waiting = store.wait_for_resource_version_async(version);
    timeout(Duration::from_secs(60), waiting).await.is_ok_and(|waited| waited.is_ok())
}

/// An informer of the maps in the namespaces of the team `shop`, which a label selects.
pub struct Shop {
    pub factory: SharedInformerFactory,
    /// The informer of the team's namespaces.
    pub all: SharedInformer<PartialObjectMeta<Namespace>>,
    pub maps: Informer,
}

impl Shop {
    /// Creates the informers, which [`SharedInformerFactory::start`] starts.
    pub fn new(server: &ApiServer, choose: impl FnOnce(Builder) -> Builder) -> Self {
        let factory = SharedInformerFactory::new(server.client());
        let ours = Scope::all().labels("team=shop");
        let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
        let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
        tokio::spawn(following);
        let scope = Scope::namespaces(&namespaces);
        let maps = factory.informer_with::<ConfigMap>(&(), &scope, choose).unwrap();
        Self { factory, all, maps }
    }
}
