//! Carrying out a plan: NodeClaims are created (spec 20 §5.1).

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use karpenter_api::annotations;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::catalog::Catalog;
use karpenter_core::plan::PlannedClaim;
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::limits::exceeded_by;
use karpenter_operator::cloud::claim::quantities;
use karpenter_operator::events::list as events;
use karpenter_operator::harness::Trouble;
use karpenter_operator::metrics::labels::NodeClaimsCreated;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tracing::info;

use super::claim;
use super::decide::Decision;
use crate::Context;

/// How many claims are created at once. The client has its own limit, so more would only wait there.
const AT_ONCE: usize = 100;

/// Creates the claims of the plan. What failed is tried again by the next batch.
pub(super) async fn create(context: &Context, decision: &Decision) -> Result<(), Trouble> {
    let Some(plan) = &decision.plan else { return Ok(()) };
    let mut chance = context.chance.fork("labels").fork(&context.clock.now().to_string());
    let claims: Vec<(&PlannedClaim, NodeClaim)> = plan
        .claims
        .iter()
        .filter_map(|planned| {
            let pool = decision.pools.get(&decision.snapshot.pool(planned.pool).name)?;
            let mut claim = claim::planned(pool, planned, &decision.catalog, &mut chance);
            claim::fill(&mut claim, context.cloud.as_ref());
            note_return(context, decision, planned, &mut claim);
            Some((planned, claim))
        })
        .collect();
    // Boxed one by one: the compiler cannot see through a closure here that they are all alike.
    let mut creations: Vec<BoxFuture<'_, Result<(), Trouble>>> = Vec::with_capacity(claims.len());
    for (planned, claim) in &claims {
        creations.push(Box::pin(create_one(context, decision, planned, claim)));
    }
    let results: Vec<_> = stream::iter(creations).buffered(AT_ONCE).collect().await;
    match Trouble::join(results.into_iter().filter_map(Result::err)) {
        None => Ok(()),
        Some(trouble) => Err(trouble),
    }
}

/// Notes whose pods it is for, if a consolidation has just displaced them in vain.
fn note_return(
    context: &Context,
    decision: &Decision,
    planned: &PlannedClaim,
    claim: &mut NodeClaim,
) {
    let is_draining = |name: &str| {
        let source = context.cache.node_claims.get("", name);
        source.is_some_and(|source| source.metadata.deletion_timestamp.is_some())
    };
    let now = context.clock.now();
    let text = context.displaced.returned(&decision.snapshot, planned, now, is_draining);
    if let Some(text) = text {
        let notes = claim.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::RETURNED.to_owned(), text);
    }
}

async fn create_one(
    context: &Context,
    decision: &Decision,
    planned: &PlannedClaim,
    claim: &NodeClaim,
) -> Result<(), Trouble> {
    let pool = decision.snapshot.pool(planned.pool);
    let log =
        Log { requests: &planned.requests, types: names(&pool.name, &decision.catalog, planned) };
    let labels = NodeClaimsCreated {
        reason: "provisioned",
        nodepool: &pool.name,
        min_values_relaxed: if planned.min_values_relaxed { "true" } else { "false" },
    };
    let created = post(context, &pool.limits, claim, labels, &log).await?;
    let name = created.name_any();
    let pods = planned.pods.iter().map(|id| decision.snapshot.pod(*id));
    for pod in pods.filter(|pod| !pod.is_virtual) {
        context.mirror.map_pod_to_claim(&pod.namespace, &pod.name, &name);
        if let Some(wire) = context.cache.pods.get(&pod.namespace, &pod.name) {
            context.events.publish(events::nominated(wire.object_ref(&()), Some(&name), None));
        }
    }
    Ok(())
}

/// What the log tells about a claim.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    pub(crate) requests: &'a Resources,
    pub(crate) types: String,
}

/// Creates a claim, unless its pool has more than it may have, and tells metrics and cache.
pub(crate) async fn post(
    context: &Context,
    limits: &Resources,
    claim: &NodeClaim,
    labels: NodeClaimsCreated<'_>,
    log: &Log<'_>,
) -> Result<NodeClaim, Trouble> {
    let usage = context.mirror.pool_usage(labels.nodepool);
    if let Some(exceeded) = exceeded_by(limits, &usage) {
        return Err(Trouble::while_("creating node claim", exceeded.to_string()));
    }
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let created = api.create(&PostParams::default(), claim).await;
    let created = created.map_err(|error| Trouble::while_("creating node claim", error))?;
    let requests: Vec<String> = quantities(log.requests)
        .iter()
        .map(|(resource, quantity)| format!("{resource}:{}", quantity.as_str()))
        .collect();
    info!(
        NodePool = labels.nodepool,
        NodeClaim = created.name_any(),
        requests = requests.join(","),
        "instance-types" = log.types,
        "created nodeclaim"
    );
    context.metrics.nodeclaims_created.inc(&labels);
    context.cache.node_claims.learn(created.clone());
    Ok(created)
}

/// The first few instance types, as logs show them.
pub(crate) fn names(pool: &str, catalog: &Catalog, planned: &PlannedClaim) -> String {
    const SHOWN: usize = 5;
    let Some(all) = catalog.pools.get(pool) else { return String::new() };
    let types =
        planned.instance_types.iter().filter_map(|index| all.get(usize::try_from(*index).ok()?));
    let shown: Vec<&str> = types.take(SHOWN).map(|kind| kind.name.as_str()).collect();
    let more = planned.instance_types.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}
