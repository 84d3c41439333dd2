//! A list of texts that is stored as a difference from another list.
//!
//! A text that the other list has in the same place is stored as the number 0. Any other text is
//! stored as its length plus one, followed by its bytes.

use super::bytes::{Reader, put_number};

/// A reader of a list.
#[derive(Clone, Copy, Default)]
pub(super) struct Texts<'a> {
    own: Reader<'a>,
    shared: Reader<'a>,
}

/// Appends `text`, as the number 0 if it equals `shared`, the text of the other list at this place.
/// An empty text is always stored as its length plus one: `shared` is also empty past the end of
/// the other list, where a 0 would refer to no text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8], shared: &[u8]) {
    if text == shared && !text.is_empty() {
        out.push(0);
    } else {
        put_number(out, text.len() as u64 + 1);
        out.extend_from_slice(text);
    }
}

impl<'a> Texts<'a> {
    /// Creates a reader of a list that is stored as a whole.
    pub(super) fn new(own: &'a [u8]) -> Self {
        Self::over(own, &[])
    }

    /// Creates a reader of a list that is stored as the difference from `shared`, which is stored
    /// as a whole.
    pub(super) fn over(own: &'a [u8], shared: &'a [u8]) -> Self {
        Self { own: Reader(own), shared: Reader(shared) }
    }

    /// Reads a text. Returns `None` at the end of the list.
    pub(super) fn next_text(&mut self) -> Option<&'a [u8]> {
        (!self.own.0.is_empty()).then(|| self.text())
    }

    /// Reads a text. Past the end of the list, returns the texts of the other list, and then empty
    /// texts.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let shared = read(&mut self.shared).unwrap_or_default();
        read(&mut self.own).unwrap_or(shared)
    }

    /// Reads an owner reference: its flags, which are stored even if the other list has the same,
    /// and its four texts. Returns `None` at the end of the list.
    pub(super) fn owner(&mut self) -> Option<(u8, [&'a [u8]; 4])> {
        let flags = *self.own.take(1).first()?;
        self.shared.take(1);
        Some((flags, std::array::from_fn(|_| self.text())))
    }
}

/// Reads a text. Returns `None` if the text is that of the other list.
fn read<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(from.number()).unwrap_or(usize::MAX).checked_sub(1)?;
    Some(from.take(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Texts, put_text};

    proptest! {
        #[test]
        fn texts_are_read_as_written_and_shared_ones_take_a_byte(
            own in prop::collection::vec("[ab]{0,2}", 0..8),
            shared in prop::collection::vec("[ab]{0,2}", 0..8),
        ) {
            let mut whole = Vec::new();
            for text in &shared {
                put_text(&mut whole, text.as_bytes(), b"");
            }
            let (mut stored, mut others) = (Vec::new(), Texts::new(&whole));
            for text in &own {
                put_text(&mut stored, text.as_bytes(), others.text());
            }
            let mut texts = Texts::over(&stored, &whole);
            for text in &own {
                prop_assert_eq!(texts.next_text(), Some(text.as_bytes()));
            }
            prop_assert_eq!(texts.next_text(), None);
            let size = |(at, text): (usize, &String)| {
                let is_shared = !text.is_empty() && shared.get(at) == Some(text);
                if is_shared { 1 } else { 1 + text.len() }
            };
            prop_assert_eq!(stored.len(), own.iter().enumerate().map(size).sum::<usize>());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            own in prop::collection::vec(any::<u8>(), 0..40),
            shared in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut texts = Texts::over(&own, &shared);
            while texts.next_text().is_some() {}
            let mut owners = Texts::over(&own, &shared);
            while owners.owner().is_some() {}
        }
    }
}
