//! Several parts as one.

use std::sync::Arc;

use deltafifo_informer::lister_watcher::{EventType, ListerWatcher, Merged, Scripted};
use deltafifo_informer::reflector::Reflector;

use super::rig::{bookmark, event, expired, list, map, queue, shown_asked};

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
