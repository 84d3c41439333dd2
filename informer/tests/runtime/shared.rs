//! Tests of several controllers over one watch (kube issue 1080).

use std::sync::Arc;
use std::time::Duration;

use deltafifo::Meta;
use deltafifo_informer::runtime::controller::Source;
use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::{Controller, Form, predicates};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::rig::{Stored, idle, map, pod, poll_idle, server};

/// Returns an informer of all objects of type `K`.
fn informer<K>(server: &ApiServer) -> SharedInformer<Stored<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let source = KubeListerWatcher::new::<K>(server.client(), &(), None);
    SharedInformer::<Stored<K>>::builder(source).build().unwrap()
}

fn run<F: Form>(informer: &SharedInformer<F>)
where
    KubeMeta: Meta<F>,
{
    let informer = informer.clone();
    tokio::spawn(async move { informer.run().await });
}

#[tokio::test(start_paused = true)]
async fn controllers_share_watches_and_end_with_their_informers() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (maps, pods) =
        (informer::<ConfigMap>(&server), informer::<PartialObjectMeta<Pod>>(&server));
    run(&maps);
    run(&pods);
    let controller = || Controller::from_informer(&maps).owns_informer(&pods);
    let mut first = poll_idle(controller());
    assert_eq!(first.at_rest().await, ["a"]);
    let mut late = poll_idle(controller());
    assert_eq!(late.at_rest().await, ["a"]);
    assert_eq!(server.watchers(), 2, "shared by both");
    server.apply(pod("p", &["a"])).unwrap();
    assert_eq!(
        (first.at_rest().await, late.at_rest().await),
        (vec!["a".to_owned()], vec!["a".to_owned()])
    );
    drop(late);
    server.apply(map("b", "1")).unwrap();
    assert_eq!(first.at_rest().await, ["b"]);
    pods.stop().await;
    assert!(
        first.rest().await.is_empty(),
        "a controller without an informer must not continue silently"
    );
    assert!(!maps.is_stopped(), "the informer outlives the controller");
}

#[tokio::test(start_paused = true)]
async fn dropped_controller_is_not_kept_alive_by_shared_informers() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (maps, pods) = (informer::<ConfigMap>(&server), informer::<Pod>(&server));
    run(&maps);
    run(&pods);
    let kept = Arc::new(());
    let (of_maps, of_pods) = (Arc::clone(&kept), Arc::clone(&kept));
    let controller =
        Controller::from_informer(&maps).when(move |_, _| Arc::strong_count(&of_maps) > 0);
    let mut polled = poll_idle(controller.watches_informer(&pods, move |_: &Pod| {
        drop(Arc::clone(&of_pods));
        None
    }));
    assert_eq!(polled.at_rest().await, ["a"]);
    assert_eq!(Arc::strong_count(&kept), 3);
    drop(polled);
    idle().await;
    assert_eq!(Arc::strong_count(&kept), 1, "a shared informer keeps its handler");
}

#[tokio::test(start_paused = true)]
async fn reconciles_wait_for_all_shared_informers() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    server.apply(map("b", "1")).unwrap();
    let (maps, pods) = (informer::<ConfigMap>(&server), informer::<Pod>(&server));
    run(&maps);
    let of_a = |_: &Pod| Some(ObjectRef::new("a").within("shop"));
    let mut polled = poll_idle(Controller::from_informer(&maps).watches_informer(&pods, of_a));
    maps.wait_for_sync().await.unwrap();
    assert!(polled.at_rest().await.is_empty(), "its reconciler may read pods");
    run(&pods);
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.apply(pod("p", &[])).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn controller_over_a_stopped_informer_yields_stopped() {
    let server = server();
    let (maps, pods) = (informer::<ConfigMap>(&server), informer::<Pod>(&server));
    pods.stop().await;
    let stopped = "runner error: shared informer stopped before its initial list: build another informer, and a controller over it";
    let polled = poll_idle(Controller::from_informer(&maps).owns_informer(&pods));
    assert_eq!(polled.rest().await, [stopped]);
    let polled = poll_idle(Controller::from_informer(&maps));
    idle().await;
    maps.stop().await;
    assert_eq!(polled.rest().await, [stopped], "the initial list never completed");
}

#[tokio::test(start_paused = true)]
async fn predicates_filter_updates_but_not_additions_or_deletions() {
    let server = server();
    let labelled = |label: &str, data: &str| {
        let mut map = map("a", data);
        map["metadata"]["labels"] = json!({ "label": label });
        map["metadata"]["finalizers"] = json!(["example.org/wait"]);
        map
    };
    server.apply(labelled("1", "1")).unwrap();
    let (maps, pods) = (informer::<ConfigMap>(&server), informer::<Pod>(&server));
    run(&maps);
    run(&pods);
    let controller = Controller::from_informer(Source::from(&maps).when(predicates::labels))
        .owns_informer(Source::from(&pods).when(|_, _| false));
    let mut polled = poll_idle(controller);
    assert_eq!(polled.at_rest().await, ["a"]);
    server.apply(labelled("1", "2")).unwrap();
    assert!(polled.at_rest().await.is_empty());
    server.apply(labelled("2", "2")).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);

    server.apply(pod("p", &["a"])).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
    let mut changed = pod("p", &["a"]);
    changed["metadata"]["labels"] = json!({ "label": "1" });
    server.apply(changed).unwrap();
    assert!(polled.at_rest().await.is_empty());
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    assert_eq!(polled.at_rest().await, ["a"], "deletions skip the predicate");

    let api = kube::Api::<ConfigMap>::namespaced(server.client(), "shop");
    api.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    assert_eq!(polled.at_rest().await, ["a"], "marked for deletion with unchanged labels");
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_not_run_is_reported_until_it_runs() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), Some("shop"));
    let maps = SharedInformer::<Stored>::builder(source).name("billing").build().unwrap();
    let pods = informer::<Pod>(&server);
    let began = Instant::now();
    let mut polled = poll_idle(Controller::from_informer(&maps).owns_informer(&pods));
    let report = |informers: &str| {
        format!(
            "runner error: nothing is reconciled until these have their initial list: {informers}"
        )
    };
    let not_run = |informer: &str| {
        format!("{informer} (it is not running: call its `run`, or `start` of its factory)")
    };
    let [maps_not_run, pods_not_run] = ["configmaps.v1 in shop (billing)", "pods.v1"].map(not_run);
    assert_eq!(polled.next().await, report(&format!("{maps_not_run}, {pods_not_run}")));
    assert_eq!(began.elapsed().as_secs(), 5);
    run(&maps);
    maps.wait_for_sync().await.unwrap();
    for minute in 1..=3 {
        assert_eq!(polled.next().await, report(&pods_not_run));
        assert_eq!(began.elapsed().as_secs(), 60 * minute);
    }
    run(&pods);
    assert_eq!(polled.at_rest().await, ["a"]);
    sleep(Duration::from_secs(600)).await;
    assert!(polled.at_rest().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn informer_whose_initial_list_fails_is_reported_every_minute() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let fault = Fault::status(status::internal_error("not now")).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("pods")));
    let (maps, pods) = (informer::<ConfigMap>(&server), informer::<Pod>(&server));
    run(&maps);
    run(&pods);
    let began = Instant::now();
    let mut polled = poll_idle(Controller::from_informer(&maps).owns_informer(&pods));
    for minute in 1..=2 {
        let report = polled.next().await;
        assert!(report.contains("pods.v1 (it runs: check the errors that it reports)"), "{report}");
        assert_eq!(began.elapsed().as_secs(), 60 * minute);
    }
    server.clear_faults();
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn controller_over_an_informer_that_can_never_run_yields_stopped() {
    let maps = informer::<ConfigMap>(&server());
    let controller = Controller::from_informer(&maps);
    drop(maps);
    let rest = poll_idle(controller).rest().await;
    assert!(matches!(&rest[..], [error] if error.contains("shared informer stopped")), "{rest:?}");
}
