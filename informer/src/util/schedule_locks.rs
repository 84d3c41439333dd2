//! Locks of shuttle with the interface of `parking_lot`'s, for the schedules of `loom-tests`. They
//! have no poisoning: a panic under a lock fails the schedule.

use shuttle::sync::{self, TryLockError};

pub(crate) use shuttle::sync::MutexGuard;

const PANICKED: &str = "user code, or a defect, panicked under a lock";

#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect(PANICKED)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("{PANICKED}"),
        }
    }
}

#[cfg(feature = "compact")]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

#[cfg(feature = "compact")]
impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().expect(PANICKED)
    }

    pub(crate) fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect(PANICKED)
    }
}
