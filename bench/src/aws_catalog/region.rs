//! The instance types of us-west-2, and NodeClasses that list them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_api::labels::{ON_DEMAND, aws};
use karpenter_api::validation::ProviderRules;
use karpenter_aws::instance_types::{InstanceTypeSources, InstanceTypes, ResolutionOptions};
use karpenter_aws::offerings::OfferingContext;
use karpenter_aws::prices::{PriceBook, PriceList};
use karpenter_aws::reservations::ReservationCounts;
use karpenter_aws::tables::{self, RegionTable};
use karpenter_aws::unavailable::{MarkContext, OfferingKey, UnavailableOfferings};
use karpenter_core::catalog::{self, Catalog};
use karpenter_core::requirement::Aliases;
use karpenter_operator::clock::{Clock, SystemClock};
use serde_json::{Value, json};

const REGION: &str = "us-west-2";

/// The instance types of a region with empty caches.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) types: InstanceTypes,
    unavailable: Arc<UnavailableOfferings>,
}

impl Region {
    /// Decodes the tables.
    pub(super) fn load() -> Result<Self> {
        let table = RegionTable::load(REGION)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let prices = PriceList::from_table(&tables::on_demand_prices(REGION));
        let unavailable = Arc::new(UnavailableOfferings::new(Arc::clone(&clock)));
        let sources = InstanceTypeSources {
            figures: tables::figures(),
            prices: Arc::new(PriceBook::new(REGION, false, prices)),
            unavailable: Arc::clone(&unavailable),
            reservations: Arc::new(ReservationCounts::new(Arc::clone(&clock))),
            clock,
        };
        let types = InstanceTypes::new(ResolutionOptions::new(REGION), sources);
        types.replace(table.types, table.offered_zones);
        Ok(Self { types, unavailable })
    }

    /// Returns the instance types of a NodeClass.
    pub(super) fn list(&self, class: &Ec2NodeClass) -> Result<catalog::InstanceTypes> {
        Ok(self.types.list(class, &OfferingContext::default())?)
    }

    /// Lists the instance types of each NodePool; the NodeClasses take turns.
    pub(super) fn catalog(
        &self,
        classes: &[Ec2NodeClass],
        pools: impl IntoIterator<Item = String>,
    ) -> Result<Catalog> {
        let rules = ProviderRules::aws();
        let aliases = rules.aliases();
        let mut catalog = Catalog {
            well_known: Arc::new(rules.well_known_labels().map(str::to_owned).collect()),
            reservation_id_label: Some(aws::CAPACITY_RESERVATION_ID.to_owned()),
            aliases: Arc::new(
                aliases.fold(Aliases::default(), |aliases, (old, key)| aliases.with_key(old, key)),
            ),
            ..Catalog::default()
        };
        for (pool, class) in pools.into_iter().zip(classes.iter().cycle()) {
            catalog.pools.insert(pool, self.list(class)?);
        }
        Ok(catalog)
    }

    /// Marks one on-demand offering as unavailable.
    pub(super) fn mark_one(&self) {
        let key = OfferingKey {
            instance_type: "m5.large".to_owned(),
            capacity_type: ON_DEMAND.to_owned(),
            zone: format!("{REGION}a"),
            scope: None,
        };
        self.unavailable.mark(key, MarkContext::default());
    }
}

/// Returns five NodeClasses that share no resolved instance types.
pub(super) fn node_classes() -> Result<Vec<Ec2NodeClass>> {
    let volume = json!({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "200Gi"}});
    let reserved = json!({"cpu": "200m", "memory": "500Mi"});
    [
        ("al2023", json!({"amiFamily": "AL2023"})),
        ("bottlerocket", json!({"amiFamily": "Bottlerocket"})),
        ("raid", json!({"amiFamily": "AL2023", "instanceStorePolicy": "RAID0"})),
        ("large-volume", json!({"amiFamily": "AL2023", "blockDeviceMappings": [volume]})),
        (
            "kubelet",
            json!({"amiFamily": "AL2023", "kubelet": {"maxPods": 58, "kubeReserved": reserved}}),
        ),
    ]
    .into_iter()
    .map(|(name, spec)| node_class(name, spec))
    .collect()
}

/// Returns a NodeClass with images for two architectures and a subnet in each of four zones.
fn node_class(name: &str, mut spec: Value) -> Result<Ec2NodeClass> {
    spec["amiSelectorTerms"] = json!([{"tags": {"team": name}}]);
    spec["subnetSelectorTerms"] = json!([{"tags": {"team": name}}]);
    spec["securityGroupSelectorTerms"] = json!([{"tags": {"team": name}}]);
    spec["role"] = json!("node");
    let ami = |architecture: &str| {
        let requirement =
            json!({"key": "kubernetes.io/arch", "operator": "In", "values": [architecture]});
        json!({
            "id": format!("ami-{architecture}-{name}"),
            "name": format!("{name}-{architecture}"),
            "requirements": [requirement],
        })
    };
    let table = RegionTable::load(REGION)?;
    let subnet = |zone: &karpenter_aws::discovery::Zone| json!({"id": format!("subnet-{}", zone.name), "zone": zone.name, "zoneID": zone.id});
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "amis": [ami("amd64"), ami("arm64")],
            "subnets": table.zones.iter().map(subnet).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(class).with_context(|| format!("cannot read node class {name}"))
}

/// Returns the names of NodePools.
pub(super) fn pool_names(count: usize) -> BTreeSet<String> {
    (0..count).map(|pool| format!("pool-{pool:03}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Region, node_classes, pool_names};

    #[test]
    fn node_pools_of_one_node_class_share_resolved_instance_types() {
        let region = Region::load().unwrap();
        let classes = node_classes().unwrap();
        let catalog = region.catalog(&classes, pool_names(12)).unwrap();
        assert_eq!((catalog.pools.len(), classes.len()), (12, 5));
        let lists = catalog.pools.values().map(|types| types.len() as u64);
        let (resolved, offered) = region.types.statistics();
        assert_eq!(resolved, lists.take(classes.len()).sum::<u64>(), "each class once");
        assert_eq!(offered, resolved);

        region.mark_one();
        region.list(&classes[0]).unwrap();
        assert_eq!(region.types.statistics(), (resolved, offered + 1), "one type after a mark");
    }
}
