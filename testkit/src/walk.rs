//! All objects of a resource at a version, one after the other, with no lock held.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::vec;

use crate::generated::{Born, Generators};
use crate::object::{Key, Object};
use crate::selector::Filter;

/// A place in that order: stored objects by key, then generated ones by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind this key, which may be gone. All keys are behind the empty one.
    Behind(Key),
    /// At this generated object.
    At(Born),
}

impl Position {
    pub(crate) fn start() -> Self {
        Self::Behind(Key::default())
    }
}

/// Where the next page begins, and of which version: what clients send back as `continue`. They
/// are to take it as it is; it is full of what a query must encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// 0 for the newest there is.
    pub(crate) version: u64,
    pub(crate) position: Position,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version;
        match &self.position {
            Position::Behind(Key { namespace, name }) => {
                write!(f, "{version}&key={namespace}/{name}")
            }
            Position::At((part, number)) => write!(f, "{version}&number={part}/{number}"),
        }
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (version, position) = text.split_once('&').ok_or(())?;
        let (kind, place) = position.split_once('=').ok_or(())?;
        let (first, second) = place.split_once('/').ok_or(())?;
        let position = match kind {
            "key" => Position::Behind(Key { namespace: first.to_owned(), name: second.to_owned() }),
            "number" => Position::At((first.parse().map_err(drop)?, second.parse().map_err(drop)?)),
            _ => return Err(()),
        };
        Ok(Self { version: version.parse().map_err(drop)?, position })
    }
}

/// The objects of a filter from a position on. It owns what it needs: the stored ones as they
/// were, and the generators.
#[derive(Clone)]
pub(crate) struct Walk {
    version: u64,
    stored: vec::IntoIter<Arc<Object>>,
    generators: Arc<Generators>,
    filter: Arc<Filter>,
    /// The stored object that came last.
    last: Option<Arc<Object>>,
    /// The generated object that comes next.
    next: Born,
}

impl Walk {
    /// `stored` is what is stored at that version behind the position, in order.
    pub(crate) fn new(
        version: u64,
        from: &Position,
        mut stored: Vec<Arc<Object>>,
        generators: Arc<Generators>,
        filter: Arc<Filter>,
    ) -> Self {
        stored.retain(|object| filter.matches(object));
        let next = match from {
            Position::Behind(_) => (0, 0),
            Position::At(born) => *born,
        };
        Self { version, stored: stored.into_iter(), generators, filter, last: None, next }
    }

    /// Where it is, between two objects.
    pub(crate) fn position(&self) -> Position {
        match &self.last {
            // Behind the stored ones there may be others by then, if the token is for the newest
            // version.
            Some(last) if self.next == (0, 0) => Position::Behind(last.key.clone()),
            _ => Position::At(self.next),
        }
    }

    /// How many are left, where that can be said without making them.
    pub(crate) fn left(&self) -> Option<u64> {
        let generated = self.generators.count(self.next, self.version);
        (generated == 0 || self.filter.is_everything())
            .then_some(self.stored.len() as u64 + generated)
    }

    /// Goes over an object, without making it where nobody has to look at it. Says whether there
    /// was one.
    pub(crate) fn pass(&mut self) -> bool {
        if self.stored.len() == 0 && self.filter.is_everything() {
            self.next_born().is_some()
        } else {
            self.next().is_some()
        }
    }

    /// The next generated object that was not written, whether it matches or not.
    fn next_born(&mut self) -> Option<Born> {
        loop {
            let born @ (part, number) = self.next;
            let generator = self.generators.parts.get(part)?;
            self.next = self.generators.after(born);
            if number < generator.count && !self.generators.hides(born, self.version) {
                return Some(born);
            }
        }
    }

    fn next_generated(&mut self) -> Option<Arc<Object>> {
        loop {
            let (part, number) = self.next_born()?;
            let object = self.generators.parts[part].object(number);
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
