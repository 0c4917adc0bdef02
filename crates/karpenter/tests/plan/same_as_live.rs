//! Compares plans of files with plans of a live cluster that has the same objects.
//!
//! The live cluster is the embedded API over HTTPS. The test writes what controllers would write
//! there: statuses, and the pods of workloads. The files get what no file can know: the uids and
//! times that the API has chosen, because they decide ties.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::kinds::{ManifestKind, ObjectReader};
use karpenter_apiserver::testing::environment::TestEnvironment;
use karpenter_apiserver::{Api, ApiOptions, Server};
use kube::Client;
use kube::api::{
    Api as Resources, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch,
    PatchParams, PostParams,
};
use serde_json::{Value, json};

use super::*;

#[test]
fn recorded_clusters_have_the_same_plan_live() {
    assert_same_plans(recorded_clusters("parity"), &[]);
}

#[test]
fn recorded_clusters_have_the_same_consolidation_live() {
    assert_same_plans(recorded_clusters("consolidation"), &["--consolidate"]);
}

#[test]
fn the_clusters_of_the_documentation_have_the_same_plan_live() {
    let folder = scenarios();
    let mut clusters = vec![
        Cluster::of_files(&[folder.join("pending.yaml")]),
        Cluster::of_files(&[folder.join("shop/nodepools.yaml"), folder.join("shop/apps.yaml")]),
    ];
    for entry in std::fs::read_dir(folder.join("recorded")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            clusters.push(Cluster::of_files(&[path]));
        }
    }
    assert!(clusters.len() >= 7);
    assert_same_plans(clusters, &[]);
    let consolidate = Cluster::of_files(&[folder.join("consolidate.yaml")]);
    assert_same_plans(vec![consolidate], &["--consolidate"]);
}

#[test]
fn objects_that_rely_on_defaults_have_the_same_plan_live() {
    let cluster =
        Cluster { name: "defaults".to_owned(), objects: documents(DEFAULTS), args: vec![] };
    assert_same_plans(vec![cluster], &[]);
}

/// Objects that mean something else without the defaults and the admission of the API.
const DEFAULTS: &str = r#"
{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"}, "spec": {"limits": {"cpu": 500}, "template": {"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}], "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}}}
---
{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "normal"}, "value": 10, "globalDefault": true}
---
{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "3", "memory": "1Gi"}}, "scheduling": {"nodeSelector": {"kubernetes.io/arch": "arm64"}}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["test-zone-b"]}]}]}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "limits"}, "spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": 6, "memory": "1Gi"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vm"}, "spec": {"runtimeClassName": "vm", "priorityClassName": "system-node-critical", "containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "disk"}, "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}], "containers": [{"name": "c", "image": "x"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web", "version": "2"}}, "spec": {"initContainers": [{"name": "i", "image": "x", "resources": {"limits": {"memory": "9Gi"}}}], "containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "5"}, "requests": {"cpu": "2"}}}], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["version"]}]}}}}
---
{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "500m"}}}]}}}}
"#;

/// The objects of one cluster, and the arguments for its plan.
struct Cluster {
    name: String,
    objects: Vec<Value>,
    args: Vec<String>,
}

impl Cluster {
    fn of_files(files: &[PathBuf]) -> Self {
        let text = |path: &PathBuf| documents(&std::fs::read_to_string(path).unwrap());
        Self {
            name: files[0].display().to_string(),
            objects: files.iter().flat_map(text).collect(),
            args: vec!["--now".to_owned(), NOW.to_owned()],
        }
    }
}

/// Later than all times of the clusters.
const NOW: &str = "2026-09-01T00:00:00Z";

fn documents(text: &str) -> Vec<Value> {
    let parts = format!("\n{text}");
    let values = parts.split("\n---").map(|part| serde_saphyr::from_str::<Value>(part).unwrap());
    values.filter(|value| !value.is_null()).collect()
}

/// Returns the clusters of a folder that upstream has decided about as well, with its flags.
fn recorded_clusters(folder: &str) -> Vec<Cluster> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let clusters = folders.filter(|path| path.is_dir()).map(|folder| {
        let upstream = std::fs::read(folder.join("upstream.json")).unwrap();
        let upstream: Value = serde_json::from_slice(&upstream).unwrap();
        let mut cluster = Cluster::of_files(&[folder.join("snapshot.yaml")]);
        let flags = upstream["flags"].as_array().into_iter().flatten();
        cluster.args.extend(flags.map(|flag| flag.as_str().unwrap().to_owned()));
        let types = folder.join("instance-types.json");
        if types.exists() {
            cluster.args.extend(["--instance-types".to_owned(), types.display().to_string()]);
        }
        cluster
    });
    clusters.collect()
}

#[track_caller]
fn assert_same_plans(clusters: Vec<Cluster>, args: &[&str]) {
    let left = Mutex::new(clusters);
    let differences = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(cluster) = left.lock().unwrap().pop() else { break };
                    differences.lock().unwrap().extend(difference(&cluster, args));
                }
            });
        }
    });
    let mut differences = differences.into_inner().unwrap();
    differences.sort();
    assert!(differences.is_empty(), "{} clusters\n{}", differences.len(), differences.join("\n"));
}

/// Returns a kubeconfig for the server, in JSON.
fn kubeconfig_text(server: &Server) -> String {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(server.ca_pem());
    let cluster = json!({"server": server.url(), "certificate-authority-data": ca});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "live",
        "clusters": [{"name": "live", "cluster": cluster}],
        "users": [{"name": "live", "user": {"token": server.token()}}],
        "contexts": [{"name": "live", "context": {"cluster": "live", "user": "live"}}],
    })
    .to_string()
}

/// Returns the first field in which the plan of the files and the live plan differ.
fn difference(cluster: &Cluster, args: &[&str]) -> Option<String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = folder(&[]);
    let kubeconfig = directory.path().join("config");
    let files = runtime.block_on(async {
        let options = ApiOptions { service_accounts: false };
        let api = Api::with_options(Arc::new(TestEnvironment::new()), options);
        let loader = Loader::new(Client::new(api.service(), "default"));
        let files = loader.load(&cluster.objects).await;
        let server = Server::listen(&api, 0).await.unwrap();
        std::fs::write(&kubeconfig, kubeconfig_text(&server)).unwrap();
        runtime.spawn(server.run());
        files
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": files}).to_string();
    std::fs::write(directory.path().join("files.json"), list).unwrap();
    let own = cluster.args.iter().map(String::as_str);
    let all: Vec<_> = ["--provider", "kwok", "-o", "json"].into_iter().chain(own).collect();
    let all = [all.as_slice(), args].concat();
    let from_files = plan(directory.path(), &[all.as_slice(), &["-f", "files.json"]].concat(), "");
    let live = plan(directory.path(), &[all.as_slice(), &["--kubeconfig", "config"]].concat(), "");
    let (from_files, live) = (comparable(from_files.json()), comparable(live.json()));
    let fields = from_files.as_object().unwrap();
    let differs = |(name, value): (&String, &Value)| {
        (*value != live[name])
            .then(|| format!("{}: {name}\n files {value}\n live  {}", cluster.name, live[name]))
    };
    fields.iter().find_map(differs)
}

/// Removes what files and live clusters cannot have in common: durations, places in files, and
/// remarks and notes about what only files leave out.
fn comparable(mut plan: Value) -> Value {
    let fields = plan.as_object_mut().unwrap();
    for name in ["seconds", "setupSeconds", "expanded", "notes"] {
        fields.remove(name);
    }
    let is_about_files = |remark: &Value| {
        remark["field"] == "status" && remark["object"].to_string().contains("DisruptionBudget")
    };
    if let Some(remarks) = fields.get_mut("marked").and_then(Value::as_array_mut) {
        remarks.retain(|remark| !is_about_files(remark));
        for remark in remarks {
            remark.as_object_mut().unwrap().remove("place");
        }
    }
    plan
}

/// Creates objects in the embedded API, with the writes of the controllers that are not there.
struct Loader {
    client: Client,
    /// The uids of created objects, by kind and name.
    uids: Mutex<BTreeMap<(String, String), String>>,
}

impl Loader {
    fn new(client: Client) -> Self {
        Self { client, uids: Mutex::default() }
    }

    /// Creates the objects, and returns them as files with the same identities.
    async fn load(&self, objects: &[Value]) -> Vec<Value> {
        for crd in crds(CrdSet::Kwok) {
            self.create(&crd).await;
        }
        let mut objects = objects.to_vec();
        objects.iter_mut().for_each(make_valid);
        let classes = missing_classes(&mut objects);
        objects.extend(classes);
        for namespace in missing_namespaces(&objects) {
            self.create(&namespace).await;
            objects.push(namespace);
        }
        objects.sort_by_key(|object| creation_rank(object["kind"].as_str().unwrap()));
        let mut files = Vec::new();
        for mut object in objects {
            self.adopt(&mut object).await;
            // An invalid pod is in no cluster.
            if !self.create_with_status(&mut object).await {
                continue;
            }
            for mut made in controller_objects(&object) {
                self.adopt(&mut made).await;
                assert!(self.create_with_status(&mut made).await, "{made}");
                files.push(made);
            }
            files.push(object);
        }
        // The order of lists.
        files.sort_by_cached_key(key);
        files
    }

    fn resources(&self, object: &Value) -> Resources<DynamicObject> {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => {
                Resources::namespaced_with(self.client.clone(), namespace, &resource)
            }
            None => Resources::all_with(self.client.clone(), &resource),
        }
    }

    fn uid(&self, object: &Value) -> Option<String> {
        self.uids.lock().unwrap().get(&key(object)).cloned()
    }

    /// Creates an object. Returns nothing for a pod that the API rejects as invalid.
    async fn create(&self, object: &Value) -> Option<DynamicObject> {
        let new: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let resources = self.resources(object);
        let created = match resources.create(&PostParams::default(), &new).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                // A namespace of every cluster: only its labels matter.
                let labels = Patch::Merge(json!({"metadata": {"labels": new.metadata.labels}}));
                let name = new.metadata.name.as_deref().unwrap();
                resources.patch(name, &PatchParams::default(), &labels).await
            }
            Err(kube::Error::Api(status)) if status.code == 422 && object["kind"] == "Pod" => {
                return None;
            }
            created => created,
        };
        let created = created.unwrap_or_else(|error| panic!("{error}: {object}"));
        let uid = created.metadata.uid.clone().unwrap();
        self.uids.lock().unwrap().insert(key(object), uid);
        Some(created)
    }

    /// Makes the owners of an object exist: the API deletes objects without their owners.
    async fn adopt(&self, object: &mut Value) {
        if NAMESPACED.contains(&object["kind"].as_str().unwrap())
            && object["metadata"]["namespace"].is_null()
        {
            object["metadata"]["namespace"] = "default".into();
        }
        let namespace = object["metadata"]["namespace"].clone();
        let owners = object["metadata"]["ownerReferences"].as_array_mut();
        for owner in owners.into_iter().flatten() {
            let mut stub = json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "metadata": {"name": owner["name"]},
                "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"stub": "x"}},
                    "template": {
                        "metadata": {"labels": {"stub": "x"}},
                        "spec": {"containers": [{"name": "c", "image": "x"}]},
                    },
                },
            });
            if NAMESPACED.contains(&owner["kind"].as_str().unwrap()) {
                stub["metadata"]["namespace"] = namespace.clone();
            }
            if self.uid(&stub).is_none() {
                self.create(&stub).await;
            }
            owner["uid"] = self.uid(&stub).into();
        }
    }

    /// Creates an object and writes its status; the object gets the identity of the created one.
    /// Returns whether the API accepts it.
    async fn create_with_status(&self, object: &mut Value) -> bool {
        const FINALIZER: &str = "example.com/keep";
        let mut new = object.clone();
        let metadata = new["metadata"].as_object_mut().unwrap();
        for name in ["uid", "creationTimestamp", "resourceVersion"] {
            metadata.remove(name);
        }
        let is_deleting = metadata.remove("deletionTimestamp").is_some();
        if is_deleting {
            metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
        }
        let Some(mut live) = self.create(&new).await else { return false };
        let name = live.metadata.name.clone().unwrap();
        let resources = self.resources(object);
        if object["kind"] == "Node" {
            // Admission taints a new node until the node lifecycle controller sees that it is ready.
            let taints = Patch::Merge(json!({"spec": {"taints": object["spec"]["taints"]}}));
            live = resources.patch(&name, &PatchParams::default(), &taints).await.unwrap();
        }
        if let Some(status) = controller_status(object) {
            live.data["status"] = status;
            let updated = resources.replace_status(&name, &PostParams::default(), &live).await;
            live = updated.unwrap_or_else(|error| panic!("{error}: {object}"));
        }
        if is_deleting {
            resources.delete(&name, &DeleteParams::default()).await.unwrap();
            live = resources.get(&name).await.unwrap();
        }
        assert_complete(&json!(live));
        let live = json!(live.metadata);
        for name in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        {
            if !live[name].is_null() {
                object["metadata"][name] = live[name].clone();
            }
        }
        true
    }
}

/// Asserts that completing an object that the API has stored changes nothing.
#[track_caller]
fn assert_complete(live: &Value) {
    let Some(kind) = ManifestKind::find(live) else { return };
    let mut completed = live.clone();
    kind.check(live).unwrap();
    kind.complete(&mut completed, &NoObjects);
    assert_eq!(completed, *live);
}

/// A cluster without the classes that admission reads.
#[derive(Debug)]
struct NoObjects;

impl ObjectReader for NoObjects {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn labels(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Vec<(String, String)>> {
        None
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
        Vec::new()
    }
}

const NAMESPACED: [&str; 11] = [
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "Service",
    "StatefulSet",
];

fn key(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    (text(&object["kind"]), name)
}

/// Owners and what admission reads come first, in the order of the files otherwise.
fn creation_rank(kind: &str) -> usize {
    match kind {
        "Namespace" => 0,
        "PriorityClass" | "RuntimeClass" | "StorageClass" => 1,
        "NodePool" => 2,
        "NodeClaim" => 3,
        "Pod" => 5,
        _ => 4,
    }
}

/// Adds what the API requires of an object and plans do not read.
fn make_valid(object: &mut Value) {
    for spec in ["/spec", "/spec/template/spec"] {
        for list in ["containers", "initContainers"] {
            let containers = object.pointer_mut(&format!("{spec}/{list}"));
            for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().unwrap().entry("image").or_insert("x".into());
                let Some(requests) = container["resources"]["requests"].as_object().cloned() else {
                    continue;
                };
                for (name, amount) in requests.into_iter().filter(|(name, _)| name.contains('/')) {
                    container["resources"]["limits"][name] = amount;
                }
            }
        }
    }
    let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        let spec = claim["spec"].as_object_mut().unwrap();
        spec.entry("accessModes").or_insert(json!(["ReadWriteOnce"]));
    }
}

/// Gives pods with a priority or an overhead a class that says so, as they have in a cluster.
fn missing_classes(objects: &mut [Value]) -> Vec<Value> {
    let mut classes = BTreeMap::new();
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        let spec = &mut pod["spec"];
        if let Some(value) = spec["priority"].as_i64().filter(|value| *value != 0) {
            let name = match value {
                2_000_000_000 => "system-cluster-critical".to_owned(),
                2_000_001_000 => "system-node-critical".to_owned(),
                value => format!("value{value}"),
            };
            spec["priorityClassName"] = name.clone().into();
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value});
            classes.insert(name, class);
        }
        if !spec["overhead"].is_null() {
            let text = spec["overhead"].to_string();
            let is_word = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit();
            let name: String = text.to_lowercase().chars().filter(is_word).collect();
            spec["runtimeClassName"] = name.clone().into();
            let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                "metadata": {"name": name}, "handler": "x",
                "overhead": {"podFixed": spec["overhead"]}});
            classes.insert(name, class);
        }
    }
    classes.retain(|name, _| !name.starts_with("system-"));
    classes.into_values().collect()
}

/// Returns the namespaces that a new cluster does not have.
fn missing_namespaces(objects: &[Value]) -> Vec<Value> {
    let given = |name: &str| {
        objects
            .iter()
            .any(|object| object["kind"] == "Namespace" && object["metadata"]["name"] == name)
    };
    let mut names: Vec<_> =
        objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !given(name) && !["default", "kube-system"].contains(name));
    let namespace =
        |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    names.into_iter().map(namespace).collect()
}

/// Returns the status that a controller has written: that of the file, else that of a new object.
fn controller_status(object: &Value) -> Option<Value> {
    let given = object.get("status").cloned();
    match object["kind"].as_str().unwrap() {
        // Created with its status.
        "Node" => None,
        "Pod" if given.is_none() && object["spec"]["nodeName"].is_null() => Some(json!({
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            ],
        })),
        "NodePool" if given.is_none() => Some(json!({"conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})),
        _ => given,
    }
}

/// Returns the pods and claims of a workload as its controller makes them.
fn controller_objects(workload: &Value) -> Vec<Value> {
    let kind = workload["kind"].as_str().unwrap();
    let spec = &workload["spec"];
    let count = match kind {
        "Deployment" | "StatefulSet" => spec["replicas"].as_u64().unwrap_or(1),
        "Job" => spec["parallelism"].as_u64().unwrap_or(1),
        _ => return Vec::new(),
    };
    let (name, namespace) = (&workload["metadata"]["name"], &workload["metadata"]["namespace"]);
    let name = name.as_str().unwrap();
    let mut objects = Vec::new();
    for number in 0..count {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "spec": spec["template"]["spec"],
            "metadata": spec["template"]["metadata"],
        });
        let pod_name = format!("{name}-{number}");
        pod["metadata"]["name"] = pod_name.clone().into();
        pod["metadata"]["namespace"] = namespace.clone();
        let (api_version, kind) = match kind {
            "Deployment" => ("apps/v1", "ReplicaSet"),
            kind => (workload["apiVersion"].as_str().unwrap(), kind),
        };
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": api_version, "kind": kind, "name": name, "uid": "", "controller": true,
        }]);
        for template in spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let volume = template["metadata"]["name"].as_str().unwrap();
            let claim = format!("{volume}-{pod_name}");
            objects.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": template["spec"],
                "metadata": {"name": claim, "namespace": namespace},
            }));
            let volumes = json!([{"name": volume, "persistentVolumeClaim": {"claimName": claim}}]);
            pod["spec"]["volumes"] = volumes;
        }
        objects.push(pod);
    }
    objects
}
