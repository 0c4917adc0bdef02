//! Tests of the controller as a process on a real control plane: from a pending pod to a running
//! one, and from a deleted claim to no objects.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_e2e::tenant::{
    STEP_TIMEOUT, TestTenant, claim_condition, claim_node_name, pod_node_name,
};
use karpenter_e2e::wait;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use xtask::host::Stopwatch;

#[tokio::test]
async fn pending_pods_get_nodes_and_run() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("scale-up").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(12, "1", json!({})).await?;
    let pods = tenant.wait_for_running_pods(12).await?;

    let (claims, nodes) = (tenant.list_claims().await?, tenant.list_nodes().await?);
    let names = |items: &[&str]| items.iter().map(|name| (*name).to_owned()).collect();
    let of_pods: BTreeSet<String> = names(&pods.iter().map(pod_node_name).collect::<Vec<_>>());
    let of_claims: BTreeSet<String> =
        names(&claims.iter().filter_map(claim_node_name).collect::<Vec<_>>());
    let all: BTreeSet<String> = nodes.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(of_pods, all, "every node has pods");
    assert_eq!(of_claims, all, "every node has a claim");
    for claim in claims {
        let name = claim.name_any();
        let claim = tenant.wait_for_condition(&name, "Ready", "True").await?;
        for kind in ["Launched", "Registered", "Initialized"] {
            assert_eq!(claim_condition(&claim, kind)["status"], "True", "{name}: {kind}");
        }
    }
    for node in tenant.list_nodes().await? {
        let marks = [labels::REGISTERED, labels::INITIALIZED, labels::NODEPOOL];
        let found = marks.map(|label| node.labels().get(label).cloned().unwrap_or_default());
        assert_eq!(found, ["true", "true", "scale-up"], "{}", node.name_any());
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        assert_eq!(taints, [], "nothing keeps pods away");
    }
    Ok(())
}

#[tokio::test]
async fn a_deleted_claim_is_drained_and_its_pods_run_elsewhere() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("scale-down").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(3, "1", tenant.one_pod_per_node()).await?;
    tenant.wait_for_running_pods(3).await?;
    let claims = tenant.list_claims().await?;
    assert_eq!(claims.len(), 3);
    let name = claims[0].name_any();
    let claim = tenant.wait_for_condition(&name, "Initialized", "True").await?;

    tenant.delete_claim(&claim).await?;
    tenant.wait_until_deleted(std::slice::from_ref(&claim), STEP_TIMEOUT).await?;
    let pods = tenant.wait_for_running_pods(3).await?;

    let old = claim_node_name(&claim).unwrap_or_default();
    ensure!(pods.iter().all(|pod| pod_node_name(pod) != old), "a pod is still on {old}");
    let kept = tenant.list_claims().await?;
    let kept = kept.iter().filter(|claim| claims[1..].iter().any(|c| c.uid() == claim.uid()));
    assert_eq!(kept.count(), 2, "the others stay");
    Ok(())
}

#[tokio::test]
async fn deleting_a_node_pool_drains_and_deletes_its_nodes() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("pool-deleted").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(2, "1", tenant.one_pod_per_node()).await?;
    tenant.wait_for_running_pods(2).await?;
    let claims = tenant.list_claims().await?;
    assert_eq!(claims.len(), 2);

    let pools: Api<NodePool> = tenant.cluster_api();
    pools.delete(&tenant.name, &DeleteParams::default()).await?;
    tenant.wait_until_deleted(&claims, STEP_TIMEOUT).await?;

    assert_eq!(tenant.list_claims().await?.len(), 0, "nothing new comes for the pods");
    let pods = tenant.list_pods().await?;
    assert_eq!(pods.len(), 2, "their owner has made them again");
    ensure!(pods.iter().all(|pod| pod_node_name(pod).is_empty()), "there is no node for them");
    Ok(())
}

#[tokio::test]
async fn a_pdb_blocks_the_drain_until_the_pdb_is_deleted() -> Result<()> {
    let (cluster, tenant) = TestTenant::in_shared_cluster("budget").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(1, "1", json!({})).await?;
    let before = tenant.wait_for_running_pods(1).await?.remove(0);
    let budget = create_pdb(&tenant).await?;
    let claim = tenant.wait_for_claim().await?;
    let node = claim_node_name(&claim).unwrap_or_default().to_owned();

    let refused = async || {
        let labels = "code=\"429\"";
        cluster.controller.metric_sum("karpenter_pods_eviction_requests_total", labels).await
    };
    tenant.delete_claim(&claim).await?;
    let first = wait::until("evictions are refused", STEP_TIMEOUT, async || {
        Ok(Some(refused().await?).filter(|count| *count >= 3.0))
    });
    first.await?;
    let message = tenant.wait_for_event(&node, "FailedDraining").await?;
    ensure!(message.contains("Failed to drain node"), "{message}");
    let pods = tenant.list_pods().await?;
    assert_eq!(pods.len(), 1, "nobody makes a second one while the first is there");
    assert_eq!((pods[0].uid(), pod_node_name(&pods[0])), (before.uid(), node.as_str()), "it stays");
    let claim = tenant.wait_for_condition(&claim.name_any(), "Drained", "Unknown").await?;
    assert_eq!(claim_condition(&claim, "Drained")["reason"], "Draining");

    tenant
        .namespaced_api::<PodDisruptionBudget>()
        .delete(&budget, &DeleteParams::default())
        .await?;
    tenant.wait_until_deleted(std::slice::from_ref(&claim), STEP_TIMEOUT).await?;
    let after = tenant.wait_for_running_pods(1).await?.remove(0);
    ensure!(pod_node_name(&after) != node, "it runs elsewhere");
    Ok(())
}

#[tokio::test]
async fn the_termination_grace_period_overrides_pdbs() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("grace-period").await?;
    tenant.create_pool(json!({"spec": {"terminationGracePeriod": "12s"}})).await?;
    tenant.create_deployment(1, "1", json!({})).await?;
    let pod = tenant.wait_for_running_pods(1).await?.remove(0);
    create_pdb(&tenant).await?;
    let claim = tenant.wait_for_claim().await?;

    let watch = Stopwatch::start();
    tenant.delete_claim(&claim).await?;
    tenant.wait_until_deleted(std::slice::from_ref(&claim), STEP_TIMEOUT).await?;
    let took = watch.elapsed();
    // The pod wants 5 of the 12 seconds for itself.
    ensure!(took > Duration::from_secs(6), "the budget held nothing: {took:?}");
    let message = tenant.wait_for_event(&pod.name_any(), "Disrupted").await?;
    ensure!(message.contains("Deleting the pod to accommodate"), "{message}");
    let node = claim_node_name(&claim).unwrap_or_default();
    tenant.wait_for_event(node, "TerminationGracePeriodExpiring").await?;
    Ok(())
}

/// Creates a budget that forbids eviction of the tenant's pod; returns its name.
async fn create_pdb(tenant: &TestTenant) -> Result<String> {
    let budgets: Api<PodDisruptionBudget> = tenant.namespaced_api();
    let budget = json!({"metadata": {"name": "all"}, "spec": {
        "minAvailable": "100%", "selector": {"matchLabels": {"app": tenant.name}},
    }});
    tenant.create(&budgets, budget).await?;
    wait::until("the budget counts", STEP_TIMEOUT, async || {
        let status = budgets.get("all").await?.status;
        Ok(status
            .filter(|status| (status.expected_pods, status.current_healthy) == (Some(1), Some(1))))
    })
    .await?;
    Ok("all".to_owned())
}

#[tokio::test]
async fn node_termination_waits_until_volumes_are_detached() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("volumes").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(1, "1", json!({})).await?;
    tenant.wait_for_running_pods(1).await?;
    let claim = tenant.wait_for_claim().await?;
    let node = claim_node_name(&claim).unwrap_or_default().to_owned();
    let attachments: Api<VolumeAttachment> = tenant.cluster_api();
    let attachment = json!({"metadata": {"name": "e2e-volumes"}, "spec": {
        "attacher": "e2e.csi.test", "nodeName": node,
        "source": {"persistentVolumeName": "e2e-volumes"},
    }});
    tenant.create(&attachments, attachment).await?;

    tenant.delete_claim(&claim).await?;
    let name = claim.name_any();
    let claim = tenant.wait_for_condition(&name, "Drained", "True").await?;
    let waiting = tenant.wait_for_condition(&name, "VolumesDetached", "Unknown").await?;
    assert_eq!(claim_condition(&waiting, "VolumesDetached")["reason"], "AwaitingVolumeDetachment");
    let message = tenant.wait_for_event(&node, "AwaitingVolumeDetachment").await?;
    ensure!(message.contains("e2e-volumes"), "{message}");
    assert_eq!(tenant.list_nodes().await?.iter().filter(|n| n.name_any() == node).count(), 1);

    attachments.delete("e2e-volumes", &DeleteParams::default()).await?;
    tenant.wait_until_deleted(std::slice::from_ref(&claim), STEP_TIMEOUT).await
}

#[tokio::test]
async fn a_node_is_initialized_once_its_startup_taints_are_removed() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("startup-taints").await?;
    let taint = json!({"key": "e2e.test/starting", "effect": "NoSchedule"});
    tenant.create_pool(json!({"spec": {"startupTaints": [taint]}})).await?;
    tenant.create_deployment(2, "1", json!({})).await?;
    let name = tenant.wait_for_claim().await?.name_any();
    let claim = tenant.wait_for_condition(&name, "Registered", "True").await?;
    let claims: Api<NodeClaim> = tenant.cluster_api();
    wait::until("the taint is named", STEP_TIMEOUT, async || {
        let claim = claims.get(&name).await?;
        let why = claim_condition(&claim, "Initialized");
        Ok((why["status"] == "Unknown" && why["reason"] == "StartupTaintsExist").then_some(()))
    })
    .await?;
    ensure!(
        tenant.list_pods().await?.iter().all(|pod| pod_node_name(pod).is_empty()),
        "no pod gets on it"
    );
    assert_eq!(tenant.list_claims().await?.len(), 1, "the node is expected to take the pods");

    let nodes: Api<Node> = tenant.cluster_api();
    let node = claim_node_name(&claim).unwrap_or_default();
    wait::until("the taint goes", STEP_TIMEOUT, async || {
        // The node controller writes taints as well, so this may have to retry.
        let mut node = nodes.get(node).await?;
        let taints = node.spec.as_mut().and_then(|spec| spec.taints.as_mut());
        taints.context("it has taints")?.retain(|taint| taint.key != "e2e.test/starting");
        Ok(nodes.replace(&node.name_any(), &PostParams::default(), &node).await.ok())
    })
    .await?;
    tenant.wait_for_condition(&name, "Initialized", "True").await?;
    tenant.wait_for_running_pods(2).await?;
    assert_eq!(tenant.list_claims().await?.len(), 1, "no other node came");
    Ok(())
}

#[tokio::test]
async fn an_unregistered_claim_is_deleted_after_the_registration_timeout() -> Result<()> {
    let (cluster, tenant) = TestTenant::in_shared_cluster("liveness").await?;
    tenant.create_pool_with_class(json!({"nodeRegistrationDelay": "1h"}), json!({})).await?;
    let deployment = tenant.create_deployment(1, "1", json!({})).await?;
    let name = tenant.wait_for_claim().await?.name_any();
    tenant.wait_for_condition(&name, "Launched", "True").await?;
    // Without this, the Deployment would get another claim.
    tenant
        .namespaced_api::<Deployment>()
        .delete(&deployment.name_any(), &DeleteParams::default())
        .await?;
    wait::until("no pod is left", STEP_TIMEOUT, async || {
        Ok(tenant.list_pods().await?.is_empty().then_some(()))
    })
    .await?;

    // A test cannot wait a quarter of an hour: the claim's status is set back.
    let claims: Api<NodeClaim> = tenant.cluster_api();
    wait::until("the time has passed", STEP_TIMEOUT, async || {
        let mut claim = serde_json::to_value(claims.get(&name).await?)?;
        let conditions = claim["status"]["conditions"].as_array_mut();
        for condition in conditions.context("a launched claim has conditions")? {
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        }
        let claim = serde_json::from_value(claim)?;
        Ok(claims.replace_status(&name, &PostParams::default(), &claim).await.ok())
    })
    .await?;
    wait::until("the claim goes", STEP_TIMEOUT, async || {
        Ok(claims.get_opt(&name).await?.is_none().then_some(()))
    })
    .await?;
    let counted = "reason=\"registration_timeout\"";
    let count =
        cluster.controller.metric_sum("karpenter_nodeclaims_disrupted_total", counted).await?;
    ensure!(count >= 1.0, "it is counted");
    Ok(())
}

#[tokio::test]
async fn a_claim_without_capacity_is_deleted_and_gets_an_event() -> Result<()> {
    let (_, tenant) = TestTenant::in_shared_cluster("no-capacity").await?;
    tenant.create_pool(json!({})).await?;
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": tenant.name});
    let claims: Api<NodeClaim> = tenant.cluster_api();
    let claim = json!({"metadata": {"name": "no-capacity"}, "spec": {
        "nodeClassRef": class,
        "requirements": [
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c-1x-amd64-linux"]},
            {"key": labels::ZONE, "operator": "In", "values": ["nowhere"]},
        ],
    }});
    tenant.create(&claims, claim).await?;
    wait::until("the claim goes", STEP_TIMEOUT, async || {
        Ok(claims.get_opt("no-capacity").await?.is_none().then_some(()))
    })
    .await?;
    let message = tenant.wait_for_event("no-capacity", "InsufficientCapacityError").await?;
    ensure!(message.contains("no available offering"), "{message}");
    Ok(())
}

#[tokio::test]
async fn probes_respond_while_300_pods_start() -> Result<()> {
    let (cluster, tenant) = TestTenant::in_shared_cluster("probes").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(300, "1", json!({})).await?;
    let mut slowest = Duration::ZERO;
    let mut probe_count = 0;
    wait::until("300 pods run", STEP_TIMEOUT, async || {
        for path in ["/healthz", "/readyz"] {
            let watch = Stopwatch::start();
            let answer = cluster.controller.probe(path).await?;
            ensure!(answer.code == 200, "{path}: {answer:?}");
            slowest = slowest.max(watch.elapsed());
            probe_count += 1;
        }
        let deployment = tenant.namespaced_api::<Deployment>().get(&tenant.name).await?;
        let ready = deployment.status.and_then(|status| status.ready_replicas);
        Ok((ready == Some(300)).then_some(()))
    })
    .await?;
    ensure!(probe_count > 20, "{probe_count} is too few to say anything");
    // Two cores for everything here, and a kubelet waits for a second.
    ensure!(slowest < Duration::from_secs(1), "a probe took {slowest:?}");
    Ok(())
}
