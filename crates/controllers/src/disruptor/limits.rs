//! Whether commands that begin together stay within the limits of their NodePools.

use std::collections::BTreeMap;

use karpenter_core::disruption::{Command, Replacement, largest_capacity};
use karpenter_core::resources::{NODES, Quantity, Resources};
use karpenter_core::scheduling::limits::{LimitExceeded, exceeded_by};

use super::observation::Observation;
use crate::Context;

/// What commands take of the limits of pools.
pub(super) struct PassLimits<'a> {
    context: &'a Context,
    observation: &'a Observation,
    /// What those before launch, by pool.
    reserved: BTreeMap<String, Resources>,
}

impl<'a> PassLimits<'a> {
    pub(super) fn new(context: &'a Context, observation: &'a Observation) -> Self {
        Self { context, observation, reserved: BTreeMap::new() }
    }

    /// Takes what the replacements of a command need, which was decided on `before`. If a pool is above
    /// its limits with those of the commands before, there is no room: so it is above them by one
    /// command at most, as if they began one after the other. Until nodes are gone, they and their
    /// replacements are both there. Replacements of static pools have a place of their own.
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
        // Whether the first one may begin is asked when it does.
        let (Some(now), Some(taken)) = (now, self.reserved.get(pool)) else { return Ok(()) };
        let mut usage = self.context.mirror.pool_usage(pool);
        usage.add(taken);
        exceeded_by(&now.limits, &usage).map_or(Ok(()), Err)
    }
}
