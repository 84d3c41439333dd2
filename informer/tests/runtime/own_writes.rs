//! Tests of `read_own_writes`: the next reconcile of an object finds in the stores what the last
//! one wrote, although the watch is late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::{Lister, Meta};
use deltafifo_informer::lister_watcher::{ListerWatcher, Merged};
use deltafifo_informer::runtime::controller::{Action, Config};
use deltafifo_informer::runtime::{Controller, Form, own_writes};
use deltafifo_informer::shared_informer::Namespaces;
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::rig::{Failed, Outcome, Polled, Stored, controller, idle, map, pod, poll, server};

type Pods = SharedInformer<Stored<Pod>>;

fn pods(server: &ApiServer) -> KubeListerWatcher {
    KubeListerWatcher::new::<Pod>(server.client(), &(), None)
}

fn running<F: Form>(informer: SharedInformer<F>) -> SharedInformer<F>
where
    KubeMeta: Meta<F>,
{
    let run = informer.clone();
    tokio::spawn(async move { run.run().await });
    informer
}

/// Returns an informer of all pods, which runs.
fn informer(server: &ApiServer) -> Pods {
    running(Pods::builder(pods(server)).build().unwrap())
}

/// Cuts all watches. Pods can be neither listed nor watched until the faults are cleared; the other
/// watches resume.
async fn delay_pods(server: &ApiServer, polled: &mut Polled) {
    let reads_pods =
        |request: &Request| request.plural() == Some("pods") && request.method() == "GET";
    server.fault(Fault::refused().when(reads_pods).times(usize::MAX));
    server.break_watches();
    let cut = polled.next().await;
    assert!(cut.contains("configmaps.v1: a watch failed"), "{cut}");
}

fn count(server: &ApiServer, verb: Verb) -> usize {
    server.requests().iter().filter(|request| request.verb() == verb).count()
}

/// Creates the next pod.
async fn create(client: Client, number: usize) -> Result<(), Failed> {
    let mut pod = Pod::default();
    pod.metadata.name = Some(format!("p{number}"));
    let pods = Api::<Pod>::namespaced(client, "shop");
    pods.create(&PostParams::default(), &pod).await.map(drop).map_err(|_| Failed("not created"))
}

/// Returns a reconciler that creates a pod for the map `a` if there is none.
fn create_if_missing(
    client: Client,
    pods: &Pods,
) -> impl FnMut(Arc<ConfigMap>, Arc<()>) -> BoxFuture<'static, Outcome> + Send + 'static {
    let (pods, created) = (pods.lister(), Arc::new(AtomicUsize::new(0)));
    move |map, _| {
        let (client, created) = (client.clone(), Arc::clone(&created));
        let is_missing = map.name_any() == "a" && pods.list().is_empty();
        async move {
            if is_missing {
                create(client, created.fetch_add(1, Ordering::Relaxed)).await?;
            }
            Ok(Action::await_change())
        }
        .boxed()
    }
}

/// Waits for the watches, delays that of pods, creates the map `a`, and changes it once it was
/// reconciled.
async fn trigger_twice(server: &ApiServer, polled: &mut Polled) {
    server.wait_for_watchers(2).await;
    trigger_twice_while_watched(server, polled).await;
}

async fn trigger_twice_while_watched(server: &ApiServer, polled: &mut Polled) {
    assert!(polled.at_rest().await.is_empty());
    delay_pods(server, polled).await;
    server.apply(map("a", "1")).unwrap();
    assert_eq!(polled.next().await, "a");
    server.apply(map("a", "2")).unwrap();
    sleep(Duration::from_secs(1)).await;
}

/// Triggers a map twice while the watch of pods is late, and returns how many pods its reconciles
/// have created, and whether the second one began before the watch was back.
async fn pods_of_two_reconciles(reads_own_writes: bool) -> (usize, bool) {
    let server = server();
    let pods = informer(&server);
    let mut controller = controller(&server).owns_informer(&pods);
    if reads_own_writes {
        controller = controller.read_own_writes();
    }
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    trigger_twice(&server, &mut polled).await;
    let began = !polled.at_rest().await.is_empty();
    server.clear_faults();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(polled.at_rest().await.is_empty(), began, "one more reconcile");
    (count(&server, Verb::Create), began)
}

#[tokio::test(start_paused = true)]
async fn reconcile_waits_until_the_store_has_the_created_child() {
    assert_eq!(pods_of_two_reconciles(false).await, (2, true), "nothing would have to wait");
    assert_eq!(pods_of_two_reconciles(true).await, (1, false));
}

#[tokio::test(start_paused = true)]
async fn reconcile_waits_until_the_store_lacks_the_deleted_child() {
    let server = server();
    let pods = informer(&server);
    let (client, lister) = (own_writes::client(&server.client()), pods.lister());
    server.apply(pod("p", &[])).unwrap();
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let mut polled = poll(controller, move |_, _| {
        let pods = Api::<Pod>::namespaced(client.clone(), "shop");
        let is_stored = !lister.list().is_empty();
        async move {
            if is_stored {
                let deleted = pods.delete("p", &DeleteParams::default()).await;
                deleted.map_err(|_| Failed("deleted twice"))?;
            }
            Ok(Action::await_change())
        }
    });
    trigger_twice(&server, &mut polled).await;
    assert!(polled.at_rest().await.is_empty(), "not held back");
    server.clear_faults();
    assert_eq!(polled.next().await, "a");
    assert_eq!(count(&server, Verb::Delete), 1);
}

#[tokio::test(start_paused = true)]
async fn write_that_is_not_seen_is_an_error_and_then_forgotten() {
    let server = server();
    let pods = informer(&server);
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    let began = Instant::now();
    trigger_twice(&server, &mut polled).await;
    let first = polled.next().await;
    assert!(first.starts_with("runner error: ConfigMap.v1./a.shop was not reconciled"), "{first}");
    assert!(first.contains("pods.v1 does not show the write of shop/p0 at version"), "{first}");
    assert!(first.contains("in any case once that write is 2 minutes old"), "{first}");
    let waited = began.elapsed().as_secs();
    assert!((10..15).contains(&waited), "{waited} s");
    while polled.next().await != "a" {}
    let waited = began.elapsed().as_secs();
    assert!((120..150).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn other_objects_are_reconciled_while_one_is_held_back() {
    let server = server();
    let pods = informer(&server);
    let controller = controller(&server).with_config(Config::default().concurrency(1));
    let controller = controller.owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    trigger_twice(&server, &mut polled).await;
    server.apply(map("b", "1")).unwrap();
    assert_eq!(polled.at_rest().await, ["b"]);
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    server.clear_faults();
    sleep(Duration::from_secs(60)).await;
    assert!(polled.at_rest().await.is_empty(), "a deleted object is reconciled");
}

#[tokio::test(start_paused = true)]
async fn new_object_of_that_name_is_not_held_back() {
    let server = server();
    let pods = informer(&server);
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    server.wait_for_watchers(2).await;
    delay_pods(&server, &mut polled).await;
    server.apply(map("a", "1")).unwrap();
    assert_eq!(polled.next().await, "a");
    idle().await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    server.apply(map("a", "2")).unwrap();
    let began = Instant::now();
    assert_eq!(polled.next().await, "a");
    assert!(began.elapsed() < Duration::from_secs(1), "waits for a write of the former object");
    assert_eq!(count(&server, Verb::Create), 2);
    server.apply(map("a", "3")).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(polled.at_rest().await.is_empty(), "does not wait for its own write");
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_held_reconciles() {
    let server = server();
    let pods = informer(&server);
    let client = own_writes::client(&server.client());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = controller(&server)
        .owns_informer(&pods)
        .read_own_writes()
        .graceful_shutdown_on(stopped.map(drop));
    let mut polled = poll(controller, create_if_missing(client, &pods));
    trigger_twice(&server, &mut polled).await;
    let began = Instant::now();
    stop.send(()).unwrap();
    assert!(polled.rest().await.is_empty());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_waits_finds_what_it_wrote() {
    let server = server();
    let pods = informer(&server);
    let (client, lister) = (own_writes::client(&server.client()), pods.lister());
    let (sender, mut counts) = mpsc::unbounded_channel();
    let count = move |lister: &Lister<Stored<Pod>, KubeMeta>| lister.list().len();
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let mut polled = poll(controller, move |_, _| {
        let (client, lister, sender) = (client.clone(), lister.clone(), sender.clone());
        async move {
            create(client, 0).await?;
            let before = count(&lister);
            own_writes::wait().await.map_err(|_| Failed("not seen"))?;
            sender.send((before, count(&lister))).map_err(|_| Failed("the test has ended"))?;
            Ok(Action::await_change())
        }
    });
    server.wait_for_watchers(2).await;
    delay_pods(&server, &mut polled).await;
    server.apply(map("a", "1")).unwrap();
    sleep(Duration::from_secs(2)).await;
    server.clear_faults();
    assert_eq!(counts.recv().await, Some((0, 1)));
}

/// The reconciler is not an async function: it spawns the task when it is called, and not when its
/// future is polled.
#[tokio::test(start_paused = true)]
async fn write_of_a_task_that_the_call_of_the_reconciler_spawns_is_waited_for() {
    let server = server();
    let pods = informer(&server);
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut create_if_missing = create_if_missing(client, &pods);
    let mut polled = poll(controller, move |map, context| {
        let task = tokio::spawn(own_writes::carry(create_if_missing(map, context)));
        async move { task.await.map_err(|_| Failed("the task panicked"))? }
    });
    trigger_twice(&server, &mut polled).await;
    assert!(polled.at_rest().await.is_empty(), "not held back");
    server.clear_faults();
    assert_eq!(polled.next().await, "a");
    assert_eq!(count(&server, Verb::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn writes_of_kinds_without_an_informer_hold_nothing_back() {
    let server = server();
    let pods = informer(&server);
    let (client, created) = (own_writes::client(&server.client()), AtomicUsize::new(0));
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let mut polled = poll(controller, move |_, _| {
        let mut node = Node::default();
        node.metadata.name = Some(format!("n{}", created.fetch_add(1, Ordering::Relaxed)));
        let nodes = Api::<Node>::all(client.clone());
        async move {
            nodes.create(&PostParams::default(), &node).await.map_err(|_| Failed("not created"))?;
            Ok(Action::await_change())
        }
    });
    trigger_twice(&server, &mut polled).await;
    assert_eq!(polled.at_rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn writes_outside_of_a_reconcile_hold_nothing_back() {
    let server = server();
    let pods = informer(&server);
    let client = own_writes::client(&server.client());
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let mut polled = poll(controller, |_, _| async { Ok(Action::await_change()) });
    server.wait_for_watchers(2).await;
    delay_pods(&server, &mut polled).await;
    create(client, 0).await.unwrap();
    own_writes::wait().await.expect("there is nothing to wait for");
    server.apply(map("a", "1")).unwrap();
    let began = Instant::now();
    assert_eq!(polled.next().await, "a");
    assert!(began.elapsed() < Duration::from_secs(5), "longer than until the watch resumes");
}

#[tokio::test(start_paused = true)]
async fn write_is_seen_in_one_of_several_namespaces_while_the_others_are_silent() {
    let server = server();
    let namespaces = Namespaces::new(["shop", "silent"]).unwrap();
    let source = Arc::new(pods(&server));
    let informer = Pods::in_namespaces(&namespaces, move |name| source.in_namespace(name));
    let pods = running(informer.build().unwrap());
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    server.wait_for_watchers(3).await;
    server.apply(map("a", "1")).unwrap();
    assert_eq!(polled.next().await, "a");
    idle().await;
    server.apply(map("a", "2")).unwrap();
    let began = Instant::now();
    assert_eq!(polled.next().await, "a");
    assert!(began.elapsed() < Duration::from_secs(1), "waits for the other namespace");
    assert_eq!(count(&server, Verb::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn reconcile_waits_for_a_merged_source_of_several_namespaces() {
    let server = server();
    let source = pods(&server);
    let part = |name| Box::new(source.in_namespace(name)) as Box<dyn ListerWatcher>;
    let merged = Merged::new(["bank", "shop"].map(part).into());
    let pods = running(Pods::builder(merged).build().unwrap());
    let controller = controller(&server).owns_informer(&pods).read_own_writes();
    let client = own_writes::client(&server.client());
    let mut polled = poll(controller, create_if_missing(client, &pods));
    server.wait_for_watchers(3).await;
    trigger_twice_while_watched(&server, &mut polled).await;
    assert!(polled.at_rest().await.is_empty(), "not held back");
    server.clear_faults();
    assert_eq!(polled.next().await, "a");
    assert_eq!(count(&server, Verb::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn update_of_the_main_object_is_in_the_next_reconcile() {
    let server = server();
    let client = own_writes::client(&server.client());
    let (sender, mut seen) = mpsc::unbounded_channel();
    let controller: Controller<Stored> = controller(&server).read_own_writes();
    let _polled = poll(controller, move |map: Arc<ConfigMap>, _| {
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "shop");
        let sender = sender.clone();
        async move {
            let mut map = (*map).clone();
            let count = map.annotations().len();
            map.annotations_mut().insert(count.to_string(), String::new());
            // A conflict shows that the reconcile began with an old state.
            let replaced = maps.replace("a", &PostParams::default(), &map).await;
            let result = replaced.map(|_| count).map_err(|_| "conflict");
            sender.send(result).map_err(|_| Failed("the test has ended"))?;
            let is_first = count == 0;
            Ok(if is_first { Action::requeue(Duration::ZERO) } else { Action::await_change() })
        }
    });
    server.wait_for_watchers(1).await;
    server.apply(map("a", "1")).unwrap();
    for expected in 0..3 {
        assert_eq!(seen.recv().await, Some(Ok(expected)));
    }
}
