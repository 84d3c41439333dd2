//! A reflector for each namespace of a set.
//!
//! One task polls all of them. Each namespace is a scope of the informer's queue, so a relist of a
//! namespace does not wait for the relist of another namespace, does not supersede it, and deletes
//! none of its objects.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use deltafifo::locks::Mutex;
use deltafifo::panics::{ignore_panic, panic_message};
use deltafifo::{KeyScope, RelistError, ScopeError, ScopeId, StoreError};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::sleep;

use super::plan::{MakeSource, no_keys};
use super::reflector::NamespaceReflector;
use super::refused::RefusedNames;
use super::{Namespaces, Set};
use crate::ReflectorError;
use crate::reflector::{
    Decode, Histories, History, InScope, Options, Reflector, ReflectorBuilder, Resync, Scoped,
    Target, Threads,
};
use crate::shared_informer::error::{InformerError, OnError};
use crate::util::catching::catching;
use crate::util::coop::within_budget;
use crate::util::sleep::with_catching_waker;

/// The reflectors of a set of namespaces.
pub(in crate::shared_informer) struct NamespaceReflectors<K> {
    pub(super) namespaces: Namespaces,
    pub(super) source: MakeSource,
    /// The set that was last read. It changes only after the scopes of new namespaces were added.
    /// Otherwise, if one namespace replaces another, the removal could complete the initial
    /// population before the scope of the new namespace exists.
    pub(super) known_set: watch::Sender<Set>,
    pub(super) queue: Arc<dyn Scoped<K>>,
    pub(super) options: Options,
    pub(super) decode: Arc<dyn Decode<K>>,
    pub(super) resync: Option<Resync>,
    pub(super) on_error: OnError,
    pub(super) refused: Arc<RefusedNames>,
    /// A scope without keys. While it exists, the initial population is incomplete. It exists
    /// until the names of the set are known, and while one of the namespaces has no scope for its
    /// lists.
    pub(super) wait_scope: Mutex<Option<ScopeId>>,
    /// The namespaces that are listed and watched, or whose objects are being removed.
    pub(super) by_name: Mutex<BTreeMap<Arc<str>, Arc<NamespaceReflector<K>>>>,
    pub(super) histories: Histories,
    /// The threads that remove the objects of namespaces.
    pub(super) threads: Threads,
}

impl<K: Send + Sync + 'static> NamespaceReflectors<K> {
    #[cfg(feature = "compact")]
    pub(in crate::shared_informer) fn upkeep(&self) -> Option<Arc<dyn crate::compact::Upkeep<K>>> {
        self.decode.clone().upkeep()
    }

    /// Feeds the queue until it is closed.
    pub(in crate::shared_informer) async fn run(&self) {
        let run = async {
            tokio::join!(self.run_all(), self.resync());
        };
        tokio::select! {
            _closed = self.queue.closed() => {}
            () = run => {}
        }
    }

    /// Keeps a reflector running for each namespace in the set.
    async fn run_all(&self) {
        let mut changes = self.namespaces.set.subscribe();
        let mut running = FuturesUnordered::new();
        let mut backoff = self.options.backoff();
        loop {
            let set = changes.borrow_and_update().clone();
            let mut is_refused = false;
            for name in &set.names {
                match self.add(name) {
                    Ok(entry) => {
                        let feed = |entry| within_budget(self.feed(name.clone(), entry));
                        running.extend(entry.map(feed));
                    }
                    Err(error) => {
                        is_refused = true;
                        self.report(name, &ReflectorError::Scope(error));
                    }
                }
            }
            let is_complete = !set.is_awaited && self.have_scopes(&set.names);
            // The wait begins before a removal could complete the initial population.
            let waits = is_complete || self.begin_wait().is_ok();
            self.known_set.send_replace(set);
            if is_complete {
                self.end_wait().await;
            }
            tokio::select! {
                // An error would mean that the sender was dropped, but `self` holds it.
                _changed = with_catching_waker(changes.changed()) => {}
                // A namespace was removed. It may have been added again in the meantime, so the
                // set is read again.
                Some(()) = running.next() => {}
                () = async { sleep(backoff.next(None)).await }, if is_refused || !waits => {}
            }
        }
    }

    /// Adds a namespace, and returns its entry, which the caller runs. Returns `None` if the
    /// namespace already has an entry, even one that is still being removed. If the namespace had
    /// left the set and is being listed for the last time, its entry stays, and the informer waits
    /// for it again.
    fn add(&self, name: &Arc<str>) -> Result<Option<Arc<NamespaceReflector<K>>>, ScopeError> {
        // Not in one statement with the `if`, which would hold the lock while waiters are woken.
        let known = self.by_name.lock().get(name).cloned();
        if let Some(entry) = known {
            self.count_again(&entry);
            return Ok(None);
        }
        let scope = self.queue.add_scope(KeyScope::namespace(&**name))?;
        let entry = Arc::new(NamespaceReflector {
            scope,
            progress: Arc::default(),
            has_objects: Arc::default(),
            history: Arc::new(History::new(&self.histories)),
            has_left_set: Arc::default(),
            is_being_removed: AtomicBool::new(false),
            reflector: OnceLock::new(),
        });
        self.by_name.lock().insert(name.clone(), entry.clone());
        Ok(Some(entry))
    }

    /// Makes the informer wait again for a namespace that has left the set and comes back before it
    /// is removed, unless the namespace was waived because of a failure. Call it before the set is
    /// stored in [`known_set`](Self::known_set), so that no removal of another namespace can
    /// complete the initial population in between.
    fn count_again(&self, entry: &NamespaceReflector<K>) {
        // Relaxed: only this task accesses it.
        if entry.is_being_removed.load(Ordering::Relaxed) || !entry.has_left_set() {
            return;
        }
        // Relaxed: as in `feed`.
        entry.has_left_set.store(false, Ordering::Relaxed);
        // The scope may still be excluded because of an earlier failure.
        if !entry.progress.is_waived() {
            self.queue.await_scope(&entry.scope);
        }
    }

    /// Returns whether each namespace has a scope that is not being removed.
    fn have_scopes(&self, names: &BTreeSet<Arc<str>>) -> bool {
        let entries = self.by_name.lock();
        // Relaxed: only this task accesses it.
        let stays =
            |entry: &Arc<NamespaceReflector<K>>| !entry.is_being_removed.load(Ordering::Relaxed);
        names.iter().all(|name| entries.get(name).is_some_and(stays))
    }

    /// Keeps the initial population from ending before [`end_wait`](Self::end_wait) is called. If
    /// it has ended already, there is no applied version until that call.
    fn begin_wait(&self) -> Result<(), ScopeError> {
        if self.wait_scope.lock().is_none() {
            let scope = self.queue.add_scope(no_keys())?;
            *self.wait_scope.lock() = Some(scope);
        }
        Ok(())
    }

    /// Lets the initial population end once the first lists of the namespaces are complete.
    async fn end_wait(&self) {
        let Some(scope) = self.wait_scope.lock().take() else { return };
        let report =
            |error: &ReflectorError| self.on_error.report(&InformerError::Reflector(error));
        self.remove_scope(&scope, report).await;
    }

    /// Removes a scope and its objects. A failure is reported, and the removal is tried again.
    async fn remove_scope(&self, scope: &ScopeId, report: impl Fn(&ReflectorError)) {
        let mut backoff = self.options.backoff();
        loop {
            let (queue, removed) = (Arc::clone(&self.queue), scope.clone());
            let removed = self.threads.run(move || queue.remove_scope(&removed)).await;
            let error = match removed {
                // A removal that panicked may have removed the scope.
                Ok(Ok(()) | Err(RelistError::UnknownScope { .. })) => return,
                Ok(Err(error)) => StoreError::from(error).into(),
                Err(panicked) => panicked,
            };
            report(&error);
            sleep(backoff.next(None)).await;
        }
    }

    /// Lists and watches a namespace while it is in the set, and then removes its objects. If the
    /// list of another namespace shows that the API server was restored from a backup, the
    /// namespace is listed again after a backoff.
    async fn feed(&self, name: Arc<str>, entry: Arc<NamespaceReflector<K>>) {
        let mut set = self.known_set.subscribe();
        let mut restarts = self.options.backoff();
        loop {
            let history = self.histories.current();
            let is_outdated = async {
                entry.history.outdated(history).await;
                // All namespaces are outdated at once. If lists go back in time again and again,
                // for example because a proxy has two API servers with different histories behind
                // it, each of these lists would cause a new list of every namespace. The backoff
                // limits their number.
                sleep(restarts.next(None)).await;
                entry.history.outdated(history).await;
            };
            tokio::select! {
                () = self.reflect(&name, &entry) => {}
                // The next run begins with a list.
                () = is_outdated => continue,
                _removed = with_catching_waker(set.wait_for(|set| !set.names.contains(&name))) => {}
            }
            if !self.namespaces.set.borrow().follows_informer {
                break;
            }
            // Relaxed: a state for users; nothing is published through it.
            entry.has_left_set.store(true, Ordering::Relaxed);
            // The final list may take long, and nothing must wait for it.
            self.queue.waive_scope(&entry.scope);
            tokio::select! {
                // The scope counts again already (see `count_again`), so it must not be removed.
                biased;
                // Its objects are those of the same scope, so the reflector continues.
                _added = with_catching_waker(set.wait_for(|set| set.names.contains(&name))) => {}
                () = self.list_again(&name, &entry) => break,
            }
        }
        // Relaxed: only this task accesses it.
        entry.is_being_removed.store(true, Ordering::Relaxed);
        // An informer that stops waits for the threads of the namespaces that it knows.
        entry.wait_idle().await;
        self.remove_scope(&entry.scope, |error| self.report(&name, error)).await;
        self.refused.remove(&name);
        self.by_name.lock().remove(&name);
        // The lister-watcher is user code.
        ignore_panic(|| drop(entry));
    }

    /// Lists once more a namespace that may have been deleted. The list deletes the objects that
    /// no longer exist, so that they do not count as removed with the namespace. New and changed
    /// objects are not offered, unless the queue cannot tell yet which objects are known. If no
    /// object of the namespace was ever offered, nothing is listed.
    async fn list_again(&self, name: &Arc<str>, entry: &Arc<NamespaceReflector<K>>) {
        // A thread may still be working for a run that was dropped. Its commit of an older list
        // must not come after the final list. The commit makes the scope count again, so the scope
        // is waived once more.
        entry.wait_idle().await;
        self.queue.waive_scope(&entry.scope);
        let Some(reflector) = entry.reflector.get() else { return };
        // Relaxed: `InScope` sets the flag when it offers an object, and no work is in flight now.
        // If no object was offered, none has to be deleted.
        if !entry.has_objects.load(Ordering::Relaxed) {
            return;
        }
        if let Err(panic) = catching(Box::pin(reflector.list_newest())).await {
            self.report_panic(name, entry, panic);
        }
    }

    /// Runs the reflector of a namespace. A panic of its lister-watcher is reported, and the
    /// reflector is run again after a backoff.
    async fn reflect(&self, name: &Arc<str>, entry: &Arc<NamespaceReflector<K>>) {
        let mut backoff = self.options.backoff();
        loop {
            let running = async {
                let reflector = entry.reflector.get_or_init(|| self.reflector(name, entry));
                reflector.run().await
            };
            match catching(Box::pin(running)).await {
                // The queue is closed, so the informer ends as well.
                Ok(_closed) => return std::future::pending().await,
                Err(panic) => {
                    self.report_panic(name, entry, panic);
                    sleep(backoff.next(None)).await;
                }
            }
        }
    }

    fn report_panic(
        &self,
        name: &Arc<str>,
        entry: &NamespaceReflector<K>,
        panic: Box<dyn Any + Send>,
    ) {
        let error = ReflectorError::Panicked { message: panic_message(panic) };
        self.reporter(name, entry)(&error);
    }

    fn report(&self, namespace: &str, error: &ReflectorError) {
        self.on_error.report(&InformerError::Namespace { namespace, error });
    }

    fn reflector(&self, name: &Arc<str>, entry: &NamespaceReflector<K>) -> Reflector<K> {
        let (queue, scope) = (self.queue.clone(), entry.scope.clone());
        let (name_listed, refused) = (name.clone(), self.refused.clone());
        let progress = entry.progress.clone();
        let on_reached = Arc::new(move || {
            if progress.reached() {
                refused.remove(&name_listed);
            }
        });
        let (has_objects, history) = (entry.has_objects.clone(), entry.history.clone());
        let is_last = entry.has_left_set.clone();
        let target = Arc::new(InScope { queue, scope, has_objects, history, is_last, on_reached });
        let source = (self.source)(name);
        let decode = self.decode.clone();
        ReflectorBuilder::new(source, target, Box::new(|_, _, _| decode))
            .with_options(self.options.clone())
            .on_error(self.reporter(name, entry))
            .build()
    }

    /// Returns the error handler of a namespace.
    fn reporter(
        &self,
        name: &Arc<str>,
        entry: &NamespaceReflector<K>,
    ) -> impl Fn(&ReflectorError) + Send + Sync + use<K> {
        let (name, scope, queue) = (name.clone(), entry.scope.clone(), self.queue.clone());
        let (namespaces, refused) = (self.namespaces.clone(), self.refused.clone());
        let (on_error, progress) = (self.on_error.clone(), entry.progress.clone());
        move |error| {
            if namespaces.set.borrow().is_optional(&name) {
                if progress.ends_wait(error) {
                    progress.waive();
                    queue.waive_scope(&scope);
                }
            } else if error.is_unavailable() && !progress.has_listed() {
                refused.insert(&name);
            }
            on_error.report(&InformerError::Namespace { namespace: &name, error });
        }
    }

    async fn resync(&self) {
        let Some(resync) = &self.resync else { return std::future::pending().await };
        let target: Arc<dyn Target<K>> = self.queue.clone();
        let report =
            |error: &ReflectorError| self.on_error.report(&InformerError::Reflector(error));
        match resync.run(&target, &self.threads, report).await {}
    }
}

impl<K> NamespaceReflectors<K> {
    /// Returns whether no thread works for a namespace any more.
    pub(in crate::shared_informer) fn is_idle(&self) -> bool {
        self.threads.work.is_idle() && self.running().iter().all(|entry| entry.is_idle())
    }

    /// Waits until no thread works for a namespace any more.
    pub(in crate::shared_informer) async fn wait_idle(&self) {
        for entry in self.running() {
            entry.wait_idle().await;
        }
        self.threads.work.wait_idle().await;
    }

    fn running(&self) -> Vec<Arc<NamespaceReflector<K>>> {
        self.by_name.lock().values().cloned().collect()
    }
}
