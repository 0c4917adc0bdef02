//! Carries commands out on a snapshot, again and again until there are none.
//!
//! Pods of a node that goes move to where the command saw room for them, a node that comes is the
//! cheapest of its claim, and what waits without any command is placed by the side's own provisioning.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Search;
use crate::consolidated::{self, Command, Consolidated, Replacement};
use crate::decision::{self, Decision, Files};
use crate::generate::{Case, Types};

mod world;

use world::World;

/// More rounds than any cluster here needs.
const ROUNDS_MAX: usize = 60;

/// Whose decisions.
pub(super) enum Side<'a> {
    Ours(&'a Path),
    Upstream(&'a Path),
}

/// How it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settled {
    /// US dollars per hour.
    pub(super) price: f64,
    pub(super) nodes: usize,
    /// How often something was carried out.
    pub(super) rounds: usize,
    /// Whether nothing more would be.
    pub(super) is_at_rest: bool,
    /// Pods without a node.
    pub(super) homeless: BTreeSet<String>,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} with {} nodes in {} rounds", self.price, self.nodes, self.rounds)
    }
}

impl Side<'_> {
    fn consolidate(&self, files: &Files) -> Result<Consolidated> {
        match self {
            Self::Ours(karpenter) => consolidated::ours(karpenter, files, Search::Best),
            Self::Upstream(oracle) => {
                let mut runs = consolidated::upstream(oracle, files, 1)?;
                Ok(runs.pop().unwrap_or_default())
            }
        }
    }

    fn place(&self, files: &Files) -> Result<Decision> {
        match self {
            Self::Ours(karpenter) => decision::ours(karpenter, files),
            Self::Upstream(oracle) => {
                Ok(decision::upstream(oracle, files, 1)?.pop().unwrap_or_default())
            }
        }
    }
}

/// Carries out what a side decides until it decides nothing.
pub(super) fn settle(case: &Case, side: &Side<'_>) -> Result<Settled> {
    let folder = tempfile::tempdir()?;
    let mut world = World::new(case.objects.clone());
    let write = |world: &World| {
        let objects = world.objects().cloned().collect();
        let case = Case { objects, instance_types: None, options: case.options.clone() };
        Files::write(&case, Types::Kwok, folder.path())
    };
    let mut rounds = 0;
    let mut is_at_rest = false;
    while rounds < ROUNDS_MAX {
        if world.has_waiting() {
            let decision = side.place(&write(&world)?)?;
            place(&mut world, &decision)?;
        }
        let decided = side.consolidate(&write(&world)?)?;
        if decided.commands.is_empty() {
            is_at_rest = true;
            break;
        }
        for command in &decided.commands {
            carry_out(&mut world, command)?;
        }
        rounds += 1;
    }
    Ok(Settled {
        price: world.price(),
        nodes: world.nodes().count(),
        rounds,
        is_at_rest,
        homeless: world.waiting(),
    })
}

/// Replaces the nodes of a command. A consolidation has one replacement at most.
fn carry_out(world: &mut World, command: &Command) -> Result<()> {
    let mut launched = None;
    for replacement in &command.replacements {
        launched = Some(world.launch(replacement)?);
    }
    for node in &command.candidates {
        for pod in world.remove(node) {
            let seen = command.existing.iter().find(|placement| placement.pods.contains(&pod));
            let home = seen.map(|placement| &placement.node).or(launched.as_ref());
            if let Some(home) = home {
                world.bind(&pod, home);
            }
        }
    }
    Ok(())
}

fn place(world: &mut World, decision: &Decision) -> Result<()> {
    for placement in &decision.existing {
        for pod in &placement.pods {
            world.bind(pod, &placement.node);
        }
    }
    for claim in &decision.node_claims {
        let node = world.launch(&Replacement {
            node_pool: claim.node_pool.clone(),
            instance_types: claim.instance_types.clone(),
            requirements: claim.requirements.clone(),
        })?;
        for pod in &claim.pods {
            world.bind(pod, &node);
        }
    }
    Ok(())
}

/// A field that has to be a text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The values that a requirement's text leaves: `key In [a b]`.
fn allows(requirements: &[String], key: &str, value: &str) -> Result<bool> {
    let Some(rest) = requirements.iter().find_map(|text| text.strip_prefix(key)?.strip_prefix(' '))
    else {
        return Ok(true);
    };
    let (operator, values) = rest.split_once(' ').unwrap_or((rest, ""));
    let listed = values.trim_matches(['[', ']']).split([' ', ',']).any(|one| one == value);
    Ok(match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => true,
        "DoesNotExist" => false,
        other => bail!("cannot read the requirement {key} {other} {values}"),
    })
}
