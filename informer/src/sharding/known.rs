//! The newest known states of the Leases of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;

/// The newest known states of Leases, by the names of the objects. A write keeps everything in a
/// Lease that is not the group's.
#[derive(Default)]
pub(super) struct KnownLeases(BTreeMap<String, (u64, Arc<Lease>)>);

impl KnownLeases {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Lease>> {
        self.0.get(name).map(|(_, lease)| Arc::clone(lease))
    }

    /// Keeps a state of a Lease, if it is the newest.
    pub(super) fn learn(&mut self, name: String, version: u64, lease: &Arc<Lease>) {
        if self.0.get(&name).is_none_or(|(known, _)| *known < version) {
            self.0.insert(name, (version, Arc::clone(lease)));
        }
    }

    /// Forgets a Lease that was deleted in this version, unless it was created again.
    pub(super) fn forget(&mut self, name: &str, version: u64) {
        if self.0.get(name).is_some_and(|(known, _)| *known <= version) {
            self.0.remove(name);
        }
    }

    /// Forgets all states up to the version of a list, which has all of them that still exist.
    pub(super) fn forget_all(&mut self, version: u64) {
        self.0.retain(|_, (known, _)| *known > version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_state_is_kept_whatever_order_they_come_in() {
        let mut known = KnownLeases::default();
        let [old, new] = [0, 1].map(|_| Arc::<Lease>::default());
        let is_new = |known: &KnownLeases| known.get("a").is_some_and(|it| Arc::ptr_eq(&it, &new));
        known.learn("a".to_owned(), 7, &new);
        known.learn("a".to_owned(), 5, &old);
        assert!(is_new(&known));
        known.forget("a", 6);
        known.forget_all(6);
        assert!(is_new(&known), "it was created again after the deletion and the list");
        known.forget("a", 8);
        assert!(known.get("a").is_none());
    }
}
