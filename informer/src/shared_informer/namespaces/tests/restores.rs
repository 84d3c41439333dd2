//! Tests of lists that show a restore of the API server, and of lists that are in flight then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{StreamExt, once};
use tokio::sync::watch;
use tokio::task::yield_now;

use super::rig::{LONG, Rig, expired, items, listed, raw, settle};
use crate::lister_watcher::{
    EventType, ListRequest, ListStream, Listed, ListerWatcher, PageMeta, RawEvent, RequestError,
    Scripted, WatchRequest, WatchStream,
};
use crate::shared_informer::namespaces::Namespaces;

/// In a restore of the API server, the list of one namespace is answered by a server that is not
/// restored yet, and is committed after the list of another namespace has shown the restore.
#[tokio::test(start_paused = true)]
async fn list_in_flight_during_a_restore_does_not_end_the_applied_version() {
    let [expire_blue, expire_green, asked, answer] =
        [(); 4].map(|()| Arc::new(watch::Sender::new(false)));
    let expiring = |on: &watch::Sender<bool>| {
        let mut on = on.subscribe();
        let gone = async move {
            on.wait_for(|on| *on).await.unwrap();
            Err::<RawEvent, _>(expired())
        };
        once(gone).boxed()
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
    rig.consume();
    let queue = rig.queue.queue.clone();
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
            Err::<RawEvent, _>(expired())
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
    rig.consume();
    let queue = rig.queue.queue.clone();
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
        std::future::ready(Err(expired())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_alternate_between_two_histories_cause_no_storm_of_lists() {
    let (one, many) = (lists_of_two_histories(1).await, lists_of_two_histories(50).await);
    // A restart begins with a fresh backoff of its reflector. So each of the 50 namespaces is
    // listed a few times as often as the only namespace of the other informer.
    assert!(many < 50 * 10 * one, "{many} lists of 50 namespaces, and {one} of one");
}
