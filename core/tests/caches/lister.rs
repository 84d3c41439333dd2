//! Tests of the lister, over a store and over the store of a queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use deltafifo::{
    DeltaFifo, ExplicitKey, Indexer, IndexerBuilder, Indexers, KeyFunc, Labels, Lister, Meta,
    NAMESPACE_INDEX, Selector,
};

struct Pod {
    namespace: &'static str,
    name: String,
    labels: BTreeMap<&'static str, &'static str>,
}

fn pod(key: &'static str, labels: &[(&'static str, &'static str)]) -> Arc<Pod> {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Arc::new(Pod { namespace, name: name.to_owned(), labels: labels.iter().copied().collect() })
}

/// An accessor that counts the calls of `label`, and returns no label while `hides` is set.
#[derive(Clone, Default)]
struct PodMeta {
    asked: Arc<AtomicUsize>,
    hides: Arc<AtomicBool>,
}

impl Meta<Pod> for PodMeta {
    fn namespace<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.namespace)
    }

    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(&pod.name)
    }
}

impl Labels<Pod> for PodMeta {
    fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        pod.labels.get(key).copied().filter(|_| !self.hides.load(Ordering::Relaxed))
    }
}

fn store(keys: KeyFunc<Pod, PodMeta>) -> Indexer<Pod, PodMeta> {
    filled(Indexer::builder(keys))
}

fn filled(store: IndexerBuilder<Pod, PodMeta>) -> Indexer<Pod, PodMeta> {
    let store = store.build().unwrap();
    let pods = [
        pod("shop/web", &[("app", "web"), ("tier", "front")]),
        pod("shop/till", &[("app", "till"), ("tier", "back")]),
        pod("shop/mail", &[]),
        pod("test/web", &[("app", "web")]),
        pod("node", &[("tier", "back")]),
    ];
    store.replace(pods.to_vec()).unwrap();
    store
}

fn selector(text: &str) -> Selector {
    text.parse().unwrap()
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut names: Vec<_> =
        pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    names.sort();
    names
}

#[test]
fn lister_returns_all_objects_or_those_that_match_a_selector() {
    let pods = Lister::new(store(KeyFunc::meta_namespace(PodMeta::default())).reader());
    assert_eq!(names(&pods.list()), ["/node", "shop/mail", "shop/till", "shop/web", "test/web"]);
    assert_eq!(pods.select(&Selector::default()).len(), 5);
    assert_eq!(names(&pods.select(&selector("app=web"))), ["shop/web", "test/web"]);
    assert_eq!(names(&pods.select(&selector("app!=web"))), ["/node", "shop/mail", "shop/till"]);
    assert_eq!(
        names(&pods.select(&selector("tier in (front, back), app"))),
        ["shop/till", "shop/web"]
    );
    assert!(pods.select(&selector("app=none")).is_empty());
}

#[test]
fn selector_with_indexed_labels_checks_the_fewest_objects() {
    let meta = PodMeta::default();
    let store = Indexer::builder(KeyFunc::meta_namespace(meta.clone()));
    let pods = Lister::new(filled(store.label("app").label("tier")).reader());
    let checked = |text: &str, namespace: &str| {
        let selector = selector(text);
        meta.asked.store(0, Ordering::Relaxed);
        let found = names(&pods.namespace(namespace).select(&selector));
        (found, meta.asked.load(Ordering::Relaxed))
    };
    for (text, namespace, found, objects) in [
        ("app=till", "", &["shop/till"][..], 1),
        ("app==till", "shop", &["shop/till"], 1),
        ("app==till", "test", &[], 1),
        ("app in (web, till)", "", &["shop/till", "shop/web", "test/web"], 3),
        ("tier in (front, none)", "", &["shop/web"], 1),
        ("app=", "", &[], 0),
        ("app!=web", "", &["/node", "shop/mail", "shop/till"], 5),
        ("app=web", "test", &["test/web"], 1),
        ("app", "test", &["test/web"], 1),
        ("tier=back", "", &["/node", "shop/till"], 2),
    ] {
        assert_eq!(
            checked(text, namespace),
            (found.iter().map(ToString::to_string).collect(), objects),
            "{text} in {namespace:?}"
        );
    }
    // The one object of the narrowest requirement has both labels.
    assert_eq!(checked("app=web, tier=front", "").0, ["shop/web"]);
    assert!(checked("app=web, tier=front", "").1 <= 2);
    assert_eq!(checked("app=web, tier=back", "").0, [""; 0]);
}

#[test]
fn label_index_follows_updates_and_deletions_and_can_be_added_later() {
    let meta = PodMeta::default();
    let store = store(KeyFunc::meta_namespace(meta.clone()));
    let pods = Lister::new(store.reader());
    store.add_indexers(Indexers::new().label(meta.clone(), "app")).unwrap();
    store.update(pod("shop/web", &[("app", "shop")])).unwrap();
    store.update(pod("shop/mail", &[("app", "web")])).unwrap();
    store.delete(ExplicitKey("test/web")).unwrap();
    meta.asked.store(0, Ordering::Relaxed);
    assert_eq!(names(&pods.select(&selector("app=web"))), ["shop/mail"]);
    assert_eq!(meta.asked.load(Ordering::Relaxed), 1);
    assert_eq!(store.list_index_func_values("label:app").unwrap(), ["shop", "till", "web"]);
}

/// Moves a pod between two apps while another thread selects the pods of either app, in the whole
/// store and in the pod's namespace. The namespace has more pods than the two apps, so that the
/// lister uses the label index.
#[test]
fn selector_of_both_values_finds_an_object_that_moves_between_them() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta::default())).label("app");
    let store = store.build().unwrap();
    for key in ["shop/till", "shop/mail", "shop/web"] {
        store.add(pod(key, &[])).unwrap();
    }
    let of_app = |app| pod("shop/web", &[("app", app)]);
    store.add(of_app("a")).unwrap();
    let (pods, read) = (Lister::new(store.reader()), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for app in ["b", "a"].into_iter().cycle() {
                store.update(of_app(app)).unwrap();
                if read.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let either = selector("app in (a, b)");
        let missed = (0..rounds).find(|_| {
            pods.select(&either).len() != 1 || pods.namespace("shop").select(&either).len() != 1
        });
        read.store(true, Ordering::Relaxed);
        assert_eq!(missed, None);
    });
}

/// Checks a cluster-scoped object whose key looks like that of an object of a namespace. The
/// namespace index has the object under that namespace, because the index uses the key.
#[test]
fn object_whose_name_contains_a_slash_is_in_one_namespace_for_all_readers() {
    let named = |namespace, name: &str, app| {
        Arc::new(Pod { namespace, name: name.to_owned(), labels: [("app", app)].into() })
    };
    for labels in [&[][..], &["app"]] {
        let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta::default()));
        let store = labels.iter().fold(store, |store, label| store.label(label));
        let store = store.build().unwrap();
        let odd = named("", "a/b", "x");
        for pod in [odd.clone(), named("a", "c", "y"), named("a", "d", "y")] {
            store.add(pod).unwrap();
        }
        let pods = Lister::new(store.reader());
        assert_eq!(pods.namespace("a").list().len(), 3);
        assert_eq!(names(&pods.namespace("a").select(&selector("app=x"))), ["/a/b"]);
        assert_eq!(store.index(NAMESPACE_INDEX, &odd).unwrap().len(), 3);
    }
}

/// Checks updates within an app, of a pod that is in the index and of one that is not: its label
/// was hidden when it was added.
#[test]
fn update_within_a_label_keeps_the_entry_or_adds_it_if_it_is_missing() {
    for is_queued in [false, true] {
        let meta = PodMeta::default();
        let store = Indexer::builder(KeyFunc::meta_namespace(meta.clone())).label("app");
        let store = store.build().unwrap();
        store.add(pod("shop/web", &[("app", "web")])).unwrap();
        meta.hides.store(true, Ordering::Relaxed);
        store.add(pod("shop/till", &[("app", "web")])).unwrap();
        meta.hides.store(false, Ordering::Relaxed);
        let pods = Lister::new(store.reader());
        assert_eq!(names(&pods.select(&selector("app=web"))), ["shop/web"]);
        let new = ["shop/web", "shop/till"].map(|key| pod(key, &[("app", "web"), ("new", "")]));
        if is_queued {
            let fifo = DeltaFifo::over(store).build();
            for pod in new {
                fifo.update(pod).unwrap();
                fifo.try_pop().unwrap().apply(|_| ()).unwrap();
            }
        } else {
            for pod in new {
                store.update(pod).unwrap();
            }
        }
        assert_eq!(names(&pods.select(&selector("app=web, new"))), ["shop/till", "shop/web"]);
    }
}

#[test]
fn function_with_the_name_of_a_label_index_does_not_serve_selectors() {
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta::default()));
    let pods = Lister::new(filled(store.index("label:app", |_: &Pod| Ok(vec![]))).reader());
    assert_eq!(names(&pods.select(&selector("app=web"))), ["shop/web", "test/web"]);
}

#[test]
fn selector_over_many_objects_returns_exactly_the_matching_ones() {
    let count: usize = if cfg!(miri) { 100 } else { 10_000 };
    let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta::default())).build().unwrap();
    for n in 0..count {
        let labels = if n.is_multiple_of(10) {
            BTreeMap::from([("match", "true")])
        } else {
            BTreeMap::new()
        };
        store.add(Arc::new(Pod { namespace: "", name: format!("obj-{n}"), labels })).unwrap();
    }
    let pods = Lister::new(store.reader());
    assert_eq!(pods.select(&selector("match=true")).len(), count / 10);
    assert_eq!(pods.list().len(), count);
    assert!(pods.select(&selector("nomatch=true")).is_empty());
}

#[test]
fn namespace_lister_returns_its_objects_and_the_empty_namespace_all() {
    let pods = Lister::new(store(KeyFunc::meta_namespace(PodMeta::default())).reader());
    assert_eq!(names(&pods.namespace("shop").list()), ["shop/mail", "shop/till", "shop/web"]);
    assert_eq!(names(&pods.namespace("shop").select(&selector("tier"))), ["shop/till", "shop/web"]);
    assert!(pods.namespace("none").list().is_empty());
    assert_eq!(pods.namespace("").list().len(), 5);
    assert_eq!(names(&pods.namespace("").select(&selector("tier=back"))), ["/node", "shop/till"]);
}

#[test]
fn lookup_by_namespace_reads_no_other_objects() {
    let meta = PodMeta::default();
    let pods = Lister::new(store(KeyFunc::meta_namespace(meta.clone())).reader());
    assert_eq!(pods.select(&Selector::default()).len(), 5);
    assert_eq!(meta.asked.load(Ordering::Relaxed), 0, "everything matches");
    assert_eq!(pods.namespace("test").select(&selector("app=web")).len(), 1);
    assert_eq!(meta.asked.load(Ordering::Relaxed), 1, "no full scan");
}

#[test]
fn lister_gets_objects_by_name_under_any_key_function() {
    let by_name = KeyFunc::custom(PodMeta::default(), |pod: &Pod| {
        Ok(format!("{}-{}", pod.name, pod.namespace))
    });
    for keys in [KeyFunc::meta_namespace(PodMeta::default()), by_name] {
        let pods = Lister::new(store(keys).reader()).clone();
        assert_eq!(pods.namespace("shop").get("web").unwrap().labels["tier"], "front");
        assert!(!pods.namespace("test").get("web").unwrap().labels.contains_key("tier"));
        assert_eq!(pods.namespace("").get("node").unwrap().name, "node");
        for (namespace, name) in [("shop", "node"), ("", "web"), ("none", "web"), ("shop", "")] {
            assert!(pods.namespace(namespace).get(name).is_none(), "{namespace}/{name}");
        }
    }
    let pods = Lister::new(store(KeyFunc::meta_namespace(PodMeta::default())).reader());
    assert_eq!(pods.get("node").unwrap().name, "node");
    assert_eq!(pods.get("shop/web").unwrap().name, "web");
    assert!(pods.get("web").is_none());
}

#[test]
fn lister_of_a_queues_store_sees_applied_objects() {
    let fifo = DeltaFifo::over(store(KeyFunc::meta_namespace(PodMeta::default()))).build();
    let pods = Lister::new(fifo.store());
    fifo.update(pod("shop/mail", &[("app", "mail")])).unwrap();
    fifo.delete(pod("shop/web", &[])).unwrap();
    assert_eq!(names(&pods.namespace("shop").select(&selector("app"))), ["shop/till", "shop/web"]);
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    assert_eq!(names(&pods.namespace("shop").select(&selector("app"))), ["shop/mail", "shop/till"]);
}
