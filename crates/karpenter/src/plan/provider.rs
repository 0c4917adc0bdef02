//! Whose instance types are planned with.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::ingest::Settings;
use karpenter_core::catalog::InstanceType;
use karpenter_operator::kwok::catalog;

use crate::diagnostic::{Diagnostic, Place};

/// The providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    Kwok,
    Aws,
}

/// What a plan needs to know of a provider.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) settings: Settings,
    pub(crate) types: Vec<Arc<InstanceType>>,
}

/// Largest file of instance types: a thousand times the built-in ones.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The provider that was asked for, else the one that the pools name.
pub(crate) fn choose(
    asked: Option<Provider>,
    instance_types: Option<&Path>,
    pools: &[NodePool],
    now: Timestamp,
) -> Result<Chosen, Box<Diagnostic>> {
    let mut settings = Settings::kwok(now);
    if asked.is_some() || instance_types.is_some() {
        // Whoever names types or a provider wants all pools planned with them.
        let classes = pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref);
        settings.node_classes.extend(classes.map(|c| (c.group.clone(), c.kind.clone())));
    }
    let types = match instance_types {
        Some(path) => read(path)?,
        None if asked == Some(Provider::Aws) => return Err(not_yet("--provider aws").into()),
        None if asked.is_none() => {
            named_by(pools)?;
            catalog::built_in()
        }
        None => catalog::built_in(),
    };
    Ok(Chosen { settings, types })
}

/// Makes sure that the pools name the provider whose types are built in.
fn named_by(pools: &[NodePool]) -> Result<(), Box<Diagnostic>> {
    let classes: BTreeSet<_> = pools
        .iter()
        .map(|pool| &pool.spec.template.spec.node_class_ref)
        .map(|class| (class.group.as_str(), class.kind.as_str()))
        .collect();
    let foreign = classes.iter().find(|(group, _)| *group != labels::kwok::GROUP);
    match foreign {
        None => Ok(()),
        Some((labels::aws::GROUP, kind)) => Err(not_yet(&format!("NodePools with {kind}")).into()),
        Some((group, kind)) => {
            Err(Diagnostic::new(format!("nobody here knows the instance types of {kind}.{group}"))
                .fix(OTHER_TYPES)
                .into())
        }
    }
}

const OTHER_TYPES: &str = "plan with the built-in types of KWOK (--provider kwok), or with your own \
                           (--instance-types FILE)";

fn not_yet(what: &str) -> Diagnostic {
    Diagnostic::new(format!("{what}: EC2 instance types come with the AWS provider, not yet"))
        .fix(OTHER_TYPES)
}

fn read(path: &Path) -> Result<Vec<Arc<InstanceType>>, Box<Diagnostic>> {
    let place = || Place::file(path.display().to_string());
    let cannot_read = |error: std::io::Error| {
        Diagnostic::new("cannot read instance types").at(place()).found(error.to_string())
    };
    let size = std::fs::metadata(path).map_err(cannot_read)?.len();
    if size > FILE_BYTES_MAX {
        let what = format!("instance types are larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Diagnostic::new(what).at(place()).into());
    }
    let bytes = std::fs::read(path).map_err(cannot_read)?;
    catalog::from_file(&bytes).map_err(|error| {
        Diagnostic::new(error.to_string())
            .at(place())
            .fix("write a JSON list of types in KWOK's format: name, offerings, architecture, ...")
            .into()
    })
}
