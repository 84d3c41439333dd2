//! Tests that the compiler refuses the functions in `src/engine/slot/refused.rs`, which shorten the
//! lifetime of objects or send objects that are not `Sync`. That file is a part of the crate,
//! because the types of its arguments are private.

use std::process::Command;

/// The number of types for which `src/engine/slot/refused.rs` has a function.
const TYPES: usize = 10;

/// Builds the crate with the configuration `deltafifo_refused` set to `refused`, and expects
/// `error` once for each type.
#[track_caller]
fn assert_refused(refused: &str, error: &str) {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/refused");
    let output = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--offline", "--lib", "--profile=check", "--target-dir", target])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .args(["--", "--cfg", &format!("deltafifo_refused=\"{refused}\"")])
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.matches(error).count(), TYPES, "{errors}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no compiler")]
fn slot_and_tokens_do_not_shorten_the_lifetime_of_their_objects() {
    assert_refused("shortened lifetime", "error: lifetime may not live long enough");
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no compiler")]
fn slot_and_tokens_of_objects_that_are_not_sync_are_not_send() {
    assert_refused(
        "shared cell",
        "error[E0277]: `Cell<u8>` cannot be shared between threads safely",
    );
}
