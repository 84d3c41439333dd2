//! The fields of a `Lease`: reading them, and writing them.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// The fields of a Lease that decide who holds it. A missing or invalid number counts as 0, and a
/// missing text as empty.
pub(crate) struct LeaseFields<'l> {
    pub(crate) version: &'l str,
    pub(crate) uid: &'l str,
    /// `None` if the holder is missing or empty.
    pub(crate) holder: Option<&'l str>,
    pub(crate) transitions: i32,
    pub(crate) duration: Duration,
}

impl<'l> LeaseFields<'l> {
    pub(crate) fn of(lease: &'l Lease) -> Self {
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            version: lease.metadata.resource_version.as_deref().unwrap_or_default(),
            uid: lease.metadata.uid.as_deref().unwrap_or_default(),
            holder: holder.filter(|holder| !holder.is_empty()),
            transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or_default(),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
        }
    }
}

/// Returns `base` with this holder, or without a holder if `holder` is `None`, renewed now. If the
/// holder and `transitions` are those of `base`, its acquire time stays. The metadata, and all
/// other fields, always stay.
pub(crate) fn with_holder(
    base: &Lease,
    holder: Option<&str>,
    transitions: i32,
    duration: Duration,
) -> Lease {
    let now = MicroTime(Timestamp::now());
    let before = base.spec.clone().unwrap_or_default();
    let is_renewal = before.lease_transitions == Some(transitions)
        && before.holder_identity.as_deref() == holder;
    let acquired = if is_renewal { before.acquire_time.clone() } else { Some(now.clone()) };
    let spec = LeaseSpec {
        holder_identity: Some(holder.unwrap_or_default().to_owned()),
        lease_duration_seconds: duration_seconds(duration),
        lease_transitions: Some(transitions),
        acquire_time: acquired,
        renew_time: Some(now),
        ..before
    };
    Lease { metadata: base.metadata.clone(), spec: Some(spec) }
}

/// Returns the `leaseDurationSeconds` of this lease duration, rounded up, so that others wait at
/// least as long as the lease is held. Returns `None` if the field cannot contain it.
pub(crate) fn duration_seconds(duration: Duration) -> Option<i32> {
    let started = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().checked_add(started)?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration_seconds;

    #[test]
    fn lease_duration_is_rounded_up_to_seconds() {
        assert_eq!(duration_seconds(Duration::from_secs(15)), Some(15));
        assert_eq!(duration_seconds(Duration::new(15, 1)), Some(16));
        assert_eq!(duration_seconds(Duration::from_secs(1 << 31)), None);
        assert_eq!(duration_seconds(Duration::MAX), None);
    }
}
