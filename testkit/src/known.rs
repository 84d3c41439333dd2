//! The built-in kinds that the server knows, and how they differ: recorded from Kubernetes 1.36.

use kube::core::ApiResource;
use kube::core::discovery::Scope;

use crate::Resource;

/// The properties of a built-in kind.
pub(crate) struct Known {
    /// The group and version.
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    short_names: &'static [&'static str],
    /// The properties of the kind, as letters of [`Trait`].
    traits: &'static str,
    /// The selectable fields beside name and namespace, with their values in objects without them.
    fields: &'static [(&'static str, &'static str)],
}

/// A property of some kinds.
#[derive(Clone, Copy)]
pub(crate) enum Trait {
    /// The kind has the subresource `status`.
    Status,
    /// Its objects have `metadata.generation`.
    Generation,
    /// A change of an annotation raises the generation.
    Annotations,
    /// The response to a deletion is the object, not a Status.
    ShownWhenDeleted,
    /// The dependents of a deleted object become orphans, if the request does not say otherwise.
    Orphans,
    /// `kubectl get all` includes the kind.
    InAll,
    /// The kind has the subresource `scale`.
    Scale,
}

/// The traits of a kind that the server does not know, as of most custom resources.
pub(crate) const UNKNOWN: &str = "sg";

impl Trait {
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Status => 's',
            Self::Generation => 'g',
            Self::Annotations => 'n',
            Self::ShownWhenDeleted => 'd',
            Self::Orphans => 'o',
            Self::InAll => 'a',
            Self::Scale => 'c',
        }
    }
}

impl Known {
    /// Returns the known kind of this group, version and kind.
    pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.kind == kind && known.api_version == api_version)
    }

    pub(crate) fn traits(&self) -> &'static str {
        self.traits
    }

    pub(crate) fn short_names(&self) -> &'static [&'static str] {
        self.short_names
    }

    pub(crate) fn fields(&self) -> &'static [(&'static str, &'static str)] {
        self.fields
    }

    fn resource(&self) -> Resource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let api = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        };
        Resource::built_in(api, if self.namespaced { Scope::Namespaced } else { Scope::Cluster })
    }
}

/// Returns the resources of all known kinds.
pub(crate) fn all() -> impl Iterator<Item = Resource> {
    KNOWN.iter().map(Known::resource)
}

const fn kind(
    api_version: &'static str,
    (kind, plural): (&'static str, &'static str),
    namespaced: bool,
    traits: &'static str,
    short_names: &'static [&'static str],
) -> Known {
    Known { api_version, kind, plural, namespaced, short_names, traits, fields: &[] }
}

impl Known {
    const fn select(self, fields: &'static [(&'static str, &'static str)]) -> Self {
        Self { fields, ..self }
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const NETWORK: &str = "networking.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";

const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", ""),
    ("involvedObject.namespace", ""),
    ("involvedObject.name", ""),
    ("involvedObject.uid", ""),
    ("involvedObject.apiVersion", ""),
    ("involvedObject.resourceVersion", ""),
    ("involvedObject.fieldPath", ""),
    ("reason", ""),
    ("reportingComponent", ""),
    ("type", ""),
];

const NEW_EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding.kind", ""),
    ("regarding.namespace", ""),
    ("regarding.name", ""),
    ("regarding.uid", ""),
    ("regarding.apiVersion", ""),
    ("reason", ""),
    ("reportingController", ""),
    ("type", ""),
];

const POD_FIELDS: &[(&str, &str)] = &[
    ("spec.nodeName", ""),
    ("spec.restartPolicy", "Always"),
    ("spec.schedulerName", "default-scheduler"),
    ("spec.serviceAccountName", ""),
    ("spec.hostNetwork", "false"),
    ("status.phase", ""),
    ("status.podIP", ""),
    ("status.nominatedNodeName", ""),
];

static KNOWN: &[Known] = &[
    kind("v1", ("ConfigMap", "configmaps"), true, "", &["cm"]),
    kind("v1", ("Endpoints", "endpoints"), true, "", &["ep"]),
    kind("v1", ("Event", "events"), true, "", &["ev"]).select(EVENT_FIELDS),
    kind("v1", ("LimitRange", "limitranges"), true, "", &["limits"]),
    kind("v1", ("Namespace", "namespaces"), false, "s", &["ns"])
        .select(&[("status.phase", "Active")]),
    kind("v1", ("Node", "nodes"), false, "s", &["no"]).select(&[("spec.unschedulable", "false")]),
    kind("v1", ("PersistentVolumeClaim", "persistentvolumeclaims"), true, "sd", &["pvc"]),
    kind("v1", ("PersistentVolume", "persistentvolumes"), false, "sd", &["pv"]),
    kind("v1", ("Pod", "pods"), true, "sgda", &["po"]).select(POD_FIELDS),
    kind("v1", ("PodTemplate", "podtemplates"), true, "gd", &[]),
    kind("v1", ("ReplicationController", "replicationcontrollers"), true, "sgoa", &["rc"])
        .select(&[("status.replicas", "0")]),
    kind("v1", ("ResourceQuota", "resourcequotas"), true, "sd", &["quota"]),
    kind("v1", ("Secret", "secrets"), true, "", &[]).select(&[("type", "Opaque")]),
    kind("v1", ("ServiceAccount", "serviceaccounts"), true, "d", &["sa"]),
    kind("v1", ("Service", "services"), true, "sda", &["svc"])
        .select(&[("spec.clusterIP", ""), ("spec.type", "ClusterIP")]),
    kind("apps/v1", ("ControllerRevision", "controllerrevisions"), true, "", &[]),
    kind("apps/v1", ("DaemonSet", "daemonsets"), true, "sga", &["ds"]),
    kind("apps/v1", ("Deployment", "deployments"), true, "sgnac", &["deploy"]),
    kind("apps/v1", ("ReplicaSet", "replicasets"), true, "sgac", &["rs"]),
    kind("apps/v1", ("StatefulSet", "statefulsets"), true, "sgac", &["sts"]),
    kind("events.k8s.io/v1", ("Event", "events"), true, "", &["ev"]).select(NEW_EVENT_FIELDS),
    kind(
        "autoscaling/v2",
        ("HorizontalPodAutoscaler", "horizontalpodautoscalers"),
        true,
        "sa",
        &["hpa"],
    ),
    kind("batch/v1", ("CronJob", "cronjobs"), true, "sga", &["cj"]),
    kind("batch/v1", ("Job", "jobs"), true, "sgoa", &[]).select(&[("status.successful", "0")]),
    kind(
        "certificates.k8s.io/v1",
        ("CertificateSigningRequest", "certificatesigningrequests"),
        false,
        "s",
        &["csr"],
    )
    .select(&[("spec.signerName", "")]),
    kind(NETWORK, ("IngressClass", "ingressclasses"), false, "g", &[]),
    kind(NETWORK, ("Ingress", "ingresses"), true, "sg", &["ing"]),
    kind(NETWORK, ("NetworkPolicy", "networkpolicies"), true, "g", &["netpol"]),
    kind("policy/v1", ("PodDisruptionBudget", "poddisruptionbudgets"), true, "sg", &["pdb"]),
    kind(RBAC, ("ClusterRoleBinding", "clusterrolebindings"), false, "", &[]),
    kind(RBAC, ("ClusterRole", "clusterroles"), false, "", &[]),
    kind(RBAC, ("RoleBinding", "rolebindings"), true, "", &[]),
    kind(RBAC, ("Role", "roles"), true, "", &[]),
    kind(STORAGE, ("StorageClass", "storageclasses"), false, "d", &["sc"]),
    kind(STORAGE, ("VolumeAttachment", "volumeattachments"), false, "sd", &[]),
    kind(
        ADMISSION,
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        false,
        "g",
        &[],
    ),
    kind(
        ADMISSION,
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        false,
        "g",
        &[],
    ),
    kind(
        "apiextensions.k8s.io/v1",
        ("CustomResourceDefinition", "customresourcedefinitions"),
        false,
        "sg",
        &["crd", "crds"],
    ),
    kind("scheduling.k8s.io/v1", ("PriorityClass", "priorityclasses"), false, "g", &["pc"]),
    kind("coordination.k8s.io/v1", ("Lease", "leases"), true, "", &[]),
    kind("node.k8s.io/v1", ("RuntimeClass", "runtimeclasses"), false, "", &[]),
    kind("discovery.k8s.io/v1", ("EndpointSlice", "endpointslices"), true, "g", &[]),
];
