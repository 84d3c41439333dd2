//! Tests of informers of selected shards over servers that refuse requests.

use std::time::Duration;

use deltafifo_testkit::{Fault, Request, ShardSelectors, Verb, status};
use tokio::time::timeout;

use super::rig::{LONG, PROPERTIES, Rig, four, selector, set};

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
