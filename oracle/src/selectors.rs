//! Compares label selectors with a plain parser that reads the text of each requirement on its
//! own, following the table in the documentation of `Selector`. Compares what listers select with
//! a filter over all objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::{Indexer, KeyFunc, Labels, Lister, Meta, Selector, SelectorError};

use crate::Bytes;

/// Characters that may be anywhere between two tokens.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
const SIGNS: [&str; 5] = ["==", "!=", "=", ">", "<"];

/// The texts that the bytes 1 to 8 stand for. These bytes have no meaning of their own in a
/// selector. Byte 0 ends the selector.
const SPELLED: [&str; 9] = [
    "",
    " in (",
    " notin (",
    "in",
    "notin",
    "example.com/a",
    "9223372036854775807",
    "-7",
    "\u{a0}",
];
/// The first of four bytes that encode long words, which a fuzzer would seldom produce. Two of the
/// words are longer than a label may be.
const LONG: u8 = 0x10;
/// Values that labels have in addition to the words of the selector.
const OTHERS: [&str; 5] = ["", "x", "in", "3", "-7"];
const NAMESPACES: [&str; 2] = ["", "ns"];

/// Reads a selector from `bytes`, and objects whose labels consist of its words.
///
/// # Panics
/// Panics if the selector differs from the plain parser's result, or selects other objects.
pub fn run(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (spelled, rest) = bytes.split_at(end);
    let mut text = Vec::new();
    for &byte in spelled {
        match SPELLED.get(usize::from(byte)) {
            Some(spelled) => text.extend_from_slice(spelled.as_bytes()),
            None if (LONG..LONG + 4).contains(&byte) => {
                text.extend(vec![b'a'; 62 + usize::from(byte - LONG)]);
            }
            None => text.push(byte),
        }
    }
    let text = String::from_utf8_lossy(&text);
    let mut rest = Bytes::new(rest.get(1..).unwrap_or_default());
    let words: Vec<_> = text.split(|sign| "=!<>(), \t\r\n".contains(sign)).collect();
    let objects: Vec<_> = (0..8).map_while(|number| object(number, &words, &mut rest)).collect();
    check(&text, &objects);
}

/// Reads an object with up to three labels.
fn object(number: u8, words: &[&str], bytes: &mut Bytes<'_>) -> Option<Arc<Labelled>> {
    let count = bytes.next()?;
    let mut labels = BTreeMap::new();
    for _ in 0..count % 4 {
        let key = words[usize::from(bytes.next()?) % words.len()];
        let value = usize::from(bytes.next()?) % (words.len() + OTHERS.len());
        let value = words.get(value).copied().unwrap_or_else(|| OTHERS[value - words.len()]);
        labels.insert(key.to_owned(), value.to_owned());
    }
    let namespace = NAMESPACES[usize::from(count >> 2) % NAMESPACES.len()];
    Some(Arc::new(Labelled { namespace, name: number.to_string(), labels }))
}

/// Compares a selector, and listers that use it, with the plain parser on these objects.
///
/// # Panics
/// Panics if `text` is accepted and should not be, or the reverse; if the selector matches, lists
/// or prints wrongly; or if its error is wrong.
pub fn check(text: &str, objects: &[Arc<Labelled>]) {
    let selector = text.parse::<Selector>();
    let wanted = Requirement::read(text);
    assert_eq!(selector.is_ok(), wanted.is_some(), "{text:?}: {selector:?}, {wanted:?}");
    let (selector, wanted) = match (selector, wanted) {
        (Ok(selector), Some(wanted)) => (selector, wanted),
        (error, _) => {
            return assert!(
                error.as_ref().is_err_and(|error| is_true(error, text)),
                "{text:?}: {error:?}"
            );
        }
    };
    let written = selector.to_string();
    assert_eq!(written.parse(), Ok(selector.clone()), "{text:?} prints as {written:?}");
    let rewritten = Requirement::read(&written).map(normalised);
    assert_eq!(rewritten, Some(normalised(wanted.clone())), "{text:?} prints as {written:?}");

    let matches =
        |object: &&Arc<Labelled>| wanted.iter().all(|wanted| wanted.matches(&object.labels));
    for object in objects {
        let labels = &object.labels;
        assert_eq!(
            selector.matches(|key| labels.get(key).map(String::as_str)),
            matches(&object),
            "{text:?} {labels:?}"
        );
        let exact = Selector::of_labels(labels);
        assert_eq!(
            exact.is_ok(),
            labels.iter().all(|(key, value)| is_key(key) && is_value(value)),
            "{labels:?}"
        );
        if let Ok(exact) = exact {
            let contains = |other: &Labelled| {
                labels.iter().all(|(key, value)| other.labels.get(key) == Some(value))
            };
            for other in objects {
                assert_eq!(
                    exact.matches(|key| other.labels.get(key).map(String::as_str)),
                    contains(other)
                );
            }
        }
    }

    let store =
        Indexer::builder(KeyFunc::meta_namespace(LabelledMeta)).build().expect("no index twice");
    store.replace(objects.to_vec()).expect("all have names");
    let lister = Lister::new(store.reader());
    let names = |objects: Vec<Arc<Labelled>>| {
        let mut names: Vec<_> = objects.into_iter().map(|object| object.name.clone()).collect();
        names.sort();
        names
    };
    let expected = names(objects.iter().filter(matches).cloned().collect());
    assert_eq!(names(lister.select(&selector)), expected, "{text:?}");
    // The empty namespace means all namespaces.
    assert_eq!(names(lister.namespace("").select(&selector)), expected, "{text:?}");
    let expected =
        objects.iter().filter(|object| object.namespace == "ns").filter(matches).cloned().collect();
    assert_eq!(names(lister.namespace("ns").select(&selector)), names(expected), "{text:?}");
}

/// Returns whether an error is right about `text`: the part that it names exists and is invalid.
fn is_true(error: &SelectorError, text: &str) -> bool {
    match error {
        SelectorError::Syntax { at, found, .. } => {
            let rest: String = text.chars().skip(at - 1).collect();
            match found.strip_suffix('"') {
                Some(found) => format!("{rest:?}").starts_with(found) && !rest.starts_with(BLANKS),
                None => rest.is_empty() && found == "the end",
            }
        }
        SelectorError::Key { key, .. } => text.contains(key) && !is_key(key),
        SelectorError::Value { key, value, .. } => {
            text.contains(key) && text.contains(value) && !is_value(value)
        }
        SelectorError::Number { key, value } => {
            text.contains(key) && text.contains(value) && value.parse::<i64>().is_err()
        }
        _ => false,
    }
}

/// An object with labels.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields have the names of Kubernetes' metadata")]
pub struct Labelled {
    pub namespace: &'static str,
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

struct LabelledMeta;

impl Meta<Labelled> for LabelledMeta {
    fn namespace<'a>(&self, object: &'a Labelled) -> Option<&'a str> {
        Some(object.namespace)
    }

    fn name<'a>(&self, object: &'a Labelled) -> Option<&'a str> {
        Some(&object.name)
    }
}

impl Labels<Labelled> for LabelledMeta {
    fn label<'a>(&self, object: &'a Labelled, key: &str) -> Option<&'a str> {
        object.labels.get(key).map(String::as_str)
    }
}

/// A requirement as the plain parser reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// A comparison with one value by `=`, `==` or `!=`.
    Is(String, &'static str, String),
    /// A set of values: with `in` if the flag is true, otherwise with `notin`.
    OneOf(String, bool, Vec<String>),
    /// The label exists if the flag is true; otherwise it does not exist.
    Exists(String, bool),
    /// The label's number is greater than this one if the flag is true, otherwise less.
    Compare(String, bool, i64),
}

impl Requirement {
    /// Returns the requirements of `text`, or `None` if it is invalid. A key or value that contains
    /// a misplaced blank or sign, such as `=`, is invalid by the rules for labels.
    #[must_use]
    pub fn read(text: &str) -> Option<Vec<Self>> {
        if text.trim_matches(BLANKS).is_empty() {
            return Some(Vec::new());
        }
        let mut is_within = false;
        let is_comma = |sign: char| {
            is_within = sign == '(' || is_within && sign != ')';
            sign == ',' && !is_within
        };
        text.split(is_comma).map(|one| Self::read_one(one.trim_matches(BLANKS))).collect()
    }

    fn read_one(text: &str) -> Option<Self> {
        let key = |text: &str| Some(text.trim_matches(BLANKS).to_owned()).filter(|key| is_key(key));
        let value =
            |text: &str| Some(text.trim_matches(BLANKS).to_owned()).filter(|value| is_value(value));
        let Some(at) = text.find(['=', '!', '>', '<', '(']) else {
            return Some(Self::Exists(key(text)?, true));
        };
        let (before, after) = text.split_at(at);
        if let Some(values) = after.strip_prefix('(') {
            let (before, operator) = before.trim_end_matches(BLANKS).rsplit_once(BLANKS)?;
            let is_in = ["notin", "in"].iter().position(|name| *name == operator)? == 1;
            let values = values.strip_suffix(')')?.split(',').map(value);
            return Some(Self::OneOf(key(before)?, is_in, values.collect::<Option<_>>()?));
        }
        let Some(sign) = SIGNS.into_iter().find(|sign| after.starts_with(sign)) else {
            return Some(Self::Exists(key(text.strip_prefix('!')?)?, false));
        };
        let (key, value) = (key(before)?, value(&after[sign.len()..])?);
        Some(match sign {
            ">" | "<" => Self::Compare(key, sign == ">", value.parse().ok()?),
            sign => Self::Is(key, sign, value),
        })
    }

    /// Returns whether an object with these labels matches.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Is(key, "!=", value) => labels.get(key) != Some(value),
            Self::Is(key, _, value) => labels.get(key) == Some(value),
            Self::OneOf(key, is_in, values) => {
                *is_in == labels.get(key).is_some_and(|value| values.contains(value))
            }
            Self::Exists(key, there) => labels.contains_key(key) == *there,
            Self::Compare(key, above, bound) => {
                match labels.get(key).map(|value| value.parse::<i64>()) {
                    Some(Ok(number)) if *above => number > *bound,
                    Some(Ok(number)) => number < *bound,
                    _ => false,
                }
            }
        }
    }
}

/// Sorts the requirements, and replaces equivalent forms by one form.
fn normalised(mut all: Vec<Requirement>) -> Vec<Requirement> {
    for wanted in &mut all {
        if let Requirement::Is(key, sign, value) = wanted {
            *wanted =
                Requirement::OneOf(std::mem::take(key), *sign != "!=", vec![std::mem::take(value)]);
        }
        if let Requirement::OneOf(.., values) = wanted {
            values.sort();
            values.dedup();
        }
    }
    all.sort();
    all
}

/// Returns whether `text` has letters or digits at both ends, only those and `inner` between, and
/// at most `longest` characters.
fn is_made_of(text: &str, longest: usize, inner: &str) -> bool {
    let is_end = |sign: char| sign.is_ascii_alphanumeric();
    text.len() <= longest
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|sign| is_end(sign) || inner.contains(sign))
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_made_of(text, 63, "-_.")
}

fn is_key(text: &str) -> bool {
    let parts: Vec<_> = text.split('/').collect();
    match parts[..] {
        [name] => is_made_of(name, 63, "-_."),
        [prefix, name] => {
            let is_part = |part: &str| is_made_of(part, 253, "-") && part.to_lowercase() == part;
            prefix.len() <= 253 && prefix.split('.').all(is_part) && is_made_of(name, 63, "-_.")
        }
        _ => false,
    }
}
