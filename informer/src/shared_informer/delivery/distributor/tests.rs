//! Removed handlers leave nothing behind.

use deltafifo::{Indexer, KeyFunc, NoMeta};

use super::*;

#[test]
fn removed_handlers_leave_nothing_behind() {
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()))).build();
    let store = store.expect("a store without indexes").reader();
    let distributor = Distributor::new(store, 1);
    for _ in 0..100 {
        let on_error = OnError(Arc::new(|_| ()));
        let feed = Arc::new(distributor.feed(HandlerOptions::new(), None, true, on_error));
        assert!(distributor.add(&feed));
        distributor.remove(&feed);
        assert!(!feed.state().borrow().has_ended, "its call still runs");
        feed.has_ended();
    }
    assert!(distributor.feeds().is_empty());
    let left = distributor.list.lock().last.len();
    assert!(left <= 1, "{left} of them are kept");
}
