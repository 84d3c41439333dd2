//! Tests of one controller that is compiled twice: with kube's runtime and with this project's.
//! The two behave alike, except that kube's does not notice unobserved deletions.

mod kubes;
mod ours;

use std::fmt::Debug;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::rig::{map, pod, server};

/// Returns the annotation that the controller wrote to a map, if there is one.
fn noted(server: &ApiServer, name: &str) -> Option<String> {
    let map = server.get(&Resource::config_maps(), "shop", name)?;
    map["metadata"]["annotations"]["pods"].as_str().map(str::to_owned)
}

/// Polls a controller until a condition holds.
async fn until<T: Debug>(
    controller: &mut (impl Stream<Item = T> + Unpin),
    is_so: impl Fn() -> bool,
) {
    while !is_so() {
        controller.next().await.expect("the controller runs");
    }
}

/// Creates maps a and b, one pod that a owns, and two that b owns. Waits until the controller has
/// counted the pods.
async fn noticed<T: Debug>(server: &ApiServer, controller: &mut (impl Stream<Item = T> + Unpin)) {
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    server.apply(pod("p", &["a"])).unwrap();
    server.apply(pod("q", &["b"])).unwrap();
    until(controller, || noted(server, "a").as_deref() == Some("1")).await;
    server.apply(pod("r", &["b"])).unwrap();
    until(controller, || noted(server, "b").as_deref() == Some("2")).await;
}

async fn cleans_up<T: Debug>(
    server: &ApiServer,
    controller: impl Stream<Item = T>,
    stop: oneshot::Sender<()>,
) {
    let mut controller = pin!(controller);
    noticed(server, &mut controller).await;
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    until(&mut controller, || noted(server, "a").as_deref() == Some("0")).await;
    let maps = Api::<ConfigMap>::namespaced(server.client(), "shop");
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    until(&mut controller, || server.get(&Resource::config_maps(), "shop", "b").is_none()).await;
    for name in ["q", "r"] {
        assert!(server.get(&Resource::pods(), "shop", name).is_none(), "{name}");
    }
    stop.send(()).unwrap();
    while controller.next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn both_controllers_count_clean_up_and_shut_down() {
    let (server, (stop, stopped)) = (server(), oneshot::channel());
    let stopped = async { stopped.await.unwrap() };
    cleans_up(&server, kubes::counter::run(server.client(), stopped), stop).await;
    let (server, (stop, stopped)) = (self::server(), oneshot::channel());
    let stopped = async { stopped.await.unwrap() };
    cleans_up(&server, ours::counter::run(server.client(), stopped), stop).await;
}

/// Returns the annotation of map `a`, ten minutes after its pod was deleted while no watch of
/// pods was open.
async fn after_a_gap<T: Debug>(
    server: &ApiServer,
    controller: impl Stream<Item = T>,
) -> Option<String> {
    let mut controller = pin!(controller);
    noticed(server, &mut controller).await;
    server.wait_for_watchers(2).await;
    // An invented pod event ends the watches of pods, and no others.
    server.generate(&Resource::pods(), 1, |_| json!({})).unwrap();
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    let ten_minutes =
        timeout(Duration::from_secs(600), async { while controller.next().await.is_some() {} });
    assert!(ten_minutes.await.is_err(), "the controller runs on");
    noted(server, "a")
}

#[tokio::test(start_paused = true)]
async fn only_our_controller_handles_an_unobserved_deletion() {
    let server = server();
    let kubes = after_a_gap(&server, kubes::counter::run(server.client(), pending())).await;
    let server = self::server();
    let ours = after_a_gap(&server, ours::counter::run(server.client(), pending())).await;
    assert_eq!((kubes.as_deref(), ours.as_deref()), (Some("1"), Some("0")));
}
