//! Tests of events of kube watchers that are fed into queues.

#![allow(clippy::unnecessary_wraps)] // A watcher yields results.

use std::sync::Arc;

use deltafifo::{
    Change, Closed, DeltaFifo, DeltaFifoBuilder, InOrderFifo, IndexReader, Indexer, IndexerBuilder,
    KeyFunc,
};
use deltafifo_informer::reflector::Target;
use deltafifo_informer::runtime::reflector::feed;
use deltafifo_informer::{KubeMeta, ReflectorError, error_chain};
use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Error, Event};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::rig::{name, typed, value};

type Queue = DeltaFifo<ConfigMap, KubeMeta>;
type WatcherResult = Result<Event<ConfigMap>, Error>;

fn store() -> IndexerBuilder<ConfigMap, KubeMeta> {
    Indexer::builder(KeyFunc::meta_namespace(KubeMeta))
}

fn queue() -> Arc<Queue> {
    with(|queue| queue)
}

/// Creates a queue with the options that `choose` sets.
fn with(
    choose: impl FnOnce(DeltaFifoBuilder<ConfigMap, KubeMeta>) -> DeltaFifoBuilder<ConfigMap, KubeMeta>,
) -> Arc<Queue> {
    Arc::new(choose(DeltaFifo::over(store().build().unwrap()).track_applied(true)).build())
}

fn init() -> WatcherResult {
    Ok(Event::Init)
}

fn listed(name: &str, version: u32) -> WatcherResult {
    Ok(Event::InitApply(typed(name, version)))
}

fn done() -> WatcherResult {
    Ok(Event::InitDone)
}

fn applied(name: &str, version: u32) -> WatcherResult {
    Ok(Event::Apply(typed(name, version)))
}

fn deleted(name: &str, version: u32) -> WatcherResult {
    Ok(Event::Delete(typed(name, version)))
}

fn failed() -> WatcherResult {
    Err(Error::NoResourceVersion)
}

/// Feeds the events until the stream ends. Each event is fed after the previous one was processed.
/// Returns the reported errors.
async fn feed_all(
    target: &Arc<impl Target<ConfigMap>>,
    received: impl IntoIterator<Item = WatcherResult>,
) -> Vec<String> {
    let received: Vec<_> = received.into_iter().collect();
    let one_by_one = stream::iter(received).then(|event| async {
        yield_now().await;
        event
    });
    let (note, mut errors) = mpsc::unbounded_channel();
    let on_error = move |error: &ReflectorError| drop(note.send(error_chain(error)));
    assert_eq!(feed(one_by_one, target.clone(), on_error).await, Ok(()));
    std::iter::from_fn(|| errors.try_recv().ok()).collect()
}

/// Handles all pending items. Returns the sorted changes: `+a=1`, `a=1>2`, `-a=2`, or `!a=2` for a
/// tombstone.
fn handle(queue: &Queue) -> Vec<String> {
    let mut changes = Vec::new();
    while let Some(mut item) = queue.try_pop() {
        item.apply(|change| changes.push(shown(&change))).unwrap();
    }
    changes.sort();
    changes
}

fn shown(change: &Change<'_, ConfigMap>) -> String {
    match change {
        Change::Added { new, .. } => format!("+{}={}", name(new), value(new)),
        Change::Updated { old, new, .. } => format!("{}={}>{}", name(new), value(old), value(new)),
        Change::Deleted { last, old } => {
            let sign = if last.is_tombstone() { '!' } else { '-' };
            let last = last.object().or(*old).expect("the object was known");
            format!("{sign}{}={}", name(last), value(last))
        }
    }
}

fn stored(store: &IndexReader<ConfigMap, KubeMeta>) -> Vec<String> {
    let mut names: Vec<_> = store.list().iter().map(|map| name(map)).collect();
    names.sort();
    names
}

/// Creates a queue that has handled maps a and b.
async fn with_a_and_b() -> Arc<Queue> {
    let queue = queue();
    assert!(feed_all(&queue, [init(), listed("a", 1), listed("b", 2), done()]).await.is_empty());
    assert_eq!(handle(&queue), ["+a=1", "+b=2"]);
    queue
}

#[tokio::test(start_paused = true)]
async fn list_adds_listed_objects_and_deletes_the_others() {
    let queue = with_a_and_b().await;
    assert!(feed_all(&queue, [init(), listed("b", 3), listed("c", 4), done()]).await.is_empty());
    assert_eq!(handle(&queue), ["!a=1", "+c=4", "b=2>3"]);
}

#[tokio::test(start_paused = true)]
async fn long_list_is_queued_in_pages() {
    let queue = queue();
    let all = (0..1_203).map(|number| listed(&number.to_string(), number + 1));
    let received = stream::iter([init()].into_iter().chain(all)).chain(stream::pending());
    let mut feeding = Box::pin(feed(received, queue.clone(), |_| ()));
    let mut pages = Vec::new();
    while pages.iter().sum::<usize>() < 1_203 {
        assert_eq!(feeding.as_mut().now_or_never(), None);
        pages.push(handle(&queue).len());
        // A task may process only a limited number of events in a row.
        yield_now().await;
    }
    assert!(pages.iter().all(|page| *page % 500 == 0 || *page == 203), "{pages:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_and_deletions_are_queued_as_such() {
    let queue = with_a_and_b().await;
    let received = [applied("a", 3), deleted("b", 4), applied("c", 5), deleted("never known", 6)];
    assert!(feed_all(&queue, received).await.is_empty());
    assert_eq!(handle(&queue), ["+c=5", "-b=4", "a=1>3"]);
}

#[tokio::test(start_paused = true)]
async fn incomplete_list_deletes_nothing() {
    let queue = with_a_and_b().await;
    for (broken, there) in [
        (vec![init()], &["a", "b"][..]),
        (vec![init(), listed("c", 3), failed()], &["a", "b", "c"]),
    ] {
        feed_all(&queue, broken).await;
        handle(&queue);
        assert_eq!(stored(&queue.store()), there);
    }
    feed_all(&queue, [init(), listed("a", 1), init(), listed("b", 2), done()]).await;
    handle(&queue);
    assert_eq!(stored(&queue.store()), ["b"], "objects of the first list do not count");
}

#[tokio::test(start_paused = true)]
async fn stream_that_ends_within_a_list_queues_the_listed_objects() {
    let queue = with_a_and_b().await;
    let at_once = stream::iter([init(), listed("c", 3), applied("d", 4)]);
    assert_eq!(feed(at_once, queue.clone(), |_| ()).await, Ok(()));
    assert_eq!(handle(&queue), ["+c=3", "+d=4"]);
}

#[tokio::test(start_paused = true)]
async fn queue_is_synced_once_a_complete_list_is_handled() {
    let queue = queue();
    for broken in
        [vec![], vec![init()], vec![init(), listed("a", 1)], vec![init(), listed("a", 1), failed()]]
    {
        feed_all(&queue, broken).await;
        handle(&queue);
        assert!(!queue.has_synced());
    }
    feed_all(&queue, [init(), listed("a", 2), done()]).await;
    assert!(!queue.has_synced());
    handle(&queue);
    assert!(queue.has_synced());
}

#[tokio::test(start_paused = true)]
async fn errors_are_reported_and_end_neither_list_nor_stream() {
    let queue = with_a_and_b().await;
    let received = [
        failed(),
        init(),
        listed("a", 1),
        failed(),
        listed("b", 2),
        done(),
        failed(),
        applied("c", 3),
    ];
    let errors = feed_all(&queue, received).await;
    assert_eq!(errors.len(), 3);
    assert!(errors[0].contains("no metadata.resourceVersion"), "{errors:?}");
    handle(&queue);
    assert_eq!(stored(&queue.store()), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn list_without_a_beginning_is_ignored_and_reported() {
    let queue = with_a_and_b().await;
    let errors = feed_all(&queue, [listed("c", 3), done()]).await;
    assert!(
        errors.len() == 1 && errors[0].contains("pass the stream from its first event"),
        "{errors:?}"
    );
    assert!(handle(&queue).is_empty());
}

#[tokio::test(start_paused = true)]
async fn list_that_began_last_wins_over_another_stream() {
    let queue = with_a_and_b().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let (note, mut errors) = mpsc::unbounded_channel();
    let first = stream::poll_fn(move |context| received.poll_recv(context));
    let feeding = feed(first, queue.clone(), move |error| drop(note.send(error_chain(error))));
    let mut feeding = Box::pin(feeding);
    sender.send(init()).unwrap();
    assert_eq!(feeding.as_mut().now_or_never(), None);
    feed_all(&queue, [init(), listed("b", 3), done()]).await;
    for late in [listed("a", 1), listed("c", 9), done(), applied("d", 10)] {
        sender.send(late).unwrap();
    }
    drop(sender);
    feeding.await.unwrap();
    assert!(errors.recv().await.unwrap().contains("superseded by a newer one"));
    assert!(errors.recv().await.unwrap().contains("abandoned after an error"));
    assert_eq!(handle(&queue), ["!a=1", "+d=10", "b=2>3"]);
}

#[tokio::test(start_paused = true)]
async fn stream_is_not_polled_while_the_queue_is_full() {
    let queue = with(|queue| queue.high_water(2));
    let taken = Arc::new(Mutex::new(0));
    let count = taken.clone();
    let received = stream::iter((1..=5).map(|number| applied("a", number)))
        .inspect(move |_| *count.lock() += 1);
    let mut feeding = Box::pin(feed(received, queue.clone(), |_| ()));
    for most in [2, 4, 5] {
        assert_eq!(feeding.as_mut().now_or_never().is_some(), most == 5);
        assert_eq!(*taken.lock(), most);
        handle(&queue);
    }
}

#[tokio::test(start_paused = true)]
async fn listed_objects_are_queued_without_waiting_for_later_ones() {
    let queue = queue();
    let received = stream::iter([init(), listed("a", 1)]).chain(stream::pending());
    assert_eq!(feed(received, queue.clone(), |_| ()).now_or_never(), None);
    assert_eq!(handle(&queue), ["+a=1"]);
}

#[tokio::test(start_paused = true)]
async fn feed_ends_when_the_queue_is_closed() {
    let queue = queue();
    let feeding = tokio::spawn(feed(stream::pending::<WatcherResult>(), queue.clone(), |_| ()));
    queue.close();
    assert_eq!(feeding.await.unwrap(), Err(Closed));
}

#[tokio::test(start_paused = true)]
async fn version_is_applied_once_everything_before_it_is_handled() {
    let queue = queue();
    feed_all(&queue, [init(), listed("a", 9), listed("b", 10), done()]).await;
    assert_eq!(queue.store().applied_version(), None);
    handle(&queue);
    assert_eq!(
        queue.store().applied_version().as_deref(),
        Some("10"),
        "of the newest object of the list"
    );
    feed_all(&queue, [applied("a", 11), deleted("b", 12)]).await;
    handle(&queue);
    assert_eq!(queue.store().applied_version().as_deref(), Some("12"));
}

#[tokio::test(start_paused = true)]
async fn relist_whose_newest_object_was_deleted_does_not_lower_the_version() {
    let queue = queue();
    feed_all(
        &queue,
        [init(), listed("a", 9), done(), applied("b", 12), init(), listed("a", 9), done()],
    )
    .await;
    handle(&queue);
    assert_eq!(
        queue.store().applied_version().as_deref(),
        Some("12"),
        "b was deleted without a watch"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_object_is_reported_and_its_deletion_counts() {
    let queue = with(|queue| {
        queue.transformer(|map| {
            if value(&map).contains('7') { Err("not this one".into()) } else { Ok(map) }
        })
    });
    feed_all(&queue, [init(), listed("a", 1), listed("b", 2), done()]).await;
    handle(&queue);
    let refused =
        [init(), listed("a", 7), listed("b", 3), done(), applied("b", 70), deleted("a", 71)];
    let errors = feed_all(&queue, refused).await;
    assert!(
        errors.len() == 3 && errors.iter().all(|error| error.contains("not this one")),
        "{errors:?}"
    );
    assert_eq!(handle(&queue), ["!a=1", "b=2>3"]);
}

#[tokio::test(start_paused = true)]
async fn list_is_abandoned_if_a_user_function_panics() {
    let keys = KeyFunc::custom(KubeMeta, |map: &ConfigMap| {
        assert_ne!(name(map), "bad", "a bug");
        Ok(name(map))
    });
    let queue = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    feed_all(&queue, [init(), listed("a", 1), done()]).await;
    handle(&queue);
    let errors = feed_all(
        &queue,
        [init(), listed("bad", 2), listed("b", 3), done(), applied("bad", 4), applied("c", 5)],
    )
    .await;
    assert!(
        errors.len() == 3 && errors[0].contains("a bug") && errors[2].contains("a bug"),
        "{errors:?}"
    );
    handle(&queue);
    assert_eq!(stored(&queue.store()), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn changes_and_deletions_within_a_list_belong_to_it() {
    let received =
        || [init(), listed("a", 1), applied("b", 3), listed("c", 4), deleted("a", 5), done()];
    let queue = queue();
    feed_all(&queue, received()).await;
    handle(&queue);
    assert_eq!(stored(&queue.store()), ["b", "c"]);

    // The in-order queue collects a list before it applies it: the list would undo the change, and
    // the deletion would have no effect.
    let in_order = Arc::new(InOrderFifo::over(store().build().unwrap()).build());
    feed_all(&in_order, received()).await;
    while let Some(mut turn) = in_order.try_pop() {
        turn.apply(|_, _| ()).unwrap();
    }
    assert_eq!(stored(&in_order.store()), ["b", "c"]);
}
