//! Reads the objects of a running cluster with the permissions of the kubeconfig's user. Writes
//! nothing.

use std::path::Path;

use karpenter_operator::client::error_chain;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, Error};
use serde_json::Value;

use super::cluster_objects::{ClusterObjects, object_name};
use super::report::Remark;
use crate::diagnostic::Diagnostic;
use crate::kubeconfig;
use crate::options::{DecisionOptions, Gate};

/// Objects per request, as in kubectl.
const PAGE: u32 = 500;
/// How often a list is begun anew because the API server forgot where it was.
const RESTARTS_MAX: usize = 3;

/// A kind to list: group, version, kind, plural.
type ListedKind = (&'static str, &'static str, &'static str, &'static str);

const ALWAYS_LISTED: [ListedKind; 11] = [
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "PersistentVolume", "persistentvolumes"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    ("storage.k8s.io", "v1", "CSINode", "csinodes"),
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
];
const FOR_DEFAULT_SPREAD: [ListedKind; 4] = [
    ("", "v1", "Service", "services"),
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
];
const FOR_OVERLAYS: [ListedKind; 1] = [("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays")];
const FOR_BUFFERS: [ListedKind; 5] = [
    ("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers"),
    ("", "v1", "PodTemplate", "podtemplates"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
];
const FOR_DEVICES: [ListedKind; 4] = [
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"),
];

const EC2_NODE_CLASSES: ListedKind = ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses");

/// Returns the kinds that a plan with these options reads.
fn kinds_to_list(options: &DecisionOptions, reads_ec2: bool) -> Vec<ListedKind> {
    let mut kinds = ALWAYS_LISTED.to_vec();
    let mut add = |more: &[ListedKind]| {
        let new: Vec<_> = more.iter().filter(|kind| !kinds.contains(kind)).copied().collect();
        kinds.extend(new);
    };
    if !options.default_spread.is_empty() {
        add(&FOR_DEFAULT_SPREAD);
    }
    if options.gates.is_enabled(Gate::NodeOverlay) {
        add(&FOR_OVERLAYS);
    }
    if options.gates.is_enabled(Gate::CapacityBuffer) {
        add(&FOR_BUFFERS);
    }
    if !options.ignore_dynamic_resources {
        add(&FOR_DEVICES);
    }
    if reads_ec2 {
        add(&[EC2_NODE_CLASSES]);
    }
    kinds
}

/// Lists everything that a plan reads, with `reads_ec2` also the EC2NodeClasses. Calls `progress`
/// before each kind.
pub(crate) fn read_cluster(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    options: &DecisionOptions,
    reads_ec2: bool,
    progress: impl Fn(&str),
) -> Result<ClusterObjects, Box<Diagnostic>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Diagnostic::new("cannot start").found(error.to_string()))?;
    runtime.block_on(async {
        let client = connect(kubeconfig, context).await?;
        let mut gathered = ClusterObjects::default();
        let mut forbidden = Vec::new();
        for kind in kinds_to_list(options, reads_ec2) {
            progress(kind.3);
            match list_all_pages(&client, kind).await {
                Ok(objects) => {
                    for object in objects {
                        add_object(&mut gathered, object);
                    }
                }
                // No such CRD, so there are no objects.
                Err(Error::Api(status)) if status.code == 404 => {}
                Err(Error::Api(status)) if status.code == 403 => forbidden.push(kind),
                Err(error) => return Err(list_diagnostic(kind, &error)),
            }
        }
        if forbidden.is_empty() { Ok(gathered) } else { Err(forbidden_diagnostic(&forbidden)) }
    })
}

fn add_object(gathered: &mut ClusterObjects, object: Value) {
    let object_name = object_name(&object);
    if let Some(remark) = gathered.add(object) {
        gathered.remarks.push(Remark { object: object_name, ..remark });
    }
}

async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, Box<Diagnostic>> {
    const PROBLEM: &str = "no cluster to plan for";
    const FIX: &str = "name manifests with -f, or a cluster with --kubeconfig and --context";
    let config = kubeconfig::load_config(kubeconfig, context).await;
    let config = config.map_err(|error| error.diagnostic(PROBLEM).fix(FIX))?;
    let unusable = |error: Error| Diagnostic::new(PROBLEM).found(error_chain(&error)).fix(FIX);
    Ok(Client::try_from(config).map_err(unusable)?)
}

/// Lists every object of a kind, page by page.
async fn list_all_pages(client: &Client, kind: ListedKind) -> Result<Vec<Value>, Error> {
    let (group, version, kind, plural) = kind;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut restarts = 0;
    let mut objects = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(Error::Api(status)) if status.code == 410 && restarts < RESTARTS_MAX => {
                restarts += 1;
                objects.clear();
                params = ListParams::default().limit(PAGE);
                continue;
            }
            page => page?,
        };
        for object in page.items {
            let mut value = serde_json::to_value(object).map_err(Error::SerdeError)?;
            // Items of a list have neither kind nor version.
            value["apiVersion"] = resource.api_version.clone().into();
            value["kind"] = kind.into();
            objects.push(value);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

fn forbidden_diagnostic(kinds: &[ListedKind]) -> Box<Diagnostic> {
    let resource = |(group, _, _, plural): &ListedKind| match *group {
        "" => (*plural).to_owned(),
        group => format!("{plural}.{group}"),
    };
    let resources: Vec<_> = kinds.iter().map(resource).collect();
    let fix = format!(
        "grant the verb list on {} cluster-wide (kubectl create clusterrole plan --verb=list \
         --resource={}), or name manifests with -f",
        if kinds.len() == 1 { "it" } else { "them" },
        resources.join(","),
    );
    Diagnostic::new(format!("not allowed to list {}", resources.join(", "))).fix(fix).into()
}

fn list_diagnostic(kind: ListedKind, error: &Error) -> Box<Diagnostic> {
    let found = match error {
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => error_chain(error),
    };
    Diagnostic::new(format!("cannot list {}", kind.3))
        .found(found)
        .fix("see whether kubectl reaches the cluster with this kubeconfig and context")
        .into()
}
