//! The parameter `shardSelector` of lists and watches (KEP-5866): ranges of the hash of a field.

use std::fmt;
use std::ops::Range;

use crate::object::Object;
use crate::status::{self, Refused};

/// The largest number of ranges in a selector.
const MOST_RANGES: usize = 64;

/// The response to lists and watches with `shardSelector`, which select the objects for which the
/// hash of the uid or of the namespace is in some ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardSelectors {
    /// The server ignores the parameter, as one without the feature `ShardedListAndWatch` does.
    #[default]
    Ignored,
    /// The server selects the objects of lists and watches. A list contains the selector in
    /// `metadata.shardInfo`, unless it is a list of metadata only.
    Honoured,
    /// The server selects the objects of lists, but not those of watches, as Kubernetes 1.36 does
    /// for watches that it serves from etcd.
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
    /// Parses a selector. Refuses an invalid one with the real server's code 500. The real server
    /// parses CEL, of which this function knows only the parts of a selector, and no parentheses
    /// around a range.
    pub(crate) fn parse(text: &str) -> Refused<Self> {
        Self::read(text).map_err(|why| {
            Box::new(status::unknown_error(&format!("invalid shard selector: {why}")))
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let ranges: Vec<_> = text.split("||").map(shard_range).collect::<Result<_, _>>()?;
        if ranges.len() > MOST_RANGES {
            return Err(format!("it has {} ranges, but at most {MOST_RANGES}", ranges.len()));
        }
        let field = ranges[0].0;
        if ranges.iter().any(|(other, _)| *other != field) {
            return Err("all shard ranges must use the same field".to_owned());
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

/// Parses one call of `shardRange`.
fn shard_range(call: &str) -> Result<(ShardField, Range<u128>), String> {
    let call = call.trim();
    let arguments = call.strip_prefix("shardRange").and_then(|rest| {
        rest.trim_start().strip_prefix('(')?.strip_suffix(')').map(|inner| inner.split(','))
    });
    let Some(arguments) = arguments else {
        return Err(format!("{call:?} is not a call of shardRange(); only || can join such calls"));
    };
    let arguments: Vec<_> = arguments.map(str::trim).collect();
    let [field, start, end] = arguments.as_slice() else {
        return Err(format!("shardRange() requires 3 arguments, got {}", arguments.len()));
    };
    let known = [ShardField::Uid, ShardField::Namespace];
    let Some(field) = known.into_iter().find(|known| known.path() == *field) else {
        return Err(format!("field {field:?} is not supported"));
    };
    let (start, end) = (hash(start)?, hash(end)?);
    if start >= end {
        return Err(format!("start {start:#018x} must be less than end {end:#018x}"));
    }
    Ok((field, start..end))
}

/// Parses the bound of a range: a string of 16 digits, or 2⁶⁴.
fn hash(literal: &str) -> Result<u128, String> {
    let quoted = ['\'', '"']
        .iter()
        .find_map(|quote| literal.strip_prefix(*quote)?.strip_suffix(*quote)?.strip_prefix("0x"));
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    quoted
        .filter(|digits| digits.len() == 16 || *digits == "10000000000000000")
        .filter(|digits| digits.bytes().all(is_digit))
        .and_then(|digits| u128::from_str_radix(digits, 16).ok())
        .ok_or_else(|| {
            format!("{literal} must be a string of 0x and 16 lower-case hexadecimal digits")
        })
}

/// Returns the hash by FNV-1a with 64 bits.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
