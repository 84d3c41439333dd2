//! Writes the scenarios' objects to the API server, and lists them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use deltafifo::BoxError;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::oracle::{States, keyed};
use crate::servers::NAMESPACE;
use crate::wait::POLL;
use crate::written::Written;

/// The number of writes in progress at a time.
const AT_ONCE: usize = 16;
/// The time limit for waiting until a page token expires. The API server compacts every 10 seconds,
/// and each time removes the versions older than its previous compaction.
const COMPACTED: Duration = Duration::from_secs(90);

/// A kind of write.
#[derive(Clone, Copy)]
pub enum Write {
    Create,
    Update,
    Delete,
}

/// A client for the scenarios' objects.
#[derive(Clone)]
pub struct Writer {
    maps: Api<ConfigMap>,
    written: Written,
}

impl Writer {
    pub fn new(client: Client) -> Self {
        Self { maps: Api::namespaced(client, NAMESPACE), written: Written::default() }
    }

    /// Returns the log of the creations and updates by this writer and its clones.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Applies `write` to the object of this name.
    pub async fn write(&self, write: Write, name: &str) -> Result<(), Error> {
        match write {
            Write::Create => drop(self.create(name).await?),
            Write::Update => {
                let patch = Patch::Merge(json!({ "data": { "value": value() } }));
                self.recorded(name, self.maps.patch(name, &PatchParams::default(), &patch).await)?;
            }
            Write::Delete => drop(self.maps.delete(name, &DeleteParams::default()).await?),
        }
        Ok(())
    }

    /// Creates an object. Returns its version.
    pub async fn create(&self, name: &str) -> Result<String, Error> {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let data = Some(BTreeMap::from([("value".to_owned(), value())]));
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        let created = self.recorded(name, self.maps.create(&PostParams::default(), &map).await)?;
        Ok(created.metadata.resource_version.unwrap_or_default())
    }

    /// Records the outcome of a creation or update, and returns `answer`.
    fn recorded(&self, name: &str, answer: Result<ConfigMap, Error>) -> Result<ConfigMap, Error> {
        match &answer {
            Ok(map) => {
                let (key, state) = keyed(&map.metadata);
                self.written.record(key, state);
            }
            // The server refused the write, so nothing was stored.
            Err(Error::Api(status)) if status.code < 500 => {}
            Err(_) => self.written.record_unanswered(format!("{NAMESPACE}/{name}")),
        }
        answer
    }

    /// Applies `write` to the objects of these numbers, several at a time.
    pub async fn all(&self, write: Write, numbers: Range<usize>) -> Result<(), Error> {
        self.each(write, numbers.map(name)).await
    }

    /// Applies `write` to the objects of these names, several at a time.
    pub async fn each(
        &self,
        write: Write,
        names: impl Iterator<Item = String>,
    ) -> Result<(), Error> {
        let names = stream::iter(names).map(Ok);
        names
            .try_for_each_concurrent(AT_ONCE, |name| async move { self.write(write, &name).await })
            .await
    }

    /// Returns a consistent list of the current objects.
    pub async fn listed(&self) -> Result<States, Error> {
        let list = self.maps.list_metadata(&ListParams::default()).await?;
        Ok(list.items.iter().map(|map| keyed(&map.metadata)).collect())
    }

    /// Waits until the token of a list page has expired.
    pub async fn until_expired(&self, token: &str) -> Result<(), BoxError> {
        let page = ListParams::default().limit(1).continue_token(token);
        let deadline = Instant::now() + COMPACTED;
        loop {
            match self.maps.list_metadata(&page).await {
                Err(Error::Api(status)) if status.code == 410 => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) if Instant::now() > deadline => {
                    return Err(format!("the token has not expired after {COMPACTED:?}").into());
                }
                Ok(_) => sleep(POLL).await,
            }
        }
    }
}

/// Returns the name of an object. Names sort like their numbers.
pub fn name(number: usize) -> String {
    format!("o-{number:07}")
}

/// Returns a random value. It differs from the earlier ones, so every update creates a new
/// version.
fn value() -> String {
    fastrand::u64(..).to_string()
}
