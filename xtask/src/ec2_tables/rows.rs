//! Writes the rows of the tables. `crates/aws/src/tables` reads them and describes the columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::figures::{Figures, PRICED_REGIONS};
use super::moto::Ec2;

/// What a column has where EC2 reports nothing.
const ABSENT: &str = ".";

/// Returns `types.tsv`: a row for each instance type that one of the regions sells.
pub(super) fn types(ec2: &Ec2) -> Result<String> {
    let names: Vec<_> = ec2.regions.iter().map(|region| region.name).collect();
    let mut text = format!("# {}\n", names.join(" "));
    for (name, info) in &ec2.types {
        let zones = ec2.regions.iter().map(|region| region.sold.get(name).map_or(ABSENT, |z| z));
        let zones: Vec<&str> = zones.collect();
        if zones.iter().all(|zones| *zones == ABSENT) {
            continue;
        }
        let columns = columns(info).with_context(|| format!("instance type {name}"))?;
        writeln!(text, "{name}\t{}\t{}", columns.join("\t"), zones.join("\t"))?;
    }
    Ok(text)
}

/// Returns the columns of an instance type between its name and its zones.
fn columns(info: &Value) -> Result<Vec<String>> {
    let (processor, network) = (&info["ProcessorInfo"], &info["NetworkInfo"]);
    let (storage, ebs) = (&info["InstanceStorageInfo"], &info["EbsInfo"]);
    let cards = network["NetworkCards"].as_array().map(|cards| {
        let card = |card: &Value| {
            let index = number(&card["NetworkCardIndex"])?;
            Ok(format!("{index}:{}", number(&card["MaximumNetworkInterfaces"])?))
        };
        cards.iter().map(card).collect::<Result<Vec<_>>>().map(|cards| cards.join(","))
    });
    Ok(vec![
        list(&info["SupportedUsageClasses"]),
        optional(&info["Hypervisor"]),
        list(&processor["SupportedArchitectures"]),
        optional(&processor["Manufacturer"]),
        optional(&processor["SustainedClockSpeedInGhz"]),
        list(&processor["SupportedFeatures"]),
        number(&info["VCpuInfo"]["DefaultVCpus"])?,
        number(&info["MemoryInfo"]["SizeInMiB"])?,
        optional(&storage["NvmeSupport"]),
        optional(&storage["TotalSizeInGB"]),
        optional(&ebs["EbsOptimizedSupport"]),
        optional(&ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"]),
        cards.transpose()?.unwrap_or_else(|| ABSENT.to_owned()),
        number(&network["DefaultNetworkCardIndex"])?,
        number(&network["Ipv4AddressesPerInterface"])?,
        optional(&network["EncryptionInTransitSupported"]),
        optional(&network["EfaInfo"]["MaximumEfaInterfaces"]),
        optional(&network["EnaSupport"]),
        devices(&info["GpuInfo"]["Gpus"], |gpu| {
            let memory = optional(&gpu["MemoryInfo"]["SizeInMiB"]);
            Ok([optional(&gpu["Name"]), optional(&gpu["Manufacturer"]), count(gpu)?, memory].into())
        })?,
        devices(&info["InferenceAcceleratorInfo"]["Accelerators"], |device| {
            Ok([optional(&device["Name"]), optional(&device["Manufacturer"]), count(device)?]
                .into())
        })?,
        devices(&info["NeuronInfo"]["NeuronDevices"], |device| {
            let cores = number(&device["CoreInfo"]["Count"])?;
            Ok([optional(&device["Name"]), count(device)?, cores].into())
        })?,
        optional(&info["NitroEnclavesSupport"]),
        list(&info["PlacementGroupInfo"]["SupportedStrategies"]),
    ])
}

/// Returns devices as `Name|field|…`, one after another with `;` between them.
fn devices(list: &Value, fields: impl Fn(&Value) -> Result<Vec<String>>) -> Result<String> {
    let Some(list) = list.as_array() else { return Ok(ABSENT.to_owned()) };
    let devices = list.iter().map(|device| Ok(fields(device)?.join("|")));
    Ok(devices.collect::<Result<Vec<_>>>()?.join(";"))
}

fn count(device: &Value) -> Result<String> {
    number(&device["Count"])
}

fn number(value: &Value) -> Result<String> {
    let number = value.as_u64().context("a count is missing")?;
    Ok(number.to_string())
}

fn optional(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => ABSENT.to_owned(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> String {
    let Some(list) = value.as_array() else { return ABSENT.to_owned() };
    list.iter().map(optional).collect::<Vec<_>>().join(",")
}

/// Returns `zones.tsv`: region, zone and zone id in a row.
pub(super) fn zones(ec2: &Ec2) -> String {
    let rows = ec2.regions.iter().flat_map(|region| {
        region.zone_ids.iter().map(|(zone, id)| format!("{}\t{zone}\t{id}\n", region.name))
    });
    rows.collect()
}

/// Returns `figures.tsv`: the figures of each instance type, and its prices by region.
pub(super) fn figures(figures: &BTreeMap<String, Figures>) -> String {
    let row = |(name, figures): (&String, &Figures)| {
        let vpc = figures.vpc.as_ref().map_or([ABSENT, ABSENT, ABSENT], |(ipv4, trunk, branch)| {
            [ipv4, if *trunk { "true" } else { "false" }, branch]
        });
        let bandwidth = figures.bandwidth_mbps.as_deref().unwrap_or(ABSENT);
        let price = |region| figures.prices.get(region).map_or(ABSENT, String::as_str);
        let prices = PRICED_REGIONS.map(price).join("\t");
        format!("{name}\t{}\t{bandwidth}\t{prices}\n", vpc.join("\t"))
    };
    let rows: String = figures.iter().map(row).collect();
    format!("# {}\n{rows}", PRICED_REGIONS.join(" "))
}
