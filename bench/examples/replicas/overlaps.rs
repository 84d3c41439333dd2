//! Reconciles of an object that overlap, of replicas of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::yield_now;

use crate::cluster::number_of;

/// Counts reconciles that begin while another one of their object runs. All atomics are counts or
/// marks that guard no other data.
pub(crate) struct Overlaps {
    /// Whether a reconcile of the object runs.
    running: Vec<AtomicBool>,
    count: AtomicUsize,
}

impl Overlaps {
    pub(crate) fn new(objects: usize) -> Arc<Self> {
        let running = (0..objects).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { running, count: AtomicUsize::new(0) })
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Reconciles an object while other tasks have a turn.
    pub(crate) async fn reconcile(&self, map: &ConfigMap) {
        let Some(running) = number_of(map).and_then(|number| self.running.get(number)) else {
            return;
        };
        if running.swap(true, Relaxed) {
            self.count.fetch_add(1, Relaxed);
        }
        let _running = Running(running);
        yield_now().await;
    }
}

/// A reconcile, which ends when this is dropped.
struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}
