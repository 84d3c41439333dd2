//! Tests of informers of selected shards, over servers that shard, that do not, and that shard
//! lists only.

mod faults;
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, ShardSelectors, Verb, status};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::json;
use tokio::time::timeout;

use super::Selection;
use crate::lister_watcher::KubeListerWatcher;
use crate::sharding::hash::ShardBy;
use crate::shared_informer::{Buffer, BuildError, Cause, HandlerOptions};
use rig::{LONG, PROPERTIES, Rig, SERVERS, all, brief, four, selecting, selector, set, sorted};

#[tokio::test(start_paused = true)]
async fn store_has_the_objects_of_the_selected_shards_and_no_others() {
    for by in PROPERTIES {
        for server in SERVERS {
            let rig = Rig::running(by, server, 60);
            for shards in [&[0][..], &[0, 1], &[1, 2, 3], &[0, 1, 2, 3], &[], &[2, 3], &[0]] {
                rig.select(shards).await;
                rig.assert_contents(shards);
                if shards.is_empty() {
                    continue;
                }
                // Objects of all shards are created, changed, and deleted.
                for number in 60..70 {
                    rig.apply(number);
                }
                for number in 0..10 {
                    rig.apply(number);
                }
                let mut version = 0;
                for number in 60..70 {
                    version = rig.delete(number);
                }
                rig.applied(version).await;
                rig.assert_contents(shards);
            }
            assert_eq!(rig.errors.lock().as_slice(), &[] as &[String], "{by:?}, {server:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn added_shards_are_listed_alone_and_others_are_not_decoded_again() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0]).await;
            assert_eq!(rig.decoded(), rig.in_shards(&[0]).len(), "{by:?}, {server:?}");
            rig.server.wait_for_watchers(1).await;
            rig.forget();

            rig.select(&[0, 1, 3]).await;
            rig.server.wait_for_request(|request| request.verb() == Verb::Watch).await;
            let added = rig.in_shards(&[1, 3]);
            assert_eq!(rig.decoded(), added.len(), "{by:?}, {server:?}");
            assert_eq!(sorted(rig.notified()), all("Relist +", &added));
            let (lists, watches) = rig.requests();
            let expected = |shards| by.selector(set(shards), four());
            let is_served = by != ShardBy::Key && server != ShardSelectors::Ignored;
            let listed = if is_served { added.len() } else { 60 };
            assert_eq!(lists.len(), listed.div_ceil(7).max(1), "pages of a consistent list");
            for list in &lists {
                assert_eq!(selector(list), expected(&[1, 3]).as_deref());
                assert_eq!(list.resource_version(), "", "the newest state");
            }
            assert_eq!(watches.len(), 1);
            assert_eq!(selector(&watches[0]), expected(&[0, 1, 3]).as_deref());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removed_shards_leave_without_a_list_and_are_no_deletions() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0, 1, 2]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();

            rig.select(&[0, 2]).await;
            let removed = rig.in_shards(&[1]);
            assert_eq!(sorted(rig.notified()), all("ShardMoved -", &removed), "{by:?}");
            rig.server.wait_for_request(|request| request.verb() == Verb::Watch).await;
            let (lists, watches) = rig.requests();
            assert_eq!((lists.len(), watches.len(), rig.decoded()), (0, 1, 0), "{by:?}");
            assert_eq!(selector(&watches[0]), by.selector(set(&[0, 2]), four()).as_deref());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_shard_the_informer_syncs_with_nothing_and_lists_one_object_only() {
    let mut rig = Rig::running(ShardBy::Uid, ShardSelectors::Honoured, 20);
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    rig.assert_contents(&[]);
    tokio::time::sleep(LONG).await;
    let (lists, watches) = rig.requests();
    let [list] = &lists[..] else { panic!("{lists:?}") };
    assert_eq!((list.limit(), selector(list)), (Some(1), None));
    assert!(watches.is_empty() && rig.notified().is_empty());

    rig.select(&[0, 1, 2, 3]).await;
    let (lists, watches) = rig.requests();
    assert!(lists.iter().chain(&watches).all(|request| selector(request).is_none()), "all shards");
    assert_eq!(sorted(rig.notified()), all("Relist +", &rig.in_shards(&[0, 1, 2, 3])));

    rig.select(&[]).await;
    rig.server.wait_for_watchers(0).await;
    rig.server.forget_requests();
    tokio::time::sleep(LONG).await;
    assert!(rig.server.requests().is_empty());
    assert!(sorted(rig.notified()).iter().all(|change| change.starts_with("ShardMoved -")));
}

#[tokio::test(start_paused = true)]
async fn shards_that_are_selected_before_the_start_are_the_initial_list() {
    let mut rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 20);
    let selected = rig.selection.replace(set(&[1]));
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    timeout(LONG, selected).await.unwrap();
    assert_eq!(sorted(rig.notified()), all("Initial +", &rig.in_shards(&[1])));
}

/// The watch continues from an older version than that of the list of the added shards.
#[tokio::test(start_paused = true)]
async fn events_from_before_the_list_of_an_added_shard_are_dropped() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();
            let (stays, added) = (rig.in_shards(&[0])[0], rig.in_shards(&[1]));
            // The informer does not run until the next await.
            rig.apply(stays);
            for number in &added {
                rig.apply(*number);
            }
            let (gone, changed) = (added[0], &added[1..]);
            rig.delete(gone);
            rig.apply(changed[0]);
            let selected = rig.selection.replace(set(&[0, 1]));
            timeout(LONG, selected).await.unwrap();
            let version = rig.apply(changed[0]);
            rig.applied(version).await;
            rig.assert_contents(&[0, 1]);

            let mut expected = all("Relist +", changed);
            expected.extend([format!("Watch *m{stays}"), format!("Watch *m{}", changed[0])]);
            assert_eq!(sorted(rig.notified()), expected, "{by:?}, {server:?}");
            assert_eq!(rig.decoded(), changed.len() + 2, "{by:?}, {server:?}");
        }
    }
}

/// By uid, an object that is created again is in another shard. The watch continues from an older
/// version than that of the list with the new object, and still has the events of the old one.
#[tokio::test(start_paused = true)]
async fn events_of_an_older_object_with_the_same_key_do_not_replace_a_listed_one() {
    for server in SERVERS {
        let mut rig = Rig::running(ShardBy::Uid, server, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.notified();
        // The informer does not run until the next await.
        let moves = rig.in_shards(&[0])[0];
        rig.apply(moves);
        while rig.in_shards(&[1]).iter().all(|number| *number != moves) {
            rig.delete(moves);
            rig.apply(moves);
        }
        let selected = rig.selection.replace(set(&[0, 1]));
        timeout(LONG, selected).await.unwrap();
        rig.assert_contents(&[0, 1]);
        let version = rig.apply(rig.in_shards(&[0])[0]);
        rig.applied(version).await;
        rig.assert_contents(&[0, 1]);
        let notified = rig.notified();
        let of_moved = |change: &&String| change.ends_with(&format!("m{moves}"));
        let expected = [format!("Relist -m{moves}"), format!("Relist +m{moves}")];
        assert!(notified.iter().filter(of_moved).eq(&expected), "{server:?}: {notified:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shard_that_leaves_and_comes_back_at_once_is_listed_again() {
    let mut rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    rig.notified();
    let back = rig.in_shards(&[1]);
    drop(rig.selection.replace(set(&[0])));
    rig.delete(back[0]);
    rig.select(&[0, 1]).await;
    rig.assert_contents(&[0, 1]);
    let notified = rig.notified();
    let (left, listed) = notified.split_at(back.len());
    assert_eq!(sorted(left.to_vec()), all("ShardMoved -", &back));
    assert_eq!(sorted(listed.to_vec()), all("Relist +", &back[1..]));
}

#[tokio::test(start_paused = true)]
async fn claim_during_a_list_is_served_by_a_list_that_begins_after_it() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0]).await;
    rig.server.fault(Fault::hang(After::Bytes(10)).on(Verb::List).times(1));
    let first = rig.selection.replace(set(&[0, 1]));
    rig.server.wait_for_request(|request| request.verb() == Verb::List).await;
    let second = rig.selection.replace(set(&[0, 1, 2]));
    timeout(LONG, async { tokio::join!(first, second) }).await.unwrap();
    rig.assert_contents(&[0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn failed_list_is_reported_and_leaves_nothing_of_shards_that_are_removed_before_the_next() {
    for by in PROPERTIES {
        let mut rig = Rig::running(by, ShardSelectors::Honoured, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.notified();
        // The first page is offered.
        rig.server.fault(
            Fault::hang(After::Bytes(10))
                .on(Verb::List)
                .when(|request| request.continue_token().is_some())
                .times(1),
        );
        drop(rig.selection.replace(set(&[0, 1, 2, 3])));
        rig.failed().await;
        rig.select(&[0, 2]).await;
        rig.assert_contents(&[0, 2]);
        assert_eq!(rig.errors.lock().len(), 1, "{by:?}");
        let deleted = rig.notified().into_iter().filter(|change| change.contains('-'));
        assert!(deleted.into_iter().all(|change| change.starts_with("ShardMoved")), "{by:?}");
        let version = rig.apply(0);
        rig.applied(version).await;
        rig.assert_contents(&[0, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_watch_is_followed_by_a_list_of_all_selected_shards() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0, 1]).await;
            rig.select(&[0, 1, 2]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();
            let (gone, changed) = (rig.in_shards(&[1])[0], rig.in_shards(&[2])[0]);
            // The watch cannot deliver these changes.
            rig.server.error_watches(status::expired("too old"));
            rig.delete(gone);
            rig.apply(changed);
            rig.server.compact();
            rig.server.wait_for_watchers(1).await;
            let version = rig.apply(changed);
            rig.applied(version).await;
            rig.assert_contents(&[0, 1, 2]);
            assert!(rig.decoded() <= 3, "unchanged objects are not decoded: {by:?}, {server:?}");
            let notified = sorted(rig.notified());
            assert!(notified.contains(&format!("Relist -m{gone}")), "{notified:?}");
        }
    }
}

/// A worker that is held back leaves objects, and later removals, pending in the queue.
#[tokio::test(start_paused = true)]
async fn removed_shard_leaves_completely_while_a_slow_handler_holds_the_worker_back() {
    let rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 40);
    let options = HandlerOptions::new().buffer(Buffer::HoldBack(1));
    let mut slow = rig.informer.subscribe(options).unwrap();
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    // Its walk over the empty store ends here. The changes that follow hold the worker back.
    assert!(slow.next().now_or_never().is_none());
    drop(rig.selection.replace(set(&[1])));
    rig.server.wait_for_watchers(1).await;
    let mut changed = rig.selection.replace(set(&[0])).boxed();
    let mut notified = Vec::new();
    let (one, zero) = (rig.in_shards(&[1]), rig.in_shards(&[0]));
    let (mut is_changed, expected) = (false, 2 * one.len() + zero.len());
    for _ in 0..10 * expected {
        // Everything else goes as far as it can before the next notification is taken.
        tokio::time::sleep(Duration::from_secs(1)).await;
        is_changed = is_changed || (&mut changed).now_or_never().is_some();
        if let Some(Some(next)) = slow.next().now_or_never() {
            notified.push(brief(&next));
        }
    }
    assert_eq!((is_changed, notified.len()), (true, expected));
    rig.assert_contents(&[0]);
    let (added, rest) = notified.split_at(one.len());
    let (left, listed) = rest.split_at(one.len());
    assert_eq!(sorted(added.to_vec()), all("Relist +", &one));
    assert_eq!(sorted(left.to_vec()), all("ShardMoved -", &one));
    assert_eq!(sorted(listed.to_vec()), all("Relist +", &zero));
}

#[tokio::test(start_paused = true)]
async fn list_after_that_of_an_added_shard_is_not_older_than_it() {
    for by in PROPERTIES {
        let rig = Rig::running(by, ShardSelectors::Honoured, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        let version = rig.apply(rig.in_shards(&[1])[0]);
        rig.server.fault(Fault::status(status::expired("too old")).on(Verb::Watch).times(1));
        let selected = rig.selection.replace(set(&[0, 1]));
        timeout(LONG, selected).await.unwrap();
        let is_streamed = |request: &Request| request.sends_initial_events();
        let list = timeout(LONG, rig.server.wait_for_request(is_streamed)).await.unwrap();
        assert!(list.resource_version().parse::<u64>().unwrap() >= version, "{by:?}");
        let version = rig.apply(rig.in_shards(&[1])[0]);
        rig.applied(version).await;
        rig.assert_contents(&[0, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn selection_is_complete_only_when_the_listed_objects_are_handled() {
    let rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 40);
    let options = HandlerOptions::new().buffer(Buffer::HoldBack(1));
    let mut slow = rig.informer.subscribe(options).unwrap();
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    // Its walk over the empty store ends here. The changes that follow hold the worker back.
    assert!(slow.next().now_or_never().is_none());
    let mut selected = rig.selection.replace(set(&[1])).boxed();
    rig.server.wait_for_watchers(1).await;
    tokio::time::sleep(LONG).await;
    assert!((&mut selected).now_or_never().is_none());
    let reading = async { while slow.next().await.is_some() {} };
    tokio::select! {
        () = reading => panic!("the informer runs"),
        () = selected => {}
    }
    rig.assert_contents(&[1]);
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_after_a_failed_list_does_not_stay() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 60);
    rig.select(&[0]).await;
    // The first pages are offered.
    let pages = AtomicUsize::new(0);
    let is_late = move |request: &Request| {
        request.continue_token().is_some() && pages.fetch_add(1, Ordering::Relaxed) >= 4
    };
    rig.server.fault(Fault::hang(After::Bytes(10)).on(Verb::List).when(is_late).times(1));
    let selected = rig.selection.replace(set(&[0, 1]));
    rig.failed().await;
    assert!(rig.decoded() > rig.in_shards(&[0]).len());
    for number in rig.in_shards(&[1]) {
        rig.delete(number);
    }
    timeout(LONG, selected).await.unwrap();
    rig.assert_contents(&[0, 1]);
}

#[tokio::test(start_paused = true)]
async fn list_that_is_interrupted_by_a_change_begins_again() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 60);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    let is_streamed = |request: &Request| request.sends_initial_events();
    rig.server.fault(Fault::hang(After::Bytes(3_000)).when(is_streamed).times(1));
    rig.server.forget_requests();
    rig.server.error_watches(status::expired("too old"));
    timeout(LONG, rig.server.wait_for_request(is_streamed)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.server.forget_requests();
    rig.select(&[0]).await;
    let next = timeout(LONG, rig.server.wait_for_request(|_| true)).await.unwrap();
    assert_eq!(next.verb(), Verb::List, "the store has a part of a list");
    rig.server.wait_for_watchers(1).await;
    let version = rig.apply(0);
    rig.applied(version).await;
    rig.assert_contents(&[0]);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_cannot_be_sharded_by_namespace() {
    let server = ApiServer::builder().resource(Resource::nodes()).build();
    server
        .apply(json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n" } }))
        .unwrap();
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&errors);
    let selection = Selection::new(ShardBy::Namespace, four());
    let nodes = KubeListerWatcher::new::<Node>(server.client(), &(), None);
    let informer = selecting::<Node>(&selection, nodes)
        .on_error(move |error| log.lock().push(error.to_string()))
        .build()
        .unwrap();
    drop(selection.replace(set(&[0, 1, 2, 3])));
    tokio::select! {
        _ended = informer.run() => panic!("the informer runs"),
        () = async { while errors.lock().is_empty() { tokio::task::yield_now().await } } => {}
    }
    assert!(errors.lock()[0].contains("ShardBy::Key"));
    assert!(informer.store().is_empty());
}

#[test]
fn in_order_queue_is_refused() {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let selection = Selection::new(ShardBy::Key, four());
    let informer = selecting::<ConfigMap>(&selection, maps).in_order().build();
    assert!(matches!(informer, Err(BuildError::InOrder)));
    assert_ne!(Cause::ShardMoved, Cause::NamespaceRemoved);
}

#[cfg(feature = "runtime")]
#[tokio::test(start_paused = true)]
async fn controller_that_is_not_sharded_refuses_an_informer_of_shards() {
    use crate::runtime::controller::{Action, Error, RunnerError};
    use crate::runtime::{Controller, watcher};

    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 4);
    let config = watcher::Config::default;
    let all = kube::Api::<ConfigMap>::all(rig.server.client());
    let controllers = [
        Controller::from_informer(&rig.informer),
        Controller::new(all, config()).owns_informer::<ConfigMap>(&rig.informer),
    ];
    for controller in controllers {
        let run = controller.run(
            |_, _| std::future::ready(Ok::<_, std::io::Error>(Action::await_change())),
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let error = Box::pin(run).next().await.unwrap().unwrap_err();
        let is_expected = matches!(error, Error::RunnerError(RunnerError::NotSharded { .. }));
        assert!(is_expected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_pages_and_an_expired_watch_do_not_spoil_the_list_of_an_added_shard() {
    for by in PROPERTIES {
        let mut rig = Rig::running(by, ShardSelectors::Ignored, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.notified();
        let is_late = |request: &Request| request.continue_token().is_some();
        let expired = || Fault::status(status::expired("too old")).times(1);
        rig.server.fault(expired().on(Verb::List).when(is_late));
        rig.server.fault(expired().on(Verb::Watch));
        let (gone, changed) = (rig.in_shards(&[0])[0], rig.in_shards(&[1])[0]);
        let selected = rig.selection.replace(set(&[0, 1]));
        timeout(LONG, rig.server.wait_for_request(is_late)).await.unwrap();
        rig.delete(gone);
        rig.apply(changed);
        timeout(LONG, selected).await.unwrap();
        rig.server.wait_for_watchers(1).await;
        let version = rig.apply(changed);
        rig.applied(version).await;
        rig.assert_contents(&[0, 1]);
        let notified = rig.notified();
        let is_deletion =
            |change: &&String| change.contains('-') && !change.starts_with("ShardMoved");
        let deleted: Vec<_> = notified.iter().filter(is_deletion).collect();
        let is_gone = deleted.len() == 1 && deleted[0].ends_with(&format!(" -m{gone}"));
        assert!(is_gone, "{by:?}: {notified:?}");
    }
}
