//! Reads the figures that no EC2 API returns, and the prices, from a Go module.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process;

const MODULE: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";

/// The regions whose prices the module has, in the order of the columns of `figures.tsv`.
pub(super) const PRICED_REGIONS: [&str; 4] =
    ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"];

/// The figures of an instance type, as texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Addresses of an interface, whether there are branch interfaces, and how many.
    pub(super) vpc: Option<(String, bool, String)>,
    pub(super) bandwidth_mbps: Option<String>,
    /// On-demand prices by region.
    pub(super) prices: BTreeMap<String, String>,
}

/// Downloads the module and reads its generated files.
pub(super) fn read() -> Result<BTreeMap<String, Figures>> {
    let mut download = Command::new("go");
    // A folder without go.mod: the command then takes any module.
    download.args(["mod", "download", "-json", MODULE]).current_dir(std::env::temp_dir());
    let answer: Value = serde_json::from_slice(&process::output(download)?)?;
    let folder = answer["Dir"].as_str().context("go mod download names no folder")?;
    let providers = PathBuf::from(folder).join("pkg/providers");
    let mut figures = BTreeMap::new();
    read_vpc_limits(&text(&providers, "instancetype/zz_generated.vpclimits.go")?, &mut figures)?;
    read_bandwidth(&text(&providers, "instancetype/zz_generated.bandwidth.go")?, &mut figures);
    for file in ["aws", "aws_us_gov", "aws_cn"] {
        let prices = text(&providers, &format!("pricing/zz_generated.pricing_{file}.go"))?;
        read_prices(&prices, &mut figures)?;
    }
    ensure!(figures.len() > 1000, "only {} instance types have figures", figures.len());
    Ok(figures)
}

fn text(providers: &Path, file: &str) -> Result<String> {
    fs::read_to_string(providers.join(file)).with_context(|| format!("cannot read {file}"))
}

/// Returns the lines without comments and blanks around them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default().trim())
}

/// Returns key and value of `"key": value`.
fn entry(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.trim().split_once(':')?;
    let key = key.trim().strip_prefix('"')?.strip_suffix('"')?;
    Some((key, value.trim()))
}

fn read_vpc_limits(text: &str, figures: &mut BTreeMap<String, Figures>) -> Result<()> {
    let mut current: Option<&str> = None;
    for line in lines(text) {
        if let Some((name, "{")) = entry(line) {
            current = Some(name);
            let figures = figures.entry(name.to_owned()).or_default();
            figures.vpc = Some((String::new(), false, String::new()));
            continue;
        }
        let Some((field, value)) = line.split_once(':') else { continue };
        let Some(limits) = current.and_then(|name| figures.get_mut(name)?.vpc.as_mut()) else {
            continue;
        };
        let value = value.trim().trim_end_matches(',');
        match field {
            "IPv4PerInterface" => value.clone_into(&mut limits.0),
            "IsTrunkingCompatible" => limits.1 = value == "true",
            "BranchInterface" => value.clone_into(&mut limits.2),
            _ => {}
        }
    }
    for (name, figures) in figures {
        let is_complete = |(addresses, _, branches): &(String, bool, String)| {
            addresses.parse::<u32>().is_ok() && branches.parse::<u32>().is_ok()
        };
        ensure!(figures.vpc.as_ref().is_none_or(is_complete), "limits of {name} are incomplete");
    }
    Ok(())
}

fn read_bandwidth(text: &str, figures: &mut BTreeMap<String, Figures>) {
    for (name, value) in lines(text).filter_map(entry) {
        let value = value.trim_end_matches(',');
        if value.parse::<u64>().is_ok() {
            figures.entry(name.to_owned()).or_default().bandwidth_mbps = Some(value.to_owned());
        }
    }
}

fn read_prices(text: &str, figures: &mut BTreeMap<String, Figures>) -> Result<()> {
    let mut region: Option<&str> = None;
    for line in lines(text) {
        if let Some((name, "{")) = entry(line) {
            region = Some(name);
            continue;
        }
        for (name, price) in line.split(',').filter_map(entry) {
            let region = region.with_context(|| format!("{name} has a price in no region"))?;
            let price: f64 = price.parse().with_context(|| format!("price of {name}"))?;
            let prices = &mut figures.entry(name.to_owned()).or_default().prices;
            prices.insert(region.to_owned(), price.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_generated_go_files() -> Result<()> {
        let mut figures = BTreeMap::new();
        let limits = r#"
            var Limits = map[string]*VPCLimits{
                "a1.large": {
                    Interface:            3,
                    IPv4PerInterface:     10,
                    IsTrunkingCompatible: true,
                    BranchInterface:      9,
                    NetworkCards: []NetworkCard{
                        {
                            MaximumNetworkInterfaces: 3,
                        },
                    },
                },
            }"#;
        read_vpc_limits(limits, &mut figures)?;
        read_bandwidth("// c1.medium has vague\n\"a1.large\": 750,\n", &mut figures);
        let prices = "\"us-east-1\": {\n// a1 family\n\"a1.large\": 0.051000, \"b.x\": 12.0,\n},";
        read_prices(prices, &mut figures)?;
        let expected = Figures {
            vpc: Some(("10".to_owned(), true, "9".to_owned())),
            bandwidth_mbps: Some("750".to_owned()),
            prices: BTreeMap::from([("us-east-1".to_owned(), "0.051".to_owned())]),
        };
        assert_eq!(figures.get("a1.large"), Some(&expected));
        assert_eq!(figures["b.x"].prices["us-east-1"], "12");
        Ok(())
    }

    #[test]
    fn limits_without_a_number_are_an_error() {
        let limits = "\"a1.large\": {\nIPv4PerInterface: ten,\nBranchInterface: 9,\n},";
        let error = read_vpc_limits(limits, &mut BTreeMap::new()).expect_err("ten is no number");
        assert_eq!(error.to_string(), "limits of a1.large are incomplete");
    }
}
