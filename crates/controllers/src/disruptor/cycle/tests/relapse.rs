//! Pods that find no room after a consolidation, though a simulation had some for them.

use k8s_openapi::api::apps::v1::ReplicaSet;
use karpenter_api::annotations::RETURNED;

use super::*;
use crate::provisioner;

const MINUTE: Duration = Duration::from_mins(1);
/// Long enough for a batch of the provisioner.
const BATCH: Duration = Duration::from_secs(3);

/// A pod of the ReplicaSet `web` with one CPU, on a node or pending.
async fn web(fixture: &Fixture, name: &str, node: Option<&str>) {
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
    fixture.bench.create(pod(name, node, &merged(asking("1"), &changes))).await;
}

/// A node that stays, and node `a` whose pod would find room there.
async fn fixture(options: Options) -> Fixture {
    let fixture = Fixture::with(options, json!({})).await;
    node(&fixture.bench, "stays", "small", &json!({})).await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture.bench.create(pod("held", Some("stays"), &merged(asking("100m"), &held))).await;
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
    web(&fixture, "web-a", Some("a")).await;
    fixture.bench.run(provisioner::all(&fixture.bench.context));
    fixture
}

/// Node `from` goes, its pod finds no room and gets the node `to`, after which there is room again.
/// Returns what the new claim says about it.
async fn relapse(fixture: &Fixture, from: &str, to: &str) -> Option<String> {
    assert_eq!(fixture.commands(), [format!("Underutilized: delete: [{from}]")]);
    fixture.poll().await;
    assert!(fixture.is_deleted(from).await);
    let filler = format!("filler-{from}");
    running_pod(&fixture.bench, &filler, "stays", "1").await;
    fixture.bench.delete(pod(&format!("web-{from}"), None, &json!({}))).await;
    web(fixture, "pending", None).await;
    fixture.bench.pass(BATCH).await;
    let [claim] = &fixture.replacements()[..] else { panic!("one claim") };
    let returned = claim.annotations().get(RETURNED).cloned();
    // The cloud and the scheduler do their part.
    fixture.bench.delete(node_claim(&claim.name_any(), &json!({}))).await;
    fixture.bench.delete(pod("pending", None, &json!({}))).await;
    let notes = json!({"metadata": {"annotations": claim.annotations()}});
    node(&fixture.bench, to, "small", &notes).await;
    web(fixture, &format!("web-{to}"), Some(to)).await;
    let over = json!({"status": {"phase": "Succeeded"}});
    fixture.bench.patch_status(pod(&filler, Some("stays"), &over)).await;
    fixture.bench.events();
    returned
}

fn is_told(fixture: &Fixture) -> bool {
    let text = "Pods of ReplicaSet default/web found no room after the last consolidation, ";
    fixture.bench.events().iter().any(|(_, message)| message.starts_with(text))
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_back_are_left_alone_for_longer_each_time() {
    let fixture = fixture(Options::default()).await;
    fixture.rest().await;
    let said = relapse(&fixture, "a", "b").await.expect("the claim says so");
    assert!(said.starts_with("default/ReplicaSet/web=1,pods="), "{said}");
    fixture.rest().await;
    assert!(fixture.commands().is_empty() && is_told(&fixture));
    // A restart does not forget it.
    let fixture = fixture.restarted();
    fixture.bench.pass(9 * MINUTE).await;
    fixture.rest().await;
    assert!(fixture.commands().is_empty());
    // Nothing but time has passed.
    fixture.bench.pass(MINUTE).await;
    fixture.rest().await;
    let said = relapse(&fixture, "b", "c").await.expect("the claim says so");
    assert!(said.starts_with("default/ReplicaSet/web=2,pods="), "{said}");
    fixture.bench.pass(19 * MINUTE).await;
    fixture.rest().await;
    assert!(fixture.commands().is_empty());
    fixture.bench.pass(MINUTE).await;
    fixture.rest().await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [c]"]);
}

#[tokio::test(start_paused = true)]
async fn as_upstream_searches_nothing_is_noted() {
    let upstream = ConsolidationSearch::Upstream;
    let options = Options { consolidation_search: upstream, ..Options::default() };
    let fixture = fixture(options).await;
    fixture.rest().await;
    assert_eq!(relapse(&fixture, "a", "b").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_means_nothing_changes_nothing() {
    let fixture = fixture(Options::default()).await;
    let wrong = json!({"metadata": {"annotations": {RETURNED: "web=often,//=,pods"}}});
    fixture.bench.patch(node_claim("a", &wrong)).await;
    fixture.rest().await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [a]"]);
}
