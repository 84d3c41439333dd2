//! Tests of the tool as a user runs it: small runs from beginning to end, and messages for what
//! cannot be done.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{iter, thread};

use serde_json::Value;

fn relist(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.args(arguments.split_whitespace()).output().expect("the tool starts")
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_small_run_ends_with_tables_and_json() {
    let json = scratch("relist.json");
    let engines = "deltafifo,deltafifo-skip,mutex,dashmap,floor";
    let run = relist(&format!(
        "--objects 2000 --rounds 2 --seconds 0.2 --workload all --engine {engines} --json {}",
        json.display()
    ));
    let (stdout, stderr) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stderr}");
    for word in [
        "mimalloc",
        "relist, 2000 objects",
        "events zipf-4x4-burst",
        "stall control-handled-p99.9",
        "readers idle-4-thread-p99.99",
        "queries by-index-p99.9",
        "queries namespace-max",
        "slow-handler 10us-1-consumer-add-max",
        "memory relist-peak",
        "memory pending-8",
        "dashmap 6.",
        "readers during relists of 2,000 objects: a get of deltafifo takes",
    ] {
        assert!(stdout.contains(word), "no {word:?} in {stdout}");
    }
    for word in ["workqueue turns-1,", "workqueue backlog-4,", "workqueue workers-8x8,"] {
        assert_eq!(stdout.contains(word), cfg!(feature = "peers"), "{word:?} in {stdout}");
    }
    let report: Value =
        serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let rows = report["rows"].as_array().expect("rows");
    for (workload, variants) in [("initial", 5), ("relist", 5 + 4), ("churn", 5)] {
        assert_eq!(
            rows.iter().filter(|row| row["workload"] == workload).count(),
            variants,
            "{workload}"
        );
    }
    assert_eq!(rows.iter().filter(|row| row["workload"] == "events").count(), 4 * 12);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "stall").count(), 4 * 16);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "readers").count(), 4 * 14);
    let queries: Vec<_> = rows.iter().filter(|row| row["workload"] == "queries").collect();
    assert_eq!(queries.len(), 3 * 2 * 3, "deltafifo, mutex and dashmap, each with two indexes");
    assert!(queries.iter().all(|row| row["extra"]["answers"] == 2000), "{queries:?}");
    assert_eq!(rows.iter().filter(|row| row["workload"] == "slow-handler").count(), 4 * 30);
    let taken: Vec<_> = rows.iter().filter(|row| row["workload"] == "workqueue").collect();
    let variants = if cfg!(feature = "peers") { 9 } else { 0 };
    assert_eq!(
        taken.len(),
        2 * variants,
        "deltafifo and mutex, by three shapes and three numbers of threads"
    );
    assert!(taken.iter().all(|row| row["extra"]["taken"] == 2000), "{taken:?}");
    assert_eq!(rows.iter().filter(|row| row["workload"] == "memory").count(), 4 * 5);
    // Every curve reaches the largest sample, whichever percentiles it has.
    let curves = rows.iter().filter(|row| {
        row["extra"]["curve"]
            .as_array()
            .is_some_and(|curve| curve.last().is_some_and(|last| last[0] == 1.0))
    });
    let distributions = 4 * (4 + 4 + 6) + 3 * 2;
    assert_eq!(
        curves.count(),
        distributions,
        "one for each of stall, readers, slow-handler and queries"
    );
    assert!(rows.iter().all(|row| row["min"].as_f64() <= row["median"].as_f64()), "{rows:?}");
    assert!(report["machine"]["cores"].as_u64() > Some(0));
}

/// Engines without a queue have a store.
#[cfg(feature = "peers")]
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
    let report: Value =
        serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let rows = report["rows"].as_array().expect("rows");
    let memory: Vec<_> =
        rows.iter().filter(|row| row["workload"] == "memory").map(|row| &row["variant"]).collect();
    assert_eq!(memory, ["idle", "relist-peak"]);
    assert_eq!(rows.iter().filter(|row| row["workload"] == "readers").count(), 14);
    assert_eq!(rows.len(), 16);
}

/// The first run leaves out the variant `owned`.
#[test]
fn child_without_owned_measures_the_plain_relist_only() {
    for (option, variants) in [("", 2), ("--without-owned", 1)] {
        let run =
            relist(&format!("--child --engine mutex --workload relist --objects 100 {option}"));
        let rows = String::from_utf8_lossy(&run.stdout)
            .lines()
            .filter(|line| line.starts_with("{\"row\""))
            .count();
        assert_eq!(rows, variants, "{option}");
    }
}

fn is_refused(arguments: &str, about: &str) {
    let run = relist(arguments);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success(), "{arguments}: it ran");
    assert!(stderr.contains(about), "{arguments}: {stderr}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let cases = [
        (
            "--engine abacus",
            "deltafifo-skip, deltafifo-1-thread, deltafifo-lane, deltafifo-single, mutex, dashmap, floor",
        ),
        (
            "--workload nap",
            "initial, relist, churn, events, stall, readers, queries, slow-handler, workqueue, memory",
        ),
        ("--objects 0", "--objects"),
        ("--rounds 0", "--rounds"),
        ("--rounds 1000000000", "1..=1000"),
        ("--workload all,nap", "nap"),
        ("--engine floor --objects 1000000000000", "pass --objects"),
        ("--seconds 0", "--seconds"),
        (
            "--engine floor --objects 10 --json no/such/directory.json --rounds 1",
            "no/such/directory.json",
        ),
        ("--child", "--engine"),
        ("--from no-such-file --json no/such.json", "no-such-file"),
        ("--from some.json --rounds 2", "--rounds"),
        ("--server some-file --engine floor", "--engine"),
        ("--client curl", "--server"),
    ];
    for (arguments, about) in cases {
        is_refused(arguments, about);
    }
}

#[cfg(feature = "peers")]
#[test]
fn unusable_files_and_clients_are_refused() {
    let cases = [
        ("--input no-such-file", "no-such-file"),
        ("--server no-such-file", "no-such-file"),
        ("--server some-file --objects 1,2", "one number"),
        (
            "--server some-file --client abacus",
            "curl, curl-streamed, deltafifo, deltafifo-list, deltafifo-without, kube-list",
        ),
        ("--child --server some-file", "--client"),
    ];
    for (arguments, about) in cases {
        is_refused(arguments, about);
    }
}

#[cfg(not(feature = "peers"))]
#[test]
fn options_that_need_peers_are_refused_in_one_line() {
    let command = "cargo run --release --features peers --bin relist -- …";
    for option in [
        "--server file",
        "--input file",
        "--report directory",
        "--workload workqueue",
        "--workload relist,workqueue",
        "--engine kube-writer",
        "--engine floor,kube-writer-arc",
    ] {
        let run = relist(option);
        let stderr = String::from_utf8_lossy(&run.stderr);
        let (name, value) = option.split_once(' ').expect("an option and its value");
        let value = value.rsplit(',').next().expect("the last one needs peers");
        let what = if matches!(name, "--workload" | "--engine") {
            format!("{name} {value}")
        } else {
            name.to_owned()
        };
        assert_eq!(stderr, format!("relist: {what} needs the feature `peers`: {command}\n"));
        assert_eq!(run.status.code(), Some(1), "{option}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn a_report_is_the_same_when_it_is_made_again_from_its_rows() {
    let (first, again) = (scratch("first"), scratch("again"));
    let run = relist(&format!(
        "--objects 300,500 --rounds 1 --engine deltafifo,floor --workload relist,initial --report {}",
        first.display()
    ));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        stdout.contains("relist, 300 objects") && stdout.contains("initial, 500 objects"),
        "{stdout}"
    );
    let from = relist(&format!(
        "--from {} --report {}",
        first.join("rows.json").display(),
        again.display()
    ));
    assert!(from.status.success(), "{}", String::from_utf8_lossy(&from.stderr));
    assert_eq!(String::from_utf8_lossy(&from.stdout), stdout);
    for file in [
        "index.html",
        "rows.json",
        "relist.svg",
        "initial.svg",
        "growth-relist.svg",
        "growth-initial.svg",
    ] {
        let read = |directory: &Path| fs::read_to_string(directory.join(file)).expect(file);
        assert_eq!(read(&first), read(&again), "{file}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn where_a_report_cannot_be_written_nothing_is_measured() {
    let file = scratch("a-file");
    fs::write(&file, "").expect("it can be written");
    let run = relist(&format!(
        "--objects 10 --rounds 1 --engine floor --report {}",
        file.join("report").display()
    ));
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && stderr.contains("a-file/report"), "{stderr}");
    assert!(!stderr.contains("round 1/1"), "{stderr}");
}

/// Once with a signal to the tool alone, as `kill` sends it, and once to its children as well, as a
/// terminal does.
#[test]
fn what_was_measured_before_an_interrupt_is_written() {
    for of_a_terminal in [false, true] {
        let json = scratch("interrupted.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
        command.args(
            "--objects 500 --rounds 1000 --engine floor,deltafifo --workload relist".split(' '),
        );
        command.arg("--json").arg(&json);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the tool starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        // The second engine starts after the first has ended.
        let begins = |line: &String| line.starts_with("round 1/1000: deltafifo");
        stderr.by_ref().map_while(Result::ok).find(begins).expect("a second turn");
        let to = if of_a_terminal { format!("-{}", child.id()) } else { child.id().to_string() };
        let sent =
            Command::new("kill").args(["-INT", "--", &to]).status().expect("there is a kill");
        assert!(sent.success());
        let said = stderr.map_while(Result::ok).collect::<Vec<_>>().join("\n");
        let mut stdout = String::new();
        child.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("text");
        let status = child.wait().expect("it ends");

        assert_eq!(status.code(), Some(130), "{said}");
        assert!(said.contains("interrupted"), "{said}");
        assert!(stdout.contains("relist, 500 objects"), "{stdout}");
        let written: Value =
            serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
        assert!(
            written["rows"]
                .as_array()
                .is_some_and(|rows| rows.iter().any(|row| row["engine"] == "floor"))
        );
        assert_eq!(written["runs"][0]["complete"], false);
        let not_run = written["runs"][0]["not_run"].as_array().expect("turns");
        assert!(
            not_run
                .iter()
                .any(|turn| turn["engine"] == "deltafifo" && turn["workloads"][0] == "relist")
        );
        assert!(
            stdout.contains("rounds") && stdout.contains("ended before it was complete"),
            "{stdout}"
        );
    }
}

/// The system kills a process like this when memory runs out.
#[test]
fn a_child_that_is_killed_costs_its_turn_only() {
    let json = scratch("killed.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.args(
        "--objects 500 --rounds 1 --seconds 60 --engine deltafifo,floor --workload relist,stall"
            .split(' '),
    );
    command.arg("--json").arg(&json);
    let tool =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts");
    // A child that ends in between was another one.
    let kill = |child: &String| {
        let mut kill = Command::new("kill");
        kill.args(["-KILL", child]).stderr(Stdio::null()).status().expect("a kill").success()
    };
    iter::repeat_with(thread::yield_now)
        .filter_map(|()| stalling(tool.id()))
        .find(kill)
        .expect("a child");
    let run = tool.wait_with_output().expect("it ends");

    let (stdout, stderr) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    for said in
        ["FAILED: round 1/1: deltafifo, 500 objects: deltafifo was killed", "turns that failed: 1"]
    {
        assert!(stderr.contains(said), "{stderr}");
    }
    assert!(stdout.contains("A turn failed: round 1/1: deltafifo"), "{stdout}");
    let written: Value =
        serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let rows = written["rows"].as_array().expect("rows");
    let relist = |engine: &str| {
        rows.iter().any(|row| row["engine"] == engine && row["workload"] == "relist")
    };
    assert!(relist("floor"), "the other engine had its turn");
    assert!(relist("deltafifo"), "what it had told was complete");
    assert_eq!(written["runs"][0]["failed"].as_array().map(Vec::len), Some(1));
}

/// Returns the child of the tool if it runs the workload stall. Only there a child has five threads
/// or more: its first one, the consumers of two queues, a thread that relists and a producer.
fn stalling(tool: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{tool}/task/{tool}/children")).ok()?;
    let child = children.split_whitespace().next()?;
    // The tool also starts git, which may have as many threads for a moment.
    let is_engine = fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?.contains("--child");
    (is_engine && fs::read_dir(format!("/proc/{child}/task")).ok()?.count() >= 5)
        .then(|| child.to_owned())
}

#[test]
fn two_runs_become_one_report() {
    let [few, many, both] = ["few.json", "many.json", "joined.json"].map(scratch);
    for (objects, json) in [(300, &few), (600, &many)] {
        let run = relist(&format!(
            "--objects {objects} --rounds 1 --engine deltafifo,floor --json {}",
            json.display()
        ));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
    let joined = relist(&format!(
        "--from {} --from {} --json {}",
        many.display(),
        few.display(),
        both.display()
    ));
    let stdout = String::from_utf8_lossy(&joined.stdout);
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    assert!(
        stdout.contains("relist, 300 objects") && stdout.contains("relist, 600 objects"),
        "{stdout}"
    );
    assert!(!stdout.contains("WARNING"), "{stdout}");

    // A joined file can be joined again, but not with one of its parts.
    assert!(relist(&format!("--from {}", both.display())).status.success());
    let twice = relist(&format!("--from {} {}", both.display(), few.display()));
    let stderr = String::from_utf8_lossy(&twice.stderr);
    assert!(
        !twice.status.success() && stderr.contains("300 objects") && stderr.contains("few.json"),
        "{stderr}"
    );

    let other =
        fs::read_to_string(&few).expect("it was written").replace("\"cores\": ", "\"cores\": 99");
    fs::write(&few, other).expect("it can be written");
    let unlike = relist(&format!("--from {} --from {}", many.display(), few.display()));
    let stdout = String::from_utf8_lossy(&unlike.stdout);
    assert!(
        unlike.status.success() && stdout.contains("not measured alike: the number of cores"),
        "{stdout}"
    );
}

#[test]
fn the_files_are_written_whoever_reads_the_terminal() {
    let json = scratch("unread.json");
    let to = |stdout: &str| {
        let _ = fs::remove_file(&json); // of the previous case
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("\"$0\" --objects 100 --rounds 1 --engine floor --json \"$1\" {stdout}"));
        command.arg(env!("CARGO_BIN_EXE_relist")).arg(&json).output().expect("there is a shell")
    };
    let closed = to("| true");
    let stderr = String::from_utf8_lossy(&closed.stderr);
    assert!(
        json.exists() && !stderr.contains("panicked") && !stderr.contains("Broken pipe"),
        "{stderr}"
    );
    let full = to("> /dev/full");
    let stderr = String::from_utf8_lossy(&full.stderr);
    assert!(
        json.exists() && !full.status.success() && stderr.contains("standard output"),
        "{stderr}"
    );
}

#[test]
fn an_interrupt_before_there_is_anything_keeps_what_was_there() {
    let json = scratch("kept.json");
    fs::write(&json, "of an earlier run").expect("it can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.args(
        "--objects 500 --rounds 1 --seconds 60 --engine deltafifo --workload stall".split(' '),
    );
    let mut tool =
        command.arg("--json").arg(&json).stderr(Stdio::piped()).spawn().expect("the tool starts");
    let mut stderr = BufReader::new(tool.stderr.take().expect("it is piped")).lines();
    let begins = |line: &String| line.starts_with("round 1/1: deltafifo");
    stderr.by_ref().map_while(Result::ok).find(begins).expect("a turn");
    let sent = Command::new("kill")
        .args(["-INT", &tool.id().to_string()])
        .status()
        .expect("there is a kill");
    assert!(sent.success());
    assert_eq!(tool.wait().expect("it ends").code(), Some(130));
    assert_eq!(fs::read_to_string(&json).expect("it is there"), "of an earlier run");
}

#[test]
fn all_workloads_take_in_the_others_and_the_tool_says_its_version() {
    let run = relist("--objects 100 --rounds 1 --engine floor --workload all,relist");
    let stdout = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && stdout.contains("churn, 100 objects"), "{stdout}");
    let version = relist("--version");
    assert!(String::from_utf8_lossy(&version.stdout).contains(env!("CARGO_PKG_VERSION")));
}

/// A single file is checked like several.
#[test]
fn what_no_run_has_written_is_refused_with_what_to_do() {
    let json = scratch("one.json");
    let run = relist(&format!(
        "--objects 200 --rounds 1 --engine deltafifo,floor --json {}",
        json.display()
    ));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(&json).expect("it was written");
    let whole: Value = serde_json::from_str(&text).expect("it is JSON");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut whole = whole.clone();
        change(&mut whole);
        whole.to_string()
    };
    let twice = changed(&|whole| {
        let row = whole["rows"][0].clone();
        whole["rows"].as_array_mut().expect("rows").push(row);
    });
    let cases = [
        ("garbage", "what is this".to_owned(), "is not JSON", "rows.json"),
        ("empty", String::new(), "is empty", "measure again"),
        ("cut", text[..text.len() / 2].to_owned(), "is not JSON", "rows.json"),
        ("list", "[1]".to_owned(), "is no report of relist", "--json"),
        (
            "before",
            changed(&|whole| drop(whole.as_object_mut().expect("an object").remove("format"))),
            "of before",
            "measure again",
        ),
        (
            "later",
            changed(&|whole| whole["format"] = 99.into()),
            "format 99",
            "the version that wrote it",
        ),
        ("twice", twice, "twice", "measure again"),
        (
            "other",
            changed(&|whole| whole["rows"][0]["extra"]["store_digest"] = "other".into()),
            "store_digest",
            "worth nothing",
        ),
    ];
    for (name, text, what, advice) in cases {
        let file = scratch(&format!("from-{name}.json"));
        fs::write(&file, text).expect("it can be written");
        let run = relist(&format!("--from {}", file.display()));
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(
            !run.status.success() && stderr.contains(what) && stderr.contains(advice),
            "{name}: {stderr}"
        );
    }
    let directory = relist(&format!("--from {}", scratch("").display()));
    let stderr = String::from_utf8_lossy(&directory.stderr);
    assert!(!directory.status.success() && stderr.contains("--from takes a file"), "{stderr}");
}

#[test]
fn the_command_is_recorded_without_the_paths_of_the_machine() {
    let json = scratch("plain.json");
    let run = relist(&format!("--objects 100 --rounds 1 --engine floor --json={}", json.display()));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(&json).expect("it was written");
    assert!(
        text.contains("relist --objects 100 --rounds 1 --engine floor --json=plain.json"),
        "{text}"
    );
    assert!(
        !text.contains(env!("CARGO_TARGET_TMPDIR")) && !text.contains(env!("CARGO_MANIFEST_DIR")),
        "{text}"
    );
}
