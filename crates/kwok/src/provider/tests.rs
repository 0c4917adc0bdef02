//! Tests of KWOK's facts and of its option.

use std::io;

use karpenter_operator::cloud::RepairAction;
use karpenter_operator::options::{Options, ParsedCommandLine, definitions_with};

use super::*;

fn configure(
    arguments: &[&str],
    variable: Option<&str>,
    file: &'static str,
) -> Result<Box<dyn ConfiguredProvider>, String> {
    let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
    let definitions = definitions_with(KwokProvider.option_definitions());
    let environment = |name: &str| {
        variable.filter(|_| name == "INSTANCE_TYPES_FILE_PATH").map(std::ffi::OsString::from)
    };
    let parsed = Options::parse_with(&definitions, &arguments, environment);
    let Ok(ParsedCommandLine::Run(options, resolved)) = parsed else { panic!("{parsed:?}") };
    let read_file = |path: &Path, _: u64| match path.to_str() {
        Some("/types.json") => Ok(file.as_bytes().to_vec()),
        _ => Err(io::Error::other("no such file")),
    };
    let given = GivenOptions { options: &options, resolved: &resolved, read_file: &read_file };
    KwokProvider.configure(&given).map_err(|error| error.to_string())
}

#[test]
fn a_file_replaces_the_built_in_instance_types() {
    const FLAG: &str = "--instance-types-file-path=/types.json";
    let types = r#"[{"name": "a-1x", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "1", "memory": "1Gi"},
        "offerings": [{"Price": 1, "Available": true, "Requirements": []}]}]"#;
    let count = |configured: Box<dyn ConfiguredProvider>| format!("{configured:?}");
    assert!(count(configure(&[], None, "").unwrap()).contains("m-256x-arm64-windows"));
    for (flags, variable) in [(&[FLAG][..], None), (&[][..], Some("/types.json"))] {
        let configured = count(configure(flags, variable, types).unwrap());
        assert!(configured.contains("a-1x") && !configured.contains("m-256x"), "{configured}");
    }
    for (file, problem) in [
        ("root:x:0", "instance types are not JSON"),
        ("[]", "it has no instance types, so that nothing could be launched"),
    ] {
        let error = configure(&[FLAG], None, file).unwrap_err();
        let start = format!("--instance-types-file-path /types.json: {problem}");
        assert!(error.starts_with(&start), "{error}");
    }
    let missing = configure(&["--instance-types-file-path=/none"], None, "").unwrap_err();
    assert_eq!(missing, "--instance-types-file-path /none: no such file");
}

#[test]
fn kwok_has_a_node_class_labels_and_repair_policies() {
    let facts = KwokProvider.facts();
    assert_eq!(facts.name, "kwok");
    assert_eq!(facts.node_classes[0].label, "karpenter.kwok.sh/kwoknodeclass");
    let configured = configure(&[], None, "").unwrap();
    assert!(configured.labels().well_known.contains("karpenter.kwok.sh/instance-size"));
    let policies = configured.repair_policies();
    let fallbacks: Vec<_> = policies.iter().filter(|p| p.reason_regex.is_empty()).collect();
    assert_eq!(fallbacks.len(), 1, "exactly one default fallback");
    assert_eq!(fallbacks[0].action, RepairAction::ReplaceNode);
}
