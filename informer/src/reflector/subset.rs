//! Lists of a subset of the objects, and runs that continue without a list, for a source whose
//! selection of objects changes at run time.

use std::time::Duration;

use tokio::time::Instant;

use super::batches::{BatchSender, keep_unlisted};
use super::error::{ListFailure, ReflectorError, Stop};
use super::limits::Limits;
use super::{Backoff, Reflector, RunError, retry_after};
use crate::lister_watcher::{ListRequest, PageMeta, RequestError};

/// The longest time of a list of one object. An API server ends the response after a minute.
const LONGEST_PROBE: Duration = Duration::from_secs(60);

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Runs as [`run`](Self::run) does, but the first watch continues from the last version without
    /// a list, unless [a list is owed](Self::owes_list).
    pub(crate) async fn resume(&self) -> RunError {
        self.run_from(true).await
    }

    /// Returns whether a list must come before the next watch.
    pub(crate) fn owes_list(&self) -> bool {
        self.versions.lock().owes_list()
    }

    /// Requests a list of one object, and drops the object: finds out whether the server lists this
    /// kind for this client. Changes neither the target nor the versions. Fails as
    /// [`list_subset`](Self::list_subset) does.
    pub(crate) async fn probe(&self, backoff: &mut Backoff) -> Result<(), Duration> {
        let listed = self.try_probe().await.map_err(|error| ReflectorError::List(error).into());
        self.failed(listed, backoff).await
    }

    async fn try_probe(&self) -> Result<(), RequestError> {
        let (request, objects) =
            (ListRequest { limit: 1, ..ListRequest::default() }, self.object_limit.clone());
        let end = Instant::now() + LONGEST_PROBE;
        let mut limits = Limits::new("a list of one object", self.silence, end, objects.clone());
        let mut page = limits.wait(self.source.list_within(request, objects)).await??;
        while let Some(listed) = limits.next(&mut page).await? {
            match listed {
                // A list skips an object that is too large.
                Ok(_) | Err(RequestError::TooLarge(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lists the newest state of all objects once. Known objects that are not listed are deleted.
    /// Fails as [`list_subset`](Self::list_subset) does.
    pub(crate) async fn list_all(&self, backoff: &mut Backoff) -> Result<(), Duration> {
        self.versions.lock().set_least("");
        let listed = self.list().await;
        self.failed(listed, backoff).await
    }

    /// Lists the newest state of a subset of the objects, which the source selects, and keeps known
    /// objects that are not listed. The last version, from which the watch continues, stays the
    /// same. Returns the version of the list. A failure is reported; the result is the time to wait
    /// before another attempt. If the token of a page has expired, that attempt requests one page.
    ///
    /// Call it only if [no list is owed](Self::owes_list), and after all threads of earlier runs
    /// have ended their work.
    pub(crate) async fn list_subset(&self, backoff: &mut Backoff) -> Result<String, Duration> {
        let listed = self.try_list_subset().await;
        let has_expired = matches!(&listed, Err(ListFailure::Request(error)) if error.is_expired());
        self.versions.lock().end_subset(listed.as_ref().ok().cloned(), has_expired);
        let listed = listed.map_err(|failure| match failure {
            ListFailure::Request(error) => ReflectorError::List(error).into(),
            ListFailure::Stop(stop) => stop,
        });
        self.failed(listed, backoff).await
    }

    async fn try_list_subset(&self) -> Result<String, ListFailure> {
        let limit = self.versions.lock().page_size_of_subset(self.page_size);
        let request = ListRequest { limit, ..ListRequest::default() };
        let (sender, batches) = BatchSender::new(&self.in_flight);
        let mut first_page = PageMeta::default();
        let reading = self.read(sender, request, &mut first_page);
        let list = async {
            let mut pieces = self.begin()?;
            keep_unlisted(pieces.as_mut()).map_err(|error| ListFailure::Stop(error.into()))?;
            let received = self.receive(pieces, batches);
            let (version, (pieces, items)) = tokio::try_join!(reading, received)?;
            // Without a version: objects outside of the subset have not been received up to it.
            let committed = self.threads.run(move || pieces.commit("")).await;
            let committed = committed.and_then(|committed| Ok(committed?));
            for refused in committed.map_err(|error| ListFailure::Stop(error.into()))? {
                self.report(&ReflectorError::refused(refused));
            }
            self.decoder.0.end_list();
            Ok((version, items))
        };
        self.listing("list", "", list).await
    }

    /// Reports the failure of a list, and returns the time to wait before another attempt.
    async fn failed<R>(
        &self,
        listed: Result<R, Stop>,
        backoff: &mut Backoff,
    ) -> Result<R, Duration> {
        match listed {
            Ok(listed) => Ok(listed),
            // The queue is closed, which ends the caller as well.
            Err(Stop::Closed(_)) => std::future::pending().await,
            Err(Stop::CannotResume) => Err(backoff.next(None)),
            Err(Stop::Failed(error)) => {
                self.report(&error);
                Err(backoff.next(retry_after(&error)))
            }
        }
    }
}
