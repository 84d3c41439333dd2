//! Reports of informers without a first list: a controller over one waits in silence otherwise, since the
//! informer's errors go to whoever made it, and an informer that nobody runs has none.

use std::future::pending;
use std::time::Duration;

use deltafifo::Meta;
use tokio::time::{Instant, sleep_until};

use super::error::RunnerError;
use crate::shared_informer::{Registration, SharedInformer};

/// An informer that nobody runs after this long was forgotten, in all likelihood.
const FIRST_REPORT: Duration = Duration::from_secs(5);
/// A first list may take a while, so it is reported later, and then again and again.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// An informer that the controller was given, and does not run itself.
struct Given {
    title: String,
    was_run: Box<dyn Fn() -> bool + Send>,
    has_synced: Box<dyn Fn() -> bool + Send>,
}

/// Says now and then which informers a controller still waits for.
pub(super) struct Unsynced {
    given: Vec<Given>,
    began: Instant,
    next: Instant,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        let began = Instant::now();
        Self { given: Vec::new(), began, next: began + FIRST_REPORT }
    }

    /// Adds an informer, over which the controller has this handler.
    pub(super) fn add<K: Send + Sync + 'static, M: Meta<K>>(
        &mut self,
        informer: &SharedInformer<K, M>,
        handler: Registration<K>,
    ) {
        let (title, was_run) = (informer.title(), Box::new(informer.was_run()));
        self.given.push(Given { title, was_run, has_synced: Box::new(move || handler.has_synced()) });
    }

    /// Waits until there is something to report. Cancel safe.
    pub(super) async fn report(&mut self) -> RunnerError {
        loop {
            self.given.retain(|given| !(given.has_synced)());
            if self.given.is_empty() {
                return pending().await;
            }
            sleep_until(self.next).await;
            let is_first = self.next == self.began + FIRST_REPORT;
            self.next = if is_first { self.began } else { self.next } + REPORT_EVERY;
            let late = self.given.iter().filter(|given| !(given.has_synced)() && !(is_first && (given.was_run)()));
            let informers: Vec<_> = late
                .map(|Given { title, was_run, .. }| {
                    let what_to_do = if was_run() {
                        "it runs: see the errors that it reports"
                    } else {
                        "nobody runs it: call its `run`, or `start` of its factory"
                    };
                    format!("{title} ({what_to_do})")
                })
                .collect();
            if !informers.is_empty() {
                let report = RunnerError::NotSynced { informers };
                tracing::warn!("{report}");
                return report;
            }
        }
    }
}
