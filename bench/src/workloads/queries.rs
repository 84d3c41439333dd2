//! The workload `queries`: the time of index look-ups and of label selectors. One index is by node;
//! it has a thousand nodes, and the objects of a node are spread over all objects. The other one is
//! by namespace; the objects of a namespace are next to each other in the lists. A selector
//! requires one of a thousand apps, whose objects are spread over all objects, and excludes one pod
//! template. Selectors are measured with an index of apps, and without one, as scans of all
//! objects. The store is filled by its queue, and is idle during the measurement.
//!
//! The results are dropped outside the measured time, because Go has no such cost.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use deltafifo::{Labels, Meta, SelectorError};
use serde_json::{Map, Value};

use super::events::ratio;
use super::fill::{ChildError, filled, relist};
use super::latency::{Latencies, MAX, P50, P99_9};
use super::memory::MemoryMark;
use crate::data::{APP, AppSelector, ListPlan, Source, build, node, uniform_key};
use crate::digest::Digest;
use crate::engines::{IndexEngine, QueueEngine, SelectorEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, output};

/// Number of look-ups of a variant with an index.
const CALLS: usize = 10_000;
/// Number of scans, each with a selector of its own. A median needs at least as many samples
/// (`report/percentile.rs`).
const SCANS: usize = 20;

/// A function of an engine that looks up a value of an index.
type Find<E, T> = fn(&E, &str) -> Vec<Arc<T>>;

/// Fills one engine, and runs the variants that look up the values of an index, if the workload was
/// requested. `new` creates an engine with an index by node.
pub(super) fn run<S: Source, E: IndexEngine<S::Object> + QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    if !args.includes(Workload::Queries) {
        return Ok(());
    }
    output::progress("building objects")?;
    let list = build(source, &ListPlan::same(args.objects));
    let engine = filled(|| new(S::Meta::default()), &list);
    let meta = S::Meta::default();
    let measure = |variant, value: fn(&S::Meta, &S::Object) -> String, find: Find<E, S::Object>| {
        let (mut values, mut expected) = (BTreeSet::new(), Digest::default());
        for object in &list {
            let value = value(&meta, object);
            expected.add_indexed(&value, &meta, &**object);
            values.insert(value);
        }
        let queries = values.into_iter().collect();
        let calls = Calls { variant, count: CALLS, queries, value: String::as_str };
        calls.run(args, &meta, &expected, |value| find(&engine, value))
    };
    measure("by-index", node, E::by_node)?;
    measure("namespace", namespace, E::by_namespace)
}

fn namespace<T>(meta: &impl Meta<T>, object: &T) -> String {
    meta.namespace(object).unwrap_or_default().to_owned()
}

/// A variant with label selectors.
pub(super) struct Selection {
    variant: &'static str,
    /// The limit for the number of selectors.
    most: usize,
    calls: usize,
}

impl Selection {
    /// The variant with an index of apps.
    pub(super) const INDEXED: Self = Self { variant: "selector", most: usize::MAX, calls: CALLS };
    /// The variant without an index.
    pub(super) const SCAN: Self = Self { variant: "selector-scan", most: SCANS, calls: SCANS };

    /// Runs the variant on one engine, if the workload was requested. Prints no rows if no object
    /// has an app.
    pub(super) fn run<S: Source, E: SelectorEngine<S::Object>>(
        &self,
        args: &ChildArgs,
        source: &S,
        new: impl Fn(S::Meta) -> E,
    ) -> Result<(), ChildError> {
        if !args.includes(Workload::Queries) {
            return Ok(());
        }
        output::progress("building objects")?;
        let (meta, list) = (S::Meta::default(), build(source, &ListPlan::same(args.objects)));
        let engine = new(meta);
        relist(&engine, E::List::from(&list));
        let mut all = BTreeMap::new();
        for selector in list.iter().filter_map(|object| AppSelector::of(&meta, &**object)) {
            all.entry(selector.app.clone()).or_insert(selector);
        }
        let selectors: BTreeMap<_, _> = all.into_iter().take(self.most).collect();
        let mut expected = Digest::default();
        for object in &list {
            let selector = meta.label(object, APP).and_then(|app| selectors.get(app));
            if let Some(selector) = selector.filter(|selector| selector.matches(&meta, &**object)) {
                expected.add_indexed(&selector.app, &meta, &**object);
            }
        }
        let query = |selector: AppSelector| Ok((E::selector(&selector)?, selector.app));
        let queries =
            selectors.into_values().map(query).collect::<Result<Vec<_>, SelectorError>>()?;
        if queries.is_empty() {
            return Ok(());
        }
        let calls =
            Calls { variant: self.variant, count: self.calls, queries, value: |(_, app)| app };
        calls.run(args, &meta, &expected, |(selector, _)| engine.select(selector))
    }
}

/// The calls of a variant: their number, the queries, and the function that returns the value that
/// a query looks up. The queries are in the order of their values.
struct Calls<Q> {
    variant: &'static str,
    count: usize,
    queries: Vec<Q>,
    value: fn(&Q) -> &str,
}

impl<Q> Calls<Q> {
    /// Checks and measures the function `find`, which returns the objects of a query.
    fn run<T, R: AsRef<T>>(
        &self,
        args: &ChildArgs,
        meta: &impl Meta<T>,
        expected: &Digest,
        find: impl Fn(&Q) -> Vec<R>,
    ) -> Result<(), ChildError> {
        output::progress(format!("queries {}", self.variant))?;
        let mut extra = self.check(meta, expected, &find)?;
        let memory = MemoryMark::set(args);
        let (took, found) = self.measure(&find);
        extra.extend(memory.fields());
        extra.insert("calls".into(), self.count.into());
        extra.insert("objects_per_call".into(), ratio(found, self.count).into());
        let all = [P50, P99_9, MAX];
        // With fewer calls, p99.9 would be the largest time.
        let quantiles = if self.count < CALLS { &[P50, MAX][..] } else { &all };
        let prefix = format!("{}-", self.variant);
        output::rows(took.rows(Workload::Queries, &prefix, quantiles, &extra))?;
        Ok(())
    }

    /// Makes every query once, and compares the results with the objects of the list. Returns the
    /// fields that `report/check.rs` compares between engines.
    fn check<T, R: AsRef<T>>(
        &self,
        meta: &impl Meta<T>,
        expected: &Digest,
        find: impl Fn(&Q) -> Vec<R>,
    ) -> Result<Map<String, Value>, ChildError> {
        let mut answers = Digest::default();
        for query in &self.queries {
            for object in find(query) {
                answers.add_indexed((self.value)(query), meta, object.as_ref());
            }
        }
        if answers != *expected {
            let variant = self.variant;
            return Err(format!("queries {variant}: {answers:?}, expected {expected:?}").into());
        }
        Ok(Map::from_iter([
            ("values".into(), self.queries.len().into()),
            ("answers".into(), answers.len().into()),
            ("answers_digest".into(), answers.hex().into()),
        ]))
    }

    /// Makes random queries. Returns the times, and the number of returned objects.
    fn measure<R>(&self, find: impl Fn(&Q) -> Vec<R>) -> (Latencies, usize) {
        let (mut took, mut found) = (Latencies::new(), 0);
        for call in 0..self.count {
            let query = &self.queries[uniform_key(call, self.queries.len())];
            let began = Instant::now();
            let objects = black_box(find(black_box(query)));
            took.record(began.elapsed());
            found += objects.len();
        }
        (took, found)
    }
}
