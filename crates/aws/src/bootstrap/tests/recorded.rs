//! User data that upstream v1.14.1 sent, from launch templates recorded in 15 scenarios.
//!
//! Entries of kubelet flags that hold a map are sorted in the recordings, as ours always are.

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Recorded {
    scenario: String,
    family: String,
    capacity_type: String,
    max_pods: i32,
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    startup_taints: Vec<Taint>,
    kubelet: Option<Map<String, Value>>,
    user_data: Option<String>,
    instance_store_policy: Option<String>,
    /// The lines of the sent text.
    text: Vec<String>,
}

fn render_recorded(recorded: &Recorded) -> UserData {
    let family = AmiFamily::from_name(&recorded.family);
    let resolved = ResolvedKubelet {
        max_pods: recorded.max_pods,
        kube_dns: Some("10.96.0.10".parse().unwrap()),
        ..ResolvedKubelet::default()
    };
    render(&BootstrapInput {
        family,
        cluster: ClusterEndpoint {
            name: "golden",
            endpoint: "https://GOLDEN.gr7.us-west-2.eks.amazonaws.com",
            ca_bundle: Some("Z29sZGVuLWNhLWJ1bmRsZQ=="),
            cidr: Some("10.96.0.0/16"),
        },
        kubelet: &NodeKubelet::resolve(recorded.kubelet.as_ref(), &resolved).unwrap(),
        labels: &node_labels(&recorded.labels, &recorded.capacity_type, family),
        taints: &node_taints(&recorded.taints, &recorded.startup_taints),
        user_data: recorded.user_data.as_deref(),
        instance_store_policy: recorded
            .instance_store_policy
            .as_deref()
            .and_then(InstanceStorePolicy::from_name),
        bottlerocket_default_bind: true, // all recordings use bottlerocket@latest
    })
    .unwrap()
}

#[test]
fn the_recorded_user_data_is_reproduced() {
    let all: Vec<Recorded> = serde_json::from_str(include_str!("recorded.json")).unwrap();
    assert_eq!(all.len(), 15);
    for recorded in &all {
        let (scenario, found) = (&recorded.scenario, render_recorded(recorded));
        let want = recorded.text.join("\n");
        if recorded.family == "Bottlerocket" {
            let table = |text: &str| text.parse::<toml::Table>().unwrap();
            assert_eq!(table(found.text()), table(&want), "50/B1, 55/UP-W8: {scenario}");
        } else {
            assert_eq!(found.text(), want, "50/B1, 55/UP-W8: {scenario}");
        }
    }
}
