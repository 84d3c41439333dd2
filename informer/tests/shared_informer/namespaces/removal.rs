//! Tests of removed namespaces, and of the causes of deletions.

use std::time::Duration;

use deltafifo_informer::shared_informer::{Cause, HandlerOptions, Notification};
use deltafifo_testkit::{Resource, status};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::rig::{apply, apply_many, blue_and_green, builder, next, of, server, stored, until};
use crate::rig::{QUEUES, run};

#[tokio::test(start_paused = true)]
async fn objects_of_a_removed_namespace_are_deleted_with_a_cause_of_their_own() {
    for choose in QUEUES {
        let server = blue_and_green();
        let namespaces = of(["blue", "green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        let mut initial = [next(&mut changes).await, next(&mut changes).await];
        initial.sort();
        assert_eq!(initial, ["Initial +a", "Initial +b"]);

        assert!(namespaces.remove("green"));
        assert_eq!(next(&mut changes).await, "NamespaceRemoved -b");
        assert_eq!(stored(&informer), ["blue/a=1"]);
        // Its watch has ended, too.
        apply(&server, "green", "b", 2);
        apply(&server, "blue", "c", 1);
        assert_eq!(next(&mut changes).await, "Watch +c");
        until(|| server.watchers() <= 1).await;

        assert!(namespaces.add("green").unwrap());
        assert_eq!(next(&mut changes).await, "Relist +b");
        assert_eq!(informer.namespace_status().len(), 2);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn removal_keeps_its_cause_if_the_namespace_is_added_again_during_the_delivery() {
    for choose in QUEUES {
        let server = server();
        apply_many(&server, "green", 500);
        let namespaces = of(["green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        for _ in 0..500 {
            next(&mut changes).await;
        }
        namespaces.remove("green");
        assert!(next(&mut changes).await.starts_with("NamespaceRemoved -"));
        namespaces.add("green").unwrap();
        // Each object is deleted and added, or is updated if it was listed again before the
        // deletion was delivered.
        let mut listed = 0;
        while listed < 500 {
            let change = next(&mut changes).await;
            if change.contains('-') {
                assert!(change.starts_with("NamespaceRemoved -"), "{change}");
            } else {
                assert!(change.starts_with("Relist "), "{change}");
                listed += 1;
            }
        }
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_in_a_present_namespace_keeps_its_cause() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "blue", "b", 1);
    let informer = builder(&server, &of(["blue"])).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
    next(&mut changes).await;
    next(&mut changes).await;
    server.delete(&Resource::config_maps(), "blue", "a").unwrap();
    assert_eq!(next(&mut changes).await, "Watch -a");
    server.error_watches(status::expired("as the test wants"));
    server.delete(&Resource::config_maps(), "blue", "b").unwrap();
    server.compact();
    assert_eq!(next(&mut changes).await, "Relist -b");
}

#[tokio::test(start_paused = true)]
async fn addition_has_no_cause_of_a_removal() {
    let server = server();
    for number in 0..200 {
        apply(&server, "green", &format!("map-{number}"), 1);
    }
    for choose in QUEUES {
        let namespaces = of(["green"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        let mut changes = informer.subscribe(HandlerOptions::new()).unwrap();
        run(&informer);
        // Removed while the first objects are being delivered.
        let first = changes.next().await.unwrap();
        namespaces.remove("green");
        let mut all = vec![first];
        while let Ok(Some(change)) = timeout(Duration::from_secs(60), changes.next()).await {
            all.push(change);
        }
        for change in &all {
            if let Notification::Added { cause, .. } = change {
                assert_ne!(*cause, Cause::NamespaceRemoved);
            }
        }
        informer.stop().await;
    }
}
