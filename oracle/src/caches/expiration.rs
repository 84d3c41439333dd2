//! Compares `ExpirationCache` with a map of objects and times.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use deltafifo::KeyError;
use deltafifo::caches::ExpirationCache;

use super::specs::{Created, KeySpec, ObjectSpec, sorted};
use crate::{ManualClock, Obj, ObjMeta, key_func};

/// The age at which objects expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// After this many seconds; never if the number is zero.
    After(u32),
    /// After as many seconds as the object's number, by a policy that can also panic or store an
    /// object.
    ByNumber,
}

impl From<u8> for Expires {
    fn from(setup: u8) -> Self {
        match setup % 4 {
            0 => Self::After(5),
            1 => Self::After(0),
            _ => Self::ByNumber,
        }
    }
}

/// An operation on the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores an object.
    Add(ObjectSpec),
    /// Stores an object with `update`.
    Update(ObjectSpec),
    /// Removes an object.
    Delete(KeySpec),
    /// Replaces the contents by these objects.
    Replace(Vec<ObjectSpec>),
    /// Reads an object.
    Get(KeySpec),
    /// Reads an object while the policy stores another one under the same key.
    GetWhileStored(KeySpec, ObjectSpec),
    /// Reads all objects.
    List,
    /// Advances the clock by this many seconds.
    MoveOn(u8),
    /// Makes the next call of the policy panic.
    Panics,
    /// Makes the next call of the policy store this object.
    Stores(ObjectSpec),
}

impl From<[u8; 4]> for Op {
    fn from([code, a, b, c]: [u8; 4]) -> Self {
        match code % 16 {
            0..=2 => Self::Add(ObjectSpec::read(a, b)),
            3 => Self::Update(ObjectSpec::read(a, b)),
            4 => Self::Delete(KeySpec::read(a, b)),
            5 => Self::Replace(ObjectSpec::list([a, b, c])),
            6 | 7 => Self::Get(KeySpec::read(a, b)),
            8 => Self::GetWhileStored(KeySpec::read(a, b), ObjectSpec::read(a, c)),
            9 => Self::List,
            10 => Self::Panics,
            11 => Self::Stores(ObjectSpec::read(a, b)),
            _ => Self::MoveOn(a % 5),
        }
    }
}

/// Applies `ops` to a cache and to the map.
///
/// # Panics
/// Panics if the two differ.
pub fn run(expires: Expires, ops: &[Op]) {
    let mut both =
        Both { rig: Rig::new(expires), plain: Plain::new(expires), created: Created::default() };
    for op in ops {
        both.step(op);
        let mut keys = both.rig.cache.list_keys();
        keys.sort();
        assert!(keys.iter().eq(both.plain.stored.keys()), "{keys:?}");
    }
    let Both { rig, plain, created } = both;
    drop((rig, plain));
    created.assert_released();
}

/// The side effect of the policy's next call.
#[derive(Clone)]
enum First {
    Panics,
    Stores(Arc<Obj>),
}

/// The cache under test, with the side effect of its policy.
struct Rig {
    cache: ExpirationCache<Obj, ObjMeta>,
    first: Mutex<Option<First>>,
    clock: ManualClock,
}

impl Rig {
    fn new(expires: Expires) -> Arc<Self> {
        let clock = ManualClock::default();
        Arc::new_cyclic(|rig: &Weak<Self>| {
            let rig = rig.clone();
            let cache = match expires {
                Expires::After(seconds) => {
                    ExpirationCache::with_ttl(key_func(), Duration::from_secs(seconds.into()))
                }
                Expires::ByNumber => ExpirationCache::new(key_func(), move |object: &Obj, age| {
                    rig.upgrade().expect("the cache is alive").run_first();
                    age > Duration::from_secs(object.n)
                }),
            };
            Self { cache: cache.clock(clock.reader()), first: Mutex::new(None), clock }
        })
    }

    fn set_first(&self, first: First) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
    }

    fn run_first(&self) {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        match first {
            // `resume_unwind` skips the panic hook, which would end a fuzzer's run.
            Some(First::Panics) => resume_unwind(Box::new("expected by this test")),
            Some(First::Stores(object)) => self.cache.add(object).expect("the object has a name"),
            None => {}
        }
    }
}

/// The result of a read, or the panic of the policy.
type Read<R> = Result<R, Panicked>;

#[derive(Debug, PartialEq, Eq)]
struct Panicked;

struct Plain {
    expires: Expires,
    /// The objects by key, each with the time at which it was stored.
    stored: BTreeMap<String, (Arc<Obj>, u64)>,
    now: u64,
    first: Option<First>,
}

impl Plain {
    fn new(expires: Expires) -> Self {
        Self { expires, stored: BTreeMap::new(), now: 0, first: None }
    }

    fn add(&mut self, object: Arc<Obj>) {
        self.stored.insert(object.name.clone(), (object, self.now));
    }

    fn has_expired(&mut self, object: &Obj, since: u64) -> Read<bool> {
        let age = self.now - since;
        let most = match self.expires {
            Expires::After(0) => return Ok(false),
            Expires::After(seconds) => seconds.into(),
            Expires::ByNumber => {
                match self.first.take() {
                    Some(First::Panics) => return Err(Panicked),
                    Some(First::Stores(object)) => self.add(object),
                    None => {}
                }
                object.n
            }
        };
        Ok(age > most)
    }

    /// Returns the object of a key, or `None` if there is none. An expired object is removed and
    /// not returned. But if the policy, when asked about the object, has stored another one under
    /// the key, that one is checked instead.
    fn get(&mut self, key: &str) -> Read<Option<Arc<Obj>>> {
        let Some((object, since)) = self.stored.get(key).cloned() else { return Ok(None) };
        if !self.has_expired(&object, since)? {
            return Ok(Some(object));
        }
        if !Arc::ptr_eq(&self.stored[key].0, &object) {
            return self.get(key);
        }
        self.stored.remove(key);
        Ok(None)
    }

    /// Reads the objects that are stored when the call begins.
    fn list(&mut self) -> Read<Vec<Arc<Obj>>> {
        let mut live = Vec::new();
        for (key, (object, since)) in self.stored.clone() {
            if self.has_expired(&object, since)? {
                live.extend(self.get(&key)?);
            } else {
                live.push(object);
            }
        }
        Ok(live)
    }
}

struct Both {
    rig: Arc<Rig>,
    plain: Plain,
    created: Created,
}

impl Both {
    fn step(&mut self, op: &Op) {
        let (cache, plain, created) = (&self.rig.cache, &mut self.plain, &mut self.created);
        match op {
            Op::Add(object) | Op::Update(object) => {
                let object = created.object(*object);
                let done = if let Op::Add(_) = op {
                    cache.add(object.clone())
                } else {
                    cache.update(object.clone())
                };
                if is_done(&done, &object.name) {
                    plain.add(object);
                }
            }
            Op::Delete(key) => {
                let done = key.with_source(created, |of| cache.delete(of));
                if is_done(&done, &key.key()) {
                    plain.stored.remove(&key.key());
                }
            }
            Op::Replace(list) => {
                let list = created.list(list);
                let done = cache.replace(list.clone());
                assert_eq!(done.is_ok(), list.iter().all(|object| !object.name.is_empty()));
                if done.is_ok() {
                    plain.stored.clear();
                    for object in list {
                        plain.add(object);
                    }
                }
            }
            Op::GetWhileStored(key, object) => {
                self.step(&Op::Stores(*object));
                self.step(&Op::Get(*key));
            }
            Op::Get(key) => {
                let read =
                    key.with_source(created, |of| catch_unwind(AssertUnwindSafe(|| cache.get(of))));
                match read {
                    Ok(read) if !is_done(&read, &key.key()) => {}
                    read => assert_eq!(
                        read.map(Result::unwrap_or_default).map_err(|_| Panicked),
                        plain.get(&key.key())
                    ),
                }
            }
            Op::List => {
                let list = catch_unwind(AssertUnwindSafe(|| cache.list()));
                assert_eq!(list.map(sorted).map_err(|_| Panicked), plain.list().map(sorted));
            }
            Op::MoveOn(seconds) => {
                plain.now += u64::from(*seconds);
                self.rig.clock.advance(Duration::from_secs((*seconds).into()));
            }
            Op::Panics => self.first(First::Panics),
            Op::Stores(object) if !object.key().is_empty() => {
                let object = created.object(*object);
                self.first(First::Stores(object));
            }
            Op::Stores(_) => {}
        }
    }

    fn first(&mut self, first: First) {
        self.rig.set_first(first.clone());
        self.plain.first = Some(first);
    }
}

/// Returns whether the operation succeeded. It must succeed if and only if there is a key.
fn is_done<R>(done: &Result<R, KeyError>, key: &str) -> bool {
    assert_eq!(done.is_ok(), !key.is_empty());
    done.is_ok()
}
