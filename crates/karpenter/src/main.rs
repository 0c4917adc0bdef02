//! The one binary: parses the command line, runs a subcommand, turns its outcome into an exit code.
fn main() {}
