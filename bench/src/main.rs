//! The thin end of the measuring commands: everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match karpenter_bench::cli::run() {
        Ok(code) => code,
        Err(error) => {
            karpenter_bench::host::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
