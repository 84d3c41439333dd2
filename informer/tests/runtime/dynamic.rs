//! Tests of controllers of a kind that is known only at run time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::shared_informer::Namespaces;
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use tokio::time::timeout;

use super::rig::{Failed, Stored, in_form, map, server};

fn types() -> ApiResource {
    ApiResource::erase::<ConfigMap>(&())
}

/// Returns the kind and the name of the object that the controller reconciles first.
async fn first(controller: Controller<Stored<DynamicObject>>) -> (String, String) {
    let reconcile = |_, _: Arc<()>| async { Ok::<_, Failed>(Action::await_change()) };
    let policy = |_, _: &Failed, _| Action::await_change();
    let mut stream = pin!(controller.run(reconcile, policy, Arc::new(())));
    let next = timeout(Duration::from_secs(60), stream.next()).await.expect("a reconcile");
    let (object, _) = next.expect("the controller runs").expect("the reconciler succeeds");
    (object.dyntype.kind, object.name)
}

#[tokio::test(start_paused = true)]
async fn controller_over_an_informer_reconciles_objects_of_a_dynamic_kind() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let source = KubeListerWatcher::new::<DynamicObject>(server.client(), &types(), None);
    let maps = SharedInformer::<Stored<DynamicObject>>::builder(source).build().unwrap();
    let running = maps.clone();
    tokio::spawn(async move { running.run().await });
    let reconciled = first(Controller::from_informer_with(&maps, types())).await;
    assert_eq!(reconciled, ("ConfigMap".to_owned(), "a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn controller_of_namespaces_reconciles_objects_of_a_dynamic_kind() {
    let server = server();
    for (namespace, name) in [("blue", "a"), ("green", "b")] {
        let mut map = map(name, "1");
        map["metadata"]["namespace"] = namespace.into();
        server.apply(map).unwrap();
    }
    let all = Api::<DynamicObject>::all_with(server.client(), &types());
    // A list of all namespaces would begin with the object of the other namespace.
    let namespaces = Namespaces::new(["green"]).unwrap();
    let config = watcher::Config::default();
    let controller = Controller::in_namespaces_with(all, &namespaces, config, types());
    assert_eq!(first(in_form(controller)).await, ("ConfigMap".to_owned(), "b".to_owned()));
}
