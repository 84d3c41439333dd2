//! Ctrl-C, and being asked to end: the child that runs is ended, and this process goes on to say
//! what is done.

use std::io;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The one child that runs, and whether this process was asked to end. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    asked: AtomicBool,
    running: Mutex<Option<Child>>,
    /// Told when this process is asked to end, to who has `running`.
    told: Condvar,
}

impl Interrupt {
    /// From now on this process does not end when it is asked to. A process can say so once.
    ///
    /// # Errors
    /// When it was said before, or the system does not allow it.
    pub fn catch() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let caught = interrupt.clone();
        ctrlc::set_handler(move || {
            caught.0.asked.store(true, Ordering::SeqCst);
            // It takes the lock: who has looked before has begun to wait, who looks later sees it.
            caught.kill();
            caught.0.told.notify_all();
        })?;
        Ok(interrupt)
    }

    /// Whether this process was asked to end.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// The same, of somebody who may be asking just now: a terminal asks the child as well, and
    /// perhaps first.
    pub(crate) fn asked_soon(&self) -> bool {
        let mut running = self.0.running.lock();
        self.0.told.wait_while_for(&mut running, |_| !self.asked(), Duration::from_millis(500));
        self.asked()
    }

    /// Starts a child whose output is piped, unless this process was asked to end.
    pub(super) fn start(
        &self,
        command: &mut Command,
    ) -> io::Result<Option<(Option<ChildStdout>, Option<ChildStderr>)>> {
        // Asked under the lock: who asks later finds the child.
        let mut running = self.0.running.lock();
        if self.asked() {
            return Ok(None);
        }
        let mut child = command.spawn()?;
        let pipes = (child.stdout.take(), child.stderr.take());
        *running = Some(child);
        Ok(Some(pipes))
    }

    /// Ends the child, if one runs.
    pub(super) fn kill(&self) {
        if let Some(child) = self.0.running.lock().as_mut() {
            let _ = child.kill(); // it may have ended by itself
        }
    }

    /// Waits for the end of the child whose output has ended.
    pub(super) fn wait(&self) -> io::Result<Option<ExitStatus>> {
        let child = self.0.running.lock().take();
        child.map(|mut child| child.wait()).transpose()
    }
}
