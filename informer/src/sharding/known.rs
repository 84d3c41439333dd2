//! The newest known states of the Leases of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;

/// The newest known states of Leases, by the names of the objects. A write keeps everything in a
/// Lease that is not the group's.
#[derive(Default)]
pub(super) struct KnownLeases {
    leases: BTreeMap<String, (u64, Arc<Lease>)>,
    /// The version up to which the watch has shown all changes.
    shown: u64,
}

impl KnownLeases {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Lease>> {
        self.leases.get(name).map(|(_, lease)| Arc::clone(lease))
    }

    /// Keeps the state of a Lease that a write was answered with. Does nothing if the watch has
    /// shown that state: the Lease may have been deleted since then.
    pub(super) fn written(&mut self, name: String, version: u64, lease: &Arc<Lease>) {
        if version > self.shown {
            self.keep(name, version, lease);
        }
    }

    /// Keeps the state of a Lease that the watch shows.
    pub(super) fn observed(&mut self, name: String, version: u64, lease: &Arc<Lease>) {
        self.shown = version;
        self.keep(name, version, lease);
    }

    /// Forgets a Lease that the watch shows as deleted in this version, unless it was created
    /// again.
    pub(super) fn deleted(&mut self, name: &str, version: u64) {
        self.shown = version;
        if self.leases.get(name).is_some_and(|(known, _)| *known <= version) {
            self.leases.remove(name);
        }
    }

    /// Keeps the Leases of a list of this version, and forgets all others, except later states.
    pub(super) fn listed<'l>(
        &mut self,
        version: u64,
        leases: impl Iterator<Item = (String, u64, &'l Arc<Lease>)>,
    ) {
        self.shown = version;
        self.leases.retain(|_, (known, _)| *known > version);
        leases.for_each(|(name, version, lease)| self.keep(name, version, lease));
    }

    fn keep(&mut self, name: String, version: u64, lease: &Arc<Lease>) {
        if self.leases.get(&name).is_none_or(|(known, _)| *known < version) {
            self.leases.insert(name, (version, Arc::clone(lease)));
        }
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
        known.written("a".to_owned(), 7, &new);
        known.observed("a".to_owned(), 5, &old);
        assert!(is_new(&known));
        known.deleted("a", 6);
        known.listed(6, [("b".to_owned(), 4, &old)].into_iter());
        assert!(is_new(&known), "it was created again after the deletion and the list");
        known.deleted("a", 8);
        assert!(known.get("a").is_none() && known.get("b").is_some());
        known.listed(8, [("a".to_owned(), 4, &new)].into_iter());
        assert!(is_new(&known) && known.get("b").is_none());
    }

    #[test]
    fn answer_that_comes_after_the_deletion_of_the_lease_is_not_kept() {
        let mut known = KnownLeases::default();
        let lease = Arc::<Lease>::default();
        known.deleted("a", 8);
        known.written("a".to_owned(), 7, &lease);
        assert!(known.get("a").is_none());
        known.listed(12, std::iter::empty());
        known.written("a".to_owned(), 11, &lease);
        assert!(known.get("a").is_none());
        known.written("a".to_owned(), 13, &lease);
        assert!(known.get("a").is_some());
    }
}
