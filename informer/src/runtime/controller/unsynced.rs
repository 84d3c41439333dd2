//! Errors that a controller yields and logs about shared informers, and stores of the user, that
//! have no initial list. Without these errors a controller over such an informer would wait
//! silently: the informer's errors go to its own error handler, and an informer that is not run has
//! no errors.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo::Meta;
use tokio::time::{Instant, sleep_until};

use super::error::RunnerError;
use super::start::InformerRole;
use crate::shared_informer::{Availability, Registration, SharedInformer};

/// The time after which the first error names informers that are not running: the user has probably
/// forgotten to run them.
const FIRST_REPORT: Duration = Duration::from_secs(5);
/// The period of later errors. They also name a running informer if reconciles wait for its initial
/// list.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// A shared informer, which the user has to run, or a store that the user has to fill.
struct SharedSource {
    title: String,
    /// Whether reconciles wait for the initial list.
    is_awaited: bool,
    progress: Box<dyn Fn() -> Progress + Send>,
    /// Whether the initial list has arrived, or reconciles no longer wait for it.
    is_settled: Box<dyn Fn() -> bool + Send>,
}

/// The progress of a source whose initial list has not arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The informer was never run.
    NotRun,
    /// The informer runs.
    Runs,
    /// The writer of the store has not received a whole list.
    NotFilled,
}

impl fmt::Display for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what_to_do = match (self.progress)() {
            Progress::NotRun => "it is not running: call its `run`, or `start` of its factory",
            Progress::Runs => "it runs: check the errors that it reports",
            Progress::NotFilled => {
                "poll the stream that fills it, and check the errors of that stream"
            }
        };
        write!(f, "{} ({what_to_do})", self.title)
    }
}

/// The shared informers and the store that a controller still waits for. The errors that name them
/// are yielded periodically, and logged when they name other sources than the error before.
pub(super) struct Unsynced {
    sources: Vec<SharedSource>,
    /// The sources that the last error named.
    named: Vec<String>,
    began: Instant,
    next: Instant,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        let began = Instant::now();
        Self { sources: Vec::new(), named: Vec::new(), began, next: began + FIRST_REPORT }
    }

    /// Adds a shared informer and the controller's handler on it.
    pub(super) fn add<K: Send + Sync + 'static, M: Meta<K>>(
        &mut self,
        informer: &SharedInformer<K, M>,
        handler: Registration<K>,
        InformerRole { is_awaited, is_optional, .. }: InformerRole,
    ) {
        let (title, was_run, availability) =
            (informer.title(), informer.was_run(), informer.availability());
        let is_settled = move || {
            handler.has_synced() || is_optional && *availability.borrow() == Availability::Refused
        };
        let progress = move || if was_run() { Progress::Runs } else { Progress::NotRun };
        let (progress, is_settled) = (Box::new(progress), Box::new(is_settled));
        self.sources.push(SharedSource { title, is_awaited, progress, is_settled });
    }

    /// Adds a store of main objects, which is ready when the flag is set.
    pub(super) fn add_store(&mut self, resource: &str, is_ready: Arc<AtomicBool>) {
        self.sources.push(SharedSource {
            title: format!("the store of {resource}"),
            is_awaited: true,
            progress: Box::new(|| Progress::NotFilled),
            // Relaxed: the flag orders no other memory.
            is_settled: Box::new(move || is_ready.load(Ordering::Relaxed)),
        });
    }

    /// Waits until an error is due, and returns it. Cancel safe.
    pub(super) async fn report(&mut self) -> RunnerError {
        loop {
            self.sources.retain(|source| !(source.is_settled)());
            if self.sources.is_empty() {
                return pending().await;
            }
            sleep_until(self.next).await;
            let is_first = self.next == self.began + FIRST_REPORT;
            self.next = if is_first { self.began } else { self.next } + REPORT_EVERY;
            let is_late = |source: &&SharedSource| {
                let lists_too_long = source.is_awaited && !is_first;
                !(source.is_settled)()
                    && (lists_too_long || (source.progress)() == Progress::NotRun)
            };
            let late: Vec<_> = self.sources.iter().filter(is_late).collect();
            let blocks_reconciles = late.iter().any(|source| source.is_awaited);
            let informers: Vec<_> = late.iter().map(ToString::to_string).collect();
            if informers.is_empty() {
                continue;
            }
            let is_logged = informers == self.named;
            self.named.clone_from(&informers);
            let report = RunnerError::NotSynced { informers, blocks_reconciles };
            if !is_logged {
                tracing::warn!("{report}");
            }
            return report;
        }
    }
}
