//! Bodies in protobuf that are broken, or that small bytes make large.

use karpenter_apiserver::testing::protobuf::{body, bytes, envelope, int};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, PROTOBUF, TestResponse};
use super::fuzz::object;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Collections with the version and kind of their objects.
const KINDS: [(&str, &str, &str); 8] = [
    ("/api/v1/nodes", "v1", "Node"),
    (PODS, "v1", "Pod"),
    (CONFIG_MAPS, "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/services", "v1", "Service"),
    ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
    ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1", "Lease"),
    (CRDS, "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// What happens to bytes on a bad day.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    /// A part once more, somewhere.
    Repeat(Index, Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || any::<Index>();
    prop_oneof![
        4 => (at(), 1..=u8::MAX).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..6)).prop_map(|(at, more)| Damage::Insert(at, more)),
        1 => (at(), at(), at()).prop_map(|(from, to, at)| Damage::Repeat(from, to, at)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let length = bytes.len() + 1;
        match damage {
            Damage::Flip(at, bits) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Damage::Flip(..) => {}
            Damage::Cut(at) => bytes.truncate(at.index(length)),
            Damage::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Repeat(from, to, at) => {
                let (from, to, at) = (from.index(length), to.index(length), at.index(length));
                let part = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn post_body(path: &str, body: Vec<u8>) -> TestResponse {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::new();
        let answer = client.request("POST", path, PROTOBUF, body).await;
        client.assert_responsive().await;
        answer
    })
}

/// Refused with a `Status`, or taken.
fn check(answer: &TestResponse) -> Result<(), TestCaseError> {
    /// A refusal that the real server, too, takes for an error of its own.
    const VERSION: &str = "resourceVersion should not be set on objects to be created";
    let text = String::from_utf8_lossy(&answer.body);
    match answer.code {
        201 => prop_assert!(answer.json()["metadata"]["uid"].is_string(), "{}", text),
        400..500 => prop_assert_eq!(&answer.json()["kind"], "Status", "{}", text),
        500 => prop_assert_eq!(&answer.json()["message"], VERSION, "{}", text),
        _ => prop_assert!(false, "{}: {}", answer.code, text),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn corrupted_objects_are_rejected_or_created(
        (path, version, kind) in select(KINDS.to_vec()),
        mut object in object(),
        damages in prop::collection::vec(damage(), 0..5),
    ) {
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        let whole = body(&object).expect("the kinds are known");
        check(&post_body(path, damaged(whole, &damages)))?;
    }

    #[test]
    fn arbitrary_bytes_after_the_magic_are_rejected_or_created(
        (path, version, kind) in select(KINDS.to_vec()),
        raw in prop::collection::vec(any::<u8>(), 0..80),
        is_wrapped in any::<bool>(),
    ) {
        let body = if is_wrapped { envelope(version, kind, &raw) } else { [b"k8s\0", &raw[..]].concat() };
        check(&post_body(path, body))?;
    }
}

fn message(answer: &TestResponse) -> String {
    assert_eq!(answer.failure(), (400, "BadRequest".to_owned()));
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn many_empty_objects_do_not_exhaust_memory() {
    let containers = [0x12, 0].repeat(1_000_000);
    let answer = post_body(PODS, envelope("v1", "Pod", &bytes(2, &containers)));
    assert!(message(&answer).ends_with(": more than 524288 values"), "{}", message(&answer));
}

#[test]
fn long_packed_lists_do_not_exhaust_memory() {
    // spec.securityContext.supplementalGroups
    let groups = bytes(2, &bytes(14, &bytes(4, &[1].repeat(2_000_000))));
    let answer = post_body(PODS, envelope("v1", "Pod", &groups));
    assert!(message(&answer).ends_with(": more than 524288 values"), "{}", message(&answer));
}

#[test]
fn a_too_deeply_nested_schema_is_rejected() {
    let mut schema = Vec::new();
    for _ in 0..20_000 {
        schema = bytes(28, &schema); // `not`
    }
    // spec.versions[0].schema.openAPIV3Schema
    let raw = bytes(2, &bytes(7, &bytes(4, &bytes(1, &schema))));
    let answer =
        post_body(CRDS, envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw));
    assert!(message(&answer).ends_with(": exceeded max depth"), "{}", message(&answer));
}

#[test]
fn too_deeply_nested_raw_json_is_rejected() {
    let deep = (0..110).fold(json!(1), |value, _| json!([value]));
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"},
        "revision": 1, "data": deep,
    });
    let answer = post_body(
        "/apis/apps/v1/namespaces/default/controllerrevisions",
        body(&revision).expect("a known kind"),
    );
    assert!(message(&answer).ends_with(": exceeded max depth"), "{}", message(&answer));
}

#[test]
fn extreme_lengths_and_numbers_are_rejected() {
    for raw in [
        int(4, i64::MIN), // metadata is a number
        bytes(1, &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), // an endless name
        bytes(1, &bytes(8, &int(1, i64::MAX))), // a time beyond all years
        bytes(1, &bytes(8, &int(1, i64::MIN))),
        bytes(2, &int(4, i64::MAX)), // terminationGracePeriodSeconds
    ] {
        let answer = post_body(PODS, envelope("v1", "Pod", &raw));
        assert!((400..500).contains(&answer.code), "{raw:?}: {}", answer.code);
        let kind: &Value = &answer.json()["kind"];
        assert_eq!(kind, "Status", "{raw:?}");
    }
}
