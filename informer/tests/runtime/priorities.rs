//! Tests of priorities: watch events come before lists and before requests for all objects.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::controller::{Action, Config};
use deltafifo_testkit::ApiServer;
use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::sleep;

use super::rig::{Begun, Polled, Stored, controller, gated, idle, map, missing, poll, server};

/// A controller of some maps that reconciles one map at a time. The last map of a list is
/// reconciled last, unless something raises its priority.
struct Rig {
    server: ApiServer,
    /// The running controller. Dropping it ends the controller.
    polled: Polled,
    begun: UnboundedReceiver<Begun>,
    names: Vec<String>,
}

impl Rig {
    /// Creates the maps, and waits until all of them are reconciled.
    async fn at_rest(
        config: Config,
        choose: impl FnOnce(Controller<Stored>) -> Controller<Stored>,
    ) -> Self {
        let names: Vec<_> = (10..30).map(|number| number.to_string()).collect();
        let server = server();
        for name in &names {
            server.apply(map(name, "1")).unwrap();
        }
        let (reconcile, mut begun) = gated();
        let polled =
            poll(choose(controller(&server).with_config(config.concurrency(1))), reconcile);
        for _ in &names {
            begun.recv().await.unwrap().end.send(()).unwrap();
        }
        server.wait_for_watchers(1).await;
        Self { server, polled, begun, names }
    }

    fn apply(&self, name: &str, data: &str) {
        self.server.apply(map(name, data)).unwrap();
    }

    /// Applies the map `busy`, and waits until its reconcile has begun. The reconcile blocks all
    /// others until the test ends it.
    async fn busy(&mut self) -> Begun {
        self.apply("busy", "1");
        self.begun.recv().await.unwrap()
    }

    /// Ends the reconcile `busy`, and then each reconcile that follows it. Returns the names of the
    /// objects in the order in which they were reconciled.
    async fn order(mut self, busy: Begun) -> Vec<String> {
        let (mut begun, mut order) = (busy, Vec::new());
        while order.len() < self.names.len() {
            begun.end.send(()).unwrap();
            begun = self.begun.recv().await.unwrap();
            order.push(begun.name.clone());
        }
        begun.end.send(()).unwrap();
        drop(self.polled);
        order
    }
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_reconciled_before_the_list() {
    let names: Vec<_> = (10..30).map(|number| number.to_string()).collect();
    let server = server();
    for name in &names {
        server.apply(map(name, "1")).unwrap();
    }
    let (reconcile, mut begun) = gated();
    let controller = controller(&server).with_config(Config::default().concurrency(1));
    let _polled = poll(controller, reconcile);
    let first = begun.recv().await.unwrap();
    let last = names.iter().rfind(|name| **name != first.name).unwrap();
    server.wait_for_watchers(1).await;
    server.apply(map(last, "2")).unwrap();
    idle().await;
    first.end.send(()).unwrap();
    let second = begun.recv().await.unwrap();
    assert_eq!((second.name.as_str(), second.value.as_str()), (last.as_str(), "2"));
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_reconciled_before_a_relist() {
    let mut rig = Rig::at_rest(Config::default(), |controller| controller).await;
    let busy = rig.busy().await;
    missing(&rig.server, || rig.names.iter().for_each(|name| rig.apply(name, "2")));
    rig.server.wait_for_watchers(1).await;
    // The relist has requested all of them.
    sleep(Duration::from_secs(10)).await;
    rig.apply("new", "1");
    idle().await;
    assert_eq!(rig.order(busy).await[0], "new");
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_reconciled_before_reconcile_all() {
    let (all, mut alls) = mpsc::unbounded_channel();
    let alls = stream::poll_fn(move |context| alls.poll_recv(context));
    let mut rig =
        Rig::at_rest(Config::default(), |controller| controller.reconcile_all_on(alls)).await;
    let busy = rig.busy().await;
    all.send(()).unwrap();
    idle().await;
    rig.apply("new", "1");
    idle().await;
    assert_eq!(rig.order(busy).await[0], "new");
}

#[tokio::test(start_paused = true)]
async fn postponed_request_keeps_its_priority() {
    let (all, mut alls) = mpsc::unbounded_channel();
    let alls = stream::poll_fn(move |context| alls.poll_recv(context));
    let config = Config::default().debounce(Duration::from_secs(1));
    let mut rig = Rig::at_rest(config, |controller| controller.reconcile_all_on(alls)).await;
    let busy = rig.busy().await;
    // Postponed by another request to the same moment as all others.
    rig.apply("new", "1");
    idle().await;
    all.send(()).unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.order(busy).await[0], "new");
}

#[tokio::test(start_paused = true)]
async fn postponed_request_with_raised_priority_comes_first() {
    let (all, mut alls) = mpsc::unbounded_channel();
    let alls = stream::poll_fn(move |context| alls.poll_recv(context));
    let config = Config::default().debounce(Duration::from_secs(1));
    let mut rig = Rig::at_rest(config, |controller| controller.reconcile_all_on(alls)).await;
    let busy = rig.busy().await;
    all.send(()).unwrap();
    idle().await;
    rig.apply("29", "2");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.order(busy).await[0], "29");
}

#[tokio::test(start_paused = true)]
async fn requeued_object_keeps_its_priority() {
    let server = server();
    for name in ["listed", "other"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (sender, mut begun) = mpsc::unbounded_channel();
    let reconcile = move |object: Arc<ConfigMap>, _| {
        let (end, ended) = tokio::sync::oneshot::channel();
        let name = super::rig::name(&object);
        let first = super::rig::value(&object) == "1";
        sender.send((name, end)).unwrap();
        async move {
            ended.await.unwrap();
            Ok(if first {
                Action::requeue(Duration::from_secs(60))
            } else {
                Action::await_change()
            })
        }
    };
    let _polled =
        poll(controller(&server).with_config(Config::default().concurrency(1)), reconcile);
    for _ in 0..2 {
        begun.recv().await.unwrap().1.send(()).unwrap();
    }
    server.wait_for_watchers(1).await;
    server.apply(map("busy", "2")).unwrap();
    let (busy, end) = begun.recv().await.unwrap();
    assert_eq!(busy, "busy");
    // Both are due again, with the low priority that they had.
    sleep(Duration::from_secs(120)).await;
    server.apply(map("new", "2")).unwrap();
    idle().await;
    end.send(()).unwrap();
    assert_eq!(begun.recv().await.unwrap().0, "new");
}
