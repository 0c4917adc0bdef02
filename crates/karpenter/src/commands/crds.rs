//! `karpenter crds`: prints the CustomResourceDefinitions.

use clap::ValueEnum;
use karpenter_api::crds::{CrdSet, crds};

use super::{Failure, Outcome, print};
use crate::manifest::write;

/// Print the CustomResourceDefinitions of a provider
///
/// The core kinds carry rules on the provider's label domain, so each provider has its own set.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: karpenter crds | kubectl apply --server-side -f -")]
pub(crate) struct Args {
    /// Whose CRDs to print
    #[arg(long, value_enum, default_value_t = Provider::Aws)]
    provider: Provider,
    /// How to print them: YAML documents, or one JSON List
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Provider {
    Aws,
    Kwok,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let crds = crds(match args.provider {
        Provider::Aws => CrdSet::Aws,
        Provider::Kwok => CrdSet::Kwok,
    });
    match args.output {
        Output::Json => print(&write::json_list(&crds))?,
        Output::Yaml => {
            let documents: Vec<_> = crds.iter().map(write::yaml).collect();
            print(&documents.join("---\n"))?;
        }
    }
    Ok(Outcome::Success)
}
