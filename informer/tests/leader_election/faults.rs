//! Tests of servers that fail or refuse requests.

use std::time::Duration;

use deltafifo_informer::leader_election::ElectionError;
use deltafifo_testkit::{After, ApiServer, Fault, Verb, status};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::messages::Messages;
use super::rig::{Replica, builder, builder_of, holder, lease, leases, server};

#[tokio::test(start_paused = true)]
async fn leader_without_answers_stops_at_its_renew_deadline() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let began = Instant::now();
    server.fault(Fault::silence().on(Verb::Update).times(usize::MAX));
    assert!(leader.elector.check(Duration::ZERO).is_ok());
    term.lost().await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert_eq!(leader.errors.lock().unwrap().len(), 1, "{:?}", leader.errors);
    let lost = leader.ended().await.unwrap_err();
    assert!(matches!(lost, ElectionError::Expired { .. }), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn outage_that_is_shorter_than_the_renew_deadline_changes_nothing() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    server.fault(Fault::refused().times(usize::MAX));
    sleep(Duration::from_millis(8_900)).await;
    server.clear_faults();
    sleep(Duration::from_secs(60)).await;
    assert!(term.is_held());
    assert_eq!(term.transitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn renewal_whose_answer_was_lost_is_not_a_loss() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    server.fault(Fault::broken(After::Bytes(0)).on(Verb::Update));
    sleep(Duration::from_secs(60)).await;
    assert!(term.is_held());
}

#[tokio::test(start_paused = true)]
async fn lost_leader_that_campaigns_again_has_a_new_identity() {
    let server = server();
    let mut replica = Replica::start_with(builder(&server, "a"), true);
    let first = replica.term().await;
    server.fault(Fault::refused().times(usize::MAX));
    first.lost().await;
    let identity = first.identity().to_owned();
    drop(first);
    server.clear_faults();
    let again = Instant::now();
    let second = replica.term().await;
    assert_ne!(second.identity(), identity);
    assert_eq!(second.transitions(), 2);
    assert!(
        again.elapsed() < Duration::from_secs(3),
        "its own lease is free: {:?}",
        again.elapsed()
    );
    replica.cancel();
    drop(second);
    assert_eq!(replica.ended().await, Ok(()));
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn late_creation_of_an_earlier_campaign_must_expire() {
    let server = server();
    let mut replica = Replica::start_with(builder(&server, "a"), true);
    let first = replica.term().await;
    let identity = first.identity().to_owned();
    server.fault(Fault::refused().times(usize::MAX));
    first.lost().await;
    drop(first);
    // The lease is deleted by hand. Then a creation arrives that names the first campaign, as if
    // that campaign had sent it and given it up.
    server.delete(&leases(), "shop", "counter").unwrap();
    let created =
        json!({ "holderIdentity": identity, "leaseDurationSeconds": 15, "leaseTransitions": 0 });
    server.apply(lease(&created)).unwrap();
    server.clear_faults();
    let began = Instant::now();
    let _second = replica.term().await;
    assert!(began.elapsed() >= Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn answer_to_an_abandoned_read_does_not_change_the_known_leader() {
    let server = server();
    let held_by = |holder| {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15 });
        server.apply(lease(&spec)).unwrap();
    };
    held_by("first");
    let client = server.client();
    // The answers to reads take a second. Those to watches do not.
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch"));
            let is_read = request.method() == http::Method::GET && !is_watch;
            let answer = client.send(request).await;
            if is_read {
                sleep(Duration::from_secs(1)).await;
            }
            answer
        }
    });
    let standby = Replica::start_with(builder_of(Client::new(slow, "shop"), "a"), false);
    let mut leader = standby.elector.leader();
    let is = |name| move |leader: &Option<String>| leader.as_deref() == Some(name);
    leader.wait_for(is("first")).await.unwrap();
    server.wait_for_request(|request| request.verb() == Verb::Get).await;
    held_by("second");
    leader.wait_for(is("second")).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(leader.borrow().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_reported_once_with_its_verb_and_resource() {
    for (verb, name) in [
        (Verb::Get, "get"),
        (Verb::Create, "create"),
        (Verb::Update, "update"),
        (Verb::Watch, "watch"),
    ] {
        let server = server();
        if verb == Verb::Create {
            server.delete(&leases(), "shop", "counter").unwrap();
        }
        let fault = Fault::status(status::forbidden(&leases()));
        server.fault(fault.on(verb).times(usize::MAX));
        let replica = Replica::start(&server, "a");
        sleep(Duration::from_secs(120)).await;
        let errors = replica.errors.lock().unwrap().clone();
        let expected = format!(
            "cannot {name} leases.coordination.k8s.io shop/counter; grant this verb to the account, "
        );
        assert!(errors.len() == 1 && errors[0].starts_with(&expected), "{errors:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn candidate_that_may_not_watch_polls_the_lease() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let forbidden = Fault::status(status::forbidden(&leases()));
    server.fault(forbidden.on(Verb::Watch).times(usize::MAX));
    let mut standby = Replica::start(&server, "b");
    sleep(Duration::from_secs(30)).await;
    leader.cancel();
    drop(term);
    let released = Instant::now();
    let _next = standby.term().await;
    assert!(released.elapsed() <= Duration::from_millis(2_500), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn server_without_the_api_is_reported_and_served_later() {
    let server = ApiServer::builder().build();
    let mut replica = Replica::start(&server, "a");
    sleep(Duration::from_secs(60)).await;
    let errors = replica.errors.lock().unwrap().clone();
    assert_eq!(errors.len(), 2, "of the read and of the watch: {errors:?}");
    assert!(errors.iter().any(|error| error.starts_with("cannot get leases.coordination.k8s.io")));
    server.register(leases());
    let term = replica.term().await;
    assert_eq!(term.transitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn writes_that_conflict_each_time_are_repeated_with_pauses() {
    let server = server();
    let conflict = || Fault::status(status::conflict(&leases(), "counter"));
    server.fault(conflict().on(Verb::Update).times(usize::MAX));
    let mut replica = Replica::start(&server, "a");
    sleep(Duration::from_secs(60)).await;
    let requests = server.requests().len();
    assert!((40..=65).contains(&requests), "a read and a claim each 2 s: {requests}");
    server.clear_faults();
    let term = replica.term().await;

    server.fault(conflict().on(Verb::Update).times(usize::MAX));
    server.forget_requests();
    term.lost().await;
    let requests = server.requests().len();
    assert!((4..=8).contains(&requests), "a renewal and a read each 2 s: {requests}");
}

#[tokio::test(start_paused = true)]
async fn lease_that_others_annotate_each_second_is_kept() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    for second in 0..60 {
        sleep(Duration::from_secs(1)).await;
        let mut lease = server.get(&leases(), "shop", "counter").unwrap();
        lease["metadata"]["annotations"] = json!({ "second": second.to_string() });
        server.apply(lease).unwrap();
    }
    assert!(term.is_held());
    assert_eq!(term.transitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn watch_that_is_silent_is_opened_again() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    server.wait_for_watchers(1).await;
    server.fault(Fault::hang(After::Bytes(0)).on(Verb::Watch));
    let mut standby = Replica::start(&server, "b");
    sleep(Duration::from_secs(50)).await;
    leader.cancel();
    drop(term);
    let released = Instant::now();
    let _next = standby.term().await;
    assert!(released.elapsed() <= Duration::from_millis(100), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn candidate_that_is_cancelled_during_its_claim_releases_the_lease() {
    let server = server();
    let client = server.client();
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let answer = client.send(request).await;
            sleep(Duration::from_millis(100)).await;
            answer
        }
    });
    let requests = server.clone();
    let claimed = async move {
        requests.wait_for_request(|request| request.verb() == Verb::Update).await;
    };
    let elector = builder_of(Client::new(slow, "shop"), "a").cancel_on(claimed).build().unwrap();
    let lead = async |_| panic!("the elector was cancelled before");
    elector.run(lead).await.unwrap();
    let lease = server.get(&leases(), "shop", "counter").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "the claim was applied");
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_error_handler_is_logged_and_the_campaign_continues() {
    let server = server();
    server.fault(Fault::refused().on(Verb::Update));
    let messages = Messages::default();
    let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
    let elector = builder(&server, "a").on_error(|_| panic!("as the test wants")).build().unwrap();
    elector.run(async |_| {}).await.unwrap();
    let logged = messages.0.lock();
    let panics = logged.iter().filter(|message| message.contains("error handler panicked"));
    assert_eq!(panics.count(), 1, "{:?}", *logged);
}
