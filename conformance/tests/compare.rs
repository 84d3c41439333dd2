//! Runs random operations on all engines, and compares each answer with the oracle's model.

use deltafifo::BoxError;
use deltafifo_conformance::vectors::{Case, compare, serial};
use deltafifo_oracle::strategy::{config, ops, setup};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn engines_answer_random_operations_as_the_model(ops in ops(60), setup in setup()) {
        let (config, ops) = serial(&setup, &ops);
        if let Err(difference) = compare(&config, &ops) {
            prop_assert!(false, "{difference}");
        }
    }
}

/// Checks that every engine treats a delta with a tombstone as a deletion, even if the type of the
/// delta is not Deleted. Only a caller of `add_if_not_present` can create such a delta. In
/// earlier versions one engine stored it, and another one ignored it.
#[test]
fn tombstone_of_any_delta_type_deletes_on_every_engine() -> Result<(), BoxError> {
    let object = r#"{"ns":"a","name":"x","rv":"1"}"#;
    let steps = [
        format!(r#"{{"op":"add","item":{{"obj":{object}}},"want":{{}}}}"#),
        r#"{"op":"pop","action":"apply","want":{}}"#.to_owned(),
        format!(
            r#"{{"op":"add_if_not_present","deltas":[{{"type":"Added","tombstone":{{"key":"a/x","obj":{object}}}}}],"want":{{}}}}"#
        ),
        r#"{"op":"pop","action":"apply","want":{}}"#.to_owned(),
        r#"{"op":"resync","want":{}}"#.to_owned(),
    ];
    let config = r#"{"known":"store","emit_replaced":true}"#;
    let case: Case = serde_json::from_str(&format!(
        r#"{{"name":"","config":{config},"steps":[{}]}}"#,
        steps.join(",")
    ))?;
    compare(&case.config, &case.steps.into_iter().map(|step| step.op).collect::<Vec<_>>())
}
