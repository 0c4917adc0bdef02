//! Tests of decoding protobuf objects: embedded structs, lists, maps, times and errors.

use serde_json::json;

use super::*;
use crate::kinds;
use crate::testing::protobuf::{bytes, int};

fn read(name: &str, bytes: &[u8]) -> Result<Value, String> {
    let id = kinds::types().find_by_name(name).expect("the table has it");
    from_protobuf(kinds::types(), id, bytes, |raw| {
        serde_json::from_slice(raw).map_err(|_| "bad JSON".to_owned())
    })
}

/// Asserts the JSON that a message decodes to.
#[track_caller]
fn assert_reads_as(name: &str, bytes: &[u8], expected: Value) {
    let found = read(&format!("io.k8s.api.{name}"), bytes);
    assert_eq!(found, Ok(expected), "{name}");
}

fn double(number: u32, value: f64) -> Vec<u8> {
    [vec![u8::try_from(number << 3 | 1).unwrap()], value.to_le_bytes().to_vec()].concat()
}

#[test]
fn embedded_structs_are_read_from_their_own_message() {
    let source = bytes(2, &bytes(2, &bytes(1, b"Memory"))); // emptyDir
    let volume = [bytes(1, b"cache"), source].concat();
    assert_reads_as(
        "core.v1.Volume",
        &volume,
        json!({"name": "cache", "emptyDir": {"medium": "Memory"}}),
    );
    let probe = [bytes(1, &bytes(3, &bytes(1, &int(2, 80)))), int(2, 5)].concat();
    assert_reads_as(
        "core.v1.Probe",
        &probe,
        json!({"tcpSocket": {"port": 80}, "initialDelaySeconds": 5}),
    );
}

#[test]
fn pointers_to_zero_are_kept_and_plain_zeros_are_omitted() {
    let spec = [int(1, 0), int(5, 0), int(7, 0)].concat(); // replicas, minReadySeconds, paused
    let found = read("io.k8s.api.apps.v1.DeploymentSpec", &spec).unwrap();
    assert_eq!(found["replicas"], 0);
    assert_eq!(found.get("minReadySeconds"), None);
    assert_eq!(found.get("paused"), None);
}

#[test]
fn repeated_fields_merge_into_the_earlier_value() {
    let map = |key: &[u8], value: &[u8]| bytes(2, &[bytes(1, key), bytes(2, value)].concat());
    let twice = [
        bytes(1, &bytes(1, b"a")),
        bytes(1, &bytes(3, b"x")),
        bytes(1, &bytes(1, b"b")),
        map(b"k", b"v"),
        map(b"l", b"w"),
        map(b"k", b"x"),
    ]
    .concat();
    assert_reads_as(
        "core.v1.ConfigMap",
        &twice,
        json!({"metadata": {"name": "b", "namespace": "x"}, "data": {"k": "x", "l": "w"}}),
    );
}

#[test]
fn map_entries_may_lack_a_key_or_value() {
    assert_reads_as("core.v1.ConfigMap", &bytes(2, &[]), json!({"metadata": {}, "data": {"": ""}}));
    let limits = bytes(1, &bytes(1, b"cpu"));
    assert_reads_as("core.v1.ResourceRequirements", &limits, json!({"limits": {"cpu": "0"}}));
}

#[test]
fn bytes_become_base64() {
    let secret = bytes(2, &[bytes(1, b"k"), bytes(2, &[0, 255])].concat());
    assert_reads_as("core.v1.Secret", &secret, json!({"metadata": {}, "data": {"k": "AP8="}}));
}

#[test]
fn number_lists_may_be_packed_or_unpacked() {
    let plain = [int(4, 1), int(4, 2)].concat();
    let packed = bytes(4, &[1, 2]);
    for groups in [plain, packed] {
        assert_reads_as(
            "core.v1.PodSecurityContext",
            &groups,
            json!({"supplementalGroups": [1, 2]}),
        );
    }
    let negative = int(1, -5);
    assert_reads_as(
        "core.v1.PodSecurityContext",
        &bytes(4, &negative[1..]),
        json!({"supplementalGroups": [-5]}),
    );
}

#[test]
fn protobuf_times_become_rfc3339_text() {
    let time = |seconds, nanos| [int(1, seconds), int(2, nanos)].concat();
    let zero = -62_135_596_800;
    for (time, expected) in [
        (time(1_767_323_045, 999), json!("2026-01-02T03:04:05Z")),
        (time(0, 0), json!("1970-01-01T00:00:00Z")),
        (time(-1, 0), json!("1969-12-31T23:59:59Z")),
        (time(zero, 0), Value::Null),
        (vec![], Value::Null),
    ] {
        let state = read("io.k8s.api.core.v1.ContainerStateRunning", &bytes(1, &time)).unwrap();
        assert_eq!(state.get("startedAt").cloned().unwrap_or_default(), expected, "{time:?}");
    }
    for (nanos, expected) in [
        (678_901_999, "2026-01-02T03:04:05.678901Z"),
        (0, "2026-01-02T03:04:05.000000Z"),
        (-1000, "2026-01-02T03:04:04.999999Z"),
    ] {
        let lease = bytes(4, &time(1_767_323_045, nanos)); // renewTime
        assert_reads_as("coordination.v1.LeaseSpec", &lease, json!({"renewTime": expected}));
    }
    let state = bytes(1, &time(i64::MAX, 0));
    let problem = read("io.k8s.api.core.v1.ContainerStateRunning", &state).unwrap_err();
    assert_eq!(problem, "year outside of range [0,9999]");
}

#[test]
fn quantities_are_validated_and_canonicalized() {
    let limit = |text: &[u8]| {
        let quantity = bytes(2, &bytes(1, text));
        bytes(1, &[bytes(1, b"cpu"), quantity].concat())
    };
    assert_reads_as(
        "core.v1.ResourceRequirements",
        &limit(b"1500m"),
        json!({"limits": {"cpu": "1500m"}}),
    );
    assert_reads_as(
        "core.v1.ResourceRequirements",
        &limit(b"1000m"),
        json!({"limits": {"cpu": "1"}}),
    );
    let problem = read("io.k8s.api.core.v1.ResourceRequirements", &limit(b"much")).unwrap_err();
    assert!(problem.starts_with("quantities must match the regular expression"), "{problem}");
}

#[test]
fn int_or_string_follows_its_type_field() {
    let budget = |value: &[u8]| bytes(1, value); // minAvailable
    let text = [int(1, 1), int(2, 7), bytes(3, b"50%")].concat();
    assert_reads_as(
        "policy.v1.PodDisruptionBudgetSpec",
        &budget(&text),
        json!({"minAvailable": "50%"}),
    );
    let number = [int(1, 0), int(2, 7), bytes(3, b"50%")].concat();
    assert_reads_as(
        "policy.v1.PodDisruptionBudgetSpec",
        &budget(&number),
        json!({"minAvailable": 7}),
    );
    let neither = read("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", &budget(&int(1, 2)));
    assert_eq!(neither.unwrap_err(), "impossible IntOrString.Type");
}

#[test]
fn raw_extensions_must_hold_valid_json() {
    let data = |raw: &[u8]| bytes(2, &bytes(1, raw));
    let found = read("io.k8s.api.apps.v1.ControllerRevision", &data(br#"{"a":[1]}"#)).unwrap();
    assert_eq!(found["data"], json!({"a": [1]}));
    let problem = read("io.k8s.api.apps.v1.ControllerRevision", &data(b"k8s\0")).unwrap_err();
    assert_eq!(problem, "bad JSON");
}

#[test]
fn schema_unions_accept_bools_and_lists() {
    let kind = bytes(5, b"string");
    let schema = json!({"type": "string"});
    for (field, expected) in [
        (bytes(24, &bytes(1, &kind)), json!({"items": schema})),
        (bytes(24, &bytes(2, &kind)), json!({"items": [schema]})),
        (bytes(30, &int(1, 1)), json!({"additionalProperties": true})),
        (bytes(30, &int(1, 0)), json!({"additionalProperties": false})),
        (
            bytes(30, &[int(1, 1), bytes(2, &kind)].concat()),
            json!({"additionalProperties": schema}),
        ),
        (double(9, 3.0), json!({"maximum": 3})),
        (double(9, 0.5), json!({"maximum": 0.5})),
        (bytes(8, &bytes(1, b"[1]")), json!({"default": [1]})),
    ] {
        assert_eq!(read(SCHEMA_TYPE_NAME, &field), Ok(expected));
    }
    assert!(read(SCHEMA_TYPE_NAME, &double(9, f64::NAN)).is_err());
}

#[test]
fn unknown_protobuf_fields_are_skipped() {
    let unknown = [int(99, 7), bytes(98, b"x"), bytes(1, &bytes(1, b"a")), double(10, 1.0)];
    assert_reads_as("core.v1.ConfigMap", &unknown.concat(), json!({"metadata": {"name": "a"}}));
}

#[test]
fn a_wrong_wire_type_is_rejected_with_the_field_name() {
    for (name, message, expected) in [
        ("core.v1.Volume", bytes(1, b"a"), None),
        ("core.v1.Volume", int(1, 1), Some("proto: wrong wireType = 0 for field Name")),
        ("core.v1.Volume", int(2, 1), Some("proto: wrong wireType = 0 for field VolumeSource")),
        (
            "core.v1.Volume",
            bytes(2, &[0]),
            Some("proto: VolumeSource: illegal tag 0 (wire type 0)"),
        ),
        (
            "apps.v1.DeploymentSpec",
            bytes(1, b"1"),
            Some("proto: wrong wireType = 2 for field Replicas"),
        ),
    ] {
        let found = read(&format!("io.k8s.api.{name}"), &message).err();
        assert_eq!(found.as_deref(), expected, "{name} {message:?}");
    }
}

#[test]
fn every_go_field_except_type_meta_has_a_protobuf_number() {
    for (name, id) in kinds::types().names() {
        let go = kinds::types().go_type(id).expect("it is described");
        let numbered: std::collections::BTreeSet<_> = go.numbers.values().collect();
        for field in go.fields.keys() {
            let is_of_the_envelope = matches!(&**field, "kind" | "apiVersion")
                && go.fields[field]
                    .embedded_structs
                    .first()
                    .is_some_and(|via| &**via == "TypeMeta");
            assert_eq!(numbered.contains(field), !is_of_the_envelope, "{name}.{field}");
        }
    }
}
