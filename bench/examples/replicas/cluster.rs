//! The cluster: the test kit's API server with config maps and the Leases of a group.

use std::error::Error;
use std::io;
use std::iter::once;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use deltafifo_informer::sharding::{ShardBy, ShardGroup, ShardGroupBuilder};
use deltafifo_testkit::{ApiServer, Resource, ShardSelectors, Verb};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::core::{ApiResource, discovery::Scope};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

pub(crate) const SHARDS: usize = 64;
pub(crate) const NAMESPACE: &str = "shop";
const GROUP: &str = "carts";

/// The durations of a group.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    pub(crate) settle: Duration,
}

impl Timing {
    /// The durations that a group has by default.
    pub(crate) const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        settle: Duration::from_secs(5),
    };
    pub(crate) const SHORT: Self = Self {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(400),
        settle: Duration::from_secs(1),
    };

    /// Returns the builder of a member of the group. Several may be in one process.
    pub(crate) fn group(self, client: Client, pod: &str, by: ShardBy) -> ShardGroupBuilder {
        ShardGroup::builder(client, NAMESPACE, GROUP)
            .identity(pod)
            .by(by)
            .lease_duration(self.lease_duration)
            .renew_deadline(self.renew_deadline)
            .retry_period(self.retry_period)
            .settle(self.settle)
            .on_error(|error| eprintln!("group: {error}"))
            .beside_others()
    }
}

/// Returns a server without objects.
pub(crate) fn server(selectors: ShardSelectors) -> ApiServer {
    let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
    ApiServer::builder()
        .resource(leases)
        .resource(Resource::config_maps())
        .shard_selectors(selectors)
        .frame_size(64 << 10)
        .build()
}

/// Creates the Leases of the group, which are free at once.
pub(crate) fn create_leases(server: &ApiServer) -> Result<(), Failure> {
    let shards = (0..SHARDS).map(|shard| format!("{GROUP}-shard-{shard:03}"));
    once(GROUP.to_owned()).chain(shards).try_for_each(|name| create_lease(server, &name))
}

/// Creates a Lease that is free at once.
pub(crate) fn create_lease(server: &ApiServer, name: &str) -> Result<(), Failure> {
    let labels = json!({ "deltafifo/group": GROUP });
    server.apply(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": NAMESPACE, "name": name, "labels": labels },
    }))?;
    Ok(())
}

/// Creates stored config maps.
pub(crate) fn create_maps(server: &ApiServer, count: usize) -> Result<(), Failure> {
    for number in 0..count {
        server.apply(config_map(number))?;
    }
    Ok(())
}

/// Returns a config map of about 800 bytes with the metadata that the server adds.
pub(crate) fn config_map(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("cart-{number}"), "namespace": NAMESPACE },
        "data": { "items": format!("{number:0500}") },
    })
}

/// Returns the number of a config map.
pub(crate) fn number_of(map: &ConfigMap) -> Option<usize> {
    map.metadata.name.as_deref()?.strip_prefix("cart-")?.parse().ok()
}

/// The requests that a server has received.
#[derive(Default)]
pub(crate) struct Requests {
    /// Writes by which members renew their own Leases.
    pub(crate) renewals: usize,
    /// Other writes of Leases.
    pub(crate) lease_writes: usize,
    pub(crate) object_writes: usize,
    /// Gets, lists and watches.
    pub(crate) reads: usize,
    /// Lists of objects, without those of one object, by which an informer checks its permission to
    /// list.
    pub(crate) lists: usize,
    /// The pages of these lists.
    pub(crate) pages: usize,
}

impl Requests {
    /// Counts the requests since the server last forgot them.
    pub(crate) fn of(server: &ApiServer) -> Self {
        let mut counts = Self::default();
        for request in server.requests() {
            let is_member = request.name().is_some_and(|name| name.contains("-member-"));
            let count = match (request.verb(), request.plural()) {
                (Verb::Get | Verb::List | Verb::Watch, _) => &mut counts.reads,
                (Verb::Update, Some("leases")) if is_member => &mut counts.renewals,
                (_, Some("leases")) => &mut counts.lease_writes,
                _ => &mut counts.object_writes,
            };
            *count += 1;
            let is_list = request.verb() == Verb::List && request.plural() != Some("leases");
            if is_list && request.limit() != Some(1) {
                counts.pages += 1;
                counts.lists += usize::from(request.continue_token().is_none());
            }
        }
        counts
    }
}

/// Serves on a port of loopback until the runtime ends. Returns the address.
pub(crate) async fn serve(server: ApiServer) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let service = TowerToHyperService::new(server.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
        }
    });
    Ok(address)
}

/// Waits until `check` returns true.
///
/// # Errors
/// If that takes longer than `limit`. `what` names the state that was not reached.
pub(crate) async fn reached(
    what: &str,
    limit: Duration,
    mut check: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let began = Instant::now();
    while !check() {
        if began.elapsed() > limit {
            return Err(format!("not reached within {limit:?}: {what}").into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
