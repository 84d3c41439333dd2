//! The terms of one Lease.
//!
//! A *term* begins with a claim: a change of the Lease to another holder, or to a larger number of
//! transitions. Terms are in the order of their claims.
//!
//! The uid of a Lease changes only after a deletion, and no uid returns. Otherwise the record is
//! wrong. Holders must keep these rules: the transitions of a Lease never fall; a Lease gets
//! another holder only with a larger number of transitions; a term has a holder.

use super::{LeaseState, Token};

/// The terms of a Lease, from the changes so far.
#[derive(Default)]
pub struct Terms {
    uids: Vec<String>,
    /// The last state of the Lease; `None` if it does not exist.
    lease: Option<LeaseState>,
    all: Vec<Term>,
}

/// A term. It is identified by its number in the sequence of terms.
pub struct Term {
    token: Token,
    holder: String,
    /// The version of its claim.
    pub claimed: u64,
}

impl Terms {
    /// Adds a change of the Lease: to this state, or its deletion. Returns the rules that it
    /// breaks.
    ///
    /// # Errors
    /// The reason why the record is wrong.
    pub fn add(
        &mut self,
        version: u64,
        lease: Option<&LeaseState>,
    ) -> Result<Vec<&'static str>, &'static str> {
        let mut broken = Vec::new();
        let Some(state) = lease else {
            self.lease = None;
            return Ok(broken);
        };
        let LeaseState { token, holder } = state;
        let (transitions, last_holder) = match &self.lease {
            None if self.uids.contains(&token.uid) => return Err("a uid returns"),
            None => {
                self.uids.push(token.uid.clone());
                // The creator of a Lease may be its holder, but then has no term.
                (0, holder)
            }
            Some(last) if last.token.uid != token.uid => {
                return Err("the uid changes without a deletion");
            }
            Some(last) => (last.token.transitions, &last.holder),
        };
        let is_other = holder.is_some() && holder != last_holder;
        if is_other && token.transitions == transitions {
            broken.push("the holder changes without a transition");
        }
        if token.transitions < transitions {
            broken.push("the transitions fall");
        }
        if is_other || token.transitions > transitions {
            match holder.clone() {
                Some(holder) => {
                    self.all.push(Term { token: token.clone(), holder, claimed: version });
                }
                None => broken.push("a term has no holder"),
            }
        }
        self.lease = Some(state.clone());
        Ok(broken)
    }

    /// Returns the number of the term with this token, whose holder has this identity.
    ///
    /// # Errors
    /// The rule that a write with this token and identity breaks.
    pub fn number_of(&self, token: &Token, identity: &str) -> Result<usize, &'static str> {
        let is_term = |term: &Term| term.token == *token && term.holder == identity;
        let has_begun = || self.all.iter().any(|term| term.token == *token);
        self.all.iter().rposition(is_term).ok_or_else(|| {
            if has_begun() {
                "the writer is not the holder of its term"
            } else {
                "the term has not begun"
            }
        })
    }

    /// Returns the terms so far.
    pub fn all(&self) -> &[Term] {
        &self.all
    }
}
