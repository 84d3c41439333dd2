//! Runs two workers over one queue. A key that is added often is processed once, the key of an
//! event is processed before the other keys of the initial list, and a key that fails is retried
//! later.
//!
//!     cargo run -p deltafifo-informer --example workqueue

use std::error::Error;
use std::sync::Arc;

use deltafifo_informer::workqueue::{AddOptions, Item, WorkQueue};

/// Reconciles an item. Returns an error for the key `shop/job` the first two times.
fn reconcile(queue: &WorkQueue<String>, item: &Item<String>) -> Result<(), &'static str> {
    if item.key() == "shop/job" && queue.num_requeues(item.key()) < 2 {
        Err("not yet")
    } else {
        Ok(())
    }
}

async fn work(worker: u32, queue: Arc<WorkQueue<String>>) {
    while let Some(item) = queue.get().await {
        match reconcile(&queue, &item) {
            Ok(()) => {
                println!("worker {worker}: {} is reconciled", item.key());
                queue.forget(item.key());
            }
            Err(error) => {
                println!("worker {worker}: {}: {error}", item.key());
                let again = AddOptions::new().priority(item.priority()).rate_limited();
                queue.add_with(item.key().clone(), again);
            }
        }
        item.done();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let queue = Arc::new(WorkQueue::builder().name("example").build()?);
    for key in ["shop/web", "shop/db", "shop/job"] {
        queue.add_with(key.to_owned(), AddOptions::new().priority(-100)); // the initial list
    }
    for _ in 0..1000 {
        queue.add("shop/db".to_owned()); // events
    }
    println!("{} keys to do", queue.len());

    let workers: Vec<_> =
        (1..=2).map(|worker| tokio::spawn(work(worker, Arc::clone(&queue)))).collect();
    // A drain does not wait for delayed keys. The job's second retry is due after 5 and 10 ms.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    queue.shut_down_with_drain().await;
    for worker in workers {
        worker.await?;
    }
    Ok(())
}
