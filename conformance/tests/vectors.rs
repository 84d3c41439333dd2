//! Tests that every engine answers every recorded step as client-go did, or as documented, and that
//! a replay counts any other answer as a mismatch.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use deltafifo::BoxError;
use deltafifo_conformance::vectors::{Case, Engine, Tally, read};
use flate2::read::GzDecoder;

type Result<T = ()> = std::result::Result<T, BoxError>;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/data").join(name)
}

/// Writes a file for one test, and returns its path.
fn scratch(name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}

fn replay(name: &str, engine: Engine) -> Result<Tally> {
    let mut tally = Tally::default();
    for case in read(&data(name))? {
        tally.replay(&case?, engine)?;
    }
    Ok(tally)
}

fn assert_no_mismatch(name: &str, engine: Engine, cases: usize, steps: usize) -> Result {
    let tally = replay(name, engine)?;
    let first: Vec<_> = tally.first.iter().map(ToString::to_string).collect();
    assert_eq!(
        (tally.cases, tally.steps, tally.mismatches),
        (cases, steps, 0),
        "{}",
        first.join("\n")
    );
    Ok(())
}

#[test]
fn deltafifo_answers_small_vectors_as_client_go() -> Result {
    assert_no_mismatch("small.jsonl.gz", Engine::Deltafifo, 220, 11_200)
}

#[test]
fn deltafifo_answers_wide_vectors_as_client_go() -> Result {
    assert_no_mismatch("wide.jsonl.gz", Engine::Deltafifo, 8, 5_236)
}

#[test]
fn mutex_answers_small_vectors_as_client_go() -> Result {
    assert_no_mismatch("small.jsonl.gz", Engine::Mutex, 220, 11_200)
}

#[test]
fn mutex_answers_wide_vectors_as_client_go() -> Result {
    assert_no_mismatch("wide.jsonl.gz", Engine::Mutex, 8, 5_236)
}

#[test]
fn documented_differences_appear_as_documented_on_every_engine() -> Result {
    for engine in [Engine::Deltafifo, Engine::Mutex, Engine::Model] {
        assert_no_mismatch("requeue-populates.jsonl", engine, 2, 134)?;
        assert_eq!(replay("requeue-populates.jsonl", engine)?.differences, 8, "{engine:?}");
    }
    Ok(())
}

#[test]
fn missing_or_changed_documented_difference_is_a_mismatch() -> Result {
    let text = case_wanting(RIGHT);
    let marked =
        |ours: &str| text.replace(r#""want":{"value":true}"#, &format!(r#""want":{ours}"#));
    let cases = [
        (r#"{"value":false},"ours":{"value":true}"#, 0, 2),
        // Our answer equals client-go's although a difference is documented.
        (r#"{"value":true},"ours":{"value":false}"#, 2, 0),
        // A member of client-go's answer is neither in our answer nor documented as a difference.
        (r#"{"value":false,"more":1},"ours":{"value":true}"#, 2, 0),
    ];
    for (ours, mismatches, differences) in cases {
        let case: Case = serde_json::from_str(&marked(ours))?;
        let mut tally = Tally::default();
        tally.replay(&case, Engine::Deltafifo)?;
        assert_eq!((tally.mismatches, tally.differences), (mismatches, differences), "{ours}");
    }
    let gone =
        scratch("gone.jsonl", marked(r#"{"value":true},"ours":{"value":false}"#).as_bytes())?;
    assert_replay(&gone, 1, "ours {\"value\":false}, documented as a difference")?;
    let seen =
        scratch("seen.jsonl", marked(r#"{"value":false},"ours":{"value":true}"#).as_bytes())?;
    assert_replay(&seen, 0, "as docs/src/semantics.md says\n1 cases, 4 steps, 0 mismatches\n")
}

/// Returns a case of four steps over a store. It is replayed with two kinds of known objects.
/// `newest` is the answer that the last step expects.
fn case_wanting(newest: &str) -> String {
    let steps = [
        r#"{"op":"add","item":{"obj":{"ns":"a","name":"x","rv":"1"}},"want":{"result":"ok"}}"#,
        r#"{"op":"update","item":{"unkeyable":true},"want":{"result":"key_error"}}"#,
        r#"{"op":"has_synced","want":{"value":true}}"#,
        &format!(r#"{{"op":"list","want":{{"newest":{newest}}}}}"#),
    ];
    let config = r#"{"known":"store","emit_replaced":true}"#;
    format!(r#"{{"name":"by-hand","config":{config},"steps":[{}]}}"#, steps.join(","))
}

const RIGHT: &str = r#"[{"type":"Added","obj":{"ns":"a","name":"x","rv":"1"}}]"#;
const WRONG: &str = r#"[{"type":"Added","obj":{"ns":"a","name":"x","rv":"2"}}]"#;

#[test]
fn wrong_answer_is_counted_for_each_kind_of_known_objects() -> Result {
    for engine in [Engine::Deltafifo, Engine::Mutex] {
        for (newest, mismatches) in [(RIGHT, 0), (WRONG, 2), ("[]", 2)] {
            let case: Case = serde_json::from_str(&case_wanting(newest))?;
            let mut tally = Tally::default();
            tally.replay(&case, engine)?;
            assert_eq!((tally.cases, tally.steps, tally.mismatches), (1, 4, mismatches));
            assert!(tally.first.iter().all(|mismatch| mismatch.step == 4));
        }
    }
    Ok(())
}

#[test]
fn every_recorded_answer_is_compared() -> Result {
    // Every step of the first cases expects one member more than the answer has, so each must be a
    // mismatch.
    let mut tally = Tally::default();
    let (mut altered, mut replayed) = (0, 0);
    for case in read(&data("small.jsonl.gz"))?.take(20) {
        let mut case = case?;
        let ways = Engine::Mutex.subjects(&case.config)?.len();
        for step in &mut case.steps {
            step.want.insert("altered".into(), true.into());
            altered += ways;
        }
        replayed += case.steps.len();
        tally.replay(&case, Engine::Mutex)?;
    }
    assert_eq!((tally.steps, tally.mismatches), (replayed, altered));
    assert_eq!(tally.first.len(), 10);
    Ok(())
}

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).output()?)
}

/// Runs the tool on a file, and asserts its exit status and a part of its output.
fn assert_replay(file: &Path, status: i32, expected_text: &str) -> Result {
    let output = run(&[&file.display().to_string()])?;
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text);
    assert_eq!(output.status.code(), Some(status), "{output_text}");
    assert!(output_text.contains(expected_text), "{output_text}");
    Ok(())
}

#[test]
fn replay_prints_the_differences() -> Result {
    let right = scratch("right.jsonl", case_wanting(RIGHT).as_bytes())?;
    assert_replay(&right, 0, "1 cases, 4 steps, 0 mismatches")?;
    let wrong = scratch("wrong.jsonl", case_wanting(WRONG).as_bytes())?;
    assert_replay(&wrong, 1, "by-hand, step 4, own store\n  op   {\"op\":\"list\"}\n  want ")?;
    assert_replay(&wrong, 1, "1 cases, 4 steps, 2 mismatches\n")
}

#[test]
fn unusable_file_is_an_error() -> Result {
    assert_replay(Path::new("no-such-file.jsonl"), 2, "cannot be opened")?;
    assert_replay(&scratch("empty.jsonl", b"\n")?, 2, "holds no case")?;

    let packed = fs::read(data("small.jsonl.gz"))?;
    assert_replay(&scratch("half.jsonl.gz", &packed[..packed.len() / 2])?, 2, "cannot be read")?;

    let mut text = String::new();
    GzDecoder::new(&*packed).read_to_string(&mut text)?;
    let two_lines: String = text.split_inclusive('\n').take(2).collect();
    let cut = &two_lines.as_bytes()[..two_lines.len() - 100];
    assert_replay(&scratch("cut.jsonl", cut)?, 2, "line 2: not a case")?;

    let unknown_op = case_wanting(RIGHT).replace("has_synced", "has_sunk");
    assert_replay(&scratch("unknown-op.jsonl", unknown_op.as_bytes())?, 2, "has_sunk")
}

#[test]
fn unknown_engine_is_an_error() -> Result {
    let output = run(&["--engine", "steam", "x.jsonl"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("steam"));
    Ok(())
}

#[test]
fn model_answers_as_client_go() -> Result {
    assert_no_mismatch("small.jsonl.gz", Engine::Model, 220, 11_200)?;
    assert_no_mismatch("wide.jsonl.gz", Engine::Model, 8, 5_236)
}
