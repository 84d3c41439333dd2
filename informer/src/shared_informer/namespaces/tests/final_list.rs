//! Tests of namespaces that leave the set during a commit, and of their final lists.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{StreamExt, once, pending, unfold};
use tokio::sync::watch;
use tokio::time::timeout;

use super::queue::GateKeeper;
use super::rig::{LONG, Rig, green, items, listed, raw, settle};
use crate::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};

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
        let rig = Rig::following(&["blue", "green"], source);
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
    assert_eq!(rig.reflectors.status().len(), 2, "its final list is not answered");
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
    let rig = Rig::following(&["blue", "green"], source);
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
    let rig = Rig::following(&["green"], |_| {
        let one_a_minute = unfold(items("green", 5).into_iter(), |mut items| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let object = || Ok(Listed::Items(vec![raw("green", 5).into()]));
            Some((items.next().unwrap_or_else(object), items))
        });
        green().list_stream(one_a_minute.boxed())
    });
    assert_eq!(rig.next().await, "+green/a");
    rig.namespaces.set(&[]);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(rig.reflectors.status().is_empty(), "the namespace left 15 minutes ago");
    assert_eq!(rig.next().await, "-green/a");
    assert_eq!(*rig.reported.lock(), ["green"]);
}

/// The final list of a namespace has an object that a worker has popped and not stored yet.
#[tokio::test(start_paused = true)]
async fn final_list_does_not_delete_an_object_that_a_worker_holds() {
    let rig = Rig::following(&["green"], |_| green().list(items("green", 5)));
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
