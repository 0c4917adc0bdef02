//! The committed tables of EC2's instance types, zones and prices (spec 51 §13).
//!
//! `cargo xtask ec2-tables` generates `data/*.tsv`. Offline commands, the simulated EC2 and the
//! controller's fallback prices read them. The data folder has a README that names the sources.
//!
//! | File | Row |
//! |---|---|
//! | `types.tsv` | an instance type, the columns of `row::instance_type`, and its zones by region |
//! | `zones.tsv` | a zone with its region and id |
//! | `figures.tsv` | VPC limits, bandwidth and on-demand prices of an instance type |
//!
//! A column is `.` where EC2 reports nothing; its lists have commas.

mod row;

use std::collections::{BTreeMap, BTreeSet};

use crate::discovery::{
    Currency, InstanceTypeInfo, OfferedZones, PriceTable, TypeFigures, VpcLimits, Zone,
};

#[cfg(test)]
mod tests;

const TYPES: &str = include_str!("tables/data/types.tsv");
const ZONES: &str = include_str!("tables/data/zones.tsv");
const FIGURES: &str = include_str!("tables/data/figures.tsv");

/// The region whose prices stand in for those of commercial regions without a table.
pub const FALLBACK_PRICE_REGION: &str = "us-east-1";

/// A region of AWS that has no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("region {region:?} has no table of instance types; use one of {}", regions().join(", "))]
pub struct UnknownRegion {
    /// The region that was requested.
    pub region: String,
}

/// The instance types and zones of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionTable {
    /// The name, such as `us-west-2`.
    pub region: String,
    /// The zones, by name.
    pub zones: Vec<Zone>,
    /// The instance types that a zone of the region sells, by name. macOS types are among them.
    pub types: Vec<InstanceTypeInfo>,
    /// The zones that sell each instance type.
    pub offered_zones: OfferedZones,
}

/// Returns the regions that have a table of instance types.
pub fn regions() -> Vec<&'static str> {
    let mut regions: Vec<_> = type_columns().collect();
    regions.sort_unstable();
    regions
}

impl RegionTable {
    /// Decodes the table of a region.
    pub fn load(region: &str) -> Result<Self, UnknownRegion> {
        let unknown = || UnknownRegion { region: region.to_owned() };
        let position = type_columns().position(|known| known == region).ok_or_else(unknown)?;
        let mut table = Self {
            region: region.to_owned(),
            zones: zones(region),
            types: Vec::new(),
            offered_zones: OfferedZones::new(),
        };
        for row in rows(TYPES) {
            let (columns, zones) = row.split_at(row.len() - type_columns().count());
            let letters = zones[position];
            if letters == row::ABSENT {
                continue;
            }
            let info = row::instance_type(columns).expect("a test decodes every row");
            let sold: BTreeSet<_> =
                letters.chars().map(|letter| format!("{region}{letter}")).collect();
            table.offered_zones.insert(info.name.clone(), sold);
            table.types.push(info);
        }
        Ok(table)
    }
}

/// Returns the figures of all instance types that no EC2 API reports, by instance type.
pub fn figures() -> BTreeMap<String, TypeFigures> {
    rows(FIGURES).map(|row| (row[0].to_owned(), type_figures(&row))).collect()
}

/// Returns the on-demand prices of a region, or those of us-east-1 if the region has no table.
///
/// The table says which region and currency its prices have. Spot prices are not in it; before the
/// first answer of AWS a spot price equals the on-demand price (spec 51 §8).
pub fn on_demand_prices(region: &str) -> PriceTable {
    let regions: Vec<_> = header(FIGURES).collect();
    let known = regions.iter().position(|known| *known == region);
    let fallback = regions.iter().position(|known| *known == FALLBACK_PRICE_REGION);
    let position = known.or(fallback).expect("the table has us-east-1");
    let priced = rows(FIGURES).filter_map(|row| {
        let price = row[row.len() - regions.len() + position].parse().ok()?;
        Some((row[0].to_owned(), price))
    });
    let region = regions[position];
    PriceTable {
        region: region.to_owned(),
        currency: Currency::of_region(region),
        prices: priced.collect(),
    }
}

fn zones(region: &str) -> Vec<Zone> {
    let zones = rows(ZONES).filter(|row| row[0] == region);
    zones.map(|row| Zone { name: row[1].to_owned(), id: row[2].to_owned() }).collect()
}

fn type_figures(row: &[&str]) -> TypeFigures {
    let number = |column: usize| row[column].parse().ok();
    let vpc = number(1).zip(number(3)).map(|(ipv4_per_interface, branch_interfaces)| VpcLimits {
        ipv4_per_interface,
        is_trunking_compatible: row[2] == "true",
        branch_interfaces,
    });
    TypeFigures { vpc, network_bandwidth_mbps: row[4].parse().ok() }
}

/// Returns the regions of the last columns of `types.tsv`.
fn type_columns() -> impl Iterator<Item = &'static str> {
    header(TYPES)
}

/// Returns the words of the first line, a comment that names the last columns.
fn header(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().next().unwrap_or_default().trim_start_matches('#').split_whitespace()
}

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}
