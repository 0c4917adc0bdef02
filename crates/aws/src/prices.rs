//! Prices of offerings, and how they are refreshed (spec 51 §8).
//!
//! A [`PriceBook`] starts with the prices of a table. A refresh merges what EC2 and the pricing
//! API report: old prices stay where an answer has none, so that a missing page makes no instance
//! type unavailable.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join;
use jiff::Timestamp;

use crate::discovery::{
    CallError, Currency, DescribeSpotPriceHistory, PriceTable, Prices, SpotPrice,
};

mod product;
#[cfg(test)]
pub(crate) mod tests;

use product::{bare_metal_products, compute_products, product_price};

/// The prices of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceList {
    currency: Currency,
    on_demand: BTreeMap<String, f64>,
    spot: BTreeMap<String, BTreeMap<String, f64>>,
    is_spot_updated: bool,
    version: u64,
}

impl PriceList {
    /// Returns the prices of a table; spot costs as much as on-demand.
    ///
    /// Prices that are not positive numbers are left out.
    pub fn from_table(table: &PriceTable) -> Self {
        let usable = table.prices.iter().filter(|(_, price)| is_usable_on_demand(**price));
        Self {
            currency: table.currency,
            on_demand: usable.map(|(name, price)| (name.clone(), *price)).collect(),
            ..Self::default()
        }
    }

    /// Returns the currency of all prices.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// Returns the on-demand price of an instance type for an hour.
    pub fn on_demand(&self, instance_type: &str) -> Option<f64> {
        self.on_demand.get(instance_type).copied()
    }

    /// Returns the spot price of an instance type in a zone for an hour.
    ///
    /// Before the first spot prices arrive it is the on-demand price.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<f64> {
        if self.is_spot_updated {
            self.spot.get(instance_type)?.get(zone).copied()
        } else {
            self.on_demand(instance_type)
        }
    }

    /// Returns whether spot prices are EC2's own and not estimates.
    pub fn is_spot_updated(&self) -> bool {
        self.is_spot_updated
    }

    /// Returns a number that changes with every refresh.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Merges spot prices; of several entries for one zone the last one wins.
    ///
    /// Returns whether there was any usable entry.
    fn merge_spot(&mut self, entries: &[SpotPrice]) -> bool {
        let mut found = false;
        for entry in entries {
            let Some(price) = spot_price(entry) else { continue };
            let zones = self.spot.entry(entry.instance_type.clone()).or_default();
            zones.insert(entry.zone.clone(), price);
            found = true;
        }
        self.is_spot_updated |= found;
        found
    }
}

/// Returns the price of an entry that has a time and a usable price.
fn spot_price(entry: &SpotPrice) -> Option<f64> {
    let price: f64 = entry.price.parse().ok()?;
    (entry.timestamp.is_some() && price.is_finite() && price >= 0.0).then_some(price)
}

fn is_usable_on_demand(price: f64) -> bool {
    price.is_finite() && price > 0.0
}

/// Returns the table of a region, or that of us-east-1.
pub fn table_for_region<'t>(tables: &'t [PriceTable], region: &str) -> Option<&'t PriceTable> {
    let of = |region: &str| tables.iter().find(|table| table.region == region);
    of(region).or_else(|| of(crate::tables::FALLBACK_PRICE_REGION))
}

/// Returns the region whose endpoint of the pricing API serves a region.
pub fn pricing_endpoint_region(region: &str) -> &'static str {
    match region.split('-').next().unwrap_or_default() {
        "ap" => "ap-south-1",
        "cn" => "cn-northwest-1",
        "eu" => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Why a refresh of prices failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// A call failed.
    #[error("{0}")]
    Call(#[from] CallError),
    /// EC2 returned no usable spot price.
    #[error("no spot pricing found")]
    NoSpotPrices,
    /// The pricing API returned no usable price for ordinary or bare-metal instance types.
    #[error("no on-demand pricing found")]
    NoOnDemandPrices,
    /// One or both parts of a refresh failed.
    #[error("updating pricing, {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refresh(Vec<PriceError>),
}

/// The current prices of a region.
#[derive(Debug)]
pub struct PriceBook {
    region: String,
    is_isolated_vpc: bool,
    current: RwLock<Arc<PriceList>>,
}

impl PriceBook {
    /// Returns the prices of a table, to be refreshed for a region.
    ///
    /// In an isolated VPC the pricing API cannot be reached, and is not called.
    pub fn new(region: &str, is_isolated_vpc: bool, prices: PriceList) -> Self {
        Self { region: region.to_owned(), is_isolated_vpc, current: RwLock::new(Arc::new(prices)) }
    }

    /// Returns the prices of this moment.
    pub fn current(&self) -> Arc<PriceList> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refreshes spot and on-demand prices; a failure of one does not stop the other.
    pub async fn refresh(&self, prices: &dyn Prices, now: Timestamp) -> Result<(), PriceError> {
        let (spot, on_demand) =
            join(self.refresh_spot(prices, now), self.refresh_on_demand(prices)).await;
        let errors: Vec<_> = [spot, on_demand].into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(PriceError::Refresh(errors)) }
    }

    /// Merges the current spot prices of all instance types.
    pub async fn refresh_spot(
        &self,
        prices: &dyn Prices,
        now: Timestamp,
    ) -> Result<(), PriceError> {
        let mut request = DescribeSpotPriceHistory {
            product_descriptions: ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
                .map(str::to_owned)
                .into(),
            start_time: now,
            max_results: 2000,
            next_token: None,
        };
        let mut entries = Vec::new();
        loop {
            let page = prices.describe_spot_price_history(&request).await?;
            entries.extend(page.items);
            if page.next_token.is_none() || page.next_token == request.next_token {
                break;
            }
            request.next_token = page.next_token;
        }
        if !self.update(|list| list.merge_spot(&entries)) {
            return Err(PriceError::NoSpotPrices);
        }
        tracing::debug!("updated spot pricing with instance types and offerings");
        Ok(())
    }

    /// Merges the on-demand prices of ordinary and bare-metal instance types.
    ///
    /// GovCloud and isolated VPCs have no pricing API: there the prices of the table stay.
    pub async fn refresh_on_demand(&self, prices: &dyn Prices) -> Result<(), PriceError> {
        if self.is_isolated_vpc || self.region.starts_with("us-gov") {
            return Ok(());
        }
        let (compute, metal) = join(
            self.product_prices(prices, compute_products(&self.region)),
            self.product_prices(prices, bare_metal_products(&self.region)),
        )
        .await;
        let (compute, metal) = (compute?, metal?);
        if compute.is_empty() || metal.is_empty() {
            return Err(PriceError::NoOnDemandPrices);
        }
        let currency = Currency::of_region(&self.region);
        self.update(|list| {
            if list.currency != currency {
                // The table is of another partition; its figures mean something else.
                list.on_demand.clear();
                list.currency = currency;
            }
            list.on_demand.extend(compute);
            list.on_demand.extend(metal);
            true
        });
        tracing::debug!("updated on-demand pricing");
        Ok(())
    }

    async fn product_prices(
        &self,
        prices: &dyn Prices,
        mut request: crate::discovery::GetProducts,
    ) -> Result<BTreeMap<String, f64>, PriceError> {
        let currency = Currency::of_region(&self.region);
        let mut found = BTreeMap::new();
        loop {
            let page = prices.get_products(&request).await?;
            found.extend(page.items.iter().filter_map(|text| product_price(text, currency)));
            if page.next_token.is_none() || page.next_token == request.next_token {
                return Ok(found);
            }
            request.next_token = page.next_token;
        }
    }

    /// Replaces the prices by a changed copy, if the change reports that it did something.
    fn update(&self, change: impl FnOnce(&mut PriceList) -> bool) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = PriceList::clone(&current);
        let is_changed = change(&mut next);
        if is_changed {
            next.version += 1;
            *current = Arc::new(next);
        }
        is_changed
    }
}
