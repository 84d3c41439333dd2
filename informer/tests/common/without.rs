//! An accessor whose indexes of labels lack one object.

use deltafifo::{Labels, Meta};
use deltafifo_informer::KubeMeta;
use k8s_openapi::api::core::v1::ConfigMap;

/// An accessor that reads no labels of objects with this name. An answer without such an object
/// comes from its index, because a scan reads all labels.
pub struct Without(pub &'static str);

impl Meta<ConfigMap> for Without {
    fn namespace<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        KubeMeta.namespace(map)
    }

    fn name<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        KubeMeta.name(map)
    }
}

impl Labels<ConfigMap> for Without {
    fn label<'a>(&self, map: &'a ConfigMap, key: &str) -> Option<&'a str> {
        self.name(map).filter(|name| *name != self.0).and_then(|_| KubeMeta.label(map, key))
    }
}
