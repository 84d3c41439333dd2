//! The metrics of an informer's compact objects.

use deltafifo::Meta;
use metrics::{Counter, Gauge};

use super::Inner;
use super::metrics::Identity;
use crate::compact::CompactStats;
use crate::metrics::{self as table, Labels, Named, count};

/// The metrics of the compact objects of an informer.
pub(super) struct CompactMetrics {
    bytes: Gauge,
    raw_bytes: Gauge,
    base_bytes: Gauge,
    dictionary_bytes: Gauge,
    decodes: Counter,
    failed_decodes: Counter,
    decode_seconds: Gauge,
    decoded_hits: Counter,
    decoded_misses: Counter,
    decoded_bytes: Gauge,
}

impl CompactMetrics {
    fn new(labels: &Labels) -> Self {
        Self {
            bytes: labels.gauge(&table::COMPACT_BYTES),
            raw_bytes: labels.gauge(&table::RAW_BYTES),
            base_bytes: labels.gauge(&table::BASE_BYTES),
            dictionary_bytes: labels.gauge(&table::DICTIONARY_BYTES),
            decodes: labels.counter(&table::DECODES),
            failed_decodes: labels.counter(&table::FAILED_DECODES),
            decode_seconds: labels.gauge(&table::DECODE_SECONDS),
            decoded_hits: labels.counter(&table::DECODED_HITS),
            decoded_misses: labels.counter(&table::DECODED_MISSES),
            decoded_bytes: labels.gauge(&table::DECODED_BYTES),
        }
    }

    fn sample(&self, stats: &CompactStats) {
        self.bytes.set(count(stats.bytes));
        self.raw_bytes.set(count(stats.raw_bytes));
        self.base_bytes.set(count(stats.base_bytes + stats.unpacked_base_bytes));
        self.dictionary_bytes.set(count(stats.dictionary_bytes));
        self.decodes.absolute(stats.decodes);
        self.failed_decodes.absolute(stats.failed_decodes);
        self.decode_seconds.set(stats.decode_time);
        self.decoded_hits.absolute(stats.decoded_hits);
        self.decoded_misses.absolute(stats.decoded_misses);
        self.decoded_bytes.set(count(stats.decoded_bytes));
    }

    /// Resets the gauges of memory when the informer ends.
    fn ended(&self) {
        let Self { bytes, raw_bytes, base_bytes, dictionary_bytes, decoded_bytes, .. } = self;
        for gauge in [bytes, raw_bytes, base_bytes, dictionary_bytes, decoded_bytes] {
            gauge.set(0.0);
        }
    }
}

impl Identity {
    /// Returns the metrics of the informer's compact objects, if it has such objects and a name.
    pub(super) fn compact_metrics(&self, is_compact: bool) -> Named<CompactMetrics> {
        let labels = self.labels().filter(|_| is_compact);
        Named(labels.map(|labels| CompactMetrics::new(&labels)))
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Inner<K, M> {
    /// Records the current values.
    pub(super) fn sample_compact(&self) {
        if let Some(upkeep) = self.feeder.upkeep() {
            self.compact_metrics.record(|metrics| metrics.sample(&upkeep.stats()));
        }
    }

    /// Records that the informer has ended.
    pub(super) fn end_compact(&self) {
        self.compact_metrics.record(CompactMetrics::ended);
    }
}
