//! A set of namespaces that changes while an informer of them runs.
//!
//! * `mod.rs`: the set.
//! * `parts.rs`: a reflector for each namespace in it.
//! * `source.rs`: informers and listers of a set.

mod parts;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deltafifo::{KeyFunc, Meta};
use futures_util::pin_mut;
use futures_util::stream::{Stream, StreamExt};
use tokio::sync::watch;

use super::error::{AddHandlerError, InvalidNamespace};
use super::{HandlerOptions, Notification, SharedInformer};
use crate::util::sleep::with_catching_waker;
pub use parts::NamespaceStatus;
pub(super) use parts::{Parts, Plan};

/// The largest number of notifications of an informer that are handled by one update of a set.
const MOST_CHANGES: usize = 1_024;

/// A set of namespaces that an informer lists and watches separately, for accounts with rights in
/// some namespaces only. Namespaces can be added and removed while the informer runs. Cheap to
/// clone: all clones are the same set, and any number of informers can use it.
///
/// A namespace that fails (403, 404, 500, silence) does not delay the others: its error is reported
/// with its name, its known objects stay, and it is retried with a backoff of its own. If a
/// namespace is removed from the set, its objects are removed from the store, and handlers are
/// notified with [`Cause::NamespaceRemoved`](super::Cause::NamespaceRemoved).
///
/// Not in client-go (kubernetes/client-go#580, kubernetes/kubernetes#74415).
///
/// ```
/// use deltafifo_informer::shared_informer::{Namespaces, Scope, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    /// `None` until a [followed](Namespaces::follow) stream has yielded its first item.
    names: Option<BTreeMap<Arc<str>, Arc<Member>>>,
    is_optional: bool,
}

/// The stay of a name in a set. If the name is added again later, that is another one.
#[derive(Default)]
struct Member {
    /// Whether the stay has ended because the namespace was deleted.
    is_deleted: AtomicBool,
}

impl Member {
    fn is_deleted(&self) -> bool {
        // Relaxed: the lock of the set orders the end of the stay before this.
        self.is_deleted.load(Ordering::Relaxed)
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
        let member = |name: Arc<str>| (name, Arc::default());
        let names = names.into_iter().map(|name| checked(&name.into()).map(member));
        let names = names.collect::<Result<_, _>>()?;
        Ok(Self::of(Set { names: Some(names), is_optional: false }))
    }

    fn of(set: Set) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only the number itself matters.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { set: Arc::new(watch::Sender::new(set)), id }
    }

    /// Creates a set that follows a stream: each item of `names` replaces all names of the set. An
    /// informer of the set syncs only after the first item. The returned future must be polled; it
    /// ends when the stream ends. A name that no namespace can have is logged and ignored.
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
        let namespaces = Self::of(Set::default());
        let set = namespaces.clone();
        let following = async move {
            pin_mut!(names);
            while let Some(names) = with_catching_waker(names.next()).await {
                set.set(&names, &BTreeSet::new());
            }
        };
        (namespaces, following)
    }

    /// Creates a set of the names of the objects of `informer`, for example an informer of
    /// namespaces with a label selector. The caller must run `informer`. An informer of the set
    /// syncs only after `informer`. The returned future must be polled; it ends when `informer`
    /// stops.
    ///
    /// A namespace that is being deleted stays in the set until it no longer exists. Two watches
    /// report its last changes and its removal. An object whose deletion has not been seen by then
    /// counts as deleted, with the cause [`Relist`](super::Cause::Relist), because the API server
    /// deletes a namespace after everything in it. This needs the `deletionTimestamp` of the
    /// namespace ([`Meta::is_being_deleted`]). If a namespace leaves the set without one, as when
    /// it loses its label, its objects may still exist, and the cause is
    /// [`NamespaceRemoved`](super::Cause::NamespaceRemoved).
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
        let namespaces = Self::of(Set::default());
        let (set, store) = (namespaces.clone(), informer.store());
        let following = async move {
            let registration = changes.registration().clone();
            let mut changes = changes.ready_chunks(MOST_CHANGES);
            let mut followed = Followed::default();
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
                let Some(changes) = next else { return };
                let deleted = followed.apply(&changes, store.keys());
                if is_synced {
                    set.set(&followed.names, &deleted);
                }
            }
        };
        Ok((namespaces, following))
    }

    /// Makes informers of the set sync without the namespaces whose first list fails. By default an
    /// informer syncs after the first list of every namespace that is in the set, including those
    /// that are added before it has synced.
    #[must_use]
    pub fn optional(self) -> Self {
        self.set.send_modify(|set| set.is_optional = true);
        self
    }

    /// Adds a namespace. Returns whether it was not in the set.
    ///
    /// # Errors
    /// [`InvalidNamespace`] if no namespace can have this name.
    pub fn add(&self, name: &str) -> Result<bool, InvalidNamespace> {
        let name = checked(name)?;
        Ok(self.set.send_if_modified(|set| {
            let names = set.names.get_or_insert_default();
            let is_new = !names.contains_key(&name);
            names.entry(name).or_default();
            is_new
        }))
    }

    /// Removes a namespace. Returns whether it was in the set. Informers stop its list and watch,
    /// and then remove its objects. If the namespace is added again before an informer has
    /// noticed the removal, the informer continues with it.
    #[allow(clippy::must_use_candidate)] // As for `HashSet::remove`.
    pub fn remove(&self, name: &str) -> bool {
        self.set.send_if_modified(|set| {
            set.names.as_mut().is_some_and(|names| names.remove(name).is_some())
        })
    }

    /// Returns whether the set contains `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.set.borrow().member(name).is_some()
    }

    /// Returns the names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.set.borrow().names().map(ToString::to_string).collect()
    }

    /// Replaces all names. Logs and ignores those that no namespace can have. The namespaces of
    /// those that leave the set and are among `deleted` were deleted.
    fn set<'n>(&self, names: impl IntoIterator<Item = &'n String>, deleted: &BTreeSet<String>) {
        let names: BTreeSet<_> = names
            .into_iter()
            .filter_map(|name| {
                let name = checked(name);
                name.inspect_err(|error| tracing::warn!(%error, "namespace ignored")).ok()
            })
            .collect();
        self.set.send_if_modified(|set| {
            if set.names.is_some() && set.names().eq(&names) {
                return false;
            }
            let before = set.names.take().unwrap_or_default();
            let left = before.iter().filter(|(name, _)| !names.contains(*name));
            for (_, member) in left.filter(|(name, _)| deleted.contains(&***name)) {
                // Relaxed: as in `Member::is_deleted`.
                member.is_deleted.store(true, Ordering::Relaxed);
            }
            let member = |name: Arc<str>| {
                let member = before.get(&name).cloned().unwrap_or_default();
                (name, member)
            };
            set.names = Some(names.into_iter().map(member).collect());
            true
        });
    }
}

/// The names of the objects of an informer, as its notifications show them. Its store is ahead of
/// them, and does not say how an object has gone.
#[derive(Default)]
struct Followed {
    names: BTreeSet<String>,
}

impl Followed {
    /// Applies notifications. Returns the names of objects whose deletion has been seen.
    fn apply<K, M: Meta<K>>(
        &mut self,
        changes: &[Notification<K>],
        keys: &KeyFunc<K, M>,
    ) -> BTreeSet<String> {
        let mut deleted = BTreeSet::new();
        for change in changes {
            match change {
                Notification::Added { new, .. } => self.names.extend(keys.key(new)),
                Notification::Deleted { old, last, .. } => {
                    let last = last.object().unwrap_or(old);
                    let Ok(name) = keys.key(last) else { continue };
                    self.names.remove(&name);
                    if keys.meta().is_being_deleted(last) {
                        deleted.insert(name);
                    }
                }
                // No change is dropped, because the buffer is the default one, which merges the
                // changes of a key.
                Notification::Updated { .. }
                | Notification::ResyncBegins
                | Notification::ResyncEnds => {}
            }
        }
        deleted
    }
}

impl Set {
    fn member(&self, name: &str) -> Option<&Arc<Member>> {
        self.names.as_ref()?.get(name)
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter().flat_map(BTreeMap::keys)
    }
}

/// Checks that `name` is a DNS label (RFC 1123), as the name of every namespace is.
fn checked(name: &str) -> Result<Arc<str>, InvalidNamespace> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (1..=63).contains(&name.len())
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_valid { Ok(name.into()) } else { Err(InvalidNamespace { name: name.to_owned() }) }
}

/// Two handles are equal if they are of the same set.
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

/// Writes the text that stands for the set in the names of informers, which shows no namespaces.
impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespaces (set {})", self.id)
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.set.borrow().names()).finish()
    }
}
