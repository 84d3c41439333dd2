//! Tests of related kinds that are marked as `optional`, and of initial lists that a controller
//! does not wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo_informer::runtime::controller::Config;
use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::runtime::WatchStreamExt;
use tokio::time::{Duration, sleep};

use super::rig::{Polled, Stored, controller, map, missing, pod, poll_idle, server};

/// Returns a server that has a map, and does not serve pods.
fn without_pods() -> ApiServer {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    server.apply(map("a", "1")).unwrap();
    server
}

/// Returns a server that refuses requests for pods with this status until its faults are cleared.
fn refusing(status: kube::core::Status) -> ApiServer {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let fault = Fault::status(status).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("pods")));
    server
}

fn running(pods: SharedInformer<Pod>) -> SharedInformer<Pod> {
    let running = pods.clone();
    tokio::spawn(async move { running.run().await });
    pods
}

fn of_a(_: &Pod) -> [ObjectRef<ConfigMap>; 1] {
    [ObjectRef::new("a").within("shop")]
}

type Relation = fn(Controller<Stored>, &ApiServer) -> Controller<Stored>;

/// The ways to relate a controller to pods. The errors of the last two are reported by the
/// informers.
const RELATIONS: [Relation; 4] = [
    |controller, server| {
        controller.owns(Api::<Pod>::all(server.client()), watcher::Config::default())
    },
    |controller, server| {
        controller.watches_ref(Api::all(server.client()), &(), watcher::Config::default(), of_a)
    },
    |controller, server| {
        let pods = SharedInformer::<Pod>::builder(KubeListerWatcher::new::<Pod>(
            server.client(),
            &(),
            None,
        ));
        controller.owns_informer(&running(pods.build().unwrap()))
    },
    |controller, server| {
        let pods =
            kube::runtime::watcher(Api::<Pod>::all(server.client()), watcher::Config::default())
                .default_backoff();
        controller
            .watches_informer(&running(SharedInformer::for_stream(pods).build().unwrap()), of_a)
    },
];

/// Returns the first object that is reconciled, and the errors before it.
async fn reconciled(polled: &mut Polled) -> (String, Vec<String>) {
    let mut errors = Vec::new();
    while errors.len() < 100 {
        let received = polled.next().await;
        if !received.contains(' ') {
            return (received, errors);
        }
        errors.push(received);
    }
    panic!("nothing is reconciled: {errors:?}");
}

async fn check_without_pods_until(
    server: ApiServer,
    relation: Relation,
    provide_pods: impl FnOnce(&ApiServer),
) {
    let mut polled = poll_idle(relation(controller(&server), &server).optional());
    let (name, errors) = reconciled(&mut polled).await;
    assert_eq!(name, "a");
    for error in &errors {
        assert!(error.contains("optional") && !error.contains("nothing is reconciled"), "{error}");
    }
    sleep(Duration::from_secs(600)).await;
    assert!(polled.at_rest().await.len() + errors.len() <= 1, "its absence is reported once");
    provide_pods(&server);
    server.wait_for_watchers(2).await;
    server.apply(pod("p", &["a"])).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn missing_optional_kind_is_not_awaited_and_counts_once_it_exists() {
    for relation in RELATIONS {
        check_without_pods_until(without_pods(), relation, |server| {
            server.register(Resource::pods());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_optional_kind_is_not_awaited_and_counts_once_allowed() {
    for relation in RELATIONS {
        let server = refusing(status::forbidden(&Resource::pods()));
        check_without_pods_until(server, relation, ApiServer::clear_faults).await;
    }
}

#[tokio::test(start_paused = true)]
async fn existing_optional_kind_is_awaited() {
    for relation in RELATIONS {
        let server = refusing(status::internal_error("not now"));
        let mut polled = poll_idle(relation(controller(&server), &server).optional());
        sleep(Duration::from_secs(600)).await;
        let errors = polled.at_rest().await;
        assert!(
            !errors.is_empty()
                && errors.iter().all(|error| error.contains("nothing is reconciled")),
            "{errors:?}"
        );
        server.clear_faults();
        assert_eq!(reconciled(&mut polled).await.0, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_optional_kind_are_reported_after_its_initial_list() {
    let server = without_pods();
    let pods = Api::<Pod>::all(server.client());
    let mut polled =
        poll_idle(controller(&server).owns(pods, watcher::Config::default()).optional());
    reconciled(&mut polled).await;
    server.register(Resource::pods());
    server.wait_for_watchers(2).await;
    polled.at_rest().await;
    let fault = Fault::status(status::forbidden(&Resource::pods())).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("pods")));
    missing(&server, || ());
    for _ in 0..5 {
        let error = polled.next().await;
        assert!(error.contains("410") || error.contains("403"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn optional_applies_to_the_last_relation() {
    let server = without_pods();
    let maps = || Api::<ConfigMap>::all(server.client());
    let pods = || Api::<Pod>::all(server.client());
    let config = watcher::Config::default;
    let to_itself = |map: &ConfigMap| Some(ObjectRef::from_obj(map));
    let optional = controller(&server)
        .watches_ref(maps(), &(), config(), to_itself)
        .owns(pods(), config())
        .optional();
    assert_eq!(reconciled(&mut poll_idle(optional)).await.0, "a");
    let other = controller(&server)
        .owns(pods(), config())
        .watches_ref(maps(), &(), config(), to_itself)
        .optional();
    let mut other = poll_idle(other.reconcile_on(futures_util::stream::empty()).optional());
    for _ in 0..10 {
        let error = other.next().await;
        assert!(error.contains("nothing is reconciled"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn initial_lists_of_related_objects_are_not_awaited_if_so_configured() {
    for relation in RELATIONS {
        let server = refusing(status::internal_error("not now"));
        let controller = relation(controller(&server), &server);
        let mut polled =
            poll_idle(controller.with_config(Config::default().wait_for_related(false)));
        let (name, errors) = reconciled(&mut polled).await;
        assert_eq!(name, "a");
        assert!(errors.iter().all(|error| error.contains("not now")), "{errors:?}");
        server.clear_faults();
        server.wait_for_watchers(2).await;
        polled.at_rest().await;
        server.apply(pod("p", &["a"])).unwrap();
        assert_eq!(polled.at_rest().await, ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn main_objects_are_awaited_however_configured() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let list_fails = Fault::status(status::internal_error("not now"));
    server.fault(list_fails.when(|request| request.plural() == Some("configmaps")));
    let pods = Api::<Pod>::all(server.client());
    let controller = controller(&server).owns(pods, watcher::Config::default());
    let asks = futures_util::stream::once(async { ObjectRef::new("a").within("shop") });
    let config = Config::default().wait_for_related(false);
    let mut polled = poll_idle(controller.reconcile_on(asks.boxed()).with_config(config));
    assert!(polled.next().await.contains("nothing is reconciled"));
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn optional_informer_refused_after_its_initial_list_is_awaited_by_the_next_controller() {
    const PODS: usize = 3_000;
    let server = server();
    server.apply(map("a", "1")).unwrap();
    for number in 0..PODS {
        server.apply(pod(&number.to_string(), &["a"])).unwrap();
    }
    let pods =
        SharedInformer::<Pod>::builder(KubeListerWatcher::new::<Pod>(server.client(), &(), None));
    let pods = running(pods.build().unwrap());
    pods.wait_for_sync().await.unwrap();
    let fault = Fault::status(status::forbidden(&Resource::pods())).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("pods")));
    missing(&server, || ());
    sleep(Duration::from_secs(120)).await;
    assert!(pods.watch_status().last_error.is_some_and(|error| error.message.contains("403")));
    let mapped = Arc::new(AtomicUsize::new(0));
    let counted = mapped.clone();
    let controller = controller(&server).watches_informer(&pods, move |_: &Pod| {
        counted.fetch_add(1, Ordering::Relaxed);
        [ObjectRef::new("a").within("shop")]
    });
    let mut polled = poll_idle(controller.optional());
    assert_eq!(polled.next().await, "a");
    assert_eq!(
        mapped.load(Ordering::Relaxed),
        PODS,
        "nothing is reconciled before all pods were mapped"
    );
}
