//! Removed handlers leave nothing behind.

use deltafifo::{Indexer, KeyFunc, NoMeta};

use super::super::error::OnError;
use super::super::handler::HandlerOptions;
use super::*;

#[test]
fn removed_handlers_leave_nothing_behind() {
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()))).build();
    let known: Arc<dyn Known<String>> = Arc::new(store.expect("a store without indexes").reader());
    let distributor = Distributor::new(known.clone(), 1);
    for _ in 0..100 {
        let feed = Feed::new(
            known.clone(),
            distributor.desks.clone(),
            HandlerOptions::new(),
            None,
            true,
            OnError(Arc::new(|_| ())),
        );
        let feed = Arc::new(feed);
        assert!(distributor.add(&feed));
        distributor.remove(&feed);
        assert!(!feed.state().borrow().has_ended, "its call still runs");
        feed.has_ended();
    }
    assert!(distributor.feeds().is_empty());
    let left = distributor.list.lock().last.len();
    assert!(left <= 1, "{left} of them are kept");
}
