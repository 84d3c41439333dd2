//! Tests of led and sharded controllers over streams.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo_informer::runtime::controller::{Action, Error, RunnerError};
use deltafifo_informer::runtime::reflector::{ObjectRef, Store};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::sharding::ShardGroup;
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::timeout;

use super::rig::{HOUR, Replica, server};

type Yielded = Result<(ObjectRef<ConfigMap>, Action), Error<Infallible, watcher::Error>>;

fn typed(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("shop".to_owned());
    map.metadata.name = Some(name.to_owned());
    map
}

/// Returns a stream that yields the map `a` and does not end.
fn of_a() -> impl Stream<Item = watcher::Result<ConfigMap>> + Send + 'static {
    stream::iter([Ok(typed("a"))]).chain(stream::pending())
}

fn run(controller: Controller<ConfigMap>) -> impl Stream<Item = Yielded> + Send + Unpin {
    let reconcile = |_, _| async { Ok::<_, Infallible>(Action::await_change()) };
    controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(())).boxed()
}

#[tokio::test(start_paused = true)]
async fn led_controller_over_a_stream_ends_with_its_term() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let store = Store::from_objects([typed("a")]);
    let controller = Controller::for_stream(of_a(), store).owns_stream(of_a());
    let mut running = run(controller.while_leading(&term));
    let (object, _) = running.next().await.expect("it runs").unwrap();
    assert_eq!(object.name, "a");
    leader.cancel();
    let end = timeout(HOUR, running.next()).await.expect("it ends");
    assert!(end.is_none(), "{end:?}");
    drop((running, term));
}

#[tokio::test(start_paused = true)]
async fn sharded_controller_with_a_stream_yields_not_listable_and_ends() {
    let server = server();
    let group = ShardGroup::builder(server.client(), "shop", "counter")
        .identity("a")
        .beside_others()
        .build()
        .unwrap();
    let store = || Store::from_objects([typed("a")]);
    let over_an_api =
        || Controller::new(Api::<ConfigMap>::all(server.client()), watcher::Config::default());
    let shared = || of_a().map(|map| Arc::new(map.unwrap()));
    let controllers = [
        Controller::for_stream(of_a(), store()),
        Controller::for_shared_stream(shared(), store()),
        over_an_api().owns_stream(of_a()),
        over_an_api().owns_shared_stream(shared()),
        over_an_api().watches_stream(of_a(), |map| [ObjectRef::from_obj(&map)]),
        over_an_api().watches_shared_stream(shared(), |map| [ObjectRef::from_obj(&*map)]),
    ];
    for controller in controllers {
        let mut running = run(controller.sharded(&group));
        let error = running.next().await.expect("an error").unwrap_err();
        let is_expected = matches!(
            &error,
            Error::RunnerError(RunnerError::NotListable { informer })
                if informer == "the stream of configmaps.v1"
        );
        assert!(is_expected, "{error}");
        assert!(running.next().await.is_none());
    }
}
