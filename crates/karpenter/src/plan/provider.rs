//! Chooses the provider and the instance types of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::ingest::Settings;
use karpenter_core::catalog::{InstanceType, InstanceTypes};
use karpenter_kwok::catalog::{self, CatalogError, CatalogProblem};
use karpenter_kwok::provider::INSTANCE_TYPES_BYTES_MAX;
use karpenter_operator::cloud::ProviderLabels;

use super::cluster_objects::ClusterObjects;
use super::instance_types::{
    FileTypes, InstanceTypeResolver, KwokTypes, UnresolvedTypes, unknown_types,
};
use super::rejection_text;
use super::report::Remark;
use crate::bounded_file;
use crate::diagnostic::{Diagnostic, Location};

/// The providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    Kwok,
    Aws,
}

/// The settings and instance types of a provider, with notes.
#[derive(Debug)]
pub(crate) struct ChosenProvider {
    pub(crate) settings: Settings,
    /// The instance types of each NodePool, by name.
    pub(crate) types_by_pool: BTreeMap<String, InstanceTypes>,
    /// The labels of the instance types.
    pub(crate) labels: ProviderLabels,
    /// What to know before believing the numbers.
    pub(crate) notes: Vec<String>,
}

/// Returns the requested provider, else the one that the pools name. Pools whose types are unknown
/// are left out, with a remark, as long as others are left.
pub(crate) fn choose_provider(
    requested: Option<Provider>,
    instance_types: Option<&Path>,
    gathered: &mut ClusterObjects,
    now: Timestamp,
) -> Result<ChosenProvider, Box<Diagnostic>> {
    let facts = karpenter_kwok::provider::facts();
    let classes = facts.node_classes.iter().map(|class| (class.group, class.kind));
    let mut settings = Settings::new(facts.rules.clone(), classes, now);
    let mut notes = Vec::new();
    let mut resolver: Box<dyn InstanceTypeResolver> = match (instance_types, requested) {
        (Some(path), _) => Box::new(FileTypes { types: read_instance_types(path)?.into() }),
        (None, Some(Provider::Aws)) => {
            return Err(no_types_diagnostic("--provider aws", &unknown_types(labels::aws::GROUP)));
        }
        (None, Some(Provider::Kwok)) => {
            notes.extend(kwok_price_note(&gathered.objects.node_pools));
            Box::new(KwokTypes::for_all_pools())
        }
        (None, None) => Box::new(KwokTypes::for_own_pools()),
    };
    let types_by_pool = resolve_pools(resolver.as_mut(), gathered)?;
    if requested.is_some() || instance_types.is_some() {
        // With requested types or a requested provider, all pools use them.
        let classes = gathered.objects.node_pools.iter().map(node_class_ref);
        settings.node_classes.extend(classes.map(|c| (c.group.clone(), c.kind.clone())));
    }
    Ok(ChosenProvider { settings, types_by_pool, labels: resolver.labels(), notes })
}

/// Resolves the types of each NodePool. Removes the pools without types, with a remark.
fn resolve_pools(
    resolver: &mut dyn InstanceTypeResolver,
    gathered: &mut ClusterObjects,
) -> Result<BTreeMap<String, InstanceTypes>, Box<Diagnostic>> {
    let mut types_by_pool = BTreeMap::new();
    let mut unresolved = Vec::new();
    for pool in std::mem::take(&mut gathered.objects.node_pools) {
        match resolver.resolve(&pool, gathered.hints.node_class(node_class_ref(&pool))) {
            Ok(types) => {
                types_by_pool.insert(pool.metadata.name.clone().unwrap_or_default(), types);
                gathered.objects.node_pools.push(pool);
            }
            Err(reason) => unresolved.push((pool, reason)),
        }
    }
    if let (Some((pool, reason)), []) = (unresolved.first(), gathered.objects.node_pools.as_slice())
    {
        let subject = format!("NodePools with {}", node_class_ref(pool).kind);
        return Err(no_types_diagnostic(&subject, reason));
    }
    for (pool, UnresolvedTypes(problem)) in unresolved {
        let name = pool.metadata.name.clone().unwrap_or_default();
        gathered.remarks.push(Remark {
            place: gathered.location("NodePool", "", &name),
            object: format!("NodePool {name}"),
            field: None,
            problem: format!("{}: {problem}", node_class_ref(&pool).kind),
            fix: Some(TYPES_FIX.to_owned()),
            left_out: true,
            broken: true,
        });
    }
    Ok(types_by_pool)
}

fn node_class_ref(pool: &NodePool) -> &NodeClassRef {
    &pool.spec.template.spec.node_class_ref
}

/// Returns a note about pools that are planned with another provider's types.
fn kwok_price_note(pools: &[NodePool]) -> Option<String> {
    let foreign = pools.iter().filter(|pool| node_class_ref(pool).group != labels::kwok::GROUP);
    let kinds: BTreeSet<_> = foreign.map(|pool| node_class_ref(pool).kind.as_str()).collect();
    (!kinds.is_empty()).then(|| {
        let kinds = rejection_text::join_first(kinds.iter().copied(), kinds.len());
        format!(
            "types and prices are KWOK's, which are invented; NodePools with {kinds} will launch \
             other types at other prices (yours: --instance-types FILE)"
        )
    })
}

const TYPES_FIX: &str = "plan with the built-in types of KWOK (--provider kwok), or with your own \
                           (--instance-types FILE)";

fn no_types_diagnostic(
    subject: &str,
    UnresolvedTypes(problem): &UnresolvedTypes,
) -> Box<Diagnostic> {
    Diagnostic::new(format!("{subject}: {problem}")).fix(TYPES_FIX).into()
}

fn read_instance_types(path: &Path) -> Result<Vec<Arc<InstanceType>>, Box<Diagnostic>> {
    const FORMAT: &str =
        "write a JSON list of types in KWOK's format: name, offerings, architecture, ...";
    let place = || Location::file(path.display().to_string());
    let cannot_read = |error: std::io::Error| {
        let fix = "name a file that can be read";
        Diagnostic::new("cannot read instance types").at(place()).found(error.to_string()).fix(fix)
    };
    let bytes = bounded_file::read(path, INSTANCE_TYPES_BYTES_MAX).map_err(cannot_read)?;
    let types = catalog::from_file(&bytes).map_err(|error| match error {
        CatalogError::Content { place: field, problem } => {
            Diagnostic::new(format!("instance types: {problem}"))
                .at(place().field(field))
                .fix(FORMAT)
        }
        error @ CatalogError::Syntax(_) => {
            Diagnostic::new(error.to_string()).at(place()).fix(FORMAT)
        }
    })?;
    match catalog::first_problem(&types) {
        None => Ok(types),
        Some(CatalogProblem { place: field, problem, fix }) => {
            let place = if field.is_empty() { place() } else { place().field(field) };
            Err(Diagnostic::new(format!("instance types: {problem}")).at(place).fix(fix).into())
        }
    }
}
