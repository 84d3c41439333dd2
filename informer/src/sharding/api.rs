//! The requests of a member.

use std::pin::pin;
use std::sync::Arc;

use async_stream::{stream, try_stream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions, WatchEvent, WatchParams,
};
use tokio::time::{Instant, sleep, timeout};

use super::error::{GroupError, RunError};
use super::object::{GroupFormat, GroupLease, Labelled, LeaseName, parse_version};
use super::protocol::{GroupTiming, Write};
use crate::lease::{LeaseClient, LeaseError};
use crate::util::random::random_for;

/// The name of all Leases of the group in errors.
const ALL: &str = "*";

/// An item of the watch of a group's Leases.
pub(super) enum Watched {
    /// All Leases of the group, and the version of the list.
    Listed(u64, Vec<GroupLease>),
    /// A watch has begun.
    Open,
    /// A Lease was created or changed.
    Changed(GroupLease),
    /// A Lease was deleted: the version of the deletion, and the last state.
    Deleted(GroupLease),
    /// A Lease has other settings than this member.
    Mismatched(RunError),
    /// A list or a watch failed and is repeated, or a Lease is ignored.
    Failed(GroupError),
}

/// The answer to a write that the server has accepted or refused.
pub(super) enum Sent {
    /// The Lease that was written, or `None` if it was deleted. A Lease that a finalizer keeps is
    /// not deleted yet.
    Written(Option<GroupLease>),
    Conflict,
}

/// A sender of the requests of one member.
pub(super) struct GroupApi {
    leases: LeaseClient,
    pub(super) format: GroupFormat,
    timing: GroupTiming,
}

impl GroupApi {
    pub(super) fn new(client: kube::Client, format: GroupFormat, timing: GroupTiming) -> Self {
        let leases = LeaseClient::new(client, &format.namespace, timing.retry_period);
        Self { leases, format, timing }
    }

    /// Sends a write. `known` is the last known state of the Lease. A conflict is an answer, not an
    /// error.
    ///
    /// # Errors
    /// [`GroupError`] if the request failed for another reason, or was not answered within the
    /// retry period. The write may still be applied. [`GroupError::Unlabelled`] if it was applied,
    /// and the watch does not show that.
    pub(super) async fn send(
        &self,
        name: LeaseName,
        write: Write<Arc<str>>,
        known: Option<Arc<Lease>>,
    ) -> Result<Sent, GroupError> {
        let api = &self.leases.api;
        let (verb, object) = (verb_of(&write), self.format.name_of(&name));
        let lease = self.format.written(&name, &write, known.as_deref());
        let post = PostParams::default();
        let answer = async {
            match (&write, lease) {
                (Write::Create { .. }, Some(lease)) => api.create(&post, &lease).await.map(Some),
                (Write::Replace { .. }, Some(lease)) => {
                    api.replace(&object, &post, &lease).await.map(Some)
                }
                (Write::Delete { base }, _) => {
                    let (version, uid) = (base.version.to_string(), base.uid.to_string());
                    self.delete(&object, Some(version), Some(uid)).await
                }
                (Write::Create { .. } | Write::Replace { .. }, None) => unreachable!(),
            }
        };
        match self.leases.answer(verb, &object, answer).await {
            Ok(None) => Ok(Sent::Written(None)),
            Ok(Some(lease)) if !self.format.is_labelled(&lease) => {
                Err(self.unlabelled(&name, &lease).await)
            }
            Ok(Some(lease)) => match self.format.read(lease)? {
                Labelled::Lease(lease) => Ok(Sent::Written(Some(lease))),
                // A webhook has changed the object. The watch shows it.
                Labelled::Mismatched(_) | Labelled::Unknown(_) => Ok(Sent::Conflict),
            },
            Err(error) if error.is_conflict() => {
                if let Write::Create { .. } = write
                    && !self.exists(&name).await?
                {
                    // A webhook or a quota has refused the creation, or the object was deleted.
                    return Err(GroupError::Lease(error));
                }
                self.leases.succeeded(verb);
                Ok(Sent::Conflict)
            }
            Err(error) => Err(GroupError::Lease(error)),
        }
    }

    /// Records a failure. Returns whether it must be reported: no error like it was reported within
    /// a minute, or since the last request with its verb that succeeded.
    pub(super) fn must_report(&self, error: &LeaseError) -> bool {
        self.leases.must_report(error)
    }

    /// Returns whether a Lease exists. Lists, because a member needs no permission to get.
    ///
    /// # Errors
    /// [`GroupError::Foreign`] if it does not have the label of the group, so that the watch never
    /// shows it; [`GroupError::Lease`] if it could not be listed. For the Lease of a member, the
    /// error of [`unlabelled`](Self::unlabelled): only that member creates a Lease of this name.
    async fn exists(&self, name: &LeaseName) -> Result<bool, GroupError> {
        let object = self.format.name_of(name);
        let params = ListParams::default().fields(&format!("metadata.name={object}"));
        let found = self.leases.answer("list", &object, self.leases.api.list(&params)).await;
        let found = found.map_err(GroupError::Lease)?;
        let unlabelled = found.items.iter().find(|lease| !self.format.is_labelled(lease));
        match (name, unlabelled) {
            (_, None) => Ok(!found.items.is_empty()),
            (LeaseName::Member(_), Some(lease)) => Err(self.unlabelled(name, lease).await),
            (LeaseName::Group | LeaseName::Shard(_), Some(_)) => {
                let (lease, label) = (self.leases.title(&object), self.format.selector());
                Err(GroupError::Foreign { lease, label })
            }
        }
    }

    /// Returns the error of a Lease that the server has stored without the label of the group.
    /// Deletes the Lease if it is a member's. No member sees it, so to all of them it is deleted
    /// already, and no other would ever delete it.
    async fn unlabelled(&self, name: &LeaseName, lease: &Lease) -> GroupError {
        let object = self.format.name_of(name);
        let mut source = None;
        if let LeaseName::Member(_) = name {
            let ObjectMeta { resource_version, uid, .. } = lease.metadata.clone();
            let deleted = self.delete(&object, resource_version, uid);
            let deleted = self.leases.answer("delete", &object, deleted).await;
            source = deleted.err().filter(|error| !error.is_conflict()).map(Box::new);
        }
        let (lease, label) = (self.leases.title(&object), self.format.selector());
        GroupError::Unlabelled { lease, label, source }
    }

    /// Deletes an object in this version. Returns the object if it remains, for example because of
    /// a finalizer.
    async fn delete(
        &self,
        object: &str,
        resource_version: Option<String>,
        uid: Option<String>,
    ) -> kube::Result<Option<Lease>> {
        let preconditions = Preconditions { resource_version, uid };
        let params = DeleteParams::default().preconditions(preconditions);
        Ok(self.leases.api.delete(object, &params).await?.left())
    }

    /// Lists and watches the Leases of the group without end. While requests fail, the pause
    /// between two lists grows to a quarter of the time for which they have failed. It is at least
    /// the retry period and at most the lease duration.
    ///
    /// A member uses its first list only when a watch that continues it has begun, so a member that
    /// may not watch joins no group. Later lists are used at once: renewals count when they have
    /// been seen.
    pub(super) fn watch(&self) -> impl Stream<Item = Watched> {
        let GroupTiming { lease_duration, retry_period, .. } = self.timing;
        stream! {
            let mut failing_since = None;
            let mut has_watched = false;
            loop {
                let began = Instant::now();
                {
                    let mut items = pin!(self.list_and_watch(has_watched));
                    while let Some(item) = items.next().await {
                        if let Ok(Watched::Open) = item {
                            failing_since = None;
                            has_watched = true;
                        }
                        yield item.unwrap_or_else(Watched::Failed);
                    }
                }
                let failing = failing_since.get_or_insert_with(Instant::now).elapsed();
                let pause = retry_period.max(lease_duration.min(failing / 4));
                let jitter = retry_period.mul_f64(random_for("leases").f64() / 4.0);
                sleep((pause + jitter).saturating_sub(began.elapsed())).await;
            }
        }
    }

    /// Lists the Leases of the group, and watches them until a watch fails or is silent. A watch
    /// that the server ends is continued by another one. Unless the member `has_watched`, the list
    /// comes after the watch has begun.
    fn list_and_watch(&self, has_watched: bool) -> impl Stream<Item = Result<Watched, GroupError>> {
        let GroupTiming { retry_period, .. } = self.timing;
        // A member renews its own Lease, so the connection of a watch that is silent for longer is
        // probably lost. A renewal counts only when the watch has shown it.
        let silence = self.timing.renew_period().saturating_add(retry_period);
        let params = WatchParams::default().labels(&self.format.selector());
        try_stream! {
            let (mut version, mut items) = self.list().await?;
            if has_watched {
                for item in items.drain(..) {
                    yield item;
                }
            }
            'watches: loop {
                let began = Instant::now();
                let watch = self.leases.api.watch(&params, &version);
                let watch = self.leases.answer("watch", ALL, watch).await;
                let events = watch.map_err(GroupError::Lease)?;
                let mut events = pin!(events);
                yield Watched::Open;
                for item in items.drain(..) {
                    yield item;
                }
                loop {
                    let Ok(event) = timeout(silence, events.try_next()).await else {
                        break 'watches;
                    };
                    let (lease, is_deleted) = match event.map_err(|error| self.broken(error))? {
                        Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => {
                            (lease, false)
                        }
                        Some(WatchEvent::Deleted(lease)) => (lease, true),
                        Some(WatchEvent::Bookmark(bookmark)) => {
                            version = bookmark.metadata.resource_version;
                            continue;
                        }
                        // The server no longer has the changes since the version.
                        Some(WatchEvent::Error(status)) if status.code == 410 => break 'watches,
                        Some(WatchEvent::Error(status)) => {
                            Err(self.broken(kube::Error::Api(status)))?;
                            break 'watches;
                        }
                        None => break,
                    };
                    version = lease.metadata.resource_version.clone().unwrap_or_default();
                    yield match self.format.read(lease)? {
                        Labelled::Lease(lease) if is_deleted => Watched::Deleted(lease),
                        Labelled::Lease(lease) => Watched::Changed(lease),
                        // It was reported, or has ended the member, when it was created or changed.
                        _ if is_deleted => continue,
                        Labelled::Mismatched(mismatch) => Watched::Mismatched(mismatch),
                        Labelled::Unknown(error) => Watched::Failed(error),
                    };
                }
                // A server that ends each watch at once must not be flooded.
                sleep(retry_period.saturating_sub(began.elapsed())).await;
            }
        }
    }

    /// Lists the Leases of the group, consistently. Returns the version of the list, and its items.
    async fn list(&self) -> Result<(String, Vec<Watched>), GroupError> {
        // Without a version, the server answers with the newest state.
        let params = ListParams::default().labels(&self.format.selector());
        let list = self.leases.answer("list", ALL, self.leases.api.list(&params)).await;
        let list = list.map_err(GroupError::Lease)?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let number = parse_version(&version, self.leases.title(ALL))?;
        let (mut items, mut leases) = (Vec::new(), Vec::new());
        for lease in list.items {
            match self.format.read(lease)? {
                Labelled::Lease(lease) => leases.push(lease),
                Labelled::Mismatched(mismatch) => items.push(Watched::Mismatched(mismatch)),
                Labelled::Unknown(error) => items.push(Watched::Failed(error)),
            }
        }
        // Behind the others: a member with other settings must not write.
        items.push(Watched::Listed(number, leases));
        Ok((version, items))
    }

    fn broken(&self, source: kube::Error) -> GroupError {
        GroupError::Lease(self.leases.failed("watch", ALL, source))
    }
}

/// The verb of a deletion.
pub(super) const DELETE: &str = "delete";

pub(super) fn verb_of<T>(write: &Write<T>) -> &'static str {
    match write {
        Write::Create { .. } => "create",
        Write::Replace { .. } => "update",
        Write::Delete { .. } => DELETE,
    }
}
