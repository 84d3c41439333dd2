//! Tests of the final list of a namespace that leaves the set: only an object that it does not have
//! counts as deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_informer::error_chain;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Notification};
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::rig::{
    FAULTS, Shop, apply, apply_many, forbidden, in_green, namespace, next, server, shown, stored,
    until, wait_for_stored,
};
use super::unwatched::Unwatched;
use crate::rig::{Builder, QUEUES, idle};

#[tokio::test(start_paused = true)]
async fn objects_of_a_deleted_namespace_are_deleted_by_a_final_list() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(5).await;
        green.end_deletion();
        green.server.clear_faults();
        green.assert_listed_deletions(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn living_objects_of_a_namespace_without_its_label_do_not_count_as_deleted() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.remove_label();
        green.server.clear_faults();
        green.assert_listed_deletions(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn living_objects_of_a_terminating_namespace_without_its_label_do_not_count_as_deleted() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(2).await;
        green.remove_label();
        green.server.clear_faults();
        green.assert_listed_deletions(2).await;
    }
}

/// Makes a change in a namespace that has just lost its label. The final list of the namespace
/// shows the change. Returns the notifications from then on until the objects of the namespace are
/// removed, in order of the objects' names.
async fn notifications_of_the_last_list(
    choose: fn(Builder) -> Builder,
    change: fn(&ApiServer),
) -> Vec<String> {
    let green = Unwatched::start(choose).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let handler = move |change: Notification<ConfigMap>| record.lock().push(shown(&change));
    let _handle = green.maps.add_event_handler(handler).unwrap();
    until(|| seen.lock().len() == 5).await;
    green.remove_label();
    change(&green.server);
    green.server.clear_faults();
    let is_removed = || green.maps.namespace_status().is_empty() && stored(&green.maps).is_empty();
    until(|| is_removed() && seen.lock().len() >= 10).await;
    idle().await;
    drop(green.changes);
    green.factory.shutdown().await;
    let mut changes = seen.lock().split_off(5);
    changes.sort_by_key(|change| change.trim_start_matches(char::is_alphabetic).to_owned());
    changes
}

const ALL_REMOVED: [&str; 5] = [
    "NamespaceRemoved -m0",
    "NamespaceRemoved -m1",
    "NamespaceRemoved -m2",
    "NamespaceRemoved -m3",
    "NamespaceRemoved -m4",
];

#[tokio::test(start_paused = true)]
async fn last_list_delivers_no_new_object() {
    for choose in QUEUES {
        let create = |server: &ApiServer| apply(server, "green", "new", 1);
        let changes = notifications_of_the_last_list(choose, create).await;
        assert_eq!(changes, ALL_REMOVED);
    }
}

#[tokio::test(start_paused = true)]
async fn last_list_delivers_no_change_of_an_object() {
    for choose in QUEUES {
        let update = |server: &ApiServer| apply(server, "green", "m0", 99);
        let changes = notifications_of_the_last_list(choose, update).await;
        assert_eq!(changes, ALL_REMOVED);
    }
}

#[tokio::test(start_paused = true)]
async fn last_list_delivers_only_the_deletion_of_an_object_that_was_created_again() {
    for choose in QUEUES {
        let create_again = |server: &ApiServer| {
            server.delete(&Resource::config_maps(), "green", "m0").unwrap();
            apply(server, "green", "m0", 1);
        };
        let changes = notifications_of_the_last_list(choose, create_again).await;
        let mut expected = ALL_REMOVED;
        expected[0] = "Relist -m0";
        assert_eq!(changes, expected);
    }
}

/// Another namespace has changes in the queue, because a handler holds the informer back.
#[tokio::test(start_paused = true)]
async fn last_list_delivers_new_objects_only_from_an_in_order_queue_with_a_backlog() {
    for (choose, of_last_list) in [(QUEUES[0], None), (QUEUES[1], Some("Relist +new"))] {
        let green = Unwatched::start(choose).await;
        let slow = HandlerOptions::new().buffer(Buffer::HoldBack(1));
        let mut slow = green.maps.subscribe(slow).unwrap();
        for _ in 0..5 {
            assert!(next(&mut slow).await.starts_with("Initial +"));
        }
        namespace(&green.server, "blue", "shop");
        apply(&green.server, "blue", "first", 1);
        idle().await;
        apply(&green.server, "blue", "second", 1);
        idle().await;
        apply(&green.server, "green", "new", 1);
        green.remove_label();
        green.server.clear_faults();
        until(|| green.maps.namespace_status().iter().all(|part| part.namespace == "blue")).await;

        let expected = ["Relist +first", "Watch +second"];
        let expected: Vec<_> = expected.into_iter().chain(of_last_list).collect();
        let mut changes = Vec::new();
        for _ in 0..expected.len() {
            changes.push(next(&mut slow).await);
        }
        assert_eq!(changes, expected);
        let removed = if of_last_list.is_some() { 6 } else { 5 };
        for _ in 0..removed {
            assert!(next(&mut slow).await.starts_with("NamespaceRemoved -"));
        }
        drop((slow, green.changes));
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn final_list_that_is_not_answered_does_not_close_the_watch_status() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        namespace(&green.server, "blue", "shop");
        apply(&green.server, "blue", "a", 1);
        green.server.clear_faults();
        green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
        green.remove_label();
        let began = Instant::now();
        until(|| green.maps.watch_status().is_open).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert!(green.maps.namespace_status().iter().any(|status| status.namespace == "green"));
        drop(green.changes);
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_a_final_list_says_that_it_is_not_retried() {
    let server = server();
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 1);
    let errors = Arc::new(Mutex::new(Vec::new()));
    let reported = errors.clone();
    let with_errors =
        |maps: Builder| maps.on_error(move |error| reported.lock().push(error_chain(error)));
    let Shop { factory, maps, .. } = Shop::new(&server, with_errors);
    factory.start();
    maps.wait_for_sync().await.unwrap();
    server.fault(forbidden().when(in_green).times(usize::MAX));
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    wait_for_stored(&maps, &[]).await;
    let errors = std::mem::take(&mut *errors.lock());
    let last = errors.last().expect("the list failed");
    assert!(last.contains("is not retried") && last.contains("403"), "{last}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_object_counts_as_deleted_if_the_final_list_fails() {
    for (_, fault) in FAULTS {
        for choose in QUEUES {
            let green = Unwatched::start(choose).await;
            green.begin_deletion(5).await;
            green.end_deletion();
            green.server.clear_faults();
            green.server.fault(fault().when(in_green).times(usize::MAX));
            green.assert_listed_deletions(0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn final_list_is_tried_again_after_a_failure() {
    for choose in QUEUES {
        let green = Unwatched::start(choose).await;
        green.begin_deletion(5).await;
        green.end_deletion();
        green.server.clear_faults();
        green.server.fault(Fault::status(status::internal_error("once")).when(in_green));
        green.assert_listed_deletions(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_during_its_final_list_is_not_waited_for() {
    for choose in QUEUES {
        let mut green = Unwatched::start(choose).await;
        green.server.clear_faults();
        let hangs = |request: &Request| in_green(request) && request.verb() == Verb::List;
        green.server.fault(Fault::silence().when(hangs).times(1));
        green.remove_label();
        let lists = || green.server.requests().iter().filter(|request| hangs(request)).count();
        let before = lists();
        until(|| lists() != before).await;
        let began = Instant::now();
        green.server.delete(&Resource::config_maps(), "green", "m0").unwrap();
        namespace(&green.server, "green", "shop");
        assert!(next(&mut green.changes).await.ends_with(" -m0"));
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(stored(&green.maps).len(), 4);
        green.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_deleted_objects_count_as_deleted_if_a_namespace_is_created_again_at_once() {
    for choose in QUEUES {
        let mut green = Unwatched::start(choose).await;
        green.begin_deletion(1).await;
        green.end_deletion();
        namespace(&green.server, "green", "shop");
        apply(&green.server, "green", "new", 1);
        green.server.clear_faults();
        let mut living: BTreeSet<String> = (0..5).map(|n| format!("m{n}")).collect();
        let expected: BTreeSet<String> = ["m1", "m2", "m3", "m4", "new"].map(Into::into).into();
        while living != expected {
            let change = next(&mut green.changes).await;
            if let Some((_, name)) = change.split_once('-') {
                assert!(name == "m0" || change.starts_with("NamespaceRemoved"), "{change}");
                living.remove(name);
            } else if let Some((_, name)) = change.split_once('+') {
                living.insert(name.to_owned());
            }
        }
        drop(green.changes);
        green.factory.shutdown().await;
    }
}
