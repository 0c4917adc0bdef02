//! Reads EC2's instance types and zones from the package of moto.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process;

const PACKAGE: &str = "moto==5.2.5";

/// EC2's instance types, and the regions that sell them.
pub(super) struct Ec2 {
    /// The answer of DescribeInstanceTypes, by instance type.
    pub(super) types: BTreeMap<String, Value>,
    pub(super) regions: Vec<Region>,
}

/// A region with its zones and the instance types of each zone.
pub(super) struct Region {
    pub(super) name: &'static str,
    /// The zone ids by zone name.
    pub(super) zone_ids: BTreeMap<String, String>,
    /// The letters of the zones that sell an instance type, by instance type.
    pub(super) sold: BTreeMap<String, String>,
}

/// Installs the package in `scratch` and reads its data.
pub(super) fn read(scratch: &Path, regions: &[&'static str]) -> Result<Ec2> {
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"]);
    process::run({
        install.arg(scratch).arg(PACKAGE);
        install
    })?;
    let ec2 = scratch.join("moto/ec2");
    let types = match unpack(&ec2.join("resources/instance_types.json.gz"))? {
        Value::Object(types) => types.into_iter().collect(),
        _ => anyhow::bail!("instance_types.json.gz is no object"),
    };
    let models = ec2.join("models/availability_zones_and_regions.py");
    let models = fs::read_to_string(&models).context("cannot read the zones of moto")?;
    let regions = regions.iter().map(|name| read_region(&ec2, &models, name));
    Ok(Ec2 { types, regions: regions.collect::<Result<_>>()? })
}

fn read_region(ec2: &Path, models: &str, name: &'static str) -> Result<Region> {
    let offerings = ec2.join("resources/instance_type_offerings");
    let list = unpack(&offerings.join(format!("availability-zone/{name}.json.gz")))?;
    let mut sold: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for (instance_type, zone) in locations(&list)? {
        let letter = zone.strip_prefix(name).and_then(|rest| rest.chars().next());
        let letter = letter.with_context(|| format!("zone {zone} is not one of {name}"))?;
        sold.entry(instance_type).or_default().push(letter);
    }
    let sold = sold.into_iter().map(|(instance_type, mut letters)| {
        letters.sort_unstable();
        (instance_type, letters.into_iter().collect())
    });
    let mut zone_ids = zone_ids(models, name);
    if zone_ids.is_empty() {
        // moto names the zones of a region that its list leaves out in the order of their ids.
        let ids = unpack(&offerings.join(format!("availability-zone-id/{name}.json.gz")))?;
        let mut ids: Vec<String> = locations(&ids)?.into_iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        let named = ('a'..='z').zip(ids).map(|(letter, id)| (format!("{name}{letter}"), id));
        zone_ids = named.collect();
    }
    Ok(Region { name, zone_ids, sold: sold.collect() })
}

/// Returns the pairs of instance type and location of a list of offerings.
fn locations(list: &Value) -> Result<Vec<(String, String)>> {
    let list = list.as_array().context("a list of offerings is no array")?;
    let text = |entry: &Value, key: &str| {
        let text = entry[key].as_str().map(str::to_owned);
        text.with_context(|| format!("an offering has no {key}"))
    };
    list.iter().map(|entry| Ok((text(entry, "InstanceType")?, text(entry, "Location")?))).collect()
}

/// Returns the zone ids by zone name that the list of moto has for a region.
fn zone_ids(models: &str, region: &str) -> BTreeMap<String, String> {
    let of_region = format!("region_name=\"{region}\"");
    let entries = models.split("Zone(").filter(|entry| entry.contains(&of_region));
    let field = |entry: &str, name: &str| {
        let (_, rest) = entry.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    // `region_name="` ends in `name="` too, so the zone's own name follows a blank.
    entries.filter_map(|entry| Some((field(entry, " name")?, field(entry, "zone_id")?))).collect()
}

fn unpack(path: &Path) -> Result<Value> {
    let mut command = Command::new("gzip");
    command.arg("-dc").arg(path);
    let text = process::output(command)?;
    ensure!(!text.is_empty(), "{} is empty", path.display());
    serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_ids_are_read_from_the_list_of_zones() {
        let models = r#"
            "eu-west-1": [
                Zone(region_name="eu-west-1", name="eu-west-1a", zone_id="euw1-az3"),
                Zone(
                    region_name="eu-west-1",
                    name="eu-west-1b",
                    zone_id="euw1-az1",
                ),
            ],
            "eu-west-2": [Zone(region_name="eu-west-2", name="eu-west-2a", zone_id="euw2-az1")],"#;
        let expected = [("eu-west-1a", "euw1-az3"), ("eu-west-1b", "euw1-az1")];
        let expected = expected.map(|(name, id)| (name.to_owned(), id.to_owned()));
        assert_eq!(zone_ids(models, "eu-west-1"), BTreeMap::from(expected));
        assert_eq!(zone_ids(models, "us-east-2"), BTreeMap::new());
    }
}
