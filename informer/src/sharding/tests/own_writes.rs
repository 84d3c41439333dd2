//! A test of `read_own_writes` in a sharded controller.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, own_writes, watcher};
use crate::sharding::Permit;
use crate::{KubeListerWatcher, SharedInformer};

fn map(data: &str) -> Value {
    let mut map = json!(object_of(0));
    map["kind"] = json!("ConfigMap");
    map["apiVersion"] = json!("v1");
    map["data"] = json!({ "data": data });
    map
}

fn created_pods(server: &ApiServer) -> usize {
    let creates_pod =
        |request: &&Request| request.verb() == Verb::Create && request.plural() == Some("pods");
    server.requests().iter().filter(creates_pod).count()
}

#[tokio::test(start_paused = true)]
async fn reconcile_waits_for_what_was_written_with_the_client_of_a_permit() {
    let server = server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    server.apply(map("1")).unwrap();
    let refuse = |verb| {
        let fault = Fault::refused().on(verb).times(usize::MAX);
        server.fault(fault.when(|request| request.plural() == Some("pods")));
    };
    // Only a list shows the pods.
    refuse(Verb::Watch);
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let pods = SharedInformer::<Pod>::builder(source).on_error(|_| ()).build().unwrap();
    let running = pods.clone();
    tokio::spawn(async move { running.run().await });
    pods.wait_for_sync().await.unwrap();
    let replica = Replica::start(&server, "a");
    let (sender, mut reconciled) = mpsc::unbounded_channel();
    let lister = pods.lister();
    let maps = Api::<ConfigMap>::all(server.client());
    let controller = Controller::new(maps, watcher::Config::default())
        .owns_informer(&pods)
        .sharded(&replica.group)
        .read_own_writes()
        .run(
            move |_, _| {
                let permit = Permit::current().expect("the controller is sharded");
                let client = own_writes::client(&permit.client());
                let (is_missing, sender) = (lister.list().is_empty(), sender.clone());
                async move {
                    let mut pod = Pod::default();
                    pod.metadata.generate_name = Some("p-".to_owned());
                    if is_missing {
                        let pods = Api::<Pod>::namespaced(client, "shop");
                        pods.create(&PostParams::default(), &pod).await.unwrap();
                    }
                    // Fails if the test has ended.
                    let _ = sender.send(());
                    Ok::<_, Infallible>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));
    reconciled.recv().await.unwrap();
    refuse(Verb::List);
    server.apply(map("2")).unwrap();
    sleep(SECOND).await;
    assert!(reconciled.try_recv().is_err(), "not held back");
    server.clear_faults();
    reconciled.recv().await.unwrap();
    assert_eq!(created_pods(&server), 1);
    running.abort();
}
