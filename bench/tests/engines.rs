//! Tests of every engine of this process: lists, events from several threads, gets, and look-ups by
//! index.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use deltafifo_bench::data::{AppSelector, Generated, ListPlan, Object, ObjectAccess, build, node};
use deltafifo_bench::digest::Digest;
use deltafifo_bench::engines::dashmap::DashMapEngine;
use deltafifo_bench::engines::deltafifo::DeltaFifoEngine;
use deltafifo_bench::engines::floor::{Floor, Walk};
#[cfg(feature = "peers")]
use deltafifo_bench::engines::kube_writer::{KubeWriterEngine, Owned};
use deltafifo_bench::engines::mutex_engine::MutexEngine;
use deltafifo_bench::engines::{
    Counts, IndexEngine, ListEngine, QueueEngine, SelectorEngine, StoreEngine,
};

const OBJECTS: usize = 1000;

fn list(plan: &ListPlan) -> Vec<Arc<Object>> {
    build(&Generated { objects: OBJECTS }, plan)
}

fn digest<'a>(objects: impl Iterator<Item = &'a Object>) -> String {
    let mut digest = Digest::default();
    objects.for_each(|object| digest.add(&ObjectAccess, object));
    digest.hex()
}

fn stored(engine: &impl ListEngine<Object>) -> String {
    let mut digest = Digest::default();
    engine.for_each_known(|object| digest.add(&ObjectAccess, object));
    digest.hex()
}

fn check_lists<E: ListEngine<Object>>(engine: &E) {
    let (same, churn) = (list(&ListPlan::same(OBJECTS)), list(&ListPlan::churn(OBJECTS)));
    let skips = E::SKIPS_UNCHANGED;
    for (list, counts) in [
        (same.clone(), Counts { adds: 1000, updates: 0, deletes: 0 }),
        (
            self::list(&ListPlan::same(OBJECTS)),
            Counts { adds: 0, updates: if skips { 0 } else { 1000 }, deletes: 0 },
        ),
        (churn.clone(), Counts { adds: 10, updates: if skips { 100 } else { 990 }, deletes: 10 }),
        // A short list leaves only the objects of that list in the store.
        (churn[..3].to_vec(), Counts { adds: 0, updates: if skips { 0 } else { 3 }, deletes: 997 }),
        (same.clone(), Counts { adds: 997, updates: if skips { 0 } else { 3 }, deletes: 0 }),
        (Vec::new(), Counts { adds: 0, updates: 0, deletes: 1000 }),
    ] {
        let wanted = digest(list.iter().map(|object| &**object));
        engine.replace(E::List::from(&*list), "1");
        assert_eq!(engine.drain(), if E::MAKES_DELTAS { counts } else { Counts::default() });
        assert_eq!(stored(engine), wanted);
    }
}

/// Asserts that a get returns the object that was applied last, and nothing for an unknown or
/// deleted key.
fn check_gets<E: StoreEngine<Object>>(engine: &E) {
    let (same, churn) = (list(&ListPlan::same(OBJECTS)), list(&ListPlan::churn(OBJECTS)));
    let get = |object| engine.get(&engine.key(object)).map(|found| Object::clone(found.as_ref()));
    assert_eq!(get(&same[0]), None);
    for list in [&same, &churn] {
        engine.replace(E::List::from(list), "1");
        engine.drain();
        for object in list {
            assert_eq!(get(object).as_ref(), Some(&**object));
        }
    }
    assert_eq!(get(&same[7]), None, "churn leaves it out");
}

/// Asserts that each value of an index has exactly the known objects with that value, after
/// different lists.
fn check_indexes<E: IndexEngine<Object>>(engine: &E) {
    let (same, churn) = (list(&ListPlan::same(OBJECTS)), list(&ListPlan::churn(OBJECTS)));
    let namespace = |object: &Object| object.metadata.namespace.clone();
    let node = |object: &Object| node(&ObjectAccess, object);
    let all = || same.iter().chain(&churn).map(|object| &**object);
    let nodes: BTreeSet<_> = all().map(node).collect();
    let namespaces: BTreeSet<_> = all().map(namespace).collect();
    for known in [&[][..], &same, &churn, &churn[..3]] {
        engine.replace(E::List::from(known), "1");
        engine.drain();
        let with = |has: &dyn Fn(&Object) -> bool| {
            digest(known.iter().map(|object| &**object).filter(|o| has(o)))
        };
        for value in &nodes {
            let found = engine.by_node(value);
            assert_eq!(
                digest(found.iter().map(|object| &**object)),
                with(&|object| node(object) == *value),
                "{value}"
            );
        }
        for value in &namespaces {
            let found = engine.by_namespace(value);
            let wanted = with(&|object| namespace(object) == *value);
            assert_eq!(digest(found.iter().map(|object| &**object)), wanted, "{value}");
        }
    }
}

/// Asserts that a selector finds exactly the known objects that it matches, after different lists.
fn check_selectors<E: SelectorEngine<Object>>(engine: &E) {
    // Most apps have three objects, with templates of their own.
    let (same, churn) = (list(&ListPlan::same(3 * OBJECTS)), list(&ListPlan::churn(3 * OBJECTS)));
    let mut total = 0;
    for known in [&[][..], &same, &churn, &churn[..3]] {
        engine.replace(E::List::from(known), "1");
        engine.drain();
        for object in churn.iter().step_by(100) {
            let selector = AppSelector::of(&ObjectAccess, &**object).expect("it has an app");
            let wanted = known.iter().map(|object| &**object);
            let wanted = wanted.filter(|object| selector.matches(&ObjectAccess, object));
            let found = engine.select(&E::selector(&selector).expect("its values are valid"));
            assert_eq!(digest(found.iter().map(AsRef::as_ref)), digest(wanted), "{selector}");
            total += found.len();
        }
    }
    assert!(total > 100, "{total}");
}

/// Asserts that a relist adds a deletion to the pending deltas of a key that it does not list.
fn check_lists_with_pending_keys(engine: &impl QueueEngine<Object>) {
    let same = list(&ListPlan::same(OBJECTS));
    engine.replace(same[..500].to_vec(), "1");
    engine.update(same[700].clone());
    engine.replace(same[..400].to_vec(), "2");
    let counts = engine.drain();
    assert_eq!(counts.adds, 501, "{counts:?}");
    assert_eq!(counts.updates, 400, "{counts:?}");
    assert_eq!(counts.deletes, 101, "{counts:?}");
    assert_eq!(stored(engine), digest(same[..400].iter().map(|object| &**object)));
    engine.replace(Vec::new(), "3");
    engine.drain();
}

/// Asserts that a pop takes one key with all its deltas, and that the keys come in the order of
/// their first offers.
fn check_single_pops(engine: &impl QueueEngine<Object>) {
    let same = list(&ListPlan::same(OBJECTS));
    for index in [5, 3, 5] {
        engine.update(same[index].clone());
    }
    let pop = || {
        let mut counts = Counts::default();
        engine.try_pop(|event| counts.record(event)).then_some(counts)
    };
    assert_eq!(pop(), Some(Counts { adds: 1, updates: 1, deletes: 0 }));
    assert_eq!(pop(), Some(Counts { adds: 1, updates: 0, deletes: 0 }));
    assert_eq!(pop(), None);
    assert_eq!(stored(engine), digest([3, 5].into_iter().map(|index| &*same[index])));
}

/// Asserts that the last update of every object wins, with three producers, each with its own keys,
/// and three consumers.
fn check_order_of_events(engine: &impl QueueEngine<Object>, burst: usize) {
    let same = list(&ListPlan::same(OBJECTS));
    engine.replace(same, "1");
    engine.drain();
    let rounds = 20;
    let indexes: Arc<[usize]> = (0..rounds * OBJECTS).map(|event| event % OBJECTS).collect();
    let events = list(&ListPlan::events(indexes.clone()));
    let mut shares = vec![Vec::new(); 3];
    for (event, index) in events.iter().zip(&*indexes) {
        shares[index % 3].push(event.clone());
    }
    thread::scope(|scope| {
        let consumer = || {
            let mut counts = Counts::default();
            engine.consume(|event| counts.record(event));
            counts
        };
        let consumers = [(); 3].map(|()| scope.spawn(consumer));
        thread::scope(|producers| {
            for share in shares {
                producers.spawn(move || {
                    for events in share.chunks(burst) {
                        engine.update_burst(events.to_vec());
                    }
                });
            }
        });
        engine.close();
        let counts: Counts =
            consumers.into_iter().map(|consumer| consumer.join().expect("a consumer")).sum();
        assert_eq!(counts, Counts { adds: 0, updates: rounds * OBJECTS, deletes: 0 });
    });
    assert_eq!(
        stored(engine),
        digest(events[events.len() - OBJECTS..].iter().map(|object| &**object))
    );
}

fn check_queue<E: QueueEngine<Object> + StoreEngine<Object>>(new: impl Fn(ObjectAccess) -> E) {
    check_gets(&new(ObjectAccess));
    check_lists(&new(ObjectAccess));
    check_lists_with_pending_keys(&new(ObjectAccess));
    check_single_pops(&new(ObjectAccess));
    for burst in [1, 64] {
        check_order_of_events(&new(ObjectAccess), burst);
    }
}

#[test]
fn floor() {
    check_lists(&Floor::new(ObjectAccess, Walk::InOrder));
    check_lists(&Floor::new(ObjectAccess, Walk::Partitioned));
}

#[cfg(feature = "peers")]
#[test]
fn kube_writer() {
    check_lists(&KubeWriterEngine::<Owned<Object>, ObjectAccess>::default());
    check_gets(&KubeWriterEngine::<Owned<Object>, ObjectAccess>::default());
    check_lists(&KubeWriterEngine::<Arc<Object>, ObjectAccess>::default());
    check_gets(&KubeWriterEngine::<Arc<Object>, ObjectAccess>::default());
    check_selectors(&KubeWriterEngine::<Owned<Object>, ObjectAccess>::default());
    check_selectors(&KubeWriterEngine::<Arc<Object>, ObjectAccess>::default());
}

#[test]
fn dashmap() {
    check_queue(DashMapEngine::new);
    check_indexes(&DashMapEngine::with_nodes(ObjectAccess));
}

#[test]
fn mutex() {
    check_queue(MutexEngine::new);
    check_indexes(&MutexEngine::with_nodes(ObjectAccess));
    check_selectors(&MutexEngine::with_apps(ObjectAccess));
}

#[test]
fn deltafifo() {
    check_queue(DeltaFifoEngine::<_, _, false>::new);
    check_indexes(&DeltaFifoEngine::<_, _, false>::with_nodes(ObjectAccess));
    check_selectors(&DeltaFifoEngine::<_, _, false>::with_apps(ObjectAccess));
    check_selectors(&DeltaFifoEngine::<_, _, false>::new(ObjectAccess));
}

#[test]
fn deltafifo_that_skips_unchanged_objects() {
    check_lists(&DeltaFifoEngine::<_, _, true>::new(ObjectAccess));
    check_gets(&DeltaFifoEngine::<_, _, true>::new(ObjectAccess));
    check_order_of_events(&DeltaFifoEngine::<_, _, true>::new(ObjectAccess), 64);
}

#[test]
fn deltafifo_that_pops_key_by_key() {
    for burst in [1, 64] {
        check_order_of_events(&DeltaFifoEngine::<_, _, false>::single(ObjectAccess), burst);
    }
}
