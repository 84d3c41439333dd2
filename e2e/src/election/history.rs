//! The watch history of one lease and of the two objects that its leaders write.

use std::fmt;

use deltafifo::BoxError;
use deltafifo_informer::leader_election::Term;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::history::{LeaseState, Object, Recorded, Stored, Token, is_of};

pub type Entry = crate::history::Entry<Change>;
pub type Reader = crate::history::Reader<Change>;
pub type Recorder = crate::history::Recorder<Change>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The lease was created, changed or, if there is no state, deleted.
    Lease(Option<LeaseState>),
    /// A leader wrote its token and its identity into an object.
    Write { object: Object, token: Token, identity: String },
}

/// Returns the fencing token of a term.
pub fn token_of(term: &Term) -> Token {
    Token { uid: term.uid().to_owned(), transitions: term.transitions() }
}

impl Recorded for Change {
    fn of(stored: &Stored<'_>) -> Result<Option<(String, Self)>, BoxError> {
        if stored.resource == "leases" {
            let lease = stored.object()?.map(LeaseState::of);
            return Ok(Some((stored.name.to_owned(), Self::Lease(lease))));
        }
        let Some((lease, object)) =
            Object::of(stored.name).filter(|_| stored.resource == "configmaps")
        else {
            return Ok(None);
        };
        let data = stored.object::<ConfigMap>()?.and_then(|map| map.data);
        let written = data.and_then(|data| Token::of_data(&data));
        Ok(written
            .map(|(token, identity)| (lease.to_owned(), Self::Write { object, token, identity })))
    }
}

impl Change {
    /// Returns whether this is a write of the candidate with this name.
    pub fn is_write_of(&self, candidate: &str) -> bool {
        matches!(self, Self::Write { identity, .. } if is_of(identity, candidate))
    }

    /// Returns whether the lease has no holder after this change.
    pub fn is_release(&self) -> bool {
        matches!(self, Self::Lease(Some(LeaseState { holder: None, .. })))
    }

    /// Returns whether the candidate with this name holds the lease after this change.
    pub fn is_claim_of(&self, candidate: &str) -> bool {
        let Self::Lease(Some(LeaseState { holder: Some(holder), .. })) = self else { return false };
        is_of(holder, candidate)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease(Some(lease)) => write!(f, "lease {lease}"),
            Self::Lease(None) => f.write_str("lease deleted"),
            Self::Write { object, token, identity } => {
                write!(f, "{object:?} written by {identity} in {token}")
            }
        }
    }
}
