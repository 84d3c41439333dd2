//! Cuts members out of the text of an object.
//!
//! [`Prune::decode`] leaves the same members out while it decodes; the tests compare both.

use crate::wire::{Member, Members, Prune, WireError, check, trim};

/// Returns the JSON object `json` without the members that `prune` leaves out. If `prune` leaves
/// out nothing, the result is `json` itself; otherwise it is written into `out`. Members that stay
/// are copied byte by byte, but the white space between them is not copied.
///
/// # Errors
/// If `json` is not an object, or if a member that is cut out is not valid JSON. Members that stay
/// are not checked.
pub(super) fn cut<'a>(
    prune: &Prune,
    json: &'a [u8],
    out: &'a mut Vec<u8>,
) -> Result<&'a [u8], WireError> {
    if prune.is_empty() {
        return Ok(json);
    }
    out.clear();
    out.reserve(json.len());
    copy(prune, json, out)?;
    Ok(out)
}

fn copy(prune: &Prune, object: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let mut members = Members::of(object);
    out.push(b'{');
    let mut is_first = true;
    loop {
        // The bracket or comma before the member.
        let before = members.rest();
        let Some(name) = members.name()? else { break };
        let rule = prune.member(&name);
        let value = members.value()?;
        if let Some(Member::LeftOut) = rule {
            check(value)?;
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        let member = trim(&before[1..before.len() - members.rest().len()]);
        match rule {
            Some(Member::Pruned(prune)) if value.starts_with(b"{") => {
                out.extend_from_slice(&member[..member.len() - value.len()]);
                copy(prune, value, out)?;
            }
            _ => out.extend_from_slice(member),
        }
    }
    out.push(b'}');
    members.end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::cut;
    use crate::wire::Prune;

    fn without(paths: &[Vec<&str>]) -> Prune {
        let mut prune = Prune::default();
        for path in paths {
            prune.leave_out(path);
        }
        prune
    }

    fn text(paths: &[&str], json: &str) -> Option<String> {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
        let mut out = Vec::new();
        let cut = cut(&without(&paths), json.as_bytes(), &mut out).ok()?;
        Some(String::from_utf8(cut.to_vec()).expect("it was text"))
    }

    #[test]
    fn members_that_stay_are_copied_as_written() {
        let json = r#"{"a":{"b":1e3,"c":"\u0064"},"b":[ {"b":1} ],"c":{}}"#;
        for (paths, expected) in [
            (&["x"][..], json),
            (&["a/b"], r#"{"a":{"c":"\u0064"},"b":[ {"b":1} ],"c":{}}"#),
            (&["a/b", "a/c", "c"], r#"{"a":{},"b":[ {"b":1} ]}"#),
            (&["a", "b", "c"], "{}"),
            (&["b/b", "c/b/c"], json),
        ] {
            assert_eq!(text(paths, json).unwrap(), expected, "{paths:?}");
        }
    }

    #[test]
    fn escaped_name_is_recognized() {
        assert_eq!(text(&["a"], r#"{"\u0061":1,"b":2}"#).unwrap(), r#"{"b":2}"#);
    }

    #[test]
    fn every_duplicate_is_cut() {
        let json = r#"{"a":{"b":1,"b":2},"a":{"b":3,"c":4}}"#;
        assert_eq!(text(&["a/b"], json).unwrap(), r#"{"a":{},"a":{"c":4}}"#);
    }

    #[test]
    fn text_that_is_not_an_object_is_refused() {
        for json in [
            "",
            "[]",
            "null",
            "{",
            "{}x",
            r#"{"a":}"#,
            r#"{"a":tru}"#,
            r#"{"a" 1}"#,
            "{\x0c}",
            "{}\x0c",
        ] {
            assert_eq!(text(&["a"], json), None, "{json}");
        }
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<f32>().prop_map(Value::from),
            "[ -~]{0,4}".prop_map(Value::from),
        ];
        let name = || prop::sample::select(vec!["a", "b", "c", "\"\\"]).prop_map(str::to_owned);
        let members = move |value: BoxedStrategy<Value>| {
            prop::collection::btree_map(name(), value, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
        };
        let value = leaf.prop_recursive(4, 32, 4, move |value| {
            prop_oneof![
                prop::collection::vec(value.clone(), 0..3).prop_map(Value::from),
                members(value.boxed()),
            ]
        });
        members(value.boxed())
    }

    fn paths() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
        let name = prop::sample::select(vec!["a", "b", "c", "\"\\"]);
        prop::collection::vec(prop::collection::vec(name, 0..4), 0..4)
    }

    /// Asserts that [`cut`] and [`Prune::decode`] leave the same members in `json`, or that both
    /// fail.
    fn compare(paths: &[Vec<&str>], json: &str) -> Result<(), TestCaseError> {
        let prune = without(paths);
        let expected: Option<Map<String, Value>> = prune.decode(json, None).ok();
        let mut out = Vec::new();
        let cut = cut(&prune, json.as_bytes(), &mut out).ok();
        let found = cut.and_then(|text| serde_json::from_slice(text).ok());
        prop_assert_eq!(found, expected);
        Ok(())
    }

    proptest! {
        #[test]
        fn both_pruners_agree(object in object(), paths in paths(), is_pretty in any::<bool>()) {
            let json = if is_pretty { format!("{object:#}") } else { object.to_string() };
            compare(&paths, &json)?;
        }

        #[test]
        fn both_pruners_agree_on_damaged_text(
            object in object(),
            paths in paths(),
            at in any::<prop::sample::Index>(),
            byte in prop::sample::select(b"{}[]\",:\\ 1x".to_vec()),
            is_cut in any::<bool>(),
        ) {
            let mut json = object.to_string().into_bytes();
            let at = at.index(json.len());
            json[at] = byte;
            if is_cut {
                json.truncate(at);
            }
            compare(&paths, std::str::from_utf8(&json).unwrap())?;
        }
    }
}
