//! From a pending pod to a running one, and from a deleted claim to nothing: the product as a
//! process on a real control plane.

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
use karpenter_e2e::site::{LIMIT, Site, condition, node_name, node_of};
use karpenter_e2e::wait;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use xtask::host::Stopwatch;

#[tokio::test]
async fn pending_pods_get_nodes_and_run() -> Result<()> {
    let (_, site) = Site::shared("scale-up").await?;
    site.pool(json!({})).await?;
    site.deploy(12, "1", json!({})).await?;
    let pods = site.running(12).await?;

    let (claims, nodes) = (site.claims().await?, site.nodes().await?);
    let names = |items: &[&str]| items.iter().map(|name| (*name).to_owned()).collect();
    let of_pods: BTreeSet<String> = names(&pods.iter().map(node_of).collect::<Vec<_>>());
    let of_claims: BTreeSet<String> =
        names(&claims.iter().filter_map(node_name).collect::<Vec<_>>());
    let all: BTreeSet<String> = nodes.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(of_pods, all, "every node has pods");
    assert_eq!(of_claims, all, "every node has a claim");
    for claim in claims {
        let name = claim.name_any();
        let claim = site.condition(&name, "Ready", "True").await?;
        for kind in ["Launched", "Registered", "Initialized"] {
            assert_eq!(condition(&claim, kind)["status"], "True", "{name}: {kind}");
        }
    }
    for node in site.nodes().await? {
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
    let (_, site) = Site::shared("scale-down").await?;
    site.pool(json!({})).await?;
    site.deploy(3, "1", site.apart()).await?;
    site.running(3).await?;
    let claims = site.claims().await?;
    assert_eq!(claims.len(), 3);
    let name = claims[0].name_any();
    let claim = site.condition(&name, "Initialized", "True").await?;

    site.delete_claim(&claim).await?;
    site.gone(std::slice::from_ref(&claim), LIMIT).await?;
    let pods = site.running(3).await?;

    let old = node_name(&claim).unwrap_or_default();
    ensure!(pods.iter().all(|pod| node_of(pod) != old), "a pod is still on {old}");
    let kept = site.claims().await?;
    let kept = kept.iter().filter(|claim| claims[1..].iter().any(|c| c.uid() == claim.uid()));
    assert_eq!(kept.count(), 2, "the others stay");
    Ok(())
}

#[tokio::test]
async fn all_nodes_of_a_deleted_pool_drain_and_go() -> Result<()> {
    let (_, site) = Site::shared("pool-deleted").await?;
    site.pool(json!({})).await?;
    site.deploy(2, "1", site.apart()).await?;
    site.running(2).await?;
    let claims = site.claims().await?;
    assert_eq!(claims.len(), 2);

    let pools: Api<NodePool> = site.all();
    pools.delete(&site.name, &DeleteParams::default()).await?;
    site.gone(&claims, LIMIT).await?;

    assert_eq!(site.claims().await?.len(), 0, "nothing new comes for the pods");
    let pods = site.pods().await?;
    assert_eq!(pods.len(), 2, "their owner has made them again");
    ensure!(pods.iter().all(|pod| node_of(pod).is_empty()), "there is no node for them");
    Ok(())
}

#[tokio::test]
async fn a_budget_holds_a_drain_until_it_agrees() -> Result<()> {
    let (cluster, site) = Site::shared("budget").await?;
    site.pool(json!({})).await?;
    site.deploy(1, "1", json!({})).await?;
    let before = site.running(1).await?.remove(0);
    let budget = budget(&site).await?;
    let claim = site.claim().await?;
    let node = node_name(&claim).unwrap_or_default().to_owned();

    let refused = async || {
        let labels = "code=\"429\"";
        cluster.controller.metric("karpenter_pods_eviction_requests_total", labels).await
    };
    site.delete_claim(&claim).await?;
    let first = wait::until("evictions are refused", LIMIT, async || {
        Ok(Some(refused().await?).filter(|count| *count >= 3.0))
    });
    first.await?;
    let told = site.event(&node, "FailedDraining").await?;
    ensure!(told.contains("Failed to drain node"), "{told}");
    let pods = site.pods().await?;
    assert_eq!(pods.len(), 1, "nobody makes a second one while the first is there");
    assert_eq!((pods[0].uid(), node_of(&pods[0])), (before.uid(), node.as_str()), "it stays");
    let claim = site.condition(&claim.name_any(), "Drained", "Unknown").await?;
    assert_eq!(condition(&claim, "Drained")["reason"], "Draining");

    site.own::<PodDisruptionBudget>().delete(&budget, &DeleteParams::default()).await?;
    site.gone(std::slice::from_ref(&claim), LIMIT).await?;
    let after = site.running(1).await?.remove(0);
    ensure!(node_of(&after) != node, "it runs elsewhere");
    Ok(())
}

#[tokio::test]
async fn the_termination_grace_period_beats_budgets() -> Result<()> {
    let (_, site) = Site::shared("grace-period").await?;
    site.pool(json!({"spec": {"terminationGracePeriod": "12s"}})).await?;
    site.deploy(1, "1", json!({})).await?;
    let pod = site.running(1).await?.remove(0);
    budget(&site).await?;
    let claim = site.claim().await?;

    let watch = Stopwatch::start();
    site.delete_claim(&claim).await?;
    site.gone(std::slice::from_ref(&claim), LIMIT).await?;
    let took = watch.elapsed();
    // The pod wants 5 of the 12 seconds for itself.
    ensure!(took > Duration::from_secs(6), "the budget held nothing: {took:?}");
    let told = site.event(&pod.name_any(), "Disrupted").await?;
    ensure!(told.contains("Deleting the pod to accommodate"), "{told}");
    let node = node_name(&claim).unwrap_or_default();
    site.event(node, "TerminationGracePeriodExpiring").await?;
    Ok(())
}

/// A budget that lets no pod of the site go; its name.
async fn budget(site: &Site) -> Result<String> {
    let budgets: Api<PodDisruptionBudget> = site.own();
    let budget = json!({"metadata": {"name": "all"}, "spec": {
        "minAvailable": "100%", "selector": {"matchLabels": {"app": site.name}},
    }});
    site.create(&budgets, budget).await?;
    wait::until("the budget counts", LIMIT, async || {
        let status = budgets.get("all").await?.status;
        Ok(status
            .filter(|status| (status.expected_pods, status.current_healthy) == (Some(1), Some(1))))
    })
    .await?;
    Ok("all".to_owned())
}

#[tokio::test]
async fn a_node_waits_until_its_volumes_are_off() -> Result<()> {
    let (_, site) = Site::shared("volumes").await?;
    site.pool(json!({})).await?;
    site.deploy(1, "1", json!({})).await?;
    site.running(1).await?;
    let claim = site.claim().await?;
    let node = node_name(&claim).unwrap_or_default().to_owned();
    let attachments: Api<VolumeAttachment> = site.all();
    let attachment = json!({"metadata": {"name": "e2e-volumes"}, "spec": {
        "attacher": "e2e.csi.test", "nodeName": node,
        "source": {"persistentVolumeName": "e2e-volumes"},
    }});
    site.create(&attachments, attachment).await?;

    site.delete_claim(&claim).await?;
    let name = claim.name_any();
    let claim = site.condition(&name, "Drained", "True").await?;
    let waiting = site.condition(&name, "VolumesDetached", "Unknown").await?;
    assert_eq!(condition(&waiting, "VolumesDetached")["reason"], "AwaitingVolumeDetachment");
    let told = site.event(&node, "AwaitingVolumeDetachment").await?;
    ensure!(told.contains("e2e-volumes"), "{told}");
    assert_eq!(site.nodes().await?.iter().filter(|n| n.name_any() == node).count(), 1);

    attachments.delete("e2e-volumes", &DeleteParams::default()).await?;
    site.gone(std::slice::from_ref(&claim), LIMIT).await
}

#[tokio::test]
async fn a_node_is_initialized_when_its_startup_taints_are_gone() -> Result<()> {
    let (_, site) = Site::shared("startup-taints").await?;
    let taint = json!({"key": "e2e.test/starting", "effect": "NoSchedule"});
    site.pool(json!({"spec": {"startupTaints": [taint]}})).await?;
    site.deploy(2, "1", json!({})).await?;
    let name = site.claim().await?.name_any();
    let claim = site.condition(&name, "Registered", "True").await?;
    let claims: Api<NodeClaim> = site.all();
    wait::until("the taint is named", LIMIT, async || {
        let claim = claims.get(&name).await?;
        let why = condition(&claim, "Initialized");
        Ok((why["status"] == "Unknown" && why["reason"] == "StartupTaintsExist").then_some(()))
    })
    .await?;
    ensure!(site.pods().await?.iter().all(|pod| node_of(pod).is_empty()), "no pod gets on it");
    assert_eq!(site.claims().await?.len(), 1, "the node is expected to take the pods");

    let nodes: Api<Node> = site.all();
    let node = node_name(&claim).unwrap_or_default();
    wait::until("the taint goes", LIMIT, async || {
        // The node controller writes taints as well, so this may have to look again.
        let mut node = nodes.get(node).await?;
        let taints = node.spec.as_mut().and_then(|spec| spec.taints.as_mut());
        taints.context("it has taints")?.retain(|taint| taint.key != "e2e.test/starting");
        Ok(nodes.replace(&node.name_any(), &PostParams::default(), &node).await.ok())
    })
    .await?;
    site.condition(&name, "Initialized", "True").await?;
    site.running(2).await?;
    assert_eq!(site.claims().await?.len(), 1, "no other node came");
    Ok(())
}

#[tokio::test]
async fn a_claim_whose_node_does_not_come_in_time_goes() -> Result<()> {
    let (cluster, site) = Site::shared("liveness").await?;
    site.pool_of_class(json!({"nodeRegistrationDelay": "1h"}), json!({})).await?;
    let deployment = site.deploy(1, "1", json!({})).await?;
    let name = site.claim().await?.name_any();
    site.condition(&name, "Launched", "True").await?;
    // Nobody needs it any more, or another claim would come.
    site.own::<Deployment>().delete(&deployment.name_any(), &DeleteParams::default()).await?;
    wait::until("no pod is left", LIMIT, async || Ok(site.pods().await?.is_empty().then_some(())))
        .await?;

    // A quarter of an hour cannot be waited for: the claim says that it has passed.
    let claims: Api<NodeClaim> = site.all();
    wait::until("the time has passed", LIMIT, async || {
        let mut claim = serde_json::to_value(claims.get(&name).await?)?;
        let conditions = claim["status"]["conditions"].as_array_mut();
        for condition in conditions.context("a launched claim has conditions")? {
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        }
        let claim = serde_json::from_value(claim)?;
        Ok(claims.replace_status(&name, &PostParams::default(), &claim).await.ok())
    })
    .await?;
    wait::until("the claim goes", LIMIT, async || {
        Ok(claims.get_opt(&name).await?.is_none().then_some(()))
    })
    .await?;
    let counted = "reason=\"registration_timeout\"";
    let count = cluster.controller.metric("karpenter_nodeclaims_disrupted_total", counted).await?;
    ensure!(count >= 1.0, "it is counted");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_cannot_be_launched_goes_and_says_why() -> Result<()> {
    let (_, site) = Site::shared("no-capacity").await?;
    site.pool(json!({})).await?;
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": site.name});
    let claims: Api<NodeClaim> = site.all();
    let claim = json!({"metadata": {"name": "no-capacity"}, "spec": {
        "nodeClassRef": class,
        "requirements": [
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c-1x-amd64-linux"]},
            {"key": labels::ZONE, "operator": "In", "values": ["nowhere"]},
        ],
    }});
    site.create(&claims, claim).await?;
    wait::until("the claim goes", LIMIT, async || {
        Ok(claims.get_opt("no-capacity").await?.is_none().then_some(()))
    })
    .await?;
    let told = site.event("no-capacity", "InsufficientCapacityError").await?;
    ensure!(told.contains("no available offering"), "{told}");
    Ok(())
}

#[tokio::test]
async fn probes_answer_while_there_is_much_to_do() -> Result<()> {
    let (cluster, site) = Site::shared("probes").await?;
    site.pool(json!({})).await?;
    site.deploy(300, "1", json!({})).await?;
    let mut slowest = Duration::ZERO;
    let mut asked = 0;
    wait::until("300 pods run", LIMIT, async || {
        for path in ["/healthz", "/readyz"] {
            let watch = Stopwatch::start();
            let answer = cluster.controller.probe(path).await?;
            ensure!(answer.code == 200, "{path}: {answer:?}");
            slowest = slowest.max(watch.elapsed());
            asked += 1;
        }
        let deployment = site.own::<Deployment>().get(&site.name).await?;
        let ready = deployment.status.and_then(|status| status.ready_replicas);
        Ok((ready == Some(300)).then_some(()))
    })
    .await?;
    ensure!(asked > 20, "{asked} is too few to say anything");
    // Two cores for everything here, and a kubelet waits for a second.
    ensure!(slowest < Duration::from_secs(1), "a probe took {slowest:?}");
    Ok(())
}
