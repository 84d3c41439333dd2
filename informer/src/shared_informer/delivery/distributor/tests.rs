//! Tests of the list of handlers.

use deltafifo::{Indexer, KeyFunc, NoMeta};

use super::*;

#[test]
fn removed_handlers_are_not_kept_in_the_list() {
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()))).build();
    let store = store.expect("a store without indexes").reader();
    let distributor = Distributor::new(store, 1);
    for _ in 0..100 {
        let on_error = OnError(Arc::new(|_| ()));
        let feed = Arc::new(distributor.feed(HandlerOptions::new(), None, true, on_error));
        assert!(distributor.add(&feed));
        distributor.remove(&feed);
        assert!(!feed.state().borrow().has_ended, "the handler is still running");
        feed.has_ended();
    }
    assert!(distributor.feeds().is_empty());
    let left = distributor.list.lock().last.len();
    assert!(left <= 1, "the states of {left} removed handlers are kept");
}
