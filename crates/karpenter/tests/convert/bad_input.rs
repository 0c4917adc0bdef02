//! Tests of bad input: each kind gets one clear error and exit code 1.

use super::*;

#[track_caller]
fn assert_rejected(name: &str, input: impl AsRef<[u8]>, expected: &str) {
    let folder = folder(&[]);
    std::fs::write(folder.path().join(name), input).unwrap();
    let ran = convert(folder.path(), &["-f", name], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert_eq!(ran.stderr.trim_end(), expected);
}

#[test]
fn malformed_yaml_is_rejected() {
    assert_rejected(
        "x.yaml",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nspec: {a: [}\n",
        "error: not valid YAML: mismatched bracket '[' closed by '}'\n where: x.yaml:3:11\n   fix: check the indentation, quotes and brackets of this line and the ones above it",
    );
}

#[test]
fn malformed_json_is_rejected() {
    assert_rejected(
        "x.json",
        "{\"a\": 1}\n{\"a\" 1}",
        "error: not valid JSON: expected `:`\n where: x.json:2:6\n   fix: check the quotes, commas and brackets of this line and the ones above it",
    );
}

#[test]
fn text_that_is_not_utf8_is_rejected() {
    assert_rejected(
        "x.yaml",
        b"a: 1\nb: \xff\n",
        "error: not a text in UTF-8\n where: x.yaml:2\n found: byte 0xff at offset 8\n   fix: save the file as UTF-8",
    );
    assert_rejected(
        "x.yaml",
        b"\xff\xfea\0:\0",
        "error: not a text in UTF-8\n where: x.yaml:1\n found: byte 0xff at offset 0\n   fix: save the file as UTF-8 (it looks like UTF-16, as PowerShell redirects it)",
    );
}

#[test]
fn a_document_that_is_not_an_object_is_rejected() {
    assert_rejected(
        "x.yaml",
        "- a\n",
        "error: not a Kubernetes object\n where: x.yaml:1\n found: a list\n   fix: each document must be a mapping with `apiVersion` and `kind`, or a List of such",
    );
}

#[test]
fn empty_input_is_rejected() {
    for text in ["", "# only a comment\n", "---\n---\n", "null\n"] {
        let ran = convert(&legacy(), &["-f", "-"], text);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.starts_with("error: no objects passed to convert\n"), "{}", ran.stderr);
    }
}

#[test]
fn wrong_types_and_out_of_range_numbers_are_rejected() {
    let provisioner = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: p\nspec:\n  providerRef: {{name: c}}\n  ttlSecondsAfterEmpty: 30\n  {spec}\n"
        )
    };
    let cases = [
        (
            "weight: abc",
            "E00 Provisioner/p spec.weight: expected an integer, found \"abc\" (stdin:8)",
        ),
        (
            "weight: 99999999999999999999999",
            "E00 Provisioner/p spec.weight: expected an integer, found 1e+23 (stdin:8)",
        ),
        ("weight: 4294967396", "E99 NodePool/p spec.weight: v1 validation: Invalid value: "),
        (
            "ttlSecondsUntilExpired: 9223372036854775807",
            "E00 Provisioner/p spec.ttlSecondsUntilExpired: expected at most 9223372036 seconds (292 years), found 9223372036854775807 (stdin:8)",
        ),
        (
            "requirements: {a: b}",
            "E00 Provisioner/p spec.requirements: expected a list, found a mapping (stdin:8)",
        ),
        (
            "labels: [a]",
            "E00 Provisioner/p spec.labels: expected a mapping, found a list (stdin:8)",
        ),
    ];
    for (spec, expected) in cases {
        let ran = convert(&legacy(), &["--ignore-defaults"], provisioner(spec));
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{spec}");
        assert!(
            ran.stderr.lines().any(|line| line.starts_with(expected)),
            "{spec}: {}",
            ran.stderr
        );
    }
}

#[test]
fn missing_files_are_rejected() {
    let ran = convert(&legacy(), &["-f", "missing.yaml"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.starts_with("error: cannot read file\n where: missing.yaml\n found: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn huge_files_are_rejected() {
    let folder = folder(&[]);
    let file = std::fs::File::create(folder.path().join("huge.yaml")).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let ran = convert(folder.path(), &["-f", "huge.yaml"], "");
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.stderr,
        "error: input is larger than 64 MiB\n where: huge.yaml\n   fix: split the file\n"
    );
}

#[test]
fn a_yaml_alias_bomb_is_rejected() {
    let level = |level: usize| {
        let previous = vec![format!("*a{}", level - 1); 10].join(",");
        format!("a{level}: &a{level} [{previous}]")
    };
    let levels: Vec<_> = (1..12).map(level).collect();
    let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{}\n", levels.join("\n"));
    let ran = convert(&legacy(), &[], bomb);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.starts_with("error: aliases stand for more than 200000 values\n where: stdin:"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_field_may_have_any_name() {
    let pool = POOL.replace("\nspec:\n", "\nspec:\n  limits: {é: abc}\n");
    let ran = convert(Path::new("."), &[], pool);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("E99 NodePool/pool spec.limits[é]: v1 validation: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn many_errors_of_one_kind_are_counted_instead_of_listed() {
    let list =
        format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}0]}}"#, "1,".repeat(5_000));
    let ran = convert(Path::new("."), &[], list);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("4981 more that are no Kubernetes objects"), "{}", ran.stderr);
    assert!(ran.stderr.lines().count() < 120, "{}", ran.stderr);
}

/// kubectl lets the API server reject unknown fields, so they must not reach the output.
#[test]
fn unknown_fields_are_reported_and_dropped_at_any_depth() {
    let class = CLASS.replace(
        "  role: nodes\n",
        "  role: nodes\n  blockDeviceMappings: [{ebs: {volumesize: 20Gi, snapshotID: snap-1}}]\n",
    );
    let ran = convert(Path::new("."), &[], class);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let warning = "W00 EC2NodeClass/class spec.blockDeviceMappings[0].ebs.volumesize: unknown field, dropped (stdin:8)";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert!(
        !ran.stdout.lines().any(|line| line.trim_start().starts_with("volumesize")),
        "{}",
        ran.stdout
    );
}
