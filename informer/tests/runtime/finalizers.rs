//! Tests of finalizers in combination with predicates.

use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::runtime::finalizer::{Event, finalizer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use tokio::sync::mpsc;

use super::rig::{Failed, controller, map, poll, server};

#[tokio::test(start_paused = true)]
async fn object_is_applied_and_cleaned_up_whatever_a_predicate_rejects() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let api = Api::<ConfigMap>::namespaced(server.client(), "shop");
    let maps = api.clone();
    let (sender, mut received) = mpsc::unbounded_channel();
    let reconcile = move |map, _| {
        let (api, sender) = (api.clone(), sender.clone());
        async move {
            let reconciled = finalizer(&api, "example.org/counted", map, |event| async move {
                sender
                    .send(if matches!(event, Event::Apply(_)) { "apply" } else { "cleanup" })
                    .unwrap();
                Ok::<_, Failed>(Action::await_change())
            });
            reconciled.await.map_err(|_| Failed("no finalizer"))
        }
    };
    let _polled = poll(controller(&server).when(|_, _| false), reconcile);
    assert_eq!(received.recv().await, Some("apply"), "once it has its finalizer");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(received.recv().await, Some("cleanup"));
}
