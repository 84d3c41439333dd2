//! An accessor whose indexes of labels lack one object.

use deltafifo::{Labels, Meta};
use deltafifo_informer::KubeMeta;

/// An accessor that reads no labels of objects with this name. An answer without such an object
/// comes from its index, because a scan reads all labels.
pub struct Without(pub &'static str);

impl<K> Meta<K> for Without
where
    KubeMeta: Meta<K>,
{
    fn namespace<'a>(&self, map: &'a K) -> Option<&'a str> {
        KubeMeta.namespace(map)
    }

    fn name<'a>(&self, map: &'a K) -> Option<&'a str> {
        KubeMeta.name(map)
    }
}

impl<K> Labels<K> for Without
where
    KubeMeta: Labels<K>,
{
    fn label<'a>(&self, map: &'a K, key: &str) -> Option<&'a str> {
        self.name(map).filter(|name| *name != self.0).and_then(|_| KubeMeta.label(map, key))
    }
}
