//! The objects on the server. They are created once and kept for the next run, in a namespace for
//! each number of objects. While a client is cut off, one object in a hundred is changed.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;

use super::error::ServerError;

/// Number of concurrent writes.
const AT_ONCE: usize = 16;
/// The number of objects per changed object: one object in a hundred is changed.
const CHANGES: usize = 100;
/// Number of created objects after which the progress is printed.
const PROGRESS_INTERVAL: usize = 10_000;
/// The key in an object's data under which a change puts another text of the same length.
const TURN: &str = "turn";

/// Returns the namespace for this many objects.
pub(super) fn namespace(objects: usize) -> String {
    format!("deltafifo-bench-{objects}")
}

/// The objects on the server.
pub(super) struct Objects {
    maps: Api<ConfigMap>,
    pub namespace: String,
    wanted: usize,
    /// Number of config maps in the namespace. It may be one more than were created, because a
    /// cluster may put a config map of its own into every namespace.
    pub number: usize,
}

impl Objects {
    /// Creates the missing objects.
    pub async fn fill(client: Client, objects: usize) -> Result<Self, ServerError> {
        let namespace = namespace(objects);
        let refused = |request: &str| {
            let request = format!("{request} the namespace {namespace}");
            move |source: Error| ServerError::Refused { request, source: source.into() }
        };
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let new = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = namespaces.create(&PostParams::default(), &new).await;
        ignore_existing(created).map_err(refused("create"))?;
        let maps = Api::namespaced(client, &namespace);
        let mut filled = Self { maps, namespace: namespace.clone(), wanted: objects, number: 0 };
        filled.number = filled.count().await.map_err(refused("count config maps in"))?;
        if filled.number < objects {
            filled.create().await.map_err(refused("create config maps in"))?;
            filled.number = filled.count().await.map_err(refused("count config maps in"))?;
        }
        if !(objects..=objects + 1).contains(&filled.number) {
            return Err(ServerError::Number { namespace, objects, found: filled.number });
        }
        Ok(filled)
    }

    /// Changes one object in a hundred, always the same ones, the last object among them. Returns
    /// how many were changed.
    pub async fn change(&self) -> Result<usize, Error> {
        let turn = format!("{:016}", Timestamp::now().as_microsecond());
        let patch = &Patch::Merge(json!({ "data": { TURN: turn } }));
        let changed: Vec<_> = (0..self.wanted).rev().step_by(CHANGES).map(name).collect();
        let number = changed.len();
        let change = |name: String| async move {
            self.maps.patch(&name, &PatchParams::default(), patch).await.map(drop)
        };
        stream::iter(changed).map(Ok).try_for_each_concurrent(AT_ONCE, change).await?;
        Ok(number)
    }

    async fn count(&self) -> Result<usize, Error> {
        let first = self.maps.list_metadata(&ListParams::default().limit(1)).await?;
        let further =
            first.metadata.remaining_item_count.and_then(|further| usize::try_from(further).ok());
        Ok(first.items.len() + further.unwrap_or(0))
    }

    async fn create(&self) -> Result<(), Error> {
        let create = |number: usize| async move {
            if number.is_multiple_of(PROGRESS_INTERVAL) {
                eprintln!("creating config maps: {number} of {}", self.wanted);
            }
            ignore_existing(self.maps.create(&PostParams::default(), &config_map(number)).await)
        };
        stream::iter(0..self.wanted).map(Ok).try_for_each_concurrent(AT_ONCE, create).await
    }
}

/// Ignores the error that an object exists already.
fn ignore_existing<K>(created: Result<K, Error>) -> Result<(), Error> {
    match created {
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

fn name(number: usize) -> String {
    format!("config-{number:07}")
}

/// Returns an object of about 980 bytes in a list.
fn config_map(number: usize) -> ConfigMap {
    let line = |line| format!("server.option-{line:02}=value-{number:07}-{line:02}\n");
    let properties = (0..12).map(line).collect();
    let labels =
        [("app", format!("app-{:03}", number % 500)), ("team", format!("team-{:02}", number % 50))];
    let data = [(TURN, format!("{:016}", 0)), ("application.properties", properties)];
    let map =
        |pairs: [(&str, String); 2]| pairs.map(|(name, value)| (name.to_owned(), value)).into();
    let metadata =
        ObjectMeta { name: Some(name(number)), labels: Some(map(labels)), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(map(data)), ..ConfigMap::default() }
}
