//! Short histories for tests.

use std::time::Duration;

use tokio::time::Instant;

use super::history::{Change, Entry, MapState, Stamp};
use crate::history::{LeaseState, Object, Token};

pub const PLAIN: Object = Object::Plain;

pub fn token(uid: &str, transitions: i32) -> Token {
    Token { uid: uid.to_owned(), transitions }
}

fn lease(uid: &str, transitions: i32, holder: &str) -> LeaseState {
    let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
    LeaseState { token: token(uid, transitions), holder }
}

/// Returns a change of the Lease of a shard. It has no holder if `holder` is empty.
pub fn shard(shard: u8, uid: &str, transitions: i32, holder: &str) -> Change {
    Change::Shard { shard, lease: Some(lease(uid, transitions, holder)) }
}

pub fn shard_deleted(shard: u8) -> Change {
    Change::Shard { shard, lease: None }
}

/// Returns a renewal by the member with this identity.
pub fn member(identity: &str) -> Change {
    Change::Member { name: identity.to_owned(), lease: Some(lease(identity, 0, identity)) }
}

/// Returns the creation of a map, or a change of it before its first reconcile.
pub fn changed(object: Object, change: u64) -> Change {
    map(object, change, None)
}

/// Returns the write of a reconcile of an object in shard 0, or a change of it after that.
pub fn written(object: Object, change: u64, by: (&str, i32, &str), seen: u64) -> Change {
    let (uid, transitions, identity) = by;
    let (token, identity) = (token(uid, transitions), identity.to_owned());
    map(object, change, Some(Stamp { shard: 0, token, identity, seen }))
}

pub fn map(object: Object, change: u64, stamp: Option<Stamp>) -> Change {
    let state = Some(MapState { uid: "m".to_owned(), change, stamp });
    Change::Map { name: object.name("map"), object, state }
}

/// Returns a history of these changes, one a second. The first one has the version 1.
pub fn history(changes: impl IntoIterator<Item = Change>) -> Vec<Entry> {
    let begin = Instant::now();
    let at = |version| begin + Duration::from_secs(version);
    let entry = |(version, change)| Entry { version, at: at(version), change };
    (1..).zip(changes).map(entry).collect()
}
