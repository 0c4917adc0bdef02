//! Instance types of a region without an AWS account, from the committed tables (spec 51 §13).
//!
//! [`OfflineInstanceTypes`] resolves an EC2NodeClass as the controller does. What a status would
//! say comes from the tables: [`OfflineInstanceTypes::complete`]. Prices are estimates; see
//! [`OfflineInstanceTypes::price_note`].

use std::sync::Arc;

use karpenter_api::ec2_nodeclass::{AL2023, AmiSelectorTerm, Ec2NodeClass, Subnet};
use karpenter_api::labels::aws::CAPACITY_RESERVATION_ID;
use karpenter_api::validation::ProviderRules;
use karpenter_core::catalog;
use karpenter_core::requirement::Aliases;
use karpenter_operator::clock::{Clock, SystemClock};
use karpenter_operator::cloud::ProviderLabels;

use crate::ami_family::AmiFamily;
use crate::discovery::{InstanceTypeInfo, PriceTable, Zone};
use crate::instance_types::{InstanceTypeSources, InstanceTypes, ListError, ResolutionOptions};
use crate::offerings::OfferingContext;
use crate::prices::{PriceBook, PriceList};
use crate::reservations::ReservationCounts;
use crate::tables::{self, RegionTable, UnknownRegion};
use crate::unavailable::UnavailableOfferings;

mod images;
#[cfg(test)]
mod tests;

/// Returns the labels that the AWS provider defines.
pub fn provider_labels() -> ProviderLabels {
    let rules = ProviderRules::aws();
    let aliases =
        rules.aliases().fold(Aliases::default(), |known, (old, key)| known.with_key(old, key));
    ProviderLabels {
        well_known: Arc::new(rules.well_known_labels().map(str::to_owned).collect()),
        reservation_id_label: Some(CAPACITY_RESERVATION_ID.to_owned()),
        aliases: Arc::new(aliases),
    }
}

/// The instance types of a region, from the committed tables.
#[derive(Debug)]
pub struct OfflineInstanceTypes {
    region: String,
    zones: Vec<Zone>,
    /// The region whose on-demand prices are used.
    price_region: String,
    types: InstanceTypes,
}

impl OfflineInstanceTypes {
    /// Decodes the tables of a region.
    pub fn load(region: &str, options: ResolutionOptions) -> Result<Self, UnknownRegion> {
        let table = RegionTable::load(region)?;
        let prices = tables::on_demand_prices(region);
        let types = InstanceTypes::new(options, sources(region, &prices));
        let discovered = table.types.into_iter().filter(has_supported_architecture).collect();
        types.replace(discovered, table.offered_zones);
        let price_region = prices.region;
        Ok(Self { region: table.region, zones: table.zones, price_region, types })
    }

    /// Returns the name of the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the zones of the region.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Returns the instance types of a node class with a status.
    pub fn list(&self, class: &Ec2NodeClass) -> Result<catalog::InstanceTypes, ListError> {
        self.types.list(class, &OfferingContext::default())
    }

    /// Adds the status of a node class that has no subnets. Returns whether it had none.
    ///
    /// The status gets a subnet in every zone of the region, and images by the name of the AMI
    /// family.
    pub fn complete(&self, class: &mut Ec2NodeClass) -> bool {
        let status = class.status.get_or_insert_default();
        if status.subnets.as_ref().is_some_and(|subnets| !subnets.is_empty()) {
            return false;
        }
        let subnet = |zone: &Zone| Subnet {
            id: format!("subnet-{}", zone.name),
            zone: zone.name.clone(),
            zone_id: Some(zone.id.clone()),
        };
        status.subnets = Some(self.zones.iter().map(subnet).collect());
        if status.amis.as_ref().is_none_or(Vec::is_empty) {
            status.amis = Some(images::images(AmiFamily::of(&class.spec)));
        }
        true
    }

    /// Returns whether a subnet of the status is in a zone of the region.
    pub fn has_zone_of(&self, class: &Ec2NodeClass) -> bool {
        let subnets = class.status.as_ref().and_then(|status| status.subnets.as_deref());
        let is_known = |subnet: &Subnet| self.zones.iter().any(|zone| zone.name == subnet.zone);
        subnets.unwrap_or_default().iter().any(is_known)
    }

    /// Returns a node class with AL2023, as a stand-in for one that is not known.
    pub fn default_class(&self, name: &str) -> Ec2NodeClass {
        let mut class = Ec2NodeClass::default();
        class.metadata.name = Some(name.to_owned());
        class.spec.ami_family = Some(AL2023.to_owned());
        let latest = Some(format!("{}@latest", AL2023.to_lowercase()));
        class.spec.ami_selector_terms =
            vec![AmiSelectorTerm { alias: latest, ..AmiSelectorTerm::default() }];
        self.complete(&mut class);
        class
    }

    /// Returns a note about where the prices are from.
    pub fn price_note(&self) -> String {
        format!(
            "prices are estimates: on-demand prices of {} from a built-in table; spot is priced as \
             on-demand",
            self.price_region
        )
    }
}

/// Returns whether discovery finds the instance type: macOS types have other architectures.
fn has_supported_architecture(info: &InstanceTypeInfo) -> bool {
    let processor = info.processor.as_ref();
    let architectures = processor.map(|processor| processor.architectures.as_slice());
    architectures.unwrap_or_default().iter().any(|own| own == "x86_64" || own == "arm64")
}

fn sources(region: &str, prices: &PriceTable) -> InstanceTypeSources {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    InstanceTypeSources {
        figures: tables::figures(),
        prices: Arc::new(PriceBook::new(region, true, PriceList::from_table(prices))),
        unavailable: Arc::new(UnavailableOfferings::new(Arc::clone(&clock))),
        reservations: Arc::new(ReservationCounts::new(Arc::clone(&clock))),
        clock,
    }
}
