//! Records the histories of all leases from one watch of etcd.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

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

use super::history::{Change, Entry, Object};
use crate::servers::NAMESPACE;
use crate::wait::POLL;

type Histories = Arc<Mutex<HashMap<String, watch::Sender<Vec<Entry>>>>>;

/// A watch of etcd that continues across restarts of both servers. Dropping the value ends it.
pub struct Recorder {
    histories: Histories,
    task: JoinHandle<()>,
}

/// A reader of the history of one lease. It reads each entry once, in order.
pub struct Reader {
    history: watch::Receiver<Vec<Entry>>,
    next: usize,
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

impl Recorder {
    /// Starts to record the changes of all leases and of the objects that their leaders write, from
    /// the first version on. `etcd` is a client of etcd. The API server must store its objects
    /// there as JSON.
    pub fn start(etcd: Client) -> Self {
        let histories = Histories::default();
        let task = tokio::spawn(record(etcd, histories.clone()));
        Self { histories, task }
    }

    /// Returns a reader of the history of this lease, from its creation on.
    pub fn reader(&self, lease: &str) -> Reader {
        let mut histories = self.histories.lock();
        let history = histories.entry(lease.to_owned()).or_default().subscribe();
        Reader { history, next: 0 }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reader {
    /// Waits for the next entry that `wanted` accepts. Returns an error that contains `what` if
    /// there is none within `limit`.
    pub async fn next(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Change) -> bool,
    ) -> Result<Entry, BoxError> {
        let deadline = Instant::now() + limit;
        loop {
            {
                let history = self.history.borrow_and_update();
                while let Some(entry) = history.get(self.next) {
                    self.next += 1;
                    if wanted(&entry.change) {
                        return Ok(entry.clone());
                    }
                }
            }
            let changed = timeout_at(deadline, self.history.changed()).await;
            changed.map_err(|_| format!("no {what} in the history within {limit:?}"))??;
        }
    }

    /// Returns all entries so far.
    pub fn all(&self) -> Vec<Entry> {
        self.history.borrow().clone()
    }
}

async fn record(etcd: Client, histories: Histories) {
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
async fn watch(etcd: &Client, histories: &Histories, version: &mut u64) -> Result<(), BoxError> {
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
            if let Some((lease, change)) = change(&event)? {
                let entry = Entry { version: changed, at, change };
                let mut histories = histories.lock();
                histories.entry(lease).or_default().send_modify(|history| history.push(entry));
            }
            *version = changed;
        }
    }
    Ok(())
}

/// Returns the lease and its change, or `None` if the event is about something else.
fn change(event: &Event) -> Result<Option<(String, Change)>, BoxError> {
    let key = str::from_utf8(&event.kv.key.0)?;
    let in_namespace = |kind: &str| key.strip_prefix(&format!("/registry/{kind}/{NAMESPACE}/"));
    if let Some(name) = in_namespace("leases") {
        let lease = if event.kind == Kind::Delete { None } else { Some(parsed(event)?) };
        return Ok(Some((name.to_owned(), Change::of_lease(lease))));
    }
    let Some((lease, object)) = in_namespace("configmaps").and_then(Object::of) else {
        return Ok(None);
    };
    let change = match event.kind {
        Kind::Put => Change::of_write(object, parsed(event)?),
        Kind::Delete => None,
    };
    Ok(change.map(|change| (lease.to_owned(), change)))
}

fn parsed<K: DeserializeOwned>(event: &Event) -> Result<K, BoxError> {
    Ok(serde_json::from_slice(&event.kv.value.0)?)
}
