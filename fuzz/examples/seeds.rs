//! Writes the seed corpora of the fuzz targets, which are made from test vectors and a list of
//! pods. Run in `fuzz/`: `cargo +nightly run --example seeds -- seeds ../bench/data/small.jsonl.gz
//! ../bench/data/pods.json.gz`.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use deltafifo::BoxError;
use deltafifo_bench::data::{Pods, Source};
use deltafifo_conformance::vectors::{Case, Item, Listed, Obj, Op, read, to_oracle};
use deltafifo_oracle::{self as oracle, Place, Setup, write};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// The minimum number of cases (test vectors) that become seeds. If there are fewer cases, all of
/// them become seeds.
const CASES: usize = 40;
/// The number of cases that also become seeds of the target `files`.
const FILES: usize = 6;
/// The number that names the file of the first seed with scopes.
const SCOPED: usize = 50;
/// The largest number of steps of a case in a seed of `files`. A fuzzer needs small inputs.
const STEPS: usize = 12;

/// Selectors of every form, and invalid ones.
const SELECTORS: [&str; 28] = [
    "",
    "app=web",
    "app==web,tier!=back",
    "app in (web, till), tier notin (back)",
    "app, !tier",
    "! app",
    "size>5,size<10",
    "size > 007",
    "app=,tier= ,x",
    "app in (),tier notin (,back)",
    "app in (a,,a)",
    "in in (in), notin notin (notin)",
    "in=notin,notin!=in",
    "example.com/name=a-b_c.d,0.1/2",
    "\tapp\r\n=\tweb ",
    "app=web,app=till,app",
    "app=web tier=back",
    "app,,tier",
    "app in (web",
    "app ist web",
    "x<-1",
    "x>9223372036854775808",
    "Example.com/a/b",
    "ä=ö",
    // The target replaces certain single bytes with words of 63 or 64 characters, and with a part
    // of a prefix that is too long.
    "\u{11}=\u{11}",
    "\u{12}",
    "app=\u{12}",
    "\u{13}\u{13}\u{13}\u{13}/x",
];

/// Bodies that an API server may send: lists and watches, complete, cut off, and unusual ones.
const BODIES: [&str; 9] = [
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{}]}"#,
    r#"{"items":[{"b":[{"c":"\"]}"}]}],"metadata":{"resourceVersion":"9","continue":"x"},"kind":"PodList"}"#,
    r#"{ "kind" : "PodList" , "metadata" : { } , "items" : null , "more" : [ 1, true, "é" ] }"#,
    r#"{"kind":"PodList","metadata":{"remainingItemCount":3},"items":[{"a":{"#,
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}"#,
    concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#,
        "\n",
        r#"{"object":{"metadata":{"name":"a"}},"type":"DELETED"}"#,
        "\r\n\n",
    ),
    concat!(
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"\u0061"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#,
        "\n",
    ),
    r#"{"type":"ADDED","object":{"metadata":{"na"#,
    "<html>\n</html>\n",
];

/// The first lines of inputs of the target `prune`: paths of members of a pod.
const PRUNED_PATHS: [&str; 3] =
    ["status", "metadata/managedFields metadata/labels/app", "metadata spec/containers x/y"];

/// Returns inputs of the target `compact`: one byte that chooses the settings of the compactor,
/// three that describe the damage to do, and a list of objects, one a line. The lists consist of
/// siblings, of objects that have little in common, or of unusual texts.
fn objects() -> [([u8; 4], String); 4] {
    let pod = |number: usize| {
        json!({"metadata": {
            "namespace": "shop", "name": format!("till-{number}x7"), "generateName": "till-",
            "uid": format!("{number:08x}-0000-4000-8000-0123456789ab"), "resourceVersion": format!("10{number}"),
            "creationTimestamp": "2026-07-01T12:00:00Z", "labels": {"app": "till"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "till", "uid": "5", "controller": true}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]},
            "spec": {"containers": [{"name": "main", "image": "registry/till:1"}]},
            "status": {"podIP": format!("10.0.0.{number}"), "startTime": format!("2026-07-01T12:00:0{number}Z")}})
    };
    let map = |number: usize| {
        json!({"metadata": {"name": format!("settings-{number}"), "resourceVersion": number.to_string()},
            "data": {"key": "text that all maps have in common, although their names differ"}})
    };
    let lines =
        |objects: Vec<Value>| objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let unusual = [
        "{}",
        r#"{"metadata":null,"a":1e400}"#,
        r#" { "metadata" : { "name" : "\u0061" , "labels" : { } } } "#,
        r#"{"metadata":{"name":"a","name":"b"}}"#,
        r#"{"metadata":{"name":7}}"#,
        "[]",
        r#"{"status":[1,"\"}"],"metadata":{"managedFields":null}}"#,
    ];
    [
        ([1, 5, 1, 200], lines((0..4).map(pod).collect())),
        ([7, 40, 128, 90], lines((0..4).map(pod).collect())),
        ([5, 20, 7, 60], lines((0..14).map(map).collect())),
        ([2, 0, 255, 1], unusual.join("\n")),
    ]
}

/// Write the seed corpora of the fuzz targets.
#[derive(Parser)]
struct Arguments {
    /// The output directory, with a subdirectory for each target
    seeds: PathBuf,
    /// Gzipped test vectors
    vectors: PathBuf,
    /// A LIST response of pods
    pods: PathBuf,
}

fn main() -> Result<(), BoxError> {
    let Arguments { seeds, vectors, pods } = Arguments::parse();
    let cases: Vec<Case> = read(&vectors)?.collect::<Result<_, _>>()?;
    let every = (cases.len() / CASES).max(1);
    for (number, case) in cases.iter().step_by(every).enumerate() {
        let (setup, ops) = to_oracle(case);
        save(&seeds, "operations", number, &write(&setup, &ops))?;
        save(&seeds, "handlers", number, &write(&setup, &overlapping(&ops)))?;
        if number % 4 == 0 {
            let scoped = write(&setup, &scoped(&overlapping(&ops)));
            save(&seeds, "handlers", SCOPED + number, &scoped)?;
        }
        save(&seeds, "indexer", number, &indexer(number, setup, &ops))?;
        save(&seeds, "keys", number, &keys(case))?;
        save(&seeds, "caches", number, &caches(number, &overlapping(&ops)))?;
        save(&seeds, "workqueue", number, &workqueue(&overlapping(&ops)))?;
    }

    for (number, text) in SELECTORS.iter().enumerate() {
        // Objects whose label keys and values are words of the text.
        let labels = [3, 0, 1, 1, 2, 2, 3, 5, 0, 2, 2, 1, 3, 0, 0, 1, 5, 1];
        save(&seeds, "selectors", number, &[text.as_bytes(), &[0], &labels].concat())?;
    }

    for (number, (body, frame)) in BODIES.iter().zip((1..).step_by(5)).enumerate() {
        // The first byte is the length of the frames.
        save(&seeds, "wire", number, &[&[frame], body.as_bytes()].concat())?;
    }

    for (number, (choices, objects)) in objects().iter().enumerate() {
        save(&seeds, "compact", number, &[choices, objects.as_bytes()].concat())?;
    }

    for (number, paths) in PRUNED_PATHS.iter().enumerate() {
        let [(_, pods), ..] = &objects();
        let object = pods.lines().next().unwrap_or_default();
        save(&seeds, "prune", number, format!("{paths}\n{object}").as_bytes())?;
    }

    let mut text = String::new();
    MultiGzDecoder::new(fs::File::open(&vectors)?).read_to_string(&mut text)?;
    for (number, line) in text.lines().step_by(every).take(FILES).enumerate() {
        let mut case: Value = serde_json::from_str(line)?;
        if let Some(steps) = case["steps"].as_array_mut() {
            steps.truncate(STEPS);
        }
        save(&seeds, "files", number, format!("{case}\n").as_bytes())?;
    }
    let pod = Pods::read(&pods)?.make(0, None);
    let list = json!({"kind": "PodList", "apiVersion": "v1", "items": [pod]}).to_string();
    save(&seeds, "files", FILES, list.as_bytes())?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(list.as_bytes())?;
    save(&seeds, "files", FILES + 1, &packed.finish()?)
}

fn save(seeds: &Path, target: &str, number: usize, bytes: &[u8]) -> Result<(), BoxError> {
    let directory = seeds.join(target);
    fs::create_dir_all(&directory)?;
    Ok(fs::write(directory.join(format!("{number:02}")), bytes)?)
}

/// Returns the operations, with each pop replaced by a handler that runs during the next two
/// operations. Some items are taken in batches.
fn overlapping(ops: &[oracle::Op]) -> Vec<oracle::Op> {
    let (mut spread, mut due) = (Vec::new(), Vec::new());
    for (number, op) in ops.iter().enumerate() {
        match op {
            oracle::Op::Pop(verdict) => {
                if number % 5 == 0 {
                    spread.extend([oracle::Op::TakeBatch(3), oracle::Op::Next]);
                } else {
                    spread.push(oracle::Op::Take);
                }
                due.push((number + 2, *verdict));
            }
            other => spread.push(other.clone()),
        }
        due.retain(|&(at, verdict)| {
            if at == number {
                spread.push(oracle::Op::End(0, verdict));
            }
            at > number
        });
    }
    spread
}

/// Returns the operations on a queue with three scopes. Each relist of the whole queue becomes a
/// relist of each scope. At first, one scope is waived (`DeltaFifo::waive_scope`) and awaited again
/// (`DeltaFifo::await_scope`). Halfway through, it is waived, and another one is removed and added
/// again.
fn scoped(ops: &[oracle::Op]) -> Vec<oracle::Op> {
    let parts = 0..3_u8;
    let change = |part, change| oracle::Op::Scope(part, change);
    let mut scoped: Vec<_> = parts.clone().map(|part| change(part, oracle::Change::Add)).collect();
    scoped.extend([oracle::Change::Waive, oracle::Change::Await].map(|to| change(0, to)));
    for (number, op) in ops.iter().enumerate() {
        if number == ops.len() / 2 {
            scoped.push(change(0, oracle::Change::Waive));
            scoped.extend([oracle::Change::Remove, oracle::Change::Add].map(|to| change(1, to)));
        }
        let oracle::Op::Replace(places) = op else {
            scoped.push(op.clone());
            continue;
        };
        for part in parts.clone() {
            let contains = |place: &Place| {
                place.key().is_some_and(|key| oracle::PARTS[usize::from(part)].contains(key))
            };
            let page = places.iter().copied().filter(contains).collect();
            let steps = [oracle::Step::Begin, oracle::Step::Page(page), oracle::Step::Commit];
            scoped.extend(steps.map(|step| oracle::Op::RelistIn(part, step)));
        }
    }
    scoped
}

/// Returns the writes and deletions among the operations, in the encoding of the indexer's target.
fn indexer(number: usize, setup: Setup, ops: &[oracle::Op]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(number % 4).unwrap_or_default()];
    let mut numbers = (0..=u8::MAX).cycle();
    let mut next = || numbers.next().unwrap_or_default();
    bytes.extend(setup.known_places().flat_map(|place| [0, place.0, next()]));
    for op in ops {
        match op {
            oracle::Op::Add(place) | oracle::Op::Update(place) => {
                bytes.extend([0, place.0, next()])
            }
            oracle::Op::Delete(place) | oracle::Op::DeleteTombstone(place, _) => {
                bytes.extend([4, place.0, next()])
            }
            oracle::Op::Replace(places) => {
                let places: Vec<Place> = places.iter().copied().take(5).collect();
                bytes.extend([6, 0, next(), u8::try_from(places.len()).unwrap_or_default()]);
                bytes.extend(places.iter().flat_map(|place| [place.0, next()]));
            }
            _ => {}
        }
    }
    bytes
}

/// Returns the namespaces and names of a case's objects, each preceded by its length.
fn keys(case: &Case) -> Vec<u8> {
    let added = case.steps.iter().filter_map(|step| match &step.op {
        Op::Add { item: Listed::Obj(object) } | Op::Delete { item: Item::Obj(object) } => {
            Some(object)
        }
        _ => None,
    });
    let texts = |object: &Obj| [object.ns.clone(), object.name.clone()];
    let spelled = |text: String| {
        [vec![u8::try_from(text.len()).unwrap_or_default()], text.into_bytes()].concat()
    };
    case.config.known_objects.iter().chain(added).flat_map(texts).flat_map(spelled).collect()
}

/// Returns the operations in the encoding of the target `caches`. `number` chooses the queue or
/// cache, and its settings.
fn caches(number: usize, ops: &[oracle::Op]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(number).unwrap_or_default()];
    // 0 for a queue, 1 for a cache whose objects expire, 2 for a mutation cache.
    let of = [0, 0, 1, 2][number % 4];
    for (n, op) in (1..=u8::MAX).cycle().zip(ops) {
        let (kinds, rest) = match op {
            oracle::Op::Add(place) => ([0, 0, 4], [place.0, n, 0]),
            oracle::Op::Update(place) => ([4, 3, 0], [place.0, n, 1]),
            oracle::Op::Delete(place) => ([7, 4, 8], [place.0, 0, 0]),
            oracle::Op::DeleteTombstone(place, with) => {
                ([7, 4, 9], [place.0, 2 + u8::from(*with), 0x40])
            }
            oracle::Op::Batch(places) => ([6, 5, 7], list(places, n)),
            oracle::Op::Replace(places) => ([240, 5, 7], list(places, n)),
            oracle::Op::AddIfNotPresent(place, _) => ([5, 11, 0], [place.0, n, 0]),
            oracle::Op::Pop(_) | oracle::Op::Next => ([9, 6, 10], [n, 0, 0]),
            oracle::Op::Take => ([11 + n % 3, 7, 11], [n, 0, 0]),
            oracle::Op::End(..) => ([14, 12, 14], [2, 0, 0]),
            oracle::Op::Close => ([255, 10, 13], [0, 0, 0]),
            _ => ([15, 9, 13], [n, 0, 0]),
        };
        bytes.push(kinds[of]);
        bytes.extend(rest);
    }
    bytes
}

/// Encodes a list of objects in three bytes.
fn list(places: &[Place], n: u8) -> [u8; 3] {
    let bits = places
        .iter()
        .filter(|place| place.key().is_some())
        .fold(0, |bits, place| bits | 1 << place.0);
    [bits, if places.contains(&Place::NAMELESS) { 0xc0 } else { 0 }, n]
}

/// Returns the operations in the encoding of the work queue's target.
fn workqueue(ops: &[oracle::Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, op) in (1..=u8::MAX).cycle().zip(ops) {
        bytes.extend(match op {
            oracle::Op::Add(place) => [0, place.0, 2, 0],
            oracle::Op::Update(place) => [0, place.0, n, 0],
            // With a delay of two seconds, and rate limited.
            oracle::Op::Delete(place) => [0, place.0, n, 0x23],
            oracle::Op::DeleteTombstone(place, _) => [0, place.0, 2, 0xc],
            oracle::Op::Take => [8, 0, 0, 0],
            oracle::Op::End(which, verdict) => [11, *which, *verdict as u8, 0],
            oracle::Op::TakeBatch(_) | oracle::Op::Batch(_) => [14, 0, 0, 0],
            oracle::Op::Next => [16, n, 0, 0],
            oracle::Op::DropBatch => [17, n, 0, 0],
            oracle::Op::AddIfNotPresent(place, _) => [18, place.0, 0, 0],
            oracle::Op::Close => [254 + n % 2, 0, 0, 0],
            oracle::Op::Pop(_) => [21, n, n, 0],
            _ => [19, 0, 0, 0],
        });
    }
    bytes
}
