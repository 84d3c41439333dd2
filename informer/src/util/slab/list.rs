//! A doubly linked list over the places of a [`Slab`], so that an element in the middle can be
//! removed at once. A value can be in several lists, with links for each: every function is passed
//! the accessor of the links to use.

use super::{END, Slab};

/// The neighbours of a value in one list.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Links {
    /// The links of a value that is in no list.
    pub(crate) const NONE: Self = Self { before: END, after: END };
}

/// An accessor of the links of one list in a value.
pub(crate) type LinksOf<T> = fn(&mut T) -> &mut Links;

/// The first and the last place of a list.
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: END, last: END }
    }
}

impl List {
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    pub(crate) fn push<T>(&mut self, slab: &mut Slab<T>, place: u32, links_of: LinksOf<T>) {
        let links = self.append(slab, place, links_of);
        *links_of(&mut slab[place]) = links;
    }

    pub(crate) fn unlink<T>(&mut self, slab: &mut Slab<T>, place: u32, links_of: LinksOf<T>) {
        let links = std::mem::replace(links_of(&mut slab[place]), Links::NONE);
        self.detach(slab, links, links_of);
    }

    /// Appends a value without access to it. Returns its links, which the caller must store in it.
    /// For a value in several lists, which is then accessed once.
    pub(crate) fn append<T>(
        &mut self,
        slab: &mut Slab<T>,
        place: u32,
        links_of: LinksOf<T>,
    ) -> Links {
        let before = std::mem::replace(&mut self.last, place);
        match before {
            END => self.first = place,
            before => links_of(&mut slab[before]).after = place,
        }
        Links { before, after: END }
    }

    /// Unlinks a value without access to it. These are its links, which the caller must no longer
    /// use.
    pub(crate) fn detach<T>(&mut self, slab: &mut Slab<T>, links: Links, links_of: LinksOf<T>) {
        let Links { before, after } = links;
        match before {
            END => self.first = after,
            before => links_of(&mut slab[before]).after = after,
        }
        match after {
            END => self.last = before,
            after => links_of(&mut slab[after]).before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(links: &mut Links) -> &mut Links {
        links
    }

    /// Returns the places in order, and asserts that the list is the same read from both ends.
    fn places(list: &List, slab: &Slab<Links>) -> Vec<u32> {
        let walk = |from: u32, next: fn(&Links) -> u32| {
            std::iter::successors(Some(from).filter(|&place| place != END), move |&place| {
                Some(next(&slab[place])).filter(|&next| next != END)
            })
        };
        let forth: Vec<_> = walk(list.first, |links| links.after).collect();
        let mut back: Vec<_> = walk(list.last, |links| links.before).collect();
        back.reverse();
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn first_middle_and_last_can_leave() {
        let (mut slab, mut list) = (Slab::default(), List::default());
        let made: Vec<_> = (0..5).map(|_| slab.insert(Links::NONE)).collect();
        for &place in &made {
            list.push(&mut slab, place, links);
        }
        for (leaves, left) in
            [(2, vec![0, 1, 3, 4]), (0, vec![1, 3, 4]), (4, vec![1, 3]), (1, vec![3]), (3, vec![])]
        {
            list.unlink(&mut slab, leaves, links);
            assert_eq!(places(&list, &slab), left);
        }
        list.push(&mut slab, 3, links);
        assert_eq!(places(&list, &slab), [3]);
    }
}
