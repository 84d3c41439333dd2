//! Conversions from the changes and notifications of this project's handlers to the oracle's
//! types.

use deltafifo::DeltaObject;
use deltafifo_informer::shared_informer::Notification;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use crate::oracle::{Change, HandlerLog, keyed, state};

impl From<&deltafifo::Change<'_, ConfigMap>> for Change {
    fn from(change: &deltafifo::Change<'_, ConfigMap>) -> Self {
        match *change {
            deltafifo::Change::Added { new, .. } => Self::Added { new: state(&new.metadata) },
            deltafifo::Change::Updated { old, new, .. } => {
                Self::Updated { old: state(&old.metadata), new: state(&new.metadata) }
            }
            deltafifo::Change::Deleted { last, .. } => last.into(),
        }
    }
}

impl From<&DeltaObject<ConfigMap>> for Change {
    fn from(last: &DeltaObject<ConfigMap>) -> Self {
        Self::Deleted {
            last: last.object().map(|last| state(&last.metadata)),
            is_tombstone: last.is_tombstone(),
        }
    }
}

impl HandlerLog {
    /// Records a notification of a handler of this project's informers.
    pub fn notify(&mut self, notification: &Notification<ConfigMap>) {
        let key = |metadata: &ObjectMeta| keyed(metadata).0;
        match notification {
            Notification::Added { new, .. } => {
                self.record(&key(&new.metadata), Change::Added { new: state(&new.metadata) });
            }
            Notification::Updated { old, new, .. } => {
                let (key, old, new) =
                    (key(&new.metadata), state(&old.metadata), state(&new.metadata));
                // client-go may update one object to another. This project's informers must notify
                // of a deletion and an addition instead.
                if old.uid != new.uid {
                    self.fault(format!(
                        "{key} was updated from {} to {}, another object",
                        old.uid, new.uid
                    ));
                }
                self.record(&key, Change::Updated { old, new });
            }
            Notification::Deleted { old, last, .. } => {
                let key = match last {
                    DeltaObject::Object(object) => key(&object.metadata),
                    DeltaObject::Tombstone(tombstone) => tombstone.key.to_string(),
                };
                if self.live().get(&key) != Some(&state(&old.metadata)) {
                    self.fault(format!("{key} was deleted from a state that was not delivered"));
                }
                self.record(&key, last.into());
            }
            Notification::ResyncBegins => self.resync_begins(),
            Notification::ResyncEnds => self.resync_ends(),
        }
    }
}
