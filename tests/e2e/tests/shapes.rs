//! The table of kinds that the embedded API reads is that of the pinned Kubernetes.

use std::fs;
use std::process::Command;

use anyhow::Result;
use xtask::host;
use xtask::tools::{Tool, Toolbox};

#[test]
fn the_table_of_shapes_is_not_stale() -> Result<()> {
    let printed = Command::new(Toolbox::from_env()?.ensure(Tool::Shapes)?).output()?;
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let wanted = String::from_utf8(printed.stdout)?;
    let found = fs::read_to_string(host::repo().join("crates/apiserver/src/kinds/shapes.txt"))?;
    let different = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert_eq!(different, None, "run `cargo xtask shapes`");
    assert_eq!(found.len(), wanted.len(), "run `cargo xtask shapes`");
    Ok(())
}
