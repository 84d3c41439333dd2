//! Handling of Ctrl-C and termination signals. A signal kills the running child, and this process
//! continues, in order to write the report of the measurements so far.

use std::io;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The running child, and whether this process was asked to end. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    requested: AtomicBool,
    running: Mutex<Option<Child>>,
    /// The condition variable that wakes waiters when this process is asked to end. Waiters use it
    /// with the lock of `running`.
    on_request: Condvar,
}

impl Interrupt {
    /// Installs the signal handler: from now on a signal does not end this process. A process can
    /// call this only once.
    pub fn catch() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let caught = interrupt.clone();
        ctrlc::set_handler(move || {
            caught.0.requested.store(true, Ordering::SeqCst);
            // `kill` takes the lock. A waiter that has checked the flag before is waiting by now,
            // and one that takes the lock later sees the flag.
            caught.kill();
            caught.0.on_request.notify_all();
        })?;
        Ok(interrupt)
    }

    /// Returns whether this process was asked to end.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// Waits up to 500 ms for a request to end, and returns whether there was one.
    ///
    /// Call it after a child has failed: Ctrl-C in a terminal signals the child as well, possibly
    /// before this process.
    pub fn is_requested_soon(&self) -> bool {
        let mut running = self.0.running.lock();
        self.0.on_request.wait_while_for(
            &mut running,
            |_| !self.is_requested(),
            Duration::from_millis(500),
        );
        self.is_requested()
    }

    /// Starts a child with piped output, and returns its standard output and standard error.
    /// Returns `None`, and starts nothing, if this process was asked to end.
    pub(super) fn start(
        &self,
        command: &mut Command,
    ) -> io::Result<Option<(Option<ChildStdout>, Option<ChildStderr>)>> {
        // Checked under the lock: a later signal finds the child.
        let mut running = self.0.running.lock();
        if self.is_requested() {
            return Ok(None);
        }
        let mut child = command.spawn()?;
        let pipes = (child.stdout.take(), child.stderr.take());
        *running = Some(child);
        Ok(Some(pipes))
    }

    /// Kills the running child, if there is one.
    pub(super) fn kill(&self) {
        if let Some(child) = self.0.running.lock().as_mut() {
            let _ = child.kill(); // it may have ended already
        }
    }

    /// Waits for the child to exit, and returns its status; `None` if no child was started. Call
    /// it after the end of the child's output.
    pub(super) fn wait(&self) -> io::Result<Option<ExitStatus>> {
        let mut running = self.0.running.lock();
        // The child stays here until it has exited, so that a signal can kill it.
        while let Some(child) = running.as_mut() {
            if let Some(status) = child.try_wait()? {
                *running = None;
                return Ok(Some(status));
            }
            self.0.on_request.wait_for(&mut running, Duration::from_millis(10));
        }
        Ok(None)
    }
}
