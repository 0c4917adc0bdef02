//! `karpenter controller`: runs the controllers on a cluster.

use karpenter_operator::options::{
    OptionDefinition, Options, ParsedCommandLine, ValueKind, definitions, help,
};

use super::{Failure, Outcome, print};
use crate::diagnostic::Diagnostic;
use crate::{controller, environment};

/// Run the controllers on the cluster of the kubeconfig, or of the pod that this runs in
///
/// Options are upstream's, and are read as upstream reads them: flags in Go's notation, environment
/// variables, defaults. `karpenter controller --help` lists them all.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the controller
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    arguments: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut all = vec![provider_option()];
    all.extend(definitions());
    let usage = |problem: String| {
        Failure::Usage(Diagnostic::new(problem).help_command("karpenter controller --help").into())
    };
    let parsed = Options::parse_with(&all, &args.arguments, environment::variable);
    let (options, resolved) = match parsed.map_err(|error| usage(error.to_string()))? {
        ParsedCommandLine::Help => {
            print(&help(&all))?;
            return Ok(Outcome::Success);
        }
        ParsedCommandLine::Run(options, resolved) => (*options, resolved),
    };
    if let Some(stray) = resolved.positional.first() {
        return Err(usage(format!("{stray} is no option; options begin with a dash")));
    }
    if resolved.text("provider") == "aws" {
        return Err(usage(
            "the provider aws is not part of this version; --provider kwok runs on any cluster"
                .to_owned(),
        ));
    }
    Ok(if controller::run(options, &resolved.ignored_variables)? {
        Outcome::Success
    } else {
        Outcome::Finding
    })
}

/// Returns the option `--provider`, which upstream does not have.
fn provider_option() -> OptionDefinition {
    OptionDefinition {
        flag: "provider",
        env: "KARPENTER_PROVIDER",
        default: "aws".to_owned(),
        kind: ValueKind::OneOf(&["aws", "kwok"]),
        help: "The cloud: aws, or kwok, whose instances are Node objects without machines."
            .to_owned(),
    }
}
