//! The continue tokens of a list, which must lead to its end.

use std::collections::HashSet;

use super::RequestError;
use crate::wire::WireError;

/// The tokens of the pages of a list so far.
#[derive(Default)]
pub(crate) struct Tokens(HashSet<String>);

impl Tokens {
    /// Returns the token of the next page; `None` at the end of the list.
    ///
    /// # Errors
    /// [`WireError`]: the token is that of a page before, so the list would never end.
    pub(crate) fn next(&mut self, token: Option<String>) -> Result<Option<String>, RequestError> {
        match token {
            Some(token) if !self.0.insert(token.clone()) => {
                let what = "a continue token that leads back to a page of the same list";
                Err(WireError::not_that(what, token.as_bytes()).into())
            }
            token => Ok(token),
        }
    }
}
