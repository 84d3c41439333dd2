//! The reason of a reconcile, for its span (kube's `ReconcileReason`).

use std::fmt;

/// The reason of a reconcile. Its text is kube's where kube has this reason, except that it does
/// not name the related object, which would take an allocation for each request. As the tag of a
/// request it costs the work queue nothing.
///
/// If several requests are merged into one reconcile, the reason is that of the request that
/// decides when the object is reconciled: the first, unless a later one ends or shortens the wait
/// or has a higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reason {
    /// A stream of the user's, or a deletion.
    Unknown,
    ObjectUpdated,
    RelatedObjectUpdated,
    ReconcilerRequestedRetry,
    ErrorPolicyRequestedRetry,
    BulkReconcile,
    Panicked,
    NotDecoded,
    OwnWriteNotSeen,
    #[cfg(feature = "leader-election")]
    ShardAssigned,
}

impl Reason {
    const ALL: &[Self] = &[
        Self::Unknown,
        Self::ObjectUpdated,
        Self::RelatedObjectUpdated,
        Self::ReconcilerRequestedRetry,
        Self::ErrorPolicyRequestedRetry,
        Self::BulkReconcile,
        Self::Panicked,
        Self::NotDecoded,
        Self::OwnWriteNotSeen,
        #[cfg(feature = "leader-election")]
        Self::ShardAssigned,
    ];

    pub(super) fn tag(self) -> u8 {
        self as u8
    }

    pub(super) fn of_tag(tag: u8) -> Self {
        Self::ALL.get(usize::from(tag)).copied().unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::ObjectUpdated => "object updated",
            Self::RelatedObjectUpdated => "related object updated",
            Self::ReconcilerRequestedRetry => "reconciler requested retry",
            Self::ErrorPolicyRequestedRetry => "error policy requested retry",
            Self::BulkReconcile => "bulk reconcile requested",
            Self::Panicked => "retry after a panic",
            Self::NotDecoded => "retry after a failed decoding",
            Self::OwnWriteNotSeen => "retry after a wait for an own write",
            #[cfg(feature = "leader-election")]
            Self::ShardAssigned => "shard assigned",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn reason_is_restored_from_its_tag() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::of_tag(reason.tag()), reason);
        }
        assert_eq!(Reason::of_tag(u8::MAX), Reason::Unknown);
    }
}
