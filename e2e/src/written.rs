//! The log of all writes, with every state that the server confirmed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::oracle::State;

/// The log of all writers of a scenario. Clones share it.
#[derive(Clone, Default)]
pub struct Written {
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    states: HashMap<String, Vec<State>>,
    /// The keys with a write whose response was lost.
    unsure: HashSet<String>,
}

impl Written {
    /// Records that the server has stored this state of `key`.
    pub fn record(&self, key: String, state: State) {
        self.log.lock().states.entry(key).or_default().push(state);
    }

    /// Records that a write to `key` got no response, so it may or may not have been done.
    pub fn record_unanswered(&self, key: String) {
        self.log.lock().unsure.insert(key);
    }

    /// Returns whether the server may have had this state of `key`.
    pub fn may_be(&self, key: &str, state: &State) -> bool {
        let log = self.log.lock();
        log.unsure.contains(key) || log.states.get(key).is_some_and(|states| states.contains(state))
    }
}
