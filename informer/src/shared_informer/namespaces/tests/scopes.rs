//! Tests of namespaces whose scopes the queue refuses to add or to remove for a while, and of the
//! end of a removal.

use std::time::Duration;

use futures_util::stream::{StreamExt, pending};
use kube::core::Status;
use tokio::sync::watch;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

use super::rig::{LONG, Rig, settle};
use crate::lister_watcher::{RequestError, Scripted};
use crate::shared_informer::source::Availability;

#[tokio::test(start_paused = true)]
async fn failed_removal_of_a_namespace_is_reported_and_tried_again() {
    let rig = Rig::start(&["green"]);
    assert_eq!(rig.next().await, "+green/a");
    rig.queue.refuse(2);
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
    rig.queue.refuse(3);
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
    rig.queue.refuse(1);
    assert!(rig.namespaces.remove("green"));
    while rig.queue.refusals() > 0 {
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
    rig.queue.refuse(1);
    rig.namespaces.set(&["green".to_owned()]);
    let again = made.wait_for(|made| made.ends_with(&["green".to_owned()]));
    timeout(LONG, again).await.unwrap().unwrap();
    assert!(!rig.queue.queue.has_synced(), "synced without the list of the namespace");
    assert_eq!(*rig.reported.lock(), ["green"]);
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
        assert_eq!(rig.reflectors.status().len(), 1);
        assert!(!rig.reflectors.is_idle());
        drop(gate);
        let removed = async {
            while !rig.reflectors.status().is_empty() {
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
