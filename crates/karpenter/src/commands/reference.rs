//! `karpenter reference`: prints the pages of `docs/reference`, for `cargo xtask codegen`.

use std::sync::Arc;

use clap::ValueEnum;
use karpenter_kwok::KwokProvider;
use karpenter_operator::clock::SystemClock;
use karpenter_operator::cloud::ProviderLabels;
use karpenter_operator::metrics::{self, Metrics, MetricsConfig};
use karpenter_operator::options;
use karpenter_operator::provider::Provider as _;

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
        Page::Options => options_reference(),
    })?;
    Ok(Outcome::Success)
}

/// Returns the provider whose options and metrics the pages show.
fn provider() -> KwokProvider {
    KwokProvider
}

fn options_reference() -> String {
    options::reference(&options::definitions_with(provider().option_definitions()))
}

/// Returns the reference of all metrics, with the provider's labels and metrics.
fn metrics_reference() -> String {
    let (clock, facts) = (Arc::new(SystemClock), provider().facts());
    let well_known = facts.rules.well_known_labels().map(str::to_owned).collect();
    let labels = ProviderLabels { well_known: Arc::new(well_known), ..ProviderLabels::default() };
    let metrics = Metrics::new(clock, &MetricsConfig::for_provider(&facts, &labels));
    provider().register_metrics(metrics.registry());
    metrics::reference(metrics.registry(), &facts.name.to_uppercase())
}
