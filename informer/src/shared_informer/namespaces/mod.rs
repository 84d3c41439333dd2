//! A set of namespaces, which can change while informers of the set run.
//!
//! * `mod.rs`: the set.
//! * `plan.rs`: the set and the lister-watchers of an informer that is not built yet.
//! * `reflectors.rs`: a reflector for each namespace in the set; `reflector.rs`: one of them and
//!   its progress; `refused.rs`: the namespaces that may not be listed; `status.rs`: their state.
//! * `source.rs`: the constructor of informers of a set.

mod plan;
mod reflector;
mod reflectors;
mod refused;
mod source;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deltafifo::{KeyFunc, Meta};
use futures_util::pin_mut;
use futures_util::stream::{Stream, StreamExt};
use tokio::sync::watch;

use super::error::{AddHandlerError, InvalidNamespace};
use super::{HandlerOptions, Notification, SharedInformer};
use crate::util::dns::is_label;
use crate::util::sleep::with_catching_waker;
pub(super) use plan::NamespacesPlan;
pub(super) use reflectors::NamespaceReflectors;
pub use status::NamespaceStatus;

/// The largest number of notifications of an informer that are handled by one update of a set.
const MOST_CHANGES: usize = 1_024;

/// A set of namespaces that an informer lists and watches separately, for service accounts that may
/// list only some namespaces. Namespaces can be added and removed while the informer runs. Cheap to
/// clone: all clones are the same set, and any number of informers can use it.
///
/// A namespace that fails (403, 404, 500, silence) does not delay the lists and watches of the
/// others: its error is reported with its name, its known objects stay, and it is retried with a
/// backoff of its own. But it holds back the applied version, which is the lowest of all
/// namespaces. An [optional](Self::optional) namespace does not, once its first list has failed or
/// the server has refused it (403, 404). If a namespace is removed from the set, its objects are
/// removed from the store, and handlers are notified with
/// [`Cause::NamespaceRemoved`](super::Cause::NamespaceRemoved).
///
/// Not in client-go (kubernetes/client-go#580, kubernetes/kubernetes#74415).
///
/// ```
/// use deltafifo_informer::shared_informer::{Namespaces, Scope, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use deltafifo_testkit::{ApiServer, Resource};
/// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
/// # let client = server.client();
/// let namespaces = Namespaces::new(["blue", "green"])?;
/// let factory = SharedInformerFactory::new(client);
/// let maps = factory.informer::<ConfigMap>(&Scope::namespaces(&namespaces))?;
/// factory.start();
/// maps.wait_for_sync().await?;
///
/// namespaces.add("red")?;
/// namespaces.remove("green");
/// assert_eq!(namespaces.names(), ["blue", "red"]);
/// # factory.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Namespaces {
    set: Arc<watch::Sender<Set>>,
    id: u64,
}

#[derive(Clone, Default)]
struct Set {
    names: BTreeSet<Arc<str>>,
    /// Whether a set that follows a stream or an informer has not yet received its first names.
    is_awaited: bool,
    /// Whether all namespaces are optional.
    is_optional: bool,
    /// The namespaces that are optional, even if the set is not.
    optional: BTreeSet<Arc<str>>,
    /// Whether a namespace that leaves the set may have been deleted. Informers then list it once
    /// more, because a deleted object must not count as one that may still exist.
    follows_informer: bool,
}

impl Set {
    fn is_optional(&self, name: &str) -> bool {
        self.is_optional || self.optional.contains(name)
    }
}

impl Namespaces {
    /// Creates a set of these namespaces.
    ///
    /// # Errors
    /// [`InvalidNamespace`] if no namespace can have one of the names.
    pub fn new(
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, InvalidNamespace> {
        let names = names.into_iter().map(|name| checked(&name.into()));
        let names = names.collect::<Result<_, _>>()?;
        Ok(Self::of(Set { names, ..Set::default() }))
    }

    fn of(set: Set) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only the number itself matters.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { set: Arc::new(watch::Sender::new(set)), id }
    }

    /// Creates a set that follows a stream: each item of `names` replaces all names of the set. An
    /// informer of the set syncs only after the first item, and never if the stream ends without
    /// one, which is logged. The returned future must be polled; it ends when the stream ends. A
    /// name that no namespace can have is logged and ignored.
    ///
    /// ```
    /// # use deltafifo_informer::shared_informer::Namespaces;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let names = futures_util::stream::iter([vec!["blue".to_owned()], vec!["green".to_owned()]]);
    /// let (namespaces, following) = Namespaces::follow(names);
    /// following.await;
    /// assert_eq!(namespaces.names(), ["green"]);
    /// # }
    /// ```
    pub fn follow(
        names: impl Stream<Item = Vec<String>> + Send,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let namespaces = Self::of(Set { is_awaited: true, ..Set::default() });
        let set = namespaces.clone();
        let following = async move {
            pin_mut!(names);
            while let Some(names) = with_catching_waker(names.next()).await {
                set.set(&names);
            }
            set.log_end();
        };
        (namespaces, following)
    }

    /// Creates a set of the names of the objects of `informer`, for example an informer of
    /// namespaces with a label selector. The caller must run `informer`. An informer of the set
    /// syncs only after `informer` has synced. The returned future must be polled; it ends when
    /// `informer` stops.
    ///
    /// A namespace leaves the set when it no longer exists, and also when it no longer matches the
    /// selector of `informer`: in both cases the API server sends a deletion. The objects of the
    /// namespace may therefore still exist. When a namespace leaves the set, the informers of the
    /// set list it a last time. An object that this list does not contain, or contains with another
    /// uid, counts as deleted, with the cause [`Relist`](super::Cause::Relist). The other objects
    /// are removed with the cause [`NamespaceRemoved`](super::Cause::NamespaceRemoved). If the list
    /// fails, all objects are. Handlers are not notified of objects that are new or changed in this
    /// list. (There are two exceptions: an object that a worker is storing while the list arrives,
    /// and all objects if the informer has an in-order queue with changes to handle.) A namespace
    /// that is being deleted stays in the set until the API server has removed it, so the watch of
    /// its objects usually delivers their deletion before the namespace leaves the set.
    ///
    /// ```
    /// use deltafifo_informer::shared_informer::{Namespaces, Scope, SharedInformerFactory};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// use kube::core::PartialObjectMeta;
    ///
    /// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let factory = SharedInformerFactory::new(client);
    /// let ours = Scope::all().labels("team=shop");
    /// let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours)?;
    /// let (namespaces, following) = Namespaces::of_informer(&all)?;
    /// tokio::spawn(following);
    /// let maps = factory.informer::<ConfigMap>(&Scope::namespaces(&namespaces))?;
    /// factory.start();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AddHandlerError::Stopped`] if `informer` has stopped.
    pub fn of_informer<K: Send + Sync + 'static, M: Meta<K>>(
        informer: &SharedInformer<K, M>,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<K, M>), AddHandlerError> {
        let changes = informer.subscribe(HandlerOptions::new())?;
        let namespaces =
            Self::of(Set { is_awaited: true, follows_informer: true, ..Set::default() });
        let (set, store) = (namespaces.clone(), informer.store());
        let following = async move {
            let registration = changes.registration().clone();
            let mut changes = changes.ready_chunks(MOST_CHANGES);
            let mut names = BTreeSet::new();
            let mut is_synced = false;
            loop {
                let next = tokio::select! {
                    biased;
                    next = changes.next() => next,
                    // A handler is synced once the notification behind the last one is polled.
                    synced = registration.wait_for_sync(), if !is_synced => {
                        is_synced = true;
                        synced.ok().map(|()| Vec::new())
                    }
                };
                let Some(changes) = next else { return set.log_end() };
                for change in &changes {
                    follow(&mut names, change, store.keys());
                }
                if is_synced {
                    set.set(&names);
                }
            }
        };
        Ok((namespaces, following))
    }

    /// Makes informers of the set sync without the namespaces whose first list fails. The applied
    /// version then ignores these namespaces, and those that the server refuses later (403, 404).
    /// By default an informer syncs after the first list of every namespace that is in the set,
    /// including those that are added before it has synced.
    #[must_use]
    pub fn optional(self) -> Self {
        self.set.send_modify(|set| set.is_optional = true);
        self
    }

    /// Makes informers of the set sync without those of these namespaces whose first list fails, as
    /// [`optional`](Self::optional) does for all namespaces. They need not be in the set.
    #[must_use]
    pub fn optional_in(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(|name| Arc::from(name.into()));
        let names: Vec<_> = names.collect();
        self.set.send_modify(|set| set.optional.extend(names));
        self
    }

    /// Adds a namespace. Returns whether it was not in the set.
    ///
    /// An informer that has not synced yet waits for the first list of the namespace, unless the
    /// first lists of all other namespaces are complete when its task notices the addition. In a
    /// set that [follows](Self::follow) a stream or an informer, the namespace stays until the next
    /// names arrive, which replace all.
    ///
    /// # Errors
    /// [`InvalidNamespace`] if no namespace can have this name.
    pub fn add(&self, name: &str) -> Result<bool, InvalidNamespace> {
        let name = checked(name)?;
        Ok(self.set.send_if_modified(|set| set.names.insert(name)))
    }

    /// Removes a namespace. Returns whether it was in the set. The informers of the set stop the
    /// namespace's list and watch, and then remove its objects. If the namespace is added again
    /// before an informer has noticed the removal, the informer continues with it.
    ///
    /// In a set that [follows](Self::follow) a stream or an informer, the namespace returns if the
    /// next names contain it. In a set of an [informer](Self::of_informer), the namespace is listed
    /// once more before its objects are removed.
    #[allow(clippy::must_use_candidate)] // As for `HashSet::remove`.
    pub fn remove(&self, name: &str) -> bool {
        self.set.send_if_modified(|set| set.names.remove(name))
    }

    /// Returns the names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.set.borrow().names.iter().map(ToString::to_string).collect()
    }

    /// Logs the end of a stream or an informer that the set follows, if the set has never received
    /// names from it.
    fn log_end(&self) {
        if self.set.borrow().is_awaited {
            tracing::warn!(
                "a set of namespaces received no names before its stream or informer ended; \
                 informers of the set never sync; give them another set"
            );
        }
    }

    /// Replaces all names. Logs and ignores names that no namespace can have.
    fn set<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        let names: BTreeSet<_> = names
            .into_iter()
            .filter_map(|name| {
                let name = checked(name);
                name.inspect_err(|error| tracing::warn!(%error, "namespace ignored")).ok()
            })
            .collect();
        self.set.send_if_modified(|set| {
            let was_awaited = std::mem::take(&mut set.is_awaited);
            let before = std::mem::replace(&mut set.names, names);
            was_awaited || before != set.names
        });
    }
}

/// Applies a notification of an informer to `names`, the names of the informer's objects. No change
/// is dropped, because the handler has the default buffer, which merges the changes of a key.
fn follow<K, M: Meta<K>>(
    names: &mut BTreeSet<String>,
    change: &Notification<K>,
    keys: &KeyFunc<K, M>,
) {
    match change {
        Notification::Added { new, .. } => names.extend(keys.key(new)),
        Notification::Deleted { old, .. } => {
            if let Ok(name) = keys.key(old) {
                names.remove(&name);
            }
        }
        Notification::Updated { .. } | Notification::ResyncBegins | Notification::ResyncEnds => {}
    }
}

/// Checks that `name` is a DNS label (RFC 1123), as the name of every namespace is.
fn checked(name: &str) -> Result<Arc<str>, InvalidNamespace> {
    if is_label(name) { Ok(name.into()) } else { Err(InvalidNamespace { name: name.to_owned() }) }
}

/// Two handles are equal if they belong to the same set.
impl PartialEq for Namespaces {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Namespaces {}

impl std::hash::Hash for Namespaces {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl PartialOrd for Namespaces {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Orders sets by the time of their creation.
impl Ord for Namespaces {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}

/// Writes the number of the set, as in `namespaces (set 3)`. The names of informers contain this
/// text, because the namespaces of the set can change.
impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespaces (set {})", self.id)
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.set.borrow().names).finish()
    }
}
