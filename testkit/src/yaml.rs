//! Bodies in YAML, which includes JSON.

use serde_json::{Map, Value};
use serde_saphyr::DuplicateKeyPolicy;

use crate::server::LARGEST_BODY;

/// Reads a body as the real server reads YAML: the first document, with the words and octal numbers
/// of YAML 1.1. An empty document is an empty object. Returns an error that says why it cannot be
/// read. Aliases can repeat a string, but all strings together cannot be larger than a body.
pub(crate) fn read(body: &[u8]) -> Result<Value, String> {
    // Most bodies are JSON, which is read faster. JSON deeper than 128 levels is then refused as
    // YAML, too.
    let value = serde_json::from_slice(body).or_else(|_| read_yaml(body))?;
    Ok(if value.is_null() { Map::new().into() } else { value })
}

fn read_yaml(mut body: &[u8]) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_total_scalar_bytes: LARGEST_BODY },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let document = serde_saphyr::read_with_options(&mut body, options).next();
    let read = document.transpose().map(Option::unwrap_or_default);
    read.map_err(|error| format!("the body is neither JSON nor YAML: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;

    use super::read;

    #[test]
    fn first_document_counts() {
        assert_eq!(read(b"--- \na: 1\n---\nb: 1\n"), Ok(json!({ "a": 1 })));
        assert_eq!(read(b""), Ok(json!({})));
        assert_eq!(read(b"# a comment\n"), Ok(json!({})));
    }

    #[test]
    fn values_are_those_of_yaml_1_1() {
        let body = b"text: abc\nquoted: \"1\"\nyes: on\nmode: 0644\n1: 1.5\nnone: ~\n";
        let expected = json!({ "text": "abc", "quoted": "1", "yes": true, "mode": 420, "1": 1.5, "none": null });
        assert_eq!(read(body), Ok(expected));
        assert_eq!(
            read(b"{a: 1, a: 2, b: &x [c], d: *x}"),
            Ok(json!({ "a": 2, "b": ["c"], "d": ["c"] }))
        );
        assert_eq!(read(b"m: {<<: {a: 1}, b: 2}"), Ok(json!({ "m": { "a": 1, "b": 2 } })));
    }

    #[test]
    fn invalid_and_explosive_documents_are_refused() {
        assert!(read(b"a: b: c").unwrap_err().starts_with("the body is neither JSON nor YAML: "));
        assert!(read(&"[".repeat(100_000).into_bytes()).is_err());
        let mut bomb = "a: &a [x]\n".to_owned();
        for level in b'b'..=b'z' {
            let (name, before) = (char::from(level), char::from(level - 1));
            writeln!(bomb, "{name}: &{name} [*{before}, *{before}, *{before}, *{before}]").unwrap();
        }
        assert!(read(bomb.as_bytes()).is_err());
        let repeated = |count| {
            let aliases = "*a,".repeat(count);
            read(format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(100_000)).as_bytes())
        };
        assert!(repeated(10).is_ok());
        assert!(repeated(40).is_err());
    }
}
