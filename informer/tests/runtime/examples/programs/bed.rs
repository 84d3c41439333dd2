//! A custom kind of the programs: a bed of a garden, and the crop that grows in it.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Bed {
    pub metadata: ObjectMeta,
    pub spec: BedSpec,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BedSpec {
    pub crop: String,
}

impl Resource for Bed {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Bed".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "garden.example".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "beds".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
