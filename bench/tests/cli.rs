//! The tool as a person meets it: a small run from beginning to end, and a clear word for what cannot be done.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn relist(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.args(arguments.split_whitespace()).output().expect("the tool starts")
}

#[test]
fn a_small_run_ends_with_tables_and_json() {
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("relist.json");
    let engines = "deltafifo,deltafifo-skip,mutex,dashmap,floor";
    let run = relist(&format!(
        "--objects 2000 --rounds 2 --seconds 0.2 --workload all --engine {engines} --json {}",
        json.display()
    ));
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stderr}");
    for word in [
        "mimalloc",
        "relist, 2000 objects",
        "events zipf-4x4-burst",
        "stall control-handled-p99.9",
        "readers idle-4-thread-p99.99",
        "slow-handler 10us-1-consumer-add-max",
        "memory relist-peak",
        " B/key",
        "dashmap 6.",
    ] {
        assert!(stdout.contains(word), "no {word:?} in {stdout}");
    }
    let report: Value = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let rows = report["rows"].as_array().expect("rows");
    for workload in ["initial", "relist", "churn"] {
        assert_eq!(rows.iter().filter(|row| row["workload"] == workload).count(), 5, "{workload}");
    }
    assert_eq!(rows.iter().filter(|row| row["workload"] == "events").count(), 4 * 12);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "stall").count(), 4 * 16);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "readers").count(), 4 * 14);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "slow-handler").count(), 4 * 30);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "memory").count(), 4 * 5);
    let curves = rows.iter().filter(|row| row["extra"]["curve"].as_array().is_some_and(|curve| curve.len() == 13));
    assert_eq!(curves.count(), 4 * (4 + 4 + 6), "one for each distribution of stall, readers and slow-handler");
    assert!(rows.iter().all(|row| row["min"].as_f64() <= row["median"].as_f64()), "{rows:?}");
    assert!(report["machine"]["cores"].as_u64() > Some(0));
}

/// Engines without a queue still have a store.
#[test]
fn a_store_without_a_queue_does_what_it_can() {
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store.json");
    let run = relist(&format!(
        "--objects 500 --rounds 1 --seconds 0.1 --workload readers,slow-handler,memory --engine kube-writer,floor --json {}",
        json.display()
    ));
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stderr}");
    assert!(stderr.contains("skipping floor"), "{stderr}");
    let report: Value = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let rows = report["rows"].as_array().expect("rows");
    let memory: Vec<_> = rows.iter().filter(|row| row["workload"] == "memory").map(|row| &row["variant"]).collect();
    assert_eq!(memory, ["idle", "relist-peak"]);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "readers").count(), 14);
    assert_eq!(rows.len(), 16);
}

#[test]
fn what_cannot_be_done_is_said() {
    let cases = [
        ("--engine abacus", "deltafifo-skip, mutex, dashmap, floor"),
        ("--workload nap", "initial, relist, churn, events, stall, readers, slow-handler, memory"),
        ("--objects 0", "--objects"),
        ("--rounds 0", "--rounds"),
        ("--seconds 0", "--seconds"),
        ("--input no-such-file", "no-such-file"),
        ("--engine floor --objects 10 --json no/such/directory.json --rounds 1", "no/such/directory.json"),
        ("--child", "--engine"),
    ];
    for (arguments, about) in cases {
        let run = relist(arguments);
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success(), "{arguments}: it ran");
        assert!(stderr.contains(about), "{arguments}: {stderr}");
    }
}
