//! Several parts as one.

use std::sync::Arc;

use deltafifo_informer::lister_watcher::{EventType, ListerWatcher, Merged, Scripted};
use deltafifo_informer::reflector::Reflector;

use super::rig::{bookmark, event, expired, items, list, map, page, queue, shown_asked};

#[tokio::test(start_paused = true)]
async fn each_part_goes_on_from_its_own_version() {
    let shop = Arc::new(Scripted::new().list(list(4, [map("a", 1)])).watch([event(EventType::Added, map("b", 9))]));
    let bank = Arc::new(Scripted::new().list(list(6, [map("c", 2)])));
    let parts: Vec<Box<dyn ListerWatcher>> = vec![Box::new(shop.clone()), Box::new(bank.clone())];
    let fifo = queue();
    let reflector = Reflector::builder(Merged::new(parts), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = shop.asked_times(3) => {}
    }
    bank.asked_times(3).await;
    assert_eq!(shown_asked(&shop.asked()), [r#"list "0" limit 500"#, r#"watch "4""#, r#"watch "9""#]);
    assert_eq!(shown_asked(&bank.asked()), [r#"list "0" limit 500"#, r#"watch "6""#, r#"watch "6""#]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_when_those_of_all_parts_have() {
    let shop = Scripted::new().watch_on([event(EventType::Added, map("a", 1)), bookmark(4, true)]);
    let bank = Scripted::new().watch_on([event(EventType::Added, map("c", 2)), bookmark(6, true), bookmark(8, false)]);
    let fifo = queue();
    let reflector = Reflector::builder(Merged::new(vec![Box::new(shop), Box::new(bank)]), fifo.clone()).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        reached = fifo.wait_for_sync_async() => panic!("{reached:?}: nobody handles what is queued"),
        () = async { while reflector.last_sync_resource_version().is_none() { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(reflector.last_sync_resource_version().as_deref(), Some("4"), "the least that all have reached");
    assert_eq!(fifo.pending_deltas(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_relist_goes_back_in_time_for_no_part() {
    let shop = Arc::new(
        Scripted::new()
            .list(list(4, []))
            .watch([event(EventType::Added, map("a", 9)), Err(expired())])
            .list(list(9, [map("a", 9)])),
    );
    let bank = Arc::new(Scripted::new().list(list(6, [])).watch_on([bookmark(7, false)]).list(list(7, [])));
    let parts: Vec<Box<dyn ListerWatcher>> = vec![Box::new(shop.clone()), Box::new(bank.clone())];
    let reflector = Reflector::builder(Merged::new(parts), queue()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = shop.asked_times(4) => {}
    }
    assert_eq!(shown_asked(&shop.asked())[2], r#"list "9" limit 0"#);
    assert_eq!(shown_asked(&bank.asked())[2], r#"list "7" limit 0"#);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_one_part_does_not_say_how_far_the_others_are() {
    let shop = Scripted::new().list(list(4, [])).watch_on([event(EventType::Added, map("a", 9))]);
    let bank = Arc::new(Scripted::new().list(list(6, [])).watch_on([]));
    let fifo = queue();
    let source = Merged::new(vec![Box::new(shop), Box::new(bank)]);
    let reflector = Reflector::builder(source, fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        popped = fifo.pop_async() => assert_eq!(popped.unwrap().key(), "a"),
    }
    assert_eq!(reflector.last_sync_resource_version().as_deref(), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn a_part_whose_page_token_expires_is_listed_in_one_page_not_older_than_that_one() {
    let shop = Arc::new(
        Scripted::new()
            .list([page(7, Some("t1")), items([map("a", 5), map("gone", 6)])])
            .list_fails(expired())
            .list(list(8, [map("a", 5), map("b", 8)])),
    );
    let bank = Arc::new(
        Scripted::new()
            .list(list(6, [map("c", 2)]))
            .list([page(9, Some("t1")), items([map("c", 2)])])
            .list_fails(expired())
            .list(list(9, [map("c", 2)])),
    );
    let parts: Vec<Box<dyn ListerWatcher>> = vec![Box::new(bank.clone()), Box::new(shop.clone())];
    let fifo = queue();
    let reflector = Reflector::builder(Merged::new(parts), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = bank.asked_times(5) => {}
        () = shop.asked_times(9) => {}
    }
    shop.asked_times(4).await;
    let paged = [r#"list "0" limit 500"#, r#"list "0" limit 500 token t1"#];
    assert_eq!(shown_asked(&shop.asked())[..2], paged);
    assert_eq!(shown_asked(&shop.asked())[2..], [r#"list at least "7" limit 0"#, r#"watch "8""#]);
    let asked = shown_asked(&bank.asked());
    assert_eq!(asked[1..4], [r#"list "" limit 500"#, r#"list "" limit 500 token t1"#, r#"list at least "9" limit 0"#]);
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let mut stored = fifo.store().list_keys();
    stored.sort();
    assert_eq!(stored, ["a", "b", "c"], "what was on the first page, and is gone by now, is not kept");
}
