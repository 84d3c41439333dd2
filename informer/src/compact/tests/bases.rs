//! Tests of bases, from which the members of a group are stored as differences.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::rig::{MANY, compare, job, pack, pod, pods, update};
use crate::compact::{CompactStats, Compactor};

#[test]
fn second_member_makes_the_first_a_difference() {
    let compactor = pods();
    let first = pack(&compactor, &pod(1, 1));
    let (alone, bases) = (first.size(), compactor.stats().bases);
    let second = pack(&compactor, &pod(1, 2));
    assert_eq!((bases, compactor.stats().bases), (0, 1));
    assert!(first.size() + 300 < alone, "{} of {alone} bytes", first.size());
    compare(&first, &pod(1, 1));
    compare(&second, &pod(1, 2));
    assert_eq!(compactor.stats().bytes, first.size() + second.size());
}

#[test]
fn objects_and_bases_are_freed_with_the_last_handle() {
    let compactor = pods();
    let objects: Vec<_> = (0..40).map(|at| pack(&compactor, &pod(at / 4, at))).collect();
    assert_eq!(compactor.stats().bases, 10);
    drop(objects);
    let stats = compactor.stats();
    assert_eq!(CompactStats { dictionary_bytes: 0, packed: 0, ..stats }, CompactStats::default());
}

#[test]
fn group_that_has_died_out_begins_again() {
    let compactor = pods();
    for _ in 0..3 {
        let objects = [1, 2, 3].map(|at| pack(&compactor, &pod(1, at)));
        compare(&objects[2], &pod(1, 3));
        assert_eq!(compactor.stats().bases, 1);
    }
}

#[test]
fn base_that_has_grown_old_is_replaced() {
    let compactor = pods();
    // The workload changes, its generated names do not.
    let changed = |at| pod(2, at).replace("\"generateName\":\"w2-\"", "\"generateName\":\"w1-\"");
    let old: Vec<_> = (0..8).map(|at| pack(&compactor, &pod(1, at))).collect();
    let new: Vec<_> =
        (100..140).map(|at| compactor.pack(changed(at).as_bytes()).unwrap()).collect();
    assert_eq!(compactor.stats().bases, 2);
    let last = new.last().unwrap();
    assert!(last.size() < new[0].size() / 2, "{} {}", last.size(), new[0].size());
    compare(last, &changed(139));
    old.iter().enumerate().for_each(|(at, object)| compare(object, &pod(1, at)));
    drop(old);
    for object in &new {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 1, "the old base is freed");
}

#[test]
fn base_is_not_replaced_because_one_of_its_members_has_changed() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..20).map(|at| pack(&compactor, &pod(1, at))).collect();
    for version in 100..140 {
        // Pod 5 gets the content of another workload, and stays in its group by `generateName`.
        let json = pod(2, 5).replace("\"generateName\":\"w2-\"", "\"generateName\":\"w1-\"");
        objects[5] = pack(&compactor, &update(&json, version));
        assert_eq!(compactor.stats().bases, 1, "version {version}");
    }
    let sibling = pack(&compactor, &pod(1, 20));
    assert!(Arc::ptr_eq(&sibling.with(), &objects[0].with()));
}

#[test]
fn base_that_few_objects_hold_is_given_up() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..MANY.max(50)).map(|at| pack(&compactor, &pod(1, at))).collect();
    objects.truncate(2);
    assert_eq!(compactor.stats().bases, 1);
    for object in &objects {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 0);
    compare(&objects[1], &pod(1, 1));
}

#[test]
fn base_stays_while_its_members_are_updated() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..20).map(|at| pack(&compactor, &pod(1, at))).collect();
    let rounds = if cfg!(miri) { 3 } else { 30 };
    for round in 1..rounds {
        for (at, object) in objects.iter_mut().enumerate() {
            *object = pack(&compactor, &update(&pod(1, at), 1000 * round + at));
        }
    }
    for object in &objects {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 1);
    assert!(objects.iter().all(|object| object.stored().with.base().is_some()));
}

#[test]
fn base_that_one_group_replaces_stays_for_other_groups() {
    let compactor = pods();
    let objects: Vec<_> = (0..20).map(|at| pack(&compactor, &job(1, at, at))).collect();
    let _same: Vec<_> = (20..28).map(|at| pack(&compactor, &job(1, 0, at))).collect();
    let _changed: Vec<_> = (100..140).map(|at| pack(&compactor, &job(2, 0, at))).collect();
    assert_eq!(compactor.stats().bases, 2, "group 0 has a new base");
    let before = objects[5].size();
    for object in &objects {
        compactor.repack(object);
    }
    assert!(objects[5].size() < before + 100, "{} from {before}", objects[5].size());
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &job(1, at, at)));
}

#[test]
fn update_of_a_lone_object_makes_no_base() {
    for has_uid in [true, false] {
        let compactor = pods();
        let uid = "\"uid\":\"00000001-0000-4000-8000-000000000000\",";
        let json = if has_uid { pod(1, 1) } else { pod(1, 1).replace(uid, "") };
        let mut object = pack(&compactor, &json);
        for version in 2..5 {
            let json = update(&json, version);
            // The next version is packed while the store has the one before.
            object = pack(&compactor, &json);
            assert_eq!(compactor.stats().bases, 0);
            compare(&object, &json);
        }
        let _sibling = pack(&compactor, &pod(1, 2));
        assert_eq!(compactor.stats().bases, 1);
        assert!(object.stored().with.base().is_some(), "the newest version is the first member");
    }
}

#[test]
fn update_of_a_lone_object_keeps_the_base_of_a_similar_one() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..3).map(|at| pack(&compactor, &job(1, at, at))).collect();
    for (at, object) in objects.iter_mut().enumerate() {
        for version in 10..13 {
            *object = pack(&compactor, &update(&job(1, at, at), version));
        }
    }
    assert_eq!(compactor.stats().bases, 1);
    let base = objects[0].stored().with;
    assert!(objects.iter().all(|object| Arc::ptr_eq(&object.stored().with, &base)));
}

#[test]
fn lone_object_is_packed_with_a_similar_one() {
    let compactor = pods();
    let objects: Vec<_> = (0..20).map(|at| pack(&compactor, &job(1, at, at))).collect();
    assert_eq!(compactor.stats().bases, 1);
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &job(1, at, at)));
}

#[test]
fn bases_that_exceed_the_cache_are_unpacked_again() {
    let compactor = Compactor::<Pod>::builder().base_cache(2 * pod(1, 1).len()).build();
    let workloads = MANY.min(20);
    let objects: Vec<_> =
        (0..3 * workloads).map(|at| pack(&compactor, &pod(at % workloads, at))).collect();
    assert!(compactor.stats().unpacked_base_bytes <= 2 * pod(1, 1).len() + 100);
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at % workloads, at)));
    assert!(compactor.stats().unpacked_base_bytes <= 2 * pod(1, 1).len() + 100);
}

#[test]
fn object_of_another_compactor_is_not_packed_again() {
    let builder = || Compactor::<Pod>::builder().field("/kind").unwrap();
    let build = || builder().types("v1", "Pod").build();
    let (own, other) = (build(), build());
    let json = pod(1, 1);
    let [first, second] = [&own, &own].map(|own| pack(own, &json));
    other.end_list();
    let bytes = other.stats();
    for object in [&first, &second] {
        other.repack(object);
    }
    assert_eq!(other.stats(), bytes);
    assert_eq!(first.field("/kind").unwrap().as_deref(), second.field("/kind").unwrap().as_deref());
    drop((first, second));
    assert_eq!(own.stats().objects, 0);
}

#[test]
#[cfg(miri)]
fn codec_without_memory_loses_nothing() {
    use crate::compact::DecodeFailure;
    use crate::compact::standin::IS_OUT_OF_MEMORY;

    let compactor = pods();
    let first = pack(&compactor, &pod(1, 1));
    IS_OUT_OF_MEMORY.set(true);
    let second = pack(&compactor, &pod(1, 2));
    assert_eq!(second.raw_json().unwrap(), pod(1, 2), "it is stored unpacked");
    for _ in 0..2 {
        let error = first.decode().unwrap_err();
        assert_eq!(error.key(), "shop/w1-1");
        assert!(matches!(error.failure(), DecodeFailure::Unpack(_)));
        compactor.end_list();
        [&first, &second].map(|object| compactor.repack(object));
    }
    IS_OUT_OF_MEMORY.set(false);
    let third = pack(&compactor, &pod(1, 3));
    for (at, object) in [first, second, third].iter().enumerate() {
        compare(object, &pod(1, at + 1));
    }
}

#[test]
#[cfg(miri)]
fn object_that_cannot_be_packed_again_keeps_its_form() {
    use crate::compact::standin::DOES_NOT_PACK;

    let compactor = pods();
    let objects: Vec<_> = (0..16).map(|at| pack(&compactor, &pod(at / 2, at))).collect();
    let bytes = || {
        let stats = compactor.stats();
        stats.bytes + stats.base_bytes
    };
    let before = bytes();
    DOES_NOT_PACK.set(true);
    // Trains a dictionary, with which all bases and some objects would be packed again.
    compactor.end_list();
    for object in &objects {
        compactor.repack(object);
    }
    DOES_NOT_PACK.set(false);
    assert_eq!(bytes(), before);
    for object in &objects {
        compactor.repack(object);
    }
    assert!(bytes() < before, "{} bytes, {before} before", bytes());
    for (at, object) in objects.iter().enumerate() {
        compare(object, &pod(at / 2, at));
    }
}
