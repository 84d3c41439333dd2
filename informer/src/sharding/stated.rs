//! The readiness that a member has written into its own Lease.

use super::protocol::Readiness;

/// The readiness in the writes that may explain the present state of the member's own Lease.
#[derive(Default)]
pub(super) struct StatedReadiness {
    /// That of the last write that is known to be applied.
    applied: Option<Readiness>,
    /// The number of the last write with each readiness, of the writes after that one. They are in
    /// the order of their numbers.
    sent: Vec<(u64, Readiness)>,
    /// The newest known version of the Lease, and its readiness.
    newest: Option<(u64, Readiness)>,
    /// The last version that was found to have another readiness.
    lost: Option<u64>,
}

impl StatedReadiness {
    /// Records that a write was sent. The write before it was answered, or its answer is ignored.
    pub(super) fn sent(&mut self, number: u64, readiness: Readiness) {
        self.sent.retain(|(_, stated)| *stated != readiness);
        self.sent.push((number, readiness));
    }

    /// Records that the server has applied a write. It applies no earlier one after that, because
    /// each contains the version that it replaces.
    pub(super) fn applied(&mut self, number: u64) {
        let applied = self.sent.iter().find(|(sent, _)| *sent == number);
        self.applied = applied.map(|(_, stated)| *stated).or(self.applied);
        self.sent.retain(|(sent, _)| *sent > number);
    }

    /// Records a state of the Lease.
    pub(super) fn seen(&mut self, version: u64, readiness: Readiness) {
        if self.newest.is_none_or(|(newest, _)| newest < version) {
            self.newest = Some((version, readiness));
        }
    }

    /// Records that the newest state of the Lease is that of another member, so it says nothing.
    pub(super) fn seen_of_another(&mut self) {
        self.newest = None;
    }

    /// Returns the readiness that was written if no write explains that of the newest known
    /// version. Returns it once for each version. A version can be seen before the answer to a
    /// write, so call this after each state and after each answer.
    pub(super) fn lost(&mut self) -> Option<Readiness> {
        let (version, found) = self.newest?;
        let mut stated =
            self.applied.into_iter().chain(self.sent.iter().map(|(_, stated)| *stated));
        let written = stated.clone().next()?;
        if self.lost == Some(version) || stated.any(|stated| stated == found) {
            return None;
        }
        self.lost = Some(version);
        Some(written)
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness::{Ready, Settled, Unready};
    use super::*;

    fn seen(stated: &mut StatedReadiness, version: u64, readiness: Readiness) -> Option<Readiness> {
        stated.seen(version, readiness);
        stated.lost()
    }

    #[test]
    fn readiness_that_no_write_states_is_lost_once_per_version() {
        let mut stated = StatedReadiness::default();
        assert_eq!(seen(&mut stated, 1, Unready), None, "nothing was written");
        stated.sent(1, Ready);
        stated.applied(1);
        assert_eq!(seen(&mut stated, 2, Ready), None);
        assert_eq!(seen(&mut stated, 3, Unready), Some(Ready));
        assert_eq!(seen(&mut stated, 3, Unready), None);
        assert_eq!(seen(&mut stated, 2, Ready), None, "an older version");
        assert_eq!(seen(&mut stated, 4, Unready), Some(Ready));
    }

    #[test]
    fn readiness_of_a_write_without_an_answer_is_not_lost() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Unready);
        stated.sent(2, Ready);
        stated.sent(3, Settled);
        assert_eq!(seen(&mut stated, 1, Unready), None);
        assert_eq!(seen(&mut stated, 2, Ready), None);
        stated.applied(3);
        assert_eq!(stated.lost(), Some(Settled));
    }

    #[test]
    fn change_that_is_seen_before_the_answer_to_a_write_is_lost_after_it() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Unready);
        stated.applied(1);
        stated.sent(2, Ready);
        // The watch shows the write, and then the change of another client.
        assert_eq!(seen(&mut stated, 10, Ready), None);
        assert_eq!(seen(&mut stated, 11, Unready), None);
        stated.applied(2);
        assert_eq!(seen(&mut stated, 10, Ready), Some(Ready));
    }

    #[test]
    fn readiness_of_a_write_that_was_not_applied_is_not_named() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Unready);
        stated.applied(1);
        stated.sent(2, Ready);
        stated.sent(3, Unready);
        assert_eq!(seen(&mut stated, 5, Settled), Some(Unready));
    }
}
