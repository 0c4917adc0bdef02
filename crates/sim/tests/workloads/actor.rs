//! The environment of the workload tests: a world with or without actors.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_operator::clock::{Clock, TokioClock};
use karpenter_sim::objects;
use karpenter_sim::scenario::Scenario;
use karpenter_sim::scenario::play::play;
use karpenter_sim::timeline::Timeline;
use karpenter_sim::world::World;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

pub(crate) struct Actor {
    pub(crate) world: World,
}

impl Actor {
    /// Returns a world without actors: only the API.
    pub(crate) fn without_actors() -> Self {
        let start: Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(start));
        Self { world: karpenter_sim::kwok::world(clock, 1) }
    }

    /// A world in which all actors are at work, with so many large nodes that are ready.
    pub(crate) async fn with_nodes(count: u32) -> Self {
        let actor = Self::without_actors();
        actor.world.begin().await.unwrap();
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "default"}, "spec": {},
        });
        actor.apply(&class).await;
        if count > 0 {
            actor.launch("node", count).await;
            actor.advance(120).await;
        }
        actor
    }

    pub(crate) async fn launch(&self, name: &str, count: u32) {
        self.play(&format!(
            "name: nodes\nsteps:\n- {{at: 0s, launch: {{name: {name}, instanceType: c-16x-amd64-linux, count: {count}}}}}\n",
        ))
        .await;
    }

    pub(crate) async fn play(&self, yaml: &str) {
        let scenario = Scenario::parse(yaml).unwrap();
        play(&self.world, &scenario, &Timeline::new(self.world.start)).await.unwrap();
    }

    pub(crate) async fn advance(&self, seconds: u64) {
        self.world.clock.sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn apply(&self, manifest: &Value) {
        objects::apply(&self.world.client(), manifest).await.unwrap();
    }

    pub(crate) async fn delete(&self, manifest: &Value) {
        objects::delete(&self.world.client(), manifest).await.unwrap();
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::default_namespaced(self.world.client())
    }

    pub(crate) async fn get<K>(&self, name: &str) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api().get(name).await.unwrap()
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    /// Running, ready and not ending.
    pub(crate) async fn running(&self) -> Vec<Pod> {
        let mut pods = self.pods().await;
        pods.retain(|pod| {
            phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none() && is_ready(pod)
        });
        pods
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let params = PatchParams::default();
        self.api::<K>().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

pub(crate) fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap_or_default()
}

pub(crate) fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "c", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }]},
    })
}

pub(crate) fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
        },
    })
}
