//! Continue tokens of a list, with a check that the list ends.

use std::collections::HashSet;

use super::RequestError;
use crate::wire::WireError;

/// The continue tokens of a list so far.
#[derive(Default)]
pub(crate) struct Tokens(HashSet<String>);

impl Tokens {
    /// Returns the token of the next page; `None` at the end of the list.
    ///
    /// # Errors
    /// [`RequestError::Wire`]: an earlier page of the list had the same token, so the list would
    /// not end.
    pub(crate) fn next(&mut self, token: Option<String>) -> Result<Option<String>, RequestError> {
        match token {
            Some(token) if !self.0.insert(token.clone()) => {
                let fault = "a continue token that leads back to a page of the same list";
                Err(WireError::not_that(fault, token.as_bytes()).into())
            }
            token => Ok(token),
        }
    }
}
