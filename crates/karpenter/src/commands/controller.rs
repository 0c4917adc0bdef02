//! `karpenter controller`: runs the controllers on a cluster.

use karpenter_operator::options::{Options, ParsedCommandLine, definitions_with, flags, help};

use super::{Failure, Outcome, print};
use crate::diagnostic::Diagnostic;
use crate::{controller, environment, providers};

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
    let usage = |problem: String| {
        Failure::Usage(Diagnostic::new(problem).help_command("karpenter controller --help").into())
    };
    let (option, arguments) = (providers::option(), &args.arguments);
    let definitions = |provider| {
        let mut all = vec![providers::option()];
        all.extend(definitions_with(provider));
        all
    };
    // The provider has to be known before its options can be read.
    let every = definitions(providers::all_option_definitions());
    let name = flags::resolve_one(&option, &every, arguments, environment::variable);
    let name = name.map_err(|error| usage(error.to_string()))?.text;
    let all = definitions(providers::option_definitions(&name));
    let parsed = Options::parse_with(&all, arguments, environment::variable);
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
    let provider = providers::find(&name).map_err(usage)?;
    Ok(if controller::run(provider.as_ref(), options, &resolved)? {
        Outcome::Success
    } else {
        Outcome::Finding
    })
}
