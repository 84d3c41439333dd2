//! Tests of namespaces whose scopes the queue refuses to add or to remove for a while, of
//! namespaces that leave during a commit, and of polls without cooperative budget.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::{
    Change, Closed, DeltaFifo, DeltaObject, Indexer, KeyFunc, KeyScope, Refused, RelistError,
    ScopeError, ScopeId, StoreError,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt, once, pending, unfold};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use tokio::sync::{oneshot, watch};
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

use super::parts::RefusedNames;
use super::parts::within_budget;
use super::{Namespaces, Parts, Plan, Set};
use crate::KubeMeta;
use crate::lister_watcher::{
    EventType, ListRequest, ListStream, Listed, ListerWatcher, PageMeta, RawEvent, RequestError,
    Scripted, WatchRequest, WatchStream,
};
use crate::reflector::{Decodable, Pieces, ReflectorBuilder, Scoped, Target};
use crate::shared_informer::error::{InformerError, OnError};
use crate::shared_informer::source::Availability;

type Queue = DeltaFifo<ConfigMap, KubeMeta>;

/// A time that is longer than any backoff.
const LONG: Duration = Duration::from_secs(600);

/// A queue that refuses the next additions and removals of scopes.
struct Refusing {
    queue: Arc<Queue>,
    refusals: AtomicUsize,
    /// The gates of the next relists, by the namespaces that they list.
    gates: Mutex<HashMap<String, Gate>>,
}

/// The queue's side of a [`GateKeeper`]: it says that the commit has been reached, and waits until
/// the `GateKeeper` is dropped.
struct Gate {
    /// Whether the commit waits when it is done, instead of before it begins.
    is_behind: bool,
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

/// A handle of a relist whose commit waits, on its thread, until the handle is dropped.
struct GateKeeper {
    reached: oneshot::Receiver<()>,
    _opens_on_drop: mpsc::Sender<()>,
}

/// A relist whose commit waits at a gate.
struct Gated(Box<dyn Pieces<ConfigMap>>, Gate);

impl Pieces<ConfigMap> for Gated {
    fn expect(&mut self, objects: usize) {
        self.0.expect(objects);
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        self.0.probe(listed)
    }

    fn offer(
        &mut self,
        names: &[&str],
        objects: Vec<Arc<ConfigMap>>,
    ) -> Result<Vec<Refused>, RelistError> {
        self.0.offer(names, objects)
    }

    fn delete(
        &mut self,
        name: &str,
        object: Option<DeltaObject<ConfigMap>>,
    ) -> Result<(), StoreError> {
        self.0.delete(name, object)
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        self.0.keep(name)
    }

    fn commit(self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError> {
        let Self(relist, Gate { is_behind, reached, opened }) = *self;
        let wait = || {
            // Both fail once the keeper is dropped.
            let _ = reached.send(());
            let _ = opened.recv();
        };
        if is_behind {
            let committed = relist.commit(version);
            wait();
            return committed;
        }
        wait();
        relist.commit(version)
    }
}

impl Refusing {
    /// Makes the commit of the next relist of a namespace wait before it begins.
    fn gate(&self, namespace: &str) -> GateKeeper {
        self.gate_at(namespace, false)
    }

    /// Makes the commit of the next relist of a namespace wait when it is done, before the informer
    /// learns of it.
    fn gate_after(&self, namespace: &str) -> GateKeeper {
        self.gate_at(namespace, true)
    }

    fn gate_at(&self, namespace: &str, is_behind: bool) -> GateKeeper {
        let ((reached, is_reached), (opens, opened)) = (oneshot::channel(), mpsc::channel());
        self.gates.lock().insert(namespace.to_owned(), Gate { is_behind, reached, opened });
        GateKeeper { reached: is_reached, _opens_on_drop: opens }
    }

    fn refuses(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Target<ConfigMap> for Refusing {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<ConfigMap>> {
        Target::begin(Arc::clone(&self.queue))
    }

    fn add(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        Target::add(&*self.queue, object)
    }

    fn update(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        Target::update(&*self.queue, object)
    }

    fn delete(&self, object: DeltaObject<ConfigMap>) -> Result<(), StoreError> {
        Target::delete(&*self.queue, object)
    }

    fn bookmark(&self, version: &str) {
        Target::bookmark(&*self.queue, version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        Target::resync(&*self.queue)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>> {
        Target::ready(&*self.queue)
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Target::closed(&*self.queue)
    }

    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        self.queue.key_of_named(name)
    }
}

impl Scoped<ConfigMap> for Refusing {
    fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        if self.refuses() {
            return Err(ScopeError::RelistOpen { scope: "green".to_owned() });
        }
        Scoped::add_scope(&*self.queue, scope)
    }

    fn begin_in(self: Arc<Self>, scope: &ScopeId) -> (Box<dyn Pieces<ConfigMap>>, Option<u64>) {
        let (relist, history) = Scoped::begin_in(Arc::clone(&self.queue), scope);
        let relist = match self.gates.lock().remove(scope.name()) {
            Some(gate) => Box::new(Gated(relist, gate)),
            None => relist,
        };
        (relist, history)
    }

    fn bookmark_in(&self, scope: &ScopeId, version: &str) {
        Scoped::bookmark_in(&*self.queue, scope, version);
    }

    fn waive_scope(&self, scope: &ScopeId) {
        Scoped::waive_scope(&*self.queue, scope);
    }

    fn await_scope(&self, scope: &ScopeId) {
        Scoped::await_scope(&*self.queue, scope);
    }

    fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError> {
        if self.refuses() {
            return Err(RelistError::Exhausted);
        }
        Scoped::remove_scope(&*self.queue, scope)
    }

    fn check(&self, object: &ConfigMap, scope: &ScopeId) -> Result<(), StoreError> {
        Scoped::check(&*self.queue, object, scope)
    }

    fn knows(&self, object: &ConfigMap) -> Option<bool> {
        self.queue.knows(object)
    }
}

/// A set of namespaces, the queue that they are fed to, and the namespaces whose errors were
/// reported. By default the lister-watcher of each namespace is [`green`]: its list has the object
/// `green/a`, and its watch sends no events.
struct Rig {
    namespaces: Namespaces,
    queue: Arc<Refusing>,
    parts: Arc<Parts<ConfigMap>>,
    availability: watch::Receiver<Availability>,
    reported: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    fn start(names: &[&str]) -> Self {
        Self::of(names, |_| green())
    }

    fn of(names: &[&str], source: impl Fn(&str) -> Scripted + Send + Sync + 'static) -> Self {
        Self::of_set(Namespaces::new(names.iter().copied()).unwrap(), source)
    }

    fn of_set(
        namespaces: Namespaces,
        source: impl Fn(&str) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        Self::with(namespaces, source, |reflector| reflector.watch_list(false))
    }

    fn with<S: ListerWatcher>(
        namespaces: Namespaces,
        source: impl Fn(&str) -> S + Send + Sync + 'static,
        choose: impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap>,
    ) -> Self {
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
        let queue = Arc::new(Queue::over(store).track_applied(true).build());
        let (refusals, gates) = (AtomicUsize::new(0), Mutex::default());
        let queue = Arc::new(Refusing { queue, refusals, gates });
        let (refuses, availability) = watch::channel(Availability::Unknown);
        let source = Box::new(move |name: &str| Box::new(source(name)) as Box<dyn ListerWatcher>);
        let plan = Plan::new(namespaces.clone(), source);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reports = Arc::clone(&reported);
        let on_error = OnError(Arc::new(move |error| {
            let InformerError::Namespace { namespace, .. } = error else { panic!("{error}") };
            reports.lock().push((*namespace).to_owned());
        }));
        let parts = plan.into_parts(
            queue.clone(),
            "maps".to_owned(),
            Box::new(ConfigMap::decoder),
            choose,
            on_error,
            refuses,
        );
        let parts = Arc::new(parts);
        let running = parts.clone();
        tokio::spawn(async move { running.run().await });
        Self { namespaces, queue, parts, availability, reported }
    }

    /// Returns the next change as `+key` or `-key`.
    async fn next(&self) -> String {
        let popped = timeout(LONG, self.queue.queue.pop_async()).await;
        let mut popped = popped.expect("nothing is queued").unwrap();
        let mut sign = "";
        popped
            .apply(|change| {
                sign = if matches!(change, Change::Deleted { .. }) { "-" } else { "+" };
            })
            .unwrap();
        format!("{sign}{}", popped.key())
    }
}

fn green() -> Scripted {
    listed("green", 5).watch_on(Vec::new())
}

/// Returns the object `a` of a namespace.
fn raw(namespace: &str, version: u64) -> String {
    let meta = format!(r#""namespace":"{namespace}","name":"a","resourceVersion":"{version}""#);
    format!(r#"{{"metadata":{{{meta}}}}}"#)
}

/// Returns a list at `version` of the object `a`.
fn items(namespace: &str, version: u64) -> [Result<Listed, RequestError>; 2] {
    let page = PageMeta { resource_version: version.to_string(), ..PageMeta::default() };
    [Ok(Listed::Meta(page)), Ok(Listed::Items(vec![raw(namespace, version).into()]))]
}

/// Returns a script with a list at `version` of the object `a`.
fn listed(namespace: &str, version: u64) -> Scripted {
    Scripted::new().list(items(namespace, version))
}

/// Lets all tasks run that can.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_removal_of_a_namespace_is_reported_and_tried_again() {
    let rig = Rig::start(&["green"]);
    assert_eq!(rig.next().await, "+green/a");
    rig.queue.refusals.store(2, Ordering::Relaxed);
    assert!(rig.namespaces.remove("green"));
    assert_eq!(rig.next().await, "-green/a");
    assert_eq!(*rig.reported.lock(), ["green", "green"]);
    assert!(rig.namespaces.add("green").unwrap());
    assert_eq!(rig.next().await, "+green/a");
}

#[tokio::test(start_paused = true)]
async fn namespace_that_the_queue_refuses_is_reported_and_added_later() {
    let rig = Rig::start(&[]);
    while !rig.queue.queue.has_synced() {
        yield_now().await;
    }
    // The second refused scope is the one without keys, which keeps the queue from syncing.
    rig.queue.refusals.store(3, Ordering::Relaxed);
    assert!(rig.namespaces.add("green").unwrap());
    assert_eq!(rig.next().await, "+green/a");
    assert_eq!(*rig.reported.lock(), ["green", "green"]);
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_during_its_removal_is_waited_for() {
    let sources = watch::Sender::new(0);
    let mut made = sources.subscribe();
    let rig = Rig::of(&["green"], move |_| {
        sources.send_modify(|sources| *sources += 1);
        Scripted::new().list_stream(pending().boxed())
    });
    // The first source is the template.
    made.wait_for(|made| *made == 2).await.unwrap();
    rig.queue.refusals.store(1, Ordering::Relaxed);
    assert!(rig.namespaces.remove("green"));
    while rig.queue.refusals.load(Ordering::Relaxed) > 0 {
        yield_now().await;
    }
    assert!(rig.namespaces.add("green").unwrap());
    timeout(LONG, made.wait_for(|made| *made == 3)).await.unwrap().unwrap();
    assert!(!rig.queue.queue.has_synced(), "synced without the list of the namespace");
}

#[tokio::test(start_paused = true)]
async fn refused_namespace_that_replaces_another_is_waited_for() {
    let sources = watch::Sender::new(Vec::new());
    let mut made = sources.subscribe();
    let rig = Rig::of(&["blue"], move |name| {
        sources.send_modify(|sources| sources.push(name.to_owned()));
        Scripted::new().list_stream(pending().boxed())
    });
    made.wait_for(|made| made.ends_with(&["blue".to_owned()])).await.unwrap();
    rig.queue.refusals.store(1, Ordering::Relaxed);
    rig.namespaces.set(&["green".to_owned()]);
    let again = made.wait_for(|made| made.ends_with(&["green".to_owned()]));
    timeout(LONG, again).await.unwrap().unwrap();
    assert!(!rig.queue.queue.has_synced(), "synced without the list of the namespace");
    assert_eq!(*rig.reported.lock(), ["green"]);
}

/// Two followed namespaces, `blue` and `green`. While the first list of `green` is being committed,
/// `green` leaves the set.
struct Leaving {
    rig: Rig,
    gate: GateKeeper,
    /// Makes the watch of `blue` send a change of version 20.
    change: Arc<watch::Sender<bool>>,
    /// Whether the final list of `green` was requested. That request is never answered.
    final_list: watch::Receiver<bool>,
}

impl Leaving {
    async fn start() -> Self {
        let (change, asked) = (Arc::new(watch::Sender::new(false)), watch::Sender::new(false));
        let (final_list, changes) = (asked.subscribe(), change.clone());
        let asked = Arc::new(asked);
        let source = move |name: &str| {
            if name == "blue" {
                let mut sent = changes.subscribe();
                let event = async move {
                    sent.wait_for(|sent| *sent).await.unwrap();
                    Ok(RawEvent { kind: EventType::Modified, object: raw("blue", 20).into() })
                };
                return listed("blue", 9).watch_stream(once(event).chain(pending()).boxed());
            }
            let asked = asked.clone();
            let silence = async move {
                asked.send_replace(true);
                std::future::pending().await
            };
            listed("green", 5).list_stream(once(silence).boxed())
        };
        let names = ["blue", "green"].map(Arc::from).into();
        let set = Set { names, follows_informer: true, ..Set::default() };
        let rig = Rig::of_set(Namespaces::of(set), source);
        let mut gate = rig.queue.gate("green");
        (&mut gate.reached).await.unwrap();
        rig.namespaces.set(&["blue".to_owned()]);
        settle().await;
        Self { rig, gate, change, final_list }
    }
}

#[tokio::test(start_paused = true)]
async fn commit_in_flight_does_not_make_a_namespace_that_left_hold_the_applied_version_back() {
    let Leaving { rig, gate, change, mut final_list } = Leaving::start().await;
    drop(gate);
    timeout(LONG, final_list.wait_for(|asked| *asked)).await.unwrap().unwrap();
    change.send_replace(true);
    let queue = &rig.queue.queue;
    let handled = async {
        loop {
            queue.pop_async().await.unwrap().apply(|_| ()).unwrap();
        }
    };
    let store = queue.store();
    let applied = async {
        tokio::select! {
            applied = store.wait_for_resource_version_async("20") => applied,
            () = handled => unreachable!("the queue is not closed"),
        }
    };
    timeout(LONG, applied).await.expect("green does not count").unwrap();
    assert_eq!(rig.parts.status().len(), 2, "its final list is not answered");
}

#[tokio::test(start_paused = true)]
async fn final_list_waits_for_a_commit_in_flight() {
    let Leaving { gate, mut final_list, .. } = Leaving::start().await;
    assert!(!*final_list.borrow(), "the older list would come last");
    drop(gate);
    timeout(LONG, final_list.wait_for(|asked| *asked)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn final_list_that_ends_while_its_namespace_comes_back_is_not_its_first_list() {
    let [list_blue, asked] = [(); 2].map(|()| Arc::new(watch::Sender::new(false)));
    let (lists, is_asked) = (list_blue.clone(), asked.clone());
    let source = move |name: &str| {
        let (mut lists, is_asked) = (lists.subscribe(), is_asked.clone());
        if name == "blue" {
            let late = once(async move {
                lists.wait_for(|now| *now).await.unwrap();
                futures_util::stream::iter(items("blue", 9))
            });
            return Scripted::new().list_stream(late.flatten().boxed()).watch_on(Vec::new());
        }
        let page = PageMeta {
            resource_version: "5".to_owned(),
            continue_token: Some("next".to_owned()),
            ..PageMeta::default()
        };
        let silence = once(async move {
            is_asked.send_replace(true);
            std::future::pending().await
        });
        // The second page of the first list does not arrive. The second list is the final one.
        Scripted::new()
            .list([Ok(Listed::Meta(page)), Ok(Listed::Items(vec![raw("green", 5).into()]))])
            .list_stream(silence.boxed())
            .list(items("green", 5))
    };
    let names = ["blue", "green"].map(Arc::from).into();
    let set = Set { names, follows_informer: true, ..Set::default() };
    let rig = Rig::of_set(Namespaces::of(set), source);
    assert_eq!(rig.next().await, "+green/a");
    asked.subscribe().wait_for(|asked| *asked).await.unwrap();
    let mut gate = rig.queue.gate_after("green");
    rig.namespaces.set(&["blue".to_owned()]);
    (&mut gate.reached).await.unwrap();
    // The final list is committed, and the informer does not know it yet.
    rig.namespaces.set(&["blue".to_owned(), "green".to_owned()]);
    settle().await;
    drop(gate);
    list_blue.send_replace(true);
    assert_eq!(rig.next().await, "+blue/a");
    let synced = timeout(LONG, rig.queue.queue.wait_for_sync_async()).await;
    assert!(synced.is_err(), "synced without the first list of green");
}

#[tokio::test(start_paused = true)]
async fn final_list_that_does_not_end_is_given_up() {
    let rig = Rig::of_set(
        Namespaces::of(Set {
            names: [Arc::from("green")].into(),
            follows_informer: true,
            ..Set::default()
        }),
        |_| {
            let one_a_minute = unfold(items("green", 5).into_iter(), |mut items| async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                let object = || Ok(Listed::Items(vec![raw("green", 5).into()]));
                Some((items.next().unwrap_or_else(object), items))
            });
            green().list_stream(one_a_minute.boxed())
        },
    );
    assert_eq!(rig.next().await, "+green/a");
    rig.namespaces.set(&[]);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(rig.parts.status().is_empty(), "the namespace left 15 minutes ago");
    assert_eq!(rig.next().await, "-green/a");
    assert_eq!(*rig.reported.lock(), ["green"]);
}

/// The final list of a namespace has an object that a worker has popped and not stored yet.
#[tokio::test(start_paused = true)]
async fn final_list_does_not_delete_an_object_that_a_worker_holds() {
    let names = [Arc::from("green")].into();
    let set = Set { names, follows_informer: true, ..Set::default() };
    let rig = Rig::of_set(Namespaces::of(set), |_| green().list(items("green", 5)));
    let mut popped = rig.queue.queue.pop_async().await.unwrap();
    let mut gate = rig.queue.gate_after("green");
    rig.namespaces.set(&[]);
    (&mut gate.reached).await.unwrap();
    popped.apply(|_| ()).unwrap();
    popped.done();
    assert_eq!(rig.next().await, "+green/a");
    drop(gate);
    assert_eq!(rig.next().await, "-green/a", "removed with the namespace");
}

/// In a restore of the API server, the list of one namespace is answered by a server that is not
/// restored yet, and is committed after the list of another namespace has shown the restore.
#[tokio::test(start_paused = true)]
async fn list_in_flight_during_a_restore_does_not_end_the_applied_version() {
    let [expire_blue, expire_green, asked, answer] =
        [(); 4].map(|()| Arc::new(watch::Sender::new(false)));
    let expiring = |on: &watch::Sender<bool>| {
        let mut on = on.subscribe();
        let expired = async move {
            on.wait_for(|on| *on).await.unwrap();
            let status = Status::failure("as the test wants", "Expired").with_code(410).boxed();
            Err::<RawEvent, _>(RequestError::Status { status, retry_after: None })
        };
        once(expired).boxed()
    };
    let (blue, green) = (expire_blue.clone(), expire_green.clone());
    let (is_asked, answers) = (asked.clone(), answer.clone());
    let rig = Rig::of(&["blue", "green"], move |name| {
        let (is_asked, mut answers) = (is_asked.clone(), answers.subscribe());
        let late = once(async move {
            is_asked.send_replace(true);
            answers.wait_for(|now| *now).await.unwrap();
            futures_util::stream::iter(items("blue", 80))
        });
        match name {
            "blue" => listed("blue", 100)
                .watch_stream(expiring(&blue))
                .list_stream(late.flatten().boxed()),
            "green" => listed("green", 90)
                .watch_stream(expiring(&green))
                .list(items("green", 120))
                .list(items("green", 81)),
            _ => Scripted::new(),
        }
    });
    let (queue, consumed) = (rig.queue.queue.clone(), rig.queue.queue.clone());
    tokio::spawn(async move {
        loop {
            consumed.pop_async().await.unwrap().apply(|_| ()).unwrap();
        }
    });
    while queue.resource_version().as_deref() != Some("90") {
        yield_now().await;
    }
    // Blue's list is requested first, because the clock does not advance while a thread waits.
    expire_blue.send_replace(true);
    asked.subscribe().wait_for(|asked| *asked).await.unwrap();
    let mut gate = rig.queue.gate("green");
    expire_green.send_replace(true);
    (&mut gate.reached).await.unwrap();
    answer.send_replace(true);
    while queue.resource_version().as_deref() != Some("80") {
        yield_now().await;
    }
    drop(gate);
    tokio::time::sleep(LONG / 4).await;
    assert_eq!(queue.store().applied_version().as_deref(), Some("80"));
}

/// A lister-watcher that answers watch requests only once `answers` is true.
struct LateWatches {
    script: Scripted,
    answers: watch::Receiver<bool>,
}

impl ListerWatcher for LateWatches {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        ListerWatcher::list(&self.script, request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        let answer = ListerWatcher::watch(&self.script, request);
        let mut answers = self.answers.clone();
        Box::pin(async move {
            answers.wait_for(|now| *now).await.unwrap();
            answer.await
        })
    }
}

/// Returns the events of a streamed list at `version` of the object `a`.
fn streamed(namespace: &str, version: u64) -> [Result<RawEvent, RequestError>; 2] {
    let ends = format!(
        r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
    );
    let event = |kind, object: String| Ok(RawEvent { kind, object: object.into() });
    [event(EventType::Added, raw(namespace, version)), event(EventType::Bookmark, ends)]
}

/// In a restore of the API server, the streamed list of one namespace is answered by a server that
/// is not restored yet, while the commit of another namespace's list shows the restore.
#[tokio::test(start_paused = true)]
async fn streamed_list_that_was_requested_before_a_restore_is_repeated() {
    let [expire_blue, answer_green, answer] = [false, false, true].map(watch::Sender::new);
    let (expires, late, now) =
        (expire_blue.subscribe(), answer_green.subscribe(), answer.subscribe());
    let source = move |name: &str| {
        let mut expires = expires.clone();
        let gone = once(async move {
            expires.wait_for(|now| *now).await.unwrap();
            let status = Status::failure("as the test wants", "Expired").with_code(410).boxed();
            Err::<RawEvent, _>(RequestError::Status { status, retry_after: None })
        });
        let first = futures_util::stream::iter(streamed("blue", 100)).chain(gone);
        let (script, answers) = if name == "blue" {
            (Scripted::new().watch_stream(first.boxed()).watch_on(streamed("blue", 80)), &now)
        } else {
            (
                Scripted::new().watch_on(streamed("green", 120)).watch_on(streamed("green", 81)),
                &late,
            )
        };
        LateWatches { script, answers: answers.clone() }
    };
    let namespaces = Namespaces::new(["blue", "green"]).unwrap();
    let rig = Rig::with(namespaces, source, |reflector| reflector);
    let queue = rig.queue.queue.clone();
    let consumed = queue.clone();
    tokio::spawn(async move {
        loop {
            consumed.pop_async().await.unwrap().apply(|_| ()).unwrap();
        }
    });
    let version = |name: &str| queue.store().get_by_key(name)?.metadata.resource_version.clone();
    while version("blue/a").as_deref() != Some("100") {
        yield_now().await;
    }
    settle().await;
    let mut gate = rig.queue.gate_after("blue");
    expire_blue.send_replace(true);
    (&mut gate.reached).await.unwrap();
    // The queue has the new history, and the informer does not know it yet.
    answer_green.send_replace(true);
    while version("green/a").as_deref() != Some("120") {
        yield_now().await;
    }
    drop(gate);
    tokio::time::sleep(LONG / 4).await;
    assert_eq!(version("green/a").as_deref(), Some("81"));
    assert_eq!(queue.store().applied_version().as_deref(), Some("80"));
}

/// Runs an informer of `count` namespaces for an hour. Their lists are answered in turn by two
/// servers, of which one is at version 100, and the other at version 50. Each watch expires at
/// once. Returns the number of lists.
async fn lists_of_two_histories(count: usize) -> usize {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    let source = move |_: &str| Alternating(counted.clone());
    let names: Vec<_> = (0..count).map(|number| format!("shop-{number}")).collect();
    let rig = Rig::with(Namespaces::new(names).unwrap(), source, |maps| maps.watch_list(false));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    rig.queue.queue.close();
    lists.load(Ordering::Relaxed)
}

/// A lister-watcher for [`lists_of_two_histories`].
struct Alternating(Arc<AtomicUsize>);

impl ListerWatcher for Alternating {
    fn list(&self, _request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        let version = ["100", "50"][self.0.fetch_add(1, Ordering::Relaxed) % 2];
        let page = PageMeta { resource_version: version.to_owned(), ..PageMeta::default() };
        let list = futures_util::stream::iter([Ok(Listed::Meta(page))]).boxed();
        std::future::ready(Ok(list)).boxed()
    }

    fn watch(&self, _request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        let status = Status::failure("as the test wants", "Expired").with_code(410).boxed();
        std::future::ready(Err(RequestError::Status { status, retry_after: None })).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_alternate_between_two_histories_cause_no_storm_of_lists() {
    let (one, many) = (lists_of_two_histories(1).await, lists_of_two_histories(50).await);
    // A restart begins with a fresh backoff of its reflector. So each of the 50 namespaces is
    // listed a few times as often as the only namespace of the other informer.
    assert!(many < 50 * 10 * one, "{many} lists of 50 namespaces, and {one} of one");
}

#[test]
fn removed_namespace_is_known_until_no_thread_works_for_it() {
    // One thread commits, and one is left for the removal.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).max_blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        let rig = Rig::start(&["green"]);
        let mut gate = rig.queue.gate("green");
        (&mut gate.reached).await.unwrap();
        assert!(rig.namespaces.remove("green"));
        settle().await;
        // Blocking tasks start in order. If the removal had been spawned, it would end before this.
        spawn_blocking(|| ()).await.unwrap();
        settle().await;
        assert_eq!(rig.parts.status().len(), 1);
        assert!(!rig.parts.is_idle());
        drop(gate);
        let removed = async {
            while !rig.parts.status().is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(LONG, removed).await.expect("it is removed");
    });
}

#[tokio::test(start_paused = true)]
async fn removed_namespace_does_not_count_as_refused() {
    let mut rig = Rig::of(&["green"], |_| {
        let status = Status::failure("as the test wants", "Forbidden").with_code(403).boxed();
        Scripted::new().list_fails(RequestError::Status { status, retry_after: None })
    });
    let refused = rig.availability.wait_for(|now| *now == Availability::Refused);
    timeout(LONG, refused).await.unwrap().unwrap();
    assert!(rig.namespaces.remove("green"));
    let unknown = rig.availability.wait_for(|now| *now == Availability::Unknown);
    timeout(LONG, unknown).await.expect("no namespace is refused").unwrap();
}

#[tokio::test]
async fn no_namespace_is_polled_without_cooperative_budget() {
    let task = tokio::spawn(async {
        let polls = AtomicUsize::new(0);
        let part = || {
            within_budget(poll_fn(|_| {
                polls.fetch_add(1, Ordering::Relaxed);
                Poll::<()>::Pending
            }))
        };
        let mut running: FuturesUnordered<_> = std::iter::repeat_with(part).take(200).collect();
        poll_fn(|context| {
            while has_budget_remaining() {
                consume_budget().now_or_never();
            }
            assert!(running.poll_next_unpin(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(polls.load(Ordering::Relaxed), 0);

        yield_now().await;
        assert!(running.next().now_or_never().is_none());
        assert_eq!(polls.load(Ordering::Relaxed), 200, "they are polled with a new budget");
    });
    task.await.unwrap();
}

/// A waker that fails the test if a lock is held while it is called.
struct UnlockedWaker(AtomicUsize);

impl Wake for UnlockedWaker {
    fn wake(self: Arc<Self>) {
        assert_eq!(deltafifo::locks::held(), 0, "a waker was called under a lock");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn refused_namespace_wakes_waiters_with_no_lock_held() {
    let availability = watch::Sender::new(Availability::Unknown);
    let mut receiver = availability.subscribe();
    let refused = RefusedNames { names: Mutex::default(), availability };
    let waker = Arc::new(UnlockedWaker(AtomicUsize::new(0)));
    let mut wait = pin!(receiver.wait_for(|now| *now == Availability::Refused));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(context).is_pending());
    let waiter = Waker::from(waker.clone());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waiter)).is_pending());
    refused.insert(&"green".into());
    assert_eq!(waker.0.load(Ordering::Relaxed), 1);
    assert!(wait.as_mut().poll(context).is_ready());
}
