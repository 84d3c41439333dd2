//! The workload `queries`: the time of index look-ups. One index is by node; it has a thousand
//! nodes, and the objects of a node are spread over all objects. The other is by namespace; the
//! objects of a namespace are next to each other in the lists. The store is filled by its queue,
//! and then idle.
//!
//! The results are dropped outside the measured time, because Go has no such cost.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use deltafifo::Meta;
use serde_json::{Map, Value};

use super::events::ratio;
use super::fill::{ChildError, filled};
use super::latency::{Latencies, MAX, P50, P99_9};
use super::memory::MemoryMark;
use crate::data::{ListPlan, Source, build, node, uniform_key};
use crate::digest::Digest;
use crate::engines::{IndexEngine, QueueEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, output};

/// Number of look-ups in each index.
const CALLS: usize = 10_000;

/// An index: the function that computes the value of an object, and the engine's function that
/// looks up a value.
struct QueriedIndex<E, T, M> {
    variant: &'static str,
    value: fn(&M, &T) -> String,
    find: fn(&E, &str) -> Vec<Arc<T>>,
}

/// Fills one engine, and measures the look-ups in each of the two indexes.
pub(super) fn run<S: Source, E: IndexEngine<S::Object> + QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    output::progress("building objects")?;
    let list = build(source, &ListPlan::same(args.objects));
    let engine = filled(|| new(S::Meta::default()), &list);
    let indexes: [QueriedIndex<E, S::Object, S::Meta>; 2] = [
        QueriedIndex { variant: "by-index", value: node, find: E::by_node },
        QueriedIndex { variant: "namespace", value: namespace, find: E::by_namespace },
    ];
    for index in indexes {
        output::progress(format!("queries {}", index.variant))?;
        let (values, mut extra) = index.check(&engine, &list)?;
        let memory = MemoryMark::set(args);
        let (took, found) = index.measure(&engine, &values);
        extra.extend(memory.fields());
        extra.insert("calls".into(), CALLS.into());
        extra.insert("objects_per_call".into(), ratio(found, CALLS).into());
        let prefix = format!("{}-", index.variant);
        output::rows(took.rows(Workload::Queries, &prefix, &[P50, P99_9, MAX], &extra))?;
    }
    Ok(())
}

fn namespace<T>(meta: &impl Meta<T>, object: &T) -> String {
    meta.namespace(object).unwrap_or_default().to_owned()
}

impl<E, T, M: Meta<T> + Default> QueriedIndex<E, T, M> {
    /// Looks up every value, and compares the results with the list. Returns the values, and the
    /// fields that `report/check.rs` compares between engines.
    fn check(
        &self,
        engine: &E,
        list: &[Arc<T>],
    ) -> Result<(Vec<String>, Map<String, Value>), ChildError> {
        let (meta, mut values, mut expected) = (M::default(), BTreeSet::new(), Digest::default());
        for object in list {
            let value = (self.value)(&meta, object);
            expected.add_indexed(&value, &meta, &**object);
            values.insert(value);
        }
        let mut answers = Digest::default();
        for value in &values {
            for object in (self.find)(engine, value) {
                answers.add_indexed(value, &meta, &*object);
            }
        }
        if answers != expected {
            let index = self.variant;
            return Err(format!("queries {index}: {answers:?}, expected {expected:?}").into());
        }
        let extra = Map::from_iter([
            ("values".into(), values.len().into()),
            ("answers".into(), answers.len().into()),
            ("answers_digest".into(), answers.hex().into()),
        ]);
        Ok((values.into_iter().collect(), extra))
    }

    /// Looks up random values. Returns the times, and the number of returned objects.
    fn measure(&self, engine: &E, values: &[String]) -> (Latencies, usize) {
        let (mut took, mut found) = (Latencies::new(), 0);
        for call in 0..CALLS {
            let value = &values[uniform_key(call, values.len())];
            let began = Instant::now();
            let objects = black_box((self.find)(engine, black_box(value)));
            took.record(began.elapsed());
            found += objects.len();
        }
        (took, found)
    }
}
