//! Histories of Leases and of the objects that their holders write, as a watch of etcd shows them.

mod recorder;
mod terms;

pub use recorder::{Reader, Recorder, Stored};
pub use terms::Terms;

use std::collections::BTreeMap;
use std::fmt;

use deltafifo::BoxError;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

/// A change in a history, whose entries are in the order of their versions.
#[derive(Clone, Debug)]
pub struct Entry<C> {
    pub version: u64,
    /// The time when the watch delivered the change. No judge reads it.
    pub at: Instant,
    pub change: C,
}

/// A change that a [`Recorder`] records.
pub trait Recorded: fmt::Display + Clone + Send + Sync + Sized + 'static {
    /// Returns the name of the history and the change, or `None` if no history contains this
    /// object.
    fn of(stored: &Stored<'_>) -> Result<Option<(String, Self)>, BoxError>;
}

/// The state of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    pub token: Token,
    pub holder: Option<String>,
}

/// A fencing token: the uid of a Lease, and its number of transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub uid: String,
    pub transitions: i32,
}

/// An object that holders write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Each write contains the `resourceVersion` that it replaces.
    Versioned,
    /// The writes contain no `resourceVersion`.
    Plain,
}

/// A rule, and the entry that breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    pub rule: &'static str,
    pub entry: String,
}

impl Object {
    pub const ALL: [Self; 2] = [Self::Versioned, Self::Plain];

    fn suffix(self) -> &'static str {
        match self {
            Self::Versioned => "-versioned",
            Self::Plain => "-plain",
        }
    }

    /// Returns the name of the object, of which `prefix` is the beginning.
    pub fn name(self, prefix: &str) -> String {
        format!("{prefix}{}", self.suffix())
    }

    /// Returns the beginning of a name, and the object.
    pub fn of(name: &str) -> Option<(&str, Self)> {
        Self::ALL.into_iter().find_map(|object| Some((name.strip_suffix(object.suffix())?, object)))
    }
}

impl Token {
    /// Returns the data of an object that the holder with this token writes.
    pub fn data(&self, identity: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("uid".to_owned(), self.uid.clone()),
            ("transitions".to_owned(), self.transitions.to_string()),
            ("identity".to_owned(), identity.to_owned()),
        ])
    }

    /// Returns the token and the identity in the data of an object. Returns `None` if no holder has
    /// written it yet.
    pub fn of_data(data: &BTreeMap<String, String>) -> Option<(Self, String)> {
        let uid = data.get("uid")?.clone();
        let transitions = data.get("transitions")?.parse().ok()?;
        Some((Self { uid, transitions }, data.get("identity")?.clone()))
    }
}

impl LeaseState {
    pub fn of(lease: Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        let token = Token {
            uid: lease.metadata.uid.unwrap_or_default(),
            transitions: spec.lease_transitions.unwrap_or_default(),
        };
        Self { token, holder: spec.holder_identity.filter(|holder| !holder.is_empty()) }
    }
}

/// Returns whether this is an identity of the process with this name. An identity is the name, `_`,
/// and a text without `_`: a random number, or the id of the process of another program.
pub fn is_of(identity: &str, name: &str) -> bool {
    identity.rsplit_once('_').is_some_and(|(process, _)| process == name)
}

/// Returns an error if the versions do not rise: then the record is wrong.
pub fn check_versions<C: fmt::Display>(history: &[Entry<C>]) -> Result<(), String> {
    match history.windows(2).find(|pair| pair[0].version >= pair[1].version) {
        Some(pair) => Err(format!("the versions fall: {}", pair[1])),
        None => Ok(()),
    }
}

impl BrokenRule {
    pub fn new<C: fmt::Display>(rule: &'static str, entry: &Entry<C>) -> Self {
        Self { rule, entry: entry.to_string() }
    }
}

impl<C: fmt::Display> fmt::Display for Entry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.change)
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, holder } = self;
        write!(f, "{token} holder {}", holder.as_deref().unwrap_or("none"))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {} of {}", self.transitions, self.uid)
    }
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.entry)
    }
}
