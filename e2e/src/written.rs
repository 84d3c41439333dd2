//! What writers have written: every state that the server said yes to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::oracle::State;

/// The log of all writers.
#[derive(Clone, Default)]
pub struct Written {
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    states: HashMap<String, Vec<State>>,
    /// Keys to whose writes there was not always an answer.
    unsure: HashSet<String>,
}

impl Written {
    /// The server has this state of `key`.
    pub fn note(&self, key: String, state: State) {
        self.log.lock().states.entry(key).or_default().push(state);
    }

    /// Nobody knows whether something was written to `key`.
    pub fn unanswered(&self, key: String) {
        self.log.lock().unsure.insert(key);
    }

    /// Whether the server may have had this state of `key`.
    pub fn may_be(&self, key: &str, state: &State) -> bool {
        let log = self.log.lock();
        log.unsure.contains(key) || log.states.get(key).is_some_and(|states| states.contains(state))
    }
}
