//! `karpenter reference`: prints the pages of `docs/reference`, for `cargo xtask codegen`.

use std::sync::Arc;

use clap::ValueEnum;
use karpenter_api::labels;
use karpenter_operator::clock::SystemClock;
use karpenter_operator::metrics::{self, Metrics, MetricsConfig};

use super::{Failure, Outcome, print};

/// Print a page of the reference documentation
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Which page
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    Annotations,
    Metrics,
    Options,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    print(&match args.page {
        Page::Annotations => karpenter_api::annotations::reference_page(),
        Page::Metrics => metrics_reference(),
        Page::Options => karpenter_operator::options::reference(),
    })?;
    Ok(Outcome::Success)
}

/// Returns the reference of all metrics, with the KWOK provider's labels.
fn metrics_reference() -> String {
    let well_known = labels::WELL_KNOWN.iter().chain(&labels::kwok::WELL_KNOWN);
    let config = MetricsConfig {
        well_known: well_known.map(|&key| key.to_owned()).collect(),
        node_class_labels: vec![labels::kwok::KWOK_NODE_CLASS.to_owned()],
    };
    metrics::reference(Metrics::new(Arc::new(SystemClock), &config).registry())
}
