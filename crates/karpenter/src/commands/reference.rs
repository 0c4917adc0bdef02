//! `karpenter reference`: prints the pages of `docs/reference`, for `cargo xtask codegen`.

use clap::ValueEnum;

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
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    print(&match args.page {
        Page::Annotations => karpenter_api::annotations::reference(),
    })?;
    Ok(Outcome::Fine)
}
