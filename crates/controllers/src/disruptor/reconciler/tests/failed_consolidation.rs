//! Tests of failed consolidations: pods that find no node though the simulation had one.

use k8s_openapi::api::apps::v1::ReplicaSet;
use karpenter_api::annotations::FAILED_CONSOLIDATIONS;

use super::*;
use crate::provisioner;

const MINUTE: Duration = Duration::from_mins(1);
/// Long enough for a batch of the provisioner.
const BATCH: Duration = Duration::from_secs(3);

/// Creates a pod of the ReplicaSet `web`, on a node or pending.
async fn create_web_pod(fixture: &Fixture, name: &str, node: Option<&str>) {
    let set: ReplicaSet = fixture.bench.get("default", "web").await.expect("it is there");
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.uid(),
        "controller": true,
    });
    let status = match node {
        Some(_) => json!({"phase": "Running"}),
        None => json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]}),
    };
    let changes = json!({"metadata": {"ownerReferences": [owner]}, "status": status});
    fixture.bench.create(pod(name, node, &merged(running_with_cpu("1"), &changes))).await;
}

/// A node that stays, and node `a` whose pod would find room there.
async fn fixture(options: Options) -> Fixture {
    let fixture = Fixture::with(options, json!({})).await;
    node(&fixture.bench, "stays", "small", &json!({})).await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture
        .bench
        .create(pod("held", Some("stays"), &merged(running_with_cpu("100m"), &held)))
        .await;
    node(&fixture.bench, "a", "small", &json!({})).await;
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    });
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    });
    fixture.bench.create(set).await;
    create_web_pod(&fixture, "web-a", Some("a")).await;
    fixture.bench.run(provisioner::all(&fixture.bench.context));
    fixture
}

/// Consolidates node `from`, whose pod finds no capacity and gets the new node `to`. Returns the
/// annotation of the new claim. Afterwards there is capacity again.
async fn fail_consolidation(fixture: &Fixture, from: &str, to: &str) -> Option<String> {
    assert_eq!(fixture.commands(), [format!("Underutilized: delete: [{from}]")]);
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted(from).await);
    let filler = format!("filler-{from}");
    running_pod(&fixture.bench, &filler, "stays", "1").await;
    fixture.bench.delete(pod(&format!("web-{from}"), None, &json!({}))).await;
    create_web_pod(fixture, "pending", None).await;
    fixture.bench.pass(BATCH).await;
    let [claim] = &fixture.replacements()[..] else { panic!("one claim") };
    let returned = claim.annotations().get(FAILED_CONSOLIDATIONS).cloned();
    // The cloud and the scheduler do their part.
    fixture.bench.delete(node_claim(&claim.name_any(), &json!({}))).await;
    fixture.bench.delete(pod("pending", None, &json!({}))).await;
    let notes = json!({"metadata": {"annotations": claim.annotations()}});
    node(&fixture.bench, to, "small", &notes).await;
    create_web_pod(fixture, &format!("web-{to}"), Some(to)).await;
    let over = json!({"status": {"phase": "Succeeded"}});
    fixture.bench.patch_status(pod(&filler, Some("stays"), &over)).await;
    fixture.bench.events();
    returned
}

fn has_failed_consolidation_event(fixture: &Fixture) -> bool {
    let text = "Pods of ReplicaSet default/web found no room after the last consolidation, ";
    fixture.bench.events().iter().any(|(_, message)| message.starts_with(text))
}

#[tokio::test(start_paused = true)]
async fn each_failed_consolidation_doubles_the_backoff_of_its_workload() {
    let fixture = fixture(Options::default()).await;
    fixture.pass_validation_delay().await;
    let annotation = fail_consolidation(&fixture, "a", "b").await.expect("the claim says so");
    assert!(annotation.starts_with("default/ReplicaSet/web=1,pods="), "{annotation}");
    fixture.pass_validation_delay().await;
    assert!(fixture.commands().is_empty() && has_failed_consolidation_event(&fixture));
    // A restart does not lose it.
    let fixture = fixture.restarted();
    fixture.bench.pass(9 * MINUTE).await;
    fixture.pass_validation_delay().await;
    assert!(fixture.commands().is_empty());
    // Nothing but time has passed.
    fixture.bench.pass(MINUTE).await;
    fixture.pass_validation_delay().await;
    let annotation = fail_consolidation(&fixture, "b", "c").await.expect("the claim says so");
    assert!(annotation.starts_with("default/ReplicaSet/web=2,pods="), "{annotation}");
    fixture.bench.pass(19 * MINUTE).await;
    fixture.pass_validation_delay().await;
    assert!(fixture.commands().is_empty());
    fixture.bench.pass(MINUTE).await;
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [c]"]);
}

#[tokio::test(start_paused = true)]
async fn the_upstream_search_records_no_failed_consolidations() {
    let upstream = ConsolidationSearch::Upstream;
    let options = Options { consolidation_search: upstream, ..Options::default() };
    let fixture = fixture(options).await;
    fixture.pass_validation_delay().await;
    assert_eq!(fail_consolidation(&fixture, "a", "b").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_returned_annotation_is_ignored() {
    let fixture = fixture(Options::default()).await;
    let wrong = json!({"metadata": {"annotations": {FAILED_CONSOLIDATIONS: "web=often,//=,pods"}}});
    fixture.bench.patch(node_claim("a", &wrong)).await;
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [a]"]);
}
