//! Tests of KWOK nodes with a fault that a reboot repairs, or does not (spec 45 §16).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::conditions::REBOOTING;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_kwok::repair::REBOOT_REQUIRED;
use karpenter_operator::options::{FeatureGates, Gate, Options};
use karpenter_sim::world::{World, controllers};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{apply, list_all, pool, web_apart};

/// Enough seconds to tolerate a fault, drain, reboot and check again.
const REPAIR_SECONDS: u32 = 300;

/// A world whose product repairs nodes, with so many nodes of one pod each. One node may be
/// disrupted at a time.
async fn world(nodes: usize) -> World {
    let feature_gates = FeatureGates::default().with_gate(Gate::NodeRepair, true);
    let options = Options { feature_gates, ..Options::default() };
    let world = super::world(1).with_product(controllers(options));
    world.begin().await.unwrap();
    apply(&world, &pool(&json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}))).await;
    let mut web = web_apart(nodes);
    // A pod that is still ending would keep its successor off the node.
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0);
    apply(&world, &web).await;
    seconds(&world, 120).await;
    assert_eq!(
        list_all::<Node>(&world).await.iter().filter(|node| is_initialized(node)).count(),
        nodes
    );
    world
}

async fn seconds(world: &World, count: u64) {
    world.clock.sleep(Duration::from_secs(count)).await;
}

/// Says that a node has to be rebooted, or not.
async fn set_fault(world: &World, node: &str, status: &str) {
    let now = world.clock.now().to_string();
    let fault = json!({"type": REBOOT_REQUIRED, "status": status, "reason": "Test",
        "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now});
    let patch = Patch::Strategic(json!({"status": {"conditions": [fault]}}));
    let nodes = Api::<Node>::all(world.client());
    nodes.patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

fn boot_id(node: &Node) -> String {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.clone()).unwrap_or_default()
}

fn has_rebooting_taint(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == karpenter_api::taints::REBOOTING)
}

fn is_initialized(node: &Node) -> bool {
    node.labels().get("karpenter.sh/initialized").map(String::as_str) == Some("true")
}

fn has_condition(claim: &NodeClaim, condition: &str, status: &str) -> bool {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == condition && one.status == status)
}

fn is_rebooting(claim: &NodeClaim) -> bool {
    has_condition(claim, REBOOTING, "True")
}

/// Returns the name of the only object.
#[track_caller]
fn only_name<K: kube::Resource>(objects: &[K]) -> String {
    let [only] = objects else { panic!("there are {}", objects.len()) };
    only.meta().name.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_repaired_by_a_reboot_keeps_its_node_claim() {
    let world = world(1).await;
    let (claims, nodes) = (list_all::<NodeClaim>(&world).await, list_all::<Node>(&world).await);
    let (claim, node) = (only_name(&claims), only_name(&nodes));
    set_fault(&world, &node, "True").await;
    let (mut was_rebooting, mut was_fenced) = (false, false);
    for _ in 0..REPAIR_SECONDS {
        let now = list_all::<NodeClaim>(&world).await;
        assert_eq!(only_name(&now), claim, "45/KW-1: no second one");
        if is_rebooting(&now[0]) && !was_rebooting {
            was_rebooting = true;
            set_fault(&world, &node, "False").await;
        }
        was_fenced |= list_all::<Node>(&world).await.iter().any(has_rebooting_taint);
        seconds(&world, 1).await;
    }
    assert!(was_rebooting && was_fenced, "45/KW-1");
    let (claims, now) = (list_all::<NodeClaim>(&world).await, list_all::<Node>(&world).await);
    assert!(has_condition(&claims[0], REBOOTING, "False"), "45/KW-1: {:?}", claims[0].status);
    assert!(has_condition(&claims[0], "Initialized", "True"), "45/KW-1");
    assert_eq!(now[0].uid(), nodes[0].uid(), "45/KW-1: the same Node");
    assert_ne!(boot_id(&now[0]), boot_id(&nodes[0]), "45/KW-1");
    assert!(is_initialized(&now[0]) && !has_rebooting_taint(&now[0]), "45/KW-1");
    let pods = list_all::<Pod>(&world).await;
    let on = pods[0].spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    assert_eq!((pods.len(), on), (1, Some(node.as_str())), "its pod is back");
    assert_eq!(world.panics(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_not_repaired_by_two_reboots_is_replaced() {
    let world = world(1).await;
    let nodes = list_all::<Node>(&world).await;
    let (claim, node) = (only_name(&list_all::<NodeClaim>(&world).await), only_name(&nodes));
    set_fault(&world, &node, "True").await;
    let mut boots = BTreeSet::from([boot_id(&nodes[0])]);
    for _ in 0..3 * REPAIR_SECONDS {
        let now = list_all::<Node>(&world).await;
        boots.extend(now.iter().filter(|one| one.name_any() == node).map(boot_id));
        seconds(&world, 1).await;
    }
    assert_eq!(boots.len(), 3, "45/KW-2: the first boot and two more: {boots:?}");
    assert_ne!(only_name(&list_all::<NodeClaim>(&world).await), claim, "45/KW-2");
    assert_ne!(list_all::<Node>(&world).await[0].uid(), nodes[0].uid(), "45/KW-2");
    assert_eq!(world.panics(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_disruption_budget_limits_concurrent_reboots() {
    let world = world(10).await;
    let before = list_all::<Node>(&world).await;
    let faulted = [before[2].name_any(), before[7].name_any()];
    for node in &faulted {
        set_fault(&world, node, "True").await;
    }
    let mut begun = BTreeSet::new();
    for _ in 0..2 * REPAIR_SECONDS {
        let claims = list_all::<NodeClaim>(&world).await;
        let rebooting: Vec<_> = claims.iter().filter(|claim| is_rebooting(claim)).collect();
        assert!(rebooting.len() <= 1, "45/KW-3");
        for claim in rebooting {
            let node = claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap();
            if begun.insert(node.clone()) {
                set_fault(&world, &node, "False").await;
            }
        }
        seconds(&world, 1).await;
    }
    assert_eq!(begun, faulted.clone().into(), "45/KW-3");
    let boots = |nodes: &[Node]| -> BTreeMap<String, String> {
        nodes.iter().map(|node| (node.name_any(), boot_id(node))).collect()
    };
    let (before, after) = (boots(&before), boots(&list_all::<Node>(&world).await));
    let names = |boots: &BTreeMap<String, String>| boots.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "45/KW-3: they are the same nodes");
    let rebooted = after.iter().filter(|(name, boot)| before[*name] != **boot);
    let rebooted: BTreeSet<_> = rebooted.map(|(name, _)| name.clone()).collect();
    assert_eq!(rebooted, begun, "45/KW-3");
    assert_eq!(world.panics(), 0);
    world.end().await;
}
