//! The getters that sleep, that is, callers of [`get`](super::WorkQueue::get) that found no key.

use std::task::Waker;

use crate::util::slab::list::{Links, List};
use crate::util::slab::{Slab, place_size};

/// A getter that sleeps or was woken.
struct Sleeper {
    /// `None` once it was woken.
    waker: Option<Waker>,
    links: Links,
}

const _: () = assert!(place_size::<Sleeper>() == 32, "the docs of the module say so");

impl Sleeper {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All getters that sleep, in the order in which they are woken, and those that were woken and have
/// not been polled since. Their wakers are user code, so the functions return them, to be called
/// and dropped with no lock held.
#[derive(Default)]
pub(super) struct Sleepers {
    sleepers: Slab<Sleeper>,
    asleep: List,
}

impl Sleepers {
    /// Adds a getter that sleeps. Returns its number.
    pub(super) fn add(&mut self, waker: Waker) -> u32 {
        let number = self.sleepers.insert(Sleeper { waker: Some(waker), links: Links::NONE });
        self.asleep.push(&mut self.sleepers, number, Sleeper::links);
        number
    }

    /// Returns the place of a getter's waker, or `None` if the getter was woken.
    pub(super) fn waker(&mut self, number: u32) -> Option<&mut Waker> {
        self.sleepers[number].waker.as_mut()
    }

    /// Removes a getter. Returns its waker if it sleeps.
    pub(super) fn remove(&mut self, number: u32) -> Option<Waker> {
        if self.sleepers[number].waker.is_some() {
            self.asleep.unlink(&mut self.sleepers, number, Sleeper::links);
        }
        self.sleepers.remove(number).waker
    }

    /// Marks the getter that has slept longest as woken. Returns its waker, which the caller must
    /// wake.
    #[inline]
    pub(super) fn wake(&mut self) -> Option<Waker> {
        self.asleep.first().and_then(|number| self.mark_woken(number))
    }

    /// Marks a sleeping getter as woken, and returns its waker. Not inlined, because most adds find
    /// no getter asleep.
    #[inline(never)]
    fn mark_woken(&mut self, number: u32) -> Option<Waker> {
        self.asleep.unlink(&mut self.sleepers, number, Sleeper::links);
        self.sleepers[number].waker.take()
    }
}
