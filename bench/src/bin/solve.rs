//! Measures time and resident memory of one solve.

use clap::Parser as _;
use karpenter_bench::measure::{self, Args};

fn main() -> anyhow::Result<()> {
    measure::print_json(&measure::measure(&Args::parse())?)
}
