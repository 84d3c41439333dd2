//! Measures the cost of committing scoped relists. Each namespace is a scope. Every namespace is
//! listed once, and then again without changes.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --example scoped_commits [NAMESPACES OBJECTS]
//! ```
//!
//! `OBJECTS` is the number of objects in one namespace. In a row `drained each`, each list is
//! drained before the next one is offered. In a row `not drained`, the deltas of the first lists
//! stay pending until all namespaces have been listed once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo::{DeltaFifo, Indexer, KeyFunc, KeyScope, ScopeId};
use deltafifo_bench::data::{Object, ObjectAccess, ObjectMeta};

type Fifo = DeltaFifo<Object, ObjectAccess>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sizes = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let sizes = match (sizes.next().transpose()?, sizes.next().transpose()?) {
        (Some(namespaces), Some(objects)) => vec![(namespaces, objects)],
        _ => vec![(200, 500), (1_000, 1_000)],
    };
    println!(
        "| namespaces, objects of each | lists | first: pages, commits | again: pages, commits |"
    );
    println!("| --- | --- | --- | --- |");
    for (namespaces, objects) in sizes {
        for drains in [true, false] {
            row(namespaces, objects, drains)?;
        }
    }
    Ok(())
}

fn row(namespaces: usize, objects: usize, drains: bool) -> Result<(), Box<dyn std::error::Error>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectAccess)).build()?;
    let fifo = DeltaFifo::over(store).skip_unchanged(true).build();
    let mut scopes = Vec::new();
    for number in 0..namespaces {
        let namespace = format!("namespace-{number}");
        let scope = fifo.add_scope(KeyScope::namespace(namespace.as_str()))?;
        let object = |number| Arc::new(object(&namespace, number));
        scopes.push((scope, (0..objects).map(object).collect::<Vec<_>>()));
    }
    let first = list(&fifo, &scopes, drains)?;
    drain(&fifo);
    let again = list(&fifo, &scopes, drains)?;
    let when = if drains { "drained each" } else { "not drained" };
    println!("| {namespaces}, {objects} | {when} | {} | {} |", shown(first), shown(again));
    Ok(())
}

fn object(namespace: &str, number: usize) -> Object {
    Object {
        metadata: ObjectMeta {
            namespace: namespace.into(),
            name: format!("object-{number}"),
            uid: String::new(),
            resource_version: "1".into(),
            labels: BTreeMap::new(),
        },
    }
}

/// Lists every namespace. Returns the total time of the pages, and the total time of the commits.
fn list(
    fifo: &Fifo,
    scopes: &[(ScopeId, Vec<Arc<Object>>)],
    drains: bool,
) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let (mut pages, mut commits) = (Duration::ZERO, Duration::ZERO);
    for (scope, objects) in scopes {
        let page = objects.clone();
        let began = Instant::now();
        let mut relist = fifo.begin_replace_in(scope);
        relist.offer(page)?;
        pages += began.elapsed();
        let began = Instant::now();
        relist.commit("1")?;
        commits += began.elapsed();
        if drains {
            drain(fifo);
        }
    }
    Ok((pages, commits))
}

fn drain(fifo: &Fifo) {
    while let Some(mut item) = fifo.try_pop() {
        // There are no index functions that could fail.
        item.apply(|_| ()).expect("the object is stored");
    }
}

fn shown((pages, commits): (Duration, Duration)) -> String {
    format!("{:.3} s, {:.3} s", pages.as_secs_f64(), commits.as_secs_f64())
}
