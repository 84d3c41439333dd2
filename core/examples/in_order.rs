//! An example in which the order across keys matters. A consumer follows a service and the pods
//! behind it, and must handle each event in the order in which it happened. A relist is one event
//! in that order.
//!
//!     cargo run --example in_order

use std::error::Error;
use std::sync::Arc;
use std::thread;

use deltafifo::{Change, InOrderFifo, Indexer, KeyFunc, NoMeta};

#[derive(Clone, Copy)]
struct Thing {
    name: &'static str,
    state: &'static str,
}

fn thing(name: &'static str, state: &'static str) -> Arc<Thing> {
    Arc::new(Thing { name, state })
}

/// Offers the events of a list and a watch, as a reflector would on a thread of its own.
fn feed(fifo: &InOrderFifo<Thing, NoMeta>) -> Result<(), Box<dyn Error + Send + Sync>> {
    fifo.replace(vec![thing("pod", "starting"), thing("service", "without a pod")], "1")?;
    fifo.update(thing("pod", "ready"))?;
    fifo.update(thing("service", "at the pod"))?;
    fifo.update(thing("pod", "stopping"))?;
    fifo.update(thing("service", "without a pod"))?;
    // The watch broke, and the pod's deletion was missed.
    fifo.replace(vec![thing("service", "without a pod"), thing("new pod", "starting")], "9")?;
    fifo.close();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let keys = KeyFunc::custom(NoMeta, |thing: &Thing| Ok(thing.name.to_owned()));
    let fifo = InOrderFifo::over(Indexer::builder(keys).build()?).build();
    thread::scope(|scope| {
        let feeding = scope.spawn(|| feed(&fifo));
        while let Ok(mut turn) = fifo.pop_batch(1000) {
            println!("a batch of {}", turn.events().count());
            while turn.event().is_some() {
                turn.apply(|key, change| match change {
                    Change::Added { new, .. } => println!("  {key} is new: {}", new.state),
                    Change::Updated { old, new, .. } => {
                        println!("  {key}: {}, was {}", new.state, old.state);
                    }
                    Change::Deleted { last, .. } => {
                        let state = last.object().map_or("unknown", |thing| thing.state);
                        println!("  {key} is gone: {state}, when it was last seen");
                    }
                })?;
            }
        }
        feeding.join().unwrap_or_else(|_| Err("the feeder panicked".into()))
    })?;
    println!("{} things are left", fifo.store().len());
    Ok(())
}
