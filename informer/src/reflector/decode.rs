//! Decodes raw JSON into objects, on several threads if there is much of it.

use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread;

use bytes::Bytes;
use deltafifo::BoxError;
use deltafifo::locks::{Condvar, Mutex};
use deltafifo::panics::caught;
use serde::de::DeserializeOwned;

use crate::wire::{Prune, Types};

/// The least number of bytes for each thread. A batch of 2 MiB gets eight threads, more than a
/// connection can keep busy.
const WORTH_A_THREAD: usize = 256 << 10;

/// The number of threads that may decode at a time, for all reflectors together: one for each
/// core.
static CORES: LazyLock<Cores> = LazyLock::new(|| Cores {
    free: Mutex::new(thread::available_parallelism().map_or(1, usize::from)),
    freed: Condvar::new(),
});

struct Cores {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Cores {
    /// Waits for a free core, and takes up to `most` of the free ones.
    fn take(&self, most: usize) -> CoresInUse<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        let taken = most.clamp(1, *free);
        *free -= taken;
        CoresInUse { cores: self, taken }
    }
}

/// A guard of some cores in use. The cores are free again when it is dropped.
struct CoresInUse<'c> {
    cores: &'c Cores,
    taken: usize,
}

impl Drop for CoresInUse<'_> {
    fn drop(&mut self) {
        *self.cores.free.lock() += self.taken;
        self.cores.freed.notify_all();
    }
}

/// A type in which an informer can hold its objects: every type that serde decodes and that can be
/// cloned, and [`Compact`](https://docs.rs/deltafifo-informer/latest/deltafifo_informer/compact/struct.Compact.html)
/// (feature `compact`). There is no need to implement it.
pub trait Decodable: Sized + Send + Sync + 'static {
    /// Returns the decoder of one informer's objects. The decoder leaves out the members that
    /// `prune` names. If there are `types`, it adds their `apiVersion` and `kind` to objects that
    /// have none. Compact objects keep the `fields`, which are valid JSON pointers, uncompressed.
    #[doc(hidden)]
    fn decoder(prune: Arc<Prune>, types: Option<Types>, fields: &[String])
    -> Arc<dyn Decode<Self>>;
}

impl<K: Clone + DeserializeOwned + Send + Sync + 'static> Decodable for K {
    fn decoder(prune: Arc<Prune>, types: Option<Types>, _: &[String]) -> Arc<dyn Decode<Self>> {
        Arc::new(Typed { prune, types })
    }
}

/// A decoder of the JSON of one informer's objects.
pub trait Decode<K>: Send + Sync + 'static {
    /// Decodes an object.
    fn decode(&self, json: &[u8]) -> Result<Arc<K>, BoxError>;

    /// Records that a list is complete. Does not block.
    fn end_list(&self) {}

    /// Returns the periodic work on the decoded objects, such as compressing them again against a
    /// newer dictionary or base.
    #[cfg(feature = "compact")]
    fn upkeep(self: Arc<Self>) -> Option<Arc<dyn crate::compact::Upkeep<K>>> {
        None
    }
}

/// A function that creates the decoder of a reflector, or of all reflectors of an informer, when
/// they are built.
pub(crate) type Decoding<K> =
    Box<dyn FnOnce(Arc<Prune>, Option<Types>, &[String]) -> Arc<dyn Decode<K>> + Send + Sync>;

/// A decoder of typed objects, which uses serde.
struct Typed {
    prune: Arc<Prune>,
    types: Option<Types>,
}

impl<K: Clone + DeserializeOwned> Decode<K> for Typed {
    fn decode(&self, json: &[u8]) -> Result<Arc<K>, BoxError> {
        let text = std::str::from_utf8(json)?;
        let decoded: K = self.prune.decode(text, self.types.as_ref())?;
        // serde does not know the lengths of arrays and leaves unused capacity in vectors, a fifth
        // of a pod's memory. A clone has none. It also takes less time than it saves: the memory
        // of `decoded` is soon used again, so less new memory is touched.
        let exact = Arc::new(decoded.clone());
        // A destructor that panics does not make the object undecodable.
        let _ = caught(|| drop(decoded));
        Ok(exact)
    }
}

/// The decoder of one reflector. It decodes many objects on several threads.
pub(super) struct Decoder<K>(pub(super) Arc<dyn Decode<K>>);

impl<K: 'static> Decoder<K> {
    /// Decodes one object. If the decoder panics, that is an error of this object only.
    pub(super) fn one(&self, raw: &[u8]) -> Result<Arc<K>, BoxError> {
        match caught(|| self.0.decode(raw)) {
            Ok(decoded) => decoded,
            Err(message) => Err(format!("the decoder panicked: {message}").into()),
        }
    }

    fn chunk(&self, raw: &[&Bytes]) -> Vec<Result<Arc<K>, BoxError>> {
        raw.iter().map(|raw| self.one(raw)).collect()
    }
}

impl<K: Send + Sync + 'static> Decoder<K> {
    /// Decodes all of `raw`, and returns the results in the same order. Blocks while all cores are
    /// in use by other calls. If a thread cannot be started, the caller decodes its chunk.
    pub(super) fn all(&self, raw: &[&Bytes]) -> Vec<Result<Arc<K>, BoxError>> {
        if raw.is_empty() {
            return Vec::new();
        }
        let bytes: usize = raw.iter().map(|raw| raw.len()).sum();
        let cores = CORES.take(bytes / WORTH_A_THREAD);
        let mut chunks = raw.chunks(raw.len().div_ceil(cores.taken));
        let mine = chunks.next().unwrap_or_default();
        thread::scope(|scope| {
            let spawn =
                |chunk| thread::Builder::new().spawn_scoped(scope, move || self.chunk(chunk));
            let others: Vec<_> = chunks.map(|chunk| (chunk, spawn(chunk))).collect();
            let mut decoded = self.chunk(mine);
            for (chunk, thread) in others {
                decoded.extend(match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(_) => self.chunk(chunk),
                });
            }
            decoded
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{env, thread};

    use bytes::Bytes;
    use serde::{Deserialize, Deserializer};

    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::{Decodable, Decoder, WORTH_A_THREAD};

    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    /// A type that counts how many of its decodings run at the same time.
    #[derive(Clone)]
    struct Counted;

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                thread::yield_now();
            }
            NOW.fetch_sub(1, Ordering::SeqCst);
            <&str>::deserialize(deserializer).map(|_| Self)
        }
    }

    #[test]
    fn vectors_of_a_decoded_object_have_no_unused_capacity() {
        let object = json!({ "metadata": { "finalizers": ["example.com/a", "example.com/b"] } });
        let decoder = Decoder(ConfigMap::decoder(Arc::default(), None, &[]));
        let map = decoder.one(object.to_string().as_bytes()).unwrap();
        let ObjectMeta { finalizers: Some(finalizers), .. } = &map.metadata else { panic!() };
        assert_eq!((finalizers.len(), finalizers.capacity()), (2, 2));
    }

    /// Runs the test in a process that can start no thread, because its stacks are too large.
    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    fn caller_decodes_all_objects_if_no_thread_can_be_started() {
        const CHILD: &str = "DELTAFIFO_TEST_WITHOUT_THREADS";
        if env::var_os(CHILD).is_some() {
            assert!(thread::Builder::new().spawn(|| ()).is_err(), "this process starts threads");
            let texts: Vec<_> = (0..64)
                .map(|at| Bytes::from(format!(r#""{at:0>width$}""#, width = WORTH_A_THREAD / 8)))
                .collect();
            let decoder = Decoder(String::decoder(Arc::default(), None, &[]));
            let strings = decoder.all(&texts.iter().collect::<Vec<_>>());
            let numbers: Vec<usize> =
                strings.into_iter().map(|text| text.unwrap().parse().unwrap()).collect();
            assert_eq!(numbers, (0..64).collect::<Vec<_>>());
            return;
        }
        let (_crate, module) = module_path!().split_once("::").unwrap();
        let test = format!("{module}::caller_decodes_all_objects_if_no_thread_can_be_started");
        let child = Command::new(env::current_exe().unwrap())
            .args([&test, "--exact", "--test-threads=1"])
            .envs([(CHILD, "1"), ("RUST_MIN_STACK", "1000000000000000000")])
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(output.contains("1 passed"), "{output}");
    }

    #[test]
    fn concurrent_relists_decode_on_at_most_one_thread_per_core() {
        let text = Bytes::from(format!("{:?}", "x".repeat(WORTH_A_THREAD / 8)));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..4 * cores {
                scope.spawn(|| {
                    let raw = [&text; 64];
                    let decoder = Decoder(Counted::decoder(Arc::default(), None, &[]));
                    assert!(decoder.all(&raw).iter().all(Result::is_ok));
                });
            }
        });
        assert!((1..=cores).contains(&MOST.load(Ordering::SeqCst)), "{MOST:?}");
    }
}
