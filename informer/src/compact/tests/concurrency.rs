//! Tests of many objects and of several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::rig::{MANY, compare, pack, pod, pods};
use crate::compact::{Compact, Compactor};

#[test]
fn readers_see_one_text_while_bases_and_dictionaries_change() {
    let compactor = pods();
    let objects: Vec<Arc<Compact<Pod>>> =
        (0..MANY).map(|at| pack(&compactor, &pod(at, at))).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for from in 0..2 {
            let (objects, is_over) = (&objects, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    for (at, object) in objects.iter().enumerate().skip(from * MANY / 2) {
                        assert_eq!(object.raw_json().unwrap(), pod(at, at));
                    }
                }
            });
        }
        let siblings: Vec<_> = (0..MANY).map(|at| pack(&compactor, &pod(at, 1000))).collect();
        compactor.end_list();
        drop(siblings);
        for object in &objects {
            compactor.repack(object);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn several_threads_pack_members_of_one_group() {
    let compactor = pods();
    thread::scope(|scope| {
        for thread in 0..4 {
            let compactor = &compactor;
            scope.spawn(move || {
                let numbers = (0..MANY / 4).map(|at| thread * (MANY / 4) + at);
                let packed: Vec<_> =
                    numbers.map(|at| (at, pack(compactor, &pod(at % 3, at)))).collect();
                for (at, object) in packed {
                    compare(&object, &pod(at % 3, at));
                }
            });
        }
    });
}

/// Returns object `number` of a workload that has been changed `roll` times. The content is unique
/// to the workload and the number of changes.
fn small(workload: usize, roll: usize, number: usize) -> String {
    let seed = (workload * 2 + roll + 1) as u64;
    let noise = |at: u64| format!("{:016x}", (seed + at).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    format!(
        r#"{{"metadata":{{"name":"w{workload}-{roll}-{number}","generateName":"w{workload}-{roll}-","uid":"{number}"}},"data":"{}{}"}}"#,
        noise(0),
        noise(1 << 40)
    )
}

#[test]
fn ten_thousand_workloads_that_roll_at_once_leave_nothing_behind() {
    let workloads = if cfg!(miri) { 10 } else { 10_000 };
    let compactor = Compactor::<Value>::builder().train(true).build();
    let pack = |roll| -> Vec<_> {
        let pack = |at| compactor.pack(small(at % workloads, roll, at).as_bytes()).unwrap();
        (0..2 * workloads).map(pack).collect()
    };
    let pass = |objects: &[_]| {
        compactor.end_list();
        for object in objects {
            compactor.repack(object);
        }
        let stats = compactor.stats();
        (stats.bytes + stats.base_bytes, stats)
    };
    let old = pack(0);
    let (before, _) = pass(&old);
    let new = pack(1);
    let (both, stats) = pass(&new);
    assert_eq!((stats.packed, stats.objects), (4 * workloads as u64, 4 * workloads));
    assert!(both < before * 5 / 2, "{both} bytes with the new objects, {before} without");
    drop(old);
    let (after, stats) = pass(&new);
    assert!(after < before * 5 / 4, "{after} bytes after the change, {before} before");
    assert!(stats.bases <= workloads && stats.unpacked_base_bytes <= 4 << 20, "{stats:?}");
    assert!(compactor.groups.count() <= workloads, "{}", compactor.groups.count());
    for (at, object) in new.iter().enumerate() {
        assert_eq!(object.raw_json().unwrap(), small(at % workloads, 1, at));
    }
}
