//! The data of the benchmarks: either objects that are generated from numbers, as the peer in Go
//! (`peers/client-go`) generates them too, or the pods of a real list response. Lists are built
//! outside the measured time.

#[cfg(feature = "peers")]
mod cluster;
mod fnv;
mod generated;
#[cfg(feature = "pods")]
mod input;
mod labels;
#[cfg(feature = "peers")]
mod list_files;
mod node;
mod plan;
mod random;
mod source;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use deltafifo::Meta;

use crate::process::cores;
#[cfg(feature = "peers")]
pub use cluster::Cluster;
pub(crate) use fnv::Fnv;
pub use generated::{Generated, Object, ObjectAccess, ObjectMeta};
#[cfg(feature = "pods")]
pub use input::{InputError, Pods};
pub use labels::APP;
pub(crate) use labels::{AppSelector, LabelMap};
#[cfg(feature = "peers")]
pub(crate) use list_files::{ListFiles, ListFilesError};
pub(crate) use node::node;
pub(crate) use plan::{ListPlan, added, changed, removed};
pub(crate) use random::{Zipf, splitmix64, uniform_key};
pub use source::Source;

/// Builds all objects of a plan, in its order.
pub(crate) fn build<S: Source>(source: &S, plan: &ListPlan) -> Vec<Arc<S::Object>> {
    build_in_parts(plan.len(), |at| {
        let (index, version) = plan.entry(at);
        Arc::new(source.make(index, version))
    })
}

/// Returns the results of `make` for the numbers below `len`, in order. Each core makes one part.
pub(crate) fn build_in_parts<V: Send>(len: usize, make: impl Fn(usize) -> V + Sync) -> Vec<V> {
    let (stretch, make) = (len.div_ceil(cores()).max(1), &make);
    let mut list = Vec::with_capacity(len);
    thread::scope(|scope| {
        let part = |from: usize| {
            let positions = from..len.min(from + stretch);
            scope.spawn(move || positions.map(make).collect::<Vec<_>>())
        };
        for worker in (0..len).step_by(stretch).map(part).collect::<Vec<_>>() {
            list.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    list
}

/// Appends the key of an object, `namespace/name` or `name`.
pub fn write_key<T>(meta: &impl Meta<T>, object: &T, to: &mut String) {
    if let Some(namespace) = meta.namespace(object).filter(|namespace| !namespace.is_empty()) {
        to.push_str(namespace);
        to.push('/');
    }
    to.push_str(meta.name(object).unwrap_or_default());
}

/// Calls `use_key` with the key of an object, which is written to a buffer of the thread.
pub(crate) fn with_key<T, R>(
    meta: &impl Meta<T>,
    object: &T,
    use_key: impl FnOnce(&str) -> R,
) -> R {
    thread_local!(static BUFFER: Cell<String> = const { Cell::new(String::new()) });
    let mut key = BUFFER.take();
    key.clear();
    write_key(meta, object, &mut key);
    let result = use_key(&key);
    BUFFER.set(key);
    result
}
