//! Tests of events that kube's store loses and that an informer over the same watcher delivers.
//! There is one test for each row of the table in the README.

use deltafifo::{Indexers, OWNER_INDEX};
use deltafifo_informer::shared_informer::{HandlerOptions, Notification, Subscription};
use deltafifo_informer::{KubeMeta, SharedInformer};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{reflector, store};
use kube::runtime::watcher::Event;
use tokio::sync::mpsc;

use super::rig::{idle, name, typed, value};

type WatcherEvent = Event<ConfigMap>;

/// Returns the watcher events of a list of these maps.
fn list(maps: &[ConfigMap]) -> Vec<WatcherEvent> {
    let maps = maps.iter().cloned().map(Event::InitApply);
    [Event::Init].into_iter().chain(maps).chain([Event::InitDone]).collect()
}

/// A running informer over a watcher whose events the test supplies.
struct Ours {
    watcher: mpsc::UnboundedSender<WatcherEvent>,
    informer: SharedInformer<ConfigMap>,
}

impl Ours {
    fn of(events: Vec<WatcherEvent>) -> Self {
        let (watcher, mut sent) = mpsc::unbounded_channel();
        let stream = stream::poll_fn(move |context| sent.poll_recv(context)).map(Ok);
        let by_data = |map: &ConfigMap| Ok(vec![value(map)]);
        let informer = SharedInformer::for_stream(stream).index("data", by_data).build().unwrap();
        let running = informer.clone();
        tokio::spawn(async move { running.run().await });
        let ours = Self { watcher, informer };
        ours.send(events);
        ours
    }

    fn send(&self, events: Vec<WatcherEvent>) {
        for event in events {
            self.watcher.send(event).expect("the informer runs");
        }
    }

    fn subscribe(&self) -> Subscription<ConfigMap> {
        self.informer.subscribe(HandlerOptions::new()).expect("the informer runs")
    }
}

/// Returns the next notification: `+a=1`, `a=1>2`, `-a=2`, or `!a=2` for a tombstone.
async fn next(received: &mut Subscription<ConfigMap>) -> String {
    match received.next().await.expect("the informer runs") {
        Notification::Added { new, .. } => format!("+{}={}", name(&new), value(&new)),
        Notification::Updated { old, new, .. } => {
            format!("{}={}>{}", name(&new), value(&old), value(&new))
        }
        Notification::Deleted { last, .. } => {
            let sign = if last.is_tombstone() { '!' } else { '-' };
            let last = last.object().expect("its last state is known");
            format!("{sign}{}={}", name(last), value(last))
        }
        other => format!("{other:?}"),
    }
}

/// Returns the next two notifications, in any order.
async fn two(received: &mut Subscription<ConfigMap>) -> [String; 2] {
    let mut two = [next(received).await, next(received).await];
    two.sort();
    two
}

#[tokio::test(start_paused = true)]
async fn deletion_found_by_a_list_is_delivered() {
    let (a, b) = (typed("a", 1), typed("b", 2));
    let (first, second) = (list(&[a, b.clone()]), list(&[b]));

    let (kubes, writer) = store();
    let received = stream::iter([first.clone(), second.clone()].concat()).map(Ok);
    let touched = reflector(writer, received).touched_objects().map(|map| name(&map.unwrap()));
    assert_eq!(touched.collect::<Vec<_>>().await, ["a", "b", "b"]);
    assert_eq!(kubes.len(), 1, "a is gone without an event");

    let ours = Ours::of(first);
    let mut received = ours.subscribe();
    assert_eq!(two(&mut received).await, ["+a=1", "+b=2"]);
    ours.send(second);
    assert_eq!(next(&mut received).await, "!a=1");
}

#[tokio::test(start_paused = true)]
async fn deletion_is_delivered_to_every_subscriber() {
    let ours = Ours::of(list(&[typed("a", 1)]));
    let mut subscribers = [ours.subscribe(), ours.subscribe()];
    for received in &mut subscribers {
        assert_eq!(next(received).await, "+a=1");
    }
    ours.send(vec![Event::Delete(typed("a", 2))]);
    for received in &mut subscribers {
        assert_eq!(next(received).await, "-a=2");
    }
}

#[tokio::test(start_paused = true)]
async fn update_contains_the_old_object() {
    let ours = Ours::of(list(&[typed("a", 1)]));
    let mut received = ours.subscribe();
    assert_eq!(next(&mut received).await, "+a=1");
    ours.send(vec![Event::Apply(typed("a", 2))]);
    assert_eq!(next(&mut received).await, "a=1>2");
    ours.send(list(&[typed("a", 3)]));
    assert_eq!(next(&mut received).await, "a=2>3", "by a list, too");
}

#[tokio::test(start_paused = true)]
async fn index_finds_objects_by_value() {
    let mut web = typed("b", 2);
    web.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let owner = OwnerReference { uid: "7".to_owned(), ..Default::default() };
    web.metadata.owner_references = Some(vec![owner]);
    let ours = Ours::of(list(&[typed("a", 1), web]));
    ours.informer.wait_for_sync().await.unwrap();
    let store = ours.informer.store();
    store.add_indexers(Indexers::new().label(KubeMeta, "app").owners(KubeMeta)).unwrap();
    let found = |(index, value)| {
        let maps = store.by_index(index, value).unwrap();
        maps.iter().map(|map| name(map)).collect::<String>()
    };
    let values = [("data", "2"), ("label:app", "web"), (OWNER_INDEX, "7")];
    assert_eq!(values.map(found), ["b"; 3]);
    ours.send(list(&[typed("a", 1)]));
    idle().await;
    assert_eq!(values.map(found), [""; 3]);
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_receives_all_stored_objects() {
    let ours = Ours::of(list(&[typed("a", 1), typed("b", 2)]));
    ours.informer.wait_for_sync().await.unwrap();
    let mut late = ours.subscribe();
    assert_eq!(two(&mut late).await, ["+a=1", "+b=2"]);
    ours.send(vec![Event::Apply(typed("c", 3))]);
    assert_eq!(next(&mut late).await, "+c=3");
}

#[tokio::test(start_paused = true)]
async fn all_waiters_are_woken() {
    let mut writer = Writer::<ConfigMap>::default();
    let kubes = writer.as_reader();
    let ours = Ours::of(Vec::new());
    let waits = [(); 3].map(|()| {
        let (kubes, ours) = (kubes.clone(), ours.informer.clone());
        let for_kubes = tokio::spawn(async move { kubes.wait_until_ready().await.unwrap() });
        (for_kubes, tokio::spawn(async move { ours.wait_for_sync().await.unwrap() }))
    });
    idle().await;
    for event in list(&[]) {
        writer.apply_watcher_event(&event);
        ours.send(vec![event]);
    }
    idle().await;
    let (kubes, ours): (Vec<_>, Vec<_>) =
        waits.iter().map(|(kubes, ours)| (kubes.is_finished(), ours.is_finished())).unzip();
    assert_eq!(ours, [true; 3]);
    assert_eq!(kubes.iter().filter(|woken| **woken).count(), 1, "only the task polled last");
}
