//! A rig: a server with Leases, and replicas of a program that share 16 shards.

#[cfg(feature = "runtime")]
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Resource, Verb};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, ObjectMeta, discovery::Scope};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error_chain;
#[cfg(feature = "runtime")]
use crate::runtime::{controller, watcher};
use crate::sharding::participants::{Participant, Participation};
use crate::sharding::{Permit, RunError, ShardGroup, ShardGroupBuilder, ShardSet};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);

pub(super) fn leases() -> Resource {
    Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced)
}

/// Returns a server with the Leases of a manifest.
pub(super) fn server() -> ApiServer {
    let server = ApiServer::builder().resource(leases()).build();
    apply_leases(&server, "shop", 16);
    server
}

/// Writes the Leases of a manifest, which have no `spec`: those of the group and of its shards.
pub(super) fn apply_leases(server: &ApiServer, namespace: &str, shards: u8) {
    for name in std::iter::once("counter".to_owned()).chain((0..shards).map(shard_lease)) {
        let mut lease = lease(&name, &json!(null));
        lease["metadata"]["namespace"] = json!(namespace);
        server.apply(lease).unwrap();
    }
}

/// Returns the name of a shard's Lease.
pub(super) fn shard_lease(shard: u8) -> String {
    format!("counter-shard-{shard:03}")
}

/// Returns a Lease with the label of the group.
pub(super) fn lease(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "namespace": "shop", "name": name, "labels": { "deltafifo/group": "counter" },
        },
        "spec": spec,
    })
}

pub(super) fn builder_of(client: Client, pod: &str) -> ShardGroupBuilder {
    ShardGroup::builder(client, "shop", "counter").identity(pod).shards(16).beside_others()
}

/// Returns the identities of the members that have a Lease, in the order of their names.
pub(super) async fn members(server: &ApiServer) -> Vec<String> {
    let leases = Api::<Lease>::namespaced(server.client(), "shop");
    let leases = leases.list(&ListParams::default()).await.unwrap();
    let members = leases.iter().filter_map(|lease| {
        let name = lease.metadata.name.as_ref()?;
        let (pod, random) = name.strip_prefix("counter-member-")?.rsplit_once('.')?;
        Some(format!("{pod}_{random}"))
    });
    members.collect()
}

/// Returns the name of a member's Lease.
pub(super) fn name_of(member: &str) -> String {
    format!("counter-member-{}", member.replace('_', "."))
}

/// Returns the holder in the Lease of a shard.
pub(super) fn holder(server: &ApiServer, shard: u8) -> String {
    let lease = server.get(&leases(), "shop", &shard_lease(shard));
    lease.unwrap()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn count(server: &ApiServer, verbs: &[Verb]) -> usize {
    server.requests().iter().filter(|request| verbs.contains(&request.verb())).count()
}

/// Returns the value of a gauge, which only one group in one namespace has. Sets all metrics of the
/// recorder to 0.
pub(super) fn gauge(recorder: &DebuggingRecorder, name: &str) -> Option<f64> {
    let DebugValue::Gauge(value) = metric(recorder, name)? else { panic!("{name} is no gauge") };
    Some(value.into_inner())
}

/// Returns the value of a counter as [`gauge`] does that of a gauge.
pub(super) fn counter(recorder: &DebuggingRecorder, name: &str) -> Option<u64> {
    let DebugValue::Counter(value) = metric(recorder, name)? else {
        panic!("{name} is no counter")
    };
    Some(value)
}

fn metric(recorder: &DebuggingRecorder, name: &str) -> Option<DebugValue> {
    let all = recorder.snapshotter().snapshot().into_vec();
    Some(all.into_iter().find(|(key, ..)| key.key().name() == name)?.3)
}

/// Waits until the permit is lost.
pub(super) async fn lost(permit: &Permit) {
    timeout(HOUR, permit.lost()).await.expect("the permit is lost");
}

/// Returns an object of the shard.
pub(super) fn object_of(shard: u8) -> ConfigMap {
    use crate::sharding::hash::{ObjectId, ShardBy};
    use crate::sharding::shards::ShardCount;
    let count = ShardCount::new(16).unwrap();
    let of =
        |name: &str| ShardBy::Key.shard_of(ObjectId { namespace: "shop", name, uid: "" }, count);
    let name = (0..10_000)
        .map(|number| format!("cart-{number}"))
        .find(|name| of(name) == Some(shard))
        .unwrap();
    let (name, namespace) = (Some(name), Some("shop".to_owned()));
    ConfigMap {
        metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

/// Returns an object of a kind with the name of [`object_of`].
#[cfg(feature = "runtime")]
pub(super) fn json_of(kind: &str, shard: u8) -> Value {
    json!({ "kind": kind, "apiVersion": "v1", "metadata": object_of(shard).metadata })
}

/// Writes the config map of a shard.
#[cfg(feature = "runtime")]
pub(super) fn write_map(server: &ApiServer, shard: u8, value: u32) {
    let mut map = json_of("ConfigMap", shard);
    map["data"] = json!({ "value": value.to_string() });
    server.apply(map).unwrap();
}

/// Returns the function to call for each result of a controller. It collects the errors, except
/// those of lists and watches, which may fail in a test.
#[cfg(feature = "runtime")]
pub(super) fn collect_errors<T, E: std::error::Error>(
    errors: Arc<Mutex<Vec<String>>>,
) -> impl FnMut(Result<T, controller::Error<E, watcher::Error>>) -> Ready<()> {
    move |result| {
        if let Err(error) = result
            && !matches!(error, controller::Error::QueueError(_))
        {
            errors.lock().push(error.to_string());
        }
        ready(())
    }
}

/// A participant that records its orders. A fill ends while `fills` is true.
pub(super) struct Fake {
    pub(super) fills: watch::Sender<bool>,
    pub(super) filled: Mutex<Vec<ShardSet>>,
    pub(super) enqueued: Mutex<Vec<u8>>,
}

impl Fake {
    pub(super) fn new() -> Arc<Self> {
        let fills = watch::Sender::new(true);
        Arc::new(Self { fills, filled: Mutex::default(), enqueued: Mutex::default() })
    }
}

impl Participant for Fake {
    fn title(&self) -> String {
        "fake".to_owned()
    }

    fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()> {
        self.filled.lock().push(shards);
        let mut fills = self.fills.subscribe();
        async move { drop(fills.wait_for(|fills| *fills).await) }.boxed()
    }

    fn enqueue(&self, shards: ShardSet) {
        self.enqueued.lock().extend(shards.iter());
    }
}

/// A replica that runs in a task until it is stopped or killed.
pub(super) struct Replica {
    pub(super) group: ShardGroup,
    pub(super) fake: Arc<Fake>,
    pub(super) participation: Option<Participation>,
    pub(super) errors: Arc<Mutex<Vec<String>>>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Replica {
    pub(super) fn start(server: &ApiServer, pod: &str) -> Self {
        Self::start_with(builder_of(server.client(), pod))
    }

    pub(super) fn start_with(builder: ShardGroupBuilder) -> Self {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&errors);
        let group = builder
            .on_error(move |error| reported.lock().push(error_chain(error)))
            .build()
            .unwrap();
        let fake = Fake::new();
        let participation = Some(group.join(Arc::clone(&fake) as Arc<dyn Participant>));
        let (stop, stopped) = oneshot::channel::<()>();
        let run = group.run_until(async {
            // If the sender is dropped, the test has ended.
            let _ = stopped.await;
        });
        let task = tokio::spawn(run);
        Self { group, fake, participation, errors, stop: Some(stop), task }
    }

    /// Waits until the replica owns this number of shards. Returns them.
    pub(super) async fn owns(&self, shards: usize) -> ShardSet {
        let mut owned = self.group.owned();
        let owned = timeout(HOUR, owned.wait_for(|owned| owned.len() == shards)).await;
        *owned.unwrap_or_else(|_| panic!("it never owns {shards} shards")).unwrap()
    }

    pub(super) fn admit(&self, shard: u8) -> Option<Permit> {
        self.group.admit(&object_of(shard))
    }

    pub(super) fn stop(&mut self) {
        self.stop.take().expect("it is stopped once").send(()).expect("it runs");
    }

    /// Ends the replica without a release.
    pub(super) async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.is_err(), "it had ended before");
    }

    pub(super) async fn ended(&mut self) -> Result<(), RunError> {
        timeout(HOUR, &mut self.task).await.expect("it ends").expect("it does not panic")
    }

    pub(super) fn reported(&self) -> Vec<String> {
        self.errors.lock().clone()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}
