//! Measures the memory that a store keeps after all of its objects were deleted.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --example kept_memory [OBJECTS]
//! ```
//!
//! The allocator counts the memory in use, so pages that it keeps for later do not matter. An empty
//! relist deletes the objects, and the deletions are popped one by one. The store of the first row
//! has only its index by namespace. The stores of the other two rows also have one other index
//! each.

use std::sync::Arc;

use cap::Cap;
use deltafifo::{DeltaFifo, Indexer, IndexerBuilder, KeyFunc, NoMeta};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

fn keys() -> KeyFunc<u64, NoMeta> {
    KeyFunc::custom(NoMeta, |number: &u64| {
        Ok(format!("namespace-{}/object-{number}", number % 500))
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    println!("{objects} objects stored, and deleted by a relist: MiB in use");
    println!("| | stored | after the deletions | empty store |");
    println!("| --- | --- | --- | --- |");
    row("namespace index (one value)", objects, Indexer::builder(keys()))?;
    let by_node = Indexer::builder(keys())
        .index("node", |number: &u64| Ok(vec![(number % 1000).to_string()]));
    row("and an index of 1,000 values", objects, by_node)?;
    let unique = Indexer::builder(keys()).index("uid", |number: &u64| Ok(vec![number.to_string()]));
    row("and an index of unique values", objects, unique)
}

fn row(
    name: &str,
    objects: u64,
    store: IndexerBuilder<u64, NoMeta>,
) -> Result<(), Box<dyn std::error::Error>> {
    let before = ALLOCATOR.allocated();
    let fifo = DeltaFifo::over(store.build()?).build();
    let empty = in_use_since(before);
    fifo.replace((0..objects).map(Arc::new).collect(), "1")?;
    drain(&fifo);
    let stored = in_use_since(before);
    fifo.replace(Vec::new(), "2")?;
    drain(&fifo);
    let kept = in_use_since(before);
    println!("| {name} | {stored:.1} | **{kept:.1}** | {empty:.1} |");
    Ok(())
}

fn drain(fifo: &DeltaFifo<u64, NoMeta>) {
    while let Some(mut item) = fifo.try_pop() {
        // The index functions cannot fail.
        item.apply(|_| ()).expect("the object is stored");
    }
}

/// Returns by how many MiB the memory in use has grown since it was `before` bytes.
fn in_use_since(before: usize) -> f64 {
    let kibibytes = ALLOCATOR.allocated().saturating_sub(before) / 1024;
    f64::from(u32::try_from(kibibytes).unwrap_or(u32::MAX)) / 1024.0
}
