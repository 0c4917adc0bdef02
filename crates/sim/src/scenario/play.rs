//! Plays the steps of a scenario, as a person with `kubectl` and a cloud account would do them.
//!
//! `launch` creates a NodeClaim and `remove` deletes one; what follows from that is the product's
//! work.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Action, Launch, Scale, Scenario, Step};
use crate::check::{CheckError, Checker, WorldSnapshot};
use crate::faults::FaultSpec;
use crate::kubelet;
use crate::objects::{self, ApplyError};
use crate::timeline::Timeline;
use crate::world::World;

/// An error from playing a scenario, with the step that failed.
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
    #[error("{object}: {}", objects::api_message(source))]
    Api { object: String, source: Box<kube::Error> },
    #[error("there is no NodeClaim {0}; launch steps make them, as NAME-1, NAME-2, …")]
    NoClaim(String),
}

impl PlayError {
    /// Returns the path of the failed part of the scenario, such as `steps[2]`.
    pub fn field_path(&self) -> Option<String> {
        match self {
            Self::Object { index, .. } => Some(format!("objects[{index}]")),
            Self::Step { index, .. } => Some(format!("steps[{index}]")),
            Self::Check(_) => None,
        }
    }
}

/// Applies the initial objects to the world, before the steps at time zero.
pub async fn load(world: &World, scenario: &Scenario) -> Result<(), PlayError> {
    let client = world.client();
    for (index, object) in scenario.objects.iter().enumerate() {
        objects::apply(&client, object)
            .await
            .map_err(|source| PlayError::Object { index, source })?;
    }
    Ok(())
}

/// Plays each step at its time, and checks the world after each. Ends with the last one.
pub async fn play(
    world: &World,
    scenario: &Scenario,
    timeline: &Timeline,
) -> Result<Checker, PlayError> {
    let mut checker = Checker::default();
    if let Some(faults) = &scenario.faults {
        world.faults.set(faults);
    }
    for step in &scenario.steps {
        let until = world.start.saturating_add(step.at).unwrap_or(world.start);
        world.clock.sleep_until(until).await;
        timeline.add_step(world.clock.now(), &step_text(step));
        perform(world, &step.action).await.map_err(|source| PlayError::Step {
            index: step.index,
            at: step.at,
            source,
        })?;
        checker.check(&WorldSnapshot::gather(world).await?);
    }
    Ok(checker)
}

/// Returns the message of a step, or else a description of its action.
fn step_text(step: &Step) -> String {
    if let Some(message) = &step.message {
        return message.clone();
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
        Action::Faults(faults) if **faults == FaultSpec::default() => "no more faults".to_owned(),
        Action::Faults(_) => "faults begin".to_owned(),
        Action::Restart(_) => "the product restarts".to_owned(),
        Action::Message => String::new(),
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
                claim(world, name).await?;
                let claims: Api<NodeClaim> = Api::all(client.clone());
                let deleted = claims.delete(name, &DeleteParams::default()).await;
                deleted.map_err(|source| failed(format!("NodeClaim {name}"), source))?;
            }
        }
        Action::Silence(claims) => {
            for name in &claims.claims {
                let claim = claim(world, name).await?;
                let silent = json!({"metadata": {"annotations": {kubelet::SILENT: "true"}}});
                patch_node(world, &node_name(&claim), &silent).await?;
            }
        }
        Action::Faults(faults) => world.faults.set(faults),
        Action::Restart(restart) => {
            let (world, down) = (world.clone(), restart.down);
            world.tasks.clone().spawn("scenario.restart", async move {
                world.restart_product(down).await;
            });
        }
        Action::Message => {}
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

fn failed(object: String, source: kube::Error) -> StepError {
    StepError::Api { object, source: Box::new(source) }
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

/// A NodeClaim of exactly this kind.
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
    let claims: Api<NodeClaim> = Api::all(world.client());
    let claim = serde_json::from_value(manifest).expect("a NodeClaim of ours");
    let created = claims.create(&PostParams::default(), &claim).await;
    created.map(drop).map_err(|source| failed(format!("NodeClaim {name}"), source))
}
