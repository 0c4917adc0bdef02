use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::options::Options as ProductOptions;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::generate::generate;
use super::many::one;
use super::run::run_in;
use super::*;
use crate::world::{StartProduct, World, controllers};

#[test]
fn a_seed_makes_one_world_and_another_seed_another_one() {
    let options = Options::default();
    assert_eq!(generate(7, &options), generate(7, &options));
    assert_ne!(generate(7, &options), generate(8, &options));
}

#[test]
fn a_few_seeds_run_without_a_fault_of_the_product() {
    // The large swarm is `cargo xtask swarm`. These have a shorter day.
    let options = Options::short();
    for seed in 1..=2 {
        let outcome = one(seed, &options, &|_, _| {});
        assert!(outcome.is_good(), "{outcome}");
        assert!(outcome.stats.claims > 0 && outcome.stats.restarts > 0, "{:?}", outcome.stats);
    }
}

#[test]
fn the_command_of_a_replay_has_the_options_of_the_swarm() {
    let day = Options { consolidate_after: "5m".to_owned(), ..Options::default() };
    let rows = [
        (Options::default(), "cargo xtask swarm --only 7"),
        (Options::short(), "cargo xtask swarm --only 7 --short"),
        (day, "cargo xtask swarm --only 7 --consolidate-after 5m"),
    ];
    for (options, expected) in rows {
        assert_eq!(replay(7, &options), expected);
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
async fn what_a_product_must_not_do_is_found() {
    let start: StartProduct = Arc::new(|world, tasks| {
        controllers(ProductOptions::default())(world, tasks);
        let world = world.clone();
        tasks.spawn("misbehave", async move { misbehave(world).await });
    });
    let change = |world: World| world.with_product(start);
    let outcome = run_in(change, 2, &Options::short(), &|_, _| {}).await;
    let found = outcome.to_string();
    let expected = [
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
