//! A consistent list of metadata, beside the lists and watches that feed the target.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::Reflector;
use super::limits::Limits;
use crate::lister_watcher::{
    ListRequest, Listed, ObjectLimit, Pages, RequestError, is_point_in_time,
};
use crate::meta::object_key;
use crate::wire::WireError;

/// The longest time for all pages of a snapshot.
const LONGEST_SNAPSHOT: Duration = Duration::from_secs(600);

/// The metadata of a listed object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedMeta {
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) uid: Option<Box<str>>,
    pub(crate) resource_version: Option<Box<str>>,
}

impl ListedMeta {
    /// Returns `namespace/name`, or `name`, or `None` if the object has no name.
    pub(crate) fn key(&self) -> Option<Box<str>> {
        let name = self.name.as_deref().filter(|name| !name.is_empty())?;
        Some(object_key(self.namespace.as_deref(), name).into())
    }
}

#[derive(Deserialize)]
struct ListedObject {
    metadata: ListedMeta,
}

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Lists the newest state, and calls `visit` with the metadata of each object. Returns the
    /// version of the list. Changes neither the target nor the versions of the reflector.
    pub(crate) async fn snapshot(
        &self,
        visit: &mut (dyn FnMut(ListedMeta) + Send),
    ) -> Result<String, RequestError> {
        const WHAT: &str = "a list of metadata";
        let end = Instant::now() + LONGEST_SNAPSHOT;
        let mut limits = Limits::new(WHAT, self.silence, end, ObjectLimit::default());
        let (mut request, mut pages) = (ListRequest::default(), Pages::new(WHAT));
        let mut version = None;
        loop {
            let mut page = limits.wait(self.source.list_metadata(request.clone())).await??;
            limits.piece_counts();
            while let Some(listed) = limits.next(&mut page).await? {
                pages.record(&listed);
                match listed {
                    Ok(Listed::Items(items)) => {
                        for item in items {
                            let object: ListedObject = serde_json::from_slice(&item)
                                .map_err(|e| WireError::not_that(e.to_string(), &item))?;
                            visit(object.metadata);
                        }
                        tokio::task::consume_budget().await;
                    }
                    // The store cannot have an object that is too large, either.
                    Ok(Listed::Meta(_)) | Err(RequestError::TooLarge(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            let meta = pages.end_page()?;
            if !is_point_in_time(&meta.resource_version) {
                return Err(RequestError::without_version(WHAT));
            }
            // Later pages show the state of the first page, or a newer one.
            let version = version.get_or_insert(meta.resource_version);
            request.continue_token = meta.continue_token;
            if request.continue_token.is_none() {
                return Ok(std::mem::take(version));
            }
        }
    }
}
