//! The Leases of a group as objects: their names, labels and annotations.
//!
//! | Lease | name | holder |
//! | --- | --- | --- |
//! | of the group `counter` | `counter` | none |
//! | of shard 7 | `counter-shard-007` | the member that holds it |
//! | of the member `pod_9f3a` | `counter-member-pod.9f3a` | the member, until it is fenced |
//!
//! An underscore separates the name of the pod from the random part of an identity, and no name of
//! an object has one. So the identity of a member can be read from the name of its Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;

use super::error::{GroupError, RunError};
use super::hash::ShardBy;
use super::protocol::{self, Readiness, Write};
use super::shards::ShardCount;
use crate::lease::{LeaseFields, with_holder};

pub(super) type LeaseName = protocol::LeaseName<Arc<str>>;
pub(super) type Record = protocol::Record<Arc<str>>;

/// The label of all Leases of a group. Its value is the name of the group.
const GROUP: &str = "deltafifo/group";
/// The label with the kind of a Lease, for people: `group`, `member` or `shard`.
const KIND: &str = "deltafifo/kind";
/// The annotation of a member's Lease that says how far the member is ready to hold shards.
const READINESS: &str = "deltafifo/readiness";

/// The version of the protocol, in the annotations of every Lease.
const VERSION: &str = "1";

/// A Lease of a group.
pub(super) struct GroupLease {
    pub(super) name: LeaseName,
    pub(super) record: Record,
    pub(super) object: Arc<Lease>,
}

/// An object that has the label of the group.
pub(super) enum Labelled {
    Lease(GroupLease),
    /// The object has other settings than this member.
    Mismatched(RunError),
    /// The object is no Lease of the group.
    Unknown(GroupError),
}

/// The names and settings of the Leases of one group.
#[derive(Clone)]
pub(super) struct GroupFormat {
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) shards: ShardCount,
    pub(super) by: ShardBy,
    pub(super) lease_duration: Duration,
}

impl GroupFormat {
    /// Returns the label selector of the group's Leases.
    pub(super) fn selector(&self) -> String {
        format!("{GROUP}={}", self.group)
    }

    /// Returns whether an object has the label of the group.
    pub(super) fn is_labelled(&self, lease: &Lease) -> bool {
        let labels = lease.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(GROUP)).is_some_and(|group| *group == self.group)
    }

    /// Returns the name of the object that is this Lease.
    pub(super) fn name_of(&self, lease: &LeaseName) -> String {
        let group = &self.group;
        match lease {
            LeaseName::Group => group.clone(),
            LeaseName::Shard(shard) => format!("{group}-shard-{shard:03}"),
            LeaseName::Member(identity) => format!("{group}-member-{}", identity.replace('_', ".")),
        }
    }

    /// Returns the Lease whose object has this name.
    fn parse_name(&self, name: &str) -> Option<LeaseName> {
        let suffix = name.strip_prefix(&self.group)?;
        let lease = if suffix.is_empty() {
            LeaseName::Group
        } else if let Some(shard) = suffix.strip_prefix("-shard-") {
            let shard: u8 = shard.parse().ok()?;
            LeaseName::Shard(Some(shard).filter(|shard| usize::from(*shard) < self.shards.get())?)
        } else {
            let (pod, random) = suffix.strip_prefix("-member-")?.rsplit_once('.')?;
            LeaseName::Member(format!("{pod}_{random}").into())
        };
        // A number may also have fewer digits or a sign.
        Some(lease).filter(|lease| self.name_of(lease) == name)
    }

    /// Reads an object that has the label of the group.
    ///
    /// # Errors
    /// [`GroupError::Version`] if its resource version is not a number.
    pub(super) fn read(&self, lease: Lease) -> Result<Labelled, GroupError> {
        if let Err(mismatch) = self.check_settings(&lease) {
            return Ok(Labelled::Mismatched(mismatch));
        }
        let object = lease.metadata.name.as_deref().unwrap_or_default();
        let title = format!("{}/{object}", self.namespace);
        let Some(name) = self.parse_name(object) else {
            return Ok(Labelled::Unknown(GroupError::Unknown { lease: title }));
        };
        let LeaseFields { version, uid, holder, transitions, duration } = LeaseFields::of(&lease);
        let record = Record {
            version: parse_version(version, title)?,
            uid: uid.into(),
            holder: holder.map(Arc::from),
            transitions,
            duration,
            readiness: match annotation(&lease, READINESS) {
                Some("settled") => Readiness::Settled,
                Some("ready") => Readiness::Ready,
                _ => Readiness::Unready,
            },
        };
        Ok(Labelled::Lease(GroupLease { name, record, object: Arc::new(lease) }))
    }

    /// Compares the settings in the annotations of a Lease with those of this member. A missing
    /// annotation, as in a manifest, says nothing.
    fn check_settings(&self, lease: &Lease) -> Result<(), RunError> {
        for (name, own) in self.settings() {
            if let Some(found) = annotation(lease, name).filter(|found| *found != own) {
                let object = lease.metadata.name.as_deref().unwrap_or_default();
                return Err(RunError::Mismatch {
                    lease: format!("{}/{object}", self.namespace),
                    annotation: name,
                    found: found.to_owned(),
                    own,
                });
            }
        }
        Ok(())
    }

    /// Returns the annotations that all Leases of the group have.
    fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("deltafifo/protocol", VERSION.to_owned()),
            ("deltafifo/shards", self.shards.get().to_string()),
            ("deltafifo/by", self.by.as_str().to_owned()),
        ]
    }

    /// Returns the object of a creation or replacement. `known` is the last known state of the
    /// Lease, whose labels, annotations and other fields stay. Returns `None` for a deletion.
    pub(super) fn written(
        &self,
        name: &LeaseName,
        write: &Write<Arc<str>>,
        known: Option<&Lease>,
    ) -> Option<Lease> {
        let (base, holder, transitions, readiness) = match write {
            Write::Create { holder, readiness } => (None, holder, 0, readiness),
            Write::Replace { base, holder, transitions, readiness } => {
                (Some(base), holder, *transitions, readiness)
            }
            Write::Delete { .. } => return None,
        };
        let mut lease = base.and(known).cloned().unwrap_or_default();
        // Another state than the protocol's base would be a write without its condition.
        let metadata = ObjectMeta {
            name: Some(self.name_of(name)),
            resource_version: base.map(|base| base.version.to_string()),
            uid: base.map(|base| base.uid.to_string()),
            ..lease.metadata
        };
        lease.metadata = metadata;
        let kind = match name {
            LeaseName::Group => "group",
            LeaseName::Member(_) => "member",
            LeaseName::Shard(_) => "shard",
        };
        let labels = [(GROUP, self.group.clone()), (KIND, kind.to_owned())];
        set(&mut lease.metadata.labels, labels);
        set(&mut lease.metadata.annotations, self.settings());
        if let LeaseName::Member(_) = name {
            let readiness = value_of(*readiness).to_owned();
            set(&mut lease.metadata.annotations, [(READINESS, readiness)]);
        }
        Some(with_holder(&lease, holder.as_deref(), transitions, self.lease_duration))
    }
}

/// Returns the annotation of a member's Lease that states this readiness, with its value.
pub(super) fn annotation_of(readiness: Readiness) -> String {
    format!("{READINESS}={}", value_of(readiness))
}

fn value_of(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Unready => "unready",
        Readiness::Ready => "ready",
        Readiness::Settled => "settled",
    }
}

/// Returns the number of a resource version. `lease` is the name of the object for the error.
pub(super) fn parse_version(version: &str, lease: String) -> Result<u64, GroupError> {
    version.parse().map_err(|_| GroupError::Version { lease, version: version.to_owned() })
}

fn annotation<'l>(lease: &'l Lease, name: &str) -> Option<&'l str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn set<const N: usize>(
    map: &mut Option<BTreeMap<String, String>>,
    entries: [(&'static str, String); N],
) {
    let entries = entries.map(|(name, value)| (name.to_owned(), value));
    map.get_or_insert_default().extend(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(group: &str) -> GroupFormat {
        GroupFormat {
            namespace: "shop".to_owned(),
            group: group.to_owned(),
            shards: ShardCount::new(64).unwrap(),
            by: ShardBy::Key,
            lease_duration: Duration::from_secs(15),
        }
    }

    #[test]
    fn name_of_every_lease_is_read_back() {
        let format = format_of("counter");
        let leases = [
            (LeaseName::Group, "counter"),
            (LeaseName::Shard(7), "counter-shard-007"),
            (LeaseName::Shard(63), "counter-shard-063"),
            (LeaseName::Member("pod-x2.a_9f3a".into()), "counter-member-pod-x2.a.9f3a"),
        ];
        for (lease, name) in leases {
            assert_eq!(format.name_of(&lease), name);
            assert_eq!(format.parse_name(name), Some(lease));
        }
    }

    #[test]
    fn names_of_other_objects_are_no_leases_of_the_group() {
        let format = format_of("counter");
        let names = [
            "counter-shard-7",
            "counter-shard-064",
            "counter-shard-+07",
            "counter-shard-300",
            "counter-member-pod",
            "counter-other",
            "counters",
            "other",
        ];
        for name in names {
            assert_eq!(format.parse_name(name), None, "{name}");
        }
    }

    fn read(metadata: &serde_json::Value) -> Result<Labelled, GroupError> {
        let lease = serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap();
        format_of("counter").read(lease)
    }

    #[test]
    fn version_that_is_no_number_is_an_error_that_names_the_alternatives() {
        let lease = serde_json::json!({ "name": "counter-shard-001", "resourceVersion": "a1" });
        let error = read(&lease).err().unwrap().to_string();
        assert!(error.contains(r#"the resource version "a1" of lease shop/counter-shard-001"#));
        assert!(error.contains("or leader election"), "{error}");
    }

    #[test]
    fn object_with_another_setting_is_a_mismatch_even_if_its_name_is_unknown() {
        let lease = serde_json::json!({
            "name": "counter-shard-100", "resourceVersion": "1",
            "annotations": { "deltafifo/shards": "128" },
        });
        let Ok(Labelled::Mismatched(mismatch)) = read(&lease) else { panic!("it is a mismatch") };
        let expected = RunError::Mismatch {
            lease: "shop/counter-shard-100".to_owned(),
            annotation: "deltafifo/shards",
            found: "128".to_owned(),
            own: "64".to_owned(),
        };
        assert_eq!(mismatch, expected);
    }

    #[test]
    fn replacement_keeps_fields_of_others_and_contains_the_base_as_its_condition() {
        let format = format_of("counter");
        let known: Lease = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "counter-shard-007", "resourceVersion": "12", "uid": "u",
                "labels": { "app": "counter" }, "ownerReferences": [],
            },
            "spec": { "strategy": "OldestEmulationVersion" },
        }))
        .unwrap();
        let Ok(Labelled::Lease(lease)) = format.read(known.clone()) else {
            panic!("it is a Lease of the group")
        };
        let GroupLease { name, record: base, .. } = lease;
        let write = Write::Replace {
            base: Record { version: 11, ..base },
            holder: Some("pod_1".into()),
            transitions: 3,
            readiness: Readiness::Unready,
        };
        let lease = format.written(&name, &write, Some(&known)).unwrap();
        let metadata = &lease.metadata;
        assert_eq!(metadata.resource_version.as_deref(), Some("11"));
        assert_eq!(metadata.uid.as_deref(), Some("u"));
        assert_eq!(metadata.owner_references, Some(Vec::new()));
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!(labels["app"], "counter");
        assert!(format.is_labelled(&lease));
        assert_eq!(annotation(&lease, "deltafifo/shards"), Some("64"));
        assert_eq!(annotation(&lease, READINESS), None);
        let spec = lease.spec.unwrap();
        assert_eq!(spec.strategy.as_deref(), Some("OldestEmulationVersion"));
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.lease_transitions),
            (Some("pod_1"), Some(3))
        );
    }
}
