//! Tests of the tasks and threads in which a controller decodes and frees compact objects.

use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use deltafifo_informer::compact::Compact;
use deltafifo_informer::runtime::controller::{Action, Error, RunnerError};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{FutureExt, Stream, StreamExt, poll};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, NotUsed, Object};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task;

use super::rig::{Failed, idle, map, server};

thread_local! {
    /// The tasks, on this thread, in which a [`Spy`] was decoded; `None` for the test itself.
    static DECODED: RefCell<Vec<Option<task::Id>>> = RefCell::default();
    /// The tasks, on this thread, in which a [`Spy`] was dropped; `None` for the test itself.
    static DROPPED: RefCell<Vec<Option<task::Id>>> = RefCell::default();
}

/// A spec that records the tasks in which it is decoded and dropped.
#[derive(Clone, Debug)]
struct Spy {
    /// Whether the destructor panics.
    panics: bool,
}

impl<'de> Deserialize<'de> for Spy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.with_borrow_mut(|tasks| tasks.push(task::try_id()));
        Ok(Self { panics: Value::deserialize(deserializer)?["panics"] == true })
    }
}

impl Drop for Spy {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|tasks| tasks.push(task::try_id()));
        assert!(!self.panics, "the destructor of a decoded object");
    }
}

/// The end of a reconcile.
#[derive(Clone, Copy, Debug)]
enum End {
    Success,
    Error,
    Panic,
}

const ENDS: [End; 3] = [End::Success, End::Error, End::Panic];

type SpyMap = Object<Spy, NotUsed>;

/// Returns a compact controller of one map, which has this spec.
fn controller(server: &ApiServer, spec: Value) -> Controller<Compact<SpyMap>> {
    let mut map = map("a", "1");
    map["spec"] = spec;
    server.apply(map).unwrap();
    let types = ApiResource::erase::<ConfigMap>(&());
    let maps = Api::<SpyMap>::all_with(server.client(), &types);
    Controller::new_with(maps, watcher::Config::default(), types).compact()
}

/// Runs a compact controller of one map, which has this spec, until the map has been reconciled
/// once, with this end. The test itself polls the stream, outside of any task.
async fn reconcile(spec: Value, end: End) {
    let server = server();
    let controller = controller(&server, spec);
    let reconciler = move |_, _| async move {
        match end {
            End::Success => Ok(Action::await_change()),
            End::Error => Err(Failed("expected by this test")),
            End::Panic => panic!("expected by this test"),
        }
    };
    let policy = |_, _: &Failed, _| Action::await_change();
    let mut stream = pin!(controller.run(reconciler, policy, Arc::new(())));
    match (end, stream.next().await.expect("the controller runs")) {
        (End::Success, Ok((object, _))) => assert_eq!(object.name, "a"),
        (End::Error, Err(Error::ReconcilerFailed(_, object))) => assert_eq!(object.name, "a"),
        (End::Panic, Err(Error::RunnerError(error))) => {
            assert!(matches!(error, RunnerError::Panicked { .. }), "{error}");
        }
        (_, other) => panic!("{end:?}: {other:?}"),
    }
    idle().await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_decoded_and_freed_in_tasks() {
    for end in ENDS {
        reconcile(json!({}), end).await;
        for tasks in [DECODED.take(), DROPPED.take()] {
            assert!(matches!(&tasks[..], [Some(_)]), "{end:?}: {tasks:?}");
        }
    }
}

/// Polls the controller's stream until a task has decoded the map. The stream has not received the
/// map then.
async fn until_decoded(stream: &mut (impl Stream<Item: Debug> + Unpin)) {
    while DECODED.with_borrow(Vec::is_empty) {
        assert!(poll!(stream.next()).is_pending());
        idle().await;
    }
}

async fn never_called(_: Arc<SpyMap>, _: Arc<()>) -> Result<Action, Failed> {
    panic!("nothing is reconciled")
}

#[tokio::test(start_paused = true)]
async fn object_that_is_not_reconciled_after_a_shutdown_is_freed_in_a_task() {
    let (server, (stop, stopped)) = (server(), oneshot::channel::<()>());
    let controller = controller(&server, json!({})).graceful_shutdown_on(stopped.map(drop));
    let policy = |_, _: &Failed, _| Action::await_change();
    let mut stream = pin!(controller.run(never_called, policy, Arc::new(())));
    until_decoded(&mut stream).await;
    stop.send(()).unwrap();
    assert!(stream.next().await.is_none());
    idle().await;
    assert!(matches!(DROPPED.take()[..], [Some(_)]));
}

#[cfg(feature = "leader-election")]
#[tokio::test(start_paused = true)]
async fn decoded_object_does_not_keep_its_shard_while_the_stream_is_not_polled() {
    use std::time::Duration;

    use deltafifo_informer::sharding::ShardGroup;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::core::discovery::Scope;
    use tokio::time::timeout;

    let server = server();
    server.register(Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced));
    let group = ShardGroup::builder(server.client(), "shop", "counter").identity("a").shards(1);
    let group = group.build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(group.run_until(async { drop(stopped.await) }));
    let policy = |_, _: &Failed, _| Action::await_change();
    let sharded = controller(&server, json!({})).sharded(&group);
    let mut stream = pin!(sharded.run(never_called, policy, Arc::new(())));
    until_decoded(&mut stream).await;
    drop(stop);
    let ended = timeout(Duration::from_secs(60), running).await.expect("the shard is released");
    ended.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn object_that_is_decoded_when_the_stream_is_dropped_is_freed_in_a_task() {
    let server = server();
    let policy = |_, _: &Failed, _| Action::await_change();
    let controller = controller(&server, json!({}));
    let mut stream = Box::pin(controller.run(never_called, policy, Arc::new(())));
    until_decoded(&mut stream).await;
    drop(stream);
    assert!(DROPPED.with_borrow(Vec::is_empty), "no task has run since");
    idle().await;
    assert!(matches!(DROPPED.take()[..], [Some(_)]));
}

#[tokio::test(start_paused = true)]
async fn object_that_a_deletion_handler_drops_at_once_is_freed_in_a_task() {
    let (server, (sender, mut deleted)) = (server(), mpsc::unbounded_channel());
    let controller = controller(&server, json!({})).on_deleted(move |last| {
        sender.send(last.is_tombstone()).unwrap();
        async {}
    });
    let policy = |_, _: &Failed, _| Action::await_change();
    let reconciler = async |_, _| Ok(Action::await_change());
    let mut stream = pin!(controller.run(reconciler, policy, Arc::new(())));
    assert_eq!(stream.next().await.unwrap().unwrap().0.name, "a");
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    DROPPED.take();
    tokio::select! {
        other = stream.next() => panic!("{other:?}"),
        is_tombstone = deleted.recv() => assert_eq!(is_tombstone, Some(false)),
    }
    idle().await;
    assert!(matches!(DROPPED.take()[..], [Some(_)]));
}

#[tokio::test(start_paused = true)]
async fn destructor_of_a_decoded_object_that_panics_does_not_end_the_controller() {
    for end in ENDS {
        reconcile(json!({ "panics": true }), end).await;
        assert_eq!(DROPPED.take().len(), 1, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_object_is_decoded_on_another_thread() {
    reconcile(json!({ "text": "x".repeat(2 << 20) }), End::Success).await;
    assert!(DECODED.take().is_empty());
}
