//! The EC2 instance types of NodePools with an EC2NodeClass, from the built-in tables.

use std::collections::BTreeSet;

use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_aws::instance_types::{ListError, ResolutionOptions};
use karpenter_aws::offline::{self, OfflineInstanceTypes};
use karpenter_aws::tables;
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::cloud::ProviderLabels;
use serde_json::Value;

use super::instance_types::{InstanceTypeResolver, UnresolvedTypes};
use super::rejection_text;
use crate::diagnostic::Diagnostic;

/// The kind of node class that the AWS provider serves.
pub(super) const NODE_CLASS_KIND: &str = "EC2NodeClass";

/// The EC2 instance types of a region.
#[derive(Debug)]
pub(super) struct AwsTypes {
    types: OfflineInstanceTypes,
    /// Node classes without a status.
    completed: BTreeSet<String>,
    /// Node classes that are not among the objects.
    assumed: BTreeSet<String>,
}

impl AwsTypes {
    /// Decodes the tables of a region.
    pub(super) fn load(region: &str) -> Result<Self, Box<Diagnostic>> {
        let types = OfflineInstanceTypes::load(region, ResolutionOptions::new(region));
        let types = types.map_err(|unknown| unknown_region(&unknown.region))?;
        Ok(Self { types, completed: BTreeSet::new(), assumed: BTreeSet::new() })
    }

    fn node_class(
        &mut self,
        name: &str,
        value: Option<&Value>,
    ) -> Result<Ec2NodeClass, UnresolvedTypes> {
        let Some(value) = value else {
            self.assumed.insert(name.to_owned());
            return Ok(self.types.default_class(name));
        };
        let mut class = decode(name, value)?;
        if self.types.complete(&mut class) {
            self.completed.insert(name.to_owned());
        } else if !self.types.has_zone_of(&class) {
            return Err(self.foreign_subnets(name, &class));
        }
        Ok(class)
    }

    fn foreign_subnets(&self, name: &str, class: &Ec2NodeClass) -> UnresolvedTypes {
        let status = class.status.as_ref();
        let subnets = status.and_then(|status| status.subnets.as_deref()).unwrap_or_default();
        let zones: BTreeSet<_> = subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
        let zones = rejection_text::join_first(zones.iter().copied(), zones.len());
        UnresolvedTypes {
            problem: format!(
                "the subnets of {name} are in {zones}, not in region {}",
                self.types.region()
            ),
            fix: "name the region of the cluster (--region)".to_owned(),
        }
    }
}

impl InstanceTypeResolver for AwsTypes {
    fn resolve(
        &mut self,
        pool: &NodePool,
        class: Option<&Value>,
    ) -> Result<InstanceTypes, UnresolvedTypes> {
        let reference = &pool.spec.template.spec.node_class_ref;
        if (reference.group.as_str(), reference.kind.as_str())
            != (labels::aws::GROUP, NODE_CLASS_KIND)
        {
            return Err(UnresolvedTypes {
                problem: "the AWS provider serves NodePools with EC2NodeClass alone".to_owned(),
                fix: "name an EC2NodeClass in spec.template.spec.nodeClassRef, or plan these \
                      NodePools separately with --provider kwok"
                    .to_owned(),
            });
        }
        let class = self.node_class(&reference.name, class)?;
        self.types.list(&class).map_err(|error| unlisted(&reference.name, &error))
    }

    fn labels(&self) -> ProviderLabels {
        offline::provider_labels()
    }

    fn notes(&self) -> Vec<String> {
        let region = self.types.region();
        let classes = |names: &BTreeSet<String>| {
            let joined = rejection_text::join_first(names.iter().map(String::as_str), names.len());
            (!names.is_empty()).then_some(format!("EC2NodeClass {joined}"))
        };
        let completed = classes(&self.completed).map(|classes| {
            format!(
                "{classes} without status: assuming a subnet in every zone of {region}, the AMIs of \
                 the AMI family, and no capacity reservation"
            )
        });
        let assumed = classes(&self.assumed).map(|classes| {
            format!(
                "{classes} not in the input: assuming AL2023 with default settings and a subnet in \
                 every zone of {region}"
            )
        });
        [Some(self.types.price_note()), completed, assumed].into_iter().flatten().collect()
    }
}

/// Returns the error about a region without a table.
pub(super) fn unknown_region(region: &str) -> Box<Diagnostic> {
    let fix = format!("use one of {} (--region)", tables::regions().join(", "));
    Diagnostic::new(format!("region {region:?} has no table of instance types")).fix(fix).into()
}

fn decode(name: &str, value: &Value) -> Result<Ec2NodeClass, UnresolvedTypes> {
    serde_path_to_error::deserialize(value).map_err(|error| UnresolvedTypes {
        problem: format!("{name}: {}: {}", error.path(), error.inner()),
        fix: "write it as its API has it: kubectl explain ec2nodeclass".to_owned(),
    })
}

fn unlisted(name: &str, error: &ListError) -> UnresolvedTypes {
    let fix = match error {
        ListError::Kubelet(_) | ListError::Resolve { .. } => {
            "correct spec.kubelet: kubectl explain ec2nodeclass.spec.kubelet"
        }
        _ => "correct the EC2NodeClass",
    };
    UnresolvedTypes { problem: format!("{name}: {error}"), fix: fix.to_owned() }
}
