//! Tests that the embedded API's table of kinds is that of the pinned Kubernetes, and that the API
//! decodes the objects of its clients correctly.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_apiserver::testing::protobuf::from_protobuf;
use serde_json::Value;
use xtask::host;
use xtask::tools::{Tool, Toolbox};

#[test]
fn the_type_table_matches_the_pinned_kubernetes() -> Result<()> {
    let printed = Command::new(Toolbox::from_env()?.ensure(Tool::Shapes)?).output()?;
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let wanted = String::from_utf8(printed.stdout)?;
    let found = fs::read_to_string(host::repo().join("crates/apiserver/src/kinds/shapes.txt"))?;
    let different = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert_eq!(different, None, "run `cargo xtask shapes`");
    assert_eq!(found.len(), wanted.len(), "run `cargo xtask shapes`");
    Ok(())
}

#[test]
fn protobuf_and_json_samples_decode_to_equal_objects() -> Result<()> {
    let tool = Toolbox::from_env()?.ensure(Tool::Shapes)?;
    let printed = Command::new(tool).arg("samples").output()?;
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let samples = String::from_utf8(printed.stdout)?;
    assert!(samples.lines().count() > 100, "three of each kind");
    for sample in samples.lines() {
        let mut parts = sample.splitn(3, ' ');
        let mut part = || parts.next().context("a sample has three parts");
        let (name, message, json) = (part()?, STANDARD.decode(part()?)?, part()?);
        let wanted = without_nulls(serde_json::from_str(json)?);
        let found = from_protobuf(name, &message).map(without_nulls);
        assert_eq!(found.as_ref(), Ok(&wanted), "{name}");
    }
    Ok(())
}

/// Nothing by another name: a pointer to a time that is not set is written so.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        other => other,
    }
}
