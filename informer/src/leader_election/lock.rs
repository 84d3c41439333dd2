//! The name of a lease, and the identity of a candidate.

/// The lease that candidates compete for, and the name of this candidate (client-go `LeaseLock`).
///
/// ```
/// use deltafifo_informer::leader_election::LeaseLock;
///
/// let lock = LeaseLock::new("shop", "counter").identity("counter-7f9c-x2x4k");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct LeaseLock {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: String,
}

impl LeaseLock {
    /// Creates the lock of the lease `name` in `namespace`. All candidates must name the same
    /// lease.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), identity: String::new() }
    }

    /// Sets the name of this candidate, usually the name of its pod. It is required. The identity
    /// in the lease is this name, `_` and a UUID that is new for each campaign, so that two
    /// processes with the same name are different candidates.
    pub fn identity(mut self, name: impl Into<String>) -> Self {
        self.identity = name.into();
        self
    }

    /// Returns the identity of a new campaign.
    pub(super) fn new_identity(&self) -> String {
        format!("{}_{}", self.identity, uuid())
    }
}

/// Returns a random UUID (version 4).
fn uuid() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::LeaseLock;

    #[test]
    fn identities_of_one_name_differ_and_end_in_a_random_uuid() {
        let lock = LeaseLock::new("shop", "counter").identity("pod");
        let (first, second) = (lock.new_identity(), lock.new_identity());
        assert_ne!(first, second);
        let uuid: Vec<_> = first.strip_prefix("pod_").unwrap().split('-').collect();
        assert_eq!(uuid.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uuid[2].starts_with('4') && uuid[3].starts_with(['8', '9', 'a', 'b']), "{first}");
    }
}
