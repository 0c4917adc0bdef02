//! Measures time and resident memory of the instance types of AWS.

use clap::Parser as _;
use karpenter_bench::aws_catalog::measure::{Task, measure};

fn main() -> anyhow::Result<()> {
    karpenter_bench::measure::print_json(&measure(&Task::parse())?)
}
