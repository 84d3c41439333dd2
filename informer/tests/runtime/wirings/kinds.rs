//! The custom kinds of the wirings: sites, their pages, and themes, which are in no namespace. A
//! server of them and of the built-in kinds, and objects.

use std::borrow::Cow;

use deltafifo_testkit::{ApiServer, Resource as Served};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::discovery::Scope;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::stage::{built_in, object};

macro_rules! kind {
    ($kind:ident, $plural:literal, $scope:ty, $($fields:tt)*) => {
        #[derive(Clone, Debug, Deserialize, Serialize)]
        pub struct $kind {
            pub metadata: ObjectMeta,
            $($fields)*
        }

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                "sites.example".into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(Site, "sites", NamespaceResourceScope, pub spec: SiteSpec,);
kind!(Page, "pages", NamespaceResourceScope, pub spec: PageSpec,);
kind!(Theme, "themes", ClusterResourceScope, pub spec: ThemeSpec,);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SiteSpec {
    pub title: String,
    /// The name of a theme.
    #[serde(default)]
    pub theme: Option<String>,
    /// The name of the secret with the site's certificate.
    #[serde(default)]
    pub certificate: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PageSpec {
    /// The name of the page's site.
    pub site: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ThemeSpec {
    /// The name of the map with the colours.
    pub palette: String,
}

/// Returns the custom resource of a kind of this file.
pub fn custom<K: Resource<DynamicType = ()>>(scope: Scope) -> Served {
    Served::custom(ApiResource::erase::<K>(&()), scope)
}

/// Returns a server of all kinds of the wirings.
pub fn server() -> ApiServer {
    let mut server = ApiServer::builder()
        .resource(custom::<Site>(Scope::Namespaced))
        .resource(custom::<Page>(Scope::Namespaced))
        .resource(custom::<Theme>(Scope::Cluster));
    for resource in [
        Served::config_maps(),
        Served::pods(),
        Served::nodes(),
        Served::namespaces(),
        built_in::<Secret>(),
        built_in::<Service>(),
        built_in::<ServiceAccount>(),
        built_in::<PersistentVolumeClaim>(),
        built_in::<Deployment>(),
        built_in::<DaemonSet>(),
        built_in::<ReplicaSet>(),
        built_in::<StatefulSet>(),
        built_in::<Job>(),
        built_in::<Event>(),
    ] {
        server = server.resource(resource);
    }
    server.build()
}

pub fn site(name: &str, spec: Value) -> Value {
    object("sites.example/v1", "Site", name, json!({ "spec": spec }))
}

pub fn page(name: &str, site: &str) -> Value {
    object("sites.example/v1", "Page", name, json!({ "spec": { "site": site } }))
}

pub fn theme(name: &str, palette: &str) -> Value {
    json!({
        "apiVersion": "sites.example/v1", "kind": "Theme", "metadata": { "name": name },
        "spec": { "palette": palette },
    })
}

/// Returns metadata with the label of the objects that the controllers create, owned by `site`.
pub fn of_site(site: &str) -> Value {
    let owner =
        json!({ "apiVersion": "sites.example/v1", "kind": "Site", "name": site, "uid": "1" });
    json!({ "metadata": { "labels": { "part-of": "sites" }, "ownerReferences": [owner] } })
}
