//! Iteration over all objects of a resource at a version, with no lock held.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::vec;

use crate::generated::{GeneratedId, Generators};
use crate::object::{Key, Object};
use crate::selector::Filter;

/// A position in the order of lists: stored objects by key, then generated ones by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind this key, whose object may be deleted. The empty key is before all others.
    Behind(Key),
    /// Before this generated object.
    At(GeneratedId),
}

impl Position {
    pub(crate) fn start() -> Self {
        Self::Behind(Key::default())
    }

    /// Returns the first generated object behind the position.
    pub(crate) fn generated(&self) -> GeneratedId {
        match self {
            Self::Behind(_) => (0, 0),
            Self::At(generated) => *generated,
        }
    }
}

/// A page token: the version of a list and the start of its next page. Clients send it back as
/// `continue`, and must not interpret it. It deliberately contains characters that a query must
/// encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The version of the list; 0 means the newest version.
    pub(crate) version: u64,
    pub(crate) position: Position,
    /// The number of objects behind the position at the version, if it is known. Without it, each
    /// page would count all objects behind it.
    pub(crate) remaining: Option<u64>,
}

/// Writes the token in digits, so that a client need not encode it in a query.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version;
        let position = match &self.position {
            Position::Behind(Key { namespace, name }) => format!("key={namespace}/{name}"),
            Position::At((index, number)) => format!("number={index}/{number}"),
        };
        let rest = self.remaining.map(|remaining| format!("&remaining={remaining}"));
        let text = format!("{version}&{position}{}", rest.unwrap_or_default());
        text.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Decodes two digits for each byte.
fn decoded(digits: &str) -> Option<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let pairs = digits.as_bytes().chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2));
    String::from_utf8(pairs.collect::<Option<_>>()?).ok()
}

impl FromStr for Token {
    type Err = ();

    fn from_str(digits: &str) -> Result<Self, ()> {
        let text = decoded(digits).ok_or(())?;
        let (version, position) = text.split_once('&').ok_or(())?;
        let (kind, place) = position.split_once('=').ok_or(())?;
        let (place, remaining) = match place.split_once("&remaining=") {
            Some((place, remaining)) => (place, Some(remaining.parse().map_err(drop)?)),
            None => (place, None),
        };
        let (first, second) = place.split_once('/').ok_or(())?;
        let position = match kind {
            "key" => Position::Behind(Key { namespace: first.to_owned(), name: second.to_owned() }),
            "number" => Position::At((first.parse().map_err(drop)?, second.parse().map_err(drop)?)),
            _ => return Err(()),
        };
        Ok(Self { version: version.parse().map_err(drop)?, position, remaining })
    }
}

/// An iterator over the objects that match a filter, from a position on. It owns its data: the
/// stored objects of a version, and the generators.
#[derive(Clone)]
pub(crate) struct Walk {
    version: u64,
    stored: vec::IntoIter<Arc<Object>>,
    generators: Arc<Generators>,
    filter: Arc<Filter>,
    /// The last stored object that was returned.
    last: Option<Arc<Object>>,
    /// The next generated object.
    next: GeneratedId,
}

impl Walk {
    /// Creates a walk. `stored` contains the objects that match the filter and are stored at
    /// `version`, behind the position `from`, in order.
    pub(crate) fn new(
        version: u64,
        from: &Position,
        stored: Vec<Arc<Object>>,
        generators: Arc<Generators>,
        filter: Arc<Filter>,
    ) -> Self {
        let next = from.generated();
        Self { version, stored: stored.into_iter(), generators, filter, last: None, next }
    }

    /// Returns the current position, which is between two objects.
    pub(crate) fn position(&self) -> Position {
        match &self.last {
            // Even after the last stored object: a page token may be used at the newest version,
            // in which more stored objects can follow.
            Some(last) if self.next == (0, 0) => Position::Behind(last.key.clone()),
            _ => Position::At(self.next),
        }
    }

    /// Skips an object, without producing it if the filter accepts everything. Returns false at
    /// the end.
    pub(crate) fn skip_one(&mut self) -> bool {
        if self.stored.len() == 0 && self.filter.is_everything() {
            self.next_id().is_some()
        } else {
            self.next().is_some()
        }
    }

    /// Returns the id of the next generated object, whether it matches the filter or not. Skips
    /// hidden objects: those that were written or deleted at the walk's version or before (see
    /// `generated.rs`).
    fn next_id(&mut self) -> Option<GeneratedId> {
        loop {
            let generated @ (index, number) = self.next;
            let generator = self.generators.all.get(index)?;
            self.next = self.generators.after(generated);
            if number < generator.count && !self.generators.hides(generated, self.version) {
                return Some(generated);
            }
        }
    }

    fn next_generated(&mut self) -> Option<Arc<Object>> {
        loop {
            let (index, number) = self.next_id()?;
            let object = self.generators.all[index].object(number);
            if self.filter.matches(&object) {
                return Some(Arc::new(object));
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Arc<Object>;

    fn next(&mut self) -> Option<Arc<Object>> {
        match self.stored.next() {
            Some(object) => {
                self.last = Some(Arc::clone(&object));
                Some(object)
            }
            None => self.next_generated(),
        }
    }
}
