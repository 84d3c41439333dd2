//! The oracle: the state that a handler derives from its notifications, and a check that each
//! notification follows from that state. The data of an object are a number that only grows.

use std::collections::{BTreeMap, BTreeSet};

use deltafifo_informer::shared_informer::Cause;
use k8s_openapi::api::core::v1::ConfigMap;

use super::rig::{MapNotification, value};

#[derive(Default)]
pub struct Oracle {
    pub known: BTreeMap<String, String>,
    /// The greatest number of which the handler has been notified, by name.
    greatest: BTreeMap<String, u64>,
    /// The names of which the handler has been notified since the current resync began; `None`
    /// outside of a resync.
    anew: Option<BTreeSet<String>>,
}

impl Oracle {
    /// Checks that a notification follows from the previous ones, and records the notification.
    pub fn note(&mut self, received: &MapNotification) {
        match received {
            MapNotification::Added { new, .. } => {
                let name = name(new);
                let before = self.known.insert(name.clone(), value(new).to_owned());
                let is_again = self.anew.is_some() && before.as_deref() == Some(value(new));
                let is_first =
                    self.anew.as_mut().map_or(before.is_none(), |anew| anew.insert(name));
                assert!(is_first, "{} is added over {before:?}", value(new));
                self.check_greater(new, is_again);
            }
            MapNotification::Updated { old, new, cause } => {
                let before = self.known.insert(name(new), value(new).to_owned());
                assert_eq!(before.as_deref(), Some(value(old)), "an update from an unknown state");
                assert_eq!(old.metadata.uid, new.metadata.uid, "updated to another object");
                self.check_greater(new, *cause == Cause::Resync && value(old) == value(new));
            }
            MapNotification::Deleted { old, last, .. } => {
                let name = name(last.object().expect("its last state was known"));
                let was_known = self.known.remove(&name).as_deref() == Some(value(old));
                let was_known =
                    was_known && self.anew.as_mut().is_none_or(|anew| anew.remove(&name));
                assert!(was_known, "a deletion of an unknown object: {name}");
            }
            MapNotification::ResyncBegins => self.anew = Some(BTreeSet::new()),
            MapNotification::ResyncEnds => {
                let anew = self.anew.take().expect("the resync has begun");
                self.known.retain(|name, _| anew.contains(name));
            }
        }
    }

    fn check_greater(&mut self, new: &ConfigMap, is_again: bool) {
        let number = value(new).parse().expect("data are numbers");
        let before = self.greatest.insert(name(new), number);
        assert!(
            before.is_none_or(|before| before < number || is_again && before == number),
            "{number} after {before:?}"
        );
    }
}

fn name(map: &ConfigMap) -> String {
    map.metadata.name.clone().unwrap_or_default()
}
