//! Chooses the provider and the instance types of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodepool::NodePool;
use karpenter_api::validation::ProviderRules;
use karpenter_aws::tables;
use karpenter_cluster::ingest::Settings;
use karpenter_core::catalog::{InstanceType, InstanceTypes};
use karpenter_kwok::catalog::{self, CatalogError, CatalogProblem};
use karpenter_kwok::provider::INSTANCE_TYPES_BYTES_MAX;
use karpenter_operator::cloud::ProviderLabels;

use super::aws_types::{self, AwsTypes};
use super::cluster_objects::ClusterObjects;
use super::instance_types::{FileTypes, InstanceTypeResolver, KwokTypes, UnresolvedTypes};
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

/// The flags that choose a provider, and the region of the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProviderRequest<'a> {
    pub(crate) provider: Option<Provider>,
    /// The AWS region of the flag, else of the environment.
    pub(crate) region: Option<&'a str>,
    pub(crate) instance_types: Option<&'a Path>,
}

impl<'a> ProviderRequest<'a> {
    /// Combines the flags with the region of the environment. A region flag selects AWS.
    pub(crate) fn new(
        provider: Option<Provider>,
        region_flag: Option<&'a str>,
        environment_region: Option<&'a str>,
        instance_types: Option<&'a Path>,
    ) -> Result<Self, Box<Diagnostic>> {
        let provider = provider.or(region_flag.map(|_| Provider::Aws));
        let region = region_flag.or(environment_region);
        match (provider, region) {
            (Some(Provider::Kwok), _) if region_flag.is_some() => {
                return Err(Diagnostic::new("KWOK has no regions")
                    .fix("leave --region out, or use --provider aws")
                    .into());
            }
            (Some(Provider::Aws), None) if instance_types.is_none() => {
                return Err(missing_region());
            }
            (Some(Provider::Aws), Some(region)) if !tables::regions().contains(&region) => {
                return Err(aws_types::unknown_region(region));
            }
            _ => {}
        }
        Ok(Self { provider, region, instance_types })
    }

    /// Returns the node class of NodePools in files that name none.
    pub(crate) fn default_class(&self) -> NodeClassRef {
        if self.provider != Some(Provider::Aws) {
            return karpenter_kwok::provider::facts().default_class();
        }
        NodeClassRef {
            group: labels::aws::GROUP.to_owned(),
            kind: aws_types::NODE_CLASS_KIND.to_owned(),
            name: "default".to_owned(),
        }
    }

    /// Returns whether some pools may be planned with EC2 instance types.
    pub(crate) fn may_use_aws(&self) -> bool {
        self.instance_types.is_none()
            && self.region.is_some()
            && self.provider != Some(Provider::Kwok)
    }

    /// Returns whether the pools are planned with the EC2 instance types of the built-in tables.
    pub(crate) fn uses_aws(&self, pools: &[NodePool]) -> bool {
        let has_ec2 = || pools.iter().any(|pool| node_class_ref(pool).group == labels::aws::GROUP);
        self.instance_types.is_none()
            && match self.provider {
                Some(provider) => provider == Provider::Aws,
                None => self.region.is_some() && has_ec2(),
            }
    }
}

fn missing_region() -> Box<Diagnostic> {
    let regions = tables::regions().join(", ");
    Diagnostic::new("--provider aws needs a region")
        .fix(format!("add --region REGION, or set AWS_REGION, to one of {regions}; --provider kwok needs none"))
        .into()
}

/// Returns the requested provider, else the one that the pools name. Pools whose types are unknown
/// are left out, with a remark, as long as others are left.
pub(crate) fn choose_provider(
    request: &ProviderRequest<'_>,
    gathered: &mut ClusterObjects,
    now: Timestamp,
) -> Result<ChosenProvider, Box<Diagnostic>> {
    let is_aws = request.uses_aws(&gathered.objects.node_pools);
    let mut settings = settings(is_aws, now);
    let mut notes = Vec::new();
    let mut resolver: Box<dyn InstanceTypeResolver> = match (request.instance_types, is_aws) {
        (Some(path), _) => Box::new(FileTypes { types: read_instance_types(path)?.into() }),
        (None, true) => Box::new(AwsTypes::load(request.region.ok_or_else(missing_region)?)?),
        (None, false) if request.provider == Some(Provider::Kwok) => {
            notes.extend(kwok_price_note(&gathered.objects.node_pools));
            Box::new(KwokTypes::for_all_pools())
        }
        (None, false) => Box::new(KwokTypes::for_own_pools()),
    };
    let types_by_pool = resolve_pools(resolver.as_mut(), gathered)?;
    notes.extend(resolver.notes());
    if !is_aws && (request.provider.is_some() || request.instance_types.is_some()) {
        // With requested types or a requested provider, all pools use them.
        let classes = gathered.objects.node_pools.iter().map(node_class_ref);
        settings.node_classes.extend(classes.map(|c| (c.group.clone(), c.kind.clone())));
    }
    Ok(ChosenProvider { settings, types_by_pool, labels: resolver.labels(), notes })
}

fn settings(is_aws: bool, now: Timestamp) -> Settings {
    if is_aws {
        let class = (labels::aws::GROUP, aws_types::NODE_CLASS_KIND);
        return Settings::new(ProviderRules::aws(), [class], now);
    }
    let facts = karpenter_kwok::provider::facts();
    let classes = facts.node_classes.iter().map(|class| (class.group, class.kind));
    Settings::new(facts.rules.clone(), classes, now)
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
    for (pool, UnresolvedTypes { problem, fix }) in unresolved {
        let name = pool.metadata.name.clone().unwrap_or_default();
        gathered.remarks.push(Remark {
            place: gathered.location("NodePool", "", &name),
            object: format!("NodePool {name}"),
            field: None,
            problem: format!("{}: {problem}", node_class_ref(&pool).kind),
            fix: Some(fix),
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

fn no_types_diagnostic(
    subject: &str,
    UnresolvedTypes { problem, fix }: &UnresolvedTypes,
) -> Box<Diagnostic> {
    Diagnostic::new(format!("{subject}: {problem}")).fix(fix).into()
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
