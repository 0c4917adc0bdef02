//! Keeps commands that start together within the limits of their NodePools.

use std::collections::BTreeMap;

use karpenter_core::disruption::{Command, Replacement, largest_capacity};
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::scheduling::limits::{LimitExceeded, exceeded_by};

use super::observation::Observation;
use crate::Context;

/// The NodePool limits that the commands of a pass have reserved.
pub(super) struct PassLimits<'a> {
    context: &'a Context,
    observation: &'a Observation,
    /// The resources that earlier commands of the pass launch, by pool.
    reserved: BTreeMap<String, Resources>,
}

impl<'a> PassLimits<'a> {
    pub(super) fn new(context: &'a Context, observation: &'a Observation) -> Self {
        Self { context, observation, reserved: BTreeMap::new() }
    }

    /// Reserves NodePool limits for the replacements of a command.
    ///
    /// `before` is the observation that the command was decided on. The reservation fails if the
    /// earlier commands bring a pool above its limits. So a pool exceeds its limits by one command
    /// at most, as if commands started one after the other: until nodes are deleted, they and their
    /// replacements count. Replacements of static pools have their own reservation.
    pub(super) fn reserve(
        &mut self,
        before: &Observation,
        command: &Command,
    ) -> Result<(), LimitExceeded> {
        let (snapshot, catalog) = (&before.snapshot, &before.catalog);
        let claims: Vec<_> = command.replacements.iter().filter_map(Replacement::planned).collect();
        for claim in &claims {
            self.check(&snapshot.pool(claim.pool).name)?;
        }
        for claim in claims {
            let mut taken = largest_capacity(snapshot, catalog, claim);
            taken.set(NODES, Quantity::from_units(1));
            self.reserved.entry(snapshot.pool(claim.pool).name.clone()).or_default().add(&taken);
        }
        Ok(())
    }

    fn check(&self, pool: &str) -> Result<(), LimitExceeded> {
        let now = self.observation.snapshot.pools.iter().find(|one| one.name == pool);
        // The first command is checked when it starts.
        let (Some(now), Some(taken)) = (now, self.reserved.get(pool)) else { return Ok(()) };
        let mut usage = self.context.mirror.pool_usage(pool);
        usage.add(taken);
        exceeded_by(&now.limits, &usage).map_or(Ok(()), Err)
    }
}
