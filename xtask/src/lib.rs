//! Developer commands of karpenter-rs (`cargo xtask …`), and the test tools that they build.
//!
//! Owns: the order of the checks (`test`), the generated files (`codegen`), and the real programs
//! that the end-to-end tests and the measurements start, in [`tools`] (the one part that other
//! crates use). Deliberately does not know how a control plane is started (that is `tests/e2e`) nor
//! how anything is measured (that is `bench`).
//!
//! It is compiled before anything else can be checked, so its dependencies stay few.
//! Start reading in [`cli`], which lists the commands.

mod bench;
pub mod cli;
mod codegen;
mod ec2_tables;
pub mod host;
mod names;
mod process;
mod source;
mod spec;
mod test;
mod tidy;
pub mod tools;
