//! Lists all objects: the first time at any version, later not older than the last known version,
//! and in pages if the server has no cache.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::batches::{Batch, BatchOutcome, BatchSender, Batches, keep_unlisted, receive};
use super::error::{ListFailure, ReflectorError, Stop};
use super::limits::Limits;
use super::target::Pieces;
use super::watch::MOST_ATTEMPTS;
use super::{Reflector, retry_after};
use crate::lister_watcher::{ListRequest, Listed, PageMeta, Pages, RawObject, RequestError};

/// The longest time for all pages of a list. An API server ends the response for a page after a
/// minute, and continue tokens expire within minutes, so a working server does not take this long.
const LONGEST_LIST: Duration = Duration::from_secs(3_600);

/// The longest time for the final list of a namespace, with its repetitions. Until it ends, the
/// store has objects of the namespace that no watch updates. Three lists that the server does not
/// answer take about as long.
const LONGEST_FINAL_LIST: Duration = Duration::from_secs(300);

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Lists all objects. Known objects that are not listed are deleted.
    pub(super) async fn list(&self) -> Result<(), Stop> {
        let request = self.first_page();
        let mut listed = self.list_from(request).await;
        if let Err(ListFailure::Request(error)) = listed {
            if !error.is_version_unavailable() {
                return Err(ReflectorError::List(error).into());
            }
            // Retry once without a wait: the server cannot serve the requested version, which is
            // too old or too new, but it can serve its newest state.
            self.versions.lock().set_unavailable(&error);
            self.report(&ReflectorError::List(error));
            listed = self.list_from(self.first_page()).await;
        }
        match listed {
            Ok(()) => Ok(()),
            Err(ListFailure::Request(error)) => Err(ReflectorError::List(error).into()),
            Err(ListFailure::Stop(stop)) => Err(stop),
        }
    }

    /// Lists the newest state one last time, without a watch. A failure is reported, and the list
    /// is tried again a few times, unless the server forbids it or does not have the resource. Ends
    /// after five minutes at the latest.
    ///
    /// Call this method only after all threads of earlier runs have ended their work.
    pub(crate) async fn list_newest(&self) {
        let mut backoff = self.backoff.clone();
        let end = Instant::now() + LONGEST_FINAL_LIST;
        for attempt in 1..=MOST_ATTEMPTS {
            self.versions.lock().set_least("");
            let Ok(listed) = timeout_at(end, self.list()).await else {
                let what = "the final list of a namespace";
                let error = RequestError::Endless { what, after: LONGEST_FINAL_LIST };
                return self.report(&ReflectorError::FinalList(error));
            };
            let Err(Stop::Failed(error)) = listed else { return };
            let wait = backoff.next(retry_after(&error));
            let is_last = attempt == MOST_ATTEMPTS || Instant::now() + wait >= end;
            if error.is_unavailable() || is_last {
                return self.report(&error.of_final_list());
            }
            self.report(&error);
            sleep(wait).await;
        }
    }

    fn first_page(&self) -> ListRequest {
        let versions = self.versions.lock();
        let (resource_version, not_older_than) = versions.for_list();
        let limit = versions.page_size(&resource_version, self.page_size);
        ListRequest { resource_version, not_older_than, limit, continue_token: None }
    }

    /// Lists all pages, beginning with `request`. If the token of a page expires, lists all
    /// objects in a single page instead, not older than the first page.
    async fn list_from(&self, request: ListRequest) -> Result<(), ListFailure> {
        let mut first_page = PageMeta::default();
        match self.relist(&request, &mut first_page).await {
            Err(ListFailure::Request(error))
                if error.is_expired() && !first_page.resource_version.is_empty() =>
            {
                self.report(&ReflectorError::List(error));
                let resource_version = std::mem::take(&mut first_page.resource_version);
                let whole = ListRequest {
                    resource_version,
                    not_older_than: true,
                    ..ListRequest::default()
                };
                self.relist(&whole, &mut first_page).await
            }
            done => done,
        }
    }

    async fn relist(
        &self,
        request: &ListRequest,
        first_page: &mut PageMeta,
    ) -> Result<(), ListFailure> {
        let (sender, batches) = BatchSender::new(&self.in_flight);
        let reading = self.read(sender, request.clone(), first_page);
        let list = async {
            // The relist begins before the request, because the list counts for the history in
            // which its relist began.
            let pieces = self.begin()?;
            let received = self.receive(pieces, batches);
            let (version, (pieces, items)) = tokio::try_join!(reading, received)?;
            self.commit(pieces, version).await.map_err(ListFailure::Stop)?;
            Ok(((), items))
        };
        self.listing("list", &request.resource_version, list).await
    }

    /// Begins a relist of the target.
    pub(super) fn begin(&self) -> Result<Box<dyn Pieces<K>>, ListFailure> {
        let mut pieces = Arc::clone(&self.target).begin();
        let (keeps_unlisted, is_rewound) = {
            let versions = self.versions.lock();
            (versions.met_nameless(), versions.is_rewound())
        };
        if is_rewound {
            pieces.ignore_versions();
        }
        if keeps_unlisted {
            keep_unlisted(pieces.as_mut()).map_err(|error| ListFailure::Stop(error.into()))?;
        }
        Ok(pieces)
    }

    /// Passes batches to a relist of the target until the reader has no more. Returns the relist,
    /// and the number of listed objects.
    pub(super) async fn receive(
        &self,
        pieces: Box<dyn Pieces<K>>,
        batches: Batches,
    ) -> Result<(Box<dyn Pieces<K>>, usize), ListFailure> {
        let mut items = 0;
        let record = |outcome: BatchOutcome| {
            items += outcome.items;
            self.metrics.record(|metrics| metrics.received(&outcome));
            outcome.errors.iter().for_each(|error| self.report(error));
        };
        let received =
            receive(&self.target, pieces, &self.decoder, &self.threads, batches, record).await;
        received.map(|pieces| (pieces, items)).map_err(ListFailure::Stop)
    }

    /// Commits a complete relist, which deletes the objects that were not listed.
    pub(super) async fn commit(
        &self,
        pieces: Box<dyn Pieces<K>>,
        version: String,
    ) -> Result<(), Stop> {
        let (committed, version) =
            self.threads.run(move || (pieces.commit(&version), version)).await?;
        for refused in committed.map_err(ReflectorError::from)? {
            self.report(&ReflectorError::refused(refused));
        }
        self.versions.lock().listed(&version);
        self.decoder.0.end_list();
        Ok(())
    }

    /// Reads page after page. The list has the version of its first page: if a later page is newer,
    /// the watch delivers the changes since the first.
    pub(super) async fn read(
        &self,
        mut sender: BatchSender,
        mut request: ListRequest,
        first_page: &mut PageMeta,
    ) -> Result<String, ListFailure> {
        let mut limits = Limits::new(
            "a list",
            self.silence,
            Instant::now() + LONGEST_LIST,
            self.object_limit.clone(),
        );
        let (mut items, mut pages) = (0, Pages::new("a list"));
        loop {
            let mut page = limits
                .wait(self.source.list_within(request.clone(), self.object_limit.clone()))
                .await??;
            limits.piece_counts();
            while let Some(listed) = limits.next(&mut page).await? {
                pages.record(&listed);
                let listed = match listed {
                    Ok(listed) => listed,
                    Err(RequestError::TooLarge(large)) => {
                        items += 1;
                        sender.items([RawObject::TooLarge(large)]).await;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                match listed {
                    Listed::Items(listed) => {
                        if !pages.has_meta()
                            && request.continue_token.is_none()
                            && !listed.is_empty()
                        {
                            // The version of these items is not known yet.
                            self.versions.lock().set_least("");
                        }
                        items += listed.len();
                        sender.items(listed.into_iter().map(RawObject::Json)).await;
                    }
                    Listed::Meta(found) => {
                        let remaining =
                            usize::try_from(found.remaining.unwrap_or(0)).unwrap_or(usize::MAX);
                        sender
                            .send(Batch::Expect(
                                remaining.saturating_add(items + request.limit as usize),
                            ))
                            .await;
                        if request.continue_token.is_none() {
                            if self.versions.lock().is_of_another_history(&found.resource_version) {
                                sender.send(Batch::IgnoreVersions).await;
                            }
                            self.record_first_page(&request, &found);
                            *first_page = found;
                        }
                    }
                }
            }
            // Do not hold items back until the next page arrives.
            sender.flush().await;
            request.continue_token = pages.end_page()?.continue_token;
            if request.continue_token.is_none() {
                return Ok(first_page.resource_version.clone());
            }
        }
    }

    /// Records the first page of a list. From now on the target may have received a part of that
    /// list, even if it does not complete.
    fn record_first_page(&self, request: &ListRequest, first_page: &PageMeta) {
        let mut versions = self.versions.lock();
        versions.set_least(&first_page.resource_version);
        if request.resource_version == "0" && first_page.continue_token.is_some() {
            versions.set_pages();
        }
    }
}
