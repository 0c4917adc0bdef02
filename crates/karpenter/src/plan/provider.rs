//! Chooses the provider and the instance types of a plan.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::ingest::Settings;
use karpenter_core::catalog::InstanceType;
use karpenter_kwok::catalog::{self, CatalogError, CatalogProblem};

use super::cluster_objects::ClusterObjects;
use super::rejection_text;
use super::report::Remark;
use crate::bounded_file::{self, INSTANCE_TYPES_BYTES_MAX};
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
    pub(crate) types: Vec<Arc<InstanceType>>,
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
    let mut settings = Settings::kwok(now);
    let mut notes = Vec::new();
    let types = match (instance_types, requested) {
        (Some(path), _) => read_instance_types(path)?,
        (None, Some(Provider::Aws)) => {
            return Err(no_types_diagnostic("--provider aws", labels::aws::GROUP));
        }
        (None, Some(Provider::Kwok)) => {
            notes.extend(kwok_price_note(&gathered.objects.node_pools));
            catalog::built_in()
        }
        (None, None) => {
            exclude_foreign_pools(gathered)?;
            catalog::built_in()
        }
    };
    if requested.is_some() || instance_types.is_some() {
        // With requested types or a requested provider, all pools use them.
        let classes = gathered.objects.node_pools.iter().map(node_class_ref);
        settings.node_classes.extend(classes.map(|c| (c.group.clone(), c.kind.clone())));
    }
    Ok(ChosenProvider { settings, types, notes })
}

/// Removes the pools of other providers than the built-in one.
fn exclude_foreign_pools(gathered: &mut ClusterObjects) -> Result<(), Box<Diagnostic>> {
    let pools = std::mem::take(&mut gathered.objects.node_pools);
    let is_own = |pool: &NodePool| node_class_ref(pool).group == labels::kwok::GROUP;
    let (own, foreign): (Vec<_>, Vec<_>) = pools.into_iter().partition(is_own);
    gathered.objects.node_pools = own;
    if let (Some(pool), []) = (foreign.first(), gathered.objects.node_pools.as_slice()) {
        let class = node_class_ref(pool);
        return Err(no_types_diagnostic(&format!("NodePools with {}", class.kind), &class.group));
    }
    for pool in foreign {
        let class = node_class_ref(&pool);
        let name = pool.metadata.name.clone().unwrap_or_default();
        gathered.remarks.push(Remark {
            place: gathered.location("NodePool", "", &name),
            object: format!("NodePool {name}"),
            field: None,
            problem: unknown_types_problem(&class.kind, &class.group),
            fix: Some(TYPES_FIX.to_owned()),
            left_out: true,
            broken: true,
        });
    }
    Ok(())
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

fn no_types_diagnostic(subject: &str, group: &str) -> Box<Diagnostic> {
    Diagnostic::new(unknown_types_problem(subject, group)).fix(TYPES_FIX).into()
}

fn unknown_types_problem(subject: &str, group: &str) -> String {
    if group == labels::aws::GROUP {
        format!("{subject}: EC2 instance types come with the AWS provider, not yet")
    } else {
        format!("{subject}: nobody here knows the instance types of {group}")
    }
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
