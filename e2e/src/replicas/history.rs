//! The watch history of one group: of its Leases, and of the config maps that its replicas
//! reconcile.

use std::collections::BTreeMap;
use std::fmt;

use deltafifo::BoxError;
use deltafifo_informer::sharding::Permit;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::history::{LeaseState, Object, Recorded, Stored, Token};

pub type Entry = crate::history::Entry<Change>;
pub type Reader = crate::history::Reader<Change>;
pub type Recorder = crate::history::Recorder<Change>;

/// A change of an object, which was deleted if it has no state. The name of the group, with which
/// the names of its objects begin, is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Group(Option<LeaseState>),
    Shard { shard: u8, lease: Option<LeaseState> },
    Member { name: String, lease: Option<LeaseState> },
    Map { name: String, object: Object, state: Option<MapState> },
}

/// The state of a config map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapState {
    pub uid: String,
    /// The number of the last change by the outside writer. It rises.
    pub change: u64,
    /// The last reconcile; `None` if the map was not reconciled yet.
    pub stamp: Option<Stamp>,
}

/// The note that a reconcile writes into its config map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub shard: u8,
    pub token: Token,
    pub identity: String,
    /// The number of the change that the reconcile has seen.
    pub seen: u64,
}

impl Recorded for Change {
    fn of(stored: &Stored<'_>) -> Result<Option<(String, Self)>, BoxError> {
        let (group, name) = stored.name.split_once('-').unwrap_or((stored.name, ""));
        let lease = || -> Result<_, BoxError> { Ok(stored.object()?.map(LeaseState::of)) };
        let change = match stored.resource {
            "leases" => {
                if name.is_empty() {
                    Self::Group(lease()?)
                } else if let Some(shard) = name.strip_prefix("shard-") {
                    Self::Shard { shard: shard.parse()?, lease: lease()? }
                } else {
                    Self::Member { name: name.to_owned(), lease: lease()? }
                }
            }
            "configmaps" => {
                let Some((_, object)) = Object::of(name) else { return Ok(None) };
                let state = stored.object()?.map(|map| MapState::of(&map));
                Self::Map { name: name.to_owned(), object, state }
            }
            _ => return Ok(None),
        };
        Ok(Some((group.to_owned(), change)))
    }
}

impl MapState {
    pub fn of(map: &ConfigMap) -> Self {
        let uid = map.metadata.uid.clone().unwrap_or_default();
        let data = map.data.as_ref();
        let change = data.and_then(|data| data.get("change")?.parse().ok()).unwrap_or_default();
        Self { uid, change, stamp: data.and_then(Stamp::of_data) }
    }
}

impl Stamp {
    /// Returns the stamp of a reconcile with this permit, which has seen a change.
    pub fn of(permit: &Permit, seen: u64) -> Self {
        let token = Token { uid: permit.uid().to_owned(), transitions: permit.transitions() };
        Self { shard: permit.shard(), token, identity: permit.member().to_owned(), seen }
    }

    fn of_data(data: &BTreeMap<String, String>) -> Option<Self> {
        let (token, identity) = Token::of_data(data)?;
        let (shard, seen) = (data.get("shard")?.parse().ok()?, data.get("seen")?.parse().ok()?);
        Some(Self { shard, token, identity, seen })
    }

    /// Returns the data of a config map that a reconcile with this stamp writes.
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut data = self.token.data(&self.identity);
        data.insert("shard".to_owned(), self.shard.to_string());
        data.insert("seen".to_owned(), self.seen.to_string());
        data
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = |f: &mut fmt::Formatter<'_>, lease: &Option<LeaseState>| match lease {
            Some(lease) => write!(f, " {lease}"),
            None => f.write_str(" deleted"),
        };
        match self {
            Self::Group(state) => f.write_str("group").and_then(|()| lease(f, state)),
            Self::Shard { shard, lease: state } => {
                write!(f, "shard {shard}").and_then(|()| lease(f, state))
            }
            Self::Member { name, lease: state } => f.write_str(name).and_then(|()| lease(f, state)),
            Self::Map { name, state: None, .. } => write!(f, "{name} deleted"),
            Self::Map { name, state: Some(MapState { change, stamp, .. }), .. } => {
                write!(f, "{name} at change {change}, ")?;
                match stamp {
                    Some(Stamp { shard, token, identity, seen }) => {
                        write!(f, "reconciled at {seen} by {identity} in {token} of shard {shard}")
                    }
                    None => f.write_str("not reconciled"),
                }
            }
        }
    }
}
