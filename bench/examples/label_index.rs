//! Measures indexes of labels: the time of a selector with and without an index, the time of an
//! update, and the memory of each index.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --example label_index [OBJECTS]
//! ```
//!
//! The label `app` has a thousand values, and the label `name` has another value in every object.
//! Without an index, a selector scans the store: it checks every object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cap::Cap;
use deltafifo::{Indexer, Indexers, KeyFunc, Labels, Lister, Meta, Selector};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

const VALUES: usize = 1_000;
/// The number of calls of an indexed selector. The number of updates is the same, or the number of
/// objects if that is smaller.
const CALLS: usize = 1_000;

struct Pod {
    name: String,
    app: String,
}

#[derive(Clone)]
struct PodMeta;

impl Meta<Pod> for PodMeta {
    fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> {
        Some("shop")
    }

    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(&pod.name)
    }
}

impl Labels<Pod> for PodMeta {
    fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
        match key {
            "app" => Some(&pod.app),
            "name" => Some(&pod.name),
            _ => None,
        }
    }
}

fn pod(number: usize) -> Arc<Pod> {
    Arc::new(Pod { name: format!("pod-{number}"), app: format!("app-{}", number % VALUES) })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).build()?;
    (0..objects).try_for_each(|number| store.add(pod(number)))?;
    let pods = Lister::new(store.reader());
    let update = || -> Result<Duration, Box<dyn std::error::Error>> {
        let new: Vec<_> = (0..objects.min(CALLS)).map(pod).collect();
        let count = u32::try_from(new.len())?;
        let began = Instant::now();
        new.into_iter().try_for_each(|pod| store.add(pod))?;
        Ok(began.elapsed() / count)
    };
    let selector: Selector = "app=app-7, name!=pod-7".parse()?;
    let began = Instant::now();
    let scanned = pods.select(&selector).len();
    println!("{objects} objects");
    println!("scan: {:?}, {scanned} objects", began.elapsed());
    println!("update without an index: {:?}", update()?);
    for label in ["app", "name"] {
        let before = ALLOCATOR.allocated();
        store.add_indexers(Indexers::new().label(PodMeta, label))?;
        let bytes = ALLOCATOR.allocated().saturating_sub(before) / objects;
        println!("with an index of label {label}: {bytes} bytes an object");
        let began = Instant::now();
        for _ in 0..CALLS {
            assert_eq!(pods.select(&selector).len(), scanned);
        }
        println!("select: {:?}", began.elapsed() / u32::try_from(CALLS)?);
        println!("update whose values stay: {:?}", update()?);
    }
    Ok(())
}
