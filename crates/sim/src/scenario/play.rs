//! Plays the steps of a scenario, as a person with `kubectl` and a cloud account would do them.
//!
//! Until the controllers are part of a world, `launch` and `remove` do by hand what they will do:
//! a NodeClaim, an instance, its registration, and back.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::taints;
use karpenter_operator::cloud::CloudError;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{Action, Launch, Scale, Scenario, Step};
use crate::check::{CheckError, Checker, Facts};
use crate::faults::Trouble;
use crate::kubelet;
use crate::objects::{self, ApplyError};
use crate::timeline::Timeline;
use crate::world::World;

/// How often a drain that a budget refuses is tried again, as kubectl does it.
const DRAIN_PAUSE: Duration = Duration::from_secs(5);

/// How often somebody looks whether a node has appeared or emptied.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What somebody waits who could not launch an instance because of a fault.
const LAUNCH_PAUSE: Duration = Duration::from_secs(10);

/// How long an instance may take to become a node before a launch gives up on it.
const REGISTRATION_LIMIT: Duration = Duration::from_mins(15);

/// Which step did not work, and why.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error("objects[{index}]: {source}")]
    Object { index: usize, source: ApplyError },
    #[error("steps[{index}] at {at:?}: {source}")]
    Step { index: usize, at: Duration, source: StepError },
    #[error("looking at the world: {0}")]
    Check(#[from] CheckError),
}

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("{what}: {}", objects::words(source))]
    Api { what: String, source: Box<kube::Error> },
    #[error("launching {claim}: {source}")]
    Launch { claim: String, source: CloudError },
    #[error("there is no NodeClaim {0}; launch steps make them, as NAME-1, NAME-2, …")]
    NoClaim(String),
}

/// Puts the objects into the world. What is at time zero of a scenario is after that.
pub async fn load(world: &World, scenario: &Scenario) -> Result<(), PlayError> {
    let client = world.client();
    for (index, object) in scenario.objects.iter().enumerate() {
        objects::apply(&client, object)
            .await
            .map_err(|source| PlayError::Object { index, source })?;
    }
    Ok(())
}

/// Does each step at its time, and looks after each whether everything is as it must be. Ends with
/// the last one.
pub async fn play(
    world: &World,
    scenario: &Scenario,
    timeline: &Timeline,
) -> Result<Checker, PlayError> {
    let mut checker = Checker::default();
    if let Some(trouble) = &scenario.faults {
        world.faults.set(trouble);
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        let until = world.start.saturating_add(step.at).unwrap_or(world.start);
        world.clock.sleep_until(until).await;
        timeline.say(world.clock.now(), &words(step));
        perform(world, &step.action).await.map_err(|source| PlayError::Step {
            index,
            at: step.at,
            source,
        })?;
        checker.look(&Facts::gather(world).await?);
    }
    Ok(checker)
}

/// What a step does, if it does not say so itself.
fn words(step: &Step) -> String {
    if let Some(say) = &step.say {
        return say.clone();
    }
    let names =
        |objects: &[Value]| objects.iter().map(objects::describe).collect::<Vec<_>>().join(", ");
    match &step.action {
        Action::Apply(objects) => format!("apply {}", names(objects)),
        Action::Delete(objects) => format!("delete {}", names(objects)),
        Action::Scale(scale) => {
            format!("scale {} {} to {}", scale.kind.to_lowercase(), scale.name, scale.replicas)
        }
        Action::Launch(launch) => format!("launch {} x {}", launch.count, launch.instance_type),
        Action::Remove(claims) => format!("remove {}", claims.claims.join(", ")),
        Action::Silence(claims) => format!("kubelets fall silent: {}", claims.claims.join(", ")),
        Action::Faults(trouble) if **trouble == Trouble::default() => "no more faults".to_owned(),
        Action::Faults(_) => "faults begin".to_owned(),
        Action::Restart(_) => "the product restarts".to_owned(),
        Action::Say => String::new(),
    }
}

async fn perform(world: &World, action: &Action) -> Result<(), StepError> {
    let client = world.client();
    match action {
        Action::Apply(objects) => {
            for object in objects {
                objects::apply(&client, object).await?;
            }
        }
        Action::Delete(objects) => {
            for object in objects {
                objects::delete(&client, object).await?;
            }
        }
        Action::Scale(wanted) => scale(world, wanted).await?,
        Action::Launch(wanted) => {
            for number in 1..=wanted.count {
                launch(world, wanted, number).await?;
            }
        }
        Action::Remove(claims) => {
            for name in &claims.claims {
                let claim = claim(world, name).await?;
                let world = world.clone();
                // A budget may hold it up for long, and the next steps do not wait for that.
                world.tasks.clone().spawn("scenario.remove", async move {
                    remove(&world, &claim).await;
                });
            }
        }
        Action::Silence(claims) => {
            for name in &claims.claims {
                let claim = claim(world, name).await?;
                let silent = json!({"metadata": {"annotations": {kubelet::SILENT: "true"}}});
                patch_node(world, &node_name(&claim), &silent).await?;
            }
        }
        Action::Faults(trouble) => world.faults.set(trouble),
        Action::Restart(restart) => {
            let (world, down) = (world.clone(), restart.down);
            world.tasks.clone().spawn("scenario.restart", async move {
                world.restart_product(down).await;
            });
        }
        Action::Say => {}
    }
    Ok(())
}

async fn scale(world: &World, wanted: &Scale) -> Result<(), StepError> {
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": wanted.kind,
        "metadata": {"name": wanted.name, "namespace": wanted.namespace},
    });
    let (api, name) = objects::locate(&world.client(), &manifest).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": wanted.replicas}}));
    let scaled = api.patch_scale(&name, &PatchParams::default(), &patch).await;
    scaled.map(drop).map_err(|source| failed(objects::describe(&manifest), source))
}

fn failed(what: String, source: kube::Error) -> StepError {
    StepError::Api { what, source: Box::new(source) }
}

async fn claim(world: &World, name: &str) -> Result<NodeClaim, StepError> {
    let claims: Api<NodeClaim> = Api::all(world.client());
    let found =
        claims.get_opt(name).await.map_err(|source| failed(format!("NodeClaim {name}"), source))?;
    found.ok_or_else(|| StepError::NoClaim(name.to_owned()))
}

fn node_name(claim: &NodeClaim) -> String {
    claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default()
}

async fn patch_node(world: &World, name: &str, patch: &Value) -> Result<(), StepError> {
    let nodes: Api<Node> = Api::all(world.client());
    let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).map_err(|source| failed(format!("Node {name}"), source))
}

/// A NodeClaim, an instance for it, and its node when that appears.
async fn launch(world: &World, wanted: &Launch, number: u32) -> Result<(), StepError> {
    let name = format!("{}-{number}", wanted.name);
    let mut requirements = vec![
        json!({"key": labels::INSTANCE_TYPE, "operator": "In", "values": [wanted.instance_type]}),
        json!({"key": labels::CAPACITY_TYPE, "operator": "In", "values": [wanted.capacity_type]}),
    ];
    if let Some(zone) = &wanted.zone {
        requirements.push(json!({"key": labels::ZONE, "operator": "In", "values": [zone]}));
    }
    let manifest = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {labels::NODEPOOL: wanted.node_pool}},
        "spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        },
    });
    let what = || format!("NodeClaim {name}");
    let claims: Api<NodeClaim> = Api::all(world.client());
    let claim = serde_json::from_value(manifest).expect("a NodeClaim of ours");
    let claim = claims
        .create(&PostParams::default(), &claim)
        .await
        .map_err(|source| failed(what(), source))?;
    if world.faults.cloud.now().is_none() {
        return bring_up(world, &claim).await;
    }
    // It may take long, or several attempts, and the next steps do not wait for that.
    let world = world.clone();
    world.tasks.clone().spawn("scenario.launch", async move {
        loop {
            // What does not work without faults is a mistake of the scenario's.
            let is_faulty = world.faults.cloud.now().is_some();
            if bring_up(&world, &claim).await.is_ok() || !is_faulty {
                return;
            }
            world.clock.sleep(LAUNCH_PAUSE).await;
        }
    });
    Ok(())
}

/// An instance for a claim, and its node when that appears.
async fn bring_up(world: &World, claim: &NodeClaim) -> Result<(), StepError> {
    let name = claim.name_any();
    let what = || format!("NodeClaim {name}");
    let claims: Api<NodeClaim> = Api::all(world.client());
    let launched = world
        .cloud
        .create(claim)
        .await
        .map_err(|source| StepError::Launch { claim: name.clone(), source })?;
    let labels = json!({"metadata": {"labels": launched.metadata.labels}});
    let patched = claims.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await;
    patched.map_err(|source| failed(what(), source))?;
    let mut status = json!({"status": launched.status});
    status["status"]["nodeName"] = launched.name_any().into();
    let patched = claims.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
    let claim = patched.map_err(|source| failed(what(), source))?;
    let world = world.clone();
    world.tasks.clone().spawn("scenario.register", async move { register(&world, &claim).await });
    Ok(())
}

/// Takes the taint off that keeps pods away from nodes which nobody has registered.
async fn register(world: &World, claim: &NodeClaim) {
    let nodes: Api<Node> = Api::all(world.client());
    let name = node_name(claim);
    let mut waited = Duration::ZERO;
    while waited < REGISTRATION_LIMIT {
        if let Ok(Some(node)) = nodes.get_opt(&name).await {
            let kept: Vec<_> = node
                .spec
                .and_then(|spec| spec.taints)
                .unwrap_or_default()
                .into_iter()
                .filter(|taint| taint.key != taints::unregistered().key)
                .collect();
            let registered = json!({
                "metadata": {"labels": {labels::REGISTERED: labels::TRUE}},
                "spec": {"taints": kept},
            });
            if patch_node(world, &name, &registered).await.is_ok() {
                return;
            }
        }
        world.clock.sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}

/// Drains the node, and gives the instance back.
async fn remove(world: &World, claim: &NodeClaim) {
    let name = node_name(claim);
    // One that is still being launched has no node; without a name, any pod without one would go.
    if !name.is_empty() {
        drain(world, &name).await;
    }
    let claims: Api<NodeClaim> = Api::all(world.client());
    let nodes: Api<Node> = Api::all(world.client());
    let _ending_or_gone = world.cloud.delete(claim).await;
    if !name.is_empty() {
        let _gone_already = nodes.delete(&name, &DeleteParams::default()).await;
    }
    let _gone_already = claims.delete(&claim.name_any(), &DeleteParams::default()).await;
}

/// Cordons, and evicts with regard to budgets until nobody is left.
async fn drain(world: &World, name: &str) {
    let cordon = json!({"spec": {"unschedulable": true}});
    let _gone_already = patch_node(world, name, &cordon).await;
    let pods: Api<Pod> = Api::all(world.client());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    while let Ok(left) = pods.list(&on_node).await {
        let left: Vec<_> = left.items.into_iter().filter(must_leave).collect();
        if left.is_empty() {
            break;
        }
        let mut refused = false;
        for pod in left.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let namespaced: Api<Pod> =
                Api::namespaced(world.client(), &pod.namespace().unwrap_or_default());
            let evicted = namespaced.evict(&pod.name_any(), &EvictParams::default()).await;
            refused |= evicted.is_err();
        }
        world.clock.sleep(if refused { DRAIN_PAUSE } else { LOOK_EVERY }).await;
    }
}

/// Pods of DaemonSets stay until the node goes, those of a file on the node too.
fn must_leave(pod: &Pod) -> bool {
    let is_finished = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
    let owners = pod.metadata.owner_references.iter().flatten();
    let of_node =
        owners.into_iter().any(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"));
    !is_finished && !of_node
}
