//! What one handler was told, and whether it is what it was promised.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo_informer::shared_informer::Notification;
use hdrhistogram::Histogram;
use k8s_openapi::api::core::v1::ConfigMap;

use super::load::{Load, number};
use super::{histogram, record};

pub struct Tally {
    load: Arc<Load>,
    /// The number after the last.
    end: u64,
    /// By object.
    told: Vec<Option<u64>>,
    /// Objects whose last state was not told.
    missing: u64,
    is_in_resync: bool,
    pub found: Found,
}

pub struct Found {
    /// From when each write was due until a state at least as new was told.
    pub latencies: Histogram<u64>,
    /// Since the first write.
    pub calls: u64,
    since: Option<Instant>,
    /// Of the writes in `latencies` those that were not told by themselves.
    pub absorbed: u64,
    pub resyncs: u64,
    /// Changes from what it was not told last, and others that cannot be.
    pub wrong: u64,
}

impl Tally {
    pub fn new(load: Arc<Load>, end: u64) -> Self {
        let (missing, told) = (load.objects, (0..load.objects).map(|_| None).collect());
        let found = Found {
            latencies: histogram(),
            calls: 0,
            since: None,
            absorbed: 0,
            resyncs: 0,
            wrong: 0,
        };
        Self { load, end, told, missing, is_in_resync: false, found }
    }

    pub fn note(&mut self, told: &Notification<ConfigMap>) {
        if self.load.has_begun() {
            self.found.since.get_or_insert_with(Instant::now);
            self.found.calls += 1;
        }
        match told {
            Notification::Added { new, .. } => self.change(None, new),
            Notification::Updated { old, new, .. } => self.change(Some(old), new),
            Notification::Deleted { .. } => self.found.wrong += 1,
            Notification::ResyncBegins => {
                self.told.fill(None);
                (self.missing, self.is_in_resync) = (self.load.objects, true);
                self.found.resyncs += 1;
            }
            Notification::ResyncEnds => self.is_in_resync = false,
        }
    }

    fn change(&mut self, old: Option<&Arc<ConfigMap>>, new: &ConfigMap) {
        let now = Instant::now();
        let Some((new, told)) = number(new).and_then(|new| {
            let place = usize::try_from(new % self.load.objects).ok()?;
            Some((new, self.told.get_mut(place)?))
        }) else {
            return self.found.wrong += 1;
        };
        let before = told.replace(new);
        self.found.wrong +=
            u64::from(before != old.and_then(|old| number(old)) || before > Some(new));
        let is_last = |number: u64| number + self.load.objects >= self.end;
        self.missing -= u64::from(is_last(new) && !before.is_some_and(is_last));
        let Some(before) = before else { return };
        let noted = self.found.latencies.len();
        for due in self.load.due_since(before, new) {
            record(&mut self.found.latencies, now.saturating_duration_since(due));
        }
        self.found.absorbed += (self.found.latencies.len() - noted).saturating_sub(1);
    }

    /// Whether there is nothing more to be told.
    pub fn is_complete(&self) -> bool {
        self.missing == 0 && !self.is_in_resync
    }
}

impl Found {
    /// What a call took, of a handler that never had a rest, until now.
    pub fn a_call(&self) -> Duration {
        let all = self.since.map(|since| since.elapsed()).unwrap_or_default();
        all.div_f64(f64::from(u32::try_from(self.calls.max(1)).unwrap_or(u32::MAX)))
    }
}
