//! Tests of the work under a lease: its client, and controllers.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::leader_election::{self, ElectionError, LeaderElectorBuilder, Term};
use deltafifo_informer::runtime::{Controller, controller::Action, own_writes};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use futures_util::{StreamExt, poll};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::client::{Body, retry::RetryPolicy};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep, timeout};
use tower::BoxError;
use tower::retry::Retry;

use super::rig::{HOUR, Replica, builder, builder_of, count, holder, renew_time, server};

fn map(name: &str) -> Value {
    let metadata = json!({ "namespace": "shop", "name": name });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
}

fn typed(name: &str) -> ConfigMap {
    serde_json::from_value(map(name)).unwrap()
}

/// The form in which the informers of these tests keep maps: compact if the feature `compact` is
/// enabled.
#[cfg(not(feature = "compact"))]
type Stored = ConfigMap;
#[cfg(feature = "compact")]
type Stored = deltafifo_informer::compact::Compact<ConfigMap>;

/// Returns an informer of all maps, which runs in a task.
fn running_maps(server: &ApiServer) -> SharedInformer<Stored> {
    let source = KubeListerWatcher::of_api(Api::<ConfigMap>::all(server.client()), &());
    let maps = SharedInformer::<Stored>::builder(source).build().unwrap();
    let running = maps.clone();
    tokio::spawn(async move { running.run().await });
    maps
}

/// Returns a server with the map `a`, an informer of its maps, and a leader with its term.
async fn leading() -> (ApiServer, SharedInformer<Stored>, Replica, Term) {
    let server = server();
    server.apply(map("a")).unwrap();
    let maps = running_maps(&server);
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    (server, maps, leader, term)
}

/// Begins a request of the term that gets no answer. Returns once the server has received it.
async fn create_without_an_answer(
    server: &ApiServer,
    term: &Term,
) -> JoinHandle<kube::Result<ConfigMap>> {
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    server.fault(Fault::silence().on(Verb::Create));
    let create =
        tokio::spawn(async move { maps.create(&PostParams::default(), &typed("a")).await });
    server.wait_for_request(|request| request.verb() == Verb::Create).await;
    create
}

#[tokio::test(start_paused = true)]
async fn client_of_a_term_refuses_writes_after_its_end_but_not_reads() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    maps.create(&PostParams::default(), &typed("a")).await.unwrap();
    server.fault(Fault::refused().on(Verb::Update).times(usize::MAX));
    term.lost().await;
    server.forget_requests();
    let refused = maps.create(&PostParams::default(), &typed("b")).await.unwrap_err();
    assert!(leader_election::is_lost(&refused), "{refused}");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let sent: Vec<_> = server.requests().iter().map(Request::verb).collect();
    assert!(!sent.contains(&Verb::Create), "{sent:?}");
    let error = maps.get("missing").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
    assert!(!leader_election::is_lost(&error));
}

#[tokio::test(start_paused = true)]
async fn request_without_an_answer_is_given_up_at_the_deadline() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    server.fault(Fault::silence().times(usize::MAX));
    let began = Instant::now();
    let given_up = maps.create(&PostParams::default(), &typed("a")).await.unwrap_err();
    assert!(leader_election::is_lost(&given_up), "{given_up}");
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_and_not_released_while_a_sent_request_has_no_answer() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let create = create_without_an_answer(&server, &term).await;
    leader.cancel();
    let refused = create.await.unwrap().unwrap_err();
    assert!(leader_election::is_lost(&refused), "its caller does not wait: {refused}");
    assert!(!term.is_held());
    drop(term);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(holder(&server), "a");
    let mut standby = Replica::start(&server, "b");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(holder(&server), "a", "the lease is renewed");
    leader.kill().await;
    assert_eq!(standby.term().await.transitions(), 2);
}

#[tokio::test(start_paused = true)]
async fn lease_is_not_released_while_a_clone_of_the_term_is_alive() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let other = term.clone();
    leader.cancel();
    drop(term);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(holder(&server), "a");
    drop(other);
    assert_eq!(leader.ended().await, Ok(()));
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_its_lease_fails_the_check() {
    let server = server();
    let mut replica = Replica::start_with(builder(&server, "a"), true);
    let term = replica.term().await;
    server.fault(Fault::refused().times(usize::MAX));
    let tolerance = Duration::from_secs(20);
    term.lost().await;
    // The lease expires 5 s after the renew deadline.
    sleep(Duration::from_millis(24_900)).await;
    assert_eq!(replica.elector.check(tolerance), Ok(()));
    sleep(Duration::from_millis(200)).await;
    assert!(replica.elector.check(tolerance).is_err());
    drop(term);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(replica.elector.check(tolerance), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_that_the_work_notices_first_is_a_loss() {
    let server = server();
    let elector = short(&server, "a").build().unwrap();
    let refused = || Fault::refused().times(usize::MAX);
    let led = elector.run(|term| {
        server.fault(refused());
        async move { work_in_this_thread(&term) }
    });
    let lost = led.await.unwrap_err();
    assert!(matches!(lost, ElectionError::Expired { .. }), "{lost}");
    server.clear_faults();

    let mut terms = 0;
    let elector = short(&server, "b").build().unwrap();
    let led = elector.run_again(|term| {
        terms += 1;
        let is_first = terms == 1;
        if is_first {
            server.fault(refused());
        }
        let server = &server;
        async move {
            if is_first {
                work_in_this_thread(&term);
                server.clear_faults();
            }
        }
    });
    led.await.unwrap();
    assert_eq!(terms, 2, "it campaigns again");
}

/// A cancelled reconcile is dropped only at its next await. Until then the lease must not be
/// released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_not_released_before_a_reconcile_that_blocks_its_thread_has_been_dropped() {
    let server = server();
    server.apply(map("a")).unwrap();
    let maps = running_maps(&server);
    let (sender, mut events) = mpsc::unbounded_channel();
    let cancel = Arc::new(Notify::new());
    let cancelled = Arc::clone(&cancel);
    let elector = short(&server, "a").cancel_on(async move { cancelled.notified().await });
    let elector = elector.build().unwrap();
    let seen = server.clone();
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        let (cancel, seen, sender) = (Arc::clone(&cancel), seen.clone(), sender.clone());
        async move {
            cancel.notify_one();
            let (began, renewed) = (Instant::now(), renew_time(&seen));
            // A renewal shows that the elector keeps the lease after the cancellation. The limit is
            // for a machine that is so slow that the lease is lost: the test then fails.
            while holder(&seen) == "a"
                && renew_time(&seen) == renewed
                && began.elapsed() < Duration::from_secs(30)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = sender.send(holder(&seen));
            Ok::<_, Infallible>(Action::await_change())
        }
    };
    let led = elector.run(|term| {
        Controller::from_informer(&maps)
            .while_leading(&term)
            .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
            .for_each(|_| async {})
    });
    led.await.unwrap();
    assert_eq!(events.recv().await.unwrap(), "a", "the holder at the end of the reconcile");
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_dropped_at_the_deadline() {
    let (server, maps, _leader, term) = leading().await;
    let (controller, mut events) = endless_controller(&maps, &term);
    let began = Instant::now();
    server.fault(Fault::refused().on(Verb::Update).times(usize::MAX));
    controller.await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert_eq!(events.recv().await.unwrap(), "a");
    assert_eq!(events.recv().await.unwrap(), "dropped");
}

/// Returns a builder with the durations of a short election.
fn short(server: &ApiServer, name: &str) -> LeaderElectorBuilder {
    builder(server, name)
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_millis(400))
}

/// Works until the end of the term without an await point, so that the elector cannot drop the
/// work.
fn work_in_this_thread(term: &Term) {
    while term.is_held() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A value that sends the message `dropped` when it is dropped.
struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".to_owned());
    }
}

/// Returns a controller whose reconciles do not end, and the messages of the reconciles: the name
/// of the map when one begins, and `dropped` when it is dropped.
fn endless_controller(
    maps: &SharedInformer<Stored>,
    term: &Term,
) -> (impl Future<Output = ()> + use<>, mpsc::UnboundedReceiver<String>) {
    let (sender, events) = mpsc::unbounded_channel();
    let reconcile = move |map: Arc<ConfigMap>, _: Arc<()>| {
        let _ = sender.send(map.metadata.name.clone().unwrap_or_default());
        let dropped = Dropped(sender.clone());
        async move {
            let _dropped = dropped;
            pending::<Result<Action, Infallible>>().await
        }
    };
    let stream = Controller::from_informer(maps).while_leading(term).run(
        reconcile,
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    (stream.for_each(|_| async {}), events)
}

#[tokio::test(start_paused = true)]
async fn controller_reconciles_only_while_its_term_continues() {
    let (server, maps, mut leader, term) = leading().await;
    let (controller, mut events) = endless_controller(&maps, &term);
    let controller = tokio::spawn(controller);
    assert_eq!(events.recv().await.unwrap(), "a");

    leader.cancel();
    controller.await.unwrap();
    assert_eq!(events.recv().await.unwrap(), "dropped");
    assert_eq!(holder(&server), "a", "the test holds the term");
    drop(term);
    assert_eq!(leader.ended().await, Ok(()));
    assert_eq!(holder(&server), "");
    server.apply(map("b")).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(events.is_empty(), "nothing is reconciled after the term");
    assert_eq!(maps.store().len(), 2, "the informer continues");
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_cancelled_although_the_stream_is_not_polled() {
    let (server, maps, mut leader, term) = leading().await;
    server.apply(map("b")).unwrap();
    let (sender, mut events) = mpsc::unbounded_channel();
    let reconcile = move |map: Arc<ConfigMap>, _: Arc<()>| {
        let dropped = Dropped(sender.clone());
        async move {
            let _dropped = dropped;
            if map.metadata.name.as_deref() == Some("b") {
                pending::<()>().await;
            }
            sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Action::await_change())
        }
    };
    let stream = Controller::from_informer(&maps).while_leading(&term).run(
        reconcile,
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    // The consumer waits after the reconcile of "a".
    let controller = tokio::spawn(stream.for_each(|_| pending::<()>()));
    assert_eq!(events.recv().await.unwrap(), "dropped");
    leader.cancel();
    drop(term);
    let dropped = timeout(HOUR, events.recv()).await;
    assert!(dropped.is_ok(), "the reconcile of \"b\" continues");
    controller.abort();
    assert_eq!(leader.ended().await, Ok(()));
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn request_whose_task_is_late_is_not_sent_after_the_deadline() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    let (params, map) = (PostParams::default(), typed("a"));
    let mut create = pin!(maps.create(&params, &map));
    // The first poll passes the request to the client, and the second one begins its task.
    assert!(poll!(&mut create).is_pending());
    yield_now().await;
    assert!(poll!(&mut create).is_pending());
    advance(Duration::from_secs(11)).await;
    let refused = create.await.unwrap_err();
    assert!(leader_election::is_lost(&refused), "{refused}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(count(&server, Verb::Create), 0);
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_for_a_connection_at_the_deadline_is_not_sent() {
    let server = server();
    let client = server.client();
    // This service reads the body of a creation only when it has a connection, as hyper does. The
    // connection takes 20 s.
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() == http::Method::POST {
                sleep(Duration::from_secs(20)).await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            client.send(http::Request::from_parts(parts, body.into())).await
        }
    });
    let mut leader = Replica::start_with(builder_of(Client::new(slow, "shop"), "a"), false);
    let term = leader.term().await;
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    let params = PostParams::default();
    maps.create(&params, &typed("a")).await.unwrap();
    server.fault(Fault::refused().on(Verb::Update).times(usize::MAX));
    let refused = maps.create(&params, &typed("b")).await.unwrap_err();
    assert!(leader_election::is_lost(&refused), "{refused}");
    sleep(HOUR).await;
    assert_eq!(count(&server, Verb::Create), 1, "the one whose connection was open in time");
}

#[tokio::test(start_paused = true)]
async fn write_that_the_server_refuses_is_not_repeated_after_the_term() {
    let server = server();
    let client = server.client();
    let once = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    // Repeats requests that the server refuses, as kube's default client does.
    let client = Client::new(Retry::new(RetryPolicy::server_retry(), once), "shop");
    let mut leader = Replica::start_with(builder_of(client, "a"), false);
    let term = leader.term().await;
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    server.fault(Fault::status(status::service_unavailable()).times(usize::MAX));
    let (params, map) = (PostParams::default(), typed("a"));
    let (created, ()) = tokio::join!(maps.create(&params, &map), term.lost());
    assert!(created.is_err());
    server.clear_faults();
    sleep(HOUR).await;
    assert_eq!(count(&server, Verb::Create), 1);
    assert!(server.get(&Resource::config_maps(), "shop", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn candidate_campaigns_again_although_a_request_of_its_lost_term_has_no_answer() {
    let server = server();
    let mut replica = Replica::start_with(builder(&server, "a"), true);
    let first = replica.term().await;
    let create = create_without_an_answer(&server, &first).await;
    server.fault(Fault::refused().on(Verb::Update).times(usize::MAX));
    first.lost().await;
    drop(first);
    server.clear_faults();
    let lost = Instant::now();
    let second = replica.term().await;
    let waited = lost.elapsed().as_secs_f32();
    assert!((15.0..=36.0).contains(&waited), "its work may continue: {waited}");
    assert!(second.is_held());
    assert!(create.await.unwrap().is_err());
    sleep(Duration::from_secs(60)).await;
    assert!(replica.elector.check(Duration::ZERO).is_err(), "the request has no answer");
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_its_elector_fails_the_check() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    let (elector, term) = (replica.elector.clone(), replica.term().await);
    server.fault(Fault::refused().times(usize::MAX));
    assert!(replica.ended().await.unwrap_err() != ElectionError::Running);
    sleep(Duration::from_secs(6)).await;
    let failed = elector.check(Duration::from_millis(500)).unwrap_err();
    assert!(failed.to_string().contains("expired 1"), "{failed}");
    drop(term);
    assert_eq!(elector.check(Duration::ZERO), Ok(()));
}

/// Returns whether a reconcile waits for its write with a client of a term. The client of
/// `own_writes` is below or above the client of the term.
async fn waits_for_a_write(is_below: bool) -> bool {
    let server = server();
    server.apply(map("a")).unwrap();
    let maps = running_maps(&server);
    let noting = own_writes::client(&server.client());
    let elector = if is_below { builder_of(noting, "a") } else { builder(&server, "a") };
    let mut leader = Replica::start_with(elector, false);
    let term = leader.term().await;
    let client = if is_below { term.client() } else { own_writes::client(&term.client()) };
    maps.wait_for_sync().await.unwrap();
    let reads_maps =
        |request: &Request| request.plural() == Some("configmaps") && request.method() == "GET";
    server.fault(Fault::refused().when(reads_maps).times(usize::MAX));
    server.end_watches();
    let (sender, mut waits) = mpsc::unbounded_channel();
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "shop");
        let sender = sender.clone();
        async move {
            maps.create(&PostParams::default(), &typed("b")).await.unwrap();
            let _ = sender.send(own_writes::wait().await.is_err());
            Ok::<_, Infallible>(Action::await_change())
        }
    };
    let controller = Controller::from_informer(&maps)
        .while_leading(&term)
        .read_own_writes()
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    let waits = timeout(HOUR, waits.recv()).await.unwrap().unwrap();
    controller.abort();
    waits
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_noted_below_and_above_the_client_of_a_term() {
    assert!(waits_for_a_write(true).await);
    assert!(waits_for_a_write(false).await);
}
