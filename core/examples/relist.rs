//! Shows the use of a delta queue: a watch breaks, objects change unobserved, and the consumers get
//! exactly these changes from the relist. The store is fused with the queue. There is one producer,
//! a relist in pages, and two concurrent consumers.
//!
//!     cargo run --example relist

use std::error::Error;
use std::sync::Arc;
use std::thread;

use deltafifo::{Change, DeltaFifo, Indexer, KeyFunc, Meta, Popped, error_chain};

struct Pod {
    namespace: &'static str,
    name: String,
    version: String,
}

struct PodMeta;

impl Meta<Pod> for PodMeta {
    fn namespace<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.namespace)
    }
    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(&pod.name)
    }
    fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(&pod.version)
    }
}

fn pod(name: &str, version: u32) -> Arc<Pod> {
    Arc::new(Pod { namespace: "shop", name: name.to_owned(), version: version.to_string() })
}

/// Runs a consumer on the current thread: applies each item to the store, and prints the changes.
fn consume(name: &str, fifo: &DeltaFifo<Pod, PodMeta>) {
    while let Ok(mut item) = fifo.pop() {
        if let Err(error) = print_changes(name, &mut item) {
            eprintln!("consumer {name}: {}", error_chain(&error));
        }
    }
}

fn print_changes(
    consumer: &str,
    item: &mut Popped<'_, Pod, PodMeta>,
) -> Result<(), deltafifo::StoreError> {
    let key = item.key().to_owned();
    item.apply(|change| {
        let what = match change {
            Change::Added { new, kind } => format!("was added at version {} ({kind})", new.version),
            Change::Updated { old, new, kind } => {
                format!("changed from {} to {} ({kind})", old.version, new.version)
            }
            Change::Deleted { last, .. } if last.is_tombstone() => {
                "was deleted; its last state is not known".to_owned()
            }
            Change::Deleted { .. } => "was deleted".to_owned(),
        };
        println!("  consumer {consumer}: {key} {what}");
    })
}

/// Runs two consumers until everything offered so far is handled.
fn settle(fifo: &DeltaFifo<Pod, PodMeta>, what: &str) {
    println!("{what}");
    thread::scope(|scope| {
        for name in ["A", "B"] {
            scope.spawn(move || {
                while let Some(mut item) = fifo.try_pop() {
                    if let Err(error) = print_changes(name, &mut item) {
                        eprintln!("consumer {name}: {}", error_chain(&error));
                    }
                }
            });
        }
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).build()?;
    let fifo = DeltaFifo::over(store).skip_unchanged(true).build();

    fifo.replace(vec![pod("cart", 1), pod("till", 1), pod("web", 1)], "1")?;
    settle(&fifo, "The initial list:");
    println!("  synced: {}", fifo.has_synced());

    fifo.update(pod("web", 2))?;
    fifo.update(pod("web", 3))?;
    fifo.add(pod("mail", 3))?;
    settle(
        &fifo,
        "\nThe watch: web changed twice, mail is new. Each change is printed, those of web in one pop:",
    );

    println!(
        "\nThe watch breaks. Unseen, cart is deleted and web changes. The relist comes in two pages; consumers need"
    );
    println!("not wait for the second, and an unchanged object is not printed again:");
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        for name in ["A", "B"] {
            let fifo = &fifo;
            scope.spawn(move || consume(name, fifo));
        }
        let mut relist = fifo.begin_replace();
        relist.offer(vec![pod("till", 1), pod("web", 9)])?;
        relist.offer(vec![pod("mail", 3)])?;
        let committed = relist.commit("9")?;
        fifo.close();
        println!("  committed: {} deletion found", committed.deleted);
        Ok(())
    })?;

    let mut known = fifo.store().list_keys();
    known.sort();
    println!(
        "\nKnown at version {}: {}",
        fifo.resource_version().unwrap_or_default(),
        known.join(", ")
    );
    Ok(())
}
