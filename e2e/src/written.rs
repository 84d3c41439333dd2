//! The log of creations and updates: every state that the server confirmed, and the keys of writes
//! without a clear response. Deletions are not recorded, because they create no state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::oracle::State;

/// The log of all creations and updates in a scenario. Clones share it.
#[derive(Clone, Default)]
pub struct Written {
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    states: HashMap<String, Vec<State>>,
    /// The keys with a write that may or may not have been done.
    unsure: HashSet<String>,
}

impl Written {
    /// Records that the server has stored this state of `key`.
    pub fn record(&self, key: String, state: State) {
        self.log.lock().states.entry(key).or_default().push(state);
    }

    /// Records that a write to `key` got no response, or a server error, so it may or may not have
    /// been done.
    pub fn record_unanswered(&self, key: String) {
        self.log.lock().unsure.insert(key);
    }

    /// Returns whether the server may have had this state of `key`: the state was confirmed, or a
    /// write to `key` may have been done.
    pub fn may_be(&self, key: &str, state: &State) -> bool {
        let log = self.log.lock();
        log.unsure.contains(key) || log.states.get(key).is_some_and(|states| states.contains(state))
    }
}
