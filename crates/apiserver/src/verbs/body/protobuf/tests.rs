//! Tests of protobuf bodies: a body of kubectl, type meta, errors and delete options.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::testing::protobuf::{bytes, envelope, int};

const DEPLOYMENT: ExpectedKind<'_> =
    ExpectedKind { group: "apps", version: "v1", kind: "Deployment", custom: false };
const CONFIG_MAP: ExpectedKind<'_> =
    ExpectedKind { group: "", version: "v1", kind: "ConfigMap", custom: false };

/// The body of `kubectl create deployment web --image=shop/web:1 --replicas=2 --port=80`.
const KUBECTL_DEPLOYMENT_BODY: &str = "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErsBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBID\
     d2ViEokBCAISDAoKCgNhcHASA3dlYhpvChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEk8SMQoDd2ViEgpzaG9\
     wL3dlYjoxKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIg\
     IKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=";

#[test]
fn a_kubectl_protobuf_body_decodes_to_the_same_object_as_json() {
    let body = STANDARD.decode(KUBECTL_DEPLOYMENT_BODY).unwrap();
    let expected = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "web", "image": "shop/web:1", "ports": [{"containerPort": 80}], "resources": {},
                }]},
            },
        },
        "status": {},
    });
    assert_eq!(read_object(&body, DEPLOYMENT), Ok(expected));
}

#[test]
fn missing_or_invalid_type_meta_defaults_to_the_expected_kind() {
    let map = bytes(1, &bytes(1, b"a"));
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for (version, kind) in [("", ""), ("v1", ""), ("", "ConfigMap"), ("a/b/c", "ConfigMap")] {
        let found = read_object(&envelope(version, kind, &map), CONFIG_MAP);
        assert_eq!(found, Ok(expected.clone()), "{version} {kind}");
    }
}

#[test]
fn unknown_kinds_decode_to_type_meta_only() {
    let found =
        read_object(&envelope("autoscaling/v2", "HorizontalPodAutoscaler", b"x"), CONFIG_MAP);
    let expected = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"});
    assert_eq!(found, Ok(expected));
}

#[test]
fn malformed_protobuf_bodies_are_rejected_with_kubernetes_messages() {
    let in_kind = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let map = |raw: &[u8]| envelope("v1", "ConfigMap", raw);
    for (body, expected) in [
        (vec![], "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)".to_owned()),
        (
            b"{}".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be \
             a protobuf message, expected prefix [107 56 115 0] ({})".to_owned(),
        ),
        (
            b"k8s\0".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)".to_owned(),
        ),
        (
            b"k8s\0\x0a\x05".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF (6b3873000a05)".to_owned(),
        ),
        (
            [b"k8s\0".to_vec(), int(2, 1)].concat(),
            "the object provided is unrecognized (must be of type ConfigMap): proto: wrong wireType = 0 for field \
             Raw (6b3873001001)".to_owned(),
        ),
        (map(&int(1, 1)), format!("{in_kind}proto: wrong wireType = 0 for field ObjectMeta")),
        (map(&int(2, 1)), format!("{in_kind}proto: wrong wireType = 0 for field Data")),
        (map(&[0x0a, 9]), format!("{in_kind}unexpected EOF")),
        (map(&[0]), format!("{in_kind}proto: ConfigMap: illegal tag 0 (wire type 0)")),
        (map(&bytes(1, &[0x0c])), format!("{in_kind}proto: ObjectMeta: wiretype end group for non-group")),
    ] {
        let failure = read_object(&body, CONFIG_MAP).unwrap_err();
        assert_eq!((failure.code.as_u16(), failure.message), (400, expected), "{body:?}");
    }
}

#[test]
fn custom_kinds_do_not_accept_protobuf() {
    let expected = ExpectedKind { group: "x.example", version: "v1", kind: "Thing", custom: true };
    let failure = read_object(&envelope("x.example/v1", "Thing", b""), expected).unwrap_err();
    assert_eq!(failure.code.as_u16(), 415);
    assert!(failure.message.ends_with("application/json, application/yaml"), "{}", failure.message);
}

#[test]
fn delete_options_are_accepted_from_any_group() {
    let raw = [int(1, 0), bytes(4, b"Foreground"), bytes(2, &bytes(1, b"u"))].concat();
    for version in ["v1", "apps/v1", ""] {
        let options = read_delete_options(&envelope(version, "DeleteOptions", &raw)).unwrap();
        assert_eq!(
            options,
            json!({
                "apiVersion": version, "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
            }),
        );
    }
    let other = read_delete_options(&envelope("v1", "Pod", &raw)).unwrap();
    assert_eq!(other["kind"], Value::from("Pod"));
    assert_eq!(read_delete_options(b"{}").unwrap_err().split(',').count(), 2);
}
