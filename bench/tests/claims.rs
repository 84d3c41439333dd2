//! Each figure in the documents' tables is a row of the report in the repository.

use std::fs;
use std::path::Path;

use deltafifo_bench::report::{Claims, Report};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).expect("it is in the repository")
}

/// A document has the table as it is made of the rows.
fn assert_has(document: &str, table: &str) {
    let text = read(document);
    for line in table.lines() {
        assert!(
            text.lines().any(|there| there == line),
            "{document} does not say what bench/report/rows.json does; copy what `cargo run -p deltafifo-bench --example \
             claims` prints. It has no line\n{line}"
        );
    }
    assert!(text.contains(table), "{document} has the lines of the table in another order, or others between");
}

#[test]
fn the_documents_tables_are_rows_of_the_report() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("report/rows.json");
    let report = Report::read(&path).unwrap_or_else(|error| panic!("bench/report/rows.json {error}"));
    let claims = Claims::of(&report);
    assert_has("BENCHMARKS.md", &claims.measured());
    assert_has("BENCHMARKS.md", &claims.aimed_at());
}
