//! Tests of the tool as a user runs it: small runs from beginning to end, and the messages for
//! requests that cannot be carried out.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::{iter, thread};

use serde_json::Value;

/// The result of a run of the tool.
struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Self { status: output.status, stdout, stderr }
    }
}

/// Runs the tool with these arguments.
fn relist(arguments: &str) -> Run {
    command(arguments).output().expect("the tool starts").into()
}

/// Runs the tool, which must succeed.
fn succeed(arguments: &str) -> Run {
    let run = relist(arguments);
    assert!(run.status.success(), "{arguments}: {}", run.stderr);
    run
}

/// Runs the tool, which must fail with a message that contains this text.
fn fail(arguments: &str, text: &str) {
    let run = relist(arguments);
    assert!(!run.status.success(), "{arguments}: it succeeded");
    assert!(run.stderr.contains(text), "{arguments}: {}", run.stderr);
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.args(arguments.split_whitespace());
    command
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Reads a JSON file that the tool wrote.
fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("it is JSON")
}

/// Returns the rows of a report, or of one workload.
fn rows<'a>(report: &'a Value, workload: Option<&str>) -> Vec<&'a Value> {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().filter(|row| workload.is_none_or(|name| row["workload"] == name)).collect()
}

#[test]
fn small_run_of_all_workloads_writes_tables_and_json() {
    let json = scratch("relist.json");
    let engines = "deltafifo,deltafifo-skip,deltafifo-1-thread,mutex,dashmap,floor,floor-2-threads";
    let Run { stdout, .. } = succeed(&format!(
        "--objects 2000 --rounds 2 --seconds 0.2 --workload all --engine {engines} --json {}",
        json.display()
    ));
    for word in ["mimalloc", "relist, 2000 objects", "stall control-handled-p99.9", "dashmap 6."] {
        assert!(stdout.contains(word), "no {word:?} in {stdout}");
    }
    for word in ["workqueue turns-1,", "workqueue backlog-4,", "workqueue workers-8x8,"] {
        assert_eq!(stdout.contains(word), cfg!(feature = "peers"), "{word:?} in {stdout}");
    }
    let report = read_json(&json);
    assert!(!report.to_string().contains(env!("CARGO_TARGET_TMPDIR")), "{report}");
    for (workload, expected) in [
        ("initial", 7),
        ("relist", 7 + 5), // and `owned`, without that of the floors
        ("churn", 7),
        ("events", 4 * 12),
        ("stall", 4 * 16),
        // Single keys in five engines, and an index of deltafifo, mutex and dashmap.
        ("readers", (5 + 3) * 14),
        // deltafifo, mutex and dashmap, each with two indexes; selectors of deltafifo and mutex;
        // scans of deltafifo
        ("queries", 3 * 2 * 3 + 2 * 3 + 2),
        ("slow-handler", 4 * 30),
        // deltafifo and mutex, with three shapes and three numbers of threads
        ("workqueue", if cfg!(feature = "peers") { 2 * 9 } else { 0 }),
        ("memory", 4 * 5),
    ] {
        assert_eq!(rows(&report, Some(workload)).len(), expected, "{workload}");
    }
    for (workload, field) in [("queries", "answers"), ("workqueue", "taken")] {
        for row in rows(&report, Some(workload)) {
            let expected = match row["variant"].as_str().expect("a variant") {
                // Of the two objects of an app, one is excluded.
                scan if scan.starts_with("selector-scan") => 20,
                selector if selector.starts_with("selector") => 1000,
                _ => 2000,
            };
            assert_eq!(row["extra"][field], expected, "{row}");
        }
    }
    let rows = rows(&report, None);
    assert!(rows.iter().all(|row| row["min"].as_f64() <= row["median"].as_f64()), "{rows:?}");
    assert!(rows.iter().all(|row| (row["engine"] == "floor") != row["extra"]["walk"].is_null()));
    assert!(report["machine"]["cores"].as_u64() > Some(0));
}

#[cfg(feature = "peers")]
#[test]
fn store_without_a_queue_runs_the_workloads_of_stores() {
    let json = scratch("store.json");
    let run = succeed(&format!(
        "--objects 2000 --rounds 1 --seconds 0.1 --workload readers,queries,slow-handler,memory \
         --engine kube-writer,kube-writer-arc,floor --json {}",
        json.display()
    ));
    assert!(run.stderr.contains("skipping floor"), "{}", run.stderr);
    let report = read_json(&json);
    let memory = rows(&report, Some("memory"));
    let memory: Vec<_> = memory.iter().map(|row| &row["variant"]).collect();
    assert_eq!(memory, ["idle", "relist-peak", "idle", "relist-peak"]);
    assert_eq!(rows(&report, Some("readers")).len(), 2 * 14);
    assert_eq!(rows(&report, Some("queries")).len(), 2 * 2);
    assert_eq!(rows(&report, None).len(), 36);
}

/// Checks the workload `cache` on every engine in Rust that can run it: each one ends with all
/// objects, and prints every figure.
#[cfg(feature = "peers")]
#[test]
fn engines_of_the_cache_end_with_the_same_store() {
    const VARIANTS: [&str; 6] =
        ["rest-bytes", "peak-bytes", "first-list-cpu", "relist-cpu", "get", "get-header"];
    const ENGINES: [&str; 7] = [
        "deltafifo",
        "deltafifo-without",
        "deltafifo-compact",
        "deltafifo-compact-validated",
        "kube-writer",
        "gzip",
        "cbor",
    ];
    let (json, engines) = (scratch("cache.json"), ENGINES.join(","));
    for (input, multiplied) in [("pods-mixed", "--replicas 4"), ("pods", "--as-is")] {
        let input = format!("{}/data/{input}.json.gz", env!("CARGO_MANIFEST_DIR"));
        let run = succeed(&format!(
            "--workload cache --input {input} {multiplied} --objects 300 --rounds 1 \
             --engine {engines} --json {}",
            json.display()
        ));
        assert!(run.stdout.contains("checked: all engines ended with the same"), "{}", run.stdout);
        let report = read_json(&json);
        for engine in ENGINES {
            let rows = rows(&report, Some("cache")).into_iter();
            let variants: Vec<_> = rows
                .filter(|row| row["engine"] == engine && row["extra"]["store_len"] == 300)
                .filter_map(|row| row["variant"].as_str())
                .collect();
            assert!(VARIANTS.iter().all(|one| variants.contains(one)), "{engine}: {variants:?}");
        }
    }
}

/// Checks that a child with the option `--without-owned` leaves out the variant `owned` of a
/// relist. The run without options starts its children with this option.
#[test]
fn child_without_owned_measures_the_plain_relist_only() {
    for (option, variants) in [("", 2), ("--without-owned", 1)] {
        let arguments = format!("--child --engine mutex --workload relist --objects 100 {option}");
        let run = succeed(&arguments);
        let rows = run.stdout.lines().filter(|line| line.starts_with("{\"row\"")).count();
        assert_eq!(rows, variants, "{option}");
    }
}

#[test]
fn unusable_arguments_are_rejected_with_a_message_that_names_them() {
    for (arguments, text) in [
        (
            "--engine abacus",
            "deltafifo-skip, deltafifo-1-thread, deltafifo-lane, deltafifo-single, mutex, dashmap, floor, floor-2-threads",
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
        ("--engine floor --objects 10 --json no/such/file.json --rounds 1", "no/such/file.json"),
        ("--child", "--engine"),
        ("--replicas 20", "--input"),
        ("--from no-such-file --json no/such.json", "no-such-file"),
        ("--from some.json --rounds 2", "--rounds"),
        ("--server some-file --engine floor", "--engine"),
        ("--client curl", "--server"),
    ] {
        fail(arguments, text);
    }
}

#[cfg(feature = "peers")]
#[test]
fn unusable_files_and_clients_are_rejected() {
    for (arguments, text) in [
        ("--workload cache", "needs --input"),
        ("--workload cache,relist --input data/pods-mixed.json.gz", "--workload cache alone"),
        ("--workload cache --objects 10,20 --input data/pods-mixed.json.gz", "one number"),
        ("--input no-such-file", "no-such-file"),
        ("--server no-such-file", "no-such-file"),
        ("--server some-file --objects 1,2", "one number"),
        (
            "--server some-file --client abacus",
            "curl, curl-streamed, deltafifo, deltafifo-list, deltafifo-without, deltafifo-compact",
        ),
        ("--child --server some-file", "--client"),
    ] {
        fail(arguments, text);
    }
}

#[cfg(not(feature = "peers"))]
#[test]
fn options_that_need_peers_are_rejected_in_one_line() {
    let command = "cargo run --release --features peers --bin relist -- …";
    for (arguments, option) in [
        ("--server file", "--server"),
        ("--input file", "--input"),
        ("--report directory", "--report"),
        ("--workload workqueue", "--workload workqueue"),
        ("--workload relist,workqueue", "--workload workqueue"),
        ("--engine kube-writer", "--engine kube-writer"),
        ("--engine floor,kube-writer-arc", "--engine kube-writer-arc"),
    ] {
        let run = relist(arguments);
        assert_eq!(run.stderr, format!("relist: {option} needs the feature `peers`: {command}\n"));
        assert_eq!(run.status.code(), Some(1), "{arguments}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn report_made_from_its_rows_is_the_same() {
    let (first, again) = (scratch("first"), scratch("again"));
    let measured = succeed(&format!(
        "--objects 300,500 --rounds 1 --engine deltafifo,floor --report {}",
        first.display()
    ));
    let rows = first.join("rows.json");
    let from = succeed(&format!("--from {} --report {}", rows.display(), again.display()));
    assert_eq!(from.stdout, measured.stdout);
    for file in ["figures.md", "relist.svg", "report.html", "report.txt", "rows.json"] {
        let read = |directory: &Path| fs::read_to_string(directory.join(file)).expect(file);
        assert_eq!(read(&first), read(&again), "{file}");
    }
}

/// Starts the tool with piped output, and waits until it prints a line that starts with `line`.
fn start_until(mut command: Command, line: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut tool =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts");
    let mut stderr = BufReader::new(tool.stderr.take().expect("it is piped")).lines();
    let begins = |text: &String| text.starts_with(line);
    stderr.by_ref().map_while(Result::ok).find(begins).expect("the line is printed");
    (tool, stderr)
}

/// Waits for the end of a tool that [`start_until`] has started. Its result has the rest of the
/// standard error.
fn finish(mut tool: Child, stderr: Lines<BufReader<ChildStderr>>) -> Run {
    let stderr = stderr.map_while(Result::ok).collect::<Vec<_>>().join("\n");
    let mut stdout = String::new();
    tool.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("text");
    Run { status: tool.wait().expect("it ends"), stdout, stderr }
}

/// Sends SIGINT to a process, or to a process group if the id is negative.
fn interrupt(id: &str) {
    let sent = Command::new("kill").args(["-INT", "--", id]).status().expect("there is a kill");
    assert!(sent.success());
}

/// Checks that an interrupted run writes a report with the rows so far, and names the turns that
/// did not end. One run is interrupted by a signal to the tool alone, as `kill` sends it, and
/// another by a signal to its children as well, as a terminal sends it.
#[test]
fn interrupted_run_writes_the_rows_that_were_measured() {
    for signals_children in [false, true] {
        let json = scratch("interrupted.json");
        let mut tool =
            command("--objects 500 --rounds 1000 --engine floor,deltafifo --workload relist");
        tool.arg("--json").arg(&json).process_group(0);
        // The second engine starts after the first has ended.
        let (tool, stderr) = start_until(tool, "round 1/1000: deltafifo");
        let id = tool.id();
        interrupt(&if signals_children { format!("-{id}") } else { id.to_string() });
        let Run { status, stdout, stderr } = finish(tool, stderr);

        assert_eq!(status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("interrupted"), "{stderr}");
        for text in ["relist, 500 objects", "rounds", "ended before it was complete"] {
            assert!(stdout.contains(text), "{stdout}");
        }
        let report = read_json(&json);
        assert!(rows(&report, None).iter().any(|row| row["engine"] == "floor"), "{report}");
        let run = &report["runs"][0];
        assert_eq!(run["complete"], false);
        let not_run = run["not_run"].as_array().expect("turns");
        let is_relist =
            |turn: &Value| turn["engine"] == "deltafifo" && turn["workloads"][0] == "relist";
        assert!(not_run.iter().any(is_relist), "{run}");
    }
}

/// Checks the report of a run in which a child is killed with SIGKILL, as the system does when
/// memory runs out. It says which turn failed, and has all rows of the other turns, including those
/// of the same engine.
#[test]
fn killed_child_loses_only_its_turn() {
    let json = scratch("killed.json");
    let mut tool = command(
        "--objects 500 --rounds 1 --seconds 60 --engine deltafifo,floor \
         --workload relist,stall,memory",
    );
    tool.arg("--json").arg(&json);
    let (tool, stderr) = start_until(tool, "round 1/1: deltafifo, 500 objects, stall");
    // This child needs more than a minute, so it is the one that is killed.
    let mut children = iter::repeat_with(|| child(tool.id())).inspect(|_| thread::yield_now());
    let child = children.find_map(|child| child).expect("a child");
    let killed = Command::new("kill").args(["-KILL", &child]).status().expect("there is a kill");
    assert!(killed.success());
    let Run { status, stdout, stderr } = finish(tool, stderr);

    assert_eq!(status.code(), Some(1), "{stderr}");
    for text in [
        "FAILED: round 1/1: deltafifo, 500 objects, stall: deltafifo was killed",
        "turns that failed: 1",
    ] {
        assert!(stderr.contains(text), "{stderr}");
    }
    assert!(stdout.contains("A turn failed: round 1/1: deltafifo"), "{stdout}");
    let report = read_json(&json);
    // The first two turns precede the one that fails, and the last one follows it.
    for (workload, engine) in
        [("relist", "deltafifo"), ("relist", "floor"), ("memory", "deltafifo")]
    {
        let rows = rows(&report, Some(workload));
        assert!(rows.iter().any(|row| row["engine"] == engine), "{workload} of {engine}: {report}");
    }
    assert_eq!(report["runs"][0]["failed"].as_array().map(Vec::len), Some(1));
}

/// Returns the process id of the tool's child that runs an engine; `None` if there is none. The
/// tool also starts git.
fn child(tool: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{tool}/task/{tool}/children")).ok()?;
    let child = children.split_whitespace().next()?;
    let command = fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?;
    command.contains("--child").then(|| child.to_owned())
}

#[test]
fn two_runs_are_joined_into_one_report() {
    let [few, many, both] = ["few.json", "many.json", "joined.json"].map(scratch);
    let [few_name, many_name, both_name] = [&few, &many, &both].map(|path| path.display());
    for (objects, json) in [(300, &few_name), (600, &many_name)] {
        succeed(&format!("--objects {objects} --rounds 1 --engine deltafifo,floor --json {json}"));
    }
    let Run { stdout, .. } =
        succeed(&format!("--from {many_name} --from {few_name} --json {both_name}"));
    for word in ["relist, 300 objects", "relist, 600 objects"] {
        assert!(stdout.contains(word), "{stdout}");
    }
    assert!(!stdout.contains("WARNING"), "{stdout}");

    // A joined file can be joined again, but not with one of its parts.
    succeed(&format!("--from {both_name}"));
    for text in ["300 objects", "few.json"] {
        fail(&format!("--from {both_name} {few_name}"), text);
    }

    let text = fs::read_to_string(&few).expect("it was written");
    let other_machine = text.replace("\"cores\": ", "\"cores\": 99");
    fs::write(&few, other_machine).expect("it can be written");
    let Run { stdout, .. } = succeed(&format!("--from {many_name} --from {few_name}"));
    assert!(stdout.contains("not measured alike: the number of cores"), "{stdout}");
}

#[test]
fn files_are_written_if_standard_output_is_closed_or_full() {
    let json = scratch("unread.json");
    let run_to = |stdout: &str| -> Run {
        let _ = fs::remove_file(&json); // of the previous case
        let arguments = "--objects 100 --rounds 1 --engine floor --json";
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("\"$0\" {arguments} \"$1\" {stdout}"));
        shell.arg(env!("CARGO_BIN_EXE_relist")).arg(&json);
        shell.output().expect("there is a shell").into()
    };
    let Run { stderr, .. } = run_to("| true");
    assert!(json.exists() && !stderr.contains("panicked"), "{stderr}");
    assert!(!stderr.contains("Broken pipe"), "{stderr}");
    let Run { status, stderr, .. } = run_to("> /dev/full");
    assert!(json.exists() && !status.success(), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
}

#[test]
fn interrupt_before_the_first_row_keeps_earlier_files() {
    let json = scratch("kept.json");
    fs::write(&json, "of an earlier run").expect("it can be written");
    let mut tool =
        command("--objects 500 --rounds 1 --seconds 60 --engine deltafifo --workload stall");
    tool.arg("--json").arg(&json);
    let (mut tool, _stderr) = start_until(tool, "round 1/1: deltafifo");
    interrupt(&tool.id().to_string());
    assert_eq!(tool.wait().expect("it ends").code(), Some(130));
    assert_eq!(fs::read_to_string(&json).expect("it is there"), "of an earlier run");
}

/// Checks that `--from` rejects a file that is damaged, was edited or is not a report, even if it
/// is the only file, and that the message contains advice.
#[test]
fn files_that_no_run_has_written_are_rejected_with_advice() {
    let json = scratch("one.json");
    let arguments = "--objects 200 --rounds 1 --engine deltafifo,floor --json";
    succeed(&format!("{arguments} {}", json.display()));
    let text = fs::read_to_string(&json).expect("it was written");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut report = read_json(&json);
        change(&mut report);
        report.to_string()
    };
    let twice = changed(&|report| {
        let row = report["rows"][0].clone();
        report["rows"].as_array_mut().expect("rows").push(row);
    });
    let other_format = changed(&|report| report["format"] = 99.into());
    let other_store = changed(&|report| report["rows"][0]["extra"]["store_digest"] = "x".into());
    for (name, text, problem, advice) in [
        ("garbage", "what is this".to_owned(), "is not a report", "rows.json"),
        ("empty", String::new(), "is not a report", "rows.json"),
        ("cut", text[..text.len() / 2].to_owned(), "cut or edited", "--json"),
        ("later", other_format, "format 99", "the version that wrote it"),
        ("twice", twice, "is in", "measure"),
        ("other", other_store, "store_digest", "not valid"),
    ] {
        let file = scratch(&format!("from-{name}.json"));
        fs::write(&file, text).expect("it can be written");
        for text in [problem, advice] {
            fail(&format!("--from {}", file.display()), text);
        }
    }
    fail(&format!("--from {}", scratch("").display()), "--from takes a file");
}
