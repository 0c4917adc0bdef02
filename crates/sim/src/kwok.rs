//! Worlds whose cloud is KWOK.

use std::sync::Arc;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_kwok::{KwokCloud, catalog, provider, repair};
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::CloudProvider;
use serde_json::json;

use crate::world::{CloudEnvironment, World, WorldProvider};

/// Returns a world with KWOK's built-in instance types and the node class `default`.
pub fn world(clock: Arc<dyn Clock>, seed: u64) -> World {
    World::new(clock, seed, world_provider())
}

fn world_provider() -> WorldProvider {
    let node_class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
    });
    let mut objects = crds(CrdSet::Kwok);
    objects.push(node_class);
    let build_cloud = |environment: CloudEnvironment<'_>| -> Arc<dyn CloudProvider> {
        let CloudEnvironment { client, clock, rng, tasks } = environment;
        Arc::new(KwokCloud::new(client, clock, rng, tasks, catalog::built_in()))
    };
    WorldProvider {
        facts: provider::facts(),
        repair_policies: repair::repair_policies(),
        objects,
        build_cloud: Box::new(build_cloud),
    }
}
