//! Tests of the swarm: reproducible plans, short runs, and reports of forbidden writes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::options::Options as ProductOptions;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::generate::generate;
use super::run::run_in;
use super::runner::run_seed;
use super::*;
use crate::world::{ProductStarter, World, controllers};

#[test]
fn each_seed_generates_its_own_reproducible_plan() {
    let options = Options::default();
    assert_eq!(generate(7, &options), generate(7, &options));
    assert_ne!(generate(7, &options), generate(8, &options));
}

/// Runs a short day of this seed and asserts that it has no violations.
/// The large swarm is `cargo xtask swarm`.
#[track_caller]
fn assert_run_passes(seed: u64, consolidate_after: Option<&str>) -> Stats {
    let consolidate_after = consolidate_after.map(str::to_owned);
    let outcome = run_seed(seed, &Options { consolidate_after, ..Options::short() }, &|_, _| {});
    assert!(outcome.is_good(), "{outcome}");
    let stats = outcome.stats;
    assert!(stats.claims > 0 && stats.restarts > 0, "{stats:?}");
    stats
}

#[test]
fn a_swarm_run_without_consolidation_has_no_violations() {
    assert_run_passes(1, Some("Never"));
}

#[test]
fn a_swarm_run_has_no_violations() {
    assert_run_passes(2, None);
}

#[test]
fn a_swarm_run_with_consolidation_has_no_violations() {
    let stats = assert_run_passes(3, Some("30s"));
    assert!(stats.commands > 0, "{stats:?}");
}

#[test]
fn the_replay_command_contains_the_swarm_options() {
    let day = Options { consolidate_after: Some("5m".to_owned()), ..Options::default() };
    let rows = [
        (Options::default(), "cargo xtask swarm --only 7"),
        (Options::short(), "cargo xtask swarm --only 7 --short"),
        (day, "cargo xtask swarm --only 7 --consolidate-after 5m"),
    ];
    for (options, expected) in rows {
        assert_eq!(replay(7, &options), expected);
    }
}

/// Logs a command that takes all nodes, while the budgets allow none.
async fn log_command_for_all_nodes(claims: &Api<NodeClaim>, pools: &Api<NodePool>) {
    let Ok(found) = claims.list(&ListParams::default()).await else { return };
    let of = |claim: &NodeClaim| json!({"NodeClaim": {"name": claim.name_any()}});
    let nodes = json!(found.items.iter().map(of).collect::<Vec<_>>()).to_string();
    set_budgets(pools, &json!([{"nodes": "0"}])).await;
    tracing::info!(
        target: "karpenter_controllers::disruptor",
        command = "Drifted/1: delete: nodepools=[]: []",
        "disrupted-nodes" = nodes,
        "disrupting node(s)"
    );
    set_budgets(pools, &Value::Null).await;
}

async fn set_budgets(pools: &Api<NodePool>, budgets: &Value) {
    let Ok(found) = pools.list(&ListParams::default()).await else { return };
    let patch = Patch::Merge(json!({"spec": {"disruption": {"budgets": budgets}}}));
    for pool in found.items {
        let _ = pools.patch(&pool.name_any(), &PatchParams::default(), &patch).await;
    }
}

/// Does once what no product may do, as soon as a pod of an app runs on a node; then writes now and
/// then.
async fn misbehave(world: World) {
    let client = world.product_client();
    let (pods, claims): (Api<Pod>, Api<NodeClaim>) =
        (Api::default_namespaced(client.clone()), Api::all(client.clone()));
    let is_of_app = |pod: &Pod| pod.name_any().starts_with("app-");
    let (pod, claim) = loop {
        world.clock.sleep(Duration::from_secs(20)).await;
        let Ok(found) = pods.list(&ListParams::default()).await else { continue };
        let running = found.items.into_iter().filter(is_of_app).find(|pod| {
            pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
        });
        let Some(pod) = running else { continue };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let Ok(found) = claims.list(&ListParams::default()).await else { continue };
        let mut found = found.items.into_iter();
        let is_its = |claim: &NodeClaim| {
            claim.status.as_ref().is_some_and(|status| status.node_name == node)
                && claim.metadata.deletion_timestamp.is_none()
        };
        if let Some(claim) = found.find(is_its) {
            break (pod, claim);
        }
    };
    log_command_for_all_nodes(&claims, &Api::all(client.clone())).await;
    let _ = world.cloud.delete(&claim).await;
    let _ = pods.delete(&pod.name_any(), &DeleteParams::default()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for number in 0_u64.. {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "noise"},
            "data": {"number": number.to_string()},
        });
        let params = PatchParams::apply("noise").force();
        let _ = maps.patch("noise", &params, &Patch::Apply(map)).await;
        world.clock.sleep(Duration::from_mins(9)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_writes_of_the_product_are_reported() {
    let start: ProductStarter = Arc::new(|world, tasks| {
        controllers(ProductOptions::default())(world, tasks);
        let world = world.clone();
        tasks.spawn("misbehave", async move { misbehave(world).await });
    });
    let change = |world: World| world.with_product(start);
    let outcome = run_in(change, 2, &Options::short(), &|_, _| {}).await;
    let found = outcome.to_string();
    let expected = [
        "are disrupted at once, of ",
        "was ended, but the claim stays",
        "was ended with pod app-",
        "was deleted by the product, not evicted",
        "writes in a quiet hour: ",
        "PATCH /api/v1/namespaces/default/configmaps/noise",
        "replay: cargo xtask swarm --only 2 --short",
    ];
    for text in expected {
        assert!(found.contains(text), "{text:?} in {found}");
    }
}
