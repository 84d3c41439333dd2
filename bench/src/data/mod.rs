//! The data of the benchmarks: either objects that are generated from numbers, as the peer in Go
//! (`peers/client-go`) generates them too, or the pods of a real list response. Lists are built
//! outside the measured time.

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

use std::cell::Cell;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use deltafifo::Meta;

pub use cluster::Cluster;
pub use fnv::Fnv;
pub use generated::{Generated, Object, ObjectAccess, ObjectMeta};
#[cfg(feature = "pods")]
pub use input::{InputError, Pods};
pub use labels::{APP, AppSelector, LabelMap};
#[cfg(feature = "peers")]
pub(crate) use list_files::{ListFiles, ListFilesError, Multiplied};
pub use node::node;
pub use plan::{ListPlan, added, changed, hot_key, removed};
pub use random::{Zipf, splitmix64, uniform_key};
pub use source::Source;

/// Builds all objects of a plan, in its order. Each core builds one part of the list.
pub fn build<S: Source>(source: &S, plan: &ListPlan) -> Vec<Arc<S::Object>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let stretch = plan.len().div_ceil(threads).max(1);
    let mut list = Vec::with_capacity(plan.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.len())
            .step_by(stretch)
            .map(|from| {
                scope.spawn(move || {
                    let positions = from..plan.len().min(from + stretch);
                    let make = |at| {
                        let (index, version) = plan.entry(at);
                        Arc::new(source.make(index, version))
                    };
                    positions.map(make).collect::<Vec<_>>()
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(stretch) => list.extend(stretch),
                Err(panic) => std::panic::resume_unwind(panic),
            }
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
pub fn with_key<T, R>(meta: &impl Meta<T>, object: &T, use_key: impl FnOnce(&str) -> R) -> R {
    thread_local!(static BUFFER: Cell<String> = const { Cell::new(String::new()) });
    let mut key = BUFFER.take();
    key.clear();
    write_key(meta, object, &mut key);
    let result = use_key(&key);
    BUFFER.set(key);
    result
}
