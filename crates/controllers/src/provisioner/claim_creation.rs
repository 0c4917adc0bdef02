//! Creates the NodeClaims of a plan (spec 20 §5.1).

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use karpenter_api::annotations;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::catalog::Catalog;
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::limits::exceeded_by;
use karpenter_operator::cloud::nodeclaim::quantities;
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::metrics::labels::NodeClaimsCreated;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tracing::info;

use super::claim;
use super::decision::Decision;
use crate::Context;

/// How many claims are created concurrently. The client has its own limit, so more would only wait
/// there.
const MAX_CONCURRENT_CREATIONS: usize = 100;

/// Creates the claims of the plan. The next batch retries failed ones.
pub(super) async fn create_claims(
    context: &Context,
    decision: &Decision,
) -> Result<(), ReconcileError> {
    let Some(plan) = &decision.plan else { return Ok(()) };
    let mut rng = context.rng.fork("labels").fork(&context.clock.now().to_string());
    let claims: Vec<(&PlannedNodeClaim, NodeClaim)> = plan
        .claims
        .iter()
        .filter_map(|planned| {
            let pool = decision.pools.get(&decision.snapshot.pool(planned.pool).name)?;
            let mut claim = claim::from_plan(pool, planned, &decision.catalog, &mut rng);
            claim::apply_provider_defaults(&mut claim, context.cloud.as_ref());
            annotate_failed_consolidation(context, decision, planned, &mut claim);
            Some((planned, claim))
        })
        .collect();
    // Boxed one by one: the compiler cannot see through a closure here that they are all alike.
    let mut creations: Vec<BoxFuture<'_, Result<(), ReconcileError>>> =
        Vec::with_capacity(claims.len());
    for (planned, claim) in &claims {
        creations.push(Box::pin(create_planned_claim(context, decision, planned, claim)));
    }
    let results: Vec<_> =
        stream::iter(creations).buffered(MAX_CONCURRENT_CREATIONS).collect().await;
    match ReconcileError::join(results.into_iter().filter_map(Result::err)) {
        None => Ok(()),
        Some(error) => Err(error),
    }
}

/// Annotates the claim with the failed consolidations of its pods, if any.
fn annotate_failed_consolidation(
    context: &Context,
    decision: &Decision,
    planned: &PlannedNodeClaim,
    claim: &mut NodeClaim,
) {
    let is_draining = |name: &str| {
        let source = context.cache.node_claims.get("", name);
        source.is_some_and(|source| source.metadata.deletion_timestamp.is_some())
    };
    let now = context.clock.now();
    let text = context.consolidation_tracker.failed_consolidation_annotation(
        &decision.snapshot,
        planned,
        now,
        is_draining,
    );
    if let Some(text) = text {
        let notes = claim.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::FAILED_CONSOLIDATIONS.to_owned(), text);
    }
}

async fn create_planned_claim(
    context: &Context,
    decision: &Decision,
    planned: &PlannedNodeClaim,
    claim: &NodeClaim,
) -> Result<(), ReconcileError> {
    let pool = decision.snapshot.pool(planned.pool);
    let log = ClaimLogFields {
        requests: &planned.requests,
        types: instance_type_names(&pool.name, &decision.catalog, planned),
    };
    let labels = NodeClaimsCreated {
        reason: "provisioned",
        nodepool: &pool.name,
        min_values_relaxed: if planned.min_values_relaxed { "true" } else { "false" },
    };
    let created = create_claim(context, &pool.limits, claim, labels, &log).await?;
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

/// The log fields of a created claim.
#[derive(Debug)]
pub(crate) struct ClaimLogFields<'a> {
    pub(crate) requests: &'a Resources,
    pub(crate) types: String,
}

/// Creates a claim unless its pool exceeds its limits. Updates metrics and cache.
pub(crate) async fn create_claim(
    context: &Context,
    limits: &Resources,
    claim: &NodeClaim,
    labels: NodeClaimsCreated<'_>,
    log: &ClaimLogFields<'_>,
) -> Result<NodeClaim, ReconcileError> {
    let usage = context.mirror.pool_usage(labels.nodepool);
    if let Some(exceeded) = exceeded_by(limits, &usage) {
        return Err(ReconcileError::with_context("creating node claim", exceeded.to_string()));
    }
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let created = api.create(&PostParams::default(), claim).await;
    let created =
        created.map_err(|error| ReconcileError::with_context("creating node claim", error))?;
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
    context.cache.node_claims.apply_write_result(created.clone());
    Ok(created)
}

/// Returns the names of the first instance types, for logs.
pub(crate) fn instance_type_names(
    pool: &str,
    catalog: &Catalog,
    planned: &PlannedNodeClaim,
) -> String {
    const SHOWN: usize = 5;
    let Some(all) = catalog.pools.get(pool) else { return String::new() };
    let types =
        planned.instance_types.iter().filter_map(|index| all.get(usize::try_from(*index).ok()?));
    let shown: Vec<&str> = types.take(SHOWN).map(|kind| kind.name.as_str()).collect();
    let more = planned.instance_types.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}
