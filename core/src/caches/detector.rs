//! Finds objects that were changed in place after they were stored.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::clock::{Clock, system};
use crate::engine::release::{OneByOne, UserCode};
use crate::engine::sync::{Arc, Mutex, assert_none_held};

type Snapshot<T, S> = UserCode<Box<dyn Fn(&T) -> S + Send + Sync>>;

/// The shortest time for which an object is watched, as in client-go.
const RETAINED: Duration = Duration::from_secs(2 * 60);

/// A detector of shared objects that were changed in place (client-go `MutationDetector`), for
/// tests. In Rust such a change needs interior mutability (a `Mutex`, a `Cell`, an atomic) behind
/// the `Arc`.
///
/// It keeps each object with a snapshot that the caller defines: a copy, a digest, the relevant
/// fields. As in client-go, an object is watched, and kept in memory, for 2 to 4 minutes; this is
/// too costly for production. The caller calls [`compare_objects`](Self::compare_objects) every
/// second or so, and fails the test if it returns an error.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use deltafifo::caches::CacheMutationDetector;
///
/// let copy = |pod: &Mutex<String>| pod.lock().unwrap().clone();
/// let detector = CacheMutationDetector::new("pods", copy);
/// let pod = Arc::new(Mutex::new("v1".to_owned()));
/// detector.add_object(pod.clone());
/// assert!(detector.compare_objects().is_ok());
/// pod.lock().unwrap().push('!');
/// let error = detector.compare_objects().unwrap_err().to_string();
/// assert!(error.contains("the first was \"v1\" and is \"v1!\""));
/// ```
#[doc(alias = "MutationDetector")]
pub struct CacheMutationDetector<T, S> {
    cache: String,
    snapshot: Snapshot<T, S>,
    clock: Clock,
    watched: Mutex<Watched<T, S>>,
}

/// An object and its snapshot.
struct Pair<T, S> {
    object: OneByOne<Option<Arc<T>>>,
    snapshot: OneByOne<Option<S>>,
}

/// The watched objects, in two groups. When the newer group is as old as [`RETAINED`], the older
/// group is dropped, and a new group begins.
struct Watched<T, S> {
    newer: OneByOne<Vec<Arc<Pair<T, S>>>>,
    older: OneByOne<Vec<Arc<Pair<T, S>>>>,
    /// The time when the newer group began.
    since: Option<Instant>,
}

impl<T, S: PartialEq + Debug> CacheMutationDetector<T, S> {
    /// Creates a detector that watches nothing. `cache` is its name in messages. `snapshot` runs
    /// with no lock held; its result is compared with later results for the same object.
    pub fn new(cache: &str, snapshot: impl Fn(&T) -> S + Send + Sync + 'static) -> Self {
        let watched =
            Watched { newer: OneByOne::default(), older: OneByOne::default(), since: None };
        Self {
            cache: cache.to_owned(),
            snapshot: UserCode::new(Box::new(snapshot)),
            clock: system(),
            watched: Mutex::new(watched),
        }
    }

    /// Sets the clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = UserCode::new(Box::new(clock));
        self
    }

    /// Starts to watch `object` in its present state. O(1), plus one call of the snapshot
    /// function.
    pub fn add_object(&self, object: Arc<T>) {
        assert_none_held();
        let object = OneByOne(Some(object));
        let snapshot = object.as_deref().map(|object| (self.snapshot)(object));
        let pair = Pair { object, snapshot: OneByOne(snapshot) };
        self.watched.lock().newer.push(Arc::new(pair));
    }

    /// Compares all watched objects with their snapshots. O(watched), plus one snapshot per
    /// object.
    ///
    /// # Errors
    /// [`Altered`]: some objects were changed. The next comparison returns them again, as long as
    /// they are watched.
    pub fn compare_objects(&self) -> Result<(), Altered> {
        let watched = self.watched();
        let mut changes = watched.iter().filter_map(|watched| {
            let (object, before) = (watched.object.as_ref()?, watched.snapshot.as_ref()?);
            assert_none_held();
            let now = UserCode::new((self.snapshot)(object));
            (*now != *before).then(|| (format!("{before:?}"), format!("{:?}", *now)))
        });
        match changes.next() {
            Some((before, now)) => {
                Err(Altered { cache: self.cache.clone(), count: 1 + changes.count(), before, now })
            }
            None => Ok(()),
        }
    }

    /// Returns all watched objects, after dropping the objects that have been watched for long
    /// enough.
    fn watched(&self) -> OneByOne<Vec<Arc<Pair<T, S>>>> {
        let now = (self.clock)();
        let mut released = OneByOne(Vec::new());
        let mut watched = self.watched.lock();
        let since = *watched.since.get_or_insert(now);
        if now.saturating_duration_since(since) > RETAINED {
            let newer = watched.newer.take();
            released.extend(std::mem::replace(&mut *watched.older, newer));
            watched.since = Some(now);
        }
        OneByOne(watched.older.iter().chain(&*watched.newer).cloned().collect())
    }
}

/// The error that stored objects were changed in place.
#[derive(Debug, thiserror::Error)]
#[error(
    "cache {cache:?}: {count} stored objects were changed in place: store a changed copy instead; the first was \
     {before} and is {now}"
)]
pub struct Altered {
    /// The name of the detector.
    pub cache: String,
    /// The number of changed objects.
    pub count: usize,
    /// The first changed object, as it was when it was stored.
    pub before: String,
    /// The current state of the first object that has changed.
    pub now: String,
}
