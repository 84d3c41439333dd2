//! The classic demonstration of a delta queue, with a custom key function: one pop hands out, in
//! order, all changes of one object since the object was last handled.
//!
//!     cargo run --example classic

use std::error::Error;
use std::sync::Arc;

use deltafifo::{DeltaFifo, KeyFunc, NoMeta};

struct Pod {
    name: &'static str,
    value: i32,
}

fn pod(name: &'static str, value: i32) -> Arc<Pod> {
    Arc::new(Pod { name, value })
}

fn main() -> Result<(), Box<dyn Error>> {
    let fifo =
        DeltaFifo::builder(KeyFunc::custom(NoMeta, |pod: &Pod| Ok(pod.name.to_owned()))).build();

    fifo.add(pod("pod1", 1))?;
    fifo.add(pod("pod2", 2))?;
    fifo.add(pod("pod3", 3))?;
    fifo.update(pod("pod1", 10))?;
    fifo.delete(pod("pod1", 10))?;

    let item = fifo.pop()?;
    for delta in item.deltas() {
        if let Some(pod) = delta.object.object() {
            println!("{} : {} {}", delta.kind, pod.name, pod.value);
        }
    }
    item.done();
    Ok(())
}
