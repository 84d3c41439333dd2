//! Tests that need a process of their own.

use std::env;
use std::process::Command;

/// Returns whether this process runs the test alone, so that a signal reaches no other test. If it
/// does not, runs the test in such a process, and fails if the test fails there.
pub fn is_alone(test: &str) -> bool {
    const ALONE: &str = "DELTAFIFO_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let (_program, test) = test.split_once("::").expect("the path of a test");
    let mut alone = Command::new(env::current_exe().expect("this program"));
    let output = alone.args([test, "--exact"]).env(ALONE, "1").output().expect("it starts");
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("1 passed"), "{output}");
    false
}
