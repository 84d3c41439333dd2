//! Tests of replicas that wait for the informers of their controllers before they join a group, and
//! of fills.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::client::Body;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::rig::*;
use crate::runtime::controller::{Action, Config};
use crate::runtime::{Controller, watcher};
use crate::sharding::participants::{Participant, Participants};
use crate::sharding::{ShardGroup, ShardSet};

/// Returns a server with the Leases of the group, config maps and pods.
fn server() -> ApiServer {
    let server = super::rig::server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    server
}

fn owner_of_pods(server: &ApiServer) -> Controller<ConfigMap> {
    let maps = Api::<ConfigMap>::all(server.client());
    let pods = Api::<Pod>::all(server.client());
    Controller::new(maps, watcher::Config::default()).owns(pods, watcher::Config::default())
}

/// Returns the stream of a sharded controller.
fn run(controller: Controller<ConfigMap>, group: &ShardGroup) -> impl Stream + Send + use<> {
    controller.sharded(group).run(
        |_, _| async { Ok::<_, Error>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    )
}

fn spawn(stream: impl Stream + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(stream.for_each(|_| async {}))
}

fn is_list_of_pods(request: &Request) -> bool {
    request.verb() == Verb::List && request.plural() == Some("pods")
}

fn forbidden() -> Fault {
    let refused = Fault::status(status::forbidden(&Resource::pods())).when(is_list_of_pods);
    refused.times(usize::MAX)
}

#[tokio::test(start_paused = true)]
async fn replica_takes_no_shards_before_the_informers_of_its_controllers_have_synced() {
    let server = server();
    let first = Replica::start(&server, "a");
    first.owns(16).await;
    server.fault(forbidden());
    let second = Replica::start(&server, "b");
    let controller = spawn(run(owner_of_pods(&server), &second.group));
    sleep(50 * SECOND).await;
    assert_eq!(first.group.owned().borrow().len(), 16);
    assert_eq!(members(&server).await.len(), 1, "the second replica is no member");
    assert_eq!(second.reported(), [] as [String; 0]);
    sleep(15 * SECOND).await;
    let [error] = &second.reported()[..] else { panic!("{:?}", second.reported()) };
    assert!(error.contains("has not joined group shop/counter for 60s"), "{error}");
    server.clear_faults();
    second.owns(8).await;
    controller.abort();
}

#[tokio::test(start_paused = true)]
async fn replica_waits_for_a_controller_until_it_runs_or_is_dropped() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    let unpolled = run(owner_of_pods(&server), &replica.group);
    let controller = spawn(run(owner_of_pods(&server), &replica.group));
    sleep(30 * SECOND).await;
    assert!(members(&server).await.is_empty());
    drop(unpolled);
    replica.owns(16).await;
    // The first members of a group have waited for no controller.
    let _late = run(owner_of_pods(&server), &replica.group);
    sleep(60 * SECOND).await;
    assert_eq!(replica.group.owned().borrow().len(), 16);
    controller.abort();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn controller_that_is_not_polled_does_not_keep_a_replica_from_joining_again() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let _unpolled = run(owner_of_pods(&server), &replica.group);
    let member = members(&server).await.remove(0);
    server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    replica.owns(0).await;
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn fill_whose_shards_are_all_released_is_no_fill() {
    let (participants, fake) = (Participants::default(), Fake::new());
    let _joined = participants.join(|_held| Arc::clone(&fake) as Arc<dyn Participant>);
    let shards: ShardSet = [1, 2].into_iter().collect();
    let fill = participants.fill(shards, |_, _| {});
    participants.release(shards);
    fill.await;
    assert_eq!(*fake.filled.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn fill_whose_shards_are_all_released_does_not_delay_the_next_one() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let fake = &replica.fake;
    fake.fills.send_replace(false);
    fake.filled.lock().clear();
    for number in 1..=2 {
        // The member loses the shard, and claims it again. The first fill never ends.
        server.delete(&leases(), "shop", "counter-shard-003").unwrap();
        let begun = async {
            while fake.filled.lock().len() < number {
                sleep(SECOND).await;
            }
        };
        timeout(HOUR, begun).await.unwrap_or_else(|_| panic!("fill {number} does not begin"));
    }
    let shard: ShardSet = [3].into_iter().collect();
    assert_eq!(*fake.filled.lock(), [shard, shard]);
    fake.fills.send_replace(true);
    replica.owns(16).await;
}

/// Returns a client whose lists of metadata are refused, with this `Retry-After` in seconds, while
/// the value of the sender is true. The other value counts the refusals. After 1000 the lists are
/// answered, so that a flood of them does not keep the paused clock from advancing.
fn refusing_metadata(
    server: &ApiServer,
    retry_after: u64,
) -> (Client, watch::Sender<bool>, Arc<AtomicUsize>) {
    let client = server.client();
    let (sender, refuses) = watch::channel(true);
    let count = Arc::new(AtomicUsize::new(0));
    let refusals = Arc::clone(&count);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let accept = request.headers().get(http::header::ACCEPT);
        let is_of_metadata = accept
            .is_some_and(|accept| accept.to_str().unwrap().contains("PartialObjectMetadataList"));
        let is_refused =
            is_of_metadata && *refuses.borrow() && refusals.fetch_add(1, Ordering::Relaxed) < 1000;
        let client = client.clone();
        async move {
            if !is_refused {
                return client.send(request).await;
            }
            let answer = http::Response::builder().status(503);
            Ok(answer.header("Retry-After", retry_after).body(Body::empty()).unwrap())
        }
    });
    (Client::new(service, "default"), sender, count)
}

#[tokio::test(start_paused = true)]
async fn retry_after_neither_stops_a_fill_nor_causes_a_flood_of_lists() {
    for retry_after in [0, 86_400, u64::MAX] {
        let server = server();
        let (client, refuses, refusals) = refusing_metadata(&server, retry_after);
        let replica = Replica::start(&server, "a");
        let maps = Api::<ConfigMap>::all(client);
        let controller = Controller::new(maps, watcher::Config::default());
        let controller = spawn(run(controller, &replica.group));
        sleep(15 * 60 * SECOND).await;
        // The start of the controller and the fill of the group each wait for a list. The backoff
        // grows to 30 s, and a server can ask for 300 s.
        let lists = refusals.load(Ordering::Relaxed);
        assert!((6..100).contains(&lists), "{lists} lists with Retry-After: {retry_after}");
        assert!(replica.group.owned().borrow().is_empty());
        refuses.send_replace(false);
        let began = Instant::now();
        replica.owns(16).await;
        assert!(began.elapsed() <= 301 * SECOND, "{:?}", began.elapsed());
        controller.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn stop_ends_a_replica_that_has_not_joined() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    let _unpolled = run(owner_of_pods(&server), &replica.group);
    sleep(30 * SECOND).await;
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert_eq!(count(&server, &[Verb::Create, Verb::Update]), 0);
}

#[tokio::test(start_paused = true)]
async fn kinds_that_reconciles_do_not_wait_for_do_not_delay_a_replica() {
    let ignored = |server: &ApiServer| {
        owner_of_pods(server).with_config(Config::default().wait_for_related(false))
    };
    let optional = |server: &ApiServer| owner_of_pods(server).optional();
    for controller in [ignored, optional] {
        let server = server();
        server.fault(forbidden());
        let replica = Replica::start(&server, "a");
        let controller = spawn(run(controller(&server), &replica.group));
        replica.owns(16).await;
        controller.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn shards_are_owned_although_a_controller_fails_to_start() {
    use crate::SharedInformer;

    let server = server();
    let replica = Replica::start(&server, "a");
    let events = futures_util::stream::pending::<kube::runtime::watcher::Result<_>>();
    let of_stream = SharedInformer::<ConfigMap>::for_stream(events).build().unwrap();
    let controller = run(Controller::from_informer(&of_stream), &replica.group);
    let mut controller = std::pin::pin!(controller);
    while controller.next().await.is_some() {}
    replica.owns(16).await;
}
