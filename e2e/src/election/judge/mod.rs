//! Judges the history of a lease.
//!
//! A *term* begins with a claim: a change of the lease to a holder and to a larger number of
//! transitions. Terms are in the order in which the leases with their uids were created, and then
//! in that of their transitions. A write is *overlapped* if a write of a later term to the same
//! object precedes it. A write is *late* if the claim of a later term precedes it; so every
//! overlapped write is late.
//!
//! In every history the versions must rise, and the transitions of a lease may not fall. A lease
//! gets another holder only with a larger number of transitions. Its uid changes only after a
//! deletion, and no uid returns. A term has one holder, and a write names a term that has begun,
//! with its holder. If a rule is broken, an error is returned: either the elector or the record is
//! wrong.

#[cfg(test)]
mod tests;

use super::history::{Change, Entry, Object, Token};

/// The numbers of overlapped and late writes, by object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub versioned: Faults,
    pub plain: Faults,
    /// The number of terms.
    pub terms: usize,
    /// The number of writes, to both objects.
    pub writes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub overlapped: usize,
    pub late: usize,
}

/// A term. It is identified by its number in the sequence of terms.
struct Term<'h> {
    token: &'h Token,
    holder: &'h str,
}

/// Judges the complete history of one lease.
///
/// # Errors
/// A message with the entry that breaks a rule.
pub fn judge(history: &[Entry]) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    let mut uids: Vec<&str> = Vec::new();
    // The last state of the lease, with its holder.
    let mut lease: Option<(&Token, Option<&str>)> = None;
    let mut terms: Vec<Term> = Vec::new();
    // The last terms that have written the objects.
    let mut written = [None; 2];
    let mut version = 0;
    for entry in history {
        let wrong = |rule: &str| Err(format!("{rule}: {entry}"));
        if entry.version <= version {
            return wrong("the versions fall");
        }
        version = entry.version;
        match &entry.change {
            Change::Lease { token, holder } => {
                let holder = holder.as_deref();
                let transitions = match lease {
                    None if uids.contains(&token.uid.as_str()) => return wrong("a uid returns"),
                    None => {
                        uids.push(&token.uid);
                        // The creator of a lease may be its holder, but then has no term.
                        0
                    }
                    Some((last, _)) if last.uid != token.uid => {
                        return wrong("the uid changes without a deletion");
                    }
                    Some((last, last_holder)) => {
                        let is_other = holder.is_some() && holder != last_holder;
                        if is_other && token.transitions == last.transitions {
                            return wrong("the holder changes without a transition");
                        }
                        last.transitions
                    }
                };
                if token.transitions < transitions {
                    return wrong("the transitions fall");
                }
                if token.transitions > transitions {
                    let Some(holder) = holder else { return wrong("a term has no holder") };
                    terms.push(Term { token, holder });
                }
                lease = Some((token, holder));
            }
            Change::LeaseDeleted => lease = None,
            Change::Write { object, token, identity } => {
                let Some(number) = terms.iter().rposition(|term| term.token == token) else {
                    return wrong("the term has not begun");
                };
                if terms[number].holder != identity {
                    return wrong("the writer is not the holder of its term");
                }
                let (faults, last) = match object {
                    Object::Versioned => (&mut verdict.versioned, &mut written[0]),
                    Object::Plain => (&mut verdict.plain, &mut written[1]),
                };
                faults.overlapped += usize::from(*last > Some(number));
                faults.late += usize::from(number + 1 < terms.len());
                *last = (*last).max(Some(number));
                verdict.writes += 1;
            }
        }
    }
    verdict.terms = terms.len();
    Ok(verdict)
}
