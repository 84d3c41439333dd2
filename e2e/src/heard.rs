//! From what our own handlers are given to what the oracle hears.

use deltafifo::DeltaObject;
use deltafifo_informer::shared_informer::Notification;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use crate::oracle::{Change, Told, keyed, state};

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
        Self::Deleted { last: last.object().map(|last| state(&last.metadata)), is_tombstone: last.is_tombstone() }
    }
}

impl Told {
    /// A handler of an informer of ours is told.
    pub fn notify(&mut self, notification: &Notification<ConfigMap>) {
        let key = |metadata: &ObjectMeta| keyed(metadata).0;
        match notification {
            Notification::Added { new, .. } => {
                self.tell(&key(&new.metadata), Change::Added { new: state(&new.metadata) });
            }
            Notification::Updated { old, new, .. } => {
                let change = Change::Updated { old: state(&old.metadata), new: state(&new.metadata) };
                self.tell(&key(&new.metadata), change);
            }
            Notification::Deleted { last, .. } => match last {
                DeltaObject::Object(object) => self.tell(&key(&object.metadata), last.into()),
                DeltaObject::Tombstone(tombstone) => self.tell(&tombstone.key, last.into()),
            },
            Notification::ResyncBegins => self.resync_begins(),
            Notification::ResyncEnds => self.resync_ends(),
        }
    }
}
