//! Tests of the registration of nodes and of registration hooks.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_operator::cloud::{CloudError, CloudFuture, HookRequeue, HookResult};
use karpenter_operator::harness::Outcome;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixtures::{condition, has, node_claim};

const CREATED: &str = "karpenter_nodes_created_total";

fn taint_keys(node: &Node) -> Vec<&str> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().map(|taint| taint.key.as_str()).collect()
}

/// A claim that is launched, and its provider id.
async fn launched(bench: &Bench, lifecycle: &Controller, changes: &Value) -> String {
    let claim = bench.launched(lifecycle, node_claim("a", changes)).await;
    objects::provider_id(&claim).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_with_its_claim() {
    let (bench, lifecycle) = bench().await;
    let id = launched(&bench, &lifecycle, &json!({})).await;
    bench.join("n", &id, &json!({})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let (claim, node) = (bench.claim("a").await, bench.node("n").await);
    assert!(has(&claim, "Registered", "True"), "40/LC-10");
    assert_eq!(objects::node_name(&claim), "n", "40/LC-10");
    assert_eq!(objects::label(&node, "karpenter.sh/registered"), "true", "40/LC-10");
    assert_eq!(taint_keys(&node), [""; 0], "40/LC-10");
    assert_eq!(node.finalizers(), [TERMINATION], "40/LC-10");
    let owners = node.owner_references();
    assert_eq!(owners.len(), 1, "40/LC-10");
    assert_eq!(Some(&owners[0].uid), claim.metadata.uid.as_ref(), "40/LC-10");
    assert_eq!(owners[0].block_owner_deletion, Some(true));
    assert_eq!(bench.events(), [], "the taint was there");
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(bench.metric(CREATED, &[("nodepool", "general")]), 1, "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_unregistered_taint_registers_with_an_event() {
    let (bench, lifecycle) = bench().await;
    let id = launched(&bench, &lifecycle, &json!({})).await;
    bench.join("n", &id, &json!({"spec": {"taints": []}})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Registered", "True"), "40/LC-12");
    let events = bench.events();
    assert_eq!(events.len(), 1, "40/LC-12");
    assert_eq!(events[0].0, "UnregisteredTaintMissing", "40/LC-12");
}

#[tokio::test(start_paused = true)]
async fn a_removed_startup_taint_is_not_restored() {
    let (bench, lifecycle) = bench().await;
    let startup = json!({"spec": {"startupTaints": [{"key": "s/t", "effect": "NoSchedule"}]}});
    let id = launched(&bench, &lifecycle, &startup).await;
    bench.join("n", &id, &json!({})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(taint_keys(&bench.node("n").await), ["s/t"], "40/LC-13");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    bench.patch(crate::testing::fixtures::merged(node, &json!({"spec": {"taints": []}}))).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(taint_keys(&bench.node("n").await), [""; 0], "40/LC-16");
}

#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_provider_id_do_not_register() {
    let (bench, lifecycle) = bench().await;
    let id = launched(&bench, &lifecycle, &json!({})).await;
    for name in ["m", "n"] {
        bench.join(name, &id, &json!({})).await;
    }
    bench.pass(Duration::from_mins(10)).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let claim = bench.claim("a").await;
    let (status, reason, _) = condition(&claim, "Registered");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "MultipleNodesFound"), "40/LC-17");
    bench.pass(Duration::from_mins(14)).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_none(), "40/LC-17");
    bench.pass(Duration::from_mins(1)).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some(), "40/LC-17");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_provider_id_matches_no_claim() {
    let (bench, lifecycle) = bench().await;
    bench.join("n", "", &json!({"spec": {"providerID": null}})).await;
    bench.create(node_claim("a", &json!({}))).await;
    bench.cloud.fail_next_create(CloudError::other("later"));
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    assert_eq!(condition(&bench.claim("a").await, "Registered").1, "NodeNotFound", "40/LC-18");
}

#[tokio::test(start_paused = true)]
async fn a_node_conflict_is_retried_and_registration_is_counted_once() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    let id = launched(&bench, &lifecycle, &json!({})).await;
    bench.join("n", &id, &json!({})).await;
    faults.fail("PATCH", "/nodes/n", 409);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Requeue);
    assert!(has(&bench.claim("a").await, "Registered", "Unknown"));
    faults.fail("PATCH", "/nodes/n", 500);
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "patching node, made to fail with 500");
    // The node is written, the claim is not: the registration is counted when both are.
    faults.fail("PATCH", "/nodeclaims/a/status", 500);
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    assert_eq!(bench.metric(CREATED, &[]), 0);
    bench.reconcile(&lifecycle, "a").await.unwrap();
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Registered", "True"));
    assert_eq!(bench.metric(CREATED, &[]), 1);
}

/// A registration hook that returns what a function returns.
struct FakeHook<F> {
    name: &'static str,
    answer: F,
}

fn hook<F>(name: &'static str, answer: F) -> Arc<dyn RegistrationHook>
where
    F: Fn(&NodeClaim) -> Result<HookResult, CloudError> + Send + Sync + 'static,
{
    Arc::new(FakeHook { name, answer })
}

impl<F> std::fmt::Debug for FakeHook<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<F> RegistrationHook for FakeHook<F>
where
    F: Fn(&NodeClaim) -> Result<HookResult, CloudError> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn check_registration<'a>(&'a self, claim: &'a NodeClaim) -> CloudFuture<'a, HookResult> {
        Box::pin(async { (self.answer)(claim) })
    }
}

fn waiting_hook(name: &'static str) -> Arc<dyn RegistrationHook> {
    let wait = Some(HookRequeue::After(Duration::from_secs(5)));
    hook(name, move |_| Ok(HookResult { requeue: wait, ..HookResult::default() }))
}

#[tokio::test(start_paused = true)]
async fn a_pending_hook_delays_the_registration() {
    let bench = Bench::new().await;
    let lifecycle = with_hooks(&bench, vec![waiting_hook("placement")]);
    let labels = json!({"metadata": {"labels": {"team": "x"}}});
    let id = launched(&bench, &lifecycle, &labels).await;
    bench.join("n", &id, &json!({})).await;
    let outcome = bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(5)), "40/LC-19");
    let (claim, node) = (bench.claim("a").await, bench.node("n").await);
    let expected = ["Unknown", "RegistrationHookPending", "placement"].map(str::to_owned);
    assert_eq!(condition(&claim, "Registered"), expected.into(), "40/LC-19");
    assert_eq!(objects::node_name(&claim), "", "40/LC-19");
    assert_eq!(taint_keys(&node), ["karpenter.sh/unregistered"], "40/LC-19");
    assert_eq!(objects::label(&node, "team"), "x", "40/LC-19");
    assert_eq!(objects::label(&node, "karpenter.sh/registered"), "", "40/LC-19");
}

#[tokio::test(start_paused = true)]
async fn the_condition_names_failed_and_pending_hooks() {
    let bench = Bench::new().await;
    let fails = hook("bad", |_| Err(CloudError::other("no answer")));
    let lifecycle = with_hooks(&bench, vec![fails, waiting_hook("slow")]);
    let id = launched(&bench, &lifecycle, &json!({})).await;
    bench.join("n", &id, &json!({})).await;
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "registration hook \"bad\" failed, no answer", "40/LC-20");
    assert_eq!(condition(&bench.claim("a").await, "Registered").2, "bad, slow", "40/LC-20");
}

#[tokio::test(start_paused = true)]
async fn labels_of_a_hook_end_up_on_claim_and_node() {
    let bench = Bench::new().await;
    let labels: BTreeMap<_, _> = [("partition".to_owned(), "3".to_owned())].into();
    let labels_it = hook("placement", move |_| {
        Ok(HookResult { labels: labels.clone(), ..HookResult::default() })
    });
    let lifecycle = with_hooks(&bench, vec![labels_it]);
    let id = launched(&bench, &lifecycle, &json!({})).await;
    bench.join("n", &id, &json!({})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let (claim, node) = (bench.claim("a").await, bench.node("n").await);
    assert_eq!(objects::label(&claim, "partition"), "3", "40/LC-21");
    assert_eq!(objects::label(&node, "partition"), "3", "40/LC-21");
    assert!(has(&claim, "Registered", "True"), "40/LC-21");
}
