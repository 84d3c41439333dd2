//! Tests of informers of selected shards over servers that refuse requests.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, ShardSelectors, Verb, status};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use metrics::set_default_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::json;
use tokio::time::timeout;
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::rig::{LONG, PROPERTIES, Rig, SERVERS, four, selecting, selector, set};
use crate::lister_watcher::KubeListerWatcher;
use crate::sharding::hash::ShardBy;
use crate::sharding::source::Selection;
use crate::sharding::tests::messages::Messages;

/// While the lists fail, the watch serves the shards that the store has.
#[tokio::test(start_paused = true)]
async fn changes_of_kept_shards_arrive_while_lists_of_added_shards_fail() {
    for by in PROPERTIES {
        let mut rig = Rig::running(by, ShardSelectors::Honoured, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.forget();
        // The first attempt has offered a page.
        let is_late = |request: &Request| request.continue_token().is_some();
        let refused = || Fault::status(status::too_many_requests(120)).on(Verb::List);
        rig.server.fault(refused().when(is_late));
        let kept = rig.in_shards(&[0]);
        let selected = rig.selection.replace(set(&[0, 1, 2, 3]));
        rig.failed().await;
        rig.server.fault(refused().times(1));
        for number in &kept[1..] {
            let version = rig.apply(*number);
            timeout(Duration::from_secs(10), rig.applied(version)).await.expect("it is watched");
            rig.assert_contents(&[0]);
        }
        let gone = rig.delete(kept[0]);
        rig.applied(gone).await;
        rig.assert_contents(&[0]);
        let changes = rig.notified();
        let deleted = changes.iter().filter(|change| change.starts_with("Watch -"));
        assert!(deleted.eq([&format!("Watch -m{}", kept[0])]), "{by:?}: {changes:?}");

        timeout(LONG, selected).await.unwrap();
        rig.assert_contents(&[0, 1, 2, 3]);
        let (lists, _) = rig.requests();
        let expected = by.selector(set(&[1, 2, 3]), four());
        assert!(lists.iter().all(|list| selector(list) == expected.as_deref()), "{by:?}");
        assert_eq!(rig.errors.lock().len(), 2, "{by:?}: it waits as long as the server asks for");
    }
}

/// Pages that expire once may do so each time.
#[tokio::test(start_paused = true)]
async fn list_of_added_shards_whose_token_expires_is_repeated_in_one_page() {
    for (by, server) in PROPERTIES.into_iter().flat_map(|by| SERVERS.map(|server| (by, server))) {
        let mut rig = Rig::running(by, server, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.forget();
        let is_late = |request: &Request| request.continue_token().is_some();
        let expired = Fault::status(status::expired("the continue token is too old"));
        rig.server.fault(expired.when(is_late).times(usize::MAX));
        let selected = rig.selection.replace(set(&[0, 1, 2, 3]));
        rig.failed().await;
        // Another failure does not bring the pages back.
        rig.server.fault(Fault::refused().on(Verb::List));
        let version = rig.apply(rig.in_shards(&[0])[0]);
        rig.applied(version).await;
        rig.assert_contents(&[0]);

        timeout(LONG, selected).await.expect("the shards are listed");
        rig.assert_contents(&[0, 1, 2, 3]);
        let (lists, _) = rig.requests();
        let limits: Vec<_> = lists.iter().map(Request::limit).collect();
        assert_eq!(limits, [Some(7), Some(7), None, None], "{by:?}, {server:?}");
        let errors = rig.errors.lock().len();
        assert_eq!(errors, 2, "{by:?}, {server:?}");

        // Later lists are pages.
        rig.server.clear_faults();
        rig.select(&[1, 2, 3]).await;
        rig.select(&[0, 1, 2, 3]).await;
        let (lists, _) = rig.requests();
        assert!(lists.iter().all(|list| list.limit() == Some(7)), "{by:?}, {server:?}");
        rig.assert_contents(&[0, 1, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn selection_that_does_not_change_keeps_the_watch() {
    let mut rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 20);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    rig.forget();
    rig.select(&[0, 1]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.server.requests().len(), 0);
}

/// The watch could only expire again.
#[tokio::test(start_paused = true)]
async fn change_after_an_expired_watch_is_followed_by_a_list_of_all_selected_shards() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    rig.server.forget_requests();
    rig.server.fault(Fault::silence().when(Request::sends_initial_events).times(1));
    rig.server.error_watches(status::expired("too old"));
    rig.apply(rig.in_shards(&[0])[0]);
    rig.server.compact();
    let is_list = |request: &Request| request.sends_initial_events();
    timeout(LONG, rig.server.wait_for_request(is_list)).await.unwrap();
    rig.select(&[0]).await;
    rig.assert_contents(&[0]);
    assert_eq!(rig.errors.lock().len(), 1, "no other watch expires");
}

/// Returns the number of refused selectors that the metrics of the group count.
fn refused_selectors(recorder: &DebuggingRecorder) -> usize {
    let all = recorder.snapshotter().snapshot().into_vec();
    let name = "shard_group_refused_selectors_total";
    let refused = all.into_iter().find(|(key, ..)| key.key().name() == name);
    match refused.expect("the group records it").3 {
        DebugValue::Counter(count) => usize::try_from(count).unwrap(),
        value => panic!("{value:?} is no counter"),
    }
}

fn has_selector(request: &Request) -> bool {
    selector(request).is_some()
}

/// The selector is an optimization.
#[tokio::test(start_paused = true)]
async fn server_that_refuses_selectors_is_asked_for_all_objects() {
    let bad_request = Status::failure("shardSelector: not supported", "BadRequest").with_code(400);
    let invalid = Status::failure("shardSelector: invalid", "Invalid").with_code(422);
    // Proxies limit the length of URLs.
    let [long, headers] =
        [414, 431].map(|code| Status::failure("too long", "Unknown").with_code(code));
    let failing = status::internal_error("shardSelector");
    let is_final = [(bad_request, true), (invalid, true), (long, true), (headers, true)];
    for (refusal, is_final) in is_final.into_iter().chain([(failing, false)]) {
        let code = refusal.code;
        let recorder = DebuggingRecorder::new();
        let _guard = set_default_local_recorder(&recorder);
        let rig = Rig::new(ShardBy::Uid, ShardSelectors::Honoured, 60);
        rig.server.fault(Fault::status(refusal).when(has_selector).times(usize::MAX));
        rig.run();
        rig.select(&[0]).await;
        rig.select(&[0, 1]).await;
        rig.server.wait_for_watchers(1).await;
        let version = rig.apply(rig.in_shards(&[1])[0]);
        rig.applied(version).await;
        rig.assert_contents(&[0, 1]);
        assert_eq!(rig.errors.lock().as_slice(), &[] as &[String], "{code}");
        let refused = rig.server.requests().into_iter().filter(has_selector).count();
        assert_eq!(refused == 1, is_final, "{code}: {refused} refusals");
        assert_eq!(refused_selectors(&recorder), refused, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn selector_is_sent_again_after_a_failure_that_may_have_another_cause() {
    let rig = Rig::new(ShardBy::Uid, ShardSelectors::Honoured, 60);
    let failing = Fault::status(status::internal_error("etcd has no leader"));
    rig.server.fault(failing.when(has_selector).times(1));
    rig.run();
    rig.select(&[0]).await;
    rig.server.forget_requests();
    rig.select(&[0, 1]).await;
    assert!(rig.server.requests().iter().all(has_selector));
    rig.assert_contents(&[0, 1]);
}

#[tokio::test(start_paused = true)]
async fn refusal_of_selectors_is_logged_although_a_failure_was_logged_before() {
    let messages = Messages::default();
    let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
    let rig = Rig::new(ShardBy::Uid, ShardSelectors::Honoured, 60);
    let refusal = Status::failure("shardSelector: not supported", "BadRequest").with_code(400);
    let failing = Fault::status(status::internal_error("etcd has no leader"));
    rig.server.fault(failing.when(has_selector).times(2));
    rig.run();
    rig.select(&[0]).await;
    rig.select(&[0, 1]).await;
    rig.server.fault(Fault::status(refusal).when(has_selector).times(usize::MAX));
    rig.select(&[0, 1, 2]).await;
    rig.select(&[1, 2]).await;
    let logged = messages.0.lock();
    let warnings = logged.iter().filter(|message| message.contains("shardSelector"));
    let expected = ["later requests have a selector again", "this replica receives the objects"];
    assert!(
        warnings.clone().count() == 2
            && warnings.zip(expected).all(|(message, expected)| message.contains(expected)),
        "{:?}",
        *logged
    );
}

#[tokio::test(start_paused = true)]
async fn failure_that_is_not_about_the_selector_is_reported_as_it_is() {
    let rig = Rig::new(ShardBy::Uid, ShardSelectors::Honoured, 60);
    rig.server.fault(Fault::status(status::internal_error("disk is full")).times(4));
    rig.run();
    rig.select(&[0]).await;
    rig.assert_contents(&[0]);
    rig.server.forget_requests();
    rig.select(&[0, 1]).await;
    assert!(rig.server.requests().iter().all(has_selector));
    assert!(!rig.errors.lock().is_empty());
}

/// Without the uid or the namespace, nothing says to which shard a stored object belongs.
#[tokio::test(start_paused = true)]
async fn objects_whose_property_a_transform_drops_stay_and_are_reported() {
    for by in [ShardBy::Uid, ShardBy::Namespace] {
        objects_without(by).await;
    }
}

/// Checks that objects whose property a transform drops stay in the store, and are reported.
async fn objects_without(by: ShardBy) {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    for number in 0..20 {
        let metadata = json!({ "namespace": "shop", "name": format!("m{number}") });
        let map = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
        server.apply(map).unwrap();
    }
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&errors);
    let selection = Selection::new(by, four());
    let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let informer = selecting::<ConfigMap>(&selection, maps)
        .transform(move |mut map| {
            let metadata = &mut Arc::make_mut(&mut map).metadata;
            let property =
                if by == ShardBy::Uid { &mut metadata.uid } else { &mut metadata.namespace };
            *property = None;
            Ok(map)
        })
        .on_error(move |error| log.lock().push(crate::error_chain(error)))
        .build()
        .unwrap();
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    timeout(LONG, selection.replace(set(&[0, 1, 2, 3]))).await.unwrap();
    assert_eq!(informer.store().len(), 20);
    for kept in 0..4 {
        // They stay although no shard, or only one of the shards, is that of all objects.
        timeout(LONG, selection.replace(set(&[kept]))).await.unwrap();
        assert_eq!(informer.store().len(), 20, "objects of shard {kept} must not leave");
        let expected = format!("20 stored objects have no {}, by which", by.as_str());
        assert!(errors.lock().pop().is_some_and(|error| error.contains(&expected)));
        timeout(LONG, selection.replace(set(&[0, 1, 2, 3]))).await.unwrap();
    }
}
