//! What a handler is told, counted by the handler itself.

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;

/// Clones count together.
#[derive(Clone, Default)]
pub(super) struct Tally(watch::Sender<Told>);

/// The counts.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    /// Calls for an object, since the last relist began.
    pub calls: usize,
    /// Those of them for an object that is newer than all before the relist.
    pub changed: usize,
    /// Lists that came to their end, since the last relist began.
    pub lists: usize,
    newest: u64,
    is_relist: bool,
    /// So many changed objects are waited for.
    awaited: usize,
}

impl Tally {
    /// A call of the handler for this object.
    pub fn note(&self, map: &ConfigMap) {
        // What has no version that is a number is told all the same, and cannot be found to have
        // changed.
        let version =
            map.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        self.0.send_if_modified(|told| told.note(version.unwrap_or(0)));
    }

    /// A list has come to its end.
    pub fn list_ended(&self) {
        self.0.send_modify(|told| told.lists += 1);
    }

    /// From now on the calls are those of a relist, in which so many objects have changed.
    pub fn relist(&self, changed: usize) {
        self.0.send_modify(|told| {
            *told = Told { calls: 0, lists: 0, is_relist: true, awaited: changed, ..*told }
        });
    }

    /// Waits until `holds`, which may look at `lists`, and at whether as many have changed as are
    /// waited for.
    pub async fn until(&self, holds: impl FnMut(&Told) -> bool) {
        // It fails only when the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(holds).await;
    }

    /// The counts of now.
    pub fn told(&self) -> Told {
        *self.0.borrow()
    }
}

impl Told {
    /// Whether all that changed was told.
    pub fn has_all_changes(&self) -> bool {
        self.changed >= self.awaited
    }

    /// Whether somebody may wait for this very call: nobody is woken by all the others.
    fn note(&mut self, version: u64) -> bool {
        self.calls += 1;
        if !self.is_relist {
            self.newest = self.newest.max(version);
            return false;
        }
        let has_changed = version > self.newest;
        self.changed += usize::from(has_changed);
        has_changed && self.changed == self.awaited
    }
}
