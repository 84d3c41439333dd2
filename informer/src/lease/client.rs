//! Requests for Leases, each with a time limit, and their errors.

use std::time::Duration;

use deltafifo::locks::Mutex;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use tokio::time::{Instant, timeout};

/// A failed request for a Lease. It changes nothing else: the request is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The server refused the request, or the connection failed.
    #[error("cannot {verb} leases.coordination.k8s.io {lease}; {}", advice(source))]
    Request {
        /// The verb, as in a role: for example `list`, `create` or `watch`.
        verb: &'static str,
        /// Namespace and name of the lease; `*` stands for all leases of a group.
        lease: String,
        /// The error of the client.
        source: kube::Error,
    },
    /// The server did not answer within the retry period. The request may have been applied.
    #[error(
        "no answer to {verb} of leases.coordination.k8s.io {lease} in {limit:?}; the request is repeated"
    )]
    Timeout {
        /// The verb, as in a role.
        verb: &'static str,
        /// Namespace and name of the lease; `*` stands for all leases of a group.
        lease: String,
        /// The retry period.
        limit: Duration,
    },
}

impl LeaseError {
    /// Returns the verb, and the status code if the server answered.
    fn kind(&self) -> (&'static str, Option<u16>) {
        match self {
            Self::Request { verb, source: kube::Error::Api(status), .. } => {
                (verb, Some(status.code))
            }
            Self::Request { verb, .. } | Self::Timeout { verb, .. } => (verb, None),
        }
    }

    /// Returns whether a write was refused because the lease is in another state. An update or a
    /// deletion gets 404 if the lease was deleted.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(
            self.kind(),
            ("create" | "update" | "delete", Some(409)) | ("update" | "delete", Some(404))
        )
    }

    /// Returns whether the server has refused the request for a reason that lasts, such as a
    /// missing right, a policy, a quota, a missing namespace or a credential. The state of the
    /// lease and the load of the server are no such reasons.
    pub(crate) fn is_refused(&self) -> bool {
        let (_, code) = self.kind();
        code.is_some_and(|code| {
            (400..500).contains(&code) && !matches!(code, 408 | 409 | 410 | 429)
        })
    }
}

fn advice(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "grant this verb to the account, unless a quota, an admission policy or the deletion of \
             the namespace forbids the request"
        }
        kube::Error::Api(status) if status.code == 404 => {
            "the namespace or the API does not exist; the request is repeated"
        }
        _ => "the request is repeated",
    }
}

/// The shortest time between two reports of errors that are alike.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The errors that were reported. An error that repeats, with the same verb and the same code, is
/// reported once until a request with this verb succeeds, even if errors with other codes come in
/// between. If such requests fail and succeed by turns, it is reported each minute.
#[derive(Default)]
struct Failures(Vec<Failure>);

struct Failure {
    kind: (&'static str, Option<u16>),
    reported: Instant,
    /// Whether a request with this verb has succeeded since the report.
    has_ended: bool,
}

impl Failures {
    /// Records that a request with this verb has succeeded.
    fn succeeded(&mut self, verb: &str) {
        let of_verb = self.0.iter_mut().filter(|failure| failure.kind.0 == verb);
        of_verb.for_each(|failure| failure.has_ended = true);
    }

    /// Records a failure. Returns whether it must be reported.
    fn failed(&mut self, error: &LeaseError, now: Instant) -> bool {
        let kind = error.kind();
        let is_reported = |failure: &Failure| {
            !failure.has_ended || now.saturating_duration_since(failure.reported) < REPORT_EVERY
        };
        if self.0.iter().any(|failure| failure.kind == kind && is_reported(failure)) {
            return false;
        }
        self.0.retain(|failure| failure.kind != kind);
        self.0.push(Failure { kind, reported: now, has_ended: false });
        true
    }
}

/// A sender of requests for the Leases of a namespace. Each request has a time limit.
pub(crate) struct LeaseClient {
    pub(crate) api: Api<Lease>,
    namespace: String,
    limit: Duration,
    failures: Mutex<Failures>,
}

impl LeaseClient {
    pub(crate) fn new(client: Client, namespace: &str, limit: Duration) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), limit, failures: Mutex::default() }
    }

    /// Waits for the answer to a request for the Lease `name`, within the time limit. The error of
    /// a refused write may be a [conflict](LeaseError::is_conflict), which can mean that the Lease
    /// is in another state: then the caller records that the request has
    /// [succeeded](Self::succeeded).
    ///
    /// # Errors
    /// [`LeaseError`] if the request failed, or was not answered in time.
    pub(crate) async fn answer<T>(
        &self,
        verb: &'static str,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, LeaseError> {
        match timeout(self.limit, request).await {
            Ok(answer) => {
                let answer = answer.map_err(|source| self.failed(verb, name, source))?;
                self.succeeded(verb);
                Ok(answer)
            }
            Err(_) => Err(LeaseError::Timeout { verb, lease: self.title(name), limit: self.limit }),
        }
    }

    /// Records that a request with this verb has succeeded, so that its errors are reported again.
    pub(crate) fn succeeded(&self, verb: &str) {
        self.failures.lock().succeeded(verb);
    }

    /// Records a failure. Returns whether it must be reported: no error like it was reported within
    /// a minute, or since the last request with its verb that succeeded.
    pub(crate) fn must_report(&self, error: &LeaseError) -> bool {
        self.failures.lock().failed(error, Instant::now())
    }

    /// Returns the error of a request that the server or the connection has failed.
    pub(crate) fn failed(&self, verb: &'static str, name: &str, source: kube::Error) -> LeaseError {
        LeaseError::Request { verb, lease: self.title(name), source }
    }

    /// Returns the namespace and the name of a Lease.
    pub(crate) fn title(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn failed(verb: &'static str, source: kube::Error) -> LeaseError {
        LeaseError::Request { verb, lease: "shop/counter".to_owned(), source }
    }

    fn unavailable() -> LeaseError {
        let status = Status::failure("etcd is down", "ServiceUnavailable").with_code(503);
        failed("list", kube::Error::Api(status.boxed()))
    }

    fn unreachable() -> LeaseError {
        failed("list", kube::Error::Service("connection refused".into()))
    }

    #[test]
    fn failures_that_alternate_are_reported_once_each_until_a_request_succeeds() {
        let (mut failures, began) = (Failures::default(), Instant::now());
        let alternate = |failures: &mut Failures, now| {
            let errors = [unavailable(), unreachable(), unavailable(), unreachable()];
            errors.map(|error| failures.failed(&error, now))
        };
        assert_eq!(alternate(&mut failures, began), [true, true, false, false]);
        let now = began + REPORT_EVERY;
        failures.succeeded("watch");
        assert_eq!(alternate(&mut failures, now), [false; 4], "another verb has succeeded");
        failures.succeeded("list");
        assert_eq!(alternate(&mut failures, now), [true, true, false, false]);
    }

    #[test]
    fn failures_between_successes_are_reported_each_minute() {
        let (mut failures, began) = (Failures::default(), Instant::now());
        let seconds = (0..=120).filter(|seconds| {
            failures.succeeded("list");
            failures.failed(&unavailable(), began + Duration::from_secs(*seconds))
        });
        assert_eq!(seconds.collect::<Vec<_>>(), [0, 60, 120]);
    }

    #[test]
    fn answers_about_the_state_of_a_lease_or_the_load_of_the_server_are_no_refusals() {
        let refuses = |code: &u16| {
            let status = Status::failure("simulated", "Simulated").with_code(*code);
            failed("update", kube::Error::Api(status.boxed())).is_refused()
        };
        let codes = [400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 503];
        let refusals: Vec<_> = codes.into_iter().filter(refuses).collect();
        assert_eq!(refusals, [400, 401, 403, 404, 422]);
        assert!(!unreachable().is_refused());
    }

    #[test]
    fn refusal_by_a_quota_does_not_advise_to_grant_the_verb_alone() {
        let status = Status::failure("exceeded quota: leases", "Forbidden").with_code(403);
        let error = failed("create", kube::Error::Api(status.boxed())).to_string();
        assert!(error.contains("grant this verb to the account, unless a quota"), "{error}");
    }
}
