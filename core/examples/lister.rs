//! Shows how a controller reads its store: by namespace, by label selector and by name.
//!
//!     cargo run --example lister

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use deltafifo::{Indexer, KeyFunc, Labels, Lister, Meta, Selector};

struct Pod {
    namespace: &'static str,
    name: &'static str,
    version: &'static str,
    labels: BTreeMap<&'static str, &'static str>,
}

struct PodMeta;

impl Meta<Pod> for PodMeta {
    fn namespace<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.namespace)
    }
    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.name)
    }
    fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.version)
    }
}

impl Labels<Pod> for PodMeta {
    fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
        pod.labels.get(key).copied()
    }
}

fn pod(
    namespace: &'static str,
    name: &'static str,
    version: &'static str,
    tier: &'static str,
) -> Arc<Pod> {
    Arc::new(Pod {
        namespace,
        name,
        version,
        labels: BTreeMap::from([("app", name), ("tier", tier)]),
    })
}

fn print(what: &str, pods: &[Arc<Pod>]) {
    let mut names: Vec<_> =
        pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    names.sort();
    println!("{what:32} {}", names.join(", "));
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).build()?;
    store.add(pod("shop", "web", "1", "front"))?;
    store.add(pod("shop", "till", "2", "back"))?;
    store.add(pod("test", "web", "3", "front"))?;

    let pods = Lister::new(store.reader());
    print("all", &pods.list());
    print("in shop", &pods.namespace("shop").list());
    for text in ["app=web", "app in (till, mail)", "tier!=front", "!gone"] {
        let selector: Selector = text.parse()?;
        print(&format!("in shop, {selector}"), &pods.namespace("shop").select(&selector));
    }
    if let Err(error) = "app ist web".parse::<Selector>() {
        println!("no selector                      {error}");
    }
    Ok(())
}
