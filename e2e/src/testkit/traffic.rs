//! Recorded traffic: the requests that `kubectl` and kube-rs really send, which both servers get.
//!
//! `e2e --record FILE` runs the clients over the test kit, and writes their requests. The file has
//! one request a line, without hosts and tokens. Requests for discovery and schemas are not in it:
//! the test kit has no aggregated discovery and no schemas, and clients fall back.

use std::collections::HashMap;

use deltafifo::BoxError;
use http::request::Parts;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::step::{Comparison, Step};

/// The recorded requests.
const RECORDED: &str = include_str!("../../recorded.jsonl");
/// The seconds after which a recorded watch ends: it then has the events that the client saw.
const WATCHING: &str = "timeoutSeconds=1";

/// A recorded request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The name of the request, under which later ones use the uid and version of its answer.
    pub name: String,
    /// The step of the recording in which the request was sent: a command or call.
    pub by: String,
    pub method: String,
    /// The path with the query.
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accept: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

/// Returns the recorded requests as steps.
pub fn steps() -> Result<Vec<Step>, BoxError> {
    RECORDED.lines().map(|line| serde_json::from_str::<Recorded>(line)?.step()).collect()
}

impl Recorded {
    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=")
    }

    fn step(self) -> Result<Step, BoxError> {
        let is_table = self.accept.contains("as=Table");
        let is_custom = self.path.contains("/example.com/");
        let comparison = match (is_table, is_custom) {
            // The tables of built-in kinds have more columns in the real server.
            (true, false) => Comparison::Reason,
            (true, true) => Comparison::Equal,
            (false, _) => Comparison::Contained,
        };
        let step = Step::raw(self.method.parse()?, self.path, &self.body);
        Ok(Step {
            content_type: self.content_type.into(),
            accept: self.accept,
            comparison,
            name: Some(self.name),
            ..step
        })
    }
}

/// The requests so far, and the values of the answers that they may use.
#[derive(Default)]
pub struct Recording {
    /// The command or call that sends requests now, or `None` if they are not recorded.
    by: Option<String>,
    requests: Vec<Recorded>,
    /// The watches of the current command. They end after the other requests, so that they have
    /// the events that those cause.
    watches: Vec<Recorded>,
    count: usize,
    /// The names of uids.
    uids: HashMap<String, String>,
    /// The names of the versions of objects, and of lists. A list has the version of the newest
    /// object in the test kit, but not in the real server.
    objects: HashMap<String, String>,
    lists: HashMap<String, String>,
}

impl Recording {
    /// Records the next requests as those of this command, or not at all.
    pub fn begin(&mut self, by: Option<String>) {
        self.requests.append(&mut self.watches);
        self.by = by;
    }

    /// Records a request. Returns its name, or `None` if it is not recorded.
    pub fn request(&mut self, parts: &Parts, body: &[u8]) -> Result<Option<String>, BoxError> {
        let Some(by) = self.by.clone() else { return Ok(None) };
        let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        if !is_resource(parts.uri.path()) {
            return Ok(None);
        }
        self.count += 1;
        let name = format!("r{}", self.count);
        let header = |name: &str| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let mut recorded = Recorded {
            name: name.clone(),
            by,
            method: parts.method.to_string(),
            path: self.with_names(&path, "resourceVersion=", [&self.lists, &self.objects]),
            accept: header("accept"),
            content_type: header("content-type"),
            body: self.with_names(
                std::str::from_utf8(body)?,
                "\"resourceVersion\":\"",
                [&self.objects, &self.lists],
            ),
        };
        if recorded.is_watch() {
            let (path, query) = recorded.path.split_once('?').unwrap_or_default();
            let others = query.split('&').filter(|one| !one.starts_with("timeoutSeconds="));
            let query: Vec<&str> = others.chain([WATCHING]).collect();
            recorded.path = format!("{path}?{}", query.join("&"));
            self.watches.push(recorded);
        } else {
            self.requests.push(recorded);
        }
        Ok(Some(name))
    }

    /// Learns the uid and version of the answer to a request.
    pub fn answer(&mut self, name: &str, code: u16, body: &[u8]) {
        let answer = Answer::new(code, body);
        let (uid, version) = (answer.metadata("uid"), answer.metadata("resourceVersion"));
        let versions = if uid.is_empty() { &mut self.lists } else { &mut self.objects };
        if !version.is_empty() {
            versions.insert(version.to_owned(), format!("${{{name}.version}}"));
        }
        if !uid.is_empty() {
            self.uids.insert(uid.to_owned(), format!("${{{name}.uid}}"));
        }
    }

    /// Replaces uids, and the versions behind `prefix`, by their names. Of versions with two names,
    /// the first counts.
    fn with_names(
        &self,
        text: &str,
        prefix: &str,
        versions: [&HashMap<String, String>; 2],
    ) -> String {
        let mut text = text.to_owned();
        for (uid, name) in &self.uids {
            text = text.replace(uid, name);
        }
        for (version, name) in versions.into_iter().flatten() {
            for end in ["&", "\"", ""] {
                let known = format!("{prefix}{version}{end}");
                if !end.is_empty() || text.ends_with(&known) {
                    text = text.replace(&known, &format!("{prefix}{name}{end}"));
                }
            }
        }
        text
    }

    /// Returns the recorded requests, one a line.
    pub fn lines(mut self) -> Result<String, BoxError> {
        self.begin(None);
        let mut lines = String::new();
        for recorded in &self.requests {
            lines += &serde_json::to_string(recorded)?;
            lines += "\n";
        }
        Ok(lines)
    }
}

/// Returns whether a path is that of objects, and not of discovery or schemas.
fn is_resource(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(parts.as_slice(), ["api", _, _, ..] | ["apis", _, _, _, ..])
}
