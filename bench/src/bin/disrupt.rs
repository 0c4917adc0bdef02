//! Measures time, resident memory and savings of consolidation passes.

use clap::Parser as _;
use karpenter_bench::disruption::measure::{self, Args};

fn main() -> anyhow::Result<()> {
    karpenter_bench::measure::print_json(&measure::measure(&Args::parse())?)
}
