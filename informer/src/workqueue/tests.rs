//! Tests of memory that must be freed, and of delays. All other tests are in `tests/`.

use std::time::Duration;

use deltafifo::room::LEAST_ROOM;
use tokio::time::Instant;

use super::entry::Requested;
use super::limiter::default_controller_rate_limiter;
use super::options::AddOptions;
use super::shared::SharedQueue;
use super::state::{Added, QueuePhase, QueueState};
use super::table::KeyHash;

#[test]
fn key_has_at_most_one_delay() {
    let (mut state, now) = (QueueState::new(), Instant::now());
    let key = state.insert(KeyHash::of(0), "key");
    let mut add = |secs: Option<u64>| {
        let at = secs.map(|secs| now + Duration::from_secs(secs));
        let added = state.add(key, Requested::default(), at, None);
        (matches!(added, Added::WaitsFirst), state.delays.len())
    };
    assert_eq!(add(Some(5)), (true, 1));
    assert_eq!(add(Some(3)), (true, 1));
    assert_eq!(add(Some(4)), (false, 1));
    assert_eq!(add(None), (false, 0));
    assert_eq!(add(Some(1)), (false, 0));
}

#[test]
fn keys_that_are_done_keep_no_memory() {
    let mut state = QueueState::new();
    for key in 0..100_000_u32 {
        let hash = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = state.insert(KeyHash::of(hash), key);
        let added = state.add(slot, Requested::default(), None, None);
        assert!(matches!(added, Added::Queued(None)));
    }
    while let Some((slot, ..)) = state.take(None) {
        let end = state.end(slot);
        assert!(end.wakes.is_none() && end.removed.is_some());
    }
    let (entries, keys) = state.capacity();
    assert!(entries <= 512, "{entries}");
    assert!(keys <= 2 * LEAST_ROOM, "{keys}");
}

#[test]
fn shut_down_drops_the_delays() {
    let shared = SharedQueue::new(Box::new(default_controller_rate_limiter()), None);
    shared.add("key", AddOptions::new().after(Duration::from_secs(1)));
    assert!(shared.next_due().is_some());
    shared.end_with(QueuePhase::ShutDown);
    assert!(shared.next_due().is_none());
}
