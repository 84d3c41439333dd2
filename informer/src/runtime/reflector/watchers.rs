//! Signs that a writer receives the events of more than one watcher.

use kube::runtime::watcher::{Error, Event};

/// A record of the events of a stream that shows whether they are those of several watchers.
///
/// A watcher of kube yields `Init`, `InitApply` for each object, and `InitDone`; only then `Apply`
/// and `Delete`. It begins another list after an error of some kinds (see `begins_list`). A
/// streamed list may begin anew without one.
#[derive(Debug)]
pub(super) struct Watchers {
    /// The lists that began and have not ended. Lists that were given up are included.
    begun: usize,
    /// Whether a list has begun since the last one ended.
    is_list_open: bool,
    /// Whether the watcher may begin another list although the last one has ended.
    may_list: bool,
    are_several: bool,
}

impl Default for Watchers {
    fn default() -> Self {
        // The initial list needs no error before it.
        Self { begun: 0, is_list_open: false, may_list: true, are_several: false }
    }
}

impl Watchers {
    /// Records an error of the stream.
    pub(super) fn fail(&mut self, error: &Error) {
        self.may_list |= begins_list(error);
    }

    /// Records that there may have been an error after which the watcher lists again.
    pub(super) fn allow_list(&mut self) {
        self.may_list = true;
    }

    /// Records an event. Returns whether it ends a list that began before the end of another one,
    /// so that the objects of the list between its beginning and that end are not known.
    pub(super) fn observe<K>(&mut self, event: &Event<K>) -> bool {
        let is_of_another_list = !self.is_list_open && self.begun > 0;
        let is_of_another = match event {
            Event::Init => !self.is_list_open && !self.may_list,
            Event::InitApply(_) | Event::InitDone => is_of_another_list,
            Event::Apply(_) | Event::Delete(_) => self.is_list_open,
        };
        if is_of_another && !std::mem::replace(&mut self.are_several, true) {
            tracing::warn!(
                "events of several watchers arrive in one store: a list of one removes the objects \
                 of the others, and is no longer a reason to call `on_deleted`; give each watcher \
                 a store, or use an informer of several namespaces; if there is only one watcher, \
                 pass its errors to the reflector, too"
            );
        }
        match event {
            Event::Init => {
                self.begun += 1;
                self.is_list_open = true;
            }
            Event::InitDone => {
                self.begun = self.begun.saturating_sub(1);
                self.is_list_open = false;
                self.may_list = false;
            }
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {}
        }
        is_of_another_list && matches!(event, Event::InitDone)
    }

    /// Returns whether there are several watchers, as far as the events have shown.
    pub(super) fn are_several(&self) -> bool {
        self.are_several
    }
}

/// Returns whether a watcher of kube that has yielded this error after its list begins another one.
/// After the others it watches again, or has yielded `Init` before.
fn begins_list(error: &Error) -> bool {
    match error {
        Error::NoResourceVersion => true,
        Error::WatchError(status) => status.code == 410,
        Error::InitialListFailed(_) | Error::WatchStartFailed(_) | Error::WatchFailed(_) => false,
    }
}
