//! Tests of pods with ResourceClaims (spec 20 §3.19), with `--ignore-dra-requests=false`.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::catalog::InstanceType;
use karpenter_core::scheduling::dra::{Attribute, Device, DeviceShape, SliceTemplate};
use karpenter_core::testing::default_types;

use super::super::decision::decide;
use super::*;
use crate::nodeclaim;
use crate::objects::provider_id;
use crate::testing::fixtures::has;

const DRIVER: &str = "gpu.example.com";
const TYPE: &str = "node.kubernetes.io/instance-type";

/// A process that allocates devices. Nodes of the two types will publish a device of a model each.
async fn with_devices() -> Bench {
    let options = Options { ignore_dra_requests: false, ..Options::default() };
    let bench = Bench::with_options(options).await;
    let model = |one: InstanceType| match one.name.as_str() {
        "default-instance-type" => publishing(one, "a10"),
        "gpu-vendor-instance-type" => publishing(one, "h100"),
        _ => one,
    };
    bench.cloud.set_types(default_types().into_iter().map(|one| model(one.build())));
    bench.run(super::super::all(&bench.context));
    bench.run(nodeclaim::all(&bench.context));
    // All of them, since a node that registers makes the pool's Ready be worked out again.
    let conditions = ["ValidationSucceeded", "NodeClassReady", "Ready"];
    let seen = json!({"observedGeneration": 1});
    let conditions = conditions.map(|type_| merged(condition(type_, "True"), &seen));
    bench.create(pool(POOL, &json!({"status": {"conditions": conditions}}))).await;
    let ours = format!("device.driver == '{DRIVER}'");
    bench
        .create(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": ours}}]},
        }))
        .await;
    bench
}

fn publishing(mut one: InstanceType, model: &str) -> InstanceType {
    let attributes = BTreeMap::from([("model".to_owned(), Attribute::Text(model.to_owned()))]);
    let shape = DeviceShape { driver: DRIVER.into(), attributes, ..DeviceShape::default() };
    let device = Device { name: "d0".into(), shape: Arc::new(shape), consumes: Vec::new() };
    one.dynamic_resources.templates.push(SliceTemplate {
        driver: DRIVER.into(),
        pool: "local".into(),
        devices: vec![device],
        counters: Vec::new(),
    });
    one
}

/// Creates a ResourceClaim for a device, and a pending pod with it.
async fn create_pod_with_device(bench: &Bench, name: &str, model: &str) {
    let selector = format!("device.attributes['{DRIVER}'].model == '{model}'");
    bench
        .create(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "gpu",
                "selectors": [{"cel": {"expression": selector}}],
            }}]}},
        }))
        .await;
    let container =
        json!({"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}});
    let spec = json!({
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "containers": [container],
    });
    bench.create(pending(name, &json!({"spec": spec}))).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_resource_claim_gets_a_node() {
    let bench = with_devices().await;
    create_pod_with_device(&bench, "train", "h100").await;
    bench.pass(BATCH).await;
    let made = claims(&bench);
    assert_eq!(made.len(), 1, "{:?}", bench.events());
    let drivers = made[0].annotations().get("karpenter.sh/requested-dra-drivers");
    assert_eq!(drivers.map(String::as_str), Some(DRIVER));
    let name = made[0].name_any();
    let claim = bench.claim(&name).await;
    assert!(has(&claim, "Launched", "True"), "{:?}", claim.status);
    let type_name = claim.labels()[TYPE].clone();
    assert_eq!(type_name, "gpu-vendor-instance-type", "it has the device");

    let labels = json!({TYPE: type_name, "topology.kubernetes.io/zone": "test-zone-1"});
    let capacity = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    let node = json!({
        "metadata": {"labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    });
    bench.join("n", provider_id(&claim), &node).await;
    bench.pass(BATCH).await;
    let claim = bench.claim(&name).await;
    assert!(has(&claim, "Registered", "True") && !has(&claim, "Initialized", "True"));
    bench
        .create(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "n-gpu"},
            "spec": {
                "driver": DRIVER,
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "h100"}}}],
            },
        }))
        .await;
    bench.pass(Duration::from_secs(30)).await;
    assert!(has(&bench.claim(&name).await, "Initialized", "True"), "its devices are published");

    // Templates do not count any more, so the published device has to be the one.
    let decided = decide(&bench.context).await.unwrap().expect("the pod is not bound yet");
    let plan = decided.plan.expect("there is a pool");
    let nodes =
        plan.existing_nodes.iter().map(|(node, _)| decided.snapshot.node(*node).name.as_str());
    assert_eq!(nodes.collect::<Vec<_>>(), ["n"], "{:?}", plan.rejected);

    create_pod_with_device(&bench, "second", "h100").await;
    bench.pass(BATCH).await;
    assert_eq!(claims(&bench).len(), 2, "the node has one device");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_unavailable_device_gets_no_node() {
    let bench = with_devices().await;
    create_pod_with_device(&bench, "train", "b200").await;
    bench.pass(BATCH).await;
    assert_eq!(claims(&bench), []);
    let events = bench.events();
    let text = "no instance type can satisfy the allocation";
    assert!(events.iter().any(|(_, events)| events.contains(text)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_dra_api_does_not_block_cache_sync() {
    let options = Options { ignore_dra_requests: false, ..Options::default() };
    let bench = Bench::with_options(options).await;
    let (broken, faults) = bench.with_faults();
    for kind in ["/resourceclaims", "/resourceslices", "/deviceclasses"] {
        faults.fail("GET", kind, 404);
    }
    let known = &bench.context;
    let cache =
        crate::Cache::new(&broken.client, &known.clock, &bench.context.provider, &known.options);
    cache.start(&bench.tasks);
    bench.pass(Duration::from_millis(500)).await;
    assert_eq!(cache.unsynced_kinds(), []);
    assert!(cache.resource_claims.last_error().is_some(), "it was asked for");
}
