//! Keeps recently decoded objects, up to a number of bytes, so that readers of one version share
//! one decoded object.

use std::any::Any;
use std::sync::Arc;

use deltafifo::panics::ignore_panic;
use foldhash::fast::RandomState;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};

use super::sync::{AtomicU64, Ordering};

/// The assumed ratio of the memory that an object takes when it is decoded to the length of its
/// JSON. (A pod of 4 kB takes about 27 kB.)
const GROWTH: usize = 7;
/// The assumed size of a decoded object in bytes, from which the cache derives the number of its
/// shards.
const USUAL_SIZE: usize = 16 << 10;

/// The recently decoded objects of one compactor, by uid and resource version.
///
/// An entry is found for its own version only, so it is never out of date. The entry of a version
/// that was replaced or deleted is no longer read, and is evicted after a while.
pub(super) struct DecodedCache {
    cache: Cache<String, Decoded, Bytes, RandomState, DropsEvicted>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A decoded object. All objects of a cache have the type that its compactor decodes into. The type
/// is erased, because bases, which have no type, reach the cache too.
#[derive(Clone)]
struct Decoded {
    object: Arc<dyn Any + Send + Sync>,
    /// The assumed size in bytes.
    bytes: u64,
}

impl DecodedCache {
    /// Creates a cache of objects that take up to `limit` bytes together.
    pub(super) fn new(limit: usize) -> Self {
        let (usual, limit) = (limit / USUAL_SIZE, limit as u64);
        let cache = Cache::with(usual, limit, Bytes, RandomState::default(), DropsEvicted);
        Self { cache, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Returns the decoded object of this version. If there is none, calls `decode` and keeps the
    /// result; other callers that ask for the same version wait for it. `raw_size` is the length of
    /// the JSON.
    ///
    /// # Errors
    /// The error of `decode`. It is not kept: each caller that waits calls `decode` in turn.
    pub(super) fn get_or_decode<K: Send + Sync + 'static, E>(
        &self,
        (uid, version): (&str, &str),
        raw_size: usize,
        decode: impl FnOnce() -> Result<K, E>,
    ) -> Result<Arc<K>, E> {
        // With the length, no other uid and version give the same text.
        let key = format!("{} {uid}{version}", uid.len());
        let mut count = &self.hits;
        let found = self.cache.get_or_insert_with(key.as_str(), || {
            count = &self.misses;
            let object = Arc::new(decode()?);
            let bytes = (size_of::<K>() + GROWTH * raw_size) as u64;
            Ok(Decoded { object, bytes })
        });
        // Relaxed: statistics.
        count.fetch_add(1, Ordering::Relaxed);
        Ok(found?.object.downcast().expect("a compactor decodes into one type"))
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Returns the assumed size of all objects in bytes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.cache.weight()).unwrap_or(usize::MAX)
    }
}

impl Drop for DecodedCache {
    fn drop(&mut self) {
        drop(Evicted(self.cache.drain().map(|(_, decoded)| decoded).collect()));
    }
}

/// The weigher of the cache, by the assumed size of objects.
#[derive(Clone)]
struct Bytes;

impl Weighter<String, Decoded> for Bytes {
    fn weight(&self, _: &String, decoded: &Decoded) -> u64 {
        decoded.bytes
    }
}

/// The rule that evicted objects are dropped after the cache has released its lock.
#[derive(Clone)]
struct DropsEvicted;

impl Lifecycle<String, Decoded> for DropsEvicted {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, _: String, decoded: Decoded) {
        evicted.0.push(decoded);
    }
}

/// Objects that a call of the cache has evicted. Their destructors are user code, whose panics are
/// ignored.
#[derive(Default)]
struct Evicted(Vec<Decoded>);

impl Drop for Evicted {
    fn drop(&mut self) {
        for decoded in self.0.drain(..) {
            ignore_panic(|| drop(decoded));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use deltafifo::panics::caught;
    use k8s_openapi::api::core::v1::Pod;
    use serde::de::IgnoredAny;
    use serde::{Deserialize, Deserializer};

    use super::super::tests::rig::{pack, pod, update};
    use super::super::{Compact, Compactor};

    fn compactor<K>(bytes: usize) -> Compactor<K> {
        Compactor::builder().decoded_cache(bytes).build()
    }

    /// Returns version `version` of an object.
    fn version(version: usize) -> String {
        format!(r#"{{"metadata":{{"name":"a","uid":"1","resourceVersion":"{version}"}}}}"#)
    }

    #[test]
    fn readers_of_one_version_share_it_and_never_receive_another() {
        let compactor = compactor::<Pod>(1 << 20);
        let texts = [1, 2].map(|version| update(&pod(1, 1), version));
        let [old, new] = [0, 1].map(|at| pack(&compactor, &texts[at]));
        let objects = [&old, &new, &new, &old].map(|object| object.decode_shared().unwrap());
        assert!(Arc::ptr_eq(&objects[0], &objects[3]) && Arc::ptr_eq(&objects[1], &objects[2]));
        let versions = objects.each_ref().map(|pod| pod.metadata.resource_version.clone().unwrap());
        assert_eq!(versions, ["1", "2", "2", "1"]);
        let again = pack(&compactor, &texts[0]);
        assert!(Arc::ptr_eq(&again.decode_shared().unwrap(), &objects[0]));
        let stats = compactor.stats();
        assert_eq!((stats.decodes, stats.decoded_hits, stats.decoded_misses), (2, 3, 2));
        let raw: usize = texts.iter().map(String::len).sum();
        assert_eq!(stats.decoded_bytes, 2 * size_of::<Pod>() + 7 * raw);
    }

    #[test]
    fn versions_whose_texts_are_equal_when_joined_stay_apart() {
        let compactor = compactor::<Pod>(1 << 20);
        for (uid, version) in [("1", "23"), ("12", "3"), ("1 1", "23")] {
            let json = format!(
                r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#
            );
            let pod = pack(&compactor, &json).decode_shared().unwrap();
            assert_eq!(pod.metadata.uid.as_deref(), Some(uid));
        }
        assert_eq!(compactor.stats().decodes, 3);
    }

    #[test]
    fn object_without_uid_or_version_is_not_kept() {
        let compactor = compactor::<Pod>(1 << 20);
        let unversioned =
            [r#""uid":"1""#, r#""resourceVersion":"1""#, r#""uid":"","resourceVersion":"1""#];
        for metadata in unversioned {
            let pod = pack(&compactor, &format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#));
            assert!(!Arc::ptr_eq(&pod.decode_shared().unwrap(), &pod.decode_shared().unwrap()));
        }
        assert_eq!((compactor.stats().decodes, compactor.stats().decoded_bytes), (6, 0));
    }

    #[test]
    fn concurrent_readers_decode_an_object_once() {
        const READERS: usize = 4;
        static BEGUN: AtomicUsize = AtomicUsize::new(0);

        /// An object whose decoding lasts until all readers have begun.
        struct Slow;

        impl<'de> Deserialize<'de> for Slow {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                while BEGUN.load(Ordering::Relaxed) < READERS {
                    thread::yield_now();
                }
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }

        let compactor = compactor::<Slow>(1 << 20);
        let object = compactor.pack(version(1).as_bytes()).unwrap();
        let read = || {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            object.decode_shared().unwrap()
        };
        let decoded = thread::scope(|scope| {
            let readers = [(); READERS].map(|()| scope.spawn(read));
            readers.map(|reader| reader.join().unwrap())
        });
        let stats = compactor.stats();
        assert_eq!((stats.decoded_misses, stats.decoded_hits), (1, READERS as u64 - 1));
        assert!(decoded.iter().all(|object| Arc::ptr_eq(object, &decoded[0])));
    }

    #[test]
    fn failed_decoding_is_not_kept() {
        let compactor = compactor::<Pod>(1 << 20);
        let broken = pack(&compactor, &version(1).replace("}}", r#"},"spec":7}"#));
        for _ in 0..2 {
            assert_eq!(broken.decode_shared().unwrap_err().key(), "a");
        }
        assert_eq!((compactor.stats().failed_decodes, compactor.stats().decoded_bytes), (2, 0));
    }

    #[test]
    fn objects_beyond_the_limit_are_dropped() {
        // Miri packs about one object a second.
        let room = if cfg!(miri) { 3 } else { 10 };
        let limit = room * (size_of::<Pod>() + 7 * pod(1, 10).len());
        let compactor = compactor::<Pod>(limit);
        let (mut objects, mut decoded) = (Vec::new(), Vec::new());
        for at in 10..10 + 4 * room {
            let object = pack(&compactor, &pod(1, at));
            decoded.push(Arc::downgrade(&object.decode_shared().unwrap()));
            objects.push(object);
            assert!(compactor.stats().decoded_bytes <= limit);
        }
        let kept = decoded.iter().filter(|pod| pod.strong_count() > 0).count();
        assert!((room / 2..=room).contains(&kept), "{kept}");
        drop((compactor, objects));
        assert!(decoded.iter().all(|pod| pod.strong_count() == 0));
    }

    #[test]
    fn destructor_of_a_kept_object_may_panic() {
        #[derive(Deserialize)]
        struct Panicking {}

        impl Drop for Panicking {
            fn drop(&mut self) {
                panic!("the destructor of a decoded object");
            }
        }

        // The cache has room for one object.
        let compactor = compactor::<Panicking>(7 * version(1).len() * 3 / 2);
        let objects: Vec<Arc<Compact<_>>> =
            (1..4).map(|at| compactor.pack(version(at).as_bytes()).unwrap()).collect();
        for object in objects.iter().chain(&objects) {
            let decoded = object.decode_shared().unwrap();
            // The test may have the last handle.
            let _ = caught(|| drop(decoded));
        }
        assert!(compactor.stats().decoded_misses >= 3);
        drop((compactor, objects));
    }
}
