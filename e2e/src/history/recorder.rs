//! Records histories from one watch of etcd, which orders all changes by their versions. A watch
//! through the API server would lose the changes around its restart.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use deltafifo::BoxError;
use futures_util::{AsyncBufReadExt, StreamExt};
use http::Request;
use k8s_openapi::ByteString;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Entry, Recorded};
use crate::servers::NAMESPACE;
use crate::wait::POLL;

type Histories<C> = Arc<Mutex<HashMap<String, watch::Sender<Vec<Entry<C>>>>>>;

/// A watch of etcd that continues across restarts of both servers. Dropping the value ends it.
pub struct Recorder<C> {
    histories: Histories<C>,
    task: JoinHandle<()>,
}

/// A reader of one history. It reads each entry once, in order.
pub struct Reader<C> {
    history: watch::Receiver<Vec<Entry<C>>>,
    next: usize,
}

/// An object in the namespace of the scenarios, after a change.
pub struct Stored<'e> {
    /// The resource, for example `leases`.
    pub resource: &'e str,
    pub name: &'e str,
    /// The object; `None` if it was deleted.
    json: Option<&'e [u8]>,
}

/// A line of etcd's gateway, which translates its protocol to JSON.
#[derive(Deserialize)]
struct Line {
    /// `None` in the last line of a watch that failed.
    result: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: Kind,
    kv: KeyValue,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Kind {
    #[default]
    Put,
    Delete,
}

#[derive(Deserialize)]
struct KeyValue {
    key: ByteString,
    /// The version of the change: a number as a text.
    mod_revision: String,
    #[serde(default)]
    value: ByteString,
}

impl<C: Recorded> Recorder<C> {
    /// Starts to record the changes of all histories, from the first version on. `etcd` is a client
    /// of etcd. The API server must store its objects there as JSON.
    pub fn start(etcd: Client) -> Self {
        let histories = Histories::default();
        let task = tokio::spawn(record(etcd, histories.clone()));
        Self { histories, task }
    }

    /// Returns a reader of the history with this name, from its first change on.
    pub fn reader(&self, name: &str) -> Reader<C> {
        let mut histories = self.histories.lock();
        let history = histories.entry(name.to_owned()).or_default().subscribe();
        Reader { history, next: 0 }
    }
}

impl<C> Drop for Recorder<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Recorded> Reader<C> {
    /// Waits for the next entry that `wanted` accepts. Returns an error that contains `what` if
    /// there is none within `limit`.
    pub async fn next(
        &mut self,
        what: &str,
        limit: Duration,
        mut wanted: impl FnMut(&Entry<C>) -> bool,
    ) -> Result<Entry<C>, BoxError> {
        let deadline = Instant::now() + limit;
        loop {
            {
                let history = self.history.borrow_and_update();
                while let Some(entry) = history.get(self.next) {
                    self.next += 1;
                    if wanted(entry) {
                        return Ok(entry.clone());
                    }
                }
            }
            let changed = timeout_at(deadline, self.history.changed()).await;
            changed.map_err(|_| format!("no {what} in the history within {limit:?}"))??;
        }
    }

    /// Reads all entries so far.
    pub fn read(&mut self, mut visit: impl FnMut(&Entry<C>)) {
        let history = self.history.borrow_and_update();
        while let Some(entry) = history.get(self.next) {
            self.next += 1;
            visit(entry);
        }
    }

    /// Returns all entries so far.
    pub fn all(&self) -> Vec<Entry<C>> {
        self.history.borrow().clone()
    }

    /// Returns the entries so far as lines, with their times in seconds.
    fn text(&self) -> String {
        let history = self.history.borrow();
        let line = |entry: &Entry<C>| {
            let time = entry.at.duration_since(history[0].at).as_secs_f64();
            format!("{time:8.3} {entry}\n")
        };
        history.iter().map(line).collect()
    }

    /// Returns the result. If it is an error, writes all entries so far to a file, for the person
    /// who reads the error.
    pub fn kept<T>(&self, result: Result<T, BoxError>, file: &Path) -> Result<T, BoxError> {
        result.map_err(|error| match fs::write(file, self.text()) {
            Ok(()) => format!("{error}, see {}", file.display()).into(),
            Err(lost) => format!("{error}; the history is lost: {lost}").into(),
        })
    }
}

impl Stored<'_> {
    /// Returns the object, or `None` if it was deleted.
    pub fn object<K: DeserializeOwned>(&self) -> Result<Option<K>, BoxError> {
        Ok(self.json.map(serde_json::from_slice).transpose()?)
    }
}

async fn record<C: Recorded>(etcd: Client, histories: Histories<C>) {
    let mut version = 0;
    loop {
        if let Err(error) = watch(&etcd, &histories, &mut version).await {
            // These errors are expected, because a scenario stops etcd, which breaks the
            // connection.
            if !error.is::<kube::Error>() && !error.is::<io::Error>() {
                eprintln!("e2e: the history ends at version {version}: {error}");
                return;
            }
        }
        sleep(POLL).await;
    }
}

/// Records changes until the watch ends. `version` is the version of the last change, and is
/// updated.
async fn watch<C: Recorded>(
    etcd: &Client,
    histories: &Histories<C>,
    version: &mut u64,
) -> Result<(), BoxError> {
    let key = |text: &str| ByteString(text.as_bytes().to_vec());
    let request = json!({ "create_request": {
        "key": key("/registry/"),
        "range_end": key("/registry0"),
        "start_revision": (*version + 1).to_string(),
    } });
    let request = Request::post("/v3/watch").body(request.to_string().into_bytes())?;
    let mut lines = Box::pin(etcd.request_stream(request).await?).lines();
    while let Some(line) = lines.next().await {
        let line: Line = serde_json::from_str(&line?)?;
        let Some(result) = line.result else { return Ok(()) };
        let at = Instant::now();
        for event in result.events {
            let changed = event.kv.mod_revision.parse()?;
            if let Some(stored) = stored(&event)?
                && let Some((name, change)) = C::of(&stored)?
            {
                let entry = Entry { version: changed, at, change };
                let mut histories = histories.lock();
                histories.entry(name).or_default().send_modify(|history| history.push(entry));
            }
            *version = changed;
        }
    }
    Ok(())
}

/// Returns the object that has changed, or `None` if it is not in the namespace of the scenarios.
fn stored(event: &Event) -> Result<Option<Stored<'_>>, BoxError> {
    let key = str::from_utf8(&event.kv.key.0)?.strip_prefix("/registry/");
    let parts = key.and_then(|key| {
        let (resource, key) = key.split_once('/')?;
        Some((resource, key.strip_prefix(NAMESPACE)?.strip_prefix('/')?))
    });
    let json = Some(&*event.kv.value.0).filter(|_| event.kind == Kind::Put);
    Ok(parts.map(|(resource, name)| Stored { resource, name, json }))
}
