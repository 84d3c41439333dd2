//! Tests of controllers that cannot be sharded.

use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::timeout;

use super::rig::*;
use crate::leader_election::{LeaderElector, LeaseLock};
use crate::runtime::controller::{Action, RunnerError};
use crate::runtime::{Controller, controller, watcher};
use crate::sharding::Permit;
use crate::{KubeListerWatcher, SharedInformer};

#[tokio::test(start_paused = true)]
async fn led_and_sharded_controllers_work_beside_each_other_but_one_cannot_be_both() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    let maps = Api::<ConfigMap>::all(server.client());
    let elector =
        LeaderElector::builder(server.client(), LeaseLock::new("shop", "leader").identity("a"));
    let elector = elector.build().unwrap();
    let work = elector.run(|term| {
        let (group, term) = (a.replica.group.clone(), term);
        let maps = maps.clone();
        async move {
            let new =
                || Controller::new(maps.clone(), watcher::Config::default()).while_leading(&term);
            let run = |controller: Controller<ConfigMap>| {
                controller.run(
                    |_, _| async {
                        assert!(Permit::current().is_none());
                        Ok::<_, std::fmt::Error>(Action::await_change())
                    },
                    |_, _, _| Action::await_change(),
                    Arc::new(()),
                )
            };
            let mut both = Box::pin(run(new().sharded(&group)));
            let error = both.next().await.unwrap().unwrap_err();
            let is_expected =
                matches!(error, controller::Error::RunnerError(RunnerError::LedAndSharded));
            assert!(is_expected, "{error}");
            assert!(both.next().await.is_none());
            let mut led = Box::pin(run(new()).take(16));
            while let Some(reconciled) = led.next().await {
                reconciled.unwrap();
            }
        }
    });
    timeout(HOUR, work).await.unwrap().unwrap();
    a.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("a"), names((0..16).collect()));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_stream_or_with_an_in_order_queue_cannot_be_sharded() {
    let server = server();
    let replica = Replica::start(&server, "a");
    let events = futures_util::stream::pending::<kube::runtime::watcher::Result<_>>();
    let of_stream = SharedInformer::<ConfigMap>::for_stream(events).build().unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let in_order = SharedInformer::builder(source).in_order().build().unwrap();
    for maps in [of_stream, in_order] {
        let run = Controller::from_informer(&maps).sharded(&replica.group).run(
            |_, _| async { Ok::<_, std::fmt::Error>(Action::await_change()) },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let error = Box::pin(run).next().await.unwrap().unwrap_err();
        let is_expected =
            matches!(error, controller::Error::RunnerError(RunnerError::NotListable { .. }));
        assert!(is_expected, "{error}");
    }
}
