//! `ExpirationCache` beside a map of times.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use deltafifo::{ExpirationCache, KeyError};

use super::spelled::{Made, Spelled, Told, sorted};
use crate::{Hands, Obj, ObjMeta, key_func};

/// When objects expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// When they are older than so many seconds; never, if that is zero.
    After(u32),
    /// When they are older in seconds than their number, says a policy that may be told to do
    /// something else first.
    AsTheySay,
}

impl From<u8> for Expires {
    fn from(setup: u8) -> Self {
        match setup % 4 {
            0 => Self::After(5),
            1 => Self::After(0),
            _ => Self::AsTheySay,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores an object.
    Add(Spelled),
    /// The same by the other name.
    Update(Spelled),
    /// Removes one.
    Delete(Told),
    /// Stores exactly these.
    Replace(Vec<Spelled>),
    /// Reads one.
    Get(Told),
    /// The same, and the policy stores this under that very key when it is asked.
    GetWhileStored(Told, Spelled),
    /// Reads all.
    List,
    /// So many seconds pass.
    MoveOn(u8),
    /// The policy panics when it is asked next.
    Panics,
    /// The policy stores this when it is asked next.
    Stores(Spelled),
}

impl From<[u8; 4]> for Op {
    fn from([what, a, b, c]: [u8; 4]) -> Self {
        match what % 16 {
            0..=2 => Self::Add(Spelled::read(a, b)),
            3 => Self::Update(Spelled::read(a, b)),
            4 => Self::Delete(Told::read(a, b)),
            5 => Self::Replace(Spelled::list([a, b, c])),
            6 | 7 => Self::Get(Told::read(a, b)),
            8 => Self::GetWhileStored(Told::read(a, b), Spelled::read(a, c)),
            9 => Self::List,
            10 => Self::Panics,
            11 => Self::Stores(Spelled::read(a, b)),
            _ => Self::MoveOn(a % 5),
        }
    }
}

/// Does `ops` to a cache and to the map.
///
/// # Panics
/// When the two differ.
pub fn run(expires: Expires, ops: &[Op]) {
    let mut both =
        Both { rig: Rig::new(expires), plain: Plain::new(expires), made: Made::default() };
    for op in ops {
        both.step(op);
        let mut keys = both.rig.cache.list_keys();
        keys.sort();
        assert!(keys.iter().eq(both.plain.stored.keys()), "{keys:?}");
    }
    let Both { rig, plain, made } = both;
    drop((rig, plain));
    made.assert_released();
}

/// What the policy does when it is asked next.
#[derive(Clone)]
enum First {
    Panics,
    Stores(Arc<Obj>),
}

/// The cache, and what its policy is told.
struct Rig {
    cache: ExpirationCache<Obj, ObjMeta>,
    first: Mutex<Option<First>>,
    hands: Hands,
}

impl Rig {
    fn new(expires: Expires) -> Arc<Self> {
        let hands = Hands::default();
        Arc::new_cyclic(|rig: &Weak<Self>| {
            let rig = rig.clone();
            let cache = match expires {
                Expires::After(seconds) => {
                    ExpirationCache::with_ttl(key_func(), Duration::from_secs(seconds.into()))
                }
                Expires::AsTheySay => ExpirationCache::new(key_func(), move |object: &Obj, age| {
                    rig.upgrade().expect("it is asked by its cache").asked();
                    age > Duration::from_secs(object.n)
                }),
            };
            Self { cache: cache.clock(hands.clock()), first: Mutex::new(None), hands }
        })
    }

    fn tell(&self, first: First) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
    }

    fn asked(&self) {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        match first {
            // Without the hook, which ends a fuzzer's run.
            Some(First::Panics) => resume_unwind(Box::new("expected by this test")),
            Some(First::Stores(object)) => self.cache.add(object).expect("it has a name"),
            None => {}
        }
    }
}

/// What the policy panicked with, or what was read.
type Read<R> = Result<R, Panicked>;

#[derive(Debug, PartialEq, Eq)]
struct Panicked;

struct Plain {
    expires: Expires,
    /// By key: an object, and since when it is there.
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
            Expires::AsTheySay => {
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

    /// What has expired goes, unless another one has come while it was judged: that one is given.
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

    /// Of what is there when it begins.
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
    made: Made,
}

impl Both {
    fn step(&mut self, op: &Op) {
        let (cache, plain, made) = (&self.rig.cache, &mut self.plain, &mut self.made);
        match op {
            Op::Add(object) | Op::Update(object) => {
                let object = made.object(*object);
                let done = if let Op::Add(_) = op {
                    cache.add(object.clone())
                } else {
                    cache.update(object.clone())
                };
                if is_done(&done, &object.name) {
                    plain.add(object);
                }
            }
            Op::Delete(told) => {
                let done = told.tell(made, |of| cache.delete(of));
                if is_done(&done, &told.key()) {
                    plain.stored.remove(&told.key());
                }
            }
            Op::Replace(list) => {
                let list = made.list(list);
                let done = cache.replace(list.clone());
                assert_eq!(done.is_ok(), list.iter().all(|object| !object.name.is_empty()));
                if done.is_ok() {
                    plain.stored.clear();
                    for object in list {
                        plain.add(object);
                    }
                }
            }
            Op::GetWhileStored(told, object) => {
                self.step(&Op::Stores(*object));
                self.step(&Op::Get(*told));
            }
            Op::Get(told) => {
                let got = told.tell(made, |of| catch_unwind(AssertUnwindSafe(|| cache.get(of))));
                match got {
                    Ok(got) if !is_done(&got, &told.key()) => {}
                    got => assert_eq!(
                        got.map(Result::unwrap_or_default).map_err(|_| Panicked),
                        plain.get(&told.key())
                    ),
                }
            }
            Op::List => {
                let list = catch_unwind(AssertUnwindSafe(|| cache.list()));
                assert_eq!(list.map(sorted).map_err(|_| Panicked), plain.list().map(sorted));
            }
            Op::MoveOn(seconds) => {
                plain.now += u64::from(*seconds);
                self.rig.hands.move_on(Duration::from_secs((*seconds).into()));
            }
            Op::Panics => self.first(First::Panics),
            Op::Stores(object) if !object.key().is_empty() => {
                let object = made.object(*object);
                self.first(First::Stores(object));
            }
            Op::Stores(_) => {}
        }
    }

    fn first(&mut self, first: First) {
        self.rig.tell(first.clone());
        self.plain.first = Some(first);
    }
}

/// Whether it was done; what has a key is.
fn is_done<R>(done: &Result<R, KeyError>, key: &str) -> bool {
    assert_eq!(done.is_ok(), !key.is_empty());
    done.is_ok()
}
