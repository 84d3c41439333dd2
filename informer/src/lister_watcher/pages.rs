//! The pages of a list, with checks that each page is complete and that the list ends.

use std::collections::HashSet;

use super::{Listed, PageMeta, RequestError};
use crate::wire::WireError;

/// The state of a list that is read page by page.
pub(crate) struct Pages {
    /// The name of the list in errors.
    what: &'static str,
    /// The continue tokens of the list so far.
    tokens: HashSet<String>,
    /// The metadata of the current page, once it has arrived.
    meta: Option<PageMeta>,
    /// Whether the last piece of the current page is an object that is too large.
    ends_too_large: bool,
}

impl Pages {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, tokens: HashSet::new(), meta: None, ends_too_large: false }
    }

    /// Records a piece of the current page. The caller calls it for each piece.
    pub(crate) fn record(&mut self, piece: &Result<Listed, RequestError>) {
        self.ends_too_large = matches!(piece, Err(RequestError::TooLarge(_)));
        if let Ok(Listed::Meta(meta)) = piece {
            self.meta = Some(meta.clone());
        }
    }

    /// Returns whether the metadata of the current page has arrived.
    pub(crate) fn has_meta(&self) -> bool {
        self.meta.is_some()
    }

    /// Ends the current page. Returns its metadata, which has the token of the next page; without
    /// one, the list is complete.
    ///
    /// # Errors
    /// [`RequestError::Broken`] if the page ends with an object that is too large.
    /// [`RequestError::Wire`] if it has no version, or if an earlier page of the list had the same
    /// token, so that the list would not end.
    pub(crate) fn end_page(&mut self) -> Result<PageMeta, RequestError> {
        let meta = self.meta.take().filter(|meta| !meta.resource_version.is_empty());
        if std::mem::take(&mut self.ends_too_large) {
            return Err(RequestError::cut_at_large());
        }
        let meta = meta.ok_or_else(|| RequestError::without_version(self.what))?;
        match &meta.continue_token {
            Some(token) if !self.tokens.insert(token.clone()) => {
                let fault = "a continue token that leads back to a page of the same list";
                Err(WireError::not_that(fault, token.as_bytes()).into())
            }
            _ => Ok(meta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;
    use crate::error_chain;
    use crate::lister_watcher::{Listed, PageMeta, RequestError, TooLarge};

    type Piece = Result<Listed, RequestError>;

    fn page(version: &str, token: Option<&str>) -> Listed {
        let meta = PageMeta {
            resource_version: version.to_owned(),
            continue_token: token.map(str::to_owned),
            ..PageMeta::default()
        };
        Listed::Meta(meta)
    }

    fn too_large() -> Piece {
        Err(RequestError::TooLarge(Box::<TooLarge>::default()))
    }

    /// Reads a page of these pieces. Returns its token, or the texts of the error.
    fn end(pages: &mut Pages, pieces: &[Piece]) -> Result<Option<String>, String> {
        for piece in pieces {
            pages.record(piece);
        }
        pages.end_page().map(|meta| meta.continue_token).map_err(|error| error_chain(&error))
    }

    #[test]
    fn page_that_ends_with_an_object_that_is_too_large_is_rejected() {
        let mut pages = Pages::new("it");
        assert_eq!(
            end(&mut pages, &[too_large(), Ok(page("7", Some("t1")))]),
            Ok(Some("t1".into()))
        );
        let error = end(&mut pages, &[Ok(page("7", None)), too_large()]).unwrap_err();
        assert!(error.contains("at an object that is too large"), "{error}");
    }

    #[test]
    fn each_page_needs_a_version_of_its_own() {
        let mut pages = Pages::new("it");
        assert_eq!(end(&mut pages, &[Ok(page("7", Some("t1")))]), Ok(Some("t1".into())));
        for pieces in [vec![], vec![Ok(page("", None))], vec![Ok(Listed::Items(Vec::new()))]] {
            let error = end(&mut pages, &pieces).unwrap_err();
            assert!(error.contains("it without its version"), "{error}");
        }
    }

    #[test]
    fn token_that_leads_back_is_rejected() {
        let mut pages = Pages::new("it");
        for token in ["t1", "t2"] {
            assert_eq!(end(&mut pages, &[Ok(page("7", Some(token)))]), Ok(Some(token.to_owned())));
        }
        let error = end(&mut pages, &[Ok(page("7", Some("t1")))]).unwrap_err();
        assert!(error.contains("leads back to a page of the same list"), "{error}");
    }

    #[test]
    fn metadata_is_that_of_the_current_page() {
        let mut pages = Pages::new("it");
        assert!(!pages.has_meta());
        pages.record(&Ok(page("7", Some("t1"))));
        assert!(pages.has_meta());
        pages.end_page().unwrap();
        assert!(!pages.has_meta());
        assert_eq!(end(&mut pages, &[Ok(page("7", None))]), Ok(None));
    }
}
