//! The thin end of `cargo xtask`: everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match xtask::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            xtask::host::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
