//! The watch history of one lease and of the two objects that its leaders write.

use std::collections::BTreeMap;
use std::fmt;

use deltafifo_informer::leader_election::Term;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

/// A change in a history, whose entries are in the order of their versions.
#[derive(Clone, Debug)]
pub struct Entry {
    pub version: u64,
    /// The time when the watch delivered the change. The judge does not read it.
    pub at: Instant,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The lease was created or changed.
    Lease { token: Token, holder: Option<String> },
    /// The lease was deleted.
    LeaseDeleted,
    /// A leader wrote its token and its identity into an object.
    Write { object: Object, token: Token, identity: String },
}

/// A fencing token: the uid of a lease, and its number of transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub uid: String,
    pub transitions: i32,
}

/// An object that leaders write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Each write contains the `resourceVersion` that it replaces.
    Versioned,
    /// The writes contain no `resourceVersion`.
    Plain,
}

impl Object {
    pub const ALL: [Self; 2] = [Self::Versioned, Self::Plain];

    fn suffix(self) -> &'static str {
        match self {
            Self::Versioned => "-versioned",
            Self::Plain => "-plain",
        }
    }

    /// Returns the name of the object that belongs to this lease.
    pub fn name(self, lease: &str) -> String {
        format!("{lease}{}", self.suffix())
    }

    /// Returns the lease and the object that a name belongs to.
    pub fn of(name: &str) -> Option<(&str, Self)> {
        Self::ALL.into_iter().find_map(|object| Some((name.strip_suffix(object.suffix())?, object)))
    }
}

impl Token {
    pub fn of(term: &Term) -> Self {
        Self { uid: term.uid().to_owned(), transitions: term.transitions() }
    }

    /// Returns the data of an object that the leader with this token writes.
    pub fn data(&self, identity: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("uid".to_owned(), self.uid.clone()),
            ("transitions".to_owned(), self.transitions.to_string()),
            ("identity".to_owned(), identity.to_owned()),
        ])
    }
}

impl Change {
    pub fn of_lease(lease: Option<Lease>) -> Self {
        let Some(lease) = lease else { return Self::LeaseDeleted };
        let spec = lease.spec.unwrap_or_default();
        let token = Token {
            uid: lease.metadata.uid.unwrap_or_default(),
            transitions: spec.lease_transitions.unwrap_or_default(),
        };
        Self::Lease { token, holder: spec.holder_identity.filter(|holder| !holder.is_empty()) }
    }

    /// Returns the write that a state of the object records, or `None` if no leader has written it
    /// yet.
    pub fn of_write(object: Object, map: ConfigMap) -> Option<Self> {
        let mut data = map.data?;
        let token =
            Token { uid: data.remove("uid")?, transitions: data.get("transitions")?.parse().ok()? };
        Some(Self::Write { object, token, identity: data.remove("identity")? })
    }

    /// Returns whether this is a write of the candidate with this name.
    pub fn is_write_of(&self, candidate: &str) -> bool {
        matches!(self, Self::Write { identity, .. } if is_of(identity, candidate))
    }

    /// Returns whether the lease has no holder after this change.
    pub fn is_release(&self) -> bool {
        matches!(self, Self::Lease { holder: None, .. })
    }

    /// Returns whether the candidate with this name holds the lease after this change.
    pub fn is_claim_of(&self, candidate: &str) -> bool {
        matches!(self, Self::Lease { holder: Some(holder), .. } if is_of(holder, candidate))
    }
}

/// Returns whether this is an identity of the candidate with this name. An identity is the name,
/// `_`, and a text without `_`: a UUID, or the id of the process of another program.
fn is_of(identity: &str, candidate: &str) -> bool {
    identity.rsplit_once('_').is_some_and(|(name, _)| name == candidate)
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.version)?;
        match &self.change {
            Change::Lease { token, holder } => {
                write!(f, "lease {token} holder {}", holder.as_deref().unwrap_or("none"))
            }
            Change::LeaseDeleted => f.write_str("lease deleted"),
            Change::Write { object, token, identity } => {
                write!(f, "{object:?} written by {identity} in {token}")
            }
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {} of {}", self.transitions, self.uid)
    }
}
