//! Tests of `read_own_writes` in a sharded controller.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::rig::*;
use crate::runtime::controller::{self, Action, RunnerError};
use crate::runtime::{Controller, own_writes, watcher};
use crate::sharding::Permit;
use crate::{KubeListerWatcher, SharedInformer};

fn created_pods(server: &ApiServer) -> usize {
    let creates_pod =
        |request: &&Request| request.verb() == Verb::Create && request.plural() == Some("pods");
    server.requests().iter().filter(creates_pod).count()
}

/// Returns an informer that has synced.
async fn informer_of_pods(server: &ApiServer) -> SharedInformer<Pod> {
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let pods = SharedInformer::<Pod>::builder(source).on_error(|_| ()).build().unwrap();
    let running = pods.clone();
    tokio::spawn(async move { running.run().await });
    pods.wait_for_sync().await.unwrap();
    pods
}

#[tokio::test(start_paused = true)]
async fn reconcile_waits_for_what_was_written_with_the_client_of_a_permit() {
    let server = server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    write_map(&server, 0, 1);
    let refuse = |verb| {
        let fault = Fault::refused().on(verb).times(usize::MAX);
        server.fault(fault.when(|request| request.plural() == Some("pods")));
    };
    // Only a list shows the pods.
    refuse(Verb::Watch);
    let pods = informer_of_pods(&server).await;
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
    write_map(&server, 0, 2);
    sleep(SECOND).await;
    assert!(reconciled.try_recv().is_err(), "not held back");
    server.clear_faults();
    reconciled.recv().await.unwrap();
    assert_eq!(created_pods(&server), 1);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn object_of_a_shard_that_has_moved_is_not_reported_as_not_reconciled() {
    let server = server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    let write = |value| {
        for shard in 0..16 {
            write_map(&server, shard, value);
        }
    };
    let pods = informer_of_pods(&server).await;
    let first = Replica::start(&server, "a");
    let reported = Arc::new(Mutex::new(BTreeSet::new()));
    let (client, log) = (server.client(), Arc::clone(&reported));
    let maps = Api::<ConfigMap>::all(server.client());
    let controller = Controller::new(maps, watcher::Config::default())
        .owns_informer(&pods)
        .sharded(&first.group)
        .read_own_writes()
        .run(
            move |_, _| {
                let pods = Api::<Pod>::namespaced(own_writes::client(&client), "shop");
                async move {
                    let mut pod = Pod::default();
                    pod.metadata.generate_name = Some("p-".to_owned());
                    pods.create(&PostParams::default(), &pod).await.unwrap();
                    Ok::<_, Infallible>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .for_each(move |result| {
            if let Err(controller::Error::RunnerError(error)) = result {
                let RunnerError::OwnWriteNotSeen { object, .. } = error else { panic!("{error}") };
                log.lock().insert(object.name.clone());
            }
            async {}
        });
    let running = tokio::spawn(controller);
    first.owns(16).await;
    // Nothing shows the pods that are created from now on.
    let refused = Fault::refused().times(usize::MAX);
    server.fault(refused.when(|request| {
        request.plural() == Some("pods") && matches!(request.verb(), Verb::List | Verb::Watch)
    }));
    server.break_watches();
    write(1);
    sleep(5 * SECOND).await;
    assert_eq!(created_pods(&server), 16);
    // This replica has no controller.
    let second = Replica::start(&server, "b");
    second.owns(8).await;
    write(2);
    sleep(30 * SECOND).await;
    let kept = first.owns(8).await.iter().map(|shard| object_of(shard).name_any());
    assert_eq!(*reported.lock(), kept.collect());
    running.abort();
}
