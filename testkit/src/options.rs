//! The query parameters of lists and watches, and their valid combinations.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::Call;
use crate::request::{Verb, is_true};
use crate::selector::Filter;
use crate::shards::Shards;
use crate::status::{self, Refused};
use crate::walk::Token;
use crate::{ShardSelectors, WatchLists};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    NotOlderThan,
    Exact,
}

/// The options of a list or watch, as the request has them.
#[derive(Debug)]
pub(crate) struct ListOptions {
    /// The requested version: `None` means the newest version, 0 any version.
    pub(crate) version: Option<u64>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) limit: Option<usize>,
    pub(crate) token: Option<Token>,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) filter: Arc<Filter>,
}

impl ListOptions {
    /// Reads the options. Refuses values that cannot be parsed.
    pub(crate) fn read(call: &Call<'_>) -> Refused<Self> {
        let request = call.request;
        let given = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
        let is_watch = request.verb() == Verb::Watch;
        let number = |name: &str| {
            let read = |value: &str| {
                let refuse = |error| {
                    let why = format!("invalid {name} {value:?}: {error}");
                    // The real server gives no reason here.
                    let is_unknown = name == "resourceVersion"
                        && matches!(request.verb(), Verb::Get | Verb::Watch);
                    let make = if is_unknown { status::unknown_error } else { status::bad_request };
                    Box::new(make(&why))
                };
                value.parse::<u64>().map_err(refuse)
            };
            given(name).map(read).transpose()
        };
        let version_match = match given("resourceVersionMatch") {
            None => None,
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some("Exact") => Some(VersionMatch::Exact),
            Some(other) => {
                let why =
                    format!("{other:?} is not supported, only \"Exact\" and \"NotOlderThan\" are");
                return Err(Box::new(status::invalid_options("resourceVersionMatch", &why)));
            }
        };
        // As in the real server, a negative limit is none.
        let limit = given("limit")
            .filter(|limit| limit.parse::<i64>().map_or(true, |limit| limit > 0))
            .map_or(Ok(None), |_| number("limit"))?
            .filter(|most| *most > 0)
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let timeout =
            number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let filter = Filter::read(request, &call.resource)?;
        // The real server reads the shards before the version and the token, and after the rest.
        let shard_selectors = call.server.settings.shard_selectors;
        let shards = given("shardSelector")
            .filter(|_| shard_selectors != ShardSelectors::Ignored && request.verb() != Verb::Get)
            .map(Shards::parse)
            .transpose()?
            .filter(|_| {
                shard_selectors == ShardSelectors::Honoured || !is_watch || filter.has_terms()
            });
        let token = given("continue")
            .map(|token| {
                token
                    .parse()
                    .map_err(|()| Box::new(status::bad_request("continue key is not valid")))
            })
            .transpose()?;
        Ok(Self {
            version: number("resourceVersion")?,
            version_match,
            limit,
            token,
            send_initial_events: request.parameter("sendInitialEvents").map(is_true),
            bookmarks: request.parameter("allowWatchBookmarks").is_some_and(is_true),
            timeout,
            filter: Arc::new(filter.of(shards)),
        })
    }

    pub(crate) fn check_list(&self) -> Refused<()> {
        let forbid = |field, why| Err(Box::new(status::invalid_options(field, why)));
        if self.version_match.is_some() {
            let field = "resourceVersionMatch";
            if self.version.is_none() {
                return forbid(
                    field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if self.token.is_some() {
                return forbid(
                    field,
                    "resourceVersionMatch is forbidden when continue is provided",
                );
            }
            if self.version_match == Some(VersionMatch::Exact) && self.version == Some(0) {
                return forbid(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if self.send_initial_events.is_some() {
            return forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if self.token.is_some() && self.version.is_some_and(|version| version > 0) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Box::new(status::bad_request(why)));
        }
        Ok(())
    }

    pub(crate) fn check_watch(&self, watch_lists: WatchLists) -> Refused<()> {
        let forbid = |field, why| Err(Box::new(status::invalid_options(field, why)));
        let not_older = self.version_match == Some(VersionMatch::NotOlderThan);
        match self.send_initial_events {
            None if self.version_match.is_some() => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                forbid("resourceVersionMatch", why)
            }
            Some(_) if !not_older => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                forbid("resourceVersionMatch", why)
            }
            Some(_) if watch_lists == WatchLists::Forbidden => {
                let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                forbid("sendInitialEvents", why)
            }
            Some(true) if watch_lists == WatchLists::Failing => {
                Err(Box::new(status::no_watch_lists()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a list must be of exactly the requested version. As in the real server, a
    /// limit makes the version exact if the request has no `resourceVersionMatch`.
    pub(crate) fn is_exact(&self) -> bool {
        match self.version_match {
            Some(version_match) => version_match == VersionMatch::Exact,
            None => self.limit.is_some() && self.version.is_some_and(|version| version > 0),
        }
    }
}
