//! The label selectors of the workload `queries`.

use std::collections::BTreeMap;
use std::fmt;

use deltafifo::Labels;

/// The label whose value a selector requires. Generated objects have a thousand values.
pub const APP: &str = "app";
/// The label of which a selector excludes one value. No engine has an index of it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// An accessor that also returns all labels of an object as a map, which kube-rs' selectors need.
pub trait LabelMap<T>: Labels<T> {
    fn labels<'a>(&self, object: &'a T) -> &'a BTreeMap<String, String>;
}

/// A selector of the objects of one app, except those of one pod template.
pub struct AppSelector {
    pub app: String,
    /// The hash of the excluded pod template; empty if the objects have no such label.
    excluded: String,
}

impl AppSelector {
    /// Creates the selector of the app of an object. It excludes the pod template of this object.
    /// Returns `None` if the object has no app.
    pub fn of<T>(meta: &impl Labels<T>, object: &T) -> Option<Self> {
        let excluded = meta.label(object, TEMPLATE_HASH).unwrap_or_default().to_owned();
        Some(Self { app: meta.label(object, APP)?.to_owned(), excluded })
    }

    /// Returns whether the selector matches an object.
    pub fn matches<T>(&self, meta: &impl Labels<T>, object: &T) -> bool {
        meta.label(object, APP) == Some(&self.app)
            && meta.label(object, TEMPLATE_HASH) != Some(&self.excluded)
    }
}

#[cfg(feature = "peers")]
impl From<&AppSelector> for kube::core::Selector {
    fn from(AppSelector { app, excluded }: &AppSelector) -> Self {
        use kube::core::Expression::{Equal, NotEqual};
        [Equal(APP.to_owned(), app.clone()), NotEqual(TEMPLATE_HASH.to_owned(), excluded.clone())]
            .into_iter()
            .collect()
    }
}

impl fmt::Display for AppSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{APP}={},{TEMPLATE_HASH}!={}", self.app, self.excluded)
    }
}
