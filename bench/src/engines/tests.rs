//! Tests of every engine of this process, beyond what each run of the tool checks: short and empty
//! lists, and lists with pending keys. Each process compares its counts, gets and answers with the
//! expected ones, and the tool compares the stores of all engines (`tests/cli.rs`).

use std::any::type_name;
use std::sync::Arc;

use super::dashmap::DashMapEngine;
use super::deltafifo::DeltaFifoEngine;
use super::floor::{Floor, FloorTwoThreads};
#[cfg(feature = "peers")]
use super::kube_writer::{KubeWriterEngine, Owned};
use super::mutex_engine::MutexEngine;
use super::{Counts, ListEngine, QueueEngine};
use crate::data::{Generated, ListPlan, Object, ObjectAccess, build};
use crate::digest::Digest;

const OBJECTS: usize = 1000;

fn list(plan: &ListPlan) -> Vec<Arc<Object>> {
    build(&Generated { objects: OBJECTS }, plan)
}

fn stored(engine: &impl ListEngine<Object>) -> Digest {
    let mut digest = Digest::default();
    engine.for_each_known(|object| digest.add(&ObjectAccess, object));
    digest
}

fn check_lists<E: ListEngine<Object>>(engine: &E) {
    let (same, churn) = (list(&ListPlan::same(OBJECTS)), list(&ListPlan::churn(OBJECTS)));
    let skips = E::SKIPS_UNCHANGED;
    for (list, adds, updates, deletes) in [
        (same.clone(), 1000, 0, 0),
        (self::list(&ListPlan::same(OBJECTS)), 0, if skips { 0 } else { 1000 }, 0),
        (churn.clone(), 10, if skips { 100 } else { 990 }, 10),
        // A short list leaves only the objects of that list in the store.
        (churn[..3].to_vec(), 0, if skips { 0 } else { 3 }, 997),
        (same.clone(), 997, if skips { 0 } else { 3 }, 0),
        (Vec::new(), 0, 0, 1000),
    ] {
        let (counts, wanted) =
            (Counts { adds, updates, deletes }, Digest::of(&ObjectAccess, &list));
        engine.replace(E::List::from(&*list), "1");
        let (counts, name) =
            (if E::MAKES_DELTAS { counts } else { Counts::default() }, type_name::<E>());
        assert_eq!(engine.drain(), counts, "{name}");
        assert_eq!(stored(engine), wanted, "{name}");
    }
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
    assert_eq!(stored(engine), Digest::of(&ObjectAccess, &same[..400]));
    engine.replace(Vec::new(), "3");
    engine.drain();
}

fn check_queue<E: QueueEngine<Object>>(new: impl Fn(ObjectAccess) -> E) {
    check_lists(&new(ObjectAccess));
    check_lists_with_pending_keys(&new(ObjectAccess));
}

#[test]
fn engines_have_exactly_the_objects_of_the_last_list() {
    check_lists(&Floor::new(ObjectAccess));
    check_lists(&FloorTwoThreads::new(ObjectAccess));
    check_lists(&DeltaFifoEngine::<_, _, true>::new(ObjectAccess));
    check_queue(DeltaFifoEngine::<_, _, false>::new);
    check_queue(MutexEngine::new);
    check_queue(DashMapEngine::new);
    #[cfg(feature = "peers")]
    {
        check_lists(&KubeWriterEngine::<Owned<Object>, ObjectAccess>::default());
        check_lists(&KubeWriterEngine::<Arc<Object>, ObjectAccess>::default());
    }
}
