//! The kind of the test types whose objects the server serves as `ConfigMap`s.

/// Implements `Resource` with the kind of `ConfigMap` for a type, of which `$meta` and `$meta_mut`
/// return the metadata.
macro_rules! kind_config_map {
    ($type:ty, $meta:expr, $meta_mut:expr) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <ConfigMap as kube::Resource>::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <ConfigMap as kube::Resource>::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <ConfigMap as kube::Resource>::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <ConfigMap as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                let meta: fn(&Self) -> &ObjectMeta = $meta;
                meta(self)
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                let meta: fn(&mut Self) -> &mut ObjectMeta = $meta_mut;
                meta(self)
            }
        }
    };
}
pub(crate) use kind_config_map;
