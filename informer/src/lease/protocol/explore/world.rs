//! The state of the server, the processes and the messages between them.

use std::time::Duration;

use super::Lease;
use crate::lease::explored::NOW;
use crate::lease::protocol::{Answer, Clocks, LeaseRequest, Protocol, Record, Seen, State};
use crate::util::search::fingerprint;

#[derive(Clone)]
pub(super) struct World {
    pub(super) lease: Option<Lease>,
    pub(super) versions: u8,
    pub(super) uids: u8,
    pub(super) processes: Vec<Process>,
    pub(super) messages: Vec<Message>,
    pub(super) faults: u8,
    /// Set if a leader goes on after it has read that another holds the lease, or writes the lease
    /// while it must read it (`Process::must_read`).
    pub(super) ignores_another: bool,
}

#[derive(Clone, Hash)]
pub(super) struct Process {
    pub(super) candidate: Protocol<u8, ()>,
    /// The deadline of the work of a leader.
    pub(super) works_until: Option<Clocks>,
    /// The uid and the transitions of the lease in the last term of this process.
    pub(super) term: Option<(u8, i32)>,
    /// Whether a watch has shown a leader that it may have been replaced, and no read was sent
    /// since.
    pub(super) must_read: bool,
}

#[derive(Clone, Hash)]
pub(super) struct Message {
    pub(super) process: usize,
    pub(super) number: u64,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Hash, PartialEq, Eq)]
pub(super) enum Content {
    Request(LeaseRequest<u8, ()>),
    Answer(Answer<u8, ()>),
}

impl World {
    pub(super) fn leaders(&self) -> usize {
        self.processes.iter().filter(|process| process.works_until.is_some()).count()
    }

    /// Writes a new version of the lease.
    pub(super) fn write(&mut self, lease: Lease) -> Answer<u8, ()> {
        self.versions += 1;
        self.lease = Some(Record { version: self.versions, ..lease });
        Answer::State(self.lease)
    }

    /// Calls `change` with every state of the lease that is known anywhere.
    pub(super) fn each_lease(&mut self, mut change: impl FnMut(&mut Lease)) {
        self.lease.iter_mut().for_each(&mut change);
        for process in &mut self.processes {
            match &mut process.candidate.state {
                State::Foreign(Seen::Known { record, .. }) => change(record),
                State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                    change(&mut held.record);
                }
                _ => {}
            }
        }
        for message in &mut self.messages {
            match &mut message.content {
                Content::Request(LeaseRequest::Replace { base, .. }) => change(base),
                Content::Answer(Answer::State(Some(lease))) => change(lease),
                _ => {}
            }
        }
    }

    /// Calls `change` with every identity that is known anywhere.
    pub(super) fn each_identity(&mut self, mut change: impl FnMut(&mut u8)) {
        self.each_lease(|lease| lease.holder.iter_mut().for_each(&mut change));
        for message in &mut self.messages {
            if let Content::Request(
                LeaseRequest::Replace { holder: Some(holder), .. }
                | LeaseRequest::Create { holder },
            ) = &mut message.content
            {
                change(holder);
            }
        }
        for process in &mut self.processes {
            change(&mut process.candidate.identity);
            process.candidate.former.iter_mut().for_each(|former| change(&mut former.identity));
        }
    }

    /// Returns a hash that does not depend on the order of messages.
    pub(super) fn fingerprint(&self) -> u128 {
        let Self { lease, versions, uids, processes, messages, faults, ignores_another } = self;
        let messages = messages.iter().map(fingerprint).fold(0, u128::wrapping_add);
        fingerprint(&(lease, versions, uids, processes, messages, faults, ignores_another))
    }
}

/// Returns whether this state of the lease shows that `identity` does not hold it.
pub(super) fn is_anothers(lease: Option<Lease>, identity: u8) -> bool {
    lease.is_none_or(|lease| lease.holder != Some(identity))
}

impl Process {
    /// Changes all times that the process knows.
    pub(super) fn map_times(&mut self, change: impl Fn(Clocks) -> Clocks) {
        let monotonic =
            |time: &mut Duration| *time = change(Clocks { monotonic: *time, ..NOW }).monotonic;
        let candidate = &mut self.candidate;
        monotonic(&mut candidate.not_before);
        if let Some(flight) = &mut candidate.flight {
            flight.sent = change(flight.sent);
        }
        if let Some(deadline) = &mut self.works_until {
            *deadline = change(*deadline);
        }
        match &mut candidate.state {
            State::Foreign(Seen::Known { since, checked, .. }) => {
                *since = change(*since);
                monotonic(checked);
            }
            State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                held.deadline = change(held.deadline);
            }
            _ => {}
        }
    }
}
