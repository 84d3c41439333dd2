//! A rig: a server, a running informer, and a record of the handlers' notifications.

use std::sync::mpsc;

use deltafifo::DeltaObject;
use deltafifo_informer::shared_informer::{
    Cause, HandlerOptions, Notification, RunError, SharedInformer, SharedInformerBuilder,
    Subscription,
};
use deltafifo_informer::{KubeListerWatcher, KubeMeta};
use deltafifo_testkit::{ApiServer, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub type Informer = SharedInformer<ConfigMap>;
pub type MapNotification = Notification<ConfigMap>;
pub type Builder = SharedInformerBuilder<ConfigMap, KubeMeta>;
type Choose = fn(Builder) -> Builder;

/// The builder methods that choose each kind of queue. A test that needs no particular queue runs
/// with both.
pub const QUEUES: [Choose; 2] = [|informer| informer, |informer| informer.in_order()];

pub fn server() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).build()
}

pub fn map(name: &str, data: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": "shop", "name": name },
        "data": { "data": data },
    })
}

pub fn builder(server: &ApiServer) -> Builder {
    Informer::builder(KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None))
}

/// An informer that runs until the test's runtime ends.
pub struct Rig {
    pub server: ApiServer,
    pub informer: Informer,
    pub run: JoinHandle<Result<(), RunError>>,
}

impl Rig {
    pub fn start(server: ApiServer, choose: impl FnOnce(Builder) -> Builder) -> Self {
        let informer =
            choose(builder(&server)).build().expect("its indexes have names of their own");
        let run = run(&informer);
        Self { server, informer, run }
    }

    pub fn apply(&self, name: &str, data: &str) {
        self.server.apply(map(name, data)).expect("a valid map");
    }

    pub fn delete(&self, name: &str) {
        self.server.delete(&Resource::config_maps(), "shop", name).expect("the object exists");
    }

    /// Breaks all open watches, calls `change`, and drops the watch history. Only a list shows the
    /// changes then.
    pub fn missing(&self, change: impl FnOnce(&Self)) {
        self.server.error_watches(status::expired("cut off by the test"));
        change(self);
        self.server.compact();
    }

    pub fn subscribe(&self, options: HandlerOptions<ConfigMap>) -> Subscription<ConfigMap> {
        self.informer.subscribe(options).expect("the informer has not stopped")
    }

    /// Waits until the store has an object of this name with this data.
    pub async fn stored(&self, name: &str, data: &str) {
        let mut changes = self.subscribe(HandlerOptions::new());
        while self
            .informer
            .store()
            .get_by_key(&format!("shop/{name}"))
            .is_none_or(|map| value(&map) != data)
        {
            changes.next().await.expect("the informer runs");
        }
    }
}

pub fn run(informer: &Informer) -> JoinHandle<Result<(), RunError>> {
    let informer = informer.clone();
    tokio::spawn(async move { informer.run().await })
}

pub fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().map_or("", |data| &data["data"])
}

fn name(map: &ConfigMap) -> &str {
    map.metadata.name.as_deref().unwrap_or_default()
}

/// Formats a notification: `initial +a=1`, `watch a=1>2`, `watch -a=2`; a tombstone `relist !a=2`;
/// an object added by the initial list `initial *a=1`.
pub fn shown(received: &MapNotification) -> String {
    let because = |cause: &Cause| format!("{cause:?}").to_lowercase();
    match received {
        Notification::Added { new, is_in_initial_list, cause } => {
            let sign = if *is_in_initial_list { '*' } else { '+' };
            format!("{} {sign}{}={}", because(cause), name(new), value(new))
        }
        Notification::Updated { old, new, cause } => {
            format!("{} {}={}>{}", because(cause), name(new), value(old), value(new))
        }
        Notification::Deleted { last: DeltaObject::Object(last), cause, .. } => {
            format!("{} -{}={}", because(cause), name(last), value(last))
        }
        Notification::Deleted { last: DeltaObject::Tombstone(tombstone), cause, .. } => {
            format!(
                "{} !{}={}",
                because(cause),
                tombstone.key,
                tombstone.obj.as_ref().map_or("?", |last| value(last))
            )
        }
        Notification::ResyncBegins => "begins".to_owned(),
        Notification::ResyncEnds => "ends".to_owned(),
    }
}

/// Waits until no task can run. Only then does a paused clock advance.
pub async fn idle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

/// Returns the next notifications of a stream.
pub async fn next(stream: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.push(shown(&stream.next().await.expect("the informer runs")));
    }
    all
}

/// Returns the next notifications of a stream, sorted.
pub async fn next_sorted(stream: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut all = next(stream, count).await;
    all.sort();
    all
}

/// Returns a handler that records its notifications, and the record.
pub fn notes() -> (impl Fn(MapNotification) + Clone + Send + 'static, Notes) {
    let (write, read) = tokio::sync::mpsc::unbounded_channel();
    let note = move |received: MapNotification| drop(write.send(shown(&received)));
    (note, Notes(read))
}

pub struct Notes(pub tokio::sync::mpsc::UnboundedReceiver<String>);

impl Notes {
    pub async fn next(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.0.recv().await.expect("the handler exists"));
        }
        all
    }

    /// Waits until the handler is dropped, and returns the remaining notifications.
    pub async fn rest(mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(one) = self.0.recv().await {
            all.push(one);
        }
        all
    }
}

/// Returns a handler that blocks its thread at every notification until the test releases it, the
/// sender that releases it, and the record of its notifications.
pub fn gated() -> (impl FnMut(MapNotification) + Send + 'static, mpsc::Sender<()>, Notes) {
    let (note, notes) = notes();
    let (go, gate) = mpsc::channel();
    let handler = move |received: MapNotification| {
        note(received);
        // If the sender is dropped, the handler continues without blocking.
        let _ = gate.recv();
    };
    (handler, go, notes)
}
