//! Tests of the training of dictionaries.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::rig::{MANY, compare, pack, pod, pods};
use crate::compact::{CompactStats, Compactor};

#[test]
fn dictionary_is_trained_at_the_end_of_a_list_unless_refused() {
    for train in [true, false] {
        let compactor = Compactor::<Pod>::builder().train(train).build();
        let objects: Vec<_> = (0..MANY).map(|at| pack(&compactor, &pod(at, at))).collect();
        let before = compactor.stats();
        compactor.end_list();
        for object in &objects {
            compactor.repack(object);
        }
        let after = compactor.stats();
        assert_eq!((before.dictionary_bytes, after.dictionary_bytes > 0), (0, train));
        assert_eq!(after.bytes < before.bytes, train);
        objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at, at)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "packs too many objects")]
fn object_after_the_list_leaves_the_training_to_the_background() {
    let compactor = pods();
    crate::reflector::Decode::end_list(&compactor);
    let lists = compactor.lists.subscribe();
    let objects: Vec<_> = (0..300).map(|at| pack(&compactor, &pod(at, at))).collect();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
    assert!(lists.has_changed().unwrap());
    compactor.end_list();
    assert!(compactor.stats().dictionary_bytes > 0);
    drop(objects);
    // Many more workloads come and go before the next training.
    let pack_many = |from: usize| {
        let objects: Vec<_> =
            (from..).take(2500).map(|at| pack(&compactor, &pod(at, at))).collect();
        objects.len()
    };
    let mut lists = compactor.lists.subscribe();
    pack_many(1000);
    assert!(lists.has_changed().unwrap());
    compactor.end_list();
    lists.mark_unchanged();
    pack_many(10_000);
    assert!(lists.has_changed().unwrap());
}

#[test]
fn end_of_a_list_packs_no_text_again() {
    let compactor = pods();
    let objects: Vec<_> = (0..MANY + 4).map(|at| pack(&compactor, &pod(at % MANY, at))).collect();
    let before = compactor.stats();
    compactor.end_list();
    let trained = compactor.stats();
    assert!(trained.dictionary_bytes > 0);
    let sizes = |stats: CompactStats| (stats.bytes, stats.base_bytes);
    assert_eq!(sizes(trained), sizes(before));
    for object in &objects {
        compactor.repack(object);
    }
    assert!(compactor.stats().base_bytes < before.base_bytes, "the pass packs the bases again");
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at % MANY, at)));
}

#[test]
fn objects_that_may_be_secrets_train_no_dictionary() {
    for (types, is_trained) in [
        (None, false),
        (Some(("v1", "Secret")), false),
        (Some(("v1", "Pod")), true),
        (Some(("example.com/v1", "Secret")), true),
    ] {
        let builder = Compactor::<Value>::builder();
        let compactor = match types {
            Some((api_version, kind)) => builder.types(api_version, kind).build(),
            None => builder.build(),
        };
        let pack = |at| compactor.pack(pod(at, at).as_bytes()).unwrap();
        let _objects: Vec<_> = (0..MANY).map(pack).collect();
        compactor.end_list();
        assert_eq!(compactor.stats().dictionary_bytes > 0, is_trained, "{types:?}");
    }
}

#[test]
fn large_texts_train_no_dictionary() {
    let compactor = pods();
    let large = |at| pod(at, at).replace("LAST", &"x".repeat(200 << 10));
    let _objects: Vec<_> = (0..10).map(|at| pack(&compactor, &large(at))).collect();
    compactor.end_list();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
}

#[test]
fn one_object_trains_no_dictionary() {
    let compactor = pods();
    let object = pack(&compactor, &pod(1, 1));
    compactor.end_list();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
    compare(&object, &pod(1, 1));
}
