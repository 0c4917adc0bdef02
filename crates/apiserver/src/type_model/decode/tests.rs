//! Tests of decoding and encoding built-in kinds: error messages, unknown fields, canonical form.

use serde_json::json;

use super::*;
use crate::kinds;

fn model(name: &str) -> (&'static Types, TypeId) {
    let types = kinds::types();
    (types, types.find_by_name(&format!("io.k8s.api.core.v1.{name}")).unwrap())
}

/// Returns the decoding error, without the prefix that all errors have.
fn refusal(spec: &Value) -> String {
    let (types, pod) = model("Pod");
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    let failure = decode(types, pod, &mut object).unwrap_err();
    assert_eq!(failure.code, http::StatusCode::BAD_REQUEST);
    let start = "Pod in version \"v1\" cannot be handled as a Pod: ";
    failure.message.strip_prefix(start).unwrap().to_owned()
}

#[test]
fn wrong_types_are_rejected_with_go_messages() {
    #[rustfmt::skip]
    let cases = [
        (json!("x"), "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (json!({"containers": {}}), "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (json!({"containers": ["a"]}), "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container"),
        (json!({"nodeSelector": {"a": 1}}), "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string"),
        (json!({"priority": 3_000_000_000i64}), "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32"),
        (json!({"priority": 1.5}), "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        (json!({"restartPolicy": true}), "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        (json!({"volumes": [{"emptyDir": []}]}), "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource"),
        (json!({"overhead": {"cpu": "x"}}), "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ];
    for (spec, expected) in cases {
        assert_eq!(refusal(&spec), expected);
    }
}

#[test]
fn the_first_type_error_is_reported_unless_an_unmarshaler_fails() {
    let two = json!({"priority": "a", "hostNetwork": "b"});
    assert!(refusal(&two).contains("spec.priority"));
    let later = json!({"priority": "a", "overhead": {"cpu": "x"}});
    assert!(refusal(&later).starts_with("quantities"));
}

#[test]
fn unknown_fields_are_dropped_and_their_paths_returned() {
    let (types, pod) = model("Pod");
    let mut object = json!({
        "kind": "Pod", "foo": 1,
        "metadata": {"labels": {"any": "thing"}},
        "spec": {"Containers": [], "containers": [{"name": "a"}, {"bar": {}, "env": [{"x": 1}]}]},
    });
    let unknown = decode(types, pod, &mut object).unwrap();
    assert_eq!(
        unknown,
        ["foo", "spec.Containers", "spec.containers[1].bar", "spec.containers[1].env[0].x"]
    );
    assert!(object.get("foo").is_none() && object["spec"].get("Containers").is_none());
}

#[test]
fn objects_are_encoded_as_go_encodes_them() {
    #[rustfmt::skip]
    let cases = [
        ("Node", json!({}), json!({
            "metadata": {}, "spec": {},
            "status": {
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": "",
                },
            },
        })),
        ("ConfigMap", json!({"data": {}, "binaryData": null, "immutable": false}),
                      json!({"metadata": {}, "immutable": false})),
        ("ConfigMap", json!({"data": {"a": null}}), json!({"metadata": {}, "data": {"a": ""}})),
        ("PodCondition", json!({"type": "Ready", "status": "True", "lastProbeTime": null}),
                         json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null})),
        ("PodSpec", json!({"containers": [], "hostNetwork": false, "priority": 0}), json!({"containers": null, "priority": 0})),
        ("ResourceRequirements", json!({"limits": {"cpu": "1000m", "memory": "1.5Gi", "x/y": 2}, "requests": {"cpu": "1u"}, "claims": []}),
                                 json!({"limits": {"cpu": "1", "memory": "1536Mi", "x/y": "2"}, "requests": {"cpu": "1m"}})),
        ("ObjectReference", json!({"name": "", "uid": "u"}), json!({"uid": "u"})),
        ("ResourceFieldSelector", json!({"resource": "limits.cpu"}), json!({"resource": "limits.cpu", "divisor": "0"})),
    ];
    for (name, mut read, expected) in cases {
        let (types, id) = model(name);
        assert_eq!(decode(types, id, &mut read), Ok(Vec::new()), "{name}");
        assert_eq!(read, expected, "{name}");
        let mut again = read.clone();
        encode(types, id, &mut again);
        assert_eq!(again, read, "{name} stays as it is");
    }
}

#[test]
fn times_are_normalized_to_utc_seconds_or_microseconds() {
    #[rustfmt::skip]
    let cases = [
        ("2024-01-02T03:04:05Z",          Ok("2024-01-02T03:04:05Z")),
        ("2024-01-02T03:04:05.999Z",      Ok("2024-01-02T03:04:05Z")),
        ("2024-01-02T03:04:05+01:00",     Ok("2024-01-02T02:04:05Z")),
        ("foo",                           Err(r#"parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006""#)),
        ("2024-01-02",                    Err(r#"parsing time "2024-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#)),
        ("2024-13-02T03:04:05Z",          Err(r#"parsing time "2024-13-02T03:04:05Z": month out of range"#)),
        ("2024-02-30T03:04:05Z",          Err(r#"parsing time "2024-02-30T03:04:05Z": day out of range"#)),
        ("2024-02-03T03:04:05Zx",         Err(r#"parsing time "2024-02-03T03:04:05Zx": extra text: "x""#)),
    ];
    for (text, expected) in cases {
        assert_eq!(
            time::normalize_seconds(text),
            expected.map(str::to_owned).map_err(str::to_owned)
        );
    }
    let micros = "2024-01-02T03:04:05.000006Z";
    assert_eq!(time::normalize_micros(micros).as_deref(), Ok(micros));
    assert_eq!(
        time::normalize_micros("2024-01-02T03:04:05Z").unwrap_err(),
        r#"parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
    );
}

#[test]
fn base64_errors_report_the_offset_of_the_bad_byte() {
    #[rustfmt::skip]
    let cases = [
        ("", None), ("aGk=", None), ("aGkh", None), ("YQ==", None), ("aG\nk=", None),
        ("!!", Some(0)), ("abc", Some(0)), ("aGk=x", Some(4)), ("aG!=", Some(2)), ("YQ=", Some(3)),
    ];
    for (text, expected) in cases {
        assert_eq!(base64_problem(text), expected, "{text:?}");
    }
}
