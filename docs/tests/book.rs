//! Checks the guide and the README: links have a target, named metrics and tests exist, and
//! chapters are compiled.

use std::collections::HashSet;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

use deltafifo_informer::metrics::ALL;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("docs is in the repository").to_owned()
}

fn text(path: &Path) -> String {
    read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn markdown_in(directory: &Path) -> Vec<PathBuf> {
    let files = read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the lines of a Markdown text that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns the targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the anchor that mdbook and GitHub derive from a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> HashSet<String> {
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn every_relative_link_has_a_target() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for file in markdown_in(&root().join("docs/src")).into_iter().chain(markdown_in(&root())) {
        let own = text(&file);
        for link in prose(&own).flat_map(links).filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let exists = target.exists()
                && (heading.is_empty() || anchors(&text(&target)).contains(heading));
            // mdbook copies only the chapters, so a link out of their directory breaks in the book.
            let leaves_book = file.starts_with(root().join("docs/src")) && link.starts_with("..");
            if !exists || leaves_book {
                broken.push(format!("{}: {link}", file.display()));
            }
            checked += 1;
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 30, "only {checked} relative links were found");
}

#[test]
fn every_chapter_is_in_summary_and_compiled() {
    let summary = text(&root().join("docs/src/SUMMARY.md"));
    // The chapter on compact objects needs the feature.
    let compiled =
        ["docs/lib.rs", "informer/src/compact/mod.rs"].map(|file| text(&root().join(file)));
    let compiled = compiled.concat();
    for file in markdown_in(&root().join("docs/src")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name != "SUMMARY.md" {
            assert!(summary.contains(&format!("({name})")), "{name} is not in the summary");
            assert!(compiled.contains(&format!("src/{name}\"")), "{name} is not compiled");
        }
    }
}

/// Returns the names of all metrics. `ALL` has those of reflectors and informers; the others are
/// constants of modules for metrics.
fn metrics() -> HashSet<String> {
    let mut names: HashSet<_> = ALL.iter().map(|metric| metric.name.to_owned()).collect();
    for part in ["leader_election", "runtime/controller", "sharding", "workqueue"] {
        let module = text(&root().join(format!("informer/src/{part}/metrics.rs")));
        let constants = module.lines().filter_map(|line| line.strip_prefix("const "));
        let of_part: Vec<_> =
            constants.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect();
        assert!(of_part.len() > 1, "only these metrics of {part} were found: {of_part:?}");
        names.extend(of_part);
    }
    names
}

#[test]
fn every_metric_named_in_guide_exists() {
    let known = metrics();
    for (chapter, prefixes, least) in [
        ("metrics", &["reflector_", "informer_", "workqueue_", "controller_"][..], 25),
        ("leader-election", &["leader_election_"][..], 2),
        ("many-replicas", &["shard_group_"][..], 7),
    ] {
        let chapter = text(&root().join(format!("docs/src/{chapter}.md")));
        let words = prose(&chapter)
            .flat_map(|line| line.split(|c: char| !c.is_ascii_lowercase() && c != '_'));
        let named = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
        let (exist, unknown): (HashSet<_>, HashSet<_>) =
            named.partition(|name| known.contains(*name));
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(exist.len() >= least, "only these metrics were found: {exist:?}");
    }
}

#[test]
fn version_table_ends_with_current_versions() {
    let manifest = text(&root().join("Cargo.toml"));
    let wanted = |name: &str| {
        let line = manifest
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} = {{ version = \"")));
        line.and_then(|line| line.split('"').next())
            .expect("the workspace has a version for it")
            .to_owned()
    };
    let (version, rust) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_RUST_VERSION"));
    let (this, _patch) = version.rsplit_once('.').unwrap();
    let row = format!("//! | {this} | {} | {} | {rust} |", wanted("kube"), wanted("k8s-openapi"));
    let docs = text(&root().join("informer/src/lib.rs"));
    let rows = docs
        .lines()
        .skip_while(|line| !line.contains("| k8s-openapi |"))
        .take_while(|line| line.contains('|'));
    assert_eq!(rows.last(), Some(row.as_str()));
}

/// Returns the lines of the README between a heading and the next one of level 2.
fn readme_below(heading: &str) -> Vec<String> {
    let readme = text(&root().join("README.md"));
    let below = readme.lines().skip_while(|line| *line != heading).skip(1);
    let below: Vec<_> =
        below.take_while(|line| !line.starts_with("## ")).map(str::to_owned).collect();
    assert!(!below.is_empty(), "README has no {heading:?}");
    below
}

#[test]
fn each_row_about_kubes_store_names_a_test() {
    let below = readme_below("### What kube's store loses");
    let rows = below
        .iter()
        .filter_map(|line| line.strip_suffix("` |"))
        .filter_map(|row| row.rsplit('`').next());
    let tests = text(&root().join("informer/tests/runtime/kubes_store.rs"));
    let tests = tests
        .split("#[tokio::test(start_paused = true)]\nasync fn ")
        .skip(1)
        .filter_map(|test| test.split('(').next());
    let (rows, tests): (Vec<_>, Vec<_>) = (rows.collect(), tests.collect());
    assert_eq!(rows, tests);
    assert!(rows.len() >= 6, "only these rows were found: {rows:?}");
}

#[test]
fn readme_controller_has_at_most_30_lines() {
    let below = readme_below("## A controller in 30 lines");
    let code = below.iter().skip_while(|line| !line.starts_with("```rust")).skip(1);
    let lines = code.take_while(|line| *line != "```").count();
    assert!((10..=30).contains(&lines), "the controller has {lines} lines");
}
