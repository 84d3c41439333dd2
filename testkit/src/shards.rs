//! The parameter `shardSelector` of lists and watches (KEP-5866): ranges of the hash of a field.

use std::fmt;
use std::ops::Range;

use crate::object::Object;
use crate::status::{self, Refused};

/// The number of digits of 2⁶⁴, which is the end of the last range.
const MOST_DIGITS: usize = 17;
const ALL: &str = "0x10000000000000000";
/// The numbers of kinds of CEL's expressions: `x`, `'x'` and `x.y`.
const IDENTIFIER: u8 = 3;
const LITERAL: u8 = 5;
const SELECT: u8 = 7;

/// The response to lists and watches with `shardSelector`, which select the objects for which the
/// hash of the uid or of the namespace is in some ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardSelectors {
    /// The server ignores the parameter, as one without the feature `ShardedListAndWatch` does.
    #[default]
    Ignored,
    /// The server selects the objects of lists and watches. A list contains the selector in
    /// `metadata.shardInfo`, unless it is a list of metadata only, a table, or a list of custom
    /// resources.
    Honoured,
    /// The server selects the objects of lists, but those of watches only if the request selects by
    /// labels or fields, too, as Kubernetes 1.36 does for watches that it serves from etcd.
    HonouredInLists,
}

/// The ranges of a selector. They are of one field.
#[derive(Debug)]
pub(crate) struct Shards {
    field: ShardField,
    ranges: Vec<Range<u128>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardField {
    Uid,
    Namespace,
}

impl Shards {
    /// Parses a selector. Refuses an invalid one with the real server's code 500 and its message,
    /// except for an error of CEL's syntax, whose message the real server's parser makes. The real
    /// server accepts all of CEL's syntax. This function knows only calls of functions, joined by
    /// `||`, with fields and plain strings as arguments, and no parentheses around a call.
    pub(crate) fn parse(text: &str) -> Refused<Self> {
        Self::read(text).map_err(|why| {
            Box::new(status::unknown_error(&format!("invalid shard selector: {why}")))
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered \
                        lists"
                .to_owned());
        }
        let calls: Vec<_> = text.split("||").map(call).collect::<Result<_, _>>()?;
        let ranges: Vec<_> = calls.iter().map(shard_range).collect::<Result<_, _>>()?;
        let field = ranges[0].0;
        if let Some((other, _)) = ranges.iter().find(|(other, _)| *other != field) {
            let (field, other) = (field.path(), other.path());
            return Err(format!(
                "all shard ranges must use the same field, got {field:?} and {other:?}"
            ));
        }
        Ok(Self { field, ranges: ranges.into_iter().map(|(_, range)| range).collect() })
    }

    pub(crate) fn contains(&self, object: &Object) -> bool {
        let hash = fnv1a(match self.field {
            ShardField::Uid => object.uid(),
            ShardField::Namespace => &object.key.namespace,
        });
        self.ranges.iter().any(|range| range.contains(&hash.into()))
    }
}

/// Writes the selector as the real server does in `metadata.shardInfo`.
impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.path();
        for (number, Range { start, end }) in self.ranges.iter().enumerate() {
            let or = if number == 0 { "" } else { " || " };
            write!(f, "{or}shardRange({field}, '{start:#018x}', '{end:#018x}')")?;
        }
        Ok(())
    }
}

impl ShardField {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// A call of a function.
struct Call<'t> {
    function: &'t str,
    arguments: Vec<&'t str>,
}

/// Parses a call of a function with names and strings as arguments.
fn call(text: &str) -> Result<Call<'_>, String> {
    let syntax = || format!("CEL parse error: Syntax error: {text:?} is no call of a function");
    let (function, arguments) = text.trim().split_once('(').ok_or_else(syntax)?;
    let (function, arguments) =
        (function.trim_end(), arguments.strip_suffix(')').ok_or_else(syntax)?);
    let mut parts: Vec<_> = arguments.split(',').map(str::trim).collect();
    if parts == [""] {
        parts.clear();
    }
    let is_known = |argument: &&str| is_path(argument) || string(argument).is_some();
    if !is_path(function) || !parts.iter().all(is_known) {
        return Err(syntax());
    }
    Ok(Call { function, arguments: parts })
}

/// Returns whether this is a name, or a field of one such as `object.metadata.uid`.
fn is_path(text: &str) -> bool {
    let is_letter = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    text.split('.').all(|name| {
        !name.is_empty() && name.bytes().all(is_letter) && !name.as_bytes()[0].is_ascii_digit()
    })
}

/// Returns the contents of a string.
fn string(literal: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = literal.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains([quote, '\\'])).then_some(inner)
    })
}

/// Reads a call of `shardRange`.
fn shard_range(
    Call { function, arguments }: &Call<'_>,
) -> Result<(ShardField, Range<u128>), String> {
    if *function != "shardRange" {
        return Err(format!(
            "unsupported function {function:?}; only shardRange() and || are allowed"
        ));
    }
    let [field, start, end] = arguments.as_slice() else {
        let number = arguments.len();
        return Err(format!("shardRange() requires exactly 3 arguments, got {number}"));
    };
    if !is_path(field) {
        return Err(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got \
             expression kind {LITERAL}"
        ));
    }
    let known = [ShardField::Uid, ShardField::Namespace];
    let Some(known) = known.into_iter().find(|known| known.path() == *field) else {
        return Err(format!(
            "unsupported field path {field:?}; supported: object.metadata.uid, \
             object.metadata.namespace"
        ));
    };
    let range = hash("hexStart", start)?..hash("hexEnd", end)?;
    if range.is_empty() {
        let Range { start, end } = range;
        return Err(format!("shard range start {start:#018x} must be less than end {end:#018x}"));
    }
    Ok((known, range))
}

/// Parses the bound of a range, which has this name: a string of 16 digits, or 2⁶⁴.
fn hash(name: &str, argument: &str) -> Result<u128, String> {
    let Some(text) = string(argument) else {
        let kind = if argument.contains('.') { SELECT } else { IDENTIFIER };
        return Err(format!(
            "{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"
        ));
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {text:?}"));
    };
    let is_digit = |digit: &char| digit.is_ascii_digit() || ('a'..='f').contains(digit);
    if let Some(other) = digits.chars().find(|digit| !is_digit(digit))
        && digits.len() <= MOST_DIGITS
    {
        return Err(format!("{name}: invalid hex character \"{other}\" in {text:?}"));
    }
    match digits.len() {
        0 => Err(format!("{name}: hex value is required after '0x'")),
        16 => Ok(()),
        MOST_DIGITS if text == ALL => Ok(()),
        MOST_DIGITS => {
            Err(format!("{name}: 17-digit hex value must be '{ALL}' (2^64), got {text:?}"))
        }
        length if length > MOST_DIGITS => Err(format!(
            "{name}: hex value too long ({length} chars, max {MOST_DIGITS}): {digits:?}"
        )),
        _ => Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean \
             \"0x{digits:0>16}\"?)"
        )),
    }?;
    Ok(u128::from_str_radix(digits, 16).expect("these are hexadecimal digits"))
}

/// Returns the hash by FNV-1a with 64 bits.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
